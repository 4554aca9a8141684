"""A client of the WebSocket for tests, over a real connection: frames in and out, and with which code it was closed."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field
from trio_websocket import ConnectionClosed, ConnectionRejected, WebSocketConnection, wrap_client_stream

from tests.gateway.web import Web


@define(eq=False)
class Client:
    connection: WebSocketConnection
    seen: list[dict[str, Any]] = field(factory=list)
    _next_id: int = 0

    async def send(self, **frame: Any) -> None:
        await self.connection.send_message(json.dumps(frame))

    async def next(self) -> dict[str, Any]:
        with trio.fail_after(60):
            frame: dict[str, Any] = json.loads(await self.connection.get_message())
        self.seen.append(frame)
        return frame

    async def until(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Give the next frame of a kind that has these fields; all that comes before it is in `seen`."""
        while True:
            frame = await self.next()
            if frame["type"] == kind and fields.items() <= frame.items():
                return frame

    async def until_event(self, kind: str, session_id: str | None = None) -> dict[str, Any]:
        while True:
            event: dict[str, Any] = (await self.until("event"))["event"]
            if event["kind"] == kind and session_id in (None, event["session_id"]):
                return event

    async def ask(self, name: str, /, **fields: Any) -> dict[str, Any]:
        self._next_id += 1
        await self.send(type=name, id=self._next_id, **fields)
        return await self.until("reply", id=self._next_id)

    async def subscribe(self, session_id: str, **more: Any) -> dict[str, Any]:
        """Subscribe, and give the frame that it begins with."""
        await self.send(type="subscribe", id=f"sub-{session_id}", session_id=session_id, **more)
        return await self.until("subscribed", session_id=session_id)

    async def done(self, name: str, /, **fields: Any) -> Any:
        """Send a command that is done, and give its result."""
        reply = await self.ask(name, **fields)
        assert reply["ok"], reply
        return reply["result"]

    async def greet(self, by: str, **fields: Any) -> dict[str, Any]:
        """Say who calls, and give what comes next."""
        await self.send(type="hello", token=by, **fields)
        return await self.next()

    async def refused(self, name: str, /, **fields: Any) -> tuple[int, str]:
        """Send a command that is refused; gives status and code."""
        reply = await self.ask(name, **fields)
        assert not reply["ok"], reply
        return reply["error"]["status"], reply["error"]["code"]

    async def closed(self, *, seconds: float = 10) -> int:
        """Read to the end, and give the code that it was closed with."""

        async def read() -> None:
            while True:
                self.seen.append(json.loads(await self.connection.get_message()))

        with trio.fail_after(seconds), pytest.raises(ConnectionClosed) as caught:
            await read()
        reason = caught.value.reason
        assert reason is not None
        return int(reason.code)

    def numbers(self, session_id: str) -> list[int]:
        """The numbers of the committed events of a session that were seen, in order."""
        events = [frame["event"] for frame in self.seen if frame["type"] == "event"]
        return [
            event["seq"]
            for event in events
            if event["session_id"] == session_id and not event.get("ephemeral")
        ]


@asynccontextmanager
async def socket_of(
    web: Web, *, by: str | None = None, query: str = "", protocol: str = "agentrail.v1", **headers: str
) -> AsyncIterator[Client]:
    """Open a socket, with a token or without; an origin of the server itself is sent unless another is given, and none if it is empty."""
    host, port = web.address
    origin = headers.pop("origin", f"http://{host}:{port}")
    named = headers.pop("host", f"{host}:{port}")
    extra = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    extra += [(b"origin", origin.encode())] if origin else []
    if by is not None:
        extra.append((b"authorization", f"Bearer {by}".encode()))
    # Over a stream of our own: the client leaves its stream open where an upgrade is refused.
    stream = await trio.open_tcp_stream(host, port)
    try:
        async with trio.open_nursery() as nursery:
            connection = await wrap_client_stream(
                nursery,
                stream,
                named,
                f"/ws{query}",
                subprotocols=[protocol] if protocol else None,
                extra_headers=extra,
            )
            yield Client(connection)
            with trio.move_on_after(1):
                await connection.aclose()
            nursery.cancel_scope.cancel()
    finally:
        await trio.aclose_forcefully(stream)


async def refused_upgrade(web: Web, **given: Any) -> tuple[int, str]:
    """Try to open a socket, which is refused; gives status and code."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - one within groups, which is looked at
        async with socket_of(web, **given):
            pass
    error: Any = caught.value
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    assert isinstance(error, ConnectionRejected), error
    return error.status_code, json.loads(error.body)["error"]["code"] if error.body else ""


async def no_sockets(web: Web) -> None:
    with trio.fail_after(60):
        while web.served.sockets.statistics().sockets:  # noqa: ASYNC110 - nothing tells of it
            await trio.sleep(0.01)
    assert web.served.gateway.places.in_all == web.served.sockets.statistics().unknown == 0
