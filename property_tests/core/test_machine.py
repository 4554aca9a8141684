"""The promises of `agentrail/testing/promises` in a large world: any order of signals, long runs, many ids.

The small world in tests/core is complete; here is what it leaves out: longer queues, more calls and turns, ids that a model
made up, and runs that go on. A promise that breaks is shown as a scenario, to be kept under tests/scenarios.
"""

from types import MappingProxyType

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from agentrail.core.protocol.request import ModelFacts
from agentrail.core.session import machine
from agentrail.core.session.transitions import is_late_ephemeral
from agentrail.testing import strategies
from agentrail.testing.checked_run import Run, Setup
from agentrail.testing.promises import comparable
from agentrail.testing.session_machine import PLAIN_STRATEGIES, SessionMachine
from agentrail.testing.strategies import agent_calls, spawning_calls
from tests.core.worlds import WITH_CLIENT as TOOLS, agents_session, config, walk

HOOKS = st.sets(st.sampled_from(("before_tool", "after_tool"))).map(frozenset)
# What lets a session get far stands first: Hypothesis likes the beginning of a list, and shrinks towards it.
CONFIGS = st.builds(
    config,
    max_turns=st.sampled_from((3, 2, 4, 1)),
    on_max_turns=st.sampled_from(("answer", "stop", "abort")),
    max_parallel_tools=st.sampled_from((2, 1, 3)),
    max_prompt_queue=st.sampled_from((2, 1, 3)),
    max_steering_queue=st.sampled_from((2, 1, 3)),
    max_retries=st.sampled_from((1, 0, 2)),
    tool_max_retries=st.sampled_from((1, 0, 2)),
    host_hooks=HOOKS,
    fallbacks=st.sampled_from(
        ((), (ModelFacts(model="scripted:second"),), (ModelFacts(model="scripted:second"),) * 2)
    ),
)
SETUPS = st.builds(Setup, tools=st.just(TOOLS), config=CONFIGS)
STARTS = CONFIGS.map(lambda chosen: machine.new_session(chosen, TOOLS))
NAMES = ("read", "watch", "deploy", "ask", "front")
CALLS = strategies.responses(NAMES).filter(lambda response: response.message.calls)
OF_AGENTS = st.one_of(
    strategies.responses(calls=spawning_calls()),
    strategies.responses(calls=spawning_calls() | agent_calls() | strategies.tool_calls(NAMES)),
).filter(lambda response: bool(response.message.calls))
WITH_AGENTS = agents_session().data


class AnyOrder(SessionMachine):
    """People, the world and a supervisor send whatever they like, in any order; after each signal every promise holds."""

    setups = SETUPS
    strategies = MappingProxyType({**PLAIN_STRATEGIES, "call": CALLS})


TestAnyOrder = AnyOrder.TestCase
# One fault breaks several promises; the shortest run that shows one of them is what is wanted, and soon.
TestAnyOrder.settings = settings(report_multiple_bugs=False)


class AnyOrderWithAgents(SessionMachine):
    """The same with agents: those that work beside the session, that it waits for, that wake it, and that it is handed over to."""

    setups = st.builds(
        Setup,
        tools=st.just(WITH_AGENTS.tools),
        config=CONFIGS.map(
            lambda chosen: msgspec.structs.replace(
                chosen, agents=WITH_AGENTS.config.agents, gathers_context=True
            )
        ),
    )
    strategies = MappingProxyType({**PLAIN_STRATEGIES, "call": OF_AGENTS})


TestAnyOrderWithAgents = AnyOrderWithAgents.TestCase
TestAnyOrderWithAgents.settings = settings(report_multiple_bugs=False)


# Few random scripts come to a batch of calls by themselves, and fewer to what may break one off.
OPENINGS = (
    PLAIN_STRATEGIES["prompt"],
    CALLS,
    st.one_of([PLAIN_STRATEGIES[kind] for kind in ("abort", "steer", "abort_tool", "tool", "end")]),
)


@pytest.mark.at(99)
@given(data=st.data(), setup=SETUPS, opened=st.sampled_from((3, 2, 1, 0)))
def test_every_promise_holds_in_long_scripts(data, setup, opened):
    """Up to forty signals of any kind, also behind a batch and what breaks it off: all promises hold after each, and when the world answers what is open, it rests."""
    run = Run(setup)
    for number, opening in enumerate(OPENINGS[:opened], 1_000):  # names that the script does not give again
        signal = strategies.fit(data.draw(opening), run.state, number)
        run.hear(msgspec.structs.replace(signal, at_ms=0))
    for signal in data.draw(strategies.scripts(run.state)):
        run.hear(signal)
    run.rest()


@given(data=st.data(), start=STARTS)
def test_replaying_a_script_gives_the_same(data, start):
    """The same signals give the same states and effects, effect for effect, also from the middle (promise 4)."""
    script = data.draw(strategies.scripts(start))
    first = list(walk(script, start))
    again = list(walk(script, machine.new_session(start.data.config, TOOLS)))
    middle = len(first) // 2
    resumed = list(walk(script[middle:], first[middle].before)) if first else []
    for one, other in zip((*first, *first[middle:]), (*again, *resumed), strict=True):
        assert one.after == other.after
        assert list(map(comparable, one.effects)) == list(map(comparable, other.effects))


@pytest.mark.at(43)
@given(data=st.data(), start=STARTS)
def test_late_outcomes_can_be_left_out(data, start):
    """A run without its dropped signals is the same run: they changed nothing but the counter."""
    script = data.draw(strategies.scripts(start))
    run = list(walk(script, start))
    # The counter also moves for a tool that is over, and whose value came too late: that it is over changes something.
    kept = [
        seen.signal
        for seen in run
        if (seen.after.data.dropped == seen.before.data.dropped or getattr(seen.signal, "late", False))
        and not is_late_ephemeral(seen.before, seen.signal)
    ]
    without = list(walk(kept, start))
    if without:
        shorter, longer = without[-1].after, [s for s in run if s.signal is kept[-1]][-1].after
        assert shorter.phase is longer.phase
        assert shorter.data.history == longer.data.history
        assert shorter.data.seq == longer.data.seq
