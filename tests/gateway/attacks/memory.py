"""Calls of an application without a server around it: as of ASGI, in the test's own tasks, so that each of their steps can be struck."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import define, field

from agentrail.gateway.app import create_app
from agentrail.host import Host, HostPlugin
from tests.gateway.attacks.wire import FREE, by_header
from tests.host.hosting import profile


@define(eq=False)
class Caller:
    """One call: what the application is given, and what it says."""

    app: Any
    method: str
    path: str
    said: Any = None
    headers: dict[str, str] = field(factory=dict)
    peer: str = "127.0.0.1"
    kind: str = "http"
    frames: list[str] = field(factory=list)
    sent: list[dict[str, Any]] = field(factory=list)
    left: trio.Event = field(factory=trio.Event)
    _gave: bool = False

    async def run(self) -> None:
        await self.app(self._scope(), self._receive, self._send)

    @property
    def status(self) -> int | None:
        """Of the answer; None while there is none."""
        found = [one["status"] for one in self.sent if one["type"].endswith("response.start")]
        return found[0] if found else None

    def _scope(self) -> dict[str, Any]:
        path, _, query = self.path.partition("?")
        given = {"host": "127.0.0.1", "authorization": "Bearer acme/ann", "content-type": "application/json"}
        headers = [
            (name.encode(), value.encode()) for name, value in {**given, **self.headers}.items() if value
        ]
        more = {"subprotocols": ["agentrail.v1"]} if self.kind == "websocket" else {"method": self.method}
        return {
            "type": self.kind,
            "http_version": "1.1",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": headers,
            "client": (self.peer, 5),
            "state": {},
            "extensions": {"websocket.http.response": {}},
            **more,
        }

    async def _receive(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        if not self._gave:
            self._gave = True
            if self.kind == "websocket":
                return {"type": "websocket.connect"}
            body = self.said if isinstance(self.said, bytes) else json.dumps(self.said or {}).encode()
            return {"type": "http.request", "body": body, "more_body": False}
        if self.frames:
            return {"type": "websocket.receive", "text": self.frames.pop(0)}
        await self.left.wait()
        return {"type": f"{self.kind}.disconnect", "code": 1006}

    async def _send(self, message: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(message)


@asynccontextmanager
async def in_memory(model: Any, *plugins: HostPlugin, **options: Any) -> AsyncIterator[tuple[Any, Host]]:
    """Open an application of one profile `desk`, without a server."""
    session = {key[8:]: options.pop(key) for key in tuple(options) if key.startswith("session_")}
    options = {"store": None, "auth": by_header, "limits": FREE, "drain_timeout": 0.5, **options}
    app = create_app(plugins=plugins, profiles=[profile(model, **session)], **options)
    async with app.state.host.open() as host:
        yield app, host


class Strike(trio.abc.Instrument):
    """Counts the steps of all tasks, and does something in front of the n-th."""

    def __init__(self, step: int, strike: Any) -> None:
        self.left = step
        self._strike = strike

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if self.left == 0:
            self._strike()


async def struck_at(step: int, caller: Caller, how: str) -> bool:
    """Make a call that is struck at its n-th step, by a server that cancels it or a caller who leaves; False where it was through before."""
    scope = trio.CancelScope()
    strike = Strike(step, scope.cancel if how == "cancelled" else caller.left.set)
    trio.lowlevel.add_instrument(strike)
    try:
        with scope:
            await caller.run()
    finally:
        trio.lowlevel.remove_instrument(strike)
    return strike.left <= 0
