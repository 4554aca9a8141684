"""What a provider gives, held to its types on its way into a session. No session and no store enters.

Nothing has looked at them: a struct takes what it is made of, a test of the provider may not have met it, and a step may not mind. But
a record with such a value cannot be read again, and a journal with such a record cannot be folded, with all that stands behind it.
"""

from types import UnionType

from agentrail.core.protocol.request import Chunk, ReasoningDelta, TextDelta, UsageUpdate
from agentrail.core.protocol.signals import ResponseCompleted
from agentrail.core.wire.codec import decode_signal, encode_signal
from agentrail.core.wire.settling import settled
from agentrail.errors import CodecError, ProtocolError
from agentrail.messages import TokenUsage


def readable(response: ResponseCompleted, model: str) -> ResponseCompleted:
    """Give a response as it comes back from its bytes.

    Args:
        response: What the provider made.
        model: Whose it is, for the message.

    Raises:
        ProtocolError: It does not come back: there is something in it that is of none of its types.
    """
    said = settled(response)
    try:
        read = decode_signal(encode_signal(said))
    except CodecError as error:
        message = f"the provider of {model} gave a response that is none: {error}"
        raise ProtocolError(message) from None
    assert isinstance(read, ResponseCompleted)  # noqa: S101 - so it was written
    return said if read == said else read


def check_chunk(chunk: Chunk) -> None:
    """Refuse a chunk that could not be recorded; of those that never are nothing is asked.

    Raises:
        ProtocolError: Something in it is of another type.
    """
    # By hand, and not through its bytes: there is one for each word of a model, and mostly it is plain text.
    if type(chunk) is TextDelta and type(chunk.text) is str:
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
