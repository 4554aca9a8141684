"""Opens the screen of a chat with what it can complete: its commands, the files below its directory, models, turns."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from attrs import define, field

from agentrail.app import DEFAULT_MODELS
from agentrail.cli.session_views import shorten
from agentrail.cli.terminal.completing import KnownNames, Words
from agentrail.cli.terminal.editor import TerminalView, files_to_complete, open_terminal_view
from agentrail.commands import CommandRegistry
from agentrail.events import Event, RequestStart, ResponseComplete
from agentrail.runtime.handle import Session

_DEMO_MODELS: Final = ("demo:", "demo:fast", "demo:coder", "demo:support", "demo:reader")


@define
class Turns:
    """What the model said, turn by turn: what `/rewind` and `/fork` can go back to."""

    _said: list[str] = field(factory=list)

    def note(self, event: Event) -> None:
        """Note a request, and what was answered: one that failed counts as a turn too, as it does in a journal."""
        if isinstance(event, RequestStart) and event.attempt == 1:
            self._said.append("no words")
        elif isinstance(event, ResponseComplete) and self._said:
            self._said[-1] = shorten(event.message.text) or "no words"

    def words(self) -> Words:
        """Give the turns, the latest first."""
        return [(str(number), said) for number, said in enumerate(self._said, start=1)][::-1]


def known_models(current: str) -> Words:
    """Give models that are worth a try, the one that is asked first."""
    named = [current, *(f"{name}:{model}" for name, model in DEFAULT_MODELS.items()), *_DEMO_MODELS]
    return [(model, "is asked now" if model == current else "") for model in dict.fromkeys(named)]


def _hear_nothing(_: Event) -> None:
    """Note nothing of an event."""


@asynccontextmanager
async def open_chat_view(
    session: Session, commands: CommandRegistry, history: Path | None, directory: Path
) -> AsyncIterator[TerminalView]:
    """Open the screen; leaving the block gives the terminal back.

    Args:
        session: With whom one talks.
        commands: Which can be typed.
        history: Where what was typed is kept; None for nowhere.
        directory: Below which files are completed.
    """
    status = await session.status()
    # How many turns a session had that came back its conversation does not say: those that failed left nothing in it.
    turns = None if status.messages else Turns()
    arguments = {} if turns is None else {"rewind": turns.words, "fork": turns.words}
    known = KnownNames(
        commands=[(one.name, one.description) for one in commands.commands],
        arguments={"model": partial(known_models, status.model), **arguments},
        files=files_to_complete(directory),
    )
    async with open_terminal_view(
        known, history, on_event=_hear_nothing if turns is None else turns.note
    ) as view:
        yield view
