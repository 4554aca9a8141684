"""JSON that nobody can change, and comparing as JSON does."""

import copy
import enum
import json
import pickle

import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail.frozen import (
    MAX_LEVELS,
    FrozenDict,
    FrozenList,
    TooDeep,
    canonical_json,
    frozen_json,
    frozen_or_none,
    frozen_value,
    is_deeper,
    not_json,
    same_json,
    thawed,
)

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
    with pytest.raises(TypeError, match="is immutable: create a new value, such as"):
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
        (object(), "$ is a object, which is not JSON"),
        ({"a": [1, {2}]}, "$.a[1] is a set, which is not JSON"),
        ({1: 2}, "$ has the key 1; keys must be text"),
        ({10**5000: 2}, "a key of $ is a number with too many digits"),
        ({(1, (10**5000,)): 2}, "a key of $[1][0] is a number with too many digits"),
        ((1, float("nan")), "$[1] is nan, which JSON cannot represent"),
        ({"a": 10**5000}, "$.a is a number with too many digits"),  # Python cannot write it any more
        ({"a": 10**400}, None),
        ([*enum.StrEnum("Level", ["INFO"])], None),
    ],
    ids=range(9),
)
def test_what_is_no_json_is_named_with_its_place(value, words):
    """The message says where the fault lies; a member that is a text is encoded as one."""
    assert not_json(value) == words


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


# --- it is a value like any other


def test_it_is_a_dictionary_and_a_list_to_whoever_only_reads():
    """`isinstance`, `match`, `json`, unpacking and comparing take it for what it was; a set takes it too."""
    value = frozen_json({"a": [1, {"b": 2}]})
    assert isinstance(value, dict)
    match value:
        case {"a": [1, {"b": found}]}:
            assert found == 2
        case _:
            pytest.fail("it does not match")
    assert {**value, "c": 1} == {"a": [1, {"b": 2}], "c": 1}
    assert type(value | {"c": 1}) is dict
    assert {value: 1}[frozen_json({"a": (1, {"b": 2})})] == 1


def test_copies_and_pickles():
    """A copy is for writing, of one level or of all, as with any dictionary; a pickle brings back what went in."""
    value = frozen_json({"a": [{"b": 1}]})
    for copied in (copy.copy(value), value.copy(), dict(value)):
        assert type(copied) is dict
        assert copied["a"] is value["a"]
    assert type(copy.copy(value["a"])) is list
    back = pickle.loads(pickle.dumps(value))  # noqa: S301 - our own
    assert (back, type(back), type(back["a"]), type(back["a"][0])) == (
        value,
        FrozenDict,
        FrozenList,
        FrozenDict,
    )


class _Writable(dict[str, object]):
    __slots__ = ()


def test_no_back_door_is_left_open_by_accident():
    """Neither `__init__`, nor another class, nor one that is derived makes it writable; constructors freeze what they take."""
    value = frozen_json({"a": [1]})
    value.__init__({"b": 2})
    value["a"].__init__([2])
    for frozen in (value, value["a"]):
        with pytest.raises(TypeError, match="is immutable"):
            frozen.__class__ = _Writable
        with pytest.raises(
            TypeError, match="cannot inherit from an immutable type: store one in a field instead"
        ):
            type("Mine", (type(frozen),), {})
    assert value == {"a": [1]}
    assert type(FrozenDict(a=[1])["a"]) is FrozenList
    assert type(FrozenList([{}])[0]) is FrozenDict


class _Colour(enum.StrEnum):
    RED = "red"


class _Text(str):
    __slots__ = ("note",)


class _Whole(int):
    pass


class _Part(float):
    pass


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (_Text("a"), "a"),
        (_Whole(3), 3),
        (_Part(0.5), 0.5),
        (bytearray(b"x"), b"x"),
        (memoryview(b"x"), b"x"),
        ({1, 2}, frozenset({1, 2})),
        ((1, 2), [1, 2]),
    ],
)
def test_what_could_be_changed_becomes_plain(given, kept):
    """Texts and numbers of other classes, sets and buffers among an application's own data."""
    frozen = frozen_json({"x": given, _Text("key"): [given]})
    assert frozen["x"] == kept
    assert type(frozen["x"]) in {type(kept), FrozenList}
    assert type(frozen["key"][0]) is type(frozen["x"])
    assert all(type(key) is str for key in frozen)


def test_members_of_enumerations_and_what_is_no_json_stay_what_they_are():
    """One object for all who name it. Half of a character has a form too, the same whatever the order of the keys."""
    other = object()
    frozen = frozen_json({"colour": _Colour.RED, "other": other})
    assert frozen["colour"] is _Colour.RED
    assert frozen["other"] is other
    assert canonical_json({"b": "\ud800", "a": 1}) == b'{"a":1,"b":"\\ud800"}'
    assert canonical_json(frozen_json({"b": 1, "a": [True]})) == b'{"a":[true],"b":1}'
    assert frozen_or_none(None) is None
    assert frozen_or_none({}) == {}


def test_what_is_too_deep_is_refused_before_anything_goes_down_it():
    """128 levels are taken; more, or a value that holds itself, is said at once."""
    value: object = "x"
    for _ in range(MAX_LEVELS):
        value = [value]
    assert not_json({"a": value[0]}) is None
    frozen_value(value)
    endless: list[object] = []
    endless.append(endless)
    for deep in ([value], endless, {"a": value}):
        with pytest.raises(TooDeep, match="nested more deeply than 128 levels"):
            frozen_value(deep)
        assert "nested more deeply than 128 levels" in not_json(deep)


def test_depth_is_the_number_of_containers_within_each_other():
    """Of all kinds; a value that holds itself is deeper than any number."""
    endless: list[object] = []
    endless.append(endless)
    for value, levels in (("x", 0), ([], 1), ([1, {"a": ()}], 3), (frozen_json({"a": [1, 2]}), 2)):
        assert [is_deeper(value, most) for most in (1, 2, 3)] == [levels > most for most in (1, 2, 3)]
        assert is_deeper([value, endless], 200)
