"""The frame of a cycle: a prompt is admitted, a turn begins, the cycle ends.

Each function takes the step in progress, writes down what it decides, and returns the phase that follows. What comes
between two turns stands in `response` and `batch`, how a cycle is broken off in `teardown`.
"""

from typing import Literal

import msgspec

from agentrail.core.effects import StartStream
from agentrail.core.projection import LAST_TURN_NOTE, digest_of, request_of
from agentrail.core.signals import Prompt, SignalId
from agentrail.core.state import Cycle, Ended, Phase, QueuedPrompt, Stream
from agentrail.core.work import Work
from agentrail.errors import (
    AgentrailError,
    CycleAborted,
    CycleFailed,
    ErrorInfo,
    PromptQueueFull,
    SessionDown,
)
from agentrail.events import (
    AgentEnd,
    AgentError,
    AgentStart,
    MaxTurnsReached,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    RequestStart,
)
from agentrail.messages import PromptRef, StopReason, Text, UserMessage


class PromptReceipt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A prompt was accepted.

    Attributes:
        ref: Its name; `AgentStart` carries it too.
        queued: Whether it waits.
        position: In the queue, 0 is next; 0 for one that started at once.
    """

    ref: PromptRef
    queued: bool
    position: int = 0


def admit(work: Work, phase: Phase, signal: Prompt) -> Phase:
    """Start a prompt at once, or put it at the end of the queue, or say that there is no room."""
    data = work.data
    if data.stopping is not None:
        work.refuse(signal.signal_id, SessionDown(data.config.session_id, data.stopping))
        return phase
    asker = signal.signal_id if signal.reply == "text" else None
    prompt = QueuedPrompt(ref=signal.ref, content=signal.content, asker=asker)
    if phase is Phase.IDLE and data.teardown is None:
        work.publish(PromptReceived(ref=signal.ref, content=signal.content))
        _give_receipt(work, signal, PromptReceipt(ref=signal.ref, queued=False))
        return _start(work, prompt)
    position = len(data.queue)
    if position >= data.config.max_prompt_queue:
        message = f"{position} prompts wait already, at most {data.config.max_prompt_queue} may: wait for the next end"
        work.refuse(signal.signal_id, PromptQueueFull(message))
        return phase
    work.change(queue=(*data.queue, prompt))
    work.publish(PromptQueued(ref=signal.ref, content=signal.content, position=position))
    _give_receipt(work, signal, PromptReceipt(ref=signal.ref, queued=True, position=position))
    return phase


def start_next(work: Work) -> Phase:
    """Take the oldest prompt that waits, in the very step that puts it into the history."""
    prompt, *rest = work.data.queue
    work.change(queue=tuple(rest))
    return _start(work, prompt)


def drop_queue(work: Work, why: AgentrailError) -> None:
    """Throw away all prompts that wait, and tell everybody."""
    for prompt in work.data.queue:
        work.publish(PromptDropped(ref=prompt.ref, content=prompt.content))
        work.refuse(prompt.asker, why)
    work.change(queue=())


def begin_turn(work: Work) -> Phase:
    """Ask the model for the next response. On the last turn that a cycle may have, tools are withheld."""
    turn = work.cycle.turn + 1
    max_turns = work.data.config.max_turns
    last_turn = turn >= max_turns
    if last_turn:
        work.publish(MaxTurnsReached(turns=max_turns))
    attempt = work.mint("r")
    work.change(
        cycle=msgspec.structs.replace(work.cycle, turn=turn),
        stream=Stream(effect_id=attempt, last_turn=last_turn),
    )
    request = request_of(work.data, attempt, last_turn=last_turn)
    notes = (LAST_TURN_NOTE,) if last_turn else ()
    work.publish(
        RequestStart(
            model=request.model,
            messages=len(request.messages),
            context_messages=len(notes),
            context_digest=digest_of(notes),
        )
    )
    work.ask(StartStream(request=request))
    return Phase.RUNNING


def finish(work: Work, stop_reason: StopReason | Literal["max_turns"]) -> Phase:
    """End the cycle well."""
    cycle = work.cycle
    messages = work.data.history.since(cycle.first_message)
    ended = _close(work, "finished")
    work.publish(AgentEnd(messages=messages, usage=cycle.usage, stop_reason=stop_reason))
    work.reply(cycle.asker, ended.text)
    return Phase.IDLE


def fail(work: Work, error: ErrorInfo) -> Phase:
    """End the cycle with an error. An error is never an empty answer."""
    cycle = work.cycle
    _close(work, "failed", error=error)
    work.publish(AgentError(error=error))
    work.refuse(cycle.asker, CycleFailed(error))
    return Phase.IDLE


def close_aborted(work: Work, reason: str | None) -> SignalId | None:
    """Forget the cycle as aborted; the caller publishes `AgentAbort`. Returns whoever waited for its text."""
    asker = work.cycle.asker
    _close(work, "aborted", reason=reason)
    return asker


def answer_last(work: Work, to: SignalId) -> None:
    """Tell somebody how the last cycle ended: its text, or the error that stands for it."""
    last = work.data.last
    if last is None:
        work.reply(to, "")
    elif last.outcome == "finished":
        work.reply(to, last.text)
    elif last.error is not None:
        work.refuse(to, CycleFailed(last.error))
    else:
        work.refuse(to, CycleAborted(last.reason))


def _give_receipt(work: Work, signal: Prompt, receipt: PromptReceipt) -> None:
    if signal.reply == "receipt":
        work.reply(signal.signal_id, receipt)


def _start(work: Work, prompt: QueuedPrompt) -> Phase:
    work.publish(AgentStart(ref=prompt.ref))
    history = work.data.history
    cycle = Cycle(ref=prompt.ref, first_message=len(history), asker=prompt.asker)
    if work.data.notes:
        notes = tuple(Text(text=note) for note in work.data.notes)
        history = history.with_user(UserMessage(content=notes, origin="note"))
    history = history.with_user(UserMessage(content=prompt.content, ref=prompt.ref))
    work.change(history=history, notes=(), cycle=cycle)
    return begin_turn(work)


def _close(
    work: Work,
    outcome: Literal["finished", "aborted", "failed"],
    *,
    reason: str | None = None,
    error: ErrorInfo | None = None,
) -> Ended:
    text = work.data.history.text_since(work.cycle.first_message)
    ended = Ended(outcome=outcome, text=text, reason=reason, error=error)
    work.change(cycle=None, stream=None, batch=(), last=ended)
    return ended
