"""One after another, in the order in which they came, for each key; different keys side by side."""

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

import trio


class KeyedLocks:
    """A lock per key, for as long as a task holds it or waits for it."""

    def __init__(self) -> None:
        """Hold none."""
        self._locks: dict[Hashable, tuple[trio.Lock, int]] = {}

    def __len__(self) -> int:
        """Count the keys that a task holds or waits for."""
        return len(self._locks)

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the lock of a key inside the block.

        Cancellation: While waiting, it is as if it had not been asked for.
        """
        lock, users = self._locks.get(key, (trio.Lock(), 0))
        self._locks[key] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[key]
            if users == 1:
                del self._locks[key]
            else:
                self._locks[key] = lock, users - 1
