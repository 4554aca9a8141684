"""Traces of sessions, for scorers and properties: the events of a session, and what they add up to. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import attrs
from attrs import field, frozen

from agentrail.core.journal.call_history import CallStory, tell_stories
from agentrail.core.values.toolbox import EffectClass
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentStart,
    Event,
    ResponseComplete,
    SessionParked,
)
from agentrail.messages import TokenUsage

TraceOutcome: TypeAlias = Literal["done", "aborted", "failed", "crashed", "open"]
"""How the last cycle ended. `open`: it has not."""

_NO_EFFECTS: Final[Mapping[str, EffectClass]] = MappingProxyType({})


@frozen(kw_only=True)
class Trace:
    """What a session did.

    Attributes:
        events: Its committed events, in order.
        effects: The effect class of each tool. Missing ones are `once`.
        text: The model's last answer.
        calls: Its tool calls in the order of the model.
        cycles: Number of cycles that ended.
        turns: Number of model calls.
        usage: Tokens and cost of its cycles.
        milliseconds: Time spent in cycles.
        outcome: How the last cycle ended.
        error: Why it ended otherwise than `done`, otherwise empty.
    """

    events: tuple[Event, ...] = field(default=(), repr=False)
    effects: Mapping[str, EffectClass] = _NO_EFFECTS
    text: str = ""
    calls: tuple[CallStory, ...] = ()
    cycles: int = 0
    turns: int = 0
    usage: TokenUsage = field(factory=TokenUsage)
    milliseconds: int = 0
    outcome: TraceOutcome = "open"
    error: str = ""


def trace_of(events: Iterable[Event], effects: Mapping[str, EffectClass] = _NO_EFFECTS) -> Trace:
    """Return the trace of a session from its committed events, live or read from its journal.

    Args:
        events: In order.
        effects: See `Trace`.
    """
    return next(traces_of([(events, effects)]))


def traces_of(steps: Iterable[tuple[Iterable[Event], Mapping[str, EffectClass]]]) -> Iterator[Trace]:
    """Yield the trace after each step of a session: what it published, and the effects of its tools."""
    trace, heard, calls = Trace(), list[Event](), dict[str, CallStory]()
    used, began_at_ms = TokenUsage(), 0  # of the running cycle
    for events, effects in steps:
        for event in events:
            heard.append(event)
            tell_stories(calls, event)
            at_ms = 0 if event.meta is None else event.meta.at_ms
            match event:
                case AgentStart():
                    used, began_at_ms = TokenUsage(), at_ms
                    trace = attrs.evolve(trace, outcome="open", error="")
                case ResponseComplete(message=message, usage=usage):
                    used += usage
                    trace = attrs.evolve(trace, text=message.text, turns=trace.turns + 1)
                case AgentEnd(usage=usage):
                    used = usage  # with that of sub-agents
                    trace = attrs.evolve(trace, outcome="done")
                case AgentAbort(reason=reason):
                    trace = attrs.evolve(trace, outcome="aborted", error=reason or "")
                case AgentError(error=fault):
                    trace = attrs.evolve(trace, outcome="failed", error=f"{fault.code}: {fault.message}")
                case SessionParked(reason=reason):
                    trace = attrs.evolve(trace, outcome="crashed", error=reason)
                case _:
                    pass
            if isinstance(event, AgentEnd | AgentAbort | AgentError):
                took, usage = trace.milliseconds + at_ms - began_at_ms, trace.usage + used
                trace = attrs.evolve(trace, cycles=trace.cycles + 1, milliseconds=took, usage=usage)
        yield attrs.evolve(trace, events=tuple(heard), effects=effects, calls=tuple(calls.values()))
