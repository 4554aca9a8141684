"""The way itself: one path with its methods, as an ASGI application, from the head of a call to its answer. How routes are added says `routing`.

No path is named here, and nothing is decided about a call but the order in which others decide it.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl

import trio
from starlette.routing import Route

from agentrail import outside
from agentrail.frozen import thawed
from agentrail.gateway.access import (
    UNAUTHORIZED,
    AccessGuard,
    caller_of,
    head_of,
    name_user,
    require_scope,
    require_user,
)
from agentrail.gateway.answers import CallRefused, ErrorAnswer, answer_to, error_answer, refuse_call
from agentrail.gateway.body_reading import body_limit, check_content_type, decode_body
from agentrail.gateway.incoming import AsgiApp, AsgiReceive, AsgiSend, CallerLeft
from agentrail.gateway.queries import check_id, check_query
from agentrail.gateway.routing import (
    NO_PRINCIPAL,
    CallRoute,
    Gateway,
    OwnStream,
    Result,
    RouteCall,
    StreamAnswer,
    WholeAnswer,
    WriteStream,
    answer_json,
    start_of,
)
from agentrail.gateway.serving import connection_cut
from agentrail.host.identity import SessionOwner
from agentrail.host.limits import Draw, decide_charge
from agentrail.host.payloads import HandledResponse
from agentrail.logs import Logger
from agentrail.otp.exits import keep
from agentrail.runtime.crashes import log_crash, what_travels

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
        """Take what there is.

        Args:
            gateway: What is shared.
            routes: Of one path, each of another method.
            write_stream: Writes streams.
        """
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
