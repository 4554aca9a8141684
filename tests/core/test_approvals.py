"""Approvals, across all that may happen between the question and the answer."""

import pytest

from agentrail.core.effects import RunTool
from agentrail.core.machine import new_session
from agentrail.core.projection import snapshot_of
from agentrail.core.signals import Approve, Prompt, Restarted, Signal, SignalId, StatusQuery
from agentrail.core.stack import load_stack
from agentrail.core.state import Phase, SessionState
from agentrail.core.toolbox import read_call
from agentrail.events import ApprovalRequired, ToolBlocked, ToolExecutionEnd
from agentrail.messages import ApprovalId, PromptRef, Text
from agentrail.testing.plugins import PuppetPlugin, read_rule
from tests.core.worlds import TOOLS, completed, config, run, walk

SAID = (Text(text="go"),)


def asking(*rules: str, path: str = "a") -> tuple[SessionState, ApprovalId]:
    """A session with a call that waits for a person."""
    plugins = [PuppetPlugin((read_rule("BeforeTool.read", rule),), name=f"p{n}") for n, rule in enumerate(rules)]
    stack, states = load_stack([(plugin, {}) for plugin in plugins])
    state = new_session(config(), TOOLS, stack, states)
    script = [
        Prompt(at_ms=1, signal_id=SignalId("p1"), ref=PromptRef("p1"), content=SAID),
        completed("r1", read_call("c1", "read", f'{{"path": "{path}"}}')),
    ]
    state = run(script, state)
    (waiting,) = state.data.interactions
    return state, ApprovalId(waiting.id)


def crashed(state: SessionState) -> Signal:
    """The actor of the session comes back."""
    return Restarted(at_ms=5, reason="bug", incarnation=state.data.incarnation + 1)


def test_an_approval_that_waits_waits_on_after_a_restart():
    """It is not asked for once more, and the call runs when it is approved, and not before."""
    state, approval_id = asking("approve:may it?")
    *_, back = walk([crashed(state)], state)
    assert not any(isinstance(event, ApprovalRequired) for event in back.events)
    assert not back.of(RunTool)
    assert [one.id for one in back.after.data.interactions] == [approval_id]
    *_, seen = walk([Approve(at_ms=6, signal_id=SignalId("y1"), approval_id=approval_id)], back.after)
    assert [ran.call_id for ran in seen.of(RunTool)] == ["c1"]


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

    def edited(path: object) -> Approve:
        return Approve(
            at_ms=6, signal_id=SignalId("y1"), approval_id=approval_id, arguments={"path": path}
        )

    *_, unfit = walk([edited(7)], state)
    assert not unfit.of(RunTool)
    assert [one.id for one in unfit.after.data.interactions] == [approval_id]
    *_, fit = walk([edited("b")], state)
    assert [ran.arguments for ran in fit.of(RunTool)] == [{"path": "b"}]
