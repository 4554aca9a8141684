"""Tools as the core knows them: what is refused when they are attached, and what is said of a call's arguments."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentrail.core.values.toolbox import MAX_ARGUMENTS_BYTES, Toolbox, ToolSpec, parse_arguments
from agentrail.errors import ToolDefinitionError


def _spec(name: str = "x", **schema: Any) -> ToolSpec:
    return ToolSpec(name=name, description="A tool.", parameters={"type": "object", **schema})


def _takes(schema: Any) -> ToolSpec:
    return _spec(properties={"a": schema})


# --- arguments against the schema


@pytest.mark.parametrize(
    ("count", "last"), [(10, "$.a[9]: 'x' is not of type 'integer'"), (13, "and 3 more")]
)
def test_ten_faults_are_listed_at_most(count, last):
    """The rest is counted: a model that got everything wrong need not read it all."""
    faults = _takes({"items": {"type": "integer"}}).faults({"a": ["x"] * count})
    assert len(faults) == min(count, 11)
    assert faults[-1] == last


# --- schemas


def test_a_sound_schema_is_taken():
    """References inside the document are fine, by path and by anchor."""
    spec = _spec(
        properties={
            "a": {"$ref": "#/$defs/A"},
            "b": {"$ref": "#here"},
            "c": {"anyOf": [{"enum": ["x", ["y"]]}, {"$ref": "#here"}]},
        },
        **{"$defs": {"A": {"type": "integer"}, "B": {"$anchor": "here", "type": "string"}}},
    )
    spec.check()
    assert spec.faults({"a": 1, "b": 1}) == ("$.b: 1 is not of type 'string'",)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "the schema of tool 'x' has type None, expected 'object'"),
        ({"type": "string"}, "the schema of tool 'x' has type 'string', expected 'object'"),
        (
            {"type": "object", "properties": {"a": {"type": "whole"}}},
            "the schema of tool 'x' is not draft 2020-12 at $.properties.a.type",
        ),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "at $.properties.a.pattern"),
        (
            {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "http://127.0.0.1:9/x"}]}}},
            "the schema of tool 'x' refers to 'http://127.0.0.1:9/x': inline it, nothing is fetched",
        ),
        ({"type": "object", "$dynamicRef": "other.json"}, "refers to 'other.json'"),
    ],
)
def test_what_is_no_schema_of_an_object_is_refused(parameters, words):
    """When the tool is attached, with the path of the fault."""
    spec = ToolSpec(name="x", description="A tool.", parameters=parameters)
    with pytest.raises(ToolDefinitionError) as caught:
        spec.check()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "description", "words"),
    [
        ("a tool", "Does it.", "expected 1 to 64 of A-Z a-z 0-9 _ -"),
        ("x" * 65, "Does it.", "expected 1 to 64"),
        ("", "Does it.", "expected 1 to 64"),
        ("x", " ", "tool 'x' has no description"),
    ],
)
def test_what_no_model_can_be_told_of_is_refused(name, description, words):
    """A name that vendors refuse, and a tool that does not say what it does."""
    spec = ToolSpec(name=name, description=description, parameters={"type": "object"})
    with pytest.raises(ToolDefinitionError) as caught:
        spec.check()
    assert words in str(caught.value)


# --- boxes


def test_names_are_unique():
    """Two tools of one name are refused, all such names at once."""
    with pytest.raises(
        ToolDefinitionError, match="two tools are named 'a', 'c': names are unique in a session"
    ):
        Toolbox([_spec(name) for name in "abcca"])


# --- what a model wrote


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("", {}),
        ("{}", {}),
        ('{"a": [1, 2.5, null, true, "é"]}', {"a": [1, 2.5, None, True, "é"]}),
        ("[1]", "Malformed arguments: expected a JSON object, got an array."),
        ("null", "Malformed arguments: expected a JSON object, got null."),
        ("true", "Malformed arguments: expected a JSON object, got a boolean."),
        ('"{}"', "Malformed arguments: expected a JSON object, got a string."),
        ("7", "Malformed arguments: expected a JSON object, got a number."),
        ('{"a": NaN}', "Malformed arguments: NaN is not JSON."),
        ('{"a": -Infinity}', "Malformed arguments: -Infinity is not JSON."),
        (
            '{"path": "a" "limit": 1}',
            'Malformed arguments: Expecting \',\' delimiter at line 1 column 14, near: …{"path": "a" "limit": 1}…',
        ),
        (
            '{\n"a": 1,\n"b" 2}' + " " * 30,
            "Malformed arguments: Expecting ':' delimiter at line 3 column 5, near: …",
        ),
        (" \n", "Malformed arguments: Expecting value at line 2 column 1"),
        ('{"a": 1e400}', "Malformed arguments: 1e400 is too large for a number."),
        ('{"a": 1.5}', {"a": 1.5}),
    ],
)
def test_arguments_are_an_object_or_a_sentence(text, parsed):
    """The empty string counts as no arguments; whatever else is no object is said to be none, with the place."""
    got = parse_arguments(text)
    assert got == parsed if isinstance(parsed, dict) else str(got).startswith(parsed)


def test_depth_and_length_have_bounds():
    """What would take the parser down, or the memory, is malformed like anything else."""
    assert str(parse_arguments('{"a":' * 40_000)).startswith("Malformed arguments: maximum recursion depth")
    assert str(parse_arguments('{"a":' + "1" * 5000 + "}")).startswith(
        "Malformed arguments: Exceeds the limit"
    )
    too_long = json.dumps({"a": "x" * MAX_ARGUMENTS_BYTES})
    assert parse_arguments(too_long) == (
        f"Malformed arguments: {len(too_long)} bytes, at most 1048576 are allowed. Send less in one call."
    )


def test_arguments_that_never_end_are_looked_at_once():
    """Half a megabyte of escaped quotes, behind enough brackets to be counted: not a square of it."""
    assert "Malformed" in str(parse_arguments("[" * 60_000 + '"' + '\\"' * 400_000))


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(arguments=st.dictionaries(st.text(), _json))
def test_every_object_is_read_as_it_was_written(arguments):
    """Nothing is lost or made up on the way from the wire."""
    assert parse_arguments(json.dumps(arguments)) == arguments


@given(text=st.text() | st.text(st.sampled_from('{}[]":,1ae \n')))
def test_no_text_makes_the_parser_raise(text):
    """A model may write anything; it gets an object or a sentence."""
    assert isinstance(parse_arguments(text), dict | str)


@pytest.mark.parametrize("seconds", [0, -1.0, float("inf"), float("nan")])
def test_a_timeout_is_a_finite_number_above_zero(seconds):
    """A tool that would never end, or end before it began, is refused when it is attached."""
    spec = ToolSpec(name="x", description="A tool.", parameters={"type": "object"}, timeout_seconds=seconds)
    with pytest.raises(ToolDefinitionError, match="expected a finite number above 0, or None"):
        spec.check()
