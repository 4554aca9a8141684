"""What the one way of a call is made of: a route, what its handler is given, and what it gives. The way itself stands in `endpoint`.

How a route is added: write `async def handler(call: RouteCall) -> Result`, and put a `CallRoute` for it into the tuple `ROUTES` of a module
that `app` lists. What the route says is judged before the handler runs, in the order of docs/explanation/host.md: headers, preflight,
Host, Origin and token, scope, ids in the path, query, content type and body, user, limits, and for a stream its place. So a handler gets
a `RouteCall` in which all of that holds, and does one thing:

    async def rename(call: RouteCall) -> WholeAnswer:
        session = await call.host.session(call.params["session_id"], call.principal, only_root=True)
        return answer_json({"name": await rename_session(session, call.body.name)})

    ROUTES = (CallRoute("POST", "/sessions/{session_id}/name", rename, does="gives a session a name", body=NameBody),)

- `call.params` has the parts of the path. Those whose name ends in `_id` were checked as ids; a `{path:path}` was not.
- `call.query` has what stands behind the question mark; only names that `query` lists, each once, and their values unread: see `queries`.
- `call.body` is the struct of `body`, read strictly.
- What is raised is answered by the table of `answers`: a public exception as itself, `refuse_call(code, …)` as that code, all else
  as 500 `internal`, whose cause the log has under a `request_id`.
- When the caller leaves, the handler is cancelled; what `call.on_left` holds then is awaited, shielded.
- A `HandledResponse` of an interceptor may be given as it is. A `StreamAnswer` is written by `streams`; its route says `is_stream`.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import trio
from attrs import define, field, frozen

from agentrail import outside
from agentrail.actors.kept import Kept
from agentrail.gateway.access import CallerCheck, CallHead
from agentrail.gateway.answers import CallRefused, error_answer, refuse_call
from agentrail.gateway.body_reading import READ_HERE_BYTES
from agentrail.gateway.hub import Hubs
from agentrail.gateway.incoming import AsgiReceive, AsgiSend, BodyReader, CallerLeft, wait_left
from agentrail.gateway.open_calls import CallWatch
from agentrail.gateway.stream_reader import StreamReader
from agentrail.gateway.watches import Watches
from agentrail.host.host import Host
from agentrail.host.identity import SessionOwner
from agentrail.host.limits import Allowances, Limits, OpenCounts, OpenPlace
from agentrail.host.payloads import HandledResponse, Principal
from agentrail.runtime.crashes import what_travels
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
        """Give the host and its streams.

        Raises:
            CallRefused: 503: it is not open.
        """
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
        """Take a place for a stream or a socket; closing it gives it back.

        Raises:
            CallRefused: 429 or 503: all are taken.
        """
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
        """Do something as long as the caller is there; cut the connection if a write of it is cancelled.

        Raises:
            CallerLeft: The caller left, and the work was cancelled.
            BaseException: What the work raised, as itself.
        """
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


def start_of(status: int, headers: Mapping[str, str]) -> dict[str, Any]:
    """Make the first message of an answer, as of ASGI."""
    pairs = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": pairs}
