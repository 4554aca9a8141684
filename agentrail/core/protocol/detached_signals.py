"""What a tool says that goes on behind its call. Part of the union of `signals`."""

from msgspec.structs import force_setattr

from agentrail.core.protocol.stamped import EffectOutcome
from agentrail.frozen import frozen_value
from agentrail.messages import JsonValue


class ToolAnsweredEarly(EffectOutcome, frozen=True, kw_only=True):
    """A running tool answers its call, and goes on in the background: its `ToolFinished` comes when that ends, or is stopped.

    Attributes:
        text: What the model reads as the result of the call.
        details: JSON for people.
        started_at_ms: When the attempt began.
        ran_ms: How long it ran until now.
    """

    text: str
    details: JsonValue = None
    started_at_ms: int
    ran_ms: int

    def __post_init__(self) -> None:
        """Freeze the details."""
        force_setattr(self, "details", frozen_value(self.details))
