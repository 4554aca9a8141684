"""The frame of a cycle: a prompt starts, a turn begins, the cycle ends.

Each function takes the step in progress, writes down what it decides, and returns the phase that follows. What comes
between two turns stands in `response` and `batch`, how a cycle is broken off in `teardown`.
"""

from typing import Final, Literal, assert_never

import msgspec

from agentrail.core import compacting, holding
from agentrail.core.actions import ResolveApproval
from agentrail.core.answering import answer_of, ask_for_repair, judge_answer
from agentrail.core.hooking import ask, somebody_listens
from agentrail.core.hooks import AfterTurn, BeforeFinish, BeforePrompt, BeforeRequest
from agentrail.core.open_calls import NO_CALLS
from agentrail.core.outcome import Outcome
from agentrail.core.outgoing import Outgoing, outgoing
from agentrail.core.projection import (
    LAST_TURN_NOTE,
    cycle_messages_of,
    digest_of,
    model_of,
    request_of,
)
from agentrail.core.request import CachePoint
from agentrail.core.signals import SignalId
from agentrail.core.silence import start_stream
from agentrail.core.spending import reserve_request
from agentrail.core.state import BreakOff, Cycle, Ended, Known, Next, Phase, QueuedPrompt, Stream
from agentrail.core.structured import Rejected, Repair
from agentrail.core.work import Work
from agentrail.errors import (
    AgentrailError,
    CycleAborted,
    CycleFailed,
    ErrorInfo,
    MailboxFull,
)
from agentrail.events import (
    AbortReceipt,
    AbortSettled,
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentStart,
    EndReason,
    Intervention,
    MaxTurnsReached,
    PromptDropped,
    PromptQueued,
    PromptRejected,
    RequestStart,
    SteeringApplied,
)
from agentrail.messages import PromptRef, Text, TokenUsage, UserMessage

_NOT_ANSWERS: Final = frozenset({"max_turns", "not_resumed", "superseded"})
"""The ends of a cycle without an answer of the model that a plugin could look at."""

MAX_ASKERS: Final = 1024
"""How many callers may wait for the end of one cycle; it is a queue like all others, so one more hears that it is full."""


def start_next(work: Work) -> Next:
    """Take the oldest prompt that waits, in the very step that puts it into the history."""
    prompt, *rest = work.data.queue
    work.data.queue = tuple(rest)
    return start(work, prompt)


def before_prompt(work: Work, prompt: QueuedPrompt) -> Outcome | None:
    """Ask the plugins about a prompt that is about to start; None when nobody listens. It may be held then."""
    if not somebody_listens(work, BeforePrompt):
        return None
    text = "\n".join(block.text for block in prompt.content if isinstance(block, Text))
    return holding.ask_about_prompt(work, BeforePrompt(text=text, content=prompt.content), prompt)


def start(work: Work, prompt: QueuedPrompt) -> Next:
    """Begin the cycle of a prompt, unless a plugin refuses it, or wants to know something first."""
    outcome = before_prompt(work, prompt)
    return Phase.RUNNING if work.data.held is not None else start_judged(work, prompt, outcome)


def start_judged(work: Work, prompt: QueuedPrompt, outcome: Outcome | None) -> Next:
    """Begin the cycle of a prompt, with what plugins said about it."""
    abort, decision = (outcome.abort, outcome.decision) if outcome is not None else (None, None)
    if decision is not None and isinstance(decision.action, ResolveApproval):
        abort = f"no call waits for a decision, so there is none to {decision.action.decision}"
    if abort is not None:
        return reject(work, prompt, abort)
    work.publish(AgentStart(ref=prompt.ref))
    history = work.data.history
    cycle = Cycle(ref=prompt.ref, first_message=len(history), started_at_ms=work.at_ms, askers=prompt.askers)
    if work.data.notes:
        notes = tuple(Text(text=note) for note in work.data.notes)
        history = history.with_user(UserMessage(content=notes, origin="note"))
    history = history.with_user(UserMessage(content=prompt.content, ref=prompt.ref))
    work.data.history = history
    work.data.notes = ()
    work.data.cycle = cycle
    if outcome is not None and outcome.interventions:
        work.data.interventions = outcome.interventions
    return begin_turn(work)


def reject(work: Work, prompt: QueuedPrompt, reason: str) -> Phase:
    """Refuse a prompt: its text never enters the history, and there was nothing to stop.

    A cycle that waits for a person meanwhile goes on waiting. It has not ended, so nothing says that one has.
    """
    work.publish(PromptRejected(ref=prompt.ref, reason=reason))
    if work.data.cycle is None:
        after_turn(work, "aborted", reason=reason)
        work.publish(AgentAbort(reason=reason))
        work.publish(AbortSettled(receipt=AbortReceipt()))
        work.data.last = Ended(outcome="aborted", text="", reason=reason)
    refuse_askers(work, prompt, CycleAborted(reason))
    return Phase.IDLE


def refuse_askers(work: Work, prompt: QueuedPrompt, why: AgentrailError) -> None:
    """Tell whoever waits for the text of a prompt that there will be none."""
    for asker in prompt.askers:
        work.refuse(asker, why)


def drop_queue(work: Work, why: AgentrailError) -> None:
    """Throw away all prompts that wait, and tell everybody."""
    for prompt in work.data.queue:
        work.publish(PromptDropped(ref=prompt.ref, content=prompt.content))
        refuse_askers(work, prompt, why)
    work.data.queue = ()


def begin_turn(work: Work) -> Next:
    """Prepare the next request, with all that was said meanwhile.

    On the last turn that a cycle may have, tools are withheld.
    """
    config, before = work.data.config, work.cycle
    turn = before.turn + 1
    if turn > config.max_turns:
        return BreakOff(f"{config.max_turns} turns were not enough")
    _apply_steers(work)
    _apply_interventions(work)
    if turn == config.max_turns:
        work.publish(MaxTurnsReached(turns=config.max_turns))
    work.data.cycle = msgspec.structs.replace(
        before, turn=turn, attempts=before.attempts.next_turn(), handed=None
    )
    if somebody_listens(work, BeforeRequest):
        abort = _ask_about_request(work)
        if abort is not None:
            return BreakOff(abort)
    return Phase.RUNNING if compacting.begin(work) else send_request(work)


def _ask_about_request(work: Work) -> str | None:
    """Let plugins look at the next request, speak before it, and hand on other messages for it; gives why they abort."""
    outcome = ask(work, BeforeRequest(messages=work.data.history.messages[:]))
    if outcome.abort is not None:
        return outcome.abort
    seen = len(work.data.history)
    _apply_interventions(work)
    handed = outcome.messages
    if (
        handed is not None
    ):  # what they want said comes behind what they handed on, as it does behind the conversation
        handed = (*handed, *work.data.history.since(seen))
    points = outcome.hints.cache_points or ()
    work.data.cycle = msgspec.structs.replace(work.cycle, cache_points=points, handed=handed)
    return None


def go_on_after_compaction(work: Work, error: ErrorInfo | None) -> Next:
    """Do what a compaction held up: the request, its end, or nothing at all.

    Args:
        work: The step.
        error: Of a request that did not fit before and does not fit now; None where there is nothing like that.
    """
    cycle = work.data.cycle
    if cycle is None:
        return Phase.IDLE
    if error is not None:
        return fail(work, error)
    if cycle.handed == ():
        # What they handed on was made of the conversation before. Sent all the same it would be as long as ever, and
        # without it what they keep from the model would be said.
        abort = _ask_about_request(work)
        if abort is not None:
            return BreakOff(abort)
    return send_request(work)


def send_request(work: Work) -> Phase:
    """Ask the model: the first attempt of a turn, or one more."""
    data, cycle = work.data, work.cycle
    last_turn = is_last_turn(data)
    attempt = work.mint("r")
    model = model_of(data).model
    work.data.stream = Stream(effect_id=attempt, model=model, last_turn=last_turn)
    if cycle.handed is None:
        kept, messages = outgoing(data.outgoing, data.history.messages, data.refused)
        work.data.outgoing = kept
    else:  # another conversation, of which nothing is kept for the next one
        kept, messages = outgoing(Outgoing(), cycle.handed, data.refused)
    request = request_of(work.data, attempt, last_turn=last_turn, messages=messages)
    if kept.refused:  # plugins have seen the whole conversation: the places they named are those in there
        request = msgspec.structs.replace(request, cache_points=_moved(request.cache_points, kept))
    notes = (LAST_TURN_NOTE,) if last_turn else ()
    refusal = reserve_request(work, request, notes=len(notes), is_handed=cycle.handed is not None)
    if refusal is not None:
        work.unmint()
        return fail(work, refusal)
    work.publish(
        RequestStart(
            model=request.model,
            messages=len(request.messages),
            context_messages=len(notes),
            context_digest=digest_of(notes),
            attempt=cycle.attempts.number,
        )
    )
    start_stream(work, request)
    return Phase.RUNNING


def _moved(points: tuple[CachePoint, ...], kept: Outgoing) -> tuple[CachePoint, ...]:
    moved = (kept.place_of(point) if isinstance(point, int) else point for point in points)
    return tuple(point for point in moved if point is not None)


def is_last_turn(data: Known) -> bool:
    """Say whether tools are withheld on this turn, because the cycle may have no other."""
    turn = data.cycle.turn if data.cycle is not None else 0
    return turn >= data.config.max_turns and data.config.on_max_turns == "answer"


def finish(work: Work, stop_reason: EndReason) -> Next:
    """End the cycle well, unless the user has steered it: then the model gets another turn, if there is one left.

    A vendor that pauses in the middle of its own work wants the same conversation once more, which is a turn too.
    """
    turns_left = has_turns_left(work)
    if turns_left and stop_reason == "pause":
        return begin_turn(work)
    if turns_left and stop_reason != "superseded" and (work.data.steers or work.data.interventions):
        return begin_turn(work)
    if stop_reason not in _NOT_ANSWERS and somebody_listens(work, BeforeFinish):
        outcome = holding.ask_about_end(work, stop_reason)
        return Phase.RUNNING if work.data.held is not None else finish_judged(work, stop_reason, outcome)
    return _finish_answered(work, stop_reason)


def finish_judged(work: Work, stop_reason: EndReason, outcome: Outcome) -> Next:
    """End the cycle, unless plugins want more, or the user has steered it while they were asked."""
    if outcome.abort is not None:
        return BreakOff(outcome.abort)
    if has_turns_left(work) and (work.data.steers or work.data.interventions):
        return begin_turn(work)
    return _finish_answered(work, stop_reason)


def has_turns_left(work: Work) -> bool:
    """Say whether the cycle may have another turn."""
    return work.cycle.turn < work.data.config.max_turns


def _finish_answered(work: Work, stop_reason: EndReason) -> Next:
    match judge_answer(work, stop_reason):
        case None:
            return _finish_well(work, stop_reason)
        case Repair() as repair:
            ask_for_repair(work, repair)
            return begin_turn(work)
        case Rejected(error):
            return fail(work, error)
        case _ as never:
            assert_never(never)


def _finish_well(work: Work, stop_reason: EndReason) -> Phase:
    cycle = work.cycle
    messages = cycle_messages_of(work.data)
    ended = close(work, "finished")
    work.publish(AgentEnd(messages=messages, usage=cycle.usage, stop_reason=stop_reason))
    for asker in cycle.askers:
        work.reply(asker, ended.text)
    requeue_steers(work)
    return Phase.IDLE


def fail(work: Work, error: ErrorInfo) -> Phase:
    """End the cycle with an error. An error is never an empty answer."""
    cycle = work.cycle
    if error.code == "content_refused":
        work.data.refused = (*work.data.refused, cycle.ref)
    close(work, "failed", error=error)
    work.publish(AgentError(error=error))
    for asker in cycle.askers:
        work.refuse(asker, CycleFailed(error))
    requeue_steers(work)
    return Phase.IDLE


def close(
    work: Work,
    outcome: Literal["finished", "aborted", "failed"],
    *,
    reason: str | None = None,
    error: ErrorInfo | None = None,
) -> Ended:
    """Forget the cycle, and keep how it ended; the caller publishes that, and tells those who wait for it."""
    after_turn(work, outcome, reason=reason if error is None else error.message)
    ended = Ended(outcome=outcome, text=answer_of(work), reason=reason, error=error)
    work.data.cycle = None
    work.data.stream = None
    work.data.batch = NO_CALLS
    work.data.interventions = ()
    work.data.last = ended
    return ended


def after_turn(work: Work, outcome: Literal["finished", "aborted", "failed"], *, reason: str | None) -> None:
    """Let plugins see that a cycle is over, on every path, and every abort. They can neither veto nor delay it."""
    if not somebody_listens(work, AfterTurn):
        return
    cycle = work.data.cycle
    began = cycle.started_at_ms if cycle is not None else work.at_ms
    ask(
        work,
        AfterTurn(
            outcome="finished" if outcome == "finished" else "aborted",
            abort_reason=reason,
            messages_diff=cycle_messages_of(work.data),
            usage_diff=cycle.usage if cycle is not None else TokenUsage(),
            started_at_ms=began,
            ended_at_ms=work.at_ms,
            duration_ms=work.at_ms - began,
        ),
    )


def requeue_steers(work: Work) -> None:
    """Let steers that met the end of their cycle be the next prompts, in front of those that wait already."""
    steers = work.data.steers
    if not steers:
        return
    first = []
    for position, steer in enumerate(steers):
        content = (Text(text=steer.text),)
        ref = PromptRef(steer.ref)
        first.append(QueuedPrompt(ref=ref, content=content))
        work.publish(PromptQueued(ref=ref, content=content, position=position))
    work.data.steers = ()
    work.data.queue = (*first, *work.data.queue)


def wait_for_reply(work: Work, to: SignalId) -> None:
    """Tell somebody how the cycle ended: when it has, or at once the last one, its text or the error that stands for it."""
    cycle, last, held = work.data.cycle, work.data.last, work.data.held
    prompt = held.prompt if held is not None else None
    askers = cycle.askers if cycle is not None else prompt.askers if prompt is not None else ()
    if len(askers) >= MAX_ASKERS:
        message = (
            f"{MAX_ASKERS} callers wait for the end of this cycle already: subscribe, or ask again later"
        )
        work.refuse(to, MailboxFull(message))
    elif cycle is not None:
        work.data.cycle = msgspec.structs.replace(cycle, askers=(*askers, to))
    elif (
        held is not None and prompt is not None
    ):  # its cycle has not begun yet, but that is the one that is meant
        prompt = msgspec.structs.replace(prompt, askers=(*askers, to))
        work.data.held = msgspec.structs.replace(held, prompt=prompt)
    elif last is None:
        work.reply(to, "")
    elif last.outcome == "finished":
        work.reply(to, last.text)
    elif last.error is not None:
        work.refuse(to, CycleFailed(last.error))
    else:
        work.refuse(to, CycleAborted(last.reason))


def _apply_interventions(work: Work) -> None:
    """Let plugins speak: all that they want said, as one message."""
    injected = work.data.interventions
    if not injected:
        return
    prompt = "\n\n".join(one.prompt for one in injected)
    message = UserMessage(content=(Text(text=prompt),), origin="intervention")
    work.data.interventions = ()
    work.data.history = work.data.history.with_user(message)
    work.publish(Intervention(prompt=prompt, by=tuple(one.by for one in injected)))


def _apply_steers(work: Work) -> None:
    steers = work.data.steers
    if not steers:
        return
    content = (Text(text="\n\n".join(steer.text for steer in steers)),)
    work.data.steers = ()
    work.data.history = work.data.history.with_user(UserMessage(content=content, origin="steer"))
    work.publish(SteeringApplied(refs=tuple(steer.ref for steer in steers), count=len(steers)))
