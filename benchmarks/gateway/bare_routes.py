"""The bare side: routes of plain Starlette that write prepared bytes to each reader, on the server that ours are on.

One list of frames and one event that wakes all who wait, at once: what is written for a day's use. No numbers to come back with, no bound
for one who does not read, no end of streams.
"""

import time
from collections.abc import AsyncIterator
from typing import Any, Final

import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

_FRAME: Final = (
    b'event: model_switched\ndata: {"kind":"model_switched","seq":%d,"session_id":"s-0","at_ms":%d,'
    b'"from_model":"stub-a:object","to_model":"stub-b:object","provider_opts_changed":false,"by":"user"}\nid: %d\n\n'
)
"""As long as one of ours, with the same marks in it."""


class Board:
    """The frames that were published, for all who read."""

    def __init__(self) -> None:
        """Begin with none."""
        self.frames: list[bytes] = []
        self._news = trio.Event()

    def publish(self) -> None:
        """Add a frame, and wake all."""
        number = len(self.frames) + 1
        self.frames.append(_FRAME % (number, time.time_ns() // 1_000_000, number))
        news, self._news = self._news, trio.Event()
        news.set()

    async def read(self, after: int | None) -> AsyncIterator[bytes]:
        """Give what there is behind a number, or what comes from now on, joined."""
        yield b"retry: 1000\n\n"
        position = len(self.frames) if after is None else after
        while True:
            if position == len(self.frames):
                await self._news.wait()
            found = b"".join(self.frames[position:])
            position = len(self.frames)
            yield found


def bare_app(board: Board) -> Starlette:
    """Make the application of the bare routes: `/bare`, `/bare/ws` and `/bare/health`."""

    async def stream(request: Request) -> Response:
        after = request.query_params.get("after")
        pieces = board.read(None if after is None else int(after))
        return StreamingResponse(pieces, media_type="text/event-stream")

    async def socket(socket: WebSocket) -> None:
        await socket.accept("agentrail.v1")

        async def write() -> None:
            async for piece in board.read(None):
                await socket.send_text(piece.decode())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            try:
                while True:
                    await socket.receive_text()
            except WebSocketDisconnect:
                nursery.cancel_scope.cancel()

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok")

    routes: list[Any] = [
        Route("/bare", stream),
        WebSocketRoute("/bare/ws", socket),
        Route("/bare/health", health),
    ]
    return Starlette(routes=routes)
