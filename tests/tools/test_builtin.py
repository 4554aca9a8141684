"""`builtin`: which tools there are, and what they promise."""

import pytest

from agentrail.abc import Tool
from agentrail.core.toolbox import ToolSpec
from agentrail.errors import ToolDefinitionError
from agentrail.tools import builtin


def test_without_names_all_are_given():
    """Every built-in tool satisfies the port, and its schema is one that a session takes."""
    tools = builtin()
    assert [tool.name for tool in tools] == ["list_dir", "read_file", "shell"]
    for tool in tools:
        assert isinstance(tool, Tool)
        ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters).check()


def test_names_choose_in_their_order():
    """What was asked for, and nothing else."""
    assert [tool.name for tool in builtin("shell", "list_dir")] == ["shell", "list_dir"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "raed_file",
            "no built-in tool is named 'raed_file'. Did you mean 'read_file'? There are: list_dir, read_file, sh",
        ),
        ("xyz", "no built-in tool is named 'xyz'. There are: list_dir, read_file, shell"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name, words):
    """A slip of the pen costs one glance."""
    with pytest.raises(ToolDefinitionError) as caught:
        builtin("shell", name)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "effect_class", "timeout_seconds", "required"),
    [("list_dir", "pure", 30, []), ("read_file", "pure", 30, ["path"]), ("shell", "once", 605, ["command"])],
)
def test_promises_are_those_of_the_reference_page(name, effect_class, timeout_seconds, required):
    """Effect class, time and required parameters, as the reference page says."""
    (tool,) = builtin(name)
    assert (tool.effect_class, tool.timeout_seconds, tool.killable) == (effect_class, timeout_seconds, True)
    assert tool.parameters["required"] == required
