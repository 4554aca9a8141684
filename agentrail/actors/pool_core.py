"""A pool at work: its jobs, the workers that are up, and what its reducer wants.

What users hold is in `pool`. A step awaits nothing, so there is no loop: each is taken in the task in which its cause happened.
"""

import itertools
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Final, TypeAlias, assert_never

import trio

from agentrail.actors.handle import ActorCell, cell_of, current_cell
from agentrail.actors.supervising import Core
from agentrail.actors.supervisor_handle import Supervisor
from agentrail.errors import ActorDown, CallingSelf, JobGivenUp, JobWithdrawn, PoolFull, PoolStopped
from agentrail.otp.child_specs import Arguments
from agentrail.otp.edges import leaves
from agentrail.otp.exits import ExitReason, Shutdown, describe
from agentrail.otp.pooling import (
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
    RefuseJob,
    Submitted,
    Withdrawn,
    WorkerDown,
    WorkerNumber,
    WorkerUp,
    step_pool,
)
from agentrail.otp.supervision_types import StopSummary

POOL_STOPPED: Final = Shutdown()
_FOR_THE_PROCESS: Final = (KeyboardInterrupt, SystemExit)

Errors: TypeAlias = tuple[type[Exception], ...]


class JobRecord:
    """One job in the books of its pool.

    Attributes:
        number: Of it.
        payload: What the work is given; `None` once the job is over.
        placed: It was accepted, or refused.
        over: There is a result, or there never will be one.
        is_accepted: It had a place.
        value: What the work returned.
        error: What the work raised, and may raise.
        traceback: Of that error, as the work left it.
        make_error: Makes what a job without a result raises; anew for each caller, since one that is raised twice collects the
            frames of both.
    """

    __slots__ = (
        "error",
        "is_accepted",
        "make_error",
        "number",
        "over",
        "payload",
        "placed",
        "traceback",
        "value",
    )

    def __init__(self, number: JobNumber, payload: object) -> None:
        self.number: JobNumber = number
        self.payload: object = payload
        self.placed: trio.Event = trio.Event()
        self.over: trio.Event = trio.Event()
        self.is_accepted: bool = False
        self.value: Any = None
        self.error: Exception | None = None
        self.traceback: TracebackType | None = None
        self.make_error: Callable[[], Exception] | None = None

    def accept(self) -> None:
        """Let go who waits for its place."""
        self.is_accepted = True
        self.placed.set()

    def end(self, make_error: Callable[[], Exception] | None = None) -> None:
        """Let go who waits for it."""
        self.make_error = make_error
        self.payload = None
        self.placed.set()
        self.over.set()

    def check_place(self) -> None:
        """Raise what it was refused with, if it was.

        Raises:
            PoolFull: There was no place.
            PoolStopped: No job is taken any more.
        """
        if not self.is_accepted and self.make_error is not None:
            raise self.make_error()


class _Worker:
    """One instance of a worker, from its first wait to its end."""

    __slots__ = ("began", "cell", "is_cancelled", "job", "number", "scope", "wake")

    def __init__(self, number: WorkerNumber, cell: ActorCell) -> None:
        self.number = number
        self.cell = cell
        self.job: JobRecord | None = None
        self.began = False
        self.is_cancelled = False
        self.scope: trio.CancelScope | None = None
        self.wake = trio.Event()

    def assign(self, job: JobRecord) -> None:
        """Take a job; the worker was waiting for one."""
        self.job, self.began, self.is_cancelled = job, False, False
        self.wake.set()

    def cancel(self) -> None:
        """Cancel the job that it has."""
        self.is_cancelled = True
        if self.scope is not None:
            self.scope.cancel(reason="no caller waits for this job any more")


class PoolCore:
    """One pool at work.

    Attributes:
        state: What the reducer returned last.
    """

    def __init__(
        self,
        flags: PoolFlags,
        work: Callable[..., Awaitable[Any]],
        resource: Callable[[], AbstractAsyncContextManager[Any]] | None,
        errors: Errors,
    ) -> None:
        """Start with no worker."""
        self.state: PoolState = PoolState(flags=flags)
        self._work = work
        self._resource = resource
        self._errors = errors
        self._numbers = itertools.count(1)
        self._jobs: dict[JobNumber, JobRecord] = {}
        self._workers: dict[WorkerNumber, _Worker] = {}
        self._cells: set[ActorCell] = set()
        self._supervisor: Supervisor | None = None
        self._drained = trio.Event()

    async def stop(self, seconds: float) -> StopSummary | None:
        """Drain, cut off what is left, and stop the workers; see `Pool.stop`."""
        self.refuse_own_jobs("stop its own pool and wait for itself")
        self._take(Drain())
        supervisor = self._supervisor
        assert supervisor is not None  # noqa: S101 - a pool is given out when it has one
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
        """Bring a job."""
        number = JobNumber(next(self._numbers))
        entry = JobRecord(number, _copied(job))
        self._jobs[number] = entry
        self._take(Submitted(number, may_wait))
        return entry

    def withdraw(self, number: JobNumber) -> None:
        """Note that no caller wants this job any more."""
        if number in self._jobs:
            self._take(Withdrawn(number))

    def refuse_own_jobs(self, what: str) -> None:
        """Refuse what a job would wait for in vain as soon as all workers do the same.

        Raises:
            CallingSelf: Your move: this runs inside a job of this pool.
        """
        if self.is_inside():
            message = f"a job would {what}: return the value, submit() what follows, or use another pool"
            raise CallingSelf(message)

    def is_inside(self) -> bool:
        """Tell whether the running code belongs to a job of this pool."""
        return current_cell() in self._cells

    # --- workers

    async def serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Be one worker.

        Cancellation: Ends it, and the job that it has.
        """
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
        assert job is not None  # noqa: S101 - it was woken for one
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
        except BaseException as error:  # noqa: ASYNC103 - but for the errors that are answers it goes on
            parts = leaves(error)
            if any(isinstance(part, _FOR_THE_PROCESS) for part in parts):
                # It leaves by way of the root, and no other worker is to meet it again.
                self.cut_off(POOL_STOPPED)
            if not isinstance(error, Exception) or not all(isinstance(part, self._errors) for part in parts):
                raise
            # A nursery of the work wraps even one error in a group; the caller names the error, not the group.
            found = parts[0] if len(parts) == 1 else error
            assert isinstance(found, Exception)  # noqa: S101 - all parts are
            if found.__traceback__ is not None and found is error:
                found.__traceback__ = found.__traceback__.tb_next  # without this frame, which holds the error
            job.error, job.traceback = found, found.__traceback__

    def _on_end(self, own: _Worker, reason: ExitReason) -> None:
        owner = own.cell.owner
        if own.cell.is_laddered and isinstance(owner, Core):  # its supervisor stops, and all the others go
            ending = owner.state.ending
            self.cut_off(POOL_STOPPED if ending is None else ending.reason)
        del self._workers[own.number]
        self._cells.discard(own.cell)
        self._take(WorkerDown(own.number, reason, own.began and own.job is not None))

    # --- the end

    def attach(self, supervisor: Supervisor) -> None:
        """Take the supervisor of the workers: when it ends, no job goes on."""
        self._supervisor = supervisor
        if supervisor.exit_reason is not None:
            self.cut_off(supervisor.exit_reason)
        cell_of(supervisor).watch(self, self.cut_off)

    def cut_off(self, reason: ExitReason) -> None:
        """End at once, for those who wait."""
        self._take(CutOff(reason))

    # --- effects

    def _take(self, signal: PoolSignal) -> None:
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
                self._jobs.pop(job).end(partial(_withdrawn, job))
            case _:
                assert_never(effect)

    def _full(self) -> PoolFull:
        flags = self.state.flags
        message = (
            f"{flags.max_queue} jobs wait for {flags.size} workers already, at most that many may: try again later, "
            f"or let PoolFlags say when_full='wait' and use run or submit, from outside of its jobs"
        )
        return PoolFull(message)

    def _stopping(self) -> PoolStopped:
        reason = self.state.reason or POOL_STOPPED
        message = (
            f"the pool has begun to end and takes no jobs any more ({describe(reason)}): open another one"
        )
        return PoolStopped(message, reason=reason, began=False)


def _given_up(deaths: int, reason: ExitReason) -> JobGivenUp:
    message = (
        f"{deaths} workers died of this job, and it is not tried again; the last one: {describe(reason)}"
    )
    return JobGivenUp(message, reason=reason, deaths=deaths)


def _stopped(reason: ExitReason, *, began: bool) -> PoolStopped:
    far = "while a worker had begun with it" if began else "before a worker had begun with it"
    message = f"the pool ended ({describe(reason)}) {far}: this job was not done"
    return PoolStopped(message, reason=reason, began=began)


def _withdrawn(job: JobNumber) -> JobWithdrawn:
    message = f"job {job} was cancelled by the caller that submitted it, and has no result"
    return JobWithdrawn(message)


def _copied(job: object) -> object:
    (copied,) = Arguments((job,)).copied().positional
    return copied
