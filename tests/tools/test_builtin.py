"""`builtin`: which tools there are, and what they promise."""

import pytest

from agentrail.errors import ToolDefinitionError
from agentrail.tools import builtin

# fmt: off
NAMES = (
    "ask_user", "compact_conversation", "edit_file", "glob", "grep", "list_dir", "read_file", "shell", "task", "write_file",
    "write_todos",
)
# fmt: on
BY_NAME = (
    "exit_plan",
    "forget",
    "kb_list",
    "kb_read",
    "kb_search",
    "python",
    "recall",
    "remember",
    "shell_output",
    "shell_stop",
    "sleep",
    "web_fetch",
    "web_search",
)  # fmt: skip
"""Those that need memories, knowledge or the mode `plan`, go with a shell, run code or reach the web, and are given by their names alone."""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "raed_file",
            "no built-in tool is named 'raed_file'. Did you mean 'read_file'? There are: ask_user, ",
        ),
        ("xyz", f"no built-in tool is named 'xyz'. There are: {', '.join(sorted(NAMES + BY_NAME))}"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name, words):
    """A slip of the pen costs one glance."""
    with pytest.raises(ToolDefinitionError) as caught:
        builtin("shell", name)
    assert words in str(caught.value)
