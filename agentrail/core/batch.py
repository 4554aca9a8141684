"""The batch: every call of one response, from the gates to its result. Each function returns the phase that follows.

Results enter the history in the order of the calls, all in one step, when the last one is in; events are published as
things happen. Every call gives exactly one pair of `ToolExecutionStart` and `ToolExecutionEnd`, refused ones too.
"""

from typing import assert_never

import msgspec

from agentrail.core.cycle import begin_turn, finish
from agentrail.core.effects import RunTool
from agentrail.core.gates import Passed, Refused, hash_arguments, judge, operation_id_of
from agentrail.core.request import EffectId
from agentrail.core.signals import ToolFinished, ToolProgressed
from agentrail.core.state import CallState, Phase
from agentrail.core.work import Work
from agentrail.events import (
    ToolCalls,
    ToolCallUnknown,
    ToolExecutionEnd,
    ToolExecutionMetrics,
    ToolExecutionStart,
    ToolProgress,
)
from agentrail.messages import StopReason, ToolCall, ToolResult


def begin_batch(work: Work, stop_reason: StopReason, *, withheld: bool) -> Phase:
    """Take the open calls through the gates, and run those that passed."""
    calls = work.data.history.open
    work.publish(ToolCalls(count=len(calls)))
    batch: list[CallState] = []
    for call in calls:
        match judge(call, work.data.tools, stop_reason, withheld=withheld):
            case Passed(arguments=arguments):
                batch.append(CallState(call=call, arguments=arguments, stage="waiting"))
            case Refused() as refusal:
                batch.append(_refuse(work, call, refusal))
            case _ as never:
                assert_never(never)
    work.change(batch=tuple(batch))
    return _go_on(work, last_turn=withheld)


def tool_progressed(work: Work, signal: ToolProgressed) -> None:
    """Pass on what a running tool says."""
    call = next(state.call for state in work.data.batch if state.effect_id == signal.effect_id)
    work.publish(ToolProgress(name=call.name, call_id=call.call_id, text=signal.text))


def tool_finished(work: Work, phase: Phase, signal: ToolFinished) -> Phase:
    """Take a result. The last one of the batch brings the next turn; one of a survivor becomes a note."""
    state = _running(work, signal.effect_id)
    if state is None:
        _survivor_finished(work, signal)
        _fill_slots(work)  # it may have been the one that the batch waits for
        return phase
    result = _result_of(state.call, signal)
    _publish_end(work, state.call, result, signal)
    done = msgspec.structs.replace(state, stage="done", result=result)
    work.change(batch=tuple(done if call is state else call for call in work.data.batch))
    return _go_on(work, last_turn=False)


def close_call(work: Work, state: CallState, text: str) -> ToolResult:
    """Answer a call that is not going to answer itself. One that never ran gets its start event here."""
    call = state.call
    if state.stage == "waiting":
        work.publish(ToolExecutionStart(name=call.name, call_id=call.call_id, arguments=state.arguments))
    result = ToolResult(call_id=call.call_id, name=call.name, text=text, is_error=True)
    work.publish(ToolExecutionEnd(name=call.name, call_id=call.call_id, result=result))
    return result


def _refuse(work: Work, call: ToolCall, refusal: Refused) -> CallState:
    arguments = call.arguments or {}
    work.publish(ToolExecutionStart(name=call.name, call_id=call.call_id, arguments=arguments))
    if refusal.unknown:
        work.publish(ToolCallUnknown(name=call.name, call_id=call.call_id))
    result = ToolResult(call_id=call.call_id, name=call.name, text=refusal.text, is_error=True)
    work.publish(ToolExecutionEnd(name=call.name, call_id=call.call_id, result=result))
    return CallState(call=call, arguments=arguments, stage="done", result=result)


def _go_on(work: Work, *, last_turn: bool) -> Phase:
    """Fill the slots that are free; when all calls are done, close the batch."""
    batch = work.data.batch
    results = [state.result for state in batch if state.result is not None]
    if len(results) < len(batch):
        _fill_slots(work)
        return Phase.EXECUTING_TOOLS
    work.change(history=work.data.history.answered(results), batch=())
    return finish(work, "max_turns") if last_turn else begin_turn(work)


def _fill_slots(work: Work) -> None:
    batch = list(work.data.batch)
    running = sum(state.stage == "running" for state in batch)
    free = work.data.config.max_parallel_tools - running - len(work.data.survivors)
    if running == 0:
        free = max(
            free, 1
        )  # survivors take slots, but may not starve a batch: an immune tool can run for hours
    for position, state in enumerate(batch):
        if free <= 0:
            break
        if state.stage == "waiting":
            batch[position] = _run(work, state)
            free -= 1
    work.change(batch=tuple(batch))


def _run(work: Work, state: CallState) -> CallState:
    call = state.call
    config = work.data.config
    effect_id = work.mint("t")
    arguments_hash = hash_arguments(state.arguments)
    work.publish(ToolExecutionStart(name=call.name, call_id=call.call_id, arguments=state.arguments))
    work.ask(
        RunTool(
            effect_id=effect_id,
            call_id=call.call_id,
            name=call.name,
            arguments=state.arguments,
            arguments_hash=arguments_hash,
            operation_id=operation_id_of(config.session_id, work.data.minted, call.name, arguments_hash),
            turn=work.cycle.turn,
            model=config.model,
        )
    )
    return msgspec.structs.replace(state, stage="running", effect_id=effect_id)


def _running(work: Work, effect_id: EffectId) -> CallState | None:
    return next(
        (call for call in work.data.batch if call.effect_id == effect_id and call.stage == "running"), None
    )


def _survivor_finished(work: Work, signal: ToolFinished) -> None:
    state = next(call for call in work.data.survivors if call.effect_id == signal.effect_id)
    result = _result_of(state.call, signal)
    _publish_end(work, state.call, result, signal)
    note = f"[The call of {state.call.name} that was still running at the abort has ended: {result.text}]"
    work.change(
        survivors=tuple(call for call in work.data.survivors if call is not state),
        notes=(*work.data.notes, note),
    )


def _result_of(call: ToolCall, signal: ToolFinished) -> ToolResult:
    return ToolResult(
        call_id=call.call_id,
        name=call.name,
        text=signal.text,
        is_error=signal.is_error,
        details=signal.details,
    )


def _publish_end(work: Work, call: ToolCall, result: ToolResult, signal: ToolFinished) -> None:
    work.publish(ToolExecutionEnd(name=call.name, call_id=call.call_id, result=result))
    work.publish(
        ToolExecutionMetrics(
            name=call.name,
            call_id=call.call_id,
            started_at_ms=signal.started_at_ms,
            ended_at_ms=work.at_ms,
            duration_ms=max(work.at_ms - signal.started_at_ms, 0),
        )
    )
