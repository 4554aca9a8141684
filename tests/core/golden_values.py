"""The values behind the golden files: one event and one signal of each kind, with something in every field.

`tests/core/golden/events` and `.../signals` hold them as today's codec writes them. Before a release the files of a folder
are copied into one below it that is named after the version, and never edited again: what was stored then must decode
to the same values for ever. `python -m tests.core.golden_values` stores today's anew; read the diff as a change of what
people have on disk.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from agentrail import events as e, messages as m
from agentrail.core.policy.budget import Budget, Spent
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.protocol import hooks, request as wire, signals as s
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.tool_changes import RequestCompaction, UpdateContext, UpdateTodos
from agentrail.core.protocol.tool_questions import ToolQuestion
from agentrail.core.values.instruction_order import InstructionFile
from agentrail.core.values.notes_markdown import NoteTopic
from agentrail.core.values.toolbox import ToolSpec
from agentrail.core.wire.codec import SIGNAL_KINDS, encode_event, encode_signal
from agentrail.errors import ErrorInfo

GOLDEN: Final = Path(__file__).parent / "golden"

_ROOT, _CHILD = m.SessionId("s-root"), m.SessionId("s-child")
_CALL = m.CallId("call_1")
_P = m.PromptRef("p-1")
_ERROR = ErrorInfo(
    code="rate_limited", message="slow down: 20 requests a minute", retryable=True, retry_after_seconds=7.5
)
USAGE = m.TokenUsage(
    input=1200, output=34, cache_read=1000, cache_write=100, reasoning=7, cost_usd=0.0125, estimated=True
)
ASKED = (
    m.Text(text='Was ist das? Ünïcode, "quotes"\nand lines'),
    m.Image(media_type="image/png", data="iVBORw0KGgo=", name="a.png"),
    m.FileRef(path="src/a.py"),
)
_SAID = m.AssistantMessage(
    content=(
        m.Thinking(text="I should look.", signature="c2lnbmVk", provider="anthropic"),
        m.Opaque(provider="openai", payload={"type": "reasoning", "encrypted": "AAAA"}),
        m.Text(text="Let me look."),
        m.ToolCall(
            call_id=_CALL,
            name="read_file",
            arguments={"path": "src/a.py", "limit": 10, "deep": [1.5, None, True]},
        ),
        m.ToolCall(call_id=m.CallId("call_2"), name="grep", arguments=None, malformed='{"pattern": '),
    ),
    model="anthropic:claude",
    stop_reason="tool_use",
)
_RESULT = m.ToolResult(call_id=_CALL, name="read_file", text="1\thello", is_error=False, details={"lines": 1})
_CUT = m.AssistantMessage(
    content=(m.Text(text="It is"),), model="anthropic:claude", stop_reason="end", cut=True
)
_CYCLE = (
    m.UserMessage(content=ASKED, ref=_P),
    _SAID,
    m.ToolMessage(
        results=(
            _RESULT,
            m.ToolResult(call_id=m.CallId("call_2"), name="grep", text="Malformed arguments", is_error=True),
        )
    ),
    m.UserMessage(content=(m.Text(text="Only the tests"),), origin="steer"),
    _CUT,
)
_RECEIPT = e.AbortReceipt(
    settled=True,
    tasks_ended=2,
    processes_reaped=3,
    stuck=(e.LeftBehind(name="shell", age_ms=6012, pid=4711),),
    abandoned=(e.LeftBehind(name="hash", age_ms=77),),
    committed=(_CALL,),
    unknown=(_CALL,),
    survivors=(_CALL,),
    milliseconds=41,
)
_APPROVAL = e.Approval(
    id=m.ApprovalId("a-1"),
    call_id=_CALL,
    tool="shell",
    arguments={"command": "git push"},
    arguments_hash="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    hint="it leaves this machine",
    requested_at_ms=1_700_000_000_100,
    expires_at_ms=1_700_000_120_100,
    path=(_ROOT, _CHILD),
)
_FORM: Final[m.JsonObject] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "title": "Your name"},
        "age": {"type": "integer", "minimum": 0},
        "side": {"enum": ["left", "right"], "default": "left"},
        "sure": {"type": "boolean"},
    },
    "required": ["name"],
}
_PLAN = e.Plan(
    steps=(e.PlanStep(index=0, content="Read the code", done=True), e.PlanStep(index=1, content="Change it"))
)


def _published(event: e.Event, *path: m.SessionId) -> e.Event:
    meta = e.Envelope(path[-1], 7, 1_700_000_000_000, path, type(event) in e.EPHEMERAL)
    return msgspec.structs.replace(event, meta=meta)


_ALL_EVENTS: Final[tuple[e.Event, ...]] = (
    # --- session and cycle
    e.SessionStart(model="anthropic:claude", tools=("grep", "read_file"), plugins=("SecurityGuard",)),
    e.SessionRestarted(reason="ValueError: bad city", incarnation=2),
    e.SessionRecovered(
        decisions=(
            e.RecoveryDecision(open="request", id="r1", name="anthropic:claude", decision="sent_again"),
            e.RecoveryDecision(open="tool", id="call_1", name="shell", decision="unknown"),
            e.RecoveryDecision(open="approval", id="a-1", decision="expired"),
        )
    ),
    e.SessionEnd(reason="stopped"),
    e.SessionParked(reason="ValueError: bad city"),
    e.PromptReceived(ref=_P, content=ASKED),
    e.PromptQueued(ref=_P, content=ASKED, position=3),
    e.PromptDropped(ref=_P, content=ASKED),
    e.PromptRejected(ref=_P, reason="no brand names"),
    e.PromptTaken(ref=_P, approval_id=m.ApprovalId("s-1/a4"), by="HumanApproval"),
    e.AgentStart(ref=_P),
    e.AgentEnd(messages=_CYCLE, usage=USAGE, stop_reason="max_turns"),
    e.AgentAbort(reason="changed my mind"),
    e.AbortSettled(receipt=_RECEIPT),
    e.AgentError(error=_ERROR),
    e.AgentSuspended(
        waiting=(
            e.WaitingFor(kind="approval", id=m.ApprovalId("a-1"), call_id=_CALL),
            e.WaitingFor(kind="question", id=m.QuestionRef("q-1"), call_id=m.CallId("call_2")),
        )
    ),
    e.AgentResumed(trigger="tool_approved"),
    e.AgentChanged(from_agent="clerk", to_agent="poet", note="He wants a rhyme."),
    e.MaxTurnsReached(turns=100),
    e.SignalQuarantined(signal_kind="Prompt", error=_ERROR),
    e.EventsLost(from_seq=3, to_seq=1_003),
    # --- response
    e.RequestStart(model="anthropic:claude", messages=5, context_messages=1, context_digest="ab12", attempt=2),
    e.MessageStart(attempt=2),
    e.MessageDelta(delta="It is ", attempt=2),
    e.ThinkingStart(attempt=2),
    e.ThinkingDelta(delta="Hm", attempt=2),
    e.StatusUpdate(text="reading the code"),
    e.TitleGenerated(title="A bug in the parser"),
    e.ResponseComplete(message=_SAID, usage=USAGE, stop_reason="tool_use", attempt=2),
    e.StreamError(error=_ERROR, attempt=1, discarded=True),
    e.StreamStalled(elapsed_seconds=10.5),
    e.Retry(attempt=2, delay_ms=1_250, error=_ERROR),
    e.ContextOverflow(error=_ERROR),
    e.ModelSwitched(from_model="anthropic:claude", to_model="openai:gpt", provider_opts_changed=True, by="fallback"),
    # --- tools
    e.ToolCalls(count=2),
    e.ToolExecutionStart(name="read_file", call_id=_CALL, arguments={"path": "src/a.py", "limit": 10}),
    e.ToolProgress(name="shell", call_id=_CALL, text="12 of 40"),
    e.ToolExecutionEnd(name="read_file", call_id=_CALL, result=_RESULT),
    e.ToolExecutionMetrics(
        name="read_file", call_id=_CALL, started_at_ms=1_700_000_000_000, ended_at_ms=1_700_000_000_012, duration_ms=12, attempts=2
    ),
    e.ToolBlocked(name="shell", call_id=_CALL, reason="mkfs is not allowed", by="SecurityGuard"),
    e.ToolKilled(name="shell", call_id=_CALL, reason="aborted by the user"),
    e.ToolSkippedForSteering(name="shell", call_id=_CALL, reason="the user steered the conversation"),
    e.ToolTookEffect(name="read_file", call_id=_CALL, result=_RESULT),
    e.ToolRetry(name="shell", call_id=_CALL, attempt=1, error=_ERROR),
    e.ToolCallUnknown(name="raed_file", call_id=_CALL),
    e.ToolAttached(name="grep"),
    e.ToolDetached(name="grep"),
    e.ToolsUpdated(attached=("grep",), detached=("glob", "shell")),
    e.ToolSourceChanged(source="mcp:tracker", state="needs_login", reason="agentrail mcp login tracker"),
    e.LoopDetected(type="file_loop_warn", name="edit_file", count=2),
    e.LargeResultOffloaded(name="shell", call_id=_CALL, path=".agentrail/output/call_1.txt", bytes=1_234_567),
    # --- people, steering, context
    e.ApprovalRequired(approval=_APPROVAL),
    e.ApprovalResolved(approval=_APPROVAL, status="rejected", by="user"),
    e.ToolApprovedAlways(tool="shell", command_family="git status"),
    e.AskUser(ref=m.QuestionRef("q-1"), question="Which one?", options=("left", "right")),
    e.UserResponded(ref=m.QuestionRef("q-1"), response="left"),
    e.ClientCall(
        ref=m.ClientCallRef("s-root/a7"), name="show_map", call_id=_CALL, arguments={"place": "Lisbon", "zoom": 3}
    ),
    e.UserDeclined(ref=m.QuestionRef("q-1"), reason="not your business"),
    e.SteeringReceived(ref=m.SteerRef("st-1"), text="Only the tests", queued_at_ms=1_700_000_000_000, status="queued"),
    e.SteeringApplied(refs=(m.SteerRef("st-1"), m.SteerRef("st-2")), count=2),
    e.CompactDue(reason="threshold", messages=40, tokens=171_000),
    e.CompactStart(reason="threshold"),
    e.CompactEnd(removed=40, tokens_before=170_000, tokens_after=12_000, saved_to=".agentrail/history/1.md"),
    e.CompactSkipped(by="session", reason="nothing_to_cut"),
    # --- sub-sessions
    e.SubagentStart(child_id=_CHILD, call_id=_CALL, description="Look for the bug"),
    e.SubagentEnd(child_id=_CHILD, call_id=_CALL, result=_RESULT),
    e.SubagentEvent(
        call_id=_CALL, child_id=_CHILD, depth=1, event=_published(e.AgentStart(ref=m.PromptRef("p-2")), _ROOT, _CHILD)
    ),
    # --- plans, memory, policy; plugins
    e.TodoChange(todos=(e.Todo(id="1", content="Read the code", status="in_progress"), e.Todo(id="2", content="Change it"))),
    e.PlanGenerated(plan=_PLAN),
    e.PlanStepCompleted(step=_PLAN.steps[0]),
    e.PlanCompleted(plan=_PLAN),
    e.MemoryFlushed(facts=("The parser is in src/a.py.",), count=1),
    e.ContentPolicyViolated(summary="names a competitor", triggered_policies=("competitors",)),
    e.CitationUnknown(citations=("travel.md#L3-L9", "report.pdf#p3")),
    e.BudgetWarning(spent=e.Amount(value=0.81, unit="usd"), limit=e.Amount(value=1.0, unit="usd")),
    e.SkillOpened(name="pdf-forms", digest="9f" * 32, call_id=_CALL),
    e.SkillClosed(name="pdf-forms"),
    e.PluginEvent(name="audit", payload={"tool": "shell", "user_data": {"tenant": "t1"}, "counts": [1, 2.5, None]}),
    e.Intervention(prompt="Run the tests first.", by=("Planning", "Reflection")),
    e.PluginOptsUpdated(plugin="CostGuard", success=False, error=_ERROR),
    e.PluginFailed(plugin="CostGuard", hook="BeforeRequest", error=_ERROR, policy="open"),
    e.PluginSlow(plugin="CostGuard", hook="BeforeRequest", milliseconds=73),
    e.ActionIgnored(plugin="CostGuard", hook="AfterTurn", action="Intervene"),
)  # fmt: skip

EVENTS: Final[Mapping[str, e.Event]] = {
    e.KINDS[type(event)]: _published(event, _ROOT) for event in _ALL_EVENTS
}

_ASKED_BY = s.SignalId("sig-1")
_EFFECT = wire.EffectId("r1")
_AT = 1_700_000_000_000
_SPENT = Spent(usage=USAGE, tokens=412, nano_usd=1_500_000)
_BY: Final[dict[str, Any]] = {"at_ms": _AT, "signal_id": _ASKED_BY}

_ALL_SIGNALS: Final[tuple[s.Signal, ...]] = (
    s.Prompt(**_BY, ref=_P, content=ASKED, reply="text", client_id="web-7"),
    s.GoOn(**_BY, ref=_P, client_id="web-7", via="http", request_id="req-1", digest="9f86d081884c7d65" * 4),
    s.AbortCycle(**_BY, reason="changed my mind", kill_tools="all", clear_queue=True, wait=False),
    s.StopSession(**_BY, reason="enough"),
    s.ReplyQuery(**_BY),
    s.StatusQuery(**_BY),
    s.MessagesQuery(**_BY),
    s.SnapshotQuery(**_BY),
    s.ReceiptQuery(**_BY, client_id="web-7", digest="9f86d081884c7d65" * 4),
    s.Steer(**_BY, ref=m.SteerRef("st-1"), text="Only the tests", client_id="web-8"),
    s.AbortTool(**_BY, call_id=_CALL, reason="it takes too long"),
    s.Approve(
        **_BY, approval_id=m.ApprovalId("a-1"), how="always", auto_resume=False,
        arguments={"command": "git push --dry-run", "deep": [1.5, None, True]},
    ),
    s.Reject(**_BY, approval_id=m.ApprovalId("a-1"), reason="not today", auto_resume=True),
    s.Respond(**_BY, ref=m.QuestionRef("q-1"), response=1),
    s.AnswerCall(
        **_BY, ref=m.ClientCallRef("s-root/a7"), text="shown", is_error=True, details={"tiles": 4}, images=(ASKED[1],)
    ),
    s.Decline(**_BY, ref=m.QuestionRef("q-1"), reason="not your business"),
    s.RevokeRule(**_BY, tool="shell", command_family="git status"),
    s.AgentCommand(**_BY, action="spawn", name="one", agent="scout", text="Look.", now=True),
    s.ChangeModel(
        **_BY,
        model=wire.ModelFacts(
            model="openai:gpt", context_window=400_000, window_is_assumed=False, max_output_tokens=128_000
        ),
        opts_changed=True,
        described=(ToolSpec(name="shell", description="Run a command.", parameters={"type": "object"}),),
    ),
    s.ChangeTools(
        **_BY,
        attach=(
            ToolSpec(
                name="ask_user",
                description="Ask the user.",
                parameters={"type": "object", "properties": {"question": {"type": "string"}}},
                effect_class="pure",
                killable=False,
                polling=True,
                answered_by="user",
                timeout_seconds=7.5,
                max_retries=2,
            ),
        ),
        detach=("glob", "shell"),
        replace=True,
        generation=3,
    ),
    s.ToolAsked(
        **_BY, effect_id=wire.EffectId("t1"), question="Left or right?", options=("left",), timeout_ms=9,
    ),
    s.ToolWantsChild(
        **_BY, effect_id=wire.EffectId("t1"), prompt="Count the files.", system_prompt="Be brief.",
        tools=("glob",), max_turns=3, model="demo:fast",
    ),
    s.ToolSourceReported(**_BY, source="mcp:files", state="restarting", reason="exit code 1"),
    s.UpdatePluginOpts(**_BY, plugin="CostGuard", options={"max_usd": 2.5, "strict": True}),
    s.ChangePlugins(**_BY, change="detach", name="CostGuard"),
    s.Compact(**_BY, reason="too long"),
    s.SessionBegan(at_ms=_AT),
    s.Restarted(at_ms=_AT, reason="ValueError: bad city", incarnation=2),
    s.Recovered(at_ms=_AT, cause="gone", open=(_EFFECT,), attempt=2),
    s.Parked(at_ms=_AT, reason="ValueError: bad city"),
    s.StepCrashed(at_ms=_AT, signal_kind="ToolFinished", error=_ERROR, asked_by=_ASKED_BY, owed_by=_EFFECT),
    s.PluginLagged(at_ms=_AT, plugin="CostGuard", hook="BeforeRequest", milliseconds=73),
    s.StreamStarted(at_ms=_AT, effect_id=_EFFECT),
    s.ChunksArrived(
        at_ms=_AT,
        effect_id=_EFFECT,
        chunks=(
            wire.TextDelta("It"), wire.ReasoningDelta("Hm", "c2ln"), wire.ToolCallStarted(0, "call_1", "grep"), wire.ArgumentsDelta(0, '{"pat'),
            wire.UsageUpdate(USAGE), wire.Completed("end", _CUT, USAGE),
        ),
    ),
    s.ResponseCompleted(at_ms=_AT, effect_id=_EFFECT, message=_SAID, usage=USAGE, stop_reason="tool_use", jitter=0.25),
    s.StreamFailed(at_ms=_AT, effect_id=_EFFECT, error=_ERROR, usage=USAGE, jitter=0.5),
    s.ToolProgressed(at_ms=_AT, effect_id=wire.EffectId("t1"), text="12 of 40"),
    s.ToolEmitted(at_ms=_AT, effect_id=wire.EffectId("t1"), name="ticket", payload={"id": 7}),
    s.ToolAnsweredEarly(
        at_ms=_AT, effect_id=wire.EffectId("t1"), text="sh-1 runs", details={"id": "sh-1"}, started_at_ms=_AT - 12, ran_ms=12
    ),
    s.ToolFinished(
        at_ms=_AT, effect_id=wire.EffectId("t1"), text="1\thello", is_error=True, details={"lines": 1},
        started_at_ms=_AT - 12, crashed=True, jitter=0.125,
        changes=(
            UpdateTodos(todos=(e.Todo(id="1", content="Read the log", status="in_progress"),)),
            UpdateContext(key="plan", value="Read, then fix."), RequestCompaction(reason="too long"),
        ),
        late=True, spent=_SPENT,
    ),
    s.HostJudged(
        at_ms=_AT, effect_id=wire.EffectId("h1"), deny="not for this tenant", arguments={"path": "src/b.py"}, by="audit"
    ),
    s.HostTold(at_ms=_AT, effect_id=wire.EffectId("h2")),
    s.ChildStarted(at_ms=_AT, effect_id=wire.EffectId("t1"), child_id=_CHILD),
    s.ChildPublished(
        at_ms=_AT, effect_id=wire.EffectId("t1"), event=_published(e.AgentStart(ref=m.PromptRef("p-2")), _ROOT, _CHILD)
    ),
    s.AgentIdled(
        at_ms=_AT, effect_id=wire.EffectId("g1"), outcome="failed", text="It broke", turns=3,
        spent=_SPENT,
    ),
    s.AgentEnded(
        at_ms=_AT, effect_id=wire.EffectId("g1"), reason="closed", is_lost=True,
        spent=_SPENT, receipt=_RECEIPT,
    ),
    s.BudgetLent(at_ms=_AT, budget=Budget(max_cost_usd=0.5, max_total_tokens=100, allow_unknown_prices=True)),
    s.TimerFired(at_ms=_AT, effect_id=wire.EffectId("w1"), jitter=0.75, pinged_at_ms=_AT - 500),
    s.PluginRequestFinished(at_ms=_AT, effect_id=wire.EffectId("e1"), result=hooks.FileText(path="AGENTS.md", text="Run the tests.")),
    s.ContextGathered(at_ms=_AT, effect_id=wire.EffectId("g7"), count=2, digest="9f86d081884c7d65", tokens=120),
    s.TeardownFinished(at_ms=_AT, effect_id=wire.EffectId("d1"), receipt=_RECEIPT),
)  # fmt: skip

_SIDE = m.QuestionRef("q-1")


def _request_finished(effect_id: str, result: Any) -> s.Signal:
    return s.PluginRequestFinished(at_ms=_AT, effect_id=wire.EffectId(effect_id), result=result)


_TRACE = m.TraceContext(
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", tracestate="rojo=00f067aa0ba902b7"
)
_VIA: Final[dict[str, Any]] = {"via": "http", "request_id": "req-1"}
_SHOWN = msgspec.structs.replace(_RESULT, images=(m.Image(media_type="image/png", data="iVBORw0KGgo="),))
_STEPS = (
    e.PlanStep(index=0, content="Look", status="completed", result="12 modules"),
    e.PlanStep(index=1, content="Move", status="failed", error="no such file", notes=("ask",)),
    e.PlanStep(index=2, content="Test", status="in_progress"),
    e.PlanStep(index=3, content="Ship", status="skipped"),
    e.PlanStep(index=4, content="Say so"),
)
_FIELDS: Final[Mapping[str, e.Event]] = {
    "tool_blocked_approved": e.ToolBlocked(
        name="shell", call_id=_CALL, reason="never", by="guard", approved=True
    ),
    "tool_approved_always_exact": e.ToolApprovedAlways(
        tool="shell", command_family="git clean -n", exact=True
    ),
    "tool_approved_always_shown": e.ToolApprovedAlways(tool="mcp__s__t", shown="@mcp.s 5e1f"),
    "approval_permission_options": e.ApprovalRequired(
        approval=msgspec.structs.replace(_APPROVAL, permission_options=("approve", "reject"))
    ),
    "approval_by_operator": e.ApprovalRequired(approval=msgspec.structs.replace(_APPROVAL, by="operator")),
    "approval_resolved_user": e.ApprovalResolved(
        approval=_APPROVAL, status="approved", by="user", user="ann@acme"
    ),
    "user_declined_user": e.UserDeclined(ref=_SIDE, user="ann@acme"),
    "user_responded_user": e.UserResponded(ref=_SIDE, response="left", user="ann@acme"),
    "plan_generated_states": e.PlanGenerated(
        plan=e.Plan(goal="Tidy up", steps=_STEPS, notes=("before noon",), approved_at_ms=_AT)
    ),
    "tool_execution_end_images": e.ToolExecutionEnd(name="read_file", call_id=_CALL, result=_SHOWN),
    "ask_user_form": e.AskUser(
        ref=_SIDE, question="Who are you?", schema=_FORM, url="https://example.org/who"
    ),
    "ask_user_call": e.AskUser(ref=_SIDE, question="Which one?", call_id=_CALL),
    "user_responded_form": e.UserResponded(ref=_SIDE, response={"name": "Ada", "age": 36}),
    "prompt_received_via": e.PromptReceived(ref=_P, content=ASKED, **_VIA),
    "prompt_queued_via": e.PromptQueued(ref=_P, content=ASKED, position=3, **_VIA),
    "prompt_received_trace": e.PromptReceived(ref=_P, content=ASKED, trace=_TRACE),
    "prompt_queued_trace": e.PromptQueued(ref=_P, content=ASKED, position=0, trace=_TRACE),
    "prompt_dropped_reason": e.PromptDropped(ref=_P, content=ASKED, reason="enough", at_end=True),
    "agent_start_request": e.AgentStart(ref=_P, request_id="req-1"),
    "agent_start_goes_on": e.AgentStart(ref=_P, goes_on=True, **_VIA),
    "agent_end_ref": e.AgentEnd(messages=_CYCLE, usage=USAGE, stop_reason="max_turns", ref=_P),
    "agent_abort_ref": e.AgentAbort(reason="changed my mind", ref=_P),
    "agent_error_ref": e.AgentError(error=_ERROR, ref=_P),
}
FIELDS: Final = {name: _published(event, _ROOT) for name, event in _FIELDS.items()}
"""Events with fields that came later, and that are only written when they do not hold their defaults."""

_FOUND = hooks.InstructionsFound(
    files=(
        InstructionFile(path="../AGENTS.md", text="Run the tests."),
        InstructionFile(path="AGENTS.override.md", text="Run them twice."),
    ),
    unread=(hooks.UnreadInstructions(path="~/.agentrail/AGENTS.md", reason="it is no text"),),
)
_NOTES = hooks.NotesIndex(
    topics=(NoteTopic(name="deployment", size_bytes=24, at_ms=_AT), NoteTopic(name="b", size_bytes=1)),
    added=("We deploy on Fridays.",),
)
_LOOK = ToolSpec(
    name="look", description="Look something up.", parameters={"type": "object"}, origin="app.tools:look"
)
_SETTINGS = PromptSettings(
    temperature=0.5,
    top_p=0.9,
    max_output_tokens=500,
    stop=("END",),
    reasoning=1_024,
    response_format={"type": "object", "required": ["answer"]},
)
_SHOW_MAP = ToolSpec(
    name="show_map",
    description="Show a place on the map.",
    parameters={"type": "object", "required": ["place"]},
    timeout_seconds=30.0,
    answered_by="client",
)
_CHANGED = PluginRecord(
    name="CostGuard", version="2", origin="shop.guards:CostGuard", options={"max_usd": 2.5}
)
_OF_TOOL: Final[dict[str, Any]] = {"at_ms": _AT, "effect_id": wire.EffectId("t1"), "started_at_ms": _AT - 12}
_DENY: Final[m.JsonObject] = {"deny": ["pay"]}
SIGNAL_FIELDS: Final[Mapping[str, s.Signal]] = {
    "update_plugin_opts_narrows": s.UpdatePluginOpts(
        **_BY, plugin="Permissions", options=_DENY, narrows=True
    ),
    "recovered_semantics": s.Recovered(at_ms=_AT, cause="gone", open=(_EFFECT,), attempt=2, semantics=1),
    "recovered_host_hooks": s.Recovered(at_ms=_AT, host_hooks=("after_tool", "before_tool")),
    "recovered_gathers_context": s.Recovered(at_ms=_AT, gathers_context=False),
    "recovered_models": s.Recovered(
        at_ms=_AT, models=(wire.ModelFacts(model="demo:small", context_window=9000, window_is_assumed=False),)
    ),
    "recovered_spent": s.Recovered(
        at_ms=_AT, spent=(Spent(usage=m.TokenUsage(input=7), tokens=7, nano_usd=3),)
    ),
    "parked_spent": s.Parked(
        at_ms=_AT, reason="bad", spent=(Spent(usage=m.TokenUsage(input=7), tokens=7, nano_usd=3),)
    ),
    "restarted_spent": s.Restarted(
        at_ms=_AT,
        reason="bad",
        incarnation=2,
        spent=(Spent(usage=m.TokenUsage(input=7), tokens=7, nano_usd=3),),
    ),
    "revoke_rule_exact": s.RevokeRule(**_BY, tool="shell", command_family="git clean -n", exact=True),
    "prompt_max_cost_usd": s.Prompt(
        **_BY, ref=m.PromptRef("p1"), content=(m.Text(text="Hi"),), settings=PromptSettings(max_cost_usd=0.5)
    ),
    "revoke_rule_breakpoint": s.RevokeRule(**_BY, tool="*", breakpoint="set"),
    "approve_user": s.Approve(**_BY, approval_id=m.ApprovalId("a-1"), user="ann@acme"),
    "decline_user": s.Decline(**_BY, ref=_SIDE, user="ann@acme"),
    "reject_user": s.Reject(**_BY, approval_id=m.ApprovalId("a-1"), user="ann@acme"),
    "respond_user": s.Respond(**_BY, ref=_SIDE, response=1, user="ann@acme"),
    "plugin_request_finished_instructions": _request_finished("e2", _FOUND),
    "plugin_request_finished_kept": _request_finished("e3", hooks.MemoryKept(entry_id="e-1")),
    "plugin_request_finished_notes": _request_finished("e4", _NOTES),
    "plugin_request_finished_words_only": _request_finished(
        "e5", hooks.Found(entries=("tea",), words_only="too slow")
    ),
    "change_tools_origin": s.ChangeTools(**_BY, attach=(_LOOK,), generation=1),
    "change_tools_sections": s.ChangeTools(
        **_BY, generation=1, sections=(("mcp.files", "Search first."), ("mcp.old", None))
    ),
    "change_tools_agents": s.ChangeTools(**_BY, generation=1, agents=(("clerk", (_LOOK,)), ("scout", None))),
    "prompt_via": s.Prompt(**_BY, ref=_P, content=ASKED, **_VIA),
    "prompt_settings": s.Prompt(**_BY, ref=_P, content=ASKED, settings=_SETTINGS),
    "prompt_trace": s.Prompt(**_BY, ref=_P, content=ASKED, trace=_TRACE),
    "prompt_settings_tools": s.Prompt(
        **_BY, ref=_P, content=ASKED, settings=PromptSettings(tools=(_SHOW_MAP,))
    ),
    "prompt_settings_instructions": s.Prompt(
        **_BY, ref=_P, content=ASKED, settings=PromptSettings(instructions="Be brief.")
    ),
    "go_on_settings": s.GoOn(**_BY, ref=_P, settings=PromptSettings(reasoning="low")),
    "prompt_digest": s.Prompt(**_BY, ref=_P, content=ASKED, client_id="web-7", digest="9f86d081884c7d65" * 4),
    "steer_via": s.Steer(**_BY, ref=m.SteerRef("st-1"), text="Only the tests", **_VIA),
    "change_plugins_entry": s.ChangePlugins(**_BY, change="reload", name="CostGuard", entry=_CHANGED),
    "tool_finished_images": s.ToolFinished(**_OF_TOOL, text="a picture", images=(ASKED[1],)),
    "tool_finished_ran_ms": s.ToolFinished(**_OF_TOOL, text="done", ran_ms=9),
    "tool_finished_asks": s.ToolFinished(
        **_OF_TOOL,
        text="[not asked]",
        is_error=True,
        asks=ToolQuestion(
            question="Which one?", timeout_seconds=60.0, schema=_FORM, state={"sealed": "v1.x"}
        ),
    ),
    "tool_finished_value": s.ToolFinished(
        **_OF_TOOL,
        text="Timed out after 30 s.",
        is_error=True,
        late=True,
        value=s.LateValue(call_id=_CALL, name="charge", text="charged 5"),
    ),
    "teardown_finished_values": s.TeardownFinished(
        at_ms=_AT,
        effect_id=wire.EffectId("d1"),
        receipt=_RECEIPT,
        values=(s.LateValue(call_id=_CALL, name="charge", text="no such card", is_error=True),),
    ),
    "tool_asked_form": s.ToolAsked(
        **_BY, effect_id=wire.EffectId("t1"), question="Who?", schema=_FORM, url="https://example.org/who"
    ),
    "tool_wants_child_agent": s.ToolWantsChild(
        **_BY, effect_id=wire.EffectId("t1"), prompt="Count the files.", agent="scout"
    ),
    "respond_form": s.Respond(**_BY, ref=_SIDE, response={"name": "Ada", "age": 36, "sure": None}),
}
"""Signals with such fields, and with what the one file of their kind leaves empty."""

SIGNALS: Final[Mapping[str, s.Signal]] = {SIGNAL_KINDS[type(signal)]: signal for signal in _ALL_SIGNALS}

NEWER: Final[Mapping[str, e.Envelope | None]] = {
    "unknown_kind": e.Envelope(_CHILD, 73, 1_700_000_000_073, (_ROOT, _CHILD), ephemeral=True),
    "unknown_field": e.Envelope(_ROOT, 74, 1_700_000_000_074, (_ROOT,)),
}
"""Files of `golden/newer`, as a later version may write them: where their events stand."""


def as_stored(line: bytes) -> bytes:
    """Write a line for people to read, which changes nothing but the white space."""
    return msgspec.json.format(line, indent=2) + b"\n"


def golden_files() -> Iterator[tuple[Path, bytes]]:
    """Each file of today, and what should be in it."""
    folders: tuple[tuple[str, Mapping[str, Any], Callable[[Any], bytes]], ...] = (
        ("events", EVENTS, encode_event),
        ("fields", FIELDS, encode_event),
        ("fields", SIGNAL_FIELDS, encode_signal),
        ("signals", SIGNALS, encode_signal),
    )
    for folder, values, encode in folders:
        for kind, value in values.items():
            yield GOLDEN / folder / f"{kind}.json", as_stored(encode(value))


if __name__ == "__main__":
    for path, content in golden_files():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
