"""Which sessions are about to begin, or to go: a store takes time for either, and two tasks must not do it with one id at once.

Knows no session and no store.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class Beginnings:
    """The keys that a task of this supervisor has to itself for now."""

    def __init__(self) -> None:
        self._under_way: dict[str, trio.Event] = {}

    @asynccontextmanager
    async def reserve(self, key: str) -> AsyncIterator[None]:
        """Wait until no other task has a key, and have it until the block ends. What is known of the key must be asked inside.

        Cancellation: At once while it waits; the key is free again whatever ends the block.
        """
        while key in self._under_way:  # not `if`: of several that waited, one is faster
            await self._under_way[key].wait()
        is_over = self._under_way[key] = trio.Event()
        try:
            yield
        finally:
            del self._under_way[key]
            is_over.set()
