"""The promises of `agentrail/testing/promises` in a large world: any order of signals, long lives, many ids.

The small world in tests/core is complete; here is what it leaves out: longer queues, more calls and turns, ids that a model
made up, and lives that go on. A promise that breaks is shown as a scenario, to be kept under tests/scenarios.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentrail.core import machine
from agentrail.core.request import ModelFacts
from agentrail.core.signals import Signal, Started
from agentrail.core.state import Phase, SessionState
from agentrail.errors import AgentrailError
from agentrail.testing import strategies
from agentrail.testing.promises import PROMISES, Seen, comparable
from agentrail.testing.rest import come_to_rest, life_is_complete
from agentrail.testing.scenario import write_scenario
from tests.core.worlds import TOOLS, new_session, walk

# What lets a session get far stands first: Hypothesis likes the beginning of a list, and shrinks towards it.
STARTS = st.builds(
    new_session,
    max_turns=st.sampled_from((3, 2, 4, 1)),
    max_parallel_tools=st.sampled_from((2, 1, 3)),
    max_prompt_queue=st.sampled_from((2, 1, 3)),
    max_steering_queue=st.sampled_from((2, 1, 3)),
    max_retries=st.sampled_from((1, 0, 2)),
    tool_max_retries=st.sampled_from((1, 0, 2)),
    fallbacks=st.sampled_from(
        ((), (ModelFacts(model="scripted:second"),), (ModelFacts(model="scripted:second"),) * 2)
    ),
)
CALLS = strategies.responses(("read", "watch", "deploy", "ask")).filter(
    lambda response: response.message.calls
)
NOISE = st.one_of(
    strategies.questions(),
    strategies.changes(),
    strategies.decisions(),
    strategies.tool_aborts(),
    strategies.timers(),
    strategies.aborts(),
    strategies.stream_outcomes(),
    strategies.tool_outcomes(),
    strategies.teardown_outcomes(),
    strategies.notices(parked=False),
)


@contextmanager
def shown_as_a_scenario(start: SessionState, script: Iterable[Signal]) -> Iterator[None]:
    """Add to whatever breaks the signals that led there, as a file that `run_scenario` plays."""
    try:
        yield
    except (AssertionError, AgentrailError) as error:
        data = start.data
        text = write_scenario(
            script, config=data.config, tools=data.tools, remark=f"breaks a promise: {error!r:.80}"
        )
        error.add_note(f"\n{text}")
        raise


class AnyOrder(RuleBasedStateMachine):
    """People, the world and a supervisor send whatever they like, in any order; after each signal every promise holds."""

    @initialize(start=STARTS)
    def begin(self, start: SessionState) -> None:
        """The session comes up."""
        self.start = self.state = start
        self.script: list[Signal] = []
        self.seen: list[Seen] = []
        self.is_good = True
        self._send(Started(at_ms=0))

    @precondition(lambda self: not self.state.ended)
    @rule(signal=strategies.prompts())
    def prompt(self, signal: Signal) -> None:
        """Somebody says something."""
        self._send(signal)

    @precondition(lambda self: not self.state.ended)
    @rule(signal=strategies.steers())
    def steer(self, signal: Signal) -> None:
        """Somebody says something into the cycle, or into the silence."""
        self._send(signal)

    @precondition(lambda self: self.state.data.interactions)
    @rule(signal=strategies.decisions())
    def decide(self, signal: Signal) -> None:
        """Somebody answers a question."""
        self._send(signal)

    @precondition(lambda self: bool(strategies.timers_of(self.state)))
    @rule(signal=strategies.timers())
    def wake(self, signal: Signal) -> None:
        """Nobody has answered in time, or a pause is over."""
        self._send(signal)

    @precondition(lambda self: self.state.data.batch or self.state.data.survivors)
    @rule(signal=strategies.tool_aborts())
    def abort_tool(self, signal: Signal) -> None:
        """Somebody stops one call."""
        self._send(signal)

    @precondition(lambda self: self.state.data.stream is not None)
    @rule(signal=strategies.stream_outcomes())
    def stream(self, signal: Signal) -> None:
        """The model says something."""
        self._send(signal)

    @precondition(lambda self: self.state.data.stream is not None)
    @rule(signal=CALLS)
    def call_tools(self, signal: Signal) -> None:
        """The model wants something done, most of which can be done."""
        self._send(signal)

    @precondition(lambda self: self.state.data.stream is not None)
    @rule(signal=strategies.responses())
    def respond(self, signal: Signal) -> None:
        """The model is done."""
        self._send(signal)

    @precondition(lambda self: self.state.data.batch or self.state.data.survivors)
    @rule(signal=strategies.tool_outcomes())
    def tool(self, signal: Signal) -> None:
        """A tool says something."""
        self._send(signal)

    @precondition(lambda self: self.state.phase is not Phase.IDLE)
    @rule(signal=strategies.aborts())
    def abort(self, signal: Signal) -> None:
        """Somebody has had enough."""
        self._send(signal)

    @precondition(lambda self: self.state.data.teardown is not None or self.state.data.drains)
    @rule(signal=strategies.teardown_outcomes())
    def settle(self, signal: Signal) -> None:
        """What was stopped is gone."""
        self._send(signal)

    @precondition(lambda self: not self.state.ended)
    @rule(signal=NOISE)
    def noise(self, signal: Signal) -> None:
        """Questions, aborts of nothing, crashes, and outcomes that perhaps nobody waits for."""
        self._send(signal)

    # One rule and late, because it ends the life: rules are chosen evenly, and long lives are what this is for.
    @precondition(lambda self: self.state.ended or len(self.script) > 40)
    @rule(signal=strategies.stops() | strategies.notices())
    def end(self, signal: Signal) -> None:
        """Somebody, or a supervisor, ends it."""
        self._send(signal)

    @invariant()
    def every_promise_holds(self) -> None:
        """All of them, for the step that was just taken."""
        self.is_good = False
        with shown_as_a_scenario(self.start, self.script):
            for promise in PROMISES:
                promise(self.seen[-1])
        self.is_good = True

    def teardown(self) -> None:
        """At the end the world answers all that is open; then the session rests, and everybody has been answered."""
        # Not after a promise broke, and not before the first step: a second error would hide the first one.
        if not getattr(self, "is_good", False):
            return
        with shown_as_a_scenario(self.start, self.script):
            rest = list(come_to_rest(self.state))
        with shown_as_a_scenario(self.start, [*self.script, *(seen.signal for seen in rest)]):
            for seen in rest:
                for promise in PROMISES:
                    promise(seen)
            life_is_complete([*self.seen, *rest])

    def _send(self, signal: Signal) -> None:
        fitting = strategies.fit(signal, self.state, len(self.script) + 1)
        self.script.append(fitting)
        self.is_good = False
        with shown_as_a_scenario(self.start, self.script):
            after, effects = machine.step(self.state, fitting)
        self.is_good = True
        self.seen.append(Seen(self.state, fitting, after, effects))
        self.state = after


TestAnyOrder = AnyOrder.TestCase
# One fault breaks several promises; the shortest life that shows one of them is what is wanted, and soon.
TestAnyOrder.settings = settings(report_multiple_bugs=False)


@pytest.mark.at(99)
@given(data=st.data(), start=STARTS)
def test_every_promise_holds_in_long_scripts(data, start):
    """A list of signals of any kind, up to forty, and all the promises after each of them."""
    script = data.draw(strategies.scripts(start))
    with shown_as_a_scenario(start, script):
        for seen in walk(script, start):
            for promise in PROMISES:
                promise(seen)


@given(data=st.data(), start=STARTS)
def test_a_session_comes_to_rest(data, start):
    """When the world answers what is open, every script ends in idle or at the end, with every caller answered."""
    script = data.draw(strategies.scripts(start))
    with shown_as_a_scenario(start, script):
        life = list(walk(script, start))
        life += come_to_rest(life[-1].after if life else start)
    with shown_as_a_scenario(start, [seen.signal for seen in life]):
        life_is_complete(life)


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
    """A life without its dropped signals is the same life: they changed nothing but the counter."""
    script = data.draw(strategies.scripts(start))
    life = list(walk(script, start))
    kept = [seen.signal for seen in life if seen.after.data.dropped == seen.before.data.dropped]
    without = list(walk(kept, start))
    if without:
        shorter, longer = without[-1].after, [s for s in life if s.signal is kept[-1]][-1].after
        assert shorter.phase is longer.phase
        assert shorter.data.history == longer.data.history
        assert shorter.data.seq == longer.data.seq
