"""A session as a Hypothesis state machine over the pure core: any order of signals, and every promise after each.

People, the world and a supervisor send whatever they like. What each of them says is drawn from `strategies`, by the names of
the rules below; so a caller with other tools, or other words, says so there and writes no rule.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final, TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from hypothesis.strategies import SearchStrategy

from agentrail.core.protocol.signals import SessionBegan, Signal
from agentrail.core.session.state import Phase
from agentrail.core.session.step_context import is_gathering
from agentrail.testing import open_effects, strategies
from agentrail.testing.checked_run import CounterExample, Invariant, Run, Setup
from agentrail.testing.promises.observed_step import plugin_requests_of, teardowns_of, waits_for_host

Strategies: TypeAlias = Mapping[str, SearchStrategy[Signal]]

_QUIET_FOR: Final = 3
_LONG: Final = 40
"""How many signals a run has before it may be ended: long runs are what this is for."""


PLAIN_STRATEGIES: Final[Strategies] = MappingProxyType(
    {
        "prompt": strategies.prompts(),
        "go_on": strategies.goings_on(),
        "steer": strategies.steers(),
        "decide": strategies.decisions(),
        "wake": strategies.timers(),
        "abort_tool": strategies.tool_aborts(),
        "stream": strategies.stream_outcomes(),
        "call": strategies.responses().filter(lambda response: bool(response.message.calls)),
        "respond": strategies.responses(),
        "tool": strategies.tool_outcomes(),
        "host": strategies.host_outcomes(),
        "agent": strategies.agent_outcomes(),
        "plugin_request": strategies.plugin_request_outcomes(),
        "abort": strategies.aborts(),
        "settle": strategies.teardown_outcomes() | strategies.contexts(),
        "end": strategies.stops() | strategies.notices(),
        "noise": st.one_of(
            strategies.questions(),
            strategies.changes(),
            strategies.decisions(),
            strategies.tool_aborts(),
            strategies.timers(),
            strategies.aborts(),
            strategies.stream_outcomes(),
            strategies.tool_outcomes(),
            strategies.host_outcomes(),
            strategies.teardown_outcomes(),
            strategies.notices(parked=False),
        ),
    }
)
"""What is said unless the caller says otherwise."""


def _said(by: str) -> SearchStrategy[Signal]:
    said: SearchStrategy[Signal] = st.runner().flatmap(lambda machine: machine.strategies[by])
    return said


class SessionMachine(RuleBasedStateMachine):
    """Any order of signals, against the promises.

    Attributes:
        setups: What runs begin with.
        strategies: Who says what.
        openings: What runs begin with, after the session is up.
        ends_after: How many signals a run has before it may be ended.
        session_run: The one that is made.
    """

    setups: ClassVar[SearchStrategy[Setup]]
    strategies: ClassVar[Strategies] = PLAIN_STRATEGIES
    openings: ClassVar[SearchStrategy[tuple[Signal, ...]]] = st.just(())
    ends_after: ClassVar[int] = _LONG
    session_run: Run
    is_good: bool = False

    def bound_invariants(self) -> tuple[Invariant, ...]:
        """Give what else is held after each step."""
        return ()

    @initialize(
        setup=st.runner().flatmap(lambda machine: machine.setups),
        opening=st.runner().flatmap(lambda machine: machine.openings),
    )
    def begin(self, setup: Setup, opening: tuple[Signal, ...]) -> None:
        """The session comes up."""
        self.session_run = self.begin_run(setup)
        for signal in (SessionBegan(at_ms=0), *opening):
            self.say(signal)

    @precondition(lambda self: not self.session_run.state.ended)
    @rule(signal=_said("prompt"))
    def prompt(self, signal: Signal) -> None:
        """A caller says something."""
        self.say(signal)

    @precondition(lambda self: not self.session_run.state.ended)
    @rule(signal=_said("steer"))
    def steer(self, signal: Signal) -> None:
        """A caller says something into the cycle, or into the silence."""
        self.say(signal)

    @precondition(lambda self: open_effects.can_go_on(self.session_run.state))
    @rule(signal=_said("go_on"))
    def go_on(self, signal: Signal) -> None:
        """A caller wants the model to answer what is there."""
        self.say(signal)

    @precondition(lambda self: bool(self.session_run.state.data.interactions))
    @rule(signal=_said("decide"))
    def decide(self, signal: Signal) -> None:
        """A caller answers a question."""
        self.say(signal)

    @precondition(lambda self: bool(open_effects.timers_of(self.session_run.state)))
    @rule(signal=_said("wake"))
    def wake(self, signal: Signal) -> None:
        """No answer came in time, or a pause is over."""
        self.say(signal)

    @precondition(
        lambda self: bool(self.session_run.state.data.batch or self.session_run.state.data.survivors)
    )
    @rule(signal=_said("abort_tool"))
    def abort_tool(self, signal: Signal) -> None:
        """A caller stops one call."""
        self.say(signal)

    @precondition(lambda self: self.session_run.state.data.stream is not None)
    @rule(signal=_said("stream"))
    def stream(self, signal: Signal) -> None:
        """The model says something."""
        self.say(signal)

    @precondition(lambda self: self.session_run.state.data.stream is not None)
    @rule(signal=_said("call"))
    def call_tools(self, signal: Signal) -> None:
        """The model wants something done, most of which can be done."""
        self.say(signal)

    @precondition(lambda self: self.session_run.state.data.stream is not None)
    @rule(signal=_said("respond"))
    def respond(self, signal: Signal) -> None:
        """The model is done."""
        self.say(signal)

    @precondition(
        lambda self: bool(self.session_run.state.data.batch or self.session_run.state.data.survivors)
    )
    @rule(signal=_said("tool"))
    def tool(self, signal: Signal) -> None:
        """A tool says something."""
        self.say(signal)

    @precondition(lambda self: waits_for_host(self.session_run.state))
    @rule(signal=_said("host"))
    def host(self, signal: Signal) -> None:
        """The host says what it thinks of a call, or has heard of one."""
        self.say(signal)

    @precondition(lambda self: bool(self.session_run.state.data.agents.alive))
    @rule(signal=_said("agent"))
    def agent(self, signal: Signal) -> None:
        """An agent in the background says something, is idle, or has ended."""
        self.say(signal)

    @precondition(lambda self: bool(plugin_requests_of(self.session_run.state)))
    @rule(signal=_said("plugin_request"))
    def plugin_request(self, signal: Signal) -> None:
        """What a plugin asked for is there, or cannot be had."""
        self.say(signal)

    @precondition(lambda self: self.session_run.state.phase is not Phase.IDLE)
    @rule(signal=_said("abort"))
    def abort(self, signal: Signal) -> None:
        """A caller breaks it off."""
        self.say(signal)

    @precondition(
        lambda self: bool(teardowns_of(self.session_run.state)) or is_gathering(self.session_run.state.data)
    )
    @rule(signal=_said("settle"))
    def settle(self, signal: Signal) -> None:
        """What was stopped is gone; or what goes along with a request is there."""
        self.say(signal)

    # Not at any time: runs in which nothing else is said would be lost, and there are many of those.
    @precondition(
        lambda self: not self.session_run.state.ended and len(self.session_run.script) % _QUIET_FOR == 0
    )
    @rule(signal=_said("noise"))
    def noise(self, signal: Signal) -> None:
        """Questions, aborts of nothing, crashes, and outcomes that perhaps nothing waits for."""
        self.say(signal)

    # One rule and late, because it ends the run: rules are chosen evenly.
    @precondition(lambda self: self.session_run.state.ended or len(self.session_run.script) > self.ends_after)
    @rule(signal=_said("end"))
    def end(self, signal: Signal) -> None:
        """A caller, or a supervisor, ends it."""
        self.say(signal)

    def begin_run(self, setup: Setup) -> Run:
        """Begin a run, under all invariants."""
        return Run(setup, self.bound_invariants())

    def repeat(self, setup: Setup, drawn: Sequence[Signal]) -> CounterExample | None:
        """Repeat a run, and give what breaks in it. Hypothesis has no part in that."""
        self.session_run = self.begin_run(setup)
        try:
            for signal in drawn:
                self.session_run.say(signal)
            self.session_run.rest()
        except CounterExample as found:
            return found
        return None

    def say(self, signal: Signal) -> None:
        """Send a drawn signal."""
        self.is_good = False
        try:
            self.session_run.say(signal)
        except CounterExample as found:
            self.broken(found)
            raise
        self.is_good = True

    def teardown(self) -> None:
        """At the end the world answers all that is open; then the session rests, and everybody has been answered."""
        # Not after a promise broke, and not before the first step: a second error would hide the first one.
        if not self.is_good:
            return
        try:
            self.session_run.rest()
        except CounterExample as found:
            self.broken(found)
            raise
        self.rested()

    def broken(self, found: CounterExample) -> None:
        """Hear of a promise that broke; for a subclass that counts."""

    def rested(self) -> None:
        """Hear of a run that came to rest; for a subclass that counts."""
