"""Compaction as it happens: the summary is asked for, the full text is written away, the history goes on with the summary.

What is due, where to cut and whether a summary is taken stands in `compaction`. While it goes on the session is `RUNNING`, with
or without a cycle; prompts and steers wait, and only an abort or a stop ends it. Whatever goes wrong, the conversation stays
what it was.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from agentrail.core.actions import Skip, WriteFile
from agentrail.core.append_only import GrowingSet
from agentrail.core.compaction import (
    SUMMARY_TOKENS,
    Compacted,
    CompactionLimits,
    CompactionPlan,
    CompactionReason,
    NotShrunk,
    Summary,
    compaction_failed,
    decide_compaction,
    finish_compaction,
    is_due,
    messages_for_summary,
    overflow_error,
)
from agentrail.core.effects import CancelStream, RunErrand, StartStream
from agentrail.core.estimates import tokens_of
from agentrail.core.gates import call_ids_of
from agentrail.core.hooking import ask, somebody_listens
from agentrail.core.hooks import BeforeCompact, FileWritten, RequestResult
from agentrail.core.outcome import Outcome
from agentrail.core.outgoing import unrefused
from agentrail.core.owners import OfSummary, OfSummaryTimer, OfTranscript
from agentrail.core.projection import model_of, request_of
from agentrail.core.request import EffectId, ModelRequest
from agentrail.core.spending import book, count_handed, count_history, fixed_of, reserve_request
from agentrail.core.state import Compaction
from agentrail.core.transcript import transcript_of
from agentrail.core.work import Work
from agentrail.errors import ErrorInfo
from agentrail.events import CompactDue, CompactEnd, CompactSkipped, CompactStart, SkipReason
from agentrail.messages import CallId, Message, TokenUsage

DIRECTORY: Final = "compacted"
"""The directory of the workspace that removed messages are written to."""

MAX_CALL_IDS: Final = 10_000
"""How many ids of calls a session knows before those that stand behind a summary are forgotten."""

BY_SESSION: Final = "session"
"""Who skips a compaction that no plugin has skipped."""

_SAID: Final = {"due": "threshold", "overflow": "overflow"}


def begin(work: Work, *, error: ErrorInfo | None = None) -> bool:
    """Begin a compaction, if it is time for one, or was asked for, or a request did not fit.

    Args:
        work: The step; no request is out.
        error: Of the request that did not fit, or None.

    Returns:
        Whether the session is busy with it now; whatever wanted to go on then goes on when it is over.
    """
    asked = work.data.compact_asked
    reason: CompactionReason = "overflow" if error is not None else "asked" if asked is not None else "due"
    work.data.compact_asked = None
    data = work.data
    said = asked or _SAID.get(reason, reason)
    handed = data.cycle.handed if data.cycle is not None else None
    limits, fixed = limits_of(work), fixed_of(data)
    sent = estimate = count_history(work, fixed)
    if (
        handed is not None
    ):  # what is sent says whether one is due; what it is a summary of, whether that can be read
        sent = count_handed(work, fixed, handed)
        estimate = max(estimate, sent)
    if reason == "due" and not is_due(sent, limits):
        return False
    plan = decide_compaction(data.history, data.compaction_watch, reason, estimate, limits)
    if not isinstance(plan, CompactionPlan):
        if asked is not None:  # whoever asked waits for an outcome
            why: SkipReason = "too_soon" if plan.why == "too_soon" else "nothing_to_cut"
            work.publish(CompactSkipped(by=BY_SESSION, reason=why))
        return False
    request = request_of(data, EffectId(""), last_turn=False, messages=handed)
    work.publish(CompactDue(reason=said, messages=plan.cut, tokens=estimate))
    outcome = _asked(work, plan)
    if outcome is not None and outcome.decision is not None and isinstance(outcome.decision.action, Skip):
        work.publish(CompactSkipped(by=outcome.decision.by))
        return False
    shown = outcome.messages if outcome is not None else None
    attempt = work.mint("c")
    removed = unrefused(shown or data.history.messages, len(shown) if shown else plan.cut, data.refused)
    wanted = summary_request(msgspec.structs.replace(request, attempt=attempt), plan, removed)
    if (
        reserve_request(work, wanted, is_handed=shown is not None) is not None
    ):  # the request that follows says so too
        work.unmint()
        work.publish(CompactSkipped(by=BY_SESSION, reason="budget"))
        return False
    work.publish(CompactStart(reason=said))
    work.data.compaction = Compaction(effect_id=attempt, plan=plan, error=error)
    look_at_ms = work.at_ms + model_of(work.data).stalls.timeout_ms
    work.start_stream(
        StartStream(request=wanted, look_at_ms=look_at_ms, is_quiet=True), OfSummary(), OfSummaryTimer()
    )
    return True


def summary_request(request: ModelRequest, plan: CompactionPlan, removed: Sequence[Message]) -> ModelRequest:
    """Make the request for a summary.

    Args:
        request: What would be sent to go on: the id of the summary's own effect, the whole conversation, system prompt
            and tools. They stay as they are, so that the vendor's prompt cache serves the summary too.
        plan: Where to cut.
        removed: What is cut off, as far as a model may read it.
    """
    return msgspec.structs.replace(
        request,
        messages=messages_for_summary(plan, removed),
        tool_choice="none",
        max_output_tokens=min(request.max_output_tokens or SUMMARY_TOKENS, SUMMARY_TOKENS),
        response_format=None,
    )


def limits_of(work: Work) -> CompactionLimits:
    """Say how long the conversation may be with the model of this moment."""
    facts = model_of(work.data)
    return CompactionLimits(
        window=facts.context_window,
        is_assumed=facts.window_is_assumed,
        compact_at_tokens=work.data.config.compact_at_tokens,
    )


def overflowed(work: Work, error: ErrorInfo) -> ErrorInfo:
    """Make the error of a request that does not fit, and that nothing can be done about."""
    return overflow_error(error, work.data.history, work.data.tokens.tokens, limits_of(work))


def summarised(work: Work, text: str, usage: TokenUsage) -> None:
    """Take the summary, and write away what it stands for."""
    compaction = _running(work)
    book(work, compaction.effect_id, usage)
    errand = work.mint("e")
    work.data.compaction = msgspec.structs.replace(compaction, effect_id=errand, summary=text)
    removed = work.data.history.messages[: compaction.plan.cut]
    path = f"{DIRECTORY}/{work.data.config.session_id}-{errand}.md"
    wanted = WriteFile(path=path, text=transcript_of(removed))
    work.start(RunErrand(effect_id=errand, wanted=wanted), OfTranscript())


def saved(work: Work, result: RequestResult) -> ErrorInfo | None:
    """Go on with the summary, if the conversation shrinks with it.

    Returns:
        The error of the request that did not fit, when it still does not; else None.
    """
    compaction = _running(work)
    where = result.path if isinstance(result, FileWritten) else None
    summary = Summary(text=compaction.summary or "", saved_to=where)
    data = work.data
    done = finish_compaction(data.history, data.compaction_watch, compaction.plan, summary)
    if isinstance(done, NotShrunk):
        work.data.compaction_watch = done.watch
        return _unchanged(work)
    _replace(work, compaction.plan, done)
    work.data.compaction = None
    work.publish(
        CompactEnd(
            removed=compaction.plan.cut,
            tokens_before=done.tokens_before,
            tokens_after=done.tokens_after,
            saved_to=where,
        )
    )
    return None


def failed(work: Work, usage: TokenUsage) -> ErrorInfo | None:
    """Go on without a summary: there will be none. Not to be tried again at once.

    Returns:
        The error of the request that did not fit, when this was because of one; else None.
    """
    compaction = _running(work)
    data = work.data
    book(work, compaction.effect_id, usage)
    work.data.compaction_watch = compaction_failed(data.history, data.compaction_watch, compaction.plan)
    return _unchanged(work)


def break_off(work: Work) -> tuple[EffectId, ...]:
    """Stop it in the middle; the conversation stays as it is. Gives what has to be waited for."""
    compaction = _running(work)
    is_asking = compaction.summary is None
    if is_asking:
        work.cancel(CancelStream(effect_id=compaction.effect_id))
        book(work, compaction.effect_id, None)
    else:
        work.give_up(compaction.effect_id)  # the file may be written all the same
    _unchanged(work)
    return (compaction.effect_id,) if is_asking else ()


def forget(work: Work) -> None:
    """Note that nothing will come of it: whoever worked on it died with the actor."""
    if work.data.compaction is not None:
        _unchanged(work)


def stop_waiting(work: Work) -> ErrorInfo | None:
    """Give up a summary that does not come."""
    work.cancel(CancelStream(effect_id=_running(work).effect_id))
    return failed(work, TokenUsage())


def _running(work: Work) -> Compaction:
    compaction = work.data.compaction
    assert compaction is not None  # noqa: S101 - the caller looked
    return compaction


def _unchanged(work: Work) -> ErrorInfo | None:
    """Say that nothing was removed; gives the error of the request that did not fit, if there was one."""
    compaction = _running(work)
    tokens = tokens_of(work.data.history.messages[:])
    work.data.compaction = None
    work.publish(CompactEnd(removed=0, tokens_before=tokens, tokens_after=tokens, saved_to=None))
    return None if compaction.error is None else overflowed(work, compaction.error)


def _asked(work: Work, plan: CompactionPlan) -> Outcome | None:
    """Ask the plugins about what a summary is to stand for; None when nobody listens."""
    if not somebody_listens(work, BeforeCompact):
        return None
    return ask(work, BeforeCompact(messages=work.data.history.messages[: plan.cut]))


def _replace(work: Work, plan: CompactionPlan, done: Compacted) -> None:
    """Put the shorter history in place; what the running cycle has said already is remembered for its end."""
    data = work.data
    cycle = data.cycle
    if cycle is not None:
        gone = data.history.messages[cycle.first_message : plan.cut]
        cycle = msgspec.structs.replace(
            cycle,
            first_message=plan.moved(cycle.first_message),
            earlier=(*cycle.earlier, *gone),
            handed=None if cycle.handed is None else (),
        )
    work.data.history = done.history
    work.data.compaction_watch = done.watch
    work.data.cycle = cycle
    if len(data.call_ids) > MAX_CALL_IDS:
        work.data.call_ids = _ids_that_are_used(work)


def _ids_that_are_used(work: Work) -> GrowingSet[CallId]:
    """Give the ids that a new call may not have: those that the conversation has, and those of survivors.

    Rebuilt only now and then, because it takes the whole conversation. An id behind a summary may come again then: a vendor
    that repeats its ids after ten thousand calls means no call of those days.
    """
    used = call_ids_of(work.data.history.messages)
    for state in work.data.survivors:
        used = used.added(state.call.call_id)
    return used
