"""`builtin`: which tools there are, and what they promise."""

from pathlib import Path

import pytest

from agentrail.abc import Tool
from agentrail.core.values.toolbox import ToolSpec
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


def test_without_names_all_are_given():
    """Every built-in tool satisfies the port, and its schema is one that a session takes."""
    tools = builtin()
    assert [tool.name for tool in tools] == list(NAMES)
    for tool in tools:
        assert isinstance(tool, Tool)
        ToolSpec(name=tool.name, description=str(tool.description), parameters=tool.parameters).check()


def test_names_choose_in_their_order():
    """What was asked for, and nothing else."""
    assert [tool.name for tool in builtin("shell", "list_dir")] == ["shell", "list_dir"]


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


@pytest.mark.parametrize(
    ("name", "effect_class", "killable", "timeout_seconds", "required"),
    [
        ("ask_user", "idempotent", True, 300, ["question"]),
        ("compact_conversation", "idempotent", True, None, []),
        ("edit_file", "reconcilable", False, 30, ["path", "old_string", "new_string"]),
        ("forget", "idempotent", True, 30, []),
        ("glob", "pure", True, 30, ["pattern"]),
        ("grep", "pure", True, 30, ["pattern"]),
        ("kb_list", "pure", True, 30, []),
        ("kb_read", "pure", True, 30, ["id"]),
        ("kb_search", "pure", True, 30, ["query"]),
        ("list_dir", "pure", True, 30, []),
        ("python", "once", True, 605, ["code"]),
        ("read_file", "pure", True, 30, ["path"]),
        ("recall", "pure", True, 30, []),
        ("remember", "idempotent", True, 30, ["text"]),
        ("shell", "once", True, 605, ["command"]),
        ("shell_output", "pure", True, 30, ["id"]),
        ("shell_stop", "idempotent", True, 30, ["id"]),
        ("sleep", "pure", True, None, ["seconds"]),
        ("task", "once", True, 120, ["description"]),
        ("web_fetch", "pure", True, 180, ["url"]),
        ("web_search", "pure", True, 60, ["query"]),
        ("write_file", "idempotent", False, 30, ["path", "content"]),
        ("write_todos", "idempotent", False, 30, ["todos"]),
    ],
)
def test_promises_are_those_of_the_reference_page(name, effect_class, killable, timeout_seconds, required):
    """Effect class, time, required parameters, and whether a steer may stop it: as the reference page says."""
    (tool,) = builtin(name)
    assert _promises_of(tool) == (
        effect_class,
        killable,
        timeout_seconds,
    )
    assert tool.parameters.get("required", []) == required
    assert tool.parameters["additionalProperties"] is False


def _promises_of(tool):
    """Return what a tool promises; what it does not say is as of the port."""
    return (
        getattr(tool, "effect_class", "once"),
        getattr(tool, "killable", True),
        getattr(tool, "timeout_seconds", None),
    )


def test_the_reference_page_has_every_tool_and_parameter():
    """Row by row: the name, each parameter, bold where it is required."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "tools.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    assert sorted(rows) == sorted(NAMES + BY_NAME)
    for tool in builtin(*NAMES, *BY_NAME):
        properties = tool.parameters["properties"]
        assert isinstance(properties, dict)
        for name in properties:
            required = name in tool.parameters.get("required", [])
            assert f"**`{name}`**" in rows[tool.name] if required else f" `{name}`" in rows[tool.name]
        promised, killable, _ = _promises_of(tool)
        assert f"| `{promised}` | {'yes' if killable else 'no'} |" in rows[tool.name]


@pytest.mark.parametrize(
    ("name", "arguments", "label"),
    [
        ("read_file", {"path": "src/a.py"}, "Read src/a.py"),
        ("write_file", {"path": "src/a.py", "content": ""}, "Write src/a.py"),
        ("edit_file", {"path": "src/a.py", "old_string": "a", "new_string": "b"}, "Edit src/a.py"),
        ("grep", {"pattern": "TODO"}, "Search for TODO"),
        ("glob", {"pattern": "*.py"}, "Find *.py"),
        ("list_dir", {}, "List ."),
        ("shell", {"command": "make test"}, "make test"),
        ("shell", {"command": "cd src\nmake"}, "cd src …"),
        ("shell", {"command": "x" * 100}, f"{'x' * 80} …"),
        ("ask_user", {"question": "Which?"}, "ask_user"),
        ("web_fetch", {"url": "https://a.example/"}, "Fetch https://a.example/"),
        ("web_search", {"query": "trains"}, "Search the web for 'trains'"),
    ],
)
def test_labels_are_for_people(name, arguments, label):
    """What a call does, in a few words."""
    (tool,) = builtin(name)
    assert tool.label(arguments) == label
