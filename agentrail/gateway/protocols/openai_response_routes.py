"""`/v1/responses` for OpenAI clients: a conversation is a session, and a response is read from the session's events."""

from contextlib import suppress
from functools import partial
from typing import Final

from attrs import evolve, frozen
from msgspec.structs import replace

from agentrail.errors import IdInvalid, OptionError, SessionNotFound, SessionUnknown
from agentrail.events import AgentResumed, AgentStart, Event, PromptQueued, PromptReceived
from agentrail.gateway.error_responses import refuse_call
from agentrail.gateway.path_endpoint import CallAim, Result, RouteCall
from agentrail.gateway.protocols.openai_routes import (
    CHAT_REFUSALS,
    NAME,
    answer_openai,
    answer_openai_call,
    carry_out_plan,
    openai_route,
)
from agentrail.gateway.protocols.response_stream import ResponseStream, SseWire, data_frame
from agentrail.gateway.protocols.wire_calls import (
    find_session,
    fork_once,
    nearest_event,
    own_session,
    start_of_cycle,
    unless_refused,
)
from agentrail.gateway.request_bodies import CancelResponseBody, ResponseBody
from agentrail.gateway.request_parser import check_id, named_by_client, whole_number, yes_or_no
from agentrail.gateway.response_bodies import OpenAiObject
from agentrail.gateway.route_errors import BRANCHING, DECIDING, MESSAGE, ON_SESSION
from agentrail.gateway.sse_frames import CONTENT_TYPE, STREAM_HEADERS
from agentrail.gateway.whole_answer import WholeAnswer, answer_json
from agentrail.host.agent_profiles import AgentProfile
from agentrail.host.identity import is_temporary, profile_of_session
from agentrail.messages import FileRef, Image, PromptRef, Text, UserBlock
from agentrail.protocols.openai_responses import (
    RESPONSES,
    Responding,
    ResponseAsked,
    decide_response,
    read_response_id,
    read_response_request,
    response_id,
    response_object,
)
from agentrail.protocols.response_changes import Frame, Frames
from agentrail.protocols.response_state import Bridged, Response, pause_response, resume_response
from agentrail.runtime.event_history import PageAsked
from agentrail.runtime.event_subscription import number_of
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_handle import Session

_PAGE: Final = 500
_PROMPTS: Final[frozenset[type[Event]]] = frozenset({PromptReceived, PromptQueued})
_BEGINS: Final[frozenset[type[Event]]] = frozenset({AgentStart, AgentResumed, PromptReceived, PromptQueued})


def _encode(frame: Frame) -> bytes:
    return b"event: %b\n" % frame["type"].encode() + data_frame(frame)


_FOREGROUND: Final = SseWire(name=NAME, bridge=RESPONSES, on_disconnect="abort", encode=_encode)
_BACKGROUND: Final = evolve(_FOREGROUND, on_disconnect="continue")


# --- reading


@frozen(kw_only=True)
class _Kept:
    """A response in the events of its session.

    Attributes:
        opening: Its first event.
        begin: Its state before that event.
        is_resumed: Whether it continues a cycle that waited.
    """

    session_id: str
    seq: int
    opening: Event
    begin: Bridged[Responding]
    is_resumed: bool = False

    def open(self, after: int = -1) -> tuple[Bridged[Responding], Frames]:
        """Return the state before the first event, and the frames so far, for a reader that has the first ones."""
        own = replace(self.begin.own, after=after)
        response = self.begin.response
        if not self.is_resumed:
            return Bridged(response, own), ()
        return RESPONSES.write(own, resume_response(response, response.response_id))


async def _find(call: RouteCall) -> _Kept:
    name = call.params["response"]
    found = read_response_id(name)
    kept = None
    with suppress(SessionUnknown, SessionNotFound, IdInvalid):
        kept = None if found is None else await _keep(call, *found)
    if kept is None:
        refuse_call("request_unknown", f"there is no response {name[:160]!r}")
    return kept


async def _keep(call: RouteCall, session_id: str, seq: int) -> _Kept:
    host, principal = call.host, call.principal
    page = await host.read_events(session_id, principal, PageAsked(after=seq - 1, limit=1))
    if not page.events or page.events[0].meta is None or page.events[0].meta.seq != seq:
        message = f"session {session_id!r} has no event {seq}"
        raise SessionUnknown(message)
    session = await host.session_to_read(session_id, principal)
    if is_temporary(session.facts.user_data):
        message = f"session {session_id!r} is not stored"
        raise SessionUnknown(message)
    own = Responding(
        id=response_id(session_id, seq),
        model=profile_of_session(session.facts.user_data) or "",
        created=page.events[0].meta.at_ms // 1_000,
        session_id=session_id,
    )
    match page.events[0]:
        case PromptReceived(ref=ref) | PromptQueued(ref=ref) | AgentStart(ref=ref, goes_on=True):
            begin = Bridged(Response(ref=PromptRef(ref), read_text=session.reads_answers()), own)
        case _:
            start = await start_of_cycle(call, session_id, seq)
            begin = Bridged(Response(read_text=session.reads_answers()), own)
            if start is not None:
                begin = await _fold(call, session_id, begin, number_of(start), seq)
            return _Kept(session_id=session_id, seq=seq, opening=page.events[0], begin=begin, is_resumed=True)
    return _Kept(session_id=session_id, seq=seq, opening=page.events[0], begin=begin)


async def _fold(
    call: RouteCall, session_id: str, state: Bridged[Responding], first: int, until: int | None = None
) -> Bridged[Responding]:
    """Fold the events of a response, up to its end."""
    after = first - 1
    while True:
        page = await call.host.read_events(session_id, call.principal, PageAsked(after=after, limit=_PAGE))
        for event in page.events:
            if until is not None and number_of(event) >= until:
                return state
            state, _ = RESPONSES.fold(state, event)
            if state.response.end is not None and until is None:
                return state
        if not page.more:
            return state
        after = page.last


async def _whole(call: RouteCall, kept: _Kept) -> tuple[Bridged[Responding], Frame]:
    """Return a response as it is now, and its object."""
    state = await _fold(call, kept.session_id, kept.open()[0], kept.seq)
    if state.response.end is None:
        session = await call.host.session_to_read(kept.session_id, call.principal)
        if (await session.status()).suspended:  # only a part of its decisions came
            state = Bridged(pause_response(state.response), state.own)
    if state.response.end is not None:
        return state, RESPONSES.close(state)[-1]["response"]
    status = "in_progress" if state.response.response_id else "queued"
    return state, response_object(state.own, status)


# --- handlers


async def _respond(call: RouteCall, profile: AgentProfile, asked: ResponseAsked) -> Result:
    session, is_fork = await _session_of(call, profile, asked)

    def own_of(session_id: str, seq: int, request_id: str | None) -> Responding:
        return Responding(
            id=response_id(session_id or request_id or "", seq),
            model=profile.id,
            created=now_ms() // 1_000,
            session_id=session_id,
            is_nameless=not (asked.is_kept and session_id),
        )

    or_delete = partial(unless_refused, call, session if is_fork else None)
    stream = await or_delete(
        partial(
            carry_out_plan,
            call,
            _BACKGROUND if asked.is_background else _FOREGROUND,
            own_of,
            profile=profile,
            asked=asked,
            decide=decide_response,
            session=session,
        )
    )
    if isinstance(stream, ResponseStream) and stream.apply is not None:
        stream = evolve(stream, apply=partial(or_delete, stream.apply))
    if asked.is_background and not asked.parameters.is_stream and isinstance(stream, ResponseStream):
        if stream.apply is not None:
            await stream.apply()
        return answer_json(response_object(stream.state.own, "queued"), headers=stream.headers)
    is_nameless = not asked.is_kept and session is None
    return await answer_openai(call, stream, asked.parameters, _last_response, is_nameless=is_nameless)


def _last_response(frames: Frames) -> Frame:
    response: Frame = frames[-1]["response"]
    return response


async def _session_of(
    call: RouteCall, profile: AgentProfile, asked: ResponseAsked
) -> tuple[Session | None, bool]:
    """Return the session to continue, and whether it is a new fork, because the named response is not its last one."""
    if asked.session_id is None:
        return None, False
    check_id("conversation", asked.session_id, of_session=True)
    if asked.previous is None:
        return await find_session(call, asked.session_id, profile.id), False
    session = await own_session(call, asked.session_id, profile.id)
    name = named_by_client(None, call.client_id)
    if name is not None and await session.receipt_of(name) is not None:  # it is sent again
        return session, False
    kept = await _keep(call, *asked.previous)
    state, _ = await _whole(call, kept)
    if state.response.end is None:
        return session, False
    end = state.response.number
    later = PageAsked(after=end, limit=1, kinds=_BEGINS)
    if not (await call.host.read_events(asked.session_id, call.principal, later)).events:
        return session, False
    if not call.host.has_store:
        raise OptionError(
            ["previous_response_id names an earlier response, and without a store this server cannot branch"]
        )
    return await fork_once(call, session, end, None if name is None else f"{kept.seq} {name}")


async def _get(call: RouteCall) -> Result:
    is_stream = yes_or_no("stream", call.query.get("stream"))
    after = whole_number("starting_after", call.query.get("starting_after"), 0) or -1
    kept = await _find(call)
    state, told = await _whole(call, kept)
    if not is_stream:
        return answer_json(told)
    if state.response.end is not None:
        body = b"".join(map(_encode, RESPONSES.close(state)))
        return WholeAnswer(body=body, content_type=CONTENT_TYPE, headers=STREAM_HEADERS)
    session = await call.host.session(kept.session_id, call.principal)
    begin, first = kept.open(after)
    return ResponseStream(session=session, after=kept.seq - 1, wire=_BACKGROUND, state=begin, first=first)


async def _cancel(call: RouteCall) -> WholeAnswer:
    kept = await _find(call)
    state, _ = await _whole(call, kept)
    if state.response.end is None or state.response.is_paused:
        session = await call.host.session(kept.session_id, call.principal)
        start = await start_of_cycle(call, kept.session_id, kept.seq) if kept.is_resumed else None
        ref = state.response.ref if start is None else start.ref
        await session.abort("cancelled by the client", ref=ref)
    return answer_json((await _whole(call, kept))[1])


async def _list_input(call: RouteCall) -> WholeAnswer:
    whole_number("limit", call.query.get("limit"), 1, least=1, most=1_000)  # there is one item at most
    kept = await _find(call)
    data: list[Frame] = []
    if isinstance(kept.opening, PromptReceived | PromptQueued):
        content = [_input_of(block) for block in kept.opening.content]
        name = f"in_{kept.seq}"
        data = [{"id": name, "type": "message", "role": "user", "status": "completed", "content": content}]
    ids = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
    return answer_json({"object": "list", "data": data, **ids, "has_more": False})


def _input_of(block: UserBlock) -> Frame:
    match block:
        case Image(media_type=media_type, data=data):
            url = f"data:{media_type};base64,{data}"
            return {"type": "input_image", "detail": "auto", "image_url": url}
        case Text(text=text) | FileRef(path=text):
            return {"type": "input_text", "text": text}


async def _delete(call: RouteCall) -> WholeAnswer:
    """Delete a response with its conversation, of which it must be all."""
    kept = await _find(call)
    around = PageAsked(before=kept.seq, kinds=_PROMPTS), PageAsked(after=kept.seq, kinds=_PROMPTS)
    if any([await nearest_event(call, kept.session_id, asked) for asked in around]):
        message = "other responses belong to this conversation: delete the session with DELETE /sessions/{session_id}"
        refuse_call("request_not_alone", message)
    await call.host.delete_session(kept.session_id, call.principal, purge=True)
    return answer_json({"id": call.params["response"], "object": "response", "deleted": True})


def _aim_of_input(call: RouteCall) -> CallAim:
    plain = call.body.plain
    named, previous = plain.get("conversation"), plain.get("previous_response_id")
    named = named.get("id") if isinstance(named, dict) else named
    if isinstance(previous, str) and (found := read_response_id(previous)) is not None:
        named = found[0]
    return CallAim(named, call.client_id)


def _aim_of_response(call: RouteCall) -> CallAim:
    found = read_response_id(call.params["response"])
    return CallAim(None if found is None else found[0])


_PATH: Final = "/v1/responses/{response}"
_of_one: Final = partial(
    openai_route,
    aim=_aim_of_response,
    replies={200: OpenAiObject},
    refusals=f"{ON_SESSION} request_unknown",
)

OPENAI_RESPONSE_ROUTES: Final = (
    openai_route(
        "POST",
        "/v1/responses",
        lambda call: answer_openai_call(call, read_response_request, _respond),
        does="answers an input, as the OpenAI API does",
        operation="stream",
        body=ResponseBody,
        aim=_aim_of_input,
        is_stream=True,
        frames="ResponseStreamEvent",
        replies={},
        refusals=f"{MESSAGE} {DECIDING} {BRANCHING} {CHAT_REFUSALS}",
        asks_plugins=True,
    ),
    _of_one(
        "GET",
        _PATH,
        _get,
        does="shows a response, or streams the rest of it",
        is_stream=True,
        query=("stream", "starting_after", "include[]", "include_obfuscation"),
        frames="ResponseStreamEvent",
    ),
    _of_one(
        "DELETE",
        _PATH,
        _delete,
        does="deletes a response that is all of its conversation",
        refusals=f"{ON_SESSION} request_unknown request_not_alone still_needed",
    ),
    _of_one(
        "POST",
        f"{_PATH}/cancel",
        _cancel,
        does="stops a response",
        operation="cancel",
        body=CancelResponseBody,
    ),
    _of_one(
        "GET",
        f"{_PATH}/input_items",
        _list_input,
        does="shows the input of a response",
        query=("limit", "order", "include[]"),
    ),
)
