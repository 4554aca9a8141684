"""Overwriting of deleted data: once for all deletions within a period, because it rewrites the whole file."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

import trio

from agentrail.abc.store import OwedRow, OwedStore, Store
from agentrail.core.values.port_members import offers
from agentrail.errors import AgentrailError, YourMove
from agentrail.logs import Logger
from agentrail.otp.guarded_calls import call_guarded
from agentrail.runtime.store_writer import StoreBug, bug_told

LOGGER: Final = Logger("agentrail.runtime")

OVERWRITE_AFTER_SECONDS: Final = 30.0
"""Seconds without deletions before the file is rewritten."""

LONGEST_WAIT_SECONDS: Final = 600.0
"""Seconds after which it is rewritten even if deletions continue."""

REST_PER_SECOND: Final = 50.0
"""Pause per second of rewriting: repeated purges delay others for a fiftieth of the time."""

MAX_SWEPT_BYTES: Final = 256 * 1024 * 1024
"""After a sweep, larger files are not rewritten: sessions would wait for seconds each hour, without a request."""

_OWED: Final = OwedRow(kind="overwrite", id="removed", body=b"{}")

T = TypeVar("T")


class Write(Protocol):
    def __call__(self, function: Callable[[], T]) -> Awaitable[T]: ...


def note_overwriting(store: Store, *, is_owed: bool) -> None:
    """Store whether the next process must overwrite deleted data. Blocks."""
    if offers(store, OwedStore):
        put, drop = ((_OWED,), ()) if is_owed else ((), ((_OWED.kind, _OWED.id),))
        store.change_owed(put, drop)


class Overwriter:
    def __init__(self, store: Store, write: Write) -> None:
        self._store = store
        self._write = write
        self._is_owed = False  # read and changed only by the writing code
        self._is_due = False
        self._removed = trio.Event()
        self._is_resting = False
        self._has_looked = False
        self.done: int = 0

    async def purge(self, remove: Callable[[], T]) -> T:
        """Delete from the store, and have the data overwritten later.

        Cancellation: A deletion that has not begun is not made. One that has begun completes.
        """
        if self._store.is_immediate:  # deleted data is nowhere else there
            return await self._write(remove)
        try:
            return await self._write(partial(self._purge, remove))
        finally:
            self._removed.set()

    def _become_due(self) -> None:
        self._is_due = True
        self._removed.set()

    def _purge(self, remove: Callable[[], T]) -> T:
        was_due, is_first = self._is_due, not self._is_owed
        self._is_due = True  # here, because the caller may give up a deletion that has begun
        if is_first:
            self._note(is_owed=True)
        try:
            return remove()
        except YourMove:  # nothing was deleted
            self._is_due = was_due
            if is_first:
                self._note(is_owed=False)
            raise

    def after_sweep(self) -> None:
        """Schedule an overwrite after a sweep has deleted something, unless the file is large."""
        path = getattr(self._store, "path", None)
        size = path.stat().st_size if isinstance(path, Path) and path.exists() else 0
        if size > MAX_SWEPT_BYTES:
            told = "swept data is not overwritten in the whole file: the store has %d bytes, more than %d; purge one session to overwrite it"
            LOGGER.info(told, size, MAX_SWEPT_BYTES)
            return
        self._become_due()

    async def run(self) -> None:
        await self._look()
        pause = OVERWRITE_AFTER_SECONDS
        while True:
            await self._removed.wait()
            with trio.move_on_after(LONGEST_WAIT_SECONDS):
                while self._removed.is_set():
                    self._removed = trio.Event()
                    await trio.sleep(pause)
            if not self._is_due:
                continue
            began = trio.current_time()
            if await self._overwrite():
                pause = OVERWRITE_AFTER_SECONDS
            else:  # a reader blocks it, the store is unavailable for now, or it never overwrites
                pause = min(2 * pause, LONGEST_WAIT_SECONDS)
                self._removed.set()
            self._is_resting = True
            await trio.sleep((trio.current_time() - began) * REST_PER_SECOND)
            self._is_resting = False

    async def finish(self) -> None:
        if not self._has_looked:  # a short process may end before its task has
            await self._look()
        if self._is_due and not self._is_resting:
            await self._overwrite()

    async def _look(self) -> None:
        if await self._was_owed():
            self._become_due()
        self._has_looked = True

    # --- in the store's writing thread

    async def _was_owed(self) -> bool:
        store = self._store
        if not offers(store, OwedStore):
            return False
        look = partial(store.owed, _OWED.kind, limit=1)
        try:
            return bool(
                await self._write(partial(call_guarded, bug_told("looking for pending overwrites"), look))
            )
        except (AgentrailError, StoreBug):
            return True  # unknown, and one rewrite too many is harmless

    async def _overwrite(self) -> bool:
        tell = bug_told("overwriting removed data")
        self._is_due = False  # later deletions make it due again
        try:
            is_done = await self._write(partial(call_guarded, tell, self._overwrite_now))
        except (AgentrailError, StoreBug) as error:
            LOGGER.warning("data removed from the store is not overwritten yet: %s", error)
            is_done = False
        self._is_due = self._is_due or not is_done
        return is_done

    def _overwrite_now(self) -> bool:
        is_done = self._store.overwrite_removed()
        if is_done:
            self._note(is_owed=False)
            self.done += 1
        return is_done

    def _note(self, *, is_owed: bool) -> None:
        note_overwriting(self._store, is_owed=is_owed)
        self._is_owed = is_owed
