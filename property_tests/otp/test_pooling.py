"""A pool under any script of callers, workers and ends: no job is lost, done by two, or tried too often. Without Trio."""

from collections import Counter
from typing import Any, Final

from hypothesis import given, strategies as st

from agentrail.otp.exits import Crashed, Shutdown
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
    RefuseJob,
    Submitted,
    Withdrawn,
    WorkerDown,
    WorkerNumber,
    WorkerUp,
    step_pool,
)

CRASH: Final = Crashed("Boom", "boom")
STOP: Final = Shutdown("over")
ENDS: Final = (DeliverResult, GiveUpJob, FailJob, ForgetJob)

flags = st.builds(
    PoolFlags,
    size=st.integers(1, 4),
    max_queue=st.integers(0, 4),
    when_full=st.sampled_from(["wait", "refuse"]),
    max_retries=st.integers(0, 3),
)
VERBS: Final = [
    *["submit"] * 4,
    "submit now",
    "withdraw",
    *["up"] * 2,
    *["finish"] * 2,
    "stopped",
    "crash when stopped",
    *["crash"] * 2,
    "killed before it began",
    "late",
]
lines = st.tuples(st.sampled_from(VERBS), st.integers(0, 40))
scripts = st.lists(lines, max_size=60)
ends = st.sampled_from(["none", "drain", "cut", "drain, cut"])


class Watched:
    """A pool, and a plain account of what it said, which knows nothing of how it decides."""

    def __init__(self, given_flags: PoolFlags) -> None:
        self.flags = given_flags
        self.state = PoolState(flags=given_flags)
        self.submitted: list[int] = []
        self.accepted: list[int] = []
        self.refused: set[int] = set()
        self.ended: dict[int, PoolEffect] = {}
        self.idle: list[int] = []
        self.busy: dict[int, int] = {}
        self.cancelled: set[int] = set()
        self.deaths: Counter[int] = Counter()
        self.began: set[int] = set()
        self.drained = 0
        self.workers = 0
        self.is_open = True

    def play(self, signal: PoolSignal) -> None:
        """Give it a signal, and hold each effect to what is known."""
        self.state, effects = step_pool(self.state, signal)
        for effect in effects:
            self._see(effect)
        self._check()

    def _see(self, effect: PoolEffect) -> None:
        match effect:
            case AcceptJob(job):
                assert job in self.submitted
                assert job not in {*self.accepted, *self.refused, *self.ended}
                self.accepted.append(job)
            case RefuseJob(job, why):
                assert job not in {*self.accepted, *self.refused, *self.ended}
                assert why == ("full" if self.is_open else "stopping")
                self.refused.add(job)
            case AssignJob(worker, job):
                assert worker == self.idle.pop(0), "who has waited longest comes first"
                assert job in self.accepted
                assert job not in {*self.ended, *self.busy.values()}
                self.busy[worker] = job
            case CancelJob(worker):
                assert worker in self.busy
                assert worker not in self.cancelled
                self.cancelled.add(worker)
            case Drained():
                self.drained += 1
            case _:
                assert isinstance(effect, ENDS)
                assert effect.job not in {*self.ended, *self.refused}, "a job ends once"
                self.ended[effect.job] = effect
                if isinstance(effect, GiveUpJob):
                    assert effect.deaths == self.deaths[effect.job] == self.flags.max_retries + 1
                if isinstance(effect, FailJob):
                    assert effect.began == (effect.job in self.began)

    def _check(self) -> None:
        state = self.state
        queued = [number for number, _ in state.queue.items()]
        waiting = [number for number, _ in state.waiting.items()]
        assert dict(state.holders.items()) == {job: worker for worker, job in self.busy.items()}
        assert [worker for _, worker in state.idle.items()] == self.idle
        assert not (queued and self.idle), "nobody is idle while a job waits"
        retried = sum(self.deaths[job] > 0 for job in queued)
        assert len(queued) <= self.flags.max_queue + retried + len(self.cancelled) + self.flags.size
        assert not waiting or (len(queued) >= self.flags.max_queue and not self.idle)
        running = set(self.busy.values())
        open_jobs = set(self.submitted) - self.refused - set(self.ended)
        assert open_jobs == {*queued, *waiting, *(job for job in running if job not in self.ended)}
        assert all(self.deaths[job] <= self.flags.max_retries for job in queued)
        lost = state.done + state.given_up + state.failed + state.withdrawn
        assert state.accepted == len(self.accepted) == len(queued) + len(running - set(self.ended)) + lost
        is_idle = not self.is_open and not queued and not self.busy
        assert self.drained == int(is_idle or self.drained > 0) == int(state.is_drained)

    # --- the script

    def do(self, verb: str, number: int) -> None:
        """Do what a line says, if there is somebody who can."""
        busy, everybody = sorted(self.busy), sorted({*self.busy, *self.idle})
        match verb:
            case "submit" | "submit now":
                job = len(self.submitted) + 1
                self.submitted.append(job)
                self.play(Submitted(JobNumber(job), may_wait=verb == "submit"))
            case "withdraw" if self.submitted:
                self.play(Withdrawn(JobNumber(self.submitted[number % len(self.submitted)])))
            case "up" if len(everybody) < self.flags.size:
                self.workers += 1
                self.idle.append(self.workers)
                self.play(WorkerUp(WorkerNumber(self.workers)))
            case "finish" if busy:
                self.finish(busy[number % len(busy)])
            case "stopped" if self.cancelled:
                self.stop(sorted(self.cancelled)[number % len(self.cancelled)])
            case "crash when stopped" if self.cancelled:
                self.crash(sorted(self.cancelled)[number % len(self.cancelled)], began=True)
            case "crash" if everybody:
                self.crash(everybody[number % len(everybody)], began=True)
            case "killed before it began" if everybody:
                self.crash(everybody[number % len(everybody)], began=False)
            case "late":
                self.play(JobFinished(WorkerNumber(10_000 + number)))

    def finish(self, worker: int) -> None:
        """Let a worker be done."""
        self.began.add(self.busy.pop(worker))
        self.cancelled.discard(worker)
        self.idle.append(worker)
        self.play(JobFinished(WorkerNumber(worker)))

    def stop(self, worker: int) -> None:
        """Let a worker's job have been cancelled."""
        self.began.add(self.busy.pop(worker))
        self.cancelled.discard(worker)
        self.idle.append(worker)
        self.play(JobStopped(WorkerNumber(worker), began=True))

    def crash(self, worker: int, *, began: bool) -> None:
        """Let a worker die, of its job or of something else."""
        job = self.busy.pop(worker, None)
        if job is not None and began:
            self.deaths[job] += 1
            self.began.add(job)
        if worker in self.idle:
            self.idle.remove(worker)
        self.cancelled.discard(worker)
        self.play(WorkerDown(WorkerNumber(worker), CRASH, began=began and job is not None))


@given(given_flags=flags, script=scripts, end=ends, after=scripts)
def test_each_job_ends_once(given_flags, script, end, after):
    """Whatever happens: accepted or refused once, with one worker at a time, ended once; and a pool that ends is drained."""
    pool = Watched(given_flags)
    for line in script:
        pool.do(*line)
    for signal in {"none": [], "drain": [Drain()], "cut": [CutOff(STOP)]}.get(end, [Drain(), CutOff(STOP)]):
        pool.is_open = False
        pool.play(signal)
    for line in after:
        pool.do(*line)
    pool.is_open = False
    pool.play(Drain())
    while pool.busy or pool.state.queue.count:
        for worker in sorted(pool.busy):
            pool.finish(worker)
        pool.do("up", 0)
    assert pool.drained == 1
    assert set(pool.submitted) == {*pool.ended, *pool.refused}
    assert not pool.cancelled


@given(given_flags=flags, script=scripts)
def test_retries_stand_in_the_order_in_which_jobs_came(given_flags, script):
    """Among jobs that wait, the oldest goes out first, whether it was tried before or not."""
    pool = Watched(given_flags)
    for verb, number in script:
        before = [job for job, _ in pool.state.queue.items()]
        busy_before: dict[int, Any] = dict(pool.busy)
        pool.do(verb, number)
        given_out = [job for worker, job in pool.busy.items() if busy_before.get(worker) != job]
        old = [job for job in given_out if job in before]
        assert old == sorted(old)
        assert old == [job for job in before if job not in pool.ended][: len(old)]
