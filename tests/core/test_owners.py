"""Who waits for an open effect is data: exactly the open ids have an owner, in every state."""

import functools
from typing import get_args

import pytest

from agentrail.core.protocol.effects import Publish
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    AbortCycle,
    AbortTool,
    Prompt,
    SignalId,
    StepCrashed,
    TeardownFinished,
    ToolFinished,
    ToolWantsChild,
)
from agentrail.core.session import machine
from agentrail.core.session.effect_owners import (
    OfAgent,
    OfAgentWait,
    OfChild,
    OfContext,
    OfDrain,
    OfStallTimer,
    OfStoppedCall,
    OfStream,
    OfTranscript,
    Owner,
    owned_by,
)
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.session.step_context import StepContext
from agentrail.core.session.transitions import AWAITED_BY
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.toolbox import Toolbox, read_call
from agentrail.errors import ErrorInfo, InternalError
from agentrail.events import AbortReceipt, SignalQuarantined
from agentrail.messages import CallId, PromptRef, Text, ToolCall
from agentrail.plugins import ContentPolicy
from tests.core.drawn_lives import steps
from tests.core.worlds import agents_session, completed, config, new_session, run

LIVES = 60
SIGNALS = 80
PROMPT = Prompt(at_ms=1, signal_id=SignalId("p"), ref=PromptRef("p"), content=(Text(text="go"),))


@functools.cache
def states_by_owner() -> dict[type, tuple[SessionState, EffectId]]:
    """For each kind of owner a state in which it waits, and for what: of those lives, and of a tool that wants a session."""
    met: dict[type, tuple[SessionState, EffectId]] = {}
    stack, states = load_stack([(ContentPolicy, {"rubric": "Be kind.", "judge_model": "demo:judge"})])
    judged = run([PROMPT], machine.new_session(config(), Toolbox(), stack, states))
    met |= {type(owner): (judged, effect_id) for effect_id, owner in judged.data.open.items()}
    watch = read_call("c1", "watch", "{}")
    survives = run(
        [PROMPT, completed("r1", watch), AbortCycle(at_ms=5, signal_id=SignalId("a"))], new_session()
    )
    met |= {type(owner): (survives, effect_id) for effect_id, owner in survives.data.open.items()}
    of_lives = set(get_args(Owner)) - {OfChild, OfContext, OfAgent, OfAgentWait}
    for seed in range(LIVES):
        if met.keys() >= of_lives:
            break
        for _, state, _ in steps(20_000 + seed, SIGNALS, has_host=seed % 3 == 0):
            met |= {type(owner): (state, effect_id) for effect_id, owner in state.data.open.items()}
    wish = ToolWantsChild(
        at_ms=5, signal_id=SignalId("w1"), effect_id=EffectId("t2"), prompt="Count the files."
    )
    state = run([PROMPT, completed("r1", read_call("c1", "read", "{}")), wish], new_session())
    met |= {type(owner): (state, effect_id) for effect_id, owner in state.data.open.items()}
    gathers = run([PROMPT], new_session(gathers_context=True))
    met |= {type(owner): (gathers, effect_id) for effect_id, owner in gathers.data.open.items()}
    start = read_call("c1", "spawn_agent", '{"agent": "scout", "task": "Look."}')
    wait = read_call("c2", "wait_agents", "{}")
    state = run([PROMPT, completed("r1", start, wait)], agents_session())
    return met | {type(owner): (state, effect_id) for effect_id, owner in state.data.open.items()}


def test_every_owner_is_met():
    """In those states each kind of owner waits for something, so nothing of the above is empty."""
    assert states_by_owner().keys() == set(get_args(Owner))


@pytest.mark.parametrize("kind", get_args(Owner), ids=lambda kind: kind.__name__)
def test_an_outcome_that_crashed_the_core_is_stood_in_for(kind):
    """Whoever waited for it goes on, as if it had failed: the effect is open no more (3.9)."""
    state, effect_id = states_by_owner()[kind]
    error = ErrorInfo(code="internal", message="a bug")
    crashed = StepCrashed(at_ms=10**9, signal_kind="Outcome", error=error, owed_by=effect_id)
    after, effects = machine.step(state, crashed)
    assert effect_id not in after.data.open
    assert any(isinstance(one, Publish) and isinstance(one.event, SignalQuarantined) for one in effects)
    again, effects = machine.step(after, crashed)
    assert again.ended or (again.data.open == after.data.open and len(effects) == 1)


def test_every_owner_waits_for_something():
    """Each owner has an outcome that it is told of, and each outcome has an owner."""
    assert set().union(*AWAITED_BY.values()) == set(get_args(Owner))
    assert all(AWAITED_BY.values())


def test_a_pair_that_nobody_wrote_down_is_a_bug_that_is_noticed():
    """What the table lets through and the match does not know raises, and says which pair it was."""
    step = StepContext(new_session().data, 1)
    step.hand_over(EffectId("r1"), OfStream())
    late = ToolFinished(at_ms=1, effect_id=EffectId("r1"), text="x", started_at_ms=0)
    with pytest.raises(InternalError, match="ToolFinished came for OfStream, which does not wait for that"):
        machine.TAKERS[ToolFinished](step, Phase.RUNNING, late)


def test_a_stopped_call_is_waited_for_as_long_as_a_drain_goes_on():
    """Two calls are stopped one after the other: the end of the first drain gives neither of them up, that of the second both."""
    content = tuple(
        ToolCall(call_id=CallId(f"c{n}"), name="read", arguments={"path": str(n)}) for n in range(2)
    )
    stops = [AbortTool(at_ms=2, signal_id=SignalId(f"a{n}"), call_id=CallId(f"c{n}")) for n in range(2)]
    state = run([PROMPT, completed("r1", *content), *stops])
    drains = [effect_id for effect_id, _ in owned_by(state.data.open, OfDrain)]
    assert len(drains) == 2
    first, second = (
        TeardownFinished(at_ms=3, effect_id=effect_id, receipt=AbortReceipt()) for effect_id in drains
    )
    state = run([first], state)
    assert len(list(owned_by(state.data.open, OfStoppedCall))) == 2
    state = run([second], state)
    assert [type(owner) for owner in state.data.open.values()] == [OfStream, OfStallTimer]


def test_a_compaction_that_is_broken_off_waits_for_no_file():
    """The writing of what a summary is to stand for is not stopped, and its end means nothing any more."""
    state, effect_id = states_by_owner()[OfTranscript]
    after, _ = machine.step(state, AbortCycle(at_ms=10**9, signal_id=SignalId("a")))
    assert after.data.compaction is None
    assert effect_id not in after.data.open
