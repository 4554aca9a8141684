"""A TCP proxy that fails on request, between a client and PostgreSQL, or between two nodes.

It runs in a thread of its own, so tests with and without an event loop use it, and all methods may be called from any thread:

    with CuttingProxy(5432, is_whole=is_whole_postgres_answer) as proxy:
        connect(port=proxy.port)
        proxy.cut_at(Cut.BEFORE_ANSWER, skip=3)  # the server has done what the fourth request asks for, and its client never learns
        proxy.cut()                              # resets all connections and refuses new ones, until `mend`
        proxy.stall(Way.TO_CLIENT)               # a one-way cut: bytes to clients wait, until `mend`; connections stay open
        proxy.mend()

A request begins with the client's first bytes after an answer. What an answer is, `is_whole` decides: without it, the server's next bytes.
"""

import enum
import queue
import socket
import struct
import threading
from collections.abc import Callable
from typing import Final, Self

import trio
from attrs import define, field

_MOST: Final = 65_536
_RESET: Final = struct.pack("ii", 1, 0)
"""`SO_LINGER` of a socket that is closed with a reset."""


class Cut(enum.Enum):
    """Where an exchange is cut, once. All but `AFTER_ANSWER` reset the connection."""

    BEFORE_REQUEST = enum.auto()
    """The server never sees the request."""

    BEFORE_ANSWER = enum.auto()
    """The server has answered, and the client sees nothing of it."""

    IN_ANSWER = enum.auto()
    """The client sees half of the answer."""

    AFTER_ANSWER = enum.auto()
    """The client sees all of the answer, and a closed connection."""


class Way(enum.Enum):
    """A direction of bytes."""

    TO_SERVER = enum.auto()
    TO_CLIENT = enum.auto()


def is_whole_postgres_answer(answer: bytes) -> bool:
    """Whether the bytes of a PostgreSQL server end where it waits for its client."""
    if len(answer) == 1:  # to a request for TLS
        return True
    start, end = 0, 0
    while end + 5 <= len(answer):
        start, end = end, end + 1 + int.from_bytes(answer[end + 1 : end + 5], "big")
    if not answer or end != len(answer):
        return False
    is_challenge = answer[start:].startswith(b"R") and answer[start + 5 : start + 9] not in (
        b"\0\0\0\0",
        b"\0\0\0\x0c",
    )
    return is_challenge or answer[start : start + 1] in (b"Z", b"G")


@define(eq=False)
class _Connection:
    near: trio.SocketStream
    far: trio.SocketStream
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    is_asked: bool = False
    is_cut: bool = False
    answer: bytes = b""

    def reset(self) -> None:
        for one in (self.near, self.far):
            one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.scope.cancel()


class CuttingProxy:
    """A proxy on a loopback port, which passes bytes on to another port until it is told to fail.

    Args:
        target: The loopback port to pass bytes on to.
        is_whole: Whether the server's bytes since the request are a whole answer. Without it, any bytes are.

    Attributes:
        port: The proxy's own port, the same as long as it lives.
        answers: How many whole answers servers gave.
        cuts: How often an exchange was cut, and how many connections `cut` and `reset` ended.
    """

    def __init__(self, target: int, *, is_whole: Callable[[bytes], bool] = bool) -> None:
        self.target = target
        self.answers = 0
        self.cuts = 0
        self._is_whole = is_whole
        # Bound and never listening, it keeps the port while new connections are refused.
        self._holder = _bound_socket(0)
        self.port: int = self._holder.getsockname()[1]
        self._plan: tuple[Cut, int] | None = None
        self._gates: dict[Way, trio.Event | None] = dict.fromkeys(Way)
        self._open: dict[_Connection, None] = {}
        self._listening: trio.CancelScope | None = None
        self._started: queue.SimpleQueue[trio.lowlevel.TrioToken] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=trio.run, args=(self._serve,), name="cutting proxy", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        self._token = self._started.get()
        return self

    def __exit__(self, *error: object) -> None:
        self._call(self._all.cancel)
        self._thread.join()
        self._holder.close()

    @property
    def open_connections(self) -> int:
        """How many connections are open."""
        return len(self._open)

    def cut(self) -> None:
        """Reset all connections, and refuse new ones until `mend`."""
        self._call(self._refuse, self._reset_all)

    def refuse(self) -> None:
        """Refuse new connections until `mend`. Open ones stay."""
        self._call(self._refuse)

    def reset(self) -> None:
        """Reset all connections. New ones are accepted."""
        self._call(self._reset_all)

    def stall(self, *ways: Way) -> None:
        """Hold all bytes of one way, or of both, until `mend`. Connections stay open, and new ones are accepted."""
        self._call(lambda: self._gates.update({way: trio.Event() for way in ways or Way}))

    def cut_at(self, where: Cut, *, skip: int = 0) -> None:
        """Cut one exchange, once: the next, or one after it.

        Args:
            where: The point in the exchange.
            skip: How many exchanges over all connections go through before it.
        """
        self._call(lambda: setattr(self, "_plan", (where, skip)))

    def mend(self) -> None:
        """Pass bytes on and accept connections again; forget a cut that has not happened."""
        self._call(self._mend)

    def _call(self, *changes: Callable[[], object]) -> None:
        """Change the proxy in its thread, and return when that is done."""
        done = threading.Event()

        def change() -> None:
            for one in changes:
                one()
            done.set()

        self._token.run_sync_soon(change)
        done.wait()

    def _reset_all(self) -> None:
        self.cuts += len(self._open)
        for one in self._open:
            one.reset()

    def _refuse(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            self._listener.socket.close()
            self._listening = None

    def _mend(self) -> None:
        self._plan = None
        for way, gate in self._gates.items():
            self._gates[way] = None
            if gate is not None:
                gate.set()
        if self._listening is None:
            self._listen()

    def _listen(self) -> None:
        listener = _bound_socket(self.port)
        listener.listen(128)
        self._listener = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
        self._listening = trio.CancelScope()
        self._nursery.start_soon(self._accept, self._listener, self._listening)

    async def _serve(self) -> None:
        async with trio.open_nursery() as self._nursery:
            self._all = self._nursery.cancel_scope
            self._listen()
            self._started.put(trio.lowlevel.current_trio_token())
            try:
                await trio.sleep_forever()
            finally:
                self._refuse()

    async def _accept(self, listener: trio.SocketListener, scope: trio.CancelScope) -> None:
        with scope:
            while True:
                try:
                    self._nursery.start_soon(self._carry, await listener.accept())
                except trio.ClosedResourceError:
                    return

    async def _carry(self, near: trio.SocketStream) -> None:
        async with near:
            try:
                far = await trio.open_tcp_stream("127.0.0.1", self.target)
            except OSError:
                return
            async with far:
                connection = _Connection(near, far)
                self._open[connection] = None
                with connection.scope:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._copy, connection, Way.TO_SERVER)
                        nursery.start_soon(self._copy, connection, Way.TO_CLIENT)
                del self._open[connection]

    async def _copy(self, connection: _Connection, way: Way) -> None:
        to_server = way is Way.TO_SERVER
        source, sink = (connection.near, connection.far)[:: 1 if to_server else -1]
        judge = self._judge_request if to_server else self._judge_answer
        try:
            while piece := await source.receive_some(_MOST):
                while (gate := self._gates[way]) is not None:
                    await gate.wait()
                cut, shown = judge(connection, piece)
                if shown:
                    await sink.send_all(shown)
                if cut is Cut.AFTER_ANSWER:
                    connection.scope.cancel()
                elif cut is not None:
                    connection.reset()
            await sink.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            connection.scope.cancel()

    def _judge_request(self, connection: _Connection, piece: bytes) -> tuple[Cut | None, bytes]:
        if connection.is_cut:
            return None, b""
        is_first, connection.is_asked = not connection.is_asked, True
        if is_first and self._plan == (Cut.BEFORE_REQUEST, 0):
            return self._cut_once(), b""
        return None, piece

    def _judge_answer(self, connection: _Connection, piece: bytes) -> tuple[Cut | None, bytes]:
        """Return whether to cut, and the bytes to pass on. The bytes of an answer that will be cut wait until it is whole."""
        if not connection.is_asked:
            return None, piece
        connection.answer += piece
        is_whole = self._is_whole(connection.answer)
        is_due = self._plan is not None and self._plan[1] == 0 and self._plan[0] is not Cut.BEFORE_REQUEST
        if not is_whole:
            return None, b"" if is_due else piece
        answer, connection.answer, connection.is_asked = connection.answer, b"", False
        self.answers += 1
        if not is_due:
            self._plan = self._plan and (self._plan[0], max(self._plan[1] - 1, 0))
            return None, piece
        cut, connection.is_cut = self._cut_once(), True
        return cut, {Cut.IN_ANSWER: answer[: len(answer) // 2], Cut.AFTER_ANSWER: answer}.get(cut, b"")

    def _cut_once(self) -> Cut:
        assert self._plan is not None
        cut, self._plan = self._plan[0], None
        self.cuts += 1
        return cut


def _bound_socket(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound
