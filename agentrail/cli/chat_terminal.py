"""Input and output of a chat: a screen if the terminal supports one, otherwise plain lines."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from attrs import frozen

from agentrail.cli.event_text import Piece, Transcript
from agentrail.cli.input_lines import Lines, PlainLines
from agentrail.cli.screen import DirectScreen, Screen, look_of_process
from agentrail.cli.terminal.completion import FindWords
from agentrail.commands import CommandRegistry
from agentrail.events import Event
from agentrail.runtime.session_handle import Session

if TYPE_CHECKING:
    from agentrail.cli.terminal.live_view import TerminalView


# Views: line by line for pipes and plain terminals, or on a screen.


class ChatView(Protocol):
    """The output of a chat. Every call may raise the errors of `Screen.write`."""

    async def show(self, event: Event) -> None: ...

    async def show_past(self, pieces: Iterable[Piece]) -> None:
        """Show the conversation from before the session was resumed."""
        ...

    async def say(self, *lines: str) -> None: ...

    async def invite(self) -> None:
        """Ask for a line, unless the view always shows an input line."""
        ...

    def line_typed(self) -> None: ...

    def stopping(self, *, is_so: bool) -> None: ...


@frozen(kw_only=True)
class LineView:
    """Pieces in sequence, for pipes and for terminals without escape sequences."""

    transcript: Transcript
    screen: Screen
    prompts: bool

    async def show(self, event: Event) -> None:
        await self.screen.write(self.transcript.feed(event))

    async def show_past(self, pieces: Iterable[Piece]) -> None:
        await self.screen.write(pieces)

    async def say(self, *lines: str) -> None:
        for line in lines:
            await self.screen.write(self.transcript.remark(line))

    async def invite(self) -> None:
        if self.prompts:
            await self.screen.write(self.transcript.invite())

    def line_typed(self) -> None:
        if self.prompts:
            self.transcript.line_typed()

    def stopping(self, *, is_so: bool) -> None:
        """Write nothing: the abort reports its own result."""


@frozen(kw_only=True)
class Desk:
    """Input and output of a chat.

    Attributes:
        asks_twice: Whether Ctrl-C is a key that must be pressed twice to leave an idle chat. Otherwise it is a signal
            and leaves at once.
    """

    lines: Lines
    view: ChatView
    in_order: bool
    asks_twice: bool = False


async def open_desk(
    terminal: "TerminalView | None",
    session: Session,
    commands: CommandRegistry,
    directory: Path,
    others: FindWords,
) -> Desk:
    """Return a desk on the open screen, or on plain lines without one."""
    if terminal is not None:
        # Imported here: pipes need no completion.
        from agentrail.cli.terminal.completion_sources import introduce

        await introduce(terminal, session, commands, directory, others)
        return Desk(lines=terminal, view=terminal, in_order=False, asks_twice=True)
    is_terminal = os.isatty(0)
    prompts = is_terminal and os.isatty(1)
    plain = LineView(transcript=Transcript(look_of_process()), screen=DirectScreen(), prompts=prompts)
    return Desk(lines=PlainLines(joins_pastes=is_terminal), view=plain, in_order=not is_terminal)
