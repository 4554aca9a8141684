"""`write_todos`: the list as a change of the session, and what is wrong with a list."""

import pytest

from agentrail.abc import Error, ToolUpdate
from agentrail.core.protocol.tool_changes import UpdateTodos
from agentrail.tools.write_todos import write_todos
from tests.tools.rig import CTX


def _entry(name: str, **fields: str) -> dict[str, str]:
    return {"id": name, "content": f"Do {name}", **fields}


async def test_an_empty_list_is_one_too():
    """All is done, or nothing was meant."""
    outcome = await write_todos.execute({"todos": []}, CTX)
    assert outcome == ToolUpdate(UpdateTodos(todos=()), text="The list of todos is empty now.")


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([_entry("1"), _entry("1")], "The list stays as it was: the id '1' is there 2 times: each id once."),
        (
            [_entry("1", content="  ")],
            "The list stays as it was: the todo '1' has no content: say what is to be done.",
        ),
    ],
)
async def test_what_a_schema_cannot_say(entries, words):
    """The model reads what is wrong, and nothing changes."""
    assert await write_todos.execute({"todos": entries}, CTX) == Error(text=words)
