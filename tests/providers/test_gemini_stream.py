"""What Gemini sends is understood (7.5, 7.6, 7.10)."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agentrail.core.protocol.request import Chunk, UsageUpdate
from agentrail.errors import ContentRefused, Overloaded, ProtocolError, ProviderError, RateLimited, Transport
from agentrail.messages import Text
from agentrail.testing.check_provider import check_message
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


@pytest.mark.at(134)
def test_totals_are_not_added_up():
    """Usage stands in every event and is the total so far: the last one counts (AT-134)."""
    chunks = _read("usage_in_every_chunk")
    updates = [chunk.usage for chunk in chunks if isinstance(chunk, UsageUpdate)]
    assert [(usage.input, usage.output) for usage in updates] == [(9, 1), (9, 2), (9, 3), (9, 4)]
    assert completed(chunks).usage == updates[-1]


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
