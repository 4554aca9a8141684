"""Calls that only a remote session has: lists of the server's sessions, and slash commands."""

from typing import Final, Protocol

import msgspec
from attrs import field, frozen

from agentrail.commands.slash_command import CommandRow
from agentrail.errors import CodecError, OptionError, SessionUnknown
from agentrail.messages import SessionId
from agentrail.remote.link import Links
from agentrail.runtime.arguments import decide_client_id, fault_of_text, refuse
from agentrail.structs import decoder_of, fields_of
from agentrail.wire.rows import SessionEntry

# The server's slash commands, listed for the session and run by name.


@frozen(kw_only=True)
class RemoteCommandAnswer:
    """Result of a slash command.

    Attributes:
        lines: Output for the user, empty if the command sent a message to the session.
        request_id: The request of that message, for `wait_for_request`, or None if it sent none.
    """

    command: str
    lines: tuple[str, ...] = field(default=())
    request_id: str | None = None


class _OnLinks(Protocol):
    @property
    def _links(self) -> Links: ...

    @property
    def session_id(self) -> SessionId: ...


class RemoteCommands:
    """The slash command calls of a remote session. A local session has a registry instead."""

    __slots__ = ()

    async def commands(self: _OnLinks) -> tuple[CommandRow, ...]:
        """List the server's slash commands for this session, with the reason if one cannot be run.

        Cancellation: Nothing is lost.
        """
        return read_command_rows(await self._links.first.call("commands", self.session_id, {}))

    async def run_command(
        self: _OnLinks, name: str, text: str = "", *, client_id: str | None = None
    ) -> RemoteCommandAnswer:
        """Run a slash command in this session.

        Cancellation: Once it is sent, only the answer is lost.
        """
        refuse(fault_of_text("name", name), fault_of_text("text", text))
        told = {
            "name": name.strip().removeprefix("/"),
            "text": text,
            "client_id": decide_client_id(client_id),
        }
        return read_command_answer(await self._links.first.call("run_command", self.session_id, told))


def read_command_rows(text: bytes) -> tuple[CommandRow, ...]:
    try:
        listed = _LIST.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _fault(error) from error
    return listed.commands


def read_command_answer(text: bytes) -> RemoteCommandAnswer:
    try:
        done = _DONE.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _fault(error) from error
    return RemoteCommandAnswer(command=done.command, lines=done.lines, request_id=done.request_id)


class _List(msgspec.Struct, frozen=True, kw_only=True):
    commands: tuple[CommandRow, ...]


class _Done(msgspec.Struct, frozen=True, kw_only=True):
    command: str
    lines: tuple[str, ...] = ()
    request_id: str | None = None


def _fault(error: Exception) -> CodecError:
    message = f"the server's reply cannot be read: {error}; its version may be a newer one"
    return CodecError(message, path="$")


_LIST: Final = decoder_of(_List)
_DONE: Final = decoder_of(_Done)


_MAX_LISTED: Final = 200
"""Maximum number of sessions per list."""


class RemoteListing:
    """The calls of a remote session about other sessions. Locally, the supervisor has them."""

    __slots__ = ()

    async def sessions(self: _OnLinks, limit: int = 50) -> tuple[SessionEntry, ...]:
        """List the caller's sessions on the server that have not ended, most recently active first."""
        if type(limit) is not int or not 1 <= limit <= _MAX_LISTED:
            raise OptionError([f"limit is {limit!r}: expected a whole number from 1 to {_MAX_LISTED}"])
        told = {"limit": limit, "sort": "-changed"}
        return read_session_page(await self._links.first.call("sessions", None, told))

    async def knows_session(self: _OnLinks, session_id: str) -> bool:
        """Return whether the server has a session of this id that the caller may use."""
        refuse(fault_of_text("session_id", session_id))
        try:
            await self._links.first.call("status", session_id, {})
        except SessionUnknown:
            return False
        return True


def read_session_page(text: bytes) -> tuple[SessionEntry, ...]:
    try:
        page = _PAGE.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"the server's reply cannot be read: {error}; its version may be a newer one"
        raise CodecError(message, path="$") from error
    known = ("session_id", "agent_id", "phase", "waits_for", "changed_at_ms")
    return tuple(
        [
            SessionEntry(**fields_of(one, *known), title=one.title or one.first_words or "")
            for one in page.sessions
        ]
    )


@frozen(kw_only=True)
class _Item(SessionEntry):
    first_words: str | None = None


class _Page(msgspec.Struct, frozen=True, kw_only=True):
    sessions: tuple[_Item, ...]


_PAGE: Final = decoder_of(_Page)
