"""How a cycle is broken off: abort, stop, and coming back after a crash. Each function returns the phase that follows.

An abort answers every open call in the very step in which it arrives, so the history is valid and the session usable at
once. What was told to stop ends behind it, bounded in time; until then prompts wait, so that an old tool and a new cycle
never work at the same time.
"""

from typing import Final, TypeAlias

import msgspec

from agentrail.core import calls, compacting, holding, hooking, interactions
from agentrail.core.batch import STOPPED, go_on, into_history, open_batch, stop as stop_call
from agentrail.core.cycle import (
    MAX_ASKERS,
    after_turn,
    close,
    drop_queue,
    fail,
    refuse_askers,
    requeue_steers,
)
from agentrail.core.effects import CancelStream, CancelTimer, KillTools, Teardown
from agentrail.core.hooking import ask, somebody_listens
from agentrail.core.hooks import SessionEnding, SessionStarted
from agentrail.core.listening import hear_rest
from agentrail.core.open_calls import CallState
from agentrail.core.owners import OfDrain, OfPluginRequest, OfSurvivor, OfTeardown, owned_by
from agentrail.core.projection import model_of
from agentrail.core.request import EffectId
from agentrail.core.signals import (
    Abort,
    KillTools as KillPolicy,
    Parked,
    Restarted,
    SignalId,
    Stop,
)
from agentrail.core.spending import spend_on_abort, spend_what_is_out
from agentrail.core.state import Ended, Next, Phase, TeardownState
from agentrail.core.work import Work
from agentrail.errors import CycleAborted, ErrorInfo, MailboxFull, SessionDown
from agentrail.events import (
    AbortReceipt,
    AbortSettled,
    AgentAbort,
    PromptRejected,
    SessionEnd,
    SessionParked,
    SessionRestarted,
    ToolKilled,
)
from agentrail.messages import AssistantMessage, CallId, Text

Stopped: TypeAlias = tuple[tuple[EffectId, ...], tuple[CallId, ...]]
"""The effects that were told to stop, and the calls among them that may have taken effect."""

STILL_RUNNING: Final = "[Still running when the cycle was aborted]"
UNKNOWN: Final = "[Outcome unknown: the session crashed while this ran]"
NEVER_RAN: Final = "[Not run: the session crashed before this began]"


def abort(work: Work, signal: Abort) -> Phase:
    """Stop the cycle in this step, if there is one, and answer when what was stopped is gone."""
    committed = _break_off(work, signal.reason, signal.kill_tools)
    requeue_steers(work)
    if signal.clear_queue:
        drop_queue(work, CycleAborted(signal.reason))
    receipt = AbortReceipt(committed=committed, survivors=calls.survivors_of(work))
    if work.data.teardown is None:
        work.publish(AbortSettled(receipt=receipt))
    if not signal.wait:
        work.reply(signal.signal_id, msgspec.structs.replace(receipt, settled=False))
    elif work.data.teardown is None:
        work.reply(signal.signal_id, receipt)
    elif len(work.data.teardown.waiting) >= MAX_ASKERS:
        work.refuse(signal.signal_id, MailboxFull(f"{MAX_ASKERS} callers wait for this teardown already"))
    else:
        _wait_for_teardown(work, signal.signal_id)
    return Phase.IDLE


def abort_by_plugin(work: Work, reason: str) -> Phase:
    """Stop the cycle because a plugin said so, in the step in which it did."""
    if work.data.cycle is None:
        return Phase.IDLE
    if work.data.history.open and not work.data.batch:
        open_batch(work)
    committed = _break_off(work, reason, "killable")
    requeue_steers(work)
    if work.data.teardown is None:
        receipt = AbortReceipt(committed=committed, survivors=calls.survivors_of(work))
        work.publish(AbortSettled(receipt=receipt))
    return Phase.IDLE


def refuse_session(work: Work, reason: str) -> Phase:
    """End a session that a plugin did not let begin."""
    work.data.stopping = f"refused by a plugin: {reason}"
    return Phase.IDLE


def stop(work: Work, signal: Stop) -> Phase:
    """Abort what runs, survivors too, and end the session when all of it is gone."""
    data = work.data
    if len(data.stoppers) >= MAX_ASKERS:
        work.refuse(signal.signal_id, MailboxFull(f"{MAX_ASKERS} callers wait for the end already"))
        return Phase.IDLE
    work.data.stopping = data.stopping or signal.reason
    work.data.stoppers = (*data.stoppers, signal.signal_id)
    data = work.data
    if data.cycle is not None or data.compaction is not None or data.held is not None:
        _break_off(work, signal.reason, "all")
    requeue_steers(work)
    drop_queue(work, SessionDown(data.config.session_id, signal.reason))
    if work.data.teardown is None:
        _stop_survivors(work)
    return Phase.IDLE


def settled(work: Work, receipt: AbortReceipt) -> None:
    """The teardown is over: say so. A session that is to end goes on with what an abort had spared."""
    teardown = work.data.teardown
    assert teardown is not None  # noqa: S101 - its effect was open
    work.data.teardown = None
    work.publish(AbortSettled(receipt=receipt))
    for caller in teardown.waiting:
        work.reply(caller, receipt)
    if work.data.stopping is not None:
        _stop_survivors(work)


def is_over(work: Work) -> bool:
    """Say whether nothing keeps the session any more."""
    data = work.data
    return data.stopping is not None and data.teardown is None and not any(owned_by(data.open, OfDrain))


def say_goodbye(work: Work) -> None:
    """Publish the last event and answer those who wait for the end."""
    if somebody_listens(work, SessionEnding):
        ask(work, SessionEnding())
    hooking.say_goodbye(work)
    data = work.data
    reason = data.stopping or ""
    spend_what_is_out(work)
    work.give_up_all()
    work.publish(SessionEnd(reason=reason))
    for caller in data.stoppers:
        work.reply(caller, None)
    work.data.stoppers = ()


def restarted(work: Work, signal: Restarted) -> Next:
    """Go on after a crash: whatever ran died with the old actor, so nothing of it is waited for.

    What waits for a person goes on waiting; a cycle that waited for anything else has failed.
    """
    work.publish(SessionRestarted(reason=signal.reason, incarnation=signal.incarnation))
    work.data.incarnation = max(signal.incarnation, work.data.incarnation)
    for state in work.data.batch:
        interactions.withdraw(work, state.call.call_id)  # whoever asked is gone
    lost = [asked for _, asked in owned_by(work.data.open, OfPluginRequest)]
    work.give_up_all()
    interactions.rearm(work)
    error = ErrorInfo(
        code="session_restarted", message=f"the session crashed: {signal.reason}", retryable=True
    )
    holding.forget(work)
    _forget_what_ran(work)
    hooking.errands_lost(work, lost, error)
    if somebody_listens(work, SessionStarted):
        abort = ask(work, SessionStarted(recovered=True)).abort
        if abort is not None:
            reason = f"refused by a plugin: {abort}"
            return _end(work, reason, ErrorInfo(code="aborted", message=reason))
    if work.data.interactions:
        _answer_what_ran(work)
        return go_on(work)
    _fail_cycle(work, error)
    return Phase.IDLE


def parked(work: Work, signal: Parked) -> Phase:
    """Say that the session crashed too often, and end it. Nothing runs any more: no teardown is needed."""
    work.publish(SessionParked(reason=signal.reason))
    reason = f"parked: {signal.reason}"
    work.give_up_all()
    holding.forget(work)
    _forget_what_ran(work)
    return _end(work, reason, ErrorInfo(code="session_parked", message=f"the session is {reason}"))


def _end(work: Work, reason: str, error: ErrorInfo) -> Phase:
    """Let nothing wait any more in a session that is not to go on."""
    for interaction in work.data.interactions:
        interactions.close(work, interaction, "aborted", "abort")
    _fail_cycle(work, error)
    drop_queue(work, SessionDown(work.data.config.session_id, reason))
    work.data.stopping = reason
    return Phase.IDLE


def _forget_what_ran(work: Work) -> None:
    """End survivors and teardowns of an actor that is gone, as nobody will hear of them again."""
    spend_what_is_out(work)
    compacting.forget(work)
    for state in work.data.survivors:
        if state.result is None:
            calls.publish_end(work, state, calls.result_of(state, UNKNOWN))
    work.data.survivors = ()
    if work.data.teardown is not None:
        settled(work, AbortReceipt())


def _answer_what_ran(work: Work) -> None:
    """Answer the calls that died with the actor; those that wait for a person go on waiting."""
    for state in work.data.batch:
        if state.result is not None:
            calls.put(work, msgspec.structs.replace(state, stage="done", effect_id=None))
        elif state.stage != "asking":
            text = NEVER_RAN if state.stage == "waiting" else UNKNOWN
            calls.put(work, calls.answer(work, state, text)[0])


def _fail_cycle(work: Work, error: ErrorInfo) -> None:
    if work.data.cycle is None:
        return
    if work.data.batch:
        for state in work.data.batch:
            if state.stage == "asking":
                calls.put(work, calls.answer(work, state, STOPPED)[0])
        _answer_what_ran(work)
        into_history(work)
    fail(work, error)


def _break_off(work: Work, reason: str | None, kill: KillPolicy) -> tuple[CallId, ...]:
    """End the cycle as aborted, whatever it was doing, and start the teardown of what was stopped.

    Returns:
        The calls of its batch that had ended before.
    """
    committed = _ids_of(tuple(state for state in work.data.batch if state.stage == "done"))
    stopped: tuple[EffectId, ...] = ()
    unknown: tuple[CallId, ...] = ()
    if work.data.compaction is not None:
        stopped = compacting.break_off(work)
    elif work.data.stream is not None:
        stopped = _stop_stream(work)
    elif work.data.batch:
        stopped, unknown = _stop_batch(work, reason, kill)
    if work.data.held is not None:
        stopped += _stop_holding(work, reason)
    askers = work.data.cycle.askers if work.data.cycle is not None else ()
    if work.data.cycle is not None:
        close(work, "aborted", reason=reason)
    else:  # there is nothing to look back on, but plugins see every abort
        after_turn(work, "aborted", reason=reason)
    work.publish(AgentAbort(reason=reason))
    for asker in askers:
        work.refuse(asker, CycleAborted(reason))
    if stopped:
        _begin_teardown(work, stopped, committed, unknown)
    return committed


def _ids_of(states: tuple[CallState, ...]) -> tuple[CallId, ...]:
    return tuple(state.call.call_id for state in states)


def _stop_holding(work: Work, reason: str | None) -> tuple[EffectId, ...]:
    """Give up a hook that waits. A prompt that was judged is refused: it is what was going on."""
    prompt = holding.now_held(work).prompt
    stopped = holding.break_off(work)
    if prompt is not None:
        work.publish(PromptRejected(ref=prompt.ref, reason=reason or "aborted by the user"))
        refuse_askers(work, prompt, CycleAborted(reason))
        if work.data.cycle is None:
            work.data.last = Ended(outcome="aborted", text="", reason=reason)
    return stopped


def _stop_stream(work: Work) -> tuple[EffectId, ...]:
    stream = work.stream
    if stream.pausing:
        work.cancel(CancelTimer(effect_id=stream.effect_id))
        return ()
    work.cancel(CancelStream(effect_id=stream.effect_id))
    spend_on_abort(work)
    hear_rest(work)
    # What the user has read stays; half of a call or of a thought is of no use to anybody, so it goes.
    text = "".join(stream.text)
    if text:
        message = AssistantMessage(content=(Text(text=text),), model=model_of(work.data).model, cut=True)
        work.data.history = work.data.history.with_response(message)
    return (stream.effect_id,)


def _stop_batch(work: Work, reason: str | None, kill: KillPolicy) -> Stopped:
    """Answer every open call, and stop those that the policy does not spare. Gives all whose tasks have not ended."""
    text = f"[Stopped: {reason}]" if reason else STOPPED
    killed: list[EffectId] = []
    spared: list[CallState] = []
    for interaction in work.data.interactions:
        interactions.close(work, interaction, "aborted", "abort")
    for state in work.data.batch:
        if state.result is not None:
            continue
        if state.stage == "running" and _is_spared(work, state, kill):
            spared.append(state)
            assert state.effect_id is not None  # noqa: S101 - it runs
            work.hand_over(state.effect_id, OfSurvivor(state.call.call_id))
            calls.put(work, msgspec.structs.replace(state, result=calls.result_of(state, STILL_RUNNING)))
            continue
        call = state.call
        happened = [ToolKilled(name=call.name, call_id=call.call_id, reason=reason or "aborted")]
        killed += stop_call(work, state, text, *(happened if state.stage == "running" else ()))
    stopping = tuple(state for state in work.data.batch if state.stage == "stopping")
    if killed:
        work.ask(KillTools(effect_ids=tuple(killed)))
    work.data.survivors = (*work.data.survivors, *spared)
    into_history(work)
    return _left_to_teardown(work, stopping)


def _left_to_teardown(work: Work, states: tuple[CallState, ...]) -> Stopped:
    """Wait for no call by itself any more: the teardown waits for all of them."""
    ids = tuple(state.effect_id for state in states if state.effect_id is not None)
    for effect_id in ids:
        work.give_up(effect_id)
    return ids, _ids_of(tuple(state for state in states if calls.is_doubtful(state)))


def _is_spared(work: Work, state: CallState, kill: KillPolicy) -> bool:
    return kill == "none" or (kill == "killable" and calls.is_immune(work, state))


def _stop_survivors(work: Work) -> None:
    survivors = work.data.survivors
    if not survivors:
        return
    ids, unknown = _left_to_teardown(work, survivors)
    for state in survivors:
        if (
            state.result is not None
        ):  # told to stop already, and not gone yet: the teardown waits for it all the same
            continue
        call = state.call
        work.publish(ToolKilled(name=call.name, call_id=call.call_id, reason=work.data.stopping or "stopped"))
        calls.publish_end(work, state, calls.result_of(state, "[Stopped: the session ended]"))
    work.data.survivors = ()
    work.ask(KillTools(effect_ids=ids))
    _begin_teardown(work, ids, (), unknown)


def _begin_teardown(
    work: Work, stopped: tuple[EffectId, ...], committed: tuple[CallId, ...], unknown: tuple[CallId, ...]
) -> None:
    effect_id = work.mint("d")
    work.data.teardown = TeardownState(effect_id=effect_id, waiting=())
    work.start(
        Teardown(
            effect_id=effect_id,
            stopped=stopped,
            survivors=calls.survivors_of(work),
            committed=committed,
            unknown=unknown,
        ),
        OfTeardown(),
    )


def _wait_for_teardown(work: Work, caller: SignalId) -> None:
    teardown = work.data.teardown
    assert teardown is not None  # noqa: S101 - the caller looked
    work.data.teardown = TeardownState(effect_id=teardown.effect_id, waiting=(*teardown.waiting, caller))
