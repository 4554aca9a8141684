"""JSON that nobody can change, and comparing as JSON does."""

import copy
import enum
import json

import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail.frozen import FrozenDict, FrozenList, frozen_json, not_json, same_json, thawed

scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=3)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=9,
)
objects = st.dictionaries(st.text(max_size=3), values, max_size=3)


@given(value=objects)
def test_frozen_json_is_the_same_json(value):
    """It equals what it was made of, encodes alike, and thaws to an equal value that can be written to."""
    frozen = frozen_json(value)
    assert frozen == value
    assert msgspec.json.encode(frozen) == msgspec.json.encode(value)
    assert json.dumps(frozen) == json.dumps(value)
    assert frozen_json(frozen) is frozen
    free = thawed(frozen)
    assert free == value
    free["new"] = 1
    assert frozen == value


WRITES = {
    "set": lambda v: v.__setitem__("a", 1),
    "delete": lambda v: v.__delitem__("a"),
    "update": lambda v: v.update(a=2),
    "merge": lambda v: v.__ior__({"a": 2}),
    "pop": lambda v: v.pop("a"),
    "popitem": lambda v: v.popitem(),
    "setdefault": lambda v: v.setdefault("z", 1),
    "clear": lambda v: v.clear(),
    "inner set": lambda v: v["list"].__setitem__(0, 1),
    "inner append": lambda v: v["list"].append(1),
    "inner extend": lambda v: v["list"].extend([1]),
    "inner add": lambda v: v["list"].__iadd__([1]),
    "inner times": lambda v: v["list"].__imul__(2),
    "inner insert": lambda v: v["list"].insert(0, 1),
    "inner pop": lambda v: v["list"].pop(),
    "inner remove": lambda v: v["list"].remove(1),
    "inner sort": lambda v: v["list"].sort(),
    "inner reverse": lambda v: v["list"].reverse(),
    "inner delete": lambda v: v["list"].__delitem__(0),
    "inner clear": lambda v: v["list"].clear(),
}


@pytest.mark.parametrize("write", WRITES)
def test_no_way_of_writing_works(write):
    """Every method that would change it says how to make a new value instead."""
    value = frozen_json({"a": 1, "list": [1, {"b": 2}]})
    with pytest.raises(TypeError, match="cannot be changed: make a new value"):
        WRITES[write](value)
    assert value == {"a": 1, "list": [1, {"b": 2}]}


def test_a_deep_copy_can_be_written_to():
    """Who copies wants to write: the copy is plain, all the way down."""
    value = frozen_json({"a": [{"b": 1}]})
    free = copy.deepcopy(value)
    free["a"][0]["b"] = 2
    assert value == {"a": [{"b": 1}]}
    assert type(copy.deepcopy(value["a"])) is list
    assert isinstance(value, FrozenDict)
    assert isinstance(value["a"], FrozenList)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), "$ is a object, which is no JSON"),
        ({"a": [1, {2}]}, "$.a[1] is a set, which is no JSON"),
        ({1: 2}, "$ has the key 1; keys are text"),
        ((1, float("nan")), "$[1] is nan, which JSON cannot say"),
    ],
)
def test_what_is_no_json_is_named_with_its_place(value, words):
    """The message says where the fault lies."""
    assert not_json(value) == words


def test_texts_of_an_enumeration_are_json():
    """A member that is a text is encoded as one."""

    class Level(enum.StrEnum):
        """Of a log."""

        INFO = "info"

    assert not_json([Level.INFO]) is None


@given(value=values)
def test_json_is_json(value):
    """Whatever JSON can say is let through, and is the same as itself."""
    assert not_json(value) is None
    assert same_json(value, json.loads(json.dumps(value)))


@pytest.mark.parametrize("other", [{"a": True}, {"a": 1.0}, {"a": [1]}, {"b": 1}, {}, {"a": 1, "b": 2}, [1]])
def test_values_that_python_calls_equal_are_told_apart(other):
    """`1`, `1.0` and `true` are three JSON values."""
    assert not same_json({"a": 1}, other)
    assert not same_json([1], [1, 1])
    assert same_json({"a": (1,)}, {"a": [1]})
