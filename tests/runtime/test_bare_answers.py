"""Answers of models without native schemas: a value that stands in an object on the wire may also come bare, in a fence or not."""

import json
from dataclasses import dataclass
from typing import Literal

import pytest
import trio
from hypothesis import given, strategies as st

import agentrail
from agentrail.core.policy.response_format import document_in
from agentrail.errors import CycleFailed
from agentrail.testing.models import ScriptedModel, says
from agentrail.typed import typed
from tests.thinned import each


@dataclass
class Price:
    """A sum; its one member has the name of the object around it."""

    value: int


@dataclass
class Day:
    name: str


TYPES = {
    "int": (int, st.integers(-(2**53), 2**53)),
    "bool": (bool, st.booleans()),
    "float": (float, st.floats(allow_nan=False, allow_infinity=False)),
    "str": (str, st.text(st.characters(codec="utf-8"), max_size=9)),
    "literal": (Literal["yes", "no", 3], st.sampled_from(["yes", "no", 3])),
    "list": (list[int], st.lists(st.integers(-9, 9), max_size=3)),
    "days": (list[Day], st.lists(st.builds(Day, st.text("ab", max_size=3)), max_size=3)),
    "optional": (int | None, st.none() | st.integers(-9, 9)),
    "union": (Day | Price, st.builds(Day, st.text("ab", max_size=3)) | st.builds(Price, st.integers(-9, 9))),
    "mixed": (
        Price | list[Day],
        st.builds(Price, st.integers(-9, 9)) | st.lists(st.builds(Day, st.just("a"))),
    ),
}


@given(data=st.data(), name=st.sampled_from(sorted(TYPES)), is_fenced=st.booleans())
def test_a_bare_value_is_the_value_in_its_object(data, name, is_fenced):
    """Of whatever type, with and without a fence."""
    kind, values = TYPES[name]
    reader = typed(kind)
    assert not reader.is_object
    value = data.draw(values)
    bare = json.dumps(reader.encode(value))
    for document in (bare, f'{{"value": {bare}}}'):
        said = f"Here:\n```json\n{document}\n```\n" if is_fenced else document
        assert reader.decode_text(document_in(said, reader.wire_schema)) == value


def ask(kind, *said):
    async def main():
        async with agentrail.open_session(model=ScriptedModel([says(one) for one in said])) as session:
            return await session.run("?", output=kind)

    return trio.run(main)


@each(
    ("said", "kind", "value"),
    [
        ("42", int, 42), ("true", bool, True), ('"yes"', Literal["yes", "no"], "yes"), ("[1, 2]", list[int], [1, 2]), ("```json\n42\n```", int, 42),
        ('{"value": 5}', Price | int, 5), ('{"value": {"value": 5}}', Price | int, Price(5)), ('{"value": 5}', Price | str, Price(5)),
        ('{"name": "Monday"}', Day | None, Day("Monday")), ("null", Day | None, None),
    ],
)  # fmt: skip
def test_a_caller_gets_the_value(said, kind, value):
    """In the first turn; the text is the document that was promised."""
    reply = ask(kind, said)
    assert reply.output == value
    assert type(reply.output) is type(value)
    assert reply.turns == 1
    assert list(json.loads(reply.text)) == ["value"]


def test_a_bare_value_of_another_type_is_put_right():
    """The fault names the value."""
    assert ask(int, '"many"', "42").output == 42
    with pytest.raises(CycleFailed, match=r"\$\.value: expected `int`, got `str`"):
        ask(int, '"many"', '"more"')


def test_an_object_is_not_put_into_another_one():
    """A type that is an object has no bare value, and an answer without a member is refused as before."""
    with pytest.raises(CycleFailed, match="name"):
        ask(Day, '"Monday"', "{}")
    with pytest.raises(CycleFailed, match="value"):
        ask(int, '{"number": 1}', "{}")
