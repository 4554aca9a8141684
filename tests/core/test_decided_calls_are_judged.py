"""An approval switches no guard off: once a person has decided, every plugin that has not judged the call as it will run judges it."""

import itertools
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import AskHost, RunTool
from agentrail.core.session.effect_owners import OfHostCheck, OfHostReport
from agentrail.core.session.machine import new_session
from agentrail.core.session.state import SessionState
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.events import ToolBlocked
from tests.core.journal.recorded import Told, call, committed, folds_to_what_was_lived
from tests.core.plugin_rig import Says, judges
from tests.core.worlds import TOOLS, config
from tests.thinned import each

PRIORITIES = st.sampled_from([1, 40, 60, 99, 100, 300, 500, 900])
PAY, SHELL = (
    ToolSpec(name=name, description="x", parameters={"type": "object", "properties": {word: {"type": kind}}})
    for name, word, kind in (("pay", "cents", "integer"), ("shell", "command", "string"))
)


def judge(name: str, priority: int, answer: Any) -> Says:
    """Make a plugin that answers a call by a function of its cents; its state is how often it was asked."""
    return judges(
        name,
        p.BeforeTool,
        lambda event, state: answer(event.arguments.get("cents", 0), state),
        priority=priority,
    )


def limit(priority: int, name: str = "limit") -> Says:
    return judge(
        name,
        priority,
        lambda cents, state: p.BlockTool("too much", state) if cents > 50 else p.Continue(state),
    )


def asks(priority: int, name: str = "asks") -> Says:
    """Wants a person to decide about each call."""
    return judge(name, priority, lambda _, state: p.RequireApproval("it pays", state))


def raises_to(priority: int, cents: int) -> Says:
    return judge("raises", priority, lambda _, state: p.ReplaceToolArgs({"cents": cents}, state))


def begun(*plugins: Says, semantics: int = 1, hooks: frozenset[str] = frozenset()) -> Told:
    """A session with these plugins, in this order of registration."""
    stack, states = load_stack(plugins)
    start = new_session(config(max_turns=9, host_hooks=hooks), Toolbox([*TOOLS, PAY, SHELL]), stack, states)
    start = SessionState(start.phase, msgspec.structs.replace(start.data, semantics=semantics))
    told = Told(start)
    told.prompt("Pay.")
    return told


def ran(told: Told, kind: type[RunTool | AskHost] = RunTool) -> list[int]:
    """The cents of all calls that ran, or that the host was asked about."""
    effects = [effect for _, done in told.life.steps for effect in done]
    return [cast("int", effect.arguments["cents"]) for effect in effects if isinstance(effect, kind)]


def decide(told: Told, how: str, cents: int | None) -> None:
    """Decide about all that waits, as long as something does."""
    for _ in range(5):
        waiting = told.life.state.data.interactions
        if not waiting:
            return
        arguments: dict[str, Any] = {} if cents is None else {"arguments": {"cents": cents}}
        told.say(s.Approve, approval_id=waiting[0].id, how=how, **arguments)
        cents = None


@given(
    st.permutations(["limit", "asks", "raises", "other"]),
    st.lists(PRIORITIES, min_size=4, max_size=4),
    st.sampled_from(["once", "always"]),
    st.tuples(st.sampled_from([1, 60]), st.sampled_from([None, 1, 60]), st.sampled_from([None, 1, 60])),
)
def test_no_order_and_no_approval_lets_a_call_past_a_guard_that_refuses_it(order, priorities, how, cents):
    """Whatever the priorities, the decision, an edit, and a plugin that rewrites; also the next calls, which a rule decides."""
    wanted, edited, raised = cents
    first, second, third, fourth = priorities
    made = {"limit": limit(first), "asks": asks(second), "other": asks(third, "other")}
    if raised is not None:
        made["raises"] = raises_to(fourth, raised)
    told = begun(*(made[name] for name in order if name in made))
    for number in range(3):
        told.complete("Now.", call("pay", f"c{number}", cents=wanted), call("pay", f"d{number}", cents=60))
        decide(told, how, edited)
        told.finish_tools()
    assert [cents for cents in ran(told) if cents > 50] == []
    folds_to_what_was_lived(told.life)


@pytest.mark.parametrize("hooks", [frozenset(), frozenset({"before_tool"})])
def test_a_rule_stands_for_a_rewritten_call_that_it_covers_too(hooks):
    """No person is asked again; a host that judges calls is asked about what will run."""
    told = begun(asks(50), raises_to(500, 7), hooks=hooks)
    told.complete("Now.", call("pay", cents=1))
    for _ in range(5):
        hear_host(told, OfHostCheck, s.HostJudged)
        if told.life.state.data.interactions:
            told.approve("always")
    told.finish_tools()
    hear_host(told, OfHostReport, s.HostTold)
    asked_before = len(ran(told, AskHost))
    told.complete("Now.", call("pay", "c2", cents=2))
    hear_host(told, OfHostCheck, s.HostJudged)
    hear_host(told, OfHostCheck, s.HostJudged)
    assert ran(told) == [7, 7]
    assert ran(told, AskHost)[asked_before:] == ([2, 7] if hooks else [])
    assert not told.life.state.data.interactions


def test_a_rule_does_not_stand_for_a_rewritten_call_that_it_does_not_cover():
    """A person is shown what it has become."""

    def push(event, state):
        if state != 2 or event.arguments["command"] == "git push":
            return p.Continue(state)
        return p.ReplaceToolArgs({"command": "git push"}, state)

    told = begun(asks(50), judges("pushes", p.BeforeTool, push, priority=500))
    for call_id in ("c1", "c2"):
        told.complete("Now.", call("shell", call_id, command="git status"))
        if call_id == "c1":
            told.approve("always")
            told.finish_tools()
    (again,) = told.life.state.data.interactions
    assert again.asked.arguments == {"command": "git push"}


def hear_host(told: Told, kind: type[Any], signal: type[Any]) -> None:
    """Let the host allow every call that it is asked about, or have heard of every call that ended."""
    for effect_id, owner in tuple(told.life.state.data.open.items()):
        if isinstance(owner, kind):
            told.say(signal, effect_id=effect_id)


def test_a_journal_of_before_folds_as_it_was_lived():
    """An approval had the last word there, and an edit was judged by the guards alone: a plugin behind the approval is not asked."""
    told = begun(limit(1), asks(5), semantics=0)
    told.complete("Now.", call("pay", cents=1))
    decide(told, "once", 60)
    assert ran(told) == []
    folds_to_what_was_lived(told.life)

    told = begun(limit(500), asks(5), semantics=0)
    told.complete("Now.", call("pay", cents=60))
    decide(told, "once", None)
    assert ran(told) == [60]
    folds_to_what_was_lived(told.life)


def blocked(told: Told) -> list[ToolBlocked]:
    events = [event for _, done in told.life.steps for event in committed(done)]
    return [event for event in events if isinstance(event, ToolBlocked)]


@each(("priority", "edited"), itertools.product([1, 40, 60, 100, 500, 900], [None, 60]))
def test_a_refusal_wins_over_the_approval_and_is_told(priority, edited):
    """The call is answered with the reason, and the event says that a person had allowed it."""
    told = begun(limit(priority), asks(5))
    told.complete("Now.", call("pay", cents=60 if edited is None else 1))
    was_asked = bool(told.life.state.data.interactions)
    decide(told, "once", edited)
    (refusal,) = blocked(told)
    assert (refusal.reason, refusal.by, refusal.approved) == ("too much", "limit", was_asked)
    assert ran(told) == []


def test_who_has_judged_the_call_as_it_runs_is_not_asked_again():
    """One question for each plugin: those in front of the approval before it, the others behind it."""
    told = begun(limit(20), asks(50), limit(700, "late"))
    told.complete("Now.", call("pay", cents=9))
    decide(told, "once", None)
    states = told.life.state.data.plugin_states
    assert states == {"limit": 1, "asks": 1, "late": 1}
    assert ran(told) == [9]


def test_what_a_plugin_makes_of_an_approved_call_is_shown_again():
    """What runs is what was shown last; the plugin is not asked without end."""
    told = begun(asks(50), raises_to(500, 7))
    told.complete("Now.", call("pay", cents=1))
    told.approve("once")
    (again,) = told.life.state.data.interactions
    assert (again.asked.arguments, again.asked.hint) == ({"cents": 7}, "raises changed what you allowed")
    told.approve("once")
    assert ran(told) == [7]


def test_a_plugin_that_changed_an_approved_call_is_not_asked_about_its_own_change():
    """Otherwise one that adds to what it sees would change each call that a person has just approved."""
    told = begun(
        asks(50), judge("adds", 500, lambda cents, state: p.ReplaceToolArgs({"cents": cents + 1}, state))
    )
    told.complete("Now.", call("pay", cents=1))
    told.approve("once")
    told.approve("once")
    assert ran(told) == [2]


def test_a_rule_stands_for_nothing_that_a_later_plugin_made():
    """The words of the call are others then, and a person is asked about them."""
    told = begun(asks(50), limit(300))
    told.complete("Now.", call("pay", cents=9))
    told.approve("always")
    told.finish_tools()
    told.complete("Now.", call("pay", "c2", cents=60))
    assert (ran(told), [one.approved for one in blocked(told)]) == ([9], [True])


@pytest.mark.parametrize("how", ["once", "always"])
@pytest.mark.parametrize("is_changed", [False, True])
def test_a_gate_that_came_while_a_call_waited_for_its_user_judges_it_too(how, is_changed):
    """A recovery brings the gate. What it makes of the call is shown again, and a rule is made only of what runs."""
    told = begun(asks(50))
    told.complete("Now.", call("pay", cents=1))
    told.say(s.Recovered, open=(), host_hooks=("before_tool",))
    assert ran(told, AskHost) == []
    told.approve(how)
    assert (ran(told), ran(told, AskHost), told.life.state.data.rules) == ([], [1], frozenset())
    (effect_id,) = [one for one, owner in told.life.state.data.open.items() if isinstance(owner, OfHostCheck)]
    told.say(s.HostJudged, effect_id=effect_id, arguments={"cents": 2} if is_changed else None)
    assert ran(told) == ([] if is_changed else [1])
    assert bool(told.life.state.data.rules) is (how == "always" and not is_changed)
    if is_changed:
        told.approve(how)
        assert (ran(told), ran(told, AskHost)) == ([2], [1])
    folds_to_what_was_lived(told.life)
