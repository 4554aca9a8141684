"""Errors as data."""

from agentrail.errors.base import AgentrailError
from agentrail.errors.providers import ProviderError
from agentrail.structs import Value


class ErrorInfo(Value, frozen=True, kw_only=True):
    """An error as data, for events, signals and journals.

    Attributes:
        code: snake_case, stable, for programs.
        message: For users: the expectation, the given value, and the remedy.
        retryable: Whether the same request may succeed later.
        retry_after_seconds: Wait before the next attempt, or None if not named.
    """

    code: str
    message: str
    retryable: bool = False
    retry_after_seconds: float | None = None

    @classmethod
    def of(cls, error: AgentrailError) -> "ErrorInfo":
        """Return the publishable part of an error, without traceback or request."""
        if not isinstance(error, ProviderError):
            return cls(code=error.code, message=str(error))
        return cls(
            code=error.code,
            message=str(error),
            retryable=error.retryable,
            retry_after_seconds=error.retry_after_seconds,
        )
