"""The outbox of a session with a store: what its steps decided waits here until the records of those steps are durable. Plain.

Nothing is seen, and no work begins, of a step that a crash could take back. What stops work does not wait: it leaves at once,
also past a store that hangs, and takes along what it stops where that has not left. No Trio, no store and no clock enter.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

from attrs import define, frozen

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

_OF_ONE_ID: Final = frozenset(
    {
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


@define(eq=False)
class HeldEffect:
    """An effect that waits.

    Attributes:
        number: Of the record that it waits for.
        effect: What.
        after: What the session knew behind the step that decided it.
        effect_id: Under which it can be stopped; None for what cannot be.
        size_bytes: Of an event that is never replayed; 0 of all else.
    """

    number: int
    effect: Effect
    after: SessionState
    effect_id: EffectId | None = None
    size_bytes: int = 0


class Outbox:
    """The effects of one session that wait, in order.

    Attributes:
        thrown_away: How many ephemeral events were, because too many waited.
    """

    __slots__ = ("_by_id", "_count", "_ephemeral", "_ephemeral_bytes", "_steps", "_waiting", "thrown_away")

    def __init__(self) -> None:
        """Begin empty."""
        # In order, and each can be taken out of the middle; by a number of its own, so that one entry is found again.
        self._waiting: OrderedDict[int, HeldEffect] = OrderedDict()
        self._ephemeral: OrderedDict[int, None] = OrderedDict()
        self._ephemeral_bytes = 0
        self._by_id: dict[EffectId, list[int]] = {}
        self._steps: deque[tuple[int, SessionState]] = deque()
        self._count = 0
        self.thrown_away: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits: no effect, and no step whose record is not durable."""
        return not self._steps and not self._waiting

    @property
    def waiting(self) -> int:
        """How many effects wait."""
        return len(self._waiting)

    @property
    def ephemeral_bytes(self) -> int:
        """How much of what waits is never replayed, about."""
        return self._ephemeral_bytes

    def visible(self, now: SessionState) -> SessionState:
        """Give what the session knew when the last effect left: what may be shown of it.

        Args:
            now: What it knows.
        """
        return self._steps[0][1] if self._steps else now

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
        at_once: list[Effect] = []
        taken_out: list[Effect] = []
        if is_recorded:
            self._steps.append((number, before))
        for effect in effects:
            if type(effect) in _STOPS:
                taken_out += self._take_out(effect)
                at_once.append(effect)
            elif not is_recorded and self.is_empty:
                at_once.append(effect)  # of a step without a record, behind which nothing waits
            else:
                self._append(HeldEffect(number, effect, after, _begins(effect)))
        return Leaving(tuple(at_once), tuple(taken_out))

    def next_durable(self, durable: int) -> HeldEffect | None:
        """Take the next effect whose record is durable; None when there is none, and all up to that number have left.

        Args:
            durable: The number up to which they are.
        """
        if self._waiting:
            key, held = next(iter(self._waiting.items()))
            if held.number <= durable:
                return self._remove(key, held)
        while self._steps and self._steps[0][0] <= durable:
            self._steps.popleft()
        return None

    def callers(self) -> Iterator[ReplyToCaller | Refuse]:
        """Give the answers that wait."""
        effects = (waiting.effect for waiting in self._waiting.values())
        return (effect for effect in effects if isinstance(effect, ReplyToCaller | Refuse))

    def keep_what_is_told(self) -> None:
        """Take out all that would begin work: the session crashed, or has ended. What is published and answered stays."""
        for key, one in tuple(self._waiting.items()):
            if type(one.effect) not in _TOLD:
                self._remove(key, one)

    def clear(self) -> None:
        """Throw all away."""
        self._waiting.clear()
        self._ephemeral.clear()
        self._by_id.clear()
        self._steps.clear()
        self._ephemeral_bytes = 0

    def _append(self, waiting: HeldEffect) -> None:
        self._count += 1
        key = self._count
        effect = waiting.effect
        self._waiting[key] = waiting
        if waiting.effect_id is not None:
            self._by_id.setdefault(waiting.effect_id, []).append(key)
        elif type(effect) is Publish and effect.event.meta is not None and effect.event.meta.ephemeral:
            waiting.size_bytes = _size_of(effect.event)
            self._ephemeral[key] = None
            self._ephemeral_bytes += waiting.size_bytes
            while self._ephemeral_bytes > MAX_EPHEMERAL_BYTES:
                oldest = next(iter(self._ephemeral))
                self._remove(oldest, self._waiting[oldest])
                self.thrown_away += 1

    def _remove(self, key: int, waiting: HeldEffect) -> HeldEffect:
        del self._waiting[key]
        if waiting.effect_id is not None:
            keys = self._by_id[waiting.effect_id]
            keys.remove(key)
            if not keys:
                del self._by_id[waiting.effect_id]
        if waiting.size_bytes:
            del self._ephemeral[key]
            self._ephemeral_bytes -= waiting.size_bytes
        return waiting

    def _take_out(self, stop: Effect) -> Iterator[Effect]:
        for effect_id in _stopped_by(stop):
            for key in tuple(self._by_id.get(effect_id, ())):
                yield self._remove(key, self._waiting[key]).effect


def _begins(effect: Effect) -> EffectId | None:
    """Say under which id an effect can be stopped; None of one that cannot be."""
    kind = type(effect)
    if kind is Publish:  # most are
        return None
    if isinstance(effect, StartStream):
        return effect.request.attempt
    if kind not in _OF_ONE_ID:
        return None
    if isinstance(effect, SpawnChild) and effect.wish is not None:
        return effect.wish.effect_id  # the tool that wants it: it ends with that
    one: Any = effect
    effect_id: EffectId = one.effect_id
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
