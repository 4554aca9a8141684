"""Owners of open effects: data, one owner for each id whose outcome still matters.

`SessionData.open` holds exactly these ids: requested effects whose outcome has not arrived, that were not cancelled
or abandoned.
"""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

import msgspec

from agentrail.core.protocol.actions import Wanted
from agentrail.core.protocol.request import EffectId
from agentrail.messages import ApprovalId, CallId, ClientCallRef, QuestionRef


class OfStream(msgspec.Struct, frozen=True, gc=False):
    """The open request of a turn."""


class OfStallTimer(msgspec.Struct, frozen=True, gc=False):
    """The timer of such a request, which detects a stall."""


class OfPause(msgspec.Struct, frozen=True, gc=False):
    """The timer between two attempts at a request."""


class OfSummary(msgspec.Struct, frozen=True, gc=False):
    """The open request for the summary of a compaction."""


class OfSummaryTimer(msgspec.Struct, frozen=True, gc=False):
    """The timer that limits the wait for a summary."""


class OfTranscript(msgspec.Struct, frozen=True, gc=False):
    """Saving the full text of the messages that a summary replaces."""


class OfCall(msgspec.Struct, frozen=True, gc=False):
    """A running call of the batch."""

    call_id: CallId


class OfSurvivor(msgspec.Struct, frozen=True, gc=False):
    """A call that keeps running although an abort has ended its cycle."""

    call_id: CallId


class OfStoppedCall(msgspec.Struct, frozen=True, gc=False):
    """A call of the batch, or a survivor, that is answered and told to stop, and has not ended yet."""

    call_id: CallId


class OfChild(msgspec.Struct, frozen=True, gc=False):
    """A child session of a running tool."""

    attempt: EffectId


class OfLoan(msgspec.Struct, frozen=True, gc=False):
    """A child of an abandoned call, whose spending has not been counted yet."""


class OfHostCheck(msgspec.Struct, frozen=True, gc=False):
    """A call that waits for the host's verdict."""

    call_id: CallId


class OfHostReport(msgspec.Struct, frozen=True, gc=False):
    """A report to the host about a call that has ended. Its batch waits for it, unless the cycle was aborted."""

    call_id: CallId


class OfAgent(msgspec.Struct, frozen=True, gc=False):
    """An agent in the background, until it has ended."""

    name: str


class OfAgentWait(msgspec.Struct, frozen=True, gc=False):
    """The timer of a call that waits for agents."""

    call_id: CallId


class OfRetry(msgspec.Struct, frozen=True, gc=False):
    """The timer before another attempt at a call."""

    call_id: CallId


class OfInteraction(msgspec.Struct, frozen=True, gc=False):
    """The timer of a pending interaction."""

    id: ApprovalId | QuestionRef | ClientCallRef


class OfPluginRequest(msgspec.Struct, frozen=True, gc=False):
    """A plugin's request. The plugin is called with the result.

    Attributes:
        wanted: The work, so that another process can repeat it. None in states that were stored without it.
    """

    by: str
    tag: str
    wanted: Wanted | None = None


class OfContext(msgspec.Struct, frozen=True, gc=False):
    """The gathering of context for the requests of a turn."""


class OfHeldHook(msgspec.Struct, frozen=True, gc=False):
    """A plugin's request for which its hook waits."""


class OfHoldTimer(msgspec.Struct, frozen=True, gc=False):
    """The timer that limits the wait of a hook."""


class OfDrain(msgspec.Struct, frozen=True, gc=False):
    """A teardown that limits the time of stopped calls, while the cycle continues."""


class OfTeardown(msgspec.Struct, frozen=True, gc=False):
    """The teardown after an abort."""


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
"""Within a step a dict, copied at the first change. Between steps it is never written to.

Not a tree: only a handful of effects is open at once, and copying a thousand costs less than a tenth of the step.
"""

NOTHING_OPEN: Final[OpenEffects] = MappingProxyType({})
"""No open effect."""

O = TypeVar("O", bound=Owner)  # noqa: E741 - an owner


def owned_by(opened: OpenEffects, kind: type[O]) -> Iterator[tuple[EffectId, O]]:
    """Return the open effects of one kind of owner, in the order in which they were requested.

    Iterates over all open effects, so this is for rare cases.
    """
    found = [(effect_id, owner) for effect_id, owner in opened.items() if isinstance(owner, kind)]
    return iter(sorted(found, key=_number_of))


def _number_of(entry: tuple[EffectId, object]) -> int:
    return int(entry[0][1:])
