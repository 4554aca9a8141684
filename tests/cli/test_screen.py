"""Writing to the descriptors of the process."""

import os

import pytest
import structlog
import trio

from agentrail.cli.lines import PlainLines
from agentrail.cli.logs import send_logs_to_stderr
from agentrail.cli.output import OutputClosed, OutputFailed, write_all
from agentrail.cli.rendering import Piece
from agentrail.cli.screen import DirectScreen, decide_look
from agentrail.cli.terminal.keys import KeyPress


def test_who_has_stopped_reading_is_no_error_of_ours():
    """A closed pipe is `OutputClosed`, which nobody has to hear of."""
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(OutputClosed):
        write_all(writing, b"x")
    os.close(writing)


def test_a_full_disk_is_said():
    """Any other failure is `OutputFailed`, with its reason."""
    full = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OutputFailed, match="cannot be written: No space left on device"):
        write_all(full, b"x")
    os.close(full)


def test_all_is_written_however_much_it_is():
    """More than a pipe holds comes in several writes, complete and in order."""
    reading, writing = os.pipe()
    data = bytes(range(256)) * 2_000
    pid = os.fork()
    if pid == 0:
        write_all(writing, data)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor
        assert pipe.read() == data
    os.waitpid(pid, 0)


@pytest.mark.parametrize(
    ("err_is_terminal", "no_color", "dims"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_only_a_terminal_is_dimmed(err_is_terminal, no_color, dims):
    """`NO_COLOR` is honoured (no-color.org)."""
    look = decide_look(out_is_terminal=True, err_is_terminal=err_is_terminal, no_color=no_color)
    assert look.dims is dims


def test_log_lines_stay_out_of_stdout(capsys):
    """What a library logs never mixes with the words of the model or with events."""
    try:
        send_logs_to_stderr()
        structlog.get_logger("x").warning("a key travels unencrypted")
    finally:
        structlog.reset_defaults()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "a key travels unencrypted" in captured.err


async def test_lines_come_one_by_one_however_they_arrive():
    """Pieces of lines are joined, several lines in one piece are split, a last line needs no line break."""
    reading, writing = os.pipe()
    lines = PlainLines(reading)
    with trio.fail_after(10):
        os.write(writing, b"one\r\ntwo\n\nth")
        assert [await lines.next_line() for _ in range(3)] == ["one", "two", ""]
        os.write(writing, "rée".encode()[:3])
        os.write(writing, "rée".encode()[3:] + b"\n\xff")
        assert await lines.next_line() == "thrée"
        os.close(writing)
        assert await lines.next_line() == "\ufffd"
        assert await lines.next_line() is KeyPress.CTRL_D
        assert await lines.next_line() is KeyPress.CTRL_D
    os.close(reading)


async def test_what_is_written_together_stands_together(monkeypatch):
    """The end of a line and the note behind it are not torn apart by words that come at the same time."""
    written = []
    monkeypatch.setattr("agentrail.cli.screen.write_all", lambda _descriptor, data: written.append(data))
    screen = DirectScreen()
    async with trio.open_nursery() as nursery:
        for name in "abcd":
            pieces = [Piece("out" if number % 2 else "err", f"{name}{number}") for number in range(4)]
            nursery.start_soon(screen.write, pieces)
    runs = [b"".join(written)[start : start + 8] for start in range(0, 32, 8)]
    assert sorted(runs) == [b"a0a1a2a3", b"b0b1b2b3", b"c0c1c2c3", b"d0d1d2d3"]
