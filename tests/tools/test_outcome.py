"""What functions return, as results: the table of the reference page, and that nothing else gets through."""

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from collections import UserDict
from concurrent.futures import Future
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail.abc import Error, Ok
from agentrail.errors import ToolContractError
from agentrail.tools.function import to_outcome


class Colour(str, enum.Enum):  # noqa: UP042 - the kind whose str() is not its value
    RED = "red"


Size: Any = attrs.make_class("Size", ["wide"], frozen=True)
Point: Any = msgspec.defstruct("Point", [("x", int)])
Urgency: Any = enum.Enum("Urgency", {"LOW": 1, "HIGH": 2})
Shape: Any = enum.Enum("Shape", {"ROUND": "rund"})
Level: Any = enum.IntEnum("Level", {"ONE": 1})
Hidden: Any = enum.Enum("Hidden", {"IT": object()})
Order: Any = dataclasses.make_dataclass("Order", ["number", "urgency", "sizes"], slots=True)


class OwnMapping(UserDict[str, int]):
    """A mapping of a kind that no encoder knows."""


def test_values_become_text_for_the_model():
    """Text stays, nothing is said to be nothing, and data becomes its JSON."""
    for value, text in (
        ("words", "words"),
        ("", "[no output]"),
        (None, "[no output]"),
        (Colour.RED, "red"),
        (7, "7"),
        (2.5, "2.5"),
        (True, "true"),
        (10**40, "1" + "0" * 40),
        ([], "[]"),
        ((1, "é"), '[1,"é"]'),
        ({"a": {2: None}}, '{"a":{"2":null}}'),
        (MappingProxyType({"a": MappingProxyType({})}), '{"a":{}}'),
        (OwnMapping(a=1), '{"a":1}'),
        (Size(3), '{"wide":3}'),
        ([Point(x=1)], '[{"x":1}]'),
        (Point(x=1), '{"x":1}'),
        (
            Order(7, Urgency.LOW, {"a": Size(1)}),
            '{"number":7,"urgency":1,"sizes":{"a":{"wide":1}}}',
        ),
        (Urgency.HIGH, "2"),
        (Shape.ROUND, "rund"),
        (Level.ONE, "1"),
        (datetime.datetime(2026, 11, 20, 23, 5, tzinfo=datetime.UTC), "2026-11-20T23:05:00Z"),
        (datetime.date(2026, 11, 20), "2026-11-20"),
        (datetime.timedelta(hours=1), "PT3600S"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (decimal.Decimal("1.50"), "1.50"),
        (PurePosixPath("src/a.py"), "src/a.py"),
        ({"path": PurePosixPath("a"), "at": datetime.date(2026, 11, 20)}, '{"path":"a","at":"2026-11-20"}'),
        ({"b", "a"}, '["a","b"]'),
        (frozenset({3, 1}), "[1,3]"),
    ):
        outcome = to_outcome("x", value)
        assert outcome == Ok(text=text)
        assert type(outcome.text) is str


class Awaitable:
    """Something to await that cannot be closed."""

    def __await__(self):
        yield


async def _coroutine() -> None: ...


def _endless() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


EXPECTED = "expected text, JSON, Ok, Error, ToolUpdate or ToolQuestion"
made: Any = Ok  # also what a type checker refuses
wrong: Any = Error


def test_what_is_no_result_breaks_the_contract():
    """Anything else is the author's mistake, which no second attempt would mend; the message says what to write."""
    for make, words in (
        (object, f"tool 'x' returned a value of type object, {EXPECTED}: wrap it in Ok(text=str("),
        (lambda: {1, "a", object}, "returned a value of type set that is not JSON"),
        (lambda: Order, "returned a value of type type, expected text, JSON"),
        (lambda: Order(object(), None, {}), "returned a value of type Order that is not JSON"),
        (lambda: Hidden.IT, "returned a value of type object, expected text, JSON"),
        (lambda: Point, "returned a value of type StructMeta"),
        (_coroutine, f"returned a value of type coroutine, {EXPECTED}: await it, in an `async def`"),
        (lambda: (n for n in "ab"), f"returned a value of type generator, {EXPECTED}: collect it"),
        (Awaitable, f"returned a value of type Awaitable, {EXPECTED}: await it"),
        (Future, "returned a value of type Future"),
        (lambda: b"bytes", f"returned a value of type bytes, {EXPECTED}: decode it first"),
        (lambda: float("nan"), "returned a value of type float that is not JSON"),
        (lambda: 10**4_300, "returned a value of type int that is not JSON"),
        (lambda: {"a": object()}, "type dict that is not JSON: objects of type object have no JSON"),
        (lambda: {(1, 2): 3}, "returned a value of type dict that is not JSON"),
        (_endless, "returned a value of type list that is nested too deeply, or contains itself"),
        (lambda: made(text=3), "a result whose text is a value of type int: convert it with str(…)"),
        (lambda: wrong(text=None), "returned a result whose text is a value of type NoneType"),
        (lambda: made(text="t", details=object()), "returned a value of type object that is not JSON"),
        (lambda: Ok(text="t", details=[float("inf")]), "returned a value of type list that is not JSON"),
    ):
        with pytest.raises(ToolContractError) as caught:
            to_outcome("x", make())
        assert words in str(caught.value)


_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.complex_numbers(), st.dates(),
    st.builds(object), st.builds(Size, st.integers()), st.builds(Point, x=st.integers()), st.just(Colour.RED),
)  # fmt: skip
_keys = st.text() | st.integers() | st.booleans() | st.tuples(st.integers())
_anything = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(_keys, inner, max_size=3),
        st.builds(Ok, text=inner, details=inner),
        st.builds(Error, text=inner, details=inner),
    ),
    max_leaves=8,
)


@given(value=_anything)
def test_every_value_is_a_result_or_a_broken_contract(value):
    """Nothing else is raised, no text is empty, and details are what the journal can hold."""
    try:
        outcome = to_outcome("x", value)
    except ToolContractError:
        return
    assert isinstance(outcome, Ok | Error)
    assert outcome.text
    json.dumps(outcome.details, allow_nan=False)


def test_details_that_are_too_large_break_the_contract():
    """They are copied while every session waits; the text of a result has a bound of its own."""
    with pytest.raises(ToolContractError, match=r"returned details of more than 1,000,000 characters"):
        to_outcome("t", Ok(text="x", details={"a": "x" * 1_000_001}))
    assert to_outcome("t", Ok(text="x", details={"a": "x" * 900_000})).details == {"a": "x" * 900_000}
