"""What can go wrong with a request to a model: one class per row of the error table."""

from agentrail.errors.base import AgentrailError


class ProviderError(AgentrailError):
    """A request to a model failed.

    Attributes:
        status: The HTTP status, where there was one.
        request_id: The vendor's own id of the request, for its support.
        retryable: Whether the same request may succeed later.
        retry_after_seconds: How long the vendor asks to wait, where it said so.
    """

    code = "provider_error"
    retryable: bool = False

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retry_after_seconds: float | None = None,
        retryable: bool | None = None,
    ) -> None:
        """Take what is known; `retryable` overrides the class where the server said so itself."""
        super().__init__(message)
        self.status = status
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds
        if retryable is not None:
            self.retryable = retryable


class RateLimited(ProviderError):
    """Too many requests or tokens for now."""

    code = "rate_limited"
    retryable = True


class Overloaded(ProviderError):
    """The vendor is down or overloaded."""

    code = "overloaded"
    retryable = True


class Transport(ProviderError):
    """No connection, or one that broke before the answer was complete."""

    code = "transport"
    retryable = True


class Timeout(ProviderError):
    """Connecting, sending or the first chunk took too long."""

    code = "timeout"
    retryable = True


class StreamTimeout(ProviderError):
    """A stream that had begun went silent."""

    code = "stream_stalled"
    retryable = True


class ProtocolError(ProviderError):
    """The answer is not of the format that was agreed on."""

    code = "protocol_error"
    retryable = True


class Authentication(ProviderError):
    """The key is missing, wrong, or not allowed to do this."""

    code = "authentication"


class ModelNotFound(ProviderError):
    """There is no such provider or model."""

    code = "model_not_found"


class ContextWindowExceeded(ProviderError):
    """The conversation is longer than the model's window."""

    code = "context_overflow"


class ContentRefused(ProviderError):
    """The vendor refused to answer before any content came."""

    code = "content_refused"


class BadRequest(ProviderError):
    """The vendor does not take this request; sending it again would not help."""

    code = "bad_request"
