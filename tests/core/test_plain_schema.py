"""The quick yes: it is never given where the validator says no."""

from typing import Any

from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

from agentrail.core.values.json_schema import quick_check

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from(["", "x", "y"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null"])


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES,
            "description": st.just("words"),
            "enum": st.lists(st.sampled_from(["", "x"]), min_size=1, max_size=2),
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, unique=True, max_size=2),
            "additionalProperties": st.booleans(),
            "items": inner,
        },
    )


SCHEMAS = st.recursive(st.just(value=True) | _schemas(st.just(value=True)), _schemas, max_leaves=5)


@given(schema=SCHEMAS, value=VALUES)
def test_a_quick_yes_is_the_validators_yes(schema, value):
    """For every plain schema and every value: what is plainly fine is fine."""
    check = quick_check(schema)
    assert check is not None
    if check(value):
        assert Draft202012Validator(schema).is_valid(value)


def test_what_is_not_plain_is_left_to_the_validator():
    """There is no quick answer, and none is made up."""
    for schema in (
        *(
            False,
            {"minimum": 1},
            {"type": ["string", "null"]},
            {"type": "whole"},
            {"enum": [1, 2]},
            {"enum": "x"},
        ),
        *(
            {"items": False},
            {"properties": {"a": {"pattern": "x"}}},
            {"properties": []},
            {"$ref": "#/$defs/A"},
        ),
        {"additionalProperties": {"type": "string"}},
    ):
        assert quick_check(schema) is None, schema


def test_what_is_wrong_is_not_plainly_fine():
    """Not an object, something missing or unknown, a wrong type; without a type, `required` lets a text pass, as the standard has it."""
    whole = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    check = quick_check(whole | {"additionalProperties": False})
    for value in ([], {}, {"a": 1, "b": 2}, {"a": "1"}, None):
        assert not check(value), value
    assert quick_check({"properties": {"a": {"type": "boolean"}}})({"a": True})
    check = quick_check({"required": ["a"]})
    assert [check("text"), check({"a": 1}), bool(check({}))] == [True, True, False]
