"""The commands of a chat with a session on a server. The server runs its own commands and those that need its data."""

from collections.abc import Iterable
from functools import partial
from typing import Final

from agentrail.cli.chat_switch import GoTo
from agentrail.cli.session_views import moment, shorten
from agentrail.cli.terminal.completion import Words
from agentrail.commands import CommandAnswer, CommandCall, CommandRegistry, CommandRow, SlashCommand
from agentrail.commands.built_in import built_in_commands
from agentrail.commands.slash_command import RunCommand
from agentrail.errors import CommandError, OptionError, RemoteRefused
from agentrail.messages import SessionId
from agentrail.remote.remote_session import RemoteSession
from agentrail.wire.rows import SessionSummary

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
