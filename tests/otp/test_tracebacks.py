"""An exception as text, bounded."""

import traceback

import pytest

from agentrail.otp.exits import PARTS_LIMIT, TRACEBACK_LIMIT, Crashed
from agentrail.otp.tracebacks import CHAIN_LIMIT, print_exception


def caught(error, *, cause=None):
    """Raise and catch it, so that it has a traceback."""
    with pytest.raises(type(error)) as info:
        raise error from cause
    return info.value


def chain(length, link):
    """Make a chain of errors, the first the oldest; `link` hangs one on the next."""
    last = caught(ValueError(0))
    for number in range(1, length):
        error = caught(ValueError(number))
        setattr(error, link, last)
        if link == "__context__":
            error.__suppress_context__ = False
        last = error
    return last


def simple():
    """An error, raised."""
    return caught(KeyError("door"))


def caused():
    """An error with a cause that has a context."""
    return caught(OSError("outer"), cause=chain(3, "__context__"))


def grouped():
    """A group of errors and groups, one of them with a cause."""
    inner = ExceptionGroup("inner", [caused(), KeyError("three")])
    return caught(ExceptionGroup("outer", [simple(), inner]))


def noted():
    """An error with notes."""
    error = simple()
    error.add_note("look behind the door")
    return error


def unparsed():
    """An error that shows a line of its own."""
    with pytest.raises(SyntaxError) as info:
        compile("1 +", "door.py", "exec")
    return info.value


def wide():
    """More parts than Python prints."""
    return ExceptionGroup("wide", [ValueError(number) for number in range(40)])


def nested():
    """Groups deeper than Python prints."""
    error = ValueError("in the middle")
    for _ in range(20):
        error = ExceptionGroup("around", [error])
    return error


@pytest.mark.parametrize("make", [simple, caused, grouped, noted, unparsed, wide, nested])
def test_what_is_not_too_much_is_printed_as_python_prints_it(make):
    """Causes, contexts, groups, notes: the text of Python, without its carets."""
    error = make()
    printed = [line for line in print_exception(error).splitlines() if set(line) - set(" |^~")]
    expected = [
        line for line in "".join(traceback.format_exception(error)).splitlines() if set(line) - set(" |^~")
    ]
    assert printed == expected


@pytest.mark.parametrize("link", ["__cause__", "__context__"])
def test_of_a_long_chain_the_first_and_the_last_are_printed(link):
    """And how many are left out: neither Python's recursion nor its patience ends anything."""
    text = print_exception(chain(5_000, link))
    for number in (0, 1, 4_998, 4_999):
        assert f"ValueError: {number}\n" in text
    assert "ValueError: 2500\n" not in text
    assert f"[... {4_999 - CHAIN_LIMIT} more in between are left out ...]" in text


def test_a_chain_in_a_circle_has_an_end():
    """Each error of it is printed once."""
    one, other = caught(ValueError("one")), caught(ValueError("other"))
    one.__cause__, other.__cause__ = other, one
    assert print_exception(one).count("ValueError: ") == 2


def test_a_group_that_stands_in_itself_many_times_is_bounded():
    """Two hundred groups of twice the same one are printed in a moment, and the leaf is there once."""
    group = leaf = caught(ValueError("leaf"))
    for _ in range(200):
        group = ExceptionGroup("g", [group, group])
    assert [part.text for part in Crashed.from_exception(group).parts] == [str(leaf)]


def test_of_a_large_group_the_first_parts_are_kept():
    """The text says how many there were."""
    crashed = Crashed.from_exception(ExceptionGroup("g", [ValueError(number) for number in range(1_000)]))
    assert [part.text for part in crashed.parts] == [str(number) for number in range(PARTS_LIMIT)]
    assert crashed.text == "g (1000 sub-exceptions)"
    assert "and 985 more exceptions" in crashed.traceback


def test_deep_frames_are_cut_to_the_innermost():
    """A recursion of a thousand calls is not a thousand lines."""

    def dive(depth):
        if not depth:
            message = "ground"
            raise ValueError(message)
        dive(depth - 1)

    with pytest.raises(ValueError, match="ground") as info:
        dive(500)
    text = print_exception(info.value)
    assert "raise ValueError(message)" in text
    assert text.count("in dive") <= 100


def test_a_class_that_raises_when_it_is_looked_at_is_printed_all_the_same():
    """Its own code says nothing about its causes, and takes nothing down."""

    class Hostile(Exception):
        """Raises wherever it can."""

        @property
        def __cause__(self):
            raise GeneratorExit

        @property
        def __notes__(self):
            raise ValueError

        def __str__(self):
            raise OSError

    crashed = Crashed.from_exception(caught(Hostile()))
    assert "str() failed" in crashed.text
    assert "str() failed" in crashed.traceback
    assert len(crashed.traceback) < TRACEBACK_LIMIT
