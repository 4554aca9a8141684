"""Signals full of garbage: every class of them, in every phase, with every value that its constructor lets through.

A run goes on as people and the world live it, and between any two of its signals somebody sends one that nobody should:
ids that are foreign, late or somebody else's, numbers that no 64 bits hold, no numbers at all, halves of characters,
arguments nested as deeply as they may be. All promises are held after each. Then the same with values of wrong types,
which no caller can send and a bug of ours could.

Rounds: an example is up to thirty-two signals, every other one hostile; a third of the examples of the profile, so `ci` sends
about 800 hostile ones in each test, and `nightly` 27,000.
"""

import functools
import math
import types
from collections.abc import Mapping
from typing import Any, Final, Literal, NewType, Union, get_args, get_origin, get_type_hints

import attrs
import msgspec
from hypothesis import given, reject, settings, strategies as st
from hypothesis.strategies import SearchStrategy

from agentrail.core.policy.budget import Budget
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.signals import (
    Approve,
    Asked,
    ChangePlugins,
    EffectOutcome,
    Parked,
    Prompt,
    Reject,
    Restarted,
    SessionBegan,
    Signal,
    SignalId,
    Steer,
    StepCrashed,
    StopSession,
    ToolAsked,
    ToolWantsChild,
)
from agentrail.core.session import machine
from agentrail.errors import AgentrailError, ErrorInfo, InternalError
from agentrail.events import AgentStart, Event, PluginEvent
from agentrail.frozen import MAX_LEVELS
from agentrail.messages import PromptRef
from agentrail.testing import open_effects, strategies
from agentrail.testing.checked_run import Run, Setup
from agentrail.testing.plugin_promises import PLUGIN_PROMISES
from agentrail.testing.plugins import PUPPET_ORIGIN
from agentrail.testing.promises.observed_step import plugin_requests_of, teardowns_of
from property_tests.vandal import portrait
from tests.core.worlds import WITH_CLIENT as TOOLS, config

HOOKS: Final = st.sets(st.sampled_from(("before_tool", "after_tool"))).map(frozenset)
ROUNDS: Final = settings(max_examples=max(settings().max_examples // 3, 10))
TEXTS: Final = (
    "",
    "a",
    "\ud800",
    "\udc00\ud800",
    "\x00\x1b[2J",
    "\u202e",
    "word " * 400,
    "<title>",
    "```",
    "s/a1",
    "t1",
)
NUMBERS: Final = (0, 1, -1, 2**31, 2**63, 2**64, -(2**70), 10**30)
FLOATS: Final = (0.0, -0.0, 0.5, math.nan, math.inf, -math.inf, 1e308, 5e-324)


def _nested(levels: int) -> object:
    value: object = "deep"
    for level in range(levels):
        value = {"a": value} if level % 2 else [value]
    return value


JSON: Final[SearchStrategy[Any]] = st.recursive(
    st.sampled_from((*TEXTS, *NUMBERS, *FLOATS, None, True, _nested(MAX_LEVELS - 2))),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(TEXTS), inner, max_size=2),
    max_leaves=4,
)
OBJECTS: Final = st.dictionaries(st.sampled_from((*TEXTS, "path", "question", "options")), JSON, max_size=3)
GARBAGE: Final[SearchStrategy[Any]] = st.sampled_from(
    (
        None,
        True,
        7,
        -1.5,
        math.nan,
        "x",
        "\ud800",
        b"x",
        (),
        (None,),
        [1],
        {"a": 1},
        {1: 2},
        {1},
        object(),
        int,
        10**400,
    )
)


@functools.cache  # Hypothesis checks a strategy once, however often it is drawn from
def hostile(hint: Any) -> SearchStrategy[Any]:
    """Draw values of a type, as bad as the type allows."""
    if isinstance(hint, str) or hint is Any:  # the inside of JSON, which names itself
        return JSON
    if isinstance(hint, NewType):
        return hostile(hint.__supertype__)
    if hint == Event:
        return st.sampled_from(
            (PluginEvent(name="", payload=[math.nan]), AgentStart(ref=PromptRef("\ud800")))
        )
    # It refuses nearly all that is hostile, and Hypothesis gives up where nearly all is refused.
    if hint is Budget:
        return st.builds(
            Budget,
            max_total_tokens=st.sampled_from([number for number in NUMBERS if number > 0]),
            max_cost_usd=st.sampled_from((None, 0.5, 1e308, 5e-324)),
            allow_unknown_prices=st.booleans(),
        )
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in {Union, types.UnionType}:
        return st.one_of(*map(hostile, inner))
    if origin is tuple and inner[-1] is not ...:
        return st.tuples(*map(hostile, inner))
    if origin is tuple:
        return st.lists(hostile(inner[0]), max_size=2).map(tuple)
    if origin in {Mapping, dict}:
        return OBJECTS
    if origin is list:
        return st.lists(JSON, max_size=2)
    plain: dict[Any, tuple[object, ...]] = {
        str: TEXTS, int: NUMBERS, float: FLOATS, bool: (True, False), type(None): (None,), bytes: (b"",),
    }  # fmt: skip
    return st.sampled_from(plain[hint]) if hint in plain else made(hint)


HINTS_OF: Final = functools.cache(get_type_hints)


@functools.cache
@st.composite
def made(draw: st.DrawFn, kind: Any, wrong: bool = False) -> Any:  # noqa: FBT001, FBT002 - Hypothesis passes it on
    """Make an instance with hostile values, and one of a wrong type among them if that is wanted."""
    hints = HINTS_OF(kind)
    if attrs.has(kind):
        names = {field.name: field.default is attrs.NOTHING for field in attrs.fields(kind) if field.init}
    else:
        names = {field.name: field.required for field in msgspec.structs.fields(kind)}
    chosen = [name for name, needed in names.items() if needed or draw(st.booleans())]
    values = {name: draw(hostile(hints[name])) for name in chosen}
    if wrong:
        values[draw(st.sampled_from([name for name in names if name != "signal_id"]))] = draw(GARBAGE)
    try:
        return kind(**values)
    except (AgentrailError, TypeError, ValueError, RecursionError, AttributeError):
        reject()


KINDS: Final = tuple(
    kind for kind in get_args(Signal) if kind not in {SessionBegan, StopSession, Parked, Restarted}
)
ENDINGS: Final = (StopSession, Parked, Restarted)


@st.composite
def aimed(draw: st.DrawFn, kind: Any, run: Run, wrong: bool = False) -> Any:  # noqa: FBT001, FBT002 - as above
    """Make a signal that mostly hits something: an effect that is open, a person who is asked, a call that runs."""
    signal = draw(made(kind, wrong))
    number = len(run.script) + 1
    changes: dict[str, Any] = {}
    if not wrong:
        changes["at_ms"] = draw(st.sampled_from((number * 10, 0, -1, 2**53)))
    if isinstance(signal, Asked):
        changes["signal_id"] = SignalId(f"h{number}")  # the shell mints them, each once
    if isinstance(signal, Prompt | Steer):
        changes["ref"] = f"h{number}"  # and these
    if isinstance(signal, StepCrashed):
        changes |= {"asked_by": None, "error": ErrorInfo(code="x", message="\ud800")}
        changes["owed_by"] = draw(st.sampled_from((None, *_open_ids(run))))
    if isinstance(signal, ChangePlugins) and not wrong:
        changes["entry"] = draw(st.sampled_from((None, _record("puppet"), _record("\ud800"))))
    if draw(st.integers(0, 3)):
        if isinstance(signal, EffectOutcome | ToolAsked | ToolWantsChild):
            changes["effect_id"] = draw(st.sampled_from((*_open_ids(run), "late")))
        if isinstance(signal, Approve | Reject) and run.state.data.interactions:
            changes["approval_id"] = run.state.data.interactions[0].id
    return msgspec.structs.replace(signal, **changes)


def _record(name: str) -> PluginRecord:
    return PluginRecord(name=name, version="1", origin=PUPPET_ORIGIN, options=None)


def _open_ids(run: Run) -> list[str]:
    data = run.state.data
    calls = [call.effect_id for call in (*data.batch, *data.survivors) if call.effect_id is not None]
    streams = [data.stream.effect_id] if data.stream is not None else []
    teardowns, plugin_requests = teardowns_of(run.state), plugin_requests_of(run.state)
    return [*calls, *data.loans, *streams, *teardowns, *plugin_requests, *open_effects.timers_of(run.state)]


SIGNALS: Final = strategies.signals()


def _go_on(data: st.DataObject, run: Run) -> None:
    drawn = data.draw(SIGNALS)
    run.hear(strategies.fit(drawn, run.state, len(run.script) + 1))


@ROUNDS
@given(data=st.data(), plugins=strategies.stacks(max_size=1))
def test_hostile_values_break_no_promise(data, plugins):
    """Of the right types and as bad as those allow: no step raises, every promise holds, and the session comes to rest."""
    # Drawn plugins answer what means nothing where they are asked: that is what those promises look for.
    about_plugins = frozenset(promise.__name__ for promise in PLUGIN_PROMISES)
    run = Run(
        Setup(tools=TOOLS, config=config(host_hooks=data.draw(HOOKS)), entries=plugins, without=about_plugins)
    )
    run.hear(SessionBegan(at_ms=0))
    for _ in range(data.draw(st.integers(1, 16))):
        _go_on(data, run)
        kind = data.draw(st.sampled_from(KINDS))
        run.hear(data.draw(aimed(kind, run)))
    if data.draw(st.booleans()):
        run.hear(data.draw(aimed(data.draw(st.sampled_from(ENDINGS)), run)))
    run.rest()


@ROUNDS
@given(data=st.data())
def test_values_of_wrong_types_are_put_aside(data):
    """With a value of a wrong type in it, a step raises `InternalError` or nothing, and the run that was can go on."""
    run = Run(Setup(tools=TOOLS, config=config(host_hooks=data.draw(HOOKS))))
    run.hear(SessionBegan(at_ms=0))
    for _ in range(data.draw(st.integers(1, 16))):
        signal = data.draw(aimed(data.draw(st.sampled_from(KINDS)), run, wrong=True))
        was = portrait(run.state)
        try:
            machine.step(run.state, signal)
        except InternalError as error:
            aside = StepCrashed(
                at_ms=10 * len(run.script),
                signal_kind=type(signal).__name__,
                error=ErrorInfo(code="internal_error", message=str(error)),
            )
            run.hear(aside)
        else:
            assert portrait(run.state) == was
        _go_on(data, run)
    run.rest()
