"""A pool of workers: jobs wait in one bounded queue, and one whose worker died goes to another.

The decisions are those of `agentrail.otp.pooling`, and `pool_core` carries them out; here is what users hold. The workers are
permanent children of a supervisor of the pool's own.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar, cast, overload

import trio

from agentrail.actors.blocks import open_supervisor
from agentrail.actors.pool_core import POOL_STOPPED, Errors, JobRecord, PoolCore
from agentrail.actors.start import worker
from agentrail.actors.supervising import Observer
from agentrail.errors import InvalidSpec
from agentrail.otp.child_specs import ChildSpec, SupervisorFlags
from agentrail.otp.edges import show
from agentrail.otp.exits import Redact, keep
from agentrail.otp.pooling import PoolFlags, PoolStatistics, statistics_of
from agentrail.otp.supervision_types import StopSummary

__all__ = ["Pool", "PoolFlags", "PoolJob", "PoolStatistics", "open_pool"]

J = TypeVar("J")
R = TypeVar("R")
W = TypeVar("W")


class PoolJob(Generic[R]):
    """A job that a pool has accepted; its holder may ask for its result, any number of times."""

    __slots__ = ("__weakref__", "_core", "_entry")

    def __init__(self, core: PoolCore, entry: JobRecord) -> None:
        """Made by `Pool.submit`."""
        self._core = core
        self._entry = entry

    def __repr__(self) -> str:
        return f"<PoolJob {self._entry.number}{' (over)' if self.is_over else ''}>"

    @property
    def is_over(self) -> bool:
        """Whether there is a result, or there never will be one."""
        return self._entry.over.is_set()

    def cancel(self) -> None:
        """Withdraw the job: one that waits gives its place back, one that runs is cancelled and its worker goes on.

        Fine if it is over; then its result stays.
        """
        self._core.withdraw(self._entry.number)

    async def result(self) -> R:
        """Wait for what the work returned.

        Returns:
            The value, at each call the same one.

        Raises:
            Exception: One of the `errors` that the work may raise.
            JobGivenUp: Its workers died of it, once more often than is retried; `reason` says of what.
            PoolStopped: The pool ended before it was done.
            JobWithdrawn: Your move: `cancel` was called.
            CallingSelf: Your move: from inside a job of the same pool, whose last worker may be the one that waits here.

        Cancellation: Always a checkpoint; cancelled here the job goes on.
        """
        entry = self._entry
        if not entry.over.is_set():
            self._core.refuse_own_jobs("wait for a job of its own pool")
        await entry.over.wait()
        if entry.make_error is not None:
            raise entry.make_error()
        if entry.error is not None:
            # Of the work, and not of those who asked before.
            raise entry.error.with_traceback(entry.traceback)
        return cast("R", entry.value)


class Pool(Generic[J, R]):
    """Workers that do one job each at a time. Made by `open_pool`."""

    __slots__ = ("_core",)

    def __init__(self, core: PoolCore) -> None:
        """Made by `open_pool`."""
        self._core = core

    def __repr__(self) -> str:
        now = self.statistics()
        return f"<Pool {self._core.state.phase} idle={now.idle} busy={now.busy} queued={now.queued}>"

    async def run(self, job: J) -> R:
        """Do a job, and return what the work returned.

        Args:
            job: What the work is given. Built-in containers in it are copied here and for each attempt, so what one
                attempt changed the next one does not see; all other objects are shared on purpose.

        Raises:
            Exception: One of the `errors` that the work may raise, as itself.
            JobGivenUp: Its workers died of it, once more often than is retried; `reason` says of what.
            PoolFull: Your move: the queue is full, and `when_full` is `refuse`.
            PoolStopped: The pool ended before it was done, or takes no jobs any more.
            CallingSelf: Your move: from inside a job of the same pool.

        Cancellation: Always a checkpoint; cancelled here the job is withdrawn: its place is free again at once, and its
            worker as soon as the job has ended, which is cancelled too.
        """
        self._core.refuse_own_jobs("wait for a job of its own pool")
        entry = await self.submit(job)
        try:
            return await entry.result()
        finally:
            entry.cancel()

    async def submit(self, job: J) -> PoolJob[R]:
        """Put a job into the queue, and return once it has its place; `result` of what is returned waits for the rest.

        Args:
            job: As of `run`.

        Raises:
            PoolFull: Your move: the queue is full, and `when_full` is `refuse`; or this is called from inside a job of the
                same pool, where no caller may wait for a place.
            PoolStopped: The pool takes no jobs any more.

        Cancellation: Always a checkpoint; cancelled here nothing was submitted.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        entry = self._core.offer(job, may_wait=not self._core.is_inside())
        try:
            await entry.placed.wait()
        except trio.Cancelled:
            self._core.withdraw(entry.number)
            raise
        entry.check_place()
        return PoolJob(self._core, entry)

    def submit_nowait(self, job: J) -> PoolJob[R]:
        """Put a job into the queue if it has a place.

        Raises:
            PoolFull: Your move: it has none, whatever `when_full` says.
            PoolStopped: The pool takes no jobs any more.
        """
        entry = self._core.offer(job, may_wait=False)
        entry.check_place()
        return PoolJob(self._core, entry)

    def statistics(self) -> PoolStatistics:
        """Say what it is at, and what it has done; cheap, at any time."""
        return statistics_of(self._core.state)

    async def stop(self, *, drain_seconds: float | None = None) -> StopSummary | None:
        """Take no more jobs, finish those that were accepted, and stop the workers. Twice is as once.

        What is not done in time is cut off: its callers get `PoolStopped`, once it has really ended if it runs.

        Args:
            drain_seconds: How long to wait for the jobs; `None`: as the flags say. 0 cuts off at once.

        Returns:
            How the workers ended; `None` if the pool had ended before.

        Raises:
            CallingSelf: Your move: from inside a job, which this would wait for.
            ValueError: Your move: a time that is negative or NaN.

        Cancellation: Always a checkpoint; cancelled here what is left is cut off at once, and the stop goes on.
        """
        seconds = self._core.state.flags.drain_seconds if drain_seconds is None else drain_seconds
        if not seconds >= 0:
            message = f"drain_seconds is {seconds!r}, allowed are seconds from 0, or math.inf"
            raise ValueError(message)
        return await self._core.stop(seconds)


# --- the block


@overload
def open_pool(
    work: Callable[[J], Awaitable[R]],
    flags: PoolFlags,
    *,
    errors: Errors = ...,
    observer: Observer | None = ...,
    redact: Redact = ...,
) -> AbstractAsyncContextManager[Pool[J, R]]: ...


@overload
def open_pool(
    work: Callable[[W, J], Awaitable[R]],
    flags: PoolFlags,
    *,
    resource: Callable[[], AbstractAsyncContextManager[W]],
    errors: Errors = ...,
    observer: Observer | None = ...,
    redact: Redact = ...,
) -> AbstractAsyncContextManager[Pool[J, R]]: ...


def open_pool(  # noqa: PLR0913 - a block has no other place for its options
    work: Callable[..., Awaitable[Any]],
    flags: PoolFlags,
    *,
    resource: Callable[[], AbstractAsyncContextManager[Any]] | None = None,
    errors: Errors = (),
    observer: Observer | None = None,
    redact: Redact = keep,
) -> AbstractAsyncContextManager[Pool[Any, Any]]:
    """Open a pool of workers; the block begins when all of them are up.

    At its end the pool takes no more jobs and finishes those that were accepted, for as long as `flags.drain_seconds` says;
    if an exception or a cancellation ends the block, they are cut off at once. Who still waits for one that was not done
    gets `PoolStopped`.

    Args:
        work: An async function that does one job: it is given the job, and behind the resource if there is one.
        flags: How many workers and jobs, and what becomes of a job whose worker died.
        resource: Makes what each worker holds for as long as it lives, as an async context manager: a connection, a
            process. A worker that was started again has a new one. It is closed before its job is tried again.
        errors: Classes of exceptions that are an answer: they are raised at the caller that waits, and the worker goes on. Any other
            one brings the worker down, and the job is tried again.
        observer: Gets the reports of the workers' supervisor; else they go to the logger `agentrail.actors`.
        redact: Takes secrets out of texts before they go into reasons and reports.

    Raises:
        InvalidSpec: Your move: nothing was started.
        SupervisorStartFailed: A worker did not start, since its resource could not be made.
        SupervisorGaveUp: Workers died more often than `flags.intensity` allows; the body was cancelled.
        BaseException: What the body raises, as itself.

    Cancellation: Jobs are cut off, workers stopped in order.
    """
    given: object = flags
    if not isinstance(given, PoolFlags):
        message = f"flags is {show(flags)}, allowed is PoolFlags(size=…)"
        raise InvalidSpec(message, code="invalid_pool", field="flags")
    kinds: object = errors
    if not isinstance(kinds, tuple) or not all(
        isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds
    ):
        message = f"errors is {show(errors)}, allowed is a tuple of classes of Exception"
        raise InvalidSpec(message, code="invalid_pool", field="errors")
    worker(work)  # refuses what is no async function, in the words for it
    return _open(PoolCore(flags, work, resource, errors), observer, redact)


@asynccontextmanager
async def _open(core: PoolCore, observer: Observer | None, redact: Redact) -> AsyncIterator[Pool[Any, Any]]:
    flags = core.state.flags
    supervision = SupervisorFlags(
        "one_for_one",
        intensity=flags.restarts,
        period_seconds=flags.period_seconds,
        backoff=flags.backoff,
    )
    workers = [
        ChildSpec(f"worker {number}", worker(core.serve), shutdown_seconds=flags.shutdown_seconds)
        for number in range(1, flags.size + 1)
    ]
    async with open_supervisor(supervision, workers, observer=observer, redact=redact) as supervisor:
        core.attach(supervisor)
        pool: Pool[Any, Any] = Pool(core)
        try:
            yield pool
        except BaseException:
            core.cut_off(POOL_STOPPED)
            raise
        await pool.stop()
