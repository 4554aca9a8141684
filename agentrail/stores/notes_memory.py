"""`InMemoryNotes`: working notes in a dictionary. For tests and throw-away programs: nothing of it outlives the process."""

import threading
from collections.abc import Callable
from typing import Final

from agentrail.abc.recall import MemoryOwner
from agentrail.errors import StoreUnavailable


class InMemoryNotes:
    """Keeps notes in this process. See `NoteStore` for what each call promises."""

    is_immediate: Final = True

    def __init__(self) -> None:
        """Begin with nothing."""
        self._texts: dict[MemoryOwner, dict[str, str]] = {}
        self._turn = threading.RLock()
        self._is_closed = False

    def __repr__(self) -> str:
        """Say of how many sessions there are some."""
        return f"InMemoryNotes(sessions={sum(map(len, self._texts.values()))})"

    def read(self, owner: MemoryOwner, session: str) -> str:
        """Give the notes of a session; see `NoteStore.read`."""
        with self._turn:
            return self._open().get(owner, {}).get(session, "")

    def change(self, owner: MemoryOwner, session: str, edit: Callable[[str], str]) -> str:
        """Put another text in their place; see `NoteStore.change`."""
        with self._turn:
            text = edit(self._open().get(owner, {}).get(session, ""))
            if text:
                self._texts.setdefault(owner, {})[session] = text
            else:
                self._texts.get(owner, {}).pop(session, None)
        return text

    def forget(self, owner: MemoryOwner) -> int:
        """Remove all of an owner; see `NoteStore.forget`."""
        with self._turn:
            return len(self._open().pop(owner, {}))

    def close(self) -> None:
        """Forget all of it; again if you like."""
        with self._turn:
            self._is_closed = True
            self._texts = {}

    def _open(self) -> dict[MemoryOwner, dict[str, str]]:
        if self._is_closed:
            message = "the notes of this process were closed"
            raise StoreUnavailable(message)
        return self._texts
