"""One step, from both sides, and what its two states hold: what promises look at, and no promise."""

from collections.abc import Iterator
from typing import Any

from attrs import frozen

from agentrail.core.effects import Effect, Publish, Refuse
from agentrail.core.open_calls import CallState
from agentrail.core.request import EffectId
from agentrail.core.signals import Signal
from agentrail.core.state import QueuedPrompt, SessionState
from agentrail.events import CompactEnd, Event
from agentrail.messages import CallId, Message


@frozen
class Seen:
    """One step, from both sides."""

    before: SessionState
    signal: Signal
    after: SessionState
    effects: tuple[Effect, ...]

    @property
    def events(self) -> list[Event]:
        """What was published."""
        return [effect.event for effect in self.effects if isinstance(effect, Publish)]

    def of(self, kind: type[Any]) -> list[Any]:
        """The effects of one class, in order."""
        return [effect for effect in self.effects if isinstance(effect, kind)]


def comparable(effect: Effect) -> object:
    """An effect as something that equals another like it: exceptions do not, and envelopes are left out of events."""
    match effect:
        case Refuse(to=to, error=error):
            return ("Refuse", to, type(error), str(error))
        case Publish(event=event):
            return ("Publish", event, event.meta)
        case _:
            return effect


def open_effects(state: SessionState) -> set[EffectId]:
    """The effects that owe an outcome."""
    data = state.data
    ids = {call.effect_id for call in _running(state) if call.effect_id is not None}
    if data.stream is not None:
        ids.add(data.stream.effect_id)
    if data.teardown is not None:
        ids.add(data.teardown.effect_id)
    if data.compaction is not None:
        ids.add(data.compaction.effect_id)
    ids |= {interaction.timer for interaction in data.interactions if interaction.timer is not None}
    ids |= {errand.effect_id for errand in data.errands}
    if data.held is not None:
        ids.add(data.held.timer)
    return ids | set(data.drains)


def waiting_prompts(state: SessionState) -> list[QueuedPrompt]:
    """The prompts that have not begun: the one that plugins are still asked about, and those behind it."""
    held = state.data.held
    return [*([held.prompt] if held is not None and held.prompt is not None else []), *state.data.queue]


def _running(state: SessionState) -> Iterator[CallState]:
    """The calls that have an effect: one that runs, one that is being stopped, one that pauses."""
    return (call for call in (*state.data.batch, *state.data.survivors) if call.effect_id is not None)


def unstarted_calls(state: SessionState) -> set[CallId]:
    """The calls whose start is not out yet."""
    return {call.call.call_id for call in state.data.batch if not call.started}


def newly_said(seen: Seen) -> tuple[Message, ...]:
    """The messages that this step put at the end of the history, also where a summary took the place of its beginning."""
    was = len(seen.before.data.history)
    removed = sum(event.removed for event in seen.events if isinstance(event, CompactEnd))
    return seen.after.data.history.since(1 + was - removed if removed else was)
