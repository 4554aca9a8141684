"""Lines of a protocol over standard input and output. Uses no thread, so that signals always end it."""

import os
import select
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import trio

from agentrail.logs import Logger
from agentrail.wire.byte_lines import ByteLines

MAX_LINE_BYTES: Final = 16 << 20
READER_SECONDS: Final = 30.0
"""Seconds after which a client that reads nothing counts as lost."""

LAST_SECONDS: Final = 1.0
"""The same, after the end of its input."""

_READ_BYTES: Final = 65_536
_LOGGER: Final = Logger("agentrail.stdio")


class LineStream:
    """Lines from and to a client.

    Attributes:
        is_lost: Whether the client no longer reads. Nothing more is sent then.
    """

    def __init__(self, source: int, target: int, *, max_bytes: int = MAX_LINE_BYTES) -> None:
        """Use two descriptors, which remain the caller's, in the mode that they have."""
        self.is_lost: bool = False
        self.has_ended: bool = False
        self._source, self._target = source, target
        self._cutter = ByteLines(max_bytes)
        self._lock = trio.Lock()
        self._reading = trio.CancelScope()
        self._writing = trio.CancelScope()

    def end_input(self) -> None:
        """Let `lines` end as if the client had closed its end."""
        self.has_ended = True
        self._reading.cancel(reason="the input has ended")
        self._writing.deadline = min(self._writing.deadline, trio.current_time() + LAST_SECONDS)

    def lose(self, reason: str) -> None:
        """Send nothing more, and end the input."""
        if not self.is_lost:
            _LOGGER.warning("the client is lost: %s", reason)
        self.is_lost = True
        self.end_input()
        self._writing.cancel(reason=reason)

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the client's lines, without their newline, until its end is closed or a signal arrives.

        Raises:
            LineTooLong: A line is over the limit.
        """
        while data := await self._read():
            for line in self._cutter.feed(data):
                yield line

    async def _read(self) -> bytes:
        while not self.has_ended:
            with trio.CancelScope() as self._reading:
                await _until_ready(trio.lowlevel.wait_readable, self._source)
                try:
                    data = os.read(self._source, _READ_BYTES)
                except BlockingIOError:  # another process reads here too
                    continue
                except OSError:  # a terminal that was closed
                    data = b""
                if not data:
                    self.end_input()
                return data
        return b""

    async def send(self, line: bytes) -> None:
        """Send one line. Does nothing for a client that is lost.

        Cancellation: A line that was begun is completed, which takes at most 30 s.
        """
        async with self._lock:
            left = memoryview(line + b"\n")
            while left and not self.is_lost:
                left = left[await self._write(left[: select.PIPE_BUF]) :]

    async def _write(self, piece: memoryview) -> int:
        """Write bytes that a ready pipe takes at once, also in blocking mode, which its other users may need."""
        seconds = LAST_SECONDS if self.has_ended else READER_SECONDS
        with trio.move_on_after(seconds, shield=True) as self._writing:
            await _until_ready(trio.lowlevel.wait_writable, self._target)
            try:
                return os.write(self._target, piece)
            except BlockingIOError:
                return 0
            except OSError as error:
                self.lose(f"{error.strerror}")
                return 0
        self.lose(f"it has read nothing for {seconds:g} s")
        return 0


async def _until_ready(wait: Callable[[int], Awaitable[None]], descriptor: int) -> None:
    try:
        await wait(descriptor)
    except PermissionError:  # a file or /dev/null cannot be polled, and is always ready
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def open_line_stream(ends: Sequence[int] = (signal.SIGTERM,)) -> AsyncIterator[LineStream]:
    """Speak a protocol over this process's standard input and output for the duration of the block.

    SIGINT and the given signals end the input, and a second one cancels the block. Meanwhile descriptor 0 is empty and descriptor 1
    is standard error, so that no library and no child process can read or write the protocol. After the block the given signals
    are ignored: clients send one after they have closed the input, and this process is exiting.
    """
    # Before the receiver, which restores this at its end, and repeats signals that it has not handled.
    for number in ends:
        signal.signal(number, signal.SIG_IGN)
    with _taken(0, os.open(os.devnull, os.O_RDONLY)) as source, _taken(1, os.dup(2)) as target:
        stream = LineStream(source, target)
        with trio.open_signal_receiver(signal.SIGINT, *ends) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_end_at_signals, signals, stream, nursery.cancel_scope)
                yield stream
                nursery.cancel_scope.cancel(reason="the client has left")


async def _end_at_signals(signals: AsyncIterator[int], stream: LineStream, scope: trio.CancelScope) -> None:
    await anext(signals)
    stream.end_input()
    await anext(signals)
    stream.lose("a second signal")
    scope.cancel(reason="a second signal")


@contextmanager
def _taken(descriptor: int, other: int) -> Iterator[int]:
    """Move a standard descriptor away, and put another one in its place."""
    own = os.dup(descriptor)
    os.dup2(other, descriptor)
    os.close(other)
    try:
        yield own
    finally:
        os.dup2(own, descriptor)
        os.close(own)
