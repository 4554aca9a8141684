"""How a value of an annotation looks as JSON: see `core/wire/shapes.py` and `core/session/state_shapes.py`."""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec
import pytest

from agentrail.core.session.state import SessionState
from agentrail.core.session.state_shapes import SHAPES, Reading, Writing
from agentrail.core.values.history import Log
from agentrail.core.wire.json_text import read_json
from agentrail.core.wire.shapes import Misfit, Shape, Shapes, written
from agentrail.frozen import FrozenDict
from agentrail.messages import JsonValue
from agentrail.otp.persistent_maps import Index, Table
from tests.core.golden_states import everything


class Left(msgspec.Struct, frozen=True):
    a: int


class Right(msgspec.Struct, frozen=True):
    a: int
    b: Mapping[str, Left] = MappingProxyType({})


class Told(msgspec.Struct, frozen=True):
    """Has a field that says what it is."""

    kind: str


class Colour(enum.Enum):
    """Words that stand for a number."""

    RED = 1


class Foreign:
    """A class that nobody has said anything about."""


class Holder(msgspec.Struct, frozen=True):
    foreign: tuple[Foreign, ...]


def test_a_type_that_nobody_has_spoken_of_is_named():
    """With the field that it stands in; members that nothing tells apart are refused when the annotation is met, not when a value is read."""
    with pytest.raises(TypeError, match=r"a value of .*Foreign.* has no stored form") as raised:
        SHAPES.of(Holder)
    assert raised.value.__notes__ == ["as Holder.foreign"]
    with pytest.raises(TypeError, match="has no stored form"):
        SHAPES.of(Mapping[int, str])
    alike = (
        int | float,
        tuple[int, ...] | tuple[str],
        Left | Mapping[str, int],
        frozenset[str] | tuple[str, ...],
    )
    for hint in alike:
        with pytest.raises(TypeError, match="the members of"):
            SHAPES.of(hint)
    with pytest.raises(TypeError, match="Told has a field 'kind'"):  # where the name of the class would stand
        SHAPES.of(Left | Told)


def test_values_come_back():
    """As what they were."""
    for hint, value in (
        (Left | Right, Right(a=1, b=MappingProxyType({"x": Left(a=2)}))),
        (Left | None, Left(a=1)),
        (Left | None, None),
        (Colour, Colour.RED),
        (int | Literal["all", "none"], "all"),
        (int | Literal["all", "none"], 7),
        (frozenset[Colour], frozenset({Colour.RED})),
        (Log[int], Log([3, 1])),
        (Table[str], Table[str]().put(3, "a").put(10**6, "b")),
        (Index[str, Left], Index[str, Left]().put("b", Left(a=1)).put("a", Left(a=2))),
        (Index[int, int], Index[int, int]().put(7, 7).put(1, 1)),
        (JsonValue, FrozenDict({"a": [1, {"b": None}], "c": 1.5})),
        (float, 2),
        (JsonValue, {"a": MappingProxyType({"b": 1})}),
        (int, -(2**200)),
    ):
        shape = SHAPES.of(hint)
        assert shape.decode(read_json(written(shape.encode(value, Writing()))), Reading()) == value


def test_what_does_not_fit_is_refused():
    """In a sentence."""
    for hint, plain, words in (
        (Table[int], [[1, 1], [1, 2]], "the key 1 appears twice"),
        (Table[int], [[-1, 1]], "or is not from 0 to 2"),
        (Table[int], [[2**63, 1]], "or is not from 0 to 2"),
        (Left | Right, {"a": 1}, "expected 'left' or 'right', got an object"),
        (Left | Right, {"kind": 7, "a": 1}, "expected 'left' or 'right', got 7"),
        (Colour, "red", "expected one of 1, got 'red'"),
        (tuple[int, str], [1, "a", 2], "expected 2 values, got 3"),
        (int | None, 1.5, "expected a whole number or null, got 1.5"),
    ):
        with pytest.raises(Misfit, match=words):
            SHAPES.of(hint).decode(plain, Reading())


def test_what_is_of_another_type_is_not_written():
    """In a sentence."""
    for hint, value, words in (
        (Colour, 1, "expected one of Colour.RED, got 1"),
        (tuple[int, str], [1, "a"], "expected a tuple, got an array"),
        (Mapping[str, int], [], "expected a mapping, got an array"),
        (Mapping[str, int], {1: 1}, "expected a text, got 1"),
        (Left, Right(a=1), "expected Left, got Right"),
        (float, float("inf"), "expected a finite number, got inf"),
        (float, 10**400, "expected a finite number, got a number of many digits"),
        (JsonValue, {1, 2}, "it is a set, which is not JSON"),
        (Mapping[str, JsonValue], [1], "expected an object, got an array"),
    ):
        with pytest.raises(Misfit, match=words):
            SHAPES.of(hint).encode(value, Writing())


def test_shapes_of_ones_own_come_first():
    """What a caller knows how to write is asked for before annotations are looked at; a shape has both ways, and what is no JSON is refused."""
    shapes = Shapes(lambda shapes, hint: shapes.of(str) if hint == list[Foreign] else None)
    assert shapes.of(list[Foreign]) is shapes.of(str)
    assert shapes.of(str) in shapes.known
    for way in (Shape().encode, Shape().decode):
        with pytest.raises(NotImplementedError):
            way(1, None)
    with pytest.raises(TypeError, match="object is not JSON"):
        written(object())


def test_shapes_of_a_state_that_are_built_again_write_the_same():
    """They follow from the annotations alone, and not from what was asked for before.

    A process builds them once, for the first test that stores a state. Here they are built whatever ran before.
    """
    again = Shapes(SHAPES._special, SHAPES._of_fields, SHAPES._later)  # noqa: SLF001 - with nothing built yet
    for hint, value in ((SessionState, everything()), (Table[str], Table[str]().put(3, "a"))):
        shape, before = again.of(hint), SHAPES.of(hint)
        assert shape is not before
        assert written(shape.encode(value, Writing())) == written(before.encode(value, Writing()))
