"""Serves the console, and one long session to it, in a process of its own, so that its CPU is not counted with the browser's.

The files are those of the package; with `--control` the list of the conversation draws all of its rows. Lines of JSON on standard input say what is to be
done: `{"do": "stream", "on": true}` begins an answer and sends two hundred deltas a second, off ends it, `{"do": "cut", "events": 1000}` closes all sockets
and commits events that no socket hears, `{"do": "change", "on": true}` changes a hundred watched rows a second. Each is answered with the number of the last
event. With `--lists` the rows, the spans of the session and the records of its journal are as many as `large` has.

    python -m benchmarks.console.server 10000        # prints its port; ends when its standard input does
"""

import argparse
import json
import sys
from functools import partial
from typing import Any, Final

import trio
from attrs import define, field
from hypercorn.config import Config
from hypercorn.trio import serve
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from agentrail.gateway.console_files import HEADERS, find_file
from benchmarks.console import large
from benchmarks.console.history import LAST, SESSION, USAGE, delta_of, events_of

DELTAS_A_SECOND: Final = 200
_IDLE_SESSIONS: Final = 10
_REPLAY: Final = 500
_LATER: Final = 4_000
# What keeps a list small, by file: the control has none of it.
_BOUNDS: Final = {
    "parts/window_list.js": (b"const AROUND = ", b"const ROWS_A_FRAME = "),
    "pure/window_rows.js": (b"const OUT_OF_SIGHT = ",),
}
_INFO: Final[dict[str, Any]] = {
    "version": "0",
    "instance": "i-1",
    "protocol": "agentrail.v1",
    "features": ["watch", "events", "replay_frames", "tree", "spans", "explain", "state_at", "trace_filters"],
    "principal": {"tenant": "local", "user": "local", "scopes": ["use", "inspect"], "expires_at_ms": None},
    "profiles": [],
    "models": [],
    "limits": {},
    "journal": True,
    "demo": False,
}


@define(eq=False)
class LongSession:
    """One session, and the sockets that read it.

    Attributes:
        told: All that it committed, in order.
        more: Events that are committed while nobody reads.
        is_large: Whether rows that are watched are many.
    """

    told: list[dict[str, Any]]
    more: list[dict[str, Any]]
    is_large: bool = False
    is_streaming: bool = False
    is_changing: bool = False
    watches: dict[tuple[WebSocket, str], str] = field(factory=dict)
    sent: int = 0
    ref: str = ""
    sockets: set[WebSocket] = field(factory=set)

    def commit(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Add an event of its own kind at the end."""
        last = self.told[-1]
        event = {**last, "kind": kind, "seq": last["seq"] + 1, "at_ms": last["at_ms"] + 50}
        head = {name: event[name] for name in ("kind", "seq", "session_id", "at_ms")}
        self.told.append({**head, **fields})
        return self.told[-1]

    async def send(self, frame: dict[str, Any]) -> None:
        """Send a frame to all who read."""
        text = json.dumps(frame)
        for socket in tuple(self.sockets):
            await socket.send_text(text)

    async def stream(self) -> None:
        """Send deltas while that is wanted, on the beat: one that is late is followed sooner."""
        began = trio.current_time()
        beats = 0
        while True:
            if not self.is_streaming:
                await trio.sleep(0.02)
                began, beats = trio.current_time(), 0
                continue
            beats += 1
            await trio.sleep_until(began + beats / DELTAS_A_SECOND)
            fields = {"delta": delta_of(self.sent), "attempt": 1, "ephemeral": True}
            self.sent += 1
            last = self.told[-1]
            event = {
                "kind": "message_delta",
                "seq": last["seq"],
                "session_id": SESSION,
                "at_ms": last["at_ms"],
                **fields,
            }
            await self.send({"type": "event", "event": event})

    async def change(self) -> None:
        """Change rows while that is wanted, as a host tells of them: merged, four times a second."""
        beat = 0
        while True:
            await trio.sleep(large.ROUND_SECONDS)
            if not self.is_changing:
                continue
            beat += 1
            for (socket, watch), what in tuple(self.watches.items()):
                if rows := large.changed_of(what, beat):
                    total = len(self.rows_of(what))
                    changed = {"type": "changed", "id": watch, "rows": rows, "gone": [], "total": total}
                    await socket.send_text(json.dumps(changed))

    def rows_of(self, what: str) -> list[dict[str, Any]]:
        """Give the rows that are watched under a name."""
        if self.is_large:
            return large.rows_of(what)
        return [large.session_row(number) for number in range(_IDLE_SESSIONS)] if what == "sessions" else []

    async def do(self, said: dict[str, Any]) -> None:
        """Do what a line of standard input says."""
        match said["do"]:
            case "stream":
                if said["on"] and not self.is_streaming:
                    await self._begin_answer()
                if not said["on"] and self.is_streaming:
                    await self._end_answer()
                self.is_streaming = said["on"]
            case "change":
                self.is_changing = said["on"]
            case "cut":
                events, self.more = self.more[: said["events"]], self.more[said["events"] :]
                for event in events:
                    fields = {
                        name: value
                        for name, value in event.items()
                        if name not in {"kind", "seq", "session_id", "at_ms"}
                    }
                    self.commit(event["kind"], **fields)
                self.commit("plugin_event", **LAST)
                for socket in tuple(self.sockets):
                    self.sockets.discard(socket)
                    await socket.close(1011)

    async def _begin_answer(self) -> None:
        self.ref = ref = f"stream-{len(self.told)}"
        request = {"model": "demo:", "messages": 3, "context_messages": 0, "context_digest": "", "attempt": 1}
        for kind, fields in (
            ("prompt_received", {"ref": ref, "content": [{"kind": "text", "text": "Tell me all of it."}]}),
            ("agent_start", {"ref": ref}),
            ("request_start", request),
            ("message_start", {"attempt": 1}),
        ):
            await self.send({"type": "event", "event": self.commit(kind, **fields)})

    async def _end_answer(self) -> None:
        words = "".join(delta_of(number) for number in range(self.sent))
        message = {
            "role": "assistant",
            "content": [{"kind": "text", "text": words}],
            "model": "demo:",
            "stop_reason": "end",
            "cut": False,
        }
        told = {"message": message, "usage": USAGE, "stop_reason": "end", "attempt": 1}
        await self.send({"type": "event", "event": self.commit("response_complete", **told)})
        end = {"messages": [], "usage": USAGE, "stop_reason": "end", "ref": self.ref, "turns": 1}
        await self.send({"type": "event", "event": self.commit("agent_end", **end)})
        self.sent = 0

    def snapshot(self) -> dict[str, Any]:
        """How it stands, for who begins to read."""
        seq = self.told[-1]["seq"]
        status = {
            "session_id": SESSION,
            "phase": "idle",
            "turn": 0,
            "model": "demo:",
            "usage": USAGE,
            "last_seq": seq,
        }
        told = {
            "seq": seq,
            "status": status,
            "queued": [],
            "todos": [],
            "text": "",
            "messages": [],
            "before": 0,
        }
        return {**told, "title": "A long session", "agent_id": "desk", "children": [], "first_seq": 1}


def app_of(session: LongSession, *, draws_all: bool) -> Starlette:
    """Make the application: files, the session, and rows of sessions that rest."""

    async def file(request: Request) -> Response:
        found = await trio.to_thread.run_sync(find_file, request.path_params["path"])
        if found is None:
            return Response(status_code=404)
        content = found.content
        for bound in _BOUNDS.get(request.path_params["path"], ()) if draws_all else ():
            assert bound in content, f"a list is bounded by {bound!r}"  # noqa: S101 - it is ours
            content = content.replace(bound, bound + b"1e9 + ")
        return Response(content, headers={**HEADERS, "content-type": found.content_type})

    async def info(_request: Request) -> Response:
        await trio.lowlevel.checkpoint()
        return JSONResponse(_INFO)

    async def page(request: Request) -> Response:
        await trio.lowlevel.checkpoint()
        return JSONResponse(large.events_page(session.told, request.query_params))

    async def trace(request: Request) -> Response:
        await trio.lowlevel.checkpoint()
        return JSONResponse(large.trace_page(request.query_params))

    async def explain(request: Request) -> Response:
        await trio.lowlevel.checkpoint()
        return JSONResponse(large.explained(int(request.query_params["at"])))

    async def state_at(request: Request) -> Response:
        await trio.lowlevel.checkpoint()
        return JSONResponse(large.state_at(int(request.query_params["at"])))

    async def state(_request: Request) -> Response:
        await trio.lowlevel.checkpoint()
        return JSONResponse(session.snapshot())

    async def none(_request: Request) -> Response:
        await trio.lowlevel.checkpoint()
        return JSONResponse({"error": {"code": "route_unknown", "message": "no"}}, 404)

    return Starlette(
        routes=[
            Route("/console/info", info),
            Route("/console/{path:path}", file),
            Route(f"/sessions/{SESSION}/events", page),
            Route(f"/sessions/{SESSION}", state),
            Route(f"/inspect/sessions/{SESSION}/trace", trace),
            Route(f"/inspect/sessions/{SESSION}/explain", explain),
            Route(f"/inspect/sessions/{SESSION}/state", state_at),
            WebSocketRoute("/ws", partial(_socket, session)),
            Route("/{path:path}", none, methods=["GET", "POST"]),
        ]
    )


async def _socket(session: LongSession, socket: WebSocket) -> None:
    await socket.accept("agentrail.v1")
    try:
        while True:
            frame = json.loads(await socket.receive_text())
            for reply in _replies(session, frame):
                await socket.send_text(json.dumps(reply))
            match frame:
                case {"type": "subscribe", "session_id": "s-long"}:
                    session.sockets.add(socket)
                case {"type": "watch", "id": str(watch), "what": str(what)}:
                    session.watches[socket, watch] = what
                case {"type": "unwatch", "id": str(watch)}:
                    session.watches.pop((socket, watch), None)
    except WebSocketDisconnect:
        pass
    finally:
        session.sockets.discard(socket)
        for key in [key for key in session.watches if key[0] is socket]:
            del session.watches[key]


def _replies(session: LongSession, frame: dict[str, Any]) -> list[dict[str, Any]]:
    match frame["type"]:
        case "hello":
            limits = {"frame_bytes": 1 << 20, "subscriptions": 20, "commands_per_second": 50}
            head = {"type": "welcome", "protocol": "agentrail.v1", "heartbeat": 15, "limits": limits}
            return [{**head, "version": "0", "instance": "i-1"}]
        case "ping":
            return [{"type": "pong", "n": frame["n"]}]
        case "watch":
            rows = session.rows_of(frame["what"])
            return [
                {
                    "type": "watching",
                    "id": frame["id"],
                    "what": frame["what"],
                    "rows": rows,
                    "total": len(rows),
                }
            ]
        case "subscribe":
            return _subscribed(session, frame)
        case _:
            return [{"type": "reply", "id": frame.get("id"), "ok": True, "result": None}]


def _subscribed(session: LongSession, frame: dict[str, Any]) -> list[dict[str, Any]]:
    head = {"type": "subscribed", "id": frame["id"], "session_id": SESSION}
    if frame["session_id"] != SESSION:
        error = {"code": "session_unknown", "message": "there is no such session", "status": 404}
        return [{"type": "reply", "id": frame["id"], "ok": False, "error": error}]
    after = frame.get("after")
    if after is None:
        return [{**head, "seq": session.told[-1]["seq"], "snapshot": session.snapshot()}]
    missed = session.told[after:]
    parts = [missed[start : start + _REPLAY] for start in range(0, len(missed), _REPLAY)]
    return [
        {**head, "seq": after},
        *({"type": "events", "session_id": SESSION, "events": part} for part in parts),
    ]


async def _main(asked: argparse.Namespace) -> None:
    events = asked.events
    told = large.span_events(large.SPANS) if asked.lists else events_of(events)
    session = LongSession(told=told, more=events_of(events + _LATER)[events:], is_large=asked.lists)
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.errorlog = None
    async with trio.open_nursery() as nursery:
        (bound,) = await nursery.start(serve, app_of(session, draws_all=asked.control), config)
        nursery.start_soon(session.stream)
        nursery.start_soon(session.change)
        print(bound.rsplit(":", 1)[1], flush=True)
        async for line in trio.wrap_file(sys.stdin):
            await session.do(json.loads(line))
            print(session.told[-1]["seq"], flush=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("events", type=int)
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--lists", action="store_true")
    trio.run(_main, parser.parse_args())
