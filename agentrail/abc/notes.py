"""The port for working notes: one Markdown file for each session, `NOTES.md`, that its tools and a person may write.

It lies outside of the workspace, so that no tool for files reaches what another session noted. A store blocks and needs no loop. What
stands in a file is decided by the core; here is only where it is. `agentrail.testing.check_notes` holds an implementation to all that
stands here.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from agentrail.abc.recall import MemoryOwner
from agentrail.core.values.notes import NoteTopic


class NoteStore(Protocol):
    """Keeps a text for each session of each owner. Every call but `close` may raise `StoreUnavailable`, from any thread."""

    @property
    def is_immediate(self) -> bool:
        """Whether every call takes no time, so that no thread is needed for it."""
        ...

    def read(self, owner: MemoryOwner, session: str) -> str:
        """Give the notes of a session; empty where there are none.

        Raises:
            NotAStore: Your move: what lies there can be no notes, such as a link or bytes that are no UTF-8. It was left alone.
        """
        ...

    def change(self, owner: MemoryOwner, session: str, edit: Callable[[str], str]) -> str:
        """Put another text in place of the notes of a session, whole or not at all; it is durable when this returns.

        Calls for one store come one after the other, and each sees what the one before wrote. An empty text removes the notes.

        Args:
            owner: Whose session it is.
            session: Its id, unlike all others of the owner.
            edit: Gives the new text for the old one. What it raises travels, and nothing is changed.

        Returns:
            The new text.

        Raises:
            NotAStore: As of `read`.
        """
        ...

    def forget(self, owner: MemoryOwner) -> int:
        """Remove the notes of all sessions of an owner, and say of how many; twice is fine."""
        ...

    def close(self) -> None:
        """Let go of the store; again if you like."""
        ...


class Notes(Protocol):
    """What one session may do with its notes; `ctx.notes` of its tools.

    Every call is a checkpoint, and may raise `StoreUnavailable` or `NotAStore`. Cancelled, what has begun is done all the same, and only
    its answer is lost.
    """

    async def read(self) -> str:
        """Give all of it, as it is written."""
        ...

    async def topics(self) -> tuple[NoteTopic, ...]:
        """Give the index: each topic, with its size and when it was last written."""
        ...

    async def add(
        self, topic: str, notes: Iterable[str], *, only_new: bool = False
    ) -> tuple[tuple[str, ...], tuple[NoteTopic, ...]]:
        """Put notes behind those of a topic. The same again changes nothing.

        Args:
            topic: One line, 1 to 64 characters.
            notes: Texts of 8 KiB at most each.
            only_new: Whether what stands under any topic already is left out, however it is capitalised.

        Returns:
            The notes that were not left out, and the index as it is now.

        Raises:
            OptionError: Your move: no topic, no text, or no room: 64 KiB are kept of one session.
        """
        ...

    async def remove(self, topic: str) -> bool:
        """Remove a topic with all that is noted under it, and say whether there was one of this name."""
        ...
