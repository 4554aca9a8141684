"""Where one types and reads in a chat: a screen in a terminal that can have one, else plain lines."""

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
    """Where one types and reads.

    Attributes:
        in_order: Whether a line waits until the cycle before it has ended: they come from a pipe.
        asks_twice: Whether Ctrl-C leaves a chat that rests when it comes twice, and comes as a key; else the first one does, as a signal.
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
    """Take what there is: the screen that is open, else plain lines."""
    if terminal is not None:
        # Imported here: what completes words is of no use to pipes.
        from agentrail.cli.terminal.chat_view import introduce

        await introduce(terminal, session, commands, directory, others)
        return Desk(lines=terminal, view=terminal, in_order=False, asks_twice=True)
    is_terminal = os.isatty(0)
    prompts = is_terminal and os.isatty(1)
    plain = LineView(transcript=Transcript(look_of_process()), screen=DirectScreen(), prompts=prompts)
    return Desk(lines=PlainLines(joins_pastes=is_terminal), view=plain, in_order=not is_terminal)
