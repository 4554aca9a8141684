"""Samples: what is made for a schema is what its validator accepts, and making it ends."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentrail.core.values.json_schema import CompiledSchema, fault_of_schema
from agentrail.core.values.sample_values import MAX_PARTS, SampleValues

NODE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "next": {"anyOf": [{"$ref": "#/$defs/N~1"}, {"type": "null"}]},
        "children": {"type": "array", "items": {"$ref": "#/$defs/N~1"}},
    },
    "required": ["name", "next"],
}
KINDS: dict[str, Any] = {
    "a number of an open range": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "a share": {"type": "number", "minimum": 0.2, "maximum": 0.8},
    "a large whole number": {"type": "integer", "minimum": 7.5, "multipleOf": 10},
    "a multiple": {"type": "integer", "multipleOf": 7},
    "a small one": {"type": "integer", "exclusiveMaximum": -40},
    "below a bound": {"type": "number", "maximum": -2.5},
    "too large for a float": {"type": "integer", "minimum": 10**400},
    "text": {"type": "string", "minLength": 4, "maxLength": 6},
    "no text": {"type": "string", "maxLength": 0},
    "a date": {"type": "string", "format": "date"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "a choice": {"enum": ["red", "blue"]},
    "one value": {"const": [1]},
    "true or false": {"type": "boolean"},
    "null": {"type": "null"},
    "anything": True,
    "one of two types": {"type": ["null", "integer"]},
    "either": {"oneOf": [{"type": "null"}, {"type": "array", "items": {"type": "boolean"}, "minItems": 2}]},
    "a pair": {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"const": "x"}],
        "items": False,
        "minItems": 2,
    },
    "a set": {"type": "array", "items": {"enum": [1]}, "uniqueItems": True},
    "both": {"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"type": "integer"}}}]},
    "one property or the other": {
        "properties": {"a": {}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "a table": {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2},
    "a tree": {"$ref": "#/$defs/N~1", "description": "whose references have escapes"},
}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": KINDS,
    "required": list(KINDS),
    "$defs": {"N/": NODE},
}
FITS = CompiledSchema(PARAMETERS)


def test_the_plainest_value_fits():
    """A choice is its first option, an optional property is left out, and null is the last resort."""
    assert fault_of_schema(PARAMETERS) is None
    plain = SampleValues(root=PARAMETERS).of(PARAMETERS)
    assert FITS.faults(plain) == ()
    assert plain["a choice"] == "red"
    assert plain["one of two types"] == 1
    assert plain["true or false"] is False
    assert plain["text"] == "aaaa"
    assert (plain["a date"], plain["bytes"]) == ("2026-01-31", "YQ==")


def test_the_richest_value_fits():
    """A choice is its last option, each optional property is there, and each list is as long as it gets."""
    rich = SampleValues(root=PARAMETERS, choose=lambda options: options[-1]).of(PARAMETERS)
    assert FITS.faults(rich) == ()
    assert rich["a choice"] == "blue"
    assert rich["a set"] == [1]
    assert len(rich["a tree"]["children"]) == 2


@given(data=st.data())
def test_whatever_is_chosen_fits(data):
    """Any choices: each kind is reached, and its values are JSON."""
    samples = SampleValues(
        root=PARAMETERS,
        choose=lambda options: data.draw(st.sampled_from(options)),
        words=("a", "word", "sentences"),
    )
    value = samples.of(PARAMETERS)
    assert FITS.faults(json.loads(json.dumps(value))) == ()


def test_a_pattern_is_for_the_caller():
    """Who can make a text for it is asked, and nobody else considers it."""
    schema = {"type": "string", "pattern": "^[0-9]+$"}
    assert SampleValues(root={}).of(schema) == "a"
    assert SampleValues(root={}, matching={"^[0-9]+$": "42"}.__getitem__).of(schema) == "42"


def nested(schema, levels):
    return schema if not levels else {"type": "array", "minItems": 20, "items": nested(schema, levels - 1)}


@pytest.mark.parametrize(
    "schema",
    [
        nested({"type": "string"}, 5),
        {"type": "array", "items": {"type": "string", "minLength": 10**9}, "minItems": 10**9},
        {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]},
        {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        {"$ref": "#/nowhere/at/all"},
        {"$ref": "elsewhere"},
        {"type": "integer", "minimum": 3, "maximum": 2},
        False,
    ],
)
def test_a_schema_without_a_sample_still_has_an_end(schema):
    """Too many items, levels, references or characters, or no value at all: something small is made."""
    root = schema if isinstance(schema, dict) else {}
    made = json.dumps(SampleValues(root=root).of(schema))
    assert len(made) < 100 * MAX_PARTS
