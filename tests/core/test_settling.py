"""What is stepped is what its bytes say: each value that JSON has no word for, by itself (9.11)."""

import enum
import math
from collections import OrderedDict

import msgspec
import pytest

from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    SignalId,
    StreamFailed,
    ToolAsked,
    ToolEmitted,
)
from agentrail.core.wire.normalize import MAX_BITS, settled
from agentrail.errors import ErrorInfo


class Colour(enum.Enum):
    """An enumeration of somebody's."""

    RED = "red"


class Word(str):
    """A text that is more than one."""

    __slots__ = ()


class Count(int):
    """A number that is more than one."""


class Part(float):
    """A part that is more than one."""


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (Colour.RED, "red"),
        (Word("a"), "a"),
        (Count(3), 3),
        (Part(0.5), 0.5),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (b"ab", "YWI="),
        (bytearray(b"ab"), "YWI="),
        (object(), "[no JSON: object]"),
        (math.nan, None),
        (-math.inf, None),
        ("\ud83d\ude00", "😀"),
        ("a\ud800", "a\ufffd"),
        (2**MAX_BITS, "[a number of too many digits]"),
        ((1, (2,)), [1, [2]]),
        (OrderedDict(a=math.inf), {"a": None}),
        ({3: "x", None: "y", (1,): "z"}, {"3": "x", "null": "y", "[1]": "z"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_inside_of_json(given, kept):
    """Wherever it stands in it."""
    signal = ToolEmitted(at_ms=1, effect_id=EffectId("t1"), name="seen", payload=None)
    signal = msgspec.structs.replace(signal, payload={"deep": [given]})
    assert settled(signal).payload == {"deep": [kept]}
    assert settled(settled(signal)) == settled(signal)


def test_what_is_more_than_a_text_or_a_number_becomes_one():
    """In fields too: a value of a class of somebody's own would come back as another."""
    asked = ToolAsked(
        at_ms=1,
        signal_id=SignalId("s"),
        effect_id=EffectId("t1"),
        question=Word("Why?"),
        options=("a", "b\ud800"),
        timeout_ms=Count(3),
    )
    made = settled(asked)
    assert (type(made.question), made.question) == (str, "Why?")
    assert (type(made.timeout_ms), made.timeout_ms) == (int, 3)
    assert made.options == ("a", "b\ufffd")
    failed = StreamFailed(
        at_ms=1, effect_id=EffectId("r1"), error=ErrorInfo(code="x", message="y"), jitter=Part(0.5)
    )
    assert type(settled(failed).jitter) is float


def test_a_number_that_is_none_is_what_its_field_holds_by_default():
    """And zero where it holds none; other fields are as they were."""
    failed = StreamFailed(
        at_ms=1, effect_id=EffectId("r1"), error=ErrorInfo(code="x", message="y"), jitter=math.nan
    )
    assert settled(failed).jitter == 0.0
    error = ErrorInfo(code="x", message="y", retry_after_seconds=math.inf)
    late = msgspec.structs.replace(failed, jitter=0.5, error=error)
    assert settled(late).error.retry_after_seconds is None


def test_a_set_of_names_is_mended_one_by_one():
    """Those that are sound stay, and the set with them."""

    class Named(msgspec.Struct, frozen=True):
        names: frozenset[str]

    assert settled(Named(frozenset({"a\ud800", "b"}))).names == {"a\ufffd", "b"}
    sound = Named(frozenset({"ä", "b"}))
    assert settled(sound) is sound
