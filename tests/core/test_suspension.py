"""A suspended cycle, and what ends its wait: each way by itself, said once, in front of what follows."""

from typing import Any

import pytest

from agentrail import plugins as p
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    AbortCycle,
    AbortTool,
    Approve,
    Parked,
    Prompt,
    Reject,
    Respond,
    Restarted,
    Signal,
    SignalId,
    Steer,
    StepCrashed,
    StopSession,
    TimerFired,
)
from agentrail.core.session.machine import new_session
from agentrail.core.session.state import SessionState
from agentrail.core.stack.loaded_stack import PluginEntry, load_stack
from agentrail.core.values.toolbox import read_call
from agentrail.errors import ErrorInfo
from agentrail.events import AgentAbort, AgentEnd, AgentError, AgentResumed, AgentSuspended
from agentrail.messages import ApprovalId, CallId, PromptRef, QuestionRef, SteerRef, Text
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.promises import PROMISES
from agentrail.testing.promises.conversation import suspensions_are_said
from tests.core.worlds import TOOLS, completed, config, run, walk

BY: dict[str, Any] = {"at_ms": 5, "signal_id": SignalId("s9")}
SAID = (Text(text="go"),)
ASKED: list[Signal] = [
    Prompt(at_ms=1, signal_id=SignalId("p1"), ref=PromptRef("p1"), content=SAID),
    completed("r1", read_call("c1", "read", '{"path": "a"}')),
]
CRASH = ErrorInfo(code="internal", message="a bug")


class Never(p.Plugin[int]):
    """A guard that ends the cycle where somebody wrote what it does not like."""

    priority = 10

    def init(self) -> int:
        """Begin."""
        return 0

    @p.on(p.BeforeTool)
    def judge(self, event: p.BeforeTool, state: int, ctx: p.Context) -> p.Action[int]:
        """Abort over one path."""
        return p.Abort("never", state) if event.arguments.get("path") == "b" else p.Continue(state)


def asking(*others: PluginEntry) -> SessionState:
    """A session that has not begun, whose calls of `read` are asked about."""
    people = PuppetPlugin((read_rule("BeforeTool.read", "approve:may it?"),), name="people")
    stack, states = load_stack([people, *others])
    return new_session(config(), TOOLS, stack, states)


def suspended(*others: PluginEntry) -> SessionState:
    """A session whose cycle waits for an approval."""
    state = run(ASKED, asking(*others))
    assert state.suspended
    return state


def answers(state: SessionState) -> dict[str, list[Signal]]:
    """Each way in which the wait for this one thing ends."""
    (waiting,) = state.data.interactions
    wanted = ApprovalId(waiting.id)
    timer = TimerFired(at_ms=10**6, effect_id=waiting.timer or EffectId(""))
    return {
        "approved": [Approve(**BY, approval_id=wanted)],
        "approved, and it is not read": [Approve(**BY, approval_id=wanted, auto_resume=False)],
        "rejected": [Reject(**BY, approval_id=wanted)],
        "rejected, and it is read": [Reject(**BY, approval_id=wanted, auto_resume=True)],
        "answered": [Respond(**BY, ref=QuestionRef(waiting.id), response="no")],
        "not in time": [timer],
        "not in time, by a stand-in": [
            StepCrashed(at_ms=10**6, signal_kind="TimerFired", error=CRASH, owed_by=waiting.timer)
        ],
        "aborted": [AbortCycle(**BY)],
        "the call alone is aborted": [AbortTool(**BY, call_id=CallId("c1"))],
        "steered": [Steer(**BY, ref=SteerRef("t1"), text="left")],
        "prompted": [Prompt(**BY, ref=PromptRef("p2"), content=SAID)],
        "stopped": [StopSession(**BY)],
        "parked": [Parked(at_ms=5, reason="crash")],
        "restarted and approved": [
            Restarted(at_ms=4, reason="crash", incarnation=2),
            Approve(**BY, approval_id=wanted),
        ],
    }


ENDS = {
    "approved": ("tool_approved", None),
    "approved, and it is not read": ("tool_approved", None),
    "rejected": ("tool_rejected", AgentEnd),
    "rejected, and it is read": ("tool_rejected", None),
    "answered": ("user_respond", None),
    "not in time": ("tool_approval_timeout", None),
    "not in time, by a stand-in": ("tool_approval_timeout", None),
    "aborted": ("abort", AgentAbort),
    "the call alone is aborted": ("tool_rejected", None),
    "steered": ("steering", None),
    "prompted": ("superseded", AgentEnd),
    "stopped": ("stop", AgentAbort),
    "parked": ("stop", AgentError),
    "restarted and approved": ("tool_approved", None),
}


@pytest.mark.parametrize("way", ENDS)
def test_whatever_ends_the_wait_says_so_once(way):
    """`AgentResumed` with its trigger; and where the cycle ends with it, that comes behind."""
    state = suspended()
    script = answers(state)[way]
    seen = list(walk(script, state))
    for one in seen:
        for promise in PROMISES:
            promise(one)
    said = [event for one in seen for event in one.events if isinstance(event, AgentResumed | AgentSuspended)]
    trigger, end = ENDS[way]
    assert said == [AgentResumed(trigger=trigger)]
    kinds = [type(event) for event in seen[-1].events]
    if end is not None:
        assert kinds.index(AgentResumed) < kinds.index(end)
    assert not seen[-1].after.suspended


def test_a_restart_that_is_refused_ends_the_wait():
    """A plugin that lets no session come back: nothing waits any more, which is said before the cycle fails."""
    state = suspended(PuppetPlugin((read_rule("SessionStarted", "abort:no"),), name="late"))
    (seen,) = walk([Restarted(at_ms=4, reason="crash", incarnation=2)], state)
    kinds = [type(event) for event in seen.events]
    assert kinds.index(AgentResumed) < kinds.index(AgentError)
    suspensions_are_said(seen)


def test_an_edit_that_aborts_the_cycle_ends_the_wait():
    """The decision ended the wait; that a guard then aborts, because of what was written, comes behind it."""
    state = suspended((Never, {}))
    (waiting,) = state.data.interactions
    edit = Approve(**BY, approval_id=ApprovalId(waiting.id), arguments={"path": "b"})
    (seen,) = walk([edit], state)
    kinds = [type(event) for event in seen.events]
    assert [kind for kind in kinds if kind in {AgentResumed, AgentAbort}] == [AgentResumed, AgentAbort]
    assert AgentResumed(trigger="tool_approved") in seen.events  # the decision, and not what came of it
    suspensions_are_said(seen)
