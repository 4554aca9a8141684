"""The run of one session, with every promise checked after each signal."""

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final, TypeAlias, assert_never

from attrs import field, frozen
from msgspec.structs import replace

from agentrail.core.policy.budget import NOTHING_SPENT, Price
from agentrail.core.protocol import actions as a, hooks as h, signals as s
from agentrail.core.protocol.effects import (
    Publish,
    Refuse,
    ReplyToCaller,
    RunPluginRequest,
    SpawnChild,
    StartStream,
)
from agentrail.core.protocol.request import EffectId, ModelFacts
from agentrail.core.protocol.signal_base import SignalId
from agentrail.core.session import machine
from agentrail.core.session.effect_owners import OfChild, OfContext, OfHostCheck, OfHostReport, owned_by
from agentrail.core.session.state import Phase, SessionConfig, SessionState
from agentrail.core.stack.loaded_stack import PluginEntry, PluginStates, Stack, load_stack
from agentrail.core.values.instruction_order import InstructionFile
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import AgentrailError, ErrorInfo
from agentrail.events import (
    TERMINAL,
    AbortReceipt,
    AgentStart,
    Event,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
    PromptTaken,
)
from agentrail.events.values import Question
from agentrail.messages import AssistantMessage, Message, PromptRef, SessionId, Text, TokenUsage, UserMessage
from agentrail.testing.open_effects import fit, timers_of
from agentrail.testing.plugin_promises import PLUGIN_PROMISES, PluginMoment, about_open_calls
from agentrail.testing.promises import PROMISES, Seen
from agentrail.testing.promises.observed_step import plugin_requests_of, teardowns_of
from agentrail.testing.scenario import write_scenario
from agentrail.testing.scenario_head import StackOrigin
from agentrail.testing.watched_stack import AskedPlugin, LoadedValues, StackWatch, loaded_values

# The end of a run: every open effect is answered until the session is idle.
#
# `promises` has the promises about one step. Those here need the end of the run: every caller is answered, every prompt is
# read or dropped, and a session without further input comes to rest.

LATER_MS: Final = 1_000_000
"""Later than everything in a script."""

MANY: Final = 200
"""More answers than a session can need that starts new work only for callers."""

_NOTHING_THERE: Final = h.RequestFailed(error=ErrorInfo(code="not_there", message="the context ends here"))


def answer_what_is_open(state: SessionState) -> s.Signal | None:
    """Return a successful outcome for one open effect. None if there is none."""
    data = state.data
    running = [
        call.effect_id for call in (*data.batch, *data.survivors) if call.stage in {"running", "stopping"}
    ]
    if plugin_requests_of(state):
        return s.PluginRequestFinished(
            at_ms=LATER_MS, effect_id=plugin_requests_of(state)[0], result=_NOTHING_THERE
        )
    for effect_id, _ in owned_by(data.open, OfHostCheck):
        return s.HostJudged(at_ms=LATER_MS, effect_id=effect_id)
    for effect_id, _ in owned_by(data.open, OfHostReport):
        return s.HostTold(at_ms=LATER_MS, effect_id=effect_id)
    for effect_id, _ in owned_by(data.open, OfContext):
        return s.ContextGathered(at_ms=LATER_MS, effect_id=effect_id)
    for effect_id, _ in owned_by(data.open, OfChild):  # the session of a tool ends before the tool
        return s.ToolFinished(at_ms=LATER_MS, effect_id=effect_id, text="done", started_at_ms=0)
    if data.compaction is not None and data.compaction.summary is not None:
        return s.PluginRequestFinished(
            at_ms=LATER_MS, effect_id=data.compaction.effect_id, result=_NOTHING_THERE
        )
    if data.compaction is not None:
        return _all_right(data.compaction.effect_id)
    leaving = [agent for agent in data.agents.states if agent.status in {"closing", "stopping"}]
    if leaving:
        return s.AgentEnded(at_ms=LATER_MS, effect_id=leaving[0].effect_id, reason="closed")
    working = [agent for agent in data.agents.states if agent.status == "working"]
    if working:
        return s.AgentIdled(
            at_ms=LATER_MS,
            effect_id=working[0].effect_id,
            outcome="finished",
            text="done",
            turns=1,
            spent=NOTHING_SPENT,
        )
    if teardowns_of(state):
        return s.TeardownFinished(at_ms=LATER_MS, effect_id=teardowns_of(state)[0], receipt=AbortReceipt())
    if timers_of(state) and not running:
        return s.TimerFired(at_ms=LATER_MS, effect_id=timers_of(state)[0])
    if data.stream is not None and not data.stream.pausing:
        return _all_right(data.stream.effect_id)
    if running:
        return s.ToolFinished(
            at_ms=LATER_MS, effect_id=EffectId(str(running[0])), text="done", started_at_ms=0
        )
    questions = [one.asked.ref for one in data.interactions if isinstance(one.asked, Question)]
    if questions:  # of a tool, whose call waits for it without a deadline
        return s.Decline(at_ms=LATER_MS, signal_id=SignalId(f"rest/{questions[0]}"), ref=questions[0])
    return None


def come_to_rest(state: SessionState) -> Iterator[Seen]:
    """Answer open effects, yielding every step, until none is left. Takes a few steps per prompt."""
    for _ in range(MANY):
        signal = answer_what_is_open(state)
        if signal is None:
            return
        before, (state, effects) = state, machine.step(state, signal)
        yield Seen(before, signal, state, effects)
    message = f"after {MANY} answers the session still has open effects: {answer_what_is_open(state)}"
    raise AssertionError(message)


def run_is_complete(run: Sequence[Seen]) -> None:
    """Check the promises about a completed run: counted from outside, without access to the state."""
    if not run:
        return
    end = run[-1].after
    assert end.ended or end.phase is Phase.IDLE
    alive = [seen for seen in run if not seen.before.ended]
    asked = [seen.signal.signal_id for seen in alive if isinstance(seen.signal, s.Asked)]
    asked += [by for seen in alive if (by := getattr(seen.signal, "asked_by", None)) is not None]
    answered = [
        effect.to for seen in run for effect in seen.effects if isinstance(effect, ReplyToCaller | Refuse)
    ]
    wishes = [effect.wish for seen in run for effect in seen.of(SpawnChild)]
    answered += [wish.signal_id for wish in wishes if wish is not None]
    assert Counter(answered) == Counter(asked)
    events = [effect.event for seen in run for effect in seen.effects if isinstance(effect, Publish)]
    accepted = [event.ref for event in events if isinstance(event, PromptReceived | PromptQueued)]
    dropped = [
        event.ref for event in events if isinstance(event, PromptDropped | PromptRejected | PromptTaken)
    ]
    said = Counter[PromptRef | None]()
    for history in {id(seen.after.data.history): seen.after.data.history for seen in run}.values():
        # Not only at the end: a summary may replace early messages.
        said |= Counter(
            m.ref for m in history.messages if isinstance(m, UserMessage) and m.origin == "prompt"
        )
    # A prompt that was being judged during a crash is received, and then queued: it is a single prompt nevertheless.
    assert said + Counter(dropped) == Counter(set(accepted))
    accepted = [ref for ref in accepted if not ref.startswith("wake/")]  # these have no caller
    assert set(accepted) <= {seen.signal.ref for seen in alive if isinstance(seen.signal, s.Prompt | s.Steer)}
    running = 0
    for event in events:
        running += isinstance(event, AgentStart)
        running -= type(event) in TERMINAL and running > 0
        assert running <= 1
    assert running == 0


def _all_right(effect_id: EffectId) -> s.ResponseCompleted:
    message = AssistantMessage(content=(Text(text="all right"),), model="scripted:model", stop_reason="end")
    usage = TokenUsage(input=1, output=1)
    return s.ResponseCompleted(
        at_ms=LATER_MS, effect_id=effect_id, message=message, usage=usage, stop_reason="end"
    )


# No Hypothesis here: a run is repeated from its signals alone. So a counter-example can be shortened, and written as a
# scenario.

Promise: TypeAlias = Callable[[Seen], None]
PluginPromise: TypeAlias = Callable[[PluginMoment], None]
Invariant: TypeAlias = Callable[["SessionView"], None]
HookOutcome: TypeAlias = tuple[str, str]
"""A hook, and the action that a plugin returned for it."""

_MAX_REMARK: Final = 200
QUIET_TURNS: Final = 12
"""Maximum number of turns that plugins may prolong a cycle in which the model has no more output."""


def small_config(**options: Any) -> SessionConfig:
    """Return a session configuration with small limits, so that they are reached. The turn limit is large."""
    session_id = SessionId("scenario")
    small: dict[str, Any] = {
        "max_turns": 40,
        "max_prompt_queue": 2,
        "max_parallel_tools": 2,
        "max_steering_queue": 2,
        "max_retries": 1,
        "tool_max_retries": 1,
    }
    return SessionConfig(
        session_id=session_id,
        path=(session_id,),
        # With a price, so that assertions about costs use a number rather than an unknown value.
        model=ModelFacts(model="scripted:model", price=Price(input=1.0, output=10.0)),
        **(small | options),
    )


@frozen(kw_only=True)
class Setup:
    """The initial setup of a run.

    Attributes:
        entries: The stack, in the order of registration.
        tools: The tools.
        config: Configuration of the session.
        without: Names of promises to skip.
        origin: Import path of the stack, `package.module:STACK`, and its content, for writing it into scenarios.
    """

    entries: tuple[PluginEntry, ...] = ()
    tools: Toolbox = field(factory=Toolbox)
    config: SessionConfig = field(factory=small_config)
    without: frozenset[str] = frozenset()
    origin: StackOrigin | None = None

    @cached_property
    def promises(self) -> tuple[Promise, ...]:
        """Promises about every session."""
        return tuple(promise for promise in PROMISES if promise.__name__ not in self.without)

    @cached_property
    def loaded(self) -> LoadedValues:
        """Values that the plugins can change, as they are at the start of the first run."""
        return loaded_values(self.entries)

    @cached_property
    def plugin_promises(self) -> tuple[PluginPromise, ...]:
        """Promises about the plugins."""
        return tuple(promise for promise in PLUGIN_PROMISES if promise.__name__ not in self.without)


@frozen
class SessionView:
    """The argument of an invariant: a session after a signal, and all earlier steps.

    Attributes:
        state: State of the core.
        run: Every step so far. The last one is the current one.
    """

    state: SessionState
    run: Sequence[Seen]

    @property
    def phase(self) -> Phase:
        """Phase of the session."""
        return self.state.phase

    @property
    def turn(self) -> int:
        """The turn of the cycle, from 1. 0 without a cycle."""
        cycle = self.state.data.cycle
        return cycle.turn if cycle is not None else 0

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation."""
        return self.state.data.history.messages

    @property
    def cost_usd(self) -> float | None:
        """Cost so far. None if a price is unknown."""
        return self.state.data.usage.cost_usd

    @property
    def total_tokens(self) -> int:
        """Tokens used so far."""
        return self.state.data.usage.total

    @property
    def running(self) -> tuple[str, ...]:
        """Names of the running tools."""
        data = self.state.data
        calls = (*data.batch, *data.survivors)
        return tuple(call.call.name for call in calls if call.stage in {"running", "stopping"})

    @property
    def events(self) -> list[Event]:
        """Events published in the last step. `run` has the earlier ones."""
        return self.run[-1].events if self.run else []

    @property
    def signal(self) -> s.Signal:
        """The last signal."""
        return self.run[-1].signal

    def plugin_state(self, name: str) -> Any:
        """Return a plugin's state.

        Raises:
            KeyError: Your move: there is no such plugin.
        """
        return self.state.data.plugin_states[name]


class CounterExample(AssertionError):
    """A broken promise, and the signals that broke it. Prints itself as a scenario."""

    def __init__(self, rule: str, why: str, signals: Sequence[s.Signal], run: "Run") -> None:
        """Store the promise, the failure, and the signals."""
        self.rule = rule
        self.why = why
        self.signals: tuple[s.Signal, ...] = tuple(signals)
        self.setup: Setup = run.setup
        self.drawn: tuple[s.Signal, ...] = tuple(run.drawn)
        super().__init__(rule, why)

    @property
    def scenario(self) -> str:
        """The signals as a file that `run_scenario` plays."""
        return write_scenario(
            self.signals,
            config=self.setup.config,
            tools=self.setup.tools,
            plugins=self.setup.entries,
            origin=self.setup.origin,
            remark=f"breaks {self.rule}: {_one_line(self.why)}",
        )

    def __str__(self) -> str:
        return f"{self.rule}: {self.why}\n\n{self.scenario}"


class Run:
    def __init__(self, setup: Setup, invariants: Sequence[Invariant] = ()) -> None:
        """Load a new stack, so that runs are independent of each other."""
        self.setup = setup
        self._invariants = invariants
        self._watch = StackWatch(setup.entries, setup.loaded)
        self.state: SessionState = self.begun(*load_stack(setup.entries, ask=self._watch))
        self.script: list[s.Signal] = []
        self.drawn: list[s.Signal] = []
        self.seen: list[Seen] = []
        self.coverage: Counter[HookOutcome] = Counter()
        self._about_calls: tuple[AskedPlugin, ...] = ()
        self._wanted: dict[EffectId, a.Wanted] = {}

    @property
    def view(self) -> SessionView:
        return SessionView(self.state, self.seen)

    def begun(self, stack: Stack, states: PluginStates) -> SessionState:
        return machine.new_session(self.setup.config, self.setup.tools, stack, states)

    def say(self, drawn: s.Signal) -> None:
        self.hear(self._fitting(fit(drawn, self.state, len(self.script) + 1)), drawn)

    def hear(self, signal: s.Signal, drawn: s.Signal | None = None) -> None:
        """Step with an exact signal, and check every promise."""
        self.drawn.append(signal if drawn is None else drawn)
        self.script.append(signal)
        with self._telling("step is total", self.script):
            after, effects = machine.step(self.state, signal)
        self._hold(Seen(self.state, signal, after, effects), self.script)

    def rest(self) -> None:
        script, turns = list(self.script), 0
        with self._telling("an idle session settles", self.script):
            steps = come_to_rest(self.state)
            for seen in steps:
                script.append(seen.signal)
                self._hold(seen, script)
                is_quiet = seen.after.data.cycle is not None
                # Of one cycle: the next prompt may start in the same step in which this one ends.
                before = 0 if any(isinstance(event, AgentStart) for event in seen.events) else turns
                turns = before + len(seen.of(StartStream)) if is_quiet else 0
                assert turns <= QUIET_TURNS, (
                    f"the model has finished, but plugins continued it for {turns} turns"
                )
        with self._telling("a run is complete", script):
            run_is_complete(self.seen)

    def compared(self, seen: Seen) -> None:
        """Compare a step with another one, for runs that have a counterpart."""

    def _fitting(self, signal: s.Signal) -> s.Signal:
        """Answer a plugin's request with the kind of answer that it needs, which the strategy could not know."""
        if isinstance(signal, s.PluginRequestFinished) and signal.effect_id in self._wanted:
            result = _result_for(self._wanted[signal.effect_id], signal.result)
            return replace(signal, result=result)
        return signal

    def _hold(self, seen: Seen, script: Sequence[s.Signal]) -> None:
        self.seen.append(seen)
        self.state = seen.after
        askings, faults = self._watch.take()
        self.coverage.update((type(one.event).__name__, type(one.answer).__name__) for one in askings)
        moment = PluginMoment(seen=seen, askings=askings, earlier=self._about_calls, faults=faults)
        self._about_calls = about_open_calls((*self._about_calls, *askings), seen.after.data.batch)
        self._wanted |= {effect.effect_id: effect.wanted for effect in seen.of(RunPluginRequest)}
        for about_plugins in self.setup.plugin_promises:
            with self._telling(about_plugins.__name__, script):
                about_plugins(moment)
        for promise in self.setup.promises:
            with self._telling(promise.__name__, script):
                promise(seen)
        self._watch.take()  # the repeated step called every plugin again
        with self._telling("order does not matter", script):
            self.compared(seen)
        for invariant in self._invariants:
            with self._telling(getattr(invariant, "__name__", repr(invariant)), script, by_user=True):
                invariant(self.view)

    @contextmanager
    def _telling(self, rule: str, script: Sequence[s.Signal], *, by_user: bool = False) -> Iterator[None]:
        """Convert a failure into a counter-example. An invariant that raises any other exception is itself at fault."""
        caught = Exception if by_user else (AssertionError, AgentrailError)
        try:
            yield
        except CounterExample:
            raise
        except caught as error:
            why = str(error) or _asserted(error)
            if not isinstance(error, AssertionError):
                hint = "; an invariant asserts, and raises nothing else" if by_user else ""
                why = f"raised {type(error).__name__}: {error}{hint}"
            raise CounterExample(rule, why, script, self) from error


Rerun: TypeAlias = Callable[[Setup, Sequence[s.Signal]], CounterExample | None]
"""Repeats a run from its generated signals, and returns its failure."""


def shortened(found: CounterExample, repeat: Rerun) -> CounterExample:
    """Remove from a counter-example every signal, and every block of signals, that the failure does not need."""
    position = len(found.drawn) - 1
    while position >= 0:
        for shorter in _shorter(found.drawn, position):
            again = repeat(found.setup, shorter)
            if again is not None and again.rule == found.rule:
                found = again
                break
        else:
            position -= 1
        position = min(position, len(found.drawn) - 1)
    return found


def _shorter(drawn: Sequence[s.Signal], position: int) -> Iterator[tuple[s.Signal, ...]]:
    before, signal, behind = drawn[:position], drawn[position], drawn[position + 1 :]
    yield (*before, *behind)
    if isinstance(signal, s.ResponseCompleted):
        for smaller in _without_one(signal.message.content):
            message = replace(signal.message, content=smaller)
            yield (*before, replace(signal, message=message), *behind)
    if isinstance(signal, s.Prompt):
        for smaller in filter(None, _without_one(signal.content)):
            yield (*before, replace(signal, content=smaller), *behind)


def _without_one(blocks: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for position in range(len(blocks)):
        yield (*blocks[:position], *blocks[position + 1 :])


def _asserted(error: BaseException) -> str:
    """Return the line of an assertion without a message."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.line} ({last.name}, line {last.lineno})"


def _one_line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MAX_REMARK else f"{words[:_MAX_REMARK]}…"


def _result_for(wanted: a.Wanted, drawn: h.RequestResult) -> h.RequestResult:
    text = drawn.text if isinstance(drawn, h.FileText) else None
    match wanted, drawn:
        case _, h.RequestFailed():
            return drawn
        case a.ReadFile(path=path), _:
            return h.FileText(path=path, text=text)
        case a.WriteFile(path=path, text=written), _:
            return h.FileWritten(path=path, written_bytes=len(written.encode()))
        case a.CallModel(), _:
            return h.ModelAnswer(text=text or "")
        case a.Search(), _:
            return h.Found(entries=() if text is None else (text,))
        case a.ReadInstructions(below=below), _:
            where = "/".join([*below[:1], "AGENTS.md"])
            return h.InstructionsFound(files=() if not text else (InstructionFile(path=where, text=text),))
        case a.KeepMemory(entry_id=entry_id), _:
            return h.MemoryKept(entry_id=entry_id)
        case a.ReadNotes(), _:
            return h.NotesIndex()
        case a.WriteNotes(facts=facts), _:
            return h.NotesIndex(added=facts)
        case _ as never:
            assert_never(never)
