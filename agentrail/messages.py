"""Messages: content blocks, messages, tool calls and their results, token usage.

Frozen values without a wire format. `encoded` caches each message's bytes per format.
"""

import math
from collections.abc import Callable
from typing import Final, Literal, NewType, TypeAlias

from msgspec.structs import force_setattr, replace

from agentrail.frozen import (
    JsonObject as JsonObject,  # noqa: PLC0414 - re-exported for users of messages
    JsonValue as JsonValue,  # noqa: PLC0414 - same
    frozen_json,
    frozen_or_none,
    frozen_value,
)
from agentrail.structs import TaggedValue, Value, always_encoded

SessionId = NewType("SessionId", str)
CallId = NewType("CallId", str)
PromptRef = NewType("PromptRef", str)
SteerRef = NewType("SteerRef", str)
QuestionRef = NewType("QuestionRef", str)
ApprovalId = NewType("ApprovalId", str)
ClientCallRef = NewType("ClientCallRef", str)

MAX_PROMPT_BYTES: Final = 1_000_000

StopReason: TypeAlias = Literal[
    "end", "tool_use", "max_tokens", "stop_sequence", "refused", "pause", "context_window", "other"
]


class TraceContext(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A position in a caller's trace, as in W3C Trace Context. `core.values.trace_carriers` reads it.

    Attributes:
        traceparent: Version, trace id, span id and flags, 55 characters.
        tracestate: Vendors' data about the trace, at most 512 characters.
    """

    traceparent: str
    tracestate: str = ""


# --- content blocks


class Text(TaggedValue, frozen=True, kw_only=True):
    """A text block.

    Attributes:
        text: Never empty in a session's message.
    """

    text: str


class Image(TaggedValue, frozen=True, kw_only=True):
    """An image, as bytes in base64.

    Attributes:
        media_type: Such as `image/png`.
        data: Base64, no line breaks.
        name: Display name.
    """

    media_type: str
    data: str
    name: str = "image"

    @property
    def size_bytes(self) -> int:
        """Size in bytes, without base64."""
        return len(self.data) * 3 // 4 - self.data[-2:].count("=")


class FileRef(TaggedValue, frozen=True, kw_only=True):
    """A workspace file, whose path the model sees and reads with its tools.

    Attributes:
        path: Relative to the working directory.
    """

    path: str


class Thinking(TaggedValue, frozen=True, kw_only=True):
    """A thinking block of a model. Sent back, unchanged, only to its vendor.

    Attributes:
        text: Empty if a vendor sends only a signature.
        signature: The vendor's proof of origin. None when the stream was cut.
        provider: Vendor of the block.
    """

    text: str
    signature: str | None = None
    provider: str


class Opaque(TaggedValue, frozen=True, kw_only=True):
    """A block that only its vendor understands. Some vendors reject a history without it.

    Attributes:
        provider: Vendor of the block.
        payload: As received, frozen.
    """

    provider: str
    payload: JsonObject

    def __post_init__(self) -> None:
        force_setattr(self, "payload", frozen_json(self.payload))


class ToolCall(TaggedValue, frozen=True, kw_only=True):
    """A tool call requested by the model.

    Attributes:
        call_id: Unique in its session. Equal in deltas, events, history and approvals.
        name: As the model wrote it, even of an unknown tool.
        arguments: The model's JSON object, frozen. None if it sent anything else.
        malformed: The text it sent instead of a JSON object, empty if it was cut before that. Otherwise None.
    """

    call_id: CallId
    name: str
    arguments: JsonObject | None
    malformed: str | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "arguments", frozen_or_none(self.arguments))


class ToolResult(Value, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """The answer to one call, as the model reads it. Every call gets exactly one.

    Attributes:
        call_id: The call that it answers.
        name: The tool's name, as in the call.
        text: Never empty.
        is_error: Whether it is a failure for the model.
        details: JSON for events and user interfaces, frozen, never sent to a model.
        images: Images as the tool returned them. Described in words if the wire format allows none in a result.
    """

    call_id: CallId
    name: str
    text: str
    # `images` was added later and is omitted when empty, so that earlier records stay identical. msgspec omits default
    # values for all fields of a class or for none. It always writes a default from a factory.
    is_error: bool = always_encoded(False)
    details: JsonValue = always_encoded(None)
    images: tuple[Image, ...] = ()

    def __post_init__(self) -> None:
        if self.details is not None:
            force_setattr(self, "details", frozen_value(self.details))
        if self.images:
            force_setattr(self, "images", tuple(self.images))

    @property
    def words(self) -> str:
        """The text, with a line for each image."""
        if not self.images:
            return self.text
        return "\n".join(
            [self.text, *(f"[{image.media_type}, {image.size_bytes:,} bytes]" for image in self.images)]
        )


UserBlock: TypeAlias = Text | Image | FileRef
AssistantBlock: TypeAlias = Text | Thinking | Opaque | ToolCall
Content: TypeAlias = str | tuple[UserBlock, ...] | list[UserBlock]


# --- messages

_Memo: TypeAlias = tuple[tuple[str, bytes], ...]


class _Memoized:
    """Storage next to the fields of a Struct, not part of the value."""

    __slots__ = ("_encoded",)
    _encoded: _Memo


class _MessageBase(_Memoized, Value, frozen=True, tag_field="role"):
    """Common base of all messages."""


Origin: TypeAlias = Literal["prompt", "steer", "intervention", "note"]


class UserMessage(_MessageBase, frozen=True, kw_only=True, tag="user"):
    """A message that the model reads as coming from the user.

    Attributes:
        content: At least one block.
        origin: The source: the user's prompt, a steer, a plugin, or the session itself (`note`).
        ref: The prompt that it is, if any.
    """

    content: tuple[UserBlock, ...]
    origin: Origin = "prompt"
    ref: PromptRef | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "content", tuple(self.content))


class AssistantMessage(_MessageBase, frozen=True, kw_only=True, tag="assistant"):
    """A message from the model.

    Attributes:
        content: Text, thinking and calls, in order of arrival.
        model: The model string of the request.
        stop_reason: Why the model stopped.
        cut: Whether an abort ended it early. Then it has complete text only, and no call.
    """

    content: tuple[AssistantBlock, ...]
    model: str
    stop_reason: StopReason = "end"
    cut: bool = False

    def __post_init__(self) -> None:
        force_setattr(self, "content", tuple(self.content))

    @property
    def text(self) -> str:
        """All its text blocks, joined."""
        return "".join([block.text for block in self.content if isinstance(block, Text)])

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Its tool calls, in the model's order."""
        return tuple([block for block in self.content if isinstance(block, ToolCall)])

    def with_text(self, text: str) -> "AssistantMessage":
        """Return a copy with another text: in place of the first text, or before the calls."""
        said = [place for place, block in enumerate(self.content) if isinstance(block, Text)]
        called = [place for place, block in enumerate(self.content) if isinstance(block, ToolCall)]
        place = (said or called or [len(self.content)])[0]
        before, behind = self.content[:place], self.content[place:]
        kept = tuple(block for block in behind if not isinstance(block, Text))
        return replace(self, content=(*before, Text(text=text), *kept))


class ToolMessage(_MessageBase, frozen=True, kw_only=True, tag="tool"):
    """The results of one batch, in the order of the calls.

    Attributes:
        results: One for each call of the preceding assistant message.
    """

    results: tuple[ToolResult, ...]

    def __post_init__(self) -> None:
        force_setattr(self, "results", tuple(self.results))


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


def encoded(message: Message, wire: str, encode: Callable[[Message], bytes]) -> bytes:
    """Return the message in a wire format, encoding it at most once per format.

    Args:
        message: The message.
        wire: Name of the format, which providers may share.
        encode: Encodes a message, purely.
    """
    kept: _Memo = getattr(message, "_encoded", ())  # empty until it is written
    for name, form in kept:
        if name == wire:
            return form
    made = encode(message)
    # The message's value does not change: this cache is ignored by equality and repr. Pairs rather than a dictionary, which any
    # holder of the message could modify; there are only two or three formats.
    force_setattr(message, "_encoded", (*kept, (wire, made)))
    return made


# --- usage


class TokenUsage(Value, frozen=True, kw_only=True):
    """Token usage of a response, cycle or session, equal for all vendors.

    Attributes:
        input: Tokens read, including cache reads and cache writes.
        output: Tokens written, including reasoning.
        cache_read: Part of `input` from the vendor's cache.
        cache_write: Part of `input` written into it.
        reasoning: Part of `output` that is not shown.
        cost_usd: US dollars. None as soon as one part has no known price, never 0 for unknown.
        estimated: Whether any part was estimated because the vendor did not report it.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost_usd: float | None = 0.0
    estimated: bool = False

    def __post_init__(self) -> None:
        cost = self.cost_usd
        if cost is not None and not 0.0 <= cost < math.inf:
            force_setattr(self, "cost_usd", None)
        counts = (self.input, self.output, self.cache_read, self.cache_write, self.reasoning)
        if min(counts) < 0:
            for name in ("input", "output", "cache_read", "cache_write", "reasoning"):
                force_setattr(self, name, max(getattr(self, name), 0))

    @property
    def total(self) -> int:
        """Sum of input and output."""
        return self.input + self.output

    @property
    def cached_share(self) -> float:
        """Share of the input from the vendor's cache, 0 to 1 (0 without input)."""
        return self.cache_read / self.input if self.input else 0.0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        if self == _NOTHING_USED:  # the case at the beginning of each cycle
            return other
        known = self.cost_usd is not None and other.cost_usd is not None
        return TokenUsage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            reasoning=self.reasoning + other.reasoning,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
            estimated=self.estimated or other.estimated,
        )


_NOTHING_USED: Final = TokenUsage()
