"""Streams that have gone silent (7-providers, "Stall")."""

import pytest
from hypothesis import given, strategies as st

from agentrail.core.policy.patience import Silence, StallClock, StallOptions, decide_stall

POLICIES = st.sampled_from(("report", "retry", "abort"))


def looks(clock: StallClock, options: StallOptions, until_ms: int) -> list[tuple[int, float]]:
    """Look whenever a look is due; return the reports with their times."""
    at_ms, reports = clock.heard_at_ms, []
    while at_ms <= until_ms:
        clock, silence = decide_stall(clock, at_ms, options)
        if silence.reported_seconds is not None:
            reports.append((at_ms, silence.reported_seconds))
        if silence.look_again_at_ms is None:
            break
        at_ms = silence.look_again_at_ms
    return reports


def test_silence_is_reported_after_ten_seconds_and_every_five_after():
    """Each with how long the silence is by then."""
    clock = StallClock(heard_at_ms=0).heard(1_000)
    assert looks(clock, StallOptions(), 22_000) == [(11_000, 10.0), (16_000, 15.0), (21_000, 20.0)]


def test_a_look_that_comes_late_reports_once():
    """Reports that nobody could make in time are not made up for."""
    clock, silence = decide_stall(StallClock(heard_at_ms=0, begun=True), 27_000, StallOptions())
    assert silence == Silence(reported_seconds=27.0, look_again_at_ms=30_000)
    assert decide_stall(clock, 28_000, StallOptions())[1] == Silence(look_again_at_ms=30_000)


def test_a_chunk_begins_a_new_silence():
    """The report is due ten seconds after it, and not at the look that was due before."""
    clock, _ = decide_stall(StallClock(heard_at_ms=0, begun=True), 10_000, StallOptions())
    clock = clock.heard(12_000)
    clock, silence = decide_stall(clock, 15_000, StallOptions())
    assert silence == Silence(look_again_at_ms=22_000)


@pytest.mark.parametrize("policy", ["retry", "abort"])
def test_a_silence_that_lasts_too_long_ends_the_request(policy):
    """At `stall_seconds` to the millisecond, and the message says what to do."""
    options = StallOptions(stall_policy=policy, stall_ms=30_000)
    clock = StallClock(heard_at_ms=500, begun=True)
    assert decide_stall(clock, 30_499, options)[1].error is None
    _, silence = decide_stall(clock, 30_500, options)
    assert silence.error is not None
    assert (silence.error.code, silence.error.retryable) == ("stream_stalled", True)
    assert (
        silence.error.message
        == "the stream has been silent for 30 s. What to do: try again; if this model is that slow, raise stall_seconds: "
        '--opt stall_seconds=60 with the command, provider_opts={"stall_seconds": 60} in a program'
    )
    assert silence.look_again_at_ms is None


def test_the_policy_report_only_reports():
    """However long it lasts."""
    _, silence = decide_stall(
        StallClock(heard_at_ms=0, begun=True), 10**9, StallOptions(stall_policy="report")
    )
    assert silence.error is None
    assert silence.look_again_at_ms == 10**9 + 5_000


@pytest.mark.parametrize("policy", ["report", "retry", "abort"])
def test_before_the_first_chunk_the_timeout_rules(policy):
    """A model may think for minutes in silence; then it is a timeout, whatever the policy."""
    options = StallOptions(stall_policy=policy, stall_ms=1_000)
    clock = StallClock(heard_at_ms=0)
    assert decide_stall(clock, 599_999, options)[1].error is None
    error = decide_stall(clock, 600_000, options)[1].error
    assert error is not None
    assert (error.code, error.retryable) == ("timeout", True)
    assert error.message == (
        "no answer for 600 s. What to do: try again; if this model thinks for longer, raise timeout: "
        '--opt timeout=1200 with the command, provider_opts={"timeout": 1200} in a program'
    )


def test_a_ping_puts_off_the_end_and_not_the_report():
    """It is a sign of life, and says nothing."""
    clock = StallClock(heard_at_ms=0, begun=True).pinged(100_000)
    _, silence = decide_stall(clock, 120_000, StallOptions())
    assert (silence.error, silence.reported_seconds) == (None, 120.0)
    assert decide_stall(clock, 220_000, StallOptions())[1].error is not None


def test_pings_alone_keep_no_stream_alive_for_ever():
    """Ten minutes after the last chunk they stop counting."""
    clock = StallClock(heard_at_ms=0, begun=True).pinged(10**9)
    assert decide_stall(clock, 719_999, StallOptions())[1].error is None
    assert decide_stall(clock, 720_000, StallOptions())[1].error is not None


@given(
    policy=POLICIES,
    begun=st.booleans(),
    stall_ms=st.integers(1, 10**5),
    pings=st.integers(0, 10**6),
    look_at_ms=st.integers(0, 10**6),
)
def test_a_look_is_always_followed_by_a_later_one_or_by_the_end(policy, begun, stall_ms, pings, look_at_ms):
    """So a timer that is set by these looks neither spins nor sleeps over an end."""
    options = StallOptions(stall_policy=policy, stall_ms=stall_ms, timeout_ms=7 * stall_ms)
    clock = StallClock(heard_at_ms=0, begun=begun).pinged(pings)
    _, silence = decide_stall(clock, look_at_ms, options)
    assert (silence.look_again_at_ms is None) is (silence.error is not None)
    if silence.look_again_at_ms is not None:
        assert look_at_ms < silence.look_again_at_ms <= look_at_ms + 10_000
        _, before = decide_stall(clock, silence.look_again_at_ms - 1, options)
        assert before.error is None
