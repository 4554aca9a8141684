"""One call of a batch: how it is answered, by its tool or in place of it, and what stops it.

Every call gives exactly one pair of `ToolExecutionStart` and `ToolExecutionEnd`, refused and stopped ones too; what
happened to it is said between the two.
"""

from typing import Final

import msgspec

from agentrail.core.protocol.effects import KillTools, Teardown
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import AnswerCall, ToolAnsweredEarly, ToolFinished
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.owners import OfDrain, OfStoppedCall
from agentrail.core.session.recorded_calls import began_call
from agentrail.core.session.state import Known
from agentrail.core.session.step_context import StepContext
from agentrail.events import Event, SubagentEnd, ToolExecutionEnd, ToolExecutionMetrics, ToolExecutionStart
from agentrail.frozen import canonical_json
from agentrail.messages import CallId, JsonValue, ToolResult

OUTCOME_UNKNOWN: Final = "[Outcome unknown: the process stopped while this ran]"


def began_before_drift(data: Known, state: CallState) -> bool:
    """Whether an equal call began before a drift, its end is unknown, and to run it twice would do harm."""
    return (
        data.doubtful is not None
        and is_doubtful(state)
        and began_call(state, state.arguments) in data.doubtful.calls
    )


def result_of(state: CallState, text: str, *, is_error: bool = True, details: JsonValue = None) -> ToolResult:
    """Make the result of a call that its tool does not answer."""
    return ToolResult(
        call_id=state.call.call_id, name=state.call.name, text=text, is_error=is_error, details=details
    )


def finished_result(state: CallState, signal: ToolFinished | AnswerCall) -> ToolResult:
    """Make the result of a call from what its tool gave, here or at the client; it says so when a person had changed the arguments."""
    return ToolResult(
        call_id=state.call.call_id,
        name=state.call.name,
        text=_with_edit(state, signal.text),
        is_error=signal.is_error,
        details=signal.details,
        images=signal.images,
    )


def detached_result(state: CallState, signal: ToolAnsweredEarly) -> ToolResult:
    """Make the result of a call whose tool goes on in the background."""
    return result_of(state, _with_edit(state, signal.text), is_error=False, details=signal.details)


def _with_edit(state: CallState, text: str) -> str:
    if not state.edited:
        return text
    ran = canonical_json(state.arguments).decode()
    return f"[The user changed the arguments. What ran: {ran}]\n{text}"


def publish_start(step: StepContext, state: CallState) -> CallState:
    """Publish the start of a call, unless that is out already."""
    if state.started:
        return state
    call = state.call
    step.publish(ToolExecutionStart(name=call.name, call_id=call.call_id, arguments=state.arguments))
    return msgspec.structs.replace(state, started=True)


def publish_end(step: StepContext, state: CallState, result: ToolResult) -> None:
    """Publish the end of a call, and of the sessions that worked for it; of one that is detached that of the sessions alone."""
    for child_id in state.child_ids:
        step.publish(SubagentEnd(child_id=child_id, call_id=result.call_id, result=result))
    if not state.detached:
        publish_answer(step, result)


def publish_answer(step: StepContext, result: ToolResult) -> None:
    """Publish that a call is answered."""
    step.publish(ToolExecutionEnd(name=result.name, call_id=result.call_id, result=result))


def publish_metrics(step: StepContext, state: CallState, signal: ToolFinished | ToolAnsweredEarly) -> None:
    """Publish how long the last attempt of a call took."""
    step.publish(
        ToolExecutionMetrics(
            name=state.call.name,
            call_id=state.call.call_id,
            started_at_ms=signal.started_at_ms,
            ended_at_ms=step.at_ms,
            duration_ms=max(step.at_ms - signal.started_at_ms, 0),
            attempts=state.attempt,
        )
    )


def answer(
    step: StepContext,
    state: CallState,
    text: str,
    *between: Event,
    is_error: bool = True,
    details: JsonValue = None,
) -> tuple[CallState, ToolResult]:
    """Answer a call that is not going to answer itself. One that never began gets its start event here."""
    started = publish_start(step, state)
    for event in between:
        step.publish(event)
    result = result_of(state, text, is_error=is_error, details=details)
    publish_end(step, started, result)
    return msgspec.structs.replace(started, stage="done", effect_id=None, result=result), result


def put(step: StepContext, state: CallState) -> None:
    """Put a call into the batch, in the place of the one with its id."""
    step.data.batch = step.data.batch.changed(state)


def find_call(step: StepContext, call_id: CallId) -> CallState | None:
    """Find an open call of the batch."""
    return step.data.batch.find(call_id)


def one_of_batch(step: StepContext, call_id: CallId) -> CallState:
    """Give a call of the batch, for a caller that knows that it is one."""
    state = step.data.batch.find(call_id)
    assert state is not None  # noqa: S101 - an owner of an open effect is in its place; the properties hold it
    return state


def is_immune(step: StepContext, state: CallState) -> bool:
    """Say whether a steer or a default abort leaves a call alone."""
    name = state.call.name
    return name in step.data.config.immune_tools or (state.spec is not None and not state.spec.killable)


def survivors_of(step: StepContext) -> tuple[CallId, ...]:
    """Name the calls that run on without a cycle and have not been stopped since: what aborts spared, and what is detached."""
    return tuple(state.call.call_id for state in step.data.survivors if state.stage == "running")


def is_doubtful(state: CallState) -> bool:
    """Say whether a call that was stopped at work may have taken effect, for good or by half."""
    return state.spec is None or state.spec.effect_class not in {"pure", "idempotent"}


def in_doubt(state: CallState, why: str) -> str:
    """Say that no answer came from the client, and what may have become of the call there all the same."""
    return f"{why} It may have taken effect; check before repeating." if is_doubtful(state) else why


def kill(step: StepContext, effect_ids: tuple[EffectId, ...]) -> None:
    """Stop those that are running attempts, whose calls are answered; the others were told already."""
    killed = tuple(one for one in effect_ids if isinstance(step.data.open.get(one), OfStoppedCall))
    if killed:
        step.ask(KillTools(effect_ids=killed))


def drain(step: StepContext, effect_ids: tuple[EffectId, ...]) -> None:
    """Stop running attempts whose calls are answered, and bound how long their tasks may still take."""
    if effect_ids:
        kill(step, effect_ids)
        step.start(Teardown(effect_id=step.mint("d"), stopped=effect_ids), OfDrain())
