"""Working notes of sessions: one store for all of a supervisor, and for each session its own `NOTES.md`. No tool enters."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

import trio

from agentrail.abc.notes import Notes, NoteStore
from agentrail.abc.recall import MemoryOwner, fault_of_memory_text
from agentrail.core.values.notes import (
    MAX_NOTE_BYTES,
    NoteTopic,
    new_notes,
    topics_of,
    with_notes,
    without_topic,
)
from agentrail.errors import OptionError
from agentrail.outside import Outside
from agentrail.runtime.clock import now_ms

T = TypeVar("T")

_MAX_THREADS: Final = 4
"""How many threads read or write notes at once; the next one waits for one of them."""


class NoteDesk:
    """Carries what sessions ask of a store to where it may block. One of it for each supervisor."""

    def __init__(self, store: NoteStore, outside: Outside) -> None:
        """Take the store.

        Args:
            store: It stays its caller's.
            outside: Where functions that block are run.
        """
        self.store: NoteStore = store
        self._outside = outside
        self._limiter = trio.CapacityLimiter(_MAX_THREADS)

    async def carry(self, function: Callable[[], T]) -> T:
        """Do something with the store.

        Cancellation: What has begun is done all the same, and only its answer is lost.
        """
        if self.store.is_immediate:
            # In place: it takes no time, and a virtual clock would not wait for a thread.
            await trio.lowlevel.checkpoint()
            return function()
        return await self._outside.offload(function, abandon_on_cancel=True, limiter=self._limiter)

    def of(self, owner: MemoryOwner, session: str) -> "OwnNotes":
        """Give a session its notes."""
        return OwnNotes(self, owner, session)


class OwnNotes(Notes):
    """What one session may do with its notes."""

    __slots__ = ("_desk", "_owner", "_session")

    def __init__(self, desk: NoteDesk, owner: MemoryOwner, session: str) -> None:
        """Take whose they are.

        Args:
            desk: Where they are.
            owner: Whose session it is.
            session: Its name among all that the owner has.
        """
        self._desk = desk
        self._owner = owner
        self._session = session

    async def read(self) -> str:
        """Give all of it; see `Notes.read`."""
        return await self._desk.carry(partial(self._desk.store.read, self._owner, self._session))

    async def topics(self) -> tuple[NoteTopic, ...]:
        """Give the index; see `Notes.topics`."""
        return topics_of(await self.read())

    async def add(
        self, topic: str, notes: Iterable[str], *, only_new: bool = False
    ) -> tuple[tuple[str, ...], tuple[NoteTopic, ...]]:
        """Put notes behind those of a topic; see `Notes.add`."""
        given = tuple(notes)
        faults = [fault_of_memory_text("text", note, MAX_NOTE_BYTES) for note in given]
        wrong = [fault for fault in faults if fault is not None]
        if wrong:
            raise OptionError(wrong)
        added: list[str] = []
        at_ms = now_ms()

        def edit(text: str) -> str:
            # Judged by what stands there now, and not by what stood there when it was asked.
            added[:] = new_notes(text, given) if only_new else given
            return with_notes(text, topic, added, at_ms)

        written = await self._change(edit)
        return tuple(added), topics_of(written)

    async def remove(self, topic: str) -> bool:
        """Remove a topic; see `Notes.remove`."""
        found: list[str] = []

        def edit(text: str) -> str:
            left = without_topic(text, topic)
            if left is None:
                return text
            found.append(topic)
            return left

        await self._change(edit)
        return bool(found)

    async def _change(self, edit: Callable[[str], str]) -> str:
        return await self._desk.carry(partial(self._desk.store.change, self._owner, self._session, edit))
