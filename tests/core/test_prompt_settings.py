"""Settings of one cycle: see `core/policy/prompt_settings.py`."""

from typing import Any, Final

import msgspec
import pytest

from agentrail.core.policy.prompt_settings import (
    MAX_CLIENT_TOOLS_BYTES,
    PromptSettings,
    faults_of_settings,
    settings_of,
    with_cost_limit,
)
from agentrail.messages import JsonObject
from agentrail.tools.client import ClientTool

ALL = {"temperature": 0, "top_p": 1, "max_output_tokens": 7, "stop": "END", "reasoning": "low"}


def test_settings_are_made_of_a_mapping():
    """The same value as from the class, in which one text is one of several, and numbers are numbers."""
    given = ALL | {"response_format": {"type": "object"}}
    made = settings_of(given)
    assert faults_of_settings(given) == faults_of_settings(made) == []
    assert made == settings_of(made)
    assert (type(made.temperature), made.stop) == (float, ("END",))
    assert msgspec.json.decode(msgspec.json.encode(made), type=PromptSettings) == made
    assert msgspec.json.encode(PromptSettings()) == b"{}"


def test_a_schema_that_is_nested_too_deeply_and_stops_that_are_none():
    """Faults like all others: said where settings are given."""
    deep: dict = {}
    for _ in range(200):
        deep = {"properties": deep}
    for given in ({"response_format": deep}, PromptSettings(response_format=deep)):
        (fault,) = faults_of_settings(given)
        assert fault.startswith("settings: response_format is nested deeper than 100 levels")
    for stop in (["x"] * 17, {"x": 1}, [""], 7):
        (fault,) = faults_of_settings({"stop": stop})
        assert fault.startswith("settings: stop is ")


# Client tools of one cycle.

PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
SHOW: Final[dict[str, Any]] = {
    "name": "show_map",
    "description": "Show a place on the map.",
    "parameters": PLACE,
}


def test_client_tools_are_made_of_a_mapping_of_a_client_tool_and_of_a_spec():
    """All three are the same spec, and so is what comes back from JSON, as a server reads it."""
    spec = ClientTool(**SHOW).spec
    assert (spec.answered_by, spec.effect_class, spec.parameters) == ("client", "once", PLACE)
    for given in (SHOW, ClientTool(**SHOW), spec, msgspec.to_builtins(spec)):
        assert faults_of_settings({"tools": [given]}) == []
        assert settings_of({"tools": [given]}) == PromptSettings(tools=(spec,))
    made = settings_of({"tools": [SHOW | {"timeout_seconds": 30, "effect_class": "pure"}]})
    (own,) = made.tools
    assert (own.timeout_seconds, own.effect_class) == (30.0, "pure")
    assert faults_of_settings(made) == []
    assert settings_of(made) == made
    assert settings_of({"tools": []}) == PromptSettings() == settings_of({"tools": None})


def deep(levels: int) -> JsonObject:
    """A schema of so many levels."""
    made: JsonObject = {}
    for _ in range(levels):
        made = {"properties": dict(made)}
    return made


def named(count: int) -> list[dict[str, Any]]:
    """So many client tools."""
    return [SHOW | {"name": f"tool_{number}"} for number in range(count)]


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        ("show_map", "tools is 'show_map': expected several client tools"),
        ([7], "tools[0]: 7 is no client tool"),
        ([SHOW, {"name": "gone"}], "tools[1] 'gone': Object missing required field `description`"),
        ([SHOW | {"name": 7}], "tools[0] 7: Expected `str`, got `int` - at `$.name`"),
        ([SHOW | {"name": "a b"}], "tools[0] 'a b': a tool is named 'a b': expected 1 to 64 of A-Z a-z 0-9 _ -"),
        ([SHOW | {"description": " "}], "tools[0] 'show_map': tool 'show_map' has no description"),
        ([SHOW | {"color": "red"}], "tools[0] 'show_map': Object contains unknown field `color`"),
        ([SHOW | {"killable": False}], "tools[0] 'show_map': the client answers it, and only name, description"),
        ([SHOW | {"answered_by": "code"}], "tools[0] 'show_map': the client answers it, and only name"),
        ([SHOW | {"timeout_seconds": -1}], "tools[0] 'show_map': tool 'show_map' has timeout_seconds -1.0"),
        ([SHOW | {"parameters": {"type": "text"}}], "tools[0] 'show_map': the schema of tool 'show_map' has type"),
        ([SHOW | {"parameters": {"type": {1}}}], "tools[0] 'show_map': parameters.type is a set, which is not JSON"),
        ([SHOW | {"parameters": deep(200)}], "is nested more deeply than 128 levels"),
        ([SHOW | {"parameters": {"type": "object", "pattern": "(a+)+$("}}], "the schema of tool 'show_map' has an invalid pattern at $.pattern"),
        (
            [SHOW | {"parameters": {"type": "object", "$ref": "https://example.com/schema"}}],
            "the schema of tool 'show_map' refers to 'https://example.com/schema': inline it, because references are not fetched",
        ),
        ([SHOW | {"parameters": {"type": "object", "title": "x" * 70_000}}], "parameters has more than 65,536 characters"),
        ([SHOW, SHOW], "tools[1] 'show_map': another one has this name"),
        (named(65), "tools has 65 client tools, tools[64] 'tool_64' is one too many: give 64 at most"),
        (
            [one | {"description": "é" * 20_000} for one in named(3)],
            "tools has more than 65,536 bytes up to tools[1] 'tool_1': describe less",
        ),
    ],
)  # fmt: skip
def test_a_client_tool_that_cannot_be_used_is_named(tools, told):
    """11.13: a schema that 6.18 refuses, the 65th, too much of it, and what is no client tool: one sentence for each."""
    (fault,) = faults_of_settings({"tools": tools})
    assert fault.startswith("settings: tools")
    assert told in fault


def test_every_client_tool_with_a_fault_is_told():
    """Not only the first; and 64 of them are not too many, nor are 64 KiB."""
    faults = faults_of_settings({"tools": [7, SHOW, SHOW | {"name": ""}], "temperature": 3})
    assert len(faults) == 3
    assert faults_of_settings({"tools": named(64)}) == []
    size = len(msgspec.json.encode(SHOW))
    full = SHOW | {"description": "x" * (MAX_CLIENT_TOOLS_BYTES - size + len(SHOW["description"]))}
    assert faults_of_settings({"tools": [full]}) == []
    (fault,) = faults_of_settings({"tools": [full | {"description": full["description"] + "x"}]})
    assert "65,536 bytes up to tools[0] 'show_map'" in fault


def test_half_of_a_character_in_a_description_is_counted_as_it_is():
    """A prompt may hold one too; the journal replaces it."""
    assert faults_of_settings({"tools": [SHOW | {"description": "\ud800"}]}) == []


@pytest.mark.parametrize("given", ["", 7, ["a"], "x" * 100_001])
def test_instructions_are_a_text_of_a_bounded_length(given):
    """Anything else is told; the longest one is taken."""
    (fault,) = faults_of_settings({"instructions": given})
    assert fault.startswith("settings: instructions is ")
    assert faults_of_settings({"instructions": "x" * 100_000}) == []


@pytest.mark.parametrize("bad", [0, -1, 0.0, float("nan"), float("inf"), True, "5"])
def test_what_a_cycle_may_cost_is_an_amount_above_nothing(bad):
    """Bad input (13.7), and what an operator allows is the most."""
    (fault,) = faults_of_settings({"max_cost_usd": bad})
    assert fault.startswith(f"settings: max_cost_usd is {bad!r}: expected a finite number of dollars above 0")


def test_the_limit_of_the_operator_counts_where_it_is_smaller():
    """Without one the settings are as they are."""
    one = settings_of({"max_cost_usd": 1, "temperature": 1})
    assert faults_of_settings(one) == []
    assert with_cost_limit(one, 2) == one
    assert with_cost_limit(one, 0.5) == PromptSettings(max_cost_usd=0.5, temperature=1.0)
    assert with_cost_limit(None, 3) == PromptSettings(max_cost_usd=3.0)
