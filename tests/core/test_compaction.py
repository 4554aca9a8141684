"""Compaction: when, where, with what, and whether its result is taken (3-session, "Compaction and overflow")."""

import pytest

from agentrail.core.policy.context import (
    DISTANCE,
    LEAST_TOKENS,
    SUMMARY_PROMPT,
    SUMMARY_TOKENS,
    Compacted,
    CompactionLimits,
    CompactionPlan,
    CompactionWatch,
    NoCompaction,
    NotShrunk,
    Summary,
    compaction_failed,
    cut_of,
    decide_compaction,
    finish_compaction,
    is_due,
    overflow_error,
    tokens_of,
)
from agentrail.core.protocol.request import EffectId, ModelRequest
from agentrail.core.session.compaction import summary_request
from agentrail.core.values.history import History
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import ErrorInfo
from agentrail.messages import AssistantMessage, CallId, Text, ToolCall, ToolResult, UserMessage

ROOMY = CompactionLimits(window=100_000)
NEW = CompactionWatch()
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
    """What would be sent to go on."""
    return ModelRequest(
        attempt=EffectId("r1"),
        model="m:1",
        system="Be kind.",
        messages=history.messages,
        tools=Toolbox(),
        response_format={"type": "object"},
    )


LONG = talk("u1000", "a", "u", "a", "t", "u", "a", "u", "a")
PLAN = CompactionPlan(reason="due", cut=4)


@pytest.mark.parametrize(
    ("estimate", "limits", "expected"),
    [
        (85_000, ROOMY, False),
        (85_001, ROOMY, True),
        (170_000, CompactionLimits(window=1_000_000), False),
        (170_001, CompactionLimits(window=1_000_000), True),
        (5_001, CompactionLimits(window=100_000, compact_at_tokens=5_000), True),
        (108_801, CompactionLimits(), True),
    ],
)
def test_compaction_is_due_at_a_share_of_the_window_or_at_the_limit(estimate, limits, expected):
    """85 % of the window, 128,000 where nobody knows it, or `compact_at_tokens`, whichever is less."""
    assert is_due(estimate, limits) is expected


@pytest.mark.parametrize(
    ("turns", "cut"),
    [
        ("u a u a u a u a", 2),
        ("u a u a u a", 0),
        ("u a u a t a u a", 3),
        ("u a t a u a u a", 4),
        ("u a t t t", 2),
        ("u a u a5000 u a5000", 4),
        ("u a u a u a20000", 5),
        ("u a t20000", 2),
        ("u a t u20000", 4),
        ("u20000", 0),
        ("", 0),
    ],
)
def test_the_last_six_stay_or_a_tenth_of_the_window(turns, cut):
    """At least one, however large; calls and results stay or go together (AT-135)."""
    assert cut_of(talk(*turns.split()).messages, 100_000) == cut


def test_a_plan_says_where_to_cut():
    """And the whole beginning is shown to the model, since it fits."""
    assert decide_compaction(LONG, NEW, "due", OVER, ROOMY) == PLAN


@pytest.mark.parametrize(
    ("history", "watch", "reason", "estimate", "why"),
    [
        (LONG, NEW, "due", 80_000, "not_due"),
        (LONG, CompactionWatch(due_from=11), "due", OVER, "too_soon"),
        (LONG, CompactionWatch(forced_from=11), "overflow", 10, "too_soon"),
        (talk("u", "a"), NEW, "asked", 10, "nothing_to_cut"),
    ],
)
def test_what_stands_against_a_compaction(history, watch, reason, estimate, why):
    """Too short, too soon after the last of its kind, or nothing that could go."""
    assert decide_compaction(history, watch, reason, estimate, ROOMY) == NoCompaction(why)


@pytest.mark.at(135)
def test_there_is_no_cut_while_a_call_is_open():
    """A result never loses its call."""
    call = ToolCall(call_id=CallId("c"), name="read", arguments={})
    history = LONG.with_response(AssistantMessage(content=(call,), model="m"))
    assert decide_compaction(history, NEW, "due", OVER, ROOMY) == NoCompaction("calls_open")


def test_who_asks_need_not_wait():
    """A person's `compact` goes past limits and distances; an overflow past those of compactions that were due."""
    kept_away = CompactionWatch(due_from=99, forced_from=99)
    assert decide_compaction(LONG, kept_away, "asked", 10, ROOMY) == CompactionPlan(reason="asked", cut=4)
    watch = CompactionWatch(due_from=99)
    assert isinstance(decide_compaction(LONG, watch, "overflow", 10, ROOMY), CompactionPlan)


@pytest.mark.parametrize(
    ("reason", "estimate", "squeezed"),
    [
        ("due", 100_000 - SUMMARY_TOKENS, None),
        ("due", 100_001 - SUMMARY_TOKENS, (100_001 - SUMMARY_TOKENS) // 2),
        ("due", 400_000, 50_000),
        ("overflow", 8_000, 4_000),
        ("overflow", 0, LEAST_TOKENS),
    ],
)
def test_what_does_not_fit_is_shown_in_half(reason, estimate, squeezed):
    """An overflow shows that less fits than was thought, so the estimate counts and not only the window."""
    plan = decide_compaction(LONG, NEW, reason, estimate, ROOMY)
    assert isinstance(plan, CompactionPlan)
    assert plan.squeezed_tokens == squeezed


@pytest.mark.at(5)
def test_the_request_for_a_summary_begins_like_any_other():
    """The same system prompt, tools and messages, so the vendor's cache serves it; no call, no format, a bound."""
    asked = summary_request(request(LONG), PLAN, LONG.messages[:4])
    assert asked.messages[:4] == LONG.messages[:4]
    assert all(one is other for one, other in zip(asked.messages, LONG.messages[:4], strict=False))
    assert asked.messages[4:] == (UserMessage(content=(Text(text=SUMMARY_PROMPT),), origin="note"),)
    assert (asked.attempt, asked.system, asked.tool_choice) == ("r1", "Be kind.", "none")
    assert (asked.max_output_tokens, asked.response_format) == (SUMMARY_TOKENS, None)


def test_what_does_not_fit_is_told_in_one_message():
    """Its beginning and its end, and how much is left out."""
    plan = CompactionPlan(reason="overflow", cut=4, squeezed_tokens=500)
    long = talk("u4000", "a4000", "u", "a1")
    (message,) = summary_request(request(long), plan, long.messages[:4]).messages
    assert isinstance(message, UserMessage)
    transcript, ask = message.content
    assert isinstance(transcript, Text)
    assert transcript.text.startswith("## User\n\nxxxx")
    assert "characters left out …]" in transcript.text
    assert transcript.text.endswith("## Assistant\n\nxxxx\n")
    assert len(transcript.text) < 500 * 4 + 60
    assert ask == Text(text=SUMMARY_PROMPT)
    short = talk("u", "a", "u", "a")
    (message,) = summary_request(request(short), plan, short.messages[:4]).messages
    assert "left out" not in str(message)


@pytest.mark.parametrize(
    ("saved_to", "where"), [("notes/1.md", "; their full text is in notes/1.md"), (None, "")]
)
def test_the_conversation_goes_on_with_the_summary(saved_to, where):
    """In front of what stays, as a note of the session's own, and says where the rest is."""
    done = finish_compaction(LONG, NEW, PLAN, Summary(text=" It was long.\n", saved_to=saved_to))
    assert isinstance(done, Compacted)
    text = f"[Summary of the 4 messages before this point{where}]\n\nIt was long."
    assert done.history.messages[0] == UserMessage(content=(Text(text=text),), origin="note")
    assert all(one is other for one, other in zip(done.history.messages[1:], LONG.messages[4:], strict=True))
    assert (done.tokens_before, done.tokens_after) == (1_010, tokens_of(done.history.messages[:]))
    assert [PLAN.moved(position) for position in (0, 3, 4, 5)] == [1, 1, 1, 2]


@pytest.mark.at(132)
@pytest.mark.parametrize(("text", "is_taken"), [("x" * 3_100, True), ("x" * 3_300, False), (" \n", False)])
def test_a_fifth_less_or_nothing(text, is_taken):
    """A summary that is nearly as long as what it stands for is thrown away, and so is one that says nothing."""
    done = finish_compaction(LONG, NEW, PLAN, Summary(text=text, saved_to=None))
    assert isinstance(done, Compacted if is_taken else NotShrunk)
    if isinstance(done, NotShrunk):
        assert done.watch == CompactionWatch(due_from=len(LONG) + DISTANCE, forced_from=len(LONG))
        assert done.tokens_before == 1_010


@pytest.mark.at(133)
def test_after_a_compaction_there_is_a_distance():
    """Ten more messages before the next; one that was forced keeps both kinds away."""
    done = finish_compaction(LONG, NEW, PLAN, Summary(text="Long.", saved_to=None))
    assert isinstance(done, Compacted)
    assert done.watch == CompactionWatch(due_from=7 + DISTANCE, forced_from=7)
    forced = CompactionPlan(reason="overflow", cut=4)
    assert compaction_failed(LONG, NEW, forced) == CompactionWatch(due_from=20, forced_from=20)


def test_a_distance_is_counted_in_messages_and_not_in_lengths():
    """What was left of one when the history shrank is left afterwards."""
    watch = CompactionWatch(forced_from=len(LONG) + 3)
    done = finish_compaction(LONG, watch, PLAN, Summary(text="Long.", saved_to=None))
    assert done.watch == CompactionWatch(due_from=7 + DISTANCE, forced_from=7 + 3)


@pytest.mark.parametrize(("is_assumed", "window"), [(True, "8,000, assumed"), (False, "8,000")])
def test_an_overflow_that_stays_says_what_could_not_be_cut(is_assumed, window):
    """The estimate, the window and the rest, under the vendor's words."""
    error = ErrorInfo(code="context_overflow", message="prompt is too long")
    limits = CompactionLimits(window=8_000, is_assumed=is_assumed)
    told = overflow_error(error, talk("u", "a", "t9000"), 9_500, limits)
    assert told.code == "context_overflow"
    assert told.message == (
        f"prompt is too long (about 9,500 tokens in a window of {window}; 2 messages of 9,002 cannot be cut)"
    )
