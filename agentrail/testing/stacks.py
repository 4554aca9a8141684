"""Property tests of plugin stacks: in which order of events does a stack break?

class TestMyStack(stacks.stack_machine(plugins=[SecurityGuard, CostGuard, MyPlugin], tools=[my_tool])):
    @stacks.invariant
    def never_over_budget(self, session): assert session.cost_usd <= 1.00
"""

import inspect
import itertools
import json
import re
import unittest
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from types import CodeType, MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

import attrs
import msgspec
from attrs import frozen
from hypothesis import (
    HealthCheck,
    Phase as HypothesisPhase,
    Verbosity,
    find,
    seed as seeded,
    settings,
    strategies as st,
)
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test
from hypothesis.strategies import SearchStrategy

from agentrail.abc import Tool, ToolListing
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import RunTool
from agentrail.core.protocol.hooks import HOOKS, FileText
from agentrail.core.protocol.request import EffectId
from agentrail.core.session.state import SessionConfig
from agentrail.core.stack.loaded_stack import PluginEntry, load_stack
from agentrail.core.stack.plugin import Plugin
from agentrail.core.values.sample_values import SampleValues
from agentrail.core.values.toolbox import Toolbox, ToolSpec, read_call
from agentrail.messages import (
    AssistantBlock,
    AssistantMessage,
    Image,
    JsonObject,
    JsonValue,
    PromptRef,
    SessionId,
    SteerRef,
    StopReason,
    Text,
    TokenUsage,
    ToolCall,
    UserBlock,
)
from agentrail.runtime.tool_specs import ToolSpecs
from agentrail.testing import strategies
from agentrail.testing.checked_run import (
    CounterExample,
    HookOutcome,
    Invariant,
    Run,
    SessionView,
    Setup,
    shortened,
    small_config,
)
from agentrail.testing.commutation import ALL_PROMISES, Commutation, Twins
from agentrail.testing.plugin_promises import PLUGIN_PROMISES
from agentrail.testing.plugins import call_in_time
from agentrail.testing.promises import PROMISES
from agentrail.testing.rule_failures import require_assertions
from agentrail.testing.scenario_head import StackOrigin
from agentrail.testing.session_machine import PLAIN_STRATEGIES, SessionMachine, Strategies
from agentrail.testing.watched_stack import StackWatch

# Short lives that call every hook of a stack.
#
# A tour is a list of generated signals, with placeholders for ids. No Hypothesis here: a tour is the same in each check.

Tour = tuple[s.Signal, ...]

_NOBODY: Final = s.SignalId("")
_FIRST: Final = EffectId("0")
_IMAGE: Final = Image(media_type="image/png", data="iVBORw0KGgo=")
_TURNS_TO_COMPACT: Final = 6


def hook_tours(tools: Toolbox, options: Mapping[str, Mapping[str, Any]]) -> Iterator[Tour]:
    for tour in _tours(tools, options):
        yield (s.SessionBegan(at_ms=0), *tour)


def _tours(tools: Toolbox, options: Mapping[str, Mapping[str, Any]]) -> Iterator[Tour]:
    safe = [spec for spec in tools if spec.effect_class in {"pure", "idempotent"}]
    spec = next(iter(safe or list(tools)), None)
    yield (_prompt("Go on."), _said("Done."), _stop())
    yield (_prompt(_IMAGE), _said("I see."), _prompt(), _steer("left"), _said("Done."), _abort())
    if spec is not None:
        yield from _calling(spec, is_retried=bool(safe))
    turns = [
        signal for _ in range(_TURNS_TO_COMPACT) for signal in (_prompt("word " * 200), _said("word " * 200))
    ]
    yield (*turns, s.Compact(at_ms=0, signal_id=_NOBODY, reason="asked"))
    for name, given in options.items():
        update = s.UpdatePluginOpts(at_ms=0, signal_id=_NOBODY, plugin=name, options=dict(given))
        yield (update, _prompt("Go on."), update, _said("Done."))
    yield (
        _prompt("Go on."),
        s.Restarted(at_ms=0, incarnation=0, reason="a crash"),
        _prompt("Again."),
        _said("Done."),
    )


def _calling(spec: ToolSpec, *, is_retried: bool) -> Iterator[Tour]:
    """Yield lives in which two tools end, with success and failure, after a retry, and despite an abort or a steer."""
    good, bad = _ended("done"), _ended("no such file", is_error=True)
    for ends in ((good, good), (good, bad), (bad, bad)):
        yield (_prompt("Go on."), _calls(spec, 2), *ends, _said("Done."))
    yield (_prompt("Go on."), _calls(spec, 1), good, _calls(spec, 1), good, _said("Done."), _stop())
    yield (_prompt("Go on."), _calls(spec, 1), _steer("left"), good, _said("Done."))
    yield (_prompt("Go on."), _calls(spec, 2), good, _abort())
    if is_retried:
        crash = _ended("ValueError", is_error=True, crashed=True)
        again = s.TimerFired(at_ms=0, effect_id=_FIRST)
        yield (_prompt("Go on."), _calls(spec, 1), crash, again, good, _said("Done."))
        yield (_prompt("Go on."), _calls(spec, 1), crash, again, crash, _said("Done."))


def updates_of(plugin: Plugin, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options that a plugin certainly accepts: its given options, or the defaults of its `init`."""
    if given:
        return dict(given)
    parameters = inspect.signature(plugin.init).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty}


def plain_arguments(spec: ToolSpec) -> JsonValue:
    return SampleValues(root=spec.parameters, matching=_simplest_match).of(spec.parameters)


def _simplest_match(pattern: str) -> str:
    return find(st.from_regex(pattern), lambda _: True, settings=settings(database=None))


def _prompt(*content: str | Image) -> s.Prompt:
    blocks: list[UserBlock] = [Text(text=one) if isinstance(one, str) else one for one in content]
    return s.Prompt(at_ms=0, signal_id=_NOBODY, ref=PromptRef(""), content=tuple(blocks or [_IMAGE]))


def _steer(text: str) -> s.Steer:
    return s.Steer(at_ms=0, signal_id=_NOBODY, ref=SteerRef(""), text=text)


def _said(text: str) -> s.ResponseCompleted:
    return _response((Text(text=text),), "end")


def _calls(spec: ToolSpec, count: int) -> s.ResponseCompleted:
    arguments = json.dumps(plain_arguments(spec))
    return _response(tuple(read_call(f"c{one}", spec.name, arguments) for one in range(count)), "tool_use")


def _response(content: tuple[AssistantBlock, ...], stop_reason: StopReason) -> s.ResponseCompleted:
    message = AssistantMessage(content=content, model="scripted:model", stop_reason=stop_reason)
    return s.ResponseCompleted(
        at_ms=0, effect_id=_FIRST, message=message, usage=TokenUsage(), stop_reason=stop_reason
    )


def _ended(text: str, *, is_error: bool = False, crashed: bool = False) -> s.ToolFinished:
    return s.ToolFinished(
        at_ms=0, effect_id=_FIRST, text=text, is_error=is_error, crashed=crashed, started_at_ms=0
    )


def _abort() -> s.AbortCycle:
    return s.AbortCycle(at_ms=0, signal_id=_NOBODY)


def _stop() -> s.StopSession:
    return s.StopSession(at_ms=0, signal_id=_NOBODY, reason="stopped")


# Tools, arguments and texts of a generated conversation.
#
# A plugin looks for something: a tool, a path, a word. Random text would rarely contain it, so the generated texts include
# the words that a plugin's own code compares with.

_MAX_WORDS: Final = 40
_MAX_TOOLS: Final = 6
_MAX_CHARACTERS: Final = 60
_LARGE: Final = 10**9
_TOOL_NAME: Final = re.compile(r"[a-z][a-z0-9_]{2,30}")
_KEYS: Final = ("path", "command", "text")
_BROKEN: Final = ('{"path": ', "[]", "")
_CALL_IDS: Final = ("c1", "c2", "c3")
_PLAIN_WORDS: Final = ("a", "b", "README.md")


def _takes(*required: str) -> JsonObject:
    properties: dict[str, Any] = {key: {"type": "string"} for key in _KEYS}
    return {"type": "object", "properties": properties, "required": list(required)}


COMMON_TOOLS: Final = (
    ToolSpec(name="read_file", description="", parameters=_takes("path"), effect_class="pure"),
    ToolSpec(name="shell", description="", parameters=_takes("command")),
    ToolSpec(name="write_file", description="", parameters=_takes("path", "text"), killable=False),
)
"""Tools that are called by default."""


@frozen(kw_only=True)
class Vocabulary:
    tools: Toolbox
    words: tuple[str, ...] = _PLAIN_WORDS
    numbers: tuple[float, ...] = ()

    def texts(self) -> SearchStrategy[str]:
        return st.sampled_from(("Go on.", *self.words))

    def arguments(self, spec: ToolSpec) -> SearchStrategy[JsonValue]:
        words, numbers = (*_PLAIN_WORDS, *self.words), (1, 0, 2, -1, *self.numbers)

        @st.composite
        def arguments(draw: st.DrawFn) -> JsonValue:
            return SampleValues(
                root=spec.parameters,
                choose=lambda options: draw(st.sampled_from(options)),
                words=words,
                numbers=numbers,
                matching=lambda pattern: draw(st.from_regex(pattern)),
            ).of(spec.parameters)

        return arguments()

    def calls(self) -> SearchStrategy[ToolCall]:
        """Generate calls as a model makes them: most are valid, some are broken, some name a missing tool."""
        good = [self._call(st.just(spec.name), self.arguments(spec).map(json.dumps)) for spec in self.tools]
        names = st.sampled_from((*self.tools.names, "raed_file"))
        return st.one_of(*good, self._call(names, st.sampled_from(_BROKEN)))

    @staticmethod
    def _call(name: SearchStrategy[str], text: SearchStrategy[str]) -> SearchStrategy[ToolCall]:
        return st.builds(read_call, st.sampled_from(_CALL_IDS), name, text)


def vocabulary_of(plugins: Sequence[Plugin], tools: Sequence[ToolSpec] | None) -> Vocabulary:
    constants = list(dict.fromkeys(chain.from_iterable(map(_constants_of, plugins))))
    words = [word for word in constants if isinstance(word, str) and 0 < len(word) <= _MAX_CHARACTERS]
    numbers = [
        float(number) for number in constants if isinstance(number, int | float) and abs(number) < _LARGE
    ]
    if tools is None:
        known = {spec.name for spec in COMMON_TOOLS}
        meant = (word for word in words if _TOOL_NAME.fullmatch(word) and word not in (*known, *_KEYS))
        more = [
            ToolSpec(name=name, description="", parameters=_takes()) for name in islice(meant, _MAX_TOOLS)
        ]
        tools = (*COMMON_TOOLS, *more)
    near = tuple(around for number in numbers[:_MAX_TOOLS] for around in (number, number + 1))
    chosen = tuple(sorted(words, key=len)[:_MAX_WORDS])
    return Vocabulary(tools=Toolbox(tools), words=(*_PLAIN_WORDS, *chosen), numbers=near)


def _constants_of(plugin: Plugin) -> Iterator[object]:
    with suppress(RecursionError):  # a container may hold itself
        yield from _flat(list(getattr(plugin, "__dict__", {}).values()))
    for cls in type(plugin).__mro__:
        if cls.__module__.startswith(
            ("agentrail.plugins.base", "agentrail.core", "abc", "builtins", "typing")
        ):
            continue
        yield from _flat(
            [value for name, value in vars(cls).items() if not name.startswith("_") and name != "name"]
        )


def _flat(values: Iterable[Any]) -> Iterator[object]:
    for value in values:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            yield value
        elif isinstance(value, tuple | list | frozenset | set):
            yield from _flat(sorted(value, key=repr) if isinstance(value, frozenset | set) else value)
        elif isinstance(value, Mapping):
            yield from _flat((*value.keys(), *value.values()))
        elif isinstance(value, msgspec.Struct):
            yield from _flat(msgspec.structs.astuple(value))
        elif attrs.has(type(value)):
            yield from _flat(attrs.astuple(value, recurse=False))
        elif callable(value) and hasattr(value, "__code__"):
            yield from _of_code(value.__code__, value.__globals__)
            yield from _flat((*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()))


def _of_code(code: CodeType, names: Mapping[str, Any]) -> Iterator[object]:
    # The first constant of a function is its docstring, or None. Lambdas and comprehensions have neither.
    for constant in code.co_consts if code.co_name.startswith("<") else code.co_consts[1:]:
        if isinstance(constant, CodeType):
            yield from _of_code(constant, names)
        else:
            yield from _flat([constant])
    for name in code.co_names:
        if isinstance(names.get(name), str | int | float | tuple | frozenset | Mapping):
            yield from _flat([names[name]])


__all__ = (
    "PLUGIN_PROMISES",
    "PROMISES",
    "Commutation",
    "CounterExample",
    "OrderMatters",
    "SessionView",
    "Setup",
    "StackMachine",
    "Tally",
    "check_stack",
    "combinations",
    "commute",
    "declared_hooks",
    "invariant",
    "orders_that_matter",
    "small_config",
    "stack_machine",
    "strategies_of",
)

F = TypeVar("F", bound=Callable[..., None])

_INVARIANT: Final = "_agentrail_invariant"
_COSTS_USD: Final = (0.0, 0.01, 0.4, 2.0)
_IMAGES: Final = st.just(Image(media_type="image/png", data="iVBORw0KGgo="))


def invariant(method: F) -> F:
    """Mark a method of a stack machine as a condition that holds after every signal: `method(self, session)`.

    It asserts. Its return value is ignored. `session` is a `SessionView`.
    """
    setattr(method, _INVARIANT, True)
    return method


class StackMachine(SessionMachine, unittest.TestCase):
    """Base of the classes from `stack_machine`. Subclass those.

    Attributes:
        setup: Initial setup of each run.
        tours: Short runs made before any generated one.
        max_signals: Maximum number of signals per run.
    """

    __test__: bool = False  # until a subclass has a stack
    setup: ClassVar[Setup]
    tours: ClassVar[tuple[tuple[s.Signal, ...], ...]] = ()
    max_signals: ClassVar[int] = 25
    ends_after: ClassVar[int] = 15

    def __init__(self, method: str = "test_any_order") -> None:
        """Create a test case that is also a state machine. Hypothesis creates a new one for each run."""
        unittest.TestCase.__init__(self, method)
        SessionMachine.__init__(self)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Enable the test as soon as there is a stack."""
        super().__init_subclass__(**kwargs)
        cls.__test__ = hasattr(cls, "setup")

    def bound_invariants(self) -> tuple[Invariant, ...]:
        """Return the marked methods."""
        names = dict.fromkeys(name for cls in type(self).__mro__ for name in vars(cls))
        found = (getattr(self, name) for name in names if not name.startswith("__") and name != "TestCase")
        return tuple(method for method in found if getattr(method, _INVARIANT, False))

    def test_any_order(self) -> None:
        """Make as many runs as Hypothesis' settings require, and check every promise in each."""
        chosen = type(self).TestCase.settings
        seed = 0 if chosen.derandomize else None
        tally = check_stack(type(self), examples=chosen.max_examples, seed=seed, max_signals=self.max_signals)
        if tally.found is not None:
            raise tally.found


def stack_machine(  # noqa: PLR0913 - all but the first have defaults that are meant to be left alone
    plugins: Sequence[PluginEntry],
    *,
    tools: Sequence[Tool | ToolSpec] | None = None,
    config: SessionConfig | None = None,
    without: Sequence[str] = (),
    max_size: int | None = None,
    origin: StackOrigin | None = None,
) -> type[StackMachine]:
    """Create the test of a stack: any order of signals, on the pure core, against all promises.

    Args:
        plugins: As in the options of a session: classes, instances, or one of them with its options.
        tools: Tools that the model may call, with arguments that fit their schemas. None: some common ones, and one for each
            name that the code of a plugin mentions.
        config: Configuration of the sessions. Small limits by default.
        without: Names of promises to skip, of `PROMISES` and `PLUGIN_PROMISES`.
        max_size: Test `combinations` of the plugins instead of this stack, each of at most this size.
        origin: Import path of the stack, for the scenario of a counter-example.

    Returns:
        A class to subclass, or to run as it is.

    Raises:
        PluginError: Your move: the stack cannot be loaded. Lists all faults.
        ValueError: Your move: `without` names an unknown promise.
    """
    known = {promise.__name__ for promise in (*PROMISES, *PLUGIN_PROMISES)}
    unknown = sorted(set(without) - known)
    if unknown:
        message = f"unknown promise {', '.join(unknown)}; expected one of {', '.join(sorted(known))}"
        raise ValueError(message)
    stack, _ = load_stack(plugins, ask=StackWatch((), call=call_in_time))
    members: list[Plugin] = [member.plugin for member in stack.members]
    vocabulary = vocabulary_of(members, None if tools is None else _specs_of(tools))
    setup = Setup(
        entries=tuple(plugins),
        tools=vocabulary.tools,
        config=config or small_config(),
        without=frozenset(without),
        origin=origin,
    )
    options = {member.name: updates_of(member.plugin, member.options) for member in stack.members}
    fields = {
        "setup": setup,
        "setups": st.just(setup)
        if max_size is None
        else combinations(setup.entries, max_size).map(lambda some: attrs.evolve(setup, entries=some)),
        "tours": (
            *hook_tours(vocabulary.tools, options),
            *(tours_of(vocabulary) if max_size is None else ()),
        ),
        "strategies": strategies_of(vocabulary, options),
        "openings": _openings_of(vocabulary),
        "__doc__": f"The stack {', '.join(stack.names) or 'without plugins'}.",
        "__module__": __name__,
    }
    return type("StackMachine", (StackMachine,), fields)


def strategies_of(vocabulary: Vocabulary, options: Mapping[str, Mapping[str, Any]]) -> Strategies:
    """Return strategies for users, models and tools in sessions with these plugins.

    Args:
        vocabulary: Words, tools, and arguments for them.
        options: Options that can be updated, by the name of the plugin.
    """
    texts = vocabulary.texts()
    usages = st.builds(
        TokenUsage, input=st.integers(0, 9), output=st.integers(0, 9), cost_usd=st.sampled_from(_COSTS_USD)
    )
    replace = msgspec.structs.replace
    blocks = st.builds(Text, text=texts)
    prompts = st.builds(
        replace,
        strategies.prompts(),
        content=st.lists(blocks | _IMAGES, min_size=1, max_size=2).map(tuple),
    )
    responses = st.builds(
        _speaking, strategies.responses(), usages, st.lists(blocks | vocabulary.calls(), max_size=3)
    )
    calling = st.builds(
        _speaking, strategies.responses(), usages, st.lists(vocabulary.calls(), min_size=1, max_size=3)
    )
    arguments = st.one_of(*(vocabulary.arguments(spec) for spec in vocabulary.tools))
    decisions = st.builds(_edited, strategies.decisions(), arguments)
    updates = [
        st.just(s.UpdatePluginOpts(at_ms=0, signal_id=_NOBODY, plugin=name, options=dict(given)))
        for name, given in options.items()
    ]
    drawn: dict[str, SearchStrategy[Any]] = {
        "prompt": prompts,
        "steer": st.builds(replace, strategies.steers(), text=texts),
        "decide": decisions,
        "call": calling,
        "respond": responses,
        "tool": st.builds(_saying, strategies.tool_outcomes(), texts),
        "plugin_request": st.builds(_finding, strategies.plugin_request_outcomes(), texts),
        "noise": st.one_of(PLAIN_STRATEGIES["noise"], *updates),
    }
    return MappingProxyType({**PLAIN_STRATEGIES, **drawn})


def _openings_of(vocabulary: Vocabulary) -> SearchStrategy[tuple[s.Signal, ...]]:
    """Generate the start of a life: mostly with a prompt and calls, some of which end, because plugins judge those."""
    drawn = strategies_of(vocabulary, {})
    ended = st.builds(_ended, vocabulary.texts(), is_error=st.booleans(), crashed=st.booleans())
    calling = (drawn["prompt"], drawn["call"])
    return st.one_of(
        st.just(()), st.tuples(*calling), st.tuples(*calling, ended), st.tuples(*calling, ended, ended)
    )


def tours_of(vocabulary: Vocabulary) -> Iterator[tuple[s.Signal, ...]]:
    """Yield the shortest runs that call every tool with every word: random generation takes long to cover them all."""
    for spec in vocabulary.tools:
        properties: Any = spec.parameters.get("properties", {})
        texts = [
            key for key, one in properties.items() if isinstance(one, Mapping) and one.get("type") == "string"
        ]
        for word in dict.fromkeys(vocabulary.words) if texts else ():
            call = read_call("c1", spec.name, json.dumps(dict.fromkeys(texts, word)))
            yield (_prompt(word), _response((call,), "tool_use"))


def _speaking(response: s.ResponseCompleted, usage: TokenUsage, blocks: Sequence[Any]) -> s.ResponseCompleted:
    message = AssistantMessage(
        content=tuple(blocks), model=response.message.model, stop_reason=response.stop_reason
    )
    return msgspec.structs.replace(response, message=message, usage=usage)


def _edited(signal: s.Signal, arguments: Any) -> s.Signal:
    """Let a user edit arguments so that they fit the existing tools."""
    if isinstance(signal, s.Approve) and signal.arguments is not None:
        return msgspec.structs.replace(signal, arguments=arguments)
    return signal


def _saying(signal: s.Signal, text: str) -> s.Signal:
    return msgspec.structs.replace(signal, text=text) if isinstance(signal, s.ToolFinished) else signal


def _finding(signal: s.PluginRequestFinished, text: str) -> s.PluginRequestFinished:
    match signal.result:
        case FileText(text=str()) as found:
            return msgspec.structs.replace(signal, result=msgspec.structs.replace(found, text=text))
        case _:
            return signal


def _specs_of(tools: Sequence[Tool | ToolSpec]) -> list[ToolSpec]:
    kept = ToolSpecs()

    def listing() -> ToolListing:
        return ToolListing(
            session_id=SessionId("scenario"), model="scripted:model", working_dir=".", user_data={}
        )

    return [tool if isinstance(tool, ToolSpec) else kept.of(tool, listing) for tool in tools]


def combinations(pool: Sequence[PluginEntry], max_size: int) -> SearchStrategy[tuple[PluginEntry, ...]]:
    """Generate stacks of some plugins: subsets of a pool, in any order of registration.

    Args:
        pool: Plugins with different names.
        max_size: Maximum number of plugins in a stack. The minimum is one.
    """
    places = st.lists(st.sampled_from(range(len(pool))), min_size=1, max_size=max_size, unique=True)
    return places.map(lambda chosen: tuple(pool[place] for place in chosen))


# --- running one


@attrs.define
class Tally:
    """The result of a check, readable while it runs and after an interruption.

    Attributes:
        runs: Number of completed sessions.
        signals: Number of signals they received.
        found: The shortest counter-example. None if there is none.
        heard: Called after every run.
        coverage: Number of plugin calls on each hook, by the name of the returned action.
        tool_runs: Number of sessions in which a tool ran.
    """

    runs: int = 0
    signals: int = 0
    coverage: Counter[HookOutcome] = attrs.field(factory=Counter, kw_only=True)
    tool_runs: int = attrs.field(default=0, kw_only=True)
    found: CounterExample | None = None
    heard: Callable[["Tally"], None] | None = None

    def count(self, run: Run) -> None:
        """Count a run."""
        self.runs += 1
        self.signals += len(run.script)
        self.coverage.update(run.coverage)
        self.tool_runs += any(seen.of(RunTool) for seen in run.seen)
        if self.heard is not None:
            self.heard(self)

    def keep(self, found: CounterExample) -> None:
        """Keep a counter-example if it is the shortest."""
        if self.found is None or len(found.drawn) < len(self.found.drawn):
            self.found = found


def check_stack(  # noqa: PLR0913 - all but the first have defaults that are meant to be left alone
    machine: type[SessionMachine],
    *,
    examples: int = 2000,
    seed: int | None = None,
    max_signals: int = 25,
    tours: bool = True,
    tally: Tally | None = None,
) -> Tally:
    """Make many runs of a stack, and reduce a failure to the shortest counter-example.

    Args:
        machine: A class from `stack_machine`, or a subclass of one.
        examples: Number of runs.
        seed: Seed of the generator. The same seed generates the same runs.
        max_signals: Maximum length of a run.
        tours: Whether to start with the short runs that call every tool with every relevant word.
        tally: Tally to update, for a caller that reads it during the check.

    Returns:
        The tally.

    Raises:
        ValueError: Your move: `examples` is not positive.
    """
    require_assertions()
    if examples < 1:
        message = f"examples must be at least 1 (got {examples})"
        raise ValueError(message)
    tally = Tally() if tally is None else tally
    counted = _counted(machine, tally)
    if tours and _tour(counted, tally):
        return tally
    chosen = settings(
        max_examples=examples,
        stateful_step_count=max_signals,
        # `shortened` shrinks in seconds: it need not generate, only leave out.
        phases=(HypothesisPhase.generate,),
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(seeded(seed)(counted) if seed is not None else counted, settings=chosen)
    except (CounterExample, Flaky):  # an impure plugin makes a repeated run flaky
        if tally.found is None:
            raise
        tally.found = shortened(tally.found, counted().repeat)
    return tally


def _tour(counted: type[SessionMachine], tally: Tally) -> bool:
    guide = counted()
    if not isinstance(guide, StackMachine):
        return False
    for drawn in guide.tours:
        found = guide.repeat(guide.setup, drawn)
        if found is not None:
            tally.found = found  # available to a caller that interrupts the following step
            tally.found = shortened(found, guide.repeat)
            return True
        tally.count(guide.session_run)
    return False


def _counted(machine: type[SessionMachine], tally: Tally) -> type[SessionMachine]:
    def rested(self: SessionMachine) -> None:
        tally.count(self.session_run)

    def broken(_: SessionMachine, found: CounterExample) -> None:
        tally.keep(found)

    return type(machine.__name__, (machine,), {"rested": rested, "broken": broken, "__test__": False})


def commute(
    a: PluginEntry,
    b: PluginEntry,
    *,
    tools: Sequence[Tool | ToolSpec] | None = None,
    examples: int = 200,
    seed: int | None = 0,
) -> Commutation:
    """Check whether two plugins may change places. Both stacks get the same conversations, and are compared after each signal.

    Args:
        a: The plugin that is called first: its priority is lower, or the same.
        b: The other one. In the second stack, each gets the priority of the other.
        tools: The same as in `stack_machine`.
        examples: Number of conversations. Finding no difference is not a proof.
        seed: Seed of the generator.

    Returns:
        True in a condition if they commute. Otherwise it has the shortest conversation in which the order matters.
    """
    machine = stack_machine([a, b], tools=tools, without=ALL_PROMISES)

    def begin_run(_: SessionMachine, setup: Setup) -> Run:
        return Twins(setup)

    twins = type("Twins", (machine,), {"begin_run": begin_run, "__test__": False})
    tally = check_stack(twins, examples=examples, seed=seed)
    return Commutation(found=tally.found, runs=tally.runs)


def declared_hooks(machine: type[StackMachine]) -> tuple[str, ...]:
    """Return the names of the hooks that the plugins of a stack declare, in the order of the table of hooks."""
    stack, _ = load_stack(machine.setup.entries)
    declared = {hook for member in stack.members for hook in member.hooks}
    return tuple(hook.__name__ for hook in HOOKS if hook in declared)


@attrs.frozen
class OrderMatters:
    """Two plugins of a stack that do not commute.

    Attributes:
        first: Name of the plugin that is called first.
        second: Name of the other one.
        answer: The conversation in which the order matters, and the difference.
    """

    first: str
    second: str
    answer: Commutation


def orders_that_matter(
    machine: type[StackMachine],
    *,
    examples: int = 30,
    seed: int | None = 0,
    go_on: Callable[[], bool] = lambda: True,
) -> Iterator[OrderMatters]:
    """Yield the pairs of a stack whose order matters, if `commute` finds them. An order may matter on purpose.

    Args:
        machine: A class from `stack_machine`, or a subclass of one.
        examples: Number of conversations for each pair that shares a hook.
        seed: Seed of the generator.
        go_on: Called before each pair. False ends the search.
    """
    loaded = [(load_stack([entry])[0].members[0], entry) for entry in machine.setup.entries]
    loaded.sort(key=lambda one: one[0].priority)
    for (first, a), (second, b) in itertools.combinations(loaded, 2):
        if not go_on():
            return
        if first.hooks & second.hooks:
            answer = commute(a, b, tools=tuple(machine.setup.tools), examples=examples, seed=seed)
            if not answer:
                yield OrderMatters(first.name, second.name, answer)
