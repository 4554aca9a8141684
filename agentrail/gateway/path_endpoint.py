"""One URL path as an ASGI app: authenticate, validate, run the handler, write the response.

To add a route, put a `CallRoute` with its handler into `ROUTES` of a module that `app` lists:

    async def rename(call: RouteCall) -> WholeAnswer:
        session = await call.host.session(call.params["session_id"], call.principal, only_root=True)
        return answer_json({"name": await rename_session(session, call.body.name)})

    ROUTES = (CallRoute("POST", "/sessions/{session_id}/name", rename, does="names a session", body=NameBody),)

The requirements of the route were checked, in the order of docs/explanation/host.md. Parts of the path that do
not end in `_id` and query values are not parsed. Exceptions are answered by the table of `error_responses`.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias, TypeVar
from urllib.parse import parse_qsl

import msgspec
import trio
from attrs import define, field, frozen
from starlette.routing import Route

from agentrail import outside, websockets
from agentrail.abc.store import Node
from agentrail.actors.deferred_error import Kept
from agentrail.errors import StoreUnavailable
from agentrail.frozen import thawed
from agentrail.gateway.authorization import (
    UNAUTHORIZED,
    AccessGuard,
    CallerCheck,
    CallHead,
    admitted_head,
    caller_of,
    checked,
    name_user,
    node_call_of,
    require_scope,
    require_user,
    target_of,
)
from agentrail.gateway.error_responses import (
    CallRefused,
    EncodeError,
    ErrorAnswer,
    answer_to,
    error_answer,
    refuse_call,
)
from agentrail.gateway.event_hub import Hubs
from agentrail.gateway.node_token import NodeCall, NodeCalls, digest_of_body
from agentrail.gateway.request_parser import (
    READ_HERE_BYTES,
    AsgiApp,
    AsgiReceive,
    AsgiSend,
    BodyReader,
    CallerLeft,
    body_limit,
    check_content_type,
    check_id,
    check_query,
    decode_body,
    wait_left,
)
from agentrail.gateway.row_watches import Watches
from agentrail.gateway.serving import connection_cut
from agentrail.gateway.token_watcher import CallWatch
from agentrail.gateway.whole_answer import WholeAnswer, answer_json, start_of
from agentrail.host.hook_payloads import HandledResponse, Principal
from agentrail.host.host import Host
from agentrail.host.identity import SessionOwner, owner_key_of, session_id_for
from agentrail.host.quotas import (
    Allowances,
    Draw,
    Limits,
    OpenCounts,
    OpenPlace,
    decide_charge,
    draw_of_shared,
)
from agentrail.host.requests import HostRequest
from agentrail.logs import Logger
from agentrail.otp.exits import keep
from agentrail.runtime.crashes import log_crash, what_travels
from agentrail.runtime.persistence import ENGINE

MAX_READERS: Final = 2

HALF_CLOSED_SECONDS: Final = 0.5
"""Time for the answer of a call that has nothing to stop, after its client has stopped sending or has left: both look the same."""

T = TypeVar("T")

NO_PRINCIPAL: Final = Principal(tenant_id="", user_id="", scopes=())
"""Caller of a route that needs no token."""

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


# --- results of a handler


class AnswerStream(Protocol):
    """A stream, instead of a complete response. Its route sets `is_stream`."""

    @property
    def write(self) -> Callable[["RouteCall"], Awaitable[None]]:
        """Writes it to its end."""
        ...


@frozen
class OwnStream:
    """A stream that a function writes, in a protocol's own format."""

    write: Callable[["RouteCall"], Awaitable[None]]


Result: TypeAlias = WholeAnswer | HandledResponse | AnswerStream
"""Result of a handler."""


# --- input of a handler


@define(eq=False, kw_only=True)
class Gateway:
    """State shared by all routes of one host.

    Attributes:
        readers: Limit on threads that parse large input. Few, because they compete with the event loop.
        chat_timeout: Seconds that a `chat` waits for its answer.
        host: None before it opens and after it closes.
        hubs: Hubs of its streams; None as `host`.
        watches: Watches of its sockets; None as `host`.
        mcp: Its MCP server, if it has one; None as `host`.
        forward: Runs a call on the node that owns its session; None without other nodes, and as `host`.
        open_node_socket: Opens a socket to another node; None as `forward`.
        node_calls: Judges calls of other nodes; None as `forward`.
        a2a_tasks: Tasks of sessions that have not changed, for `ListTasks`.
        answers: Digests of requests that answered what a session asked, by tenant, then by user, session and name.
    """

    callers: CallerCheck
    limits: Limits
    chat_timeout: float = 300.0
    has_console: bool = False
    open_calls: CallWatch = field(init=False)
    allowances: Allowances[SessionOwner] = field(init=False)
    places: OpenCounts[SessionOwner] = field(init=False)
    bodies: BodyReader = field(factory=BodyReader)
    readers: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(MAX_READERS))
    host: Host | None = None
    hubs: Hubs | None = None
    watches: Watches | None = None
    mcp: Any = None
    forward: "Forward | None" = None
    open_node_socket: "OpenNodeSocket | None" = None
    node_calls: NodeCalls | None = None
    a2a_tasks: dict[tuple[Any, ...], tuple[Any, ...]] = field(factory=dict)
    answers: dict[str, dict[tuple[str, ...], bytes]] = field(factory=dict)
    was_open: bool = False
    version: str = ENGINE
    instance: str = field(factory=lambda: outside.ids(9))
    has_inspector: bool = True
    is_demo: bool = False

    def __attrs_post_init__(self) -> None:
        self.open_calls = CallWatch(self.callers)
        self.allowances = Allowances(self.limits)
        self.places = OpenCounts(self.limits.max_streams_per_principal, self.limits.max_streams)

    def opened(self) -> tuple[Host, Hubs]:
        if self.host is None or self.hubs is None:
            missing = "its lifespan has not run; a mounted application is opened by `async with app.state.host.open()` in the outer lifespan"
            refuse_call(
                "not_started", f"the host is not open: {'it has been closed' if self.was_open else missing}"
            )
        return self.host, self.hubs

    async def read_aside(self, read: Callable[[], T], size: int) -> T:
        """Parse input of `size` bytes, in a thread if it is large. Cancellation waits for the thread."""
        return read() if size <= READ_HERE_BYTES else await outside.offload(read, limiter=self.readers)

    async def draw(self, owner: SessionOwner, operation: str, count: int = 1) -> Draw | None:
        """Charge a call, and return the result. None if it is free. A count of -1 returns what it was charged.

        Messages are counted in a shared store, for all nodes together. While it is away, this node counts them alone.
        """
        supervisor = None if self.host is None else self.host.supervisor
        if supervisor is not None and supervisor.shared_node and decide_charge(operation) == "messages":
            pace = self.allowances.by_charge["messages"].pace
            step_ms, key = pace.interval_seconds * 1000, f"messages/{owner_key_of(owner)}"
            draw = partial(supervisor.take_allowance, key, step_ms * count, step_ms * pace.burst)
            with suppress(StoreUnavailable):
                return draw_of_shared(await draw(), pace)
        return self.allowances.take(owner, operation, outside.monotonic(), count)

    async def return_message(self, owner: SessionOwner, operation: str) -> bool:
        """Return what a message was charged that was certainly not accepted. False for other calls."""
        is_message = decide_charge(operation) == "messages"
        return is_message and await self.draw(owner, operation, -1) is not None

    def take_place(self, owner: SessionOwner) -> OpenPlace[SessionOwner]:
        """Take a place for a stream or a socket, or refuse the call. Closing the place releases it."""
        place = self.places.take(owner)
        if place == "caller":
            message = (
                f"{self.limits.max_streams_per_principal} streams are open, which is the limit: close one"
            )
            refuse_call("too_many_streams", message, headers={"retry-after": "5"})
        if place == "process":
            refuse_call("server_full", "the limit of open streams of this server is reached")
        assert isinstance(place, OpenPlace)  # noqa: S101 - the other two outcomes were refused
        return place


@define(eq=False, kw_only=True)
class RouteCall:
    """One checked call of a route.

    Attributes:
        cut: Closes the connection, even during a blocked write. None if another server serves the application.
        principal: The caller; `NO_PRINCIPAL` if the route needs no token.
        has_encoded_slash: Whether the path has an encoded slash, which the client did not mean as a separator.
        on_left: Awaited if the client disconnects. A handler sets it if there is work to stop.
        request: The request whose caller it is, until its end. None if it counts as the caller of none.
        watch: Scope of the work that runs while the client is connected.
        has_begun: Whether the first write of its response has started, so that nothing else can be answered.
        is_over: Whether the last one has.
        written: Set when the last write has returned. None unless a watch waits for it.
        via: Channel of the call, recorded with each message in the session's events.
        target: Its path with the query, as in its request line.
        text: Its body as it came. Only on a server with other nodes.
        node_call: The signed facts of a call that another node has passed on, or None.
    """

    gateway: Gateway
    head: CallHead
    receive: AsgiReceive
    send: AsgiSend
    cut: Callable[[], None] | None = None
    principal: Principal = NO_PRINCIPAL
    params: Mapping[str, str] = _NOTHING
    has_encoded_slash: bool = False
    query: Mapping[str, str] = _NOTHING
    body: Any = None
    request_id: str = ""
    on_left: Callable[[], Awaitable[None]] | None = None
    request: HostRequest | None = None
    has_hung_up: bool = False
    has_left: bool = False
    watch: trio.CancelScope | None = None
    has_begun: bool = False
    is_writing: bool = False
    is_over: bool = False
    written: trio.Event | None = None
    more_headers: dict[str, str] = field(factory=dict)
    via: str = "http"
    target: bytes = b""
    text: bytes = field(default=b"", repr=False)
    node_call: NodeCall | None = None

    @property
    def host(self) -> Host:
        return self.gateway.opened()[0]

    @property
    def client_id(self) -> str | None:
        """The caller's name for the call in its header, so that it can be sent again safely. See `named_by_client`."""
        return self.head.headers.get("idempotency-key")

    @property
    def trace(self) -> Mapping[str, str] | None:
        """The caller's trace context as it was sent, or None without one."""
        headers = self.head.headers
        if "traceparent" not in headers:
            return None
        return {"traceparent": headers["traceparent"], "tracestate": headers.get("tracestate", "")}

    async def write(self, message: dict[str, Any]) -> None:
        """Pass a message to the server. Only `while_there` can cut a blocked write."""
        self.is_writing = self.has_begun = True
        self.is_over = message["type"] == "http.response.body" and not message.get("more_body", False)
        try:
            await self.send(message)
        finally:
            self.is_writing = False
            if self.written is not None:
                self.written.set()

    async def while_there(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` while the client is connected, at most until the deadline of `watch`. Cuts the connection if a write in it is cancelled."""
        failure, self.written = Kept(), None
        async with trio.open_nursery() as nursery:
            self.watch = nursery.cancel_scope
            nursery.start_soon(self._watch, nursery.cancel_scope)
            with failure:
                await work()
            is_cut = nursery.cancel_scope.cancel_called
            if self.written is None:  # otherwise the watch ends by itself, which costs half as much
                nursery.cancel_scope.cancel(reason="the work is done")
        if failure.error is None:
            return
        if not is_cut or what_travels(failure.error) is not None:
            failure.release()
        failure.error = None  # its traceback refers to this frame: a cycle, freed by the collector only
        if self.has_left:  # otherwise at the deadline
            raise CallerLeft

    async def _watch(self, scope: trio.CancelScope) -> None:
        try:
            if not self.has_hung_up:  # the server reports it only once
                await wait_left(self.receive)
            self.has_hung_up = True
            is_stream = self.has_begun and scope.deadline == math.inf
            if not is_stream and self.on_left is None:  # it may have stopped sending only (RFC 9112, 9.6)
                await trio.sleep(HALF_CLOSED_SECONDS)
            if self.is_over:  # after a complete response the server reports it for every call
                if self.is_writing:
                    self.written = trio.Event()
                    await self.written.wait()
                return
            self.has_left = True
        finally:
            if self.is_writing and self.cut is not None:
                self.cut()
        scope.cancel(reason="the caller disconnected")


RouteHandler: TypeAlias = Callable[[RouteCall], Awaitable[Result]]
"""Implements a route."""


def _text_or_none(named: object) -> str | None:
    return named if isinstance(named, str) else None


@frozen
class CallAim:
    """The session that a call is about. Bodies of other protocols are not validated yet, so a value that is not a string counts as None.

    Attributes:
        session_id: Its id, or None if the call is about none or a new one.
        client_id: Name that makes a repetition of the call safe, or None.
        node: Node with the connection of the client, which answers unless the session has an owner. None for a call without one.
    """

    session_id: str | None = field(default=None, converter=_text_or_none)
    client_id: str | None = field(default=None, converter=_text_or_none)
    node: str | None = None

    def session_of(self, owner: SessionOwner) -> str | None:
        """Return the session of a caller, also a new one whose id follows from the client id."""
        if self.session_id is None and self.client_id is not None:
            return session_id_for(owner, self.client_id)
        return self.session_id


def aim_of_call(call: RouteCall) -> CallAim:
    """Return the session in the path, the body or the query."""
    named = (
        call.params.get("session_id"),
        getattr(call.body, "session_id", None),
        call.query.get("session_id"),
    )
    client_id = getattr(call.body, "client_id", None) or call.client_id
    return CallAim(next((one for one in named if one is not None), None), client_id)


def aim_nowhere(_: RouteCall) -> CallAim:
    """For a call that any node can answer from the store."""
    return CallAim()


class NotAccepted(CallRefused):
    """The node of a session does not answer, and certainly has not accepted the call."""


class SessionMoved(CallRefused):
    """The session of a call has left this node while the call waited. Sent again, it has no second effect."""

    def __init__(self) -> None:
        message = "the session moved to another node while the call waited"
        super().__init__(error_answer("owner_silent", message))


RunHere: TypeAlias = Callable[[], Awaitable[None]]
"""Runs a call on this node, and writes its response."""

Forward: TypeAlias = Callable[[RouteCall, "CallRoute", RunHere], Awaitable[None]]

OpenNodeSocket: TypeAlias = Callable[
    [Node, Principal, bytes], "AbstractAsyncContextManager[websockets.WebSocketConnection]"
]
"""Opens a socket to a node for a caller, at the path of the caller's own."""


RouteReply: TypeAlias = type | tuple[type, ...]
"""Struct of a response, or the possible ones; none for a response without a body."""


@frozen
class CallRoute:
    """One method of one path.

    Attributes:
        method: In capitals; HEAD comes with GET.
        path: In Starlette's notation, such as `/sessions/{session_id}/prompt`.
        operation: Name for rate limiting, see `decide_charge`; by default an ordinary call.
        operation_of: Returns the operation of a body, for a path with several.
        body: Struct of its body, or None.
        needs_type: Whether a POST without a content type is refused. False only for routes that change nothing.
        scope: Required scope of the token, or None if no token is needed.
        is_guarded: Whether the origin of a call is checked although no token is needed. With a scope it always
            is.
        is_stream: Whether it takes the place of a stream.
        replies: Structs of its successful responses by status. Streams, files and empty responses have none.
            None if unknown.
        refusals: Codes of `ERROR_ANSWERS` with which it refuses calls, in addition to those of all routes of
            its kind.
        asks_plugins: Whether it carries a user's message: a plugin of the host may answer in place of the
            session, with any object.
        encode_error: Returns the body of an error response in the shape of its protocol. One for all methods of a
            path, and for the access guard too.
        error_reply: Struct of that body, or None for our own.
        aim: Returns the session that a call is about, without a look at the store. Its node answers.
        is_described: Whether `/openapi.json` has it. False for a protocol that describes its own messages.
    """

    method: str
    path: str
    handler: RouteHandler
    does: str = field(kw_only=True)
    operation: str = field(default="call", kw_only=True)
    operation_of: Callable[[Any], str] | None = field(default=None, kw_only=True)
    body: type[msgspec.Struct] | None = field(default=None, kw_only=True)
    needs_type: bool = field(default=True, kw_only=True)
    query: tuple[str, ...] = field(default=(), kw_only=True)
    scope: str | None = field(default="use", kw_only=True)
    also: str | None = field(default=None, kw_only=True)
    is_guarded: bool = field(default=False, kw_only=True)
    needs_user: bool = field(default=True, kw_only=True)
    is_stream: bool = field(default=False, kw_only=True)
    success: int = field(default=200, kw_only=True)
    content: tuple[str, ...] = field(default=(), kw_only=True)
    frames: str = field(default="Event", kw_only=True)
    replies: Mapping[int, RouteReply] | None = field(default=None, kw_only=True)
    refusals: str = field(default="", kw_only=True)
    asks_plugins: bool = field(default=False, kw_only=True)
    encode_error: EncodeError = field(default=ErrorAnswer.encode, kw_only=True)
    error_reply: type[msgspec.Struct] | None = field(default=None, kw_only=True)
    aim: Callable[[RouteCall], CallAim] = field(default=aim_of_call, kw_only=True)
    is_described: bool = field(default=True, kw_only=True)


LOGGER: Final = Logger("agentrail.gateway")

LEFT_SECONDS: Final = 10.0
"""Time limit for telling a session that its client has disconnected."""

WRITE_SECONDS: Final = 30.0
"""Time limit for writing the smallest response. Each `SLOWEST_BYTES` of body add a second."""

SLOWEST_BYTES: Final = 4 << 10

_NO_CONTENT: Final = (204, 304)
_USUAL_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {"cache-control": "no-store", "x-content-type-options": "nosniff"}
)


def user_in_body(call: RouteCall) -> Principal:
    """Return the caller with the user that the body names."""
    named: dict[str, Any] = {one: getattr(call.body, one, None) for one in ("tenant_id", "user_id")}
    return checked(name_user(call.principal, **named))


class PathEndpoint:
    """All methods of one URL path, as an ASGI app."""

    def __init__(self, gateway: Gateway, routes: Iterable[CallRoute]) -> None:
        self._gateway = gateway
        self._routes = {route.method: route for route in routes}
        found = self._routes.values()
        self.encode_error: EncodeError = next((one.encode_error for one in found), ErrorAnswer.encode)
        self.is_public: bool = bool(self._routes) and all(one.scope is None for one in found)
        self.is_open: bool = self.is_public and not any(one.is_guarded for one in found)
        # No HEAD for a stream: it would stay open and return nothing.
        has_head = "GET" in self._routes and not self._routes["GET"].is_stream
        self.methods: Sequence[str] = [*self._routes, *(["HEAD"] if has_head else [])]

    async def __call__(self, scope: Any, receive: AsgiReceive, send: AsgiSend) -> None:
        """Handle one request. Only exceptions that must end the process propagate."""
        call = RouteCall(
            gateway=self._gateway,
            head=admitted_head(scope),
            receive=receive,
            send=send,
            cut=connection_cut(scope),
            params=scope.get("path_params", {}),
            has_encoded_slash=has_encoded_slash(scope),
            target=target_of(scope),
            node_call=node_call_of(scope),
        )
        call.principal = caller_of(scope) or NO_PRINCIPAL
        try:
            answer: WholeAnswer | None = None
            try:
                await self._answer(call)
            except BaseException as raised:  # noqa: ASYNC103 - cancellation is raised again
                if call.has_begun or isinstance(raised, CallerLeft) or what_travels(raised) is not None:
                    raise
                answer = self._answer_to(call, raised)
            if answer is not None:
                await call.while_there(partial(_write, call, answer))
        except CallerLeft:
            call.has_left = True
        finally:
            if call.has_left and call.on_left is not None:
                await self._leave(call.on_left)  # noqa: ASYNC102 - shielded and bounded
            if call.request is not None and not call.request.record.has_ended:
                call.request.release()

    async def _answer(self, call: RouteCall) -> None:
        route = self._routes.get("GET" if call.head.method == "HEAD" else call.head.method)
        if route is None or call.head.method not in self.methods:
            allowed = {"allow": ", ".join(self.methods)}
            refuse_call("method_not_allowed", f"{call.head.method} is not known here", headers=allowed)
        if route.scope is None:
            await self._run(call, route)
            return
        if call.principal is NO_PRINCIPAL:
            raise CallRefused(UNAUTHORIZED)  # the guard is missing from this route
        checked(require_scope(call.principal, route.scope, route.also))
        call.gateway.opened()
        try:
            await self._read(call, route)
        except CallRefused:
            if decide_charge(route.operation) is not None:  # a malformed request costs work too
                await self._charge(call, SessionOwner.of(call.principal), "call")
            raise
        owner = SessionOwner.of(call.principal)
        operation = route.operation if route.operation_of is None else route.operation_of(call.body)
        await self._charge(call, owner, operation)
        has_place = route.is_stream and call.node_call is None
        try:
            with call.gateway.take_place(owner) if has_place else nullcontext():
                await self._run_somewhere(call, route)
        except NotAccepted:
            if await call.gateway.return_message(owner, operation):
                await self._charge(call, owner, "call")
            raise

    async def _read(self, call: RouteCall, route: CallRoute) -> None:
        if call.has_encoded_slash:  # the router has split the id at this slash
            refuse_call("id_invalid", "an id in the path is invalid: it contains a slash")
        for name, value in call.params.items():
            if name.endswith("_id"):
                check_id(name, value, of_session=name == "session_id")
        pairs = parse_qsl(call.head.query, keep_blank_values=True, errors="replace")
        check_query([name for name, _ in pairs], route.query)
        call.query = dict(pairs)
        if call.head.method == "POST" and (route.needs_type or "content-type" in call.head.headers):
            # Even without a body: a form of another site can send any other type without a preflight.
            given = call.head.headers
            check_content_type(given.get("content-type"), given.get("content-encoding"))
        limits = call.gateway.limits
        text = b""
        if route.body is not None:
            text = await call.gateway.bodies.read(
                call.receive,
                call.head.headers,
                body_limit(route.body, limits),
                caller=SessionOwner.of(call.principal),
            )
        if call.node_call is not None and call.node_call.digest != await call.gateway.read_aside(
            partial(digest_of_body, text), len(text)
        ):
            refuse_call("forbidden", "the signature is for another body")
        call.text = b"" if call.gateway.forward is None else text
        if route.body is not None:
            read = partial(decode_body, route.body, text, limits)
            call.body = await call.gateway.read_aside(read, len(text))
            call.principal = user_in_body(call)
        if route.needs_user:
            checked(require_user(call.principal))

    async def _charge(self, call: RouteCall, owner: SessionOwner, operation: str) -> None:
        if call.node_call is not None:  # charged where it came in
            return
        charge = decide_charge(operation)
        draw = await call.gateway.draw(owner, operation)
        if draw is None or charge is None:
            return
        pace = call.gateway.allowances.by_charge[charge].pace
        policy = f'"{charge}";q={pace.count};w={math.ceil(pace.window_seconds)}'
        left = f'"{charge}";r={draw.left};t={draw.full_in_seconds}'
        call.more_headers.update({"ratelimit-policy": policy, "ratelimit": left})
        check_draw(charge, draw)

    def _run_somewhere(self, call: RouteCall, route: CallRoute) -> Awaitable[None]:
        # Not async: each wake-up of a call passes through all functions that wait for it.
        run, forward = partial(self._run, call, route), call.gateway.forward
        return run() if forward is None else forward(call, route, run)

    async def _run(self, call: RouteCall, route: CallRoute) -> None:
        streams: list[AnswerStream] = []

        async def work() -> None:
            match await route.handler(call):
                case WholeAnswer() as answer:
                    await _write(call, answer)
                case HandledResponse() as handled:
                    headers = {name.lower(): value for name, value in handled.headers.items()}
                    await _write(call, answer_json(thawed(handled.body), handled.status, headers))
                case stream:
                    streams.append(stream)

        await call.while_there(work)
        for stream in streams:
            await stream.write(call)

    def _answer_to(self, call: RouteCall, raised: BaseException) -> WholeAnswer:
        call.request_id = f"e-{outside.ids(9)}"
        answer = answer_to(raised, request_id=call.request_id)
        if answer.is_ours:
            log_crash(f"call {call.request_id} failed ({call.head.method})", raised, keep)
        return answer_refusing(answer, self.encode_error)

    async def _leave(self, on_left: Callable[[], Awaitable[None]]) -> None:
        with trio.move_on_after(LEFT_SECONDS, shield=True):
            try:
                await on_left()  # noqa: ASYNC102 - bounded and shielded
            except BaseException as raised:  # noqa: ASYNC103 - cancellation is raised again
                if what_travels(raised) is not None:
                    raise
                LOGGER.warning(
                    "cannot notify a session of its caller's disconnect: %s", type(raised).__name__
                )


class UnknownPath(PathEndpoint):
    """Responds to unknown paths. Without a token, they look like known ones."""

    def __init__(self, gateway: Gateway, encode_error: EncodeError = ErrorAnswer.encode) -> None:
        super().__init__(gateway, ())
        self.encode_error = encode_error

    async def _answer(self, call: RouteCall) -> None:
        await trio.lowlevel.checkpoint()
        if call.principal is not NO_PRINCIPAL:
            await self._charge(call, SessionOwner.of(call.principal), "call")
        if call.has_encoded_slash:
            refuse_call("id_invalid", "an id in the path is invalid: it contains a slash")
        refuse_call("route_unknown", "there is nothing at this path")


def check_draw(charge: str, draw: Draw | None) -> None:
    if draw is not None and not draw.is_allowed:
        wait = {"retry-after": f"{draw.retry_after_seconds}"}
        message = f"too many {charge} came from this caller"
        refuse_call("too_many_requests", message, headers=wait)


def has_encoded_slash(scope: Mapping[str, Any]) -> bool:
    """Return whether a path has an encoded slash within a name, which would match another route."""
    raw = (scope.get("raw_path") or b"").lower()
    file = scope.get("path_params", {}).get("path", "")
    in_front = scope["path"].removesuffix(file).count("/")
    return b"%2f" in (b"/".join(raw.split(b"/")[:in_front]) if file else raw)


async def _write(call: RouteCall, answer: WholeAnswer) -> None:
    """Write a complete response, in `while_there`, where its time is limited."""
    headers = {**_USUAL_HEADERS, **call.more_headers, **answer.headers}
    if answer.status not in _NO_CONTENT:
        headers["content-length"] = f"{len(answer.body)}"
    if answer.body:
        headers["content-type"] = answer.content_type
    if not call.head.is_http_1:
        headers.pop("connection", None)
    assert call.watch is not None  # noqa: S101 - `while_there` has set it
    call.watch.deadline = trio.current_time() + WRITE_SECONDS + len(answer.body) / SLOWEST_BYTES
    await call.write(start_of(answer.status, headers))
    await call.write({"type": "http.response.body", "body": answer.body})


def answer_refusing(refused: ErrorAnswer, encode: EncodeError = ErrorAnswer.encode) -> WholeAnswer:
    """Return an error as a response. While the host closes, the connection is closed too."""
    headers = dict(refused.headers)
    if refused.code == "draining":
        headers["connection"] = "close"
    return WholeAnswer(body=encode(refused), status=refused.status, headers=headers)


def guarded(endpoint: PathEndpoint, gateway: Gateway) -> AsgiApp:
    """Add the access guard to a path that needs a token."""
    if endpoint.is_open:
        return endpoint
    return AccessGuard(
        endpoint,
        gateway.callers,
        methods_of=lambda _: endpoint.methods,
        is_public=lambda _: endpoint.is_public,
        encode_error=endpoint.encode_error,
        node_calls=lambda: gateway.node_calls,
    )


def starlette_routes(gateway: Gateway, routes: Iterable[CallRoute], *, base_path: str = "") -> list[Route]:
    by_path: dict[str, list[CallRoute]] = {}
    for route in routes:
        by_path.setdefault(route.path, []).append(route)
    return [
        Route(
            f"{base_path}{path}",
            guarded(PathEndpoint(gateway, found), gateway),
            name=path,
            include_in_schema=False,
        )
        for path, found in by_path.items()
    ]
