"""Rows of one watcher, and the next ones to report. A row is read when its frame is built."""

from collections.abc import Callable
from itertools import islice
from typing import Final, TypeAlias

from attrs import frozen

from agentrail.wire.rows import RowFilter

PART_BYTES: Final = 64 << 10
"""Limit on the total size of the rows of one frame. A single row may be larger."""


TakeRow: TypeAlias = Callable[[str], bytes | None]
"""Returns a row in its current state as JSON, or None if this watcher may not see it or does not want it."""


@frozen(kw_only=True)
class WatchPart:
    rows: tuple[bytes, ...]
    gone: tuple[str, ...]
    total: int


class WatchWindow:
    """Rows that one watcher has of a source."""

    __slots__ = ("_inside", "_limit", "_matching", "_pending", "_sent", "_told_total")

    def __init__(self, wanted: RowFilter) -> None:
        self._limit = wanted.limit
        self._matching: dict[str, None] = {}
        self._inside: dict[str, None] = {}
        self._sent: dict[str, bytes] = {}
        self._pending: dict[str, None] = {}
        self._told_total = 0

    @property
    def total(self) -> int:
        return len(self._matching)

    @property
    def has_more(self) -> bool:
        return bool(self._pending) or self._told_total != self.total

    def note(self, key: str, *, is_wanted: bool) -> None:
        """Record the initial state or a change of a key, in the order of changes."""
        self._matching.pop(key, None)
        if is_wanted:
            self._matching[key] = None
        if is_wanted or key in self._sent:
            self._pending[key] = None

    def begin_anew(self) -> None:
        """Forget all matches, before a `note` for each existing key. The rows that the watcher has are still known."""
        self._matching.clear()
        self._pending = dict.fromkeys(self._sent)

    def close_gaps(self) -> None:
        """Apply the limit after one or more `note`: keep the latest changed rows and drop the others.

        The cost depends on the limit, not on the number of rows.
        """
        self._inside = dict.fromkeys(islice(reversed(self._matching), self._limit))
        for key in (*self._sent, *self._inside):
            if (key in self._sent) != (key in self._inside):
                self._pending[key] = None

    def next_part(self, take: TakeRow) -> WatchPart | None:
        """Return the contents of the next frame, or None if the watcher is up to date."""
        rows: list[bytes] = []
        gone: list[str] = []
        size = 0
        while self._pending and size < PART_BYTES:
            key = next(iter(self._pending))
            del self._pending[key]
            row = take(key) if key in self._inside else None
            if row is None:
                if self._sent.pop(key, None) is not None:
                    gone.append(key)
                    size += len(key)
            elif self._sent.get(key) != row:
                self._sent[key] = row
                rows.append(row)
                size += len(row)
        if not rows and not gone and self._told_total == self.total:
            return None
        self._told_total = self.total
        return WatchPart(rows=tuple(rows), gone=tuple(gone), total=self.total)
