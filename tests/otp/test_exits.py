"""Why an actor ended, as text; and what may leave an edge that awaits."""

import re
from typing import get_args

import attrs
import pytest

from agentrail.otp.crash_text import (
    MAX_TRACEBACK,
    describe_bug,
    traceback_of,
    words_of,
)
from agentrail.otp.exits import (
    CAUSES_LIMIT,
    TEXT_LIMIT,
    TRACEBACK_LIMIT,
    ActorExit,
    Crashed,
    ExitReason,
    InitFailed,
    Killed,
    NoProcess,
    Normal,
    Shutdown,
    Stuck,
    check_reason,
    chosen_reason,
    crash_of,
    describe,
    is_reason,
)

LINES = {
    Normal(): "normal",
    Shutdown(): "shutdown",
    Shutdown("budget exhausted"): "shutdown: budget exhausted",
    Killed(): "killed",
    Crashed("ValueError", "no such door", "Traceback ..."): "crashed: ValueError: no such door",
    InitFailed("timeout"): "init failed: timeout",
    InitFailed(
        "child", Crashed("OSError", "in use"), "db"
    ): "init failed: child 'db': crashed: OSError: in use",
    NoProcess(): "no process",
    Stuck(1.5): "stuck: did not stop within 1.5 s",
}


def crash(error):
    """Raise and catch it, so that it has a traceback."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def test_each_reason_has_a_text():
    """The reasons of the table are all that there are."""
    assert {type(reason) for reason in LINES} == set(get_args(ExitReason))
    assert {reason: describe(reason) for reason in LINES} == LINES


def test_describe_is_one_line_whatever_the_text_holds():
    """Line breaks and control characters of a message, a detail or a part do not reach the log."""
    part = Crashed("KeyError", "two\nlines")
    reason = InitFailed(
        "raised", Crashed("ExceptionGroup", "a\r\n\x1b[31mb\u2028c", "", (part, Crashed("E", "")))
    )
    assert describe(reason) == (
        "init failed: raised: crashed: ExceptionGroup: a [31mb c [crashed: KeyError: two lines; crashed: E]"
    )
    assert describe(Shutdown("one\ntwo")) == "shutdown: one two"


def test_reasons_that_cannot_be():
    """A way to fail that does not exist is refused; what was written into an `ActorExit` later is a crash."""
    with pytest.raises(ValueError, match="'raised', 'returned', 'timeout', 'stopped', 'cancelled', 'child'"):
        InitFailed("slow")
    leaving = ActorExit(Shutdown("x"))
    assert chosen_reason(leaving) == Shutdown("x")
    leaving.reason = "done"
    reason = chosen_reason(leaving)
    assert (reason.type, "'done'" in reason.text) == ("BadReason", True)


# --- Crashed.from_exception


def test_long_text_and_traceback_are_cut_in_the_middle():
    """Text and traceback keep their limits, their beginning and their end, and say that something is missing."""
    error = crash(ValueError("begin" + "x" * 100_000 + "end"))
    crashed = Crashed.from_exception(error)
    assert len(crashed.text) == TEXT_LIMIT == 2_000
    assert len(crashed.traceback) == TRACEBACK_LIMIT == 20_000
    assert crashed.text.startswith("begin")
    assert crashed.text.endswith("end")
    assert "100008 characters, cut to 2000" in crashed.text
    assert crashed.traceback.startswith("Traceback")
    assert Crashed.from_exception(ValueError("x" * 2_000)).text == "x" * 2_000


def test_secrets_are_taken_out_of_a_crash():
    """Of a reason without an exception too; when `redact` raises or returns no text, a placeholder stands for the text."""
    crashed = Crashed.of_rule(
        "BadAction", "key " + "y" * 9_000, redact=lambda text: text.replace("key", "***")
    )
    assert (crashed.type, len(crashed.text), crashed.traceback) == ("BadAction", TEXT_LIMIT, "")
    assert crashed.text.startswith("*** yyy")

    def broken(text):
        raise LookupError(text)

    crashed = Crashed.from_exception(crash(ValueError("secret")), redact=broken)
    assert crashed.type == "ValueError"
    assert crashed.text == crashed.traceback == "<withheld: redact raised LookupError>"
    crashed = Crashed.of_rule("BadAction", "secret", redact=lambda text: None)
    assert crashed.text == "<withheld: redact raised TypeError>"


# --- what is a reason


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Shutdown, [["unhashable"]]),
        (Shutdown, [3]),
        (Crashed, [3, "x"]),
        (Crashed, ["E", None]),
        (Crashed, ["E", "x", b"bytes"]),
        (Crashed, ["E", "x", "", [Crashed("E", "x")]]),
        (Crashed, ["E", "x", "", (Crashed("G", "x", "", (Crashed("E", "x"),)),)]),
        (Crashed, ["E", "x", "", ("text",)]),
        (InitFailed, ["child", None, ["unhashable"]]),
        (Stuck, ["long"]),
    ],
)
def test_a_reason_holds_what_can_be_compared_counted_and_printed(kind, fields):
    """A supervisor does all three with it, and may not fall over what an actor put there."""
    with pytest.raises(TypeError):
        kind(*fields)


def test_causes_are_bounded():
    """Of thousands of levels the outermost stay, and the one that all began with; equality and text do not recurse."""
    reason = first = Crashed("OSError", "in use")
    for number in range(5_000):
        reason = InitFailed("child", reason, number)
    assert describe(reason).startswith("init failed: child 4999: init failed: child 4998")
    assert describe(reason).endswith(describe(first))
    assert describe(reason).count("init failed") <= CAUSES_LIMIT
    assert hash(reason) == hash(attrs.evolve(reason))


def test_crash_of_finds_the_crash_of_an_actor_itself():
    """In its life or in its own start; what befell a child of it is the child's."""
    crashed = Crashed("OSError", "in use")
    assert crash_of(crashed) is crashed
    assert crash_of(InitFailed("raised", crashed)) is crashed
    for other in (None, Normal(), InitFailed("child", crashed, "db"), InitFailed("timeout")):
        assert crash_of(other) is None


class Own(Shutdown):
    """A class of somebody's own: nobody knows what it says of equality."""


@pytest.mark.parametrize("value", ["done", None, 3, ValueError("x"), Shutdown, Own()], ids=repr)
def test_what_is_no_reason_is_refused_where_it_is_given(value):
    """The message says what a reason is, what came, and what to write."""
    assert not is_reason(value)
    with pytest.raises(TypeError, match=r"must be Normal\(\).*got .*: for a text, use Shutdown\(text\)"):
        check_reason(value)
    with pytest.raises(TypeError, match="exit reason"):
        ActorExit(value)
    if value is not None:
        with pytest.raises(TypeError, match="exit reason"):
            InitFailed("raised", value)


class Foreign(BaseException):
    """What some library raises that is no `Exception`."""


class Unprintable(Exception):
    """Its `__str__` raises what it was given."""

    def __str__(self) -> str:
        raise self.args[0]


def test_a_crash_is_described_with_the_place():
    """Class, words, and where it was raised; of one that was never raised nobody knows where."""
    error = crash(ValueError("a bug"))
    assert re.fullmatch(r"ValueError: a bug \(otp/test_exits\.py:\d+ in crash\)", describe_bug(error))
    assert describe_bug(ValueError("a bug")) == "ValueError: a bug"
    group = crash(ExceptionGroup("g", [ValueError("a"), KeyError("b")]))
    assert re.fullmatch(
        r"ValueError: a; KeyError: 'b' \(otp/test_exits\.py:\d+ in crash\)", describe_bug(group)
    )


@pytest.mark.parametrize("worse", [ValueError(), Foreign(), SystemExit(), GeneratorExit()])
def test_what_cannot_be_printed_is_named(worse):
    """Whatever its `__str__` raises; only an interrupt goes on."""
    assert words_of(Unprintable(worse)) == "<no message: its __str__ raises>"
    assert "Unprintable" in traceback_of(crash(Unprintable(worse)), str)
    with pytest.raises(KeyboardInterrupt):
        words_of(Unprintable(KeyboardInterrupt()))


def test_secrets_are_taken_out_of_a_traceback_before_it_is_cut():
    """Half a secret is not recognised any more."""
    error = crash(ValueError("s3cret" * 10_000))
    shown = traceback_of(error, lambda text: text.replace("s3cret", "***"))
    assert "s3cr" not in shown.replace('"s3cret" *', "")
    assert len(shown) < MAX_TRACEBACK + 100
    assert "characters left out" in shown
    assert "in crash" in traceback_of(crash(ValueError("short")), str)
