"""The workload of timers: a hundred thousand of them in one machine, beside a heap."""

import gc
import heapq
import random
import weakref
from collections.abc import Sequence
from functools import partial
from time import process_time
from typing import Final

import trio

from agentrail.actors import Behaviour, get_status, machine, open_supervisor
from agentrail.actors.actor_handle import ActorHandle
from agentrail.actors.deadlines import Deadlines
from agentrail.otp.child_specs import ChildSpec, SupervisorFlags
from agentrail.otp.statem import Call, CancelTimer, Init, Keep, MachineEvent, NamedTimeout, Reply, Transition
from benchmarks.measure import Effort, Row, Sample, Target, interleave
from benchmarks.ours import expect

_TIMERS: Final = 100_000
_TIMERS_IN_ONE_EVENT: Final = 1_000
_FAR_SECONDS: Final = 3_600.0


def timers(effort: Effort) -> list[Row]:
    """Named timers of one machine, each set and then set again; and what the deadlines behind them take alone."""
    count = effort.of(_TIMERS)
    bare = partial(_bare_timers, count)
    in_machine = interleave(bare, partial(trio.run, _our_timers, count), effort.rounds)
    alone = interleave(bare, partial(_our_deadlines, count), effort.rounds)
    title = f"{count:,} timers, each set and replaced"
    return [
        in_machine.row(
            "timers",
            "seconds",
            f"{title}: of a machine",
            unit="s",
            target=Target(of="ratio", must=10.0),
        ),
        alone.row("timers", "seconds", f"{title}: the deadlines of a loop alone", unit="s"),
    ]


class _Name:
    """The name of a timer. Not a string, so that one can see when nobody holds it any more."""

    __slots__ = ("__weakref__",)


class _Alarms(Behaviour[str, None]):
    """Sets the timers that a call names, or cancels those that have no time."""

    async def init(self) -> Init[str, None]:
        """Begin with none."""
        return Init("waiting", None)

    def handle(self, event: MachineEvent, state: str, data: None) -> Transition[str, None]:
        """Set, or cancel."""
        if not isinstance(event, Call):
            return Keep()
        wanted: Sequence[tuple[_Name, float | None]] = event.request  # type: ignore[assignment]  # as `_tell` sends it
        actions = [
            CancelTimer("named", name) if due is None else NamedTimeout(name=name, at_seconds=due)
            for name, due in wanted
        ]
        return Keep(actions=[*actions, Reply(event.to, len(wanted))])


def _bare_timers(count: int) -> Sample:
    names = [_Name() for _ in range(count)]
    first, second = _due_times(count, 0.0)
    heap: list[tuple[float, int, _Name]] = []
    began_at = process_time()
    for number, (name, due) in enumerate(zip(names, first, strict=True)):
        heapq.heappush(heap, (due, number, name))
    for number, (name, due) in enumerate(zip(names, second, strict=True), start=count):
        heapq.heappush(heap, (due, number, name))
        heapq.heappop(heap)  # a heap finds no entry by its name: each of the first is the top once
    took = process_time() - began_at
    expect("the number of timers", len(heap), count)
    return {"seconds": took}


async def _our_timers(count: int) -> Sample:
    children = [ChildSpec("x", machine(_Alarms))]
    async with open_supervisor(SupervisorFlags("one_for_one"), children) as supervisor:
        handle = supervisor.handle("x")
        names = [_Name() for _ in range(count)]
        left = weakref.WeakSet(names)
        first, second = _due_times(count, trio.current_time())
        began_at = process_time()
        await _tell(handle, names, first)
        await _tell(handle, names, second)
        took = process_time() - began_at
        expect("the number of timers", (await get_status(handle)).timers, count)
        await _tell(handle, names, [None] * count)
        expect("the number of timers afterwards", (await get_status(handle)).timers, 0)
        names.clear()
        gc.collect()
        expect("the residue", len(left), 0)
    return {"seconds": took}


async def _tell(handle: ActorHandle, names: Sequence[_Name], due: Sequence[float | None]) -> None:
    for at in range(0, len(names), _TIMERS_IN_ONE_EVENT):
        some = slice(at, at + _TIMERS_IN_ONE_EVENT)
        await handle.call(tuple(zip(names[some], due[some], strict=True)))


def _our_deadlines(count: int) -> Sample:
    names = [_Name() for _ in range(count)]
    first, second = _due_times(count, 0.0)
    deadlines = Deadlines[_Name]()
    began_at = process_time()
    for due in (first, second):
        for name, at_seconds in zip(names, due, strict=True):
            deadlines.arm(name, at_seconds)
    took = process_time() - began_at
    expect("the number of deadlines", len(deadlines), count)
    return {"seconds": took}


def _due_times(count: int, now: float) -> tuple[list[float], list[float]]:
    """Draw the first and the second time of each timer, the same in each run; none comes due in it."""
    draw = random.Random(1)  # noqa: S311 - nobody has to be kept from guessing it
    first = [now + _FAR_SECONDS * (1 + draw.random()) for _ in range(count)]
    return first, [due + _FAR_SECONDS for due in first]
