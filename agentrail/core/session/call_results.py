"""One call of a batch: how it is answered, by its tool or otherwise, and how it is stopped.

Every call publishes exactly one pair of `ToolExecutionStart` and `ToolExecutionEnd`, even if it is refused or
stopped.
"""

from typing import Final

from msgspec.structs import replace

from agentrail.core.protocol.effects import KillTools, Teardown
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import AnswerCall, ToolAnsweredEarly, ToolFinished
from agentrail.core.session.effect_owners import OfDrain, OfStoppedCall
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.recorded_calls import began_call
from agentrail.core.session.state import Known
from agentrail.core.session.step_context import StepContext
from agentrail.events import Event, SubagentEnd, ToolExecutionEnd, ToolExecutionMetrics, ToolExecutionStart
from agentrail.frozen import canonical_json
from agentrail.messages import CallId, JsonValue, ToolResult

OUTCOME_UNKNOWN: Final = "[Outcome unknown: the process stopped while this ran]"


def began_before_drift(data: Known, state: CallState) -> bool:
    """Whether an equal call began before a drift, its end is unknown, and running it twice would do harm."""
    return (
        data.doubtful is not None
        and is_doubtful(state)
        and began_call(state, state.arguments) in data.doubtful.calls
    )


def result_of(state: CallState, text: str, *, is_error: bool = True, details: JsonValue = None) -> ToolResult:
    """Return the result of a call that its tool does not answer."""
    return ToolResult(
        call_id=state.call.call_id, name=state.call.name, text=text, is_error=is_error, details=details
    )


def finished_result(state: CallState, signal: ToolFinished | AnswerCall) -> ToolResult:
    """Return the result of a call from its tool's output, here or at the client. It mentions arguments edited by the user."""
    return ToolResult(
        call_id=state.call.call_id,
        name=state.call.name,
        text=_with_edit(state, signal.text),
        is_error=signal.is_error,
        details=signal.details,
        images=signal.images,
    )


def detached_result(state: CallState, signal: ToolAnsweredEarly) -> ToolResult:
    return result_of(state, _with_edit(state, signal.text), is_error=False, details=signal.details)


def _with_edit(state: CallState, text: str) -> str:
    if not state.edited:
        return text
    ran = canonical_json(state.arguments).decode()
    return f"[The user changed the arguments. What ran: {ran}]\n{text}"


def publish_start(step: StepContext, state: CallState) -> CallState:
    """Publish the start of a call, unless it is published already."""
    if state.started:
        return state
    call = state.call
    effects = None if state.spec is None else state.spec.effect_class
    step.publish(
        ToolExecutionStart(
            name=call.name, call_id=call.call_id, arguments=state.arguments, effect_class=effects
        )
    )
    return replace(state, started=True)


def publish_end(step: StepContext, state: CallState, result: ToolResult) -> None:
    """Publish the end of a call and of its child sessions. For a detached call, publish only the end of its children."""
    for child_id in state.child_ids:
        step.publish(SubagentEnd(child_id=child_id, call_id=result.call_id, result=result))
    if not state.detached:
        publish_answer(step, result)


def publish_answer(step: StepContext, result: ToolResult) -> None:
    step.publish(ToolExecutionEnd(name=result.name, call_id=result.call_id, result=result))


def publish_metrics(step: StepContext, state: CallState, signal: ToolFinished | ToolAnsweredEarly) -> None:
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
    """Answer a call in place of its tool. A call that never began gets its start event here."""
    started = publish_start(step, state)
    for event in between:
        step.publish(event)
    result = result_of(state, text, is_error=is_error, details=details)
    publish_end(step, started, result)
    return replace(started, stage="done", effect_id=None, result=result), result


def put(step: StepContext, state: CallState) -> None:
    step.data.batch = step.data.batch.changed(state)


def find_call(step: StepContext, call_id: CallId) -> CallState | None:
    return step.data.batch.find(call_id)


def one_of_batch(step: StepContext, call_id: CallId) -> CallState:
    state = step.data.batch.find(call_id)
    assert state is not None  # noqa: S101 - the owner of an open effect is in its batch, and the property tests check that
    return state


def is_immune(step: StepContext, state: CallState) -> bool:
    name = state.call.name
    return name in step.data.config.immune_tools or (state.spec is not None and not state.spec.killable)


def survivors_of(step: StepContext) -> tuple[CallId, ...]:
    """Return the running calls without a cycle that have not been stopped since: those spared by aborts and detached ones."""
    return tuple(state.call.call_id for state in step.data.survivors if state.stage == "running")


def is_doubtful(state: CallState) -> bool:
    """Return whether a call that was stopped while running may have taken effect, fully or in part."""
    return state.spec is None or state.spec.effect_class not in {"pure", "idempotent"}


def in_doubt(state: CallState, why: str) -> str:
    """Return a text for a call without an answer from the client, and warn if it may still have taken effect."""
    return f"{why} It may have taken effect; check before repeating." if is_doubtful(state) else why


def kill(step: StepContext, effect_ids: tuple[EffectId, ...]) -> None:
    killed = tuple(one for one in effect_ids if isinstance(step.data.open.get(one), OfStoppedCall))
    if killed:
        step.ask(KillTools(effect_ids=killed))


def drain(step: StepContext, effect_ids: tuple[EffectId, ...]) -> None:
    """Stop running attempts whose calls are answered, and limit the time that their tasks may still take."""
    if effect_ids:
        kill(step, effect_ids)
        step.start(Teardown(effect_id=step.mint("d"), stopped=effect_ids), OfDrain())
