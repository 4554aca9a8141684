"""What was removed from a store is overwritten: once for all that was removed within a while, because its whole file is written anew for that.

A store overwrites what it removes where that stood. Pages of a file may keep copies of it besides, and only `Store.overwrite_removed` reaches
those; sessions wait as long as it takes. So it is done for who asks for it, by `purge`; and behind a sweep, where the file is small. That it is
owed stands in the store, before anything is removed: a process that dies leaves it to the next one.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, NoReturn, Protocol, TypeVar

import trio

from agentrail.abc.store import OwedRow, OwedStore, Store
from agentrail.core.values.offered import offers
from agentrail.errors import AgentrailError
from agentrail.logs import Logger
from agentrail.otp.edges import call_guarded
from agentrail.otp.exits import keep
from agentrail.otp.leaving import describe_bug
from agentrail.runtime.crashes import MAX_CRASH_MESSAGE, log_crash
from agentrail.runtime.store_writer import StoreBug

LOGGER: Final = Logger("agentrail.runtime")

OVERWRITE_AFTER_SECONDS: Final = 30.0
"""How long nothing may be removed before the file is written anew."""

LONGEST_WAIT_SECONDS: Final = 600.0
"""After this time it is written anew, although things are removed all the time."""

REST_PER_SECOND: Final = 50.0
"""For each second that it took nothing is written anew for so many: who purges again and again holds the others up for a fiftieth of the time."""

MAX_SWEPT_BYTES: Final = 256 * 1024 * 1024
"""Of a larger file a sweep does not ask for it: sessions would wait for seconds each hour, and no one has asked."""

_OWED: Final = OwedRow(kind="overwrite", id="removed", body=b"{}")

T = TypeVar("T")


class Write(Protocol):
    """Lets a function write to the store, between what sessions write."""

    def __call__(self, function: Callable[[], T]) -> Awaitable[T]:
        """Do it, and give what it gave."""
        ...


def bug_told(doing: str) -> Callable[[BaseException], NoReturn]:
    """Make what takes an exception of a store for `call_guarded`: an expected one travels on, another is told to the log, and is a `StoreBug`."""

    def tell(error: BaseException) -> NoReturn:
        if isinstance(error, AgentrailError):
            raise error
        said = describe_bug(error)[:MAX_CRASH_MESSAGE]
        log_crash(f"the store crashed in {doing}: {said}", error, keep)
        raise StoreBug(said) from None

    return tell


class Overwriter:
    """Sees to it that nothing of what was removed stands in a file of the store, some time later."""

    def __init__(self, store: Store, write: Write) -> None:
        """Nothing is asked of the store yet."""
        self._store = store
        self._write = write
        self._is_owed = False  # read and changed by what writes alone
        self._is_due = False
        self._removed = trio.Event()
        self._is_resting = False
        self.done: int = 0

    async def purge(self, remove: Callable[[], T]) -> T:
        """Let the store remove something, and have all of it overwritten in a while.

        Cancellation: What has not begun is not done; what has is.
        """
        if self._store.is_immediate:  # what is removed there is nowhere else
            return await self._write(remove)
        removed = await self._write(partial(self._purge, remove))
        self._become_due()
        return removed

    def _become_due(self) -> None:
        self._is_due = True
        self._removed.set()

    def _purge(self, remove: Callable[[], T]) -> T:
        is_first = not self._is_owed
        if is_first:
            self._note(is_owed=True)
        try:
            return remove()
        except AgentrailError:
            if is_first:
                self._note(is_owed=False)
            raise

    def after_sweep(self) -> None:
        """Hear that a sweep has removed something: it is overwritten in a while too, unless the file is large."""
        path = getattr(self._store, "path", None)
        size = path.stat().st_size if isinstance(path, Path) and path.exists() else 0
        if size > MAX_SWEPT_BYTES:
            LOGGER.info(
                "what was swept is not overwritten beyond where it stood: the store has %d bytes, more than %d; purge one session to have it done",
                size,
                MAX_SWEPT_BYTES,
            )
            return
        self._become_due()

    async def run(self) -> None:
        """Overwrite what is owed from before, and what is removed from now on.

        Cancellation: At once; what is owed stays so, and what has begun is done.
        """
        if await self._was_owed():
            self._become_due()
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
            else:  # a reader stood in the way, the store is not there for now, or it never does it
                pause = min(2 * pause, LONGEST_WAIT_SECONDS)
                self._removed.set()
            self._is_resting = True
            await trio.sleep((trio.current_time() - began) * REST_PER_SECOND)
            self._is_resting = False

    async def finish(self) -> None:
        """Overwrite what waits for others, before the store is closed; not where that has just taken long.

        Cancellation: What is owed stays so.
        """
        if self._is_due and not self._is_resting:
            await self._overwrite()

    # --- where all else is written

    async def _was_owed(self) -> bool:
        store = self._store
        if not offers(store, OwedStore):
            return False
        look = partial(store.owed, _OWED.kind, limit=1)
        try:
            return bool(await self._write(partial(call_guarded, bug_told("looking for what is owed"), look)))
        except (AgentrailError, StoreBug):
            return True  # it is not known, and once too often does no harm

    async def _overwrite(self) -> bool:
        tell = bug_told("overwriting what was removed")
        self._is_due = False  # what is removed meanwhile is due again
        try:
            is_done = await self._write(partial(call_guarded, tell, self._overwrite_now))
        except (AgentrailError, StoreBug) as error:
            LOGGER.warning("what was removed from the store is not overwritten yet: %s", error)
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
        if offers(self._store, OwedStore):
            put, drop = ((_OWED,), ()) if is_owed else ((), ((_OWED.kind, _OWED.id),))
            self._store.change_owed(put, drop)
        self._is_owed = is_owed
