"""A server of streamed chat completions in a process of its own, so that its CPU is not counted with its readers'.

`POST /<deltas>/<gap_us>/chat/completions` answers with so many small deltas, each a chunk of HTTP and an event of SSE
of its own, as the vendors send them: all in one burst when the gap is 0, else one per gap. Plain sockets and one
thread: a loop that also had to schedule tasks would be late for itself.

    python -m benchmarks.sse_server        # prints its port; ends when its standard input does
"""

import heapq
import json
import selectors
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_GOLDEN: Final = 0.618034
_LAST_CHUNK: Final = b"0\r\n\r\n"
_FRAME: Final = {
    "id": "chatcmpl-AbCdEfGhIjKlMnOpQrStUvWxYz012",
    "object": "chat.completion.chunk",
    "created": 1760000000,
    "model": "stub",
    "service_tier": "default",
    "system_fingerprint": "fp_0123456789",
}


def text_of(deltas: int) -> str:
    """Say what a response of so many deltas adds up to."""
    return "".join(f" w{number:04d}" for number in range(deltas))


@contextmanager
def serve_streams() -> Iterator[str]:
    """Run the server in a process; gives its address, to which `/<deltas>/<gap_us>` is to be added."""
    command = [sys.executable, "-m", "benchmarks.sse_server"]
    with subprocess.Popen(  # noqa: S603 - ourselves
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        assert process.stdout is not None  # noqa: S101 - as well
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


@cache
def _pieces(deltas: int) -> tuple[bytes, ...]:
    """Make the chunks of a response, one per event; the last one ends the body too."""
    choices: list[list[dict[str, object]]] = [[_choice({"role": "assistant", "content": ""})]]
    choices += [[_choice({"content": f" w{number:04d}"})] for number in range(deltas)]
    choices.append([_choice({}, "stop")])
    events: list[dict[str, object]] = [{**_FRAME, "choices": choice, "usage": None} for choice in choices]
    usage = {"prompt_tokens": 10, "completion_tokens": deltas, "total_tokens": deltas + 10}
    events.append({**_FRAME, "choices": [], "usage": usage})
    chunks = [_chunk(json.dumps(event, separators=(",", ":"))) for event in events]
    return (*chunks, _chunk("[DONE]") + _LAST_CHUNK)


def _choice(delta: dict[str, object], reason: str | None = None) -> dict[str, object]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}


def _chunk(data: str) -> bytes:
    event = f"data: {data}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(event), event)


class _Connection:
    """One client: what it asked, what it is still to be sent, and what the kernel had no room for."""

    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self.unsent = bytearray()
        self.pieces: Iterator[bytes] = iter(())
        self.gap_seconds = 0.0
        self._received = bytearray()

    def receive(self) -> bool:
        """Read, and begin the answer when the request is complete; False when the client is gone."""
        try:
            came = self.peer.recv(65_536)
        except ConnectionError:
            return False
        self._received += came
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if end and len(rest) >= _content_length(head):
            self._received.clear()
            _, deltas, gap_us, *_ = head.split(b" ", 2)[1].decode().split("/")
            self.gap_seconds = int(gap_us) / 1e6
            self.unsent += _HEAD
            if self.gap_seconds:
                self.pieces = iter(_pieces(int(deltas)))
            else:
                self.unsent += b"".join(_pieces(int(deltas)))
        return bool(came)

    def send(self) -> bool:
        """Send what the kernel takes; False when the client is gone."""
        try:
            del self.unsent[: self.peer.send(self.unsent)]
        except BlockingIOError:
            pass
        except ConnectionError:
            return False
        return True


class _Server:
    """All clients, and when each is due for its next piece."""

    def __init__(self, listener: socket.socket) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        self._listener = listener
        self._due: list[tuple[float, int, _Connection]] = []  # a heap; the number only breaks ties
        self._ticket = 0

    def serve(self) -> None:
        """Serve until standard input ends."""
        while True:
            wait_seconds = max(self._due[0][0] - monotonic(), 0) if self._due else None
            for key, _ in self._selector.select(wait_seconds):
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._handle(key.data)
            now = monotonic()
            while self._due and self._due[0][0] <= now:
                due_at, _, connection = heapq.heappop(self._due)
                self._send_piece(connection, due_at)

    def _accept(self) -> None:
        peer, _ = self._listener.accept()
        peer.setblocking(False)  # noqa: FBT003 - a socket's own signature
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(peer, selectors.EVENT_READ, _Connection(peer))

    def _handle(self, connection: _Connection) -> None:
        """Do what a socket is ready for. Reading first: it also tells of a client that went away."""
        if connection.unsent:
            self._go_on(connection)
            return
        if not connection.receive():
            self._forget(connection)
            return
        if connection.unsent:
            self._go_on(connection)
            if connection.gap_seconds:
                # Streams that begin together do not stay in step in the world; here they would, and every gap would
                # bring one lump of work. The golden ratio spreads any number of them evenly.
                phase = self._ticket * _GOLDEN % 1
                self._put_due(connection, monotonic() + connection.gap_seconds * phase)

    def _send_piece(self, connection: _Connection, due_at: float) -> None:
        piece = next(connection.pieces, None)
        if piece is None or connection.peer.fileno() < 0:
            return
        connection.unsent += piece
        self._go_on(connection)
        self._put_due(connection, due_at + connection.gap_seconds)

    def _put_due(self, connection: _Connection, due_at: float) -> None:
        self._ticket += 1
        heapq.heappush(self._due, (due_at, self._ticket, connection))

    def _go_on(self, connection: _Connection) -> None:
        if not connection.send():
            self._forget(connection)
            return
        wanted = selectors.EVENT_WRITE if connection.unsent else selectors.EVENT_READ
        if self._selector.get_key(connection.peer).events != wanted:
            self._selector.modify(connection.peer, wanted, connection)

    def _forget(self, connection: _Connection) -> None:
        self._selector.unregister(connection.peer)
        connection.peer.close()


def _content_length(head: bytearray) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        listening.setblocking(False)  # noqa: FBT003 - a socket's own signature
        print(listening.getsockname()[1], flush=True)
        _Server(listening).serve()
