"""A session on a server, for `agentrail chat --connect`: opening it, its history, its commands, and notices of a lost server."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio

from agentrail.cli.chat_switch import GoTo
from agentrail.cli.resume_command import ComeBack
from agentrail.cli.resume_option import LATEST
from agentrail.cli.session_views import conversation, moment, shorten
from agentrail.cli.terminal.completion import Words
from agentrail.cli.top_command import read_token
from agentrail.commands import CommandAnswer, CommandCall, CommandRegistry, CommandRow, SlashCommand
from agentrail.commands.built_in import built_in_commands
from agentrail.commands.slash_command import RunCommand
from agentrail.errors import AgentrailError, CommandError, OptionError, RemoteRefused
from agentrail.messages import PromptRef, SessionId
from agentrail.remote.connect import connect
from agentrail.remote.remote_session import RemoteSession
from agentrail.wire.rows import SessionSummary

_CONNECT_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 2.0
_RUNNING: Final = PromptRef("running")
"""Stands for the running cycle when a chat connects: a status does not name its prompt."""


@asynccontextmanager
async def open_far(url: str, wanted: str | None, agent: str | None) -> AsyncIterator[RemoteSession]:
    """Open a session on a server for a block. The session outlives it."""
    if wanted == LATEST:
        raise OptionError(
            ["--resume without an id is for sessions stored here: name a session of the server"]
        )
    async with connect(
        url, read_token(None), session_id=wanted, agent_id=agent, connect_seconds=_CONNECT_SECONDS
    ) as session:
        yield session


async def find_far(session: RemoteSession) -> ComeBack | None:
    """Return the history of a session on a server, or None for an unused one."""
    status = await session.status()
    if not status.last_seq:
        return None
    return ComeBack(
        session=session,  # type: ignore[arg-type]  # its calls are those of `Session`, as `agentrail.connect` promises
        after=status.last_seq,
        shown=tuple(conversation(await session.messages())),
        running=None if status.phase == "idle" else _RUNNING,
        queued=status.queued,
    )


async def watch_server(session: RemoteSession, say: Callable[[str], Awaitable[None]]) -> None:
    """Report when the server stops answering and when it is back, until cancelled. The session reconnects automatically."""
    is_gone = False
    while True:
        await trio.sleep(_LOOK_SECONDS)
        with trio.move_on_after(_LOOK_SECONDS) as waited:
            try:
                await session.status()
            except AgentrailError:  # such as an ended session: the reader of its events reports it
                return
        if waited.cancelled_caught and not is_gone:
            await say("the server does not answer; reconnecting. The conversation is stored there")
        elif is_gone and not waited.cancelled_caught:
            await say("the server is back")
        is_gone = waited.cancelled_caught


# --- commands

_MAX_LISTED: Final = 20
_ASKED_THERE: Final = ("tools", "agents", "skills", "memory")
"""Commands about state that no session call returns: the session's code (tools, agents, skills) and its memory."""


async def far_registry(far: RemoteSession) -> CommandRegistry:
    try:
        rows = await far.commands()
    except RemoteRefused:  # an older server, or one that does not permit listing them
        rows = ()
    return registry_of(rows, partial(_run_there, far))


def registry_of(rows: Iterable[CommandRow], run: RunCommand) -> CommandRegistry:
    built = {one.name: one for one in built_in_commands()}
    there = tuple(_run_by(built[name], run) for name in _ASKED_THERE)
    registry = CommandRegistry().replacing(*there)
    # Includes built-in commands of a newer server that this version does not know.
    for row in rows:
        if row.name in built:
            continue
        try:
            registry = registry.with_commands(_run_by(row, run))
        except OptionError:  # an invalid name, or too many: such a command can still be run elsewhere
            continue
    return registry


def _run_by(one: SlashCommand | CommandRow, run: RunCommand) -> SlashCommand:
    return SlashCommand(
        name=one.name, description=one.description, arguments=one.arguments, source=one.source, run=run
    )


async def _run_there(far: RemoteSession, call: CommandCall) -> CommandAnswer:
    answer = await far.run_command(call.name, call.text)
    return CommandAnswer(lines=answer.lines)


async def switch_far(name: str, text: str, far: RemoteSession) -> GoTo | tuple[str, ...]:
    if name == "clear":
        return GoTo()
    if name == "sessions":
        return show_listed(await far.sessions(_MAX_LISTED), far.session_id)
    wanted = text or _latest_of_others(await far.sessions(_MAX_LISTED), far.session_id)
    if wanted == far.session_id:
        message = f"this is session {wanted}"
        raise CommandError(message)
    if not await far.knows_session(wanted):
        message = f"the server has no session {wanted!r:.80} of yours: /sessions lists them"
        raise CommandError(message)
    return GoTo(session=SessionId(wanted))


async def others_on_server(far: RemoteSession) -> Words:
    """Return the caller's sessions on this server that `/resume` accepts, same as `switching.others_in`."""
    found = await far.sessions(_MAX_LISTED)
    return [
        (one.session_id, f"{one.phase} · {shorten(one.title)}")
        for one in found
        if one.session_id != far.session_id
    ]


def _latest_of_others(found: Iterable[SessionSummary], current: SessionId) -> str:
    latest = next((one.session_id for one in found if one.session_id != current), None)
    if latest is None:
        message = "you have no other session on the server: /clear starts one"
        raise CommandError(message)
    return latest


def show_listed(found: Iterable[SessionSummary], current: SessionId) -> tuple[str, ...]:
    rows = tuple(found)
    width = max((len(one.session_id) for one in rows), default=0)
    return (*(_row_of(one, current, width) for one in rows), "/resume ID continues one")


def _row_of(one: SessionSummary, current: SessionId, width: int) -> str:
    stands = "this one" if one.session_id == current else "waits for you" if one.waits_for else one.phase
    at = moment(one.changed_at_ms) if one.changed_at_ms else ""
    return f"{one.session_id:<{width}}  {stands:<15}  {at:<19}  {one.agent_id}  {shorten(one.title)}".rstrip()
