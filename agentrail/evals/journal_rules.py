"""Rules for recorded sessions: a function of a trace, and the promises of the core. A break becomes a test."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

from attrs import frozen

from agentrail.core.journal.fold import Sources
from agentrail.core.journal.record import Record
from agentrail.core.session.machine import new_session, step
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.evals.trace import Trace, trace_of, traces_of
from agentrail.otp.crash_text import describe_bug
from agentrail.runtime.session_loader import found_at
from agentrail.testing.plugins import PluginShelf
from agentrail.testing.promises import PROMISES, Seen
from agentrail.testing.rule_failures import require_assertions
from agentrail.testing.scenario import read_scenario
from agentrail.testing.scenario_export import scenario_of_journal

TraceRule: TypeAlias = Callable[[Trace], object]
"""Raises `AssertionError` or returns False for a trace that breaks it."""

_HOLDS: Final = "# holds "


@frozen(kw_only=True)
class BrokenRule:
    """The first break of a rule. The first `steps` steps are the shortest prefix that has it."""

    rule: str
    why: str
    steps: int


def broken_rule(steps: Sequence[Seen], holds: TraceRule | None = None) -> BrokenRule | None:
    """Check every step against the promises of the core, and the whole trace against a rule."""
    require_assertions()
    for number, seen in enumerate(steps, 1):
        for promise in PROMISES:
            why = _fault_of(promise, seen)
            if why is not None:
                return BrokenRule(rule=promise.__name__, why=why, steps=number)
    told = [(seen.events, {one.name: one.effect_class for one in seen.after.data.tools}) for seen in steps]
    whole = trace_of(chain.from_iterable(events for events, _ in told), told[-1][1] if told else {})
    if holds is not None and _fault_of(holds, whole) is not None:
        for number, trace in enumerate(traces_of(told), 1):
            why = _fault_of(holds, trace)
            if why is not None:
                return BrokenRule(rule="the rule", why=why, steps=number)
    return None


def _fault_of(rule: Callable[[Any], object], value: Any) -> str | None:
    try:
        return "it returned False" if rule(value) is False else None
    except AssertionError as error:
        return str(error) or describe_bug(error)


def scenario_of_break(records: Sequence[Record], sources: Sources, *, broken: BrokenRule, holds: str) -> str:
    """Return the records as a test for `check_scenario`: without its output, which the mended code changes.

    Raises:
        OptionError: Same as `scenario_of_journal`.
    """
    text = scenario_of_journal(records, sources, remark=f"breaks {broken.rule}: {broken.why!r:.200}")
    inputs = [line for line in text.splitlines() if not line.startswith(" ")]
    return "\n".join([inputs[0], f"{_HOLDS}{holds}", *inputs[1:]]) + "\n"


def check_scenario(text: str) -> None:
    """Play a scenario that `agentrail evals journals --holds` printed, and check its rule and all promises.

    Raises:
        AssertionError: A rule is broken. The message names it.
    """
    named = next((line.removeprefix(_HOLDS) for line in text.splitlines() if line.startswith(_HOLDS)), "")
    scenario = read_scenario(text)
    state = new_session(
        scenario.config,
        scenario.tools,
        *load_stack(scenario.plugins, ask=PluginShelf()),
        messages=scenario.messages,
    )
    steps: list[Seen] = []
    for one in scenario.inputs:
        before, (state, effects) = state, step(state, one.signal)
        steps.append(Seen(before, one.signal, state, effects))
    broken = broken_rule(steps, found_at(named) if named else None)
    if broken is not None:
        message = f"step {broken.steps} breaks {broken.rule}: {broken.why}"
        raise AssertionError(message)
