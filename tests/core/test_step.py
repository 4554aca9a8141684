"""A step: its order is that of gen_statem, all of it happens at one time, and its draft stays inside."""

import pytest

from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import ToolFinished
from agentrail.core.session.reservations import count_tokens, fixed_of
from agentrail.core.session.step_context import StepContext
from agentrail.core.session.views import request_of
from agentrail.core.values.toolbox import read_call
from agentrail.messages import Text, UserMessage
from agentrail.testing.promises.observed_step import comparable
from tests.core import engine_oracle
from tests.core.drawn_lives import lives, steps
from tests.core.worlds import completed, prompt, run

LIVES = 40
SIGNALS = 50


@pytest.mark.parametrize("seed", lives(LIVES))
def test_a_step_comes_out_in_the_order_of_gen_statem(seed):
    """Replayed in front of what was queued, then the next prompt or the end: state, effects and what is put off are the same."""
    engine = None
    before = None
    for signal, state, effects in steps(10_000 + seed, SIGNALS):
        if engine is None:
            engine, before = "begun", state
            continue
        engine = engine_oracle.engine_of(before) if engine == "begun" else engine
        engine, wanted = engine_oracle.step(engine, signal)
        assert list(map(comparable, effects)) == list(map(comparable, wanted))
        assert (state.phase, state.data) == (engine.state, engine.data)
        assert state.postponed == tuple(event.message for event in engine.postponed)
        assert state.ended == (engine.stopped is not None)


ONE_CALL = (
    prompt(),
    completed("r1", read_call("c1", "read", '{"path": "a"}')),
    ToolFinished(at_ms=3, effect_id=EffectId("t2"), text="done", started_at_ms=2),
    completed("r3", Text(text="Done.")),
)


def test_what_plugins_handed_on_counts_alone():
    """With what stands before it, and without the conversation that it is sent in place of."""
    state = run(ONE_CALL)
    step = StepContext(state.data, 9)
    handed = (UserMessage(content=(Text(text="abcd"),)),)
    request = request_of(state.data, EffectId("r9"), last_turn=False, messages=handed)
    assert count_tokens(step, request, is_handed=True) == fixed_of(state.data) + 1
