"""Ways through the rules of a session that whole lives seldom take: each is entered by its own door."""

import msgspec
import pytest

from agentrail import plugins as p
from agentrail.core.policy.budget import Budget, Ledger, ReservationId, Spent, lend_at_most, spent_since
from agentrail.core.policy.request_context import CompactionPlan
from agentrail.core.protocol.actions import ReadFile
from agentrail.core.protocol.effects import (
    CancelPluginRequest,
    CloseAgent,
    Refuse,
    RunPluginRequest,
    StartStream,
)
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import GoOn, Prompt, Restarted, SignalId, StatusQuery, UpdatePluginOpts
from agentrail.core.session import batch, cycle, machine, plugin_hooks, recovery
from agentrail.core.session.effect_owners import OfPluginRequest, OfSummary, OfSurvivor
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.state import BreakOff, Compaction, Cycle, DoubtfulCalls, Phase
from agentrail.core.session.step_context import StepContext
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.plugin_code import find_code
from agentrail.core.values.toolbox import ToolSpec, read_call
from agentrail.errors import PluginError
from agentrail.events import CompactEnd
from agentrail.messages import CallId, PromptRef, Text, TokenUsage
from tests.core.worlds import AGENT_TOOLS, TOOLS, agents_session, completed, config, new_session, run

PROMPT = Prompt(at_ms=1, signal_id=SignalId("p"), ref=PromptRef("p"), content=(Text(text="go"),))


def drafted(state, **fields):
    """A step on a state in which some fields are otherwise."""
    return StepContext(msgspec.structs.replace(state.data, **fields), 50)


def asking(name="ask", **more):
    """A call that is a question to the user, as far as it waits for its slot."""
    state = CallState(
        call=read_call("c1", name, '{"question": "Why?"}'),
        spec=TOOLS.get(name),
        arguments={"question": "Why?"},
        stage="waiting",
    )
    return msgspec.structs.replace(state, **more)


def with_open(state):
    """A session in whose history one call of `ask` is open."""
    return run([PROMPT, completed("r1", read_call("c1", "read", "{}"))], state)


class Diary(p.Plugin[str]):
    """Keeps what it is told."""

    def init(self) -> str:
        """Begin."""
        return ""

    @p.on(p.RequestDone)
    def take(self, event: p.RequestDone, state: str, ctx: p.Context) -> p.Action[str]:
        """Keep it."""
        return p.Continue(type(event.result).__name__)


class Once(p.Plugin[int]):
    """Lets a session begin, and not come back."""

    def init(self) -> int:
        """Begin."""
        return 0

    @p.on(p.SessionStarted)
    def look(self, event: p.SessionStarted, state: int, ctx: p.Context) -> p.Action[int]:
        """Look whether it came back."""
        return p.Abort("not again", state) if event.recovered else p.Continue(state)


@pytest.mark.parametrize(
    ("own", "lent"),
    [
        (Budget(max_cost_usd=0.5), Budget(max_cost_usd=0.5, max_total_tokens=100)),
        (Budget(max_total_tokens=5), Budget(max_cost_usd=2.0, max_total_tokens=5)),
        (Budget(max_cost_usd=9.0, max_total_tokens=900), Budget(max_cost_usd=2.0, max_total_tokens=100)),
    ],
)
def test_what_is_lent_at_most_is_the_lesser_of_both(own, lent):
    """Of dollars and of tokens, each by itself."""
    ledger = Ledger(budget=Budget(max_cost_usd=2.0, max_total_tokens=100))
    _, got = lend_at_most(ledger, ReservationId("s/a1"), own)
    assert got == lent


def test_costs_that_are_not_known_have_no_difference():
    """One that knows none, between two that do."""
    known = Spent(usage=TokenUsage(input=1, cost_usd=0.5), tokens=1, nano_usd=5)
    unknown = Spent(usage=TokenUsage(input=3, cost_usd=None), tokens=3, nano_usd=5)
    assert spent_since(unknown, known).usage.cost_usd is None
    assert spent_since(known, known).usage.cost_usd == 0.0


def test_a_time_before_1970_is_one_all_the_same():
    """Only what no clock says is refused."""
    after, effects = machine.step(new_session(), StatusQuery(at_ms=-1, signal_id=SignalId("q")))
    assert after.phase is Phase.IDLE
    assert len(effects) == 1


def test_what_a_plugin_took_back_in_the_step_that_ends_all_never_begins_either():
    """Neither the request nor its end; what was cancelled of earlier steps is still cancelled."""
    step = drafted(new_session())
    asked, earlier = EffectId("e5"), EffectId("e1")
    step.ask(RunPluginRequest(effect_id=asked, wanted=ReadFile(path="a"), refused=None))
    step.ask(CancelPluginRequest(effect_id=asked))
    step.ask(CancelPluginRequest(effect_id=earlier))
    step.give_up_all()
    assert step.effects == [CancelPluginRequest(effect_id=earlier)]


def test_agents_of_a_session_that_may_not_come_back_are_closed():
    """Its next incarnation had asked for them already."""
    stack, states = load_stack([Once])
    settings = agents_session().data.config
    state = machine.new_session(settings, agents_session().data.tools, stack, states)
    spawn = read_call("c1", "spawn_agent", '{"agent": "scout", "task": "Look."}')
    state = run([PROMPT, completed("r1", spawn)], state)
    after, effects = machine.step(state, Restarted(at_ms=9, reason="bang", incarnation=2))
    assert after.ended
    assert [one.reason for one in effects if isinstance(one, CloseAgent)] == [
        "refused by a plugin: not again"
    ]


def test_a_question_whose_words_changed_behind_its_approval_is_not_put():
    """Nor is a call that the session answers itself carried out; one that became a question meanwhile waits."""
    step = drafted(with_open(new_session()))
    answered = batch.put_to_people(step, asking(bound_to="another hash"))
    assert answered.result is not None
    assert answered.result.text == batch.ARGUMENTS_CHANGED
    spawn = read_call("c1", "spawn_agent", '{"agent": "scout", "task": "Look."}')
    ours = CallState(
        call=spawn, spec=AGENT_TOOLS[0], arguments=spawn.arguments or {}, stage="waiting", bound_to="x"
    )
    assert batch._answer_ourselves(step, ours).result.text == batch.ARGUMENTS_CHANGED  # noqa: SLF001 - its own door
    assert batch._begin(step, asking()).stage == "asking"  # noqa: SLF001 - as above


def test_a_plugin_hears_that_its_request_of_an_older_version_is_lost():
    """Such a state does not say what was asked for."""
    stack, states = load_stack([Diary])
    step = drafted(machine.new_session(config(), TOOLS, stack, states))
    plugin_hooks.request_again(step, EffectId("e1"), OfPluginRequest("Diary", "t"))
    assert step.data.plugin_states["Diary"] == "RequestFailed"


def test_the_prompt_of_a_cycle_without_one_is_the_last_that_was_said():
    """Or the name of the cycle, where nothing was."""
    step = drafted(new_session())
    assert cycle._asked_by(step, Cycle(ref=PromptRef("g"), first_message=0, goes_on=True)) == "g"  # noqa: SLF001
    said = drafted(run([PROMPT, completed("r1", Text(text="Hi."))]))
    assert cycle._asked_by(said, Cycle(ref=PromptRef("g"), first_message=2, goes_on=True)) == "p"  # noqa: SLF001
    machine.step(new_session(), GoOn(at_ms=1, signal_id=SignalId("g"), ref=PromptRef("g")))


def test_a_summary_that_cannot_be_asked_for_anew_is_none():
    """Where nothing may be spent any more the cycle goes on without it."""
    state = run([PROMPT, completed("r1", Text(text="Hi."))], new_session(budget=Budget(max_total_tokens=900)))
    ledger = msgspec.structs.replace(state.data.ledger, spent_tokens=900)
    running = Compaction(effect_id=EffectId("r7"), plan=CompactionPlan(reason="manual", cut=1))
    step = drafted(state, ledger=ledger, compaction=running)
    step.hand_over(EffectId("r7"), OfSummary())
    assert recovery._compact(step) is Phase.IDLE  # noqa: SLF001 - its own door
    assert step.data.compaction is None
    assert not [one for one in step.effects if isinstance(one, StartStream)]
    assert [type(one.event) for one in step.effects if hasattr(one, "event")][-1] is CompactEnd


def test_code_that_raises_when_it_is_looked_for_is_a_plugin_error():
    """Whoever finds plugins is code of somebody's."""

    class Shelf:
        def __call__(self, member, event, state, ctx):
            raise AssertionError

        def find(self, change, record):
            raise KeyError(record.name)

    record = PluginRecord(name="anna", version="1", origin="x:Y", options=None)
    with pytest.raises(PluginError, match="was looked for in vain"):
        find_code(Shelf(), "s1", record)


def survivor(stage="running", **more):
    """A call that an abort had spared."""
    given = {
        "call": read_call("c1", "read", "{}"),
        "spec": ToolSpec(name="read", description="x", parameters={"type": "object"}, effect_class="pure"),
        "arguments": {},
        "stage": stage,
        "effect_id": EffectId("t3"),
    }
    return CallState(**(given | more))


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
    child = survivor(
        spec=ToolSpec(name="task", description="x", parameters={"type": "object"}, answered_by="child"),
        child_ids=("s.c1",),
    )
    step = drafted(new_session(), survivors=(child,))
    step.hand_over(EffectId("t3"), OfSurvivor(CallId("c1")))
    recovery._recover_survivor(step, child, frozenset({EffectId("t3")}))  # noqa: SLF001 - as above
    assert len(step.effects) == 1


def test_a_call_of_which_nothing_is_known_any_more_has_no_name():
    """Its cycle was broken off while the host was told of it."""
    assert recovery._name_of(new_session().data, CallId("c9")) == ""  # noqa: SLF001 - its own door


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
    task = ToolSpec(name="task", description="x", parameters={"type": "object"}, answered_by="child")
    doubts = DoubtfulCalls(calls=(("general-purpose", ""),))
    state = survivor("waiting", spec=task, effect_id=None)
    step = drafted(with_open(new_session()), doubtful=doubts)
    answered = batch._spawn(step, state)  # noqa: SLF001 - its own door
    assert answered.result is not None
    assert answered.result.text == batch.call_results.OUTCOME_UNKNOWN
    decision = recovery._of_call(step.data, state, has_begun=False)  # noqa: SLF001 - as above
    assert decision.decision == "unknown"
    assert recovery._of_call(step.data, state, has_begun=True).decision == "resumed"  # noqa: SLF001 - as above


def test_permissions_that_no_plugin_can_hold_are_refused():
    """An agent may not be left with more than it was given, so the caller hears of it and nothing changes."""
    stack, states = load_stack([Diary])
    state = machine.new_session(config(), TOOLS, stack, states)
    narrower = UpdatePluginOpts(
        at_ms=1, signal_id=SignalId("u"), plugin="Diary", options={"deny": ["read"]}, narrows=True
    )
    after, effects = machine.step(state, narrower)
    (refusal,) = [one for one in effects if isinstance(one, Refuse)]
    assert isinstance(refusal.error, PluginError)
    assert "give it the plugin Permissions" in str(refusal.error)
    assert after.data.stack == state.data.stack
