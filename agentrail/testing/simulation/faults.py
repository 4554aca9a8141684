"""Faults of a simulated world: what goes wrong, where and for how long. `Nemesis` draws them.

    world.faults(EVERYTHING - {LYING_DISK})

A fault strikes at a place, "as node-1 asks the store for the 7th time", or at an instant. Places shrink better: a count
changes less than an instant when something else is left out.
Models, tools and people misbehave by themselves, by draws of their own, if a life allows it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from attrs import frozen

from agentrail.testing.simulation.log import LifeLog, LineKind, LogLine

FaultFamily: TypeAlias = Literal["node", "network", "store", "disk", "time", "tasks", "model", "people"]

PERMITTED: Final = frozenset({"model", "people"})
"""Families whose faults nothing strikes: models, tools and people misbehave by themselves where they are allowed to."""

MAX_SKEW_SECONDS: Final = 3600.0
MAX_SLOW_SECONDS: Final = 2.0
_BUFFER_BYTES: Final = 4096
_CONGESTED_SECONDS: Final = 2.1  # three times that is more than a heartbeat, and less than a lease
_SETBACK_SECONDS: Final = 0.5  # from a setback of the store's clock to the end of the stop that goes with it


class FaultyWorld(Protocol):
    """The world, as faults use it. Nodes, disks and clocks are found by the index of the node, and no method waits.

    A world without disks returns None for each.
    """

    log: LifeLog
    network: Any
    store: Any
    nodes: Any
    machines: Any

    def disk(self, index: int, /) -> Any:
        """Return the disk of a node."""

    def clock(self, index: int, /) -> Any:
        """Return the clock of a node."""

    def kill(self, index: int, /) -> None:
        """End a node at once."""

    def stop(self, index: int, seconds: float, /) -> None:
        """Let a node stand still."""

    def leave(self, index: int, /) -> None:
        """Shut a node down."""

    def restart(self, index: int, /) -> None:
        """Start a node again."""


# --- values


@frozen(kw_only=True)
class FaultPlace:
    """Where a fault strikes: as a line is logged for the nth time.

    Attributes:
        kind: Kind of the line.
        word: Name of the store's method, of the signal, of the node's change or of the tool, or type of the effect or event. Empty: any.
        of: Node or client. Empty: any. Then the fault strikes the node that reaches it.
        session: Id of the session. Empty: any.
        nth: From 1.
    """

    kind: LineKind
    word: str = ""
    of: str = ""
    session: str = ""
    nth: int = 1

    def __str__(self) -> str:
        """Return the clause of a sentence."""
        who = self.of or {"person": "a person", "read": "a reader"}.get(self.kind, "a node")
        word = f" ({self.word})" if self.word else ""
        whose = f" in session {self.session}" if self.session else ""
        return f"as {who} {_REACHES.get(self.kind, self.kind)}{word}{whose} for the {ordinal(self.nth)} time"

    def holds(self, line: LogLine) -> bool:
        """Return whether a line of the log is at this place, whatever its number."""
        return (
            self.of in {"", line.place}
            and self.session in {"", line.session}
            and self.word in {"", _word(line.facts)}
        )


@frozen(kw_only=True)
class Fault:
    """One fault. The constants of this module have no place yet: a nemesis draws it.

    Attributes:
        family: Its row in the table of faults.
        action: Its name within all faults.
        node: Index of the struck node.
        other: Name of the other end of connections. Empty: all others.
        place: Where it strikes, or an instant in seconds of virtual time. None: not drawn yet.
        seconds: Its duration.
        amount: Part of the worst, from -1 to 1. Delays take it without its sign.
    """

    family: FaultFamily
    action: str
    node: int = 0
    other: str = ""
    place: FaultPlace | float | None = None
    seconds: float = 0.0
    amount: float = 0.0

    @property
    def slow_seconds(self) -> float:
        """Its delay."""
        return abs(self.amount) * MAX_SLOW_SECONDS

    @property
    def skew_seconds(self) -> float:
        """Its change of a clock."""
        return self.amount * MAX_SKEW_SECONDS

    def __str__(self) -> str:
        """Return a sentence."""
        said = FAULT_RULES[self.action].says.format(
            node=f"node-{self.node}",
            other=self.other or "all others",
            seconds=f"{self.seconds:.4g} s",
            slow=f"{self.slow_seconds:.4g} s",
            skew=f"{self.skew_seconds:+.4g} s",
        )
        where = f"at {self.place:.4g} s" if isinstance(self.place, float) else str(self.place)
        return said if self.place is None else f"{said}, {where}"


Act: TypeAlias = Callable[[FaultyWorld, Fault], object]
"""Begins or ends a fault. An end returns False if it has to be tried again later."""


@frozen
class FaultRule:
    """How a fault reads, its shortest and longest duration in leases, and what it does. One without `begin` is a crash, or only permitted.

    One with a `point` strikes only there, for the first time up to the nth one.
    """

    says: str
    shortest: float
    longest: float
    begin: Act | None
    end: Act | None
    point: FaultPlace | None


_REACHES: Final[Mapping[str, str]] = {
    "store": "asks the store",
    "step": "makes a step",
    "effect": "carries out an effect",
    "event": "publishes an event",
    "tool": "changes the outside world",
    "person": "asks or is answered",
    "read": "receives an event",
    "node": "changes its state",
}

# The first is the plainest. Draws count them, so append new ones.
POINTS: Final[tuple[tuple[LineKind, str], ...]] = (
    *(("store", ""), ("store", "append"), ("store", "take"), ("store", "beat"), ("effect", "")),
    *(("effect", "RunTool"), ("step", ""), ("event", ""), ("person", ""), ("read", ""), ("tool", "")),
)


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `3rd`, `11th` and so on."""
    last = 0 if number % 100 in {11, 12, 13} else number % 10
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(last, 'th')}"


def _word(facts: object) -> str:
    named = next((one for name in ("name", "action", "tool") if (one := getattr(facts, name, None))), None)
    return named if isinstance(named, str) else type(getattr(facts, "signal", facts)).__name__


# --- the catalogue


def _place(world: FaultyWorld, fault: Fault) -> str:
    place: str = world.nodes[fault.node].place
    return place


def _ends(world: FaultyWorld, fault: Fault) -> list[tuple[str, str]]:
    own, everybody = _place(world, fault), [*(node.place for node in world.nodes), *world.machines]
    return [(own, other) for other in everybody if other != own and fault.other in {"", other}]


def _set(part: object, **values: object) -> None:
    for name, value in values.items():
        setattr(part, name, value)


def _restart(world: FaultyWorld, fault: Fault) -> bool:
    if not world.nodes[fault.node].down.is_set():  # it still hands its sessions over
        return False
    world.restart(fault.node)
    return True


def _lose(world: FaultyWorld, fault: Fault) -> None:
    if any(not node.down.is_set() for index, node in enumerate(world.nodes) if index != fault.node):
        world.kill(fault.node)  # not the last one: nothing more would happen


def _sleep(world: FaultyWorld, fault: Fault) -> None:
    world.stop(fault.node, fault.seconds)
    world.store.lose_answer(_place(world, fault))
    for ends in _ends(world, fault):
        world.network.reset(*ends)


def _damage(world: FaultyWorld, fault: Fault, damage: Callable[[str], object]) -> None:
    world.kill(fault.node)
    for name, file in list(world.disk(fault.node).files.items()):
        if fault.action == "lost_disk" or file.durable:
            damage(name)


_APPENDS: Final = FaultPlace(kind="store", word="append", nth=50)
_TAKES: Final = FaultPlace(kind="store", word="take", nth=20)
_RELEASES: Final = FaultPlace(kind="store", word="release", nth=10)
_CLAIMS: Final = FaultPlace(kind="store", word="claim", nth=20)
_ABORTS: Final = FaultPlace(kind="step", word="AbortCycle", nth=3)
FAULT_RULES: Final[dict[str, FaultRule]] = {}
_KNOWN: Final[list[Fault]] = []


def _add(  # noqa: PLR0913 - a row of a table
    family: FaultFamily,
    action: str,
    says: str,
    shortest: float = 0.0,
    longest: float = 0.0,
    *,
    begin: Act | None = None,
    end: Act | None = None,
    point: FaultPlace | None = None,
) -> Fault:
    FAULT_RULES[action] = FaultRule(says, shortest, longest, begin, end, point)
    _KNOWN.append(Fault(family=family, action=action))
    return _KNOWN[-1]


# Draws count the rows, so append new ones to the end. They are as long as they are: one line is read at once.
# fmt: off
KILL: Final = _add("node", "kill", "{node} is killed and starts again after {seconds}", 0.1, 4, begin=lambda w, f: w.kill(f.node), end=_restart)
LOSE: Final = _add("node", "lose", "{node} is killed and starts again at the calm end", begin=_lose)
STOP_NODE: Final = _add("node", "stop", "{node} stands still for {seconds}", 0.3, 3, begin=lambda w, f: w.stop(f.node, f.seconds))
LEAVE: Final = _add("node", "leave", "{node} leaves and starts again after {seconds}", 0.3, 3, begin=lambda w, f: w.leave(f.node), end=_restart)
CUT_LINK: Final = _add("network", "cut", "{node} is cut off from {other} for {seconds}", 0.1, 4,
    begin=lambda w, f: [w.network.cut(*ends) for ends in _ends(w, f)], end=lambda w, f: [w.network.mend(*ends) for ends in _ends(w, f)])
ONE_WAY_CUT: Final = _add("network", "one_way_cut", "nothing from {node} reaches {other} for {seconds}", 0.1, 4,
    begin=lambda w, f: [w.network.cut(*ends, one_way=True) for ends in _ends(w, f)],
    end=lambda w, f: [w.network.mend(*ends) for ends in _ends(w, f)])
RESET: Final = _add("network", "reset", "connections of {node} with {other} are reset",
    begin=lambda w, f: [w.network.reset(*ends) for ends in _ends(w, f)])
REFUSE: Final = _add("network", "refuse", "{node} accepts no connection for {seconds}", 0.1, 4,
    begin=lambda w, f: w.network.refuse(_place(w, f)), end=lambda w, f: w.network.accept(_place(w, f)))
SLOW_NETWORK: Final = _add("network", "slow_network", "{node} and {other} are {slow} apart for {seconds}", 0.3, 6,
    begin=lambda w, f: [w.network.slow(*ends, f.slow_seconds) for ends in _ends(w, f)],
    end=lambda w, f: [w.network.slow(*ends, 0.0) for ends in _ends(w, f)])
BUFFER: Final = _add("network", "buffer", "a proxy buffers answers of {node} to {other} for {seconds}", 0.3, 4,
    begin=lambda w, f: [w.network.buffer(b, a, _BUFFER_BYTES) for a, b in _ends(w, f)],
    end=lambda w, f: [w.network.buffer(b, a, 0) for a, b in _ends(w, f)])
DOUBLE: Final = _add("network", "double", "the next request of {other} to {node} arrives twice",
    begin=lambda w, f: [w.network.repeat(b, a) for a, b in _ends(w, f)])
AWAY: Final = _add("store", "away", "the store is away for {seconds}", 0.1, 3, begin=lambda w, f: w.store.go_away(f.seconds))
FULL_STORE: Final = _add("store", "full_store", "the store is full for {seconds}", 0.3, 3, begin=lambda w, f: w.store.fill(f.seconds))
SLOW_STORE: Final = _add("store", "slow_store", "the store answers {slow} late for {seconds}", 0.3, 6,
    begin=lambda w, f: w.store.slow(f.slow_seconds, f.seconds))
LOST_REQUEST: Final = _add("store", "lost_request", "the next request of {node} to the store is lost",
    begin=lambda w, f: w.store.lose_answer(_place(w, f), when="before"))
LOST_ANSWER: Final = _add("store", "lost_answer", "an answer of the store to {node} is lost",
    begin=lambda w, f: w.store.lose_answer(_place(w, f), when="after"))
TAKEN_CONNECTION: Final = _add("store", "taken_connection", "the store ends its connection with {node}",
    begin=lambda w, f: w.store.take_connection(_place(w, f)))
EMPTY_POOL: Final = _add("store", "empty_pool", "the store has no connection for {node} for {seconds}", 0.1, 3,
    begin=lambda w, f: w.store.exhaust(f.seconds, place=_place(w, f)))
RESTART: Final = _add("store", "restart", "the store restarts within {seconds}", 0.1, 2, begin=lambda w, f: w.store.restart(f.seconds))
FAIL_OVER: Final = _add("store", "fail_over", "the store fails over within {seconds}", 0.1, 2,
    begin=lambda w, f: w.store.fail_over(seconds=f.seconds))
FULL_DISK: Final = _add("disk", "full_disk", "the disk of {node} is full for {seconds}", 0.3, 4,
    begin=lambda w, f: _set(w.disk(f.node), is_full=True), end=lambda w, f: _set(w.disk(f.node), is_full=False))
SLOW_DISK: Final = _add("disk", "slow_disk", "each sync of {node} takes {slow} for {seconds}", 0.3, 4,
    begin=lambda w, f: _set(w.disk(f.node), slow_seconds=f.slow_seconds), end=lambda w, f: _set(w.disk(f.node), slow_seconds=0.0))
FAILED_SYNC: Final = _add("disk", "failed_sync", "syncs of {node} fail for {seconds}", 0.1, 1,
    begin=lambda w, f: _set(w.disk(f.node), fail_sync=lambda _name: True),
    end=lambda w, f: _set(w.disk(f.node), fail_sync=lambda _name: False))
LYING_DISK: Final = _add("disk", "lying_disk", "the disk of {node} only claims to sync for {seconds}", 1, 10,
    begin=lambda w, f: _set(w.disk(f.node), is_lying=True), end=lambda w, f: _set(w.disk(f.node), is_lying=False))
SKEW: Final = _add("time", "skew", "the clock of {node} is wrong by {skew} for {seconds}", 0.3, 10,
    begin=lambda w, f: _set(w.clock(f.node), wrong_by_seconds=f.skew_seconds),
    end=lambda w, f: _set(w.clock(f.node), wrong_by_seconds=0.0))
DRIFT: Final = _add("time", "drift", "the clock of {node} gains 1 ms per second for {seconds}", 3, 30,
    begin=lambda w, f: _set(w.clock(f.node), drift=0.001), end=lambda w, f: _set(w.clock(f.node), drift=0.0))
SLOW_THREADS: Final = _add("time", "slow_threads", "threads of {node} take {slow} longer for {seconds}", 0.3, 3,
    begin=lambda w, f: _set(w.clock(f.node), slow_seconds=f.slow_seconds), end=lambda w, f: _set(w.clock(f.node), slow_seconds=0.0))
STARVE: Final = _add("tasks", "starve", "tasks of {node} starve for {seconds}", 0.001, 0.1, begin=lambda w, f: w.stop(f.node, f.seconds))
CRASH: Final = _add("tasks", "crash", "the next step of a session on {node} crashes")
FLIPPED_BIT: Final = _add("disk", "flipped_bit", "{node} is killed, and a bit of its disk flips within {seconds}", 0.1, 1,
    begin=lambda w, f: _damage(w, f, w.disk(f.node).flip), end=_restart)
LOST_DISK: Final = _add("disk", "lost_disk", "{node} is killed, and its disk is empty after {seconds}", 0.1, 1,
    begin=lambda w, f: _damage(w, f, w.disk(f.node).lose), end=_restart)
MODEL_TROUBLE: Final = _add("model", "model_trouble", "models fail, stall and talk nonsense")
TOOL_TROUBLE: Final = _add("model", "tool_trouble", "tools fail, stall and return too much")
WHIMS: Final = _add("people", "whims", "people abort, steer, repeat themselves, vanish and reconnect")
LOCKED_ROWS: Final = _add("store", "locked_rows", "the next claim of {node} finds all rows locked",
    begin=lambda w, f: w.store.lock_rows(_place(w, f)))
SLEEP: Final = _add("node", "sleep", "{node} sleeps for {seconds}, and its connections end", 1, 3, begin=_sleep)
STORE_CLOCK: Final = _add("time", "store_clock", "the clock of the store steps by {skew}",
    begin=lambda w, f: w.store.step_clock(f.skew_seconds))
CONGESTION: Final = _add("store", "congestion", "heartbeats of {node} are lost for {seconds}, and the store answers it late", 1.6, 3,
    begin=lambda w, f: w.store.congest(_place(w, f), _CONGESTED_SECONDS, f.seconds), point=_APPENDS)
OUTAGE: Final = _add("store", "outage", "the store is away for {seconds}", 0.2, 1, begin=lambda w, f: w.store.go_away(f.seconds), point=_ABORTS)
COMA: Final = _add("node", "coma", "{node} stands still for {seconds} as the store answers it", 1.1, 3,
    begin=lambda w, f: w.stop(f.node, f.seconds), point=_APPENDS)
SETBACK: Final = _add("node", "setback", "{node} stands still for {seconds}, and the store's clock is set back by as much at the end", 1.1, 3,
    begin=lambda w, f: w.stop(f.node, f.seconds + _SETBACK_SECONDS), end=lambda w, f: w.store.step_clock(-f.seconds), point=_APPENDS)
LOST_APPEND: Final = _add("store", "lost_append", "the store's answer to {node} is lost", begin=lambda w, f: w.store.lose_answer(_place(w, f)), point=_APPENDS)
LOST_TAKE: Final = _add("store", "lost_take", "the store's answer to {node} is lost", begin=lambda w, f: w.store.lose_answer(_place(w, f)), point=_TAKES)
LOST_RELEASE: Final = _add("store", "lost_release", "the store's answer to {node} is lost", begin=lambda w, f: w.store.lose_answer(_place(w, f)), point=_RELEASES)
LOST_CLAIM: Final = _add("store", "lost_claim", "the store's answer to {node} is lost", begin=lambda w, f: w.store.lose_answer(_place(w, f)), point=_CLAIMS)
# fmt: on

CATALOGUE: Final = tuple(_KNOWN)
EVERYTHING: Final = frozenset(CATALOGUE)
DAMAGE: Final = frozenset({LYING_DISK, FLIPPED_BIT, LOST_DISK})
"""Faults that lose what was acknowledged, if only one disk has it. With them, the promises of one machine end."""

CRASHES, NETWORK, STORE, DISK, TIME, TASKS, MODEL, PEOPLE = (
    frozenset(fault for fault in CATALOGUE if fault.family == family) for family in get_args(FaultFamily)
)
