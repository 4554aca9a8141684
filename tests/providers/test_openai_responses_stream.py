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
    REQUEST_BYTES,
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


def test_a_call_has_its_call_id_and_not_the_id_of_its_item():
    """Results refer to the former."""
    assert [call.call_id for call in completed(_read("parallel_calls")).message.calls] == ["call_a", "call_b"]


def test_a_call_that_was_cut_keeps_what_came():
    """Arguments that never become JSON are yielded as they are, with the reason that explains it."""
    end = completed(_read("malformed_arguments"))
    assert end.message.calls == (
        ToolCall(
            call_id=end.message.calls[0].call_id, name="get_weather", arguments=None, malformed='{"city": Lis'
        ),
    )
    assert end.stop_reason == "max_tokens"


def test_a_summary_is_thinking_and_its_item_goes_back_as_it_came():
    """People see the summary; the vendor gets the item of the `done`, because that of the beginning is not complete."""
    chunks = _read("reasoning_then_call")
    first, second, item, call = completed(chunks).message.content
    assert (first, second) == (
        Thinking(text="**Looking**\n\nHm.", provider="openai"),
        Thinking(text="And so.", provider="openai"),
    )
    assert isinstance(item, Opaque)
    assert (item.provider, item.payload["id"], item.payload["encrypted_content"]) == (
        "openai",
        "rs_0",
        "gAAAA-c2VjcmV0",
    )
    assert isinstance(call, ToolCall)
    assert [chunk.text for chunk in chunks if isinstance(chunk, ReasoningDelta)] == [
        "**Look",
        "ing**\n\nHm.",
        "And so.",
    ]


def test_a_summary_whose_parts_have_no_number_is_said_once():
    """As a proxy sends it: with an index in the `done`, and none in the deltas."""
    thought, item, text = completed(_read("no_summary_index")).message.content
    assert thought == Thinking(text="Let me think.", provider="openai")
    assert isinstance(item, Opaque)
    assert text == Text(text="42")


def test_an_item_that_is_finished_twice_is_kept_once():
    """The vendor would refuse a history with the same reasoning twice."""
    content = completed(_read("item_done_twice")).message.content
    assert [type(block) for block in content] == [Thinking, Opaque, ToolCall]


def test_reasoning_without_a_summary_is_kept_all_the_same():
    """Nobody sees it, and the vendor wants it back."""
    item, text = completed(_read("reasoning_without_summary")).message.content
    assert isinstance(item, Opaque)
    assert text == Text(text="42")


def test_reasoning_in_the_open_is_thinking():
    """Servers of one's own write the reasoning itself."""
    thought, item, text = completed(_read("reasoning_text")).message.content
    assert thought == Thinking(text="Let me think.", provider="openai")
    assert isinstance(item, Opaque)
    assert text == Text(text="42")


def test_the_call_of_a_hosted_tool_is_kept_as_it_came():
    """Its events are ignored and counted, its item goes back."""
    item, text = completed(_read("hosted_tool")).message.content
    assert isinstance(item, Opaque)
    assert item.payload["type"] == "web_search_call"
    assert text == Text(text=HELLO)


@pytest.mark.at(134)
def test_usage_has_one_meaning():
    """Cached tokens are a part of the input, reasoning a part of the output: neither is added again."""
    usage = completed(_read("usage_details")).usage
    assert usage == TokenUsage(
        input=100, output=50, cache_read=80, cache_write=5, reasoning=30, cost_usd=None
    )


@pytest.mark.parametrize("name", ["usage_never", "usage_absurd"])
def test_usage_that_is_missing_or_absurd_is_estimated(name):
    """What nobody reports, or nobody can mean, is estimated at four bytes per token, and marked."""
    usage = completed(_read(name)).usage
    assert usage == TokenUsage(
        input=REQUEST_BYTES // 4, output=len(HELLO) // 4, cost_usd=None, estimated=True
    )


@pytest.mark.parametrize(
    ("name", "ignored"), [("after_terminal", 2), ("done_mark", 2), ("unknown_events", 4)]
)
def test_what_is_not_known_is_ignored_and_counted(name, ignored):
    """Events after the terminal, the mark of another format, and kinds that somebody will invent."""
    reader = reader_of("openai_responses")
    events = list(events_of((RESPONSES / "deviations" / f"{name}.sse").read_text()))
    known = sum(len(reader.feed(data)) for data in events)
    assert known > 0
    # Those that only frame what is said (`created`, `part.added` …) are of no use here, and counted as well.
    framing = ("response.created", "response.in_progress", "response.content_part")
    assert reader.ignored_events == ignored + sum(
        f'"type":"{kind}' in data for kind in framing for data in events
    )
    assert reader.close() == []


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
