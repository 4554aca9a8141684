"""Context that is gathered for the requests of a turn, as the core sees it: asked for once, kept for all attempts, counted (8.16 K12)."""

import pytest
from msgspec.structs import replace

from agentrail import plugins as p
from agentrail.core.protocol.effects import CancelPluginRequest, GatherContext, StartStream
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import ContextGathered, SignalId, Steer
from agentrail.core.session import machine
from agentrail.core.session.state import Phase
from agentrail.core.session.step_context import is_gathering
from agentrail.core.session.transitions import Verdict, verdict
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.events import AgentAbort
from agentrail.messages import SteerRef
from agentrail.testing.promises import PROMISES
from tests.core.drawn_lives import lives, steps
from tests.core.outside import OpenFromOutside
from tests.core.plugin_rig import judges
from tests.core.worlds import SMALL, TOOLS, config, new_session, prompt, reachable, walk

PROMPT = prompt("p")
GATHERED = ContextGathered(at_ms=2, effect_id=EffectId("g1"), count=2, digest="abc", tokens=300)


@pytest.mark.check
def test_each_promise_holds_where_context_is_gathered():
    """Every step from a hundred states of a session that gathers: each promise, and states beside those of others."""
    phases, waiting = set(), 0
    for seen in reachable(new_session(**SMALL, gathers_context=True), 100):
        phases.add(seen.before.phase)
        waiting += is_gathering(seen.before.data)
        for promise in PROMISES:
            promise(seen)
    assert phases == set(Phase)
    assert waiting > 30


@pytest.mark.parametrize("seed", lives(30))
def test_exactly_the_open_ids_have_an_owner(seed):
    """Random lives with plugins, budgets, compactions and crashes: counted from outside, what is open is what the state says."""
    outside: OpenFromOutside | None = None
    for signal, state, effects in steps(40_000 + seed, 80, gathers_context=True):
        outside = outside or OpenFromOutside(has_budget=state.data.config.budget is not None)
        outside.saw(signal, state, effects)
        assert {effect_id for effect_id, _ in state.data.open.items()} == set(outside.open), signal


@pytest.mark.check  # a second of random lives
def test_those_lives_gather_and_send():
    """They are no empty proof: what is gathered is sent, counted, retried, cancelled and dropped in them."""
    met = set()
    for seed in range(40):
        before = None
        for signal, state, effects in steps(40_000 + seed, 80, gathers_context=True):
            met |= {type(effect) for effect in effects}
            met |= {"with context" for one in effects if isinstance(one, StartStream) and one.context}
            if before is not None and isinstance(signal, ContextGathered):
                met.add(verdict(before.phase, before.data, signal))
            met |= {
                "cancelled"
                for one in effects
                if isinstance(one, CancelPluginRequest) and one.effect_id.startswith("g")
            }
            before = state
    assert {GatherContext, "with context", "cancelled", Verdict.TAKE, Verdict.DROP} <= met


def test_a_steer_that_came_while_it_was_gathered_is_judged():
    """A plugin that refuses the request ends the cycle, and nothing is sent."""

    def stop(event, state):
        return p.Abort("not that", state) if "Shorter!" in repr(event.messages) else p.Continue(state)

    stack, states = load_stack([judges("stops", p.BeforeRequest, stop)])
    state = machine.new_session(config(gathers_context=True), TOOLS, stack, states)
    steer = Steer(at_ms=2, signal_id=SignalId("x"), ref=SteerRef("x"), text="Shorter!")
    steps = list(walk([PROMPT, steer, replace(GATHERED, at_ms=3)], state))
    assert not [one for step in steps for one in step.of(StartStream)]
    assert [one.reason for one in steps[-1].events if isinstance(one, AgentAbort)] == ["not that"]
    assert steps[-1].after.phase is Phase.IDLE
