"""One URL path as an ASGI app: authenticate, validate, run the handler, write the response. And how routes are added.

Nothing is decided about a call here but the order in which others decide it.

How a route is added: write `async def handler(call: RouteCall) -> Result`, and put a `CallRoute` for it into the tuple `ROUTES` of a module
that `app` lists. What the route says is judged before the handler runs, in the order of docs/explanation/host.md: headers, preflight,
Host, Origin and token, scope, ids in the path, query, content type and body, user, limits, and for a stream its place. So a handler gets
a `RouteCall` in which all of that holds, and does one thing:

    async def rename(call: RouteCall) -> WholeAnswer:
        session = await call.host.session(call.params["session_id"], call.principal, only_root=True)
        return answer_json({"name": await rename_session(session, call.body.name)})

    ROUTES = (CallRoute("POST", "/sessions/{session_id}/name", rename, does="gives a session a name", body=NameBody),)

- `call.params` has the parts of the path. Those whose name ends in `_id` were checked as ids; a `{path:path}` was not.
- `call.query` has what stands behind the question mark; only names that `query` lists, each once, and their values unread: see `reading`.
- `call.body` is the struct of `body`, read strictly.
- What is raised is answered by the table of `answers`: a public exception as itself, `refuse_call(code, …)` as that code, all else
  as 500 `internal`, whose cause the log has under a `request_id`.
- When the caller leaves, the handler is cancelled; what `call.on_left` holds then is awaited, shielded.
- A `HandledResponse` of an interceptor may be given as it is. A `StreamAnswer` is written by `streams`; its route says `is_stream`.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import parse_qsl

import msgspec
import trio
from attrs import define, field, frozen
from starlette.routing import Route

from agentrail import outside
from agentrail.actors.kept import Kept
from agentrail.frozen import thawed
from agentrail.gateway.access import (
    UNAUTHORIZED,
    AccessGuard,
    CallerCheck,
    CallHead,
    caller_of,
    head_of,
    name_user,
    require_scope,
    require_user,
)
from agentrail.gateway.answers import CallRefused, ErrorAnswer, answer_to, error_answer, refuse_call
from agentrail.gateway.hub import Hubs
from agentrail.gateway.open_calls import CallWatch
from agentrail.gateway.reading import (
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
from agentrail.gateway.serving import connection_cut
from agentrail.gateway.stream_reader import StreamReader
from agentrail.gateway.watches import Watches
from agentrail.host.host import Host
from agentrail.host.identity import SessionOwner
from agentrail.host.limits import Allowances, Draw, Limits, OpenCounts, OpenPlace, decide_charge
from agentrail.host.payloads import HandledResponse, Principal
from agentrail.logs import Logger
from agentrail.otp.exits import keep
from agentrail.runtime.crashes import log_crash, what_travels
from agentrail.runtime.handle import Session
from agentrail.runtime.keeping import ENGINE
from agentrail.wire.plain import encode_plain

MAX_READERS: Final = 2

T = TypeVar("T")

NO_PRINCIPAL: Final = Principal(tenant_id="", user_id="", scopes=())
"""Who calls a route that asks for no token."""

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


# --- what a handler gives


@frozen(kw_only=True)
class WholeAnswer:
    """An answer that is whole.

    Attributes:
        body: As it goes out.
        status: Of HTTP.
        content_type: What the body is; left away where there is none.
        headers: Besides the usual ones; names in lower case.
    """

    body: bytes = field(default=b"", repr=False)
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = _NOTHING


@frozen(kw_only=True)
class StreamAnswer:
    """A stream of a session's events, in place of an answer.

    Attributes:
        session: Whose.
        after: The number that it goes on after; None for a snapshot in front.
        follow: Runs beside the stream, and ends it with `StreamReader.finish`; None where its session ends it.
        headers: As of `WholeAnswer`.
    """

    session: Session
    after: int | None
    follow: Callable[[StreamReader], Awaitable[None]] | None = None
    headers: Mapping[str, str] = _NOTHING


@frozen(kw_only=True)
class OwnStream:
    """A stream that a protocol writes in its own way, in place of an answer; its route says `is_stream`.

    Attributes:
        write: Writes it to its end. What it raises before the first byte is answered as what a handler raises.
    """

    write: Callable[["RouteCall"], Awaitable[None]]


Result: TypeAlias = WholeAnswer | HandledResponse | StreamAnswer | OwnStream
"""What a handler gives."""


def answer_json(value: object, status: int = 200, headers: Mapping[str, str] = _NOTHING) -> WholeAnswer:
    """Make an answer of a value; bytes are JSON already."""
    body = value if isinstance(value, bytes) else encode_plain(value)
    return WholeAnswer(body=body, status=status, headers=headers)


# --- what a handler is given


@define(eq=False, kw_only=True)
class Gateway:
    """What all routes of one host share.

    Attributes:
        callers: Who may call.
        open_calls: Its open streams and sockets.
        limits: How much of it.
        allowances: How often.
        places: Of open streams and sockets.
        bodies: Reads them.
        readers: How many threads read what is large: few, since they and the loop take turns.
        chat_timeout: How many seconds a `chat` waits for its answer.
        has_console: Whether browsers that open `/` are led to the console.
        host: None before it is open, and behind its close.
        hubs: Of its streams; None as `host`.
        watches: What its sockets watch; None as `host`.
        was_open: Whether the host has been opened before.
        version: Of this package.
        instance: A text that no other process has.
        has_inspector: Whether there is anything for those who may inspect.
        is_demo: Whether it only shows what it could do.
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
    was_open: bool = False
    version: str = ENGINE
    instance: str = field(factory=lambda: outside.ids(9))
    has_inspector: bool = True
    is_demo: bool = False

    def __attrs_post_init__(self) -> None:
        """Count nothing yet."""
        self.open_calls = CallWatch(self.callers)
        self.allowances = Allowances(self.limits)
        self.places = OpenCounts(self.limits.max_streams_per_principal, self.limits.max_streams)

    def opened(self) -> tuple[Host, Hubs]:
        """Give the host and its streams."""
        if self.host is None or self.hubs is None:
            missing = "its lifespan has not run; a mounted application is opened by `async with app.state.host.open()` in the outer lifespan"
            refuse_call(
                "not_started", f"the host is not open: {'it has been closed' if self.was_open else missing}"
            )
        return self.host, self.hubs

    async def read_aside(self, read: Callable[[], T], size: int) -> T:
        """Read something of so many bytes that a caller sent: in a thread where it is large, so that no one waits for it.

        Cancellation: Waits for the thread, which takes seconds at most.
        """
        return read() if size <= READ_HERE_BYTES else await outside.offload(read, limiter=self.readers)

    def take_place(self, owner: SessionOwner) -> OpenPlace[SessionOwner]:
        """Take a place for a stream or a socket; closing it gives it back."""
        place = self.places.take(owner)
        if place == "caller":
            message = f"{self.limits.max_streams_per_principal} streams are open, more are not: close one"
            raise CallRefused(error_answer("too_many_streams", message, headers={"retry-after": "5"}))
        if place == "process":
            refuse_call("server_full", "as many streams are open as this server has room for")
        assert isinstance(place, OpenPlace)  # noqa: S101 - it is one of three
        return place


@define(eq=False, kw_only=True)
class RouteCall:
    """One call of a route, judged.

    Attributes:
        gateway: What it shares with the others.
        head: Method, path, headers.
        receive: The connection.
        send: The connection.
        cut: Closes the connection, also while a write does not get through; None where another server serves.
        principal: Who calls; `NO_PRINCIPAL` where the route asks for no token.
        params: The parts of the path, by name.
        has_encoded_slash: Whether the path came with a slash that was to be no end of a part.
        query: By name.
        body: The struct of the route; None for a route without one.
        request_id: What the log has this call under, if it fails.
        on_left: Awaited if the caller leaves; a handler puts it here when there is something to stop.
        has_left: Whether the caller did.
        is_writing: Whether a write is on its way.
        is_over: Whether the last one of its answer is, or was.
        more_headers: What each answer to it has.
        via: The door that it came through; in the events of a session beside each message.
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
    has_left: bool = False
    is_writing: bool = False
    is_over: bool = False
    more_headers: dict[str, str] = field(factory=dict)
    via: str = "http"

    @property
    def host(self) -> Host:
        """The host, which is open."""
        return self.gateway.opened()[0]

    async def write(self, message: dict[str, Any]) -> None:
        """Give a message to the server.

        Cancellation: Of a write that does not get through it has no effect: `while_there` cuts the connection then.
        """
        self.is_writing = True
        self.is_over = message["type"] == "http.response.body" and not message.get("more_body", False)
        try:
            await self.send(message)
        finally:
            self.is_writing = False

    async def while_there(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something as long as the caller is there; cut the connection if a write of it is cancelled."""
        self._check_there()
        failure = Kept()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, nursery.cancel_scope)
            with failure:
                await work()
            nursery.cancel_scope.cancel(reason="the work is done")
        if failure.error is None:
            return
        if self.has_left and what_travels(failure.error) is None:
            raise CallerLeft
        failure.release()

    def _check_there(self) -> None:
        if self.has_left:  # the server says it once
            raise CallerLeft

    async def _watch(self, scope: trio.CancelScope) -> None:
        try:
            await wait_left(self.receive)
            if self.is_over:  # behind a whole answer the server says it of each call
                await trio.sleep_forever()
            self.has_left = True
        finally:
            if self.is_writing and self.cut is not None:
                self.cut()
        scope.cancel(reason="the caller left")


RouteHandler: TypeAlias = Callable[[RouteCall], Awaitable[Result]]
"""Does what a route is for."""


RouteReply: TypeAlias = type | tuple[type, ...]
"""The struct of an answer, or those of which it is one; none of an answer without a body."""


WriteStream: TypeAlias = Callable[[RouteCall, StreamAnswer], Awaitable[None]]
"""Writes a stream to its end; see `streams`."""


@frozen
class CallRoute:
    """One method of one path.

    Attributes:
        method: In capitals; HEAD comes with GET.
        path: As Starlette has it, such as `/sessions/{session_id}/prompt`.
        handler: What does it.
        does: What that is, in a few words, for the page of the interface.
        operation: By what name it is charged, as of `decide_charge`; the usual one for any other call.
        body: The struct of its body; None for a call without one.
        query: The names that may stand in its query.
        scope: What a token needs; None where no token is asked for.
        also: Another scope that is enough.
        is_guarded: Whether it is judged from where a call comes where no token is asked for; with a scope it always is.
        needs_user: Whether it has to be known which user calls, and not only which tenant.
        is_stream: Whether it takes the place of a stream.
        success: The status of its answer, for the page of the interface.
        content: The types of what it gives that is no JSON, for that page.
        frames: The schema of what stands in the frames of its stream, for that page.
        replies: The structs of its answers by status, where it succeeds; a stream, a file and an answer without a body have none. None
            where nothing is known of them.
        refusals: The codes of `ERROR_ANSWERS` that it refuses calls with, besides those that all routes of its kind have.
        asks_plugins: Whether it brings a user's words: a plugin of the host may answer them in place of the session, with any object.
    """

    method: str
    path: str
    handler: RouteHandler
    does: str = field(kw_only=True)
    operation: str = field(default="call", kw_only=True)
    body: type[msgspec.Struct] | None = field(default=None, kw_only=True)
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


def start_of(status: int, headers: Mapping[str, str]) -> dict[str, Any]:
    """Make the first message of an answer, as of ASGI."""
    pairs = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": pairs}


LOGGER: Final = Logger("agentrail.gateway")

LEFT_SECONDS: Final = 10.0
"""How long it may take to say to a session that its caller left."""

WRITE_SECONDS: Final = 30.0
"""How long the smallest answer may take to be written; a large one a second more for each `SLOWEST_BYTES`."""

SLOWEST_BYTES: Final = 4 << 10

_NO_CONTENT: Final = (204, 304)
_USUAL_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {"cache-control": "no-store", "x-content-type-options": "nosniff"}
)


class PathEndpoint:
    """All methods of one path, as an ASGI application."""

    def __init__(self, gateway: Gateway, routes: Iterable[CallRoute], write_stream: WriteStream) -> None:
        """Take what there is."""
        self._gateway = gateway
        self._write_stream = write_stream
        self._routes = {route.method: route for route in routes}
        found = self._routes.values()
        self.is_public: bool = bool(self._routes) and all(one.scope is None for one in found)
        self.is_open: bool = self.is_public and not any(one.is_guarded for one in found)
        # None for a stream: it would be open for ever, and show nothing.
        has_head = "GET" in self._routes and not self._routes["GET"].is_stream
        self.methods: Sequence[str] = [*self._routes, *(["HEAD"] if has_head else [])]

    async def __call__(self, scope: Any, receive: AsgiReceive, send: AsgiSend) -> None:
        """WholeAnswer a call; nothing is raised but what ends the program.

        Cancellation: The handler is cancelled, and what is being written is cut.
        """
        head = head_of(scope)
        call = RouteCall(
            gateway=self._gateway,
            head=head,
            receive=receive,
            send=send,
            cut=connection_cut(scope),
            params=scope.get("path_params", {}),
            has_encoded_slash=has_encoded_slash(scope),
        )
        call.principal = caller_of(scope) or NO_PRINCIPAL
        try:
            try:
                answer = await self._answer(call)
            except BaseException as raised:  # noqa: ASYNC103 - what travels is raised
                if isinstance(raised, CallerLeft) or what_travels(raised) is not None:
                    raise
                answer = self._answer_to(call, raised)
            if answer is not None:
                await self._write(call, answer, scope)
        except CallerLeft:
            call.has_left = True
        finally:
            if call.has_left and call.on_left is not None:
                await self._leave(call, call.on_left)  # noqa: ASYNC102 - it shields itself, with a deadline

    async def _answer(self, call: RouteCall) -> WholeAnswer | None:
        """Give the answer; None where a stream was written."""
        route = self._routes.get("GET" if call.head.method == "HEAD" else call.head.method)
        if route is None or call.head.method not in self.methods:
            answer = error_answer(
                "method_not_allowed",
                f"{call.head.method} is not known here",
                headers={"allow": ", ".join(self.methods)},
            )
            raise CallRefused(answer)
        if route.scope is None:
            return await self._run(call, route)
        if call.principal is NO_PRINCIPAL:
            raise CallRefused(UNAUTHORIZED)  # a route that stands without its guard
        _check(require_scope(call.principal, route.scope, route.also))
        call.gateway.opened()
        try:
            await self._read(call, route)
        except CallRefused:
            if decide_charge(route.operation) is not None:  # what cannot be read has been work all the same
                self._charge(call, SessionOwner.of(call.principal), "call")
            raise
        owner = SessionOwner.of(call.principal)
        self._charge(call, owner, route.operation)
        if not route.is_stream:
            return await self._run(call, route)
        with call.gateway.take_place(owner):
            return await self._run(call, route)

    async def _read(self, call: RouteCall, route: CallRoute) -> None:
        """Read path, query and body, and say for whom the call is."""
        if call.has_encoded_slash:  # it came apart at a place that its caller took for a part of an id
            refuse_call("id_invalid", "an id in the path is no id: it has a slash")
        for name, value in call.params.items():
            if name.endswith("_id"):
                check_id(name, value, of_session=name == "session_id")
        pairs = parse_qsl(call.head.query, keep_blank_values=True, errors="replace")
        check_query([name for name, _ in pairs], route.query)
        call.query = dict(pairs)
        if call.head.method == "POST":
            # Also where no body is wanted: a form of another site can send any other type without being asked.
            given = call.head.headers
            check_content_type(given.get("content-type"), given.get("content-encoding"))
        limits = call.gateway.limits
        if route.body is not None:
            text = await call.gateway.bodies.read(
                call.receive,
                call.head.headers,
                body_limit(route.body, limits),
                caller=SessionOwner.of(call.principal),
            )
            read = partial(decode_body, route.body, text, limits)
            call.body = await call.gateway.read_aside(read, len(text))
            found = name_user(
                call.principal,
                tenant_id=getattr(call.body, "tenant_id", None),
                user_id=getattr(call.body, "user_id", None),
            )
            if isinstance(found, ErrorAnswer):
                raise CallRefused(found)
            call.principal = found
        if route.needs_user:
            _check(require_user(call.principal))

    def _charge(self, call: RouteCall, owner: SessionOwner, operation: str) -> None:
        """Take what the call costs, and say in its answer what is left."""
        charge = decide_charge(operation)
        draw = call.gateway.allowances.take(owner, operation, outside.monotonic())
        if draw is None or charge is None:
            return
        pace = call.gateway.allowances.by_charge[charge].pace
        call.more_headers.update(limit_headers(charge, pace.count, pace.window_seconds, draw))
        if not draw.is_allowed:
            wait = {"retry-after": f"{draw.retry_after_seconds}"}
            raise CallRefused(
                error_answer("too_many_requests", f"too many {charge} came from this caller", headers=wait)
            )

    async def _run(self, call: RouteCall, route: CallRoute) -> WholeAnswer | None:
        results: list[Result] = []

        async def work() -> None:
            results.append(await route.handler(call))

        await call.while_there(work)
        (result,) = results
        match result:
            case StreamAnswer():
                await self._write_stream(call, result)
                return None
            case OwnStream():
                await result.write(call)
                return None
            case HandledResponse():
                headers = {name.lower(): value for name, value in result.headers.items()}
                return answer_json(thawed(result.body), result.status, headers)
            case _:
                return result

    def _answer_to(self, call: RouteCall, raised: BaseException) -> WholeAnswer:
        """Say how a call is answered that was refused, or failed."""
        call.request_id = f"e-{outside.ids(9)}"
        answer = answer_to(raised, request_id=call.request_id)
        if answer.is_ours:
            log_crash(f"call {call.request_id} failed ({call.head.method})", raised, keep)
        return answer_refusing(answer)

    async def _write(self, call: RouteCall, answer: WholeAnswer, scope: Mapping[str, Any]) -> None:
        """Write an answer; a caller who does not read it in its time is cut."""
        headers = {**_USUAL_HEADERS, **call.more_headers, **answer.headers}
        if answer.status not in _NO_CONTENT:
            headers["content-length"] = f"{len(answer.body)}"
        if answer.body:
            headers["content-type"] = answer.content_type
        if not str(scope.get("http_version", "1.1")).startswith("1"):
            headers.pop("connection", None)

        async def work() -> None:
            await call.write(start_of(answer.status, headers))
            await call.write({"type": "http.response.body", "body": answer.body})

        with trio.move_on_after(WRITE_SECONDS + len(answer.body) / SLOWEST_BYTES):
            await call.while_there(work)

    async def _leave(self, call: RouteCall, on_left: Callable[[], Awaitable[None]]) -> None:
        with trio.move_on_after(LEFT_SECONDS, shield=True):
            try:
                await on_left()  # noqa: ASYNC102 - bounded and shielded
            except BaseException as raised:  # noqa: ASYNC103 - what travels is raised
                if what_travels(raised) is not None:
                    raise
                LOGGER.warning("a caller left, and that could not be told: %s", type(raised).__name__)


class UnknownPath(PathEndpoint):
    """All paths that there are none of, as an ASGI application: strangers are not told which those are."""

    def __init__(self, gateway: Gateway) -> None:
        """Know of no path."""
        super().__init__(gateway, (), write_stream=_write_none)

    async def _answer(self, call: RouteCall) -> WholeAnswer | None:
        await trio.lowlevel.checkpoint()
        if call.principal is not NO_PRINCIPAL:
            self._charge(call, SessionOwner.of(call.principal), "call")
        if call.has_encoded_slash:
            refuse_call("id_invalid", "an id in the path is no id: it has a slash")
        refuse_call("route_unknown", "there is nothing at this path")


def has_encoded_slash(scope: Mapping[str, Any]) -> bool:
    """Say whether a path has a slash that its caller wrote as a part of a name, outside of the path of a file.

    It is decoded in front of the routes, so that another one would be found than the caller named.
    """
    raw = (scope.get("raw_path") or b"").lower()
    file = scope.get("path_params", {}).get("path", "")
    in_front = scope["path"].removesuffix(file).count("/")
    return b"%2f" in (b"/".join(raw.split(b"/")[:in_front]) if file else raw)


async def _write_none(_call: RouteCall, _answer: StreamAnswer) -> None:
    """Never called: nothing is streamed from there."""


def _check(refused: ErrorAnswer | None) -> None:
    if refused is not None:
        raise CallRefused(refused)


def answer_refusing(refused: ErrorAnswer) -> WholeAnswer:
    """Make an answer of one that refuses; while the host is being closed the connection is not kept either."""
    headers = dict(refused.headers)
    if refused.code == "draining":
        headers["connection"] = "close"
    return WholeAnswer(body=refused.encode(), status=refused.status, headers=headers)


def limit_headers(charge: str, count: int, window_seconds: float, draw: Draw) -> dict[str, str]:
    """Say what is left of a limit, as of the draft of the IETF on RateLimit headers."""
    return {
        "ratelimit-policy": f'"{charge}";q={count};w={math.ceil(window_seconds)}',
        "ratelimit": f'"{charge}";r={draw.left};t={draw.full_in_seconds}',
    }


def guarded(endpoint: PathEndpoint, gateway: Gateway) -> AsgiApp:
    """Put the guard in front of a path, also of one that another application mounts alone; where no token is asked for there is none."""
    if endpoint.is_open:
        return endpoint
    return AccessGuard(
        endpoint,
        gateway.callers,
        methods_of=lambda _: endpoint.methods,
        is_public=lambda _: endpoint.is_public,
    )


def starlette_routes(
    gateway: Gateway, routes: Iterable[CallRoute], write_stream: WriteStream, *, base_path: str = ""
) -> list[Route]:
    """Make one route of Starlette for each path, in the order in which paths come first."""
    by_path: dict[str, list[CallRoute]] = {}
    for route in routes:
        by_path.setdefault(route.path, []).append(route)
    return [
        Route(
            f"{base_path}{path}",
            guarded(PathEndpoint(gateway, found, write_stream), gateway),
            name=path,
            include_in_schema=False,
        )
        for path, found in by_path.items()
    ]
