"""How many tokens a conversation has, as far as one can say without the vendor's tokenizer.

What a vendor reported last covers everything up to its response, exactly; only what was added since is estimated, at four
bytes a token. Reports are never added up: each one counts the whole conversation again. And nothing is counted twice, so a
turn pays for what it adds, also where no vendor ever reports.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from agentrail.core.values.toolbox import Toolbox
from agentrail.frozen import canonical_json
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
_IMAGE_SIZE: Final = IMAGE_TOKENS * BYTES_PER_TOKEN


class TokenCount(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of a request's length. Part of a session's state; a new one is made when tools or prompt change.

    Attributes:
        fixed: Estimated, of what stands before the conversation; `fixed_tokens_of` counts it.
        tokens: Of all that is covered, `fixed` included.
        messages: How many messages are covered.
    """

    fixed: int = 0
    tokens: int = 0
    messages: int = 0

    def reported(self, usage: TokenUsage, messages: int, *, added_tokens: int = 0) -> "TokenCount":
        """Take a vendor's word in place of all that was known before.

        Args:
            usage: Of a response. One that we estimated ourselves, or that says nothing, changes nothing.
            messages: The length of the history with that response in it.
            added_tokens: Of what was read besides the history, estimated; it is taken off.
        """
        if usage.estimated or not usage.input:
            return self
        return TokenCount(fixed=self.fixed, tokens=max(usage.total - added_tokens, 0), messages=messages)

    def grown(self, messages: Sequence[Message]) -> "TokenCount":
        """Count what was added since; a conversation that has become shorter is counted anew.

        Args:
            messages: The whole conversation.
        """
        known, length = self.messages, len(messages)
        if known == length and known:
            return self
        if known > length or not known:
            return TokenCount(fixed=self.fixed, tokens=self.fixed + tokens_of(messages[:]), messages=length)
        added = tokens_of(messages[known:])
        return TokenCount(fixed=self.fixed, tokens=self.tokens + added, messages=length)


def tokens_of(messages: Sequence[Message]) -> int:
    """Estimate messages alone; rounded up."""
    return _in_tokens(sum([_size_of(message) for message in messages]))


def fixed_tokens_of(system: str | None, tools: Toolbox) -> int:
    """Estimate what stands before the conversation: the system prompt and the list of tools."""
    listed = sum(
        _size(spec.name) + _size(spec.description) + len(canonical_json(spec.parameters)) for spec in tools
    )
    return _in_tokens(_size(system or "") + listed)


def _size_of(message: Message) -> int:
    """Count the bytes of a message, a picture as its tokens would be."""
    match message:
        case UserMessage(content=blocks):
            return sum([_block_size(block) for block in blocks])
        case AssistantMessage(content=blocks):
            return sum([_block_size(block) for block in blocks])
        case ToolMessage(results=results):
            return sum([_size(result.text) + len(result.images) * _IMAGE_SIZE for result in results])
        case _ as never:
            assert_never(never)


def _block_size(block: UserBlock | AssistantBlock) -> int:
    match block:
        case Text(text=text):
            return _size(text)
        case Thinking(text=text, signature=signature):
            return _size(text) + len(signature or "")
        case ToolCall(name=name, arguments=arguments, malformed=malformed):
            sent = _size(malformed or "") if arguments is None else len(canonical_json(arguments))
            return len(name) + sent
        case Opaque(payload=payload):
            return len(canonical_json(payload))
        case Image():
            return _IMAGE_SIZE
        case FileRef(path=path):
            return _size(path)
        case _ as never:
            assert_never(never)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _in_tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)
