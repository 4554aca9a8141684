"""The workloads of the actors room: children, restarts, messages, and an idle machine's memory.

Agents do not occur here. What only computes is taken in CPU time; users wait for a restart, so that is taken
on the clock. `python -m benchmarks.actors machine 2000` is one measurement of memory, in a process of its own.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import perf_counter, process_time
from typing import Any, Final, NoReturn

import trio
import trio.testing

from agentrail.actors import Behaviour, Report, machine, open_supervisor, worker
from agentrail.otp.child_specs import ChildSpec, SupervisorFlags
from agentrail.otp.statem import Call, Init, Keep, MachineEvent, Reply, Transition
from benchmarks.bars import target_of
from benchmarks.idle import Found, Weigh, explain_in_a_process, explain_weight, in_a_process, reply, weigh
from benchmarks.measure import Effort, Rounds, Row, Sample, Target, interleave, percentile
from benchmarks.ours import expect

_MANY: Final = 10_000
_FEW: Final = 1_000
_STARTS: Final = 500
_RESTARTS: Final = 1_000
_MESSAGES: Final = 20_000
_BURST: Final = 500  # casts in one go: the mailbox holds 1,000, and what does not fit is refused
_CALLS: Final = 3_000
_MACHINES: Final = 2_000
_CAPACITY: Final = 1_000
_MICROSECONDS: Final = 1e6
_ONE: Final = SupervisorFlags("one_for_one")


class _Crash(Exception):
    """What a child raises when it is told to."""


# --- children


def children(effort: Effort) -> list[Row]:
    """Many dynamic children against a tenth of them, both started one by one and stopped by the end of the block."""
    many, few = effort.of(_MANY), effort.of(_FEW)
    rounds = interleave(partial(_in_trio, _crowd, few), partial(_in_trio, _crowd, many), effort.rounds)
    return [
        rounds.row(
            "children",
            "seconds",
            f"start and stop of {many:,} dynamic children; bare: {few:,} of them",
            unit="s",
            target=Target(of="ratio", must=12.0),
        )
    ]


async def _crowd(count: int) -> Sample:
    began_at = process_time()
    async with open_supervisor(SupervisorFlags("dynamic"), [_spec("x")], observer=_ignore) as supervisor:
        for _ in range(count):
            await supervisor.start_instance()
        counts = await supervisor.count_children()
    took = process_time() - began_at
    expect("the number of children", counts.active, count)
    return {"seconds": took}


def child(effort: Effort) -> list[Row]:
    """One child after the other: start it, wait until it is up, stop it, wait until it is gone."""
    count = effort.of(_STARTS)
    rounds = interleave(
        partial(_in_trio, _bare_children, count), partial(_in_trio, _our_children, count), effort.rounds
    )
    return [
        rounds.row(
            "child",
            "seconds",
            "start and stop of one supervised child",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("child"),
        )
    ]


async def _bare_children(count: int) -> Sample:
    async def live(gone: trio.Event, *, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        with trio.CancelScope() as scope:
            task_status.started(scope)
            await trio.sleep_forever()
        gone.set()

    async with trio.open_nursery() as nursery:
        began_at = process_time()
        for _ in range(count):
            gone = trio.Event()
            scope: trio.CancelScope = await nursery.start(live, gone)
            scope.cancel()
            await gone.wait()  # as `terminate_child` does
        took = process_time() - began_at
    return {"seconds": took / count}


async def _our_children(count: int) -> Sample:
    spec = _spec("x")
    async with open_supervisor(SupervisorFlags("one_for_one"), observer=_ignore) as supervisor:
        began_at = process_time()
        for _ in range(count):
            await supervisor.start_child(spec)
            await supervisor.terminate_child("x")
        took = process_time() - began_at
        expect("the number of children", (await supervisor.count_children()).specs, 0)
    return {"seconds": took / count}


# --- restarts


def restart(effort: Effort) -> list[Row]:
    """From the raise of a child to the next `started` of the same child, one crash after the other."""
    count = effort.of(_RESTARTS)
    rounds = interleave(
        partial(_in_trio, _bare_restarts, count), partial(_in_trio, _our_restarts, count), effort.rounds
    )
    return [
        rounds.row(
            "restart",
            f"p{percent}_seconds",
            f"restart, from the raise to the new `started`: p{percent}",
            unit="µs",
            factor=_MICROSECONDS,
            target=Target(of="ratio", must=must),
        )
        for percent, must in ((50, 8.0), (99, 20.0))
    ]


class _Fragile:
    """The child of both sides: it notes when it is up, and crashes when it is told to."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self._raised_at: float | None = None
        self._up = trio.Event()
        self._order = trio.Event()

    async def live(self, *, task_status: trio.TaskStatus[None]) -> NoReturn:
        """Be up until the order comes, and then crash."""
        task_status.started()
        if self._raised_at is not None:
            self.took.append(perf_counter() - self._raised_at)
        self._up.set()
        await self._order.wait()
        self._order = trio.Event()
        self._raised_at = perf_counter()
        raise _Crash

    async def crash(self, count: int) -> Sample:
        """Crash so many times, each time as soon as it is up and everybody is at rest."""
        for _ in range(count):
            await self._up.wait()
            self._up = trio.Event()
            await trio.testing.wait_all_tasks_blocked()
            self._order.set()
        await self._up.wait()
        expect("the number of restarts", len(self.took), count)
        return {f"p{percent}_seconds": percentile(self.took, percent) for percent in (50, 99)}


async def _bare_restarts(count: int) -> Sample:
    fragile = _Fragile()
    crashed = trio.Event()

    async def live(*, task_status: trio.TaskStatus[None]) -> None:
        try:
            await fragile.live(task_status=task_status)
        except _Crash:
            crashed.set()

    async def keep_alive() -> None:
        nonlocal crashed
        while True:
            await nursery.start(live)
            await crashed.wait()
            crashed = trio.Event()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_alive)
        sample = await fragile.crash(count)
        nursery.cancel_scope.cancel()
    return sample


async def _our_restarts(count: int) -> Sample:
    fragile = _Fragile()
    # So many crashes in so short a time are what a supervisor gives up at; a short period keeps its list short too.
    flags = SupervisorFlags("one_for_one", intensity=1_000, period_seconds=0.01)
    async with open_supervisor(flags, [ChildSpec("x", worker(fragile.live))], observer=_ignore):
        return await fragile.crash(count)


# --- messages


class _Counter(Behaviour[str, int]):
    """Counts what it is told, and says how much that was when it is asked."""

    async def init(self) -> Init[str, int]:
        """Begin at nothing."""
        return Init("counting", 0)

    def handle(self, event: MachineEvent, state: str, data: int) -> Transition[str, int]:
        """Count, or answer."""
        if isinstance(event, Call):
            return Keep(actions=[Reply(event.to, data)])
        return Keep(data + 1)


def cast(effort: Effort) -> list[Row]:
    """A message to a machine that counts: without waiting, in bursts that its mailbox holds; and waiting for room."""
    count = effort.of(_MESSAGES)
    bare = partial(_in_trio, _bare_messages, count)
    casts = interleave(bare, partial(_in_trio, _our_casts, count), effort.rounds)
    sends = interleave(bare, partial(_in_trio, _our_sends, count), effort.rounds)
    return [
        _each(casts, "cast", "cast to a machine that counts", must=3.0),
        _each(sends, "cast", "the same with `send`, which waits for room"),
    ]


async def _bare_messages(count: int) -> Sample:
    send, receive = trio.open_memory_channel[int](_CAPACITY)
    counted = 0

    async def read() -> None:
        nonlocal counted
        while True:
            await receive.receive()
            counted += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        began_at = process_time()
        for number in range(count):
            await send.send(number)
        await trio.testing.wait_all_tasks_blocked()
        took = process_time() - began_at
        nursery.cancel_scope.cancel()
    expect("the number of messages", counted, count)
    return {"seconds": took / count}


async def _our_casts(count: int) -> Sample:
    async with open_supervisor(_ONE, [ChildSpec("x", machine(_Counter))], observer=_ignore) as supervisor:
        handle = supervisor.handle("x")
        began_at = process_time()
        for first in range(0, count, _BURST):
            for number in range(first, min(first + _BURST, count)):
                handle.cast(number)
            await trio.testing.wait_all_tasks_blocked()
        took = process_time() - began_at
        expect("the number of messages", await handle.call("count"), count)
    return {"seconds": took / count}


async def _our_sends(count: int) -> Sample:
    start = machine(_Counter).with_options(capacity=_CAPACITY, overflow="block")
    async with open_supervisor(_ONE, [ChildSpec("x", start)], observer=_ignore) as supervisor:
        handle = supervisor.handle("x")
        began_at = process_time()
        for number in range(count):
            await handle.send(number)
        await trio.testing.wait_all_tasks_blocked()
        took = process_time() - began_at
        expect("the number of messages", await handle.call("count"), count)
    return {"seconds": took / count}


def call(effort: Effort) -> list[Row]:
    """A request and its answer, one after the other."""
    count = effort.of(_CALLS)
    rounds = interleave(
        partial(_in_trio, _bare_calls, count), partial(_in_trio, _our_calls, count), effort.rounds
    )
    return [_each(rounds, "call", "call round trip to a machine", must=4.0)]


async def _bare_calls(count: int) -> Sample:
    ask, asked = trio.open_memory_channel[int](1)
    answer, answered = trio.open_memory_channel[int](1)

    async def serve() -> None:
        while True:
            await answer.send(await asked.receive())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        began_at = process_time()
        for number in range(count):
            await ask.send(number)
            expect("the answer", await answered.receive(), number)
        took = process_time() - began_at
        nursery.cancel_scope.cancel()
    return {"seconds": took / count}


async def _our_calls(count: int) -> Sample:
    async with open_supervisor(_ONE, [ChildSpec("x", machine(_Counter))], observer=_ignore) as supervisor:
        handle = supervisor.handle("x")
        began_at = process_time()
        for _ in range(count):
            expect("the answer", await handle.call("count"), 0)
        took = process_time() - began_at
    return {"seconds": took / count}


# --- memory


def actor_memory(effort: Effort) -> list[Row]:
    """What an idle machine under a supervisor holds, more than a task that sleeps."""
    count = effort.of(_MACHINES)
    weigh_side = partial(in_a_process, "benchmarks.actors", count=count)
    explain = partial(explain_in_a_process, "benchmarks.actors", "machine", count)
    rounds = interleave(
        partial(weigh_side, "task"),
        partial(weigh_side, "machine"),
        effort.rounds,
        explain=explain,
        warm_up=False,
    )
    tasks = [sample["held_kib"] for sample in rounds.bare]
    brackets = [(before + after) / 2 for before, after in zip(tasks[::2], tasks[1::2], strict=True)]
    more = [{"kib": mine["held_kib"] - task} for mine, task in zip(rounds.ours, brackets, strict=True)]
    title = f"an idle machine under a supervisor, of {count:,}"
    return [
        rounds.row("actor-memory", "held_kib", f"{title}; bare: a sleeping task", unit="KiB"),
        Rounds(ours=more, bare=(), cost=rounds.cost, explain=explain).row(
            "actor-memory",
            "kib",
            "what it holds more than that task",
            unit="KiB",
            target=target_of("held actor"),
        ),
    ]


async def _hold_tasks(weigh: Weigh[Found], count: int) -> Found:
    async with trio.open_nursery() as nursery:

        async def start(more: int) -> None:
            for _ in range(more):
                nursery.start_soon(trio.sleep_forever)
            await trio.testing.wait_all_tasks_blocked()

        sample = await weigh(start, count)
        nursery.cancel_scope.cancel()
    return sample


async def _hold_machines(weigh: Weigh[Found], count: int) -> Found:
    template = ChildSpec("x", machine(_Counter), restart="temporary")
    async with open_supervisor(SupervisorFlags("dynamic"), [template], observer=_ignore) as supervisor:

        async def start(more: int) -> None:
            for _ in range(more):
                await supervisor.start_instance()
            await trio.testing.wait_all_tasks_blocked()

        return await weigh(start, count)


# --- what they share


async def _park(*, task_status: trio.TaskStatus[None]) -> None:
    task_status.started()
    await trio.sleep_forever()


def _spec(child_id: str) -> ChildSpec:
    return ChildSpec(child_id, worker(_park), restart="temporary")


def _ignore(_report: Report) -> None:
    """Take the reports, which would be logged else: a log is not what is measured."""


def _in_trio(main: Callable[[int], Awaitable[Sample]], count: int) -> Sample:
    return trio.run(main, count)


def _each(rounds: Rounds, workload: str, what: str, *, must: float | None = None) -> Row:
    target = None if must is None else Target(of="ratio", must=must)
    return rounds.row(workload, "seconds", what, unit="µs", factor=_MICROSECONDS, target=target)


if __name__ == "__main__":
    hold: Mapping[str, Callable[..., Awaitable[Any]]] = {"task": _hold_tasks, "machine": _hold_machines}
    reply(
        lambda side, count: trio.run(hold[side], weigh, count),
        lambda side, count: trio.run(hold[side], explain_weight, count),
    )
