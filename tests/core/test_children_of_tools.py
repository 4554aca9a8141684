"""Sessions that running tools ask for: who may have one, what it is lent, who waits, and what its end gives back."""

from typing import Any

import msgspec
import pytest

from agentrail.core.policy.budget import Budget, Ledger, Spent
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import Refuse, SpawnChild, StartStream
from agentrail.core.protocol.request import EffectId
from agentrail.core.session import child_sessions
from agentrail.core.session.agent_records import AgentSpec
from agentrail.core.session.child_sessions import MAX_SESSION_DEPTH
from agentrail.core.session.reservations import spent_with_lost
from agentrail.core.session.state import SessionState
from agentrail.core.values.toolbox import Toolbox, ToolSpec, read_call
from agentrail.errors import ChildRefused, CycleAborted, ErrorInfo, OptionError
from agentrail.events import AgentStart, ToolExecutionEnd
from agentrail.messages import CallId, PromptRef, SessionId, SteerRef, TokenUsage
from agentrail.testing.promises import PROMISES, Seen
from tests.core.worlds import TOOLS, changed, completed, new_session, prompt, run, walk

LIMIT = 402
LEFT = LIMIT - 2
"""What the first response leaves."""
PROMPT = prompt(text="Hello")
TASK = ToolSpec(
    name="task", description="A session works for it.", parameters={"type": "object"}, answered_by="child"
)
SEVEN = Spent(usage=TokenUsage(input=4, output=3), tokens=7, nano_usd=0)


def at_work(*names: str, **options: Any) -> SessionState:
    """A session whose model has called these tools, of which two run at a time."""
    calls = (read_call(f"c{number}", name, "{}") for number, name in enumerate(names or ("read",)))
    options = {"max_output_tokens": 40, "budget": Budget(max_total_tokens=LIMIT)} | options
    return run([PROMPT, completed("r1", *calls)], new_session(Toolbox([*TOOLS, TASK]), **options))


def wish(attempt: str = "t2", number: int = 1, **options: Any) -> s.ToolWantsChild:
    asked: dict[str, Any] = {"prompt": "Count the files."} | options
    return s.ToolWantsChild(at_ms=5, signal_id=s.SignalId(f"w{number}"), effect_id=EffectId(attempt), **asked)


def over(child: str, spent: Spent | None = SEVEN) -> s.ToolFinished:
    return s.ToolFinished(at_ms=6, effect_id=EffectId(child), text="ok", started_at_ms=5, spent=spent)


def last(state: SessionState, *signals: Any) -> Seen:
    """The last step of these, each of which keeps all promises."""
    seen = list(walk(signals, state))
    for each in seen:
        for promise in PROMISES:
            promise(each)
    return seen[-1]


def refused(seen: Seen) -> Any:
    (refusal,) = seen.of(Refuse)
    return refusal.error


def lent(seen: Seen) -> list[int | None]:
    """What the children of this step may spend."""
    return [spawned.budget and spawned.budget.max_total_tokens for spawned in seen.of(SpawnChild)]


def test_a_tool_and_a_call_are_lent_the_same():
    """One effect and one record for both: alone, each has all that is left (G-033)."""
    call = read_call("c1", "task", '{"description": "Count the files."}')
    alone = new_session(Toolbox([TASK]), max_output_tokens=40, budget=Budget(max_total_tokens=LIMIT))
    (of_call,) = last(alone, PROMPT, completed("r1", call)).of(SpawnChild)
    (of_tool,) = last(at_work(), wish()).of(SpawnChild)
    assert of_call.budget == of_tool.budget == Budget(max_total_tokens=LEFT)
    assert dict(of_call.arguments) == dict(of_tool.arguments)
    assert (of_call.wish, of_tool.wish) == (None, wish())


def test_who_finds_nothing_left_waits_and_shares_what_comes_back():
    """Oldest first, in equal parts, and the call that waits for its slot counts too; beside a survivor the model has a share."""
    state = run([wish(number=1), wish(number=2), wish(number=3)], at_work())
    assert [one.signal_id for one in state.data.wishes] == ["w2", "w3"]
    seen = last(state, over("t3"))
    assert lent(seen) == [(LEFT - 7) // 2, LEFT - 7 - (LEFT - 7) // 2]
    assert seen.after.data.wishes == ()
    assert last(seen.after, over("t4"), over("t5")).after.data.ledger.open == ()

    survives = run([s.AbortCycle(at_ms=5, signal_id=s.SignalId("a1"))], at_work("watch"))
    seen = last(survives, wish())
    assert lent(seen) == [LEFT // 2]
    assert last(seen.after, PROMPT).of(StartStream)


def test_who_can_be_lent_nothing_is_refused():
    """At once where nothing is out of which a part could come back, and nothing is minted; else when all that was lent was used."""
    spent = Ledger(budget=Budget(max_total_tokens=LIMIT), spent_tokens=LIMIT)
    seen = last(changed(at_work(), ledger=spent), wish())
    assert isinstance(refused(seen), ChildRefused)
    assert str(refused(seen)).startswith("nothing of 402 tokens is left for a sub-agent")
    assert seen.after.data.minted == seen.before.data.minted
    assert not seen.of(SpawnChild)

    state = run([wish(number=1), wish(number=2)], at_work())
    everything = Spent(usage=TokenUsage(input=LEFT), tokens=LEFT, nano_usd=0)
    seen = last(state, over("t3", everything))
    assert isinstance(refused(seen), ChildRefused)
    assert (seen.after.data.wishes, seen.after.data.loans) == ((), ())


ENDS: dict[str, tuple[Any, ...]] = {
    "aborted": (s.AbortCycle(at_ms=7, signal_id=s.SignalId("a1")),),
    "stopped": (s.AbortTool(at_ms=7, signal_id=s.SignalId("k1"), call_id=CallId("c0")),),
    "steered": (s.Steer(at_ms=7, signal_id=s.SignalId("s1"), ref=SteerRef("s1"), text="left"),),
    "finished": (over("t2", None),),
    "crashed": (
        s.ToolFinished(at_ms=7, effect_id=EffectId("t2"), text="x", started_at_ms=5, crashed=True, is_error=True),
    ),
}  # fmt: skip


@pytest.mark.at(127)
@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_the_call_refuses_who_waits_and_takes_back_the_rest(end):
    """In that very step who waits is refused; what is at work is heard no more, and counted once when it is gone."""
    state = run([wish(number=1), wish(number=2)], at_work())
    seen = last(state, *ENDS[end])
    assert [(one.to, type(one.error)) for one in seen.of(Refuse)] == [("w2", CycleAborted)]
    assert seen.after.data.loans == ("t3",)
    late = s.ChildPublished(at_ms=8, effect_id=EffectId("t3"), event=AgentStart(ref=PromptRef("p")))
    assert last(seen.after, late).effects == ()
    settled = last(seen.after, over("t3")).after
    held = [str(held) for held, _ in settled.data.ledger.open]
    assert "s/t3" not in held
    assert (settled.data.loans, settled.data.usage.total) == ((), 2 + 7)
    again = last(settled, over("t3")).after
    assert again.data.usage == settled.data.usage
    assert again.data.ledger == settled.data.ledger


@pytest.mark.parametrize(
    ("spent", "used", "booked"),
    [
        ((), 0, 196 + 197),
        ((SEVEN,), 7, 197 + 7),
        ((SEVEN, SEVEN), 14, 14),
        ((Spent(usage=TokenUsage(), tokens=0, nano_usd=0), SEVEN, SEVEN), 14, 14),
    ],
    ids=["nothing known", "one known", "both known", "one known that has ended"],
)
@pytest.mark.parametrize("end", ["recovered", "restarted", "parked"])
def test_lost_children_are_booked_by_what_is_known_of_them(end, spent, used, booked):
    """What is unknown counts as all of the largest loans. Only what was used by those that are known is shown."""
    state = run([wish(number=1), wish(number=2), wish(number=3), over("t3")], at_work())
    lent = {str(held): bound.tokens for held, bound in state.data.ledger.open}
    assert sorted(lent.values()) == [196, 197]
    ends = {
        "recovered": s.Recovered(at_ms=9, open=tuple(state.data.open), spent=spent),
        "restarted": s.Restarted(at_ms=9, reason="bad", incarnation=2, spent=spent),
        "parked": s.Parked(at_ms=9, reason="bad", spent=spent),
    }
    seen = last(state, ends[end])
    assert seen.after.data.loans == ()
    assert seen.after.data.usage.total - state.data.usage.total == used
    assert seen.after.data.ledger.spent_tokens - state.data.ledger.spent_tokens == booked


def test_a_lost_session_counts_what_its_own_lost_children_used():
    """With a budget all of it that is not known to be left. Without one, what is known to be used."""
    data = run([wish(number=1), wish(number=2), wish(number=3), over("t3")], at_work()).data
    nothing, both = spent_with_lost(data, ()), spent_with_lost(data, (SEVEN, SEVEN))
    assert (nothing.tokens, nothing.usage) == (LIMIT, data.usage)
    assert (both.tokens, both.usage.total) == (data.ledger.spent_tokens + 14, data.usage.total + 14)
    free = run([wish()], at_work(budget=None)).data
    assert spent_with_lost(free, (SEVEN,)).usage.total == free.usage.total + 7


@pytest.mark.parametrize("budget", [Budget(max_total_tokens=LIMIT), None])
def test_a_lost_session_counts_what_its_agents_used_since_their_last_report(budget):
    """Of an agent that nothing is known of, all that it was lent."""
    scout = AgentSpec(name="scout", description="Looks.", background=True)
    state = at_work(budget=budget, agents=(scout,))
    for name in ("one", "two"):
        command = {"action": "spawn", "agent": "scout", "name": name, "text": "Look."}
        state = run([s.AgentCommand(at_ms=5, signal_id=s.SignalId(name), **command)], state)
    one, two = state.data.agents.states
    counted = msgspec.structs.replace(one, spent=SEVEN)
    team = msgspec.structs.replace(state.data.agents, states=(counted, two))
    data = msgspec.structs.replace(state.data, agents=team)
    total = Spent(usage=TokenUsage(input=10, output=5), tokens=15, nano_usd=0)
    lost = spent_with_lost(data, (), [(counted, total)])
    assert lost.usage.total == data.usage.total + 8
    lent = dict(data.ledger.open) if budget is not None else {}
    of_two = sum([bound.tokens for held, bound in lent.items() if str(held).endswith(f"/{two.loan}")])
    assert lost.tokens == 2 + 8 + of_two


def test_an_outcome_that_crashed_the_core_gives_back_what_it_can():
    """What it would have said is lost, so all that was lent is booked, and the tool goes on."""
    state = run([wish()], at_work())
    error = ErrorInfo(code="internal_error", message="a bug")
    crashed = s.StepCrashed(at_ms=9, signal_kind="ToolFinished", error=error, owed_by=EffectId("t3"))
    seen = last(state, crashed)
    assert (seen.after.data.loans, seen.after.data.ledger.open) == ((), ())
    assert seen.after.data.batch[0].stage == "running"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tools": ("gone", "read")}, OptionError, "tools has ['gone']: expected names of ask, deploy, read, task, watch"),
        ({"max_turns": 0}, OptionError, "max_turns is 0: expected 1 or more"),
        ({"max_turns": -1, "tools": ("gone",)}, OptionError,
         "tools has ['gone']: expected names of ask, deploy, read, task, watch; max_turns is -1: expected 1 or more"),
        ({"agent": "nobody"}, OptionError, "agent is 'nobody': expected one of general-purpose"),
        ({"attempt": "t9"}, CycleAborted, "the cycle was aborted: the call that asks was stopped"),
    ],
)  # fmt: skip
def test_a_session_that_cannot_be_is_refused(options, error, message):
    """Before anything is lent or started."""
    seen = last(at_work(), wish(**options))
    assert type(refused(seen)) is error
    assert str(refused(seen)) == message
    assert seen.after.data == seen.before.data


def test_a_tool_may_want_one_of_the_agents_of_its_session():
    """12.2.1: the one that it names works; of one with tools of its own those can be chosen, and the session's cannot."""
    own = Toolbox([ToolSpec(name="look", description="", parameters={})])
    scout = AgentSpec(name="scout", description="Looks.", tools=own)
    state = at_work(agents=(scout, AgentSpec(name="clerk", description="Writes.")))
    for options, agent in (
        ({"agent": "scout", "tools": ("look",)}, "scout"),
        ({"agent": "clerk", "tools": ("read",)}, "clerk"),
        ({"agent": "general-purpose"}, "general-purpose"),
        ({}, "general-purpose"),
    ):
        assert last(state, wish(**options)).of(SpawnChild)[0].agent == agent
    assert "expected names of look" in str(refused(last(state, wish(agent="scout", tools=("read",)))))


def test_sessions_of_tools_have_a_bound(monkeypatch):
    """Those that work and those that wait together, as all that waits has; the tool that asks once more hears it."""
    monkeypatch.setattr(child_sessions, "MAX_ASKERS", 20)
    state = run([wish(number=number) for number in range(20)], at_work())
    assert len(state.data.loans) + len(state.data.wishes) == 20
    *_, seen = walk([wish(number=20)], state)
    assert isinstance(refused(seen), ChildRefused)
    assert str(refused(seen)).startswith("20 sub-agents already belong to tools of session 's'")


def test_no_session_stands_too_deep():
    """Neither one that a tool asks for nor one that answers a call, whatever its tool allows."""
    for levels, spawns in ((MAX_SESSION_DEPTH - 1, 1), (MAX_SESSION_DEPTH, 0)):
        state, start = at_work(budget=None), new_session(Toolbox([TASK]))
        path = tuple(SessionId(f"s{level}") for level in range(levels))
        deep = msgspec.structs.replace(state.data.config, path=path)
        seen = last(changed(state, config=deep), wish())
        assert len(seen.of(SpawnChild)) == spawns
        said = "8 sessions stand above one another already"
        assert spawns or str(refused(seen)).startswith(f"{said}: give the innermost")
        seen = last(changed(start, config=deep), PROMPT, completed("r1", read_call("c0", "task", "{}")))
        assert len(seen.of(SpawnChild)) == spawns
        answers = [one.result.text for one in seen.events if isinstance(one, ToolExecutionEnd)]
        assert [text.startswith(said) for text in answers] == [True] * (1 - spawns)
