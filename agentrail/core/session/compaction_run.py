"""Execution of a compaction: request the summary, save the full text, continue with the summary.

`policy.context` decides when to compact, where to cut and whether to accept a summary.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from agentrail.core.policy.calls import call_ids_of
from agentrail.core.policy.request_context import (
    SUMMARY_TOKENS,
    Compacted,
    CompactionLimits,
    CompactionPlan,
    CompactionReason,
    NotShrunk,
    Summary,
    can_shrink,
    compaction_failed,
    decide_compaction,
    finish_compaction,
    is_due,
    messages_for_summary,
    overflow_error,
    tokens_of,
    unrefused,
)
from agentrail.core.protocol.actions import Skip, WriteFile
from agentrail.core.protocol.effects import CancelStream, RunPluginRequest, StartStream
from agentrail.core.protocol.hooks import BeforeCompact, FileWritten, RequestResult
from agentrail.core.protocol.request import EffectId, ModelRequest
from agentrail.core.session.effect_owners import OfSummary, OfSummaryTimer, OfTranscript
from agentrail.core.session.plugin_hooks import ask_plugins
from agentrail.core.session.reservations import (
    book,
    book_lost,
    count_handed,
    count_history,
    fixed_of,
    reserve_request,
)
from agentrail.core.session.state import Compaction
from agentrail.core.session.step_context import StepContext, context_tokens, has_listeners
from agentrail.core.session.views import model_of, request_of
from agentrail.core.stack.hook_outcome import Outcome
from agentrail.core.values.history import GrowingSet
from agentrail.core.values.transcript import transcript_of
from agentrail.errors import ErrorInfo
from agentrail.events import CompactDue, CompactEnd, CompactSkipped, CompactStart, SkipReason
from agentrail.messages import CallId, Message, TokenUsage

DIRECTORY: Final = "compacted"
"""The directory of the workspace for removed messages."""

MAX_CALL_IDS: Final = 10_000
"""Number of call ids that a session remembers before those replaced by a summary are forgotten."""

BY_SESSION: Final = "session"
"""Reported as the source of a skipped compaction that no plugin skipped."""

_SAID: Final = {"due": "threshold", "overflow": "overflow"}


def begin_compaction(step: StepContext, *, error: ErrorInfo | None = None) -> bool:
    """Start a compaction if one is due or was requested, or a request did not fit."""
    asked = step.data.compact_asked
    reason: CompactionReason = "overflow" if error is not None else "asked" if asked is not None else "due"
    step.data.compact_asked = None
    data = step.data
    said = asked or _SAID.get(reason, reason)
    handed = data.cycle.handed if data.cycle is not None else None
    limits, fixed = limits_of(step), fixed_of(data)
    sent = estimate = count_history(step, fixed)
    # The messages to send decide whether one is due. The messages to summarise decide whether the model can
    # read them.
    if handed is not None:
        sent = count_handed(step, fixed, handed)
        estimate = max(estimate, sent)
    # Context of this turn's request is not summarised, but it makes the request longer.
    added = context_tokens(data)
    estimate += added
    if reason == "due" and not is_due(sent + added, limits):
        return False
    plan = decide_compaction(data.history, data.compaction_watch, reason, estimate, limits)
    if not isinstance(plan, CompactionPlan):
        if asked is not None:  # the caller waits for an outcome
            why: SkipReason = "too_soon" if plan.why == "too_soon" else "nothing_to_cut"
            step.publish(CompactSkipped(by=BY_SESSION, reason=why))
        return False
    if reason == "due" and data.semantics > 0 and not can_shrink(data.history, plan):
        return False
    request = request_of(data, EffectId(""), last_turn=False, messages=handed)
    step.publish(CompactDue(reason=said, messages=plan.cut, tokens=estimate))
    wanted = _request_summary(step, plan, request)
    if wanted is None:
        return False
    step.publish(CompactStart(reason=said))
    _send(step, wanted, Compaction(effect_id=wanted.attempt, plan=plan, error=error))
    return True


def _request_summary(step: StepContext, plan: CompactionPlan, request: ModelRequest) -> ModelRequest | None:
    data = step.data
    outcome = _asked(step, plan)
    if outcome is not None and outcome.decision is not None and isinstance(outcome.decision.action, Skip):
        step.publish(CompactSkipped(by=outcome.decision.by))
        return None
    shown = outcome.messages if outcome is not None else None
    attempt = step.mint("c")
    removed = unrefused(shown or data.history.messages, len(shown) if shown else plan.cut, data.refused)
    wanted = summary_request(replace(request, attempt=attempt), plan, removed)
    # The next request reports it, too.
    if reserve_request(step, wanted, is_handed=shown is not None) is not None:
        step.unmint()
        step.publish(CompactSkipped(by=BY_SESSION, reason="budget"))
        return None
    return wanted


def _send(step: StepContext, wanted: ModelRequest, compaction: Compaction) -> None:
    step.data.compaction = compaction
    look_at_ms = step.at_ms + model_of(step.data).stalls.timeout_ms
    step.start_stream(
        StartStream(request=wanted, look_at_ms=look_at_ms, is_quiet=True), OfSummary(), OfSummaryTimer()
    )


def summarise_anew(step: StepContext) -> bool:
    """Repeat the request for a summary after the process stopped. Return whether the session now waits for it."""
    compaction, data = _running(step), step.data
    step.ended(compaction.effect_id)
    _book_lost(step)
    handed = data.cycle.handed if data.cycle is not None else None
    request = request_of(data, EffectId(""), last_turn=False, messages=handed)
    wanted = _request_summary(step, compaction.plan, request)
    if wanted is not None:
        _send(step, wanted, replace(compaction, effect_id=wanted.attempt))
    return wanted is not None


def summary_request(request: ModelRequest, plan: CompactionPlan, removed: Sequence[Message]) -> ModelRequest:
    return replace(
        request,
        messages=messages_for_summary(plan, removed),
        tool_choice="none",
        max_output_tokens=min(request.max_output_tokens or SUMMARY_TOKENS, SUMMARY_TOKENS),
        response_format=None,
        settings=None,
    )


def limits_of(step: StepContext) -> CompactionLimits:
    facts = model_of(step.data)
    return CompactionLimits(
        window=facts.context_window,
        is_assumed=facts.window_is_assumed,
        compact_at_tokens=step.data.config.compact_at_tokens,
    )


def overflowed(step: StepContext, error: ErrorInfo) -> ErrorInfo:
    """Return the error of a request that does not fit and cannot be compacted."""
    return overflow_error(error, step.data.history, step.data.tokens.tokens, limits_of(step))


def summarised(step: StepContext, text: str, usage: TokenUsage) -> None:
    compaction = _running(step)
    book(step, compaction.effect_id, usage)
    _save(step, replace(compaction, summary=text))


def save_anew(step: StepContext) -> None:
    """Save the full text again under another name, because the process stopped while it was written."""
    compaction = _running(step)
    step.ended(compaction.effect_id)
    _save(step, compaction)


def _save(step: StepContext, compaction: Compaction) -> None:
    plugin_request = step.mint("e")
    step.data.compaction = replace(compaction, effect_id=plugin_request)
    removed = step.data.history.messages[: compaction.plan.cut]
    path = f"{DIRECTORY}/{step.data.config.session_id}-{plugin_request}.md"
    wanted = WriteFile(path=path, text=transcript_of(removed))
    step.start(RunPluginRequest(effect_id=plugin_request, wanted=wanted), OfTranscript())


def give_up(step: StepContext) -> ErrorInfo | None:
    """Continue without the summary. Return the error of the request that did not fit, if any."""
    return _unchanged(step)


def saved(step: StepContext, result: RequestResult) -> ErrorInfo | None:
    compaction = _running(step)
    where = result.path if isinstance(result, FileWritten) else None
    summary = Summary(text=compaction.summary or "", saved_to=where)
    data = step.data
    done = finish_compaction(data.history, data.compaction_watch, compaction.plan, summary)
    if isinstance(done, NotShrunk):
        step.data.compaction_watch = done.watch
        return _unchanged(step)
    _replace(step, compaction.plan, done)
    step.data.compaction = None
    step.data.context_tokens = done.tokens_after
    step.publish(
        CompactEnd(
            removed=compaction.plan.cut,
            tokens_before=done.tokens_before,
            tokens_after=done.tokens_after,
            saved_to=where,
        )
    )
    return None


def go_on_without_summary(step: StepContext, usage: TokenUsage | None) -> ErrorInfo | None:
    """Continue without a summary after a failure. It is not retried at once."""
    compaction = _running(step)
    data = step.data
    if data.semantics == 0:
        book(step, compaction.effect_id, usage or TokenUsage())
    elif usage is None or (usage.cost_usd is None and not usage.total):
        _book_lost(step)
    else:
        book(step, compaction.effect_id, usage)
    step.data.compaction_watch = compaction_failed(data.history, data.compaction_watch, compaction.plan)
    return _unchanged(step)


def cancel_compaction(step: StepContext) -> tuple[EffectId, ...]:
    compaction = _running(step)
    is_asking = compaction.summary is None
    if is_asking:
        step.cancel(CancelStream(effect_id=compaction.effect_id))
        _book_lost(step)
    else:
        step.give_up(compaction.effect_id)  # the file may still be written
    _unchanged(step)
    return (compaction.effect_id,) if is_asking else ()


def forget_compaction(step: StepContext) -> None:
    if step.data.compaction is not None:
        _unchanged(step)


def stop_waiting(step: StepContext) -> ErrorInfo | None:
    step.cancel(CancelStream(effect_id=_running(step).effect_id))
    return go_on_without_summary(step, None)


def _book_lost(step: StepContext) -> None:
    """Book a request for a summary whose final usage is lost. Messages that plugins substituted are no longer known."""
    compaction, data = _running(step), step.data
    sent = fixed_of(data) + tokens_of(data.history.messages[: compaction.plan.cut])
    book_lost(step, compaction.effect_id, sent, model_of(data))


def _running(step: StepContext) -> Compaction:
    compaction = step.data.compaction
    assert compaction is not None  # noqa: S101 - the caller checked it
    return compaction


def _unchanged(step: StepContext) -> ErrorInfo | None:
    """Publish that nothing was removed. Return the error of the request that did not fit, if any."""
    compaction = _running(step)
    tokens = tokens_of(step.data.history.messages[:])
    step.data.compaction = None
    step.publish(CompactEnd(removed=0, tokens_before=tokens, tokens_after=tokens, saved_to=None))
    return None if compaction.error is None else overflowed(step, compaction.error)


def _asked(step: StepContext, plan: CompactionPlan) -> Outcome | None:
    if not has_listeners(step, BeforeCompact):
        return None
    return ask_plugins(step, BeforeCompact(messages=step.data.history.messages[: plan.cut]))


def _replace(step: StepContext, plan: CompactionPlan, done: Compacted) -> None:
    """Install the shorter history. Earlier messages of the running cycle are remembered for its end."""
    data = step.data
    cycle = data.cycle
    if cycle is not None:
        gone = data.history.messages[cycle.first_message : plan.cut]
        cycle = replace(
            cycle,
            first_message=plan.moved(cycle.first_message),
            earlier=(*cycle.earlier, *gone),
            handed=None if cycle.handed is None else (),
        )
    step.data.history = done.history
    step.data.compaction_watch = done.watch
    step.data.cycle = cycle
    if len(data.call_ids) > MAX_CALL_IDS:
        step.data.call_ids = _ids_that_are_used(step)


def _ids_that_are_used(step: StepContext) -> GrowingSet[CallId]:
    """Return the ids that new calls must not use: those of the conversation and of survivors."""
    # Rebuilt only rarely, because it reads the whole conversation. An id replaced by a summary may be used again: a
    # vendor that repeats ids after ten thousand calls does not refer to the old calls.
    used = call_ids_of(step.data.history.messages)
    for state in step.data.survivors:
        used = used.added(state.call.call_id)
    return used
