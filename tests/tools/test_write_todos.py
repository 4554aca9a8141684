"""`write_todos`: the list as a change of the session, and what is wrong with a list."""

import pytest

from agentrail.abc import Error, ToolUpdate
from agentrail.core.protocol.changes import UpdateTodos
from agentrail.core.values.toolbox import ToolSpec
from agentrail.events import Todo
from agentrail.tools.write_todos import write_todos
from tests.tools.rig import CTX


def _entry(name: str, **fields: str) -> dict[str, str]:
    return {"id": name, "content": f"Do {name}", **fields}


async def test_the_list_is_replaced():
    """The change carries all of it; the model reads how far it is."""
    entries = [_entry("1", status="completed"), _entry("2", status="in_progress"), _entry("3"), _entry("4")]
    assert await write_todos.execute({"todos": entries}, CTX) == ToolUpdate(
        UpdateTodos(
            todos=(
                Todo(id="1", content="Do 1", status="completed"),
                Todo(id="2", content="Do 2", status="in_progress"),
                Todo(id="3", content="Do 3"),
                Todo(id="4", content="Do 4"),
            )
        ),
        text="4 todos: 1 completed, 1 in progress, 2 pending.",
    )


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


@pytest.mark.parametrize(
    "entries",
    [
        [_entry(str(number)) for number in range(101)],
        [_entry("1", content="x" * 1_001)],
        [_entry("1", status="done")],
        [_entry("1", owner="me")],
        [{"id": "1"}],
    ],
    ids=["too many", "too long", "no such status", "no such field", "no content"],
)
def test_what_the_schema_refuses(entries):
    """The call never runs."""
    spec = ToolSpec(name="write_todos", description="x", parameters=write_todos.parameters)
    assert spec.faults({"todos": entries})
