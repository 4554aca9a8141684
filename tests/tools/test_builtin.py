"""`builtin`: which tools there are, and what they promise."""

import pytest

from agentrail.errors import ToolDefinitionError
from agentrail.tools import builtin

NAMES = (
    *(
        "ask_user",
        "compact_conversation",
        "edit_file",
        "glob",
        "grep",
        "list_dir",
        "read_file",
        "shell",
        "task",
    ),
    *("write_file", "write_todos"),
)
BY_NAME = (
    *(
        "exit_plan",
        "forget",
        "kb_list",
        "kb_read",
        "kb_search",
        "python",
        "recall",
        "remember",
        "shell_output",
    ),
    *("shell_stop", "sleep", "web_fetch", "web_search"),
)
"""Those that need memories, knowledge or the mode `plan`, go with a shell, run code or reach the web, and are given by their names alone."""


def test_an_unknown_name_is_answered_with_the_nearest():
    """A slip of the pen costs one glance."""
    every = ", ".join(sorted(NAMES + BY_NAME))
    for name, words in (
        ("raed_file", "is named 'raed_file'. Did you mean 'read_file'? There are: ask_user, "),
        ("xyz", f"no built-in tool is named 'xyz'. There are: {every}"),
        ("remembers", "Did you mean 'remember'"),
    ):
        with pytest.raises(ToolDefinitionError) as caught:
            builtin("shell", name)
        assert words in str(caught.value)
    assert {"remember", "recall", "forget"}.isdisjoint(tool.name for tool in builtin())  # not read of in vain
    assert [tool.name for tool in builtin("recall", "remember")] == ["recall", "remember"]
