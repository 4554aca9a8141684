"""What can be said of the chunks of a response, for checks: that it ended once, what it adds up to, what it came from.

Pure; nothing that asks a provider enters this file.
"""

import json
from collections.abc import Sequence

from agentrail.core.protocol.request import (
    ArgumentsDelta,
    Chunk,
    Completed,
    ReasoningDelta,
    TextDelta,
    ToolCallStarted,
    UsageUpdate,
)
from agentrail.core.values.toolbox import read_call
from agentrail.errors import ProviderError
from agentrail.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall


def check_terminal(chunks: Sequence[Chunk], error: ProviderError | None, rule: str) -> None:
    """Check that a response ended once."""
    positions = [n for n, chunk in enumerate(chunks) if isinstance(chunk, Completed)]
    expected = "expected one Completed as the last chunk, or one ProviderError"
    came = f"{len(chunks)} chunks, Completed at {positions}, error {error!r}"
    fits = positions == ([] if error is not None else [len(chunks) - 1])
    assert fits, broken(rule, expected, came)


def check_message(chunks: Sequence[Chunk], end: Completed) -> None:
    """Check that a message says what its deltas said."""
    rule = "the message is what the deltas add up to"
    added, said = added_up(chunks), said_in(end.message)
    assert added == said, broken(rule, f"expected {added}", said)
    reasons = (end.stop_reason, end.message.stop_reason)
    assert reasons[0] == reasons[1], broken(rule, "expected one stop reason in chunk and message", reasons)


def check_same(came: Sequence[object], expected: Sequence[object], rule: str) -> None:
    """Check that two lists of chunks, or of messages, are the same, and name the first difference."""
    for position, (one, other) in enumerate(zip(came, expected, strict=False)):
        assert one == other, broken(rule, f"expected {other!r} as chunk {position}", one)
    sizes = f"expected {len(expected)} chunks, as of the whole answer"
    assert len(came) == len(expected), broken(rule, sizes, len(came))


def added_up(chunks: Sequence[Chunk]) -> list[object]:
    """Return what the deltas say: texts and thoughts, neighbours joined, and calls; these have begun before they go on."""
    said: list[object] = []
    pieces: dict[int, list[str]] = {}
    places: dict[int, int] = {}
    for chunk in chunks:
        match chunk:
            case TextDelta(text=text):
                _join(said, "text", text)
            case ReasoningDelta(text=text):
                _join(said, "thinking", text)
            case ToolCallStarted(index=index):
                pieces[index], places[index] = [], len(said)
                said.append(chunk)
            case ArgumentsDelta(index=index, text=text):
                pieces[index].append(text)
            case UsageUpdate() | Completed():
                pass
    for index, place in places.items():
        started = said[place]
        if isinstance(started, ToolCallStarted):
            said[place] = read_call(started.id, started.name, "".join(pieces[index]))
    return said


def said_in(message: AssistantMessage) -> list[object]:
    """Return what a message says, in the same shape; what is not understood here has no deltas."""
    said: list[object] = []
    for block in message.content:
        match block:
            case Text(text=text):
                _join(said, "text", text)
            case Thinking(text=text):
                _join(said, "thinking", text)
            case ToolCall():
                said.append(block)
            case Opaque():
                pass
    return said


def _join(said: list[object], kind: str, text: str) -> None:
    last = said[-1] if said else None
    if isinstance(last, tuple) and last[0] == kind:
        said[-1] = (kind, last[1] + text)
    elif text:
        said.append((kind, text))


def origin_of(chunk: Chunk, events: Sequence[bytes]) -> int | None:
    """Say which event brought a delta: the only one that has its very text as a value; None when that tells nothing."""
    text = chunk.text if isinstance(chunk, TextDelta | ReasoningDelta | ArgumentsDelta) else ""
    holders = [number for number, event in enumerate(events) if text in _texts(event)]
    return holders[0] if text and len(holders) == 1 else None


def _texts(event: bytes) -> set[str]:
    """Return every text in the JSON of an event; of an event that is no JSON none."""
    try:
        found: list[object] = [
            json.loads(line[5:]) for line in event.decode().split("\n") if line.startswith("data:")
        ]
    except ValueError:
        return set()
    texts: set[str] = set()
    while found:
        match found.pop():
            case str() as text:
                texts.add(text)
            case list() as items:
                found += items
            case dict() as members:
                found += members.values()
            case _:
                pass  # numbers and the like
    return texts


def deltas_of(chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """Leave the terminal out."""
    return tuple(chunk for chunk in chunks if not isinstance(chunk, Completed))


def final_messages(chunks: Sequence[Chunk]) -> list[AssistantMessage]:
    """Give the messages of all terminals; of a good response the only one."""
    return [chunk.message for chunk in chunks if isinstance(chunk, Completed)]


def broken(rule: str, expected: str, came: object) -> str:
    """Say which rule is broken, what was expected and what came."""
    return f"{rule}: {expected}, got {came if isinstance(came, str) else repr(came)}"
