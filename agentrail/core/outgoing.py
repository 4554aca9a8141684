"""Old tool arguments are shortened on the way out, and never in the history.

A file that was written fifty messages ago need not be sent again in full.

What changes in a request costs the vendor's prompt cache from there on. So the border between old and new moves in steps:
between two steps every request extends the one before it byte for byte, and a step changes something only where a long
argument lies in the block that it passes. A shortened message is made once and kept, so that its encoded form is too.
"""

from collections.abc import Sequence
from typing import Final

import attrs
import msgspec

from agentrail.messages import AssistantMessage, JsonValue, Message, ToolCall

FRESH_MESSAGES: Final = 20
STEP: Final = 10
MAX_CHARACTERS: Final = 2_000
KEPT_CHARACTERS: Final = 500


class Outgoing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was shortened so far. It follows from the messages, so whoever lost it begins with an empty one.

    Attributes:
        first: The first message of the conversation; another one there means another conversation.
        border: Messages before it were looked at.
        short: The shortened ones, by their place.
    """

    first: Message | None = None
    border: int = 0
    short: tuple[tuple[int, Message], ...] = ()


def outgoing(kept: Outgoing, messages: Sequence[Message]) -> tuple[Outgoing, Sequence[Message]]:
    """Say what is sent of a conversation.

    Args:
        kept: What this function returned for the request before, or an empty value.
        messages: The conversation; longer than the last time, or another one after a compaction.

    Returns:
        What to keep for the next request, and the messages as they are sent: the very same ones where nothing is short.
    """
    # The border is a multiple of the step; it lies at most FRESH_MESSAGES + STEP - 1 from the end.
    border = max(0, (len(messages) - FRESH_MESSAGES) // STEP * STEP)
    first = messages[0] if messages else None
    if first is not kept.first or border < kept.border:
        kept = Outgoing(first=first)
    if border > kept.border:
        block = enumerate(messages[kept.border : border], start=kept.border)
        new = tuple(
            (place, short) for place, message in block if (short := _shortened(message)) is not message
        )
        kept = Outgoing(first=first, border=border, short=kept.short + new)
    if not kept.short:
        return kept, messages
    sent = list(messages[:])
    for place, message in kept.short:
        sent[place] = message
    return kept, sent


def _shortened(message: Message) -> Message:
    """Shorten the arguments of a message's calls; the very message where none is long."""
    if not isinstance(message, AssistantMessage):
        return message
    content = tuple(
        attrs.evolve(block, arguments=short)
        if isinstance(block, ToolCall) and (short := _short_arguments(block)) is not None
        else block
        for block in message.content
    )
    return message if content == message.content else attrs.evolve(message, content=content)


def _short_arguments(call: ToolCall) -> dict[str, JsonValue] | None:
    arguments = dict(call.arguments or {})
    short = {name: _short(value) for name, value in arguments.items()}
    return None if short == arguments else short


def _short(value: JsonValue) -> JsonValue:
    match value:
        case str() if len(value) > MAX_CHARACTERS:
            return f"{value[:KEPT_CHARACTERS]} [… {len(value) - KEPT_CHARACTERS:,} characters left out …]"
        case list():
            return [_short(item) for item in value]
        case dict():
            return {name: _short(item) for name, item in value.items()}
        case _:
            return value
