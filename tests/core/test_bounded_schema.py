"""Schemas and values that mean ill: a judgement costs what it costs, and no more than one may."""

import contextlib
import re

import pytest
from jsonschema import Draft202012Validator

from agentrail.core.values.bounded_schema import BoundedValidator, ValidationBudget
from agentrail.core.values.json_schema import CompiledSchema, fault_of_schema

TOO_MUCH = ("$: takes too much work to validate: send less, or simpler values",)
DRAFT = "https://json-schema.org/draft/2020-12/schema"
MANY = 200_000
DOUBLING = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(40)} | {"a40": {}}
BOTH: dict[str, object] = {"a40": {}} | {
    f"a{i}": {"dependentSchemas": {name: {"$ref": f"#/$defs/a{i + 1}"} for name in "ab"}} for i in range(40)
}
TREE: dict[str, object] = {}
for _ in range(300):
    TREE = {"a": TREE}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 30 + "!"),
        ({"pattern": "a.*b"}, "a" * MANY),
        ({"pattern": "("}, "a"),
        ({"items": {"minimum": 0}}, list(range(MANY))),
        ({"items": True, "uniqueItems": True}, [{"i": i} for i in range(MANY)]),
        ({"$defs": DOUBLING, "$ref": "#/$defs/a0"}, {}),
        ({"$defs": BOTH, "$ref": "#/$defs/a0", "unevaluatedProperties": False}, {"a": 1, "b": 2}),
        ({"unevaluatedProperties": False, "$defs": BOTH, "$ref": "#/$defs/a0"}, {"a": 1, "b": 2}),
        ({"unevaluatedItems": {"type": "string"}}, ["a"] * MANY),
        (
            {"unevaluatedProperties": False, "allOf": [{"patternProperties": {"^(a+)+$": {}}}]},
            {"a" * 40 + "!": 1},
        ),
        ({"additionalProperties": False, "patternProperties": {"^(a+)+$": {}}}, {"a" * 40 + "!": 1}),
        ({"additionalProperties": {"minimum": 1}}, {f"k{i}": 1 for i in range(MANY)}),
        (
            {"additionalProperties": {"$ref": "#x"}, "$defs": {"x": {"$anchor": "x"}}},
            {f"k{i}": 1 for i in range(3_000)},
        ),
        ({"propertyNames": {"maxLength": 9}}, {f"k{i}": 1 for i in range(MANY)}),
        ({"contains": {"minimum": 1}}, [0] * MANY),
        ({"items": {"enum": [[i] for i in range(900)]}}, [[1, 2]] * MANY),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a+)+$"}, "a" * 40 + "!"),
        ({"properties": {"a": {"$ref": "#"}}}, TREE),  # at the end of the stack, native code panics
        ({"unevaluatedProperties": {"$ref": "#"}}, TREE),  # takes the most frames per level
    ],
)
def test_what_would_take_for_ever_is_refused(schema, value):
    """At the price of one judgement, and what cannot be judged may not run."""
    judge = CompiledSchema(schema)
    searched = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(re, "search", lambda pattern, text: searched.append((pattern, text)))
        faults = judge.faults(value)
    assert faults[-1] in {*TOO_MUCH, "and more"}
    assert searched == []  # nothing was tried that could not be afforded


def test_a_list_in_which_all_is_wrong_says_ten_things():
    """Then it ends, however long it goes on; what costs too much to say is left out."""
    faults = CompiledSchema({"items": {"type": "string"}}).faults([1] * MANY)
    assert faults[0] == "$[0]: 1 is not of type 'string'"
    assert len(faults) == 11
    assert faults[-1] == "and more"

    faults = CompiledSchema({"items": {"type": "string"}}).faults([["x"] * 50_000] * 60)
    assert 1 < len(faults) <= 11
    assert faults[-1] == "and more"
    assert all(len(fault) < 600 for fault in faults)


def test_items_that_are_equal_in_json_are_found():
    """As jsonschema finds them, without comparing each with each."""
    for items, differ in (
        ([], True),
        (["a", "b"], True),
        (["a", "a"], False),
        ([1, 2], True),
        ([1, 1.0], False),
        ([1, True], True),
        ([0, False, None, "", [], {}], True),
        ([1.5, 2.5], True),
        ([[1], [1.0]], False),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ([{"a": 1}, {"a": True}], True),
        (["1", 1], True),
    ):
        schema = {"uniqueItems": True}
        assert (CompiledSchema(schema).faults(items) == ()) is differ
        assert Draft202012Validator(schema).is_valid(items) is differ


def test_judgements_stay_what_they_were():
    """Whoever can pay is judged as by jsonschema."""
    for schema, value in (
        ({"uniqueItems": False}, [1, 1]),
        ({"uniqueItems": True}, "aa"),
        ({"format": "date"}, "no date"),
        ({"items": {"type": "string"}}, "text"),
        ({"prefixItems": [{"type": "integer"}], "items": {"type": "string"}}, [1, "a", "b"]),
        ({"prefixItems": [True], "items": False}, [1]),
        ({"patternProperties": {"^a": {"type": "string"}}, "additionalProperties": False}, {"ab": "x"}),
        ({"patternProperties": {"^a": {"type": "string"}}}, []),
        ({"propertyNames": {"maxLength": 3}}, {"abc": 1}),
        ({"pattern": "^a"}, 1),
        ({"contains": {"const": 1}}, "text"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 2}),
        ({"properties": {"a": True}, "unevaluatedProperties": False}, {"a": 1}),
        ({"prefixItems": [True], "unevaluatedItems": False}, [1]),
        ({"unevaluatedItems": False}, "text"),
        ({"type": "integer"}, 3.0),
        ({"$ref": "#a", "$defs": {"a": {"$anchor": "a", "type": "integer"}}}, 1),
        ({"enum": [[1], [2]]}, [2]),
        ({"$schema": DRAFT, "properties": {"a": {"$ref": "#"}}}, {"a": {}}),
    ):
        assert fault_of_schema(schema) is None
        assert CompiledSchema(schema).faults(value) == ()
        assert Draft202012Validator(schema).is_valid(value)


def test_what_is_wrong_is_said_as_before():
    """The words are jsonschema's."""
    for schema, value, fault in (
        ({"pattern": "^a"}, "b", "$: 'b' does not match '^a'"),
        ({"patternProperties": {"^a": False}}, {"ab": 1}, "$: False schema does not allow 1"),
        ({"items": {"minimum": 1}, "prefixItems": [True]}, [0, 0], "$[1]: 0 is less than the minimum of 1"),
        ({"uniqueItems": True}, [1, 1], "$: [1, 1] has non-unique elements"),
        (
            {"$ref": "#/x"},
            1,
            "$: cannot be validated (_WrappedReferencingError): send less, or simpler values",
        ),
    ):
        assert CompiledSchema(schema).faults(value) == (fault,)


def test_each_keyword_pays():
    """None is left that works for nothing: the prices are of the keywords that there are."""
    work = ValidationBudget(patterns=(), schema_parts=1)
    for name in Draft202012Validator.VALIDATORS:
        before = work.left
        judge = BoundedValidator.VALIDATORS[name]
        with contextlib.suppress(Exception):
            list(judge(BoundedValidator({}, format_checker=work), {}, None, {}))
        assert work.left < before, name
