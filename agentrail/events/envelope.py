"""The metadata and the base class of all events."""

from typing import Any

from msgspec import Struct

from agentrail.messages import SessionId
from agentrail.structs import TaggedValue


class Envelope(Struct, frozen=True, gc=False):
    """Metadata of an event: its session, number and time.

    Attributes:
        session_id: Id of the session that published it.
        seq: Number of the event. For an ephemeral event, that of the committed event before it.
        at_ms: Arrival time of the signal that caused it, in milliseconds since 1970.
        path: Session ids from the root down to this session, inclusive.
        ephemeral: Whether it is never replayed.
    """

    session_id: SessionId
    seq: int
    at_ms: int
    path: tuple[SessionId, ...]
    ephemeral: bool = False


class EventBase(TaggedValue, frozen=True, kw_only=True):
    """Base class of all events. Equality, hash and repr ignore `meta`.

    Attributes:
        meta: Set on published events, otherwise None.
    """

    meta: Envelope | None = None

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(other, name) == value for name, value in self._said())

    def __hash__(self) -> int:
        return hash((type(self), *(value for _, value in self._said())))

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self._said())
        return f"{type(self).__name__}({said})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return self._said()

    def _said(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.__struct_fields__ if name != "meta"]
