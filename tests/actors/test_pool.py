"""Pools: jobs and results, full queues, workers that die, callers that go, and what an end leaves undone."""

import math
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from agentrail.actors import PoolFlags, open_pool
from agentrail.errors import (
    CallingSelf,
    InvalidSpec,
    JobGivenUp,
    JobWithdrawn,
    PoolFull,
    PoolStopped,
    SupervisorStartFailed,
)
from agentrail.otp.exits import Crashed, Shutdown
from tests.actors.rig import Boom, boom, on_virtual_time, settled


class Bench:
    """Work that a test lets go on, fail, or never end; and who saw which job."""

    def __init__(self):
        self.seen = []
        self.orders = {}
        self.reports = []
        self.open = 0

    async def work(self, job):
        """Do as the job says: wait for its event, crash, or return at once."""
        self.seen.append(job)
        match job:
            case ("crash", int(times)) if self.seen.count(job) <= times:
                boom(f"crash {times}")
            case ("wait", name):
                await self.orders.setdefault(name, trio.Event()).wait()
            case ("sleep", seconds):
                await trio.sleep(seconds)
            case "interrupt":
                raise KeyboardInterrupt
        return job, len(self.seen)

    def go(self, name):
        self.orders.setdefault(name, trio.Event()).set()

    def pool(self, size=1, max_queue=10, **options):
        named = {name: options.pop(name) for name in ("errors", "resource") if name in options}
        flags = PoolFlags(size, max_queue, **options)
        return open_pool(self.work, flags, observer=self.reports.append, **named)


@pytest.fixture
def bench():
    return Bench()


@on_virtual_time
async def test_a_job_that_kills_its_workers_is_given_up(bench):
    """Its caller is told how many died and why the last one did; the pool stands, by default also one of one worker."""
    async with bench.pool(2, max_retries=1) as pool:
        with pytest.raises(JobGivenUp, match=r"2 workers died while running this job.*crash 9") as given_up:
            await pool.run(("crash", 9))
        assert given_up.value.deaths == 2
        assert isinstance(given_up.value.reason, Crashed)
        assert given_up.value.reason.type.endswith("Boom")
        assert await pool.run("next") == ("next", 3)
    async with bench.pool(1, max_retries=4) as pool:
        with pytest.raises(JobGivenUp):
            await pool.run(("crash", 10))
        assert pool.statistics().given_up == 1


@on_virtual_time
async def test_errors_that_are_answers_are_raised_at_the_caller(bench):
    """As themselves, out of the group of a nursery too; the worker goes on, and nothing is tried again."""

    class Refused(Exception):
        def __init__(self):
            super().__init__("no")

    async def refuse():
        raise Refused

    async def work(job):
        if job == "group":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(refuse)
        if job == "two":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(refuse)
                nursery.start_soon(refuse)
        if job == "mixed":
            both = ExceptionGroup("mixed", [Refused(), Boom("yes")])
            raise both
        await refuse()

    async with open_pool(work, PoolFlags(1, max_retries=0), errors=(Refused,)) as pool:
        for job in ("plain", "group"):
            with pytest.raises(Refused, match="no"):
                await pool.run(job)
        with pytest.raises(ExceptionGroup):
            await pool.run("two")
        failed = await pool.submit("plain")
        depths = []
        for _ in range(2):
            with pytest.raises(Refused) as raised:
                await failed.result()
            depths.append(len(raised.traceback))
        assert depths[0] == depths[1]
        with pytest.raises(JobGivenUp, match="yes"):
            await pool.run("mixed")
        assert (pool.statistics().done, pool.statistics().retried) == (4, 0)


@on_virtual_time
async def test_a_full_queue_lets_callers_wait(bench):
    """In their order; whoever goes leaves the place that it waited for to the next."""
    order = []

    async def submit(name):
        await pool.submit(("wait", name))
        order.append(name)

    async with bench.pool(max_queue=1) as pool, trio.open_nursery() as nursery:
        await pool.submit(("wait", 1))
        await pool.submit(("wait", 2))
        with pytest.raises(PoolFull, match="1 jobs wait for 1 workers"):
            pool.submit_nowait("x")
        for name in (3, 4, 5):
            nursery.start_soon(submit, name)
            await settled()
        with trio.move_on_after(1) as gone:
            await pool.submit("never")
        assert gone.cancelled_caught
        assert (pool.statistics().waiting, order) == (3, [])
        for name in (1, 2, 3):
            bench.go(name)
            await settled()
            assert order == list(range(3, name + 3))
        bench.go(4)
        bench.go(5)
    assert bench.seen == [("wait", name) for name in range(1, 6)]


@on_virtual_time
async def test_a_full_queue_refuses_if_it_is_to(bench):
    """With `when_full="refuse"` nobody waits for a place."""
    async with bench.pool(max_queue=0, when_full="refuse") as pool:
        job = await pool.submit(("wait", 1))
        for call in (pool.submit, pool.run):
            with pytest.raises(PoolFull):
                await call("x")
        bench.go(1)
        await job.result()
        assert await pool.run("y") == ("y", 2)
        assert pool.statistics().refused == 2


@on_virtual_time
async def test_a_caller_that_goes_gives_the_place_back(bench):
    """A job that waits is gone at once; one that runs is cancelled, and its worker takes the next and is not restarted."""

    async def run(job):
        await pool.run(job)

    async with bench.pool(max_queue=1) as pool, trio.open_nursery() as nursery:
        nursery.start_soon(run, ("wait", 1))
        await settled()
        nursery.start_soon(run, ("wait", 2))
        await settled()
        nursery.cancel_scope.cancel()
    assert bench.seen == [("wait", 1)]
    assert (pool.statistics().withdrawn, pool.statistics().failed) == (2, 0)
    async with bench.pool(max_queue=1) as pool:
        running = await pool.submit(("wait", 3))
        queued = await pool.submit(("wait", 4))
        running.cancel()
        running.cancel()
        queued.cancel()
        assert await pool.run("next") == ("next", 3)
        for job in (running, queued):
            with pytest.raises(JobWithdrawn, match="cancelled by the caller that submitted it"):
                await job.result()
        (only,) = [report for report in bench.reports if report.kind == "progress"][1:]
        assert only.incarnation == 1


@on_virtual_time
async def test_a_cancelled_job_that_crashes_is_not_tried_again(bench):
    """Nobody wants it: its worker is started again, and takes the next one."""

    async def work(job):
        if job == "bad":
            try:
                await trio.sleep_forever()
            finally:
                boom("clean-up")
        return job

    async with open_pool(work, PoolFlags(1), observer=bench.reports.append) as pool:
        bad = await pool.submit("bad")
        await settled()
        bad.cancel()
        assert await pool.run("good") == "good"
        assert pool.statistics().retried == 0


@on_virtual_time
async def test_what_is_not_done_in_time_is_cut_off(bench):
    """Who waits hears that the pool has ended, and whether the job had begun."""
    async with bench.pool(drain_seconds=1) as pool:
        running = await pool.submit(("wait", 1))
        queued = await pool.submit(("wait", 2))
    assert trio.current_time() == 1
    with pytest.raises(PoolStopped, match="after a worker had started it") as stopped:
        await running.result()
    assert (stopped.value.began, stopped.value.reason) == (True, Shutdown())
    with pytest.raises(PoolStopped, match="before a worker had started it") as stopped:
        await queued.result()
    assert not stopped.value.began
    with pytest.raises(PoolStopped, match="the pool is stopping and accepts no more jobs"):
        await pool.run("late")
    with pytest.raises(PoolStopped):
        pool.submit_nowait("late")


@on_virtual_time
async def test_stop_in_the_block(bench):
    """It drains, and says how the workers ended; a second one finds nothing; one that was cancelled goes on."""
    async with bench.pool(2) as pool:
        job = await pool.submit(("sleep", 3))
        summary = await pool.stop()
        assert trio.current_time() == 3
        assert (await job.result())[0] == ("sleep", 3)
        assert (summary.reason, summary.ended, summary.killed) == (Shutdown(), 2, 0)
        assert await pool.stop() is None
        with pytest.raises(ValueError, match="drain_seconds is nan"):
            await pool.stop(drain_seconds=math.nan)
        assert repr(pool) == "<Pool ended idle=0 busy=0 queued=0>"
    async with bench.pool() as pool:
        job = await pool.submit(("wait", 1))
        with trio.move_on_after(1):
            await pool.stop(drain_seconds=math.inf)
        with pytest.raises(PoolStopped):
            await job.result()
        await settled()
        assert await pool.stop() is None


@on_virtual_time
async def test_a_resource_that_cannot_be_made_refuses_the_pool():
    """Nothing is given out, and the error says which worker."""

    @asynccontextmanager
    async def connect():
        boom("no connection")
        yield

    async def work(connection, job):
        return job

    with pytest.raises(SupervisorStartFailed, match=r"worker 1.*no connection"):
        async with open_pool(work, PoolFlags(2), resource=connect, observer=lambda _: None):
            pytest.fail("the block began")


@on_virtual_time
async def test_a_job_waits_for_no_other_of_its_pool(bench):
    """It would wait for itself as soon as all workers do so. Submitting is fine, but waits for no place."""
    said, go = [], trio.Event()

    async def work(job):
        if job != "outer":
            return job
        await go.wait()
        for call in (pool.run, lambda _: before.result(), lambda _: pool.stop()):
            with pytest.raises(CallingSelf, match="its own pool"):
                await call("x")
        said.append(await pool.submit("inner"))
        with pytest.raises(PoolFull):
            await pool.submit("no place")
        return job

    with trio.fail_after(100):
        async with open_pool(work, PoolFlags(1, 2)) as pool:
            outer = await pool.submit("outer")
            before = await pool.submit("before")
            go.set()
            assert await outer.result() == "outer"
            assert await said[0].result() == "inner"


@on_virtual_time
async def test_an_interrupt_is_met_once(bench):
    """It ends the pool and leaves the block as itself; no other worker is given the job that raised it."""
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the block itself raises
        async with bench.pool(3) as pool:
            job = await pool.submit("interrupt")
            await trio.sleep_forever()
    assert bench.seen == ["interrupt"]
    with pytest.raises(PoolStopped):
        await job.result()


untyped: Any = open_pool
"""What a type checker would refuse already."""


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda work: untyped(work, 4), r"flags is 4: expected PoolFlags\(size"),
        (lambda work: untyped(work, PoolFlags(1), errors=[ValueError]), "errors is .*tuple of classes"),
        (lambda work: untyped(work, PoolFlags(1), errors=(KeyboardInterrupt,)), "errors is .*tuple"),
        (lambda work: untyped(print, PoolFlags(1)), "takes an async function, got print"),
    ],
)
def test_bad_input(call, words):
    """It is refused before anything is opened, with what is allowed."""

    async def work(job):
        return job

    with pytest.raises(InvalidSpec, match=words):
        call(work)
