"""One step from both sides, and the contents of its two states. Promises read it. No promise is defined here."""

from typing import Any

from attrs import frozen

from agentrail.core.protocol.effects import Effect, Publish, Refuse
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import Signal
from agentrail.core.session.effect_owners import (
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
    before: SessionState
    signal: Signal
    after: SessionState
    effects: tuple[Effect, ...]

    @property
    def events(self) -> list[Event]:
        return [effect.event for effect in self.effects if isinstance(effect, Publish)]

    def of(self, kind: type[Any]) -> list[Any]:
        """The effects of one class, in order."""
        return [effect for effect in self.effects if isinstance(effect, kind)]


def comparable(effect: Effect) -> object:
    """Return an effect in comparable form: exceptions are not comparable, and envelopes are removed from events."""
    match effect:
        case Refuse(to=to, error=error):
            return ("Refuse", to, type(error), str(error))
        case Publish(event=event):
            return ("Publish", event, event.meta)
        case _:
            return effect


def open_effects(state: SessionState) -> set[EffectId]:
    """The effects that owe an outcome, without the timers of streams and the waits of tools or ledgers."""
    unseen = (OfStallTimer, OfSummaryTimer, OfChild, OfLoan)
    return {effect_id for effect_id, owner in state.data.open.items() if not isinstance(owner, unseen)}


def plugin_requests_of(state: SessionState) -> list[EffectId]:
    """Return the ids of running plugin requests, in order."""
    asked = [effect_id for effect_id, _ in owned_by(state.data.open, OfPluginRequest)]
    held = [effect_id for effect_id, _ in owned_by(state.data.open, OfHeldHook)]
    return sorted((*asked, *held), key=lambda effect_id: int(effect_id[1:]))


def waits_for_host(state: SessionState) -> bool:
    """Return whether the host is judging a call, or is being notified of one."""
    return any(isinstance(owner, OfHostCheck | OfHostReport) for owner in state.data.open.values())


def teardowns_of(state: SessionState) -> list[EffectId]:
    """Return the open teardowns, that of an abort last."""
    teardown = state.data.teardown
    drains = [effect_id for effect_id, _ in owned_by(state.data.open, OfDrain)]
    return [*drains, *([teardown.effect_id] if teardown is not None else [])]


def waiting_prompts(state: SessionState) -> list[QueuedPrompt]:
    """The prompts that have not started: the one being judged by plugins, and those after it."""
    held = state.data.held
    return [*([held.prompt] if held is not None and held.prompt is not None else []), *state.data.queue]


def unstarted_calls(state: SessionState) -> set[CallId]:
    """The calls whose start has not been published yet."""
    return {call.call.call_id for call in state.data.batch if not call.started}


def newly_said(seen: Seen) -> tuple[Message, ...]:
    """The messages appended to the history by this step, also if a summary replaced its beginning."""
    was = len(seen.before.data.history)
    removed = sum(event.removed for event in seen.events if isinstance(event, CompactEnd))
    return seen.after.data.history.since(1 + was - removed if removed else was)
