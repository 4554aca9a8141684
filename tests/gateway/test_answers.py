"""What a call is answered with when it is refused or fails: one table, one shape, and nothing of our inside."""

import json
import math
from typing import Any

import msgspec
import pytest

from agentrail import errors
from agentrail.errors import AgentrailError, ErrorInfo
from agentrail.gateway.answers import (
    ERROR_ANSWERS,
    CallRefused,
    ErrorAnswer,
    answer_to,
    answer_to_abort,
    answer_to_failure,
    error_answer,
    refuse_call,
)
from agentrail.wire.plain import encode_plain
from tests.test_errors import CODES

INSIDE = "db password s3cret at /srv/keys"


def told(answer: ErrorAnswer) -> Any:
    """The error as a caller reads it."""
    document = json.loads(answer.encode())
    assert document.keys() == {"error"}
    return document["error"]


@pytest.mark.parametrize("code", CODES)
def test_the_one_table_names_every_public_code(code):
    """Who adds an exception adds its row: no route decides by itself."""
    assert code in ERROR_ANSWERS


def test_the_rows_of_8_13_have_their_statuses():
    """Each status that the specification names, by its code."""
    wanted = {
        "bad_json": 400, "cursor_invalid": 400, "content_type": 415, "field_invalid": 422, "field_unknown": 422,
        "id_invalid": 422, "attachment_invalid": 422, "attachments_unsupported": 422, "profile_unknown": 404,
        "session_unknown": 404, "profile_mismatch": 409, "queue_full": 429, "session_ended": 409, "prompt_rejected": 422,
        "session_refused": 422, "session_is_child": 409, "not_owner": 421, "store_unavailable": 503, "file_unknown": 404,
        "too_large": 413, "files_unsupported": 422, "webhook_invalid": 422, "webhooks_off": 422, "route_unknown": 404,
        "method_not_allowed": 405, "internal": 500, "approval_unknown": 404, "already_resolved": 409,
        "approval_expired": 410, "approval_mismatch": 409, "session_busy": 409, "aborted": 409, "provider_failed": 502,
        "not_started": 503, "draining": 503, "plugin_failed": 503, "cursor_ahead": 409, "budget": 429, "quota": 429,
    }  # fmt: skip
    assert {code: ERROR_ANSWERS[code].status for code in wanted} == wanted
    assert error_answer("store_unavailable", "").headers["retry-after"]


def test_a_code_that_is_told_in_place_of_another_has_a_row_itself():
    """A client that looks it up finds one."""
    assert {row.code for row in ERROR_ANSWERS.values() if row.code} <= ERROR_ANSWERS.keys()


def made(kind: type[AgentrailError]) -> AgentrailError:
    """An exception of a class, with a message of our inside and nothing else."""
    error = kind.__new__(kind, INSIDE)
    error.args = (INSIDE,)
    return error


OURS = sorted(code for code, kind in CODES.items() if ERROR_ANSWERS[code].code == "internal")


@pytest.mark.parametrize("code", OURS)
def test_what_is_no_matter_of_the_caller_is_500_and_tells_nothing(code):
    """But the id by which the operator finds it."""
    answer = answer_to(made(CODES[code]), request_id="r-1")
    assert (answer.status, answer.is_ours) == (500, True)
    assert told(answer)["request_id"] == "r-1"
    assert INSIDE.encode() not in answer.encode()


@pytest.mark.parametrize(
    "error", [ValueError(INSIDE), KeyboardInterrupt(INSIDE), ExceptionGroup(INSIDE, [OSError(INSIDE)])]
)
def test_an_exception_that_is_none_of_ours_tells_nothing(error):
    """Neither its class nor its words."""
    answer = answer_to(error)
    assert told(answer).keys() == {"code", "message", "hint"}
    assert (answer.status, answer.code, answer.is_ours) == (500, "internal", True)
    assert INSIDE.encode() not in answer.encode()
    assert type(error).__name__.encode() not in answer.encode()


@pytest.mark.parametrize(
    ("error", "status", "code", "more"),
    [
        (errors.PromptQueueFull("5 wait"), 429, "queue_full", {}),
        (errors.SessionDown("s", "stopped"), 409, "session_ended", {}),
        (errors.SessionRefused("s", "no"), 422, "session_refused", {}),
        (errors.AlreadyResolved("m", status="approved", by="user", at_ms=7, user="ann"), 409, "already_resolved",
         {"status": "approved", "by": "user", "decided": {"how": "approved", "by": "user", "at_ms": 7, "user": "ann"}}),
        (errors.ApprovalExpired("m"), 410, "approval_expired",
         {"decided": {"how": "timeout", "by": "timeout", "at_ms": None, "user": None}}),
        (errors.UnknownApproval("m"), 404, "approval_unknown", {}),
        (errors.ClientIdReused("m"), 409, "client_id_reused", {}),
        (errors.CursorAhead(["m"], positions={"s": 9}), 409, "cursor_ahead", {"last_seq": 9}),
        (errors.HeldBy("s", node="n", address="a:1", seen_ago_ms=5), 421, "not_owner", {"node": "n", "address": "a:1"}),
        (errors.SubscriberTooSlow("m", resume_after=4, positions={}), 409, "subscriber_too_slow", {"resume_after": 4}),
        (errors.JournalDrifted("s", 7, what="w", operation="run_tool t7 pay", plugin="guard"), 503, "journal_drifted",
         {"seq": 7, "operation": "run_tool t7 pay", "plugin": "guard"}),
        (errors.UnknownTool("m", names=["a"]), 404, "unknown_tool", {"names": ["a"]}),
        (errors.ModelNotFound("m"), 422, "model_not_found", {"cause": "model_not_found"}),
        (errors.RateLimited("m", retry_after_seconds=1.2), 502, "provider_failed", {"cause": "rate_limited"}),
        (errors.StreamTimeout("m"), 504, "provider_failed", {"cause": "stream_stalled"}),
        (errors.SessionIsChild("m", root_id="s-1"), 409, "session_is_child", {"root_id": "s-1"}),
        (errors.ProfileMismatch("m", agent_id="a"), 409, "profile_mismatch", {"agent_id": "a"}),
        (errors.AttachmentInvalid("m", index=2), 422, "attachment_invalid", {"index": 2}),
        (errors.RequestOver("m"), 409, "request_over", {}),
        (errors.PromptRefused("no"), 422, "prompt_rejected", {}),
        (errors.CycleAborted("why"), 409, "aborted", {}),
        (errors.OptionError(["m"]), 422, "option_error", {}),
    ],
)  # fmt: skip
def test_what_a_caller_can_act_on_is_told(error, status, code, more):
    """Status, code, the words of the exception, and what else it knows."""
    answer = answer_to(error, request_id="r-1")
    assert (answer.status, answer.code, dict(answer.more), answer.is_ours) == (status, code, more, False)
    assert told(answer).keys() == {"code", "message", "hint", *more}
    if isinstance(error, errors.RateLimited):
        assert answer.headers == {"retry-after": "2"}


@pytest.mark.parametrize(
    "error",
    [
        errors.SessionNotFound("no session 'a', did you mean 'boss-1'?", nearest=["boss-1"]),
        errors.AlreadyStarted("session 'boss-1' lives", handle=None),
        errors.AlreadyExists("boss-1"),
        errors.StillNeeded("a", by=["boss-1"]),
        errors.StoreUnavailable("/srv/boss-1 is full"),
        errors.Unrevivable("a", missing=["boss-1"]),
    ],
)
def test_an_answer_names_no_session_of_others_and_no_path(error):
    """What looks like an id to one caller is another's."""
    assert b"boss-1" not in answer_to(error).encode()


def test_a_hint_of_the_host_is_told():
    """Where it has one: how to go on without the id of a colleague's session."""
    assert told(answer_to(errors.SessionUnknown("m", hint="leave the id out")))["hint"] == "leave the id out"
    assert told(answer_to(errors.SessionUnknown("m")))["hint"] is None


def test_an_exception_that_an_application_derived_is_answered_as_the_one_above_it():
    """Its own code has no row."""

    class Mine(errors.PromptQueueFull):  # fmt: skip
        code = "mine"

    Mine.__module__ = "app"
    assert (answer_to(Mine("m")).status, answer_to(Mine("m")).code) == (429, "queue_full")
    assert answer_to(errors.InvalidSpec("m", code="missing_id", field="id")).status == 500


@pytest.mark.host("H-023")
def test_a_refusal_of_a_plugin_is_told_as_it_is():
    """Its status, its code, its words, its headers, in the shape of an error."""
    answer = answer_to(errors.RequestRefused(429, "too_chatty", "later", headers={"retry-after": "9"}))
    assert (answer.status, dict(answer.headers)) == (429, {"retry-after": "9"})
    assert told(answer) == {"code": "too_chatty", "message": "later", "hint": None}


def test_what_leaves_a_route_keeps_its_answer():
    """However deep it was raised."""
    with pytest.raises(CallRefused) as caught:
        refuse_call("session_busy", "it works", hint="wait", more={"phase": "running"})
    refusal = caught.value
    assert answer_to(refusal) is refusal.answer
    assert told(refusal.answer) == {
        "code": "session_busy",
        "message": "it works",
        "hint": "wait",
        "phase": "running",
    }
    assert f"{refusal}" == "409 session_busy: it works"


@pytest.mark.host("H-065")
@pytest.mark.parametrize(
    ("code", "status", "told_code"),
    [
        ("overloaded", 502, "provider_failed"),
        ("provider_error", 502, "provider_failed"),
        ("model_not_found", 502, "provider_failed"),
        ("context_overflow", 502, "provider_failed"),
        ("provider_crashed", 502, "provider_failed"),
        ("stream_stalled", 504, "provider_failed"),
        ("timeout", 504, "provider_failed"),
        ("budget_exceeded", 409, "cycle_failed"),
        ("response_format", 500, "cycle_failed"),
        ("unheard_of", 500, "cycle_failed"),
    ],
)
def test_a_cycle_that_failed_is_never_a_success(code, status, told_code):
    """By whose side it was; with the cause and the text so far."""
    error = ErrorInfo(code=code, message="m")
    for answer in (answer_to_failure(error, "so far"), answer_to(errors.CycleFailed(error, text="so far"))):
        assert (answer.status, answer.code) == (status, told_code)
        assert dict(answer.more) == {"cause": code, "text": "so far"}


@pytest.mark.parametrize(
    ("seconds", "header"), [(0.0, "0"), (1.01, "2"), (-5.0, "0"), (math.inf, "86400"), (math.nan, None)]
)
def test_how_long_a_vendor_asks_to_wait_is_a_whole_number(seconds, header):
    """Whatever its server said."""
    error = ErrorInfo(code="rate_limited", message="m", retry_after_seconds=seconds)
    assert answer_to_failure(error).headers.get("retry-after") == header


def test_an_aborted_cycle_is_no_success_and_tells_the_text_so_far():
    """409, with the reason."""
    answer = answer_to_abort("enough", "so far")
    assert answer.status == 409
    assert told(answer) == {
        "code": "aborted", "message": "the cycle was aborted: enough", "hint": None, "reason": "enough", "text": "so far",
    }  # fmt: skip


def test_what_no_utf_8_can_hold_is_replaced_and_long_words_are_cut():
    """An answer can always be written."""
    answer = error_answer("internal", "\ud800" + "x" * 9_000, more={"a": ["\udfff"], "b": {"\ud800": 1}})
    error = told(answer)
    assert error["message"].startswith("\ufffd")
    assert len(error["message"]) == 2_000
    assert error["a"] == ["\ufffd"]
    assert encode_plain({"s": object()}) == b'{"s":"object(\xe2\x80\xa6)"}'


def test_what_stands_beside_cannot_take_the_place_of_the_code():
    """The three words of every error are its own; and the value cannot be changed once it is made."""
    more = {"code": "x", "n": [1]}
    answer = error_answer("internal", "m", more=more)
    more["n"].append(2)
    assert told(answer)["code"] == "internal"
    assert told(answer)["n"] == [1]
    assert msgspec.json.decode(answer.encode()) == json.loads(answer.encode())
