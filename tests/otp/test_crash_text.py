"""What may leave an edge that awaits, and what is said of the rest."""

import re

import pytest

from agentrail.otp.crash_text import (
    MAX_TRACEBACK,
    describe_bug,
    traceback_of,
    words_of,
)


class Foreign(BaseException):
    """What some library raises that is no `Exception`."""


class Unprintable(Exception):
    """Its `__str__` raises what it was given."""

    def __str__(self) -> str:
        """Raise it."""
        raise self.args[0]


def raised(error):
    """Raise an exception and give it back, with its traceback."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def test_a_crash_is_described_with_the_place():
    """Class, words, and where it was raised; of one that was never raised nobody knows where."""
    error = raised(ValueError("a bug"))
    assert re.fullmatch(r"ValueError: a bug \(otp/test_crash_text\.py:\d+ in raised\)", describe_bug(error))
    assert describe_bug(ValueError("a bug")) == "ValueError: a bug"
    group = raised(ExceptionGroup("g", [ValueError("a"), KeyError("b")]))
    assert re.fullmatch(
        r"ValueError: a; KeyError: 'b' \(otp/test_crash_text\.py:\d+ in raised\)", describe_bug(group)
    )


@pytest.mark.parametrize("worse", [ValueError(), Foreign(), SystemExit(), GeneratorExit()])
def test_what_cannot_be_printed_is_named(worse):
    """Whatever its `__str__` raises; only an interrupt goes on."""
    assert words_of(Unprintable(worse)) == "<no message: its __str__ raises>"
    assert "Unprintable" in traceback_of(raised(Unprintable(worse)), str)
    with pytest.raises(KeyboardInterrupt):
        words_of(Unprintable(KeyboardInterrupt()))


def test_secrets_are_taken_out_of_a_traceback_before_it_is_cut():
    """Half a secret is not recognised any more."""
    error = raised(ValueError("s3cret" * 10_000))
    shown = traceback_of(error, lambda text: text.replace("s3cret", "***"))
    assert "s3cr" not in shown.replace('"s3cret" *', "")
    assert len(shown) < MAX_TRACEBACK + 100
    assert "characters left out" in shown
    assert "in raised" in traceback_of(raised(ValueError("short")), str)
