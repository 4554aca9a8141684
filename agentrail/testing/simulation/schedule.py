"""The order and the cost of task steps in a life. `TaskOrder` takes the place of Trio's random generator.

    order = TaskOrder(PORTFOLIO, tape, is_held)
    with seeded_order(seed, order):
        trio.run(main, clock=FakeClock(), instruments=[order])

The ready tasks stand in a line, the oldest first. Each decision runs the first one, unless the tape deviates: `order[418]=2` runs
the one after the next two, `hold[418]=30` takes the first one out of the line for 30 decisions. So an empty tape is the fair order.

Each node and each client has one processor, and so has each task of the world. A step begins when the previous one of its processor
has ended, and never before a step that was ordered earlier: there is one clock.
"""

import math
from collections.abc import Callable
from typing import Final, Literal, NoReturn, TypeAlias, cast

import trio
import trio.testing
from attrs import frozen

from agentrail.testing.seeded import run_queue
from agentrail.testing.simulation.machine import machine_of
from agentrail.testing.simulation.tape import Tape

TrioTask: TypeAlias = trio.lowlevel.Task

STEP_MICROSECONDS: Final = 50
"""Virtual time of a task step. With a frozen clock no deadline would ever pass between two steps."""
LONGEST_STEP_MICROSECONDS: Final = 20_000
"""Longest virtual time of a step. One step in 20 takes longer than the usual time."""
_IDLE_SECONDS: Final = 0.000_5
"""Virtual time of a decision while only tasks are ready that are held back: about the mean of a step."""
MAX_WAIT: Final = 1_000
"""Decisions after which a ready task runs next. Otherwise a task that polls another one could starve it."""

# Mean numbers of decisions. One of the choices is drawn per life or per hold, because the best one depends on the bug.
_BETWEEN_LONG_STEPS: Final = 20
_GAPS: Final = (4, 8, 32, 128)
_HOLDS: Final = (2, 8, 32, 128, 512)
# Root tasks of deadlocked runs. If they were freed, their `finally` blocks would run in the middle of later runs.
_ABANDONED: Final[list[TrioTask | None]] = []


@frozen
class Schedule:
    """A strategy for the order of tasks.

    Attributes:
        strategy: `fair`: the oldest first. `trio`: in random batches, like Trio. `walk`: any ready task. `hybrid`: fair, but now and
            then a task is held back or overtaken. `pct`: by priorities of tasks, which change at some steps. `pos`: by a priority of
            each wake-up. `portfolio`: one of these per life, drawn from the tape.
        depth: For `pct`: number of ordered steps that a bug needs. The higher, the more often priorities change.
    """

    strategy: Literal["fair", "trio", "walk", "hybrid", "pct", "pos", "portfolio"]
    depth: int = 3

    def __str__(self) -> str:
        return f"pct({self.depth})" if self.strategy == "pct" else self.strategy


def pct(depth: int = 3) -> Schedule:
    """Return the schedule of probabilistic concurrency testing, for bugs of this depth."""
    return Schedule("pct", depth)


FAIR, TRIO, WALK = Schedule("fair"), Schedule("trio"), Schedule("walk")
HYBRID, POS = Schedule("hybrid"), Schedule("pos")
PORTFOLIO: Final = Schedule("portfolio")
PARTS: Final = (FAIR, TRIO, WALK, HYBRID, HYBRID, HYBRID, pct(3), POS)
"""Choices of `PORTFOLIO`. The first one is that of an empty tape."""


class Deadlock(Exception):
    """A life that cannot end: no task can ever continue, or some continue long after its end. The cause of a `trio.TrioInternalError`."""


class TaskOrder(trio.abc.Instrument):
    """The order of the ready tasks of one run, and the virtual time of their steps. Also an instrument of this run.

    Attributes:
        schedule: The schedule of this life: of `PORTFOLIO`, the drawn part.
        steps: Number of task steps so far.
        ends_by: Virtual time at which the run must have ended.
    """

    def __init__(self, schedule: Schedule, tape: Tape, is_held: Callable[[TrioTask], bool]) -> None:
        """Create an order.

        Args:
            schedule: How tasks are ordered if the draws of the tape come from its seed. Otherwise they follow the given draws.
            tape: Source of the deviations `order[n]` and `hold[n]`, and of the long steps `cost[n]`, in microseconds.
            is_held: Whether a task has to wait until `release`, because its node does not run.
        """
        self.schedule: Schedule = tape.choice("schedule", PARTS) if schedule == PORTFOLIO else schedule
        self.steps: int = 0
        self.ends_by: float = math.inf
        self._tape = tape
        self._is_held = is_held
        self._chance = tape.generator("schedule")
        self._plan = _plan(tape)
        self._ahead = iter(self._plan or ())
        self._costs = tape.numbered("cost")
        self._decision = self._generation = 0
        self._next_long = self._after(0, _BETWEEN_LONG_STEPS)
        self._next_deviation: float = next(self._ahead, math.inf)
        if self._plan is None and self.schedule.strategy in ("hybrid", "pct"):
            self._mean_gap: int = max(1, 2 * self._chance.choice(_GAPS) // max(1, self.schedule.depth - 1))
            self._next_deviation = self._after(0, self._mean_gap)
        self._priorities: dict[TrioTask, float] = {}
        self._busy_until: dict[object, float] = {}  # by machine, or by task of the world
        self._line: list[tuple[int, TrioTask]] = []  # each with the decision at which it arrived
        self._late: list[tuple[int, TrioTask]] = []  # each with the decision at which it returns to the line
        self._held: list[TrioTask] = []
        self._running: list[TrioTask] = []  # Trio's own list of the tasks that run next, the last one first
        # One of the waiting tasks, left in Trio's queue: while that is not empty, the clock does not jump to the next deadline.
        self._anchor: TrioTask | None = None

    def hold(self) -> None:
        """Set the tasks of stopped nodes aside at once. Without this call, those that are ready still make one step."""
        waiting = [*reversed(self._running), *(task for _, task in (*self._line, *self._late))]
        self._held += [task for task in waiting if self._is_held(task)]
        self._running[:] = [task for task in self._running if not self._is_held(task)]
        self._line = [entry for entry in self._line if not self._is_held(entry[1])]
        self._late = [entry for entry in self._late if not self._is_held(entry[1])]
        self._set_anchor()

    def release(self) -> None:
        """Let the tasks continue that are no longer held. Deadlines that have passed meanwhile have cancelled them."""
        run_queue().extend(task for task in self._held if not self._is_held(task))
        self._held = [task for task in self._held if self._is_held(task)]

    def before_run(self) -> None:
        """Find the clock."""
        self._clock = cast("trio.testing.MockClock", trio.lowlevel.current_clock())

    def shuffle(self, batch: list[TrioTask]) -> None:
        """Leave only those tasks in the list that run now, the last one first. The list is sorted by the age of the tasks."""
        if self._clock.current_time() > self.ends_by:
            self._give_up("tasks are still running long after the end of the life")
        if self._anchor is not None:
            batch.remove(self._anchor)
            self._anchor = None  # Trio has emptied its queue
        for task in batch:
            self._arrive(task)
        while self._late and self._late[0][0] <= self._decision:
            self._arrive(self._late.pop(0)[1])
        batch.clear()
        # Only these know their next deviation in advance, so that Trio gets all tasks before it at once.
        is_batched = self.schedule in (FAIR, HYBRID)
        while self._line and (not batch or (is_batched and self._decision < self._next_deviation)):
            batch.extend(self._decide())
        if not batch:
            self._idle()
        batch.reverse()
        self._running = batch
        self._set_anchor()

    def before_task_step(self, task: TrioTask) -> None:
        """Advance the clock to the end of the previous step of the same processor."""
        processor, now = machine_of(task) or task, self._clock.current_time()
        begins = max(now, self._busy_until.get(processor, now))
        self._clock.jump(begins - now)
        number, cost = self.steps, STEP_MICROSECONDS
        self.steps += 1
        if self._costs is not None:
            cost = int(self._costs.get(number, STEP_MICROSECONDS))
        elif number >= self._next_long:
            self._next_long = self._after(number, _BETWEEN_LONG_STEPS)
            cost = self._chance.randint(STEP_MICROSECONDS + 1, LONGEST_STEP_MICROSECONDS)
        if cost != STEP_MICROSECONDS:
            self._tape.record(f"cost[{number}]", cost)
        self._busy_until[processor] = begins + cost / 1e6

    def task_exited(self, task: TrioTask) -> None:
        """Forget a task."""
        self._priorities.pop(task, None)
        self._busy_until.pop(task, None)

    def _arrive(self, task: TrioTask) -> None:
        if self._is_held(task):
            self._held.append(task)
            return
        self._line.append((self._decision, task))
        if self.schedule == POS or task not in self._priorities:
            self._priorities[task] = self._chance.random()

    def _decide(self) -> tuple[TrioTask, ...]:
        """Take the next task out of the line. Empty: the first one is held back instead."""
        number = self._decision
        self._decision += 1
        if self._plan is None:
            name, value = self._draw(number)
        else:
            name, value = self._plan.get(number, ("order", 0))
            while number >= self._next_deviation:
                self._next_deviation = next(self._ahead, math.inf)
        if value:
            self._tape.record(f"{name}[{number}]", value)
        if name == "hold":
            self._late.append((number + value, self._line.pop(0)[1]))
            self._late.sort(key=lambda late: late[0])
            return ()
        return (self._line.pop(min(value, len(self._line) - 1))[1],)

    def _draw(self, number: int) -> tuple[str, int]:
        line, chance = self._line, self._chance
        match self.schedule.strategy:
            case "hybrid" if number >= self._next_deviation:
                self._next_deviation = self._after(number, self._mean_gap)
                if chance.random() < 1 / 2:
                    return "hold", self._after(0, chance.choice(_HOLDS))
                return "order", chance.randint(1, max(1, len(line) - 1))
            case "fair" | "hybrid":
                return "order", 0
            case _ if number - line[0][0] > MAX_WAIT:
                return "order", 0
            case "trio":
                self._generation = (self._generation or len(line)) - 1
                return "order", chance.randint(0, min(self._generation, len(line) - 1))
            case "walk":
                return "order", chance.randrange(len(line))
            case _:
                return "order", self._most_urgent(number)

    def _most_urgent(self, number: int) -> int:
        ranks = [self._priorities[task] for _, task in self._line]
        if number >= self._next_deviation:  # only `pct`: the next one becomes the last of all
            self._next_deviation = self._after(number, self._mean_gap)
            place = ranks.index(max(ranks))
            ranks[place] = self._priorities[self._line[place][1]] = -number
        return ranks.index(max(ranks))

    def _idle(self) -> None:
        """Let other programs use the processor, until a deadline passes or a task returns that is held back."""
        left = trio.lowlevel.current_statistics().seconds_to_next_deadline
        if self._late:
            steps = max(1, min(self._late[0][0] - self._decision, int(min(left, 1e6) / _IDLE_SECONDS) + 1))
            self._decision += steps
            self._clock.jump(steps * _IDLE_SECONDS)
        elif left == math.inf:
            self._give_up("no task can ever continue")

    def _give_up(self, why: str) -> NoReturn:
        _ABANDONED.append(trio.lowlevel.current_root_task())
        raise Deadlock(why)

    def _after(self, number: int, mean: int) -> int:
        return number + self._chance.randint(1, 2 * mean - 1)

    def _set_anchor(self) -> None:
        if self._anchor is not None:
            run_queue().remove(self._anchor)
        self._anchor = next((task for _, task in (*self._line, *self._late)), None)
        if self._anchor is not None:
            run_queue().append(self._anchor)


def _plan(tape: Tape) -> dict[int, tuple[str, int]] | None:
    order, hold = tape.numbered("order"), tape.numbered("hold")
    if order is None or hold is None:
        return None
    plan = {number: ("order", int(value)) for number, value in order.items()}
    plan |= {number: ("hold", int(value)) for number, value in hold.items()}
    return {number: plan[number] for number in sorted(plan) if plan[number][1] > 0}
