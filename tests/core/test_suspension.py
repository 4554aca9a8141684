"""A suspended cycle, and what ends its wait: each way by itself, said once, in front of what follows."""

from typing import Any

import pytest

from agentrail import plugins as p
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.request import EffectId
from agentrail.core.session.machine import new_session
from agentrail.core.session.state import SessionState
from agentrail.core.stack.loaded_stack import PluginEntry, load_stack
from agentrail.core.values.toolbox import read_call
from agentrail.errors import ErrorInfo
from agentrail.events import AgentAbort, AgentEnd, AgentError, AgentResumed, AgentSuspended, Event
from agentrail.messages import ApprovalId, CallId, QuestionRef, SteerRef
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.promises import PROMISES
from agentrail.testing.promises.conversation import suspensions_are_said
from tests.core.plugin_rig import judges
from tests.core.worlds import TOOLS, completed, config, prompt, run, walk

BY: dict[str, Any] = {"at_ms": 5, "signal_id": s.SignalId("s9")}
ASKED: list[s.Signal] = [
    prompt(),
    completed("r1", read_call("c1", "read", '{"path": "a"}')),
]
CRASH = ErrorInfo(code="internal", message="a bug")


def suspended(*others: PluginEntry) -> SessionState:
    """A session whose cycle waits for an approval: its calls of `read` are asked about."""
    people = PuppetPlugin((read_rule("BeforeTool.read", "approve:may it?"),), name="people")
    stack, states = load_stack([people, *others])
    state = run(ASKED, new_session(config(), TOOLS, stack, states))
    assert state.suspended
    return state


Way = tuple[list[s.Signal], str, type[Event] | None]


def ways(state: SessionState) -> dict[str, Way]:
    """Each way in which the wait for this one thing ends, its trigger, and how the cycle ends with it."""
    (waiting,) = state.data.interactions
    wanted = ApprovalId(waiting.id)
    timer = s.TimerFired(at_ms=10**6, effect_id=waiting.timer or EffectId(""))
    stand_in = s.StepCrashed(at_ms=10**6, signal_kind="TimerFired", error=CRASH, owed_by=waiting.timer)
    restart = s.Restarted(at_ms=4, reason="crash", incarnation=2)
    approve = s.Approve(**BY, approval_id=wanted)
    return {
        "approved": ([approve], "tool_approved", None),
        "approved, and it is not read": (
            [s.Approve(**BY, approval_id=wanted, auto_resume=False)],
            "tool_approved",
            None,
        ),
        "rejected": ([s.Reject(**BY, approval_id=wanted)], "tool_rejected", AgentEnd),
        "rejected, and it is read": (
            [s.Reject(**BY, approval_id=wanted, auto_resume=True)],
            "tool_rejected",
            None,
        ),
        "answered": ([s.Respond(**BY, ref=QuestionRef(waiting.id), response="no")], "user_respond", None),
        "not in time": ([timer], "tool_approval_timeout", None),
        "not in time, by a stand-in": ([stand_in], "tool_approval_timeout", None),
        "aborted": ([s.AbortCycle(**BY)], "abort", AgentAbort),
        "the call alone is aborted": ([s.AbortTool(**BY, call_id=CallId("c1"))], "tool_rejected", None),
        "steered": ([s.Steer(**BY, ref=SteerRef("t1"), text="left")], "steering", None),
        "prompted": ([prompt("p2", at_ms=5)], "superseded", AgentEnd),
        "stopped": ([s.StopSession(**BY)], "stop", AgentAbort),
        "parked": ([s.Parked(at_ms=5, reason="crash")], "stop", AgentError),
        "restarted and approved": ([restart, approve], "tool_approved", None),
    }


@pytest.mark.parametrize("way", ways(suspended()))
def test_whatever_ends_the_wait_says_so_once(way):
    """`AgentResumed` with its trigger; and where the cycle ends with it, that comes behind."""
    state = suspended()
    script, trigger, end = ways(state)[way]
    seen = list(walk(script, state))
    for one in seen:
        for promise in PROMISES:
            promise(one)
    said = [event for one in seen for event in one.events if isinstance(event, AgentResumed | AgentSuspended)]
    assert said == [AgentResumed(trigger=trigger)]
    kinds = [type(event) for event in seen[-1].events]
    if end is not None:
        assert kinds.index(AgentResumed) < kinds.index(end)
    assert not seen[-1].after.suspended


def test_what_ends_the_cycle_of_a_wait_comes_behind_its_end():
    """A plugin that lets no session come back; a guard that aborts because of what was written with the decision."""
    state = suspended(PuppetPlugin((read_rule("SessionStarted", "abort:no"),), name="late"))
    (seen,) = walk([s.Restarted(at_ms=4, reason="crash", incarnation=2)], state)
    kinds = [type(event) for event in seen.events]
    assert kinds.index(AgentResumed) < kinds.index(AgentError)
    suspensions_are_said(seen)

    def judge(event, state):
        return p.Abort("never", state) if event.arguments.get("path") == "b" else p.Continue(state)

    state = suspended(judges("never", p.BeforeTool, judge, priority=10))
    (waiting,) = state.data.interactions
    edit = s.Approve(**BY, approval_id=ApprovalId(waiting.id), arguments={"path": "b"})
    (seen,) = walk([edit], state)
    kinds = [type(event) for event in seen.events]
    assert [kind for kind in kinds if kind in {AgentResumed, AgentAbort}] == [AgentResumed, AgentAbort]
    assert AgentResumed(trigger="tool_approved") in seen.events  # the decision, and not what came of it
    suspensions_are_said(seen)
