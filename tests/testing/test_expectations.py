"""`check_history` and `check_events`: each rule that they hold, broken once."""

import attrs
import pytest

from agentrail.errors import ErrorInfo
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentStart,
    Envelope,
    MessageDelta,
    MessageStart,
    RequestStart,
    ResponseComplete,
    SessionEnd,
    SessionStart,
    StreamError,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolKilled,
)
from agentrail.messages import (
    AssistantMessage,
    CallId,
    PromptRef,
    SessionId,
    Text,
    TokenUsage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.testing.expectations import check_events, check_history

USER = UserMessage(content=(Text(text="Hi"),))
SAID = AssistantMessage(content=(Text(text="Hello"),), model="m")
USAGE = TokenUsage()
START = SessionStart(model="m", tools=())
BEGIN, ABORT, END = AgentStart(ref=PromptRef("p")), AgentAbort(reason=None), SessionEnd(reason="done")
FINISHED = AgentEnd(messages=(), usage=USAGE, stop_reason="end")
FAILED = AgentError(error=ErrorInfo(code="x", message="x"))


COMPLETE = ResponseComplete(message=SAID, usage=USAGE, stop_reason="end")
BROKEN = StreamError(error=ErrorInfo(code="x", message="x"))
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
        ephemeral = isinstance(event, MessageDelta)
        seq += not ephemeral
        meta = Envelope(SessionId("s"), seq, 0, (SessionId("s"),), ephemeral)
        made.append(attrs.evolve(event, meta=meta))
    return made


ASKED = RequestStart(model="m", messages=1)
SENT = (ASKED, MessageStart(), MessageDelta(delta="a"))
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
