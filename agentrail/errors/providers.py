"""Failures of requests to a model: one class per row of the error table."""

from agentrail.errors.base import AgentrailError


class ProviderError(AgentrailError):
    """A request to a model failed.

    Attributes:
        status: HTTP status, or None if there was no response.
        request_id: The vendor's id for the request.
        retryable: Whether the same request may succeed later.
        retry_after_seconds: Wait that the vendor asks for, or None.
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
        super().__init__(message)
        self.status = status
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds
        if retryable is not None:
            self.retryable = retryable


class RateLimited(ProviderError):
    """Rate limit of requests or tokens reached."""

    code = "rate_limited"
    retryable = True


class Overloaded(ProviderError):
    """The vendor is down or overloaded."""

    code = "overloaded"
    retryable = True


class Transport(ProviderError):
    """Connection failed, or broke before the response was complete."""

    code = "transport"
    retryable = True


class Timeout(ProviderError):
    """Connecting, sending or the first chunk took too long."""

    code = "timeout"
    retryable = True


class StreamTimeout(ProviderError):
    """A started stream stopped sending data."""

    code = "stream_stalled"
    retryable = True


class ProtocolError(ProviderError):
    """The response does not follow the vendor's format."""

    code = "protocol_error"
    retryable = True


class Authentication(ProviderError):
    """The key is missing, wrong, or lacks permission."""

    code = "authentication"


class ModelNotFound(ProviderError):
    """Unknown provider or model."""

    code = "model_not_found"


class ContextWindowExceeded(ProviderError):
    """The conversation is longer than the model's window."""

    code = "context_overflow"


class ContentRefused(ProviderError):
    """The vendor refused to answer before sending any content."""

    code = "content_refused"


class BadRequest(ProviderError):
    """The vendor rejected the request as invalid. Repeating it does not help."""

    code = "bad_request"
