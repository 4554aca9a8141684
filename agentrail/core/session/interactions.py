"""Pending interactions with the user: approvals and questions."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, cast

from msgspec.structs import replace

from agentrail.core.policy.calls import hash_arguments
from agentrail.core.protocol.effects import ClearTimer, SetTimer
from agentrail.core.protocol.signals import SignalId, ToolAsked
from agentrail.core.protocol.tool_questions import ToolQuestion
from agentrail.core.session import approval_rules, call_results
from agentrail.core.session.effect_owners import OfInteraction
from agentrail.core.session.open_calls import CallState, WantedApproval
from agentrail.core.session.state import Interaction, Resolved
from agentrail.core.session.step_context import StepContext
from agentrail.core.values.question_forms import fault_of_form, fault_of_url
from agentrail.errors import AlreadyResolved, ApprovalExpired, CycleAborted, UnknownApproval
from agentrail.events import (
    AgentResumed,
    AgentSuspended,
    Approval,
    ApprovalRequired,
    ApprovalResolved,
    ApprovalStatus,
    AskUser,
    ClientCall,
    DecidedBy,
    PendingClientCall,
    Question,
    ResumeTrigger,
    ToolApprovedAlways,
    WaitingFor,
)
from agentrail.messages import ApprovalId, CallId, ClientCallRef, JsonObject, QuestionRef
from agentrail.structs import picked_fields

_LAST_MS: Final = 2**63 - 1  # the columns of a store have 64 bits
MAX_RESOLVED: Final = 256
"""Number of decided interactions that a session remembers, to tell late decisions from wrong ids."""


def require_approval(step: StepContext, state: CallState, wanted: WantedApproval) -> None:
    approval = Approval(
        id=ApprovalId(_name(step)),
        call_id=state.call.call_id,
        tool=state.call.name,
        arguments=state.arguments,
        arguments_hash=hash_arguments(state.arguments),
        hint=wanted.hint,
        requested_at_ms=step.at_ms,
        expires_at_ms=_end_of(step, wanted.timeout_ms),
        path=step.data.config.path,
        permission_options=wanted.options,
        by="operator" if wanted.by == "operator" else None,
    )
    _open(step, approval, by=wanted.by)
    step.publish(ApprovalRequired(approval=approval))


def wait_for_answer(step: StepContext, state: CallState, timeout_ms: int | None) -> None:
    arguments = state.arguments
    listed = arguments.get("options")
    options = tuple(str(option) for option in listed) if isinstance(listed, list) else ()
    asked = ToolQuestion(
        question=str(arguments.get("question", "")),
        options=options,
        schema=cast("JsonObject | None", arguments.get("schema")),
        url=cast("str | None", arguments.get("url")),
    )
    ask_for_tool(step, state, asked, timeout_ms)


def wait_for_client(step: StepContext, state: CallState, timeout_ms: int | None) -> None:
    """Publish a call with its final arguments for the client, which runs its tool."""
    call = state.call
    pending = PendingClientCall(
        ref=ClientCallRef(_name(step)),
        call_id=call.call_id,
        name=call.name,
        arguments=state.arguments,
        requested_at_ms=step.at_ms,
        expires_at_ms=_end_of(step, timeout_ms),
        path=step.data.config.path,
    )
    _open(step, pending)
    step.publish(ClientCall(ref=pending.ref, name=call.name, call_id=call.call_id, arguments=state.arguments))


def fault_of_question(schema: object, url: object) -> str | None:
    fault = None if schema is None else fault_of_form(schema)
    if fault is not None:
        return f"schema {fault}"
    fault = None if url is None else fault_of_url(url)
    return None if fault is None else f"url {fault}"


def ask_for_tool(
    step: StepContext, state: CallState, asked: ToolAsked | ToolQuestion, timeout_ms: int | None
) -> None:
    """Ask the user a question: for a tool's running call, or for one that waits as data."""
    question = Question(
        ref=QuestionRef(_name(step)),
        call_id=state.call.call_id,
        **picked_fields(asked, "question", "options", "schema", "url"),
        requested_at_ms=step.at_ms,
        expires_at_ms=_end_of(step, timeout_ms),
        path=step.data.config.path,
    )
    asker = asked.signal_id if isinstance(asked, ToolAsked) else None
    _open(step, question, asker=asker)
    step.publish(AskUser(**picked_fields(question, "ref", "question", "options", "schema", "url", "call_id")))


def withdraw(step: StepContext, call_id: CallId) -> None:
    """Close the questions of a tool that no longer runs. A tool that still waits for an answer is refused."""
    for interaction in step.data.interactions:
        if interaction.asker is not None and interaction.asked.call_id == call_id:
            close_interaction(step, interaction, "aborted", "abort")


def find_interaction(step: StepContext, wanted: str) -> Interaction:
    for interaction in step.data.interactions:
        if interaction.id == wanted:
            return interaction
    resolved = next((one for one in step.data.resolved if one.id == wanted), None)
    if resolved is None:
        ids = ", ".join(one.id for one in step.data.interactions) or "none"
        message = f"there is no pending interaction {wanted!r:.200}; pending: {ids}"
        raise UnknownApproval(message)
    if resolved.status == "timeout":
        message = f"{wanted!r} has expired: its call was answered with a timeout"
        raise ApprovalExpired(message, at_ms=resolved.at_ms)
    who = resolved.by if resolved.user is None else f"{resolved.by} {resolved.user}"
    message = f"{wanted!r} was already decided: {resolved.status}, by {who}"
    raise AlreadyResolved(
        message, status=resolved.status, by=resolved.by, at_ms=resolved.at_ms, user=resolved.user
    )


def of_call(step: StepContext, call_id: CallId) -> Interaction:
    return next(one for one in step.data.interactions if one.asked.call_id == call_id and one.asker is None)


def close_interaction(
    step: StepContext,
    interaction: Interaction,
    status: ApprovalStatus,
    by: DecidedBy,
    *,
    user: str | None = None,
) -> None:
    """Decide an interaction, cancel its timer and publish it. A waiting tool is refused if it was aborted or superseded."""
    step.data.interactions = tuple(one for one in step.data.interactions if one is not interaction)
    decided = Resolved(id=interaction.id, status=status, by=by, at_ms=step.at_ms, user=user)
    step.data.resolved = (*step.data.resolved, decided)[-MAX_RESOLVED:]
    if interaction.timer is not None and status != "timeout":  # a timer that fired has ended already
        step.cancel(ClearTimer(effect_id=interaction.timer))
    if interaction.asker is not None and status in {"aborted", "superseded"}:
        step.refuse(interaction.asker, CycleAborted("the call that asked has ended"))
    if isinstance(interaction.asked, Approval):
        step.publish(ApprovalResolved(approval=interaction.asked, status=status, by=by, user=user))


def begin_wait(step: StepContext) -> None:
    """Publish that the cycle waits only for the user."""
    step.suspended = True
    waiting = [
        WaitingFor(kind=kind_of_interaction(one), id=one.id, call_id=one.asked.call_id)
        for one in step.data.interactions
    ]
    step.publish(AgentSuspended(waiting=tuple(waiting)))


def end_wait(step: StepContext, trigger: ResumeTrigger) -> None:
    """Publish that a suspended cycle resumes. Nothing is published if it is not suspended."""
    if step.suspended:
        step.suspended = False
        step.publish(AgentResumed(trigger=trigger))


InteractionKind: TypeAlias = Literal["approval", "question", "client_call"]
_KINDS: Final[Mapping[type, InteractionKind]] = MappingProxyType(
    {Approval: "approval", Question: "question", PendingClientCall: "client_call"}
)


def kind_of_interaction(interaction: Interaction) -> InteractionKind:
    return _KINDS[type(interaction.asked)]


def released(state: CallState, interaction: Interaction) -> CallState:
    """Return the call as waiting for a slot, bound to the hash of the arguments that were shown."""
    asked = interaction.asked
    assert isinstance(asked, Approval)  # noqa: S101 - the caller checked it
    return replace(state, stage="waiting", bound_to=asked.arguments_hash)


def allow_always(step: StepContext, approved: CallState) -> tuple[Interaction, ...]:
    """Create a rule from an approval, and approve all pending calls that it covers. Arguments not shown make no rule.

    Changed arguments of the user keep waiting for the user.
    """
    if approved.bound_to != hash_arguments(approved.arguments):
        return ()
    decided: list[Interaction] = []
    shown = approval_rules.shown_text(step, approved)
    rule = approval_rules.allow(step, approved.call.name, approved.arguments, shown)
    step.publish(
        ToolApprovedAlways(tool=rule.tool, command_family=rule.family, exact=rule.exact, shown=rule.shown)
    )
    for interaction in step.data.interactions:
        asked = interaction.asked
        if not isinstance(asked, Approval) or "always" not in asked.permission_options:
            continue
        state = call_results.one_of_batch(step, asked.call_id)
        # The arguments shown are not those that the user wrote, and no rule covers them.
        if state.stage == "asking" and state.bound_to is not None:
            continue
        shown = approval_rules.shown_text(step, state)
        if approval_rules.is_allowed(step.data.rules, asked.tool, asked.arguments, shown):
            close_interaction(step, interaction, "approved", "rule")
            call_results.put(step, released(state, interaction))
            decided.append(interaction)
    return tuple(decided)


def rearm(step: StepContext, expired: Collection[Interaction] = ()) -> None:
    """Set the timers again after a restart, since those of the old actor are lost. Expired ones are closed next and get none."""
    renewed: list[Interaction] = []
    for interaction in step.data.interactions:
        if interaction.timer is not None:
            step.ended(interaction.timer)
        until = None if interaction in expired else interaction.asked.expires_at_ms
        renewed.append(_timed(step, interaction, until))
    step.data.interactions = tuple(renewed)


def _open(
    step: StepContext,
    asked: Approval | Question | PendingClientCall,
    asker: SignalId | None = None,
    by: str | None = None,
) -> None:
    opened = Interaction(asked=asked, timer=None, asker=asker, by=by)
    step.data.interactions = (*step.data.interactions, _timed(step, opened, asked.expires_at_ms))


def _end_of(step: StepContext, timeout_ms: int | None) -> int | None:
    """Return the end of a time limit. None without a limit, or with a longer one than a store can keep."""
    end_ms = None if timeout_ms is None else step.at_ms + timeout_ms
    return None if end_ms is None or end_ms > _LAST_MS else end_ms


def _timed(step: StepContext, interaction: Interaction, at_ms: int | None) -> Interaction:
    if at_ms is None:
        return replace(interaction, timer=None)
    timer = step.mint("w")
    step.start(SetTimer(effect_id=timer, at_ms=at_ms), OfInteraction(interaction.id))
    return replace(interaction, timer=timer)


def _name(step: StepContext) -> str:
    # The session id is part of it, so that an answer given through a parent finds the right child.
    return f"{step.data.config.session_id}/{step.mint('a')}"
