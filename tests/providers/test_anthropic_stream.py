"""What Anthropic Messages send is understood (7.5, 7.6, 7.10)."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agentrail.core.protocol.request import ArgumentsDelta, Chunk, TextDelta, ToolCallStarted
from agentrail.errors import Overloaded, ProtocolError, ProviderError, Transport
from agentrail.messages import Text, Thinking, TokenUsage, ToolCall
from tests.providers.transcripts import (
    WIRE,
    completed,
    events_of,
    read,
    reader_of,
    transcripts,
)
from tests.providers.vendors import judge

HELLO = "Hello, wörld ✓"
FAILING = {
    "error_event": Overloaded,
    "delta_without_block": ProtocolError,
    "block_left_open": ProtocolError,
    "empty": ProtocolError,
}
COMPLETE = [path for path in transcripts("anthropic") if path.stem not in FAILING]


def _read(name: str) -> list[Chunk]:
    (path,) = (WIRE / "anthropic").glob(f"**/{name}.sse")
    return read(path)


@pytest.mark.parametrize(
    ("name", "stop_reason"),
    [
        ("text", "end"),
        ("pings_everywhere", "end"),
        ("cache_usage", "end"),
        ("stop_sequence", "stop_sequence"),
        ("max_tokens", "max_tokens"),
        ("pause", "pause"),
        ("context_window", "context_window"),
        ("unknown_stop_reason", "other"),
        ("unknown_events", "end"),
        ("citations", "end"),
        ("usage_never", "end"),
        ("usage_absurd", "end"),
        ("after_terminal", "end"),
    ],
)
def test_text_and_stop_reason_are_read(name, stop_reason):
    """Each way to send a text gives that text, and the reason by the table."""
    end = completed(_read(name))
    assert end.message.content == (Text(text=HELLO),)
    assert end.stop_reason == end.message.stop_reason == stop_reason


def test_two_thoughts_stay_two():
    """What follows a signature is a block of its own: joined, neither signature would fit."""
    first = Thinking(text="One.", signature="czE=", provider="anthropic")
    second = Thinking(text="Two.", signature="czI=", provider="anthropic")
    call = ToolCall(call_id="toolu_a", name="list_dir", arguments={"path": "."})
    assert completed(_read("interleaved_thinking")).message.content == (first, second, call)


@pytest.mark.at(134)
def test_usage_has_one_meaning():
    """Cache reads and writes are reported beside the input and count as input; totals are never added to totals."""
    usage = completed(_read("cache_usage")).usage
    assert usage == TokenUsage(input=109, output=50, cache_read=80, cache_write=20, cost_usd=None)


def test_an_error_event_carries_the_request_id():
    """The vendor's own id of the request is in the error, for its support."""
    with pytest.raises(Overloaded, match="Overloaded") as caught:
        _read("error_event")
    assert caught.value.request_id == "req_7"


@pytest.mark.parametrize(("name", "kind"), sorted(FAILING.items()))
def test_a_fault_in_the_stream_is_a_typed_error(name, kind):
    """Errors that come as events, and events out of order, raise the error by the table."""
    with pytest.raises(kind):
        _read(name)


@pytest.mark.parametrize("path", transcripts("anthropic", conforming=True), ids=lambda path: path.stem)
def test_the_vendors_own_types_accept_our_transcripts(path: Path):
    """Every event of a conforming transcript is one that the vendor's own client takes; it leaves pings out itself."""
    for data in events_of(path.read_text()):
        if json.loads(data) != {"type": "ping"}:
            judge("anthropic.types", "RawMessageStreamEvent").validate_json(data)


@pytest.mark.parametrize("path", COMPLETE, ids=lambda path: path.stem)
def test_the_message_is_what_the_deltas_add_up_to(path: Path):
    """Text, thinking and calls of the final message are those of the chunks, in their order (7.3, rule 2)."""
    chunks = read(path)
    end = completed(chunks)
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == end.message.text
    starts = [(chunk.id, chunk.name) for chunk in chunks if isinstance(chunk, ToolCallStarted)]
    assert starts == [(call.call_id, call.name) for call in end.message.calls]
    written = ["" for _ in starts]
    for chunk in chunks:
        if isinstance(chunk, ArgumentsDelta):
            written[chunk.index] += chunk.text
    for call, text in zip(end.message.calls, written, strict=True):
        assert (
            call.malformed == text if call.arguments is None else call.arguments == json.loads(text or "{}")
        )


@pytest.mark.parametrize("path", transcripts("anthropic"), ids=lambda path: path.stem)
def test_a_stream_that_ends_early_is_transport(path: Path):
    """Cut behind any event but the last, a transcript gives a beginning of its chunks, then `Transport` or its own error."""
    events = list(events_of(path.read_bytes().decode()))
    if path.stem == "after_terminal":
        events = events[: events.index('{"type":"message_stop"}') + 1]
    whole = None if path.stem in FAILING else read(path)
    for length in range(len(events)):
        reader, chunks = reader_of("anthropic"), []
        try:
            for data in events[:length]:
                chunks += reader.feed(data)
            reader.close()
        except Transport:
            assert whole is None or chunks == whole[: len(chunks)]
        except ProviderError:
            if whole is not None:
                raise
        else:
            pytest.fail(f"a response that is cut after {length} events was taken for complete")


def test_events_of_the_wrong_shape_are_protocol_errors():
    """A block that is none, and a delta that is none."""
    for event in ({"type": "content_block_start", "index": 0}, {"type": "content_block_delta", "index": 0}):
        reader = reader_of("anthropic")
        if event["type"] == "content_block_delta":
            reader.feed(
                json.dumps({"type": "content_block_start", "index": 0, "content_block": {"type": "text"}})
            )
        with pytest.raises(ProtocolError, match=r"without an index|an empty delta"):
            reader.feed(json.dumps(event))


def test_hidden_thinking_is_counted_when_it_is_reported():
    """It is a part of the output, and is not added to it."""
    reader = reader_of("anthropic")
    usage = {"input_tokens": 9, "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 30}}
    (update,) = reader.feed(json.dumps({"type": "message_delta", "delta": {}, "usage": usage}))
    assert (update.usage.output, update.usage.reasoning) == (50, 30)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KINDS = ["message_start", "content_block_start", "content_block_delta", "content_block_stop"]
KINDS += ["message_delta", "message_stop", "message", "error", "ping"]
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "tool_use", "redacted_thinking"]) | JSON},
    optional={"text": JSON, "thinking": JSON, "signature": JSON, "id": JSON, "name": JSON, "input": JSON},
)
DELTAS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text_delta", "input_json_delta", "thinking_delta", "signature_delta"]) | JSON},
    optional={"text": JSON, "partial_json": JSON, "thinking": JSON, "signature": JSON, "stop_reason": JSON},
)
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS) | JSON},
    optional={
        "index": st.integers(0, 1) | JSON,
        "content_block": BLOCKS | JSON,
        "delta": DELTAS | JSON,
        "message": JSON,
        "content": st.lists(BLOCKS | JSON, max_size=2) | JSON,
        "usage": JSON,
        "error": JSON,
    },
)


@given(events=st.lists(EVENTS | JSON, max_size=6))
def test_nonsense_is_a_typed_error_and_nothing_else(events):
    """Whatever JSON a server sends, the reader answers with chunks or a `ProviderError`."""
    reader = reader_of("anthropic")
    try:
        for event in events:
            reader.feed(json.dumps(event))
        reader.close()
    except ProviderError as error:
        assert str(error)  # noqa: PT017 - any of them will do, as long as it says something
