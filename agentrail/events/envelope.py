"""What is true of every event: where it stands, and the class that all of them extend."""

from attrs import field, frozen
from msgspec import Struct

from agentrail.messages import SessionId


class Envelope(Struct, frozen=True, gc=False):
    """Where an event stands. A Struct, because every event gets one and an attrs class would cost more than the event.

    Attributes:
        session_id: Whose event it is.
        seq: Its number; of an ephemeral event the number of the last committed one before it.
        at_ms: When the signal behind it arrived, in milliseconds since 1970.
        path: The chain of sessions from the root, this one included.
        ephemeral: Whether it is never replayed.
    """

    session_id: SessionId
    seq: int
    at_ms: int
    path: tuple[SessionId, ...]
    ephemeral: bool = False


@frozen(kw_only=True)
class EventBase:
    """What all events share.

    Attributes:
        meta: Set on everything that a session published; None on an event that somebody made by hand.
    """

    meta: Envelope | None = field(default=None, eq=False, repr=False)
