"""The port of working notes: one Markdown file per session, `NOTES.md`, outside the workspace.

Calls block and need no event loop. Test a store with `agentrail.testing.check_notes`.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from agentrail.abc.recall import MemoryOwner
from agentrail.core.values.notes_markdown import NoteTopic


class NoteStore(Protocol):
    """Stores one text per session and owner. Every call but `close` may raise `StoreUnavailable`. Callable from any thread."""

    @property
    def is_immediate(self) -> bool:
        """Whether calls need no thread."""
        ...

    def read(self, owner: MemoryOwner, session: str) -> str:
        """Return the notes of a session, empty if there are none.

        Raises:
            NotAStore: Your move: the file cannot be notes, for example a link or not UTF-8. Left unchanged.
        """
        ...

    def change(self, owner: MemoryOwner, session: str, edit: Callable[[str], str]) -> str:
        """Replace the notes of a session atomically and durably.

        Calls for one store are serialised. An empty text removes the notes.

        Args:
            owner: Owner of the session.
            session: Id of the session, unique for the owner.
            edit: Returns the new text for the old one. Exceptions propagate and change nothing.

        Returns:
            The new text.

        Raises:
            NotAStore: Same as `read`.
        """
        ...

    def forget(self, owner: MemoryOwner) -> int:
        """Remove all notes of an owner, and return their number. Idempotent."""
        ...

    def close(self) -> None:
        """Close the store. Idempotent."""
        ...


class Notes(Protocol):
    """A session's access to its own notes, `ctx.notes` in its tools.

    Every call is a checkpoint, and may raise `StoreUnavailable` or `NotAStore`.

    Cancellation: A started change is completed, only its result is lost.
    """

    async def read(self) -> str:
        """Return the whole text."""
        ...

    async def topics(self) -> tuple[NoteTopic, ...]:
        """Return each topic, with its size and last change."""
        ...

    async def add(
        self, topic: str, notes: Iterable[str], *, only_new: bool = False
    ) -> tuple[tuple[str, ...], tuple[NoteTopic, ...]]:
        """Append notes to a topic. Idempotent.

        Args:
            topic: One line of 1 to 64 characters.
            notes: Texts of at most 8 KiB each.
            only_new: Whether to skip notes that any topic contains, ignoring case.

        Returns:
            The notes added, and the new index.

        Raises:
            OptionError: Your move: no topic, no text, or no room (64 KiB per session).
        """
        ...

    async def remove(self, topic: str) -> bool:
        """Remove a topic, and return whether it existed."""
        ...
