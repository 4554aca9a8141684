"""Approvals, across all that may happen between the question and the answer."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.protocol.effects import Refuse, RunTool
from agentrail.core.protocol.signals import Approve, Reject, Respond, Restarted, Signal, SignalId, StatusQuery
from agentrail.core.session.approval_details import MAX_SUMMARY_CHARACTERS, summary_of
from agentrail.core.session.approval_rules import is_allowed, rule_below, rule_text, rule_tool
from agentrail.core.session.interactions import allow_always
from agentrail.core.session.machine import new_session
from agentrail.core.session.state import Rule, SessionState
from agentrail.core.session.step_context import StepContext
from agentrail.core.session.views import snapshot_of
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.toolbox import Toolbox, ToolSpec, read_call
from agentrail.errors import AnswerNotOffered
from agentrail.events import (
    PERMISSION_OPTIONS,
    ApprovalRequired,
    ToolBlocked,
)
from agentrail.messages import ApprovalId, JsonValue
from agentrail.testing.plugins import PuppetPlugin, read_rule
from tests.core.plugin_rig import judges
from tests.core.worlds import TOOLS, changed, completed, config, prompt, run, walk

CALLED: list[Signal] = [
    prompt(),
    completed("r1", read_call("c1", "read", '{"path": "a"}')),
]


NO_SECRETS = judges(
    "NoSecrets",
    p.BeforeTool,
    lambda event, state: (
        p.BlockTool("a secret", state) if event.arguments.get("path") == "secret" else p.Continue(state)
    ),
    priority=10,
)
"""A guard: nobody reads the secret."""


def asking(rule: str) -> tuple[SessionState, ApprovalId]:
    """A session with a call that waits for a person, and a guard before that."""
    people = PuppetPlugin((read_rule("BeforeTool.read", rule),), name="people")
    stack, states = load_stack([NO_SECRETS, people])
    state = run(CALLED, new_session(config(), TOOLS, stack, states))
    (waiting,) = state.data.interactions
    return state, ApprovalId(waiting.id)


def crashed(state: SessionState) -> Signal:
    return Restarted(at_ms=5, reason="bug", incarnation=state.data.incarnation + 1)


@pytest.mark.at(55)
def test_a_resolved_approval_is_never_asked_again():
    """After no restart, and to nobody who looks or comes back later; the same signals again resolve it the same way."""
    state, approval_id = asking("approve:may it?")
    approve = Approve(at_ms=6, signal_id=SignalId("y1"), approval_id=approval_id)
    later = [approve, *[StatusQuery(at_ms=7, signal_id=SignalId("q"))] * 2]
    for script in ([*later, crashed(state), crashed(state)], [crashed(state), *later, crashed(state)]):
        for seen in walk(script, state):
            assert not any(isinstance(event, ApprovalRequired) for event in seen.events)
        after = seen.after
        assert after.data.interactions == ()
        snapshot = snapshot_of(after.phase, after.data, 9)
        assert snapshot.status.approvals == ()
        assert [one.id for one in after.data.resolved] == [approval_id]
        assert run(script, state) == after


@pytest.mark.at(61)
def test_arguments_that_a_person_changed_are_judged_anew():
    """By the schema, and by the guards: a person may not approve what the policy forbids."""
    state, approval_id = asking("approve:may it?")

    def edited(path: JsonValue) -> Approve:
        return Approve(at_ms=6, signal_id=SignalId("y1"), approval_id=approval_id, arguments={"path": path})

    *_, unfit = walk([edited(7)], state)
    assert not unfit.of(RunTool)
    assert [one.id for one in unfit.after.data.interactions] == [approval_id]
    *_, fit = walk([edited("b")], state)
    assert [ran.arguments for ran in fit.of(RunTool)] == [{"path": "b"}]
    *_, forbidden = walk([edited("secret")], state)
    assert not forbidden.of(RunTool)
    assert [event.by for event in forbidden.events if isinstance(event, ToolBlocked)] == ["NoSecrets"]


@pytest.mark.at(61)
def test_arguments_that_a_plugin_changed_are_judged_anew():
    """By the schema, and by the guards that had let the old ones pass."""
    for path, ran in (('"b"', True), ('"secret"', False), ("7", False)):
        changes = PuppetPlugin((read_rule("BeforeTool.read", f'args:{{"path": {path}}}'),), name="changes")
        stack, states = load_stack([NO_SECRETS, changes])
        *_, seen = walk(CALLED, new_session(config(), TOOLS, stack, states))
        assert bool(seen.of(RunTool)) is ran
        blocked = [event for event in seen.events if isinstance(event, ToolBlocked)]
        assert len(blocked) == ("secret" in path)


def offering(offered: Any, *, rules: frozenset[Rule] = frozenset()) -> SessionState:
    """A session whose model has called a tool."""
    wants = lambda _, state: p.RequireApproval("may it?", state, permission_options=offered)  # noqa: E731
    stack, states = load_stack([judges("asks", p.BeforeTool, wants, priority=50)])
    state = new_session(config(), TOOLS, stack, states)
    return run(CALLED, changed(state, rules=rules))


BY: dict[str, Any] = {"at_ms": 6, "signal_id": SignalId("y")}
ANSWERS: dict[str, Any] = {
    "approve": lambda wanted: Approve(**BY, approval_id=wanted),
    "always": lambda wanted: Approve(**BY, approval_id=wanted, how="always"),
    "edit": lambda wanted: Approve(**BY, approval_id=wanted, arguments={"path": "b"}),
    "reject": lambda wanted: Reject(**BY, approval_id=wanted),
    "respond": lambda wanted: Respond(**BY, ref=wanted, response="seen"),
}


@given(
    offered=st.lists(st.sampled_from(PERMISSION_OPTIONS), min_size=1, unique=True),
    answer=st.sampled_from(PERMISSION_OPTIONS),
)
def test_exactly_the_answers_that_are_offered_decide(offered, answer):
    """Every other one is refused with those that are, and the call waits as it did."""
    state = offering(tuple(offered))
    (waiting,) = state.data.interactions
    assert waiting.asked.permission_options == tuple(offered)
    *_, seen = walk([ANSWERS[answer](ApprovalId(waiting.id))], state)
    refused = [effect.error for effect in seen.of(Refuse)]
    if answer in offered:
        assert refused == []
        assert seen.after.data.interactions == ()
    else:
        (error,) = refused
        assert isinstance(error, AnswerNotOffered)
        assert f"it takes {', '.join(offered)}; the call still waits" in str(error)
        assert seen.after.data.interactions == state.data.interactions


def test_a_new_rule_only_answers_what_offers_always():
    """Of two calls that wait and are alike, the one that may not be answered so waits on."""
    state = offering(("always",))
    (first,) = state.data.interactions
    # Another plugin asked about the second call; what it offers stands in the approval.
    for offered, left in ((("approve",), ["other"]), (("always",), [])):
        other = msgspec.structs.replace(first.asked, id=ApprovalId("other"), permission_options=offered)
        both = (first, msgspec.structs.replace(first, asked=other, timer=None))
        after = run([ANSWERS["always"](ApprovalId(first.id))], changed(state, interactions=both))
        assert [one.id for one in after.data.interactions] == left


def test_only_arguments_that_were_shown_make_a_rule():
    """`always` of a call that has become another one since it was shown lets nothing else run."""
    state = offering(("always",))
    (waiting,) = state.data.interactions
    for shown, covered in ((waiting.asked.arguments_hash, (waiting,)), ("0" * 64, ())):
        step = StepContext(state.data, 6, suspended=True)
        (call,) = step.data.batch
        assert allow_always(step, msgspec.structs.replace(call, bound_to=shown)) == covered
        assert bool(step.data.rules) is bool(covered)


def test_a_plugin_that_offers_what_there_is_not_is_at_fault():
    """The call is refused, as for every fault of a guard; nobody is asked something that cannot be answered."""
    for offered in ((), ("maybe",), ["approve"], None, (["approve"],)):
        assert offering(offered).data.interactions == ()


def test_a_rule_covers_the_tool_that_was_shown():
    """In every session that it reaches. A rule without a text covers tools of no source, and is bound on the way down."""
    kind = {"name": "t", "parameters": {"type": "object"}}
    note, book = (ToolSpec(description=words, **kind) for words in ("note", "book"))
    sourced = ToolSpec(description="note", origin="@mcp s 1", **kind)
    texts = [rule_text(spec) for spec in (note, book, sourced, None)]
    assert len(set(texts)) == 4
    made = [Rule(tool="t", family=None, shown=text) for text in ("", *texts)]
    allowed = [[is_allowed(frozenset({rule}), "t", {}, text) for text in texts] for rule in made]
    assert allowed[0] == [True, True, False, True]
    assert allowed[1:] == [[text == other for other in texts] for text in texts]
    assert rule_below(made[0], Toolbox([note])) == made[1]
    for rule in (*made[1:], Rule(tool="t", family=None, breaks=True)):
        assert rule_below(rule, Toolbox([book])) == rule
    named = [rule_tool(rule, spec) for rule in made[1:4] for spec in (note, None)]
    other = "t of another agent, or before it changed"
    assert named == ["t", other, other, other, None, "t"]


@pytest.mark.parametrize("blanks", [0, 100, 10_000])
def test_a_summary_never_looks_whole_when_a_part_of_the_call_is_missing(blanks):
    """Blanks before the end of a command would hide it: they are left out, and only the beginning of a text is read."""
    line = "ls" + " " * blanks + "; rm -rf ~"
    assert summary_of({"command": line}) == (
        "ls…" if blanks > 4 * MAX_SUMMARY_CHARACTERS else " ".join(line.split())
    )
    long = summary_of({"command": "x" * (MAX_SUMMARY_CHARACTERS + 1)})
    assert (len(long), long[-1]) == (MAX_SUMMARY_CHARACTERS, "…")
