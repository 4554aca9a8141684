"""Calls on sessions that all wires share: finding one, applying a client's decisions, and the response to stream."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, NoReturn, TypeVar

import trio
from attrs import evolve, frozen

from agentrail.core.session.client_calls import check_size
from agentrail.core.session.views import Status
from agentrail.errors import AgentrailError, AlreadyExists, ProfileMismatch, SessionUnknown
from agentrail.events import AgentAbort, AgentError, AgentStart, Event
from agentrail.frozen import thawed
from agentrail.gateway.calls.decision_calls import answer_client_call
from agentrail.gateway.calls.session_calls import record_to_fork
from agentrail.gateway.chat_routes import headers_of
from agentrail.gateway.error_responses import (
    ERROR_ANSWERS,
    CallRefused,
    answer_to_abort,
    answer_to_failure,
    error_answer,
    refuse_call,
)
from agentrail.gateway.path_endpoint import LEFT_SECONDS, RouteCall
from agentrail.gateway.protocols.response_stream import ResponseStream, SseWire
from agentrail.gateway.sse_frames import CONTENT_TYPE, STREAM_HEADERS, text_frame
from agentrail.gateway.whole_answer import WholeAnswer
from agentrail.host.hook_payloads import HandledResponse
from agentrail.host.identity import profile_of_session
from agentrail.host.requests import HostRequest
from agentrail.messages import PromptRef
from agentrail.protocols.decisions import ClientDecision, pending_names, refuse_request
from agentrail.protocols.response_changes import Frames, ResponseEnd
from agentrail.protocols.response_state import Bridged, Own, Response, text_of_handled
from agentrail.runtime.arguments import fault_of_response
from agentrail.runtime.event_history import PageAsked
from agentrail.runtime.event_subscription import number_of
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_rows import faults_of_edit
from agentrail.wire import operations
from agentrail.wire.operations import AnswerBody, ApproveArguments, DeclineBody, RejectBody, RespondBody

_MAX_ANSWERS: Final = 1_000  # of each tenant
_MAX_TENANTS: Final = 10_000
_T = TypeVar("_T")

# --- sessions


async def own_session(call: RouteCall, session_id: str, agent_id: str) -> Session:
    """Return a root session of the caller. Refuse the call if the session is of another profile."""
    session = await call.host.session(session_id, call.principal, only_root=True)
    own = profile_of_session(session.facts.user_data)
    if own is not None and own != agent_id:
        message = f"this session is one of the profile {own!r}, and keeps it: call that one"
        raise ProfileMismatch(message, agent_id=own)
    return session


async def find_session(call: RouteCall, session_id: str, agent_id: str) -> Session | None:
    """Return a root session of the caller, or None if it is unknown."""
    try:
        return await own_session(call, session_id, agent_id)
    except SessionUnknown:
        return None


async def fork_once(call: RouteCall, session: Session, event: int, name: str | None) -> tuple[Session, bool]:
    """Return a fork of a session after an event, and whether it is new: a request of one name, sent again, has the same fork."""
    of = session.session_id
    wanted = None if name is None else f"{of[:100]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    record = await record_to_fork(call.host, call.principal, of, at=None, event=event)
    try:
        return (await call.host.fork_session(of, call.principal, at=record, wanted=wanted))[0], True
    except AlreadyExists:
        return await call.host.session(f"{wanted}", call.principal, only_root=True), False


async def unless_refused(call: RouteCall, fork: Session | None, work: Callable[[], Awaitable[_T]]) -> _T:
    """Carry out a part of a request. If it is refused, the fork that was made for it is deleted."""
    try:
        return await work()
    except Exception:
        if fork is not None:
            with suppress(AgentrailError):
                await call.host.delete_session(fork.session_id, call.principal, purge=True)
        raise


async def known_of(session: Session, client_ids: Iterable[str]) -> frozenset[str]:
    """Return which of these messages of a client the session has accepted."""
    return frozenset([one for one in client_ids if await session.receipt_of(one) is not None])


def check_decisions(session: Session, decisions: Iterable[ClientDecision]) -> None:
    """Refuse all decisions if one of them cannot be applied, so that none is applied alone."""
    for one in decisions:
        match one:
            case ApproveArguments(approval_id=name, arguments=dict(arguments)):
                faults = faults_of_edit(session, name, arguments)
                if faults:
                    refuse_request("arguments", f"do not fit: {'; '.join(faults)}", "invalid_arguments")
            case AnswerBody(ref=ref, text=text):
                check_size(ref, text)
            case RespondBody(response=response) if (fault := fault_of_response(response)) is not None:
                refuse_request("", fault, "invalid_response")
            case RejectBody() | DeclineBody() if (
                fault := operations.fault_of_reason(one.reason)
            ) is not None:
                refuse_request("", fault)
            case _:
                pass


async def apply_decisions(
    call: RouteCall, session: Session, decisions: Iterable[ClientDecision]
) -> HandledResponse | None:
    """Apply a client's decisions in order. Returns the response of a host plugin that answered in place of the session."""
    user, name = call.principal.user_id, call.client_id
    async with nullcontext() if name is None else noted_answer(call, session, name):
        for one in decisions:
            match one:
                case ApproveArguments(approval_id=approval, kind=kind, arguments=edited, auto_resume=goes_on):
                    await session.approve(
                        approval, kind=kind, arguments=edited, auto_resume=goes_on, user=user
                    )
                case RejectBody(approval_id=approval, reason=reason, auto_resume=goes_on):
                    await session.reject(approval, reason, auto_resume=goes_on, user=user)
                case DeclineBody(ref=ref, reason=reason):
                    await session.decline(ref, reason, user=user)
                case AnswerBody():
                    await answer_client_call(session, one)
                case RespondBody(ref=ref, response=response):
                    handled = await call.host.respond(session.session_id, ref, response, call.principal)
                    if handled is not None:
                        return handled
    return None


def known_answer(call: RouteCall, session: Session, name: str) -> bytes | None:
    """Return the digest of a noted request of this name. None if there is none."""
    known = call.gateway.answers.get(call.principal.tenant_id, {})
    return known.get((call.principal.user_id, session.session_id, name))


@asynccontextmanager
async def noted_answer(
    call: RouteCall, session: Session, name: str, digest: bytes = b""
) -> AsyncIterator[None]:
    """Note a request that answers, unless it changes nothing. Sent again, it must not answer the next question."""
    of_all, who = call.gateway.answers, call.principal
    known = of_all[who.tenant_id] = of_all.pop(who.tenant_id, {})
    key = who.user_id, session.session_id, name
    known[key] = digest
    if len(known) > _MAX_ANSWERS:
        del known[next(iter(known))]
    if len(of_all) > _MAX_TENANTS:
        del of_all[next(iter(of_all))]
    waiting: set[str] = set()
    try:
        waiting = pending_names(await session.status())
        yield
    except Exception:
        known.pop(key, None)
        raise
    except trio.Cancelled:  # the client has left, perhaps before anything was applied
        with trio.move_on_after(LEFT_SECONDS, shield=True), suppress(AgentrailError):
            if waiting <= pending_names(await session.status()):  # noqa: ASYNC102 - shielded and bounded
                known.pop(key, None)
        raise


# --- responses


@frozen(kw_only=True)
class SpokenAnswer(WholeAnswer):
    """A response over SSE that is complete, in place of work of the session."""

    frames: Frames


def say_handled(
    wire: SseWire[Own], handled: HandledResponse, own: Own, status: Status | None
) -> SpokenAnswer | HandledResponse:
    """Let the assistant say a host plugin's answer, or a command's output. An error stays one."""
    if handled.status >= HTTPStatus.BAD_REQUEST:
        return handled
    number = 0 if status is None else status.last_seq
    frames = wire.bridge.say(own, text_of_handled(thawed(handled.body)), number, now_ms())
    last = text_frame(wire.last.encode()) if wire.last else b""
    own_headers = {name.lower(): value for name, value in handled.headers.items()}
    body = b"".join(map(wire.encode, frames)) + last
    headers = {**STREAM_HEADERS, **wire.headers, **own_headers}
    return SpokenAnswer(body=body, content_type=CONTENT_TYPE, headers=headers, frames=frames)


def stream_request(
    wire: SseWire[Own], request: HostRequest, own: Own, *, first: Frames = ()
) -> ResponseStream[Own]:
    """Stream the response to a request that the host has accepted."""
    response = Response(ref=PromptRef(request.receipt.ref), read_text=request.session.reads_answers())
    return ResponseStream(
        session=request.session,
        after=max(request.receipt.seq - 1, 0),
        wire=wire,
        state=Bridged(response, own),
        first=first,
        request=request,
        headers=headers_of(request),
    )


async def stream_decided(  # noqa: PLR0913 - by keyword, where they are not the call's
    call: RouteCall,
    wire: SseWire[Own],
    session: Session,
    own: Own,
    *,
    decisions: tuple[ClientDecision, ...],
    status: Status,
    response_id: str,
    first: Frames = (),
) -> ResponseStream[Own]:
    """Apply decisions, and stream the rest of the response that waited for them."""
    began = await start_of_cycle(call, session.session_id, status.last_seq + 1)
    # If its beginning is no longer stored, it must still have been shown, because it waits for these answers.
    response = Response(read_text=session.reads_answers(), is_live=True)

    async def apply() -> bool:
        if await apply_decisions(call, session, decisions) is not None:
            refuse_call("request_refused", "a host plugin answered this itself")
        return (await session.status()).suspended

    return ResponseStream(
        session=session,
        after=status.last_seq if began is None else number_of(began) - 1,
        wire=wire,
        state=Bridged(response, own),
        first=first,
        resumed_id=response_id,
        apply=apply,
        headers=_named(session),
    )


async def answer_first(  # noqa: PLR0913 - same
    call: RouteCall,
    wire: SseWire[Own],
    session: Session,
    own: Own,
    decisions: tuple[ClientDecision, ...],
    *,
    status: Status,
    has_words: bool,
    response_id: str = "",
    first: Frames = (),
) -> ResponseStream[Own] | SpokenAnswer | HandledResponse | None:
    """Check and apply decisions, and stream the response that waited for them. Return None if words follow."""
    check_decisions(session, decisions)
    if has_words:
        handled = await apply_decisions(call, session, decisions)
        return None if handled is None else say_handled(wire, handled, own, status)
    return await stream_decided(
        call, wire, session, own, decisions=decisions, status=status, response_id=response_id, first=first
    )


async def stream_running(
    call: RouteCall, wire: SseWire[Own], session: Session, own: Own
) -> ResponseStream[Own] | None:
    """Stream the running or waiting response from its beginning. None without one."""
    status = await session.status()
    has_ended = status.phase == "idle" and not status.suspended
    began = None if has_ended else await start_of_cycle(call, session.session_id, status.last_seq + 1)
    if began is None:
        return None
    state = Bridged(Response(read_text=session.reads_answers()), own)
    after = number_of(began) - 1
    return ResponseStream(session=session, after=after, wire=wire, state=state, headers=_named(session))


def refuse_end(end: ResponseEnd) -> NoReturn:
    """Refuse a call whose response failed or was aborted."""
    match end.event:
        case AgentError(error=error):
            answer = answer_to_failure(error)
        case AgentAbort(reason=reason):
            answer = answer_to_abort(reason)
        case _:
            code = end.code if end.code in ERROR_ANSWERS else "cycle_failed"
            answer = error_answer(code or "cycle_failed", end.reason or "the response failed")
    raise CallRefused(answer)


def _named(session: Session) -> Mapping[str, str]:
    return MappingProxyType({"x-session-id": session.session_id})


async def start_of_cycle(call: RouteCall, session_id: str, before: int) -> AgentStart | None:
    """Return the start of the last cycle before an event number. None if it is stored no longer."""
    found = await nearest_event(call, session_id, PageAsked(before=before, kinds=frozenset({AgentStart})))
    return found if isinstance(found, AgentStart) else None


async def nearest_event(call: RouteCall, session_id: str, asked: PageAsked) -> Event | None:
    """Return the first event that is found from an event number on. A page with certain kinds may end before it."""
    while True:
        page = await call.host.read_events(session_id, call.principal, evolve(asked, limit=1))
        if page.events or not page.more:
            return next(iter(page.events), None)
        asked = evolve(asked, before=page.first) if asked.after is None else evolve(asked, after=page.last)
