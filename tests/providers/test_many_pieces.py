"""Answers in very many pieces: each piece costs what the first cost, and an event holds no more than one step may take."""

import itertools
import json
import sys

import pytest
from hypothesis import given, strategies as st

from agentrail.core.protocol.request import ArgumentsDelta, ReasoningDelta, ToolCallStarted
from agentrail.core.values.toolbox import parse_arguments
from agentrail.errors import ProtocolError, ProviderError
from agentrail.providers import openai_chat_format
from agentrail.providers.json_text import JsonEnd
from agentrail.providers.openai_chat_format import ThinkTags
from agentrail.providers.response_builder import MAX_CALLS, MAX_PIECES
from tests.providers.transcripts import completed, reader_of

FEW, MANY = 500, 2_000


def _steps(work):
    """Count the calls and returns of Python functions, C ones too, and the characters that are joined or stripped."""
    count = 0

    def note(_frame, _event, _arg):
        nonlocal count
        count += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def _chat(**delta):
    return json.dumps({"choices": [{"delta": delta}]})


def _call(index, **members):
    return {"index": index, "function": members}


@pytest.mark.parametrize(
    "event",
    [
        lambda i: _chat(tool_calls=[{**_call(i, name="f"), "id": f"c{i}"}]),
        lambda i: _chat(tool_calls=[{**_call(0, name="f", arguments="{}"), "id": f"c{i}"}]),
        lambda i: _chat(tool_calls=[_call(0, name="f", arguments="{}" if i % 2 else " ")]),
        lambda i: _chat(tool_calls=[_call(0, name="f", arguments='{"a":"' if i == 0 else "}")]),
        lambda i: _chat(content="<think></think>" if i == 0 else " \n"),
        lambda _: _chat(content=" \n"),
    ],
)
def test_twice_the_pieces_are_twice_the_work(event):
    """Calls, names that come again, and blanks around thinking."""

    def feed(pieces):
        reader = reader_of("openai_chat")
        for i in range(pieces):
            reader.feed(event(i))

    few, many = (_steps(lambda pieces=pieces: feed(pieces)) for pieces in (FEW, MANY))
    assert many < 1.5 * few * MANY / FEW


def test_arguments_that_ended_and_are_no_json_are_parsed_once(monkeypatch):
    """Each part that repeats the name of their call parsed all of them again, for minutes in one event."""
    parsed = []
    monkeypatch.setattr(
        openai_chat_format, "parse_arguments", lambda text: parsed.append(text) or parse_arguments(text)
    )
    reader = reader_of("openai_chat")
    reader.feed(_chat(tool_calls=[_call(0, name="f", arguments='{"a":1,}')]))
    for more in (None, " ", None):
        reader.feed(_chat(tool_calls=[_call(0, name="f", arguments=more)]))
    assert parsed == ['{"a":1,}']
    assert completed([*reader.feed("[DONE]")]).message.calls[0].malformed == '{"a":1,} '


def test_the_end_of_an_object_is_looked_for_in_new_pieces_alone():
    """Going through the earlier ones again takes quadratic time too."""

    class Pieces(list):
        def __iter__(self):
            pytest.fail("all pieces are read again")

    end, pieces = JsonEnd(), Pieces(['{"a"', ":1"])
    end.read_on(pieces)
    assert not end.is_reached
    pieces.append("}")
    end.read_on(pieces)
    assert end.is_reached


@given(
    text=st.text(alphabet=" \n<think>/x", max_size=40)
    | st.just("<think>a</think> \n b")
    | st.lists(st.sampled_from(["<think>", "</think>", "<", "/", "think>", "a", "\n"])).map("".join),
    cuts=st.lists(st.integers(0, 40), max_size=6),
)
def test_thinking_is_the_same_in_pieces_of_any_size(text, cuts):
    """What is text and what is thinking does not depend on how it was cut, and nothing that is no tag is lost."""

    def told(pieces):
        tags = ThinkTags()
        pairs = [pair for piece in pieces for pair in tags.feed(piece)] + tags.flush()
        assert all(said for said, _ in pairs)
        return tuple("".join(said for said, inside in pairs if inside is wanted) for wanted in (True, False))

    bounds = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    assert told(text[a:b] for a, b in itertools.pairwise(bounds)) == told([text])
    if not text.lstrip().startswith("<think>"):
        assert told([text]) == ("", text)


@given(
    st.dictionaries(st.text(max_size=3), st.text(max_size=5) | st.lists(st.integers())),
    st.lists(st.integers(0, 60)),
)
def test_the_end_of_an_object_is_found_in_any_pieces(value, cuts):
    """Not before it is there, and as soon as it is."""
    text = json.dumps(value)
    bounds = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    pieces = [text[a:b] for a, b in itertools.pairwise(bounds)]
    end = JsonEnd()
    for count in range(1, len(pieces) + 1):
        end.read_on(pieces[:count])
        is_whole = not isinstance(parse_arguments("".join(pieces[:count])), str)
        assert end.is_reached is is_whole
    end.read_on([*pieces, " \n"])
    assert end.is_reached
    end.read_on([*pieces, " \n", "{}"])
    assert not end.is_reached


@pytest.mark.parametrize(
    ("wire", "event"),
    [
        ("openai_chat", lambda many: _chat(tool_calls=[_call(i, name="f") for i in range(many)])),
        ("openai_chat", lambda many: _chat(content=[{"text": "a"}] * many)),
        ("gemini", lambda many: json.dumps({"candidates": [{"content": {"parts": [{"text": "a"}] * many}}]})),
        (
            "anthropic",
            lambda many: json.dumps({"type": "message", "content": [{"type": "text", "text": "a"}] * many}),
        ),
        (
            "openai_responses",
            lambda many: json.dumps(
                {"object": "response", "status": "completed", "output": [{"type": "x"}] * many}
            ),
        ),
    ],
)
def test_an_event_of_too_many_pieces_is_given_up(wire, event):
    """In all formats: one event is one step."""
    with pytest.raises(ProtocolError, match="pieces, at most 10,000"):
        reader_of(wire).feed(event(MAX_PIECES + 1))


def test_an_answer_of_too_many_calls_is_given_up():
    """However they come. Of servers that send no ids a name again behind complete arguments is the next call, in whichever piece they end."""
    reader = reader_of("openai_chat")
    event = [_call(i, name="f", arguments="{}") for i in range(MAX_CALLS)]
    chunks = reader.feed(_chat(tool_calls=event))
    assert sum(isinstance(chunk, ToolCallStarted) for chunk in chunks) == MAX_CALLS
    assert sum(isinstance(chunk, ArgumentsDelta) for chunk in chunks) == MAX_CALLS
    assert not any(isinstance(chunk, ReasoningDelta) for chunk in chunks)
    with pytest.raises(ProtocolError, match="more than 10,000 tool calls"):
        reader.feed(_chat(tool_calls=[_call(MAX_CALLS, name="f", arguments="{}")]))

    reader = reader_of("openai_chat")
    for piece in ('{"a": "}', '"', "}", " "):
        reader.feed(_chat(tool_calls=[_call(0, name="f", arguments=piece)]))
    reader.feed(_chat(tool_calls=[_call(0, name="f", arguments="{}")]))
    chunks = reader.feed("[DONE]")
    assert [call.arguments for call in completed(chunks).message.calls] == [{"a": "}"}, {}]


@pytest.mark.parametrize(
    ("wire", "events"),
    [
        ("anthropic", [{"type": "content_block_delta", "index": "9" * 5_000, "delta": {}}]),
        ("gemini", [{"promptFeedback": {"blockReason": "X" * 5_000}}]),
        ("gemini", [{"candidates": [{"finishReason": "X" * 5_000}]}]),
    ],
)
def test_a_long_value_is_shown_in_part(wire, events):
    """What a vendor writes where a number or a word is expected may be of any length; an error text is not."""
    reader = reader_of(wire)
    with pytest.raises(ProviderError, match=r"…") as caught:
        [*map(reader.feed, map(json.dumps, events)), reader.close()]
    assert len(str(caught.value)) < 400
