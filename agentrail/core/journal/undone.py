"""Which events of a journal count: numbers go on behind a rewind, so those between where it went back to and where it stood do not. Pure.

Numbers of events are dense from 1. What a rewind has undone is a few ranges of them, and a page of events is found by counting around these.
No store enters: records are given.
"""

from collections.abc import Iterable
from typing import TypeAlias

from agentrail.core.journal.record import REWOUND, Record, decode_rewound
from agentrail.errors import CodecError

NumberRange: TypeAlias = tuple[int, int]
"""The first and the last of some numbers in a row."""


class UndoneEvents:
    """Follows the records of one journal, and knows which numbers of events do not count any more.

    Attributes:
        seen: The number of the last record that was followed.
        ranges: What is undone, in order, none touching another.
    """

    __slots__ = ("_events", "ranges", "seen")

    def __init__(self) -> None:
        """Begin in front of the first record."""
        self.seen: int = 0
        self.ranges: tuple[NumberRange, ...] = ()
        self._events: dict[int, int] = {}

    def follow(self, records: Iterable[Record]) -> None:
        """Take records behind the last one that was taken, in order; of one that cannot be read nothing is undone."""
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
    """Give the range that the last `limit` numbers which count lie in, in front of one."""
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
    """Give the range that the first `limit` numbers which count lie in, behind one; as of `range_before`."""
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
    """Say whether an event counts."""
    return not any(low <= number <= high for low, high in undone)
