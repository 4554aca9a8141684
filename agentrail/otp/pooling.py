"""The worker pool as a reducer: who gets the next job, when one is tried again, and when it is given up.

Jobs and workers are numbers in here. What a job is, who waits for it and what became of it, only the shell knows; it
carries out the effects, at once and in their order. Neither a clock nor chance is asked. A step changes one job, or as many
as end with the pool; a pool with ten thousand jobs in its queue costs a step no more than one with ten.
"""

from typing import Final, Literal, NewType, TypeAlias, assert_never, get_args

from attrs import field, frozen
from msgspec import Struct, structs

from agentrail.errors import InvalidSpec
from agentrail.otp.child_specs import Backoff, ShutdownTime
from agentrail.otp.edges import show
from agentrail.otp.exits import ExitReason
from agentrail.otp.tables import NO_ENTRIES, Index, Table

JobNumber = NewType("JobNumber", int)
WorkerNumber = NewType("WorkerNumber", int)

WhenFull: TypeAlias = Literal["wait", "refuse"]
PoolPhase: TypeAlias = Literal["open", "draining", "ended"]
JobRefusal: TypeAlias = Literal["full", "stopping"]

_PERIOD_SECONDS: Final = 5.0
_DRAIN_SECONDS: Final = 30.0


# --- flags


def _refuse(name: str, value: object, allowed: str) -> None:
    message = f"{name} is {show(value)}, allowed is {allowed}"
    raise InvalidSpec(message, code="invalid_pool", field=name)


def _is_count(value: object, at_least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


@frozen
class PoolFlags:
    """How a pool treats its jobs and its workers.

    Attributes:
        size: How many workers there are, from 1; each does one job at a time.
        max_queue: How many jobs may wait for a worker, from 0. A job whose worker died comes back to the front, also of a
            full queue: it had its place already.
        when_full: What becomes of one more: its caller waits for a place (`wait`), or gets `PoolFull` (`refuse`).
        max_retries: How often a job whose worker died is tried again, from 0; then it is given up.
        drain_seconds: How long the end of the block waits for the jobs that were accepted, from 0; `math.inf` for ever.
        shutdown_seconds: Of each worker, as in a child spec: how long it may clean up before it is killed.
        intensity: How many restarts of workers are allowed within the period; one more and the pool gives up. `None`:
            `size * (max_retries + 1)`, so that one bad job for each worker does not end the pool.
        period_seconds: See `intensity`.
        backoff: How long a worker waits before it is started again; `None` for not at all.

    Raises:
        InvalidSpec: Your move: `invalid_pool`, with the field. What only the supervisor reads is checked there.
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
        """Check the fields in their order."""
        if not _is_count(self.size, 1):
            _refuse("size", self.size, "an integer from 1")
        if not _is_count(self.max_queue, 0):
            _refuse("max_queue", self.max_queue, "an integer from 0")
        if self.when_full not in get_args(WhenFull):
            _refuse("when_full", self.when_full, " or ".join(map(repr, get_args(WhenFull))))
        if not _is_count(self.max_retries, 0):
            _refuse("max_retries", self.max_retries, "an integer from 0")
        if not _is_seconds(self.drain_seconds):
            _refuse("drain_seconds", self.drain_seconds, "seconds from 0, or math.inf")

    @property
    def restarts(self) -> int:
        """The intensity, with its default."""
        return self.size * (self.max_retries + 1) if self.intensity is None else self.intensity


# --- signals


class Submitted(Struct, frozen=True, gc=False):
    """A caller brings a job.

    Attributes:
        job: A number that was never given before; numbers grow.
        may_wait: Whether its caller can wait for a place.
    """

    job: JobNumber
    may_wait: bool = True


class Withdrawn(Struct, frozen=True, gc=False):
    """No caller wants this job any more. Fine if it is over."""

    job: JobNumber


class WorkerUp(Struct, frozen=True, gc=False):
    """An instance of a worker is ready for its first job; each instance has a number of its own, that grows."""

    worker: WorkerNumber


class JobFinished(Struct, frozen=True, gc=False):
    """A worker is done with its job: there is a value, or an error that the work may raise. It is ready for the next."""

    worker: WorkerNumber


class JobStopped(Struct, frozen=True, gc=False):
    """A worker's job was cancelled, as `CancelJob` wanted; the worker is ready for the next."""

    worker: WorkerNumber
    began: bool


class WorkerDown(Struct, frozen=True, gc=False):
    """An instance has ended, and nothing of it acts any more.

    Attributes:
        began: Whether it had begun with the job that it was given: else the job did not bring it down.
    """

    worker: WorkerNumber
    reason: ExitReason
    began: bool


class Drain(Struct, frozen=True, gc=False):
    """Take no more jobs, and finish those that were accepted."""


class CutOff(Struct, frozen=True, gc=False):
    """End at once: jobs that wait fail, those that run are cancelled. What the first one says counts."""

    reason: ExitReason


PoolSignal: TypeAlias = (
    Submitted | Withdrawn | WorkerUp | JobFinished | JobStopped | WorkerDown | Drain | CutOff
)


# --- effects


class AcceptJob(Struct, frozen=True, gc=False):
    """Tell a caller that its job has a place; it gets exactly one of the ends below, unless it is withdrawn."""

    job: JobNumber


class RefuseJob(Struct, frozen=True, gc=False):
    """Tell a caller that its job was not accepted, and why."""

    job: JobNumber
    why: JobRefusal


class AssignJob(Struct, frozen=True, gc=False):
    """Give a job to a worker that has none."""

    worker: WorkerNumber
    job: JobNumber


class CancelJob(Struct, frozen=True, gc=False):
    """Cancel the job that a worker has; it answers like any other, with `JobStopped` if it was in time."""

    worker: WorkerNumber


class DeliverResult(Struct, frozen=True, gc=False):
    """An end: give the caller what the worker said."""

    job: JobNumber


class GiveUpJob(Struct, frozen=True, gc=False):
    """An end: the job brought down a worker once too often."""

    job: JobNumber
    deaths: int
    reason: ExitReason


class FailJob(Struct, frozen=True, gc=False):
    """An end: the pool ended before the job was done.

    Attributes:
        began: Whether some worker had begun with it, so that it may have done something.
    """

    job: JobNumber
    began: bool
    reason: ExitReason


class ForgetJob(Struct, frozen=True, gc=False):
    """An end: the job was withdrawn before any of the others."""

    job: JobNumber


class Drained(Struct, frozen=True, gc=False):
    """Nothing is left to do, and nothing more is taken. Comes once."""


PoolEffect: TypeAlias = (
    AcceptJob | RefuseJob | AssignJob | CancelJob | DeliverResult | GiveUpJob | FailJob | ForgetJob | Drained
)
"""Carried out in the order of the list."""


# --- the state


class Job(Struct, frozen=True, gc=False):
    """A job that is not over.

    Attributes:
        deaths: How many workers died of it; never more than `max_retries`.
    """

    number: JobNumber
    deaths: int = 0


class Worker(Struct, frozen=True, gc=False):
    """An instance of a worker that is up.

    Attributes:
        turn: Since when it waits for a job: its number in `idle`. 0 while it has one.
        is_cancelled: Its job was cancelled: no caller wants it, or the pool has ended.
        is_withdrawn: No caller wants its job. Only if it is cancelled.
    """

    turn: int = 0
    job: Job | None = None
    is_cancelled: bool = False
    is_withdrawn: bool = False


class PoolState(Struct, frozen=True, kw_only=True):
    """All that a pool knows.

    Attributes:
        phase: `draining` and `ended` take no job; `ended` begins with none.
        reason: Why it ended; `None` unless `phase` is `ended`.
        waiting: Jobs whose callers wait for a place, by number. None while there is one, and none unless `open`.
        queue: Jobs that wait for a worker, by number, so the oldest first. None while a worker is idle, and none in `ended`.
        idle: Those without a job, by turn: who has waited longest comes first.
        holders: Who has which job. As many as workers that are up and not idle.
        accepted: How many jobs ever had a place; each of them is in the queue, with a worker, or counted in one of the next
            four.
        failed: How many the end of the pool left undone.
        withdrawn: How many no caller wanted any more, those that still run included.
        retried: How often a job went back to the queue.
        refused: How many never had a place, because it was full or had begun to stop.
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
    accepted: int = 0
    done: int = 0
    given_up: int = 0
    failed: int = 0
    withdrawn: int = 0
    retried: int = 0
    refused: int = 0


@frozen(kw_only=True)
class PoolStatistics:
    """What a pool is at, and what it has done.

    Attributes:
        idle: Workers that wait for a job.
        busy: Workers that have one.
        queued: Jobs that wait for a worker.
        waiting: Callers that wait for a place in the queue.
        accepted: Jobs that ever had a place.
        done: Jobs that ended with a value, or an error that the work may raise.
        given_up: Jobs that brought down a worker once too often.
        failed: Jobs that the end of the pool left undone.
        withdrawn: Jobs that no caller wanted any more.
        retried: How often a job was put back because its worker died.
        refused: Jobs that never had a place.
    """

    idle: int
    busy: int
    queued: int
    waiting: int
    accepted: int
    done: int
    given_up: int
    failed: int
    withdrawn: int
    retried: int
    refused: int


def statistics_of(state: PoolState) -> PoolStatistics:
    """Say what a pool is at."""
    return PoolStatistics(
        idle=state.idle.count,
        busy=state.holders.count,
        queued=state.queue.count,
        waiting=state.waiting.count,
        accepted=state.accepted,
        done=state.done,
        given_up=state.given_up,
        failed=state.failed,
        withdrawn=state.withdrawn,
        retried=state.retried,
        refused=state.refused,
    )


# --- the step

_Step: TypeAlias = tuple[PoolState, tuple[PoolEffect, ...]]


def step_pool(state: PoolState, signal: PoolSignal) -> _Step:
    """Decide what follows from one signal. Total: one of a job that is over, or a worker that is down, changes nothing."""
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
    """Do what needs no further signal: give jobs to idle workers, places to callers who wait, and say that all is done."""
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
    # An idle worker is a place too: it takes the job at once. So a queue of 0 hands jobs over and keeps none.
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
    """Put a worker behind those that wait for a job."""
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
    if state.waiting.get(job) is not None:  # it never had a place: nothing is counted
        return structs.replace(state, waiting=state.waiting.drop(job)), (ForgetJob(job),)
    counted = structs.replace(state, withdrawn=state.withdrawn + 1)
    if state.queue.get(job) is not None:
        return structs.replace(counted, queue=state.queue.drop(job)), (ForgetJob(job),)
    holder = state.holders.get(job)
    worker = None if holder is None else state.workers.get(holder)
    if holder is None or worker is None or worker.is_cancelled:
        return state, ()  # it is over, or will be: what becomes of it then is said then
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
    queue = state.queue.put(job.number, Job(job.number, deaths))  # older than all that wait, so at the front
    return structs.replace(after, queue=queue, retried=state.retried + 1), ()


def _lose(state: PoolState, worker: Worker, job: Job, *, began: bool) -> _Step:
    """End a job that was cancelled: no caller wants it, or the pool has ended."""
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
    # By the number of the job, since an index has no order, and what is decided may not hang on one.
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
