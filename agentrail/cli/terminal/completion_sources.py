"""Completions of a chat's screen once it has a session: commands, files of its directory, models, turns."""

from functools import partial
from pathlib import Path
from typing import Final

import trio
from attrs import define

from agentrail.app import DEFAULT_MODELS
from agentrail.cli.terminal.completion import FindWords, KnownNames, Words
from agentrail.cli.terminal.editor_history import files_to_complete
from agentrail.cli.terminal.live_view import TerminalView
from agentrail.commands import CommandRegistry
from agentrail.commands.command_output import show_turn
from agentrail.errors import AgentrailError, ReplyTimeout
from agentrail.events import TERMINAL, Event, EventsLost, RequestStart
from agentrail.runtime.session_handle import Session

_WORDS_SECONDS: Final = 3.0
"""Time limit for fetching completions, in seconds."""
_DEMO_MODELS: Final = ("demo:", "demo:fast", "demo:coder", "demo:support", "demo:reader")


@define(eq=False)
class AskedWords:
    _find: FindWords
    _token: trio.lowlevel.TrioToken
    _known: Words | None = None

    def note(self, event: Event) -> None:
        """Invalidate the cache after an event that may change the arguments, such as a finished turn or a rewind."""
        if isinstance(event, RequestStart | EventsLost) or type(event) in TERMINAL:
            self._known = None

    def words(self) -> Words:
        """Return the arguments, or nothing if they are unavailable. Blocks the calling thread while it fetches them."""
        known = self._known
        if known is None:
            try:
                known = trio.from_thread.run(self._find_in_time, trio_token=self._token)
            except (AgentrailError, trio.RunFinishedError, trio.Cancelled):  # noqa: ASYNC103 - this thread has no loop
                return ()  # noqa: ASYNC104 - see above
            self._known = known
        return known

    async def _find_in_time(self) -> Words:
        with trio.move_on_after(_WORDS_SECONDS):
            return await self._find()
        message = "it did not come in time"
        raise ReplyTimeout(message)


async def turns_of(session: Session) -> Words:
    """Return the turns of a conversation, the latest first, as numbered in its journal. Includes resumed and remote sessions."""
    return [(str(turn.number), show_turn(turn)) for turn in reversed(await session.turns()) if turn.counts]


async def _no_others() -> Words:
    await trio.lowlevel.checkpoint()
    return ()


def known_models(current: str) -> Words:
    named = [current, *(f"{name}:{model}" for name, model in DEFAULT_MODELS.items()), *_DEMO_MODELS]
    return [(model, "is asked now" if model == current else "") for model in dict.fromkeys(named)]


async def introduce(
    view: TerminalView,
    session: Session,
    commands: CommandRegistry,
    directory: Path,
    others: FindWords = _no_others,
) -> None:
    status = await session.status()
    token = trio.lowlevel.current_trio_token()
    turns, sessions = AskedWords(partial(turns_of, session), token), AskedWords(others, token)

    def note(event: Event) -> None:
        turns.note(event)
        sessions.note(event)

    known = KnownNames(
        commands=[(one.name, one.description) for one in commands.commands],
        arguments={
            "model": partial(known_models, status.model),
            "rewind": turns.words,
            "fork": turns.words,
            "resume": sessions.words,
        },
        files=files_to_complete(directory),
    )
    view.introduce(known, note)
