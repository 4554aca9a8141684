"""A server written after the text of the protocol, over pipes in memory: it can die, refuse and be silent whenever a test wants that."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio.testing import memory_stream_pair
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream, wrap_server_stream

from agentrail.core.wire.codec import encode_event
from agentrail.events import AgentStart, Envelope, Event, MessageDelta
from agentrail.messages import PromptRef, SessionId
from agentrail.structs import replace


def committed(seq: int, event: Event | None = None, session_id: str = "s-1") -> Event:
    event = event or AgentStart(ref=PromptRef(f"p{seq}"))
    return replace(event, meta=Envelope(SessionId(session_id), seq, 0, (SessionId(session_id),)))


def delta(seq: int, text: str = "x", session_id: str = "s-1") -> Event:
    meta = Envelope(SessionId(session_id), seq, 0, (SessionId(session_id),), ephemeral=True)
    return replace(MessageDelta(delta=text), meta=meta)


class FakeServer:
    """Has sessions with numbered events, answers commands as it is told, and remembers what each connection sent."""

    def __init__(self) -> None:
        """Know one session without events, and answer each command with `{}`."""
        self.events: dict[str, list[Event]] = {"s-1": []}
        self.heard: list[list[dict[str, Any]]] = []
        self.on_command: Callable[[dict[str, Any]], Any] = lambda frame: {}
        self.refuse_with: list[tuple[int, bytes]] = []
        self.close_with: list[int] = []
        self.is_silent = False
        self.limits = {"frame_bytes": 1 << 20, "subscriptions": 64, "commands_per_second": 100}
        self.dialled_at: list[float] = []
        self._open: dict[WebSocketConnection, dict[str, int]] = {}
        self._streams: list[trio.abc.Stream] = []

    # --- for tests

    @property
    def commands(self) -> list[dict[str, Any]]:
        return [one for each in self.heard for one in each if one["type"] not in ("hello", "ping")]

    async def cut(self) -> None:
        for stream in self._streams:
            await trio.aclose_forcefully(stream)
        self._streams.clear()
        await trio.testing.wait_all_tasks_blocked()

    async def publish(self, *events: Event) -> None:
        for event in events:
            assert event.meta is not None
            if not event.meta.ephemeral:
                self.events[event.meta.session_id].append(event)
            for connection, read in tuple(self._open.items()):
                if event.meta.session_id in read:
                    await self._tell(connection, type="event", event=json.loads(encode_event(event)))

    async def say(self, **frame: Any) -> None:
        for connection in tuple(self._open):
            await self._tell(connection, **frame)

    # --- connections

    @asynccontextmanager
    async def dial(self, _within_seconds: float = 10.0) -> AsyncIterator[WebSocketConnection]:
        """Open a connection, as `agentrail.remote.dialer` does."""
        self.dialled_at.append(trio.current_time())
        here, there = memory_stream_pair()
        wanted: Any = here  # the library names sockets where it takes any stream
        self._streams += [here, there]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve, there)
            connection = await wrap_client_stream(
                nursery, wanted, "fake", "/ws", subprotocols=["agentrail.v1"], max_message_size=1 << 26
            )
            try:
                yield connection
            finally:
                await trio.aclose_forcefully(here)
                nursery.cancel_scope.cancel()

    async def _serve(self, stream: Any) -> None:
        async with trio.open_nursery() as nursery:
            request = await wrap_server_stream(nursery, stream, max_message_size=1 << 26)
            if self.refuse_with:
                status, body = self.refuse_with.pop(0)
                await request.reject(status, body=body)
                await trio.sleep_forever()
            connection = await request.accept(subprotocol="agentrail.v1")
            self._open[connection] = {}
            heard: list[dict[str, Any]] = []
            self.heard.append(heard)
            try:
                while True:
                    frame = json.loads(await connection.get_message())
                    heard.append(frame)
                    await self._answer(connection, frame)
            except ConnectionClosed:
                pass
            finally:
                self._open.pop(connection, None)
            nursery.cancel_scope.cancel()

    async def _answer(self, connection: WebSocketConnection, frame: dict[str, Any]) -> None:
        if self.is_silent:
            return
        match frame["type"]:
            case "hello":
                if self.close_with:
                    await connection.aclose(code=self.close_with.pop(0))
                    return
                told = {"protocol": "agentrail.v1", "heartbeat": frame["heartbeat"], "limits": self.limits}
                await self._tell(connection, type="welcome", newer="field", **told)
            case "ping":
                await self._tell(connection, type="pong", n=frame["n"])
            case "subscribe":
                await self._subscribe(connection, frame)
            case "unsubscribe":
                self._open[connection].pop(frame["session_id"], None)
                await self._tell(connection, type="reply", id=frame["id"], ok=True, result=None)
            case _:
                result = self.on_command(frame)
                if isinstance(result, dict) and "error" in result:
                    await self._tell(
                        connection, type="reply", id=frame["id"], ok=False, error=result["error"]
                    )
                elif result is not None:
                    await self._tell(connection, type="reply", id=frame["id"], ok=True, result=result)

    async def _subscribe(self, connection: WebSocketConnection, frame: dict[str, Any]) -> None:
        named, read = frame["session_id"], self._open[connection]
        if named in read or named not in self.events:
            code = "already_started" if named in read else "session_unknown"
            error = {"code": code, "message": "not so", "hint": None, "status": 404}
            await self._tell(connection, type="reply", id=frame["id"], ok=False, error=error)
            return
        kept = self.events[named]
        last = max((event.meta.seq for event in kept if event.meta), default=0)
        after = frame.get("after")
        seq = last if after is None else after
        read[named] = seq
        await self._tell(connection, type="subscribed", id=frame["id"], session_id=named, seq=seq)
        for event in kept:
            if event.meta is not None and event.meta.seq > seq:
                await self._tell(connection, type="event", event=json.loads(encode_event(event)))

    @staticmethod
    async def _tell(connection: WebSocketConnection, **frame: Any) -> None:
        await connection.send_message(json.dumps(frame))
