"""Writing to the descriptors of the process."""

import os

import pytest
import trio

from agentrail.cli.event_text import Piece
from agentrail.cli.screen import DirectScreen
from agentrail.cli.stdio import OutputClosed, OutputFailed, write_all


def test_who_has_stopped_reading_is_no_error_of_ours_and_a_full_disk_is_said():
    """A closed pipe is `OutputClosed`, which nobody has to hear of; any other failure is `OutputFailed`, with its reason."""
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(OutputClosed):
        write_all(writing, b"x")
    os.close(writing)
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
