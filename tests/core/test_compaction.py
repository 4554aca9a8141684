"""Compaction: when, where, with what, and whether its result is taken (3-session, "Compaction and overflow")."""

from typing import Any

import pytest

from agentrail.core.policy import request_context as rc
from agentrail.core.protocol.request import EffectId, ModelRequest
from agentrail.core.session.compaction_run import summary_request
from agentrail.core.values.history import History
from agentrail.core.values.toolbox import Toolbox
from agentrail.messages import AssistantMessage, CallId, Text, ToolCall, ToolResult, UserMessage

ROOMY = rc.CompactionLimits(window=100_000)
NEW = rc.CompactionWatch()
OVER = 90_000


def talk(*turns: str) -> History:
    """A conversation: `u` the user, `a` an answer, `t` a call and its result; a number says how many tokens."""
    history = History()
    for turn in turns:
        text = "x" * 4 * int(turn[1:] or 1)
        match turn[0]:
            case "u":
                history = history.with_user(UserMessage(content=(Text(text=text),)))
            case "a":
                history = history.with_response(AssistantMessage(content=(Text(text=text),), model="m"))
            case _:
                call = ToolCall(call_id=CallId("c"), name="read", arguments={})
                history = history.with_response(AssistantMessage(content=(call,), model="m"))
                result = ToolResult(call_id=CallId("c"), name="read", text=text)
                history = history.answered([result])
    return history


def request(history: History) -> ModelRequest:
    told: dict[str, Any] = {"model": "m:1", "system": "Be kind.", "tools": Toolbox()}
    format_wanted = {"type": "object"}
    return ModelRequest(
        attempt=EffectId("r1"), messages=history.messages, response_format=format_wanted, **told
    )


LONG = talk("u1000", "a", "u", "a", "t", "u", "a", "u", "a")
PLAN = rc.CompactionPlan(reason="due", cut=4)


def test_the_last_six_stay_or_a_tenth_of_the_window():
    """At least one, however large; calls and results stay or go together (AT-135)."""
    cuts = {
        "u a u a u a u a": 2,
        "u a u a u a": 0,
        "u a u a t a u a": 3,
        "u a t a u a u a": 4,
        "u a t t t": 2,
        "u a u a5000 u a5000": 4,
        "u a u a u a20000": 5,
        "u a t20000": 2,
        "u a t u20000": 4,
        "u20000": 0,
        "": 0,
    }
    assert {turns: rc.cut_of(talk(*turns.split()).messages, 100_000) for turns in cuts} == cuts


@pytest.mark.at(135)
def test_what_stands_against_a_compaction():
    """Too short, too soon after the last of its kind, nothing that could go, or an open call: a result never loses its call."""
    call = ToolCall(call_id=CallId("c"), name="read", arguments={})
    calling = LONG.with_response(AssistantMessage(content=(call,), model="m"))
    for history, watch, reason, estimate, why in (
        (LONG, NEW, "due", 80_000, "not_due"),
        (LONG, rc.CompactionWatch(due_from=11), "due", OVER, "too_soon"),
        (LONG, rc.CompactionWatch(forced_from=11), "overflow", 10, "too_soon"),
        (talk("u", "a"), NEW, "asked", 10, "nothing_to_cut"),
        (calling, NEW, "due", OVER, "calls_open"),
    ):
        assert rc.decide_compaction(history, watch, reason, estimate, ROOMY) == rc.NoCompaction(why)


@pytest.mark.at(5)
def test_the_request_for_a_summary_begins_like_any_other():
    """The same system prompt, tools and messages, so the vendor's cache serves it; no call, no format, a bound."""
    asked = summary_request(request(LONG), PLAN, LONG.messages[:4])
    assert asked.messages[:4] == LONG.messages[:4]
    assert all(one is other for one, other in zip(asked.messages, LONG.messages[:4], strict=False))
    assert asked.messages[4:] == (UserMessage(content=(Text(text=rc.SUMMARY_PROMPT),), origin="note"),)
    assert (asked.attempt, asked.system, asked.tool_choice) == ("r1", "Be kind.", "none")
    assert (asked.max_output_tokens, asked.response_format) == (rc.SUMMARY_TOKENS, None)


def test_what_does_not_fit_is_told_in_one_message():
    """Its beginning and its end, and how much is left out."""
    plan = rc.CompactionPlan(reason="overflow", cut=4, squeezed_tokens=500)
    long = talk("u4000", "a4000", "u", "a1")
    (message,) = summary_request(request(long), plan, long.messages[:4]).messages
    assert isinstance(message, UserMessage)
    transcript, ask = message.content
    assert isinstance(transcript, Text)
    assert transcript.text.startswith("## User\n\nxxxx")
    assert "characters left out …]" in transcript.text
    assert transcript.text.endswith("## Assistant\n\nxxxx\n")
    assert len(transcript.text) < 500 * 4 + 60
    assert ask == Text(text=rc.SUMMARY_PROMPT)
    short = talk("u", "a", "u", "a")
    (message,) = summary_request(request(short), plan, short.messages[:4]).messages
    assert "left out" not in str(message)


@pytest.mark.at(132)
@pytest.mark.parametrize(("text", "is_taken"), [("x" * 3_100, True), ("x" * 3_300, False), (" \n", False)])
def test_a_fifth_less_or_nothing(text, is_taken):
    """A summary that is nearly as long as what it stands for is thrown away, and so is one that says nothing."""
    done = rc.finish_compaction(LONG, NEW, PLAN, rc.Summary(text=text, saved_to=None))
    assert isinstance(done, rc.Compacted if is_taken else rc.NotShrunk)
    if isinstance(done, rc.NotShrunk):
        assert done.watch == rc.CompactionWatch(due_from=len(LONG) + rc.DISTANCE, forced_from=len(LONG))
        assert done.tokens_before == 1_010


@pytest.mark.at(133)
def test_after_a_compaction_there_is_a_distance():
    """Ten more messages before the next; one that was forced keeps both kinds away."""
    done = rc.finish_compaction(LONG, NEW, PLAN, rc.Summary(text="Long.", saved_to=None))
    assert isinstance(done, rc.Compacted)
    assert done.watch == rc.CompactionWatch(due_from=7 + rc.DISTANCE, forced_from=7)
    forced = rc.CompactionPlan(reason="overflow", cut=4)
    assert rc.compaction_failed(LONG, NEW, forced) == rc.CompactionWatch(due_from=20, forced_from=20)
