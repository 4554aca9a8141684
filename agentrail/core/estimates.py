"""How many tokens a conversation has, as far as one can say without the vendor's tokenizer.

What a vendor reported last covers everything up to its response, exactly; only what was added since is estimated, at four
bytes a token. Reports are never added up: each one counts the whole conversation again.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from agentrail.core.toolbox import Toolbox
from agentrail.messages import (
    AssistantBlock,
    AssistantMessage,
    FileRef,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    TokenUsage,
    ToolCall,
    ToolMessage,
    UserBlock,
    UserMessage,
)

BYTES_PER_TOKEN: Final = 4
IMAGE_TOKENS: Final = 1_600
"""Vendors count pixels, not bytes, and scale down what is larger than this."""


class Reported(msgspec.Struct, frozen=True, gc=False):
    """What a vendor said of a conversation.

    Attributes:
        tokens: Input and output of a response.
        messages: How many messages that covers, the response included.
    """

    tokens: int
    messages: int

    @classmethod
    def of(cls, usage: TokenUsage, messages: int) -> "Reported | None":
        """Keep the usage of a response; None where the vendor reported nothing, or only a part.

        Args:
            usage: Of the response.
            messages: The length of the history with the response in it.
        """
        return None if usage.estimated or not usage.input else cls(usage.total, messages)


def estimate_tokens(messages: Sequence[Message], reported: Reported | None, fixed_tokens: int) -> int:
    """Estimate what a request would send.

    Args:
        messages: The conversation.
        reported: The last report that covers a beginning of it. A compaction makes it void: pass None then.
        fixed_tokens: Of what stands before the conversation; counts only without a report, which includes it.
    """
    if reported is None or reported.messages > len(messages):
        return fixed_tokens + tokens_of(messages[:])
    return reported.tokens + tokens_of(messages[reported.messages :])


def tokens_of(messages: Sequence[Message]) -> int:
    """Estimate messages alone; rounded up."""
    return _in_tokens(sum(_size_of(message) for message in messages))


def fixed_tokens_of(system: str | None, tools: Toolbox) -> int:
    """Estimate what stands before the conversation: the system prompt and the list of tools."""
    listed = sum(
        _size(spec.name) + _size(spec.description) + len(msgspec.json.encode(spec.parameters))
        for spec in tools
    )
    return _in_tokens(_size(system or "") + listed)


def _size_of(message: Message) -> int:
    """Count the bytes of a message, a picture as its tokens would be."""
    match message:
        case UserMessage(content=blocks):
            return sum(_block_size(block) for block in blocks)
        case AssistantMessage(content=blocks):
            return sum(_block_size(block) for block in blocks)
        case ToolMessage(results=results):
            return sum(_size(result.text) for result in results)
        case _ as never:
            assert_never(never)


def _block_size(block: UserBlock | AssistantBlock) -> int:
    match block:
        case Text(text=text):
            return _size(text)
        case Thinking(text=text, signature=signature):
            return _size(text) + len(signature or "")
        case ToolCall(name=name, arguments=arguments, malformed=malformed):
            sent = _size(malformed or "") if arguments is None else len(msgspec.json.encode(arguments))
            return len(name) + sent
        case Opaque(payload=payload):
            return len(msgspec.json.encode(payload))
        case Image():
            return IMAGE_TOKENS * BYTES_PER_TOKEN
        case FileRef(path=path):
            return _size(path)
        case _ as never:
            assert_never(never)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _in_tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)
