"""What may leave an edge that awaits, and what is said of the rest."""

import re

import pytest

from agentrail.otp.edges import what_leaves
from agentrail.otp.leaving import (
    MAX_EXCEPTIONS,
    MAX_TRACEBACK,
    MAX_WORDS,
    class_name_of,
    describe_bug,
    describe_crash,
    place_of,
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


def test_bugs_do_not_leave_and_what_is_nobodys_does():
    """Alone, in a group of one, and out of a group with bugs: as itself."""
    for bug in (ValueError(), Foreign(), GeneratorExit(), BaseExceptionGroup("g", [Foreign()])):
        assert what_leaves(bug) is None
    for error in (KeyboardInterrupt(), SystemExit(3)):
        assert what_leaves(error) is error
        assert what_leaves(BaseExceptionGroup("one", [error])) is error
        assert what_leaves(BaseExceptionGroup("many", [ValueError(), error, Foreign()])) is error


def test_the_kind_that_stands_first_leaves():
    """Who waits for two hears of the one that matters more."""
    interrupt, leave = KeyboardInterrupt(), SystemExit()
    assert what_leaves(BaseExceptionGroup("g", [leave, interrupt])) is interrupt
    assert what_leaves(BaseExceptionGroup("g", [leave, interrupt]), (SystemExit,)) is leave
    assert what_leaves(SystemExit(), (KeyboardInterrupt,)) is None


def test_a_crash_is_described_with_the_place():
    """Class, words, and where it was raised; of one that was never raised nobody knows where."""
    error = raised(ValueError("a bug"))
    assert re.fullmatch(r"ValueError: a bug \(otp/test_leaving\.py:\d+ in raised\)", describe_bug(error))
    assert describe_bug(ValueError("a bug")) == "ValueError: a bug"
    group = raised(ExceptionGroup("g", [ValueError("a"), KeyError("b")]))
    assert re.fullmatch(
        r"ValueError: a; KeyError: 'b' \(otp/test_leaving\.py:\d+ in raised\)", describe_bug(group)
    )


def test_inside_a_library_the_line_of_whoever_called_it_is_the_place():
    """The frame of the library says less; where there is no other one it is all there is."""
    with pytest.raises(re.error) as caught:
        re.compile("(")
    error = caught.value
    assert place_of(error).startswith("otp/test_leaving.py:")
    error.__traceback__ = error.__traceback__.tb_next
    assert re.fullmatch(r"re/_(parser|compiler)\.py:\d+ in \w+", place_of(error))


def test_a_large_group_is_described_in_part():
    """The first ones, and how many more there are."""
    group = ExceptionGroup("g", [ValueError(number) for number in range(1_020)])
    assert describe_crash(group).endswith(f"ValueError: {MAX_EXCEPTIONS - 1}; and 1,000 more")


@pytest.mark.parametrize("worse", [ValueError(), Foreign(), SystemExit(), GeneratorExit()])
def test_what_cannot_be_printed_is_named(worse):
    """Whatever its `__str__` raises; only an interrupt goes on."""
    assert words_of(Unprintable(worse)) == "<no message: its __str__ raises>"
    assert "Unprintable" in traceback_of(raised(Unprintable(worse)), str)
    with pytest.raises(KeyboardInterrupt):
        words_of(Unprintable(KeyboardInterrupt()))


def test_what_it_says_is_bounded_and_can_be_encoded():
    """A text of a class of its own becomes a text, long ones are cut, and lone surrogates are replaced."""

    class Sly(str):
        """Whoever cuts it gets something else."""

        __slots__ = ()

        def __getitem__(self, _: object) -> str:
            return "something else"

    class Says(Exception):
        """Says something sly."""

        def __str__(self) -> str:
            return Sly("\ud800 sly")

    assert words_of(Says()) == "\ufffd sly"
    assert type(words_of(Says())) is str
    assert len(words_of(ValueError("x" * 1_000_000))) == MAX_WORDS


def test_a_class_that_hides_its_name_has_one():
    """Whatever its metaclass says."""

    class Hides(type):
        @property
        def __name__(cls):
            raise Foreign

    class Hidden(Exception, metaclass=Hides):
        """Has a name all the same."""

    assert class_name_of(Hidden()) == "Hidden"


def test_secrets_are_taken_out_of_a_traceback_before_it_is_cut():
    """Half a secret is not recognised any more."""
    error = raised(ValueError("s3cret" * 10_000))
    shown = traceback_of(error, lambda text: text.replace("s3cret", "***"))
    assert "s3cr" not in shown.replace('"s3cret" *', "")
    assert len(shown) < MAX_TRACEBACK + 100
    assert "characters left out" in shown
    assert "in raised" in traceback_of(raised(ValueError("short")), str)
