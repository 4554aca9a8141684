"""`/ai-ui`, called by `useChat` of the `ai` SDK: a chat is a session, and a response is one of its cycles."""

from functools import partial
from types import MappingProxyType
from typing import Final

from agentrail.gateway.chat_routes import own_request
from agentrail.gateway.error_responses import refuse_call
from agentrail.gateway.path_endpoint import CallAim, CallRoute, Result, RouteCall
from agentrail.gateway.protocols.response_stream import SseWire
from agentrail.gateway.protocols.wire_calls import (
    answer_first,
    find_session,
    known_of,
    own_session,
    say_handled,
    stream_request,
    stream_running,
)
from agentrail.gateway.request_bodies import CancelBody, UiChatBody
from agentrail.gateway.request_parser import check_id
from agentrail.gateway.response_bodies import ResponseCancelled
from agentrail.gateway.route_errors import DECIDING, MESSAGE
from agentrail.gateway.whole_answer import WholeAnswer, answer_json
from agentrail.host.hook_payloads import HandledResponse
from agentrail.protocols.ai_ui import AI_UI, NO_QUESTIONS, Questions
from agentrail.protocols.ai_ui_messages import UiPlan, decide_ui_call, read_ui_call
from agentrail.protocols.response_changes import Frame, Frames

WIRE: Final[SseWire[Questions]] = SseWire(
    name="ai-ui",
    bridge=AI_UI,
    # Reloading a page closes its connection just like a stop would. Stopping therefore has its own call.
    on_disconnect="continue",
    last="[DONE]",
    headers=MappingProxyType({"x-vercel-ai-ui-message-stream": "v1"}),
)
_DIFFERS: Final[Frame] = {"type": "data-history-differs", "data": {}, "transient": True}


async def _answer_message(call: RouteCall) -> Result:
    body: UiChatBody = call.body
    check_id("id", body.id, of_session=True)
    read = read_ui_call(body.messages, body.trigger)
    is_new = read.messages[-1].role == "user"
    look_up = find_session if is_new else own_session
    session = await look_up(call, body.id, call.params["agent_id"])
    status = None
    known: frozenset[str] = frozenset()
    if session is not None:
        status = await session.status()
        known = await known_of(session, [one.id for one in read.past[:-1]])
    plan = decide_ui_call(read, status, known)
    first = (_DIFFERS,) if plan.differs else ()
    if session is not None and status is not None and plan.answers:
        answer = partial(
            answer_first, status=status, has_words=bool(plan.text), response_id=plan.message_id, first=first
        )
        answered = await answer(call, WIRE, session, NO_QUESTIONS, plan.answers)
        if answered is not None:
            return answered
    return await _say(call, body.id, plan, first)


async def _say(call: RouteCall, session_id: str, plan: UiPlan, first: Frames) -> Result:
    agent_id, client_id = call.params["agent_id"], plan.message_id
    request = own_request(call, plan.text, session_id, agent_id=agent_id, client_id=client_id)
    submitted = await call.host.submit(
        request,
        call.principal,
        kind="stream",
        on_disconnect=WIRE.on_disconnect,
        via=WIRE.name,
        trace=call.trace,
    )
    if isinstance(submitted, HandledResponse):
        return say_handled(WIRE, submitted, NO_QUESTIONS, None)
    return stream_request(WIRE, submitted, NO_QUESTIONS, first=first)


async def _answer_running(call: RouteCall) -> Result:
    """Stream the running or waiting response from its beginning. 204 without one."""
    session = await find_session(call, call.params["session_id"], call.params["agent_id"])
    stream = None if session is None else await stream_running(call, WIRE, session, NO_QUESTIONS)
    return stream or WholeAnswer(status=204)


async def _cancel(call: RouteCall) -> Result:
    body: CancelBody = call.body
    session = await own_session(call, call.params["session_id"], call.params["agent_id"])
    status = await session.status()
    if status.phase == "idle" and not status.suspended:
        refuse_call("request_over", "no response is running or queued in this session")
    await session.abort(body.reason, wait=False)
    return answer_json(ResponseCancelled(session_id=session.session_id), 202)


def _aim(call: RouteCall) -> CallAim:
    last = call.body.messages[-1] if call.body.messages else None
    return CallAim(call.body.id, last.get("id") if isinstance(last, dict) else None)


AI_UI_ROUTES: Final = (
    CallRoute(
        "POST",
        "/ai-ui/{agent_id}",
        _answer_message,
        does="sends the new messages of a chat and streams the response as UI message parts",
        operation="stream",
        body=UiChatBody,
        aim=_aim,
        is_stream=True,
        frames="UiMessagePart",
        replies={},
        refusals=f"{MESSAGE} {DECIDING} approval_expired invalid_response invalid_arguments",
        asks_plugins=True,
    ),
    CallRoute(
        "GET",
        "/ai-ui/{agent_id}/{session_id}/stream",
        _answer_running,
        does="streams the running response from its start",
        is_stream=True,
        frames="UiMessagePart",
        replies={204: ()},
        refusals="profile_mismatch session_is_child",
    ),
    CallRoute(
        "POST",
        "/ai-ui/{agent_id}/{session_id}/cancel",
        _cancel,
        does="stops the running response",
        operation="cancel",
        body=CancelBody,
        success=202,
        replies={202: ResponseCancelled},
        refusals="profile_mismatch session_is_child request_over",
    ),
)
