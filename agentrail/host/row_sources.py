"""Where the rows of a watch come from: what there is, by key, and what has changed since a number.

How a source is added: derive from `RowSource`, or give `TakenRows` an async function that gives all rows; then name it in the table
`WATCH_KINDS` of the gateway. Trio, and no frames: who watches, which rows they get and when is decided there.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import trio

from agentrail.wire.plain import encode_plain
from agentrail.wire.rows import RowFilter

MAX_CHANGES: Final = 20_000
"""Changes that a log remembers; a watcher that has seen fewer looks at all rows again."""


class ChangeLog:
    """Which keys have changed, and in which order: each once, however often it did."""

    __slots__ = ("_changes", "_forgotten", "_parked", "version")

    def __init__(self) -> None:
        """Begin without changes."""
        self.version: int = 0
        self._changes: dict[str, int] = {}
        self._forgotten = 0
        self._parked = trio.Event()

    def note(self, key: str) -> None:
        """Say that a key has another row now, or none any more."""
        self.version += 1
        self._changes.pop(key, None)
        self._changes[key] = self.version
        if len(self._changes) > MAX_CHANGES:
            oldest = next(iter(self._changes))
            self._forgotten = self._changes.pop(oldest)
        self.wake()

    def since(self, version: int) -> list[str] | None:
        """Give the keys that have changed behind a number, the last one first; None where that is not remembered any more."""
        if version < self._forgotten:
            return None
        found = []
        for key, changed_at in reversed(self._changes.items()):
            if changed_at <= version:
                break
            found.append(key)
        return found

    def wake(self) -> None:
        """Let all look who wait for something new."""
        parked, self._parked = self._parked, trio.Event()
        parked.set()

    async def wait(self) -> None:
        """Wait until there may be something new.

        Cancellation: Nothing is lost by it.
        """
        await self._parked.wait()


class RowFeed(ABC):
    """Follows what rows are of, as long as anyone watches."""

    @abstractmethod
    async def run(self, up: trio.Event) -> None:
        """Follow it, until cancelled, or until there is nothing more to follow.

        Cancellation: At once, when the last watcher leaves.
        """


class RowSource(ABC):
    """Rows that change. One object for all who watch the same thing of the same tenant.

    Attributes:
        log: What has changed.
    """

    def __init__(self) -> None:
        """Begin without rows."""
        self.log: ChangeLog = ChangeLog()
        self._written: dict[str, tuple[msgspec.Struct, bytes]] = {}

    @property
    def is_marked(self) -> bool:
        """Whether something was noted that `settle` has not looked at yet."""
        return False

    @abstractmethod
    async def settle(self) -> None:
        """Bring the rows up to date with what was noted. Called at most four times a second for each watcher.

        Cancellation: At once; the next call does the rest.
        """

    async def wait_newer(self, version: int) -> None:
        """Wait until there may be more than what had this number.

        Cancellation: Nothing is lost by it.
        """
        if self.log.version == version and not self.is_marked:
            await self.log.wait()
        else:
            await trio.lowlevel.checkpoint()

    @abstractmethod
    def keys(self) -> Iterable[str]:
        """Give all keys, the one that changed last behind all others."""

    @abstractmethod
    def row(self, key: str) -> msgspec.Struct | None:
        """Give a row; None where there is none of this key. The same object until it changes."""

    def is_of(self, key: str, user_id: str) -> bool:
        """Say whether a row belongs to a user; where rows belong to none, to all who may watch."""
        return True

    def fits(self, row: Any, wanted: RowFilter) -> bool:
        """Say whether a row is among those that are wanted; the limit is not looked at."""
        return True

    def written(self, key: str) -> bytes | None:
        """Give a row as JSON, made once for all watchers; None as of `row`."""
        row = self.row(key)
        if row is None:
            self._written.pop(key, None)
            return None
        known = self._written.get(key)
        if known is None or known[0] is not row:
            known = self._written[key] = (row, encode_plain(row))
        return known[1]


class TakenRows(RowSource, RowFeed):
    """Rows that are looked at from time to time as a whole, because nothing tells of their changes.

    rows = TakenRows(partial(rows_of_tree, host, tenant_id), every_seconds=1.0)
    """

    def __init__(
        self, take: Callable[[], Awaitable[Mapping[str, msgspec.Struct]]], *, every_seconds: float = 1.0
    ) -> None:
        """Begin without rows."""
        super().__init__()
        self._take = take
        self._every = every_seconds
        self._rows: dict[str, msgspec.Struct] = {}
        self._taken_at = float("-inf")
        self._taking = trio.Lock()

    async def run(self, up: trio.Event) -> None:
        """Have nothing to follow: watchers look."""
        up.set()
        await trio.sleep_forever()

    async def settle(self) -> None:
        """Look at all rows, where that was not done just now."""
        async with self._taking:
            if trio.current_time() < self._taken_at + self._every:
                return
            rows = await self._take()
            self._taken_at = trio.current_time()
            for key in [key for key in self._rows if key not in rows]:
                del self._rows[key]
                self.log.note(key)
            for key, row in rows.items():
                if self._rows.get(key) != row:
                    self._rows.pop(key, None)
                    self._rows[key] = row
                    self.log.note(key)

    async def wait_newer(self, version: int) -> None:
        """Wait until it is time to look again, or something was noted; `log.wake()` lets watchers look at once.

        Cancellation: Nothing is lost by it.
        """
        with trio.move_on_at(self._taken_at + self._every):
            await super().wait_newer(version)

    def look_now(self) -> None:
        """Let the next `settle` look, however short the last look is ago: something has happened that changes rows."""
        self._taken_at = float("-inf")
        self.log.wake()

    def keys(self) -> Iterable[str]:
        """Give all keys."""
        return tuple(self._rows)

    def row(self, key: str) -> msgspec.Struct | None:
        """Give a row."""
        return self._rows.get(key)
