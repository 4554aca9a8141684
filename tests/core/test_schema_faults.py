"""Schemas that are none, or none that one could judge by: each is refused with a sentence, soon, and nothing raises."""

import copy

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator, SchemaError

from agentrail.core.values.json_schema import (
    MAX_SCHEMA_DEPTH,
    MAX_SCHEMA_PARTS,
    CompiledSchema,
    fault_of_schema,
)

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def anchors(count: int) -> dict[str, object]:
    return {f"{i}": {"$anchor": f"a{i}"} for i in range(count)}


DEEP: dict[str, object] = {}
for _ in range(5_000):
    DEEP = {"items": DEEP}


def test_what_one_cannot_judge_by_is_refused():
    """Before any call is judged by it, and with its place."""
    for schema, words in (
        ({"properties": {"a": {"$ref": "#/allOf/x"}}, "allOf": [{}]}, "refers to '#/allOf/x'"),
        ({"title": "x", "items": {"$ref": "#/title"}}, "refers to '#/title', which is not a schema"),
        ({"properties": {"a": {"$ref": "#/title/x"}}, "title": "x"}, "refers to '#/title/x'"),
        ({"$ref": "#nowhere"}, "refers to '#nowhere'"),
        ({"$id": "http://[::1", "$ref": "x"}, "has an invalid $id or $anchor"),
        ({"properties": {"default": {"$ref": "https://example.com"}}}, "refers to 'https://example.com'"),
        ({"$ref": "#/x", "x": {"type": "whole"}}, "is not draft 2020-12 at $ref #/x.type"),
        ({"pattern": "("}, "has an invalid pattern at $.pattern, '('"),
        (
            {"items": {"patternProperties": {"[": {}}}},
            "has an invalid pattern at $.items.patternProperties, '['",
        ),
        ({"pattern": "a" * 5_000}, "has an invalid pattern at $.pattern"),
        ({"$ref": "#a", "$defs": anchors(900)}, "refers to an anchor, and has"),
        ({"anyOf": [{"pattern": f"{i}" * 300} for i in range(100, 130)]}, "patterns or more"),
        ({"anyOf": [{"$ref": f"#a{i}"} for i in range(20)], "$defs": anchors(20)}, "anchors"),
        ({"properties": {"a": {"$schema": DRAFT_7}}}, "has $schema below its root"),
        ({"const": {"$schema": DRAFT_7}}, "has $schema below its root"),
        ({"properties": {f"p{i}": {} for i in range(MAX_SCHEMA_PARTS)}}, "has more than 10,000 parts"),
        (
            {"anyOf": [{"dependentRequired": {"a": [f"{i}"]}} for i in range(300)]},
            "parts with rare keywords: describe some of it in words",
        ),
        (DEEP, f"is nested deeper than {MAX_SCHEMA_DEPTH} levels"),
        ({"properties": {"a-b": {"type": 5}}}, "is not draft 2020-12 at $.properties['a-b'].type"),
        ({"properties": {"a": 5}}, "is not draft 2020-12 at $.properties.a"),
        ({"allOf": [5]}, "is not draft 2020-12 at $.allOf[0]"),
        ({"allOf": [{"items": {"maxLength": -1}}]}, "is not draft 2020-12 at $.allOf[0].items.maxLength"),
        ({"items": 5}, "is not draft 2020-12 at $.items"),
        ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#"}}}, "refers to itself in place"),
        ({"required": ["a", "a"]}, "is not draft 2020-12 at $.required"),
        ({"pattern": 5}, "is not draft 2020-12 at $.pattern"),
        ({"$ref": 5}, "is not draft 2020-12 at $"),
    ):
        fault = fault_of_schema(schema)
        assert fault is not None
        assert words in fault
        assert len(fault) < 1_000


WORDS = st.sampled_from(["", "a", "string", "integer", "^a", "(", "#", "#/$defs/a", "#/allOf/0", "#a", "x"])
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
KEYWORDS = st.sampled_from(
    [*sorted(Draft202012Validator.VALIDATORS), "$defs", "$id", "$anchor", "default", "if", "then", "x"]
)
SCHEMAS = st.recursive(
    DATA,
    lambda inner: st.dictionaries(
        KEYWORDS, inner | st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner), max_size=4
    ),
    max_leaves=12,
)


@given(schema=st.dictionaries(KEYWORDS, SCHEMAS, max_size=4), value=DATA)
def test_any_schema_is_judged_and_any_value_by_it(schema, value):
    """Whatever it is: a fault or none, a judgement or a refusal, and no exception. The draft agrees with what is taken."""
    before = copy.deepcopy(schema)
    if fault_of_schema(schema) is None:
        assert all(isinstance(fault, str) for fault in CompiledSchema(schema).faults(value))
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            pytest.fail(f"taken, although {error.message}")
    assert schema == before
