"""Agents in the background: any order of what they, people and the model do, under every promise; and its corners."""

from hypothesis import given, strategies as st

from agentrail.core.policy.budget import Budget
from agentrail.core.protocol import signals as s
from agentrail.core.session import machine
from agentrail.core.session.effect_owners import OfAgent
from agentrail.testing import strategies
from agentrail.testing.checked_run import come_to_rest, run_is_complete
from agentrail.testing.promises import PROMISES, Seen
from agentrail.testing.strategies import TOOL_NAMES, agent_calls, fit
from tests.core.worlds import agents_session

CALLS = agent_calls() | strategies.tool_calls(TOOL_NAMES)
RESPONSES = strategies.responses(calls=CALLS).filter(lambda one: bool(one.message.calls))
SAID = st.one_of(
    strategies.prompts(),
    RESPONSES,
    RESPONSES,
    strategies.stream_outcomes(),
    strategies.agent_outcomes(),
    strategies.agent_outcomes(),
    strategies.tool_outcomes(),
    strategies.timers(),
    strategies.steers(),
    st.one_of(strategies.decisions(), strategies.tool_aborts(), strategies.questions()),
    strategies.teardown_outcomes(),
    st.one_of(strategies.aborts(), strategies.notices(parked=False)),
    st.one_of(strategies.stops(), strategies.notices()),
)


def lives(start, drawn):
    """Every step of a script that fits, and of the rest that the world answers."""
    state = start
    for number, signal in enumerate(drawn):
        fitting = fit(signal, state, number + 1)
        owner = state.data.open.get(getattr(fitting, "effect_id", None))
        if isinstance(fitting, s.EffectOutcome) and owner is None:
            continue
        if isinstance(fitting, s.ChildStarted | s.ChildPublished) and not isinstance(owner, OfAgent):
            continue
        before, (state, effects) = state, machine.step(state, fitting)
        yield Seen(before, fitting, state, effects)
    yield from come_to_rest(state)


@given(drawn=st.lists(SAID, min_size=20, max_size=60), budget=st.sampled_from((None, 400, 100_000)))
def test_promises_hold_whatever_agents_do(drawn, budget):
    """All promises, of each step and of the whole run, with agents that work, idle, end and wake (12.2.2). Nothing is lent that is not left, on any schedule (G-008)."""
    options = {} if budget is None else {"budget": Budget(max_total_tokens=budget), "max_output_tokens": 20}
    seen = []
    for one in lives(agents_session(**options), drawn):
        for promise in PROMISES:
            promise(one)
        seen.append(one)
    run_is_complete(seen)
