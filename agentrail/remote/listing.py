"""The sessions of a server as a client lists them: its own, with what people know them by."""

from typing import Final, Protocol

import msgspec
from attrs import frozen

from agentrail.errors import CodecError, OptionError, SessionUnknown
from agentrail.messages import SessionId
from agentrail.remote.links import Links
from agentrail.runtime.arguments import fault_of_text, refuse
from agentrail.structs import decoder_of

_MAX_LISTED: Final = 200
"""What a server lists at once."""


@frozen(kw_only=True)
class SessionOnServer:
    """A session in a list.

    Attributes:
        phase: One of the four, or `asleep`, or `ended`.
        title: What it is about; its first words where it has no title, and empty where these are not known.
        waits_for: How many approvals, questions and calls of the client wait for people.
        changed_at_ms: When it published something last, in milliseconds since 1970; 0 where that is not known.
    """

    session_id: SessionId
    agent_id: str
    phase: str
    title: str = ""
    waits_for: int = 0
    changed_at_ms: int = 0


class _OnLinks(Protocol):
    """What these calls are made of."""

    @property
    def _links(self) -> Links: ...

    @property
    def session_id(self) -> SessionId: ...


class RemoteListing:
    """The calls of a session on a server that are about others beside it; in this process a supervisor knows them."""

    __slots__ = ()

    async def sessions(self: _OnLinks, limit: int = 50) -> tuple[SessionOnServer, ...]:
        """List the caller's sessions on the server that have not ended, the one that was at work last first.

        Cancellation: Nothing is lost by it.
        """
        if type(limit) is not int or not 1 <= limit <= _MAX_LISTED:
            raise OptionError([f"limit is {limit!r}: expected a whole number from 1 to {_MAX_LISTED}"])
        told = {"limit": limit, "sort": "-changed"}
        return read_session_page(await self._links.first.call("sessions", None, told))

    async def knows_session(self: _OnLinks, session_id: str) -> bool:
        """Say whether the server has a session of this id that the caller may use.

        Cancellation: Nothing is lost by it.
        """
        refuse(fault_of_text("session_id", session_id))
        try:
            await self._links.first.call("status", session_id, {})
        except SessionUnknown:
            return False
        return True


def read_session_page(text: bytes) -> tuple[SessionOnServer, ...]:
    """Read a page of sessions."""
    try:
        page = _PAGE.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"what the server sent cannot be read: {error}; its version may be a newer one"
        raise CodecError(message, path="$") from error
    return tuple(
        [
            SessionOnServer(
                session_id=SessionId(one.session_id),
                agent_id=one.agent_id or "",
                phase=one.phase,
                title=one.title or one.first_words or "",
                waits_for=one.waits_for,
                changed_at_ms=one.changed_at_ms or 0,
            )
            for one in page.sessions
        ]
    )


class _Item(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it is written; what a newer server says besides is left out."""

    session_id: str
    agent_id: str | None = None
    phase: str
    title: str | None = None
    first_words: str | None = None
    waits_for: int = 0
    changed_at_ms: int | None = None


class _Page(msgspec.Struct, frozen=True, kw_only=True):
    sessions: tuple[_Item, ...]


_PAGE: Final = decoder_of(_Page)
