"""Retries, fallbacks, overflows and streams that have gone silent, decided as values (7-providers)."""

from hypothesis import given, strategies as st

from agentrail.core.policy import patience
from agentrail.errors import ErrorInfo

TWO = patience.RetryOptions(models=("a:1", "b:2"))


def failure(code: str) -> ErrorInfo:
    return ErrorInfo(code=code, message="it broke", retryable=True)


def test_a_broken_format_is_retried_once():
    """Or not at all, where retries are switched off."""
    for max_retries, retried in ((0, 0), (1, 1), (3, 1)):
        options = patience.RetryOptions(models=("a:1",), max_retries=max_retries)
        attempts, count = patience.Attempts(), -1
        remedy: object = patience.RetryAfter(0)
        while isinstance(remedy, patience.RetryAfter):
            attempts, remedy = patience.decide_retry(failure("protocol_error"), attempts, 0.0, options)
            count += 1
        assert count == retried


def test_the_next_model_has_retries_of_its_own():
    """The count begins anew, and what was tried is kept for the error."""
    attempts, remedy = patience.decide_retry(
        failure("overloaded"), patience.Attempts(number=4, retries=3), 0.0, TWO
    )
    assert remedy == patience.NextModel("b:2")
    assert attempts == patience.Attempts(number=5, retries=0, model=1, failed=(("a:1", "overloaded"),))
    assert patience.decide_retry(failure("timeout"), attempts, 0.0, TWO)[1] == patience.RetryAfter(0)


def test_only_what_may_be_repeated_is_retried():
    """An explicit number of the tool wins, also for less."""
    for effect_class, retries in (("pure", 2), ("idempotent", 2), ("reconcilable", 0), ("once", 0)):
        assert patience.tool_retries(effect_class, None, 2) == retries
    assert (patience.tool_retries("once", 1, 2), patience.tool_retries("pure", 0, 2)) == (1, 0)


@given(
    policy=st.sampled_from(("report", "retry", "abort")),
    begun=st.booleans(),
    stall_ms=st.integers(1, 10**5),
    pings=st.integers(0, 10**6),
    look_at_ms=st.integers(0, 10**6),
)
def test_a_look_is_always_followed_by_a_later_one_or_by_the_end(policy, begun, stall_ms, pings, look_at_ms):
    """So a timer that is set by these looks neither spins nor sleeps over an end."""
    options = patience.StallOptions(stall_policy=policy, stall_ms=stall_ms, timeout_ms=7 * stall_ms)
    clock = patience.StallClock(heard_at_ms=0, begun=begun).pinged(pings)
    _, silence = patience.decide_stall(clock, look_at_ms, options)
    assert (silence.look_again_at_ms is None) is (silence.error is not None)
    if silence.look_again_at_ms is not None:
        assert look_at_ms < silence.look_again_at_ms <= look_at_ms + 10_000
        _, before = patience.decide_stall(clock, silence.look_again_at_ms - 1, options)
        assert before.error is None
