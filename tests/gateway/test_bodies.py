"""What calls bring, row by row of 8.13 as far as bodies, ids and cursors go. Nothing runs here."""

import base64
import json

import msgspec
import pytest

from agentrail.gateway.answers import CallRefused
from agentrail.gateway.bodies import (
    BODIES,
    AbortBody,
    ApproveBody,
    CancelBody,
    ChatBody,
    CommandBody,
    CreateSessionBody,
    ForkBody,
    ModelBody,
    ResumeBody,
    RewindBody,
    SteerBody,
    UiChatBody,
    described_bodies,
)
from agentrail.gateway.reading import (
    BodyBytes,
    body_limit,
    check_content_type,
    check_id,
    check_query,
    check_same_session,
    cursor_of,
    decode_body,
    decode_files,
    named_by_client,
    whole_number,
    yes_or_no,
)
from agentrail.host.attachments import Attachment
from agentrail.host.limits import Limits
from agentrail.wire.operations import CompactBody, RejectBody, RespondBody

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


def test_a_message_with_all_its_fields_is_read():
    """Each of them, as it came."""
    given = {
        "message": "Hi",
        "agent_id": "a@b+c",
        "session_id": "s-1",
        "attachments": [{"name": "a.txt", "mime_type": "text/plain", "base64": "aGk="}],
        "mode": "fast",
        "client_id": "c-1",
        "when_busy": "steer",
        "on_disconnect": "abort",
        "webhook": "https://example.org/",
        "metadata": {"a": [1, None]},
        "tenant_id": "t",
        "user_id": "u@example.org",
    }
    body = read(ChatBody, given)
    assert json.loads(msgspec.json.encode(body)) == given
    assert decode_files(body, LIMITS) == (Attachment(name="a.txt", mime_type="text/plain", content=b"hi"),)


@pytest.mark.parametrize(
    ("kind", "least", "values"),
    [
        (ChatBody, {"message": "m"}, {"message": "m", "attachments": ()}),
        (UiChatBody, {"id": "c-1", "messages": []}, {"messages": (), "trigger": None, "messageId": None}),
        (CreateSessionBody, {}, {"agent_id": None, "metadata": {}}),
        (SteerBody, {"message": "m"}, {"client_id": None}),
        (CommandBody, {}, {"text": "", "session_id": None, "client_id": None}),
        (AbortBody, {}, {"kill_tools": "killable", "clear_queue": False}),
        (ApproveBody, {"approval_id": "a"}, {"kind": "once", "auto_resume": True, "arguments": None}),
        (RejectBody, {"approval_id": "a"}, {"auto_resume": False}),
        (RespondBody, {"ref": "q", "response": 0}, {"response": 0}),
        (ModelBody, {"model": "demo:"}, {"provider_opts": {}}),
        (ForkBody, {}, {"at": None}),
        (RewindBody, {"to": 0}, {"to": 0}),
        (CompactBody, {}, {"reason": None}),
        (ResumeBody, {}, {"on_drift": "park"}),
        (CancelBody, {}, {"reason": None}),
    ],
)
def test_each_body_needs_only_what_its_call_needs(kind, least, values):
    """The rest holds what stands in for it."""
    body = read(kind, least)
    assert {name: getattr(body, name) for name in values} == values


def test_every_body_is_tried_above_and_is_described():
    """No body without a row in these tests, and none without a schema."""
    assert {kind.__name__ for kind in BODIES} <= described_bodies().keys()
    assert len(BODIES) == 15


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
    ("text", "says"),
    [
        (b"hello", "byte 0"),
        (b'{"message": "a"', "truncated"),
        (b'{"message": "a"} x', "byte 18"),
        (b'{"metadata": {"a": NaN}}', "byte 19"),
        (b'{"metadata": {"a": Infinity}}', "byte 19"),
        (b'{"metadata": {"a": 1e999}}', "out of range"),
        (b"[]", "byte 0"),
        (b'"text"', "byte 0"),
        (b"null", "byte 0"),
        (b'{"message": "\xff"}', "utf-8"),
        (b'{"message": "\\ud800"}', "no JSON"),
        (b'{"message": "a", "message": "b"}', "twice"),
        (b'{"message":"a","tenant_id":"x","tenant_id":"y"}', "twice"),
        (b'{"metadata": {"n": ' + b"9" * 5000 + b"}}", "digits"),
    ],
)
def test_what_is_no_json_object_is_400_with_the_place(text, says):
    """Also what two readers could take for two things: a key that stands twice."""
    status, code, answer = refused(decode_body, ChatBody, text, LIMITS)
    assert (status, code) == (400, "bad_json")
    assert says in answer.message


def test_json_may_be_64_deep_and_no_deeper():
    """The place is that of the bracket which goes too far; brackets in texts are none."""
    text = b'{"message":"[[[[{{{{\\"[[","metadata":{"a":%b}}'
    assert decode_body(ChatBody, text % (b"[" * 62 + b"]" * 62), LIMITS).message.startswith("[[")
    status, code, answer = refused(decode_body, ChatBody, text % (b"[" * 63 + b"]" * 63), LIMITS)
    assert (status, code) == (400, "bad_json")
    assert f"at byte {len(text) - 4 + 62}" in answer.message


@pytest.mark.parametrize(
    "inside",
    [b"[" * 400_000, b"[]," * 60_000 + b"[]", b'"",' * 120_000 + b'""', b"1," * 600_000 + b"1"],
    ids=["deep", "containers", "texts", "numbers"],
)
def test_what_would_hold_the_loop_is_refused_before_anything_is_made_of_it(inside, monkeypatch):
    """Thousands of small values in a body of allowed size: it is looked at in C, up to a bound, and not decoded."""
    monkeypatch.setattr("agentrail.gateway.reading.read_json", lambda _: pytest.fail("it was decoded"))
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


@pytest.mark.parametrize(
    "value", ["application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8"']
)
def test_json_is_taken(value):
    """In UTF-8, said or not."""
    check_content_type(value)


@pytest.mark.parametrize(
    "value",
    [None, "", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "application/jsonp",
     "text/plain; application/json", "multipart/form-data; boundary=application/json"],
)  # fmt: skip
def test_another_content_type_is_415(value):
    """What a form of another site can send is not taken."""
    assert refused(check_content_type, value)[:2] == (415, "content_type")


# --- fields


@pytest.mark.parametrize("message", [None, 5, ["a"], "", " \n", {"a": 1}])
def test_a_message_that_is_none_is_named(message):
    """Missing, no text, or empty without attachments."""
    for kind in (ChatBody, SteerBody):
        status, code, answer = refused(read, kind, {"message": message})
        assert (status, code, answer.more["field"]) == (422, "field_invalid", "message")
        assert answer.message.startswith("message ")
        assert refused(read, kind, {})[2].more["field"] == "message"


@pytest.mark.parametrize(
    ("kind", "body", "field", "near"),
    [
        (ChatBody, {"mesage": "a"}, "mesage", "message"),
        (ChatBody, {"message": "a", "sesion_id": "s"}, "sesion_id", "session_id"),
        (AbortBody, {"clear_que": True}, "clear_que", "clear_queue"),
        (ChatBody, {"attachments": [{"name": "a", "mimetype": "b"}]}, "attachments[0].mimetype", "mime_type"),
        (SteerBody, {"message": "a", "q": 1}, "q", None),
        (CommandBody, {"txt": "a"}, "txt", "text"),
    ],
)
def test_an_unknown_field_is_named_with_the_nearest_one(kind, body, field, near):
    """So a slip is not taken for a field that was left out."""
    status, code, answer = refused(read, kind, body)
    assert (status, code, answer.more["field"]) == (422, "field_unknown", field)
    assert field in answer.message
    assert (near or "known are message, client_id") in answer.hint


def test_a_long_unknown_field_is_not_repeated_in_full():
    """Nor does looking for the nearest name take long."""
    answer = refused(read, ChatBody, {"x" * 500_000: 1})[2]
    assert len(answer.encode()) < 1_000


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


def test_words_may_have_256_kib():
    """Counted as UTF-8; the same for steers and for answers in words."""
    limit = LIMITS.max_message_bytes
    assert read(SteerBody, {"message": "é" * (limit // 2)})
    for kind, name, more in (
        (SteerBody, "message", {}),
        (ChatBody, "message", {}),
        (RespondBody, "response", {"ref": "r"}),
    ):
        body = {name: "é" * (limit // 2) + "a", **more}
        assert refused(read, kind, body)[:2] == (413, "too_large")


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


def test_ids_of_sessions_have_the_narrower_rule():
    """Those of tenants, users, profiles and clients may hold @ and + as well."""
    assert check_id("user_id", "u+x@example.org") == "u+x@example.org"
    assert refused(check_id, "session_id", "u@x", of_session=True)[1] == "id_invalid"
    assert refused(read, CreateSessionBody, {"session_id": "u@x"})[1] == "id_invalid"


def test_a_prompt_is_for_the_session_in_its_path():
    """A body may repeat it, and may not name another."""
    check_same_session(ChatBody(message="a"), "s")
    check_same_session(ChatBody(message="a", session_id="s"), "s")
    assert refused(check_same_session, ChatBody(message="a", session_id="t"), "s")[1] == "field_invalid"


def test_a_message_is_named_in_its_body_or_in_its_header():
    """Both may say the same."""
    assert named_by_client(None, None) is None
    assert named_by_client("c", None) == named_by_client(None, "c") == named_by_client("c", "c") == "c"
    assert refused(named_by_client, "c", "d")[:2] == (422, "field_invalid")


# --- cursors and numbers


def test_the_header_of_a_browser_that_comes_back_goes_before_its_query():
    """It sends the address of its beginning again."""
    assert cursor_of(None, None) is None
    assert cursor_of("7", "3") == 7
    assert cursor_of(None, "0") == 0
    assert cursor_of(None, f"{(1 << 53) - 1}") == (1 << 53) - 1


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1.0", " 1", "1_0", "\u0661", "1e3", "abc", "9" * 17, f"{1 << 53}", "9" * 5000]
)
def test_a_cursor_that_is_no_whole_number_is_400(text):
    """Also one that only Python takes for a number, and one that it would take long for."""
    assert refused(cursor_of, text, None)[:2] == (400, "cursor_invalid")
    assert refused(cursor_of, "5", text)[:2] == (400, "cursor_invalid")


def test_numbers_and_flags_of_a_query_have_bounds():
    """And what stands in for them where they are left out."""
    assert whole_number("limit", None, 50) == 50
    assert whole_number("limit", "7", 50, least=1, most=7) == 7
    for wrong in ("0", "8", "x", "-1", ""):
        assert refused(whole_number, "limit", wrong, 50, least=1, most=7)[2].more["field"] == "limit"
    assert [yes_or_no("wait", text) for text in (None, "false", "true")] == [False, False, True]
    for wrong in ("1", "", "True"):
        assert refused(yes_or_no, "wait", wrong)[:2] == (422, "field_invalid")


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


@pytest.mark.parametrize("broken", ["a", "aGk", "aG k=", "aGk=\n", "aGk-", "é===", "=aGk", "aGk=aGk="])
def test_broken_base64_is_refused_with_its_index(broken):
    """Nothing is skipped or guessed."""
    status, code, answer = refused(decode_files, message_with("aGk=", broken), LIMITS)
    assert (status, code, answer.more["index"]) == (422, "attachment_invalid", 1)


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
