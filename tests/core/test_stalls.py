"""Streams that have gone silent (7-providers, "Stall")."""

from hypothesis import given, strategies as st

from agentrail.core.policy.patience import StallClock, StallOptions, decide_stall

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
