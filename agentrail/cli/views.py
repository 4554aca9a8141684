"""Views of a chat: line by line for pipes and plain terminals, or on a screen."""

from collections.abc import Iterable
from typing import Protocol

from attrs import frozen

from agentrail.cli.rendering import Piece, Transcript
from agentrail.cli.screen import Screen
from agentrail.events import Event


class ChatView(Protocol):
    """The output of a chat. Every call may raise the errors of `Screen.write`."""

    async def show(self, event: Event) -> None:
        """Show an event of the session."""
        ...

    async def show_past(self, pieces: Iterable[Piece]) -> None:
        """Show the conversation from before the session was resumed."""
        ...

    async def say(self, *lines: str) -> None:
        """Show text about the conversation, one line each."""
        ...

    async def invite(self) -> None:
        """Ask for a line, unless the view always shows an input line."""
        ...

    def line_typed(self) -> None:
        """Record that the terminal has echoed a typed line, with its line break."""
        ...

    def stopping(self, *, is_so: bool) -> None:
        """Set whether the running cycle is being stopped."""
        ...


@frozen(kw_only=True)
class LineView:
    """Pieces in sequence, for pipes and for terminals without escape sequences.

    Attributes:
        prompts: Whether to write `> ` before the next line.
    """

    transcript: Transcript
    screen: Screen
    prompts: bool

    async def show(self, event: Event) -> None:
        """Write an event. See `ChatView.show`."""
        await self.screen.write(self.transcript.feed(event))

    async def show_past(self, pieces: Iterable[Piece]) -> None:
        """Write the earlier conversation. See `ChatView.show_past`."""
        await self.screen.write(pieces)

    async def say(self, *lines: str) -> None:
        """Write notes. See `ChatView.say`."""
        for line in lines:
            await self.screen.write(self.transcript.remark(line))

    async def invite(self) -> None:
        """Write `> `. See `ChatView.invite`."""
        if self.prompts:
            await self.screen.write(self.transcript.invite())

    def line_typed(self) -> None:
        """Start a line. See `ChatView.line_typed`."""
        if self.prompts:
            self.transcript.line_typed()

    def stopping(self, *, is_so: bool) -> None:
        """Write nothing: the abort reports its own result."""
