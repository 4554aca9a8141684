"""Running pools under random load: jobs that crash, hang and clean up, callers that go, workers that are killed, and any end.

A script is plain data; it is played on virtual time.
"""

import math
from collections import Counter
from typing import Literal

import pytest
import trio
import trio.testing
from attrs import frozen
from hypothesis import given, strategies as st

from agentrail.actors import (
    ActorHandle,
    Pool,
    PoolFlags,
    PoolJob,
    cleanup_scope,
    current_actor,
    open_pool,
)
from agentrail.errors import JobGivenUp, JobWithdrawn, PoolFull, PoolStopped, SupervisorGaveUp
from agentrail.testing.orphans import no_orphans

settled = trio.testing.wait_all_tasks_blocked


class Boom(Exception):
    """What a job crashes with."""


class Refusal(Exception):
    """What a job answers with."""


class Enough(Exception):
    """What the body raises."""


@frozen
class Work:
    """One job: how long it takes, and what comes of each attempt; after those it is done.

    Attributes:
        number: Of it.
        seconds: How long an attempt takes; infinity hangs.
        attempts: `crash`, or `refuse` which is an answer.
        clean_up: How long it cleans up when it is cancelled, or `crash` there.
    """

    number: int
    seconds: float
    attempts: tuple[Literal["crash", "refuse"], ...]
    clean_up: float | Literal["crash"]


@frozen
class Line:
    """One thing to do, with what, and how long to wait afterwards."""

    verb: str
    work: Work
    whom: int
    seconds: float


works = st.builds(
    Work,
    number=st.just(0),
    seconds=st.sampled_from([0.0, 0.0, 1.0, 2.0, math.inf]),
    attempts=st.lists(st.sampled_from(["crash", "crash", "refuse"]), max_size=3).map(tuple),
    clean_up=st.sampled_from([0.0, 0.0, 1.0, "crash"]),
)
lines = st.builds(
    Line,
    verb=st.sampled_from(["submit", "submit", "now", "run", "run", "leave", "cancel", "kill", "wait"]),
    work=works,
    whom=st.integers(0, 9),
    seconds=st.sampled_from([0.0, 0.0, 0.5, 3.0]),
)
flags = st.builds(
    PoolFlags,
    size=st.integers(1, 3),
    max_queue=st.integers(0, 3),
    when_full=st.sampled_from(["wait", "refuse"]),
    max_retries=st.integers(0, 2),
    drain_seconds=st.sampled_from([0.0, 1.0, 20.0]),
    intensity=st.sampled_from([0, 2, 1_000, 1_000]),
)
ways = st.sampled_from(["end of block", "stop", "error", "cancellation"])


class Load:
    """The pool, what its jobs saw, and what their callers were told."""

    def __init__(self, given_flags: PoolFlags) -> None:
        self.flags = given_flags
        self.begun: Counter[int] = Counter()
        self.deaths: Counter[int] = Counter()
        self.running: dict[int, ActorHandle] = {}
        self.told: Counter[int] = Counter()
        self.jobs: list[tuple[Work, PoolJob[int]]] = []
        self.leavers: list[trio.CancelScope] = []

    async def work(self, work: Work) -> int:
        """Be one attempt."""
        context = current_actor()
        assert context is not None
        assert work.number not in self.running, "one attempt at a time"
        attempt = self.begun[work.number]
        self.begun[work.number] += 1
        self.running[work.number] = context.handle
        assert len(self.running) <= self.flags.size, "one job for each worker"
        assert len(set(self.running.values())) == len(self.running)
        done = False
        try:
            await trio.sleep(work.seconds)
            if attempt < len(work.attempts):
                raise Boom if work.attempts[attempt] == "crash" else Refusal
            done = True
        finally:
            if not done and work.clean_up == "crash":
                del self.running[work.number]
                raise Boom
            with cleanup_scope():
                await trio.sleep(0 if done or work.clean_up == "crash" else work.clean_up)
            del self.running[work.number]
        return work.number

    def check(self, work: Work, answer: object) -> None:
        """Hold what a caller was told to what happened."""
        self.told[work.number] += 1
        match answer:
            case int(number):
                assert number == work.number
                assert self.begun[number] > 0
            case Refusal():
                assert "refuse" in work.attempts
            case JobGivenUp(deaths=deaths):
                assert deaths == self.flags.max_retries + 1 <= self.begun[work.number]
            case PoolStopped(began=began):
                assert began == (self.begun[work.number] > 0)
            case JobWithdrawn() | PoolFull():
                pass
            case _:
                pytest.fail(f"nobody may be told {answer!r}")

    async def run(self, pool: Pool[Work, int], work: Work) -> None:
        """Be a caller that waits, and may go."""
        with trio.CancelScope() as scope:
            self.leavers.append(scope)
            try:
                answer: object = await pool.run(work)
            except (Refusal, JobGivenUp, PoolStopped, PoolFull) as error:
                answer = error
            self.check(work, answer)

    async def do(self, line: Line, work: Work, pool: Pool[Work, int], nursery: trio.Nursery) -> None:
        """Do what a line says, if there is somebody who can."""
        match line.verb:
            case "submit" | "now":
                with trio.move_on_after(0.5):
                    try:
                        job = pool.submit_nowait(work) if line.verb == "now" else await pool.submit(work)
                        self.jobs.append((work, job))
                    except (PoolFull, PoolStopped) as error:
                        self.check(work, error)
            case "run":
                nursery.start_soon(self.run, pool, work)
            case "leave" if self.leavers:
                self.leavers[line.whom % len(self.leavers)].cancel()
            case "cancel" if self.jobs:
                self.jobs[line.whom % len(self.jobs)][1].cancel()
            case "kill" if self.running:
                [*self.running.values()][line.whom % len(self.running)].kill()
        if line.seconds:
            await trio.sleep(line.seconds)
        else:
            await settled()


def fail_the_body() -> None:
    """Raise out of the block."""
    raise Enough


async def play(given_flags: PoolFlags, script: list[Line], way: str) -> None:
    """Play a script, end the pool, and hold all that anybody was told to what happened."""
    load = Load(given_flags)
    pools: list[Pool[Work, int]] = []
    async with trio.open_nursery() as callers:
        body = trio.CancelScope()
        try:
            with body:
                async with open_pool(
                    load.work, given_flags, errors=(Refusal,), observer=lambda _: None
                ) as pool:
                    pools.append(pool)
                    for number, line in enumerate(script):
                        work = Work(number, line.work.seconds, line.work.attempts, line.work.clean_up)
                        await load.do(line, work, pool, callers)
                    if way == "stop":
                        await pool.stop()
                    elif way == "error":
                        fail_the_body()
                    elif way == "cancellation":
                        body.cancel()
                        await trio.sleep_forever()
        except Enough:
            assert way == "error"
        except SupervisorGaveUp:
            assert given_flags.restarts < 1_000
        assert not load.running, "the block ends when all jobs have"
    (pool,) = pools
    for work, job in load.jobs:
        assert job.is_over
        try:
            answer: object = await job.result()
        except (Refusal, JobGivenUp, PoolStopped, JobWithdrawn) as error:
            answer = error
        load.check(work, answer)
    assert max(load.told.values(), default=1) == 1
    now = pool.statistics()
    assert (now.idle, now.busy, now.queued, now.waiting) == (0, 0, 0, 0)
    assert now.accepted == now.done + now.given_up + now.failed + now.withdrawn
    with pytest.raises(PoolStopped):
        await pool.run(Work(0, 0.0, (), 0.0))


@given(given_flags=flags, script=st.lists(lines, max_size=14), way=ways)
def test_every_caller_is_told_the_truth_once(given_flags, script, way):
    """Each job that was accepted ends once, with what really came of it; one attempt at a time; and nothing is left behind."""

    async def checked() -> None:
        async with no_orphans():
            await play(given_flags, script, way)
            await settled()
            left = trio.lowlevel.current_statistics().seconds_to_next_deadline
            assert left == math.inf, f"a timer is left, it would fire in {left:g} s"

    trio.run(checked, clock=trio.testing.MockClock(autojump_threshold=0))
