"""Names of tools, in ours."""

import pytest
from hypothesis import given, strategies as st

from agentrail.config.tool_names import ToolListFault, split_tools, translate_tools


def test_a_list_in_one_text_is_taken_apart():
    """Blanks or commas; in parentheses both belong to the pattern."""
    text = "Read, Grep  Bash(git log *)\nTask(a, b),mcp__github"
    assert split_tools(text) == ("Read", "Grep", "Bash(git log *)", "Task(a, b)", "mcp__github")
    assert split_tools("  ") == ()
    for wrong in ("Bash(git", "Bash)git("):
        with pytest.raises(ToolListFault, match="without a"):
            split_tools(wrong)


def test_names_are_translated_once():
    """Ours stay; what nobody knows is told; a pattern of everything is none."""
    found = translate_tools(
        ("Bash(git:*)", "Edit", "Write", "shell", "Bash(*)", "Nope", "mcp__a__b", "Read(x)", "(", "read_*")
    )
    assert found.rules == (
        *("shell(git:*)", "edit_file", "write_file", "shell", "mcp__a__b", "read_file(x)", "read_*"),
    )
    assert found.unknown == ("Nope", "(")
    assert translate_tools(("Read(a)",), pattern=lambda tool, text: f"{tool}/{text}").rules == (
        "read_file(read_file/a)",
    )


@given(st.lists(st.sampled_from(("Read", "Bash(git:*)", "Bash(a, b)", "mcp__x")), max_size=5))
def test_a_text_and_a_list_say_the_same(tools):
    """Whichever way they are written."""
    for between in (" ", ",", ", ", "\n"):
        assert split_tools(between.join(tools)) == tuple(tools)
