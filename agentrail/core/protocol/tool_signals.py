"""What a running tool reports: how far it is, what it emits, and how it ended. Part of the union of `signals`."""

import msgspec
from msgspec.structs import force_setattr

from agentrail.core.policy.budget import Spent
from agentrail.core.protocol.changes import Change
from agentrail.core.protocol.stamped import EffectOutcome, FinalOutcome
from agentrail.frozen import frozen_value
from agentrail.messages import CallId, Image, JsonValue
from agentrail.structs import Value


def _nothing() -> None:
    """Make the default of a field that is written also where it is None. See `ToolFinished`."""


def _no_changes() -> tuple[Change, ...]:
    return ()


class ToolProgressed(EffectOutcome, frozen=True, kw_only=True):
    """A tool says how far it is. Ephemeral, never journaled.

    Attributes:
        text: What it says.
    """

    text: str


class ToolEmitted(EffectOutcome, frozen=True, kw_only=True):
    """A running tool lets the world know something.

    Attributes:
        name: Its own name for it.
        payload: JSON, of at most 64 KiB.
    """

    name: str
    payload: JsonValue = None

    def __post_init__(self) -> None:
        """Freeze the payload."""
        force_setattr(self, "payload", frozen_value(self.payload))


class LateValue(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What a tool returned although its call had been stopped.

    Attributes:
        call_id: The call.
        name: The tool.
        text: What the model may read.
        is_error: Whether the tool returned an error.
    """

    call_id: CallId
    name: str
    text: str
    is_error: bool = False


class ToolFinished(FinalOutcome, frozen=True, kw_only=True, omit_defaults=True):
    """A tool is done, well or badly, or was stopped; or a session that worked for a call or for its tool.

    Attributes:
        text: What the model may read.
        is_error: Whether it failed.
        details: JSON for people.
        started_at_ms: When this attempt began.
        crashed: Whether it raised, and the same attempt may be made once more.
        jitter: A random number from 0 to below 1, for the pause before that.
        changes: What the tool wants changed in its session.
        late: Whether the tool gave a value although it had been stopped or its time was up.
        spent: Of a session that worked for a call or for its tool, what it has used; None of a tool, or where that is unknown.
        images: Pictures that the model may see.
        ran_ms: How long the code of this attempt took, in milliseconds; None where none ran. Not what lies between its beginning
            and this signal, which comes when its processes are gone as well.
        value: The value, where it is late; older journals do not have it.
    """

    text: str
    # `images` and `ran_ms` came later, and are left out where there are none; see `ToolResult`.
    is_error: bool = msgspec.field(default_factory=bool)
    details: JsonValue = msgspec.field(default_factory=_nothing)
    started_at_ms: int
    crashed: bool = msgspec.field(default_factory=bool)
    jitter: float = msgspec.field(default_factory=float)
    changes: tuple[Change, ...] = msgspec.field(default_factory=_no_changes)
    late: bool = msgspec.field(default_factory=bool)
    spent: Spent | None = msgspec.field(default_factory=_nothing)
    images: tuple[Image, ...] = ()
    ran_ms: int | None = None
    value: LateValue | None = None

    def __post_init__(self) -> None:
        """Freeze the details, which every subscriber will be given."""
        if self.details is not None:
            force_setattr(self, "details", frozen_value(self.details))
