"""A line between a browser and a server that can be cut: what is under way on its WebSockets is lost, and new ones are refused until it is mended. Calls over HTTP pass."""

import threading
from typing import Any

import trio
from attrs import define, field

START_SECONDS = 20
CHUNK_BYTES = 65_536


@define(eq=False)
class CutLine:
    """Carries bytes to a port of the loopback, from a thread of its own; whether there is a server is asked for each connection."""

    to_port: int
    port: int = 0
    cuts: int = 0
    _is_cut: bool = False
    _sockets: set[trio.CancelScope] = field(factory=set)
    _token: trio.lowlevel.TrioToken | None = None
    _stop: trio.Event | None = None
    _thread: threading.Thread | None = None
    _is_ready: threading.Event = field(factory=threading.Event)

    def begin(self) -> "CutLine":
        self._thread = threading.Thread(target=lambda: trio.run(self._serve), name="cut line", daemon=True)
        self._thread.start()
        assert self._is_ready.wait(START_SECONDS), "the line did not begin"
        return self

    def cut(self) -> None:
        """Cut all WebSockets in the middle of what they say, and refuse new ones."""

        def cut() -> None:
            self._is_cut = True
            for one in tuple(self._sockets):
                self.cuts += 1
                one.cancel()

        self._call(cut)

    def mend(self) -> None:
        self._is_cut = False

    def end(self) -> None:
        assert self._stop is not None
        assert self._thread is not None
        self._call(self._stop.set)
        self._thread.join(START_SECONDS)

    def _call(self, function: Any) -> None:
        trio.from_thread.run_sync(function, trio_token=self._token)

    async def _serve(self) -> None:
        self._token, self._stop = trio.lowlevel.current_trio_token(), trio.Event()
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._carry, listeners)
            self._is_ready.set()
            await self._stop.wait()
            nursery.cancel_scope.cancel()

    async def _carry(self, near: trio.SocketStream) -> None:
        try:
            first = await near.receive_some(CHUNK_BYTES)
            is_socket = first.startswith(b"GET /ws")
            if not first or (is_socket and self._is_cut):
                return
            far = await trio.open_tcp_stream("127.0.0.1", self.to_port)
        except (OSError, trio.BrokenResourceError):
            return  # nobody serves there: the browser sees a connection that is closed without a word
        async with far, trio.open_nursery() as nursery:
            if is_socket:
                self._sockets.add(nursery.cancel_scope)
            nursery.start_soon(_pump, near, far, first, nursery.cancel_scope)
            nursery.start_soon(_pump, far, near, b"", nursery.cancel_scope)
        self._sockets.discard(nursery.cancel_scope)


async def _pump(
    source: trio.SocketStream, target: trio.SocketStream, first: bytes, scope: trio.CancelScope
) -> None:
    """Carry one way until either end is gone; then nothing goes the other way either."""
    chunk = first or b"-"
    try:
        if first:
            await target.send_all(first)
        while chunk:
            chunk = await source.receive_some(CHUNK_BYTES)
            if chunk:
                await target.send_all(chunk)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    scope.cancel()
