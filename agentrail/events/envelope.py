"""What is true of every event: where it stands, and the class that all of them extend."""

from typing import Any

from msgspec import Struct

from agentrail.messages import SessionId
from agentrail.structs import TaggedValue


class Envelope(Struct, frozen=True, gc=False):
    """Where an event stands.

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


class EventBase(TaggedValue, frozen=True, kw_only=True):
    """What all events share. Where one stands is no part of what it says: equality, hash and repr leave `meta` out.

    Attributes:
        meta: Set on everything that a session published; None on an event that was made by hand.
    """

    meta: Envelope | None = None

    def __eq__(self, other: object) -> bool:
        """Compare what two events say."""
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(other, name) == value for name, value in self._said())

    def __hash__(self) -> int:
        """Hash what the event says."""
        return hash((type(self), *(value for _, value in self._said())))

    def __repr__(self) -> str:
        """Write the event as one would make it."""
        said = ", ".join(f"{name}={value!r}" for name, value in self._said())
        return f"{type(self).__name__}({said})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Show the same where it is shown in colours."""
        return self._said()

    def _said(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.__struct_fields__ if name != "meta"]
