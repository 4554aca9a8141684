"""Ways through the rules of a session that whole lives seldom take: each is entered by its own door."""

import msgspec
import pytest

from agentrail.core.policy.budget import Budget, Ledger, ReservationId, Spent, lend_at_most, spent_since
from agentrail.core.policy.patience import MAX_PAUSE_MS, MAX_TOOL_PAUSE_MS
from agentrail.core.policy.request_context import CompactionPlan
from agentrail.core.protocol import effects as fx
from agentrail.core.protocol.actions import ReadFile
from agentrail.core.protocol.hooks import OnToolError
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    AbortTool,
    AnswerCall,
    ChangePlugins,
    GoOn,
    Recovered,
    Restarted,
    SignalId,
    StreamFailed,
    TimerFired,
    ToolFinished,
    UpdatePluginOpts,
)
from agentrail.core.session import batch, cycle, machine, plugin_hooks, recovery
from agentrail.core.session.effect_owners import (
    OfDrain,
    OfPluginRequest,
    OfStoppedCall,
    OfSummary,
    OfSurvivor,
)
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.state import SEMANTICS, BreakOff, Compaction, Cycle, DoubtfulCalls, Phase
from agentrail.core.session.step_context import StepContext
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.plugin_code import find_code
from agentrail.core.values.toolbox import ToolSpec, read_call
from agentrail.errors import ErrorInfo, InvalidResponse, PluginError
from agentrail.events import CompactEnd, SessionRecovered
from agentrail.messages import CallId, ClientCallRef, PromptRef, Text, TokenUsage
from agentrail.testing.promises.effect_promises import a_recovery_decides_all_that_is_open
from tests.core.plugin_rig import Says, not_again
from tests.core.worlds import (
    AGENT_TOOLS,
    TOOLS,
    agents_session,
    changed,
    completed,
    config,
    new_session,
    prompt,
    run,
    walk,
)

PROMPT = prompt("p")
DIARY = Says("Diary", hooks=())


def drafted(state, **fields):
    return StepContext(msgspec.structs.replace(state.data, **fields), 50)


def asking(name="ask", **more):
    """A call that is a question to the user, as far as it waits for its slot."""
    call = read_call("c1", name, '{"question": "Why?"}')
    given = {"call": call, "spec": TOOLS.get(name), "arguments": call.arguments, "stage": "waiting"}
    return CallState(**given | more)


def with_open(state):
    """A session in whose history one call of `ask` is open."""
    return run([PROMPT, completed("r1", read_call("c1", "read", "{}"))], state)


def test_what_is_lent_at_most_is_the_lesser_of_both():
    """Of dollars and of tokens, each by itself; costs that are not known have no difference."""
    ledger = Ledger(budget=Budget(max_cost_usd=2.0, max_total_tokens=100))
    for own, lent in (
        (Budget(max_cost_usd=0.5), Budget(max_cost_usd=0.5, max_total_tokens=100)),
        (Budget(max_total_tokens=5), Budget(max_cost_usd=2.0, max_total_tokens=5)),
        (Budget(max_cost_usd=9.0, max_total_tokens=900), Budget(max_cost_usd=2.0, max_total_tokens=100)),
    ):
        assert lend_at_most(ledger, ReservationId("s/a1"), own)[1] == lent

    known = Spent(usage=TokenUsage(input=1, cost_usd=0.5), tokens=1, nano_usd=5)
    unknown = Spent(usage=TokenUsage(input=3, cost_usd=None), tokens=3, nano_usd=5)
    assert spent_since(unknown, known).usage.cost_usd is None
    assert spent_since(known, known).usage.cost_usd == 0.0


def test_what_a_plugin_took_back_in_the_step_that_ends_all_never_begins_either():
    """Neither the request nor its end; what was cancelled of earlier steps is still cancelled."""
    step = drafted(new_session())
    asked, earlier = EffectId("e5"), EffectId("e1")
    step.ask(fx.RunPluginRequest(effect_id=asked, wanted=ReadFile(path="a"), refused=None))
    step.ask(fx.CancelPluginRequest(effect_id=asked))
    step.ask(fx.CancelPluginRequest(effect_id=earlier))
    step.give_up_all()
    assert step.effects == [fx.CancelPluginRequest(effect_id=earlier)]


def test_agents_of_a_session_that_may_not_come_back_are_closed():
    """Its next incarnation had asked for them already."""
    stack, states = load_stack([not_again()])
    settings = agents_session().data.config
    state = machine.new_session(settings, agents_session().data.tools, stack, states)
    spawn = read_call("c1", "spawn_agent", '{"agent": "scout", "task": "Look."}')
    state = run([PROMPT, completed("r1", spawn)], state)
    after, effects = machine.step(state, Restarted(at_ms=9, reason="bang", incarnation=2))
    assert after.ended
    closed = [one.reason for one in effects if isinstance(one, fx.CloseAgent)]
    assert closed == ["refused by a plugin: not again"]


def test_a_question_whose_words_changed_behind_its_approval_is_not_put():
    """Nor is a call that the session answers itself carried out; one that became a question meanwhile waits."""
    step = drafted(with_open(new_session()))
    answered = batch.put_to_people(step, asking(bound_to="another hash"))
    assert answered.result is not None
    assert answered.result.text == batch.ARGUMENTS_CHANGED
    spawn = read_call("c1", "spawn_agent", '{"agent": "scout", "task": "Look."}')
    ours = asking(call=spawn, spec=AGENT_TOOLS[0], arguments=spawn.arguments, bound_to="x")
    assert batch._begin(step, ours).result.text == batch.ARGUMENTS_CHANGED  # noqa: SLF001 - its own door
    assert batch._begin(step, asking()).stage == "asking"  # noqa: SLF001 - as above


def test_a_plugin_hears_that_its_request_of_an_older_version_is_lost():
    """Such a state does not say what was asked for."""
    stack, states = load_stack([DIARY])
    step = drafted(machine.new_session(config(), TOOLS, stack, states))
    plugin_hooks.request_again(step, EffectId("e1"), OfPluginRequest("Diary", "t"))
    assert type(DIARY.shown[-1].result).__name__ == "RequestFailed"


def test_what_is_not_known_any_more_has_a_name_all_the_same():
    """The prompt of a cycle without one is the last that was said, or the name of the cycle; a call of a cycle that was broken off has none."""
    step = drafted(new_session())
    assert cycle._asked_by(step, Cycle(ref=PromptRef("g"), first_message=0, goes_on=True)) == "g"  # noqa: SLF001
    said = drafted(run([PROMPT, completed("r1", Text(text="Hi."))]))
    assert cycle._asked_by(said, Cycle(ref=PromptRef("g"), first_message=2, goes_on=True)) == "p"  # noqa: SLF001
    machine.step(new_session(), GoOn(at_ms=1, signal_id=SignalId("g"), ref=PromptRef("g")))

    assert recovery._name_of(new_session().data, CallId("c9")) == ""  # noqa: SLF001 - its own door


def test_a_summary_that_cannot_be_asked_for_anew_is_none():
    """Where nothing may be spent any more the cycle goes on without it."""
    state = run([PROMPT, completed("r1", Text(text="Hi."))], new_session(budget=Budget(max_total_tokens=900)))
    ledger = msgspec.structs.replace(state.data.ledger, spent_tokens=900)
    running = Compaction(effect_id=EffectId("r7"), plan=CompactionPlan(reason="manual", cut=1))
    step = drafted(state, ledger=ledger, compaction=running)
    step.hand_over(EffectId("r7"), OfSummary())
    assert recovery._compact(step) is Phase.IDLE  # noqa: SLF001 - its own door
    assert step.data.compaction is None
    assert not [one for one in step.effects if isinstance(one, fx.StartStream)]
    assert [type(one.event) for one in step.effects if hasattr(one, "event")][-1] is CompactEnd


def test_code_that_raises_when_it_is_looked_for_is_a_plugin_error():
    """Whoever finds plugins is code of somebody's."""

    def ask(member, event, state, ctx):
        raise AssertionError

    ask.find = lambda change, record: {}[record.name]
    record = PluginRecord(name="anna", version="1", origin="x:Y", options=None)
    with pytest.raises(PluginError, match="was not found"):
        find_code(ask, "s1", record)


def of_tool(name, **more):
    return ToolSpec(name=name, description="x", parameters={"type": "object"}, **more)


def survivor(stage="running", **more):
    spec = of_tool("read", effect_class="pure")
    given = {
        "call": read_call("c1", "read", "{}"),
        "spec": spec,
        "arguments": {},
        "effect_id": EffectId("t3"),
    }
    return CallState(stage=stage, **given | more)


def test_survivors_in_another_process():
    """One that was stopping is over with its process; one whose arguments are not what was approved is answered."""
    step = drafted(new_session(), survivors=(survivor("stopping"),))
    recovery._recover_survivor(step, survivor("stopping"), frozenset())  # noqa: SLF001 - its own door
    assert not step.effects
    spoilt = survivor(bound_to="another hash")
    step = drafted(new_session(), survivors=(spoilt,))
    step.hand_over(EffectId("t3"), OfSurvivor(CallId("c1")))
    recovery._recover_survivor(step, spoilt, frozenset())  # noqa: SLF001 - as above
    assert not step.data.survivors
    child = survivor(spec=of_tool("task", answered_by="child"), child_ids=("s.c1",))
    step = drafted(new_session(), survivors=(child,))
    step.hand_over(EffectId("t3"), OfSurvivor(CallId("c1")))
    recovery._recover_survivor(step, child, frozenset({EffectId("t3")}))  # noqa: SLF001 - as above
    assert len(step.effects) == 1


def test_nothing_else_expires_behind_a_break(monkeypatch):
    """Of two questions whose time was over while nobody looked, the first may end the cycle; one that is gone is none."""
    state = run([PROMPT, completed("r1", read_call("c1", "ask", '{"question": "Why?"}'))])
    (waiting,) = state.data.interactions
    over: list[str] = []

    def end(step, phase, name):
        over.append(name)
        return BreakOff("enough")

    monkeypatch.setattr(recovery, "time_is_up", end)
    gone = msgspec.structs.replace(waiting, asked=msgspec.structs.replace(waiting.asked, ref="gone"))
    expired = (gone, waiting, waiting)
    after = recovery._go_on(drafted(state), Phase.IDLE, expired)  # noqa: SLF001 - its own door
    assert isinstance(after, BreakOff)
    assert over == [waiting.id]


def test_a_session_that_began_before_a_drift_is_not_started_again():
    """Its call is answered as unknown, at its turn and in a recovery: an equal one would do the work twice."""
    doubts = DoubtfulCalls(calls=(("general-purpose", ""),))
    state = survivor("waiting", spec=of_tool("task", answered_by="child"), effect_id=None)
    step = drafted(with_open(new_session()), doubtful=doubts)
    answered = batch._spawn(step, state)  # noqa: SLF001 - its own door
    assert answered.result is not None
    assert answered.result.text == batch.call_results.OUTCOME_UNKNOWN
    decision = recovery._of_call(step.data, state, has_begun=False)  # noqa: SLF001 - as above
    assert decision.decision == "unknown"
    assert recovery._of_call(step.data, state, has_begun=True).decision == "resumed"  # noqa: SLF001 - as above


def test_permissions_that_no_plugin_can_hold_are_refused():
    """An agent may not be left with more than it was given, so the caller hears of it and nothing changes."""
    stack, states = load_stack([DIARY])
    state = machine.new_session(config(), TOOLS, stack, states)
    told = {"at_ms": 1, "signal_id": SignalId("u"), "plugin": "Diary"}
    after, effects = machine.step(state, UpdatePluginOpts(**told, options={"deny": ["read"]}, narrows=True))
    (refusal,) = [one for one in effects if isinstance(one, fx.Refuse)]
    assert isinstance(refusal.error, PluginError)
    assert "give it the plugin Permissions" in str(refusal.error)
    assert after.data.stack == state.data.stack


DAY_MS = 86_400_000


def recovered_from(pause, state):
    """The timers that are set if a session pauses, and its process ends while the store's clock is set back by a day."""
    *begun, failed = pause
    paused, effects = machine.step(run(begun, state), failed)
    (asked,) = [one for one in effects if isinstance(one, fx.SetTimer)]
    again, effects = machine.step(paused, Recovered(at_ms=DAY_MS, open=tuple(paused.data.open)))
    (timer,) = [one for one in effects if isinstance(one, fx.SetTimer)]
    gone_on, effects = machine.step(again, TimerFired(at_ms=timer.at_ms, effect_id=timer.effect_id))
    assert effects
    assert gone_on.data.minted > again.data.minted
    return asked.at_ms - 2 * DAY_MS, timer.at_ms - DAY_MS


CUT = ErrorInfo(code="transport", message="cut", retryable=True)
BROKEN = StreamFailed(at_ms=2 * DAY_MS, effect_id=EffectId("r1"), error=CUT, jitter=0.5)
CRASHED = ToolFinished(
    at_ms=2 * DAY_MS, effect_id=EffectId("t2"), text="x", is_error=True, crashed=True, started_at_ms=0, jitter=0.5
)  # fmt: skip
CALLED = (PROMPT, completed("r1", read_call("c1", "read", '{"path": "a"}')))


def test_a_pause_is_no_longer_because_the_clock_was_set_back():
    """A simulated life waited for hours: its session paused before a retry, its node was killed, and the store's clock was set back."""
    asked, left = recovered_from((PROMPT, BROKEN), new_session())
    assert (0 < asked < MAX_PAUSE_MS, left) == (True, MAX_PAUSE_MS)
    asked, left = recovered_from((*CALLED, CRASHED), new_session())
    assert (0 < asked < MAX_TOOL_PAUSE_MS, left) == (True, MAX_TOOL_PAUSE_MS)


def test_a_pause_that_a_plugin_decides_is_kept():
    """It may be longer than ours, so it cannot be told from one that the clock made longer."""
    stack, states = load_stack([Says("Judge", hooks=(OnToolError,))])
    asked, left = recovered_from((*CALLED, CRASHED), machine.new_session(config(), TOOLS, stack, states))
    assert left == asked + DAY_MS


def test_a_session_that_is_left_alone_keeps_the_version_of_its_decisions():
    """Only its number of events changes. The recovery that continues it brings the newer version."""
    old = changed(run([PROMPT]), semantics=0)
    told = Recovered(at_ms=9, cause="gone", open=tuple(old.data.open), attempt=3, semantics=SEMANTICS)
    for attempt in (3, 2**31):
        (parked,) = walk([msgspec.structs.replace(told, attempt=attempt)], old)
        a_recovery_decides_all_that_is_open(parked)
        assert parked.after.data.semantics == 0
    (resumed,) = walk([msgspec.structs.replace(told, attempt=1)], parked.after)
    assert resumed.after.data.semantics == SEMANTICS


def test_a_cycle_that_waits_for_the_user_refuses_other_plugins_and_the_result_of_a_client():
    """Its plugins judge the call that it waits with, and an answer to a question is no result of a client's call."""
    asks = completed("r1", read_call("c1", "ask", '{"question": "Why?"}'))
    state = run([PROMPT, asks], new_session())
    question = state.data.interactions[0].id
    for signal, error, said in (
        (
            ChangePlugins(at_ms=3, signal_id=SignalId("d"), change="detach", name="Diary"),
            PluginError,
            "a cycle waits for a user: decide or abort",
        ),
        (
            AnswerCall(at_ms=3, signal_id=SignalId("y"), ref=ClientCallRef(question), text="x"),
            InvalidResponse,
            "is a question: answer it with respond",
        ),
    ):
        after, (refused,) = machine.step(state, signal)
        assert isinstance(refused, fx.Refuse)
        assert isinstance(refused.error, error)
        assert said in str(refused.error)
        assert after.data.interactions == state.data.interactions


def test_a_restored_session_gives_up_a_call_that_was_being_stopped():
    """Nothing is left to drain, so neither the call nor its drain stays open, and the decision says so."""
    stop = AbortTool(at_ms=2, signal_id=SignalId("a"), call_id=CallId("c1"))
    state = run(
        [PROMPT, completed("r1", *(read_call(f"c{n}", "read", "{}") for n in (1, 2))), stop], new_session()
    )
    (stopped,) = [one for one, owner in state.data.open.items() if isinstance(owner, OfStoppedCall)]
    assert any(isinstance(owner, OfDrain) for owner in state.data.open.values())
    back = Recovered(at_ms=9, open=tuple(state.data.open), semantics=SEMANTICS)
    after, effects = machine.step(state, back)
    assert stopped not in after.data.open
    assert not any(isinstance(owner, OfDrain) for owner in after.data.open.values())
    (told,) = [
        one.event
        for one in effects
        if isinstance(one, fx.Publish) and isinstance(one.event, SessionRecovered)
    ]
    assert ("tool", "c1", "given_up") in [(one.open, one.id, one.decision) for one in told.decisions]
