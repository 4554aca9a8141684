"""Requests to a provider and its responses: `ModelRequest` and the closed union `Chunk`."""

from collections.abc import Sequence
from typing import Literal, NewType, TypeAlias

import msgspec

from agentrail.core.policy.budget import Price
from agentrail.core.policy.patience import StallOptions
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.values.toolbox import Toolbox
from agentrail.messages import AssistantMessage, JsonObject, Message, StopReason, TokenUsage
from agentrail.structs import TaggedValue, Value

EffectId = NewType("EffectId", str)
ToolChoice: TypeAlias = Literal["auto", "none", "required"]
CachePoint: TypeAlias = int | Literal["system"]
"""End of a cached prefix: after the message at an index, or with `system` before the first message."""


class ModelFacts(Value, frozen=True, kw_only=True):
    """Facts about a model that affect decisions of a session. The shell collects them when it finds the provider.

    Attributes:
        model: The whole model string, `provider:name`.
        context_window: Tokens.
        window_is_assumed: Whether the window is unknown, and this is a guess.
        max_output_tokens: Maximum length of one answer. None if unknown.
        price: Maximum price of its tokens. None if unknown.
        stalls: Its stall limits.
        max_retries: How often a request to it is retried. None for the session's own number.
    """

    model: str
    context_window: int = 128_000
    window_is_assumed: bool = True
    max_output_tokens: int | None = None
    price: Price | None = None
    stalls: StallOptions = StallOptions()
    max_retries: int | None = None


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One complete request to a model.

    Attributes:
        attempt: The id of the effect that sends it, stamped on all of its outcomes.
        model: The whole model string, `provider:name`.
        system: The system prompt, or None.
        messages: The conversation, without an unanswered call.
        tools: All tools of the session and of this cycle, sorted by name.
        tool_choice: `none` withholds the tools and leaves the list as it is, which keeps the prompt cache.
        max_output_tokens: A limit for the answer, or None for the model's own.
        response_format: JSON Schema of the answer, or None.
        cache_points: Where the vendor's prompt cache should end, in order. Providers with automatic caching ignore
            them.
        settings: Settings of this cycle's caller, over the options of the provider. None: none. Those with a field
            of their own here (`max_output_tokens`, `response_format`, `tools`) are already applied to it.
        traceparent: The cycle's span as a W3C `traceparent`, for the vendor. Empty unless the supervisor propagates traces.
    """

    attempt: EffectId
    model: str
    system: str | None
    messages: Sequence[Message]
    tools: Toolbox
    tool_choice: ToolChoice = "auto"
    max_output_tokens: int | None = None
    response_format: JsonObject | None = None
    cache_points: tuple[CachePoint, ...] = ()
    settings: PromptSettings | None = None
    traceparent: str = ""

    @property
    def model_name(self) -> str:
        """The vendor's name of the model: the text after the first colon, or after the profile name of a `registry` model."""
        provider, _, rest = self.model.partition(":")
        return rest.partition(":")[2] if provider == "registry" else rest


class TextDelta(TaggedValue, frozen=True):
    """More visible text."""

    text: str


class ReasoningDelta(TaggedValue, frozen=True, tag="thinking_delta"):
    """More thinking, or the signature that ends it."""

    text: str
    signature: str | None = None


class ToolCallStarted(TaggedValue, frozen=True):
    """The model begins a call. Indexes are dense from 0, and id and name are always present."""

    index: int
    id: str
    name: str


class ArgumentsDelta(TaggedValue, frozen=True):
    """More of a call's arguments: raw JSON text, never parsed in pieces."""

    index: int
    text: str


class UsageUpdate(TaggedValue, frozen=True):
    """The total of this response so far, never an increment."""

    usage: TokenUsage


class Completed(TaggedValue, frozen=True):
    """The one terminal chunk. Its message equals the sum of the deltas, in text, calls and order."""

    stop_reason: StopReason
    message: AssistantMessage
    usage: TokenUsage


Chunk: TypeAlias = TextDelta | ReasoningDelta | ToolCallStarted | ArgumentsDelta | UsageUpdate | Completed
