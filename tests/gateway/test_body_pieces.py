"""Large bodies are read in pieces: the same values as at once, and no call of C keeps the interpreter for long."""

import base64
import json
import re
import sys
import time

import pytest
from hypothesis import example, given, strategies as st

from agentrail.core.wire import json_text
from agentrail.core.wire.json_text import read_json
from agentrail.core.wire.shapes import MAX_DIGITS, Misfit
from agentrail.gateway import request_parser as body_reading
from agentrail.gateway.error_responses import CallRefused
from agentrail.gateway.request_bodies import ChatBody
from agentrail.gateway.request_parser import decode_body, decode_files, parts_of, read_object
from agentrail.host.quotas import Limits
from tests.slowness import slowness

LIMITS = Limits()
AT_ONCE = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
LETTERS = st.text(st.sampled_from('aé€😀"\\\x1f\n{}[]:,0= '), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | LETTERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(LETTERS, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
def small_pieces(monkeypatch):
    """Sixteen bytes stand for 64 KiB."""
    monkeypatch.setattr(body_reading, "JSON_PIECE_BYTES", 16)


def read_or_none(read, text):
    """What a reader makes of a text; None where it refuses."""
    try:
        return read(text)
    except (Misfit, CallRefused):
        return None


@given(value=st.dictionaries(LETTERS, VALUES, max_size=4), is_ascii=st.booleans(), cut=st.integers(0, 200))
@example(value={"a": "😀" * 9}, is_ascii=True, cut=0)
@example(value={"a" * 40: "b" * 40, "c": ["d" * 40, "e"]}, is_ascii=False, cut=0)
@example(value={"a": "é" * 40 + "\\" * 40}, is_ascii=False, cut=5)
def test_pieces_make_the_same_value(small_pieces, value, is_ascii, cut):
    """Texts, keys and escapes of any length, also of a body that was cut."""
    text = json.dumps(value, ensure_ascii=is_ascii).encode()
    for one in (text, text[: max(len(text) - cut, 0)]):
        whole = read_or_none(read_json, one)
        made = read_or_none(lambda given: read_object(given, LIMITS), one)
        assert made == (whole if isinstance(whole, dict) else None)


@given(
    text=st.lists(
        st.sampled_from(
            [
                b'"',
                b"\\",
                b"\\u0041",
                b"\\ud83d",
                b"\\ude00",
                b"a" * 9,
                "é".encode(),
                b"\xa9",
                b"{",
                b"}",
                b":",
                b'"a":',
            ]
        ),
        max_size=24,
    )
)
@example(text=[b'{"a":"', b"a" * 9, b"a" * 9, b"\\ud83d", b"a", b'"}'])
def test_pieces_refuse_what_is_refused_at_once(small_pieces, text):
    """Anything that is no JSON, half of a character among it."""
    given = b"".join(text)
    whole = read_or_none(read_json, given)
    assert read_or_none(lambda one: read_object(one, LIMITS), given) == (
        whole if isinstance(whole, dict) else None
    )


@given(text=st.lists(st.sampled_from([b'"', b"\\", b"a" * 9, b"{", b'"b"']), max_size=30).map(b"".join))
def test_parts_divide_a_text_where_it_may_be_divided(small_pieces, text):
    """Nothing is left out, and what stands outside of texts is the same as found at once."""
    parts = list(parts_of(text))
    assert b"".join(text[start:end] for start, end, _ in parts) == text
    outside = b"".join(AT_ONCE.sub(b"", text[start:end]) for start, end, is_text in parts if not is_text)
    assert outside == AT_ONCE.sub(b"", text)


@given(
    content=st.binary(max_size=70),
    broken=st.sampled_from(["", "=", "*", "é", "A", "AA=="]),
    at=st.integers(0, 90),
)
def test_base64_in_pieces_is_base64(small_pieces, content, broken, at):
    """The same bytes, and the same refusals."""
    text = base64.b64encode(content).decode()
    text = text[:at] + broken + text[at:]
    try:
        whole = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        whole = None
    body = decode_body(
        ChatBody,
        json.dumps(
            {"message": "x", "attachments": [{"name": "a", "mime_type": "t/p", "base64": text}]}
        ).encode(),
        LIMITS,
    )
    files = read_or_none(lambda one: decode_files(one, LIMITS), body)
    assert (None if files is None else files[0].content) == whole


@given(
    before=st.integers(0, 3 * MAX_DIGITS),
    digits=st.sampled_from([MAX_DIGITS - 1, MAX_DIGITS, MAX_DIGITS + 1, 2 * MAX_DIGITS]),
    behind=st.integers(0, 20),
)
def test_a_number_of_too_many_digits_is_found_anywhere(before, digits, behind):
    """The look at some bytes finds what the search at each byte finds."""
    text = b"a" * before + b"1" * digits + b" 12345" * behind
    assert json_text._has_long_number(text) is (digits > MAX_DIGITS)  # noqa: SLF001 - compared with what it stands for


HEAD = b'{"message":"x","attachments":[{"name":"a","mime_type":"t/p","base64":"'


class Longest:
    """The longest processor time between two lines of Python, in seconds."""

    def __init__(self):
        self.seconds, self.last = 0.0, time.thread_time()

    def __call__(self, frame, event, _):
        """Look at the clock."""
        now = time.thread_time()
        self.seconds, self.last = max(self.seconds, now - self.last), time.thread_time()
        return self


@pytest.mark.parametrize(
    ("text", "times"),
    [
        pytest.param(
            text, 33_000_000 // len(text), id=name, marks=() if name == "base64" else pytest.mark.check
        )
        for name, text in {
            "base64": b"A",
            "escapes": b"\\u0041",
            "digits": b"0",
            "texts": b'","b":"',
            "brackets": b"[",
        }.items()
    ],
)
def test_no_call_keeps_the_interpreter(text, times):
    """36 MB of attachments in a worker thread: the loop has the interpreter again within 50 ms. One call took 0.4 s.

    The call is measured, and not a neighbour that took its memory away meanwhile: it is fast in one of eight tries.
    """
    body = HEAD + text * times + b'"}]}'
    assert any(longest_of(body) < 0.05 * slowness() for _ in range(8))


def longest_of(body):
    """The longest processor time of a line of Python while the body is read, in seconds."""
    longest, before = Longest(), sys.gettrace()
    sys.settrace(longest)
    try:
        files = read_or_none(
            lambda one: decode_files(
                decode_body(ChatBody, one, Limits(max_attachment_bytes=25 << 20)), LIMITS
            ),
            body,
        )
    finally:
        sys.settrace(before)  # coverage counts the lines of later tests with its own
    assert files is None or len(files) == 1
    return longest.seconds


def test_a_search_for_texts_reads_none_that_is_longer_than_a_piece():
    """Whoever searches a whole body by one call: what is long is passed over, and all others are found."""
    piece = body_reading.JSON_PIECE_BYTES
    for long in (b"\\u0041" * piece, b"\\\\" * (piece + 1)):
        assert body_reading._TEXTS.findall(HEAD + long + b'"}]}')[-1] == b'"base64"'  # noqa: SLF001 - see above
    text = b'"' + b"\\n" * (piece // 2 - 1) + b'"'
    assert len(text) == piece
    assert body_reading._TEXTS.findall(b"[%b]" % text) == [text]  # noqa: SLF001 - see above
