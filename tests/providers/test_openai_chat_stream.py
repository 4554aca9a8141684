"""What Chat Completions send is understood, with every accent that is promised (7.5, 7.6, 7.10)."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agentrail.core.protocol.request import (
    ArgumentsDelta,
    Chunk,
    Completed,
    TextDelta,
    ToolCallStarted,
    UsageUpdate,
)
from agentrail.errors import (
    ContextWindowExceeded,
    Overloaded,
    ProtocolError,
    ProviderError,
    RateLimited,
    Transport,
)
from agentrail.messages import Text, TokenUsage
from tests.providers.transcripts import (
    WIRE,
    completed,
    events_of,
    read,
    reader_of,
    transcripts,
)
from tests.providers.vendors import judge

CHAT = WIRE / "openai_chat"
HELLO = "Hello, wörld ✓"
WEATHER = [("get_weather", {"city": "Lisbon"})]
LIST_AND_READ = [("list_dir", {"path": "."}), ("read_file", {"path": "README.md"})]
FAILING = {
    "error_chunk": RateLimited,
    "error_chunk_with_status": Overloaded,
    "error_object": ContextWindowExceeded,
    "error_text": Overloaded,
    "empty": ProtocolError,
    "call_without_name": ProtocolError,
    "not_json": ProtocolError,
    "not_an_object": ProtocolError,
}
COMPLETE = [path for path in transcripts("openai_chat") if path.stem not in FAILING]


def _read(name: str) -> list[Chunk]:
    (path,) = CHAT.glob(f"**/{name}.sse")
    return read(path)


def _calls(end: Completed) -> list[tuple[str, object]]:
    return [(call.name, call.arguments) for call in end.message.calls]


@pytest.mark.parametrize(
    ("name", "text", "stop_reason"),
    [
        ("text", HELLO, "end"),
        ("usage_details", HELLO, "end"),
        ("length", HELLO, "max_tokens"),
        ("content_filter", HELLO, "refused"),
        ("refusal", "I will not.", "refused"),
        ("usage_in_every_chunk", HELLO, "end"),
        ("usage_in_last_content_chunk", HELLO, "end"),
        ("usage_never", HELLO, "end"),
        ("usage_absurd", HELLO, "end"),
        ("unknown_finish_reason", HELLO, "other"),
        ("no_done", HELLO, "end"),
        ("done_without_finish_reason", HELLO, "other"),
        ("delta_null", HELLO, "end"),
        ("heartbeats", HELLO, "end"),
        ("crlf_no_blank", HELLO, "end"),
        ("after_terminal", HELLO, "end"),
        ("content_parts", HELLO, "end"),
        ("text_like_a_tag", " <thing> is no tag, <think> neither", "end"),
        ("text_that_ends_like_a_tag", "<", "end"),
        ("lone_surrogate", "a\ufffdb 😀", "end"),
        ("line_separator_in_text", "a\u2028b\u0085c", "end"),
    ],
)
def test_text_and_stop_reason_are_read(name, text, stop_reason):
    """Each way to send a text gives that text, and the reason by the table."""
    end = completed(_read(name))
    assert end.message.content == (Text(text=text),)
    assert end.stop_reason == end.message.stop_reason == stop_reason
    assert end.message.model == "x:y"


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("tool_call", WEATHER),
        ("parallel_calls", LIST_AND_READ),
        ("call_without_arguments", [("now", {})]),
        ("id_missing", WEATHER),
        ("id_numeric", WEATHER),
        ("id_empty", WEATHER),
        ("id_twice_the_same", LIST_AND_READ),
        ("index_missing", LIST_AND_READ),
        ("index_always_0", LIST_AND_READ),
        ("no_id_no_index", LIST_AND_READ),
        ("arguments_as_object", WEATHER),
        ("arguments_empty_object", [("now", {})]),
        ("name_repeated", WEATHER),
        ("name_in_pieces", WEATHER),
        ("stop_although_calls", WEATHER),
        ("reasoning_then_call", WEATHER),
        ("think_inline_then_call", WEATHER),
        ("tag_cut_by_a_call", WEATHER),
        ("arguments_in_one_piece", LIST_AND_READ),
        ("whole_completion", LIST_AND_READ),
    ],
)
def test_calls_are_assembled(name, calls):
    """Each way to send calls gives these calls, each with an id of its own, and `tool_use`."""
    chunks = _read(name)
    end = completed(chunks)
    assert _calls(end) == calls
    assert end.stop_reason == "tool_use"
    assert len({call.call_id for call in end.message.calls}) == len(calls)
    assert all(call.call_id for call in end.message.calls)
    assert [chunk.index for chunk in chunks if isinstance(chunk, ToolCallStarted)] == list(range(len(calls)))


@pytest.mark.at(134)
def test_usage_in_every_chunk_is_a_total_each_time():
    """Usage that comes again and again is never added up, and is only told when it changed."""
    chunks = _read("usage_in_every_chunk")
    assert [chunk.usage.output for chunk in chunks if isinstance(chunk, UsageUpdate)] == [1, 3, 4]
    assert completed(chunks).usage == TokenUsage(input=9, output=4, cost_usd=None)


def test_usage_that_did_not_change_is_not_told_again():
    """Some servers repeat it with every chunk, and each update would wake every subscriber."""
    reader = reader_of("openai_chat")
    event = json.dumps({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}})
    assert [len(reader.feed(event)) for _ in range(3)] == [1, 0, 0]


@pytest.mark.parametrize(("name", "kind"), sorted(FAILING.items()))
def test_a_fault_in_the_stream_is_a_typed_error(name, kind):
    """Errors that come as events, and events that are none, raise the error by the table."""
    with pytest.raises(kind):
        _read(name)


@pytest.mark.parametrize("path", transcripts("openai_chat", conforming=True), ids=lambda path: path.stem)
def test_the_vendors_own_types_accept_our_transcripts(path: Path):
    """Every event of a conforming transcript is one that the vendor's own client takes."""
    for data in events_of(path.read_text()):
        if data != "[DONE]":
            judge("openai.types.chat", "ChatCompletionChunk").validate_json(data, strict=True)


@pytest.mark.parametrize("path", COMPLETE, ids=lambda path: path.stem)
def test_the_message_is_what_the_deltas_add_up_to(path: Path):
    """Text, thinking and calls of the final message are those of the chunks, in their order (7.3, rule 2)."""
    chunks = read(path)
    end = completed(chunks)
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == end.message.text
    starts = [(chunk.id, chunk.name) for chunk in chunks if isinstance(chunk, ToolCallStarted)]
    assert starts == [(call.call_id, call.name) for call in end.message.calls]
    started: set[int] = set()
    for chunk in chunks:
        if isinstance(chunk, ToolCallStarted):
            started.add(chunk.index)
        elif isinstance(chunk, ArgumentsDelta):
            assert chunk.index in started


@pytest.mark.parametrize("path", transcripts("openai_chat"), ids=lambda path: path.stem)
def test_a_stream_that_ends_early_is_transport_or_the_same_message(path: Path):
    """Cut behind any event, a transcript gives a beginning of its chunks, then `Transport`, its own error, or its end."""
    events = list(events_of(path.read_bytes().decode()))
    whole: list[Chunk] | None = None if path.stem in FAILING else read(path)
    for length in range(len(events)):
        reader, chunks = reader_of("openai_chat"), []
        try:
            for data in events[:length]:
                chunks += reader.feed(data)
            chunks += reader.close()
        except Transport:
            assert whole is None or chunks == whole[: len(chunks)]
        except ProviderError:
            if whole is not None:
                raise
        else:
            assert whole is not None
            assert completed(chunks).message == completed(whole).message


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": JSON,
        "reasoning_content": JSON,
        "refusal": JSON,
        "tool_calls": JSON
        | st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "index": JSON,
                    "id": JSON,
                    "function": JSON | st.fixed_dictionaries({}, optional={"name": JSON, "arguments": JSON}),
                },
            ),
            max_size=3,
        ),
    },
)
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "choices": JSON
        | st.lists(
            st.fixed_dictionaries({}, optional={"delta": DELTAS | JSON, "finish_reason": JSON}), max_size=2
        ),
        "usage": JSON,
        "error": JSON,
    },
)


@given(events=st.lists(EVENTS | JSON, max_size=6))
def test_nonsense_is_a_typed_error_and_nothing_else(events):
    """Whatever JSON a server sends, the reader answers with chunks or a `ProviderError`."""
    reader = reader_of("openai_chat")
    try:
        for event in events:
            reader.feed(json.dumps(event))
        reader.close()
    except ProviderError as error:
        assert str(error)  # noqa: PT017 - any of them will do, as long as it says something
