"""One step from both sides, and the contents of its two states. Promises read it; no promise is defined here."""

from typing import Any

from attrs import frozen

from agentrail.core.protocol.effects import Effect, Publish, Refuse
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import Signal
from agentrail.core.session.owners import (
    OfChild,
    OfDrain,
    OfHeldHook,
    OfHostCheck,
    OfHostReport,
    OfLoan,
    OfPluginRequest,
    OfStallTimer,
    OfSummaryTimer,
    owned_by,
)
from agentrail.core.session.state import QueuedPrompt, SessionState
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
    """The effects that owe an outcome; not the timers that go with streams, nor what a tool or a ledger waits for."""
    unseen = (OfStallTimer, OfSummaryTimer, OfChild, OfLoan)
    return {effect_id for effect_id, owner in state.data.open.items() if not isinstance(owner, unseen)}


def plugin_requests_of(state: SessionState) -> list[EffectId]:
    """Give the ids of what is being done for plugins, in the order in which they asked."""
    asked = [effect_id for effect_id, _ in owned_by(state.data.open, OfPluginRequest)]
    held = [effect_id for effect_id, _ in owned_by(state.data.open, OfHeldHook)]
    return sorted((*asked, *held), key=lambda effect_id: int(effect_id[1:]))


def waits_for_host(state: SessionState) -> bool:
    """Say whether the host is asked about a call, or told of one."""
    return any(isinstance(owner, OfHostCheck | OfHostReport) for owner in state.data.open.values())


def teardowns_of(state: SessionState) -> list[EffectId]:
    """Give the teardowns that are open, that of an abort last."""
    teardown = state.data.teardown
    drains = [effect_id for effect_id, _ in owned_by(state.data.open, OfDrain)]
    return [*drains, *([teardown.effect_id] if teardown is not None else [])]


def waiting_prompts(state: SessionState) -> list[QueuedPrompt]:
    """The prompts that have not begun: the one that plugins are still asked about, and those behind it."""
    held = state.data.held
    return [*([held.prompt] if held is not None and held.prompt is not None else []), *state.data.queue]


def unstarted_calls(state: SessionState) -> set[CallId]:
    """The calls whose start is not out yet."""
    return {call.call.call_id for call in state.data.batch if not call.started}


def newly_said(seen: Seen) -> tuple[Message, ...]:
    """The messages that this step put at the end of the history, also where a summary took the place of its beginning."""
    was = len(seen.before.data.history)
    removed = sum(event.removed for event in seen.events if isinstance(event, CompactEnd))
    return seen.after.data.history.since(1 + was - removed if removed else was)
