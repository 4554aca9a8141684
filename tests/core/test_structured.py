"""Answers of a given shape (3-session, `response_format`)."""

import json

import pytest
from hypothesis import given, strategies as st

from agentrail.core.policy.response_format import (
    REPAIR_NOTE,
    Accepted,
    Rejected,
    RepairTurn,
    ResponseFormat,
    document_in,
    enclosed,
    fault_of_format,
)

CITY = ResponseFormat(
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city"],
    }
)
ANYTHING = ResponseFormat({})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "text",
    [
        '{"city": "Lisbon"}',
        '\n  {"city": "Lisbon"}\n',
        '```json\n{"city": "Lisbon"}\n```',
        '```\n{"city": "Lisbon"}\n```\n',
        'As asked [1]:\n\n```JSON\n{\n  "city": "Lisbon"\n}\n```\nAnything else?',
    ],
)
def test_json_is_found_with_and_without_a_fence(text):
    """Many models put it into one, however they are asked."""
    assert CITY.check(text, repaired=False) == Accepted({"city": "Lisbon"})


def test_what_is_wrong_inside_of_a_fence_is_said_of_what_stands_there():
    """And the text of an answer that is none is all of it."""
    text = 'Here:\n```json\n{"city": }\n```\nDone.'
    verdict = CITY.check(text, repaired=False)
    assert isinstance(verdict, RepairTurn)
    assert "line 1 column 10" in verdict.note
    assert document_in(text) == text


def test_an_answer_may_hold_a_fence():
    """What is a document is taken whole, whatever its texts hold."""
    value = {"city": "\n```json\n{}\n```\n"}
    assert CITY.check(json.dumps(value), repaired=False) == Accepted(value)


@given(value=VALUES, indent=st.none() | st.just(2), is_fenced=st.booleans())
def test_every_json_value_comes_back(value, indent, is_fenced):
    """Written in any way, alone or in a fence."""
    text = json.dumps(value, indent=indent)
    answer = f"So:\n```json\n{text}\n```" if is_fenced else text
    assert ANYTHING.check(answer, repaired=False) == Accepted(value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"days": 0}', "$.city is required; $.days: 0 is less than the minimum of 1"),
        ("It is Lisbon.", "no JSON: Expecting value at line 1 column 1, near: …It is Lisbon.…"),
        ("", "no JSON: Expecting value at line 1 column 1, near: ……"),
        ('{"city": NaN}', "no JSON: NaN is not JSON"),
        (
            '{"city": "a"}, {"city": "b"}',
            'no JSON: Extra data at line 1 column 14, near: …{"city": "a"}, {"city": "b"}…',
        ),
        ('```json\n{}\n```\nor\n```json\n{"city": "a"}\n```', "no JSON: Expecting value at line 1 column 1"),
    ],
)
def test_an_answer_that_is_wrong_gets_one_turn_to_be_put_right(text, fault):
    """The model reads what is wrong, all of it; the second time the cycle fails with the same words."""
    verdict = CITY.check(text, repaired=False)
    assert isinstance(verdict, RepairTurn)
    assert fault in verdict.note
    assert verdict.note.startswith(REPAIR_NOTE.partition("{")[0])
    verdict = CITY.check(text, repaired=True)
    assert isinstance(verdict, Rejected)
    assert (verdict.error.code, verdict.error.retryable) == ("response_format", False)
    assert fault in verdict.error.message


def test_an_answer_that_was_put_right_is_taken():
    """The second turn is judged like the first."""
    assert CITY.check('{"city": "a"}', repaired=True) == Accepted({"city": "a"})


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"type": "object"}, None),
        ("json", "response_format is 'json': expected a JSON Schema as a dict, or None"),
        ({"type": "thing"}, "response_format is not draft 2020-12 at $.type: "),
        ({"$ref": "https://x/y"}, "response_format refers to 'https://x/y': inline it, nothing is fetched"),
    ],
)
def test_a_format_that_is_no_schema_is_refused_at_the_start(schema, fault):
    """As a sentence for `OptionError`, before any model is asked."""
    found = fault_of_format(schema)
    assert found == fault if fault is None else found is not None and found.startswith(fault)


def test_formats_are_values():
    """Equal schemas make equal formats, so a state that holds one can be compared."""
    assert ResponseFormat({"type": "array"}) == ResponseFormat({"type": "array"})
    assert hash(ResponseFormat({"type": "array"})) == hash(ResponseFormat({"type": "array"}))
    assert ResponseFormat({"type": "array"}) != CITY
    assert CITY.schema != CITY
    assert repr(ResponseFormat({"type": "array"})) == "ResponseFormat({'type': 'array'})"


def test_what_the_caller_cannot_read_is_said_where_the_schema_has_nothing_against_it():
    """The 30th of February is a text of the right shape; the model hears why it is no date."""
    verdict = CITY.check('{"city": "Lisbon"}', repaired=False, misfit="there is no such city")
    assert isinstance(verdict, RepairTurn)
    assert "there is no such city" in verdict.note


def test_a_bare_value_is_taken_for_the_one_in_its_object():
    """Only where the schema is that object and nothing more."""
    bare = ResponseFormat(enclosed({"type": "integer"}))
    assert bare.check("42", repaired=False) == Accepted({"value": 42})
    assert document_in("42", enclosed({"type": "integer"})) == '{"value": 42}'
    other = {**enclosed({"type": "integer"}), "required": []}
    assert isinstance(ResponseFormat(other).check("42", repaired=False), RepairTurn)
    assert document_in("42", other) == "42"
