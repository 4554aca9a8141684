"""Locks by key: tasks with the same key run one after another, in order of arrival. Different keys run concurrently."""

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

import trio


class KeyedLocks:
    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[trio.StrictFIFOLock, int]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the lock of a key inside the block.

        Cancellation: A cancelled wait leaves no trace.
        """
        lock, users = self._locks.get(key, (trio.StrictFIFOLock(), 0))
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
