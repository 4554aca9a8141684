"""Calls between nodes about their sessions and streams. Only signed requests are answered.

They are no part of the interface for clients, and have no place in its description.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore
import msgspec
import trio
from attrs import frozen

from agentrail import outside
from agentrail.abc.store import Node
from agentrail.errors import AgentrailError, OptionError, RemoteRefused, Unreachable, Unrevivable
from agentrail.gateway.authorization import NOT_OF_A_NODE, AccessGuard, node_call_of, send_refusal
from agentrail.gateway.node_token import (
    NODE_HEADER,
    NodeCall,
    digest_of_body,
    encode_node_call,
    is_signed_answer,
    nonce_of,
    signature_in,
)
from agentrail.gateway.path_endpoint import Gateway, UnknownPath, guarded
from agentrail.gateway.request_parser import AsgiReceive, AsgiSend
from agentrail.gateway.sse_frames import DoneReason
from agentrail.gateway.whole_answer import WholeAnswer, send_whole
from agentrail.host.hook_payloads import Principal
from agentrail.messages import SessionId
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.structs import decoder_of
from agentrail.web.httpx_body import OnePiece

NODES_PATH: Final = "/nodes/{action}"

NO_STREAM: Final = "no_stream"
"""Code of the answer to `end` without an open stream."""

_MAX_BODY_BYTES: Final = 16_384

_ANSWER_SECONDS: Final = 30.0
"""Time limit for an answer, in addition to the time that a move waits for calls."""

_NODES: Final = Principal(tenant_id="nodes", user_id="nodes", scopes=frozenset())  # not a user


class NodeOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request.

    Attributes:
        session_id: The session, empty for a drain.
        to: Target of a move, or None for the living node with the lowest load.
        within: Seconds that a move waits for calls, or a drain for turn boundaries.
        token: Token of the forwarded request whose stream ends.
        reason: Reason for its end.
    """

    scope: str = ""
    session_id: str = ""
    to: str | None = None
    within: float = 30.0
    # Left out of other orders: a node of an older version refuses unknown fields.
    token: str | msgspec.UnsetType = msgspec.UNSET
    reason: DoneReason | msgspec.UnsetType = msgspec.UNSET


class NodeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an answer.

    Attributes:
        node: Target of a move.
        code: Code of the error, empty if there is none.
        faults: Faults of an `OptionError`, or what an `Unrevivable` session lacks.
    """

    node: str = ""
    code: str = ""
    message: str = ""
    faults: tuple[str, ...] = ()


_ORDERS: Final = decoder_of(NodeOrder)
_ANSWERS: Final = decoder_of(NodeAnswer)


def node_answer_to(error: AgentrailError) -> NodeAnswer:
    faults = getattr(error, "faults", None) or getattr(error, "missing", None) or ()
    return NodeAnswer(code=error.code, message=f"{error}", faults=tuple(faults))


def error_of(answer: NodeAnswer, session_id: str) -> AgentrailError | None:
    match answer.code:
        case "":
            return None
        case Unrevivable.code:
            return Unrevivable(session_id, missing=answer.faults)
        case OptionError.code:
            return OptionError(list(answer.faults))
        case _:
            return RemoteRefused(answer.message, code=answer.code, more={})


class NodeEndpoint:
    """Answers signed requests for one gateway."""

    def __init__(self, gateway: Gateway, drain: Callable[[], Awaitable[None]]) -> None:
        """Create it, with the function that drains this node."""
        self._gateway = gateway
        self._drain = drain

        self._unknown = guarded(UnknownPath(gateway), gateway)
        self._signed = AccessGuard(
            self._answer,
            gateway.callers,
            methods_of=lambda _: (),
            is_public=lambda _: False,
            node_calls=lambda: gateway.node_calls,
        )

    async def __call__(self, scope: Any, receive: AsgiReceive, send: AsgiSend) -> None:
        is_signed = any(name == NODE_HEADER.encode() for name, _ in scope["headers"])
        await (self._signed if is_signed else self._unknown)(scope, receive, send)

    async def _answer(self, scope: Any, receive: AsgiReceive, send: AsgiSend) -> None:
        told, host, text = node_call_of(scope), self._gateway.host, await _read(receive)
        if told is None or host is None or text is None or told.digest != digest_of_body(text):
            await send_refusal(scope, send, NOT_OF_A_NODE)
            return
        try:
            order = _ORDERS.decode(text)
            answer = await self._run(scope["path_params"]["action"], order, host.supervisor)
        except msgspec.MsgspecError as error:
            answer = NodeAnswer(code=OptionError.code, faults=(f"{error}",))
        except AgentrailError as error:
            answer = node_answer_to(error)
        await send_whole(send, WholeAnswer(body=msgspec.json.encode(answer)))

    async def _run(self, action: str, order: NodeOrder, supervisor: SessionSupervisor) -> NodeAnswer:
        session_id = SessionId(order.session_id)
        match action:
            case "check":
                await supervisor.check_revive(order.scope, session_id)
            case "take":
                await supervisor.take_moved(order.scope, session_id)
            case "stop":
                await supervisor.end_forgotten(order.scope, session_id)
            case "move":
                target = await supervisor.move_session(
                    order.session_id, order.to, within=order.within, scope=order.scope
                )
                return NodeAnswer(node=target.id)
            case "drain":
                await self._drain()
            case "end" if order.token and order.reason:
                has_ended = self._gateway.open_calls.end_forwarded(order.token, order.reason)
                return NodeAnswer(code="" if has_ended else NO_STREAM)
            case _:
                raise OptionError(
                    [f"{action!r:.80} is not an action: expected check, take, stop, move, drain or end"]
                )
        return NodeAnswer()


async def _read(receive: AsgiReceive) -> bytes | None:
    """Read a body. None if it is too long, or its sender left."""
    text, is_more = b"", True
    while is_more:
        message = await receive()
        text += message.get("body", b"")
        is_more = bool(message.get("more_body"))
        if message["type"] != "http.request" or len(text) > _MAX_BODY_BYTES:
            return None
    return text


@frozen
class NodeClient:
    """Calls other nodes, see `OtherNodes`."""

    secret: bytes
    sender: str
    connections: httpcore.AsyncConnectionPool
    store_now_ms: Callable[[], int]

    async def check_revive(self, node: Node, scope: str, session_id: SessionId) -> None:
        await self.call(node, "check", NodeOrder(scope=scope, session_id=session_id))

    async def take(self, node: Node, scope: str, session_id: SessionId) -> None:
        await self.call(node, "take", NodeOrder(scope=scope, session_id=session_id))

    async def stop(self, node: Node, scope: str, session_id: SessionId) -> None:
        await self.call(node, "stop", NodeOrder(scope=scope, session_id=session_id))

    async def call(self, node: Node, action: str, order: NodeOrder) -> NodeAnswer:
        """Call a node.

        Raises:
            Unreachable: It does not answer, or the answer is not signed by it.
            OptionError, Unrevivable, RemoteRefused: Its refusal.
        """
        if not node.address:
            message = f"node {node.id} accepts no calls: serve it with --advertise"
            raise Unreachable(message)
        body, address = msgspec.json.encode(order), urlsplit(node.address)
        target = f"{address.path.rstrip('/')}{NODES_PATH.partition('{')[0]}{action}".encode()
        nonce, token = self.sign(node, _NODES, digest_of_body(body), "POST", target)
        headers: dict[str | bytes, str | bytes] = {
            "host": address.netloc,
            "content-type": "application/json",
            "content-length": f"{len(body)}",
            NODE_HEADER: token,
        }
        answer = None
        with suppress(httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError):
            with trio.move_on_after(_ANSWER_SECONDS + order.within):
                response = await self.connections.request(
                    "POST",
                    f"{address.scheme}://{address.netloc}{target.decode()}",
                    headers=headers,
                    content=OnePiece(body),
                )
                answer = self._read(response, nonce)
        if answer is None:
            message = f"node {node.id} at {node.address} does not answer"
            raise Unreachable(message)
        error = error_of(answer, order.session_id)
        if error is not None:
            raise error
        return answer

    def sign(self, node: Node, who: Principal, digest: str, method: str, target: bytes) -> tuple[str, str]:
        """Return the nonce and the token of a request."""
        nonce = nonce_of(now_ms(), outside.ids(16))
        told = NodeCall(
            sender=self.sender,
            receiver=node.id,
            tenant_id=who.tenant_id,
            user_id=who.user_id,
            scopes=tuple(sorted(who.scopes)),
            digest=digest,
            nonce=nonce,
            at_ms=self.store_now_ms(),
        )
        return nonce, encode_node_call(self.secret, told, method, target)

    def _read(self, response: httpcore.Response, nonce: str) -> NodeAnswer | None:
        signature = signature_in(response.headers)
        if response.status == 200 and is_signed_answer(self.secret, nonce, signature):  # noqa: PLR2004 - the only success
            with suppress(msgspec.MsgspecError, RecursionError):
                return _ANSWERS.decode(response.content)
        return None
