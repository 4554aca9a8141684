"""Events of model requests and responses."""

from typing import TypeAlias

from agentrail.errors import ErrorInfo
from agentrail.events.envelope import EventBase
from agentrail.messages import AssistantMessage, StopReason, TokenUsage


class RequestStart(EventBase, frozen=True, kw_only=True):
    """A request is sent to the model.

    Attributes:
        model: The model string.
        messages: Number of messages in the request.
        context_messages: Those that the host added for this request only.
        context_digest: SHA-256 of the added messages, hexadecimal, empty without any.
        attempt: 1 for the first attempt at this turn.
    """

    model: str
    messages: int
    context_messages: int = 0
    context_digest: str = ""
    attempt: int = 1


class MessageStart(EventBase, frozen=True, kw_only=True):
    """The first chunk of a response has arrived.

    Attributes:
        attempt: Attempt at this turn, from 1.
    """

    attempt: int = 1


class MessageDelta(EventBase, frozen=True, kw_only=True):
    """More visible text. Ephemeral.

    Attributes:
        delta: The text, without tags. Queued deltas are merged.
        attempt: Attempt at this turn, from 1.
    """

    delta: str
    attempt: int = 1


class ThinkingStart(EventBase, frozen=True, kw_only=True):
    """The model starts thinking.

    Attributes:
        attempt: Attempt at this turn, from 1.
    """

    attempt: int = 1


class ThinkingDelta(EventBase, frozen=True, kw_only=True):
    """More thinking. Ephemeral.

    Attributes:
        delta: The text. Queued deltas are merged.
        attempt: Attempt at this turn, from 1.
    """

    delta: str
    attempt: int = 1


class StatusUpdate(EventBase, frozen=True, kw_only=True):
    """The model reports its activity in a `<status>` tag.

    Attributes:
        text: Content of the tag.
    """

    text: str


class TitleGenerated(EventBase, frozen=True, kw_only=True):
    """The model gave the conversation a title, in a `<title>` tag.

    Attributes:
        title: Content of the tag, cut at 60 characters.
    """

    title: str


class ResponseComplete(EventBase, frozen=True, kw_only=True):
    """The response is complete and in the history.

    Attributes:
        message: The message in the history.
        usage: Token usage of this response.
        stop_reason: Reason that the model stopped.
        attempt: Attempt at this turn, from 1.
    """

    message: AssistantMessage
    usage: TokenUsage
    stop_reason: StopReason
    attempt: int = 1


class StreamError(EventBase, frozen=True, kw_only=True):
    """A response was interrupted.

    Attributes:
        error: The failure.
        attempt: Attempt at this turn, from 1.
        discarded: Whether this attempt's deltas must be dropped, as they are not in the history.
    """

    error: ErrorInfo
    attempt: int = 1
    discarded: bool = False


class StreamStalled(EventBase, frozen=True, kw_only=True):
    """No data has arrived for a while on an open stream. Ephemeral.

    Attributes:
        elapsed_seconds: Seconds since the last chunk, or since the request.
    """

    elapsed_seconds: float


class Retry(EventBase, frozen=True, kw_only=True):
    """The request is retried after a pause.

    Attributes:
        attempt: The next attempt: 2 for the first retry.
        delay_ms: Length of the pause, in milliseconds.
        error: Failure of the previous attempt.
    """

    attempt: int
    delay_ms: int
    error: ErrorInfo


class ContextOverflow(EventBase, frozen=True, kw_only=True):
    """The conversation exceeds the model's context window. The first time, it is compacted and sent again.

    Attributes:
        error: The vendor's error.
    """

    error: ErrorInfo


class ModelSwitched(EventBase, frozen=True, kw_only=True):
    """The next request uses another model.

    Attributes:
        from_model: The previous model string.
        to_model: The new model string.
        provider_opts_changed: Whether the provider options changed too. Their values are not published.
        by: `user`, `fallback`, `handoff`, or the plugin's name.
    """

    from_model: str
    to_model: str
    provider_opts_changed: bool = False
    by: str


ResponseEvent: TypeAlias = (
    RequestStart
    | MessageStart
    | MessageDelta
    | ThinkingStart
    | ThinkingDelta
    | StatusUpdate
    | TitleGenerated
    | ResponseComplete
    | StreamError
    | StreamStalled
    | Retry
    | ContextOverflow
    | ModelSwitched
)
