"""Who waits for an open effect is data: exactly the open ids have an owner, in every state."""

import functools
from typing import get_args

import pytest

from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import Publish
from agentrail.core.protocol.request import EffectId
from agentrail.core.session import effect_owners as owners, machine
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.session.step_context import StepContext
from agentrail.core.session.transitions import AWAITED_BY
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.toolbox import Toolbox, read_call
from agentrail.errors import ErrorInfo, InternalError
from agentrail.events import AbortReceipt, SignalQuarantined
from agentrail.messages import CallId, ToolCall
from agentrail.plugins import ContentPolicy
from tests.core.drawn_lives import steps
from tests.core.worlds import agents_session, completed, config, new_session, prompt, run
from tests.thinned import each

LIVES, SIGNALS = 60, 80
PROMPT = prompt("p")


@functools.cache
def states_by_owner() -> dict[type, tuple[SessionState, EffectId]]:
    """For each kind of owner a state in which it waits, and for what: of those lives, and of a tool that wants a session."""
    met: dict[type, tuple[SessionState, EffectId]] = {}

    def note(state: SessionState) -> None:
        met.update({type(owner): (state, effect_id) for effect_id, owner in state.data.open.items()})

    stack, states = load_stack([(ContentPolicy, {"rubric": "Be kind.", "judge_model": "demo:judge"})])
    note(run([PROMPT], machine.new_session(config(), Toolbox(), stack, states)))
    abort = s.AbortCycle(at_ms=5, signal_id=s.SignalId("a"))
    note(run([PROMPT, completed("r1", read_call("c1", "watch", "{}")), abort], new_session()))
    of_lives = set(get_args(owners.Owner)) - {
        owners.OfChild,
        owners.OfContext,
        owners.OfAgent,
        owners.OfAgentWait,
    }
    for seed in range(LIVES):
        if met.keys() >= of_lives:
            break
        for _, state, _ in steps(20_000 + seed, SIGNALS, has_host=seed % 3 == 0):
            note(state)
    wish = s.ToolWantsChild(
        at_ms=5, signal_id=s.SignalId("w1"), effect_id=EffectId("t2"), prompt="Count the files."
    )
    note(run([PROMPT, completed("r1", read_call("c1", "read", "{}")), wish], new_session()))
    note(run([PROMPT], new_session(gathers_context=True)))
    start = read_call("c1", "spawn_agent", '{"agent": "scout", "task": "Look."}')
    note(run([PROMPT, completed("r1", start, read_call("c2", "wait_agents", "{}"))], agents_session()))
    return met


def test_every_owner_waits_for_something():
    """In those states each kind of owner waits, each has an outcome that it is told of, and each outcome has an owner."""
    assert states_by_owner().keys() == set(get_args(owners.Owner))

    assert set().union(*AWAITED_BY.values()) == set(get_args(owners.Owner))
    assert all(AWAITED_BY.values())


@each("kind", get_args(owners.Owner))
def test_an_outcome_that_crashed_the_core_is_stood_in_for(kind):
    """Whoever waited for it goes on, as if it had failed: the effect is open no more (3.9)."""
    state, effect_id = states_by_owner()[kind]
    error = ErrorInfo(code="internal", message="a bug")
    crashed = s.StepCrashed(at_ms=10**9, signal_kind="Outcome", error=error, owed_by=effect_id)
    after, effects = machine.step(state, crashed)
    assert effect_id not in after.data.open
    assert any(isinstance(one, Publish) and isinstance(one.event, SignalQuarantined) for one in effects)
    again, effects = machine.step(after, crashed)
    assert again.ended or (again.data.open == after.data.open and len(effects) == 1)


def test_a_pair_that_nobody_wrote_down_is_a_bug_that_is_noticed():
    """What the table lets through and the match does not know raises, and says which pair it was."""
    step = StepContext(new_session().data, 1)
    step.hand_over(EffectId("r1"), owners.OfStream())
    late = s.ToolFinished(at_ms=1, effect_id=EffectId("r1"), text="x", started_at_ms=0)
    with pytest.raises(InternalError, match="ToolFinished came for OfStream, which does not expect it"):
        machine.TAKERS[s.ToolFinished](step, Phase.RUNNING, late)


def test_a_stopped_call_is_waited_for_as_long_as_a_drain_goes_on():
    """Two calls are stopped one after the other: the end of the first drain gives neither of them up, that of the second both."""
    content = [ToolCall(call_id=CallId(f"c{n}"), name="read", arguments={"path": str(n)}) for n in range(2)]
    stops = [s.AbortTool(at_ms=2, signal_id=s.SignalId(f"a{n}"), call_id=CallId(f"c{n}")) for n in range(2)]
    state = run([PROMPT, completed("r1", *content), *stops])
    drains = [effect_id for effect_id, _ in owners.owned_by(state.data.open, owners.OfDrain)]
    assert len(drains) == 2
    first, second = (s.TeardownFinished(at_ms=3, effect_id=one, receipt=AbortReceipt()) for one in drains)
    state = run([first], state)
    assert len(list(owners.owned_by(state.data.open, owners.OfStoppedCall))) == 2
    state = run([second], state)
    assert [type(owner) for owner in state.data.open.values()] == [owners.OfStream, owners.OfStallTimer]


def test_a_compaction_that_is_broken_off_waits_for_no_file():
    """The writing of what a summary is to stand for is not stopped, and its end means nothing any more."""
    state, effect_id = states_by_owner()[owners.OfTranscript]
    after, _ = machine.step(state, s.AbortCycle(at_ms=10**9, signal_id=s.SignalId("a")))
    assert after.data.compaction is None
    assert effect_id not in after.data.open
