"""Spans of a journal: one for each cycle, request, call and child, the same each time; without content no word is in them."""

import json

import msgspec
import pytest

from agentrail import events as e, messages as m
from agentrail.core.journal.fold import first_state, walk
from agentrail.core.journal.jsonl import read_journal
from agentrail.core.journal.spans import SpanTree, encode_otlp
from agentrail.core.protocol.effects import Publish
from agentrail.errors import ErrorInfo
from agentrail.frozen import frozen_json
from tests.core.journal.golden_journals import FOLDER, SOURCES
from tests.core.worlds import new_session

CANARY = "canary"
CALL = m.CallId(f"{CANARY}-1")
STATE = new_session()


class Step:
    """What a span needs of a record that was walked."""

    def __init__(self, at_ms, *events):
        self.record = type("Record", (), {"at_ms": at_ms})
        self.before = self.after = STATE
        self.effects = tuple(Publish(event=event) for event in events)


class Story:
    def __init__(self, session="s", *, content=True, tree=None):
        self.session = m.SessionId(session)
        self.tree = tree or SpanTree(content=content)
        self.steps = []

    def say(self, *events, at=None):
        at_ms = 1_000 * len(self.steps) if at is None else at
        number = sum(len(one.effects) for one in self.steps)
        placed = [
            msgspec.structs.replace(
                event, meta=e.Envelope(self.session, number + place, at_ms, (self.session,))
            )
            for place, event in enumerate(events, start=1)
        ]
        self.steps.append(Step(at_ms, *placed))
        return self

    def spans(self):
        return self.tree.spans_of("", self.session, self.steps)


def prompt(text=f"a {CANARY}"):
    return e.PromptReceived(ref="p1", content=(m.Text(text=text),))


START = e.AgentStart(ref=m.PromptRef("p1"))
END = e.AgentEnd(
    messages=(), usage=m.TokenUsage(input=9, output=3, cost_usd=None), stop_reason="end", turns=2
)
REQUEST = e.RequestStart(model="google:gemini-x", messages=1)
CALLED = e.ToolExecutionStart(name="read", call_id=CALL, arguments=frozen_json({"path": CANARY}))
RETURNED = e.ToolExecutionEnd(
    name="read", call_id=CALL, result=m.ToolResult(call_id=CALL, name="read", text=CANARY)
)


def answer(*blocks, model=f"{CANARY}-model"):
    return e.ResponseComplete(
        message=m.AssistantMessage(content=blocks, model=model),
        usage=m.TokenUsage(input=5, output=2, cache_read=3, cache_write=1, cost_usd=0.5),
        stop_reason="tool_use",
    )


SAID = answer(
    m.Text(text=CANARY),
    m.Thinking(text=CANARY, provider="x"),
    m.ToolCall(call_id=CALL, name="read", arguments=frozen_json({"path": CANARY})),
)


def whole(*, content=True):
    return Story(content=content).say(prompt(), START, REQUEST).say(SAID).say(CALLED).say(RETURNED).say(END)


@pytest.mark.journal(25)
def test_without_content_no_word_is_in_them():
    """Nor what a model or a vendor made up: ids of calls, names of tools that there are not, codes of errors."""
    invented = e.ToolExecutionStart(name=f"{CANARY}_tool", call_id="c2", arguments=frozen_json({}))
    wrong = m.ToolResult(call_id="c2", name=f"{CANARY}_tool", text=CANARY, is_error=True)
    failed = e.ToolExecutionEnd(name=f"{CANARY}_tool", call_id="c2", result=wrong)
    told = ErrorInfo(code=CANARY, message=CANARY)
    story = whole(content=False).say(prompt(), START, REQUEST).say(e.StreamError(error=told))
    story.say(e.Retry(attempt=2, delay_ms=5, error=told)).say(invented)
    story.say(e.SubagentStart(child_id="s:c2", call_id="c2", description=CANARY))
    story.say(e.SubagentEnd(child_id="s:c2", call_id="c2", result=wrong)).say(failed)
    story.say(e.AgentError(error=told))
    text = encode_otlp(story.spans())
    assert CANARY.encode() not in text
    assert b"execute_tool _OTHER" in text
    assert b'"stringValue":"_OTHER"' in text
    assert b'"stringValue":"tool_error"' in text
    assert b"execute_tool read" in text


def test_what_ends_with_its_cycle_says_so():
    """An abort cuts the request and the calls, which is no error; in idle it has no span, nor have ends without a beginning."""
    story = Story().say(e.AgentAbort(reason=None)).say(START, REQUEST).say(CALLED)
    cycle, request, call = story.say(e.AgentAbort(reason="enough")).spans()
    assert cycle.attributes["agentrail.outcome"] == "aborted"
    assert cycle.error is None
    assert "agentrail.incomplete" not in cycle.attributes
    assert request.attributes["agentrail.incomplete"] is True
    assert call.attributes["agentrail.incomplete"] is True
    assert (request.ended_at_ms, call.ended_at_ms) == (3_000, 3_000)

    result = m.ToolResult(call_id="c", name="read", text="x")
    story = Story().say(SAID).say(RETURNED).say(e.SubagentEnd(child_id="s:c", call_id="c", result=result))
    assert story.say(e.Retry(attempt=2, delay_ms=1, error=ErrorInfo(code="x", message="y"))).spans() == ()
    assert encode_otlp(()) == b""


def test_a_child_stands_below_its_call_and_its_cycles_below_it():
    """In the trace of the cycle that asked; a background agent may outlive that."""
    tree = SpanTree()
    result = m.ToolResult(call_id="c1", name="task", text="found")
    task = e.ToolExecutionStart(name="task", call_id="c1", arguments=frozen_json({}))
    story = Story("s", tree=tree).say(START).say(task)
    story.say(e.SubagentStart(child_id="s:c1", call_id="c1", description="Look.")).say(END)
    cycle, call, child = story.say(e.SubagentEnd(child_id="s:c1", call_id="c1", result=result)).spans()
    assert (child.parent_id, child.trace_id) == (call.span_id, cycle.trace_id)
    assert child.attributes["gen_ai.agent.description"] == "Look."
    assert child.attributes["agentrail.child"] == "s:c1"
    assert child.ended_at_ms > cycle.ended_at_ms
    below, _ = Story("s:c1", tree=tree).say(START, REQUEST).say(SAID).say(END).spans()
    assert (below.parent_id, below.trace_id) == (child.span_id, cycle.trace_id)
    alone, _ = Story("s:c1").say(START, REQUEST).say(SAID).say(END).spans()
    assert alone.parent_id == ""


def test_what_happens_within_a_cycle_is_a_moment_of_it():
    """Approvals, retries and recoveries: a wait for three days is no span."""
    no_arguments = frozen_json({})
    asked = e.Approval(
        id="s/a1",
        call_id="c1",
        tool="read",
        arguments=no_arguments,
        arguments_hash="0",
        requested_at_ms=1,
        path=("s",),
    )
    story = Story().say(START).say(e.ApprovalRequired(approval=asked)).say(e.TodoChange(todos=()))
    story.say(e.ApprovalResolved(approval=asked, status="approved", by="user"))
    story.say(e.SessionRecovered(decisions=(e.RecoveryDecision(open="tool", id="t1", decision="run_again"),)))
    story.say(e.ToolBlocked(name="read", call_id="c9", reason="no", by="guard"))
    story.say(CALLED).say(e.ToolBlocked(name="read", call_id=CALLED.call_id, reason="no", by="guard"))
    story.say(e.ToolKilled(name="read", call_id=CALLED.call_id, reason="no"))
    cycle, call = story.say(END).spans()
    moments = [name.removeprefix("agentrail.") for name, _, _ in cycle.moments]
    assert moments == ["approval.required", "approval.resolved", "recovered"]
    assert cycle.moments[1][1:] == (3_000, {"agentrail.status": "approved", "agentrail.by": "user"})
    assert call.attributes["agentrail.blocked_by"] == "guard"
    assert call.attributes["agentrail.killed"] is True


def test_the_form_is_that_of_the_file_exporter():
    """Numbers of 64 bits as text, ids in hexadecimal digits, kinds and codes as numbers, one line."""
    told = ErrorInfo(code="rate_limited", message="wait")
    story = (
        whole()
        .say(START, REQUEST)
        .say(e.Retry(attempt=2, delay_ms=1, error=told))
        .say(e.StreamError(error=told))
    )
    text = encode_otlp(story.spans())
    assert text.count(b"\n") == 1
    (resource,) = json.loads(text)["resourceSpans"]
    assert resource["resource"]["attributes"][0]["value"] == {"stringValue": "agentrail"}
    (scope,) = resource["scopeSpans"]
    spans = scope["spans"]
    assert spans[1]["parentSpanId"] == spans[0]["spanId"]
    assert "parentSpanId" not in spans[0]
    assert (spans[0]["kind"], spans[1]["kind"]) == (1, 3)
    assert spans[1]["endTimeUnixNano"] == "1000000000"
    values = {one["key"]: one["value"] for one in spans[1]["attributes"]}
    assert values["gen_ai.usage.input_tokens"] == {"intValue": "5"}
    assert values["agentrail.cost_usd"] == {"doubleValue": 0.5}
    assert values["gen_ai.response.finish_reasons"] == {
        "arrayValue": {"values": [{"stringValue": "tool_use"}]}
    }
    assert spans[0]["status"] == {}
    assert spans[4]["status"] == {"code": 2, "message": "wait"}
    assert spans[3]["events"][0]["name"] == "agentrail.retry"
    cut = {one["key"]: one["value"] for one in spans[3]["attributes"]}
    assert cut["agentrail.incomplete"] == {"boolValue": True}


@pytest.mark.parametrize("name", ["plain", "guarded", "taken_over"])
@pytest.mark.parametrize("content", [True, False])
def test_golden_journals_have_spans(name, content):
    """Whatever is in them: a drift, a change, a rewind."""
    records = read_journal((FOLDER / f"{name}.jsonl").read_bytes()).records
    start = first_state(records, SOURCES)
    spans = SpanTree(content=content).spans_of("", m.SessionId("s"), walk(start, records, sources=SOURCES))
    assert len({one.span_id for one in spans}) == len(spans) >= 3
    text = encode_otlp(spans)
    assert (b"What is in a?" in text or b"Deploy it." in text) is content
