"""A step: its order is that of gen_statem, all of it happens at one time, and its draft stays inside."""

import json

import pytest

from agentrail.core.policy.request_context import Outgoing, outgoing
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    Prompt,
    SessionBegan,
    SignalId,
    ToolFinished,
)
from agentrail.core.session import machine
from agentrail.core.session.reservations import count_tokens, fixed_of
from agentrail.core.session.step_context import StepContext
from agentrail.core.session.transitions import LEGALITY
from agentrail.core.session.views import request_of
from agentrail.core.values.toolbox import read_call
from agentrail.messages import AssistantMessage, PromptRef, Text, UserMessage
from agentrail.testing.promises.observed_step import comparable
from tests.core import engine_oracle
from tests.core.drawn_lives import lives, steps
from tests.core.worlds import completed, new_session, run

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


def test_each_row_of_the_table_has_a_taker():
    """And no taker is without a row."""
    assert machine.TAKERS.keys() == LEGALITY.keys()


# --- the draft


# --- what is not done twice

ONE_CALL = (
    Prompt(at_ms=1, signal_id=SignalId("s1"), ref=PromptRef("p1"), content=(Text(text="1"),)),
    completed("r1", read_call("c1", "read", '{"path": "a"}')),
    ToolFinished(at_ms=3, effect_id=EffectId("t2"), text="done", started_at_ms=2),
    completed("r3", Text(text="Done.")),
)


def test_an_interrupt_passes_through_a_step(monkeypatch):
    """`KeyboardInterrupt` is no bug of the core: it ends the program, and not the step with an error of ours."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(machine, "TAKERS", {**machine.TAKERS, SessionBegan: interrupted})
    with pytest.raises(KeyboardInterrupt):
        machine.step(new_session(), SessionBegan(at_ms=0))


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"a": ["b", {"c": "d"}, 3]}, {"a": ["b", {"c": "d"}, 3]}),
        ({"a": ["b", "x" * 2_500]}, {"a": ["b", f"{'x' * 500} [… 2,000 characters left out …]"]}),
        ({"a": {"b": "x" * 2_500}}, {"a": {"b": f"{'x' * 500} [… 2,000 characters left out …]"}}),
    ],
)
def test_a_call_is_sent_shorter_only_where_something_in_it_is_long(given, sent):
    """However deep it stands; a call without anything long is the very same one."""
    call = read_call("c1", "write", json.dumps(given))
    message = AssistantMessage(content=(Text(text="a"), call), model="m")
    _, messages = outgoing(Outgoing(), [message, *[UserMessage(content=(Text(text="b"),))] * 40])
    assert messages[0].calls[0].arguments == sent
    assert (messages[0] is message) == (given == sent)


def test_what_plugins_handed_on_counts_alone():
    """With what stands before it, and without the conversation that it is sent in place of."""
    state = run(ONE_CALL)
    step = StepContext(state.data, 9)
    handed = (UserMessage(content=(Text(text="abcd"),)),)
    request = request_of(state.data, EffectId("r9"), last_turn=False, messages=handed)
    assert count_tokens(step, request, is_handed=True) == fixed_of(state.data) + 1
