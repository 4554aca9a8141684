"""The states behind the golden files of `tests/core/golden/states`: one per phase and more, from drawn lives, and one of our making.

A life is what `drawn_lives` draws, so a state is named by a seed and a number of steps: those in which most was in play at once.
What lives hardly come to stands in `EVERYTHING`, with something in every field. Stored anew by `python -m tests.core.golden_states`;
read the diff as a change of what people have on disk. Before a release the files are copied, as those of `golden_values` are.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from agentrail import messages as m
from agentrail.core.policy.budget import Bound, Budget, Ledger, Price, ReservationId, Spent
from agentrail.core.policy.calls import FileSeen, LoopHistory
from agentrail.core.policy.patience import Attempts, StallClock, StallOptions
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.policy.request_context import CompactionPlan, CompactionWatch, Outgoing, TokenCount
from agentrail.core.policy.response_format import ResponseFormat
from agentrail.core.policy.tags import TagReader
from agentrail.core.protocol import actions
from agentrail.core.protocol.hooks import BeforePrompt
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import EffectId, ModelFacts
from agentrail.core.protocol.signals import ChangePlugins, Prompt, SignalId, ToolWantsChild
from agentrail.core.session import agent_records as agents, effect_owners, state as parts
from agentrail.core.session.open_calls import CallState, HostCheck, OpenCalls, WantedApproval
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.core.session.state_codec import encode_session
from agentrail.core.stack.hook_outcome import Decision, Injected, Outcome, PluginRequest, Switch, Waiting
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.history import GrowingSet, History, Log
from agentrail.core.values.import_history import Repair
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.errors import ErrorInfo
from agentrail.events import Approval, PluginEvent, Question, Todo, TodoChange
from agentrail.testing.plugins import PUPPET_ORIGIN, PuppetPlugin
from tests.core.drawn_lives import steps
from tests.core.golden_values import ASKED, GOLDEN, USAGE, as_stored

FOLDER: Final = GOLDEN / "states"

LIVES: Final[Mapping[str, tuple[int, int]]] = {
    "idle_suspended": (100, 38),
    "idle_stopping": (6, 47),
    "running": (100, 53),
    "running_held": (407, 42),
    "running_compacting": (354, 32),
    "streaming": (100, 46),
    "executing_tools": (185, 59),
}
"""The seed of a life, and the step after which it is in this state."""


_CALL = m.CallId("call_1")
_P = m.PromptRef("p1")
_ERROR = ErrorInfo(code="rate_limited", message="slow down", retryable=True, retry_after_seconds=7.5)
_SAID = m.AssistantMessage(
    content=(
        m.Thinking(text="I should look.", signature="c2lnbmVk", provider="anthropic"),
        m.Opaque(provider="openai", payload={"type": "reasoning", "encrypted": "AAAA"}),
        m.Text(text="Let me look."),
        m.ToolCall(call_id=_CALL, name="shell", arguments={"command": "ls", "deep": [1.5, None, True]}),
        m.ToolCall(call_id=m.CallId("call_2"), name="grep", arguments=None, malformed='{"pattern": '),
    ),
    model="scripted:model",
    stop_reason="tool_use",
)
_RESULT = m.ToolResult(
    call_id=m.CallId("call_2"),
    name="grep",
    text="no",
    is_error=True,
    details={"lines": 1},
    images=(m.Image(media_type="image/png", data="iVBORw0KGgo="),),
)


def everything() -> parts.SessionState:
    """Make a state in which no field has its default, as far as that can be. No session is ever in it."""
    root, child = m.SessionId("root"), m.SessionId("root/child")
    stack, states = load_stack(
        (PuppetPlugin((), name="guard", priority=50), (PuppetPlugin((), name="notes"), {}))
    )
    facts = ModelFacts(
        model="scripted:model",
        context_window=32_000,
        window_is_assumed=False,
        max_output_tokens=1_000,
        price=Price(input=1.0, output=2.5, cache_read=0.1, cache_write=1.25),
        stalls=StallOptions(stall_policy="retry", stall_ms=1_000, timeout_ms=2_000),
        max_retries=1,
    )
    shell = ToolSpec(
        name="shell",
        description="Runs a command.",
        parameters={
            "type": "object",
            "properties": {"command": {"type": "string"}, "again": {"type": "integer"}},
        },
        killable=False,
        effect_class="idempotent",
        timeout_seconds=1.5,
        max_retries=2,
        polling=True,
        answered_by="child",
    )
    gone = ToolSpec(name="gone", description="Was detached while it ran.", parameters={"type": "object"})
    budget = Budget(max_cost_usd=1.5, max_total_tokens=10_000, allow_unknown_prices=True)
    config = parts.SessionConfig(
        session_id=child,
        path=(root, child),
        model=facts,
        system_prompt="You help.",
        max_turns=7,
        max_output_tokens=500,
        max_prompt_queue=5,
        max_steering_queue=4,
        max_parallel_tools=3,
        immune_tools=frozenset({"watch", "deploy", "shell"}),
        tool_max_retries=1,
        approval_timeout_ms=None,
        question_timeout_ms=9_000,
        fallbacks=(ModelFacts(model="scripted:second"),),
        max_retries=2,
        on_max_turns="abort",
        compact_at_tokens=20_000,
        prompt_mode="minimal",
        working_dir="/work",
        user_data={"tenant": "a", "limits": [1, 2.5, None, {"deep": True}], "large": 2**70},
        group_id="group",
        inline_tags=False,
        budget=budget,
        response_format=ResponseFormat({"type": "object", "required": ["answer"]}),
        scope="tenant@a",
        agents=(
            agents.AgentSpec(
                name="scout",
                description="Finds files.",
                digest="hash",
                background=True,
                wake=True,
                handoff=True,
                budget=Budget(max_total_tokens=100),
                system_prompt="You look.",
                model=ModelFacts(model="scripted:small"),
                tools=Toolbox([gone]),
                permissions={"mode": "strict", "deny": ["shell(rm *)"]},
                plugins=(PluginRecord(name="Own", version="1", origin="own:Own", options={"n": 1}),),
            ),
        ),
        host_hooks=frozenset({"before_tool", "after_tool"}),
        gathers_context=True,
        rules=frozenset({parts.Rule(tool="deploy", family=None, at_ms=7)}),
        replaced_sections={"mode": "Only read."},
        wake_on_background_end=True,
        agent_limits=agents.AgentLimits(max_depth=2, max_agents=3, max_agents_total=4),
    )
    history = History.of((m.UserMessage(content=ASKED, ref=_P), _SAID))
    shown: m.JsonObject = {"command": "ls", "again": 1}
    asked = CallState(
        call=_SAID.calls[0],
        spec=shell,
        generation=2,
        arguments=shown,
        stage="asking",
        started=True,
        edited=True,
        attempt=2,
        operation_id="op",
        bound_to="hash",
        arguments_hash="hash",
        began_at_ms=5,
        child_ids=(m.SessionId("root/child/one"),),
        effect_id=EffectId("t4"),
        check=HostCheck(
            wanted=WantedApproval(hint="Sure?", timeout_ms=9, options=("approve", "reject")),
            always=True,
            changed_by="audit",
            rounds=2,
        ),
    )
    done = CallState(call=_SAID.calls[1], arguments={}, stage="done", result=_RESULT)
    survivor = CallState(
        call=m.ToolCall(call_id=m.CallId("call_0"), name="gone", arguments={}),
        spec=gone,
        arguments={},
        stage="stopping",
        result=_RESULT,
        effect_id=EffectId("t1"),
        detached=True,
    )
    approval = Approval(
        id=m.ApprovalId("a1"),
        call_id=_CALL,
        tool="shell",
        arguments=shown,
        arguments_hash="hash",
        hint="Sure?",
        requested_at_ms=6,
        expires_at_ms=7,
        path=(root, child),
        permission_options=("approve", "reject"),
    )
    question = Question(
        ref=m.QuestionRef("q1"),
        call_id=_CALL,
        question="Which?",
        options=("a", "b"),
        requested_at_ms=6,
        expires_at_ms=7,
        path=(root, child),
    )
    prompt = parts.QueuedPrompt(
        ref=m.PromptRef("p2"),
        content=(m.Text(text="next"),),
        askers=(SignalId("s9"),),
        via="http",
        request_id="req-2",
        settings=PromptSettings(
            reasoning="low",
            response_format={"type": "object"},
            tools=(ToolSpec(name="show", description="Show it.", parameters={}, answered_by="client"),),
            instructions="Be brief.",
        ),
        trace=m.TraceContext(traceparent=f"00-{'a' * 32}-{'b' * 16}-01", tracestate="v=1"),
    )
    wanted = PluginRequest(
        effect=actions.CallModel(prompt="?", system="s", model="m", max_output_tokens=5),
        tag="ask",
        by="notes",
    )
    outcome = Outcome(
        event=BeforePrompt(text="next", content=(m.Text(text="next"),)),
        states=states,
        decision=Decision(
            action=actions.Abort(
                "no",
                1,
                emits=(("seen", {"what": ["x"]}), TodoChange(todos=(Todo(id="1", content="a"),))),
                context={"note": None, "time": "now"},
                hints=actions.Hints(pause_ms=3, cache_points=("system", 2)),
            ),
            by="guard",
            failed=True,
        ),
        interventions=(Injected(prompt="think", by="guard"),),
        rewritten_by=("guard",),
        replaced_by=("notes",),
        switch=Switch(model="scripted:other", provider_opts={"a": 1}, by="notes"),
        collected=(Switch(model="scripted:third", provider_opts=None, by="guard"),),
        context={"note": "text", "gone": None},
        hints=actions.Hints(pause_ms=1),
        events=(PluginEvent(name="seen", payload={"a": [1]}),),
        plugin_requests=(
            PluginRequest(effect=actions.ReadFile("a.txt"), tag="read", by="notes"),
            PluginRequest(
                effect=actions.WriteFile(path="b.txt", text="b", append=True), tag="write", by="notes"
            ),
            PluginRequest(effect=actions.Search(query="q", max_entries=2), tag="look", by="guard"),
            PluginRequest(
                effect=actions.ReadInstructions(names=("AGENTS.md",), below=("src",)), tag="rules", by="notes"
            ),
            PluginRequest(effect=actions.Search(query="q", tags=("episode",)), tag="look", by="guard"),
            PluginRequest(
                effect=actions.KeepMemory(entry_id="e-1", text="t", tags=("episode",), max_entries=9),
                tag="keep",
                by="guard",
            ),
            PluginRequest(effect=actions.ReadNotes(), tag="index", by="guard"),
            PluginRequest(
                effect=actions.WriteNotes(topic="t", facts=("f",), dedupe=False), tag="note", by="guard"
            ),
        ),
        waiting=Waiting(plugin_request=wanted, todo=("notes",), round=1),
        seen_by=frozenset({"guard", "notes"}),
        guarded=BeforePrompt(text="before"),
        guarded_by=frozenset({"guard"}),
        is_fit=False,
    )
    call_ids: GrowingSet[m.CallId] = GrowingSet()
    for call_id in ("call_0", "call_1", "call_2"):
        call_ids = call_ids.added(m.CallId(call_id))
    names = GrowingSet[str]().added("agent-1").added("anna")
    data = parts.SessionData(
        config=config,
        model=ModelFacts(model="scripted:other"),
        tools=Toolbox([shell], {"shell": 2}, 3),
        history=history,
        repairs=(Repair(code="missing_result", position=1, call_id=_CALL),),
        queue=(prompt,),
        steers=(parts.QueuedSteer(ref=m.SteerRef("p3"), text="left", via="acp", request_id="req-3"),),
        cycle=parts.Cycle(
            ref=_P,
            first_message=1,
            earlier=(m.ToolMessage(results=(_RESULT,)),),
            started_at_ms=3,
            turn=2,
            usage=USAGE,
            attempts=Attempts(
                number=2, retries=1, model=1, compacted=True, failed=(("scripted:model", "overloaded"),)
            ),
            askers=(SignalId("s1"),),
            repaired=True,
            loops=LoopHistory(
                repeats={"z": 2, "a": 1}, files={"a.py": FileSeen(contents=("h1", "h2"), returns=1)}
            ),
            resume=False,
            cache_points=("system", 1),
            handed=(m.UserMessage(content=(m.Text(text="instead"),), origin="intervention"),),
            context=parts.GatheredContext(
                effect_id=EffectId("g9"), is_open=False, count=2, digest="9f86d081884c7d65", tokens=120
            ),
            request_id="req-1",
            goes_on=True,
            settings=PromptSettings(
                temperature=0.5, top_p=0.9, max_output_tokens=7, stop=("END",), reasoning=1_024
            ),
        ),
        held=parts.SuspendedHook(
            effect_id=EffectId("e5"),
            timer=EffectId("w6"),
            outcome=outcome,
            prompt=prompt,
            stop_reason="max_turns",
            notes=("You repeat yourself.",),
        ),
        interventions=(Injected(prompt="and", by="notes"),),
        stack=stack,
        plugin_states=states,
        updates=(parts.OptsUpdate(plugin="notes", options={"strict": True}),),
        sections={"zeta": "last", "alpha": "first"},
        stream=parts.Stream(
            effect_id=EffectId("r3"),
            model="scripted:model",
            pausing=True,
            text=Log(["Hel", "lo"]),
            reader=TagReader(held="<ti", code="inline"),
            clock=StallClock(heard_at_ms=4, pinged_at_ms=5, begun=True, reports=1),
            thinking=True,
            last_turn=True,
            usage=USAGE,
        ),
        compaction=parts.Compaction(
            effect_id=EffectId("r7"),
            plan=CompactionPlan(reason="overflow", cut=1, squeezed_tokens=900),
            summary="short",
            error=_ERROR,
        ),
        compaction_watch=CompactionWatch(due_from=11, forced_from=12),
        compact_asked="long",
        refused=(m.PromptRef("p0"),),
        outgoing=Outgoing(
            first=history.messages[0],
            border=10,
            short=((1, _SAID),),
            seen=2,
            begun=1,
            refused=((3, 5),),
        ),
        batch=OpenCalls((asked, done)),
        interactions=(
            parts.Interaction(asked=approval, timer=EffectId("w5"), asker=SignalId("s3")),
            parts.Interaction(asked=question, timer=None),
        ),
        resolved=(
            parts.Resolved(id="a0", status="approved", by="rule"),
            parts.Resolved(id="a1", status="approved", by="user", at_ms=7),
        ),
        rules=frozenset(
            {
                parts.Rule(tool="shell", family="git status"),
                parts.Rule(tool="deploy", family=None, at_ms=7),
                parts.Rule(tool="*", family=None, at_ms=8, breaks=True),
            }
        ),
        survivors=(survivor,),
        notes=("done",),
        teardown=parts.TeardownState(effect_id=EffectId("d2"), waiting=(SignalId("s4"),)),
        stopping="stopped",
        stoppers=(SignalId("s5"),),
        last=parts.Ended(outcome="failed", text="so far", reason="why", error=_ERROR),
        todos=(Todo(id="1", content="a", status="completed"),),
        memory={"key": [1, "two"]},
        remembered=(
            parts.Remembered(
                client_id="web-1",
                digest="d",
                receipt=PromptReceipt(ref=_P, queued=True, position=1, seq=4, request_id="req-1"),
            ),
            parts.Remembered(
                client_id="web-2",
                digest="e",
                receipt=SteerReceipt(ref=m.SteerRef("p3"), status="queued", seq=5, request_id="req-3"),
            ),
        ),
        usage=USAGE,
        ledger=Ledger(
            budget=budget,
            spent_tokens=5,
            spent_nano_usd=6,
            is_cost_known=False,
            open=((ReservationId("r3"), Bound(tokens=7, nano_usd=8, knows_tokens=False, knows_cost=False)),),
        ),
        loans=(EffectId("t4"),),
        wishes=(ToolWantsChild(at_ms=8, signal_id=SignalId("s8"), effect_id=EffectId("t4"), prompt="look"),),
        open=MappingProxyType(
            {
                EffectId("r3"): effect_owners.OfStream(),
                EffectId("w4"): effect_owners.OfStallTimer(),
                EffectId("w9"): effect_owners.OfPause(),
                EffectId("r7"): effect_owners.OfSummary(),
                EffectId("w7"): effect_owners.OfSummaryTimer(),
                EffectId("e8"): effect_owners.OfTranscript(),
                EffectId("t4"): effect_owners.OfCall(_CALL),
                EffectId("t1"): effect_owners.OfSurvivor(m.CallId("call_0")),
                EffectId("t2"): effect_owners.OfStoppedCall(m.CallId("call_0")),
                EffectId("c1"): effect_owners.OfChild(EffectId("t4")),
                EffectId("c2"): effect_owners.OfLoan(),
                EffectId("h1"): effect_owners.OfHostCheck(_CALL),
                EffectId("h2"): effect_owners.OfHostReport(_CALL),
                EffectId("w8"): effect_owners.OfRetry(_CALL),
                EffectId("w5"): effect_owners.OfInteraction(m.ApprovalId("a1")),
                EffectId("e5"): effect_owners.OfPluginRequest("notes", "ask"),
                EffectId("e6"): effect_owners.OfHeldHook(),
                EffectId("g4"): effect_owners.OfContext(),
                EffectId("w6"): effect_owners.OfHoldTimer(),
                EffectId("d1"): effect_owners.OfDrain(),
                EffectId("d2"): effect_owners.OfTeardown(),
            }
        ),
        title="Where it is",
        context_tokens=1_234,
        acting=agents.ActingAgent(name="scout", prompt="You look.", next="clerk", note="He owes ten."),
        agents=agents.Agents(
            states=(
                agents.AgentState(
                    name="agent-1",
                    agent="scout",
                    task="Look.",
                    call_id=_CALL,
                    effect_id=EffectId("g8"),
                    child_id=m.SessionId("root/child.agent-1"),
                    status="working",
                    outcome="failed",
                    answer="It broke",
                    turns=2,
                    spent=Spent(usage=USAGE, tokens=3, nano_usd=4, is_cost_known=False),
                    loan=EffectId("g8"),
                    inputs=("And here.",),
                    seen=9,
                    sources=("travel.md#L3-L9",),
                ),
                agents.AgentState(
                    name="anna",
                    agent="scout",
                    task="Look.",
                    call_id=_CALL,
                    effect_id=EffectId("g9"),
                    status="ended",
                    reason="closed",
                ),
            ),
            waits=(
                agents.AgentWait(
                    call_id=_CALL,
                    names=("agent-1", "anna"),
                    match="any",
                    until="closed",
                    timer=EffectId("w9"),
                    expires_at_ms=99,
                ),
            ),
            names=names,
            cycle=_P,
            started=2,
            is_waking=True,
            notes=("[anna is ended]",),
        ),
        tokens=TokenCount(fixed=1, tokens=2, messages=3),
        seq=40,
        minted=9,
        call_ids=call_ids,
        dropped=2,
        quarantined=1,
        incarnation=2,
        started_at_ms=1,
    )
    by: dict[str, Any] = {"at_ms": 8, "signal_id": SignalId("s7")}
    postponed = (
        Prompt(
            **by,
            ref=m.PromptRef("p4"),
            content=(m.Text(text="later"),),
            reply="text",
            client_id="web-3",
            via="http",
            request_id="req-4",
            digest="0" * 64,
            settings=PromptSettings(temperature=1.0),
        ),
        ChangePlugins(**by, change="reload", entry=_record("notes", {})),
        ChangePlugins(**by, change="attach", entry=_record("new", None)),
        ChangePlugins(**by, change="detach", name="guard"),
    )
    return parts.SessionState(phase=parts.Phase.EXECUTING_TOOLS, data=data, postponed=postponed, ended=True)


def _record(name: str, options: m.JsonObject | None) -> PluginRecord:
    return PluginRecord(name=name, version="0", origin=PUPPET_ORIGIN, options=options)


def state_of(name: str) -> parts.SessionState:
    """Give the state that a golden file holds."""
    if name not in LIVES:
        return everything()
    seed, number = LIVES[name]
    return next(state for place, (_, state, _) in enumerate(steps(seed, number + 1)) if place == number)


NAMES: Final = (*LIVES, "everything")


def golden_states() -> Iterator[tuple[Path, bytes]]:
    """Each file of today, and what should be in it."""
    for name in NAMES:
        yield FOLDER / f"{name}.json", as_stored(encode_session(state_of(name)))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, content in golden_states():
        path.write_bytes(content)
