"""`/a2a/{profile}`, called by A2A clients over JSON-RPC and REST: a context is a session, and a task one of its prompts."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from attrs import evolve, frozen
from msgspec.structs import replace

from agentrail import outside
from agentrail.config.key_filter import in_one_line
from agentrail.core.session.receipts import SteerReceipt
from agentrail.distribution import install_command
from agentrail.errors import AgentrailError, HeldBy, IdInvalid, SessionNotFound, SessionUnknown
from agentrail.events import PromptQueued, PromptReceived
from agentrail.frozen import canonical_json, thawed
from agentrail.gateway.authorization import UNAUTHORIZED, checked
from agentrail.gateway.chat_routes import own_request
from agentrail.gateway.error_responses import CallRefused, ErrorAnswer, answer_to, error_answer, refuse_call
from agentrail.gateway.path_endpoint import CallAim, CallRoute, Result, RouteCall
from agentrail.gateway.protocols import wire_calls
from agentrail.gateway.protocols.response_stream import ResponseStream, SseWire, data_frame
from agentrail.gateway.request_bodies import A2aBody
from agentrail.gateway.request_parser import check_id, refuse_field, yes_or_no
from agentrail.gateway.response_bodies import A2aObject
from agentrail.gateway.route_errors import BY_PLACE, DECIDING, MESSAGE
from agentrail.gateway.sse_frames import CONTENT_TYPE
from agentrail.gateway.whole_answer import WholeAnswer, answer_json
from agentrail.host.hook_payloads import HandledResponse
from agentrail.host.identity import profile_of_session
from agentrail.host.listed_session import ListedSession
from agentrail.protocols import a2a
from agentrail.protocols.decisions import WireRefused
from agentrail.protocols.response_changes import Frame
from agentrail.protocols.response_state import Bridged, Response, resume_response
from agentrail.runtime.event_history import PageAsked
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_rows import changed_at_ms
from agentrail.wire.plain import encode_plain
from agentrail.wire.rows import RowFilter

NAME: Final = "a2a"
_Wrap: TypeAlias = Callable[[Frame], Frame]
_PAGE: Final = 500
_OF_PARAMETERS: Final = (400, 404, 413, 422)
_FAULT_OF_OURS: Final = 500
_MAX_SESSIONS: Final = 100
"""Sessions in which `ListTasks` looks for tasks, unless it names one."""

_QUIET_MS: Final = 1_000
_MAX_KNOWN: Final = 1_000
"""Sessions whose tasks are kept for the next `ListTasks`. A changed session has a new key."""


@cache
def _library() -> tuple[Any, ...]:
    # Imported late: the extra is optional. `fault_of_a2a` calls this when an application is created.
    names = ("a2a.types.a2a_pb2", "google.protobuf.json_format", "a2a.utils.proto_utils")
    return tuple(map(import_module, (*names, "a2a.utils.errors", "a2a.utils.error_handlers")))


def fault_of_a2a() -> str | None:
    """Import the library of A2A. Return what is missing, with its remedy."""
    try:
        _library()
    except ModuleNotFoundError as missing:
        return f"'a2a', which needs {missing.name}: {install_command('a2a')}"
    return None


# --- tasks


@frozen(kw_only=True)
class _Kept:
    """A task in the events of its session."""

    session: Session
    state: Bridged[a2a.A2aTask]

    @property
    def task(self) -> a2a.A2aTask:
        return a2a.settled_task(self.state)

    def stream(self, wrap: _Wrap = dict, history: int | None = None) -> ResponseStream[a2a.A2aTask]:
        """Stream the task as it is, and then its updates, in the form of a binding."""
        first, after = ({"task": a2a.show_task(self.task, history=history)},), self.state.response.number
        wire = SseWire(name=NAME, bridge=a2a.A2A, on_disconnect="continue", encode=partial(_encode, wrap))
        return ResponseStream(session=self.session, after=after, wire=wire, state=self.state, first=first)


def _is_over(response: Response) -> bool:
    return response.end is not None and not response.is_paused


async def _look_up(call: RouteCall, task_id: str) -> _Kept | None:
    found = a2a.read_task_id(task_id)
    with suppress(SessionUnknown, SessionNotFound, IdInvalid):
        if found is not None:
            ref, seq, session_id = found
            session = await call.host.session_to_read(session_id, call.principal)
            facts = session.facts
            if profile_of_session(facts.user_data) == call.params["agent_id"] and facts.root_id == session_id:
                tasks = await _fold_tasks(call, session_id, session, after=seq - 1, only=ref)
                return _Kept(session=session, state=tasks[ref]) if ref in tasks else None
    return None


async def _find(call: RouteCall, task_id: str) -> _Kept:
    return await _look_up(call, task_id) or refuse_call("request_unknown", "no task has this id")


async def _fold_tasks(
    call: RouteCall, session_id: str, session: Session | None, *, after: int = 0, only: str | None = None
) -> dict[str, Bridged[a2a.A2aTask]]:
    """Fold the events of a session into its tasks by their prompts, or into one."""
    tasks: dict[str, Bridged[a2a.A2aTask]] = {}
    going: dict[str, None] = {}
    begin = Response() if session is None else Response(read_text=session.reads_answers())
    is_json = session is not None and session.facts.has_format
    while True:
        page = await call.host.read_events(session_id, call.principal, PageAsked(after=after, limit=_PAGE))
        for event in page.events:
            if isinstance(event, PromptReceived | PromptQueued) and only in (None, event.ref):
                own = a2a.open_task(event, session_id, is_json=is_json)
                tasks.setdefault(event.ref, Bridged(replace(begin, ref=event.ref), own))
                going[event.ref] = None
            going = {ref: None for ref in going if not _is_over(tasks[ref].response)}
            for ref in going:  # all tasks for each event would be seconds in a long session
                tasks[ref] = a2a.A2A.fold(tasks[ref], event)[0]
        if not page.more or (only in tasks and _is_over(tasks[only].response)):
            return tasks
        after = page.last


# --- methods


async def _send(call: RouteCall, params: Mapping[str, Any]) -> Frame:
    sent, wanted = await _take(call, params), params.get("configuration", {})
    if not isinstance(sent, _Kept):
        return sent
    if not wanted.get("returnImmediately"):
        await sent.stream().collect(call)
        sent = await _find(call, sent.task.id)
    return {"task": a2a.show_task(sent.task, history=wanted.get("historyLength"))}


async def _take(call: RouteCall, params: Mapping[str, Any]) -> _Kept | Frame:
    """Accept a message, and return its task, or the message of a host plugin in its place."""
    read, message = a2a.read_parts(params), params["message"]
    check_id("messageId", message["messageId"])
    if "contextId" in message:
        check_id("contextId", message["contextId"], of_session=True)
    session_id = message.get("contextId")
    kept = await _find(call, message["taskId"]) if "taskId" in message else None
    if kept is not None:
        state = kept.task.state
        if session_id not in (None, kept.session.session_id):
            refuse_field("contextId", "is not that of the task")
        digest = hashlib.sha256(canonical_json(read)).digest()
        known = wire_calls.known_answer(call, kept.session, message["messageId"])
        if known == digest:  # sent again, while it is applied or later: the next question is another one
            return kept
        if known is not None:
            refuse_call("client_id_reused", "this messageId has answered the task with other parts")
        if state == "INPUT_REQUIRED" or (read[1] and state == "WORKING"):
            async with wire_calls.noted_answer(call, kept.session, message["messageId"], digest):
                return await _decide(call, kept, *read)
        if state != "WORKING":
            later = "wait until it runs" if state == "SUBMITTED" else "start another task in its context"
            refuse_call("operation_unsupported", f"the task is {state} and takes no message: {later}")
        session_id = kept.session.session_id
    agent_id, name, metadata = call.params["agent_id"], message["messageId"], message.get("metadata", {})
    request = own_request(call, read[0], session_id, agent_id=agent_id, client_id=name, metadata=metadata)
    if kept is not None:
        sent = await call.host.steer(request, call.principal, via=NAME)
        if isinstance(sent, SteerReceipt):
            return kept
    else:
        submit = partial(call.host.submit, on_disconnect="continue", via=NAME, trace=call.trace)
        sent = await submit(request, call.principal, kind="stream")
    if isinstance(sent, HandledResponse):
        answer = {"messageId": f"{message['messageId']}-answer", "role": "ROLE_AGENT"}
        return {"message": {**answer, "parts": [{"data": thawed(sent.body)}]}}
    return await _find(call, f"{sent.receipt.ref}~{sent.receipt.seq}~{sent.session_id}")


async def _decide(call: RouteCall, kept: _Kept, text: str, data: Any) -> _Kept:
    session = await wire_calls.own_session(call, kept.session.session_id, call.params["agent_id"])
    decisions = a2a.decide_answers(text, data, await session.status())
    wire_calls.check_decisions(session, decisions)
    if await wire_calls.apply_decisions(call, session, decisions) is not None:
        refuse_call("request_refused", "a host plugin answered this itself")
    is_waiting = (await session.status()).suspended
    kept = await _find(call, kept.task.id)
    response = kept.state.response
    answered = {getattr(one, "approval_id", None) or getattr(one, "ref", None) for one in decisions}
    if is_waiting or answered.isdisjoint(response.asked):
        return kept
    # A child's answer reaches the events of its parent a little later.
    return evolve(kept, state=Bridged(resume_response(response, response.response_id)[0], kept.state.own))


async def _get(call: RouteCall, params: Mapping[str, Any]) -> Frame:
    return a2a.show_task((await _find(call, params["id"])).task, history=params.get("historyLength"))


async def _list(call: RouteCall, params: Mapping[str, Any]) -> Frame:
    tasks: list[a2a.A2aTask] = []
    session_id = params.get("contextId") or None
    quiet_since = int(outside.wall() * 1_000) - _QUIET_MS
    wanted = RowFilter(agent_id=call.params["agent_id"], q=session_id)
    rows = await call.host.list_sessions(call.principal, wanted=wanted, sort="-changed", limit=_MAX_SESSIONS)
    for row in rows:
        if session_id in (None, row.session_id):
            tasks += await _tasks_of_row(call, row, quiet_since)
    shown, rest = a2a.page_of_tasks(tasks, params)
    history, artifacts = params.get("historyLength", 0), params.get("includeArtifacts", False)
    if history or artifacts:  # only the session knows what users see of its text, so it is woken
        kept = [await _look_up(call, one.id) for one in shown]
        shown = tuple([one.task for one in kept if one is not None])  # others were deleted meanwhile
    return {"tasks": [a2a.show_task(one, history=history, artifacts=artifacts) for one in shown], **rest}


async def _tasks_of_row(call: RouteCall, row: ListedSession, quiet_since: int) -> tuple[a2a.A2aTask, ...]:
    """Return the tasks of a session, without reading it again if it has not changed."""
    known, who = call.gateway.a2a_tasks, call.principal
    changed_ms = row.changed_at_ms if row.session is None else changed_at_ms(row.session)
    key = (who.tenant_id, who.user_id, row.session_id, row.created_at_ms, changed_ms)
    if key in known:
        return known[key]
    tasks: tuple[a2a.A2aTask, ...] = ()
    with suppress(SessionUnknown, SessionNotFound, IdInvalid):
        states = (await _fold_tasks(call, row.session_id, None)).values()
        tasks = tuple([replace(a2a.settled_task(one), parts=(), history=()) for one in states])
    if changed_ms < quiet_since:  # another event could have the same time
        known[key] = tasks
        if len(known) > _MAX_KNOWN:
            del known[next(iter(known))]
    return tasks


async def _cancel(call: RouteCall, params: Mapping[str, Any]) -> Frame:
    kept = await _find(call, params["id"])
    if not _is_over(kept.state.response):
        session = await wire_calls.own_session(call, kept.session.session_id, call.params["agent_id"])
        await session.abort("canceled by the client", ref=kept.state.response.ref)
        kept = await _find(call, params["id"])
        if kept.task.state == "CANCELED":
            return a2a.show_task(kept.task)
    return refuse_call("request_over", f"the task is {kept.task.state}")


async def _subscribe(call: RouteCall, params: Mapping[str, Any]) -> _Kept:
    kept = await _find(call, params["id"])
    if _is_over(kept.state.response):
        refuse_call("operation_unsupported", f"the task is {kept.task.state}: get it")
    return kept


async def _show_card(call: RouteCall, _params: Mapping[str, Any] | None = None) -> Frame:
    """Return a profile's card. Without a token, a private profile is like an unknown one."""
    callers, profiles = call.gateway.callers, call.host.options.checked_profiles
    agent_id = call.params.get("agent_id", profiles.default_id)
    profile = profiles.by_id.get(agent_id)
    if profile is None or not profile.public:
        if callers.rules.needs_token and "authorization" not in call.head.headers:
            raise CallRefused(UNAUTHORIZED)
        profile = await call.host.profile_for(checked(await callers.admit(call.head)), agent_id)
    head = call.head
    before = head.path.rpartition("/a2a/" if "agent_id" in call.params else "/.well-known/")[0]
    # A proxy may terminate TLS, so the scheme of the call is not that of its client.
    public = call.host.options.public_url or f"{head.scheme}://{head.headers['host']}{before}"
    url = f"{public.rstrip('/')}/a2a/{profile.id}"
    about = {"name": profile.name, "description": profile.description or profile.name}
    schemes = {"token": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}} if callers.rules.needs_token else {}
    return {
        **about,
        "version": call.gateway.version,
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": f"{url}/v1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
        ],
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": True},
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": [{"id": profile.id, **about, "tags": [profile.id]}],
        "securitySchemes": schemes,
        "securityRequirements": [{"schemes": {name: {"list": []}}} for name in schemes],
    }


async def _answer_card(call: RouteCall) -> Result:
    return answer_json(await _show_card(call))


# --- bindings

_Method: TypeAlias = Callable[[RouteCall, Mapping[str, Any]], Awaitable[Frame | _Kept]]
_METHODS: Final[Mapping[str, _Method]] = MappingProxyType(
    {
        "SendMessage": _send,
        "SendStreamingMessage": _take,
        "GetTask": _get,
        "ListTasks": _list,
        "CancelTask": _cancel,
        "SubscribeToTask": _subscribe,
        "GetExtendedAgentCard": _show_card,
    }
)
_ERRORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "request_unknown": "TaskNotFoundError",
        "request_over": "TaskNotCancelableError",
        "push_unsupported": "PushNotificationNotSupportedError",
        "operation_unsupported": "UnsupportedOperationError",
        "part_unsupported": "ContentTypeNotSupportedError",
        "version_unsupported": "VersionNotSupportedError",
        "bad_json": "JSONParseError",
        "field_unknown": "InvalidRequestError",
        "method_not_allowed": "MethodNotFoundError",
    }
)


async def _run(call: RouteCall, name: str, params: Any, wrap: _Wrap) -> Result:
    """Run a method. `wrap` returns a result, or an error, in the form of the binding."""
    if call.head.headers.get("a2a-version", "0.3").partition(".")[0] != "1":
        refuse_call("version_unsupported", "this server speaks A2A 1.0: send the header A2A-Version: 1.0")
    if name.endswith(("PushNotificationConfig", "PushNotificationConfigs")):
        a2a.refuse_push()
    if name not in _METHODS:
        refuse_call("method_not_allowed", "this method does not exist")
    size = 0 if call.body is None else 16 * call.body.size  # its library is much slower than our parser
    read = await call.gateway.read_aside(partial(_read_params, name, params), size)
    result = await _METHODS[name](call, read)
    if isinstance(result, _Kept):
        return result.stream(wrap, read.get("configuration", {}).get("historyLength"))
    if name == "SendStreamingMessage":
        return WholeAnswer(body=_encode(wrap, result), content_type=CONTENT_TYPE)
    return answer_json(wrap(result))


def _read_params(name: str, params: Any) -> Any:
    """Return the parameters of a method in the official JSON form, as the library's type has them."""
    types, json_format, checks, errors, _ = _library()
    kind = "SendMessageRequest" if name.startswith("Send") else f"{name}Request"
    try:
        read = json_format.ParseDict(params, getattr(types, kind)(), ignore_unknown_fields=True)
        values = json_format.MessageToDict(read)
        if kind == "SendMessageRequest":
            # The check walks each value of free JSON too, which requires nothing: five seconds for a megabyte of numbers.
            for free in (read, read.message, *read.message.parts):
                free.ClearField("metadata")
            for part in read.message.parts:
                part.ClearField("data")
        checks.validate_proto_required_fields(read)
    except (json_format.Error, errors.A2AError, TypeError, ArithmeticError) as error:
        faults = (getattr(error, "data", None) or {}).get("errors", ())
        why = "; ".join([f"{one['field']}: {one['message']}" for one in faults])
        if isinstance(error, json_format.Error):
            why = in_one_line(f"{error}")  # it quotes values
        refuse_field("params", f"are not a {kind}: {why or 'a value has the wrong type'}")
    if values.get("configuration", values).get("historyLength", 0) < 0:
        refuse_field("historyLength", "is negative: 0 leaves the history out")
    return values


def _encode(wrap: _Wrap, frame: Frame) -> bytes:
    if "error" not in frame:
        return data_frame(wrap(frame))
    told = frame["error"]
    return b"event: error\n" + data_frame(wrap({"error": error_answer(told["code"], told["message"])}))


def _errors(answer: ErrorAnswer) -> tuple[Frame, Frame]:
    """Return an error as JSON-RPC and as REST have it. Our code is in the metadata of both."""
    *_, errors, shapes = _library()
    usual = "InvalidParamsError" if answer.status in _OF_PARAMETERS else "InvalidRequestError"
    name = _ERRORS.get(answer.code, "InternalError" if answer.status >= _FAULT_OF_OURS else usual)
    metadata = {"code": answer.code, **({} if answer.hint is None else {"hint": answer.hint})}
    error = getattr(errors, name)(answer.message, metadata)
    number, details = errors.JSON_RPC_ERROR_CODE_MAP[type(error)], shapes.build_error_details(error)
    rest = {**shapes.build_rest_error_payload(error)["error"], "code": answer.status}
    return {"code": number, "message": answer.message, "data": details}, {"error": rest}


def _as_rest(frame: Frame) -> Frame:
    return _errors(frame["error"])[1] if "error" in frame else frame


def _as_rpc(request_id: str | int | None, frame: Frame) -> Frame:
    told = {"error": _errors(frame["error"])[0]} if "error" in frame else {"result": frame}
    return {"jsonrpc": "2.0", "id": request_id, **told}


async def _answer_rest(name: str, call: RouteCall) -> Result:
    params = {**call.query, **({} if call.body is None else call.body.plain)}
    if "includeArtifacts" in call.query:
        params["includeArtifacts"] = yes_or_no("includeArtifacts", call.query["includeArtifacts"])
    if "task" in call.params:
        params["id"] = call.params["task"]
    return await _run(call, name, params, _as_rest)


async def _answer_rpc(call: RouteCall) -> Result:
    plain = call.body.plain
    request_id, name = plain.get("id"), plain.get("method")
    wrap = partial(_as_rpc, request_id if type(request_id) in (str, int) else None)
    try:
        if plain.get("jsonrpc") != "2.0" or type(request_id) not in (str, int, type(None)):
            refuse_call("field_unknown", "the body is not a request of JSON-RPC 2.0")
        return await _run(call, name if isinstance(name, str) else "", plain.get("params", {}), wrap)
    except (AgentrailError, CallRefused, WireRefused) as error:
        if isinstance(error, HeldBy) and call.gateway.forward is not None:  # passed on to that node
            raise
        answer = answer_to(error)
        return answer_json(wrap({"error": answer}), headers=answer.headers)


def _charge_rpc(body: A2aBody) -> str:
    return "stream" if body.plain.get("method") in ("SendMessage", "SendStreamingMessage") else "call"


def _aim(name: str, call: RouteCall) -> CallAim:
    """Return the session in the ids of a call. A list of tasks is read from the store."""
    plain = {} if call.body is None else call.body.plain
    if not name:
        name, plain = plain.get("method", ""), plain.get("params")
    if name == "ListTasks" or not isinstance(plain, dict):
        return CallAim()
    message = plain.get("message")
    said = message if isinstance(message, dict) else {}
    task = call.params.get("task") or plain.get("id") or said.get("taskId")
    session_id = task.rpartition("~")[2] if isinstance(task, str) else said.get("contextId")
    return CallAim(session_id, said.get("messageId"))


_REFUSALS: Final = (
    f"{MESSAGE} {DECIDING} approval_expired invalid_response invalid_arguments request_unknown request_over"
    " push_unsupported operation_unsupported part_unsupported version_unsupported"
)
_LISTED: Final = "contextId status pageSize pageToken historyLength statusTimestampAfter includeArtifacts"
_PATHS: Final = (
    ("POST", "v1/message:send", "SendMessage", ""),
    ("POST", "v1/message:stream", "SendStreamingMessage", ""),
    ("POST", "v1/tasks/{task}:cancel", "CancelTask", ""),
    ("POST", "v1/tasks/{task}:subscribe", "SubscribeToTask", ""),
    ("GET", "v1/tasks/{task}:subscribe", "SubscribeToTask", ""),
    ("GET", "v1/tasks/{task}", "GetTask", "historyLength"),
    ("GET", "v1/tasks", "ListTasks", _LISTED),
    ("GET", "v1/extendedAgentCard", "GetExtendedAgentCard", ""),
    *[
        (one, "v1/tasks/{task}/pushNotificationConfigs{path:path}", "PushNotificationConfig", "")
        for one in ("GET", "POST", "DELETE")
    ],
)
"""Method and path of REST, the method of the protocol, and its parameters in the query."""


def _route(method: str, path: str, name: str, query: str) -> CallRoute:
    is_sent = name.startswith("Send") or not name
    is_stream = name in ("SendStreamingMessage", "SubscribeToTask", "")
    wrap: _Wrap = _as_rest if name else partial(_as_rpc, None)
    return CallRoute(
        method,
        f"/a2a/{{agent_id}}/{path}".removesuffix("/"),
        partial(_answer_rest, name) if name else _answer_rpc,
        does=f"runs {name or 'any method'} of A2A",
        operation="stream" if is_sent else "call",
        operation_of=None if name else _charge_rpc,
        aim=partial(_aim, name),
        body=A2aBody if method == "POST" else None,
        needs_type=name != "SubscribeToTask",
        query=tuple(query.split()),
        is_stream=is_stream,
        frames="A2aFrame",
        replies={} if name and is_stream else {200: A2aObject},
        refusals=_REFUSALS,
        asks_plugins=is_sent,
        encode_error=lambda answer: encode_plain(wrap({"error": answer})),
        error_reply=A2aObject,
    )


_CARD: Final = evolve(
    _route("GET", ".well-known/agent-card.json", "card", ""),
    handler=_answer_card,
    does="shows the A2A card of a profile",
    refusals=f"{BY_PLACE} unauthorized too_many_requests not_started plugin_failed profile_unknown id_invalid",
    scope=None,
    is_guarded=True,
)

A2A_ROUTES: Final = (
    _route("POST", "", "", ""),
    *[_route(*row) for row in _PATHS],
    _CARD,
    evolve(_CARD, path="/.well-known/agent-card.json"),
)
