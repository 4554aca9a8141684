"""What a provider gives, held to its types on its way into a session. No session and no store enters.

Nothing has looked at them: a struct takes what it is made of, a test of the provider may not have met it, and a step may not mind. But
a record with such a value cannot be read again, and a journal with such a record cannot be folded, with all that stands behind it.
"""

from types import UnionType
from typing import Any, Final, get_args

from agentrail.core.protocol.request import (
    ArgumentsDelta,
    Chunk,
    ReasoningDelta,
    TextDelta,
    ToolCallStarted,
    UsageUpdate,
)
from agentrail.core.protocol.signals import ResponseCompleted
from agentrail.core.wire.codec import decode_signal, encode_signal
from agentrail.core.wire.settling import settled
from agentrail.errors import CodecError, ProtocolError
from agentrail.frozen import FrozenDict
from agentrail.messages import AssistantMessage, StopReason, Text, TokenUsage, ToolCall

_STOP_REASONS: Final = frozenset(get_args(StopReason))
_NEVER_RECORDED: Final[frozenset[type]] = frozenset({ToolCallStarted, ArgumentsDelta})
_TOLD: Final = (str, str, str, bool, float, tuple)
_USED: Final = (int, int, int, int, int, bool)


def readable(response: ResponseCompleted, model: str) -> ResponseCompleted:
    """Give a response as it comes back from its bytes.

    Args:
        response: What the provider made.
        model: Whose it is, for the message.

    Raises:
        ProtocolError: It does not come back: there is something in it that is of none of its types.
    """
    if is_plain(response):
        return response
    said = settled(response)
    try:
        read = decode_signal(encode_signal(said))
    except CodecError as error:
        message = f"the provider of {model} gave a response that is none: {error}"
        raise ProtocolError(message) from None
    assert isinstance(read, ResponseCompleted)  # noqa: S101 - so it was written
    return said if read == said else read


def is_plain(response: ResponseCompleted) -> bool:
    """Say whether each value of a response is of its type, as in nearly all; by hand, for its bytes cost six times as much.

    What is left to `settled`, which each signal goes through in front of its step, is what a value of the right type may hold.
    """
    given: Any = response  # mypy takes the annotations at their word, and those are in doubt here
    message, usage = given.message, given.usage
    if type(message) is not AssistantMessage or type(usage) is not TokenUsage or given.misfit is not None:
        return False
    told = (message.model, message.stop_reason, given.stop_reason, message.cut, given.jitter, message.content)
    used = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning, usage.estimated)
    if tuple(map(type, told)) != _TOLD or tuple(map(type, used)) != _USED:
        return False
    if usage.cost_usd is not None and type(usage.cost_usd) is not float:
        return False
    if message.stop_reason not in _STOP_REASONS or given.stop_reason not in _STOP_REASONS:
        return False
    return all(map(_is_plain_block, message.content))


def _is_plain_block(block: object) -> bool:
    if type(block) is Text:
        return type(block.text) is str
    return (
        type(block) is ToolCall
        and type(block.call_id) is type(block.name) is str
        and block.malformed is None
        and type(block.arguments) is FrozenDict  # which a call makes of what it is given, to its depth
    )


def check_chunk(chunk: Chunk) -> None:
    """Refuse a chunk that could not be recorded; of those that never are nothing is asked.

    Raises:
        ProtocolError: Something in it is of another type.
    """
    # By hand, and not through its bytes: there is one for each word of a model, and mostly it is plain text, or a piece of a call.
    if (type(chunk) is TextDelta and type(chunk.text) is str) or type(chunk) in _NEVER_RECORDED:
        return
    match chunk:
        case TextDelta(text):
            _check("TextDelta.text", text, str, "text")
        case ReasoningDelta(text, signature):
            _check("ReasoningDelta.text", text, str, "text")
            _check("ReasoningDelta.signature", signature, str | None, "text or None")
        case UsageUpdate(usage):
            _check("UsageUpdate.usage", usage, TokenUsage, "a TokenUsage")
        case _:
            pass


def _check(name: str, given: object, wanted: type | UnionType, expected: str) -> None:
    if not isinstance(given, wanted):
        message = f"{name} is {given!r:.100}, expected {expected}: its provider has to make it so"
        raise ProtocolError(message)
