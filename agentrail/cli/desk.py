"""Input and output of a chat: a screen if the terminal supports one, otherwise plain lines."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from agentrail.cli.lines import Lines, PlainLines
from agentrail.cli.rendering import Transcript
from agentrail.cli.screen import DirectScreen, look_of_process
from agentrail.cli.terminal.completing import FindWords
from agentrail.cli.views import ChatView, LineView
from agentrail.commands import CommandRegistry
from agentrail.runtime.handle import Session

if TYPE_CHECKING:
    from agentrail.cli.terminal.live_view import TerminalView


@frozen(kw_only=True)
class Desk:
    """Input and output of a chat.

    Attributes:
        in_order: Whether a line waits for the previous cycle to end, because lines come from a pipe.
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
        from agentrail.cli.terminal.chat_view import introduce

        await introduce(terminal, session, commands, directory, others)
        return Desk(lines=terminal, view=terminal, in_order=False, asks_twice=True)
    is_terminal = os.isatty(0)
    prompts = is_terminal and os.isatty(1)
    plain = LineView(transcript=Transcript(look_of_process()), screen=DirectScreen(), prompts=prompts)
    return Desk(lines=PlainLines(joins_pastes=is_terminal), view=plain, in_order=not is_terminal)
