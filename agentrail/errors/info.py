"""An error as data. What is published or journaled holds no exception object."""

from agentrail.errors.base import AgentrailError
from agentrail.errors.providers import ProviderError
from agentrail.structs import Value


class ErrorInfo(Value, frozen=True, kw_only=True):
    """An error as data: what events, signals and journals hold in place of an exception.

    Attributes:
        code: snake_case, stable; to branch on.
        message: For people: what was expected, what came, what to do.
        retryable: Whether the same request may succeed later.
        retry_after_seconds: How long to wait first, where the server said so.
    """

    code: str
    message: str
    retryable: bool = False
    retry_after_seconds: float | None = None

    @classmethod
    def of(cls, error: AgentrailError) -> "ErrorInfo":
        """Keep of an error what may be published; neither traceback nor request travels along."""
        if not isinstance(error, ProviderError):
            return cls(code=error.code, message=str(error))
        return cls(
            code=error.code,
            message=str(error),
            retryable=error.retryable,
            retry_after_seconds=error.retry_after_seconds,
        )
