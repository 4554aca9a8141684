"""One step in progress: a draft of the session's data, and the effects so far, in order.

A `StepContext` lives only within one step, so it may be mutable: from outside, a step is a function.
"""

import hashlib
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final, assert_never, final

from msgspec.structs import astuple, replace

from agentrail.core.protocol.effects import (
    Awaited,
    Cancel,
    CancelPluginRequest,
    Effect,
    GatherContext,
    Plain,
    Publish,
    Refuse,
    ReplyToCaller,
    RunPluginRequest,
    StartStream,
    stall_timer_of,
)
from agentrail.core.protocol.hooks import Hook
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import ContextGathered, Prompt, SignalId, Steer
from agentrail.core.protocol.tool_changes import Change, RequestCompaction, UpdateContext, UpdateTodos
from agentrail.core.session.effect_owners import (
    NOTHING_OPEN,
    OfContext,
    OfLoan,
    OfStallTimer,
    OfStream,
    OfSummary,
    OfSummaryTimer,
    Owner,
)
from agentrail.core.session.recorded_calls import RecordedCalls
from agentrail.core.session.state import (
    Cycle,
    GatheredContext,
    Known,
    QueuedPrompt,
    QueuedSteer,
    SessionData,
    StepDraft,
    Stream,
)
from agentrail.errors import AgentrailError
from agentrail.events import (
    EPHEMERAL,
    Envelope,
    Event,
    PromptQueued,
    PromptReceived,
    SubagentEvent,
    TodoChange,
)
from agentrail.messages import PromptRef, Text


def is_ephemeral(event: Event) -> bool:
    """Return whether an event is never replayed. An event of a child counts as it does in the child."""
    return type(event) in EPHEMERAL or (isinstance(event, SubagentEvent) and is_ephemeral(event.event))


_HAVE_TIMERS: Final = frozenset({OfStream, OfSummary})


@final
class StepContext:
    """The step in progress.

    Attributes:
        data: The draft of the session's data. Write its fields. Keep the values in it, never the draft itself.
        recorded: The recorded calls, in a fold that restores a session. None in every other step.
    """

    __slots__ = ("_open", "at_ms", "data", "effects", "recorded", "suspended")
    __deletable__: Final = ("_open", "data")  # by `close`. A compiled class needs this declaration

    def __init__(
        self,
        data: SessionData,
        at_ms: int,
        *,
        suspended: bool = False,
        recorded: RecordedCalls | None = None,
    ) -> None:
        """Start with the data that the signal met, and whether it met a suspended cycle."""
        self.recorded: RecordedCalls | None = recorded
        self.data: StepDraft = StepDraft(*astuple(data))
        self.at_ms: int = at_ms
        self.effects: list[Effect] = []
        self.suspended: bool = suspended
        self._open: dict[EffectId, Owner] | None = None  # the draft's dict, once this step may write to it

    def close(self) -> SessionData:
        """Return the session's data at the end of the step. The draft is deleted, and using it afterwards fails."""
        if self._open is not None:
            self.data.open = MappingProxyType(self._open) if self._open else NOTHING_OPEN
            del self._open
        data = SessionData(*astuple(self.data))
        del self.data
        return data

    def ask(self, effect: Plain) -> None:
        self.effects.append(effect)

    def start(self, effect: Awaited, owner: Owner) -> None:
        self.effects.append(effect)
        opened = self._open if self._open is not None else self._thaw()
        opened[effect.effect_id] = owner

    def start_stream(
        self, effect: StartStream, owner: OfStream | OfSummary, timer: OfStallTimer | OfSummaryTimer
    ) -> None:
        """Add a request to a model, and record the owners of its end and of its timer."""
        self.effects.append(effect)
        attempt = effect.request.attempt
        opened = self._open if self._open is not None else self._thaw()
        opened[attempt] = owner
        opened[stall_timer_of(attempt)] = timer

    def cancel(self, effect: Cancel) -> None:
        self.effects.append(effect)
        self.ended(effect.effect_id)

    def hand_over(self, effect_id: EffectId, owner: Owner) -> None:
        opened = self._open if self._open is not None else self._thaw()
        opened[effect_id] = owner

    def ended(self, effect_id: EffectId) -> Owner | None:
        """Remove an effect that has ended, and for a stream also its timer. Return its owner."""
        opened = self._open if self._open is not None else self._thaw()
        owner = opened.pop(effect_id, None)
        if type(owner) in _HAVE_TIMERS:
            opened.pop(stall_timer_of(effect_id), None)
        return owner

    def give_up(self, effect_id: EffectId) -> None:
        """Stop waiting for an effect that is still running. The usage of its child is counted anyway."""
        if effect_id in self.data.loans:
            self.hand_over(effect_id, OfLoan())
        else:
            self.ended(effect_id)

    def give_up_all(self) -> None:
        """Stop waiting for everything: the tasks are lost. Requests that plugins made in this step never start."""
        self._thaw().clear()
        kept: list[Effect] = []
        dropped: set[EffectId] = set()
        for effect in self.effects:
            if type(effect) is RunPluginRequest:
                dropped.add(effect.effect_id)
            elif type(effect) is not CancelPluginRequest or effect.effect_id not in dropped:
                kept.append(effect)
        self.effects[:] = kept

    def _thaw(self) -> dict[EffectId, Owner]:
        """Copy the owners, which the session shares with its earlier states, so that this step may write to them."""
        opened = self._open = self.data.open = self.data.open.copy()
        return opened

    def publish(self, event: Event) -> None:
        data = self.data
        kind = type(event)
        ephemeral = kind in EPHEMERAL or (kind is SubagentEvent and is_ephemeral(event))
        if not ephemeral:
            data.seq += 1
        config = data.config
        meta = Envelope(config.session_id, data.seq, self.at_ms, config.path, ephemeral)
        self.effects.append(Publish(replace(event, meta=meta)))

    def reply(self, to: SignalId, value: object) -> None:
        self.effects.append(ReplyToCaller(to, value))

    def refuse(self, to: SignalId | None, error: AgentrailError) -> None:
        if to is not None:
            # Its frames hold this step, and the collector does not look into effects: nothing would free them.
            self.effects.append(Refuse(to, error.with_traceback(None)))

    def mint(self, prefix: str) -> EffectId:
        """Return the next effect id. Counted, not drawn, so that a replay makes the same."""
        minted = self.data.minted + 1
        self.data.minted = minted
        return EffectId(f"{prefix}{minted}")

    def unmint(self) -> None:
        """Release the last id, which was not used after all."""
        self.data.minted -= 1

    @property
    def cycle(self) -> Cycle:
        assert self.data.cycle is not None  # noqa: S101 - an invariant of SessionData, checked by the property tests
        return self.data.cycle

    @property
    def stream(self) -> Stream:
        assert self.data.stream is not None  # noqa: S101 - an invariant of SessionData, checked by the property tests
        return self.data.stream


# The prompt queue and its events. A prompt keeps everything that it came with.  Other modules decide which
# prompts wait and when one starts.


def waiting_prompt(signal: Prompt, askers: tuple[SignalId, ...]) -> QueuedPrompt:
    return QueuedPrompt(
        ref=signal.ref,
        content=signal.content,
        askers=askers,
        via=signal.via,
        request_id=signal.request_id,
        settings=signal.settings,
        trace=signal.trace,
    )


def prompt_of_steer(steer: Steer | QueuedSteer) -> QueuedPrompt:
    """Return a steer that reached no cycle as a prompt of the same name."""
    return QueuedPrompt(
        ref=PromptRef(steer.ref),
        content=(Text(text=steer.text),),
        via=steer.via,
        request_id=steer.request_id,
    )


def say_received(step: StepContext, prompt: QueuedPrompt) -> None:
    """Publish that a prompt was accepted and starts at once."""
    step.publish(
        PromptReceived(
            ref=prompt.ref,
            content=prompt.content,
            via=prompt.via,
            request_id=prompt.request_id,
            trace=prompt.trace,
        )
    )


def say_queued(step: StepContext, prompt: QueuedPrompt, position: int) -> None:
    step.publish(
        PromptQueued(
            ref=prompt.ref,
            content=prompt.content,
            position=position,
            via=prompt.via,
            request_id=prompt.request_id,
            trace=prompt.trace,
        )
    )


# Gathered context: messages that other parts add to the requests of one turn.  The shell keeps the messages
# under the id of the gathering and adds them to each request of the turn. Only their number, length and
# digest are stored here. While they are gathered the session is `RUNNING` without a request. A session that
# gathers nothing reads one flag per request.


def begin_gathering(step: StepContext) -> bool:
    """Start gathering context for the requests of this turn, unless it is known already, or the session gathers none."""
    if not step.data.config.gathers_context:
        return False
    cycle = step.cycle
    if cycle.context is not None:
        return False
    effect_id = step.mint("g")
    step.data.stream = None
    step.data.cycle = replace(cycle, context=GatheredContext(effect_id=effect_id))
    messages = step.data.history.messages if cycle.handed is None else cycle.handed
    step.start(GatherContext(effect_id=effect_id, messages=messages), OfContext())
    return True


def take_context(step: StepContext, signal: ContextGathered) -> GatheredContext:
    context = GatheredContext(
        effect_id=signal.effect_id,
        is_open=False,
        count=signal.count,
        digest=signal.digest,
        tokens=signal.tokens,
    )
    step.data.cycle = replace(step.cycle, context=context)
    return context


def is_gathering(data: Known) -> bool:
    return data.cycle is not None and data.cycle.context is not None and data.cycle.context.is_open


def cancel_gathering(step: StepContext) -> tuple[EffectId, ...]:
    context = step.cycle.context
    assert context is not None  # noqa: S101 - the caller checked it
    step.cancel(CancelPluginRequest(effect_id=context.effect_id))
    return (context.effect_id,)


def forget_context(step: StepContext) -> bool:
    """Discard the context, whose shell was lost. Return whether a request waited for it."""
    cycle = step.data.cycle
    if cycle is None or cycle.context is None:
        return False
    step.ended(cycle.context.effect_id)
    step.data.cycle = replace(cycle, context=None)
    return cycle.context.is_open


def context_tokens(data: Known) -> int:
    cycle = data.cycle
    return 0 if cycle is None or cycle.context is None else cycle.context.tokens


def digest_with(noted: str, context: GatheredContext | None) -> str:
    """Return the digest of all additions to one request: the session's own notes, and the gathered context."""
    if context is None or not context.digest:
        return noted
    return context.digest if not noted else hashlib.sha256(f"{context.digest}{noted}".encode()).hexdigest()


# Changes that a tool makes in its session, applied in the step that records its result.


def apply_changes(step: StepContext, changes: Iterable[Change]) -> None:
    """Apply changes in order. Of two changes of the same thing, the last one wins."""
    for change in changes:
        match change:
            case UpdateTodos(todos=todos):
                step.data.todos = todos
                step.publish(TodoChange(todos=todos))
            case UpdateContext():
                _update_context(step, change)
            case RequestCompaction(reason=reason):
                step.data.compact_asked = reason or "asked for by a tool"
            case _ as never:
                assert_never(never)


def _update_context(step: StepContext, change: UpdateContext) -> None:
    if change.key == "memory":
        step.data.memory = change.value
        return
    sections = {key: text for key, text in step.data.sections.items() if key != change.key}
    if isinstance(change.value, str):
        sections[change.key] = change.value
    step.data.sections = MappingProxyType(sections)


def has_listeners(step: StepContext, hook: Hook) -> bool:
    stack = step.data.stack
    return bool(stack.listeners(hook)) if stack.by_hook else False
