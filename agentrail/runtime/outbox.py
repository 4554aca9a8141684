"""The outbox of a session with a store: what its steps decided waits here until the records of those steps are durable. Plain.

Nothing is seen, and no work begins, of a step that a crash could take back. What stops work does not wait: it leaves at once,
also past a store that hangs, and takes along what it stops where that has not left. No Trio, no store and no clock enter.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

from attrs import frozen

from agentrail.core.protocol.effects import (
    AskHost,
    CancelPluginRequest,
    CancelStream,
    ClearTimer,
    CloseAgent,
    Effect,
    GatherContext,
    KillTools,
    PromptAgent,
    Publish,
    Refuse,
    ReplyToCaller,
    ResumeChild,
    RunPluginRequest,
    RunTool,
    SetTimer,
    SpawnChild,
    StartAgent,
    StartStream,
    Teardown,
    TellHost,
    stall_timer_of,
)
from agentrail.core.protocol.request import EffectId
from agentrail.core.session.state import SessionState
from agentrail.events import Event

MAX_EPHEMERAL_BYTES: Final = 1 << 20
"""How much of events that are never replayed waits; of more the oldest are thrown away."""

_BYTES_OF_AN_EVENT: Final = 200
"""What an event weighs beside its texts, about."""

_STOPS: Final = frozenset({CancelStream, KillTools, CancelPluginRequest, ClearTimer, CloseAgent, Teardown})
"""What leaves at once. A `Teardown` too: it waits for what was stopped, and begins by looking what of that is still there."""

_TOLD: Final = frozenset({Publish, ReplyToCaller, Refuse})
"""What is left of an outbox whose session crashed or has ended: all else would begin work."""

_BEGINS: Final = frozenset(
    {
        StartStream,
        RunTool,
        SpawnChild,
        ResumeChild,
        AskHost,
        TellHost,
        StartAgent,
        PromptAgent,
        SetTimer,
        RunPluginRequest,
        GatherContext,
    }
)


@frozen
class Leaving:
    """What a step lets leave before its record is durable.

    Attributes:
        at_once: Effects that are carried out now, in order.
        taken_out: Effects of earlier steps that never will be, because they were stopped while they waited. Where they owe an
            outcome, it is still owed.
    """

    at_once: tuple[Effect, ...] = ()
    taken_out: tuple[Effect, ...] = ()


_NOTHING_LEAVES: Final = Leaving()


class HeldStep:
    """A step whose effects wait.

    Attributes:
        number: Of the record that they wait for.
        before: What the session knew in front of it.
        after: And behind it.
        effects: In order; None in the place of one that was taken out.
        left: How many of them have left.
        begun: Under which some of them can be found.
    """

    __slots__ = ("after", "before", "begun", "effects", "left", "number")

    def __init__(self, number: int, before: SessionState, after: SessionState) -> None:
        self.number: int = number
        self.before: SessionState = before
        self.after: SessionState = after
        self.effects: list[Effect | None] = []
        self.left: int = 0
        self.begun: list[EffectId] = []


class Outbox:
    """The effects of one session that wait, in order.

    Attributes:
        ephemeral_bytes: How much of what waits is never replayed, about; a step that has left in part counts as a whole.
        thrown_away: How many ephemeral events were, because too many waited.
    """

    __slots__ = ("_by_id", "_ephemeral", "_steps", "ephemeral_bytes", "thrown_away")

    def __init__(self) -> None:
        """Begin empty."""
        # By step: nearly all effects of one wait and leave together, and an entry for each would be paid for in each cycle.
        self._steps: deque[HeldStep] = deque()
        # The few that are looked for one by one: the step, and the place in it.
        self._by_id: dict[EffectId, list[tuple[HeldStep, int]]] = {}
        self._ephemeral: deque[tuple[HeldStep, int, int]] = deque()
        self.ephemeral_bytes: int = 0
        self.thrown_away: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits: no effect, and no step whose record is not durable."""
        return not self._steps

    @property
    def waiting(self) -> int:
        """How many effects wait."""
        return sum(1 for _ in self._waiting())

    def _waiting(self) -> Iterator[Effect]:
        for step in self._steps:
            for effect in step.effects[step.left :]:
                if effect is not None:
                    yield effect

    def visible(self, now: SessionState) -> SessionState:
        """Give what the session knew when the last effect left: what may be shown of it.

        Args:
            now: What it knows.
        """
        return self._steps[0].before if self._steps else now

    def put(
        self,
        number: int,
        effects: Sequence[Effect],
        before: SessionState,
        after: SessionState,
        *,
        is_recorded: bool,
    ) -> Leaving:
        """Let the effects of a step wait behind all that waits; and give what does not.

        Args:
            number: Of the last record of the session, with those of this step.
            effects: What it decided.
            before: What the session knew before it.
            after: And behind it.
            is_recorded: Whether the step has a record of its own.
        """
        if not is_recorded and not self._steps:
            return Leaving(at_once=tuple(effects))  # of a step without a record, behind which nothing waits
        step = HeldStep(number, before, after)
        held = step.effects
        at_once: list[Effect] = []
        taken_out: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Publish):  # most are
                meta = effect.event.meta
                if meta is not None and meta.ephemeral:
                    self._note_ephemeral(step, effect)
            elif type(effect) in _STOPS:
                taken_out += self._take_out(effect)
                at_once.append(effect)
                continue
            elif type(effect) in _BEGINS:
                self._note_begun(step, _begins(effect))
            held.append(effect)
        if held or is_recorded:
            self._steps.append(step)
        self._throw_away()
        return Leaving(tuple(at_once), tuple(taken_out)) if at_once else _NOTHING_LEAVES

    def leaving(self, durable: int) -> Iterator[tuple[Effect, SessionState]]:
        """Give the effects whose records are durable, in order, each with what the session knew behind its step.

        Each counts as left before it is given, whatever becomes of it. Who stops in between goes on where it was.

        Args:
            durable: The number up to which they are.
        """
        steps = self._steps
        while steps and steps[0].number <= durable:
            step = steps[0]
            effects, after = step.effects, step.after
            for place in range(step.left, len(effects)):
                step.left = place + 1
                effect = effects[place]
                if effect is not None:
                    yield effect, after
            if steps and steps[0] is step:  # else all was thrown away on the way
                steps.popleft()
                self._forget(step)

    def callers(self) -> Iterator[ReplyToCaller | Refuse]:
        """Give the answers that wait."""
        return (effect for effect in self._waiting() if isinstance(effect, ReplyToCaller | Refuse))

    def keep_what_is_told(self) -> None:
        """Take out all that would begin work: the session crashed, or has ended. What is published and answered stays."""
        for step in self._steps:
            step.effects[:] = [effect if type(effect) in _TOLD else None for effect in step.effects]
        self._by_id.clear()

    def clear(self) -> None:
        """Throw all away."""
        for step in self._steps:  # one of them may be leaving
            step.effects[:] = [None] * len(step.effects)
        self._steps.clear()
        self._by_id.clear()
        self._ephemeral.clear()
        self.ephemeral_bytes = 0

    # --- what is looked for

    def _note_begun(self, step: HeldStep, effect_id: EffectId) -> None:
        step.begun.append(effect_id)
        self._by_id.setdefault(effect_id, []).append((step, len(step.effects)))

    def _take_out(self, stop: Effect) -> Iterator[Effect]:
        for effect_id in _stopped_by(stop):
            for step, place in self._by_id.pop(effect_id, ()):
                effect = step.effects[place]
                if place >= step.left and effect is not None:
                    step.effects[place] = None
                    yield effect

    def _note_ephemeral(self, step: HeldStep, effect: Publish) -> None:
        size = _size_of(effect.event)
        self._ephemeral.append((step, len(step.effects), size))
        self.ephemeral_bytes += size

    def _throw_away(self) -> None:
        while self.ephemeral_bytes > MAX_EPHEMERAL_BYTES:
            step, place, size = self._ephemeral.popleft()
            self.ephemeral_bytes -= size
            if place >= step.left:
                step.effects[place] = None
                self.thrown_away += 1

    def _forget(self, step: HeldStep) -> None:
        """Forget where effects of a step were that has left."""
        for effect_id in step.begun:
            places = self._by_id.get(effect_id)
            if places is not None and places[0][0] is step:  # steps are forgotten in their order
                del places[0]
                if not places:
                    del self._by_id[effect_id]
        while self._ephemeral and self._ephemeral[0][0] is step:
            self.ephemeral_bytes -= self._ephemeral.popleft()[2]


def _begins(effect: Any) -> EffectId:
    """Say under which id an effect can be stopped that begins something."""
    effect_id: EffectId = effect.effect_id if type(effect) is not StartStream else effect.request.attempt
    if type(effect) is SpawnChild and effect.wish is not None:
        return effect.wish.effect_id  # the tool that wants it: it ends with that
    return effect_id


def _stopped_by(stop: Effect) -> tuple[EffectId, ...]:
    match stop:
        case CancelStream(effect_id=effect_id):
            return (effect_id, stall_timer_of(effect_id))
        case KillTools(effect_ids=effect_ids):
            return effect_ids
        case CancelPluginRequest(effect_id=effect_id) | ClearTimer(effect_id=effect_id):
            return (effect_id,)
        case CloseAgent(effect_id=effect_id):
            return (effect_id,)
        case _:
            return ()


def _size_of(event: Event) -> int:
    texts = (getattr(event, name) for name in event.__struct_fields__)
    return _BYTES_OF_AN_EVENT + sum(len(text) for text in texts if isinstance(text, str))
