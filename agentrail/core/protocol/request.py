"""What goes to a provider and what comes back: `ModelRequest` and the closed union `Chunk`.

The core makes requests and reads chunks; a provider does the opposite. Neither knows how the other works, and no
wire format enters this file.
"""

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
"""Where a cached prefix ends: behind the message at a position, or behind all that stands before the messages."""


class ModelFacts(Value, frozen=True, kw_only=True):
    """What a session knows of a model when it decides; the shell found it out when it found the provider.

    Attributes:
        model: The whole model string, `provider:name`.
        context_window: Tokens.
        window_is_assumed: Whether the window is unknown, and this is a guess.
        max_output_tokens: The most that one answer may have; None when unknown.
        price: The most that its tokens cost; None when unknown.
        stalls: How patient to be with it.
        max_retries: How often a request is sent to it again; None for the session's own number.
    """

    model: str
    context_window: int = 128_000
    window_is_assumed: bool = True
    max_output_tokens: int | None = None
    price: Price | None = None
    stalls: StallOptions = StallOptions()
    max_retries: int | None = None


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request to a model, complete.

    Attributes:
        attempt: The id of the effect that asks for it; stamped on all that comes back.
        model: The whole model string, `provider:name`.
        system: The system prompt, or None.
        messages: The conversation; no call in it is unanswered.
        tools: All tools of the session, sorted by name.
        tool_choice: `none` withholds the tools and leaves the list as it is, which keeps the prompt cache.
        max_output_tokens: A bound for the answer, or None for the model's own.
        response_format: JSON Schema of the answer, or None.
        cache_points: Where the vendor's prompt cache should end, in order; a provider whose vendor finds that out by
            itself does nothing with them.
        settings: What the caller of this cycle wants, over the options of the provider; None: nothing. What of it stands in a
            field of its own here (`max_output_tokens`, `response_format`) is in that already.
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

    @property
    def model_name(self) -> str:
        """The name that the vendor knows: what stands after the first colon, or after that of a profile's name."""
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
    """The model begins a call; indexes are dense from 0, id and name are always there."""

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
    """The one terminal chunk. Its message equals what the deltas add up to, in text, calls and order."""

    stop_reason: StopReason
    message: AssistantMessage
    usage: TokenUsage


Chunk: TypeAlias = TextDelta | ReasoningDelta | ToolCallStarted | ArgumentsDelta | UsageUpdate | Completed
