"""How a chat is seen: line by line where there is no terminal that could do more, and on a screen where there is one."""

from collections.abc import Iterable
from typing import Protocol

from attrs import frozen

from agentrail.cli.rendering import Piece, Transcript
from agentrail.cli.screen import Screen
from agentrail.events import Event


class ChatView(Protocol):
    """Where a chat shows what happens. All of it may raise what `Screen.write` raises."""

    async def show(self, event: Event) -> None:
        """Show an event of the session."""
        ...

    async def show_past(self, pieces: Iterable[Piece]) -> None:
        """Show what was said before the session came back."""
        ...

    async def say(self, *lines: str) -> None:
        """Say something about the conversation, a line each."""
        ...

    async def invite(self) -> None:
        """Show that a line is wanted, where the view does not show that anyway."""
        ...

    def line_typed(self) -> None:
        """Note that the terminal has shown a line that was typed, with its line break."""
        ...

    def stopping(self, *, is_so: bool) -> None:
        """Note whether the running cycle is being stopped."""
        ...


@frozen(kw_only=True)
class LineView:
    """Pieces, one behind the other: for pipes, and for terminals that know no escape sequences.

    Attributes:
        prompts: Whether `> ` is written when the next line is wanted.
    """

    transcript: Transcript
    screen: Screen
    prompts: bool

    async def show(self, event: Event) -> None:
        """Write an event; see `ChatView.show`."""
        await self.screen.write(self.transcript.feed(event))

    async def show_past(self, pieces: Iterable[Piece]) -> None:
        """Write what was said; see `ChatView.show_past`."""
        await self.screen.write(pieces)

    async def say(self, *lines: str) -> None:
        """Write notes; see `ChatView.say`."""
        for line in lines:
            await self.screen.write(self.transcript.remark(line))

    async def invite(self) -> None:
        """Write `> `; see `ChatView.invite`."""
        if self.prompts:
            await self.screen.write(self.transcript.invite())

    def line_typed(self) -> None:
        """Begin a line; see `ChatView.line_typed`."""
        if self.prompts:
            self.transcript.line_typed()

    def stopping(self, *, is_so: bool) -> None:
        """Write nothing: the abort says itself what it stopped."""
