"""Calls on running work: stopping it, decisions on pending approvals and questions, request status."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

from msgspec import UNSET

from agentrail.abc import Error, Ok
from agentrail.core.policy.prompt_settings import with_cost_limit
from agentrail.errors import StopNotWritten, ToolContractError
from agentrail.frozen import thawed
from agentrail.gateway.error_responses import answer_to, refuse_call
from agentrail.gateway.request_bodies import AbortBody, ApproveBody, CancelBody
from agentrail.gateway.request_parser import refuse_field
from agentrail.gateway.response_bodies import (
    ApprovalDecided,
    CallStopped,
    CancelReply,
    QuestionAnswered,
    RequestReply,
    ShownApproval,
    StopUnwritten,
    as_given,
)
from agentrail.gateway.whole_answer import WholeAnswer, answer_json
from agentrail.host import HandledResponse, Host, Principal, RequestRecord
from agentrail.host.approval_preview import read_approval
from agentrail.host.identity import SessionOwner
from agentrail.runtime.arguments import decide_settings
from agentrail.runtime.session_handle import Session
from agentrail.structs import picked_fields, struct_from
from agentrail.wire.form_fields import encode_receipt
from agentrail.wire.operations import GO_ON, AnswerBody, Operation, RespondBody

R = TypeVar("R")

MAX_WAIT_SECONDS: Final = 300
"""Time limit for waiting for the end of a request."""


AskedSession: TypeAlias = Literal["any", "root", "to_decide", "to_read"]
"""Sessions that a call accepts: any of the caller's, a root, one whose pending interactions the caller may decide, or also an ended one."""


async def call_session(  # noqa: PLR0913 - the caller, the call and its arguments
    operation: Operation[R],
    host: Host,
    principal: Principal,
    session_id: str,
    given: Mapping[str, Any],
    *,
    asks: AskedSession = "any",
    via: str = "http",
) -> R:
    match asks:
        case "to_decide":
            session = await host.session_to_decide(session_id, principal)
        case "to_read":
            session = await host.session_to_read(session_id, principal)
        case _:
            session = await host.session(session_id, principal, only_root=asks == "root")
    if operation is GO_ON:  # a cycle like that of a message, which `host.submit` would limit
        await host.budgets.check(SessionOwner.of(principal))
        settings, most_usd = decide_settings(given["settings"]), host.budgets.cost_per_cycle_usd
        if most_usd is not None:
            settings = with_cost_limit(settings, most_usd)
        given = {**given, "settings": settings}
    known = {"user": principal.user_id, "via": via}
    local = {name: known[name] for name in operation.local if name in known}
    return cast("R", await getattr(session, operation.name)(**given, **local))


async def abort_session(
    host: Host, principal: Principal, session_id: str, body: AbortBody, *, wait: bool = False
) -> WholeAnswer:
    if body.call_id is not None and (body.clear_queue or body.kill_tools != "killable"):
        refuse_field("call_id", "stops one call: omit clear_queue and kill_tools")
    session = await host.session(session_id, principal)
    try:
        if body.call_id is not None:
            await session.abort_tool(body.call_id, body.reason)
            return answer_json(CallStopped(call_id=body.call_id), 200 if wait else 202)
        receipt = await session.abort(
            body.reason, kill_tools=body.kill_tools, clear_queue=body.clear_queue, wait=wait
        )
    except StopNotWritten as error:
        return answer_json(StopUnwritten(detail=answer_to(error).message), 202)
    return WholeAnswer(status=200 if wait else 202, body=encode_receipt(receipt))


async def accept_approval(
    host: Host, principal: Principal, session_id: str, body: ApproveBody
) -> WholeAnswer:
    session = await host.session_to_decide(session_id, principal)
    if body.arguments_hash is not None:
        await _check_hash(session, body.approval_id, body.arguments_hash)
    await session.approve(
        body.approval_id,
        kind=body.kind,
        arguments=body.arguments,
        auto_resume=body.auto_resume,
        user=principal.user_id,
    )
    return answer_json(ApprovalDecided(approval_id=body.approval_id))


async def _check_hash(session: Session, approval_id: str, arguments_hash: str) -> None:
    # An id always has the same hash, so there is no race. If it is not pending, the session reports why.
    asked = [one for one in (await session.status()).all_approvals if one.id == approval_id]
    if asked and asked[0].arguments_hash != arguments_hash:
        refuse_call(
            "approval_mismatch",
            "the call's arguments do not match this hash",
            hint="read the approval again, and show it to the user",
            more={"arguments_hash": asked[0].arguments_hash},
        )


async def read_shown_approval(
    host: Host, principal: Principal, session_id: str, approval_id: str
) -> WholeAnswer:
    session = await host.session_to_decide(session_id, principal)
    page = await read_approval(session, approval_id)
    asked, form = page.form.approval, page.form
    return answer_json(
        ShownApproval(
            **picked_fields(asked, "call_id", "tool", "arguments_hash", "permission_options"),
            **picked_fields(asked, "requested_at_ms", "expires_at_ms"),
            **picked_fields(form, "arguments_text", "by", "effect", "always"),
            **picked_fields(page, "preview", "path", "first_words"),
            approval_id=asked.id,
            arguments=thawed(asked.arguments),
            reason=asked.hint,
            schema=None if form.schema is None else thawed(form.schema),
        )
    )


async def respond_to_question(
    host: Host, principal: Principal, session_id: str, body: RespondBody
) -> WholeAnswer | HandledResponse:
    """POST /sessions/{id}/respond. Interceptors see it: it carries a user's words."""
    handled = await host.respond(session_id, body.ref, body.response, principal)
    return answer_json(QuestionAnswered(ref=body.ref)) if handled is None else handled


async def answer_client_call(session: Session, body: AnswerBody) -> None:
    outcome: Ok | Error
    if body.is_error:
        if body.images:
            refuse_field("images", "belong to a result only: omit them for an error")
        outcome = Error(text=body.text, details=body.details)
    else:
        try:
            outcome = Ok(text=body.text, details=body.details, images=body.images)
        except ToolContractError as error:
            refuse_field("images", f"is invalid: {error}")
    await session.answer(body.ref, outcome)


# --- requests


async def read_request(
    host: Host, principal: Principal, session_id: str, request_id: str, *, wait: float = 0.0
) -> WholeAnswer | None:
    """Return the status of a request. None: it continues on another node."""
    if wait > 0:
        within = min(wait, MAX_WAIT_SECONDS)
        record = await host.wait_for_request(session_id, request_id, principal, within=within)
    else:
        record = await host.request(session_id, request_id, principal)
    return None if record.has_moved else answer_json(reply_of_request(record))


async def cancel_request(
    host: Host, principal: Principal, session_id: str, request_id: str, body: CancelBody
) -> WholeAnswer:
    await host.cancel_request(session_id, request_id, principal, body.reason)
    return answer_json(CancelReply(request_id=request_id), 202)


def reply_of_request(record: RequestRecord) -> RequestReply:
    return struct_from(
        RequestReply,
        record,
        text=record.text if record.has_ended else UNSET,
        usage=as_given(record.usage),
        cost_usd=as_given(record.cost_usd),
        stop_reason=as_given(record.stop_reason),
        error=as_given(record.error),
        reason=as_given(record.reason),
        pending=record.pending or UNSET,
    )
