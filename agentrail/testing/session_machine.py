"""A session as a Hypothesis state machine over the pure core: signals in any order, and all promises checked after each."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final, TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from hypothesis.strategies import SearchStrategy

from agentrail.core.protocol.signals import SessionBegan, Signal
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.session.step_context import is_gathering
from agentrail.testing import open_effects, strategies
from agentrail.testing.checked_run import CounterExample, Invariant, Run, Setup
from agentrail.testing.promises.observed_step import plugin_requests_of, teardowns_of, waits_for_host

Strategies: TypeAlias = Mapping[str, SearchStrategy[Signal]]
SignalRule: TypeAlias = Callable[["SessionMachine", Signal], None]

_QUIET_FOR: Final = 3
_LONG: Final = 40
"""Number of signals before a run may be ended: this machine is meant for long runs."""


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
"""The default strategies."""


def _said(by: str) -> SearchStrategy[Signal]:
    said: SearchStrategy[Signal] = st.runner().flatmap(lambda machine: machine.strategies[by])
    return said


def _sends(by: str, may: Callable[[SessionState], object], what: str, *, name: str = "") -> SignalRule:
    """Make a rule that sends signals of a strategy, in states that allow it."""

    def send(self: "SessionMachine", signal: Signal) -> None:
        self.say(signal)

    send.__name__, send.__doc__ = name or by, what
    allowed: SignalRule = precondition(lambda self: bool(may(self.session_run.state)))(
        rule(signal=_said(by))(send)
    )
    return allowed


class SessionMachine(RuleBasedStateMachine):
    """Signals in any order, checked against the promises.

    Attributes:
        strategies: The signals of each rule, by its name.
        openings: The first signals of a run, after the session has started.
        ends_after: Number of signals before a run may be ended.
    """

    setups: ClassVar[SearchStrategy[Setup]]
    strategies: ClassVar[Strategies] = PLAIN_STRATEGIES
    openings: ClassVar[SearchStrategy[tuple[Signal, ...]]] = st.just(())
    ends_after: ClassVar[int] = _LONG
    session_run: Run
    is_good: bool = False

    def bound_invariants(self) -> tuple[Invariant, ...]:
        """Return the additional invariants, checked after each step."""
        return ()

    @initialize(
        setup=st.runner().flatmap(lambda machine: machine.setups),
        opening=st.runner().flatmap(lambda machine: machine.openings),
    )
    def begin(self, setup: Setup, opening: tuple[Signal, ...]) -> None:
        """Start the session."""
        self.session_run = self.begin_run(setup)
        for signal in (SessionBegan(at_ms=0), *opening):
            self.say(signal)

    prompt: SignalRule = _sends("prompt", lambda state: not state.ended, "A caller sends a prompt.")
    steer: SignalRule = _sends(
        "steer", lambda state: not state.ended, "A caller steers the running cycle, or an idle session."
    )
    go_on: SignalRule = _sends(
        "go_on", open_effects.can_go_on, "A caller asks the model to continue without a new prompt."
    )
    decide: SignalRule = _sends(
        "decide", lambda state: state.data.interactions, "A caller decides an approval or answers a question."
    )
    wake: SignalRule = _sends("wake", open_effects.timers_of, "An answer has timed out, or a pause is over.")
    abort_tool: SignalRule = _sends(
        "abort_tool", lambda state: state.data.batch or state.data.survivors, "A caller stops one call."
    )
    stream: SignalRule = _sends(
        "stream", lambda state: state.data.stream is not None, "The model streams something."
    )
    call_tools: SignalRule = _sends(
        "call",
        lambda state: state.data.stream is not None,
        "The model calls tools. Most calls are valid.",
        name="call_tools",
    )
    respond: SignalRule = _sends(
        "respond", lambda state: state.data.stream is not None, "The model completes its response."
    )
    tool: SignalRule = _sends(
        "tool", lambda state: state.data.batch or state.data.survivors, "A tool reports something."
    )
    host: SignalRule = _sends(
        "host", waits_for_host, "The host judges a call, or acknowledges a notice of one."
    )
    agent: SignalRule = _sends(
        "agent",
        lambda state: state.data.agents.alive,
        "A background agent publishes something, becomes idle, or ends.",
    )
    plugin_request: SignalRule = _sends(
        "plugin_request", plugin_requests_of, "A plugin's request succeeds or fails."
    )
    abort: SignalRule = _sends(
        "abort", lambda state: state.phase is not Phase.IDLE, "A caller aborts the cycle."
    )
    settle: SignalRule = _sends(
        "settle",
        lambda state: teardowns_of(state) or is_gathering(state.data),
        "A teardown finishes, or the context for a request is ready.",
    )

    # Only at every third signal: otherwise many runs would consist of noise alone.
    @precondition(
        lambda self: not self.session_run.state.ended and len(self.session_run.script) % _QUIET_FOR == 0
    )
    @rule(signal=_said("noise"))
    def noise(self, signal: Signal) -> None:
        """Queries, aborts without a cycle, crashes, and outcomes that may be late."""
        self.say(signal)

    # One rule, and allowed only late, because it ends the run: all rules are chosen equally often.
    @precondition(lambda self: self.session_run.state.ended or len(self.session_run.script) > self.ends_after)
    @rule(signal=_said("end"))
    def end(self, signal: Signal) -> None:
        """A caller or a supervisor ends the session."""
        self.say(signal)

    def begin_run(self, setup: Setup) -> Run:
        """Start a run that checks all invariants."""
        return Run(setup, self.bound_invariants())

    def repeat(self, setup: Setup, drawn: Sequence[Signal]) -> CounterExample | None:
        """Repeat a run without Hypothesis, and return its counter-example. None if the run passes."""
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
        """At the end, answer all open effects. Then the session is quiet, and all callers have their answers."""
        # Not after a broken promise or before the first step: a second error would hide the first one.
        if not self.is_good:
            return
        try:
            self.session_run.rest()
        except CounterExample as found:
            self.broken(found)
            raise
        self.rested()

    def broken(self, found: CounterExample) -> None:
        """Called when a promise is broken. For subclasses that count."""

    def rested(self) -> None:
        """Called when a run has completed. For subclasses that count."""
