"""Schemas and what they judge; tests/core/test_toolbox.py has what this means for tools."""

import pytest

from agentrail.core.values.json_schema import MAX_FAULTS, CompiledSchema, fault_of_schema


def test_values_of_any_kind_are_judged():
    """Arguments are objects, answers need not be."""
    judge = CompiledSchema({"type": "array", "items": {"type": "integer", "minimum": 1}})
    assert judge.faults([1, 2.0]) == ()
    assert judge.faults([0, "x"]) == (
        "$[0]: 0 is less than the minimum of 1",
        "$[1]: 'x' is not of type 'integer'",
    )
    assert judge.faults({}) == ("$: {} is not of type 'array'",)


def test_a_list_of_faults_ends():
    """Ten sentences, then how many more there are."""
    faults = CompiledSchema({"items": {"type": "string"}}).faults([1] * (MAX_FAULTS + 2))
    assert len(faults) == MAX_FAULTS + 1
    assert faults[-1] == "and 2 more"


def test_what_cannot_be_judged_is_refused():
    """A schema that goes round in circles is nobody's permission."""
    faults = CompiledSchema({"$ref": "#"}).faults({})
    assert faults == ("$: cannot be judged (RecursionError): send less, and simpler values",)


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"type": "object"}, None),
        ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, None),
        ({"const": {"$ref": "https://example.com/a"}}, None),
        (
            {"type": "thing"},
            "is not draft 2020-12 at $.type: 'thing' is not valid under any of the given schemas",
        ),
        (
            {"anyOf": [{"$ref": "https://example.com/a"}]},
            "refers to 'https://example.com/a': inline it, nothing is fetched",
        ),
    ],
)
def test_what_is_no_schema_is_named(schema, fault):
    """With its place, before anything is judged by it."""
    assert fault_of_schema(schema) == fault
