"""A server of the console's files that otherwise says what a test wrote by hand: answers of routes, and frames of its WebSocket."""

import json
import time
from collections.abc import Callable
from typing import Any

import trio
from attrs import define, field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from agentrail.gateway.console_files import HEADERS, find_file
from tests.console.serving import PATIENCE_SECONDS, AppThread

INFO: dict[str, Any] = {
    "version": "0.1.0",
    "instance": "i-1",
    "protocol": "agentrail.v1",
    "features": [
        *("watch", "events", "call_details", "replay_frames", "spans", "context", "state_at", "explain"),
        *("trace_filters", "rules", "rewind_dry", "approvals", "tree", "plugin_calls", "cost"),
    ],
    "principal": {"tenant": "local", "user": "local", "scopes": ["use", "inspect"], "expires_at_ms": None},
    "profiles": [{"agent_id": "desk", "description": None, "model": "demo:"}],
    "models": [],
    "limits": {},
    "journal": True,
    "demo": False,
}
_SERVED = {"protocol": "agentrail.v1", "limits": {}, "version": "0.1.0", "instance": "i-1"}
WELCOME: dict[str, Any] = {"type": "welcome", "heartbeat": 15, **_SERVED}


@define(eq=False)
class ScriptedServer:
    """Serves the console. What it says is changed by tests at any time.

    Without `info` it is an older server, without `welcome` it never answers `hello`. `answers` are those of other routes, such as
    `"GET sessions"`: a value for JSON, `(status, value)`, or a function of the request; `replies` those of commands: a `result`, or a
    function of the frame that gives frames.
    """

    info: dict[str, Any] | None = field(factory=lambda: json.loads(json.dumps(INFO)))
    answers: dict[str, Any] = field(factory=lambda: {"GET sessions": {"sessions": [], "next_cursor": None}})
    welcome: dict[str, Any] | None = field(factory=lambda: dict(WELCOME))
    replies: dict[str, Any] = field(factory=dict)
    rows: dict[str, list[dict[str, Any]]] = field(factory=dict)
    token: str | None = None
    received: list[dict[str, Any]] = field(factory=list)
    asked: list[str] = field(factory=list)
    refusal: str = ""
    accepted: int = 0
    accepts: bool = True
    _sockets: list[WebSocket] = field(factory=list)
    _thread: AppThread | None = None

    def start(self, port: int = 0) -> "ScriptedServer":
        """Begin; anything that is asked of it does that too."""
        app = Starlette(
            routes=[
                Route("/console/info", self._info),
                Route("/console/{path:path}", self._file),
                WebSocketRoute("/ws", self._socket),
                Route("/{path:path}", self._answer, methods=["GET", "POST", "DELETE"]),
            ]
        )
        self._thread = AppThread(app, port=port)
        return self

    @property
    def thread(self) -> AppThread:
        if self._thread is None:
            self.start()
        assert self._thread is not None
        return self._thread

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.thread.port}"

    def link(self, fragment: str = "#/", *, query: str = "") -> str:
        """Give the address of a page of the console."""
        return f"{self.base}/console/{query}{fragment}"

    def stop(self) -> None:
        if self._thread is not None:
            self._thread.stop()
            self._thread = None

    # --- what tests do with its sockets

    def send(self, *frames: dict[str, Any] | str) -> None:
        """Send frames, or texts that are none, over all sockets that are open."""

        async def send() -> None:
            for socket in tuple(self._sockets):
                for frame in frames:
                    await socket.send_text(frame if isinstance(frame, str) else json.dumps(frame))

        self.thread.run(send)

    def change(self, what: str, *rows: dict[str, Any], gone: tuple[str, ...] = (), total: int = 9) -> None:
        """Tell the watch that a page began last of a change."""
        watch = [one for one in self.received if one["type"] == "watch" and one["what"] == what][-1]
        told = {"type": "changed", "id": watch["id"], "rows": [*rows], "gone": [*gone], "total": total}
        self.send(told)

    def close(self, code: int = 1011) -> None:
        async def close() -> None:
            for socket in tuple(self._sockets):
                self._sockets.remove(socket)
                await socket.close(code)

        self.thread.run(close)

    def wait_for(
        self,
        kind: str,
        *,
        count: int = 1,
        seconds: float = PATIENCE_SECONDS,
        wait: Callable[[float], Any] = time.sleep,
    ) -> dict[str, Any]:
        """Wait until so many frames of a type have come, and give the last of them."""
        ends = time.monotonic() + seconds
        while len(found := [frame for frame in self.received if frame.get("type") == kind]) < count:
            assert time.monotonic() < ends, f"no {kind} came: {self.received}"
            wait(0.01)
        return found[-1]

    # --- what it says

    def _refuse(self, status: int, code: str) -> Response:
        message = self.refusal or f"refused: {code}"
        return JSONResponse({"error": {"code": code, "message": message, "hint": None}}, status)

    def _is_let_in(self, given: str | None) -> bool:
        return self.token is None or given == self.token

    async def _info(self, request: Request) -> Response:
        self.asked.append("GET console/info")
        if not self._is_let_in(request.headers.get("authorization", "").removeprefix("Bearer ")):
            return self._refuse(401, "unauthorized")
        return self._refuse(404, "route_unknown") if self.info is None else JSONResponse(self.info)

    async def _file(self, request: Request) -> Response:
        await trio.lowlevel.checkpoint()
        found = find_file(request.path_params["path"])
        if found is None:
            return self._refuse(404, "route_unknown")
        return Response(found.content, headers={**HEADERS, "content-type": found.content_type})

    async def _answer(self, request: Request) -> Response:
        name = f"{request.method} {request.path_params['path']}"
        self.asked.append(name)
        if not self._is_let_in(request.headers.get("authorization", "").removeprefix("Bearer ")):
            return self._refuse(401, "unauthorized")
        found = self.answers.get(name)
        if callable(found):
            found = await found(request)
        match found:
            case None:
                return self._refuse(404, "route_unknown")
            case (int() as status, value):
                return JSONResponse(value, status)
            case Response():
                return found
            case _:
                return JSONResponse(found)

    async def _socket(self, socket: WebSocket) -> None:
        self.accepted += 1
        if not self.accepts:
            await trio.sleep_forever()
        await socket.accept("agentrail.v1")
        self._sockets.append(socket)
        try:
            while True:
                frame = json.loads(await socket.receive_text())
                self.received.append(frame)
                for reply in self._replies_to(frame):
                    await socket.send_text(json.dumps(reply))
        except WebSocketDisconnect:
            pass
        finally:
            if socket in self._sockets:
                self._sockets.remove(socket)

    def _replies_to(self, frame: dict[str, Any]) -> list[dict[str, Any]]:
        kind = frame["type"]
        known = self.replies.get(kind)
        if callable(known):
            return list(known(frame))
        if known is not None:
            return [{"type": "reply", "id": frame["id"], "ok": True, "result": known}]
        match kind:
            case "hello":
                return [] if self.welcome is None else [self.welcome]
            case "ping":
                return [{"type": "pong", "n": frame["n"]}]
            case "watch":
                rows = self.rows.get(frame["what"], [])
                watching = {"type": "watching", "id": frame["id"], "what": frame["what"]}
                return [{**watching, "rows": rows, "total": len(rows)}]
            case "unsubscribe" | "unwatch":
                return [{"type": "reply", "id": frame["id"], "ok": True, "result": None}]
            case _:
                return []
