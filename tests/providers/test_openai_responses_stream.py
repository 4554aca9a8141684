"""What Responses send is understood, in whichever of its four ways a server says it (7.5, 7.6, 7.10)."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agentrail.core.protocol.request import (
    ArgumentsDelta,
    Chunk,
    Completed,
    ReasoningDelta,
    TextDelta,
    ToolCallStarted,
)
from agentrail.errors import (
    ContentRefused,
    ContextWindowExceeded,
    Overloaded,
    ProtocolError,
    ProviderError,
    RateLimited,
    Transport,
)
from agentrail.messages import Opaque, Text, Thinking, TokenUsage, ToolCall
from tests.providers.transcripts import (
    WIRE,
    completed,
    events_of,
    read,
    reader_of,
    transcripts,
)
from tests.providers.vendors import judge

RESPONSES = WIRE / "openai_responses"
HELLO = "Hello, wörld ✓"
WEATHER = [("get_weather", {"city": "Lisbon"})]
LIST_AND_READ = [("list_dir", {"path": "."}), ("read_file", {"path": "README.md"})]
FAILING = {
    "failed": RateLimited,
    "failed_by_server": Overloaded,
    "failed_prompt": ContentRefused,
    "failed_without_error": Overloaded,
    "error_event": ContextWindowExceeded,
    "error_nested": RateLimited,
    "error_without_type": Overloaded,
    "error_bare": Overloaded,
    "empty": ProtocolError,
    "call_without_name": ProtocolError,
    "item_without_type": ProtocolError,
    "not_json": ProtocolError,
    "not_an_object": ProtocolError,
}
COMPLETE = [path for path in transcripts("openai_responses") if path.stem not in FAILING]
# In these the end takes back what the deltas said, and a delta cannot be taken back.
TAKEN_BACK = {"done_disagrees_in_arguments", "done_disagrees_in_text"}


def _read(name: str) -> list[Chunk]:
    (path,) = RESPONSES.glob(f"**/{name}.sse")
    return read(path)


def _calls(end: Completed) -> list[tuple[str, object]]:
    return [(call.name, call.arguments) for call in end.message.calls]


@pytest.mark.parametrize(
    ("name", "text", "stop_reason"),
    [
        ("text", HELLO, "end"),
        ("usage_details", HELLO, "end"),
        ("max_output_tokens", HELLO, "max_tokens"),
        ("content_filter", HELLO, "refused"),
        ("refusal", "I will not.", "refused"),
        ("deltas_only", HELLO, "end"),
        ("no_index_no_id", HELLO, "end"),
        ("done_disagrees_in_text", HELLO, "end"),
        ("done_says_more", HELLO, "end"),
        ("done_says_nothing", HELLO, "end"),
        ("usage_never", HELLO, "end"),
        ("usage_absurd", HELLO, "end"),
        ("unknown_events", HELLO, "end"),
        ("unknown_reason", HELLO, "other"),
        ("unknown_status", HELLO, "other"),
        ("incomplete_without_reason", HELLO, "max_tokens"),
        ("status_missing", HELLO, "end"),
        ("done_mark", HELLO, "end"),
        ("after_terminal", HELLO, "end"),
        ("crlf_no_blank", HELLO, "end"),
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
        ("reasoning_then_call", WEATHER),
        ("no_deltas", LIST_AND_READ),
        ("only_completed", LIST_AND_READ),
        ("whole_response", LIST_AND_READ),
        ("no_parts_done", LIST_AND_READ),
        ("output_empty_at_the_end", LIST_AND_READ),
        ("no_output_index", LIST_AND_READ),
        ("output_index_always_0", LIST_AND_READ),
        ("ids_that_change", LIST_AND_READ),
        ("done_disagrees_in_arguments", WEATHER),
        ("call_not_announced", WEATHER),
        ("done_says_nothing_of_arguments", WEATHER),
        ("item_done_twice", WEATHER),
        ("ids_only_and_no_item_done", LIST_AND_READ),
        ("id_missing", WEATHER),
        ("id_empty", WEATHER),
        ("id_numeric", WEATHER),
        ("id_twice_the_same", LIST_AND_READ),
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


def test_an_item_that_is_finished_twice_is_kept_once():
    """The vendor would refuse a history with the same reasoning twice."""
    content = completed(_read("item_done_twice")).message.content
    assert [type(block) for block in content] == [Thinking, Opaque, ToolCall]


@pytest.mark.at(134)
def test_usage_has_one_meaning():
    """Cached tokens are a part of the input, reasoning a part of the output: neither is added again."""
    usage = completed(_read("usage_details")).usage
    assert usage == TokenUsage(
        input=100, output=50, cache_read=80, cache_write=5, reasoning=30, cost_usd=None
    )


@pytest.mark.parametrize(("name", "kind"), sorted(FAILING.items()))
def test_a_fault_in_the_stream_is_a_typed_error(name, kind):
    """Errors that come as events, and events that are none, raise the error by the table."""
    with pytest.raises(kind):
        _read(name)


@pytest.mark.parametrize("path", transcripts("openai_responses", conforming=True), ids=lambda path: path.stem)
def test_the_vendors_own_types_accept_our_transcripts(path: Path):
    """Every event of a conforming transcript is one that the vendor's own client takes."""
    for data in events_of(path.read_text()):
        judge("openai.types.responses", "ResponseStreamEvent").validate_json(data, strict=True)


@pytest.mark.parametrize("path", COMPLETE, ids=lambda path: path.stem)
def test_the_message_is_what_the_deltas_add_up_to(path: Path):
    """Text, thinking and calls of the final message are those of the chunks, in their order (7.3, rule 2)."""
    chunks = read(path)
    end = completed(chunks)
    starts = [(chunk.id, chunk.name) for chunk in chunks if isinstance(chunk, ToolCallStarted)]
    assert starts == [(call.call_id, call.name) for call in end.message.calls]
    if path.stem in TAKEN_BACK:
        return
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == end.message.text
    thoughts = "".join(block.text for block in end.message.content if isinstance(block, Thinking))
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningDelta)) == thoughts
    for index, call in enumerate(end.message.calls):
        written = "".join(
            chunk.text for chunk in chunks if isinstance(chunk, ArgumentsDelta) and chunk.index == index
        )
        assert written == call.malformed if call.arguments is None else call.arguments == json.loads(written)


@pytest.mark.parametrize("path", transcripts("openai_responses"), ids=lambda path: path.stem)
def test_a_stream_that_ends_early_is_transport(path: Path):
    """Cut behind any event but the last, a transcript gives a beginning of its chunks, then `Transport` or its own error."""
    events = list(events_of(path.read_bytes().decode()))
    whole: list[Chunk] | None = None if path.stem in FAILING else read(path)
    for length in range(len(events)):
        reader, chunks = reader_of("openai_responses"), []
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
            assert isinstance(chunks[-1], Completed)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KINDS = [
    *(f"response.{kind}" for kind in ("created", "completed", "incomplete", "failed")),
    *(f"response.output_item.{kind}" for kind in ("added", "done")),
    *(f"response.{part}.{kind}" for part in ("output_text", "refusal") for kind in ("delta", "done")),
    *(f"response.function_call_arguments.{kind}" for kind in ("delta", "done")),
    *(f"response.reasoning_summary_text.{kind}" for kind in ("delta", "done")),
    "error",
]
PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["output_text", "refusal"]) | JSON}, optional={"text": JSON, "refusal": JSON}
)
ITEMS = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "function_call", "reasoning", "web_search_call"]) | JSON},
    optional={
        "id": JSON,
        "call_id": JSON,
        "name": JSON | st.just("f"),
        "arguments": JSON,
        "content": st.lists(PARTS | JSON, max_size=2) | JSON,
        "summary": st.lists(PARTS | JSON, max_size=2) | JSON,
    },
)
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS) | JSON},
    optional={
        "output_index": st.integers(0, 1) | JSON,
        "item_id": JSON,
        "content_index": JSON,
        "summary_index": JSON,
        "item": ITEMS | JSON,
        "delta": JSON,
        "text": JSON,
        "arguments": JSON,
        "error": JSON,
        "code": JSON,
        "message": JSON,
        "object": st.just("response") | JSON,
        "response": st.fixed_dictionaries(
            {},
            optional={
                "status": JSON,
                "output": st.lists(ITEMS | JSON, max_size=2) | JSON,
                "usage": JSON,
                "error": JSON,
                "incomplete_details": JSON,
            },
        )
        | JSON,
    },
)


@given(events=st.lists(EVENTS | JSON, max_size=6))
def test_nonsense_is_a_typed_error_and_nothing_else(events):
    """Whatever JSON a server sends, the reader answers with chunks or a `ProviderError`."""
    reader = reader_of("openai_responses")
    try:
        for event in events:
            reader.feed(json.dumps(event))
        reader.close()
    except ProviderError as error:
        assert str(error)  # noqa: PT017 - any of them will do, as long as it says something
