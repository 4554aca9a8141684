"""`check_history`, `check_events` and `check_nothing_lost`: each rule that they hold, broken once."""

import msgspec
import pytest

from agentrail.core.session.step_context import is_ephemeral
from agentrail.errors import ErrorInfo
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentStart,
    Envelope,
    MessageDelta,
    MessageStart,
    ModelSwitched,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
    PromptTaken,
    RequestStart,
    ResponseComplete,
    Retry,
    SessionEnd,
    SessionStart,
    SteeringApplied,
    SteeringReceived,
    StreamError,
    SubagentEvent,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolKilled,
)
from agentrail.messages import (
    ApprovalId,
    AssistantMessage,
    CallId,
    PromptRef,
    SessionId,
    SteerRef,
    Text,
    TokenUsage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.testing.expectations import check_events, check_history, check_nothing_lost

USER = UserMessage(content=(Text(text="Hi"),))
SAID = AssistantMessage(content=(Text(text="Hello"),), model="m")
USAGE = TokenUsage()
START = SessionStart(model="m", tools=())
BEGIN, ABORT, END = AgentStart(ref=PromptRef("p")), AgentAbort(reason=None), SessionEnd(reason="done")
FINISHED = AgentEnd(messages=(), usage=USAGE, stop_reason="end")
FAILED = AgentError(error=ErrorInfo(code="x", message="x"))


COMPLETE = ResponseComplete(message=SAID, usage=USAGE, stop_reason="end")
BROKEN = StreamError(error=ErrorInfo(code="x", message="x"))
SWITCHED = ModelSwitched(from_model="m", to_model="n", by="fallback")
KILLED = ToolKilled(name="x", call_id=CallId("a"), reason="why")


def asking(*call_ids):
    """Make a response with these calls."""
    calls = (ToolCall(call_id=CallId(call_id), name="x", arguments={}) for call_id in call_ids)
    return AssistantMessage(content=tuple(calls), model="m")


def result(call_id):
    """Make the result of a call."""
    return ToolResult(call_id=CallId(call_id), name="x", text="ok")


def answering(*call_ids):
    """Make the message that answers these calls."""
    return ToolMessage(results=tuple(map(result, call_ids)))


def published(*events):
    """Give events the numbers that a session would give them."""
    seq, made = 0, []
    for event in events:
        ephemeral = is_ephemeral(event)
        seq += not ephemeral
        meta = Envelope(SessionId("s"), seq, 0, (SessionId("s"),), ephemeral)
        made.append(msgspec.structs.replace(event, meta=meta))
    return made


ASKED = RequestStart(model="m", messages=1)
SENT = (ASKED, MessageStart(), MessageDelta(delta="a"))
OF_A_CHILD = tuple(
    SubagentEvent(call_id=CallId("a"), child_id=SessionId("c"), depth=1, event=event)
    for event in (BEGIN, *SENT, COMPLETE, FINISHED)
)
CALLED = (
    ASKED,
    ResponseComplete(message=asking("a"), usage=USAGE, stop_reason="tool_use"),
    ToolExecutionStart(name="x", call_id=CallId("a"), arguments={}),
    ToolExecutionEnd(name="x", call_id=CallId("a"), result=result("a")),
)


@pytest.mark.parametrize("history", [[], [USER, SAID], [USER, asking("a", "b"), answering("a", "b"), SAID]])
def test_a_valid_history(history):
    """Each call answered once, in order, at once."""
    check_history(history)


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ([USER, asking("a")], r"asks for \('a',\), and nothing answers"),
        ([USER, asking("a"), USER], r"message 2: expected results for \('a',\), got \(\)"),
        ([USER, asking("a", "b"), answering("b", "a")], "message 2"),
        ([USER, asking("a"), answering("a", "a")], "message 2"),
        ([USER, answering("a")], r"message 1: expected results for \(\), got \('a',\)"),
    ],
)
def test_a_broken_history(history, words):
    """Unanswered, answered late, out of order, twice, or answered without being asked."""
    with pytest.raises(AssertionError, match=words):
        check_history(history)


@pytest.mark.parametrize(
    "events",
    [
        (START, END),
        (START, BEGIN, *SENT, BROKEN, *CALLED, *SENT, COMPLETE, FINISHED, END),
        (START, BEGIN, *CALLED[:3], KILLED, ABORT, CALLED[3], END),
        (START, BEGIN, *SENT, FAILED, END),
        (START, BEGIN, *CALLED[:3], *OF_A_CHILD, CALLED[3], FINISHED, END),
        (START, ABORT, BEGIN, FAILED, BEGIN, ABORT, END),
    ],
)
def test_a_whole_life(events):
    """Dense numbers, closed cycles, one pair for each call, and an end."""
    check_events(published(*events))


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (published(START, END)[1:], "has number 2, expected 1"),
        ([START, END], "has no envelope"),
        (published(START), "SessionEnd stands at"),
        (published(START, END, ABORT), "SessionEnd stands at"),
        (published(START, BEGIN, END), "has no terminal event"),
        (published(START, BEGIN, BEGIN, FINISHED, END), "came before the end of"),
        (published(START, BEGIN, FINISHED, FAILED, END), "ends no cycle"),
        (published(START, BEGIN, *CALLED[:3], FINISHED, END), "ToolExecutionEnd per call"),
        (published(START, BEGIN, *CALLED, CALLED[3], FINISHED, END), "ToolExecutionEnd per call"),
        (published(START, BEGIN, *CALLED[:2], CALLED[3], FINISHED, END), "ToolExecutionStart per call"),
        (published(START, ASKED, END), "RequestStart.* stands outside"),
        (published(START, BEGIN, ASKED, ASKED, FINISHED, END), "RequestStart.* stands outside"),
        (
            published(START, BEGIN, *CALLED[:3], ASKED, COMPLETE, CALLED[3], FINISHED, END),
            "RequestStart.* stands",
        ),
        (published(START, BEGIN, *SENT[1:], FINISHED, END), "MessageStart.* stands outside"),
        (
            published(START, BEGIN, *SENT, FINISHED, BEGIN, SENT[2], FINISHED, END),
            "MessageDelta.* stands outside",
        ),
        (published(START, BEGIN, *CALLED[1:], FINISHED, END), "ResponseComplete.* stands outside"),
        (
            published(START, BEGIN, *CALLED[:2], ASKED, *CALLED[2:], FINISHED, END),
            "ToolExecutionStart.* stands",
        ),
        (
            published(START, BEGIN, *CALLED[:2], CALLED[3], CALLED[2], FINISHED, END),
            "ToolExecutionEnd.* stands",
        ),
        (
            published(START, BEGIN, *CALLED[:2], KILLED, *CALLED[2:], FINISHED, END),
            "ToolKilled.* stands outside",
        ),
        (published(START, BEGIN, *CALLED, KILLED, FINISHED, END), "ToolKilled.* stands outside"),
        (published(START, BEGIN, *CALLED[:3], FINISHED, CALLED[3], END), "AgentEnd.* stands outside"),
    ],
)
def test_a_life_with_a_fault(events, words):
    """The message says which rule, and where."""
    with pytest.raises(AssertionError, match=words):
        check_events(events)


# --- messages


def message_of(text, origin="prompt", ref=None):
    """Make a message of the user."""
    return UserMessage(content=(Text(text=text),), origin=origin, ref=PromptRef(ref) if ref else None)


CONTENT = (Text(text="Hi"),)
CAME = PromptReceived(ref=PromptRef("p"), content=CONTENT)
WAITS = PromptQueued(ref=PromptRef("q"), content=CONTENT, position=0)
DROPPED = PromptDropped(ref=PromptRef("q"), content=CONTENT)
STEERED = SteeringReceived(ref=SteerRef("s"), text="left", queued_at_ms=1, status="queued")
APPLIED = SteeringApplied(refs=(SteerRef("s"),), count=1)


@pytest.mark.parametrize(
    "events",
    [
        [],
        [CAME, BEGIN],
        [CAME, BEGIN, WAITS, DROPPED],
        [CAME, PromptRejected(ref=PromptRef("p"), reason="no")],
        [CAME, PromptTaken(ref=PromptRef("p"), approval_id=ApprovalId("s/a2"), by="HumanApproval")],
        [CAME, BEGIN, STEERED, APPLIED],
        [CAME, BEGIN, SteeringReceived(ref=SteerRef("s"), text="x", queued_at_ms=1, status="rejected_full")],
    ],
)
def test_a_message_has_one_outcome(events):
    """Heard, dropped, refused: each of them is fine, and what was not accepted owes nothing."""
    check_nothing_lost(events)


@pytest.mark.parametrize(
    "events",
    [
        [CAME],
        [CAME, BEGIN, BEGIN],
        [BEGIN],
        [WAITS, DROPPED, DROPPED],
        [CAME, BEGIN, STEERED],
        [CAME, BEGIN, STEERED, APPLIED, APPLIED],
    ],
)
def test_a_message_without_outcome_or_with_two_is_named(events):
    """By its ref."""
    with pytest.raises(AssertionError, match="expected one outcome for each of"):
        check_nothing_lost(events)


def test_what_was_heard_stands_in_the_history():
    """The prompts in their order, and the text of each steer."""
    events = [CAME, BEGIN, STEERED, APPLIED]
    heard = [message_of("Hi", ref="p"), SAID, message_of("left", origin="steer")]
    check_nothing_lost(events, heard)
    with pytest.raises(AssertionError, match=r"expected the prompts \['p'\] in the history, got \[\]"):
        check_nothing_lost(events, heard[1:])
    with pytest.raises(
        AssertionError, match=r"the steers \['s'\] were applied, and the history has only \[\]"
    ):
        check_nothing_lost(events, heard[:2])


@pytest.mark.parametrize("end", [Retry(attempt=2, delay_ms=1, error=BROKEN.error), SWITCHED])
def test_a_request_that_failed_at_once_ends_with_what_follows(end):
    """Another attempt and another model close it; then the next request may begin."""
    check_events(published(START, BEGIN, ASKED, end, ASKED, COMPLETE, FINISHED, END))
