"""Tools as the core knows them: what is refused when they are attached, and what is said of a call's arguments."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentrail.core.values.json_schema import decode_strictly, json_kind_of
from agentrail.core.values.toolbox import MAX_ARGUMENTS_BYTES, Toolbox, ToolSpec, parse_arguments
from agentrail.errors import ToolDefinitionError
from agentrail.frozen import MAX_LEVELS
from tests.core.anything import OBJECTS


def _spec(name: str = "x", **schema: Any) -> ToolSpec:
    return ToolSpec(name=name, description="A tool.", parameters={"type": "object", **schema})


def _takes(schema: Any) -> ToolSpec:
    return _spec(properties={"a": schema})


def test_ten_faults_are_listed_at_most():
    """The rest is counted: a model that got everything wrong need not read it all."""
    for count, last in ((10, "$.a[9]: 'x' is not of type 'integer'"), (13, "and 3 more")):
        faults = _takes({"items": {"type": "integer"}}).faults({"a": ["x"] * count})
        assert len(faults) == min(count, 11)
        assert faults[-1] == last


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


def test_what_no_model_can_be_told_of_is_refused():
    """When the tool is attached: a schema of no object, a name that vendors refuse, no description, a time that never ends."""
    for tool, words in (
        ({"parameters": {}}, "the schema of tool 'x' has type None, expected 'object'"),
        ({"parameters": {"type": "string"}}, "the schema of tool 'x' has type 'string', expected 'object'"),
        ({"properties": {"a": {"type": "whole"}}}, "tool 'x' is not draft 2020-12 at $.properties.a.type"),
        ({"properties": {"a": {"pattern": "("}}}, "at $.properties.a.pattern"),
        (
            {"properties": {"a": {"anyOf": [{"$ref": "http://127.0.0.1:9/x"}]}}},
            "the schema of tool 'x' refers to 'http://127.0.0.1:9/x': inline it, because references are not fetched",
        ),
        ({"$dynamicRef": "other.json"}, "refers to 'other.json'"),
        ({"name": "a tool"}, "expected 1 to 64 of A-Z a-z 0-9 _ -"),
        ({"name": "x" * 65}, "expected 1 to 64"),
        ({"name": ""}, "expected 1 to 64"),
        ({"description": " "}, "tool 'x' has no description"),
        *(
            ({"timeout_seconds": one}, "expected a finite number above 0, or None")
            for one in (0, -1.0, math.inf, math.nan, 1e306, 10**400)
        ),
    ):
        fields = {"name": "x", "description": "A tool.", "parameters": {"type": "object", **tool}}
        own = {name: value for name, value in tool.items() if name in ToolSpec.__struct_fields__}
        with pytest.raises(ToolDefinitionError) as caught:
            ToolSpec(**fields | own).check()
        assert words in str(caught.value)


def test_names_are_unique():
    """Two tools of one name are refused, all such names at once."""
    said = "two tools are named 'a', 'c': names are unique in a session"
    with pytest.raises(ToolDefinitionError, match=said):
        Toolbox([_spec(name) for name in "abcca"])


def test_a_box_whose_tools_say_the_same_is_the_same():
    """So the list is encoded once; a tool that says something else keeps its place and its generation."""
    spec, other, gone = (
        ToolSpec(name=name, description=said, parameters={"type": "object"})
        for name, said in (("a", "one"), ("a", "two"), ("b", "gone"))
    )
    box = Toolbox([spec]).changed([spec], [], 4, replace=False)
    assert hash(box) == hash(Toolbox([spec]))
    assert box.described([spec, gone]) is box
    anew = box.described([other, gone])
    assert [one.description for one in anew] == ["two"]
    assert (anew.generation_of("a"), anew.generation) == (4, 4)
    for edit in (lambda: setattr(box, "specs", ()), lambda: delattr(box, "specs")):  # sessions share a box
        with pytest.raises(AttributeError, match="create a new one with `changed`"):
            edit()


DEEP = '{"a":' * (MAX_LEVELS + 1) + "1" + "}" * (MAX_LEVELS + 1)


def test_a_box_joins_client_tools_once_and_its_own_stay():
    """The same specs give the same box, whose encoded list is kept; other ones give another; none give the box itself."""
    own, brought = (
        ToolSpec(name="a", description="x", parameters={}),
        ToolSpec(name="b", description="y", parameters={}),
    )
    box, more = Toolbox([own], {"a": 3}, 3), (brought, ToolSpec(name="a", description="z", parameters={}))
    joined = box.joined(more)
    assert (joined.specs, joined.generation_of("a"), joined.generation) == ((own, brought), 3, 3)
    assert box.joined(more) is joined
    assert box.joined((brought,)) == joined
    assert box.joined(()) is box


def test_arguments_are_an_object_or_a_sentence():
    """The empty string counts as no arguments; whatever else is no object is said to be none, with the place."""
    for text, parsed in (
        ("", {}),
        ("{}", {}),
        ('{"a": [1, 2.5, null, true, "é"]}', {"a": [1, 2.5, None, True, "é"]}),
        ("[1]", "expected a JSON object, got an array."),
        ("null", "expected a JSON object, got null."),
        ("true", "expected a JSON object, got a boolean."),
        ('"{}"', "expected a JSON object, got a string."),
        ("7", "expected a JSON object, got a number."),
        ('{"a": NaN}', "NaN is not JSON."),
        ('{"a": -Infinity}', "-Infinity is not JSON."),
        ('{"a": 1 "b": 1}', 'Expecting \',\' delimiter at line 1 column 9, near: …{"a": 1 "b": 1}…'),
        ('{\n"a": 1,\n"b" 2}' + " " * 30, "Expecting ':' delimiter at line 3 column 5, near: …"),
        (" \n", "Expecting value at line 2 column 1"),
        ('{"a": 1e400}', "1e400 is too large for a number."),
        ('{"a": 1.5}', {"a": 1.5}),
        ('{"a":' * 40_000, "maximum recursion depth exceeded"),
        ('{"a":' + "1" * 5000 + "}", "Exceeds the limit"),
        ("[" * 100_000, "100000 objects and arrays, at most 50000 are allowed."),
        (DEEP, f"nested more deeply than {MAX_LEVELS} levels. Send simpler values."),
    ):
        got = parse_arguments(text)
        if isinstance(parsed, str):
            assert str(got).startswith(f"Malformed arguments: {parsed}")
        else:
            assert got == parsed


def test_length_has_a_bound_and_what_never_ends_is_looked_at_once():
    """Half a megabyte of escaped quotes, behind enough brackets to be counted: not a square of it."""
    too_long = json.dumps({"a": "x" * MAX_ARGUMENTS_BYTES})
    said = f"{len(too_long)} bytes, at most 1048576 are allowed. Send less in one call."
    assert parse_arguments(too_long) == f"Malformed arguments: {said}"
    assert "Malformed" in str(parse_arguments("[" * 60_000 + '"' + '\\"' * 400_000))
    for digits in (1, 299, 300):  # a number of 300 digits is finite too; fewer are not looked at again
        text = f'["{"a" * 290}", {"9" * digits}, "{"b" * 600}"]'
        assert decode_strictly(text)[1] == int("9" * digits)
    kinds = (
        (None, "null"),
        (True, "a boolean"),
        ("", "a string"),
        ([], "an array"),
        ({}, "an object"),
        (1.5, "a number"),
    )
    assert [json_kind_of(value) for value, _ in kinds] == [name for _, name in kinds]


@given(arguments=OBJECTS)
def test_every_object_is_read_as_it_was_written(arguments):
    """Nothing is lost or made up on the way from the wire."""
    assert parse_arguments(json.dumps(arguments)) == arguments


@given(text=st.text() | st.text(st.sampled_from('{}[]":,1ae \n')))
def test_no_text_makes_the_parser_raise(text):
    """A model may write anything; it gets an object or a sentence."""
    assert isinstance(parse_arguments(text), dict | str)
