"""The WebSocket at `/ws`: admits, holds and ends all open sockets of a process."""

from collections.abc import AsyncIterator, Iterable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qsl

import trio
from attrs import evolve, frozen

from agentrail.gateway.authorization import (
    NOT_OF_A_NODE,
    CallHead,
    checked,
    head_of,
    judge_node_call,
    network_of,
    require_scope,
    require_user,
    send_refusal,
    target_of,
)
from agentrail.gateway.error_responses import CallRefused, refuse_call
from agentrail.gateway.event_hub import TICK_SECONDS, WRITE_GRACE_SECONDS
from agentrail.gateway.forwarder import log_node_call
from agentrail.gateway.frame_ring import FrameMemory
from agentrail.gateway.idempotency import CommandMemory
from agentrail.gateway.node_token import ANSWER_HEADER, NODE_HEADER, NodeCall, digest_of_body
from agentrail.gateway.path_endpoint import CallRoute, Gateway
from agentrail.gateway.request_parser import AsgiReceive, AsgiSend, check_query, judge_headers
from agentrail.gateway.serving import connection_cut
from agentrail.gateway.socket_calls import socket_commands
from agentrail.gateway.socket_connection import OpenSocket, answer_to_raised
from agentrail.gateway.socket_frames import socket_event_frame
from agentrail.gateway.stream_watchdog import in_turns
from agentrail.gateway.whole_answer import header_pairs
from agentrail.host.hook_payloads import Principal
from agentrail.host.identity import SessionOwner
from agentrail.host.quotas import OpenCounts, OpenPlace
from agentrail.logs import Logger
from agentrail.runtime.crashes import raise_what_travels
from agentrail.wire.server_frames import PROTOCOL, CloseCode

LOGGER: Final = Logger("agentrail.gateway")

AGE_SECONDS: Final = 5.0
"""Interval after which unused cached frames are dropped."""

MAX_UNKNOWN_OF_EACH: Final = 100
"""Limit on sockets per address before authentication."""

MAX_UNKNOWN: Final = 1_000


@frozen(kw_only=True)
class SocketStatistics:
    """Current load of the sockets of a process.

    Attributes:
        queued_bytes: Size of these frames in bytes.
    """

    sockets: int
    unknown: int
    subscriptions: int
    queued_frames: int
    queued_bytes: int


class Sockets:
    """The endpoint `/ws`, as an ASGI application, with its open sockets."""

    def __init__(self, gateway: Gateway, routes: Iterable[CallRoute]) -> None:
        self._gateway = gateway
        self._commands = socket_commands(routes)
        self._open: dict[OpenSocket, None] = {}
        self._is_empty = trio.lowlevel.ParkingLot()
        self._is_taking = False
        self._unknown: OpenCounts[str] = OpenCounts(MAX_UNKNOWN_OF_EACH, MAX_UNKNOWN)
        self._of_nodes: OpenCounts[str] = OpenCounts(0)
        self._frames = FrameMemory(socket_event_frame)
        self._memory = CommandMemory()
        self._nursery: trio.Nursery | None = None

    def statistics(self) -> SocketStatistics:
        return SocketStatistics(
            sockets=len(self._open),
            unknown=self._unknown.in_all,
            subscriptions=sum(len(one.subscriptions) for one in self._open),
            queued_frames=sum(len(one.queue) for one in self._open),
            queued_bytes=sum(one.queue.size_bytes for one in self._open),
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Accept sockets within the block, which must be inside that of the host, and cut them at its end."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._watch, name="watch sockets")
            self._is_taking = True
            try:
                yield
            finally:
                self._is_taking = False
                for one in tuple(self._open):
                    one.cut_off()
                nursery.cancel_scope.cancel(reason="sockets are no longer accepted")

    @property
    def _lasting(self) -> trio.Nursery:
        assert self._nursery is not None  # noqa: S101 - sockets are accepted only within `open`
        return self._nursery

    async def close(
        self, code: CloseCode = CloseCode.GOING_DOWN, *, within_seconds: float = WRITE_GRACE_SECONDS
    ) -> None:
        """Close all sockets, each with a `closing` frame, even if cancelled, and accept no new ones."""
        self._is_taking = False
        async for one in in_turns(self._open):
            one.close(code)
        with trio.move_on_after(within_seconds):
            while self._open:
                await self._is_empty.park()
        for one in tuple(self._open):
            one.cut_off()

    # --- admission

    async def __call__(self, scope: Any, receive: AsgiReceive, send: AsgiSend) -> None:
        await receive()  # `websocket.connect`
        try:
            await self._serve(scope, receive, send)
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - cancellation is raised again
            raise_what_travels(raised)
            await self._refuse(raised, scope, send)  # noqa: ASYNC102 - not cancelled: that was raised above

    async def _serve(self, scope: Any, receive: AsgiReceive, send: AsgiSend) -> None:
        head, calls = head_of(scope), self._gateway.node_calls
        checked(judge_headers(scope))
        told = self._judge_node(scope, head) if NODE_HEADER in head.headers else None
        principal = await self._judge_caller(head) if told is None else told.principal
        self._judge_upgrade(scope, head)
        with self._place_of(head, principal, told) as place:
            one = OpenSocket(
                gateway=self._gateway,
                commands=self._commands,
                frames=self._frames,
                memory=self._memory,
                lasting=self._lasting,
                head=head,
                principal=principal,
                place=place,
                receive=receive,
                send=send,
                cut=connection_cut(scope),
                target=target_of(scope),
                is_of_node=told is not None,
            )
            self._open[one] = None
            try:
                # Later failures are reported on the socket, earlier ones in the response to the upgrade.
                accept: dict[str, Any] = {"type": "websocket.accept", "subprotocol": PROTOCOL}
                if told is not None and calls is not None:
                    accept["headers"] = header_pairs({ANSWER_HEADER: calls.sign_answer(told)})
                await send(accept)
                with self._gateway.open_calls.watched(one):
                    await one.run()
            finally:
                one.place.close()
                del self._open[one]
                if not self._open:
                    self._is_empty.unpark_all()

    def _judge_node(self, scope: MutableMapping[str, Any], head: CallHead) -> NodeCall:
        calls, target = self._gateway.node_calls, target_of(scope)
        token = head.headers[NODE_HEADER]
        told = None if calls is None else judge_node_call(calls, token, "GET", target)
        if told is None or told.digest != digest_of_body(b""):
            raise CallRefused(NOT_OF_A_NODE)
        log_node_call(told, "socket", head.path)
        return told

    async def _judge_caller(self, head: CallHead) -> Principal | None:
        callers = self._gateway.callers
        if "authorization" not in head.headers and callers.rules.needs_token:
            checked(callers.rules.judge(head))
            return None
        admitted = checked(await callers.admit(head))
        checked(require_scope(admitted, "use", also="decide") or require_user(admitted))
        return admitted

    def _judge_upgrade(self, scope: Mapping[str, Any], head: CallHead) -> None:
        check_query([name for name, _ in parse_qsl(head.query, keep_blank_values=True, errors="replace")], ())
        if not self._is_taking:
            code = "not_started" if self._gateway.host is None else "draining"
            refuse_call(code, "sockets are not accepted now: the server is starting or stopping")
        self._gateway.opened()
        if PROTOCOL not in scope.get("subprotocols", ()):
            refuse_call(
                "field_invalid",
                f"Sec-WebSocket-Protocol does not offer {PROTOCOL}, the protocol of this server",
            )

    def _place_of(
        self, head: CallHead, principal: Principal | None, told: NodeCall | None
    ) -> "OpenPlace[SessionOwner] | OpenPlace[str]":
        if told is not None:  # it has a place where it came in
            return self._of_nodes.take_anyway(told.sender)
        if principal is not None:
            return self._gateway.take_place(SessionOwner.of(principal))
        place = self._unknown.take(network_of(head.peer))
        if not isinstance(place, OpenPlace):
            message = "too many sockets are open without authentication"
            refuse_call("too_many_streams", message, headers={"retry-after": "5"})
        return place

    async def _refuse(self, raised: BaseException, scope: Any, send: AsgiSend) -> None:
        answer = answer_to_raised(raised)
        headers = {"cache-control": "no-store", **answer.headers}
        await send_refusal(scope, send, evolve(answer, headers=headers))

    # --- time

    async def _watch(self) -> None:
        aged_at = trio.current_time()
        while True:
            await trio.sleep(TICK_SECONDS)
            now = trio.current_time()
            if now - aged_at >= AGE_SECONDS:
                aged_at = now
                self._frames.age()
            async for one in in_turns(self._open):
                one.look(now, WRITE_GRACE_SECONDS)
