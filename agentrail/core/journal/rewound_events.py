"""Events of a journal that count: a rewind does not reset numbers, so those it undid are skipped. Pure."""

from collections.abc import Iterable
from typing import TypeAlias

from agentrail.core.journal.record import REWOUND, Record, decode_rewound
from agentrail.errors import CodecError

NumberRange: TypeAlias = tuple[int, int]
"""The first and the last of consecutive numbers."""


class UndoneEvents:
    """Follows the records of one journal, and tracks the numbers of events that no longer count."""

    __slots__ = ("_events", "ranges", "seen")

    def __init__(self) -> None:
        self.seen: int = 0
        self.ranges: tuple[NumberRange, ...] = ()
        self._events: dict[int, int] = {}

    def follow(self, records: Iterable[Record]) -> None:
        """Add records after the last one, in order. An unreadable record undoes nothing."""
        for record in records:
            self.seen = record.seq
            if record.kind == REWOUND:
                self._take_back(record)
            self._events[record.seq] = record.events

    def _take_back(self, record: Record) -> None:
        try:
            target = decode_rewound(record.body).number
        except CodecError:
            return
        first = self._events.get(target, 0) + 1
        before = tuple([(low, min(high, first - 1)) for low, high in self.ranges if low < first])
        if first <= record.events:
            self.ranges = (*before, (first, record.events))


def range_before(before: int, limit: int, undone: Iterable[NumberRange]) -> NumberRange:
    """Return the range of the last `limit` numbers that count, before a number."""
    first, left = before, limit
    for low, high in reversed(tuple(undone)):
        if high >= first:
            first = min(first, low)
            continue
        count = first - 1 - high
        if count >= left:
            break
        left -= count
        first = low
    return max(1, first - left), before - 1


def range_after(after: int, last: int, limit: int, undone: Iterable[NumberRange]) -> NumberRange:
    """Return the range of the first `limit` numbers that count, after a number. Same as `range_before`."""
    end, left = after, limit
    for low, high in undone:
        if low <= end:
            end = max(end, high)
            continue
        count = low - 1 - end
        if count >= left:
            break
        left -= count
        end = high
    return after + 1, min(last, end + left)


def counts(number: int, undone: Iterable[NumberRange]) -> bool:
    return not any(low <= number <= high for low, high in undone)
