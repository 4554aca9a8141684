"""Lines of a terminal that edits them by itself (`TERM=dumb`), and of a pipe."""

import os

import pytest
import trio

from agentrail.cli.input_lines import PlainLines
from agentrail.cli.terminal.key_bindings import KeyPress, SentLine


@pytest.fixture
def terminal():
    """Both ends of a terminal."""
    master, slave = os.openpty()
    yield master, slave
    for end in (master, slave):
        if end is not None:
            try:
                os.close(end)
            except OSError:  # the test has closed it
                continue


@pytest.mark.experience("X-007")
async def test_lines_that_are_pasted_into_a_dumb_terminal_are_one_prompt(terminal):
    """`/quit` among them leaves nothing; what is typed behind it is a line of its own again; then the end."""
    master, slave = terminal
    lines = PlainLines(slave, joins_pastes=True)
    pasted = ["/quit", *map(str, range(38)), "the end"]
    with trio.fail_after(60):
        os.write(master, "".join(f"{line}\r" for line in pasted).encode())
        assert await lines.next_line() == SentLine(text="\n".join(pasted), is_pasted=True)
        os.write(master, b"/status\r")
        assert await lines.next_line() == "/status"
        os.write(master, b"\x04")
        assert await lines.next_line() is KeyPress.CTRL_D
        assert await lines.next_line() is KeyPress.CTRL_D
