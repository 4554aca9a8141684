"""Recorded streams of all four formats, broken in every way: only typed errors come out, bounded, and no key is shown.

Rounds: 100 for each format and property with the profile `dev`, as many as Hypothesis is told with others
(`make property HYPOTHESIS_PROFILE=nightly`).
"""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import httpx
import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.core.protocol.request import Chunk, Completed
from agentrail.errors import ProviderError
from agentrail.providers import http
from agentrail.providers.failures import scrub
from agentrail.providers.http import LastActivity
from tests.providers.transcripts import KEY, READERS, VENDOR, events_of, reader_of, transcripts

WIRES: Final = pytest.mark.parametrize("wire", sorted(READERS))
EVENTS: Final = {
    wire: [list(events_of(path.read_bytes().decode())) for path in transcripts(wire)] for wire in READERS
}
STRANGE: Final[st.SearchStrategy[Any]] = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        10**30,
        1.5,
        1e308,
        "",
        "\0",
        "\ud800",
        KEY,
        "9" * 5_000,
        "x" * 10_000,
        [],
        {},
        [[]],
        [None],
        {"": None},
    ]
) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
RAW: Final = st.sampled_from(
    [
        "9" * 5_000,
        "[" * 50_000,
        '{"a":' * 50_000,
        '{"type": ' + "9" * 5_000 + "}",
        '{"error": {"code": "' + "9" * 5_000 + '"}}',
        '{"a": NaN, "b": Infinity, "c": 1e999}',
        '"\\ud800"',
        '{"\\udfff": "\\ud83d"}',
        "\0" * 100,
        "",
        "[DONE]",
        "null",
        KEY,
        f"{'y' * 190}{KEY}",
        f'{{"error": {{"message": "{KEY}", "code": "{KEY}"}}, "request_id": "{KEY}"}}',
    ]
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(below for key, one in inner for below in _paths(one, (*path, key)))]


def _put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[path[0]] = _put(value[path[0]], path[1:], new)
    return changed


@st.composite
def _broken(draw: st.DrawFn, wire: str) -> list[str]:
    """Take a recorded stream, and break it in a few places."""
    events = list(draw(st.sampled_from(EVENTS[wire])))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(events) - 1, 0)))
        match draw(st.sampled_from(["cut", "twice", "swap", "drop", "member", "character", "raw", "other"])):
            case "cut" if events:
                events[at] = events[at][: draw(st.integers(0, len(events[at])))]
            case "twice" if events:
                events[at:at] = [events[at]] * draw(st.integers(1, 5))
            case "swap" if events:
                other = draw(st.integers(0, len(events) - 1))
                events[at], events[other] = events[other], events[at]
            case "drop":
                del events[at : at + 1]
            case "member" if events:
                events[at] = _with_strange_member(draw, events[at])
            case "character" if events:
                place = draw(st.integers(0, len(events[at])))
                events[at] = events[at][:place] + draw(st.characters()) + events[at][place + 1 :]
            case "other":
                events.insert(at, draw(st.sampled_from(EVENTS[draw(st.sampled_from(sorted(READERS)))]))[0])
            case _:
                events.insert(at, draw(RAW))
    return events


def _with_strange_member(draw: st.DrawFn, event: str) -> str:
    try:
        value = json.loads(event)
    except (ValueError, RecursionError):
        return event
    return json.dumps(_put(value, draw(st.sampled_from(_paths(value))), draw(STRANGE)))


def _read(wire: str, events: list[str]) -> list[Chunk] | ProviderError:
    reader = reader_of(wire)
    try:
        chunks = [chunk for data in events for chunk in reader.feed(data)]
        return [*chunks, *reader.close()]
    except ProviderError as error:
        scrub(error, VENDOR)  # as whoever reads a stream does
        return error


@WIRES
@given(data=st.data())
def test_a_broken_stream_is_an_answer_or_a_typed_error(wire, data):
    """Never another exception; of an answer there is one end, and of an error no member holds the key or half of it."""
    events = data.draw(_broken(wire))
    outcome = _read(wire, events)
    if isinstance(outcome, ProviderError):
        shown = str(outcome) + repr(vars(outcome))
        assert KEY[:12] not in shown
        assert len(shown) < 3_000
    else:
        assert sum(isinstance(chunk, Completed) for chunk in outcome) == 1
        assert isinstance(outcome[-1], Completed)
        # What came is held once as chunks and once as the message, and nothing grows beyond that.
        assert len(repr(outcome)) < 50 * sum(map(len, events)) + 20_000


@WIRES
@given(value=STRANGE)
def test_a_strange_value_in_any_member_is_an_answer_or_a_typed_error(wire, value):
    """In each member of the first, the middle and the last event of a recorded stream, one after the other."""
    events = EVENTS[wire][0]
    for at in {0, len(events) // 2, len(events) - 1}:
        try:
            event = json.loads(events[at])
        except (ValueError, RecursionError):
            continue
        for path in _paths(event):
            written = json.dumps(_put(event, path, value))
            assert isinstance(_read(wire, [*events[:at], written, *events[at + 1 :]]), list | ProviderError)


@WIRES
@given(data=st.data())
async def test_broken_bytes_on_the_wire_are_an_answer_or_a_typed_error(wire, data):
    """Bytes flipped, left out and doubled, any line ends, lines without one, and reads of any size."""
    sent = b"".join(
        b"data: " + event.encode("utf-8", "replace") + b"\n\n"
        for event in data.draw(st.sampled_from(EVENTS[wire]))
    )
    for _ in range(data.draw(st.integers(0, 5))):
        place, length = data.draw(st.integers(0, len(sent))), data.draw(st.integers(0, 20))
        put = data.draw(
            st.binary(max_size=20)
            | st.sampled_from([b"\r\n", b"\r", b"\n\n", b":", b"x" * 5_000, b"\xff\xfe", b"\0"])
        )
        sent = sent[:place] + put + sent[place + length :]
    if data.draw(st.booleans()):  # last, since a key that has a hole is none
        place = data.draw(st.integers(0, len(sent)))
        sent = sent[:place] + KEY.encode() + sent[place:]
    sent = data.draw(
        st.sampled_from(
            [sent, sent.replace(b"\n", b"\r\n"), sent.replace(b"\n", b"\r"), b"\xef\xbb\xbf" + sent]
        )
    )
    size = data.draw(st.integers(1, 2_000))
    response = httpx.Response(
        200,
        headers={"content-type": "text/event-stream"},
        request=httpx.Request("POST", "http://x", headers={"accept-encoding": "identity"}),
        stream=_Pieces([sent[at : at + size] for at in range(0, len(sent), size)]),
    )
    reader, chunks = reader_of(wire), []
    failure: ProviderError | None = None
    try:
        async with aclosing(http._events(response, VENDOR, LastActivity())) as events:  # noqa: SLF001 - without a socket
            async for event in events:
                chunks += reader.feed(event)
        chunks += reader.close()
    except ProviderError as error:
        scrub(error, VENDOR)
        failure = error
    if failure is not None:
        assert KEY[:12] not in str(failure) + repr(vars(failure))
    else:
        assert sum(isinstance(chunk, Completed) for chunk in chunks) == 1


class _Pieces(httpx.AsyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            await trio.lowlevel.checkpoint()
            yield piece
