"""The running timers of one machine, as a value: a frozen map whose change costs no copy of the whole.

A machine may hold a hundred thousand named timers and set one per event, so a dict that is copied per change would make
each event dearer with each timer. Up to 32 timers it *is* a copied dict; more are spread by their hash over a tree with
32 branches, of which a change copies one path. Old versions stay as they were. No clock and no order in here: when a
timer is due is for the shell to watch.
"""

from collections.abc import Hashable, Iterator
from typing import Final, Literal, TypeAlias

from msgspec import Struct

TimerKind: TypeAlias = Literal["event", "state", "named"]


class TimerKey(Struct, frozen=True):
    """Which timer of a machine: the one event timer, the one state timer, or one of the named.

    Attributes:
        kind: `event`, `state` or `named`.
        name: Of a named timer its name, else `None`.
    """

    kind: TimerKind
    name: Hashable = None


class Timer(Struct, frozen=True):
    """One timer that runs.

    Attributes:
        epoch: The number of this arming, which no other arming of this machine has.
        due_seconds: When it fires, on the clock of `now`.
        content: What its `TimedOut` will carry.
    """

    epoch: int
    due_seconds: float
    content: object


EVENT_TIMER: Final = TimerKey("event")
STATE_TIMER: Final = TimerKey("state")

_Leaf: TypeAlias = dict[TimerKey, Timer]
_Node: TypeAlias = "_Leaf | tuple[_Node, ...]"
_BITS: Final = 5
_BRANCHES: Final = 1 << _BITS  # also the largest leaf, so that a copy is one small block of memory
_HASH_BITS: Final = 60  # deeper than this all hashes are equal, and a leaf grows instead


class Timers:
    """A frozen map from `TimerKey` to `Timer`. `count` is the number of entries, and an empty one is `NO_TIMERS`."""

    __slots__ = ("_root", "count")

    def __init__(self, root: _Node, count: int) -> None:
        self._root = root
        self.count = count

    def get(self, key: TimerKey) -> Timer | None:
        """Return the timer of this key, or `None` if it does not run."""
        node, place = self._root, hash(key)
        while isinstance(node, tuple):
            node = node[place % _BRANCHES]
            place >>= _BITS
        return node.get(key)

    def put(self, key: TimerKey, timer: Timer) -> "Timers":
        """Return these timers with this one, in place of one with the same key."""
        count = self.count if self.get(key) is not None else self.count + 1
        return Timers(_put(self._root, key, timer, hash(key), 0), count)

    def drop(self, key: TimerKey) -> "Timers":
        """Return these timers without that of this key, which has to be there."""
        if self.count == 1:
            return NO_TIMERS
        return Timers(_drop(self._root, key, hash(key)), self.count - 1)

    def items(self) -> Iterator[tuple[TimerKey, Timer]]:
        """Go through all timers, in no order."""
        return _items(self._root)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Timers):
            return NotImplemented
        # Not the trees: their shape depends on what was in them before.
        return self.count == other.count and dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]  # what a timer carries may be anything

    def __repr__(self) -> str:
        return f"Timers({dict(self.items())!r})"


NO_TIMERS: Final = Timers({}, 0)


def _put(node: _Node, key: TimerKey, timer: Timer, place: int, depth: int) -> _Node:
    if isinstance(node, tuple):
        branch = place % _BRANCHES
        child = _put(node[branch], key, timer, place >> _BITS, depth + _BITS)
        return (*node[:branch], child, *node[branch + 1 :])
    leaf = {**node, key: timer}
    if len(leaf) <= _BRANCHES or depth >= _HASH_BITS:
        return leaf
    branches: list[_Leaf] = [{} for _ in range(_BRANCHES)]
    for each, its_timer in leaf.items():
        branches[(hash(each) >> depth) % _BRANCHES][each] = its_timer
    return tuple(branches)


def _drop(node: _Node, key: TimerKey, place: int) -> _Node:
    if isinstance(node, tuple):
        branch = place % _BRANCHES
        child = _drop(node[branch], key, place >> _BITS)
        after = (*node[:branch], child, *node[branch + 1 :])
        # Only when a branch has become empty: to look at all its neighbours at every drop would cost too much.
        return after if child else _merged(after)
    leaf = node.copy()
    del leaf[key]
    return leaf


def _merged(branches: tuple[_Node, ...]) -> _Node:
    """Make one leaf of branches that have become small, so that a tree shrinks as it grew: no residue."""
    leaf: _Leaf = {}
    for child in branches:
        if isinstance(child, tuple) or len(leaf) + len(child) > _BRANCHES // 2:
            return branches
        leaf.update(child)
    return leaf


def _items(node: _Node) -> Iterator[tuple[TimerKey, Timer]]:
    if isinstance(node, tuple):
        for child in node:
            yield from _items(child)
    else:
        yield from node.items()
