"""How much a caller may ask for: the numbers, the buckets and the counts, on a clock that is a number."""

import pytest
from hypothesis import example, given, strategies as st

from agentrail.errors import OptionError, QuotaReached
from agentrail.host.identity import SessionOwner
from agentrail.host.quotas import (
    Allowance,
    Allowances,
    Limits,
    OpenCounts,
    OpenSessions,
    Pace,
    decide_draw,
)
from agentrail.stores.append_rules import draw_allowance

ADA, BOB = SessionOwner("acme", "ada"), SessionOwner("acme", "bob")
FAR = 1e9  # a clock may have run for thirty years


def test_all_wrong_limits_are_told_at_once():
    """And those that no other room would take."""
    with pytest.raises(OptionError) as caught:
        Limits(max_json_depth=129, max_message_bytes=1_000_001, max_attachment_name=7, calls_burst=0)
    assert len(caught.value.faults) == 4
    assert Limits(max_attachments=0).max_attachments == 0


@pytest.mark.host("H-086")
def test_the_message_behind_the_burst_is_refused_and_says_when_to_come_back():
    """Ten at once, then one a second; an abort at that moment is free, and other calls have a bucket of their own."""
    allowances = Allowances(Limits())
    drawn = [allowances.take(ADA, "prompt", FAR) for _ in range(11)]
    assert [one.is_allowed for one in drawn] == [True] * 10 + [False]
    assert [one.left for one in drawn] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0]
    assert [drawn[0].full_in_seconds, drawn[-1].full_in_seconds] == [1, 10]
    assert [one.retry_after_seconds for one in drawn] == [0] * 10 + [1]
    assert [allowances.take(ADA, free, FAR) for free in ("abort", "reject", "cancel")] == [None] * 3
    assert allowances.take(ADA, "approve", FAR).left == 99
    assert allowances.take(BOB, "chat", FAR).is_allowed
    assert allowances.take(ADA, "chat", FAR + 1).is_allowed
    assert not allowances.take(ADA, "chat", FAR + 1).is_allowed


paces = st.builds(
    Pace,
    count=st.integers(1, 200),
    window_seconds=st.sampled_from([1.0, 7.0, 60.0]),
    burst=st.integers(1, 20),
)
waits = st.lists(st.floats(0, 30), max_size=60)


@given(paces, waits)
def test_no_stretch_of_time_has_more_than_the_burst_and_its_share(pace, gaps):
    """For any two allowed draws, whatever lies between them."""
    now, full_at, allowed = FAR, 0.0, []
    for gap in gaps:
        now += gap
        full_at, draw = decide_draw(full_at, pace, now)
        if draw.is_allowed:
            allowed.append(now)
    for first, start in enumerate(allowed):
        for last in range(first, len(allowed)):
            share = pace.burst + (allowed[last] - start) / pace.interval_seconds
            assert last - first + 1 <= share + 1e-3


# Nineteen roundings of a clock that has run for thirty years were more than was let pass.
@example(Pace(45, 1.0, 19), [0.0])
@given(paces, waits)
def test_who_waits_as_long_as_was_said_is_let_in(pace, gaps):
    """And one second earlier is not; what is refused costs nothing; what is left is there, and no more."""
    now, full_at = FAR, 0.0
    for gap in gaps:
        now += gap
        before = full_at
        full_at, draw = decide_draw(full_at, pace, now)
        if not draw.is_allowed:
            assert max(before, now) == pytest.approx(full_at, abs=1e-5)
            assert draw.left == 0
            later = now + draw.retry_after_seconds
            assert decide_draw(full_at, pace, later)[1].is_allowed
            assert draw.retry_after_seconds == 1 or not decide_draw(full_at, pace, later - 1)[1].is_allowed
            continue
        further, left = full_at, 0
        while (step := decide_draw(further, pace, now))[1].is_allowed:
            further, left = step[0], left + 1
        assert left == draw.left
        assert decide_draw(full_at, pace, now + draw.full_in_seconds)[1].left == pace.burst - 1


@given(paces, waits)
def test_what_is_returned_can_be_taken_again_and_never_exceeds_the_burst(pace, gaps):
    """Also where a bucket was full again before a call was known to have failed, and in a store that all nodes share."""
    now, full_at, shared = FAR, 0.0, 0.0
    step = {"step_ms": pace.interval_seconds * 1000, "limit_ms": pace.interval_seconds * pace.burst * 1000}
    back = {**step, "step_ms": -step["step_ms"]}
    for gap in gaps:
        full_at, draw = decide_draw(full_at, pace, now)
        drawn = draw_allowance(shared, **step, now=round(now * 1000))
        now += gap
        if draw.is_allowed and drawn.is_allowed:
            full_at = decide_draw(full_at, pace, now, -1)[0]
            shared = draw_allowance(drawn.full_at_ms, **back, now=round(now * 1000)).full_at_ms
        assert decide_draw(full_at, pace, now)[1].left == pace.burst - 1
        assert draw_allowance(shared, **step, now=round(now * 1000)).is_allowed
    burst = [full_at]
    for _ in range(pace.burst):
        burst.append(decide_draw(burst[-1], pace, now)[0])
    assert not decide_draw(burst[-1], pace, now)[1].is_allowed


def test_full_buckets_are_forgotten_and_buckets_are_bounded():
    """Callers who never return are dropped without a scan of all. Beyond the bound, the least recently used bucket goes."""
    allowance = Allowance(Pace(60, 60.0, 10))
    for key in range(1000):
        allowance.take(key, FAR + key)
    assert len(allowance) <= 2
    burst = Allowance(Pace(60, 60.0, 10))
    for key in range(1000):
        burst.take(key, FAR)
    assert len(burst) == 1000
    for key in range(1001):
        burst.take(-1 - key, FAR + 2 + key)
    assert len(burst) <= 2

    allowance = Allowance(Pace(1, 60.0, 1), max_keys=3)
    for key in ["a", "b", "c", "a", "d"]:
        allowance.take(key, FAR)
    assert len(allowance) == 3
    assert not allowance.take("a", FAR).is_allowed
    assert allowance.take("b", FAR).is_allowed


def test_places_are_counted_for_each_and_in_all():
    """The caller's own are said first: that is what they can do something about."""
    counts = OpenCounts(2, 3)
    places = [counts.take(ADA), counts.take(ADA)]
    assert counts.take(ADA) == "caller"
    other = counts.take(BOB)
    assert counts.take(BOB) == "process"
    assert counts.take(ADA) == "caller"
    places[0].close()
    assert (counts.of(ADA), counts.in_all) == (1, 2)
    places[0].close()
    assert (counts.of(ADA), counts.in_all) == (1, 2)
    other.close()
    assert counts.of(BOB) == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-1, 9)), max_size=40))
def test_counts_are_those_of_the_places_that_are_open(doings):
    """Against a plain list, whatever is taken and closed in which order; nothing of a caller is kept who has none."""
    counts, opened = OpenCounts(3, 5), []
    for key, closing in doings:
        if closing >= 0 and opened:
            opened.pop(closing % len(opened))[1].close()
            continue
        mine = sum(one == key for one, _ in opened)
        took = counts.take(key)
        if mine >= 3 or len(opened) >= 5:
            assert took == ("caller" if mine >= 3 else "process")
        else:
            opened.append((key, took))
        assert counts.in_all == len(opened)
        for one in "abc":
            assert counts.of(one) == sum(one == key for key, _ in opened)
    for _, place in opened:
        place.close()
    assert counts._of_each == {}  # noqa: SLF001 - what is kept cannot be seen from outside


class Living(set[tuple[SessionOwner, str]]):
    """The sessions that are alive, and how often it was asked."""

    asked = 0

    def is_open(self, owner, session_id):
        self.asked += 1
        return (owner, session_id) in self

    def start(self, sessions, owner, session_id):
        with sessions.starting(owner, session_id):
            self.add((owner, session_id))


def test_a_caller_has_so_many_sessions_and_no_more():
    """A session counts from its start to its end, and once. A start that fails does not count, and ended callers are forgotten."""
    living = Living()
    sessions = OpenSessions(2, living.is_open)
    living.start(sessions, ADA, "a")
    living.start(sessions, ADA, "b")
    living.start(sessions, ADA, "b")
    with pytest.raises(QuotaReached, match="2 sessions are open, which is the limit; end one"):
        living.start(sessions, ADA, "c")
    living.start(sessions, BOB, "a")
    living.discard((ADA, "a"))
    living.start(sessions, ADA, "c")
    assert (sessions.of(ADA), sessions.of(BOB)) == (2, 1)

    living = Living()
    sessions = OpenSessions(1, living.is_open)
    for error in (KeyboardInterrupt, ValueError):
        with pytest.raises(error), sessions.starting(ADA, "a"):
            raise error
    assert (sessions.of(ADA), len(sessions)) == (0, 0)
    living.start(sessions, ADA, "a")
    with pytest.raises(ValueError, match="already"), sessions.starting(ADA, "a"):
        raise ValueError("already")  # noqa: EM101 - as another caller's start of the same id
    assert sessions.of(ADA) == 1

    sessions = OpenSessions(1, Living().is_open)
    with sessions.starting(ADA, "a"):
        with pytest.raises(QuotaReached), sessions.starting(ADA, "b"):
            raise AssertionError
        with sessions.starting(BOB, "b"):
            assert sessions.of(ADA) == 1

    living = Living()
    sessions = OpenSessions(100, living.is_open)
    for number in range(1000):
        living.start(sessions, SessionOwner("acme", str(number)), "a")
        living.clear()
    assert len(sessions) <= 2
    living.asked = 0
    for number in range(100):
        living.start(sessions, ADA, str(number))
    assert living.asked <= 2 + 100
