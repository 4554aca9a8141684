"""What is stepped is what its bytes say: each value that JSON has no word for, by itself (9.11)."""

import enum
import math
from collections import OrderedDict

import msgspec

from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import SignalId, StreamFailed, ToolAsked, ToolEmitted
from agentrail.core.wire.normalize import MAX_BITS, settled
from agentrail.errors import ErrorInfo

Colour = enum.Enum("Colour", {"RED": "red"})
Word, Count, Part = (
    type(kind.__name__, (kind,), {}) for kind in (str, int, float)
)  # more than what they are


def test_a_value_inside_of_json():
    """Wherever it stands in it."""
    for given, kept in (
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
    ):
        signal = ToolEmitted(at_ms=1, effect_id=EffectId("t1"), name="seen", payload=None)
        signal = msgspec.structs.replace(signal, payload={"deep": [given]})
        assert settled(signal).payload == {"deep": [kept]}
        assert settled(settled(signal)) == settled(signal)


def test_each_part_of_a_nested_value_is_read_once():
    """A model may nest its arguments deeply around a number that is too long, and the whole process waits meanwhile."""
    reads = 0

    class Counted(enum.Enum):
        ONE = 1

        @property
        def value(self):
            nonlocal reads
            reads += 1
            return "one"

    payload, kept = Counted.ONE, "one"
    for _ in range(12):
        payload, kept = {"a": payload}, {"a": kept}
    assert (
        settled(ToolEmitted(at_ms=1, effect_id=EffectId("t1"), name="seen", payload=payload)).payload == kept
    )
    assert reads <= 4


def test_what_is_more_than_a_text_or_a_number_becomes_one():
    """In fields too, where a value of a class of somebody's own would come back as another; a number that is none is the default, or zero."""
    told = {"at_ms": 1, "signal_id": SignalId("s"), "effect_id": EffectId("t1")}
    made = settled(ToolAsked(**told, question=Word("Why?"), options=("a", "b\ud800"), timeout_ms=Count(3)))
    assert (type(made.question), made.question) == (str, "Why?")
    assert (type(made.timeout_ms), made.timeout_ms) == (int, 3)
    assert made.options == ("a", "b\ufffd")

    error = ErrorInfo(code="x", message="y", retry_after_seconds=math.inf)
    failed = StreamFailed(at_ms=1, effect_id=EffectId("r1"), error=error, jitter=Part(0.5))
    assert type(settled(failed).jitter) is float
    assert settled(failed).error.retry_after_seconds is None
    assert settled(msgspec.structs.replace(failed, jitter=math.nan)).jitter == 0.0


def test_a_set_of_names_is_mended_one_by_one():
    """Those that are sound stay, and the set with them."""

    class Named(msgspec.Struct, frozen=True):
        names: frozenset[str]

    assert settled(Named(frozenset({"a\ud800", "b"}))).names == {"a\ufffd", "b"}
    sound = Named(frozenset({"ä", "b"}))
    assert settled(sound) is sound


def test_a_class_is_settled_by_its_fields_when_it_is_met_first():
    """With none, one or more of them; that a field cannot change is known from its type."""

    class Empty(msgspec.Struct, frozen=True):
        pass

    class One(msgspec.Struct, frozen=True):
        text: str
        flag: bool = True

    class Two(msgspec.Struct, frozen=True):
        text: str
        number: float

    assert settled(Empty()) == Empty()
    assert settled(One("a\ud800")) == One("a\ufffd")
    assert settled(Two("a\ud800", 1.5)) == Two("a\ufffd", 1.5)
