"""Decisions about pending interactions: by the user, or in place of the user by a rule, the clock or the next prompt.

Each function returns the next phase.
"""

from collections.abc import Mapping
from typing import Final, Literal, cast

from msgspec.structs import replace

from agentrail.core.policy.calls import hash_arguments
from agentrail.core.protocol.signals import Approve, Asked, Decline, Reject, Respond
from agentrail.core.session import batch, call_approval, call_results, cycle, interactions
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.state import BreakOff, Interaction, Next, Phase
from agentrail.core.session.step_context import StepContext
from agentrail.core.values.question_forms import read_form
from agentrail.errors import (
    AgentrailError,
    AnswerNotOffered,
    InvalidArguments,
    InvalidResponse,
    QuestionDeclined,
    UnknownApproval,
)
from agentrail.events import (
    Approval,
    ApprovalStatus,
    PendingClientCall,
    PermissionOption,
    Question,
    UserDeclined,
    UserResponded,
)
from agentrail.frozen import canonical_json
from agentrail.messages import ApprovalId, ClientCallRef, JsonObject, JsonValue, QuestionRef

_OF_CLIENT: Final = "a call of the client: answer it with answer"
SUPERSEDED_AT_CLIENT: Final = "The user went on with another prompt, and the client did not answer."
SUPERSEDED_IN_QUESTION: Final = "The user went on with another prompt instead of answering the tool."
SUPERSEDED: Final = "[Not run: the user went on with another prompt instead of deciding]"


def approve(step: StepContext, phase: Phase, signal: Approve) -> Next:
    """Run the call exactly as it was shown, or with the user's edited arguments."""
    try:
        interaction = find_approval(step, signal.approval_id)
        arguments = _edited(_call_of(step, interaction), signal.arguments)
        if signal.how == "always":
            hold_offered(interaction, "always")
        if arguments is not None:
            hold_offered(interaction, "edit")
        elif signal.how == "once":
            hold_offered(interaction, "approve")
    except AgentrailError as error:
        return _refuse(step, phase, signal, error)
    abort = _release(step, interaction, arguments, always=signal.how == "always", user=signal.user)
    step.reply(signal.signal_id, None)
    return _go_on(step, abort, resume=signal.auto_resume)


def resolve(
    step: StepContext,
    interaction: Interaction,
    decision: Literal["approve", "reject", "always"],
) -> Next:
    """Apply a decision that a plugin recognised in a prompt: the user gave it in words."""
    if decision == "reject":
        interactions.close_interaction(step, interaction, "rejected", "user")
        _answer(step, interaction, "Rejected by the user.")
        return batch.decided(step, "tool_rejected", resume=True)
    return _go_on(step, _release(step, interaction, always=decision == "always"), resume=True)


def _release(
    step: StepContext,
    interaction: Interaction,
    arguments: JsonObject | None = None,
    *,
    always: bool,
    user: str | None = None,
) -> str | None:
    """Let an approved call run, if the plugins allow it. Return why one of them aborts the cycle."""
    interactions.close_interaction(step, interaction, "approved", "user", user=user)
    state, asked = interactions.released(_call_of(step, interaction), interaction), interaction.asked
    assert isinstance(asked, Approval)  # noqa: S101 - only approvals are approved
    is_edited = arguments is not None
    if arguments is not None:
        state = replace(state, arguments=arguments, edited=True)
    call_results.put(step, state)
    state, abort = call_approval.check_decided(step, state, asked, always=always, is_edited=is_edited)
    call_results.put(step, state)
    if always and state.stage == "waiting" and abort is None:
        abort = call_approval.allow_from_now_on(step, state)
    return abort


def _go_on(step: StepContext, abort: str | None, *, resume: bool) -> Next:
    """Continue after an approval, unless a plugin that judged the call aborts the cycle."""
    if abort is not None:
        interactions.end_wait(step, "tool_approved")
        return BreakOff(abort)
    return batch.decided(step, "tool_approved", resume=resume)


def reject_call(step: StepContext, phase: Phase, signal: Reject) -> Next:
    try:
        interaction = find_approval(step, signal.approval_id)
        hold_offered(interaction, "reject")
    except AgentrailError as error:
        return _refuse(step, phase, signal, error)
    interactions.close_interaction(step, interaction, "rejected", "user", user=signal.user)
    text = f"Rejected by the user: {signal.reason}" if signal.reason else "Rejected by the user."
    _answer(step, interaction, text)
    step.reply(signal.signal_id, None)
    return batch.decided(step, "tool_rejected", resume=signal.auto_resume)


def answer_question(step: StepContext, phase: Phase, signal: Respond) -> Next:
    """Answer a question, or a call that waits for an approval, in place of its tool."""
    try:
        interaction = interactions.find_interaction(step, signal.ref)
        hold_offered(interaction, "respond")
        response = _response(interaction, signal.response)
    except AgentrailError as error:
        return _refuse(step, phase, signal, error)
    is_question = isinstance(interaction.asked, Question)
    status: ApprovalStatus = "approved" if is_question else "rejected"
    interactions.close_interaction(step, interaction, status, "user", user=signal.user)
    responded = UserResponded(ref=signal.ref, response=response, user=signal.user)
    if interaction.asker is not None:
        step.publish(responded)
        step.reply(interaction.asker, response)
        step.reply(signal.signal_id, None)
        return phase
    said = cast("JsonValue", response)
    if not _resumed(step, interaction, "answered", responded, answer=said):
        text = response if isinstance(response, str) else canonical_json(response).decode()
        details = None if isinstance(response, str) else said
        _answer(step, interaction, text, responded, is_error=False, details=details)
    step.reply(signal.signal_id, None)
    return batch.decided(step, "user_respond", resume=True)


def decline_question(step: StepContext, phase: Phase, signal: Decline) -> Next:
    """Answer a question with the user's refusal, and notify the call or tool that asked."""
    try:
        interaction = interactions.find_interaction(step, signal.ref)
        if not isinstance(interaction.asked, Question):
            is_approval = isinstance(interaction.asked, Approval)
            way = "an approval: refuse it with reject" if is_approval else f"{_OF_CLIENT}(ref, Error(…))"
            message = f"{signal.ref!r} is {way}; the call still waits"
            raise InvalidResponse(message)
    except AgentrailError as wrong:
        return _refuse(step, phase, signal, wrong)
    interactions.close_interaction(step, interaction, "rejected", "user", user=signal.user)
    declined = UserDeclined(ref=signal.ref, reason=signal.reason, user=signal.user)
    error = QuestionDeclined(signal.reason)
    if interaction.asker is not None:
        step.publish(declined)
        step.refuse(interaction.asker, error)
        step.reply(signal.signal_id, None)
        return phase
    if not _resumed(step, interaction, "declined", declined):
        _answer(step, interaction, str(error), declined, is_error=False)
    step.reply(signal.signal_id, None)
    return batch.decided(step, "user_decline", resume=True)


def time_is_up(
    step: StepContext, phase: Phase, interaction_id: ApprovalId | QuestionRef | ClientCallRef
) -> Next:
    """Answer a call for which no decision came in time."""
    interaction = next(one for one in step.data.interactions if one.id == interaction_id)
    interactions.close_interaction(step, interaction, "timeout", "timeout")
    if interaction.asker is not None:
        step.reply(interaction.asker, None)
        return phase
    asked = interaction.asked
    assert asked.expires_at_ms is not None  # noqa: S101 - it has a timer
    seconds = f"{(asked.expires_at_ms - asked.requested_at_ms) / 1000:g} s"
    if isinstance(asked, Question):
        closed = UserDeclined(ref=asked.ref, reason=f"no answer within {seconds}")
        if _resumed(step, interaction, "timeout", closed):
            return batch.decided(step, "tool_approval_timeout", resume=True)
    if isinstance(asked, PendingClientCall):
        why = f"The client did not answer within {seconds}."
        _answer(step, interaction, call_results.in_doubt(_call_of(step, interaction), why))
    elif isinstance(asked, Question):
        text = f"The user did not answer within {seconds}. Go on with your best assumption and say which one it is."
        _answer(step, interaction, text, is_error=False)
    else:
        _answer(step, interaction, f"Not run: nobody approved this call within {seconds}.")
    return batch.decided(step, "tool_approval_timeout", resume=True)


def supersede(step: StepContext) -> None:
    """End a suspended cycle because of a new prompt, and answer the calls that waited."""
    for interaction in step.data.interactions:
        interactions.close_interaction(step, interaction, "superseded", "superseded")
        state = _call_of(step, interaction)
        text = SUPERSEDED
        if isinstance(interaction.asked, PendingClientCall):
            text = call_results.in_doubt(state, SUPERSEDED_AT_CLIENT)
        elif state.resumption is not None:
            text = call_results.in_doubt(state, SUPERSEDED_IN_QUESTION)
        _answer(step, interaction, text)
    batch.into_history(step)
    interactions.end_wait(step, "superseded")
    cycle.finish(step, "superseded")


def hear_steer(step: StepContext) -> Next:
    """Skip calls because of a steer, so that the model reads it soon."""
    batch.skip_for_steering(step)
    return batch.decided(step, "steering", resume=True)


def find_approval(step: StepContext, wanted: str) -> Interaction:
    interaction = interactions.find_interaction(step, wanted)
    if not isinstance(interaction.asked, Approval):
        is_question = isinstance(interaction.asked, Question)
        way = "a question: answer it with respond" if is_question else f"{_OF_CLIENT}(ref, Ok(…) or Error(…))"
        message = f"{wanted!r} is {way}"
        raise InvalidResponse(message)
    return interaction


def hold_offered(interaction: Interaction, answer: PermissionOption) -> None:
    """Check that an answer is among the accepted ones. A question accepts every answer."""
    asked = interaction.asked
    if isinstance(asked, Approval) and answer not in asked.permission_options:
        offered = ", ".join(asked.permission_options)
        message = f"{interaction.id!r} does not take {answer!r}: it takes {offered}; the call still waits"
        raise AnswerNotOffered(message)


def find_approval_in_chat(step: StepContext, wanted: str) -> Interaction:
    """Return the approval that a line in the chat refers to: by its id, or by its command, letter by letter."""
    waiting = step.data.interactions
    alike = [one for one in waiting if _command_of(one) == wanted]
    # The id wins: a model must not name its command like the id of another call.
    if not alike or any(one.id == wanted for one in waiting):
        return find_approval(step, wanted)
    if len(alike) == 1:
        return alike[0]
    ids = ", ".join(one.id for one in alike)
    message = f"{len(alike)} calls wait with the command {wanted!r}: give the id of one of them, {ids}"
    raise UnknownApproval(message)


def _command_of(interaction: Interaction) -> str | None:
    asked = interaction.asked
    command = asked.arguments.get("command") if isinstance(asked, Approval) else None
    return command.strip() if isinstance(command, str) else None


def _call_of(step: StepContext, interaction: Interaction) -> CallState:
    state = call_results.find_call(step, interaction.asked.call_id)
    assert state is not None  # noqa: S101 - each interaction belongs to a call that is asking
    return state


def _edited(state: CallState, arguments: JsonObject | None) -> JsonObject | None:
    spec = state.spec
    assert spec is not None  # noqa: S101 - a call without a tool never needs an approval
    if arguments is None:
        return None
    completed = spec.with_defaults(arguments)
    faults = spec.faults(completed)
    if faults:
        message = f"these arguments do not fit {spec.name!r}: {'; '.join(faults)}; the call still waits"
        raise InvalidArguments(message)
    return None if hash_arguments(completed) == hash_arguments(state.arguments) else completed


def _response(interaction: Interaction, given: str | int | JsonObject) -> str | JsonObject:
    if isinstance(interaction.asked, PendingClientCall):
        message = f"{interaction.id!r} is {_OF_CLIENT}(ref, Ok(…) or Error(…)); it still waits"
        raise InvalidResponse(message)
    schema = interaction.asked.schema if isinstance(interaction.asked, Question) else None
    if schema is not None:
        read = read_form(schema, given)
        if isinstance(read, str):
            message = f"{interaction.id!r} cannot be answered with that: {read}; it still waits"
            raise InvalidResponse(message)
        return read
    if isinstance(given, Mapping):
        message = (
            f"{interaction.id!r} is not a form: expected a text, or the index of an option; it still waits"
        )
        raise InvalidResponse(message)
    if isinstance(given, str):
        if not given.strip():
            message = "the response is empty: give a text, or the index of an option"
            raise InvalidResponse(message)
        return given
    options = interaction.asked.options if isinstance(interaction.asked, Question) else ()
    if not 0 <= given < len(options):
        message = (
            f"there is no option {given}: expected 0 to {len(options) - 1}, or a text"
            if options
            else (f"option {given} was chosen, but there are no options: answer with a text")
        )
        raise InvalidResponse(message)
    return options[given]


def _resumed(
    step: StepContext,
    interaction: Interaction,
    outcome: Literal["answered", "declined", "timeout"],
    *between: UserResponded | UserDeclined,
    answer: JsonValue = None,
) -> bool:
    """Let a call run again with the answer to its tool's question. Return whether its tool asked one."""
    state = _call_of(step, interaction)
    if state.resumption is None:
        return False
    for event in between:
        step.publish(event)
    resumption = replace(state.resumption, outcome=outcome, answer=answer)
    call_results.put(step, replace(state, stage="waiting", resumption=resumption))
    return True


def _answer(
    step: StepContext,
    interaction: Interaction,
    text: str,
    *between: UserResponded | UserDeclined,
    is_error: bool = True,
    details: JsonValue = None,
) -> None:
    state = _call_of(step, interaction)
    done, _ = call_results.answer(step, state, text, *between, is_error=is_error, details=details)
    call_results.put(step, done)


def _refuse(step: StepContext, phase: Phase, signal: Asked, error: AgentrailError) -> Phase:
    step.refuse(signal.signal_id, error)
    return phase
