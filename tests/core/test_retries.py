"""Retries, fallbacks and overflows, decided as values (7-providers, "Retry, fallback, overflow")."""

import pytest

from agentrail.core.policy.patience import (
    Attempts,
    NextModel,
    RetryAfter,
    RetryOptions,
    decide_retry,
    tool_retries,
)
from agentrail.errors import ErrorInfo

TWO = RetryOptions(models=("a:1", "b:2"))


def failure(code: str, *, retryable: bool = True, after: float | None = None) -> ErrorInfo:
    """An error as a provider reports it."""
    return ErrorInfo(code=code, message="it broke", retryable=retryable, retry_after_seconds=after)


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
