"""Slash commands of a server, as the handle of a session on it calls them: listed as they stand for the session, and run by their names."""

from typing import Final, Protocol

import msgspec
from attrs import field, frozen

from agentrail.commands.command import CommandRow
from agentrail.errors import CodecError
from agentrail.messages import SessionId
from agentrail.remote.links import Links
from agentrail.runtime.arguments import decide_client_id, fault_of_text, refuse
from agentrail.structs import decoder_of


@frozen(kw_only=True)
class RemoteCommandAnswer:
    """What came of a slash command.

    Attributes:
        lines: What it tells who asked; empty where it said something in the session.
        request_id: The request that its words became, for `wait_for_request`; None where it said nothing.
    """

    command: str
    lines: tuple[str, ...] = field(default=())
    request_id: str | None = None


class _OnLinks(Protocol):
    """What these calls are made of."""

    @property
    def _links(self) -> Links: ...

    @property
    def session_id(self) -> SessionId: ...


class RemoteCommands:
    """The calls of a session on a server that are about its slash commands; a session in this process has a registry in their place."""

    __slots__ = ()

    async def commands(self: _OnLinks) -> tuple[CommandRow, ...]:
        """List the slash commands of the server, as they stand for this session: also why one cannot be run.

        Cancellation: Nothing is lost by it.
        """
        return read_command_rows(await self._links.first.call("commands", self.session_id, {}))

    async def run_command(
        self: _OnLinks, name: str, text: str = "", *, client_id: str | None = None
    ) -> RemoteCommandAnswer:
        """Run a slash command in this session.

        Cancellation: Once it is on its way, only the answer is lost.
        """
        refuse(fault_of_text("name", name), fault_of_text("text", text))
        told = {
            "name": name.strip().removeprefix("/"),
            "text": text,
            "client_id": decide_client_id(client_id),
        }
        return read_command_answer(await self._links.first.call("run_command", self.session_id, told))


def read_command_rows(text: bytes) -> tuple[CommandRow, ...]:
    """Read the commands of a server."""
    try:
        listed = _LIST.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _fault(error) from error
    return listed.commands


def read_command_answer(text: bytes) -> RemoteCommandAnswer:
    """Read what came of a command."""
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
    message = f"what the server sent cannot be read: {error}; its version may be a newer one"
    return CodecError(message, path="$")


_LIST: Final = decoder_of(_List)
_DONE: Final = decoder_of(_Done)
