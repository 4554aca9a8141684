"""What calls bring, row by row of 8.13 as far as bodies, ids and cursors go. Nothing runs here."""

import base64
import gc
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
from agentrail.gateway.request_bodies import AbortBody, ApproveBody, ChatBody, ForkBody, RewindBody, SteerBody
from agentrail.gateway.request_parser import (
    BodyBytes,
    body_limit,
    check_id,
    check_query,
    decode_body,
    decode_files,
    named_by_client,
    parts_of,
    read_object,
)
from agentrail.host.quotas import Limits
from agentrail.wire.operations import RejectBody, RespondBody
from tests.slowness import slowness

LIMITS = Limits()
MIB = 1 << 20


def refused(call, *given, **named):
    """The answer that a call is refused with: status, code, and the whole of it."""
    with pytest.raises(CallRefused) as caught:
        call(*given, **named)
    answer = caught.value.answer
    return answer.status, answer.code, answer


def read(kind, body, limits=LIMITS):
    return decode_body(kind, body if isinstance(body, bytes) else json.dumps(body).encode(), limits)


@pytest.mark.parametrize("nothing", [b"", b" \n"])
def test_a_call_that_needs_nothing_said_needs_no_body(nothing):
    """As if it were `{}`; what needs a field misses it."""
    assert decode_body(AbortBody, nothing, LIMITS) == AbortBody()
    assert refused(decode_body, ApproveBody, nothing, LIMITS)[:2] == (422, "field_invalid")
    assert refused(decode_body, AbortBody, b"[]", LIMITS)[:2] == (400, "bad_json")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b'{"a": 1, "a": 2}', "the body is invalid: the key 'a' appears twice in one object"),
        (
            b"{'a': 1}",
            "the body is invalid: not JSON: JSON is malformed: object keys must be strings (byte 1)",
        ),
    ],
)
def test_a_malformed_body_is_described_in_a_sentence(body, fault):
    """A caller reads the message as it stands."""
    assert refused(decode_body, AbortBody, body, LIMITS)[2].message == fault


@pytest.mark.parametrize(
    "inside",
    [b"[" * 400_000, b"[]," * 60_000 + b"[]", b'"",' * 120_000 + b'""', b"1," * 600_000 + b"1"],
    ids=["deep", "containers", "texts", "numbers"],
)
def test_what_would_hold_the_loop_is_refused_before_anything_is_made_of_it(inside, monkeypatch):
    """Thousands of small values in a body of allowed size: it is looked at in C, up to a bound, and not decoded."""
    monkeypatch.setattr("agentrail.gateway.request_parser.read_json", lambda _: pytest.fail("it was decoded"))
    assert refused(decode_body, ChatBody, b'{"metadata":{"a":[' + inside + b"]}}", LIMITS)[0] in (400, 413)


def test_a_body_is_counted_while_it_comes():
    """One byte over is refused at once, and what came is forgotten; an announcement is believed only if it is too much."""
    body = BodyBytes(10, announced="3")
    body.add(b"12345")
    body.add(b"67890")
    assert refused(body.add, b"1")[:2] == (413, "too_large")
    assert body.whole() == b""
    assert refused(BodyBytes, 10, announced="11")[:2] == (413, "too_large")
    for wrong in ("-1", "1_0", "\u0661", "9" * 40):
        assert refused(BodyBytes, 10, announced=wrong)[:2] == (400, "bad_json")


def test_a_large_body_passes_only_for_its_attachments():
    """Only a message may bring them; escapes in their contents, or other fields, do not count as contents."""
    assert body_limit(ChatBody, LIMITS) == 36 * MIB
    assert body_limit(SteerBody, LIMITS) == MIB
    file = {"name": "a", "mime_type": "b", "base64": "A" * (2 * MIB)}
    assert len(decode_files(read(ChatBody, {"attachments": [file]}), LIMITS)[0].content) == 3 * MIB // 2
    long = {"message": "m", "metadata": {"a": "A" * MIB}}
    assert refused(read, ChatBody, long)[:2] == (413, "too_large")
    escaped = b'{"attachments":[{"name":"a","mime_type":"b","base64":"%b"}]}' % (b"\\u0041" * (MIB // 4))
    assert refused(decode_body, ChatBody, escaped, LIMITS)[:2] == (413, "too_large")


def test_a_field_of_the_wrong_kind_is_named():
    """With its place; nothing is converted, and true is no number."""
    for kind, body, field in (
        (ChatBody, {"message": "a", "when_busy": "later"}, "when_busy"),
        (ChatBody, {"message": "a", "metadata": []}, "metadata"),
        (ChatBody, {"attachments": [{"name": "a", "mime_type": "b"}]}, "attachments[0].base64"),
        (ChatBody, {"message": "a", "attachments": [5]}, "attachments[0]"),
        (ChatBody, {"message": "a", "mode": ""}, "mode"),
        (ChatBody, {"message": "a", "mode": "m" * 129}, "mode"),
        (AbortBody, {"clear_queue": 1}, "clear_queue"),
        (AbortBody, {"kill_tools": "some"}, "kill_tools"),
        (RespondBody, {"ref": "r", "response": None}, "response"),
        (RespondBody, {"ref": "r", "response": 1.5}, "response"),
        (RewindBody, {"to": True}, "to"),
        (RewindBody, {"to": -1}, "to"),
        (ForkBody, {"at": "3"}, "at"),
        (ApproveBody, {"approval_id": "a", "arguments": "{}"}, "arguments"),
        (ApproveBody, {"approval_id": ""}, "approval_id"),
        (RejectBody, {}, "approval_id"),
    ):
        status, code, answer = refused(read, kind, body)
        assert (status, code, answer.more["field"]) == (422, "field_invalid", field), body
        assert field in answer.message


BAD_IDS = ["a/b", "..", "a..b", "a\0b", "a b", "a" * 129, "", "-a", ".a", "é", "a\n"]


@pytest.mark.host("H-085")
@pytest.mark.parametrize("bad", BAD_IDS)
@pytest.mark.parametrize("field", ["session_id", "agent_id", "client_id", "tenant_id", "user_id"])
def test_an_id_that_is_none_is_refused_and_not_repeated(field, bad):
    """In a body, a path or a header."""
    status, code, answer = refused(read, ChatBody, {"message": "a", field: bad})
    assert (status, code, answer.more["field"]) == (422, "id_invalid", field)
    assert len(bad) < 3 or json.dumps(bad)[1:-1] not in answer.encode().decode()
    assert refused(check_id, field, bad, of_session=True)[:2] == (422, "id_invalid")
    assert refused(named_by_client, None, bad)[:2] == (422, "id_invalid")


def test_a_query_has_known_names_once_and_no_token():
    """The name of a token is refused, and what it says is never looked at."""
    check_query(["after", "limit"], ("after", "limit"))
    assert refused(check_query, ["after", "Token"], ("after",))[:2] == (400, "token_in_url")
    assert refused(check_query, ["after", "after"], ("after",))[:2] == (422, "field_invalid")
    assert "'after'" in refused(check_query, ["afer"], ("after",))[2].hint
    assert refused(check_query, ["a"], ())[:2] == (422, "field_unknown")


def message_with(*contents):
    """A body with files of these contents, in base64 already."""
    files = [{"name": "a", "mime_type": "b", "base64": content} for content in contents]
    return read(ChatBody, {"attachments": files})


@pytest.mark.host("H-032", "H-033")
def test_what_is_too_much_for_the_limits_of_the_host_is_refused_before_any_of_it_is_decoded(monkeypatch):
    """Too many files, one byte too many in one or in all, a long message and deep values; a file needs no words."""
    limits = Limits(max_attachments=2, max_attachment_bytes=4, max_attachments_bytes=6)
    short = Limits(max_message_bytes=3, max_json_depth=1)
    whole = base64.b64encode(b"1234").decode()
    assert message_with("").message == ""
    assert len(decode_files(message_with(whole, "MTI="), limits)) == 2
    monkeypatch.setattr("base64.b64decode", lambda *_, **__: pytest.fail("it was decoded"))
    assert refused(decode_files, message_with("", "", ""), limits)[0] == 413
    assert refused(decode_files, message_with(base64.b64encode(b"12345").decode()), limits)[0] == 413
    assert refused(decode_files, message_with(whole, "MTIz"), limits)[0] == 413
    assert refused(read, SteerBody, {"message": "abcd"}, short)[0] == 413
    assert refused(read, ChatBody, {"message": "a", "metadata": {}}, short)[0] == 400


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


def test_long_texts_of_a_body_are_freed_without_the_collector(small_pieces):
    """A server collects so rarely that the pictures of a thousand requests would stay."""
    text = json.dumps({"a": ["x" * 40, {"b": "y" * 40}]}).encode()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        assert read_object(text, LIMITS) == json.loads(text)
        gc.collect()  # garbage of other tests, too
        assert [one for one in gc.garbage if getattr(one, "__module__", None) == read_object.__module__] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


ESCAPES = [b"\\", b"\\u0041", b"\\ud83d", b"\\ude00"]
PIECES = [b'"', b"a" * 9, "é".encode(), b"\xa9", b"{", b"}", b":", b'"a":']


@given(text=st.lists(st.sampled_from([*ESCAPES, *PIECES]), max_size=24))
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
    said = {"message": "x", "attachments": [{"name": "a", "mime_type": "t/p", "base64": text}]}
    body = decode_body(ChatBody, json.dumps(said).encode(), LIMITS)
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
        now = time.thread_time()
        self.seconds, self.last = max(self.seconds, now - self.last), time.thread_time()
        return self


CHECKED = {"escapes": b"\\u0041", "digits": b"0", "texts": b'","b":"', "brackets": b"["}


@pytest.mark.parametrize(
    "text", [b"A", *(pytest.param(text, id=name, marks=pytest.mark.check) for name, text in CHECKED.items())]
)
def test_no_call_keeps_the_interpreter(text):
    """36 MB of attachments in a worker thread: the loop has the interpreter again within 50 ms. One call took 0.4 s.

    The call is measured, and not a neighbour that took its memory away meanwhile: it is fast in one of eight tries.
    """
    body = HEAD + text * (33_000_000 // len(text)) + b'"}]}'
    assert any(longest_of(body) < 0.05 * slowness() for _ in range(8))


def longest_of(body):
    """The longest processor time of a line of Python while the body is read, in seconds."""
    longest, before, wide = Longest(), sys.gettrace(), Limits(max_attachment_bytes=25 << 20)
    sys.settrace(longest)
    try:
        files = read_or_none(lambda one: decode_files(decode_body(ChatBody, one, wide), LIMITS), body)
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
