"""Who waits for the outcome of an open effect: data, one owner for each id that would still mean something.

`SessionData.open` holds exactly these ids: what was asked for, until its outcome has come, it is cancelled, or it is not waited
for it any more. An owner says what the effect is for, and no more: where that stands, the field of it says.

Which outcome an owner waits for stands in `legality`, what becomes of it in the one `match` of `machine`. Only `StepContext` enters
owners and takes them out, in the call that asks for the effect or cancels it.
"""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

import msgspec

from agentrail.core.protocol.actions import Wanted
from agentrail.core.protocol.request import EffectId
from agentrail.messages import ApprovalId, CallId, ClientCallRef, QuestionRef


class OfStream(msgspec.Struct, frozen=True, gc=False):
    """The request of a turn, which is out."""


class OfStallTimer(msgspec.Struct, frozen=True, gc=False):
    """The timer that goes with such a request: whether it has been silent for too long."""


class OfPause(msgspec.Struct, frozen=True, gc=False):
    """The timer between two attempts at a request."""


class OfSummary(msgspec.Struct, frozen=True, gc=False):
    """The request for the summary of a compaction, which is out."""


class OfSummaryTimer(msgspec.Struct, frozen=True, gc=False):
    """The timer that bounds the wait for a summary."""


class OfTranscript(msgspec.Struct, frozen=True, gc=False):
    """The writing away of what a summary is to stand for."""


class OfCall(msgspec.Struct, frozen=True, gc=False):
    """A call of the batch that runs."""

    call_id: CallId


class OfSurvivor(msgspec.Struct, frozen=True, gc=False):
    """A call that runs although an abort has ended its cycle."""

    call_id: CallId


class OfStoppedCall(msgspec.Struct, frozen=True, gc=False):
    """A call that is answered, was told to stop, and has not ended yet: of the batch, or a survivor."""

    call_id: CallId


class OfChild(msgspec.Struct, frozen=True, gc=False):
    """The tool of a call that runs, and that a session works for."""

    attempt: EffectId


class OfLoan(msgspec.Struct, frozen=True, gc=False):
    """A call that is not waited for, and a child of which has spending that is not counted yet."""


class OfHostCheck(msgspec.Struct, frozen=True, gc=False):
    """A call that may run when the host says so."""

    call_id: CallId


class OfHostReport(msgspec.Struct, frozen=True, gc=False):
    """The host's being told of a call that has ended. Its batch waits for that; a cycle that was broken off does not."""

    call_id: CallId


class OfAgent(msgspec.Struct, frozen=True, gc=False):
    """An agent that works in the background, until it has ended."""

    name: str


class OfAgentWait(msgspec.Struct, frozen=True, gc=False):
    """The timer of a call that waits for agents."""

    call_id: CallId


class OfRetry(msgspec.Struct, frozen=True, gc=False):
    """The timer before another attempt at a call."""

    call_id: CallId


class OfInteraction(msgspec.Struct, frozen=True, gc=False):
    """The timer of what waits for a person."""

    id: ApprovalId | QuestionRef | ClientCallRef


class OfPluginRequest(msgspec.Struct, frozen=True, gc=False):
    """Something that is done for a plugin, which is told when it is there.

    Attributes:
        wanted: What is done, so that it can be done again in another process; None in states that were stored without it.
    """

    by: str
    tag: str
    wanted: Wanted | None = None


class OfContext(msgspec.Struct, frozen=True, gc=False):
    """The gathering of what is added to the requests of a turn."""


class OfHeldHook(msgspec.Struct, frozen=True, gc=False):
    """Something that is done for a plugin whose hook waits for it."""


class OfHoldTimer(msgspec.Struct, frozen=True, gc=False):
    """The timer that bounds the wait of a hook."""


class OfDrain(msgspec.Struct, frozen=True, gc=False):
    """A teardown that bounds how long stopped calls may take, while the rest goes on."""


class OfTeardown(msgspec.Struct, frozen=True, gc=False):
    """The teardown behind an abort."""


Owner: TypeAlias = (
    OfStream
    | OfStallTimer
    | OfPause
    | OfSummary
    | OfSummaryTimer
    | OfTranscript
    | OfCall
    | OfSurvivor
    | OfStoppedCall
    | OfChild
    | OfLoan
    | OfHostCheck
    | OfHostReport
    | OfAgent
    | OfAgentWait
    | OfRetry
    | OfInteraction
    | OfPluginRequest
    | OfContext
    | OfHeldHook
    | OfHoldTimer
    | OfDrain
    | OfTeardown
)
OpenEffects: TypeAlias = MappingProxyType[EffectId, Owner] | dict[EffectId, Owner]
"""Inside of a step a dict, a copy that it makes when it changes something; behind it it is never written to.

Not a tree: what is open at once is a handful, and to copy a thousand costs less than a tenth of the step that does it.
"""

NOTHING_OPEN: Final[OpenEffects] = MappingProxyType({})
"""No outcome is waited for."""

O = TypeVar("O", bound=Owner)  # noqa: E741 - an owner


def owned_by(opened: OpenEffects, kind: type[O]) -> Iterator[tuple[EffectId, O]]:
    """Give the open effects of owners of one kind, in the order in which they were asked for.

    To find them goes through all that is open, so this is for what comes seldom.
    """
    found = [(effect_id, owner) for effect_id, owner in opened.items() if isinstance(owner, kind)]
    return iter(sorted(found, key=_number_of))


def _number_of(entry: tuple[EffectId, object]) -> int:
    return int(entry[0][1:])
