"""What Gemini sends is understood (7.5, 7.6, 7.10)."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agentrail.core.protocol.request import ArgumentsDelta, Chunk, ReasoningDelta, UsageUpdate
from agentrail.errors import ContentRefused, Overloaded, ProtocolError, ProviderError, RateLimited, Transport
from agentrail.messages import CallId, Opaque, Text, Thinking, TokenUsage, ToolCall
from agentrail.testing.chunks import check_message
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

HELLO = "Hello, wörld ✓"
WEATHER = [("get_weather", {"city": "Lisbon"})]
LIST_AND_READ = [("list_dir", {"path": "."}), ("read_file", {"path": "README.md"})]
FAILING = {
    "prompt_blocked": ContentRefused,
    "malformed_function_call": ProtocolError,
    "call_without_name": ProtocolError,
    "empty": ProtocolError,
    "signature_and_nothing_else": ProtocolError,
    "error_event": Overloaded,
    "error_rate_limit": RateLimited,
    "not_json": ProtocolError,
}
COMPLETE = [path for path in transcripts("gemini") if path.stem not in FAILING]


def _read(name: str) -> list[Chunk]:
    (path,) = (WIRE / "gemini").glob(f"**/{name}.sse")
    return read(path)


@pytest.mark.parametrize(
    ("name", "stop_reason"),
    [
        ("text", "end"),
        ("finish_alone", "end"),
        ("grounding", "end"),
        ("usage_in_every_chunk", "end"),
        ("max_tokens", "max_tokens"),
        ("refused_safety", "refused"),
        ("refused_prohibited_content", "refused"),
        ("refused_blocklist", "refused"),
        ("refused_spii", "refused"),
        ("refused_recitation", "refused"),
        ("finish_other", "other"),
        ("finish_reason_unknown", "other"),
        ("finish_reason_unspecified", "end"),
        ("unknown_events", "end"),
        ("content_null", "end"),
        ("usage_never", "end"),
        ("usage_absurd", "end"),
        ("usage_late", "end"),
        ("crlf_no_blank", "end"),
    ],
)
def test_text_and_stop_reason_are_read(name, stop_reason):
    """Each way to send a text gives that text, and the reason by the table."""
    end = completed(_read(name))
    assert end.message.content == (Text(text=HELLO),)
    assert end.stop_reason == end.message.stop_reason == stop_reason


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("tool_call", WEATHER),
        ("tool_call_with_id", WEATHER),
        ("parallel_calls", LIST_AND_READ),
        ("call_without_arguments", [("now", {})]),
        ("finish_reason_of_a_proxy", WEATHER),
        ("id_twice_the_same", LIST_AND_READ),
        ("whole_response", LIST_AND_READ),
    ],
)
def test_calls_are_read(name, calls):
    """Each way to send calls gives these calls, in their order, with ids of their own, and `tool_use`."""
    end = completed(_read(name))
    assert [(call.name, call.arguments) for call in end.message.calls] == calls
    assert end.stop_reason == "tool_use"
    assert len({call.call_id for call in end.message.calls} - {""}) == len(calls)


def test_an_id_is_the_vendors_or_made_of_the_requests():
    """A missing id is minted: the same events give the same ids, and no two requests the same."""
    assert [call.call_id for call in completed(_read("tool_call_with_id")).message.calls] == ["fc-1"]
    assert [call.call_id for call in completed(_read("parallel_calls")).message.calls] == [
        "call_e1_0",
        "call_e1_1",
    ]


def test_arguments_come_whole():
    """One delta has all of them, and a call without arguments has none."""
    deltas = [chunk for chunk in _read("parallel_calls") if isinstance(chunk, ArgumentsDelta)]
    assert deltas == [ArgumentsDelta(0, '{"path":"."}'), ArgumentsDelta(1, '{"path":"README.md"}')]
    assert not [chunk for chunk in _read("call_without_arguments") if isinstance(chunk, ArgumentsDelta)]


def test_thoughts_are_told_apart_from_text():
    """A part that says that it is a thought is one."""
    chunks = _read("thinking")
    thought = Thinking(text="Let me think.", provider="google")
    assert completed(chunks).message.content == (thought, Text(text="42"))
    assert [chunk.text for chunk in chunks if isinstance(chunk, ReasoningDelta)] == ["Let me ", "think."]


def _signature(text: str) -> Opaque:
    return Opaque(provider="google", payload={"thoughtSignature": text})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "signature_on_call",
            (
                Thinking(text="Let me see.", provider="google"),
                _signature("c2lnLWM="),
                ToolCall(call_id=CallId("call_e1_0"), name="list_dir", arguments={"path": "."}),
            ),
        ),
        (
            "parallel_calls",
            (
                Text(text="Looking."),
                _signature("c2lnLWE="),
                ToolCall(call_id=CallId("call_e1_0"), name="list_dir", arguments={"path": "."}),
                ToolCall(call_id=CallId("call_e1_1"), name="read_file", arguments={"path": "README.md"}),
            ),
        ),
        (
            "signature_on_text",
            (Text(text="One. "), _signature("c2lnLXQ="), Text(text="Two. "), Text(text="Three.")),
        ),
        (
            "signature_on_thought",
            (
                Thinking(text="Hm.", provider="google"),
                Thinking(text="Aha.", signature="c2lnLWg=", provider="google"),
                Text(text="42"),
            ),
        ),
        (
            "signature_in_last_part",
            (
                Text(text="42"),
                Opaque(provider="google", payload={"text": "", "thoughtSignature": "c2lnLWU="}),
            ),
        ),
        (
            "signature_alone",
            (Text(text="42"), Opaque(provider="google", payload={"text": "", "thoughtSignature": "c2ln"})),
        ),
    ],
)
def test_a_signature_stays_with_its_part(name, content):
    """It stands right before the block of the part that it came with, and that part is joined to no other."""
    assert completed(_read(name)).message.content == content


def test_parts_of_other_kinds_are_kept_as_they_came():
    """What the vendor ran, and what will be invented, goes back unchanged, so it is kept unchanged."""
    code, result, text = completed(_read("code_execution")).message.content
    assert code.payload == {"executableCode": {"language": "PYTHON", "code": "print(6 * 7)"}}
    assert result.payload["codeExecutionResult"]["output"] == "42\n"
    assert text == Text(text="42")
    unknown, text = completed(_read("unknown_part")).message.content
    assert unknown.payload == {"hologram": {"data": "aGk="}}
    assert text == Text(text=HELLO)


def test_a_refusal_may_be_silent():
    """A refusal without a word is an answer, not a protocol error."""
    end = completed(_read("refused_at_once"))
    assert (end.stop_reason, end.message.content) == ("refused", ())


def test_usage_has_one_meaning():
    """Output is the answer and the thoughts, which the vendor counts apart; cache reads are a part of the prompt."""
    usage = completed(_read("usage_details")).usage
    assert usage == TokenUsage(input=109, output=50, cache_read=80, reasoning=30, cost_usd=None)


@pytest.mark.at(134)
def test_totals_are_not_added_up():
    """Usage stands in every event and is the total so far: the last one counts (AT-134)."""
    chunks = _read("usage_in_every_chunk")
    updates = [chunk.usage for chunk in chunks if isinstance(chunk, UsageUpdate)]
    assert [(usage.input, usage.output) for usage in updates] == [(9, 1), (9, 2), (9, 3), (9, 4)]
    assert completed(chunks).usage == updates[-1]


@pytest.mark.parametrize("name", ["usage_never", "usage_absurd"])
def test_usage_that_is_missing_or_absurd_is_estimated(name):
    """What nobody reports, or nobody can mean, is estimated at four bytes per token, and marked."""
    usage = completed(_read(name)).usage
    assert usage == TokenUsage(
        input=REQUEST_BYTES // 4, output=len(HELLO) // 4, cost_usd=None, estimated=True
    )


def test_half_a_character_is_mended():
    """A lone surrogate becomes U+FFFD."""
    assert completed(_read("lone_surrogate")).message.text == "a\ufffdb"


@pytest.mark.parametrize(("name", "kind"), sorted(FAILING.items()))
def test_a_fault_in_the_stream_is_a_typed_error(name, kind):
    """Refused prompts, malformed calls, errors that come as events and answers of nothing have their types."""
    with pytest.raises(kind):
        _read(name)


def test_errors_say_what_the_vendor_said():
    """The reason of a refusal, the words about a malformed call, the pause that is asked for."""
    with pytest.raises(ContentRefused, match=r"refused the prompt \(PROHIBITED_CONTENT\)"):
        _read("prompt_blocked")
    with pytest.raises(ProtocolError, match="malformed call: Malformed function call: print"):
        _read("malformed_function_call")
    with pytest.raises(RateLimited) as caught:
        _read("error_rate_limit")
    assert caught.value.retry_after_seconds == 34.5


def test_a_block_behind_text_changes_nothing():
    """What was said before counts; a prompt is refused before anything is said, or not at all."""
    reader = reader_of("gemini")
    first, second = events_of((WIRE / "gemini" / "text.sse").read_text())
    chunks = reader.feed(first)
    chunks += reader.feed(json.dumps({"promptFeedback": {"blockReason": "OTHER"}}))
    chunks += [*reader.feed(second), *reader.close()]
    assert completed(chunks).message.text == HELLO


def test_what_says_nothing_is_counted():
    """Unknown events change nothing, and somebody can see that they came; so it is with what comes behind the end."""
    reader = reader_of("gemini")
    for data in events_of((WIRE / "gemini" / "deviations" / "unknown_events.sse").read_text()):
        reader.feed(data)
    assert reader.ignored_events == 3
    assert completed(reader.close()).message.text == HELLO
    assert reader.feed("{}") == reader.close() == []
    assert reader.ignored_events == 4


@pytest.mark.parametrize("path", transcripts("gemini", conforming=True), ids=lambda path: path.stem)
def test_the_vendors_own_types_accept_our_transcripts(path: Path):
    """Every event of a conforming transcript is one that the vendor's own client takes; it forbids what it does not know."""
    for data in events_of(path.read_text()):
        judge("google.genai.types", "GenerateContentResponse").validate_json(data)


@pytest.mark.parametrize(
    "path",
    [path for path in COMPLETE if path in transcripts("gemini", conforming=True)],
    ids=lambda path: path.stem,
)
def test_the_vendors_own_client_reads_the_same(path: Path):
    """Text, thoughts, calls and counts of a transcript are what the vendor's own types read from it (7.15)."""
    end = completed(read(path))
    events = [
        judge("google.genai.types", "GenerateContentResponse").validate_json(data)
        for data in events_of(path.read_text())
    ]
    parts = [
        part
        for event in events
        for candidate in event.candidates or ()
        for part in (candidate.content.parts if candidate.content else None) or ()
    ]
    thoughts = "".join(block.text for block in end.message.content if isinstance(block, Thinking))
    assert end.message.text == "".join(part.text for part in parts if part.text and not part.thought)
    assert thoughts == "".join(part.text for part in parts if part.text and part.thought)
    calls = [part.function_call for part in parts if part.function_call]
    assert [(call.name, call.arguments) for call in end.message.calls] == [
        (call.name, call.args or {}) for call in calls
    ]
    usage = events[-1].usage_metadata
    assert usage is not None
    assert end.usage.total == usage.total_token_count
    assert end.usage.cache_read == (usage.cached_content_token_count or 0)


@pytest.mark.parametrize("path", COMPLETE, ids=lambda path: path.stem)
def test_the_message_is_what_the_deltas_add_up_to(path: Path):
    """Text, thinking and calls of the final message are those of the chunks, in their order (7.3, rule 2)."""
    chunks = read(path)
    check_message(chunks, completed(chunks))


@pytest.mark.parametrize("path", transcripts("gemini"), ids=lambda path: path.stem)
def test_a_stream_that_ends_early_is_transport(path: Path):
    """Cut before the event that says why it finished, a transcript gives a beginning of its chunks, then `Transport`."""
    events = list(events_of(path.read_bytes().decode()))
    finish = next((n for n, data in enumerate(events) if '"finishReason":"' in data), len(events))
    whole = None if path.stem in FAILING else read(path)
    for length in range(finish + ("UNSPECIFIED" in path.read_text())):
        reader, chunks = reader_of("gemini"), []
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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "text": JSON,
        "thought": JSON,
        "thoughtSignature": JSON,
        "functionCall": st.fixed_dictionaries({}, optional={"id": JSON, "name": JSON, "args": JSON}) | JSON,
        "inlineData": JSON,
    },
)
CANDIDATES = st.fixed_dictionaries(
    {},
    optional={
        "content": st.fixed_dictionaries({}, optional={"parts": st.lists(PARTS | JSON, max_size=3) | JSON})
        | JSON,
        "finishReason": st.sampled_from(["STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL"]) | JSON,
        "finishMessage": JSON,
    },
)
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "candidates": st.lists(CANDIDATES | JSON, max_size=2) | JSON,
        "usageMetadata": st.dictionaries(st.sampled_from(["promptTokenCount", "thoughtsTokenCount"]), JSON)
        | JSON,
        "promptFeedback": st.fixed_dictionaries({}, optional={"blockReason": JSON}) | JSON,
        "error": JSON,
    },
)


@given(events=st.lists(EVENTS | JSON, max_size=6))
def test_nonsense_is_a_typed_error_and_nothing_else(events):
    """Whatever JSON a server sends, the reader answers with chunks or a `ProviderError`."""
    reader = reader_of("gemini")
    try:
        for event in events:
            reader.feed(json.dumps(event))
        reader.close()
    except ProviderError as error:
        assert str(error)  # noqa: PT017 - any of them will do, as long as it says something
