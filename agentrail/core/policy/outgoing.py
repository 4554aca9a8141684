"""What is sent of a conversation: old tool arguments are shortened, refused cycles left out. Never in the history.

A file that was written fifty messages ago need not be sent again in full. And a vendor that has refused goes on refusing
while the cause is in the context, so what led to a refusal is for people to see and for no model to read again.

What changes in a request costs the vendor's prompt cache from there on. So the border between old and new moves in steps:
between two steps every request extends the one before it byte for byte, and a step changes something only where a long
argument lies in the block that it passes. A shortened message is made once and kept, so that its encoded form is too.
"""

from collections.abc import Collection, Sequence
from operator import is_
from typing import Final

import msgspec
from msgspec.structs import replace

from agentrail.messages import AssistantMessage, JsonValue, Message, PromptRef, ToolCall, UserMessage

FRESH_MESSAGES: Final = 20
STEP: Final = 10
MAX_ARGUMENT_CHARACTERS: Final = 2_000
KEPT_CHARACTERS: Final = 500


class Outgoing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was found so far. It follows from the messages, so one that is lost is made anew from an empty one.

    Attributes:
        first: The first message of the conversation; another one there means another conversation.
        border: Messages before it were looked at.
        short: The shortened ones, by their place.
        seen: Messages before it were looked at for refusals.
        begun: Where the cycle begins that the last of them is in.
        refused: What is left out: from one place up to, and without, another.
    """

    first: Message | None = None
    border: int = 0
    short: tuple[tuple[int, Message], ...] = ()
    seen: int = 0
    begun: int = 0
    refused: tuple[tuple[int, int], ...] = ()

    def place_of(self, place: int) -> int | None:
        """Say where a message of the conversation stands in the request; None for one that is left out."""
        before = 0
        for start, stop in self.refused:
            if start <= place < stop:
                return None
            before += stop - start if stop <= place else 0
        return place - before


def outgoing(
    kept: Outgoing, messages: Sequence[Message], refused: Collection[PromptRef] = ()
) -> tuple[Outgoing, Sequence[Message]]:
    """Say what is sent of a conversation.

    Args:
        kept: What this function returned for the request before, or an empty value.
        messages: The conversation; longer than the last time, or another one after a compaction.
        refused: Prompts whose cycles ended because a vendor refused to say a word.

    Returns:
        What to keep for the next request, and the messages as they are sent: the very same ones where nothing is short
        and nothing left out.
    """
    # The border is a multiple of the step; it lies at most FRESH_MESSAGES + STEP - 1 from the end.
    length = len(messages)
    border = max(0, (length - FRESH_MESSAGES) // STEP * STEP)
    first = messages[0] if length else None
    if first is not kept.first or border < kept.border:
        kept = Outgoing(first=first)
    if border > kept.border:
        block = enumerate(messages[kept.border : border], start=kept.border)
        new = tuple(
            (place, short) for place, message in block if (short := _shortened(message)) is not message
        )
        kept = msgspec.structs.replace(kept, border=border, short=kept.short + new)
    if length > kept.seen:
        kept = _with_refusals(kept, messages, refused)
    if not (kept.short or kept.refused):
        return kept, messages
    sent = list(messages[:])
    for place, message in kept.short:
        sent[place] = message
    for start, stop in reversed(kept.refused):
        del sent[start:stop]
    return kept, sent


def unrefused(messages: Sequence[Message], cut: int, refused: Collection[PromptRef]) -> tuple[Message, ...]:
    """Give the beginning of a conversation, up to a place, without refused cycles."""
    found = _with_refusals(Outgoing(first=messages[0] if messages else None), messages, refused)
    return tuple(message for place, message in enumerate(messages[:cut]) if found.place_of(place) is not None)


def _with_refusals(kept: Outgoing, messages: Sequence[Message], refused: Collection[PromptRef]) -> Outgoing:
    """Look at the messages that are new.

    A cycle goes from its prompt up to the refusal. Without a prompt it began before the first message, which may be the
    summary of a compaction, and that stays.
    """
    begun, found = kept.begun, list(kept.refused)
    for place, message in enumerate(messages[kept.seen :], start=kept.seen):
        match message:
            case UserMessage(origin="note") if place == 0:
                begun = 1
            case UserMessage(origin="prompt"):
                before = messages[begun]
                if begun < place and isinstance(before, UserMessage) and before.ref in refused:
                    found.append((begun, _behind_notes(messages, place)))
                begun = place
            case AssistantMessage(stop_reason="refused"):
                found.append((begun, place + 1))
                begun = place + 1
            case _:
                pass
    return msgspec.structs.replace(kept, seen=len(messages), begun=begun, refused=tuple(found))


def _behind_notes(messages: Sequence[Message], prompt: int) -> int:
    """Say where the cycle before a prompt ends: the notes in front of a prompt belong to it."""
    place = prompt
    while place and isinstance(note := messages[place - 1], UserMessage) and note.origin == "note":
        place -= 1
    return place


def _shortened(message: Message) -> Message:
    """Shorten the arguments of a message's calls; the very message where none is long."""
    if not isinstance(message, AssistantMessage):
        return message
    content = tuple(
        replace(block, arguments=short)
        if isinstance(block, ToolCall) and (short := _short_arguments(block)) is not None
        else block
        for block in message.content
    )
    if all(map(is_, content, message.content)):
        return message
    return replace(message, content=content)


def _short_arguments(call: ToolCall) -> dict[str, JsonValue] | None:
    arguments = call.arguments or {}
    if not any(map(_is_long, arguments.values())):
        return None
    return {name: _short(value) for name, value in arguments.items()}


def _is_long(value: JsonValue) -> bool:
    match value:
        case str():
            return len(value) > MAX_ARGUMENT_CHARACTERS
        case list():
            return any(map(_is_long, value))
        case dict():
            return any(map(_is_long, value.values()))
        case _:
            return False


def _short(value: JsonValue) -> JsonValue:
    match value:
        case str() if len(value) > MAX_ARGUMENT_CHARACTERS:
            return f"{value[:KEPT_CHARACTERS]} [… {len(value) - KEPT_CHARACTERS:,} characters left out …]"
        case list():
            return [_short(item) for item in value]
        case dict():
            return {name: _short(item) for name, item in value.items()}
        case _:
            return value
