"""Events of the requests to a model and of its responses."""

from typing import TypeAlias

from agentrail.errors import ErrorInfo
from agentrail.events.envelope import EventBase
from agentrail.messages import AssistantMessage, StopReason, TokenUsage


class RequestStart(EventBase, frozen=True, kw_only=True):
    """A request goes to the model.

    Attributes:
        model: The model string.
        messages: How many messages it sees.
        context_messages: How many of them the host added for this request only.
        context_digest: SHA-256 of those, hexadecimal; empty when there are none.
        attempt: 1 for the first attempt at this turn.
    """

    model: str
    messages: int
    context_messages: int = 0
    context_digest: str = ""
    attempt: int = 1


class MessageStart(EventBase, frozen=True, kw_only=True):
    """The first chunk of a response is here.

    Attributes:
        attempt: Which attempt at this turn.
    """

    attempt: int = 1


class MessageDelta(EventBase, frozen=True, kw_only=True):
    """More visible text. Ephemeral.

    Attributes:
        delta: The text, tags removed; deltas that waited together come as one.
        attempt: Which attempt at this turn.
    """

    delta: str
    attempt: int = 1


class ThinkingStart(EventBase, frozen=True, kw_only=True):
    """The model begins to think aloud.

    Attributes:
        attempt: Which attempt at this turn.
    """

    attempt: int = 1


class ThinkingDelta(EventBase, frozen=True, kw_only=True):
    """More thinking. Ephemeral.

    Attributes:
        delta: The text; deltas that waited together come as one.
        attempt: Which attempt at this turn.
    """

    delta: str
    attempt: int = 1


class StatusUpdate(EventBase, frozen=True, kw_only=True):
    """The model says what it is doing, in a `<status>` tag.

    Attributes:
        text: What stood in the tag.
    """

    text: str


class TitleGenerated(EventBase, frozen=True, kw_only=True):
    """The model gives the conversation a title, in a `<title>` tag.

    Attributes:
        title: What stood in the tag, cut at 60 characters.
    """

    title: str


class ResponseComplete(EventBase, frozen=True, kw_only=True):
    """The response is complete and in the history.

    Attributes:
        message: As it stands in the history.
        usage: Of this response.
        stop_reason: Why the model stopped.
        attempt: Which attempt at this turn.
    """

    message: AssistantMessage
    usage: TokenUsage
    stop_reason: StopReason
    attempt: int = 1


class StreamError(EventBase, frozen=True, kw_only=True):
    """A response broke off.

    Attributes:
        error: What went wrong.
        attempt: Which attempt at this turn.
        discarded: Whether the deltas of this attempt must be dropped: the history has no trace of it.
    """

    error: ErrorInfo
    attempt: int = 1
    discarded: bool = False


class StreamStalled(EventBase, frozen=True, kw_only=True):
    """Nothing has come for a while; it still may. Ephemeral.

    Attributes:
        elapsed_seconds: Since the last chunk, or since the request.
    """

    elapsed_seconds: float


class Retry(EventBase, frozen=True, kw_only=True):
    """The request is sent once more after a pause.

    Attributes:
        attempt: The attempt that comes after the pause, so 2 for the first retry.
        delay_ms: How long the pause is.
        error: What the attempt before it failed with.
    """

    attempt: int
    delay_ms: int
    error: ErrorInfo


class ContextOverflow(EventBase, frozen=True, kw_only=True):
    """The conversation is longer than the model's window. The first time, it is compacted and sent once more.

    Attributes:
        error: What the vendor said.
    """

    error: ErrorInfo


class ModelSwitched(EventBase, frozen=True, kw_only=True):
    """The next request goes to another model.

    Attributes:
        from_model: The model string so far.
        to_model: The model string from now on.
        provider_opts_changed: Whether other options for the provider came along; their values are not published.
        by: `user`, `fallback`, `handoff`, or the name of the plugin that wanted it.
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
