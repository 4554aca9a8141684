"""The command in a terminal whose screen is looked at: pyte draws what a terminal would."""

import contextlib
import fcntl
import os
import signal
import struct
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pyte
import trio
from attrs import define, field

from tests.cli.rig import WARM
from tests.forked import Forked, Warm, open_forked

PATIENCE_SECONDS = 20


@define
class Watched:
    """The user at a terminal who sees its screen, with what scrolled away above."""

    process: Forked
    master: int
    screen: pyte.HistoryScreen
    raw: bytes = b""
    _above: list[str] = field(factory=list, init=False)
    _stream: pyte.ByteStream = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._stream = pyte.ByteStream(self.screen)

    @property
    def rows(self) -> list[str]:
        """All rows, what scrolled away first, without the empty ones at the end."""
        scrolled = self.screen.history.top
        for place in range(len(self._above), len(scrolled)):  # what scrolled away changes no more
            row = scrolled[place]
            self._above.append("".join(row[column].data for column in sorted(row)).rstrip())
        rows = [*self._above, *(row.rstrip() for row in self.screen.display)]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    async def wait_for(self, wanted: str | Callable[[str], bool]) -> str:
        """Read until the screen shows a text, or what is asked of it, and give all of it."""
        shows = (lambda text: wanted in text) if isinstance(wanted, str) else wanted
        with trio.move_on_after(PATIENCE_SECONDS):
            while not shows(self.text):
                assert await self.read(), f"the terminal was closed before it showed {wanted!r}:\n{self.text}"
            return self.text
        message = f"{wanted!r} did not come:\n{self.text}"
        raise AssertionError(message)

    async def read(self) -> bool:
        """Draw what came; False when the terminal is closed."""
        await trio.lowlevel.wait_readable(self.master)
        try:
            piece = os.read(self.master, 65_536)
        except OSError:
            return False
        self.raw += piece
        self._stream.feed(piece)
        return bool(piece)

    async def read_for(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            while await self.read():
                pass

    def type(self, text: str) -> None:
        os.write(self.master, text.encode(errors="surrogateescape"))

    async def press(self, keys: str, wanted: str | Callable[[str], bool]) -> str:
        self.type(keys)
        return await self.wait_for(wanted)

    async def paste(self, text: str, *, brackets: bool = True) -> None:
        left = (f"\x1b[200~{text}\x1b[201~" if brackets else text.replace("\n", "\r")).encode()
        os.set_blocking(self.master, False)
        try:
            while left:
                with trio.move_on_after(0.001):
                    await self.read()
                try:
                    left = left[os.write(self.master, left[:4_096]) :]
                except BlockingIOError:
                    continue
        finally:
            os.set_blocking(self.master, True)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    async def leave(self, keys: str = "\x04") -> None:
        self.type(keys)
        assert await self.wait_end() == 0

    async def wait_end(self) -> int:
        """Read to the end, and give the exit code."""
        while await self.read():
            pass
        return await self.process.wait()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)


@asynccontextmanager
async def open_screen(
    *arguments: str,
    columns: int = 80,
    rows: int = 24,
    term: str = "xterm-256color",
    warm: Warm = WARM,
    **variables: str,
) -> AsyncIterator[Watched]:
    """Run the command, or another module, in a terminal of so many columns and rows."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (rows, columns))
    try:
        async with open_forked(
            warm,
            *arguments,
            descriptors=(slave, slave, slave),
            session=True,
            variables={"TERM": term, **variables},
        ) as process:
            os.close(slave)
            screen = pyte.HistoryScreen(columns, rows, history=20_000, ratio=0.5)
            yield Watched(process=process, master=master, screen=screen)
    finally:
        with contextlib.suppress(OSError):  # a test may have closed it already
            os.close(master)
