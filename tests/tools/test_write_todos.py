"""`write_todos`: the list as a change of the session, and what is wrong with a list."""

from agentrail.abc import Error, ToolUpdate
from agentrail.core.protocol.tool_changes import UpdateTodos
from agentrail.tools.write_todos import write_todos
from tests.tools.rig import CTX


async def test_what_a_schema_cannot_say():
    """The model reads what is wrong, and nothing changes; an empty list is one too."""
    one = {"id": "1", "content": "Do 1"}
    for entries, words in (
        ([one, one], "the id '1' is there 2 times: ids must be unique."),
        ([one | {"content": "  "}], "the todo '1' has no content: describe the task."),
    ):
        said = Error(text=f"The list stays as it was: {words}")
        assert await write_todos.execute({"todos": entries}, CTX) == said
    emptied = ToolUpdate(UpdateTodos(todos=()), text="The list of todos is empty now.")
    assert await write_todos.execute({"todos": []}, CTX) == emptied
