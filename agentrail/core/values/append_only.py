"""Values that grow at their end in O(1), while all their older versions stay what they were.

All versions of one value share one container, and each knows how much of it is its own. Only the newest version may
write behind its end; who adds to an older one gets a copy of its part, so a fork never disturbs the line it came from.

Not a persistent vector with its tree: conversations are read from one end to the other for every request, and a list
does that ten times faster.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar, overload

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)


class Log(Sequence[T], Generic[T]):
    """An immutable sequence to which one can add at the end in O(1)."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: Sequence[T] = ()) -> None:
        """Start with a copy of the items."""
        self._items: list[T] = list(items)
        self._length = len(self._items)

    def appended(self, item: T) -> "Log[T]":
        """Return this sequence with one more item; this one stays as it is."""
        longer: Log[T] = Log.__new__(Log)
        newest = len(self._items) == self._length
        # An empty one is never written through: it may be the default of a field, which many sessions share.
        longer._items = self._items if newest and self._length else self._items[: self._length]
        longer._items.append(item)
        longer._length = self._length + 1
        return longer

    def grew_from(self, older: "Log[T]") -> bool:
        """Say at once, without a look at the items, that this sequence begins with all of an older one.

        Args:
            older: Perhaps a version that this one came from by `appended`, or this one.

        Returns:
            False where it does not, or where only a comparison could tell.
        """
        return self._items is older._items and self._length >= older._length  # noqa: SLF001 - of its own class

    def __len__(self) -> int:
        """Count the items of this version."""
        return self._length

    def __iter__(self) -> Iterator[T]:
        """Give the items of this version, also while newer versions grow."""
        return islice(self._items, self._length)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        """Give one item, or a tuple of some."""
        if isinstance(index, slice):
            start, stop, stride = index.indices(self._length)
            if stride < 0:  # then `stop` may be -1, which a second slice would count from the end
                return tuple(self._items[position] for position in range(start, stop, stride))
            items = self._items
            # All of them at once, without a list in between: plugins are shown the whole conversation before each request.
            is_all = start == 0 and stop == len(items) and stride == 1
            return tuple(items if is_all else items[start:stop:stride])
        if not -self._length <= index < self._length:
            message = f"index {index} is outside of a log of {self._length}"
            raise IndexError(message)
        return self._items[index if index >= 0 else self._length + index]

    def __eq__(self, other: object) -> bool:
        """Two logs are equal when they hold equal items."""
        return isinstance(other, Log) and self[:] == other[:]

    def __hash__(self) -> int:
        """Hash by length: items need not be hashable."""
        return hash(self._length)

    def __repr__(self) -> str:
        """Show the items."""
        return f"Log({list(self)!r})"


class GrowingSet(Generic[H]):
    """An immutable set to which one can add in O(1)."""

    __slots__ = ("_count", "_first_seen")

    def __init__(self) -> None:
        """Start empty."""
        self._first_seen: dict[H, int] = {}
        self._count = 0

    def added(self, item: H) -> "GrowingSet[H]":
        """Return this set with one more item; this one stays as it is."""
        if item in self:
            return self
        grown: GrowingSet[H] = GrowingSet.__new__(GrowingSet)
        newest = len(self._first_seen) == self._count
        grown._first_seen = (
            self._first_seen
            if newest and self._count
            else dict(list(self._first_seen.items())[: self._count])
        )
        grown._first_seen[item] = self._count
        grown._count = self._count + 1
        return grown

    def __contains__(self, item: object) -> bool:
        """Say whether it is in this version."""
        return self._first_seen.get(item, self._count) < self._count  # type: ignore[arg-type]  # `in` takes anything

    def __len__(self) -> int:
        """Count the items."""
        return self._count

    def __iter__(self) -> Iterator[H]:
        """Give the items in the order in which they were added."""
        return iter(self._items())

    def __eq__(self, other: object) -> bool:
        """Two are equal when they hold the same items, added in the same order."""
        return isinstance(other, GrowingSet) and self._items() == other._items()

    def __hash__(self) -> int:
        """Hash by how many there are."""
        return hash(self._count)

    def _items(self) -> list[H]:
        return list(self._first_seen)[: self._count]
