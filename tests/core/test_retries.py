"""Retries, fallbacks and overflows, decided as values (7-providers, "Retry, fallback, overflow")."""

from agentrail.core.policy.patience import (
    Attempts,
    NextModel,
    RetryAfter,
    RetryOptions,
    decide_retry,
)
from agentrail.errors import ErrorInfo

TWO = RetryOptions(models=("a:1", "b:2"))


def failure(code: str, *, retryable: bool = True, after: float | None = None) -> ErrorInfo:
    """An error as a provider reports it."""
    return ErrorInfo(code=code, message="it broke", retryable=retryable, retry_after_seconds=after)


def test_the_next_model_has_retries_of_its_own():
    """The count begins anew, and what was tried is kept for the error."""
    attempts, remedy = decide_retry(failure("overloaded"), Attempts(number=4, retries=3), 0.0, TWO)
    assert remedy == NextModel("b:2")
    assert attempts == Attempts(number=5, retries=0, model=1, failed=(("a:1", "overloaded"),))
    assert decide_retry(failure("timeout"), attempts, 0.0, TWO)[1] == RetryAfter(0)
