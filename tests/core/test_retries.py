"""Retries, fallbacks and overflows, decided as values (7-providers, "Retry, fallback, overflow")."""

from agentrail.core.policy import patience
from agentrail.errors import ErrorInfo

TWO = patience.RetryOptions(models=("a:1", "b:2"))


def failure(code: str) -> ErrorInfo:
    """An error as a provider reports it."""
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
