"""The reducer of a pool, row by row: who gets which job, what a full queue does, and what each end leaves."""

import math
from itertools import count

import pytest

from agentrail.errors import InvalidSpec
from agentrail.otp.exits import Crashed, Killed, Normal, Shutdown
from agentrail.otp.pool import (
    AssignJob,
    CancelJob,
    CutOff,
    DeliverResult,
    Drain,
    Drained,
    FailJob,
    JobFinished,
    JobStopped,
    PoolFlags,
    PoolState,
    RefuseJob,
    Submitted,
    Withdrawn,
    WorkerDown,
    WorkerNumber,
    WorkerUp,
    statistics_of,
    step_pool,
)

CRASH = Crashed("Boom", "boom")
STOP = Shutdown("over")


class Played:
    def __init__(self, size=1, max_queue=2, **options):
        self.state = PoolState(flags=PoolFlags(size, max_queue, **options))
        self.jobs = count(1)

    def play(self, *signals):
        effects = ()
        for signal in signals:
            self.state, effects = step_pool(self.state, signal)
        return effects

    def counts(self, *names):
        now = statistics_of(self.state)
        return tuple(getattr(now, name) for name in names)


def test_what_a_worker_without_a_job_says_of_one_changes_nothing():
    """Nor does a stop that nobody asked for, or a second start; an idle one that died is given nothing, and heard no more."""
    pool = Played()
    pool.play(WorkerUp(1))
    before = pool.state
    assert pool.play(JobFinished(1), JobStopped(1, began=True), WorkerUp(1)) == ()
    assert pool.state == before
    pool.play(Submitted(1))
    before = pool.state
    assert pool.play(JobStopped(1, began=True)) == ()
    assert pool.state == before

    pool = Played()
    assert pool.play(WorkerUp(1), WorkerDown(1, CRASH, began=False)) == ()
    late = (JobFinished(1), JobStopped(1, began=True), WorkerDown(1, CRASH, began=True), JobFinished(9))
    assert pool.play(Submitted(1), *late) == ()
    assert pool.counts("idle", "queued") == (0, 1)


@pytest.mark.parametrize(
    "end", [JobFinished(WorkerNumber(1)), WorkerDown(WorkerNumber(1), CRASH, began=True)]
)
def test_nobody_hears_of_a_withdrawn_job(end):
    """Whether it was done all the same, or its worker died of it: it is not delivered and not tried again."""
    pool = Played()
    assert pool.play(WorkerUp(1), Submitted(1), Withdrawn(1), end) == ()
    assert pool.counts("done", "retried", "queued", "busy") == (0, 0, 0, 0)


def test_draining_finishes_what_was_accepted():
    """Callers without a place are refused, and `Drained` comes once, when the last job is over."""
    pool = Played(max_queue=1)
    pool.play(WorkerUp(1), Submitted(1), Submitted(2), Submitted(3))
    assert pool.play(Drain()) == (RefuseJob(3, "stopping"),)
    assert pool.play(Submitted(4)) == (RefuseJob(4, "stopping"),)
    assert pool.play(WorkerDown(1, CRASH, began=True)) == ()
    assert pool.play(WorkerUp(2)) == (AssignJob(2, 1),)
    assert pool.play(JobFinished(2)) == (DeliverResult(1), AssignJob(2, 2))
    assert pool.play(JobFinished(2)) == (DeliverResult(2), Drained())
    assert pool.play(Drain(), CutOff(STOP)) == ()
    assert pool.counts("refused", "done", "failed") == (2, 2, 0)


def test_the_end_fails_what_waits_and_cancels_what_runs():
    """A job that runs fails when it has ended, and says whether it had begun; one that was just done is delivered."""
    pool = Played(size=3, max_queue=2)
    pool.play(*(WorkerUp(n) for n in (1, 2, 3)), *(Submitted(n) for n in range(1, 7)), Withdrawn(2))
    assert pool.play(CutOff(STOP)) == (
        RefuseJob(6, "stopping"),
        FailJob(4, began=False, reason=STOP),
        FailJob(5, began=False, reason=STOP),
        CancelJob(1),
        CancelJob(3),
    )
    assert pool.play(JobStopped(1, began=True)) == (FailJob(1, began=True, reason=STOP),)
    assert pool.play(JobStopped(2, began=True)) == ()
    assert pool.play(JobFinished(3)) == (DeliverResult(3), Drained())
    assert pool.play(CutOff(Killed()), WorkerUp(9), Withdrawn(3)) == ()
    assert pool.state.reason == STOP
    assert pool.counts("failed", "done", "withdrawn") == (3, 1, 1)


def test_a_worker_that_dies_at_the_end_has_nothing_tried_again():
    """What it had fails; and a job that killed one before had begun, although it waits."""
    pool = Played(size=2, max_queue=2)
    pool.play(WorkerUp(1), Submitted(1), WorkerDown(1, CRASH, began=True), WorkerUp(2), Submitted(2))
    pool.play(WorkerDown(2, CRASH, began=True), WorkerUp(3), WorkerUp(4))
    pool.play(JobFinished(3), Submitted(3), Submitted(4), WorkerDown(3, CRASH, began=True))
    assert pool.play(CutOff(STOP)) == (
        FailJob(3, began=True, reason=STOP),
        FailJob(4, began=False, reason=STOP),
        CancelJob(4),
    )
    assert pool.play(Withdrawn(2)) == ()  # it is cancelled already, and fails when it has ended
    down = WorkerDown(4, Normal(), began=False)
    assert pool.play(down) == (FailJob(2, began=False, reason=STOP), Drained())


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"size": 0}, "size"),
        ({"size": True}, "size"),
        ({"size": 1.5}, "size"),
        ({"size": 1, "max_queue": -1}, "max_queue"),
        ({"size": 1, "when_full": "drop"}, "when_full"),
        ({"size": 1, "max_retries": -1}, "max_retries"),
        ({"size": 1, "drain_seconds": math.nan}, "drain_seconds"),
        ({"size": 1, "drain_seconds": True}, "drain_seconds"),
        ({"size": 1, "drain_seconds": 10**400}, "drain_seconds"),
    ],
)
def test_flags_that_cannot_be(options, field):
    """The error names the field, what was given and what is allowed."""
    with pytest.raises(InvalidSpec, match=f"{field} is .*: expected ") as refused:
        PoolFlags(**options)
    assert (refused.value.code, refused.value.field) == ("invalid_pool", field)
