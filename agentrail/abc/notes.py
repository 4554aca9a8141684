"""The port of working notes: one Markdown file per session, `NOTES.md`, which its tools and the user can write.

It lies outside the workspace, so that file tools cannot read another session's notes. A store blocks and needs no event loop.
The core decides a file's content, the store only its place. `agentrail.testing.check_notes` tests an implementation against
this contract.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from agentrail.abc.recall import MemoryOwner
from agentrail.core.values.notes_markdown import NoteTopic


class NoteStore(Protocol):
    """Stores one text for each session of each owner. Every call but `close` may raise `StoreUnavailable`. Callable from any thread."""

    @property
    def is_immediate(self) -> bool:
        """Whether calls return at once, so that no thread is needed."""
        ...

    def read(self, owner: MemoryOwner, session: str) -> str:
        """Return the notes of a session, empty if there are none.

        Raises:
            NotAStore: Your move: the file cannot be notes, for example a link or bytes that are not UTF-8. It was not
                changed.
        """
        ...

    def change(self, owner: MemoryOwner, session: str, edit: Callable[[str], str]) -> str:
        """Replace the notes of a session atomically. The change is durable when this returns.

        Calls for one store are serialised, and each sees the result of the one before. An empty text removes the notes.

        Args:
            owner: Owner of the session.
            session: Id of the session, unique for the owner.
            edit: Returns the new text for the old one. If it raises, the exception propagates and nothing changes.

        Returns:
            The new text.

        Raises:
            NotAStore: Same as `read`.
        """
        ...

    def forget(self, owner: MemoryOwner) -> int:
        """Remove the notes of all sessions of an owner, and return their number. Idempotent."""
        ...

    def close(self) -> None:
        """Close the store. Idempotent."""
        ...


class Notes(Protocol):
    """A session's access to its own notes, `ctx.notes` in its tools.

    Every call is a checkpoint, and may raise `StoreUnavailable` or `NotAStore`.

    Cancellation: A change that has started is completed, and only its result is lost.
    """

    async def read(self) -> str:
        """Return the whole text."""
        ...

    async def topics(self) -> tuple[NoteTopic, ...]:
        """Return the index: each topic, with its size and last change."""
        ...

    async def add(
        self, topic: str, notes: Iterable[str], *, only_new: bool = False
    ) -> tuple[tuple[str, ...], tuple[NoteTopic, ...]]:
        """Append notes to a topic. Repeating the same call changes nothing.

        Args:
            topic: One line of 1 to 64 characters.
            notes: Texts of at most 8 KiB each.
            only_new: Whether to skip notes that any topic already contains, ignoring case.

        Returns:
            The notes that were not skipped, and the new index.

        Raises:
            OptionError: Your move: no topic, no text, or no room (64 KiB per session).
        """
        ...

    async def remove(self, topic: str) -> bool:
        """Remove a topic with its notes, and return whether it existed."""
        ...
