"""Routes that carry a user's message: `/chat`, `/stream`, `/sessions/{id}/prompt` and `/sessions/{id}/steer`."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from attrs import evolve
from msgspec.structs import replace

from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.errors import ErrorInfo, PromptRefused, StoreUnavailable
from agentrail.gateway.error_responses import (
    CallRefused,
    ErrorAnswer,
    answer_to,
    answer_to_abort,
    answer_to_failure,
    error_answer,
)
from agentrail.gateway.path_endpoint import CallRoute, Gateway, Result, RouteCall, SessionMoved
from agentrail.gateway.request_bodies import ChatBody, SteerBody
from agentrail.gateway.request_parser import check_own_data, check_same_session, decode_files, named_by_client
from agentrail.gateway.response_bodies import ChatReply, ChatWaiting, CommandDone, SteerReply
from agentrail.gateway.route_errors import MESSAGE
from agentrail.gateway.socket_bodies import PromptCommandBody
from agentrail.gateway.sse_frames import ContextUse, DoneReason
from agentrail.gateway.stream_reader import StreamReader
from agentrail.gateway.streams import EventStream
from agentrail.gateway.whole_answer import WholeAnswer, answer_json
from agentrail.host.attachments import Attachment
from agentrail.host.hook_payloads import ChatRequest, HandledResponse, Principal, RequestKind, RequestOutcome
from agentrail.host.requests import HostRequest, MessageReceipt, RequestRecord
from agentrail.messages import SessionId
from agentrail.runtime.arguments import Blocks, decide_blocks, decide_settings, words_in_blocks
from agentrail.wire.form_fields import AcceptedForm, encode_accepted

# --- in


async def submit(call: RouteCall, kind: RequestKind, session_id: str | None) -> HandledResponse | HostRequest:
    """Submit a message to the host. A disconnect of the client is reported to its request."""
    body: ChatBody = call.body
    request = _request_of(call, body, session_id)
    content, settings, trace = _more_of(call, body)
    if content is not None:
        request = evolve(request, message=words_in_blocks(content))
    files = await _files_of(body, call.gateway)
    submitted = await call.host.submit(
        request,
        call.principal,
        kind=kind,
        attachments=files,
        when_busy=body.when_busy or "queue",
        on_disconnect=body.on_disconnect,
        via=call.via,
        webhook=body.webhook,
        content=content,
        settings=settings,
        history=body.history,
        keep=body.keep,
        trace=trace,
    )
    if isinstance(submitted, HostRequest) and kind != "prompt":  # a prompting client may leave
        call.on_left, call.request = submitted.caller_left, submitted
    return submitted


def _request_of(call: RouteCall, body: ChatBody | SteerBody, session_id: str | None) -> ChatRequest:
    said: dict[str, Any] = {"client_id": named_by_client(body.client_id, call.client_id)}
    if isinstance(body, ChatBody):
        said |= {"agent_id": body.agent_id or "", "mode": body.mode, "metadata": body.metadata}
    return user_message(call.principal, body.message, session_id, **said)


def own_request(call: RouteCall, message: str, session_id: str | None, **more: Any) -> ChatRequest:
    """Return a message of the caller, whose metadata was not checked before."""
    check_own_data(more.get("metadata", {}), call.gateway.limits)  # before it is copied
    return user_message(call.principal, message, session_id, **more)


def user_message(
    who: Principal, message: str, session_id: str | None, *, agent_id: str = "", **more: Any
) -> ChatRequest:
    """Return a message of a user to a session, or to a new one."""
    return ChatRequest(
        message=message,
        tenant_id=who.tenant_id,
        user_id=who.user_id,
        agent_id=agent_id,
        session_id=None if session_id is None else SessionId(session_id),
        **more,
    )


def _more_of(
    call: RouteCall, body: ChatBody
) -> tuple[Blocks | None, PromptSettings | None, Mapping[str, Any] | None]:
    if not isinstance(body, PromptCommandBody):
        return None, None, call.trace
    content = None if body.content is None else decide_blocks(body.content)
    return content, decide_settings(body.settings), body.trace


async def _files_of(body: ChatBody, gateway: Gateway) -> tuple[Attachment, ...]:
    if not body.attachments:
        return ()
    size = sum(len(file.base64) for file in body.attachments)
    return await gateway.read_aside(partial(decode_files, body, gateway.limits), size)


# --- out


def headers_of(request: HostRequest) -> dict[str, str]:
    named = {"x-session-id": request.session_id, "x-request-id": request.request_id}
    repairs = len(request.repairs)
    return named if not repairs else {**named, "x-history-repairs": str(repairs)}


def location_of(sessions: str, request: HostRequest) -> dict[str, str]:
    return {"location": quote(f"{sessions}/{request.session_id}/requests/{request.request_id}")}


def _place(call: RouteCall, ending: str, request: HostRequest) -> dict[str, str]:
    return location_of(call.head.path.removesuffix(f"/{call.params['session_id']}/{ending}"), request)


def answer_to_record(record: RequestRecord) -> WholeAnswer | ErrorAnswer:
    match record.outcome:
        case "completed":
            told = ChatReply(
                session_id=record.session_id,
                request_id=record.request_id,
                text=record.text,
                usage=record.usage,
                cost_usd=record.cost_usd,
                stop_reason=record.stop_reason,
                seq=record.end_seq,
                context=_context_use_of(record),
            )
            return answer_json(told)
        case None:
            status: Any = record.status  # one of the three that are not an outcome
            waiting = ChatWaiting(
                session_id=record.session_id,
                request_id=record.request_id,
                status=status,
                pending=record.pending,
                after=max(record.seq - 1, 0),
            )
            return answer_json(waiting, 202)
        case "failed" if record.error is not None:
            return answer_to_failure(record.error, record.text)
        case "aborted":
            return answer_to_abort(record.reason, record.text)
        case "dropped":
            return error_answer(
                "aborted", "the prompt was taken out of the queue", more={"reason": record.reason, "text": ""}
            )
        case "refused":
            return error_answer(
                "prompt_rejected", f"a plugin of the session refused this message: {record.reason}"
            )
        case "shutdown":
            return error_answer("draining", "the server is shutting down")
        case _:
            message = f"the request failed: {record.reason or 'its session was abandoned'}"
            return error_answer("cycle_failed", message, more={"text": record.text})


_REASONS_OF_DONE: Final[MappingProxyType[RequestOutcome, DoneReason]] = MappingProxyType(
    {
        "completed": "completed",
        "aborted": "aborted",
        "failed": "failed",
        "not_found": "failed",
        "refused": "refused",
        "dropped": "dropped",
        "shutdown": "shutdown",
    }
)


def finish_with(reader: StreamReader, record: RequestRecord) -> None:
    """End a stream as the request ended that it shows."""
    outcome = record.outcome
    assert outcome is not None  # noqa: S101 - it has ended
    is_complete = outcome == "completed"
    reader.finish(
        "moved" if record.has_moved else _REASONS_OF_DONE[outcome],
        behind=record.end_seq or 0,
        request_id=record.request_id,
        usage=record.usage if is_complete else None,
        context=_context_use_of(record) if is_complete else None,
        error=record.error,
        detail=record.reason,
    )


def _context_use_of(record: RequestRecord) -> ContextUse:
    tokens = None if record.last_usage is None else record.last_usage.input
    return ContextUse(tokens=tokens, window=record.context_window)


def _named(answer: WholeAnswer | ErrorAnswer, request: HostRequest) -> WholeAnswer:
    if isinstance(answer, WholeAnswer):
        return evolve(answer, headers={**answer.headers, **headers_of(request)})
    more = {**answer.more, "session_id": request.session_id, "request_id": request.request_id}
    raise CallRefused(evolve(answer, more=more, headers={**answer.headers, **headers_of(request)}))


# --- handlers

_ANSWER_LATER: Final = "the message was accepted, and its answer follows when the store is back: poll GET /sessions/{session_id}/requests/{request_id}, or send the message again with the same client_id"
"""Advice for a client whose request waits for the store. Another message would be another request."""


async def answer_chat(call: RouteCall) -> Result:
    submitted = await submit(call, "chat", call.body.session_id)
    if isinstance(submitted, HandledResponse):
        return submitted
    location = location_of(f"{call.head.path.removesuffix('/chat')}/sessions", submitted)
    try:
        record = await submitted.answered(call.gateway.chat_timeout)
    except StoreUnavailable as error:
        away = answer_to(error)
        return _named(evolve(away, hint=_ANSWER_LATER, headers={**away.headers, **location}), submitted)
    if record.has_moved:
        if named_by_client(call.body.client_id, call.client_id) is not None:
            raise SessionMoved
        record = replace(record, status="running", reason=None)
    answer = _named(answer_to_record(record), submitted)
    return answer if record.has_ended else evolve(answer, headers={**answer.headers, **location})


async def answer_stream(call: RouteCall) -> Result:
    submitted = await submit(call, "stream", call.body.session_id)
    if isinstance(submitted, HandledResponse):
        return submitted

    async def follow(reader: StreamReader) -> None:
        try:
            await submitted.outcome()
        except StoreUnavailable as error:
            told = answer_to(error)
            info = ErrorInfo(code=told.code, message=told.message)
            reader.finish(
                "store_unavailable", request_id=submitted.request_id, error=info, detail=_ANSWER_LATER
            )
        else:
            finish_with(reader, submitted.record)

    return EventStream(
        session=submitted.session,
        after=max(submitted.receipt.seq - 1, 0),
        follow=follow,
        headers=headers_of(submitted),
    )


async def answer_prompt(call: RouteCall) -> Result:
    session_id = call.params["session_id"]
    check_same_session(call.body, session_id)
    submitted = await submit(call, "prompt", session_id)
    if isinstance(submitted, HandledResponse):
        return submitted
    receipt = submitted.receipt
    if isinstance(receipt, PromptReceipt):
        told: object = encode_accepted(receipt, submitted.request_id)
    else:
        told = _steered(receipt, submitted)
    return answer_json(told, 202, {**headers_of(submitted), **_place(call, "prompt", submitted)})


async def answer_steer(call: RouteCall) -> Result:
    request = _request_of(call, call.body, call.params["session_id"])
    steered = await call.host.steer(request, call.principal, via=call.via)
    match steered:
        case HandledResponse():
            return steered
        case HostRequest():
            headers = {**headers_of(steered), **_place(call, "steer", steered)}
            return answer_json(_steered(steered.receipt, steered), 202, headers)
        case _:
            if steered.status == "rejected_by_plugin":
                reason = "it does not let this session be steered"
                raise PromptRefused(reason)
            told = SteerReply(ref=steered.ref, status=steered.status, seq=steered.seq)
            return answer_json(told, 202)


def _steered(receipt: MessageReceipt, request: HostRequest) -> SteerReply:
    status = receipt.status if isinstance(receipt, SteerReceipt) else "became_prompt"
    return SteerReply(ref=receipt.ref, status=status, seq=receipt.seq, request_id=request.request_id)


CHAT_ROUTES: Final = (
    CallRoute(
        "POST",
        "/chat",
        answer_chat,
        does="sends a message and waits for the answer",
        operation="chat",
        body=ChatBody,
        replies={200: (ChatReply, CommandDone), 202: ChatWaiting},
        refusals=f"{MESSAGE} aborted cycle_failed provider_error timeout",
        asks_plugins=True,
    ),
    CallRoute(
        "POST",
        "/stream",
        answer_stream,
        does="sends a message and streams its cycle as server-sent events",
        operation="stream",
        body=ChatBody,
        is_stream=True,
        replies={},
        refusals=MESSAGE,
        asks_plugins=True,
    ),
    CallRoute(
        "POST",
        "/sessions/{session_id}/prompt",
        answer_prompt,
        does="sends a message and returns once the session has accepted it",
        operation="prompt",
        body=ChatBody,
        success=202,
        replies={202: (AcceptedForm, SteerReply)},
        refusals=MESSAGE,
        asks_plugins=True,
    ),
    CallRoute(
        "POST",
        "/sessions/{session_id}/steer",
        answer_steer,
        does="steers the running cycle",
        operation="steer",
        body=SteerBody,
        success=202,
        replies={202: SteerReply},
        refusals=MESSAGE,
        asks_plugins=True,
    ),
)
