"""What a call is answered with when it is refused or fails: one table, one shape, and nothing of our inside."""

import json
from typing import Any

import pytest

from agentrail import errors
from agentrail.errors import ErrorInfo
from agentrail.gateway.error_responses import (
    ERROR_ANSWERS,
    ErrorAnswer,
    answer_to,
    answer_to_failure,
    error_answer,
)
from agentrail.wire.plain import encode_plain
from tests.test_errors import CODES


def told(answer: ErrorAnswer) -> Any:
    document = json.loads(answer.encode())
    assert document.keys() == {"error"}
    return document["error"]


def test_the_one_table_names_every_public_code():
    """Who adds an exception adds its row: no route decides by itself. A code that is told in place of another has one too."""
    assert {*CODES} <= ERROR_ANSWERS.keys()
    assert {row.code for row in ERROR_ANSWERS.values() if row.code} <= ERROR_ANSWERS.keys()


@pytest.mark.host("H-023")
@pytest.mark.parametrize(
    ("error", "status", "code", "more"),
    [
        (errors.RequestRefused(429, "too_chatty", "later", headers={"retry-after": "9"}), 429, "too_chatty", {}),
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
    if isinstance(error, errors.RequestRefused):  # of a plugin: as it is
        assert answer.headers == {"retry-after": "9"}
        assert told(answer) == {"code": "too_chatty", "message": "later", "hint": None}


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


def test_what_no_utf_8_can_hold_is_replaced_and_long_words_are_cut():
    """An answer can always be written."""
    answer = error_answer("internal", "\ud800" + "x" * 9_000, more={"a": ["\udfff"], "b": {"\ud800": 1}})
    error = told(answer)
    assert error["message"].startswith("\ufffd")
    assert len(error["message"]) == 2_000
    assert error["a"] == ["\ufffd"]
    assert encode_plain({"s": object()}) == b'{"s":"object(\xe2\x80\xa6)"}'
