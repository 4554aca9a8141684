"""Stands in front of all routes: what every call meets before a route is looked for. An ASGI application around another one.

What is decided stands in `access` and `callers`; here it is carried out once, so that no route can forget it. Routes find who calls in
the state of the scope. No body is read here.
"""

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Final, cast

from attrs import frozen

from agentrail.gateway.access import CallHead, head_of
from agentrail.gateway.answers import ErrorAnswer
from agentrail.gateway.callers import CallerCheck
from agentrail.gateway.incoming import AsgiApp, AsgiReceive, AsgiSend, judge_headers
from agentrail.host.payloads import Principal

OPEN_PATHS: Final = frozenset({"/health", "/ready"})
"""What is asked by machines that know no name of the server, and no token."""

_CALLER: Final = "agentrail.caller"
_REFUSED_UPGRADE: Final = "websocket.http.response"


def caller_of(scope: MutableMapping[str, Any]) -> Principal | None:
    """Say who makes a call. None for a path that needs no token, and for a WebSocket that is still to bring one in its `hello`."""
    return cast("Principal | None", scope.get("state", {}).get(_CALLER))


@frozen
class AccessGuard:
    """An application that lets through what may call.

    Attributes:
        app: Where calls go that may go on.
        check: Who may call.
        methods_of: The methods of a path, for preflights; none for an unknown path.
        is_public: Whether a path needs no token, such as that of a file of the console; from where it may be called is judged all the same.
    """

    app: AsgiApp
    check: CallerCheck
    methods_of: Callable[[str], Sequence[str]]
    is_public: Callable[[str], bool]

    async def __call__(self, scope: MutableMapping[str, Any], receive: AsgiReceive, send: AsgiSend) -> None:
        """Judge a call; as of ASGI.

        Cancellation: Is passed on.
        """
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        too_many = judge_headers(scope)  # before all that goes through them
        if too_many is not None:
            await send_refusal(scope, send, too_many)
            return
        head, path = head_of(scope), path_of(scope)
        if path in OPEN_PATHS and not head.is_websocket:
            await self.app(scope, receive, send)
            return
        preflight = self.check.rules.answer_preflight(head, self.methods_of(path))
        if preflight is not None:
            await _answer(send, 204, {**preflight}, b"")
            return
        readable = _adding(send, self.check.rules.cors_headers(head))
        outcome = await self._judge(head, path)
        if isinstance(outcome, ErrorAnswer):
            await send_refusal(scope, readable, outcome)
            return
        # A copy: what the server gives may be of the whole connection, and the next call on it is another one's.
        scope["state"] = {**scope.get("state", {}), _CALLER: outcome}
        await self.app(scope, receive, readable)

    async def _judge(self, head: CallHead, path: str) -> Principal | ErrorAnswer | None:
        is_later = head.is_websocket and self.check.rules.needs_token and "authorization" not in head.headers
        if is_later or (self.is_public(path) and not head.is_websocket):
            return self.check.rules.judge(head)
        return await self.check.admit(head)


def path_of(scope: MutableMapping[str, Any]) -> str:
    """Give the path of a call below where the application is mounted."""
    path, root = scope["path"], scope.get("root_path", "")
    below = path.removeprefix(root)
    return str(below if below.startswith("/") else path)


async def send_refusal(scope: MutableMapping[str, Any], send: AsgiSend, answer: ErrorAnswer) -> None:
    """Answer a call with an error; a WebSocket before its upgrade, as far as the server can."""
    headers = {"content-type": "application/json", **answer.headers}
    if scope["type"] == "http":
        await _answer(send, answer.status, headers, answer.encode())
    elif _REFUSED_UPGRADE in scope.get("extensions", {}):
        await _answer(send, answer.status, headers, answer.encode(), kind=_REFUSED_UPGRADE)
    else:
        await send({"type": "websocket.close"})  # the server says 403


async def _answer(
    send: AsgiSend, status: int, headers: dict[str, str], body: bytes, *, kind: str = "http.response"
) -> None:
    lines = {**headers, "content-length": f"{len(body)}"} if body else headers
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in lines.items()]
    await send({"type": f"{kind}.start", "status": status, "headers": encoded})
    await send({"type": f"{kind}.body", "body": body})


def _adding(send: AsgiSend, headers: Any) -> AsgiSend:
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]

    async def adding(message: MutableMapping[str, Any]) -> None:
        if message["type"] in {"http.response.start", "websocket.http.response.start"}:
            message = {**message, "headers": [*message.get("headers", ()), *encoded]}
        await send(message)

    return adding
