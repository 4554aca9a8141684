"""Which rows one watcher has, and what to tell them next: merged by key, so that a slow reader is told less often and never of the past.

Pure: a source is asked for rows, and nothing is waited for. What is to be told is kept as keys alone; a row is taken at the moment when a
frame is made of it, so none is ever told that was replaced meanwhile. Frames are bounded, and so is the number of rows.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final, TypeAlias

from attrs import frozen

from agentrail.wire.rows import RowFilter

PART_BYTES: Final = 64 << 10
"""How large the rows of one frame are together, but for a row that is larger by itself."""


TakeRow: TypeAlias = Callable[[str], bytes | None]
"""Gives a row as it is now, as JSON; None where there is none, or none that this watcher may see and wants."""


@frozen(kw_only=True)
class WatchPart:
    """What one frame tells.

    Attributes:
        rows: That are new or other, as JSON.
        gone: The keys that the watcher has and that are not wanted, or not there, any more.
        total: How many rows are wanted in all, also those beyond the limit.
    """

    rows: tuple[bytes, ...]
    gone: tuple[str, ...]
    total: int


class WatchWindow:
    """What one watcher has of a source."""

    __slots__ = ("_inside", "_limit", "_matching", "_pending", "_sent", "_told_total")

    def __init__(self, wanted: RowFilter) -> None:
        """Begin with nothing told."""
        self._limit = wanted.limit
        self._matching: dict[str, None] = {}
        self._inside: dict[str, None] = {}
        self._sent: dict[str, bytes] = {}
        self._pending: dict[str, None] = {}
        self._told_total = 0

    @property
    def total(self) -> int:
        """How many rows are wanted in all."""
        return len(self._matching)

    @property
    def has_more(self) -> bool:
        """Whether something is to be told, or looked at."""
        return bool(self._pending) or self._told_total != self.total

    def note(self, key: str, *, is_wanted: bool) -> None:
        """Take a change of a key, or what it is at the beginning; in the order in which keys changed."""
        self._matching.pop(key, None)
        if is_wanted:
            self._matching[key] = None
        if is_wanted or key in self._sent:
            self._pending[key] = None

    def begin_anew(self) -> None:
        """Forget what is wanted, in front of a `note` for each key that there is; what the watcher has is still known."""
        self._matching.clear()
        self._pending = dict.fromkeys(self._sent)

    def close_gaps(self) -> None:
        """Keep those that changed last, behind one or more `note`: rows beyond the limit go, and others come where there is room.

        It costs what the limit is, however many rows there are.
        """
        self._inside = dict.fromkeys(islice(reversed(self._matching), self._limit))
        for key in (*self._sent, *self._inside):
            if (key in self._sent) != (key in self._inside):
                self._pending[key] = None

    def next_part(self, take: TakeRow) -> WatchPart | None:
        """Give what the next frame tells; None where the watcher has all that there is."""
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
