"""Lines of the log while a screen is up: shown above the prompt in one piece, or written when it is gone; none is lost."""

import io
import sys

import pytest
from hypothesis import given, strategies as st

from agentrail.cli.terminal import live_view
from agentrail.cli.terminal.live_view import HeldErrors, hold_errors


@given(
    pieces=st.lists(st.text(alphabet="ab\n", max_size=4), max_size=20),
    taken=st.lists(st.integers(0, 3), max_size=20),
)
def test_nothing_is_lost_and_lines_are_whole(pieces, taken):
    """What was taken and what is left is what was written, in order, however it was cut."""
    held, lines, wanted = HeldErrors(lambda: None), [], iter(taken)
    for piece in pieces:
        assert held.write(piece) == len(piece)
        lines += held.take(next(wanted, 0))
    written = "".join(pieces)
    shown = "".join(f"{line}\n" for line in lines)
    assert shown + held.rest() == (written if written.endswith("\n") or not written else f"{written}\n")
    assert held.rest() == ""


@given(
    pieces=st.lists(st.text(alphabet="ab\n", max_size=9), max_size=20),
    taken=st.lists(st.integers(0, 3), max_size=20),
    most=st.integers(1, 12),
)
def test_beyond_the_bound_the_oldest_go_and_are_counted(pieces, taken, most):
    """What is held never takes more than the bound, and what is shown and what is counted as gone are all the lines there were."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(live_view, "MAX_HELD", most)
        held, shown, wanted = HeldErrors(lambda: None), [], iter(taken)
        for piece in pieces:
            held.write(f"{piece}\n")
            shown += held.take(next(wanted, 0))
        left = held.rest()
        assert (
            len("".join(line for line in left.splitlines(keepends=True) if "older lines" not in line)) <= most
        )
    shown += left.splitlines()
    gone = sum(int(line[1:].split()[0]) for line in shown if "older lines" in line)
    lines = "".join(f"{piece}\n" for piece in pieces).split("\n")[:-1]
    kept = [line for line in shown if "older lines" not in line]
    assert len(kept) + gone == len(lines)
    assert not kept or kept[-1] == lines[-1] or len(lines[-1]) >= most


def test_a_line_without_an_end_is_held_within_the_bound(monkeypatch):
    """A program that writes on and on without an end of the line fills no memory."""
    monkeypatch.setattr(live_view, "MAX_OPEN", 10)
    monkeypatch.setattr(live_view, "MAX_HELD", 30)
    held = HeldErrors(lambda: None)
    for _ in range(100):
        held.write("abc")
    assert held.take(3) == (
        "(23 older lines of the log are not shown: too much came before they could be)",
        "abc" * 4,
        "abc" * 4,
    )
    assert held.rest() == ""


def test_what_no_one_has_shown_is_written_when_the_screen_is_gone(monkeypatch):
    """In a terminal it is held back for the block; a file is written to as ever."""
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stderr", plain)
    monkeypatch.setattr(live_view.os, "isatty", lambda _: True)
    with hold_errors(lambda: None) as held:
        sys.stderr.write("shown\n")
        assert held.take(1) == ("shown",)
        sys.stderr.write("left\nopen")
        assert plain.getvalue() == ""
        assert sys.stderr.fileno() == 2
    assert sys.stderr is plain
    assert plain.getvalue() == "left\nopen\n"
    monkeypatch.setattr(live_view.os, "isatty", lambda _: False)
    with hold_errors(lambda: None) as held:
        assert held is None
        sys.stderr.write("at once\n")
        assert plain.getvalue().endswith("at once\n")
