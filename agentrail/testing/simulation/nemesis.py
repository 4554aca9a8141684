"""`Nemesis`: draws the faults of one simulated life, and lets them strike."""

import contextvars
import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, get_args

import trio
from attrs import evolve

from agentrail.runtime import session_actor
from agentrail.testing.seams import around, wrapped
from agentrail.testing.simulation.facts import FaultChange
from agentrail.testing.simulation.faults import (
    CATALOGUE,
    EVERYTHING,
    FAULT_RULES,
    PERMITTED,
    POINTS,
    Fault,
    FaultFamily,
    FaultPlace,
    FaultyWorld,
)
from agentrail.testing.simulation.log import WORLD, LineKind, LogLine, place_of_caller
from agentrail.testing.simulation.tape import Tape

RATES: Final = (25.0, 100.0, 400.0)
"""Faults per hour of a life, if a scenario sets none. One is drawn."""

LEAST: Final = 12.0
"""Average number of faults of a short life."""

_TRIES: Final = 4
"""Draws of a fault until one is allowed. Not from the allowed ones alone: then a tape that allows others would name others."""

_PARTS: Final = (1.0, 0.3, 0.1)
"""Parts of the range of a fault's duration, one of which is drawn from."""

_AMOUNTS: Final = (0.1, -0.1, 0.01, -0.01, 0.5, -0.5, 1.0, -1.0)
_SCALES: Final = (5, 30, 200, 2000)
_RETRY_SECONDS: Final = 0.5


class SimulatedCrash(Exception):
    """A step of a session fails here, because a fault says so."""


class Nemesis:
    """Draws the faults of one life and carries them out.

    In each life a random half of the families is off, so that one fault does not hide another. Those of nodes are seldom off.

    Attributes:
        planned: Faults with their places.
        struck: Faults that have struck, in order.
        is_calm: Whether no fault strikes any more.
    """

    def __init__(  # noqa: PLR0913 - a world, and how bad its life is
        self,
        world: FaultyWorld,
        tape: Tape,
        faults: Iterable[Fault] = EVERYTHING,
        *,
        until: float,
        lease_seconds: float = 3.0,
        rate: float | None = None,
    ) -> None:
        """Draw the faults.

        Args:
            world: Where they strike.
            tape: Where they are drawn.
            faults: Those that are allowed. One with a place of its own strikes in each life.
            until: Virtual time of the calm end, in seconds.
            lease_seconds: Unit of durations.
            rate: Faults per hour. None: it is drawn.
        """
        wanted = frozenset(faults)
        # An empty tape has all families, so that leaving a draw out lets no other fault strike in its place.
        off: set[FaultFamily] = {
            family
            for family in get_args(FaultFamily)
            # Sessions change their owners by faults of nodes only.
            if tape.chance(f"faults.without[{family}]", 0.2 if family == "node" else 0.5)
        }
        self._world, self._tape, self._until, self._lease = world, tape, until, lease_seconds
        if world.disk(0) is None:
            off.add("disk")
        self._allowed = [fault for fault in CATALOGUE if fault in wanted and fault.family not in off]
        self._rate = tape.choice("faults.rate", RATES) if rate is None else rate
        self.is_calm: bool = False
        self.struck: list[Fault] = []
        placed = sorted((fault for fault in wanted if fault.place is not None), key=str)
        self.planned: list[Fault] = [*placed, *self._drawn()]
        self._aimed: dict[LineKind, list[_Counter]] = {}
        self._due: list[tuple[float, int, Fault, bool]] = []  # when, in order, and whether it ends then
        self._crashes: dict[str, Fault] = {}
        self._numbers = itertools.count()
        self._wake = trio.Event()
        self._context = contextvars.copy_context()
        self._places = {node.place: index for index, node in enumerate(world.nodes)}
        for fault in self.planned:
            self._arm(fault)

    async def run(self) -> None:
        """Let faults strike until the calm end. The world heals then. A task of the world."""
        self._context = contextvars.copy_context()
        log = self._world.log
        log.watchers.append(self._see)
        with wrapped([(session_actor, "step", around(self._crash_or_step))]):
            while trio.current_time() < self._until:
                with trio.move_on_at(min(self._until, *(due[0] for due in self._due[:1]), math.inf)):
                    await self._wake.wait()
                self._wake = trio.Event()
                while self._due and self._due[0][0] <= min(trio.current_time(), self._until):
                    _, _, fault, is_end = heapq.heappop(self._due)
                    end = FAULT_RULES[fault.action].end
                    if not is_end:
                        self._strike(fault)
                    elif end is not None and end(self._world, fault) is False:
                        self._push(trio.current_time() + _RETRY_SECONDS, fault, is_end=True)
                    else:
                        self._tell(f"ends: {fault}", fault, is_over=True)
        self.is_calm = True
        log.watchers.remove(self._see)

    def _see(self, line: LogLine) -> None:
        if line.at >= self._until:
            return
        for counter in self._aimed.get(line.kind, ()):
            for fault in counter.count(line):
                own = fault.node if counter.place.of else self._places.get(line.place, fault.node)
                self._strike(evolve(fault, node=own))

    def _crash_or_step(self, step: Any, state: Any, signal: Any) -> Any:
        fault = self._crashes.pop(place_of_caller(), None)
        if fault is not None:
            raise SimulatedCrash(str(fault))
        return step(state, signal)

    def allows(self, fault: Fault) -> bool:
        """Return whether a fault may happen in this life, now."""
        return fault in self._allowed and not self.is_calm

    def _drawn(self) -> Iterator[Fault]:
        # As many slots as the highest rate needs: if a tape leaves the rate out, its faults stay as they are.
        hours = self._until / 3600
        slots = math.ceil(max(hours * max(*RATES, self._rate), 2 * LEAST))
        share = max(hours * self._rate, LEAST if self._rate else 0.0) / slots
        actions = [fault for fault in CATALOGUE if fault.family not in PERMITTED]
        aimed = [fault for fault in actions if FAULT_RULES[fault.action].point is not None]
        # The rest is nothing without faults of nodes.
        actions += [fault for fault in actions if fault.family == "node"] * 2 + aimed * 2
        for number in range(slots):
            if self._tape.chance(f"fault[{number}]", share):
                for _ in range(_TRIES):
                    fault = self._tape.choice(f"fault[{number}].action", actions)
                    if fault in self._allowed:
                        yield self._placed(fault, f"fault[{number}]")
                        break

    def _placed(self, fault: Fault, name: str) -> Fault:
        tape, rule, nodes = self._tape, FAULT_RULES[fault.action], [node.place for node in self._world.nodes]
        node = tape.integer(f"{name}.node", 0, len(nodes) - 1)
        seconds = rule.shortest * self._lease
        if rule.shortest < rule.longest:
            # Most are short: a life in which nothing works for long shows little.
            part = tape.choice(f"{name}.longest", _PARTS)
            longest = seconds + part * (rule.longest - rule.shortest) * self._lease
            seconds = tape.number(f"{name}.seconds", seconds, longest)
        others = ("", *nodes, *self._world.machines) if fault.family == "network" else ("",)
        return evolve(
            fault,
            node=node,
            other=tape.choice(f"{name}.other", others),
            place=self._place(fault, nodes[node], name),
            seconds=seconds,
            amount=tape.choice(f"{name}.amount", _AMOUNTS),
        )

    def _place(self, fault: Fault, own: str, name: str) -> FaultPlace | float:
        tape, aimed = self._tape, FAULT_RULES[fault.action].point
        if aimed is not None:
            return evolve(aimed, nth=tape.integer(f"{name}.nth", 1, aimed.nth))
        if tape.chance(f"{name}.by_clock", 0.4):
            return tape.number(f"{name}.at", 0.0, self._until)
        kind, word = tape.choice(f"{name}.point", POINTS)
        # Most sessions have one owner, so a place on a drawn node would seldom be reached.
        of = own if tape.chance(f"{name}.on_it", 0.3) and kind not in {"person", "read"} else ""
        # It is unknown how often a life reaches a point, so each order of magnitude is as likely as another.
        scales = [scale for scale in _SCALES if scale <= max(_SCALES[1], self._until)]
        scale = tape.choice(f"{name}.scale", scales)
        return FaultPlace(kind=kind, word=word, of=of, nth=tape.integer(f"{name}.nth", 1, scale))

    def _arm(self, fault: Fault) -> None:
        if not isinstance(fault.place, FaultPlace):
            self._push(fault.place or 0.0, fault, is_end=False)
            return
        anywhere = evolve(fault.place, nth=1)
        counters = self._aimed.setdefault(fault.place.kind, [])
        counter = next((one for one in counters if one.place == anywhere), None)
        if counter is None:
            counter = _Counter(anywhere)
            counters.append(counter)
        counter.waiting.setdefault(fault.place.nth, []).append(fault)

    def _strike(self, fault: Fault) -> None:
        self.struck.append(fault)
        # In the world's context: tasks that it starts for this fault do not belong to the node that reached the place.
        self._context.copy().run(self._tell, str(fault), fault)
        rule = FAULT_RULES[fault.action]
        if rule.begin is None:
            self._crashes[self._world.nodes[fault.node].place] = fault
            return
        self._context.copy().run(rule.begin, self._world, fault)
        if rule.end is not None:
            self._push(trio.current_time() + fault.seconds, fault, is_end=True)

    def _tell(self, said: str, fault: Fault, *, is_over: bool = False) -> None:
        facts = FaultChange(fault.family, fault.action, is_over)
        self._world.log.note("fault", said, place=WORLD, facts=facts)

    def _push(self, at: float, fault: Fault, *, is_end: bool) -> None:
        heapq.heappush(self._due, (at, next(self._numbers), fault, is_end))
        self._wake.set()


class _Counter:
    """How often a place was reached, and the faults that wait there, by their number."""

    def __init__(self, place: FaultPlace) -> None:
        self.place = place
        self.waiting: dict[int, list[Fault]] = {}
        self._reached = 0

    def count(self, line: LogLine) -> Sequence[Fault]:
        if not self.place.holds(line):
            return ()
        self._reached += 1
        return self.waiting.pop(self._reached, ())
