"""Names of tools, in ours."""

import pytest
from hypothesis import given, strategies as st

from agentrail.config.tool_names import ToolListFault, split_tools


def test_a_list_in_one_text_is_taken_apart():
    """Blanks or commas; in parentheses both belong to the pattern."""
    text = "Read, Grep  Bash(git log *)\nTask(a, b),mcp__github"
    assert split_tools(text) == ("Read", "Grep", "Bash(git log *)", "Task(a, b)", "mcp__github")
    assert split_tools("  ") == ()
    for wrong in ("Bash(git", "Bash)git("):
        with pytest.raises(ToolListFault, match="without a"):
            split_tools(wrong)


@given(st.lists(st.sampled_from(("Read", "Bash(git:*)", "Bash(a, b)", "mcp__x")), max_size=5))
def test_a_text_and_a_list_say_the_same(tools):
    """Whichever way they are written."""
    for between in (" ", ",", ", ", "\n"):
        assert split_tools(between.join(tools)) == tuple(tools)
