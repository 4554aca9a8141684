"""Two persistent maps that share structure between versions: `Table` for whole numbers, in order, and `Index` for any key.

A supervisor with ten thousand children changes one of them per step, a machine may set one of a hundred
thousand timers per event, and older states must stay unchanged. Both maps are therefore trees with 32 branches
per node, and a change copies one path. Numbers in a `Table` grow and are never reused, so it needs no
balancing: its shape *is* the order. An `Index` *is* a copied dict up to 32 entries. Beyond that, entries are
spread by hash.

Rejected: a dict shared by all versions, as `Log` shares its list. Entries are removed here as often as they are
    added.
"""

from collections.abc import Hashable, Iterator
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar, final

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_BITS: Final = 5
# Also the largest leaf of an index, so that a copy is one small block of memory.
_BRANCHES: Final = 1 << _BITS
_HASH_BITS: Final = 60  # deeper than this all hashes are equal, and a leaf grows instead

# 32 nodes, or 32 values on the lowest level, and `None` for an empty place.
_Node: TypeAlias = tuple[Any, ...]
_EMPTY: Final[_Node] = (None,) * _BRANCHES

_Leaf: TypeAlias = dict[Any, Any]
_Tree: TypeAlias = "_Leaf | tuple[_Tree, ...]"  # node of an index: 32 branches, or a leaf
_EMPTY_LEAF: Final[_Leaf] = {}


@final
class Table(Generic[V]):
    """A persistent map from whole numbers, 0 and up, to values other than `None`, in the order of the numbers."""

    __slots__ = ("_height", "_root", "count")

    def __init__(self) -> None:
        self._root = _EMPTY
        self._height = 1
        self.count: int = 0

    def get(self, number: int) -> V | None:
        """Return the value at this number, or `None`."""
        shift = _BITS * self._height
        if number < 0 or number >> shift:
            return None
        node: Any = self._root
        while shift:
            shift -= _BITS
            node = node[number >> shift & _BRANCHES - 1]
            if node is None:
                return None
        found: V = node
        return found

    def put(self, number: int, value: V) -> "Table[V]":
        """Return this table with the value at this number, replacing any previous one."""
        return self.add(number, value) if self.get(number) is None else self.replace(number, value)

    def add(self, number: int, value: V) -> "Table[V]":
        """Return this table with the value at this number, which must be empty."""
        root, height = self._root, self._height
        while number >> _BITS * height:
            root = (root if self.count else None, *_EMPTY[1:])
            height += 1
        return _table(_put(root, height, number, value), height, self.count + 1)

    def replace(self, number: int, value: V) -> "Table[V]":
        """Return this table with another value at this number, which must have one."""
        return _table(_put(self._root, self._height, number, value), self._height, self.count)

    def drop(self, number: int) -> "Table[V]":
        """Return this table without the entry at this number, or the same table if it has none."""
        return self if self.get(number) is None else self.remove(number)

    def remove(self, number: int) -> "Table[V]":
        """Return this table without the entry at this number, which must exist."""
        return _table(_drop(self._root, self._height, number) or _EMPTY, self._height, self.count - 1)

    def first(self, at_least: int = 0) -> tuple[int, V] | None:
        """Return the entry with the smallest number that is not below `at_least`."""
        return _first(self._root, self._height, max(at_least, 0)) if self.count else None

    def last(self, below: int) -> tuple[int, V] | None:
        """Return the entry with the largest number below this one."""
        return _last(self._root, self._height, below - 1) if below > 0 else None

    def items(self) -> Iterator[tuple[int, V]]:
        """Iterate over all entries in the order of their numbers."""
        return _items(self._root, self._height)

    def changed_since(self, before: "Table[V]") -> Iterator[int]:
        """Iterate over the numbers whose values are not the same objects in an earlier version. Shared parts cost nothing."""
        then = before._root  # noqa: SLF001 - of the same class
        for _ in range(before._height, self._height):  # noqa: SLF001 - of the same class
            then = (then, *_EMPTY[1:])
        return _changed(self._root, then, self._height)

    def __eq__(self, other: object) -> bool:
        # Not the trees: their height depends on earlier contents.
        return isinstance(other, Table) and self.count == other.count and [*self.items()] == [*other.items()]

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # values may be anything

    def __repr__(self) -> str:
        return f"Table({dict(self.items())!r})"


@final
class Index(Generic[K, V]):
    """A persistent map from any keys to values other than `None`. It has no order: decisions must not depend on one."""

    __slots__ = ("_root", "count")

    def __init__(self) -> None:
        self._root: _Tree = _EMPTY_LEAF
        self.count: int = 0

    def get(self, key: K) -> V | None:
        """Return the value of this key, or `None`."""
        node = self._root
        if isinstance(node, tuple):
            place = hash(key)
            while isinstance(node, tuple):
                node = node[place % _BRANCHES]
                place >>= _BITS
        return node.get(key)

    def put(self, key: K, value: V) -> "Index[K, V]":
        """Return this index with the value under this key, replacing any previous one."""
        node = self._root
        if isinstance(node, dict) and len(node) < _BRANCHES:  # most indexes stay this small
            leaf = {**node, key: value}
            return _index(leaf, len(leaf))
        count = self.count if self.get(key) is not None else self.count + 1
        return _index(_put_hashed(node, key, value, hash(key), 0), count)

    def drop(self, key: K) -> "Index[K, V]":
        """Return this index without this key, or the same index if it has no such key."""
        if self.get(key) is None:
            return self
        if self.count == 1:
            return NO_ENTRIES
        return _index(_drop_hashed(self._root, key, hash(key)), self.count - 1)

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over all entries, in no order."""
        return _leaf_items(self._root)

    def __eq__(self, other: object) -> bool:
        # Not the trees: their shape depends on earlier contents.
        return (
            isinstance(other, Index)
            and self.count == other.count
            and dict(self.items()) == dict(other.items())
        )

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # values may be anything

    def __repr__(self) -> str:
        return f"Index({dict(self.items())!r})"


def _table(root: _Node, height: int, count: int) -> Table[V]:
    table: Table[V] = Table.__new__(Table)
    table._root = root  # noqa: SLF001 - the second constructor of the class above
    table._height = height  # noqa: SLF001
    table.count = count
    return table


def _put(node: _Node, height: int, number: int, value: object) -> _Node:
    shift = _BITS * (height - 1)
    branch = number >> shift & _BRANCHES - 1
    if shift:
        value = _put(node[branch] or _EMPTY, height - 1, number, value)
    return _with(node, branch, value)


def _with(node: tuple[Any, ...], branch: int, value: object) -> tuple[Any, ...]:
    changed = list(node)  # half the cost of joining the parts before and after
    changed[branch] = value
    return tuple(changed)


def _drop(node: _Node, height: int, number: int) -> _Node | None:
    shift = _BITS * (height - 1)
    branch = number >> shift & _BRANCHES - 1
    rest = _drop(node[branch], height - 1, number) if shift else None
    after = _with(node, branch, rest)
    return None if rest is None and after == _EMPTY else after


def _first(node: _Node, height: int, at_least: int) -> tuple[int, Any] | None:
    shift = _BITS * (height - 1)
    start = at_least >> shift
    for branch in range(start, _BRANCHES):
        child = node[branch]
        if child is not None:
            rest = at_least - (start << shift) if branch == start else 0
            found = _first(child, height - 1, rest) if shift else (0, child)
            if found is not None:
                return (branch << shift) + found[0], found[1]
    return None


def _last(node: _Node, height: int, at_most: int) -> tuple[int, Any] | None:
    shift = _BITS * (height - 1)
    start = at_most >> shift
    for branch in range(min(start, _BRANCHES - 1), -1, -1):
        child = node[branch]
        if child is not None:
            rest = at_most - (start << shift) if branch == start else (1 << shift) - 1
            found = _last(child, height - 1, rest) if shift else (0, child)
            if found is not None:
                return (branch << shift) + found[0], found[1]
    return None


def _items(node: _Node, height: int, base: int = 0) -> Iterator[tuple[int, Any]]:
    shift = _BITS * (height - 1)
    for branch, child in enumerate(node):
        if child is not None:
            number = base + (branch << shift)
            if shift:
                yield from _items(child, height - 1, number)
            else:
                yield number, child


def _changed(node: _Node, before: _Node, height: int, base: int = 0) -> Iterator[int]:
    shift = _BITS * (height - 1)
    for branch, (now, then) in enumerate(zip(node, before, strict=True)):
        if now is not then:
            number = base + (branch << shift)
            if shift:
                yield from _changed(now or _EMPTY, then or _EMPTY, height - 1, number)
            else:
                yield number


# --- an index

NO_ENTRIES: Final[Index[Any, Any]] = Index()
"""The empty index. An index that was emptied again is this object."""


def _index(root: _Tree, count: int) -> Index[Any, Any]:
    index: Index[Any, Any] = Index.__new__(Index)
    index._root = root  # noqa: SLF001 - the second constructor of the class above
    index.count = count
    return index


def _put_hashed(node: _Tree, key: object, value: object, place: int, depth: int) -> _Tree:
    if isinstance(node, tuple):
        branch = place % _BRANCHES
        return _with(node, branch, _put_hashed(node[branch], key, value, place >> _BITS, depth + _BITS))
    leaf = {**node, key: value}
    if len(leaf) <= _BRANCHES or depth >= _HASH_BITS:
        return leaf
    branches: list[_Leaf] = [{} for _ in range(_BRANCHES)]
    for each, its_value in leaf.items():
        branches[(hash(each) >> depth) % _BRANCHES][each] = its_value
    return tuple(branches)


def _drop_hashed(node: _Tree, key: object, place: int) -> _Tree:
    if isinstance(node, tuple):
        branch = place % _BRANCHES
        child = _drop_hashed(node[branch], key, place >> _BITS)
        after = _with(node, branch, child)
        # Only when a branch has become empty: checking all its neighbours at every drop would cost too much.
        return after if child else _merged(after)
    leaf = node.copy()
    del leaf[key]
    return leaf


def _merged(branches: tuple[_Tree, ...]) -> _Tree:
    """Merge small branches into one leaf, so that a tree shrinks as it grew and leaves no residue."""
    leaf: _Leaf = {}
    for child in branches:
        if isinstance(child, tuple) or len(leaf) + len(child) > _BRANCHES // 2:
            return branches
        leaf.update(child)
    return leaf


def _leaf_items(node: _Tree) -> Iterator[tuple[Any, Any]]:
    if isinstance(node, tuple):
        for child in node:
            yield from _leaf_items(child)
    else:
        yield from node.items()
