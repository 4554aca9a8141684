"""Retries, fallbacks and overflows, decided as values (7-providers, "Retry, fallback, overflow")."""

import pytest

from agentrail.core.policy.patience import (
    Attempts,
    CompactFirst,
    GiveUp,
    NextModel,
    RetryAfter,
    RetryOptions,
    decide_retry,
    decide_tool_retry,
    tool_retries,
)
from agentrail.errors import ErrorInfo

ONE = RetryOptions(models=("a:1",))
TWO = RetryOptions(models=("a:1", "b:2"))


def failure(code: str, *, retryable: bool = True, after: float | None = None) -> ErrorInfo:
    """An error as a provider reports it."""
    return ErrorInfo(code=code, message="it broke", retryable=retryable, retry_after_seconds=after)


OVERFLOW = failure("context_overflow", retryable=False)


@pytest.mark.parametrize(("retries", "pause_ms"), [(0, 1_000), (1, 2_000), (2, 4_000)])
def test_pauses_double_and_are_jittered_in_full(retries, pause_ms):
    """Before retry n: a random part of 2 s · 2^(n-1)."""
    attempts, remedy = decide_retry(failure("overloaded"), Attempts(retries=retries), 0.5, ONE)
    assert remedy == RetryAfter(pause_ms)
    assert (attempts.retries, attempts.number) == (retries + 1, 2)


def test_a_pause_is_never_longer_than_a_minute():
    """Where somebody allows a thousand retries too."""
    patient = RetryOptions(models=("a:1",), max_retries=1_000)
    _, remedy = decide_retry(failure("overloaded"), Attempts(retries=999), 0.5, patient)
    assert remedy == RetryAfter(30_000)


@pytest.mark.parametrize(("after", "pause_ms"), [(0.5, 1_000), (1.5, 1_500), (60.0, 60_000)])
def test_what_the_vendor_asks_for_replaces_a_shorter_pause(after, pause_ms):
    """`Retry-After` counts when it is longer than our own pause."""
    _, remedy = decide_retry(failure("rate_limited", after=after), Attempts(), 0.5, ONE)
    assert remedy == RetryAfter(pause_ms)


@pytest.mark.parametrize("after", [60.1, 3_600.0, float("inf")])
def test_a_request_is_not_held_for_more_than_a_minute(after):
    """Then the next model is asked; without one, the error says how long to wait."""
    error = failure("rate_limited", after=after)
    assert decide_retry(error, Attempts(), 0.5, TWO)[1] == NextModel("b:2")
    _, remedy = decide_retry(error, Attempts(), 0.5, ONE)
    assert remedy == GiveUp(error)


@pytest.mark.parametrize(
    ("code", "retryable", "first", "fallback"),
    [
        ("rate_limited", True, RetryAfter(0), True),
        ("overloaded", True, RetryAfter(0), True),
        ("transport", True, RetryAfter(0), True),
        ("transport", False, None, True),  # a bad certificate
        ("timeout", True, RetryAfter(0), True),
        ("protocol_error", True, RetryAfter(0), True),
        ("stream_stalled", True, None, True),
        ("model_not_found", False, None, True),
        ("authentication", False, None, False),
        ("content_refused", False, None, False),
        ("bad_request", False, None, False),
        ("bad_request", True, RetryAfter(0), False),  # x-should-retry: true
        ("overloaded", False, None, True),  # x-should-retry: false
        ("provider_error", True, RetryAfter(0), True),  # of a foreign provider
        ("internal_error", False, None, False),
    ],
)
def test_each_row_of_the_error_table(code, retryable, first, fallback):
    """Whether it is retried, and whether another model is asked when it is not, or no more."""
    error = failure(code, retryable=retryable)
    _, remedy = decide_retry(error, Attempts(), 0.0, TWO)
    last = NextModel("b:2") if fallback else GiveUp(error)
    assert remedy == (first or last)
    _, remedy = decide_retry(error, Attempts(retries=3), 0.0, TWO)
    assert remedy == last


@pytest.mark.parametrize(("policy", "retried"), [("report", False), ("retry", True), ("abort", False)])
def test_a_stalled_stream_is_retried_by_policy_alone(policy, retried):
    """`retry` treats the silence as a failure that may pass."""
    options = RetryOptions(models=("a:1",), stall_policy=policy)
    _, remedy = decide_retry(failure("stream_stalled"), Attempts(), 0.0, options)
    assert isinstance(remedy, RetryAfter) is retried


@pytest.mark.parametrize(("max_retries", "retried"), [(0, 0), (1, 1), (3, 1)])
def test_a_broken_format_is_retried_once(max_retries, retried):
    """Or not at all, where retries are switched off."""
    options = RetryOptions(models=("a:1",), max_retries=max_retries)
    attempts, count = Attempts(), 0
    while isinstance(
        (step := decide_retry(failure("protocol_error"), attempts, 0.0, options))[1], RetryAfter
    ):
        attempts, count = step[0], count + 1
    assert count == retried


def test_the_next_model_has_retries_of_its_own():
    """The count begins anew, and what was tried is kept for the error."""
    attempts, remedy = decide_retry(failure("overloaded"), Attempts(number=4, retries=3), 0.0, TWO)
    assert remedy == NextModel("b:2")
    assert attempts == Attempts(number=5, retries=0, model=1, failed=(("a:1", "overloaded"),))
    assert decide_retry(failure("timeout"), attempts, 0.0, TWO)[1] == RetryAfter(0)


def test_when_all_failed_the_error_lists_what_was_tried():
    """It is the last error, with its code and the vendor's wish, and all models in its message."""
    attempts = Attempts(number=8, retries=3, model=1, failed=(("a:1", "overloaded"),))
    after, remedy = decide_retry(failure("timeout", after=1.0), attempts, 0.0, TWO)
    assert after is attempts
    assert isinstance(remedy, GiveUp)
    assert remedy.error == ErrorInfo(
        code="timeout",
        message="it broke (given up after 8 attempts; tried: a:1 (overloaded), b:2 (timeout))",
        retryable=True,
        retry_after_seconds=1.0,
    )


def test_an_overflow_shortens_the_conversation_once():
    """One forced compaction outside of the retry count; a second overflow is the end, whatever models there are."""
    attempts, remedy = decide_retry(OVERFLOW, Attempts(retries=2), 0.0, TWO)
    assert remedy == CompactFirst()
    assert (attempts.retries, attempts.number, attempts.compacted) == (2, 2, True)
    _, remedy = decide_retry(OVERFLOW, attempts, 0.0, TWO)
    assert isinstance(remedy, GiveUp)
    assert remedy.error.code == "context_overflow"


def test_a_turn_begins_with_the_model_that_the_one_before_ended_with():
    """Only a new cycle goes back to the first."""
    tried = Attempts(number=5, retries=2, model=1, compacted=True, failed=(("a:1", "timeout"),))
    assert tried.next_turn() == Attempts(model=1)


@pytest.mark.parametrize(
    ("attempt", "max_retries", "remedy"),
    [
        (1, 0, None),
        (1, 2, RetryAfter(500)),
        (2, 2, RetryAfter(1_000)),
        (3, 2, None),
        (9, 9, RetryAfter(15_000)),
    ],
)
def test_a_tool_is_retried_as_often_as_it_may(attempt, max_retries, remedy):
    """A random part of 1 s · 2^(attempt-1), at most 30 s."""
    assert decide_tool_retry(attempt, max_retries, 0.5) == remedy


@pytest.mark.parametrize(
    ("effect_class", "own", "retries"),
    [
        ("pure", None, 2),
        ("idempotent", None, 2),
        ("reconcilable", None, 0),
        ("once", None, 0),
        ("once", 1, 1),
        ("pure", 0, 0),
    ],
)
def test_only_what_may_be_repeated_is_retried(effect_class, own, retries):
    """An explicit number of the tool wins, also for less."""
    assert tool_retries(effect_class, own, 2) == retries
