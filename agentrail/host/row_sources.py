"""Row sources of a watch: current rows by key, and the changes since a version."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import trio
from attrs import define, field

from agentrail.wire.plain import encode_plain
from agentrail.wire.rows import RowFilter

MAX_CHANGES: Final = 20_000
"""Number of remembered changes. A watcher that is further behind reads all rows again."""


@define(eq=False)
class ChangeLog:
    version: int = field(init=False, default=0)
    _changes: dict[str, int] = field(init=False, factory=dict)
    _forgotten: int = field(init=False, default=0)
    _parked: trio.lowlevel.ParkingLot = field(init=False, factory=trio.lowlevel.ParkingLot)

    def note(self, key: str) -> None:
        self.version += 1
        self._changes.pop(key, None)
        self._changes[key] = self.version
        if len(self._changes) > MAX_CHANGES:
            oldest = next(iter(self._changes))
            self._forgotten = self._changes.pop(oldest)
        self.wake()

    def since(self, version: int) -> list[str] | None:
        """Return the keys changed since a version, latest first. None if no longer remembered."""
        if version < self._forgotten:
            return None
        found = []
        for key, changed_at in reversed(self._changes.items()):
            if changed_at <= version:
                break
            found.append(key)
        return found

    def wake(self) -> None:
        self._parked.unpark_all()

    async def wait(self) -> None:
        await self._parked.park()


class RowFeed(ABC):
    """Follows the subject of rows while there are watchers."""

    @abstractmethod
    async def run(self, up: trio.Event) -> None:
        """Follow the subject until cancelled or until it ends."""


class RowSource(ABC):
    """Changing rows. One object for all watchers of the same thing of the same tenant.

    Attributes:
        log: The changes.
    """

    def __init__(self) -> None:
        self.log: ChangeLog = ChangeLog()
        self._written: dict[str, bytes] = {}

    @property
    def is_marked(self) -> bool:
        return False

    @abstractmethod
    async def settle(self) -> None:
        """Update the rows, at most four times a second per watcher. If cancelled, the next call does the rest."""

    async def wait_newer(self, version: int) -> None:
        if self.log.version == version and not self.is_marked:
            await self.log.wait()
        else:
            await trio.lowlevel.checkpoint()

    @abstractmethod
    def keys(self) -> Iterable[str]:
        """Return all keys, the last changed one at the end."""

    @abstractmethod
    def row(self, key: str) -> msgspec.Struct | None:
        """Return a row, or None for an unknown key."""

    def is_of(self, key: str, user_id: str) -> bool:
        """Return whether a row belongs to a user. Rows without owner belong to all."""
        return True

    def fits(self, row: Any, wanted: RowFilter) -> bool:
        return True

    def note(self, key: str) -> None:
        """Note that a row has changed, or has gone."""
        self._written.pop(key, None)
        self.log.note(key)

    def written(self, key: str) -> bytes | None:
        row = self.row(key)
        if row is not None and key not in self._written:
            self._written[key] = encode_plain(row)
        return self._written.get(key)


class TakenRows(RowSource, RowFeed):
    """Rows that are polled as a whole, because there are no change notifications."""

    def __init__(
        self, take: Callable[[], Awaitable[Mapping[str, msgspec.Struct]]], *, every_seconds: float = 1.0
    ) -> None:
        super().__init__()
        self._take = take
        self._every = every_seconds
        self._rows: dict[str, msgspec.Struct] = {}
        self._taken_at = float("-inf")
        self._taking = trio.Lock()

    async def run(self, up: trio.Event) -> None:
        up.set()
        await trio.sleep_forever()

    async def settle(self) -> None:
        async with self._taking:
            if trio.current_time() < self._taken_at + self._every:
                return
            rows = await self._take()
            self._taken_at = trio.current_time()
            for key in [key for key in self._rows if key not in rows]:
                del self._rows[key]
                self.note(key)
            for key, row in rows.items():
                if self._rows.get(key) != row:
                    self._rows.pop(key, None)
                    self._rows[key] = row
                    self.note(key)

    async def wait_newer(self, version: int) -> None:
        """Wait until the next poll is due or a change was noted."""
        with trio.move_on_at(self._taken_at + self._every):
            await super().wait_newer(version)

    def look_now(self) -> None:
        self._taken_at = float("-inf")
        self.log.wake()

    def keys(self) -> Iterable[str]:
        return tuple(self._rows)

    def row(self, key: str) -> msgspec.Struct | None:
        return self._rows.get(key)
