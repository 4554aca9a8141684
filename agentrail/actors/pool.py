"""A pool of workers: jobs wait in one bounded queue, and the job of a dead worker goes to another worker."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, TypeAlias, TypeVar, assert_never, cast, overload

import trio
from attrs import define, field

from agentrail.actors.actor_handle import ActorCell, cell_of, current_cell
from agentrail.actors.actor_types import worker
from agentrail.actors.supervisor_handle import Supervisor
from agentrail.actors.supervisor_loop import Core, Observer
from agentrail.actors.supervisor_scope import open_supervisor
from agentrail.errors import (
    ActorDown,
    CallingSelf,
    InvalidSpec,
    JobGivenUp,
    JobWithdrawn,
    PoolFull,
    PoolStopped,
)
from agentrail.otp.child_specs import Arguments, ChildSpec, SupervisorFlags
from agentrail.otp.exits import ExitReason, Redact, Shutdown, describe, keep
from agentrail.otp.guarded_calls import leaves, show
from agentrail.otp.pool import (
    AcceptJob,
    AssignJob,
    CancelJob,
    CutOff,
    DeliverResult,
    Drain,
    Drained,
    FailJob,
    ForgetJob,
    GiveUpJob,
    JobFinished,
    JobNumber,
    JobStopped,
    PoolEffect,
    PoolFlags,
    PoolSignal,
    PoolState,
    PoolStatistics,
    RefuseJob,
    Submitted,
    Withdrawn,
    WorkerDown,
    WorkerNumber,
    WorkerUp,
    statistics_of,
    step_pool,
)
from agentrail.otp.supervision_types import StopSummary

# The core of a pool: its jobs, its workers, and the requests of its reducer.
#
# A step awaits nothing, so there is no loop: each step runs in the task in which its cause happened.

POOL_STOPPED: Final = Shutdown()
_FOR_THE_PROCESS: Final = (KeyboardInterrupt, SystemExit)

Errors: TypeAlias = tuple[type[Exception], ...]


@define(eq=False, repr=False, weakref_slot=False)
class JobRecord:
    """A pool's record of one job.

    Attributes:
        payload: Argument for the work. `None` once the job is over.
        over: Set when the job has its result, or can no longer get one.
        make_error: Builds the error of a job without a result, a new one for each caller.
    """

    number: JobNumber
    payload: object
    placed: trio.Event = field(init=False, factory=trio.Event)
    over: trio.Event = field(init=False, factory=trio.Event)
    is_accepted: bool = field(init=False, default=False)
    value: Any = field(init=False, default=None)
    error: Exception | None = field(init=False, default=None)
    traceback: TracebackType | None = field(init=False, default=None)
    make_error: Callable[[], Exception] | None = field(init=False, default=None)

    def accept(self) -> None:
        self.is_accepted = True
        self.placed.set()

    def end(self, make_error: Callable[[], Exception] | None = None) -> None:
        self.make_error = make_error
        self.payload = None
        self.placed.set()
        self.over.set()

    def check_place(self) -> None:
        if not self.is_accepted and self.make_error is not None:
            raise self.make_error()


@define(eq=False, repr=False, weakref_slot=False)
class _Worker:
    number: WorkerNumber
    cell: ActorCell
    job: JobRecord | None = field(init=False, default=None)
    began: bool = field(init=False, default=False)
    is_cancelled: bool = field(init=False, default=False)
    scope: trio.CancelScope | None = field(init=False, default=None)
    wake: trio.Event = field(init=False, factory=trio.Event)

    def assign(self, job: JobRecord) -> None:
        self.job, self.began, self.is_cancelled = job, False, False
        self.wake.set()

    def cancel(self) -> None:
        self.is_cancelled = True
        if self.scope is not None:
            self.scope.cancel(reason="no caller waits for this job any more")


@define(eq=False, repr=False, slots=False)
class PoolCore:
    """A running pool."""

    _flags: PoolFlags
    _work: Callable[..., Awaitable[Any]]
    _resource: Callable[[], AbstractAsyncContextManager[Any]] | None
    _errors: Errors
    state: PoolState = field(init=False)
    _numbers: Iterator[int] = field(init=False, factory=partial(itertools.count, 1))
    _jobs: dict[JobNumber, JobRecord] = field(init=False, factory=dict)
    _workers: dict[WorkerNumber, _Worker] = field(init=False, factory=dict)
    _cells: set[ActorCell] = field(init=False, factory=set)
    _supervisor: Supervisor | None = field(init=False, default=None)
    _drained: trio.Event = field(init=False, factory=trio.Event)

    def __attrs_post_init__(self) -> None:
        self.state = PoolState(flags=self._flags)

    async def stop(self, seconds: float) -> StopSummary | None:
        self.refuse_own_jobs("stop its own pool and wait for itself")
        self._take(Drain())
        supervisor = self._supervisor
        assert supervisor is not None  # noqa: S101 - a pool has its supervisor before it is published
        try:
            with trio.move_on_after(seconds):
                await self._drained.wait()
        except trio.Cancelled:
            self.cut_off(POOL_STOPPED)
            cell_of(supervisor).ask(POOL_STOPPED)
            raise
        self.cut_off(POOL_STOPPED)
        try:
            return await supervisor.stop()
        except ActorDown:
            return None

    # --- jobs

    def offer(self, job: object, *, may_wait: bool) -> JobRecord:
        self._check_run()
        number = JobNumber(next(self._numbers))
        entry = JobRecord(number, _copied(job))
        self._jobs[number] = entry
        self._take(Submitted(number, may_wait))
        return entry

    def withdraw(self, number: JobNumber) -> None:
        if number in self._jobs:
            self._take(Withdrawn(number))

    def refuse_own_jobs(self, what: str) -> None:
        """Raise inside a job of this pool: if all workers waited for their own pool, none could finish."""
        if self.is_inside():
            message = f"a job would {what}: return the value, submit() the next job, or use another pool"
            raise CallingSelf(message)

    def is_inside(self) -> bool:
        return current_cell() in self._cells

    # --- workers

    async def serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        cell = current_cell()
        assert cell is not None  # noqa: S101 - a supervisor runs it
        async with nullcontext() if self._resource is None else self._resource() as resource:
            own = _Worker(WorkerNumber(next(self._numbers)), cell)
            given = () if self._resource is None else (resource,)
            self._workers[own.number] = own
            self._cells.add(cell)
            cell.watch(own, partial(self._on_end, own))
            task_status.started()
            self._take(WorkerUp(own.number))
            while True:
                await own.wake.wait()
                own.wake = trio.Event()
                await self._attempt(own, given)

    async def _attempt(self, own: _Worker, given: tuple[Any, ...]) -> None:
        job = own.job
        assert job is not None  # noqa: S101 - it was woken for a job
        is_done = False
        if not own.is_cancelled:
            with trio.CancelScope() as own.scope:
                own.began = True
                await self._do(job, given)
                is_done = True
        own.job, own.scope = None, None
        self._take(JobFinished(own.number) if is_done else JobStopped(own.number, own.began))

    async def _do(self, job: JobRecord, given: tuple[Any, ...]) -> None:
        try:
            job.value = await self._work(*given, _copied(job.payload))
        except BaseException as error:  # noqa: ASYNC103 - declared errors are answers, and the worker continues
            parts = leaves(error)
            if any(isinstance(part, _FOR_THE_PROCESS) for part in parts):
                # The exception leaves through the root, and no other worker must meet it.
                self.cut_off(POOL_STOPPED)
            if not isinstance(error, Exception) or not all(isinstance(part, self._errors) for part in parts):
                raise
            # A nursery in the work wraps even a single error in a group. The declared errors name the error, not the group.
            found = parts[0] if len(parts) == 1 else error
            assert isinstance(found, Exception)  # noqa: S101 - all parts are exceptions
            if found.__traceback__ is not None and found is error:
                found.__traceback__ = found.__traceback__.tb_next  # without this frame, which holds the error
            job.error, job.traceback = found, found.__traceback__

    def _on_end(self, own: _Worker, reason: ExitReason) -> None:
        owner = own.cell.owner
        if own.cell.is_laddered and isinstance(owner, Core):  # with it, all other workers stop
            ending = owner.state.ending
            self.cut_off(POOL_STOPPED if ending is None else ending.reason)
        del self._workers[own.number]
        self._cells.discard(own.cell)
        self._take(WorkerDown(own.number, reason, own.began and own.job is not None))

    # --- the end

    def attach(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        if supervisor.exit_reason is not None:
            self.cut_off(supervisor.exit_reason)
        cell_of(supervisor).watch(self, self.cut_off)

    def cut_off(self, reason: ExitReason) -> None:
        self._take(CutOff(reason))

    # --- effects

    def _check_run(self) -> None:
        if self._supervisor is not None:
            cell_of(self._supervisor)  # raises in another Trio run

    def _take(self, signal: PoolSignal) -> None:
        self._check_run()
        self.state, effects = step_pool(self.state, signal)
        for effect in effects:
            self._carry_out(effect)

    def _carry_out(self, effect: PoolEffect) -> None:
        match effect:
            case AcceptJob(job):
                self._jobs[job].accept()
            case AssignJob(number, job):
                self._workers[number].assign(self._jobs[job])
            case CancelJob(number):
                self._workers[number].cancel()
            case Drained():
                self._drained.set()
            case DeliverResult(job):
                self._jobs.pop(job).end()
            case RefuseJob(job, why):
                self._jobs.pop(job).end(self._full if why == "full" else self._stopping)
            case GiveUpJob(job, deaths, reason):
                self._jobs.pop(job).end(partial(_given_up, deaths, reason))
            case FailJob(job, began, reason):
                self._jobs.pop(job).end(partial(_stopped, reason, began=began))
            case ForgetJob(job):
                message = f"job {job} was cancelled by the caller that submitted it, and has no result"
                self._jobs.pop(job).end(partial(JobWithdrawn, message))
            case _:
                assert_never(effect)

    def _full(self) -> PoolFull:
        flags = self.state.flags
        message = f"{flags.max_queue} jobs wait for {flags.size} workers, which is the limit: try again later, or set when_full='wait' in PoolFlags and call run or submit from outside the pool's jobs"
        return PoolFull(message)

    def _stopping(self) -> PoolStopped:
        reason = self.state.reason or POOL_STOPPED
        message = f"the pool is stopping and accepts no more jobs ({describe(reason)}): open another one"
        return PoolStopped(message, reason=reason, began=False)


def _given_up(deaths: int, reason: ExitReason) -> JobGivenUp:
    message = f"{deaths} workers died while running this job, so it is not retried; the last one: {describe(reason)}"
    return JobGivenUp(message, reason=reason, deaths=deaths)


def _stopped(reason: ExitReason, *, began: bool) -> PoolStopped:
    far = "after a worker had started it" if began else "before a worker had started it"
    message = f"the pool ended ({describe(reason)}) {far}: this job was not done"
    return PoolStopped(message, reason=reason, began=began)


def _copied(job: object) -> object:
    (copied,) = Arguments((job,)).copied().positional
    return copied


J = TypeVar("J")
R = TypeVar("R")
W = TypeVar("W")


class PoolJob(Generic[R]):
    """A job that the pool has accepted. Its result can be requested any number of times."""

    __slots__ = ("__weakref__", "_core", "_entry")

    def __init__(self, core: PoolCore, entry: JobRecord) -> None:
        """Created by `Pool.submit`."""
        self._core = core
        self._entry = entry

    def __repr__(self) -> str:
        return f"<PoolJob {self._entry.number}{' (over)' if self.is_over else ''}>"

    @property
    def is_over(self) -> bool:
        """Whether the job has its result, or can no longer get one."""
        return self._entry.over.is_set()

    def cancel(self) -> None:
        """Withdraw the job. A waiting job gives its place back. A running job is cancelled, and its worker continues.

        Harmless if the job is over: its result stays.
        """
        self._core.withdraw(self._entry.number)

    async def result(self) -> R:
        """Wait for the result of the work.

        Returns:
            The value. Each call returns the same object.

        Raises:
            Exception: One of the declared `errors` of the work.
            JobGivenUp: It brought down its workers, once more often than it is retried. `reason` is the cause.
            PoolStopped: The pool ended before the job was done.
            JobWithdrawn: Your move: `cancel` was called.
            CallingSelf: Your move: called inside a job of the same pool, whose last worker may be the one that waits here.

        Cancellation: Always a checkpoint. If cancelled, the job continues.
        """
        entry = self._entry
        if not entry.over.is_set():
            self._core.refuse_own_jobs("wait for a job of its own pool")
        await entry.over.wait()
        if entry.make_error is not None:
            raise entry.make_error()
        if entry.error is not None:
            # Only the traceback of the work, without the frames of earlier callers.
            raise entry.error.with_traceback(entry.traceback)
        return cast("R", entry.value)


class Pool(Generic[J, R]):
    """A pool of workers that do one job each at a time. Created by `open_pool`."""

    __slots__ = ("_core",)

    def __init__(self, core: PoolCore) -> None:
        """Created by `open_pool`."""
        self._core = core

    def __repr__(self) -> str:
        now = self.statistics()
        return f"<Pool {self._core.state.phase} idle={now.idle} busy={now.busy} queued={now.queued}>"

    async def run(self, job: J) -> R:
        """Run a job and return its result.

        Args:
            job: Argument for the work. Built-in containers in it are copied here and for each attempt. All other
                objects are shared.

        Raises:
            Exception: One of the declared `errors` of the work, unwrapped.
            JobGivenUp: It brought down its workers, once more often than it is retried. `reason` is the cause.
            PoolFull: Your move: the queue is full, and `when_full` is `refuse`.
            PoolStopped: The pool ended before the job was done, or accepts no more jobs.
            CallingSelf: Your move: called inside a job of the same pool.

        Cancellation: Always a checkpoint. If cancelled, the job is withdrawn: its place is free at once. A running job is
            cancelled too, and its worker is free as soon as the job has ended.
        """
        self._core.refuse_own_jobs("wait for a job of its own pool")
        entry = await self.submit(job)
        try:
            return await entry.result()
        finally:
            entry.cancel()

    async def submit(self, job: J) -> PoolJob[R]:
        """Put a job into the queue and return once it has its place.

        Args:
            job: Argument for the work, copied as in `run`.

        Raises:
            PoolFull: Your move: the queue is full, and `when_full` is `refuse`; or this is called inside a job of the
                same pool, where no caller may wait for a place.
            PoolStopped: The pool accepts no more jobs.

        Cancellation: Always a checkpoint. If cancelled, no job was submitted.
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
        """Put a job into the queue if it has a free place.

        Raises:
            PoolFull: Your move: the queue is full, for every `when_full`.
            PoolStopped: The pool accepts no more jobs.
        """
        entry = self._core.offer(job, may_wait=False)
        entry.check_place()
        return PoolJob(self._core, entry)

    def statistics(self) -> PoolStatistics:
        """Return the current and total figures of the pool. Cheap, and allowed at any time."""
        return statistics_of(self._core.state)

    async def stop(self, *, drain_seconds: float | None = None) -> StopSummary | None:
        """Accept no more jobs, finish the accepted ones, and stop the workers. Idempotent.

        Jobs that are not done in time are cut off. Their callers get `PoolStopped`, for a running job once it has really ended.

        Args:
            drain_seconds: Time limit for the jobs. `None` uses the flags. 0 cuts off at once.

        Returns:
            How the workers ended. `None` if the pool had ended before.

        Raises:
            CallingSelf: Your move: called inside a job of this pool, which the stop would wait for.
            ValueError: Your move: the time is negative or NaN.

        Cancellation: Always a checkpoint. If cancelled, the remaining jobs are cut off at once, and the stop continues.
        """
        seconds = self._core.state.flags.drain_seconds if drain_seconds is None else drain_seconds
        if not seconds >= 0:
            message = f"drain_seconds is {seconds!r}: expected seconds >= 0, or math.inf"
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
    """Open a pool of workers. The body starts when all workers are up.

    At its end, the pool accepts no more jobs and finishes the accepted ones within `flags.drain_seconds`. If an exception
    or a cancellation ends the block, they are cut off at once. Callers that still wait for an unfinished job get `PoolStopped`.

    Args:
        work: Async function that does one job. Its arguments are the resource, if there is one, and then the job.
        flags: Numbers of workers and jobs, and the retry policy for a job whose worker died.
        resource: Creates the resource that each worker holds for its lifetime, as an async context manager: a
            connection, a process. A restarted worker gets a new one.
        errors: Exception classes that are answers: they are raised at the waiting caller, and the worker continues. Any
            other exception brings the worker down, and the job is tried again.
        observer: Receives the reports of the workers' supervisor. By default they go to the logger `agentrail.actors`.
        redact: Removes secrets from texts before they go into reasons and reports.

    Raises:
        InvalidSpec: Your move: an argument is invalid. No worker was started.
        SupervisorStartFailed: A worker did not start, because its resource could not be created.
        SupervisorGaveUp: Workers died more often than `flags.intensity` allows. The body was cancelled.
        BaseException: An exception from the body, unwrapped.

    Cancellation: Jobs are cut off, and workers are stopped in order.
    """
    given: object = flags
    if not isinstance(given, PoolFlags):
        message = f"flags is {show(flags)}: expected PoolFlags(size=…)"
        raise InvalidSpec(message, code="invalid_pool", field="flags")
    kinds: object = errors
    if not isinstance(kinds, tuple) or not all(
        isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds
    ):
        message = f"errors is {show(errors)}: expected a tuple of classes of Exception"
        raise InvalidSpec(message, code="invalid_pool", field="errors")
    worker(work)  # raises for a function that is not async, with the usual message
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
