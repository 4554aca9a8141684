"""A hook that waits: the session is held, as data in its state, until the answer arrives or is no longer needed."""

from typing import Final

from msgspec.structs import replace

from agentrail.core.protocol.actions import Wanted
from agentrail.core.protocol.effects import CancelPluginRequest, ClearTimer, SetTimer
from agentrail.core.protocol.hooks import AfterToolBatch, BeforeFinish, BeforePrompt, RequestResult
from agentrail.core.protocol.request import EffectId
from agentrail.core.session.effect_owners import OfHeldHook, OfHoldTimer
from agentrail.core.session.plugin_hooks import (
    apply_decision,
    ask_further,
    ask_patiently,
    book_plugin_request,
    open_plugin_request,
)
from agentrail.core.session.state import QueuedPrompt, SuspendedHook
from agentrail.core.session.step_context import StepContext, say_queued
from agentrail.core.stack.hook_outcome import Outcome
from agentrail.errors import ErrorInfo
from agentrail.events import EndReason

MAX_HOLD_SECONDS: Final = 120
"""Time limit of a hook's wait for one answer. Afterwards the plugin gets a failure and decides without the answer."""

TOO_LATE: Final = ErrorInfo(
    code="timeout", message=f"there was no answer within {MAX_HOLD_SECONDS} s", retryable=True
)


def ask_about_prompt(step: StepContext, event: BeforePrompt, prompt: QueuedPrompt) -> Outcome:
    """Ask the plugins about a prompt. If one of them waits, `held` is set, and nothing is decided."""
    outcome = ask_patiently(step, event)
    if outcome.waiting is not None:
        _hold(step, outcome, prompt=prompt)
    return outcome


def ask_about_end(step: StepContext, stop_reason: EndReason) -> Outcome:
    """Ask the plugins whether a cycle may finish. If one of them waits, `held` is set."""
    outcome = ask_patiently(step, BeforeFinish())
    if outcome.waiting is not None:
        _hold(step, outcome, stop_reason=stop_reason)
    return outcome


def ask_behind_batch(step: StepContext, event: AfterToolBatch, notes: tuple[str, ...]) -> Outcome:
    """Ask the plugins about a batch whose results are in the history. If one of them waits, `held` is set."""
    outcome = ask_patiently(step, event)
    if outcome.waiting is not None:
        _hold(step, outcome, notes=notes)
    return outcome


def go_on_asking(step: StepContext, result: RequestResult, *, is_late: bool = False) -> Outcome:
    """Pass the answer to the plugin that waited, and ask the others. If one of them waits, `held` is set again."""
    held = now_held(step)
    book_plugin_request(step, held.effect_id, _wanted_of(held), result)
    step.data.held = None
    step.cancel(
        CancelPluginRequest(effect_id=held.effect_id) if is_late else ClearTimer(effect_id=held.timer)
    )
    outcome = ask_further(step, held.outcome, result)
    if outcome.waiting is not None:
        _hold(step, outcome, prompt=held.prompt, stop_reason=held.stop_reason, notes=held.notes)
    return outcome


def decide_without(step: StepContext) -> None:
    """Stop waiting, because the answer no longer matters. Decisions made so far count."""
    held = now_held(step)
    cancel_suspended(step)
    apply_decision(step, replace(held.outcome, waiting=None))


def cancel_suspended(step: StepContext) -> tuple[EffectId, ...]:
    """Stop waiting, because there is nothing left to decide. Return the effects that were cancelled.

    The plugin is not notified: any decision would be about something that no longer exists.
    """
    held = now_held(step)
    book_plugin_request(step, held.effect_id, _wanted_of(held))
    step.data.held = None
    step.cancel(CancelPluginRequest(effect_id=held.effect_id))
    step.cancel(ClearTimer(effect_id=held.timer))
    return (held.effect_id,)


def back_to_queue(step: StepContext) -> None:
    """Return a prompt that is being judged to the front of the queue, because it cannot start now. It is judged again later."""
    prompt = now_held(step).prompt
    cancel_suspended(step)
    _queue(step, prompt)


def forget_suspended(step: StepContext) -> None:
    """Discard a held hook whose task died with the actor. A prompt that was being judged is judged again."""
    held = step.data.held
    if held is not None:
        book_plugin_request(step, held.effect_id, _wanted_of(held))
        step.data.held = None
        _queue(step, held.prompt)


def ask_anew(step: StepContext) -> None:
    """Repeat the plugin's request of a held hook after the process stopped. Its time limit starts again, too."""
    held = now_held(step)
    assert held.outcome.waiting is not None  # noqa: S101 - it is held
    step.ended(held.effect_id)
    step.ended(held.timer)
    book_plugin_request(step, held.effect_id, _wanted_of(held))
    _hold(step, held.outcome, prompt=held.prompt, stop_reason=held.stop_reason, notes=held.notes)


def _wanted_of(held: SuspendedHook) -> Wanted | None:
    return None if held.outcome.waiting is None else held.outcome.waiting.plugin_request.effect


def now_held(step: StepContext) -> SuspendedHook:
    held = step.data.held
    assert held is not None  # noqa: S101 - the caller checked it
    return held


def _hold(
    step: StepContext,
    outcome: Outcome,
    *,
    prompt: QueuedPrompt | None = None,
    stop_reason: EndReason | None = None,
    notes: tuple[str, ...] | None = None,
) -> None:
    assert outcome.waiting is not None  # noqa: S101 - the caller checked it
    effect_id = open_plugin_request(step, outcome.waiting.plugin_request, OfHeldHook())
    timer = step.mint("w")
    step.start(SetTimer(effect_id=timer, at_ms=step.at_ms + MAX_HOLD_SECONDS * 1000), OfHoldTimer())
    held = SuspendedHook(
        effect_id=effect_id,
        timer=timer,
        outcome=outcome,
        prompt=prompt,
        stop_reason=stop_reason,
        notes=notes,
    )
    step.data.held = held


def _queue(step: StepContext, prompt: QueuedPrompt | None) -> None:
    if prompt is not None:
        step.data.queue = (prompt, *step.data.queue)
        say_queued(step, prompt, 0)
