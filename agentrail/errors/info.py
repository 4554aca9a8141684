"""Errors as data. Published and journaled records hold no exception objects."""

from agentrail.errors.base import AgentrailError
from agentrail.errors.providers import ProviderError
from agentrail.structs import Value


class ErrorInfo(Value, frozen=True, kw_only=True):
    """An error as data, used in events, signals and journals in place of an exception.

    Attributes:
        code: snake_case, stable. Programs branch on it.
        message: For users: what was expected, what was given, and what to do.
        retryable: Whether the same request may succeed later.
        retry_after_seconds: Wait before the next attempt, or None if the server named none.
    """

    code: str
    message: str
    retryable: bool = False
    retry_after_seconds: float | None = None

    @classmethod
    def of(cls, error: AgentrailError) -> "ErrorInfo":
        """Return the part of an error that may be published, without traceback or request."""
        if not isinstance(error, ProviderError):
            return cls(code=error.code, message=str(error))
        return cls(
            code=error.code,
            message=str(error),
            retryable=error.retryable,
            retry_after_seconds=error.retry_after_seconds,
        )
