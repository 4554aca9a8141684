"""Small worlds of one session, walked to the end: breadth first over `step`, with states told apart by a declared abstraction.

The abstraction is checked. Every state that is met is asked every signal, and compared with the state that represents its key. If they
answer differently, the key is split, and the walk is repeated with a longer look until no key splits further; or the walk fails. So a
result says "closed at n classes" or "open at depth d". It covers the declared signals within the declared bounds, and nothing else.
"""

import re
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec
from attrs import frozen

from agentrail.core.protocol import effects as e, signals as s
from agentrail.core.session import effect_owners as owners, machine
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.state import Cycle, SessionData, SessionState, Stream
from agentrail.core.values.history import History
from agentrail.testing.promises import PROMISES, Seen

# --- the abstraction


@frozen
class Abstraction:
    """What of a state tells it apart from others. Ids are renamed in the order in which they occur.

    Attributes:
        forgets: Fields of `SessionData` that are left out.
        reduced: Functions that shorten the other fields, by name.
    """

    forgets: frozenset[str]
    reduced: Mapping[str, Callable[[Any], object]]

    def key(self, state: SessionState) -> bytes:
        """Return the key of a state. Fields that it does not forget are compared as JSON."""
        reduced, data = self.reduced, state.data
        kept = [
            reduced[name](getattr(data, name)) if name in reduced else getattr(data, name)
            for name in SessionData.__struct_fields__
            if name not in self.forgets
        ]
        postponed = [(type(one).__name__, one) for one in state.postponed]
        return _renamed(_JSON.encode((state.phase, state.ended, postponed, kept)))


def _plain(value: Any) -> object:
    if isinstance(value, Mapping):
        return {key: (type(one).__name__, one) for key, one in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(map(repr, value))
    return list(value) if isinstance(value, Iterable) else repr(value)


_JSON: Final = msgspec.json.Encoder(enc_hook=_plain, order="deterministic")
_ID: Final = re.compile(rb"\b([a-z]+)(\d+)\b")


def _renamed(text: bytes) -> bytes:
    names: dict[bytes, bytes] = {}
    return _ID.sub(lambda found: names.setdefault(found[0], found[1] + b"#%d" % len(names)), text)


def _history(history: History) -> object:
    last = history.messages[-1] if len(history) else None
    return (type(last).__name__, len(history.open), getattr(last, "stop_reason", None))


def _cycle(cycle: Cycle | None) -> object:
    if cycle is None:
        return None
    return (cycle.turn, cycle.askers, cycle.repaired, cycle.resume, cycle.goes_on, cycle.attempts.retries)


def _stream(stream: Stream | None) -> object:
    if stream is None:
        return None
    return (stream.effect_id, stream.pausing, bool(stream.text), stream.last_turn, stream.clock)


_of_call = attrgetter("call.call_id", "call.name", "stage", "started", "attempt", "effect_id", "detached")


def _calls(calls: Sequence[CallState]) -> object:
    return [(*_of_call(call), len(call.child_ids)) for call in calls]


def _open(opened: owners.OpenEffects) -> object:
    entries = sorted(opened.items(), key=lambda entry: int(entry[0][1:]))
    return [(effect_id, type(owner).__name__, owner) for effect_id, owner in entries]


ABSTRACTION: Final = Abstraction(
    forgets=frozenset(
        {"config", "model", "tools", "repairs", "stack", "plugin_states", "sections", "compaction_watch"}
        | {"outgoing", "todos", "memory", "title", "context_tokens", "remembered", "usage", "tokens", "seq"}
        | {"minted", "call_ids", "dropped", "quarantined", "incarnation", "started_at_ms", "semantics"}
        | {"rules", "acting", "doubtful"}
    ),
    reduced={
        "history": _history,
        "cycle": _cycle,
        "stream": _stream,
        "batch": _calls,
        "survivors": _calls,
        "open": _open,
        "last": lambda last: last and last.outcome,
        "resolved": lambda resolved: [(one.id, one.status) for one in resolved],
    },
)
"""The abstraction of the small worlds. It forgets texts, counters and sums."""


def observed(effect: e.Effect) -> Hashable:
    """Return what others can tell of an effect, without ids, texts and numbers."""
    match effect:
        case e.Publish(event=event):
            return ("Publish", type(event).__name__)
        case e.Refuse(error=error):
            return ("Refuse", type(error).__name__)
        case _:
            return type(effect).__name__


# --- a world


@frozen(kw_only=True)
class CallerSignals:
    """Signals of callers, of which a world sees only a few.

    Attributes:
        times: How many of them come in one life.
        signals: Returns the possible ones in a state. The number is new in each life, for ids.
    """

    times: int
    signals: Callable[[SessionState, int], Iterable[s.Signal]]


@frozen(kw_only=True)
class SmallWorld:
    """The bounds of a walk.

    Attributes:
        start: The first state.
        calls: Signals of callers, by name.
        outcomes: Returns the possible outcomes of the open effects of a state, and late ones. They may come at any time.
        is_within: Whether the walk continues from a state. Other states are reached, but not left.
        abstraction: What tells its states apart.
    """

    start: SessionState
    calls: Mapping[str, CallerSignals]
    outcomes: Callable[[SessionState], Iterable[s.Signal]]
    is_within: Callable[[SessionState], bool] = lambda _: True
    abstraction: Abstraction = ABSTRACTION


@frozen(kw_only=True)
class Explored:
    """The result of a walk.

    Attributes:
        is_closed: Whether every class was left by every signal. Otherwise the walk ended at `max_steps`.
        classes: Number of classes.
        splits: Number of keys with several classes.
        met: Number of states that were asked every signal.
        steps: Number of steps.
        depth: Length of the longest path to a class. For an open walk, all shorter paths were walked.
        looks: Steps of look-ahead by which states of one key were compared.
    """

    is_closed: bool
    classes: int
    splits: int
    met: int
    steps: int
    depth: int
    looks: int

    def __str__(self) -> str:
        if not self.is_closed:
            return f"open at depth {self.depth}: {self.classes} classes so far, {self.steps} steps"
        return f"closed at {self.classes} classes: {self.met} states were met, {self.splits} keys were split, {self.steps} steps"


class NotAnAbstraction(AssertionError):
    """Two states of one key answer a signal differently."""


@frozen
class _Place:
    """A state, the calls that are left, and the way there."""

    state: SessionState
    left: tuple[int, ...]
    path: tuple[str, ...] = ()


_Key: TypeAlias = tuple[bytes, tuple[int, ...]]
_Answer: TypeAlias = tuple[str, Hashable, _Place]


@frozen(kw_only=True)
class Explorer:
    """How a world is walked.

    Attributes:
        observe: Returns what others can tell of an effect. Only that is compared.
        promises: Called with each step that leaves a class.
        is_strict: Whether two states of one key that answer differently end the walk, instead of splitting the key.
        max_steps: End of an open walk. None: it ends when it is closed.
    """

    observe: Callable[[e.Effect], Hashable] = observed
    promises: Sequence[Callable[[Seen], None]] = PROMISES
    is_strict: bool = False
    max_steps: int | None = None

    def explore(self, world: SmallWorld) -> Explored:
        """Walk a world until it is closed.

        Raises:
            NotAnAbstraction: A key was to be split, and the walk is strict.
            AssertionError: A promise was broken. A note has the signals that lead there.
        """
        split: frozenset[_Key] = frozenset()
        looks, steps, classes = 1, 0, 0
        while True:
            walk = _Walk(self, world, split, looks, steps)
            found = walk.run()
            if not found.is_closed or not found.splits or found.classes == classes:
                return found
            split, steps, classes = walk.split, found.steps, found.classes
            looks += 1


class _Walk:
    """One walk with a fixed look-ahead. Successors of a key that no earlier walk has split are compared by their key."""

    def __init__(
        self, how: Explorer, world: SmallWorld, split: frozenset[_Key], looks: int, steps: int
    ) -> None:
        self.how, self.world, self.looks, self.steps = how, world, looks, steps
        self.known_split = split
        self.numbers: dict[Hashable, int] = {}
        self.keys: dict[_Key, _Key] = {}
        self.classes: dict[_Key, dict[int, _Place]] = {}
        self.met = 0

    @property
    def split(self) -> frozenset[_Key]:
        return frozenset(key for key, found in self.classes.items() if len(found) > 1)

    def run(self) -> Explored:
        todo: deque[_Place] = deque()
        start = _Place(self.world.start, tuple(call.times for call in self.world.calls.values()))
        self._meet(start, todo)
        depth, is_closed = 0, True
        while todo:
            place = todo.popleft()
            depth = len(place.path)
            if self.how.max_steps is not None and self.steps >= self.how.max_steps:
                is_closed = False
                break
            for _, _, after in self._answers(place, promises=self.how.promises):
                if self.world.is_within(after.state):
                    self._meet(after, todo)
        return Explored(
            is_closed=is_closed,
            classes=sum(map(len, self.classes.values())),
            splits=len(self.split),
            met=self.met,
            steps=self.steps,
            depth=depth,
            looks=self.looks,
        )

    def _meet(self, place: _Place, todo: deque[_Place]) -> None:
        """Ask a state every signal, and find its class. A new class is left later."""
        self.met += 1
        key = self._key(place)
        found = self.classes.setdefault(key, {})
        signature = self._signature(place, key, self.looks)
        if signature in found:
            return
        if found and self.how.is_strict:
            raise NotAnAbstraction(self._difference(next(iter(found.values())), place))
        found[signature] = place
        todo.append(place)

    def _key(self, place: _Place) -> _Key:
        key = (self.world.abstraction.key(place.state), place.left)
        return self.keys.setdefault(key, key)

    def _signature(self, place: _Place, key: _Key, looks: int) -> int:
        """Return a number for a key and the answers of a state, which are compared up to so many steps ahead."""
        signature: list[Hashable] = [key]
        for label, seen, after in self._answers(place) if looks else ():
            then = key if after.state is place.state and after.left == place.left else self._key(after)
            is_within = self.world.is_within(after.state)
            is_deep = is_within and looks > 1 and then in self.known_split
            signature.append(
                (label, seen, is_within, self._signature(after, then, looks - 1) if is_deep else then)
            )
        return self.numbers.setdefault(tuple(signature), len(self.numbers))

    def _answers(self, place: _Place, promises: Sequence[Callable[[Seen], None]] = ()) -> Iterator[_Answer]:
        for number, (signal, left) in enumerate(self._signals(place)):
            label = f"{number} {type(signal).__name__}"
            after, effects = machine.step(place.state, signal)
            self.steps += 1
            path = (*place.path, label)
            try:
                for promise in promises:
                    promise(Seen(place.state, signal, after, effects))
            except AssertionError as error:
                error.add_note(f"after {', '.join(path)}")
                raise
            yield label, tuple(map(self.how.observe, effects)), _Place(after, left, path)

    def _signals(self, place: _Place) -> Iterator[tuple[s.Signal, tuple[int, ...]]]:
        number = 1 - sum(place.left) + sum(call.times for call in self.world.calls.values())
        for position, call in enumerate(self.world.calls.values()):
            if place.left[position]:
                left = (*place.left[:position], place.left[position] - 1, *place.left[position + 1 :])
                for signal in call.signals(place.state, number):
                    yield signal, left
        for signal in self.world.outcomes(place.state):
            yield signal, place.left

    def _difference(self, one: _Place, other: _Place) -> str:
        pairs = zip(self._answers(one), self._answers(other), strict=False)
        for (label, seen, after), (label_too, seen_too, after_too) in pairs:
            mine, others = (label, seen, self._key(after)), (label_too, seen_too, self._key(after_too))
            if mine != others:
                ways = f"after {', '.join(one.path)} and after {', '.join(other.path)}"
                return f"states of one key answer {label} differently {ways}: {mine} and {others}; keep the field that differs"
        return f"states of one key can be asked different signals: after {one.path} and after {other.path}"
