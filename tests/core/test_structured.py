"""Answers of a given shape (3-session, `response_format`)."""

import json

from hypothesis import given, strategies as st

from agentrail.core.policy.response_format import (
    Accepted,
    RepairTurn,
    ResponseFormat,
    document_in,
    enclosed,
    fault_of_format,
)

ANYTHING = ResponseFormat({})
CITY = ResponseFormat({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=VALUES, indent=st.none() | st.just(2), is_fenced=st.booleans())
def test_every_json_value_comes_back(value, indent, is_fenced):
    """Written in any way, alone or in a fence."""
    text = json.dumps(value, indent=indent)
    answer = f"So:\n```json\n{text}\n```" if is_fenced else text
    assert ANYTHING.check(answer, repaired=False) == Accepted(value)


def test_fences_without_an_end_take_linear_time():
    """A megabyte of them: each was followed to the end of the text, in the core, where all sessions wait."""
    endless = "```json\n" * 125_000
    assert isinstance(ANYTHING.check(endless, repaired=False), RepairTurn)
    assert ANYTHING.check(f"```json\n1\n```\n{endless}", repaired=False) == Accepted(1)
    assert document_in(endless) == endless


def test_a_format_that_is_no_schema_is_refused_at_the_start():
    """As a sentence for `OptionError`, before any model is asked."""
    assert fault_of_format({"type": "object"}) is None
    for schema, fault in (
        ("json", "response_format is 'json': expected a JSON Schema as a dict, or None"),
        (10**5000, "response_format is <int, whose __repr__ raises>: expected a JSON Schema"),
        ({"type": "thing"}, "response_format is not draft 2020-12 at $.type: "),
        (
            {"$ref": "https://x/y"},
            "response_format refers to 'https://x/y': inline it, because references are not fetched",
        ),
    ):
        assert fault_of_format(schema).startswith(fault)


def test_formats_are_values_and_a_bare_value_is_that_in_its_object():
    """Only where the schema is that object and nothing more; what the caller cannot read is said though the schema has nothing against it."""
    bare = ResponseFormat(enclosed({"type": "integer"}))
    assert bare.check("42", repaired=False) == Accepted({"value": 42})
    assert document_in("42", enclosed({"type": "integer"})) == '{"value": 42}'
    other = {**enclosed({"type": "integer"}), "required": []}
    assert isinstance(ResponseFormat(other).check("42", repaired=False), RepairTurn)
    assert document_in("42", other) == "42"

    verdict = CITY.check('{"city": "Lisbon"}', repaired=False, misfit="there is no such city")
    assert isinstance(verdict, RepairTurn)
    assert "there is no such city" in verdict.note

    assert ResponseFormat({"type": "array"}) == ResponseFormat({"type": "array"})
    assert hash(ResponseFormat({"type": "array"})) == hash(ResponseFormat({"type": "array"}))
    assert ResponseFormat({"type": "array"}) != CITY
    assert CITY.schema != CITY
    assert repr(ResponseFormat({"type": "array"})) == "ResponseFormat({'type': 'array'})"
