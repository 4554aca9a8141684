"""`/ai-ui`, called by `useChat` of the `ai` SDK: a chat is a session, and a response is one of its cycles."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, NoReturn

import trio
from attrs import field, frozen

from agentrail.abc import Error, Ok
from agentrail.core.session.views import Status
from agentrail.errors import ProfileMismatch, SessionUnknown, SubscriberTooSlow
from agentrail.events import AgentAbort, AgentEnd, AgentError, AgentStart, Event, EventsLost
from agentrail.gateway.chat_routes import headers_of
from agentrail.gateway.error_responses import refuse_call
from agentrail.gateway.path_endpoint import (
    CallRoute,
    OwnStream,
    Result,
    RouteCall,
    WholeAnswer,
    answer_json,
    start_of,
)
from agentrail.gateway.request_bodies import CancelBody, UiChatBody
from agentrail.gateway.request_parser import CallerLeft, check_id
from agentrail.gateway.response_bodies import ResponseCancelled
from agentrail.gateway.route_errors import DECIDING, MESSAGE
from agentrail.gateway.sse_frames import CONTENT_TYPE, HEARTBEAT, STREAM_HEADERS, DoneReason, text_frame
from agentrail.gateway.stream_reader import MAX_WRITE_BYTES
from agentrail.gateway.stream_watchdog import WatchedStream
from agentrail.gateway.token_watcher import OpenStream
from agentrail.host.hook_payloads import ChatRequest, HandledResponse
from agentrail.host.identity import profile_of_session
from agentrail.messages import AssistantMessage, PromptRef, SessionId, SteerRef
from agentrail.otp.exits import keep
from agentrail.protocols.ai_ui import (
    HEADER,
    LAST_FRAME,
    ReadText,
    UiPart,
    UiResponse,
    catch_up,
    fail_response,
    last_parts,
    pause,
    resume_response,
    show_event,
)
from agentrail.protocols.ai_ui_messages import (
    ClientOutcome,
    QuestionAnswer,
    UiAnswer,
    UiCallBody,
    UiPlan,
    UiRefusal,
    UiVerdict,
    UiWords,
    decide_ui_call,
    read_ui_call,
)
from agentrail.runtime.crashes import log_crash, what_travels
from agentrail.runtime.event_subscription import Subscription
from agentrail.runtime.event_waits import told_of_outages
from agentrail.runtime.session_handle import Session
from agentrail.wire.plain import encode_plain

# One response: reads its session and writes the frames.
#
# `agentrail.protocols.ai_ui` defines the parts. This section covers waiting, the size of a write, and streams
# that cannot continue. Each response has its own subscription instead of a hub, because the parts of an event
# depend on all earlier events.

UI_BUFFER: Final = 4_096
"""Buffered events of a response. After an overflow its deltas are dropped, and the text comes with the whole message."""

_BROKEN_OFF: Final[dict[DoneReason, str]] = {
    "shutdown": "the server is going down: read the response again in a moment",
    "moved": "another node has this session now: read the response again",
    "session_ended": "the session has ended",
    "slow_reader": "the stream was read too slowly: read the response again",
    "unauthorized": "the token expired or was revoked: read the response again with a valid one",
    "failed": "the stream failed: read the response again",
    "store_unavailable": "the server cannot write the response down now: read it again in a moment",
}
_LOST: Final = "events of this session are kept no longer, and this response may be among them"


class UiReader(WatchedStream):
    """Async iterator over the bytes to write, which ends after the last frame."""

    def __init__(
        self,
        events: Subscription,
        response: UiResponse,
        *,
        first: Sequence[UiPart] = (),
        is_muted: bool = False,
    ) -> None:
        """Read the published events without a checkpoint, so that no delta is missed or shown twice."""
        super().__init__()
        self._events = events
        self._response = response
        self._first = tuple(first)
        self._pending: list[bytes] = []
        self._wait_scope: trio.CancelScope | None = None
        parts = self._catch_up()
        if not is_muted:
            self._pending = [_frame_of(part) for part in (*self._first, *parts)]

    def _catch_up(self) -> list[UiPart]:
        parts: list[UiPart] = []
        try:
            while True:
                event = self._events.next_nowait()
                if isinstance(event, EventsLost):
                    self._lose()
                self._response, shown = show_event(self._response, event)
                if shown and shown[0]["type"] == "start":
                    parts.clear()  # another message of the same cycle: the previous one is complete
                parts.extend(shown)
        except trio.WouldBlock:
            snapshot = self._events.snapshot
            if snapshot is not None:
                self._response, shown = catch_up(self._response, snapshot.text)
                parts.extend(shown)
        except trio.EndOfChannel:
            self._break_off("shutdown" if self._events.is_rested else "session_ended")
        except SubscriberTooSlow:
            self._break_off("slow_reader")
        return parts

    def _lose(self) -> None:
        ref, snapshot = self._response.ref, self._events.snapshot
        status = None if snapshot is None else snapshot.status
        waits = status is not None and (
            ref in status.queued or (ref is not None and SteerRef(ref) in status.steers)
        )
        if ref is not None and not waits:
            self._response = fail_response(self._response, _LOST)

    async def go_on(self, message_id: str, apply: Callable[[], Awaitable[bool]]) -> None:
        """Continue a message that the client has, after its answers."""
        self._response, parts = resume_response(self._response, message_id)
        self._pending = [_frame_of(part) for part in (*self._first, *parts)]
        waits = await apply()
        self._take_waiting()
        if waits:
            self._response = pause(self._response)

    # --- for its task

    def _next_piece(self) -> bytes:
        self._take_waiting()
        pending, self._pending = self._pending, []
        if self._response.end is not None:
            pending += [_frame_of(part) for part in last_parts(self._response)]
            pending.append(text_frame(LAST_FRAME.encode()))
            self._end("completed")
        elif self._beats and not pending:
            pending = [HEARTBEAT]
        self._beats = False
        return b"".join(pending)

    def _take_waiting(self) -> None:
        size = sum(map(len, self._pending))
        try:
            while self._response.end is None and size < MAX_WRITE_BYTES:
                size += self._take(self._events.next_nowait())
        except trio.WouldBlock:
            pass
        except trio.EndOfChannel:
            self._break_off("shutdown" if self._events.is_rested else "session_ended")
        except SubscriberTooSlow:
            self._break_off("slow_reader")

    def _take(self, event: Event) -> int:
        if isinstance(event, EventsLost):  # the session was rewound
            self._response = fail_response(self._response, _LOST)
            return 0
        self._response, parts = show_event(self._response, event)
        frames = [_frame_of(part) for part in parts]
        self._pending += frames
        return sum(map(len, frames))

    async def _wait(self) -> None:
        # One scope per wait: each response has only one task, so there are never a thousand to wake at once.
        scope = self._wait_scope = trio.CancelScope()
        try:
            with scope:
                self._take(await anext(self._events))
        except StopAsyncIteration:
            self._break_off("shutdown" if self._events.is_rested else "session_ended")
        except SubscriberTooSlow:
            self._break_off("slow_reader")
        finally:
            self._wait_scope = None

    def _break_off(self, reason: DoneReason) -> None:
        self._response = fail_response(self._response, _BROKEN_OFF.get(reason, _BROKEN_OFF["failed"]))

    # --- for the watcher of all streams

    @property
    def is_waiting(self) -> bool:
        return self._wait_scope is not None

    @property
    def is_due_to_end(self) -> bool:
        return self._response.end is not None

    def finish(self, reason: DoneReason) -> None:
        self._break_off(reason)
        self.wake()

    def fail(self) -> bytes:
        self._break_off("failed")
        self._pending = []
        self._end("failed")
        parts = [_frame_of(part) for part in last_parts(self._response)]
        return b"".join([*parts, text_frame(LAST_FRAME.encode())])

    def wake(self) -> None:
        if self._wait_scope is not None:
            self._wait_scope.cancel(reason="there is something to write")


def _frame_of(part: UiPart) -> bytes:
    return text_frame(encode_plain(part))


NAME: Final = "ai-ui"
"""Name of the protocol, and channel of its messages."""

_WINDOW: Final = 512
_DIFFERS: Final[UiPart] = {"type": "data-history-differs", "data": {}, "transient": True}


@frozen(kw_only=True)
class _UiStream:
    """A response to write.

    Attributes:
        message_id: The message that continues after answers; empty for a new one.
    """

    session: Session
    after: int
    response: UiResponse
    first: tuple[UiPart, ...] = ()
    message_id: str = ""
    apply: Callable[[], Awaitable[bool]] | None = None
    headers: Mapping[str, str] = field(factory=dict)


# --- handlers


async def _answer_message(call: RouteCall) -> Result:
    body: UiChatBody = call.body
    agent_id = call.params["agent_id"]
    check_id("id", body.id, of_session=True)
    read = read_ui_call(body.messages, body.trigger)
    if isinstance(read, UiRefusal):
        _refuse(read)
    session = await _find_session(call, body.id, is_new=read.messages[-1].role == "user")
    status = None
    known: frozenset[str] = frozenset()
    if session is not None:
        _check_profile(session, agent_id)
        status, known = await session.status(), await _known_of(session, read)
    plan = decide_ui_call(read, status, known)
    if isinstance(plan, UiRefusal):
        _refuse(plan)
    if plan.words is None:
        assert session is not None and status is not None  # noqa: S101, PT018 - there is something to answer
        return await _go_on(call, session, status, plan)
    if session is not None and plan.answers:
        handled = await _apply(call, session, plan.answers)
        if handled is not None:
            return handled
    return await _say(call, body.id, plan, plan.words)


async def _find_session(call: RouteCall, session_id: str, *, is_new: bool) -> Session | None:
    try:
        return await call.host.session(session_id, call.principal, only_root=True)
    except SessionUnknown:
        if not is_new:
            raise
        return None


def _check_profile(session: Session, agent_id: str) -> None:
    own = profile_of_session(session.facts.user_data)
    if own is not None and own != agent_id:
        message = f"this session is one of the profile {own!r}, and keeps it: call /ai-ui/{own}"
        raise ProfileMismatch(message, agent_id=own)


async def _known_of(session: Session, read: UiCallBody) -> frozenset[str]:
    return frozenset([one.id for one in read.past[:-1] if await session.receipt_of(one.id) is not None])


async def _say(call: RouteCall, session_id: str, plan: UiPlan, words: UiWords) -> Result:
    request = ChatRequest(
        message=words.text,
        tenant_id=call.principal.tenant_id,
        user_id=call.principal.user_id,
        agent_id=call.params["agent_id"],
        session_id=SessionId(session_id),
        client_id=words.client_id,
    )
    # Reloading a page closes its connection just like a stop would. Stopping therefore has its own call.
    submitted = await call.host.submit(
        request, call.principal, kind="stream", on_disconnect="continue", via=NAME
    )
    if isinstance(submitted, HandledResponse):
        return submitted
    session, receipt = submitted.session, submitted.receipt
    response = UiResponse(ref=PromptRef(receipt.ref), read_text=_reads(session))
    return _stream(
        _UiStream(
            session=session,
            after=max(receipt.seq - 1, 0),
            response=response,
            first=(_DIFFERS,) if plan.differs else (),
            headers=headers_of(submitted),
        )
    )


async def _go_on(call: RouteCall, session: Session, status: Status, plan: UiPlan) -> Result:
    began = await _find_cycle(session, status.last_seq)
    # If its beginning is no longer stored, it must still have been shown, because it waits for these answers.
    response = UiResponse(read_text=_reads(session), is_live=True)

    async def apply() -> bool:
        handled = await _apply(call, session, plan.answers)
        if handled is not None:
            message = "a plugin of the host answered this in its own way"
            refuse_call("request_refused", message)
        return (await session.status()).suspended

    return _stream(
        _UiStream(
            session=session,
            after=status.last_seq if began is None else began - 1,
            response=response,
            first=(_DIFFERS,) if plan.differs else (),
            message_id=plan.message_id,
            apply=apply,
            headers={"x-session-id": session.session_id},
        )
    )


async def _apply(call: RouteCall, session: Session, answers: tuple[UiAnswer, ...]) -> HandledResponse | None:
    for answer in answers:
        match answer:
            case UiVerdict(is_approved=True):
                await session.approve(answer.approval_id, user=call.principal.user_id)
            case UiVerdict():
                await session.reject(
                    answer.approval_id, answer.reason, auto_resume=True, user=call.principal.user_id
                )
            case ClientOutcome(is_error=True):
                await session.answer(answer.ref, Error(text=answer.text))
            case ClientOutcome():
                await session.answer(answer.ref, Ok(text=answer.text, details=answer.details))
            case QuestionAnswer(ref=ref, response=response):
                said = response if isinstance(response, str) else dict(response)
                handled = await call.host.respond(session.session_id, ref, said, call.principal)
                if handled is not None:
                    return handled
    return None


async def _answer_running(call: RouteCall) -> Result:
    """Stream the running or waiting response from its beginning. 204 without one."""
    try:
        session = await _own(call)
    except SessionUnknown:
        return WholeAnswer(status=204)
    status = await session.status()
    has_ended = status.phase == "idle" and not status.suspended
    began = None if has_ended else await _find_cycle(session, status.last_seq)
    if began is None:
        return WholeAnswer(status=204)
    response = UiResponse(read_text=_reads(session))
    headers = {"x-session-id": session.session_id}
    return _stream(_UiStream(session=session, after=began - 1, response=response, headers=headers))


async def _cancel(call: RouteCall) -> Result:
    body: CancelBody = call.body
    session = await _own(call)
    status = await session.status()
    if status.phase == "idle" and not status.suspended:
        refuse_call("request_over", "no response runs in this session, and none waits")
    await session.abort(body.reason, wait=False)
    return answer_json(ResponseCancelled(session_id=session.session_id), 202)


async def _own(call: RouteCall) -> Session:
    session = await call.host.session(call.params["session_id"], call.principal, only_root=True)
    _check_profile(session, call.params["agent_id"])
    return session


# --- helpers


async def _find_cycle(session: Session, last_seq: int) -> int | None:
    """Return the event number at which the last cycle started. Searches backwards in growing steps."""
    window = _WINDOW
    while True:
        after = max(0, last_seq - window)
        kinds = (AgentStart, AgentEnd, AgentAbort, AgentError)
        async with session.subscribe(kinds=kinds, deltas=False, after=after) as events:
            found = _last_start(events.next_nowait)
        if found is not None or after == 0:
            return found
        window *= 8


def _last_start(next_nowait: Callable[[], object]) -> int | None:
    found: int | None = None
    try:
        while True:
            event = next_nowait()
            if isinstance(event, AgentStart) and event.meta is not None:
                found = event.meta.seq
    except (trio.WouldBlock, trio.EndOfChannel):
        return found


def _reads(session: Session) -> ReadText:
    read = session.reads_answers()

    def read_one(message: AssistantMessage) -> str:
        return read((message,))

    return read_one


def _refuse(refusal: UiRefusal) -> NoReturn:
    message = f"{refusal.place} {refusal.message}".strip()
    refuse_call(refusal.code, message[:300], hint=refusal.hint, more={"field": refusal.place})


# --- writing


def _stream(stream: _UiStream) -> OwnStream:
    return OwnStream(write=partial(_write_stream, stream))


async def _write_stream(stream: _UiStream, call: RouteCall) -> None:
    """Write a response to its end. Cancellation cuts a blocked connection."""
    hubs = call.gateway.opened()[1]
    async with stream.session.subscribe(after=stream.after, buffer=UI_BUFFER) as events:
        is_muted = stream.apply is not None
        reader = UiReader(events, stream.response, first=stream.first, is_muted=is_muted)
        reader.on_cut = call.cut
        if stream.apply is not None:
            await reader.go_on(stream.message_id, stream.apply)
        one = OpenStream(call.head, call.principal, reader)
        is_away = partial(reader.finish, "store_unavailable")
        with (
            told_of_outages(stream.session, is_away),
            hubs.watch_stream(reader),
            reader.scope,
            call.gateway.open_calls.watched(one),
        ):
            await call.while_there(partial(_write, call, stream, reader))
    if reader.reason is None:  # it was cut
        raise CallerLeft


async def _write(call: RouteCall, stream: _UiStream, reader: UiReader) -> None:
    name, version = HEADER
    headers = {**dict(STREAM_HEADERS), "content-type": CONTENT_TYPE, name: version}
    await call.write(start_of(200, {**headers, **call.more_headers, **stream.headers}))
    try:
        async for piece in reader:
            await _send(call, piece, is_last=reader.reason is not None)
    except BaseException as raised:  # noqa: ASYNC103 - cancellation is raised again
        if what_travels(raised) is not None or reader.reason is not None:
            raise
        # The response has started, so it cannot become an HTTP error. It ends with a part that reports the
        # failure.
        log_crash(f"a response of session {stream.session.session_id} failed", raised, keep)
        await _send(call, reader.fail(), is_last=True)  # noqa: ASYNC102 - not cancelled: that was raised above


async def _send(call: RouteCall, piece: bytes, *, is_last: bool) -> None:
    await call.write({"type": "http.response.body", "body": piece, "more_body": not is_last})


AI_UI_ROUTES: Final = (
    CallRoute(
        "POST",
        "/ai-ui/{agent_id}",
        _answer_message,
        does="sends the new messages of a chat and streams the response as UI message parts",
        operation="stream",
        body=UiChatBody,
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
        refusals="profile_unknown profile_mismatch session_is_child",
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
        refusals="profile_unknown profile_mismatch session_is_child request_over",
    ),
)
