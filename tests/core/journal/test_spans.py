"""Spans of a journal: one for each cycle, request, call and child, the same each time; without content no word is in them."""

import json

import msgspec
import pytest

from agentrail import events as e, messages as m
from agentrail.core.journal.fold import first_state, walk
from agentrail.core.journal.jsonl import read_journal
from agentrail.core.journal.spans import SessionSpans, encode_otlp
from agentrail.core.protocol.effects import Publish
from agentrail.core.values.trace_carriers import UNDECIDED
from agentrail.errors import ErrorInfo
from agentrail.frozen import frozen_json
from tests.core.journal.golden_journals import FOLDER, SOURCES

CANARY = "canary"
AMOUNT = e.Amount(value=1, unit="tokens")
CALL = m.CallId(f"{CANARY}-1")


class Story:
    """Feeds a session's events and keeps the spans that they close, in the order in which they began."""

    def __init__(self, session="s", *, content=True, **given):
        self.session = m.SessionId(session)
        self.made = SessionSpans(session=self.session, content=content, **given)
        self.seq = self.steps = 0
        self.closed = []

    def say(self, *events, at=None):
        at_ms = 1_000 * self.steps if at is None else at
        self.steps += 1
        for event in events:
            self.seq += 1
            meta = e.Envelope(self.session, self.seq, at_ms, (self.session,))
            self.closed += self.made.feed(msgspec.structs.replace(event, meta=meta))
        return self

    def spans(self):
        return tuple(sorted([*self.closed, *self.made.close()], key=lambda one: one.number))


def prompt(text=f"a {CANARY}", **given):
    return e.PromptReceived(ref="p1", content=(m.Text(text=text),), **given)


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
    story.say(e.ToolCallUnknown(name=f"{CANARY}_tool", call_id="c2"))
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
    """In the trace of the cycle that asked, which its prompt carries."""
    result = m.ToolResult(call_id="c1", name="task", text="found")
    task = e.ToolExecutionStart(name="task", call_id="c1", arguments=frozen_json({}))
    story = Story("s").say(START).say(task)
    story.say(e.SubagentStart(child_id="s.c1", call_id="c1", description="Look."))
    story.say(e.SubagentEnd(child_id="s.c1", call_id="c1", result=result)).say(END)
    cycle, call, child = story.spans()
    assert (child.parent_id, child.trace_id) == (call.span_id, cycle.trace_id)
    assert child.attributes["gen_ai.agent.description"] == "Look."
    assert child.attributes["agentrail.child"] == "s.c1"
    assert child.attributes["agentrail.depth"] == 1
    carried = m.TraceContext(traceparent=f"00-{child.trace_id}-{child.span_id}-00", tracestate=UNDECIDED)
    below, _ = Story("s.c1").say(prompt(trace=carried), START, REQUEST).say(SAID).say(END).spans()
    assert (below.parent_id, below.trace_id) == (child.span_id, cycle.trace_id)
    assert below.sampled is None
    alone, _ = Story("s.c1").say(START, REQUEST).say(SAID).say(END).spans()
    assert alone.parent_id == ""


def test_a_background_agent_has_a_trace_of_its_own_with_a_link():
    """It may outlive the cycle that started it, so it is no child of it."""
    result = m.ToolResult(call_id="c1", name="spawn_agent", text="found", is_error=True)
    spawn = e.ToolExecutionStart(name="spawn_agent", call_id="c1", arguments=frozen_json({}))
    begun = e.SubagentStart(child_id="s:scout", call_id="c1", description="Look.")
    ended = e.SubagentEnd(child_id="s:scout", call_id="c1", result=result)
    story = Story("s").say(START).say(spawn).say(begun).say(END)
    assert story.made.first_needed == 1
    cycle, call, agent = story.say(ended).spans()
    assert agent.trace_id != cycle.trace_id
    assert agent.parent_id == ""
    assert agent.links == ((cycle.trace_id, call.span_id, {}),)
    assert agent.error == "tool_error"
    assert agent.ended_at_ms > cycle.ended_at_ms
    (late,) = Story("s").say(begun).say(ended).spans()
    assert (late.trace_id, late.links) == (agent.trace_id, ())


def test_what_happens_within_a_cycle_is_a_moment_of_it():
    """Approvals: a wait for three days is no span. What a plugin does to a call is a moment of the call."""
    no_arguments = frozen_json({})
    asked = e.Approval(
        id="s/a1",
        call_id=CALL,
        tool="read",
        arguments=no_arguments,
        arguments_hash="0",
        requested_at_ms=1,
        path=("s",),
    )
    story = Story().say(START).say(e.ApprovalRequired(approval=asked)).say(e.TodoChange(todos=()))
    story.say(e.ApprovalResolved(approval=asked, status="approved", by="user"))
    story.say(e.ToolBlocked(name="read", call_id="c9", reason="no", by="guard"))
    story.say(CALLED).say(e.ToolBlocked(name="read", call_id=CALLED.call_id, reason="no", by="guard"))
    story.say(e.ToolKilled(name="read", call_id=CALLED.call_id, reason="no"))
    cycle, call = story.say(END).spans()
    moments = [name.removeprefix("agentrail.") for name, _, _ in cycle.moments]
    assert moments == ["approval.required", "approval.resolved"]
    decided = {"agentrail.approval": "s/a1", "agentrail.status": "approved", "agentrail.by": "user"}
    assert cycle.moments[1][1:] == (3_000, decided)
    assert call.attributes["agentrail.approval"] == "approved"
    assert call.attributes["agentrail.blocked_by"] == "guard"
    blocked = {"agentrail.plugin": "guard", "agentrail.hook": "before_tool", "agentrail.action": "blocked"}
    assert call.moments == (("agentrail.plugin", 6_000, blocked),)
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
    made = SessionSpans(session=m.SessionId("s"), content=content)
    spans = []
    for step in walk(first_state(records, SOURCES), records, sources=SOURCES):
        for effect in step.effects:
            if isinstance(effect, Publish):
                spans += made.feed(effect.event)
    spans += made.close()
    assert len({one.span_id for one in spans}) == len(spans) >= 3
    text = encode_otlp(spans)
    assert (b"What is in a?" in text or b"Deploy it." in text) is content


# --- the rows of the table in 13.2


def only(spans, name):
    (found,) = (one for one in spans if one.name == name)
    return found


CALLER = m.TraceContext(traceparent=f"00-{'a' * 32}-{'b' * 16}-01")


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        (CALLER, ("a" * 32, "b" * 16, True)),
        (m.TraceContext(traceparent=f"00-{'a' * 32}-{'b' * 16}-02"), ("a" * 32, "b" * 16, False)),
        (None, (None, "", None)),
    ],
)
def test_a_cycle_continues_the_trace_of_its_prompt(trace, expected, queued):
    """The caller's span is its parent, and the caller's flag decides, for a queued prompt too."""
    given = {"ref": "p1", "content": (m.Text(text="a"),), "via": "http", "trace": trace}
    received = e.PromptQueued(position=0, **given) if queued else e.PromptReceived(**given)
    user_data = {"agent_id": "desk", "tenant_id": "acme"}
    story = Story(content=False, user_data=user_data, tenant=True).say(received)
    assert story.made.first_needed == 1
    cycle, request = story.say(e.AgentStart(ref="p1", request_id="r7"), REQUEST).say(END).spans()
    trace_id, parent_id, sampled = expected
    assert cycle.trace_id == request.trace_id == (trace_id or cycle.trace_id)
    assert (cycle.parent_id, cycle.sampled, request.sampled) == (parent_id, sampled, sampled)
    assert cycle.name == "invoke_agent desk"
    told = {
        "gen_ai.agent.name": "desk",
        "agentrail.tenant": "acme",
        "agentrail.via": "http",
        "agentrail.request_id": "r7",
    }
    assert told.items() <= cycle.attributes.items()
    assert story.made.first_needed is None
    (alone,) = Story(content=False, user_data=user_data).say(received, START).spans()
    assert alone.span_id == cycle.span_id
    assert "agentrail.tenant" not in alone.attributes


def test_prompts_that_never_start_are_forgotten():
    """Otherwise the fold would grow, and the cursor would stand still."""
    story = Story()
    for number, end in enumerate((e.PromptDropped, e.PromptRejected, e.PromptTaken)):
        ref = f"p{number}"
        story.say(e.PromptQueued(ref=ref, content=(m.Text(text="a"),), position=0))
        more = {
            e.PromptDropped: {"content": ()},
            e.PromptRejected: {"reason": "no"},
            e.PromptTaken: {"approval_id": "s/a1", "by": "words"},
        }[end]
        story.say(end(ref=ref, **more))
    assert story.made.first_needed is None
    assert story.spans() == ()


def test_each_attempt_is_a_span_with_its_reason():
    """A failed attempt ends where its failure is told, whether or not it had begun to stream."""
    told = ErrorInfo(code="rate_limited", message="wait")
    switch = e.ModelSwitched(from_model="google:gemini-x", to_model="demo", by="fallback")
    story = Story(content=False).say(START, REQUEST).say(e.MessageStart()).say(e.StreamError(error=told))
    story.say(e.Retry(attempt=2, delay_ms=5, error=told))
    story.say(e.RequestStart(model="demo", messages=1, attempt=2)).say(switch)
    story.say(e.RequestStart(model="demo", messages=1)).say(e.ContextOverflow(error=told))
    story.say(e.RequestStart(model="demo", messages=1)).say(answer(model="demo"))
    story.say(e.RequestStart(model="x" * 10_000, messages=1))
    cycle, *requests = story.say(e.AgentError(error=told)).spans()
    assert [one.error for one in requests] == ["rate_limited", "_OTHER", "rate_limited", None, "rate_limited"]
    assert [one.attributes.get("agentrail.retry_reason") for one in requests] == [
        None,
        "rate_limited",
        "_OTHER",
        "rate_limited",
        None,
    ]
    assert requests[0].attributes["gen_ai.response.time_to_first_chunk"] == 1.0
    assert requests[3].attributes["gen_ai.response.model"] == "demo"
    assert "gen_ai.usage.reasoning.output_tokens" not in requests[3].attributes  # it is 0
    assert len(requests[4].name) < 300
    assert cycle.error == "rate_limited"
    assert [name for name, _, _ in cycle.moments] == ["agentrail.retry"]


def test_the_trace_of_an_answer_without_its_request_is_no_error():
    """Nor a first chunk, nor a switch by a user."""
    story = Story().say(e.MessageStart()).say(SAID)
    assert story.say(e.ModelSwitched(from_model="a", to_model="b", by="user")).spans() == ()


def test_calls_say_what_became_of_them():
    """Of an MCP server, retried, spared by an abort, and left open by a rewind."""

    def start(name, call_id):
        return e.ToolExecutionStart(name=name, call_id=call_id, arguments=frozen_json({}))

    told = ErrorInfo(code="x", message="y")
    story = Story(content=False).say(START, start("mcp__files__read", "c1"), start("kb_search", "c2"))
    story.say(e.ToolRetry(name="kb_search", call_id="c2", attempt=2, error=told)).say(start("read", "c3"))
    story.say(start("read", "c3"), e.PluginSlow(plugin="audit", hook="after_tool", milliseconds=9))
    story.say(e.AgentAbort(reason="enough"))
    assert story.closed[0].attributes["agentrail.incomplete"] is True
    receipt = e.AbortReceipt(survivors=("c1", "c2"), unknown=("c3",), milliseconds=12)
    cycle = only(story.say(e.AbortSettled(receipt=receipt)).closed, "invoke_agent")
    assert cycle.attributes["agentrail.abort.survivors"] == 2
    assert cycle.attributes["agentrail.abort.milliseconds"] == 12
    result = m.ToolResult(call_id="c1", name="mcp__files__read", text="x")
    story.say(e.PromptQueued(ref="p3", content=(), position=0))
    story.say(e.AgentStart(ref="p2"), START).say(
        e.ToolExecutionEnd(name="mcp__files__read", call_id="c1", result=result)
    )
    of_server = only(story.closed, "execute_tool mcp__files__read")
    assert of_server.attributes["mcp.method.name"] == "tools/call"
    assert of_server.attributes["agentrail.mcp.server"] == "files"
    assert of_server.attributes["agentrail.survived"] is True
    assert "agentrail.incomplete" not in of_server.attributes
    of_knowledge = only(story.say(e.SessionEnd(reason="stopped")).closed, "execute_tool kb_search")
    assert of_knowledge.attributes["gen_ai.tool.type"] == "datastore"
    assert of_knowledge.attributes["agentrail.attempts"] == 3
    assert of_knowledge.attributes["agentrail.incomplete"] is True
    assert story.made.first_needed is None
    assert story.say(e.AbortSettled(receipt=receipt)).made.feed(END) == ()  # without a number


def test_a_recovered_cycle_goes_on_in_a_new_span():
    """In the same trace, below the same caller, with a link to the one that was cut. Its calls keep their spans."""
    decision = e.RecoveryDecision(open="tool", id="t1", decision="run_again")
    recovered = e.SessionRecovered(decisions=(decision,))
    story = Story(content=False).say(prompt(trace=CALLER), START, CALLED).say(recovered, at=9_000)
    before = only(story.closed, "invoke_agent")
    assert before.ended_at_ms == 0  # its last sign of life
    assert before.attributes["agentrail.incomplete"] is True
    story.say(RETURNED).say(REQUEST)
    assert story.made.first_needed == 1
    story.say(END)
    _, call, after, request = story.spans()
    assert (after.trace_id, after.parent_id, after.sampled) == ("a" * 32, "b" * 16, True)
    assert after.span_id != before.span_id
    assert after.links == ((before.trace_id, before.span_id, {"agentrail.cause": "recovered"}),)
    assert after.attributes["agentrail.decisions"] == 1
    assert after.attributes["agentrail.outcome"] == "done"
    assert "agentrail.incomplete" not in after.attributes
    assert (call.parent_id, request.parent_id) == (before.span_id, after.span_id)
    assert Story().say(recovered).spans() == ()


def test_compactions_are_spans_and_plugins_are_moments():
    """Outside a cycle too. A skipped or interrupted compaction is marked incomplete."""
    end = e.CompactEnd(removed=4, tokens_before=9, tokens_after=3, saved_to=None)
    story = Story(content=False).say(START, e.CompactStart(reason=CANARY)).say(end).say(end)
    story.say(e.CompactStart(reason="threshold"), e.CompactStart(reason="threshold"))
    story.say(e.CompactSkipped(by="thrift", reason="plugin"))
    story.say(e.Intervention(prompt=CANARY, by=("coach",)), e.BudgetWarning(spent=AMOUNT, limit=AMOUNT))
    cycle, done, cut, skipped = story.say(END).spans()
    assert {one.name for one in (done, cut, skipped)} == {"agentrail.compaction"}
    assert done.attributes["agentrail.tokens_after"] == 3
    assert cut.attributes["agentrail.incomplete"] is skipped.attributes["agentrail.incomplete"] is True
    plugins = [attributes.get("agentrail.plugin") for _, _, attributes in cycle.moments]
    assert plugins == ["thrift", "coach", None]
    assert cycle.moments[2][0] == "agentrail.budget"
    alone = Story(content=False).say(e.CompactStart(reason="asked")).say(end).spans()
    assert [one.parent_id for one in alone] == [""]


def test_content_is_scrubbed_and_then_cut():
    """8 KiB of each attribute. A secret is replaced before, as half of one would not be recognised."""
    known = "s3cret"
    long = "x" * 8_180 + known + "é" * 9_000
    story = Story(scrub=lambda text: text.replace(known, "[withheld]"))
    story.say(prompt(long), START, CALLED)
    result = m.ToolResult(call_id=CALL, name="read", text=long, is_error=True)
    story.say(e.ToolExecutionEnd(name="read", call_id=CALL, result=result)).say(END)
    cycle, call = story.spans()
    texts = [
        cycle.attributes["gen_ai.input.messages"],
        call.attributes["gen_ai.tool.call.result"],
        call.message,
    ]
    for text in texts:
        assert "s3c" not in text
        assert 8_190 <= len(text.encode()) <= 8_192
    assert texts[1].endswith("[withheld]é")
    assert call.error == "tool_error"


def test_events_that_were_fed_before_close_nothing():
    """The reader feeds some twice. Ephemeral ones have the number of another."""
    story = whole()
    meta = e.Envelope(story.session, story.seq, 0, (story.session,))
    again = msgspec.structs.replace(END, meta=meta)
    assert story.made.feed(again) == ()
    passing = msgspec.structs.replace(END, meta=msgspec.structs.replace(meta, seq=99, ephemeral=True))
    assert story.made.feed(passing) == ()


def test_links_and_child_traces_are_written_as_otlp():
    """The root of a background agent links to the call that started it, by trace and span id."""
    spans = (
        Story()
        .say(START, CALLED)
        .say(e.SubagentStart(child_id="s:a", call_id=CALL, description="Look."))
        .spans()
    )
    (resource,) = json.loads(encode_otlp(spans))["resourceSpans"]
    written = resource["scopeSpans"][0]["spans"]
    assert written[2]["links"] == [
        {"traceId": written[1]["traceId"], "spanId": written[1]["spanId"], "attributes": []}
    ]
    assert "schemaUrl" not in resource


def test_what_a_rewind_leaves_open_is_cut_by_the_next_cycle():
    """Otherwise the fold would grow, and the cursor would stand still."""
    child = e.SubagentStart(child_id="s.c1", call_id=CALL, description="Look.")
    story = Story().say(START, REQUEST, CALLED).say(child).say(e.AgentStart(ref="p2")).say(END)
    assert story.made.first_needed is None
    assert len(story.closed) == 5
    cut = [one.name for one in story.closed if "agentrail.incomplete" in one.attributes]
    assert sorted(cut) == ["chat gemini-x", "execute_tool read", "invoke_agent", "invoke_agent"]


def test_a_span_has_a_bounded_number_of_moments():
    """As OpenTelemetry's SDK bounds it: a cycle may wait for days."""
    story = Story().say(START)
    for _ in range(200):
        story.say(e.PluginSlow(plugin="audit", hook="after_tool", milliseconds=9))
    (cycle,) = story.say(END).spans()
    assert len(cycle.moments) == 128


def test_a_clock_that_goes_back_makes_no_span_end_before_its_beginning():
    """Nor a first chunk that came before its request."""
    story = Story().say(START, REQUEST, at=5_000).say(e.MessageStart(), at=4_000).say(SAID, at=3_000)
    cycle, request = story.say(END, at=1_000).spans()
    assert [one.ended_at_ms for one in (cycle, request)] == [5_000, 5_000]
    assert request.attributes["gen_ai.response.time_to_first_chunk"] == 0.0


def test_a_name_that_is_no_unicode_is_exported_all_the_same():
    """No exporter can encode a lone surrogate: it would send the same spans again and again, and no others."""
    bad = "a\ud800"
    story = Story(user_data={"agent_id": bad}).say(START, e.RequestStart(model=f"x:{bad}", messages=1))
    story.say(answer(model=bad)).say(e.ToolExecutionStart(name=bad, call_id=CALL, arguments=frozen_json({})))
    spans = story.say(END).spans()
    assert {one.name for one in spans} == {"invoke_agent a?", "chat a?", "execute_tool a?"}
    assert encode_otlp(spans)
