"""What is said: content blocks, messages, tool calls and their results, token usage.

Values only, frozen. No wire format enters this file: how a vendor wants a message is that provider's business, and
what a message looks like on a wire is kept beside it by `encoded`, so that each is encoded once per format and a
request is a join of what is there already.
"""

import math
from collections.abc import Callable, Iterable
from typing import Final, Literal, NewType, TypeAlias

from attrs import evolve, field, frozen

from agentrail.frozen import (
    JsonObject as JsonObject,  # noqa: PLC0414 - all who speak of messages speak of these
    JsonValue as JsonValue,  # noqa: PLC0414 - the same
    frozen_json,
    frozen_or_none,
    frozen_value,
)

SessionId = NewType("SessionId", str)
CallId = NewType("CallId", str)
PromptRef = NewType("PromptRef", str)
SteerRef = NewType("SteerRef", str)
QuestionRef = NewType("QuestionRef", str)
ApprovalId = NewType("ApprovalId", str)

MAX_PROMPT_BYTES: Final = 1_000_000

StopReason: TypeAlias = Literal[
    "end", "tool_use", "max_tokens", "stop_sequence", "refused", "pause", "context_window", "other"
]


# --- content blocks


@frozen(kw_only=True)
class Text:
    """Words.

    Attributes:
        text: Never empty in a message that a session made itself.
    """

    text: str


@frozen(kw_only=True)
class Image:
    """A picture, as bytes in base64.

    Attributes:
        media_type: Such as `image/png`.
        data: Base64, no line breaks.
        name: What people call it.
    """

    media_type: str
    data: str
    name: str = "image"


@frozen(kw_only=True)
class FileRef:
    """A file of the workspace that the user points at; the model sees its path and reads it with its tools.

    Attributes:
        path: Relative to the working directory.
    """

    path: str


@frozen(kw_only=True)
class Thinking:
    """What a model thought aloud. It goes back, unchanged, to the vendor that made it, and to no other.

    Attributes:
        text: May be empty where a vendor only gives a signature.
        signature: The vendor's proof that it made this block; None when the stream was cut before it came.
        provider: Whose it is.
    """

    text: str
    signature: str | None = None
    provider: str


@frozen(kw_only=True)
class Opaque:
    """A block that only its vendor understands; kept, because some vendors refuse a history without it.

    Attributes:
        provider: Whose it is.
        payload: As it came; frozen.
    """

    provider: str
    payload: JsonObject = field(converter=frozen_json)


@frozen(kw_only=True)
class ToolCall:
    """The model asks for a tool.

    Attributes:
        call_id: Unique in its session, the same in deltas, events, history and approval.
        name: As the model wrote it; there need not be such a tool.
        arguments: The JSON object that the model sent, frozen; None when it sent something else.
        malformed: What it sent when that was no JSON object, else None.
    """

    call_id: CallId
    name: str
    arguments: JsonObject | None = field(converter=frozen_or_none)
    malformed: str | None = None


@frozen(kw_only=True)
class ToolResult:
    """What the model reads as the answer to one call. Every call gets exactly one.

    Attributes:
        call_id: The call that it answers.
        name: The tool's name, as in the call.
        text: Never empty.
        is_error: Whether the model should take it as a failure.
        details: JSON for events and user interfaces, frozen; no model sees it.
    """

    call_id: CallId
    name: str
    text: str
    is_error: bool = False
    details: JsonValue = field(default=None, converter=frozen_value)


UserBlock: TypeAlias = Text | Image | FileRef
AssistantBlock: TypeAlias = Text | Thinking | Opaque | ToolCall
Content: TypeAlias = str | tuple[UserBlock, ...] | list[UserBlock]


# --- messages

_Memo: TypeAlias = tuple[tuple[str, bytes], ...]


# A list that somebody made a message of is that one's own, who may go on writing to it; a tuple stays the tuple that it is.
def _user_blocks(blocks: Iterable[UserBlock]) -> tuple[UserBlock, ...]:
    return tuple(blocks)


def _assistant_blocks(blocks: Iterable[AssistantBlock]) -> tuple[AssistantBlock, ...]:
    return tuple(blocks)


def _results(results: Iterable[ToolResult]) -> tuple[ToolResult, ...]:
    return tuple(results)


Origin: TypeAlias = Literal["prompt", "steer", "intervention", "note"]


@frozen(kw_only=True)
class UserMessage:
    """Something that the model reads as coming from the user.

    Attributes:
        content: At least one block.
        origin: Who really said it: the user's prompt, a steer, a plugin, or the session itself (`note`).
        ref: The prompt that it is, where it is one.
    """

    content: tuple[UserBlock, ...] = field(converter=_user_blocks)
    origin: Origin = "prompt"
    ref: PromptRef | None = None
    _encoded: _Memo = field(default=(), init=False, eq=False, repr=False)


@frozen(kw_only=True)
class AssistantMessage:
    """Something that the model said.

    Attributes:
        content: Text, thinking and calls, in the order in which they came.
        model: The model string of the request.
        stop_reason: Why the model stopped.
        cut: Whether an abort ended it early; then it holds complete text only, and no call.
    """

    content: tuple[AssistantBlock, ...] = field(converter=_assistant_blocks)
    model: str
    stop_reason: StopReason = "end"
    cut: bool = False
    _encoded: _Memo = field(default=(), init=False, eq=False, repr=False)

    @property
    def text(self) -> str:
        """All that it says aloud, joined."""
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Its tool calls, in the model's order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))

    def with_text(self, text: str) -> "AssistantMessage":
        """Say something else aloud: one text where the first one stood, before the calls if there was none."""
        said = [place for place, block in enumerate(self.content) if isinstance(block, Text)]
        called = [place for place, block in enumerate(self.content) if isinstance(block, ToolCall)]
        place = (said or called or [len(self.content)])[0]
        before, behind = self.content[:place], self.content[place:]
        kept = tuple(block for block in behind if not isinstance(block, Text))
        return evolve(self, content=(*before, Text(text=text), *kept))


@frozen(kw_only=True)
class ToolMessage:
    """The results of one batch: all of them, in the order of the calls.

    Attributes:
        results: One for each call of the assistant message right before it.
    """

    results: tuple[ToolResult, ...] = field(converter=_results)
    _encoded: _Memo = field(default=(), init=False, eq=False, repr=False)


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


def encoded(message: Message, wire: str, encode: Callable[[Message], bytes]) -> bytes:
    """Return the message in a wire format, encoding it at most once per format in its life.

    Args:
        message: The message.
        wire: The name of the format; two providers of one format share the bytes.
        encode: Makes the bytes; a pure function of the message.
    """
    kept = message._encoded  # noqa: SLF001 - the one door to the cache
    for name, form in kept:
        if name == wire:
            return form
    made = encode(message)
    # The value of the message does not change: this is a memo, which equality and repr do not look at. Pairs and not a
    # dictionary, which whoever holds the message could write to; there are as many as there are formats, two or three.
    object.__setattr__(message, "_encoded", (*kept, (wire, made)))
    return made


# --- usage


@frozen(kw_only=True)
class TokenUsage:
    """What a response, a cycle or a session has used. One meaning for all vendors.

    Attributes:
        input: Tokens read, cache reads and cache writes included.
        output: Tokens written, reasoning included.
        cache_read: The part of `input` that came from the vendor's cache.
        cache_write: The part of `input` that was written into it.
        reasoning: The part of `output` that nobody sees.
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

    def __attrs_post_init__(self) -> None:
        """Take nothing below zero, whoever says so: a budget would grow by it. A price that is no number is unknown."""
        cost = self.cost_usd
        if cost is not None and not 0.0 <= cost < math.inf:
            object.__setattr__(self, "cost_usd", None)
        counts = (self.input, self.output, self.cache_read, self.cache_write, self.reasoning)
        if min(counts) < 0:
            for name in ("input", "output", "cache_read", "cache_write", "reasoning"):
                object.__setattr__(self, name, max(getattr(self, name), 0))

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
