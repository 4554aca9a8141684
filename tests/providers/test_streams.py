"""What each of the four formats sends is understood, with every accent that is promised (7.5, 7.6, 7.10)."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from agentrail.core.protocol.request import Chunk, ToolCallStarted, UsageUpdate
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
from agentrail.testing.check_provider import check_message
from tests.providers.transcripts import READERS, WIRE, completed, events_of, read, reader_of, transcripts
from tests.providers.vendors import judge
from tests.thinned import each

HELLO = "Hello, wörld ✓"

# By format and stop reason: the transcripts of a text. It is HELLO where OTHER_TEXTS has no other.
TEXTS = {
    "anthropic": {
        "end": "text pings_everywhere cache_usage unknown_events citations usage_never usage_absurd after_terminal",
        "stop_sequence": "stop_sequence",
        "max_tokens": "max_tokens",
        "pause": "pause",
        "context_window": "context_window",
        "other": "unknown_stop_reason",
    },
    "gemini": {
        "end": "text finish_alone grounding usage_in_every_chunk finish_reason_unspecified unknown_events done_mark "
        "content_null usage_never usage_absurd usage_late crlf_no_blank",
        "max_tokens": "max_tokens",
        "refused": "refused_safety refused_prohibited_content refused_blocklist refused_spii refused_recitation",
        "other": "finish_other finish_reason_unknown",
    },
    "openai_chat": {
        "end": "text usage_details usage_in_every_chunk usage_in_last_content_chunk usage_never usage_absurd "
        "no_done delta_null heartbeats crlf_no_blank after_terminal content_parts text_like_a_tag "
        "text_that_ends_like_a_tag lone_surrogate line_separator_in_text",
        "max_tokens": "length",
        "refused": "content_filter refusal",
        "other": "unknown_finish_reason done_without_finish_reason",
    },
    "openai_responses": {
        "end": "text usage_details deltas_only no_index_no_id done_disagrees_in_text done_says_more "
        "done_says_nothing usage_never usage_absurd unknown_events status_missing done_mark after_terminal "
        "crlf_no_blank",
        "max_tokens": "max_output_tokens incomplete_without_reason",
        "refused": "content_filter refusal",
        "other": "unknown_reason unknown_status",
    },
}
OTHER_TEXTS = {
    "refusal": "I will not.",
    "text_like_a_tag": " <thing> is no tag, <think> neither",
    "text_that_ends_like_a_tag": "<",
    "lone_surrogate": "a\ufffdb 😀",
    "line_separator_in_text": "a\u2028b\u0085c",
}
# By format and by what is called: the transcripts of calls.
CALLED = {
    "now": [("now", {})],
    "weather": [("get_weather", {"city": "Lisbon"})],
    "both": [("list_dir", {"path": "."}), ("read_file", {"path": "README.md"})],
}
CALLS = {
    "openai_chat": {
        "now": "call_without_arguments arguments_empty_object",
        "weather": "tool_call id_missing id_numeric id_empty arguments_as_object name_repeated name_in_pieces "
        "stop_although_calls reasoning_then_call think_inline_then_call tag_cut_by_a_call",
        "both": "parallel_calls id_twice_the_same index_missing index_always_0 no_id_no_index "
        "arguments_in_one_piece whole_completion",
    },
    "openai_responses": {
        "now": "call_without_arguments",
        "weather": "tool_call reasoning_then_call done_disagrees_in_arguments call_not_announced "
        "done_says_nothing_of_arguments item_done_twice id_missing id_empty id_numeric arguments_as_object",
        "both": "parallel_calls no_deltas only_completed whole_response no_parts_done output_empty_at_the_end "
        "no_output_index output_index_always_0 ids_that_change ids_only_and_no_item_done id_twice_the_same",
    },
}
# By format and error: the transcripts that end in it.
FAULTS: dict[str, dict[type[ProviderError], str]] = {
    "anthropic": {Overloaded: "error_event", ProtocolError: "delta_without_block block_left_open empty"},
    "gemini": {
        ContentRefused: "prompt_blocked",
        Overloaded: "error_event",
        ProtocolError: "malformed_function_call call_without_name empty signature_and_nothing_else not_json",
        RateLimited: "error_rate_limit",
    },
    "openai_chat": {
        ContextWindowExceeded: "error_object",
        Overloaded: "error_chunk_with_status error_text",
        ProtocolError: "empty call_without_name not_json not_an_object",
        RateLimited: "error_chunk",
    },
    "openai_responses": {
        ContentRefused: "failed_prompt",
        ContextWindowExceeded: "error_event",
        Overloaded: "failed_by_server failed_without_error error_without_type error_bare",
        ProtocolError: "empty call_without_name item_without_type not_json not_an_object",
        RateLimited: "failed error_nested",
    },
}
FAILING = {wire: " ".join(kinds.values()).split() for wire, kinds in FAULTS.items()}
# In these the end takes back what the deltas said, and a delta cannot be taken back.
TAKEN_BACK = {"done_disagrees_in_arguments", "done_disagrees_in_text"}
JUDGES = {
    "anthropic": ("anthropic.types", "RawMessageStreamEvent", {}),
    "gemini": ("google.genai.types", "GenerateContentResponse", {}),
    "openai_chat": ("openai.types.chat", "ChatCompletionChunk", {"strict": True}),
    "openai_responses": ("openai.types.responses", "ResponseStreamEvent", {"strict": True}),
}
# What the vendors' clients leave out before they look at an event.
LEFT_OUT = ("[DONE]", '{"type":"ping"}', '{"type": "ping"}')
EVERY_WIRE = pytest.mark.parametrize("wire", READERS)
EVERY_TRANSCRIPT = pytest.mark.parametrize(
    "path", [path for wire in READERS for path in transcripts(wire)], ids=lambda path: path.stem
)


def _read(wire: str, name: str) -> list[Chunk]:
    (path,) = (WIRE / wire).glob(f"**/{name}.sse")
    return read(path)


def _rows(table: Mapping[str, Mapping[Any, str]]) -> list[tuple[str, Any, str]]:
    return [
        (wire, key, name)
        for wire, rows in table.items()
        for key, names in rows.items()
        for name in names.split()
    ]


def _wire_of(path: Path) -> str:
    return path.relative_to(WIRE).parts[0]


@each(("wire", "stop_reason", "name"), _rows(TEXTS))
def test_text_and_stop_reason_are_read(wire, stop_reason, name):
    """Each way to send a text gives that text, and the reason by the table."""
    end = completed(_read(wire, name))
    assert end.message.content == (Text(text=OTHER_TEXTS.get(name, HELLO)),)
    assert end.stop_reason == end.message.stop_reason == stop_reason
    assert end.message.model == "x:y"


@each(("wire", "called", "name"), _rows(CALLS))
def test_calls_are_assembled(wire, called, name):
    """Each way to send calls gives these calls, each with an id of its own, and `tool_use`."""
    chunks = _read(wire, name)
    end = completed(chunks)
    assert [(call.name, call.arguments) for call in end.message.calls] == CALLED[called]
    assert end.stop_reason == "tool_use"
    assert len({call.call_id for call in end.message.calls if call.call_id}) == len(CALLED[called])
    starts = [chunk.index for chunk in chunks if isinstance(chunk, ToolCallStarted)]
    assert starts == list(range(len(CALLED[called])))


CALL = {"id": "c1", "call_id": "c1", "name": "clean"}
CUT: dict[str, list[dict[str, Any]]] = {
    "openai_chat": [
        {"choices": [{"delta": {"tool_calls": [{"id": "c1", "function": {"name": "clean"}}]}}]},
        {"choices": [{"delta": {}, "finish_reason": "length"}]},
    ],
    "openai_responses": [
        {"type": "response.output_item.added", "item": {**CALL, "type": "function_call"}},
        {"type": "response.incomplete", "response": {"status": "incomplete"}},
    ],
    "anthropic": [
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {**CALL, "type": "tool_use", "input": {}},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
        {"type": "message_stop"},
    ],
    "gemini": [
        {"candidates": [{"content": {"parts": [{"functionCall": CALL}]}, "finishReason": "MAX_TOKENS"}]}
    ],
}


@pytest.mark.parametrize("wire", READERS)
def test_a_call_cut_before_its_first_argument_is_no_call_without_arguments(wire):
    """It would run with the defaults of its tool. Gemini sends calls whole, so there it is one."""
    reader = reader_of(wire)
    chunks = [chunk for event in CUT[wire] for chunk in reader.feed(json.dumps(event))]
    end = completed([*chunks, *reader.close()])
    assert end.stop_reason == "max_tokens"
    (call,) = end.message.calls
    assert (call.arguments, call.malformed) == (({}, None) if wire == "gemini" else (None, ""))


@each(("wire", "kind", "name"), _rows(FAULTS))
def test_a_fault_in_the_stream_is_a_typed_error(wire, kind, name):
    """Errors that come as events, events that are none, and answers of nothing raise the error by the table."""
    with pytest.raises(kind):
        _read(wire, name)


def test_blocks_that_only_a_vendor_understands_stay_apart_and_are_kept_once():
    """Two thoughts joined would fit neither signature, and a history with the same reasoning twice is refused."""
    first = Thinking(text="One.", signature="czE=", provider="anthropic")
    second = Thinking(text="Two.", signature="czI=", provider="anthropic")
    call = ToolCall(call_id="toolu_a", name="list_dir", arguments={"path": "."})
    content = completed(_read("anthropic", "interleaved_thinking")).message.content
    assert content == (first, second, call)
    content = completed(_read("openai_responses", "item_done_twice")).message.content
    assert [type(block) for block in content] == [Thinking, Opaque, ToolCall]


def test_a_block_too_deep_for_a_message_is_the_vendors_fault():
    """Frozen, a message has at most 128 levels. It is no bug of the provider."""
    part = {"executableCode": json.loads("[" * 200 + "]" * 200)}
    with pytest.raises(ProtocolError, match="nested more deeply"):
        reader_of("gemini").feed(json.dumps({"candidates": [{"content": {"parts": [part]}}]}))


@pytest.mark.at(134)
@each(
    ("wire", "name", "usage", "outputs"),
    [
        ("anthropic", "cache_usage", TokenUsage(input=109, output=50, cache_read=80, cache_write=20), None),
        ("openai_chat", "usage_details", TokenUsage(input=100, output=50, cache_read=80, reasoning=30), None),
        ("openai_chat", "usage_in_every_chunk", TokenUsage(input=9, output=4), [1, 3, 4]),
        (
            "openai_responses",
            "usage_details",
            TokenUsage(input=100, output=50, cache_read=80, cache_write=5, reasoning=30),
            None,
        ),
        ("gemini", "usage_details", TokenUsage(input=109, output=50, cache_read=80, reasoning=30), None),
        ("gemini", "usage_in_every_chunk", TokenUsage(input=9, output=4), [1, 2, 3, 4]),
    ],
)
def test_the_last_report_of_usage_counts(wire, name, usage, outputs):
    """Usage has one meaning in all formats; totals of one response are never added to each other (AT-134)."""
    chunks = _read(wire, name)
    updates = [chunk.usage for chunk in chunks if isinstance(chunk, UsageUpdate)]
    assert completed(chunks).usage == updates[-1] == replace(usage, cost_usd=None)
    assert all(older.output <= newer.output for older, newer in itertools.pairwise(updates))
    assert outputs in (None, [update.output for update in updates])


@pytest.mark.parametrize(
    ("wire", "event"),
    [
        (
            "openai_chat",
            {
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 4,
                    "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 6},
                }
            },
        ),
        (
            "gemini",
            {
                "usageMetadata": {
                    "promptTokenCount": 9,
                    "cachedContentTokenCount": 10,
                    "candidatesTokenCount": 4,
                }
            },
        ),
    ],
)
def test_more_cached_tokens_than_tokens_are_left_out(wire, event):
    """They made the price negative, so the cost of the whole session was unknown."""
    reader = reader_of(wire)
    (update,) = reader.feed(json.dumps(event))
    assert update.usage.estimated
    assert update.usage.cache_read + update.usage.cache_write <= update.usage.input
    assert len(reader.draft.strange_counts) == 1


def test_what_says_nothing_new_is_counted_and_not_told():
    """Repeated usage wakes no subscriber, and unknown events are only counted. Hidden thinking is a part of the output."""
    reader = reader_of("openai_chat")
    event = json.dumps({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}})
    assert [len(reader.feed(event)) for _ in range(3)] == [1, 0, 0]
    usage = {"input_tokens": 9, "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 30}}
    event = json.dumps({"type": "message_delta", "delta": {}, "usage": usage})
    (update,) = reader_of("anthropic").feed(event)
    assert (update.usage.output, update.usage.reasoning) == (50, 30)

    reader = reader_of("gemini")
    for data in events_of((WIRE / "gemini" / "deviations" / "unknown_events.sse").read_text()):
        reader.feed(data)
    assert reader.ignored_events == 3
    assert completed(reader.close()).message.text == HELLO
    assert reader.feed("{}") == reader.close() == []
    assert reader.ignored_events == 4


def test_errors_say_what_the_vendor_said():
    """They carry request id, reason, text and pause of the vendor. Events of a wrong shape are protocol errors."""
    with pytest.raises(Overloaded, match="Overloaded") as caught:
        _read("anthropic", "error_event")
    assert caught.value.request_id == "req_7"
    with pytest.raises(ContentRefused, match=r"refused the prompt \(PROHIBITED_CONTENT\)"):
        _read("gemini", "prompt_blocked")
    with pytest.raises(ProtocolError, match="malformed call: Malformed function call: print"):
        _read("gemini", "malformed_function_call")
    with pytest.raises(RateLimited) as caught:
        _read("gemini", "error_rate_limit")
    assert caught.value.retry_after_seconds == 34.5

    start = {"type": "content_block_start", "index": 0}
    with pytest.raises(ProtocolError, match="without an index"):
        reader_of("anthropic").feed(json.dumps(start))
    reader = reader_of("anthropic")
    reader.feed(json.dumps({**start, "content_block": {"type": "text"}}))
    with pytest.raises(ProtocolError, match="an empty delta"):
        reader.feed(json.dumps({"type": "content_block_delta", "index": 0}))


def test_a_block_of_anthropic_that_begins_twice_is_no_finished_call():
    """The first call of the index was never finished, and it would run without the arguments that did not come."""
    reader = reader_of("anthropic")
    start = {"type": "content_block_start", "index": 0, "content_block": {**CALL, "type": "tool_use"}}
    reader.feed(json.dumps(start))
    with pytest.raises(ProtocolError, match="without an index of its own"):
        reader.feed(json.dumps(start))


@EVERY_WIRE
def test_the_vendors_own_types_accept_our_transcripts(wire):
    """Every event of a conforming transcript is one that the vendor's own client takes."""
    module, name, options = JUDGES[wire]
    for path in transcripts(wire, conforming=True):
        for data in events_of(path.read_text()):
            if data not in LEFT_OUT:
                judge(module, name).validate_json(data, **options)


@EVERY_TRANSCRIPT
def test_the_message_is_what_the_deltas_add_up_to(path: Path):
    """Text, thinking and calls of the final message are those of the chunks, in their order (7.3, rule 2)."""
    if path.stem in FAILING[_wire_of(path)]:
        return
    chunks = read(path)
    end = completed(chunks)
    starts = [(chunk.id, chunk.name) for chunk in chunks if isinstance(chunk, ToolCallStarted)]
    assert starts == [(call.call_id, call.name) for call in end.message.calls]
    if path.stem not in TAKEN_BACK:
        check_message(chunks, end)


def _must_end_behind(path: Path, events: list[str]) -> int:
    """Return how many events a stream has in which its end is not said."""
    if _wire_of(path) == "gemini":
        finish = next((n for n, data in enumerate(events) if '"finishReason":"' in data), len(events))
        return finish + ("UNSPECIFIED" in path.read_text())
    if _wire_of(path) == "anthropic" and path.stem == "after_terminal":
        return events.index('{"type":"message_stop"}') + 1
    return len(events)


@EVERY_TRANSCRIPT
def test_a_stream_that_ends_early_is_transport_or_the_same_message(path: Path):
    """Cut behind any event, a transcript gives a beginning of its chunks, then `Transport`, its own error, or its end."""
    wire, events = _wire_of(path), list(events_of(path.read_bytes().decode()))
    whole: list[Chunk] | None = None if path.stem in FAILING[wire] else read(path)
    for length in range(_must_end_behind(path, events)):
        reader, chunks = reader_of(wire), []
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
            assert wire.startswith("openai"), f"a response that is cut after {length} events passed for whole"
            assert whole is not None
            assert completed(chunks).message == completed(whole).message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
RECORDED = {
    wire: sorted(
        {data for path in transcripts(wire) for data in events_of(path.read_text()) if data.startswith("{")}
        - {
            data
            for path in transcripts(wire)
            if path.stem == "not_json"
            for data in events_of(path.read_text())
        }
    )
    for wire in READERS
}


@st.composite
def _events(draw, wire):
    """Draw a recorded event of a format, some of whose members are something else."""
    event = json.loads(draw(st.sampled_from(RECORDED[wire])))
    for _ in range(draw(st.integers(0, 3))):
        inner = event
        while inner:
            key = draw(st.sampled_from(sorted(inner) if isinstance(inner, dict) else range(len(inner))))
            if not isinstance(inner[key], dict | list) or draw(st.booleans()):
                inner[key] = draw(JSON)
                break
            inner = inner[key]
    return event


@EVERY_WIRE
@given(data=st.data())
def test_nonsense_is_a_typed_error_and_nothing_else(wire, data):
    """Whatever JSON a server sends, the reader answers with chunks or a `ProviderError`."""
    reader = reader_of(wire)
    try:
        for event in data.draw(st.lists(_events(wire) | JSON, max_size=6)):
            reader.feed(json.dumps(event))
        reader.close()
    except ProviderError as error:
        assert str(error)  # noqa: PT017 - any of them will do, as long as it says something
