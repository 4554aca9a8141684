"""What is said: content blocks, messages, tool calls and their results, token usage.

Values only, frozen. No wire format enters this file: how a vendor wants a message is that provider's business, and
what a message looks like on a wire is kept beside it by `encoded`, so that each is encoded once per format and a
request is a join of what is there already.
"""

import math
from collections.abc import Callable
from typing import Final, Literal, NewType, TypeAlias

import msgspec
from msgspec.structs import force_setattr, replace

from agentrail.frozen import (
    JsonObject as JsonObject,  # noqa: PLC0414 - all who speak of messages speak of these
    JsonValue as JsonValue,  # noqa: PLC0414 - the same
    frozen_json,
    frozen_or_none,
    frozen_value,
)
from agentrail.structs import TaggedValue, Value

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


# --- content blocks


class Text(TaggedValue, frozen=True, kw_only=True):
    """Words.

    Attributes:
        text: Never empty in a message that a session made itself.
    """

    text: str


class Image(TaggedValue, frozen=True, kw_only=True):
    """A picture, as bytes in base64.

    Attributes:
        media_type: Such as `image/png`.
        data: Base64, no line breaks.
        name: What people call it.
    """

    media_type: str
    data: str
    name: str = "image"

    @property
    def size_bytes(self) -> int:
        """How large it is, without base64."""
        return len(self.data) * 3 // 4 - self.data[-2:].count("=")


class FileRef(TaggedValue, frozen=True, kw_only=True):
    """A file of the workspace that the user points at; the model sees its path and reads it with its tools.

    Attributes:
        path: Relative to the working directory.
    """

    path: str


class Thinking(TaggedValue, frozen=True, kw_only=True):
    """What a model thought aloud. It goes back, unchanged, to the vendor that made it, and to no other.

    Attributes:
        text: May be empty where a vendor only gives a signature.
        signature: The vendor's proof that it made this block; None when the stream was cut before it came.
        provider: Whose it is.
    """

    text: str
    signature: str | None = None
    provider: str


class Opaque(TaggedValue, frozen=True, kw_only=True):
    """A block that only its vendor understands; kept, because some vendors refuse a history without it.

    Attributes:
        provider: Whose it is.
        payload: As it came; frozen.
    """

    provider: str
    payload: JsonObject

    def __post_init__(self) -> None:
        """Freeze the payload."""
        force_setattr(self, "payload", frozen_json(self.payload))


class ToolCall(TaggedValue, frozen=True, kw_only=True):
    """The model asks for a tool.

    Attributes:
        call_id: Unique in its session, the same in deltas, events, history and approval.
        name: As the model wrote it; there need not be such a tool.
        arguments: The JSON object that the model sent, frozen; None when it sent something else.
        malformed: What it sent when that was no JSON object, else None.
    """

    call_id: CallId
    name: str
    arguments: JsonObject | None
    malformed: str | None = None

    def __post_init__(self) -> None:
        """Freeze the arguments."""
        force_setattr(self, "arguments", frozen_or_none(self.arguments))


def _nothing() -> None:
    """Make the default of a field that is written also where it is None. See `ToolResult`."""


class ToolResult(Value, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """What the model reads as the answer to one call. Every call gets exactly one.

    Attributes:
        call_id: The call that it answers.
        name: The tool's name, as in the call.
        text: Never empty.
        is_error: Whether the model should take it as a failure.
        details: JSON for events and user interfaces, frozen; no model sees it.
        images: Pictures that belong to it, as the tool gave them; shown where the wire format takes them in a result, and
            named in words elsewhere.
    """

    call_id: CallId
    name: str
    text: str
    # `images` came later, and is left out where there are none, so that what was written before stays as it was. msgspec
    # leaves out all fields of a class or none; a default that a function makes it always writes.
    is_error: bool = msgspec.field(default_factory=bool)
    details: JsonValue = msgspec.field(default_factory=_nothing)
    images: tuple[Image, ...] = ()

    def __post_init__(self) -> None:
        """Freeze the details, which every subscriber will be given, and keep the pictures."""
        if self.details is not None:
            force_setattr(self, "details", frozen_value(self.details))
        if self.images:
            force_setattr(self, "images", tuple(self.images))

    @property
    def words(self) -> str:
        """The text, and a line for each picture: what is read where none are shown."""
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
    """A place beside the fields of a Struct: no part of the value, so it is not compared, copied, written or read."""

    __slots__ = ("_encoded",)
    _encoded: _Memo


class _MessageBase(_Memoized, Value, frozen=True, tag_field="role"):
    """What all messages share."""


Origin: TypeAlias = Literal["prompt", "steer", "intervention", "note"]


class UserMessage(_MessageBase, frozen=True, kw_only=True, tag="user"):
    """Something that the model reads as coming from the user.

    Attributes:
        content: At least one block.
        origin: Who really said it: the user's prompt, a steer, a plugin, or the session itself (`note`).
        ref: The prompt that it is, where it is one.
    """

    content: tuple[UserBlock, ...]
    origin: Origin = "prompt"
    ref: PromptRef | None = None

    def __post_init__(self) -> None:
        """Keep the blocks: who made the message of a list may go on writing to it."""
        force_setattr(self, "content", tuple(self.content))


class AssistantMessage(_MessageBase, frozen=True, kw_only=True, tag="assistant"):
    """Something that the model said.

    Attributes:
        content: Text, thinking and calls, in the order in which they came.
        model: The model string of the request.
        stop_reason: Why the model stopped.
        cut: Whether an abort ended it early; then it holds complete text only, and no call.
    """

    content: tuple[AssistantBlock, ...]
    model: str
    stop_reason: StopReason = "end"
    cut: bool = False

    def __post_init__(self) -> None:
        """Keep the blocks: who made the message of a list may go on writing to it."""
        force_setattr(self, "content", tuple(self.content))

    @property
    def text(self) -> str:
        """All that it says aloud, joined."""
        return "".join([block.text for block in self.content if isinstance(block, Text)])

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Its tool calls, in the model's order."""
        return tuple([block for block in self.content if isinstance(block, ToolCall)])

    def with_text(self, text: str) -> "AssistantMessage":
        """Say something else aloud: one text where the first one stood, before the calls if there was none."""
        said = [place for place, block in enumerate(self.content) if isinstance(block, Text)]
        called = [place for place, block in enumerate(self.content) if isinstance(block, ToolCall)]
        place = (said or called or [len(self.content)])[0]
        before, behind = self.content[:place], self.content[place:]
        kept = tuple(block for block in behind if not isinstance(block, Text))
        return replace(self, content=(*before, Text(text=text), *kept))


class ToolMessage(_MessageBase, frozen=True, kw_only=True, tag="tool"):
    """The results of one batch: all of them, in the order of the calls.

    Attributes:
        results: One for each call of the assistant message right before it.
    """

    results: tuple[ToolResult, ...]

    def __post_init__(self) -> None:
        """Keep the results: who made the message of a list may go on writing to it."""
        force_setattr(self, "results", tuple(self.results))


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


def encoded(message: Message, wire: str, encode: Callable[[Message], bytes]) -> bytes:
    """Return the message in a wire format, encoding it at most once per format in its life.

    Args:
        message: The message.
        wire: The name of the format; two providers of one format share the bytes.
        encode: Makes the bytes; a pure function of the message.
    """
    kept: _Memo = getattr(message, "_encoded", ())  # empty until it is written
    for name, form in kept:
        if name == wire:
            return form
    made = encode(message)
    # The value of the message does not change: this is a memo, which equality and repr do not look at. Pairs and not a
    # dictionary, which any holder of the message could write to; there are as many as there are formats, two or three.
    force_setattr(message, "_encoded", (*kept, (wire, made)))
    return made


# --- usage


class TokenUsage(Value, frozen=True, kw_only=True):
    """What a response, a cycle or a session has used. One meaning for all vendors.

    Attributes:
        input: Tokens read, cache reads and cache writes included.
        output: Tokens written, reasoning included.
        cache_read: The part of `input` that came from the vendor's cache.
        cache_write: The part of `input` that was written into it.
        reasoning: The part of `output` that is not shown.
        cost_usd: US dollars; None as soon as one part of the sum has no known price. Never 0 for unknown.
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
        """Take nothing below zero, from any server: a budget would grow by it. A price that is no number is unknown."""
        cost = self.cost_usd
        if cost is not None and not 0.0 <= cost < math.inf:
            force_setattr(self, "cost_usd", None)
        counts = (self.input, self.output, self.cache_read, self.cache_write, self.reasoning)
        if min(counts) < 0:
            for name in ("input", "output", "cache_read", "cache_write", "reasoning"):
                force_setattr(self, name, max(getattr(self, name), 0))

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output

    @property
    def cached_share(self) -> float:
        """The share of the input that came from the vendor's cache, from 0 to 1; 0 when nothing was read."""
        return self.cache_read / self.input if self.input else 0.0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        """Sum two usages; an unknown price makes the sum's price unknown."""
        if self == _NOTHING_USED:  # as at the beginning of each cycle
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
