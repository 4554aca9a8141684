"""A thousand connections that read a stream, in one loop over plain sockets: cheap, so that what is measured is the server.

Each event has the moment at which it was published (`at_ms`), on the clock of the machine, which both processes share. Of each reader the
numbers are looked at as they come: the next one, or it is a gap or a double.
"""

import re
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final, Self

from benchmarks.measure import percentile

_EVENT: Final = re.compile(rb'"at_ms":(\d+)[^\n]*\nid: (\d+)\n')
_DONE: Final = b"event: done\n"
_CHUNK: Final = 1 << 18
_PATIENCE_SECONDS: Final = 60.0
_PROBE_EVERY_SECONDS: Final = 0.2


def now_ms() -> float:
    """Give the time on the clock that events are published by."""
    return time.time() * 1e3


def _request(address: tuple[str, int], path: str) -> bytes:
    host = f"{address[0]}:{address[1]}"
    return f"GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode()


class Reader:
    """One connection that reads.

    Attributes:
        path: What it asks for, without a number to go on after.
        first: The number of the first event; None before it.
        last: The number of the last event; None before the first.
        count: How many came.
        faults: How many did not follow on the one before.
        is_up: Whether the stream has begun.
        is_done: Whether it was told that the stream ended.
        is_level: Whether an event has come, on this connection, that was not older than `LEVEL_MS`.
    """

    LEVEL_MS = 500.0

    def __init__(self, address: tuple[str, int], path: str, lags: list[float]) -> None:
        """Begin with nothing; `connect` opens it."""
        self.path = path
        self.first: int | None = None
        self.last: int | None = None
        self.count = 0
        self.faults = 0
        self.is_up = self.is_done = self.is_level = False
        self.peer: socket.socket | None = None
        self._address = address
        self._lags = lags
        self._rest = b""

    def connect(self, receive_buffer: int | None = None) -> socket.socket:
        """Open a connection, and ask for what follows on the last number."""
        self.peer = peer = socket.socket()
        if receive_buffer is not None:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        peer.setblocking(False)  # noqa: FBT003 - a socket's own signature
        peer.connect_ex(self._address)
        self._rest = b""
        self.is_up = self.is_done = self.is_level = False
        return peer

    def ask(self) -> None:
        """Send the request: the connection is made."""
        assert self.peer is not None  # noqa: S101 - it is connected
        after = "" if self.last is None else f"?after={self.last}"
        self.peer.send(_request(self._address, self.path + after))

    def receive(self) -> bool:
        """Take what came; False where the connection has ended."""
        assert self.peer is not None  # noqa: S101 - it is connected
        try:
            came = self.peer.recv(_CHUNK)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        if not came:
            return False
        whole, end, self._rest = (self._rest + came).rpartition(b"\n\n")
        if not end:
            return True
        self.is_up = True
        at = now_ms()
        for published_at, number in _EVENT.findall(whole + end):
            self._take(int(number), at - int(published_at))
        self.is_done = self.is_done or _DONE in whole
        return True

    def _take(self, number: int, lag_ms: float) -> None:
        if self.last is not None and number != self.last + 1:
            self.faults += 1
        self.first = number if self.first is None else self.first
        self.last = number
        self.count += 1
        self._lags.append(lag_ms)
        self.is_level = self.is_level or lag_ms <= self.LEVEL_MS


class Probe:
    """Calls one path again and again, each time with a new connection, and notes how long the answers take."""

    def __init__(self, address: tuple[str, int], path: str) -> None:
        """Call none yet."""
        self.took: list[float] = []
        self.began: dict[socket.socket, float] = {}
        self.due_at = time.perf_counter() + _PROBE_EVERY_SECONDS
        self._address = address
        self._path = path

    def begin(self) -> socket.socket:
        """Begin a call."""
        self.due_at = time.perf_counter() + _PROBE_EVERY_SECONDS
        peer = socket.socket()
        peer.setblocking(False)  # noqa: FBT003 - a socket's own signature
        self.began[peer] = time.perf_counter()
        peer.connect_ex(self._address)
        return peer

    def ask(self, peer: socket.socket) -> None:
        """Send it: the connection is made."""
        peer.send(_request(self._address, self._path))

    def receive(self, peer: socket.socket) -> None:
        """Take the answer; it comes in one piece."""
        if peer.recv(_CHUNK):
            self.took.append(time.perf_counter() - self.began.pop(peer))


class Load:
    """Many readers, in one loop.

    Attributes:
        readers: All of them.
        lags: How many milliseconds each event took, in the order in which they came.
    """

    def __init__(self, address: tuple[str, int], paths: Sequence[str]) -> None:
        """Open none yet.

        Args:
            address: Of the server.
            paths: A reader for each.
        """
        self.lags: list[float] = []
        self.readers = [Reader(address, path, self.lags) for path in paths]
        self._selector = selectors.DefaultSelector()
        self._probe: Probe | None = None

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close all connections."""
        self.close()
        self._selector.close()

    def open(self, *, receive_buffer: int | None = None) -> None:
        """Connect all readers, and wait until each stream has begun."""
        self.connect(receive_buffer=receive_buffer)
        self.run(lambda: all(reader.is_up for reader in self.readers), "that all streams begin")

    def connect(self, *, receive_buffer: int | None = None) -> None:
        """Connect all readers at once."""
        for reader in self.readers:
            self._selector.register(reader.connect(receive_buffer), selectors.EVENT_WRITE, reader)

    def close(self) -> None:
        """Close all connections at once."""
        for key in [*self._selector.get_map().values()]:
            peer = key.fileobj
            assert isinstance(peer, socket.socket)  # noqa: S101 - nothing else is registered
            self._selector.unregister(peer)
            peer.close()

    def run(self, is_over: Callable[[], bool], what: str, *, probe: Probe | None = None) -> None:
        """Read until something holds.

        Args:
            is_over: Whether it does; asked a hundred times a second at most.
            what: What is waited for, for the message.
            probe: Called beside it.

        Raises:
            RuntimeError: It takes more than a minute, beyond what was to be waited for.
        """
        self._probe = probe
        give_up_at = time.perf_counter() + _PATIENCE_SECONDS
        ask_at = 0.0
        while True:
            now = time.perf_counter()
            if now >= ask_at:
                if is_over():
                    return
                ask_at = now + 0.01
            if now > give_up_at:
                message = f"waited {_PATIENCE_SECONDS:g} s {what}: {sum(one.is_up for one in self.readers)} streams are up"
                raise RuntimeError(message)
            if probe is not None and now >= probe.due_at:
                self._selector.register(probe.begin(), selectors.EVENT_WRITE, probe)
            for key, mask in self._selector.select(0.01):
                self._serve(key, mask)

    def _serve(self, key: selectors.SelectorKey, mask: int) -> None:
        peer, one = key.fileobj, key.data
        assert isinstance(peer, socket.socket)  # noqa: S101 - nothing else is registered
        if mask & selectors.EVENT_WRITE:
            self._selector.modify(peer, selectors.EVENT_READ, one)
            if isinstance(one, Reader):
                one.ask()
            else:
                one.ask(peer)
        elif isinstance(one, Reader):
            if not one.receive():
                self._selector.unregister(peer)
                peer.close()
        else:
            one.receive(peer)
            self._selector.unregister(peer)
            peer.close()

    # --- what came of it

    @property
    def delivered(self) -> int:
        """How many events came, in all."""
        return sum(reader.count for reader in self.readers)

    @property
    def faults(self) -> int:
        """How many did not follow on the one before."""
        return sum(reader.faults for reader in self.readers)

    def lag(self, percent: float) -> float:
        """Give how long an event took, in seconds."""
        return percentile(self.lags, percent) / 1e3
