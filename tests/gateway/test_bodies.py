"""What calls bring, row by row of 8.13 as far as bodies, ids and cursors go. Nothing runs here."""

import base64
import json

import pytest

from agentrail.gateway.error_responses import CallRefused
from agentrail.gateway.request_bodies import (
    AbortBody,
    ApproveBody,
    ChatBody,
    ForkBody,
    RewindBody,
    SteerBody,
)
from agentrail.gateway.request_parser import (
    BodyBytes,
    body_limit,
    check_id,
    check_query,
    decode_body,
    decode_files,
    named_by_client,
)
from agentrail.host.quotas import Limits
from agentrail.wire.operations import RejectBody, RespondBody

LIMITS = Limits()
MIB = 1 << 20


def refused(call, *given, **named):
    """The answer that a call is refused with: status, code, and the whole of it."""
    with pytest.raises(CallRefused) as caught:
        call(*given, **named)
    answer = caught.value.answer
    return answer.status, answer.code, answer


def read(kind, body, limits=LIMITS):
    """Decode a body, given as JSON values or as bytes."""
    return decode_body(kind, body if isinstance(body, bytes) else json.dumps(body).encode(), limits)


# --- what passes


@pytest.mark.parametrize("nothing", [b"", b" \n"])
def test_a_call_that_needs_nothing_said_needs_no_body(nothing):
    """As if it were `{}`; what needs a field misses it."""
    assert decode_body(AbortBody, nothing, LIMITS) == AbortBody()
    assert refused(decode_body, ApproveBody, nothing, LIMITS)[:2] == (422, "field_invalid")


@pytest.mark.host("H-032")
def test_a_file_needs_no_words():
    """A message without words and with a file is one."""
    file = {"name": "a", "mime_type": "b", "base64": ""}
    assert read(ChatBody, {"attachments": [file]}).message == ""


# --- bytes and JSON


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


# --- fields


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        (ChatBody, {"message": "a", "when_busy": "later"}, "when_busy"),
        (ChatBody, {"message": "a", "metadata": []}, "metadata"),
        (
            ChatBody,
            {"message": "a", "attachments": [{"name": "a", "mime_type": "b"}]},
            "attachments[0].base64",
        ),
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
    ],
)
def test_a_field_of_the_wrong_kind_is_named(kind, body, field):
    """With its place; nothing is converted, and true is no number."""
    status, code, answer = refused(read, kind, body)
    assert (status, code, answer.more["field"]) == (422, "field_invalid", field)
    assert field in answer.message


def test_the_limits_are_those_of_the_host():
    """And no numbers of this room."""
    limits = Limits(max_message_bytes=3, max_json_depth=1, max_attachments=0)
    assert refused(read, SteerBody, {"message": "abcd"}, limits)[0] == 413
    assert refused(read, ChatBody, {"message": "a", "metadata": {}}, limits)[0] == 400
    body = ChatBody(
        attachments=read(
            ChatBody, {"attachments": [{"name": "a", "mime_type": "b", "base64": ""}]}
        ).attachments
    )
    assert refused(decode_files, body, limits)[0] == 413


# --- ids

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


# --- cursors and numbers


def test_a_query_has_known_names_once_and_no_token():
    """The name of a token is refused, and what it says is never looked at."""
    check_query(["after", "limit"], ("after", "limit"))
    assert refused(check_query, ["after", "Token"], ("after",))[:2] == (400, "token_in_url")
    assert refused(check_query, ["after", "after"], ("after",))[:2] == (422, "field_invalid")
    assert "'after'" in refused(check_query, ["afer"], ("after",))[2].hint
    assert refused(check_query, ["a"], ())[:2] == (422, "field_unknown")


# --- attachments


def message_with(*contents):
    """A body with files of these contents, in base64 already."""
    files = [{"name": "a", "mime_type": "b", "base64": content} for content in contents]
    return read(ChatBody, {"attachments": files})


@pytest.mark.host("H-033")
def test_what_is_too_much_is_refused_before_any_of_it_is_decoded(monkeypatch):
    """An eleventh file, one byte over the most of one, and one byte over the most of all."""
    limits = Limits(max_attachments=2, max_attachment_bytes=4, max_attachments_bytes=6)
    whole = base64.b64encode(b"1234").decode()
    assert len(decode_files(message_with(whole, "MTI="), limits)) == 2
    monkeypatch.setattr("base64.b64decode", lambda *_, **__: pytest.fail("it was decoded"))
    assert refused(decode_files, message_with("", "", ""), limits)[0] == 413
    assert refused(decode_files, message_with(base64.b64encode(b"12345").decode()), limits)[0] == 413
    assert refused(decode_files, message_with(whole, "MTIz"), limits)[0] == 413
