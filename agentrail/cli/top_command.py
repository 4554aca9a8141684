"""`agentrail top`: the sessions of a server as a live table, or as one table into a pipe."""

import fcntl
import os
import signal
import struct
import termios
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Final

import trio
from attrs import define, field
from cyclopts import Parameter

from agentrail import outside
from agentrail.cli.ctrl_c import stop_signals
from agentrail.cli.exit_codes import Exit, describe_error
from agentrail.cli.log_output import Debug, send_logs_to_stderr
from agentrail.cli.stdio import OutputClosed, OutputFailed, write_all, write_error
from agentrail.cli.text_output import read_named
from agentrail.cli.top_view import (
    SortBy,
    Speeds,
    TopView,
    draw_table,
    foot_line,
    head_lines,
    press,
    server_words,
    shown_rows,
)
from agentrail.errors import AgentrailError, OptionError
from agentrail.otp.guarded_calls import call_guarded, leaves
from agentrail.remote.dialer import address_of, dial_for
from agentrail.remote.row_watch import WatchedRows, watch_rows
from agentrail.wire.inspection_rows import TreeRow
from agentrail.wire.rows import RowFilter, SessionRow

DEFAULT_URL: Final = "http://127.0.0.1:8700"
TOKEN_IN_ENVIRONMENT: Final = "AGENTRAIL_TOKEN"  # noqa: S105 - a variable's name

CONNECT_SECONDS: Final = 5.0
DRAW_SECONDS: Final = 1.0
"""Redraw interval without changes, in seconds, because ages increase."""

SHORTEST_SECONDS: Final = 0.25
"""Minimum redraw interval, in seconds."""

ROWS_ASKED: Final = 1_000
_PLAIN_WIDTH: Final = 160
_AROUND: Final = 3
"""Lines besides the rows: the head, the headings, the foot."""

_ENTER: Final = b"\x1b[?1049h\x1b[?25l"
_LEAVE: Final = b"\x1b[?25h\x1b[?1049l"
_KEYS: Final = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1b[5~": "page_up",
    b"\x1b[6~": "page_down",
    b"\x1b[H": "home",
    b"\x1b[F": "end",
}


def show_top(
    url: Annotated[
        str,
        Parameter(
            help="The address of the server, such as https://agents.example, with the path that it is served under."
        ),
    ] = DEFAULT_URL,
    /,
    *,
    token_file: Annotated[
        Path | None,
        Parameter(
            help=f"A file that holds the token and nothing else. Default: the variable {TOKEN_IN_ENVIRONMENT}."
        ),
    ] = None,
    sort: Annotated[SortBy, Parameter(help="The initial sort order.")] = "age",
    ended: Annotated[bool, Parameter(help="Also show ended sessions.")] = False,
    debug: Debug = False,
) -> Exit:
    send_logs_to_stderr(debug=debug)
    dial = dial_for(address_of(url), read_token(token_file))
    view = TopView(sort=sort, with_ended=ended)
    wanted = RowFilter(limit=ROWS_ASKED)
    shown = url.rstrip("/")

    async def main() -> Exit:
        async with (
            watch_rows(
                dial, "sessions", SessionRow, "session_id", wanted, connect_seconds=CONNECT_SECONDS
            ) as watched,
            trio.open_nursery() as nursery,
        ):
            # Only for its MCP servers. A token without the scope `inspect` shows none.
            tree = WatchedRows(dial, "tree", TreeRow, "key", wanted)
            nursery.start_soon(tree.run)
            if os.isatty(0) and os.isatty(1):
                code = await _live(watched, tree, view, shown)
            else:
                await _once(watched, tree, view, shown)
                code = Exit.DONE
            nursery.cancel_scope.cancel(reason="it was left")
        return code

    try:
        return call_guarded(_told, trio.run, main)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def _told(error: BaseException) -> Exit:
    for one in leaves(error):
        match one:
            case AgentrailError():
                write_error(describe_error(one))
                return Exit.FAILED
            case OutputClosed():
                return Exit.DONE
            case OutputFailed():
                write_error(f"{one}.")
                return Exit.FAILED
            case _:
                continue
    raise error


def read_token(path: Path | None) -> str | None:
    """Read the token from a file or the environment. On a command line, all users of the machine could see it."""
    if path is None:
        return os.environ.get(TOKEN_IN_ENVIRONMENT) or None
    token = read_named(path, "the token file ").decode(errors="replace").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise OptionError(
            [f"{f'{path}'!r} holds no token: expected what `agentrail token new` printed, and nothing else"]
        )
    return token


# --- into a pipe


async def _once(
    watched: WatchedRows[SessionRow], tree: WatchedRows[TreeRow], view: TopView, server: str
) -> None:
    while not watched.is_whole:
        await watched.wait_changed(watched.version)
    with trio.move_on_after(CONNECT_SECONDS), suppress(AgentrailError):
        while not tree.is_whole:
            await tree.wait_changed(tree.version)
    rows = [*watched.rows.values()]
    tools = server_words(tree.rows.values())
    lines = head_lines(rows, watched.total, watched.line, server, _PLAIN_WIDTH, tools)
    table = shown_rows(rows, view, _no_speed)
    lines += draw_table(table, width=_PLAIN_WIDTH, now_ms=_now_ms(), speed=_no_speed, sort=view.sort)
    data = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
    await outside.offload(write_all, 1, data, abandon_on_cancel=True)


def _no_speed(_: str) -> float:
    return 0.0


def _now_ms() -> int:
    return int(outside.wall() * 1_000)


# --- at a terminal


@define(eq=False)
class _Screen:
    watched: WatchedRows[SessionRow]
    tree: WatchedRows[TreeRow]
    view: TopView
    server: str
    speeds: Speeds = field(factory=Speeds)
    wake: trio.Event = field(factory=trio.Event)
    code: Exit | None = None

    def stir(self) -> None:
        self.wake.set()

    def leave(self, code: Exit) -> None:
        self.code = self.code if self.code is not None else code
        self.wake.set()


async def _live(
    watched: WatchedRows[SessionRow], tree: WatchedRows[TreeRow], view: TopView, server: str
) -> Exit:
    screen = _Screen(watched=watched, tree=tree, view=view, server=server)
    with (
        open_terminal_keys(),
        trio.open_signal_receiver(signal.SIGINT, *stop_signals(), signal.SIGWINCH) as signals,
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_hear_signals, screen, signals)
            nursery.start_soon(_hear_keys, screen)
            nursery.start_soon(_hear_rows, screen)
            while screen.code is None:
                screen.wake = trio.Event()
                await _draw(screen)
                await trio.sleep(SHORTEST_SECONDS)
                with trio.move_on_after(DRAW_SECONDS):
                    await screen.wake.wait()
            nursery.cancel_scope.cancel(reason="it was left")
    return screen.code or Exit.DONE


async def _draw(screen: _Screen) -> None:
    width, height = _size()
    watched, now = screen.watched, outside.monotonic()
    rows = [*watched.rows.values()]
    screen.speeds.note(rows, now)

    def speed(session_id: str) -> float:
        return screen.speeds.of(session_id, now)

    table = shown_rows(rows, screen.view, speed)
    room = max(1, height - _AROUND)
    first = min(screen.view.first, max(0, len(table) - room))
    tools = server_words(screen.tree.rows.values())
    lines = head_lines(rows, watched.total, watched.line, screen.server, width, tools)
    lines += draw_table(
        table[first : first + room], width=width, now_ms=_now_ms(), speed=speed, sort=screen.view.sort
    )
    lines += [""] * (height - 1 - len(lines))
    lines = [*lines[: height - 1], foot_line(width)]
    # Each line is cleared to its end instead of the whole screen, which would flicker.
    drawn = "\r\n".join(f"{line}\x1b[K" for line in lines)
    await outside.offload(
        write_all, 1, f"\x1b[H{drawn}\x1b[J".encode("utf-8", "replace"), abandon_on_cancel=True
    )


async def _hear_rows(screen: _Screen) -> None:
    while True:
        await screen.watched.wait_changed(screen.watched.version)
        screen.stir()


async def _hear_signals(screen: _Screen, signals: AsyncIterator[int]) -> None:
    async for number in signals:
        if number == signal.SIGWINCH:
            screen.stir()
        else:
            screen.leave(Exit.INTERRUPTED)


async def _hear_keys(screen: _Screen) -> None:
    while True:
        await trio.lowlevel.wait_readable(0)
        typed = os.read(0, 1_024)
        if not typed:  # the terminal was closed
            screen.leave(Exit.DONE)
            return
        for key in named_keys(typed):
            if key == "q":
                screen.leave(Exit.DONE)
            rows = shown_rows(screen.watched.rows.values(), screen.view, _no_speed)
            screen.view = press(screen.view, key, rows=len(rows), page=max(1, _size()[1] - _AROUND))
        screen.stir()


def named_keys(typed: bytes) -> list[str]:
    found = []
    while typed:
        sequence = next((one for one in _KEYS if typed.startswith(one)), None)
        if sequence is not None:
            found.append(_KEYS[sequence])
            typed = typed[len(sequence) :]
        else:
            char = typed[:1].decode("ascii", "ignore")
            found += [char] if char.isprintable() and char else []
            typed = typed[1:]
    return found


@contextmanager
def open_terminal_keys() -> Iterator[None]:
    """Read keys one by one without echo, and draw on an alternate screen. The terminal is restored on exit."""
    before = termios.tcgetattr(0)
    wanted: list[Any] = termios.tcgetattr(0)
    wanted[3] &= ~(termios.ICANON | termios.ECHO)  # Ctrl-C is still a signal
    try:
        termios.tcsetattr(0, termios.TCSADRAIN, wanted)
        write_all(1, _ENTER)
        yield
    finally:
        write_all(1, _LEAVE)
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def _size() -> tuple[int, int]:
    """Return the columns and lines of the terminal, or 80 and 24 if it does not report them."""
    try:
        lines, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(1, termios.TIOCGWINSZ, bytes(8)))
    except OSError:
        lines = columns = 0
    return columns or 80, lines or 24
