"""A store on a virtual clock, whose disk is away for a while: what waits for it waits in no real time."""

from collections.abc import Callable
from typing import Any

import trio

from agentrail.errors import StoreUnavailable
from agentrail.outside import RealMachine
from agentrail.stores.memory import MemoryStore


class Disk(RealMachine):
    """Worker threads of a virtual clock. The writer of the store is kept waiting, or refused, for as long as an outage lasts."""

    def __init__(self, begins: float, lasts: float, *, hangs: bool) -> None:
        self.begins, self.ends, self.hangs = begins, begins + lasts, hangs
        self.is_refusing = False

    def wall(self) -> float:
        return trio.current_time()

    async def offload(
        self, function: Callable[..., Any], /, *args: Any, limiter: Any = None, **_: Any
    ) -> Any:
        """Call in place; the writer of a store, which has a thread of its own, when its disk answers."""
        await trio.sleep(0.01)
        if limiter is None or limiter.total_tokens != 1:
            return function(*args)
        is_away = self.begins <= trio.current_time() < self.ends
        if is_away and self.hangs:
            await trio.sleep_until(self.ends)
        self.is_refusing = is_away and not self.hangs
        return function(*args)


class StoreOnDisk:
    """A store in memory that takes its time, and refuses while its disk does."""

    is_immediate = False

    def __init__(self, disk: Disk) -> None:
        self._disk, self._inner = disk, MemoryStore(now_ms=lambda: int(trio.current_time() * 1000))

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if self._disk.is_refusing and name in ("append", "beat", "release", "put_snapshot", "create"):
                message = "the disk is full"
                raise StoreUnavailable(message)
            return getattr(self._inner, name)(*args, **options)

        return call
