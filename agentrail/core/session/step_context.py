"""One step being worked out: a draft of what the session knows by now, and the effects so far, in order.

A `StepContext` lives inside one step and nowhere else, which is why it may be mutable: from outside, a step is a function.
What the rules of a session are stands in its siblings (`cycle`, `batch`, `teardown`); here is only how they write down
what they decide.
"""

import hashlib
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final, assert_never, final

from msgspec.structs import astuple, replace

from agentrail.core.protocol.changes import Change, RequestCompaction, UpdateContext, UpdateTodos
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
from agentrail.core.session.owners import (
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
    """Say whether an event is never replayed; what a child published is what it was there."""
    return type(event) in EPHEMERAL or (isinstance(event, SubagentEvent) and is_ephemeral(event.event))


_HAVE_TIMERS: Final = frozenset({OfStream, OfSummary})


@final
class StepContext:
    """The step in progress.

    Attributes:
        data: What the session knows by now. Write its fields; keep the values in it, never the draft itself.
        at_ms: The time of the step, which is that of the signal.
        suspended: Whether `AgentSuspended` is out for the cycle, and no `AgentResumed` behind it.
        recorded: What records say about calls, in a fold that brings a session back; None in every other step.
    """

    __slots__ = ("_open", "at_ms", "data", "effects", "recorded", "suspended")
    __deletable__: Final = ("_open", "data")  # by `close`; a compiled class has to be told

    def __init__(
        self,
        data: SessionData,
        at_ms: int,
        *,
        suspended: bool = False,
        recorded: RecordedCalls | None = None,
    ) -> None:
        """Begin with the data that the signal met, and whether it met a suspended cycle."""
        self.recorded: RecordedCalls | None = recorded
        self.data: StepDraft = StepDraft(*astuple(data))
        self.at_ms: int = at_ms
        self.effects: list[Effect] = []
        self.suspended: bool = suspended
        self._open: dict[EffectId, Owner] | None = None  # that of the draft, once this step may write to it

    def close(self) -> SessionData:
        """Give what the session knows at the end of the step. The draft is gone then: to use it after that fails."""
        if self._open is not None:
            self.data.open = MappingProxyType(self._open) if self._open else NOTHING_OPEN
            del self._open
        data = SessionData(*astuple(self.data))
        del self.data
        return data

    def ask(self, effect: Plain) -> None:
        """Add an effect that owes nothing."""
        self.effects.append(effect)

    def start(self, effect: Awaited, owner: Owner) -> None:
        """Add an effect that owes an outcome, and note who waits for it."""
        self.effects.append(effect)
        opened = self._open if self._open is not None else self._thaw()
        opened[effect.effect_id] = owner

    def start_stream(
        self, effect: StartStream, owner: OfStream | OfSummary, timer: OfStallTimer | OfSummaryTimer
    ) -> None:
        """Add a request to a model, and note who waits for its end and for the timer that goes with it."""
        self.effects.append(effect)
        attempt = effect.request.attempt
        opened = self._open if self._open is not None else self._thaw()
        opened[attempt] = owner
        opened[stall_timer_of(attempt)] = timer

    def cancel(self, effect: Cancel) -> None:
        """Add an effect that stops another one, which is not waited for any more."""
        self.effects.append(effect)
        self.ended(effect.effect_id)

    def hand_over(self, effect_id: EffectId, owner: Owner) -> None:
        """Let another one wait for an open effect from now on."""
        opened = self._open if self._open is not None else self._thaw()
        opened[effect_id] = owner

    def ended(self, effect_id: EffectId) -> Owner | None:
        """Take note that an effect has ended, and of a stream its timer with it; gives who waited for it."""
        opened = self._open if self._open is not None else self._thaw()
        owner = opened.pop(effect_id, None)
        if type(owner) in _HAVE_TIMERS:
            opened.pop(stall_timer_of(effect_id), None)
        return owner

    def give_up(self, effect_id: EffectId) -> None:
        """Let an effect that goes on be waited for no more; what a child of it has used is counted all the same."""
        if effect_id in self.data.loans:
            self.hand_over(effect_id, OfLoan())
        else:
            self.ended(effect_id)

    def give_up_all(self) -> None:
        """Wait for nothing any more: the tasks that worked on it are gone, and what plugins asked for in this step never begins."""
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
        """Give a new event its number and its place, and add it."""
        data = self.data
        kind = type(event)
        ephemeral = kind in EPHEMERAL or (kind is SubagentEvent and is_ephemeral(event))
        if not ephemeral:
            data.seq += 1
        config = data.config
        meta = Envelope(config.session_id, data.seq, self.at_ms, config.path, ephemeral)
        self.effects.append(Publish(replace(event, meta=meta)))

    def reply(self, to: SignalId, value: object) -> None:
        """Answer a caller."""
        self.effects.append(ReplyToCaller(to, value))

    def refuse(self, to: SignalId | None, error: AgentrailError) -> None:
        """Answer a caller with an error, if there is one."""
        if to is not None:
            self.effects.append(Refuse(to, error))

    def mint(self, prefix: str) -> EffectId:
        """Make the next effect id. Counted, not drawn, so that a replay makes the same."""
        minted = self.data.minted + 1
        self.data.minted = minted
        return EffectId(f"{prefix}{minted}")

    def unmint(self) -> None:
        """Take the last id back, under which nothing was asked for after all."""
        self.data.minted -= 1

    @property
    def cycle(self) -> Cycle:
        """The cycle, in the phases that have one."""
        assert self.data.cycle is not None  # noqa: S101 - an invariant of SessionData, held by the properties
        return self.data.cycle

    @property
    def stream(self) -> Stream:
        """The stream, in the phases that have one."""
        assert self.data.stream is not None  # noqa: S101 - an invariant of SessionData, held by the properties
        return self.data.stream


# The prompt queue and its events. A prompt keeps everything that it came with.
#
# Which prompts wait and when one starts is decided elsewhere.


def waiting_prompt(signal: Prompt, askers: tuple[SignalId, ...]) -> QueuedPrompt:
    """Make of a prompt what waits."""
    return QueuedPrompt(
        ref=signal.ref,
        content=signal.content,
        askers=askers,
        via=signal.via,
        request_id=signal.request_id,
        settings=signal.settings,
    )


def prompt_of_steer(steer: Steer | QueuedSteer) -> QueuedPrompt:
    """Make of a steer, which no cycle hears, a prompt of the same name."""
    return QueuedPrompt(
        ref=PromptRef(steer.ref),
        content=(Text(text=steer.text),),
        via=steer.via,
        request_id=steer.request_id,
    )


def say_received(step: StepContext, prompt: QueuedPrompt) -> None:
    """Publish that a prompt was accepted, and starts at once."""
    step.publish(
        PromptReceived(ref=prompt.ref, content=prompt.content, via=prompt.via, request_id=prompt.request_id)
    )


def say_queued(step: StepContext, prompt: QueuedPrompt, position: int) -> None:
    """Publish that a prompt waits, and at which place."""
    step.publish(
        PromptQueued(
            ref=prompt.ref,
            content=prompt.content,
            position=position,
            via=prompt.via,
            request_id=prompt.request_id,
        )
    )


# Gathered context: messages that others add to the requests of one turn.
#
# The shell keeps the messages under the id of the gathering and adds them to each request of the turn; only their number, length and digest are
# here. While they are gathered the session is `RUNNING` without a request. A session that gathers nothing reads one flag per request.


def begin_gathering(step: StepContext) -> bool:
    """Ask for what is added to the requests of this turn, unless that is known already, or there is no such thing."""
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
    """Note what was gathered, for all attempts at this turn."""
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
    """Say whether a request waits for what is added to it."""
    return data.cycle is not None and data.cycle.context is not None and data.cycle.context.is_open


def cancel_gathering(step: StepContext) -> tuple[EffectId, ...]:
    """Give up what is being gathered; gives what has to be waited for."""
    context = step.cycle.context
    assert context is not None  # noqa: S101 - the caller looked
    step.cancel(CancelPluginRequest(effect_id=context.effect_id))
    return (context.effect_id,)


def forget_context(step: StepContext) -> bool:
    """Forget what was gathered, or is being gathered: the shell that kept it is gone. Say whether a request waited for it."""
    cycle = step.data.cycle
    if cycle is None or cycle.context is None:
        return False
    step.ended(cycle.context.effect_id)
    step.data.cycle = replace(cycle, context=None)
    return cycle.context.is_open


def context_tokens(data: Known) -> int:
    """Estimate what is added to the requests of this turn."""
    cycle = data.cycle
    return 0 if cycle is None or cycle.context is None else cycle.context.tokens


def digest_with(noted: str, context: GatheredContext | None) -> str:
    """Name all that was added to one request: what the session itself said there, and what was gathered."""
    if context is None or not context.digest:
        return noted
    return context.digest if not noted else hashlib.sha256(f"{context.digest}{noted}".encode()).hexdigest()


# Applying what a tool wants changed in its session, in the step that records its result.


def apply_changes(step: StepContext, changes: Iterable[Change]) -> None:
    """Apply changes in their order; of two for one thing the last one counts."""
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
    """Say whether a hook event is worth making."""
    stack = step.data.stack
    return bool(stack.listeners(hook)) if stack.by_hook else False
