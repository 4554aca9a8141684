"""The tool `write_todos`: the model's list of its work."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from agentrail.abc import Error, ToolUpdate
from agentrail.core.protocol.tool_changes import MAX_TODO_CHARACTERS, MAX_TODOS, UpdateTodos, fault_of_todos
from agentrail.events import Todo, TodoStatus
from agentrail.tools.function import tool

_STATUSES: Final[tuple[TodoStatus, ...]] = ("completed", "in_progress", "pending", "cancelled")


class TodoEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry, as the model writes it."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=64, description="Unique in the list.")]
    content: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TODO_CHARACTERS)]
    status: TodoStatus = "pending"


@tool(effect_class="idempotent", killable=False, timeout_seconds=30)
async def write_todos(  # noqa: RUF029 - in the loop: a plain function would have a thread
    todos: Annotated[
        list[TodoEntry], msgspec.Meta(max_length=MAX_TODOS), "All of them: the list is replaced."
    ],
) -> ToolUpdate | Error:
    """Write down what you have to do, and how far you are. Call it again when that changes."""
    entries = tuple(Todo(id=todo.id, content=todo.content, status=todo.status) for todo in todos)
    fault = fault_of_todos(entries)
    if fault is not None:
        return Error(text=f"The list stays as it was: {fault}.")
    return ToolUpdate(UpdateTodos(todos=entries), text=render_todos(entries))


def render_todos(todos: Sequence[Todo]) -> str:
    counts = Counter(todo.status for todo in todos)
    parts = [f"{counts[status]} {status.replace('_', ' ')}" for status in _STATUSES if counts[status]]
    return f"{len(todos)} todos: {', '.join(parts)}." if parts else "The list of todos is empty now."
