"""Passes a call on to the node that owns its session, and its answer back. The caller was judged and charged before.

A call that has reached a node is passed on no further. If the owner does not answer, its row decides: a session without a living owner is taken here at once.
"""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

import httpcore
import trio
from attrs import define, frozen

from agentrail import outside, websockets
from agentrail.abc.store import Node
from agentrail.actors.deferred_error import Kept
from agentrail.errors import (
    AgentrailError,
    HeldBy,
    OptionError,
    ProfileUnknown,
    RemoteRefused,
    StoreUnavailable,
    Unrevivable,
)
from agentrail.gateway.error_responses import error_answer, refuse_call
from agentrail.gateway.event_hub import WRITE_GRACE_SECONDS
from agentrail.gateway.node_routes import NO_STREAM, NodeClient, NodeOrder
from agentrail.gateway.node_token import (
    ANSWER_HEADER,
    NODE_HEADER,
    NodeCall,
    NodeCalls,
    digest_of_body,
    is_signed_answer,
    signature_in,
)
from agentrail.gateway.path_endpoint import CallRoute, Gateway, NotAccepted, RouteCall, RunHere, SessionMoved
from agentrail.gateway.request_parser import CallerLeft
from agentrail.gateway.stream_watchdog import ForeignStream
from agentrail.gateway.token_watcher import OpenStream
from agentrail.gateway.whole_answer import header_pairs
from agentrail.host.hook_payloads import Principal
from agentrail.host.host import Host
from agentrail.host.identity import SessionOwner, fault_of_session_id
from agentrail.logs import Logger
from agentrail.runtime.session_clock import store_now_ms
from agentrail.runtime.session_nodes import SessionNodes, SessionPlace
from agentrail.web import client_socket
from agentrail.web.httpx_body import OnePiece
from agentrail.wire.server_frames import PROTOCOL

LOGGER: Final = Logger("agentrail.gateway")

_CONNECT_SECONDS: Final = 2.0
"""Time limit for a connection to another node."""

HEAD_SECONDS: Final = 30.0
"""Time limit for the head of its answer. Calls that wait for a cycle have this in addition to their own limit."""

_LOOK_SECONDS: Final = 2.0
"""Interval at which a waiting call checks whether the other node is alive."""

IDLE_SECONDS: Final = 3.0
"""Time for which an unused connection is kept: shorter than the limit of the server, which would close it during a request."""

_CLOSE_SECONDS: Final = 1.0

MAX_NODES: Final = 2
"""Limit of nodes to try for one call: the owner, and the owner that its row names after that."""

TAKE_SECONDS: Final = 2.0
"""Time in which another node takes a session that has left its owner. After that, this node does."""

_POLL_SECONDS: Final = 0.05

_REFUSED: Final = 403
_NOT_OWNER: Final = 421
_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_NOT_SENT: Final = _HOP_BY_HOP | {"content-length", "expect", NODE_HEADER}
_NOT_RETURNED: Final = _HOP_BY_HOP | {"date", ANSWER_HEADER}

T = TypeVar("T")


@frozen
class OwnerReply(Generic[T]):
    """The answer of another node."""

    answer: T


PassedOn: TypeAlias = OwnerReply[T] | Literal["refused", "unknown"]
"""Outcome of passing a call on: its answer, or certainly not accepted, or possibly accepted."""


class FindOwner(Protocol):
    """Returns the place of a session. See `SessionNodes.owner_of`."""

    async def __call__(self, *, is_fresh: bool = False) -> SessionPlace: ...


_READ_FIRST: Final = "read the session before you send it again"

_UNREACHABLE: Final = (
    httpcore.ConnectError,
    httpcore.ConnectTimeout,
    httpcore.PoolTimeout,
    httpcore.UnsupportedProtocol,
)
_LOST: Final = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)


def decide_headers(call: RouteCall, token: str) -> dict[str, str]:
    """Return the headers of a call for another node: its own without those of the connection."""
    given = call.head.headers
    named = {one.strip().lower() for one in given.get("connection", "").split(",")}
    left = {name: value for name, value in given.items() if name not in _NOT_SENT and name not in named}
    size = {} if call.head.method in ("GET", "HEAD") else {"content-length": f"{len(call.text)}"}
    return {**left, **size, NODE_HEADER: token}


def decide_head_seconds(call: RouteCall, route: CallRoute) -> float:
    """Return the time limit for the head of an answer, which may come only after a cycle."""
    waits = route.is_stream or route.operation == "chat" or "wait" in call.query
    return HEAD_SECONDS + (call.gateway.chat_timeout if waits else 0.0)


def url_of(node: Node, target: bytes) -> httpcore.URL:
    address = urlsplit(node.address)
    host = (address.hostname or "").encode("ascii", "replace")
    return httpcore.URL(scheme=address.scheme.encode(), host=host, port=address.port, target=target)


async def run_at_owner(
    find: FindOwner,
    run_here: Callable[[], Awaitable[T]],
    send: Callable[[Node], Awaitable[PassedOn[T]]],
    nodes: SessionNodes,
    *,
    is_safe: bool,
) -> T:
    """Run a call on the node of its session, or here if it has none.

    Args:
        find: Returns the place of the session.
        run_here: Runs the call.
        send: Passes it on to a node.
        nodes: All nodes. One with other profiles runs the call if this one lacks the code of the session.
        is_safe: Whether it may be sent again although it may have been accepted.

    Raises:
        CallRefused: The owner does not answer.
    """
    tried: set[str] = set()
    was_held = has_moved = may_be_accepted = False
    while True:
        place = await find(is_fresh=was_held or has_moved or bool(tried))
        if not isinstance(place, Node):
            try:
                return await run_here()
            except SessionMoved:
                if has_moved:
                    raise
                has_moved = True
                await next_place(find, "here")
                continue
            except HeldBy:  # another node was faster
                if was_held:
                    break
                was_held = True
                continue
            except (ProfileUnknown, Unrevivable) as error:
                place = await nodes.other_for(error)
        if place.id in tried or len(tried) == MAX_NODES:
            break
        tried.add(place.id)
        sent = await send(place)
        if isinstance(sent, OwnerReply):
            return sent.answer
        may_be_accepted = may_be_accepted or sent == "unknown"
        if may_be_accepted and not is_safe:
            break
    if may_be_accepted:
        message = "the node of this session stopped answering, and may have accepted the call"
        return refuse_call("owner_silent", message, hint=None if is_safe else _READ_FIRST)
    message = "the node of this session does not answer: nothing was accepted"
    raise NotAccepted(error_answer("owner_silent", message))


async def next_place(find: FindOwner, before: SessionPlace) -> SessionPlace:
    """Return the place of a session that has left its owner, after another node has had time to take it."""
    place: SessionPlace = "nowhere"
    with trio.move_on_after(TAKE_SECONDS):
        while place == "nowhere" or _name(place) == _name(before):
            await trio.sleep(_POLL_SECONDS)
            place = await find(is_fresh=True)
    return place


def _name(place: SessionPlace) -> str:
    return place.id if isinstance(place, Node) else place


async def run_for_node(find: FindOwner, run_here: Callable[[], Awaitable[T]]) -> T:
    """Run a call that another node has passed on. Refuse it if a third one has its session."""
    if not isinstance(await find(is_fresh=True), Node):
        try:
            return await run_here()
        except HeldBy:
            pass  # reported without the address, which is for nodes only
        except SessionMoved:
            await next_place(find, "here")
    return refuse_call("not_owner", "another node has this session")


def log_node_call(told: NodeCall, method: str, path: str) -> None:
    LOGGER.info("request %s from node %s: %s %s", told.nonce, told.sender, method, path)


@define
class _Exchange:
    nonce: str
    request: httpcore.Request
    sent: Literal["answered", "refused", "unknown"] = "unknown"
    has_begun: bool = False


@frozen
class Forwarder:
    """Passes calls on for one gateway."""

    host: Host
    client: NodeClient
    tls: ssl.SSLContext

    @property
    def nodes(self) -> SessionNodes:
        return self.host.supervisor.nodes

    async def run(self, call: RouteCall, route: CallRoute, run_here: RunHere) -> None:
        """Run a call on the node of its session, or here if it has none."""
        aim = route.aim(call)
        session_id = aim.session_of(SessionOwner.of(call.principal))
        if session_id is not None and fault_of_session_id("session_id", session_id) is not None:
            session_id = None
        if session_id is None and aim.node is None:
            return await run_here()
        is_read = call.head.method in ("GET", "HEAD")
        find = partial(self._find, session_id, call.principal.tenant_id, aim.node, is_read=is_read)
        if call.node_call is not None:
            log_node_call(call.node_call, call.head.method, call.head.path)
            return await run_for_node(find, run_here)
        is_safe = is_read or aim.client_id is not None
        send = partial(self._send, call, route)
        return await run_at_owner(find, run_here, send, self.nodes, is_safe=is_safe)

    async def _find(
        self,
        session_id: str | None,
        tenant_id: str,
        node_id: str | None,
        *,
        is_read: bool,
        is_fresh: bool = False,
    ) -> SessionPlace:
        place: SessionPlace = "nowhere"
        if session_id is not None:
            place = await self.host.owner_of(session_id, tenant_id, is_fresh=is_fresh, is_read=is_read)
        return await self.nodes.place_of_node(node_id) if place == "nowhere" and node_id else place

    @asynccontextmanager
    async def open_socket(
        self, node: Node, who: Principal, target: bytes
    ) -> AsyncIterator[websockets.WebSocketConnection]:
        """Open a socket to another node for a caller.

        Raises:
            OSError, trio.TooSlowError, HandshakeError: It does not answer, or the answer is not signed by it.
        """
        nonce, token = self.client.sign(node, who, digest_of_body(b""), "GET", target)
        address = urlsplit(node.address)
        at = client_socket.SocketTarget(
            host=address.hostname or "",
            port=address.port or (443 if address.scheme == "https" else 80),
            named=address.netloc,
            path=target.decode(),
            tls=self.tls if address.scheme == "https" else None,
        )
        headers = header_pairs({NODE_HEADER: token})
        async with client_socket.open_websocket(
            at, PROTOCOL, headers, within_seconds=_CONNECT_SECONDS
        ) as connection:
            signature = signature_in(connection.handshake_headers)
            if not is_signed_answer(self.client.secret, nonce, signature):
                message = f"the answer at {node.address} is not signed by a node of this store"
                raise OSError(message)
            LOGGER.info("request %s to node %s: socket", nonce, node.id)
            yield connection

    async def _send(self, call: RouteCall, route: CallRoute, node: Node) -> PassedOn[None]:
        if not node.address:
            return "refused"
        exchange = _Exchange(*await self._request(call, node))
        await call.while_there(partial(self._exchange, call, route, node, exchange))
        if exchange.sent != "answered" and exchange.has_begun:
            # The client must not take a part for the whole. It returns, and continues after what it has.
            if call.cut is not None:
                call.cut()
            raise CallerLeft
        return OwnerReply(None) if exchange.sent == "answered" else exchange.sent

    async def _exchange(self, call: RouteCall, route: CallRoute, node: Node, exchange: _Exchange) -> None:
        failure, scope = Kept(), trio.CancelScope()

        def end() -> None:
            if call.is_writing and call.cut is not None:
                call.cut()
            scope.cancel(reason="the other node is gone, or the stream has to end")

        def finish() -> None:
            nursery.start_soon(self._end_at_owner, node, exchange, stream.reason, end)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, node, end)
            with failure, scope, ExitStack() as watched:
                if route.is_stream:
                    stream = ForeignStream(finish)
                    stream.on_cut = end
                    watched.enter_context(call.gateway.opened()[1].watch_stream(stream))
                    one = OpenStream(call.head, call.principal, stream)
                    watched.enter_context(call.gateway.open_calls.watched(one))
                await self._pass_on(call, route, node, exchange)
            nursery.cancel_scope.cancel(reason="the answer is complete")
        failure.release()

    async def _end_at_owner(self, node: Node, exchange: _Exchange, reason: Any, end: Any) -> None:
        """Let the owner write the last frame of a stream. Cut it if it cannot. Another answer of it is passed on."""
        token = dict(exchange.request.headers)[NODE_HEADER.encode()].decode()
        order, is_stream = NodeOrder(token=token, reason=reason), False
        while not is_stream:
            is_stream = True
            with suppress(AgentrailError), trio.move_on_after(WRITE_GRACE_SECONDS) as limit:
                try:
                    await self.client.call(node, "end", order)
                except RemoteRefused as error:
                    is_stream = error.code != NO_STREAM
                    limit.deadline = trio.current_time() + _LOOK_SECONDS  # it may have a stream by then
                await trio.sleep_forever()  # until the answer is complete
        end()

    async def _watch(self, node: Node, end: Any) -> None:
        is_alive = True
        while is_alive:
            await trio.sleep(_LOOK_SECONDS)
            with suppress(StoreUnavailable):  # so its state is unknown
                is_alive = await self.nodes.is_alive(node.id)
        end()

    async def _pass_on(self, call: RouteCall, route: CallRoute, node: Node, exchange: _Exchange) -> None:
        nonce, response = exchange.nonce, None
        try:
            with trio.move_on_after(decide_head_seconds(call, route)):
                response = await self.client.connections.handle_async_request(exchange.request)
            if response is None:
                return
            is_signed = is_signed_answer(self.client.secret, nonce, signature_in(response.headers))
            if response.status == _NOT_OWNER or (response.status == _REFUSED and not is_signed):
                exchange.sent = "refused"
            elif is_signed:
                told = nonce, node.id, call.head.method, call.head.path, response.status
                LOGGER.info("request %s to node %s: %s %s %d", *told)
                await self._return(call, response, exchange)
        except _UNREACHABLE:
            exchange.sent = "refused"
        except _LOST:
            pass  # unknown, or cut in the middle of the answer
        finally:
            if response is not None:
                with trio.move_on_after(_CLOSE_SECONDS, shield=True):
                    await response.aclose()  # noqa: ASYNC102 - shielded and bounded

    async def _request(self, call: RouteCall, node: Node) -> tuple[str, httpcore.Request]:
        digest = await call.gateway.read_aside(partial(digest_of_body, call.text), len(call.text))
        nonce, token = self.client.sign(node, call.principal, digest, call.head.method, call.target)
        return nonce, httpcore.Request(
            method=call.head.method,
            url=url_of(node, call.target),
            headers=header_pairs(decide_headers(call, token)),
            content=OnePiece(call.text),
            extensions={"timeout": {"connect": _CONNECT_SECONDS, "pool": _CONNECT_SECONDS}},
        )

    async def _return(self, call: RouteCall, response: httpcore.Response, exchange: _Exchange) -> None:
        """Write the answer piece by piece, as fast as the client reads it."""
        pairs = [
            (name.lower(), value)
            for name, value in response.headers
            if name.lower().decode("latin-1") not in _NOT_RETURNED
        ]
        own = header_pairs(call.more_headers)
        exchange.has_begun = True
        await call.write(
            {"type": "http.response.start", "status": response.status, "headers": [*pairs, *own]}
        )
        pieces = response.aiter_stream()
        try:
            async for piece in pieces:
                await call.write({"type": "http.response.body", "body": piece, "more_body": True})
        except trio.Cancelled:
            with trio.move_on_after(_CLOSE_SECONDS, shield=True):
                await _finish(response, pieces)  # noqa: ASYNC102 - shielded and bounded
            raise
        exchange.sent = "answered"
        await call.write({"type": "http.response.body", "body": b"", "more_body": False})


async def _finish(response: httpcore.Response, pieces: AsyncIterator[bytes]) -> None:
    """Close the connection of an answer that is not read to its end, and read what is left.

    Otherwise the generators of the library would wait for the garbage collector.
    """
    await response.aclose()
    with suppress(*_LOST):
        async for _ in pieces:
            pass


@asynccontextmanager
async def open_forwarding(
    gateway: Gateway, host: Host, *, node_ca: Path | None = None
) -> AsyncIterator[None]:
    """Pass calls on to other nodes for the duration of the block, if the store of the host is shared.

    Args:
        gateway: State of the routes.
        host: The open host.
        node_ca: File with the certificates that sign those of the nodes. None: those of the system.

    Raises:
        OptionError: The operator's move: the file cannot be used, or the store keeps no secret.
        StoreUnavailable: The store cannot be read now.
    """
    node = host.supervisor.nodes.node
    if node is None:
        yield
        return
    secret = await host.supervisor.nodes.secret()
    tls = await outside.offload(tls_of_nodes, node_ca)
    connections = httpcore.AsyncConnectionPool(
        ssl_context=tls,
        max_connections=None,
        max_keepalive_connections=32,
        keepalive_expiry=IDLE_SECONDS,
        network_backend=httpcore.TrioBackend(),
    )
    gateway.node_calls = NodeCalls(secret, node.id)
    client = NodeClient(secret, node.id, connections, store_now_ms)
    forwarder = Forwarder(host, client, tls)
    gateway.forward, gateway.open_node_socket = forwarder.run, forwarder.open_socket
    host.supervisor.call_nodes(client)
    try:
        yield
    finally:
        host.supervisor.call_nodes(None)
        gateway.forward = gateway.open_node_socket = gateway.node_calls = None
        with trio.move_on_after(_CLOSE_SECONDS, shield=True):
            await connections.aclose()  # noqa: ASYNC102 - shielded and bounded


def tls_of_nodes(node_ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=node_ca)
    except (OSError, ValueError) as error:  # `ssl.SSLError` is an `OSError`
        why = getattr(error, "strerror", None) or f"{error}"
        raise OptionError([f"node_ca is {f'{node_ca}'!r}, which cannot be used: {why}"]) from None
