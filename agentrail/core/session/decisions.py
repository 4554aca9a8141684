"""What people decide: an approval, a rejection, an answer. And what stands in for them: a rule, the clock, the next prompt.

Each function returns the phase that follows. A suspended cycle goes on in the step that decides the last thing it waited
for, and says so with `AgentResumed`.
"""

from typing import Final, Literal

import msgspec

from agentrail.core.policy.gates import hash_arguments
from agentrail.core.protocol.signals import Approve, Asked, Reject, Respond
from agentrail.core.session import batch, calls, cycle, interactions
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.state import BreakOff, Interaction, Next, Phase, Rule
from agentrail.core.session.step_context import StepContext
from agentrail.errors import (
    AgentrailError,
    AnswerNotOffered,
    InvalidArguments,
    InvalidResponse,
    UnknownApproval,
)
from agentrail.events import (
    Approval,
    PermissionOption,
    Question,
    ToolApprovedAlways,
    UserResponded,
)
from agentrail.messages import ApprovalId, JsonObject, QuestionRef

SUPERSEDED: Final = "[Not run: the user went on with another prompt instead of deciding]"


def approve(step: StepContext, phase: Phase, signal: Approve) -> Next:
    """Let the very call run that was shown, or what a person made of it."""
    try:
        interaction = find_approval(step, signal.approval_id)
        state = _call_of(step, interaction)
        arguments = _edited(state, signal.arguments)
        if signal.how == "always":
            hold_offered(interaction, "always")
        if arguments is not None:
            hold_offered(interaction, "edit")
        elif signal.how == "once":
            hold_offered(interaction, "approve")
    except AgentrailError as error:
        return _refuse(step, phase, signal, error)
    interactions.close_interaction(step, interaction, "approved", "user")
    asked = interaction.asked
    assert isinstance(asked, Approval)  # noqa: S101 - of a question an approval is never found
    state = _released(state, interaction)
    abort = None
    if arguments is not None:
        state = msgspec.structs.replace(state, arguments=arguments, edited=True)
        calls.put(step, state)
        state, abort = batch.run_before_tool(step, state, edited=asked)
        # Bound is what the person wrote; or what is shown to it now, because a guard made something else of that.
        state = msgspec.structs.replace(state, bound_to=hash_arguments(state.arguments))
    calls.put(step, state)
    if signal.how == "always" and state.stage == "waiting":
        _always(step, state)
    step.reply(signal.signal_id, None)
    if abort is not None:
        return BreakOff(abort)
    return batch.decided(step, phase, "tool_approved", resume=signal.auto_resume)


def resolve(
    step: StepContext,
    phase: Phase,
    interaction: Interaction,
    decision: Literal["approve", "reject", "always"],
) -> Next:
    """Carry out what a plugin understood from a prompt: a decision that the user gave in words."""
    if decision == "reject":
        interactions.close_interaction(step, interaction, "rejected", "user")
        _answer(step, interaction, "Rejected by the user.")
        return batch.decided(step, phase, "tool_rejected", resume=True)
    interactions.close_interaction(step, interaction, "approved", "user")
    state = _released(_call_of(step, interaction), interaction)
    calls.put(step, state)
    if decision == "always":
        _always(step, state)
    return batch.decided(step, phase, "tool_approved", resume=True)


def reject_call(step: StepContext, phase: Phase, signal: Reject) -> Next:
    """Answer a call with a person's no."""
    try:
        interaction = find_approval(step, signal.approval_id)
        hold_offered(interaction, "reject")
    except AgentrailError as error:
        return _refuse(step, phase, signal, error)
    interactions.close_interaction(step, interaction, "rejected", "user")
    text = f"Rejected by the user: {signal.reason}" if signal.reason else "Rejected by the user."
    _answer(step, interaction, text)
    step.reply(signal.signal_id, None)
    return batch.decided(step, phase, "tool_rejected", resume=signal.auto_resume)


def answer_question(step: StepContext, phase: Phase, signal: Respond) -> Next:
    """Answer a question; or a call that waits for an approval, in place of its tool."""
    try:
        interaction = interactions.find_interaction(step, signal.ref)
        hold_offered(interaction, "respond")
        response = _response(interaction, signal.response)
    except AgentrailError as error:
        return _refuse(step, phase, signal, error)
    is_question = isinstance(interaction.asked, Question)
    interactions.close_interaction(step, interaction, "approved" if is_question else "rejected", "user")
    responded = UserResponded(ref=signal.ref, response=response)
    if interaction.asker is not None:
        step.publish(responded)
        step.reply(interaction.asker, response)
        step.reply(signal.signal_id, None)
        return phase
    _answer(step, interaction, response, responded, is_error=False)
    step.reply(signal.signal_id, None)
    return batch.decided(step, phase, "user_respond", resume=True)


def time_is_up(step: StepContext, phase: Phase, interaction_id: ApprovalId | QuestionRef) -> Next:
    """Answer a call for which no decision came."""
    interaction = next(one for one in step.data.interactions if one.id == interaction_id)
    interactions.close_interaction(step, interaction, "timeout", "timeout")
    if interaction.asker is not None:
        step.reply(interaction.asker, None)
        return phase
    asked = interaction.asked
    assert asked.expires_at_ms is not None  # noqa: S101 - it has a timer
    seconds = f"{(asked.expires_at_ms - asked.requested_at_ms) / 1000:g} s"
    if isinstance(asked, Question):
        text = f"The user did not answer within {seconds}. Go on with your best assumption and say which one it is."
        _answer(step, interaction, text, is_error=False)
    else:
        _answer(step, interaction, f"Not run: nobody approved this call within {seconds}.")
    return batch.decided(step, phase, "tool_approval_timeout", resume=True)


def supersede(step: StepContext) -> None:
    """End a suspended cycle because the user said something else; the calls that waited are answered."""
    for interaction in step.data.interactions:
        interactions.close_interaction(step, interaction, "superseded", "superseded")
        _answer(step, interaction, SUPERSEDED)
    batch.into_history(step)
    cycle.finish(step, "superseded")


def hear_steer(step: StepContext, phase: Phase) -> Next:
    """Stop what a steer stops, so that the model hears of it soon."""
    batch.skip_for_steering(step)
    return batch.decided(step, phase, "steering", resume=True)


def find_approval(step: StepContext, wanted: str) -> Interaction:
    """Find a call that waits for an approval.

    Raises:
        InteractionError: Nothing of this id waits, or it is a question.
    """
    interaction = interactions.find_interaction(step, wanted)
    if isinstance(interaction.asked, Question):
        message = f"{wanted!r} is a question: answer it with respond"
        raise InvalidResponse(message)
    return interaction


def hold_offered(interaction: Interaction, answer: PermissionOption) -> None:
    """Hold an answer against those that are taken; a question takes every one.

    Raises:
        AnswerNotOffered: It is none of them.
    """
    asked = interaction.asked
    if isinstance(asked, Approval) and answer not in asked.permission_options:
        offered = ", ".join(asked.permission_options)
        message = f"{interaction.id!r} does not take {answer!r}: it takes {offered}; the call still waits"
        raise AnswerNotOffered(message)


def find_approval_in_chat(step: StepContext, wanted: str) -> Interaction:
    """Find what a line in the chat means: by its id, or by the command that waits, letter by letter.

    Raises:
        InteractionError: Nothing of this id or command waits, or more than one call does: then only an id can say which.
    """
    waiting = step.data.interactions
    alike = [one for one in waiting if _command_of(one) == wanted]
    # An id comes first: no model may name its command like the id of another call.
    if not alike or any(one.id == wanted for one in waiting):
        return find_approval(step, wanted)
    if len(alike) == 1:
        return alike[0]
    ids = ", ".join(one.id for one in alike)
    message = f"{len(alike)} calls wait with the command {wanted!r}: say the id of one of them, {ids}"
    raise UnknownApproval(message)


def _command_of(interaction: Interaction) -> str | None:
    """Give the command that an approval shows, without the blanks around it."""
    asked = interaction.asked
    command = asked.arguments.get("command") if isinstance(asked, Approval) else None
    return command.strip() if isinstance(command, str) else None


def _call_of(step: StepContext, interaction: Interaction) -> CallState:
    state = calls.find_call(step, interaction.asked.call_id)
    assert state is not None  # noqa: S101 - each interaction belongs to a call that is asking
    return state


def _released(state: CallState, interaction: Interaction) -> CallState:
    """Let a call wait for a slot, bound to what was shown: the hash is that of the moment when it was shown."""
    asked = interaction.asked
    assert isinstance(asked, Approval)  # noqa: S101 - the caller has looked
    return msgspec.structs.replace(state, stage="waiting", bound_to=asked.arguments_hash)


def _edited(state: CallState, arguments: JsonObject | None) -> JsonObject | None:
    """Hold edited arguments against the schema; None when nothing was changed."""
    spec = state.spec
    assert spec is not None  # noqa: S101 - a call without a tool is never asked about
    if arguments is None:
        return None
    completed = spec.with_defaults(arguments)
    faults = spec.faults(completed)
    if faults:
        message = (
            f"these arguments are not as {spec.name!r} takes them: {'; '.join(faults)}; the call still waits"
        )
        raise InvalidArguments(message)
    return None if hash_arguments(completed) == hash_arguments(state.arguments) else completed


def _response(interaction: Interaction, given: str | int) -> str:
    if isinstance(given, str):
        if not given.strip():
            message = "the response is empty: say something, or choose an option by its index"
            raise InvalidResponse(message)
        return given
    options = interaction.asked.options if isinstance(interaction.asked, Question) else ()
    if not 0 <= given < len(options):
        message = (
            f"there is no option {given}: expected 0 to {len(options) - 1}, or a text"
            if options
            else (f"option {given} was chosen and there are no options: answer with a text")
        )
        raise InvalidResponse(message)
    return options[given]


def _answer(
    step: StepContext, interaction: Interaction, text: str, *between: UserResponded, is_error: bool = True
) -> None:
    done, _ = calls.answer(step, _call_of(step, interaction), text, *between, is_error=is_error)
    calls.put(step, done)


def _always(step: StepContext, approved: CallState) -> None:
    """Make a rule of an approval, and judge by it all that waits already; none of arguments that were not shown."""
    if approved.bound_to != hash_arguments(approved.arguments):
        return
    rule = Rule(tool=approved.call.name, family=interactions.family_of(approved.arguments))
    step.data.rules = step.data.rules | {rule}
    step.publish(ToolApprovedAlways(tool=rule.tool, command_family=rule.family))
    for interaction in step.data.interactions:
        asked = interaction.asked
        if not isinstance(asked, Approval) or "always" not in asked.permission_options:
            continue
        if interactions.is_allowed(step.data.rules, asked.tool, asked.arguments):
            interactions.close_interaction(step, interaction, "approved", "rule")
            calls.put(step, _released(_call_of(step, interaction), interaction))


def _refuse(step: StepContext, phase: Phase, signal: Asked, error: AgentrailError) -> Phase:
    step.refuse(signal.signal_id, error)
    return phase
