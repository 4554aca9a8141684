"""The worker pool as a reducer: job assignment, retries, and giving up on a job."""

import math
from typing import Final, Literal, NewType, TypeAlias, assert_never, get_args

from attrs import field, frozen
from msgspec import Struct, structs

from agentrail.errors import InvalidSpec
from agentrail.otp.child_specs import Backoff, ShutdownTime, is_amount, is_whole
from agentrail.otp.exits import ExitReason
from agentrail.otp.guarded_calls import show
from agentrail.otp.persistent_maps import NO_ENTRIES, Index, Table
from agentrail.structs import picked_fields

JobNumber = NewType("JobNumber", int)
WorkerNumber = NewType("WorkerNumber", int)

WhenFull: TypeAlias = Literal["wait", "refuse"]
PoolPhase: TypeAlias = Literal["open", "draining", "ended"]
JobRefusal: TypeAlias = Literal["full", "stopping"]

_PERIOD_SECONDS: Final = 5.0
_DRAIN_SECONDS: Final = 30.0


# --- flags


def _refuse(name: str, value: object, allowed: str) -> None:
    message = f"{name} is {show(value)}: expected {allowed}"
    raise InvalidSpec(message, code="invalid_pool", field=name)


@frozen
class PoolFlags:
    """Settings of a pool.

    Attributes:
        size: Number of workers, from 1. Each does one job at a time.
        max_queue: Number of jobs that may wait for a worker, from 0. A job whose worker died returns to the
            front, even of a full queue: it already had a place.
        when_full: Reaction to one more job: its caller waits for a place (`wait`), or gets `PoolFull`
            (`refuse`).
        max_retries: Number of retries for a job whose worker died, from 0. After that it is given up.
        drain_seconds: Time limit at the end of the block for accepted jobs to finish, from 0. `math.inf` waits
            indefinitely.
        shutdown_seconds: Time limit for each worker to clean up before it is killed, as in a child spec.
        intensity: Restarts of workers allowed within the period. One more makes the pool give up. `None`: `size
            * (max_retries + 1)`, so that one bad job per worker does not end the pool.
        period_seconds: Period of `intensity`.
        backoff: Wait before a worker is restarted, or `None` for no wait.

    Raises:
        InvalidSpec: Your move: `invalid_pool`, with the field. The supervisor checks the fields that only it
            uses.
    """

    size: int
    max_queue: int = 1_000
    when_full: WhenFull = field(default="wait", kw_only=True)
    max_retries: int = field(default=2, kw_only=True)
    drain_seconds: float = field(default=_DRAIN_SECONDS, kw_only=True)
    shutdown_seconds: ShutdownTime = field(default=5.0, kw_only=True)
    intensity: int | None = field(default=None, kw_only=True)
    period_seconds: float = field(default=_PERIOD_SECONDS, kw_only=True)
    backoff: Backoff | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not is_whole(self.size, at_least=1):
            _refuse("size", self.size, "an integer >= 1")
        if not is_whole(self.max_queue, at_least=0):
            _refuse("max_queue", self.max_queue, "an integer >= 0")
        if self.when_full not in get_args(WhenFull):
            _refuse("when_full", self.when_full, " or ".join(map(repr, get_args(WhenFull))))
        if not is_whole(self.max_retries, at_least=0):
            _refuse("max_retries", self.max_retries, "an integer >= 0")
        if not (is_amount(self.drain_seconds) or self.drain_seconds == math.inf):
            _refuse("drain_seconds", self.drain_seconds, "seconds >= 0, or math.inf")

    @property
    def restarts(self) -> int:
        """The intensity, with its default."""
        return self.size * (self.max_retries + 1) if self.intensity is None else self.intensity


# --- signals


class Submitted(Struct, frozen=True, gc=False):
    """A caller submits a job.

    Attributes:
        job: A number that was never used before. Numbers grow.
    """

    job: JobNumber
    may_wait: bool = True


class Withdrawn(Struct, frozen=True, gc=False):
    """The caller no longer wants this job. Has no effect if the job is over."""

    job: JobNumber


class WorkerUp(Struct, frozen=True, gc=False):
    """A worker instance is ready for its first job. Each instance has its own, growing number."""

    worker: WorkerNumber


class JobFinished(Struct, frozen=True, gc=False):
    """A worker finished its job with a value, or with an error that the work may raise. It is ready for the next."""

    worker: WorkerNumber


class JobStopped(Struct, frozen=True, gc=False):
    """A worker's job was cancelled after `CancelJob`. The worker is ready for the next."""

    worker: WorkerNumber
    began: bool


class WorkerDown(Struct, frozen=True, gc=False):
    """A worker instance has ended completely."""

    worker: WorkerNumber
    reason: ExitReason
    began: bool


class Drain(Struct, frozen=True, gc=False):
    """Accept no more jobs, and finish those that were accepted."""


class CutOff(Struct, frozen=True, gc=False):
    """End at once: queued jobs fail, running ones are cancelled. The first such signal sets the reason."""

    reason: ExitReason


PoolSignal: TypeAlias = (
    Submitted | Withdrawn | WorkerUp | JobFinished | JobStopped | WorkerDown | Drain | CutOff
)


# --- effects


class AcceptJob(Struct, frozen=True, gc=False):
    """Notify a caller that its job has a place. The job gets exactly one of the ends below, unless it is withdrawn."""

    job: JobNumber


class RefuseJob(Struct, frozen=True, gc=False):
    """Notify a caller that its job was not accepted, and why."""

    job: JobNumber
    why: JobRefusal


class AssignJob(Struct, frozen=True, gc=False):
    """Assign a job to an idle worker."""

    worker: WorkerNumber
    job: JobNumber


class CancelJob(Struct, frozen=True, gc=False):
    """Cancel the job of a worker. The worker answers as usual, with `JobStopped` if the cancellation was in time."""

    worker: WorkerNumber


class DeliverResult(Struct, frozen=True, gc=False):
    """An end: deliver the worker's result to the caller."""

    job: JobNumber


class GiveUpJob(Struct, frozen=True, gc=False):
    """An end: the job brought down a worker once too often."""

    job: JobNumber
    deaths: int
    reason: ExitReason


class FailJob(Struct, frozen=True, gc=False):
    """An end: the pool ended before the job was done."""

    job: JobNumber
    began: bool
    reason: ExitReason


class ForgetJob(Struct, frozen=True, gc=False):
    """An end: the job was withdrawn before any other end."""

    job: JobNumber


class Drained(Struct, frozen=True, gc=False):
    """There is no work left, and no more is accepted. Sent once."""


PoolEffect: TypeAlias = (
    AcceptJob | RefuseJob | AssignJob | CancelJob | DeliverResult | GiveUpJob | FailJob | ForgetJob | Drained
)
"""An instruction to the shell. Effects are carried out in the order of the list."""


# --- the state


class Job(Struct, frozen=True, gc=False):
    """A job that is not over.

    Attributes:
        deaths: Number of workers that died of it; at most `max_retries`.
    """

    number: JobNumber
    deaths: int = 0


class Worker(Struct, frozen=True, gc=False):
    """A worker instance that is up.

    Attributes:
        turn: Its number in `idle`, or 0 while it has a job.
    """

    turn: int = 0
    job: Job | None = None
    is_cancelled: bool = False
    is_withdrawn: bool = False


class _PoolTotals(Struct, frozen=True, kw_only=True):
    accepted: int = 0
    done: int = 0
    given_up: int = 0
    failed: int = 0
    withdrawn: int = 0
    retried: int = 0
    refused: int = 0


class PoolState(_PoolTotals, frozen=True, kw_only=True):
    """State of a pool.

    Attributes:
        reason: Why it ended; None unless `phase` is `ended`.
        waiting: Jobs whose callers wait for a place, by number. Empty while there is a place, and unless
            `open`.
        queue: Jobs that wait for a worker, by number, so the oldest comes first. Empty while a worker is idle,
            and in `ended`.
        refused: Jobs that never had a place, because the pool was full or stopping.
    """

    flags: PoolFlags
    phase: PoolPhase = "open"
    reason: ExitReason | None = None
    waiting: Table[Job] = Table()
    queue: Table[Job] = Table()
    workers: Index[WorkerNumber, Worker] = NO_ENTRIES
    idle: Table[WorkerNumber] = Table()
    holders: Index[JobNumber, WorkerNumber] = NO_ENTRIES
    turns: int = 0
    is_drained: bool = False


class PoolStatistics(_PoolTotals, frozen=True, kw_only=True):
    """Current load and totals of a pool.

    Attributes:
        idle: Workers that wait for a job.
        busy: Workers that have one.
        queued: Jobs that wait for a worker.
        waiting: Callers that wait for a place in the queue.
        accepted: Jobs that ever had a place.
        done: Jobs that ended with a value, or with an error that the work may raise.
        given_up: Jobs that brought down a worker once too often.
        failed: Jobs left undone by the end of the pool.
        withdrawn: Jobs that callers withdrew.
        retried: Number of times a job was put back because its worker died.
        refused: Jobs that never had a place.
    """

    idle: int
    busy: int
    queued: int
    waiting: int


def statistics_of(state: PoolState) -> PoolStatistics:
    """Return the current load and totals of a pool."""
    return PoolStatistics(
        idle=state.idle.count,
        busy=state.holders.count,
        queued=state.queue.count,
        waiting=state.waiting.count,
        **picked_fields(state, *_PoolTotals.__struct_fields__),
    )


# --- the step

_Step: TypeAlias = tuple[PoolState, tuple[PoolEffect, ...]]


def step_pool(state: PoolState, signal: PoolSignal) -> _Step:
    """Process one signal."""
    match signal:
        case Submitted():
            after, effects = _on_submitted(state, signal)
        case Withdrawn(job=job):
            after, effects = _on_withdrawn(state, job)
        case WorkerUp(worker=worker):
            after, effects = _on_up(state, worker), ()
        case JobFinished(worker=worker):
            after, effects = _on_finished(state, worker)
        case JobStopped(worker=worker, began=began):
            after, effects = _on_stopped(state, worker, began=began)
        case WorkerDown():
            after, effects = _on_down(state, signal)
        case Drain():
            after, effects = _on_drain(state)
        case CutOff(reason=reason):
            after, effects = _on_cut_off(state, reason)
        case _:
            assert_never(signal)
    return _settle(after, effects)


def _settle(state: PoolState, effects: tuple[PoolEffect, ...]) -> _Step:
    """Assign jobs to idle workers, give places to waiting callers, and report when all work is done."""
    more: list[PoolEffect] = list(effects)
    while True:
        idle, job = state.idle.first(), state.queue.first()
        if idle is not None and job is not None:
            state = _assign(state, idle, job[1], more)
            continue
        waiting = state.waiting.first()
        if waiting is None or not _has_room(state):
            break
        state = _accept(state, waiting[1].number, more)
        state = structs.replace(state, waiting=state.waiting.drop(waiting[0]))
    if state.phase != "open" and not state.is_drained and not state.queue.count and not state.holders.count:
        state = structs.replace(state, is_drained=True)
        more.append(Drained())
    return state, tuple(more)


def _has_room(state: PoolState) -> bool:
    # An idle worker counts as a place: it takes the job at once. A queue of 0 therefore hands jobs over
    # without storing any.
    return state.queue.count < state.flags.max_queue or state.idle.count > 0


def _accept(state: PoolState, job: JobNumber, more: list[PoolEffect]) -> PoolState:
    more.append(AcceptJob(job))
    return structs.replace(state, queue=state.queue.put(job, Job(job)), accepted=state.accepted + 1)


def _assign(state: PoolState, idle: tuple[int, WorkerNumber], job: Job, more: list[PoolEffect]) -> PoolState:
    turn, worker = idle
    more.append(AssignJob(worker, job.number))
    return structs.replace(
        state,
        queue=state.queue.drop(job.number),
        idle=state.idle.drop(turn),
        workers=state.workers.put(worker, Worker(job=job)),
        holders=state.holders.put(job.number, worker),
    )


def _rest(state: PoolState, worker: WorkerNumber) -> PoolState:
    turn = state.turns + 1
    return structs.replace(
        state,
        turns=turn,
        workers=state.workers.put(worker, Worker(turn=turn)),
        idle=state.idle.put(turn, worker),
    )


# --- jobs


def _on_submitted(state: PoolState, signal: Submitted) -> _Step:
    job = signal.job
    if state.phase != "open":
        return structs.replace(state, refused=state.refused + 1), (RefuseJob(job, "stopping"),)
    if _has_room(state):
        more: list[PoolEffect] = []
        return _accept(state, job, more), tuple(more)
    if signal.may_wait and state.flags.when_full == "wait":
        return structs.replace(state, waiting=state.waiting.put(job, Job(job))), ()
    return structs.replace(state, refused=state.refused + 1), (RefuseJob(job, "full"),)


def _on_withdrawn(state: PoolState, job: JobNumber) -> _Step:
    if state.waiting.get(job) is not None:  # it never had a place, so it is not counted
        return structs.replace(state, waiting=state.waiting.drop(job)), (ForgetJob(job),)
    counted = structs.replace(state, withdrawn=state.withdrawn + 1)
    if state.queue.get(job) is not None:
        return structs.replace(counted, queue=state.queue.drop(job)), (ForgetJob(job),)
    holder = state.holders.get(job)
    worker = None if holder is None else state.workers.get(holder)
    if holder is None or worker is None or worker.is_cancelled:
        return state, ()  # it is over, or its end is already on the way
    gone = structs.replace(worker, is_cancelled=True, is_withdrawn=True)
    return structs.replace(counted, workers=state.workers.put(holder, gone)), (
        ForgetJob(job),
        CancelJob(holder),
    )


# --- workers


def _on_up(state: PoolState, number: WorkerNumber) -> PoolState:
    return state if state.workers.get(number) is not None else _rest(state, number)


def _on_finished(state: PoolState, number: WorkerNumber) -> _Step:
    worker = state.workers.get(number)
    if worker is None or worker.job is None:
        return state, ()
    after = _rest(structs.replace(state, holders=state.holders.drop(worker.job.number)), number)
    if worker.is_withdrawn:
        return after, ()
    return structs.replace(after, done=state.done + 1), (DeliverResult(worker.job.number),)


def _on_stopped(state: PoolState, number: WorkerNumber, *, began: bool) -> _Step:
    worker = state.workers.get(number)
    if worker is None or worker.job is None or not worker.is_cancelled:
        return state, ()
    after = _rest(structs.replace(state, holders=state.holders.drop(worker.job.number)), number)
    return _lose(after, worker, worker.job, began=began)


def _on_down(state: PoolState, signal: WorkerDown) -> _Step:
    worker = state.workers.get(signal.worker)
    if worker is None:
        return state, ()
    after = structs.replace(
        state, workers=state.workers.drop(signal.worker), idle=state.idle.drop(worker.turn)
    )
    job = worker.job
    if job is None:
        return after, ()
    after = structs.replace(after, holders=state.holders.drop(job.number))
    if worker.is_withdrawn or state.phase == "ended":
        return _lose(after, worker, job, began=signal.began)
    deaths = job.deaths + int(signal.began)
    if deaths > state.flags.max_retries:
        given_up = GiveUpJob(job.number, deaths, signal.reason)
        return structs.replace(after, given_up=state.given_up + 1), (given_up,)
    queue = state.queue.put(job.number, Job(job.number, deaths))  # older than every queued job, so first
    return structs.replace(after, queue=queue, retried=state.retried + 1), ()


def _lose(state: PoolState, worker: Worker, job: Job, *, began: bool) -> _Step:
    """End a cancelled job: no caller wants it, or the pool has ended."""
    if worker.is_withdrawn or state.reason is None:
        return state, ()
    failed = FailJob(job.number, began or job.deaths > 0, state.reason)
    return structs.replace(state, failed=state.failed + 1), (failed,)


# --- the end


def _on_drain(state: PoolState) -> _Step:
    if state.phase != "open":
        return state, ()
    after = structs.replace(
        state, phase="draining", waiting=Table(), refused=state.refused + state.waiting.count
    )
    return after, tuple(RefuseJob(JobNumber(number), "stopping") for number, _ in state.waiting.items())


def _on_cut_off(state: PoolState, reason: ExitReason) -> _Step:
    if state.phase == "ended":
        return state, ()
    after, refused = _on_drain(state)
    effects: list[PoolEffect] = list(refused)
    effects.extend(FailJob(job.number, job.deaths > 0, reason) for _, job in state.queue.items())
    workers = after.workers
    # Sorted by job number, because an index has no order and decisions must not depend on one.
    for _, number in sorted(after.holders.items()):
        worker = workers.get(number)
        if worker is not None and not worker.is_cancelled:
            workers = workers.put(number, structs.replace(worker, is_cancelled=True))
            effects.append(CancelJob(number))
    after = structs.replace(
        after,
        phase="ended",
        reason=reason,
        queue=Table(),
        workers=workers,
        failed=state.failed + state.queue.count,
    )
    return after, tuple(effects)
