"""An exception as text, bounded."""

import pytest

from agentrail.otp.exits import Crashed
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


@pytest.mark.parametrize("link", ["__cause__", "__context__"])
def test_of_a_long_chain_the_first_and_the_last_are_printed(link):
    """And how many are left out: neither Python's recursion nor its patience ends anything."""
    text = print_exception(chain(5_000, link))
    for number in (0, 1, 4_998, 4_999):
        assert f"ValueError: {number}\n" in text
    assert "ValueError: 2500\n" not in text
    assert f"[... {4_999 - CHAIN_LIMIT} more in between are left out ...]" in text


def test_a_group_that_stands_in_itself_many_times_is_bounded():
    """Two hundred groups of twice the same one are printed in a moment, and the leaf is there once."""
    group = leaf = caught(ValueError("leaf"))
    for _ in range(200):
        group = ExceptionGroup("g", [group, group])
    assert [part.text for part in Crashed.from_exception(group).parts] == [str(leaf)]
