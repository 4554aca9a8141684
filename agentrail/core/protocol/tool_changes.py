"""Changes that a tool may make in its own session: a closed set of values, applied when the session records the result."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

from msgspec.structs import force_setattr

from agentrail.errors import ToolContractError
from agentrail.events import Todo
from agentrail.frozen import frozen_value, not_json
from agentrail.messages import JsonValue
from agentrail.structs import TaggedValue

MAX_TODOS: Final = 100
MAX_TODO_CHARACTERS: Final = 1_000


def fault_of_todos(todos: Sequence[Todo]) -> str | None:
    if len(todos) > MAX_TODOS:
        return f"{len(todos)} todos are too many: the limit is {MAX_TODOS}"
    counted = Counter(todo.id for todo in todos)
    double = [name for name, count in counted.items() if count > 1]
    if double:
        return f"the id {double[0]!r} is there {counted[double[0]]} times: ids must be unique"
    for todo in todos:
        if not todo.content.strip():
            return f"the todo {todo.id!r} has no content: describe the task"
        if len(todo.content) > MAX_TODO_CHARACTERS:
            return f"the todo {todo.id!r} has {len(todo.content)} characters: at most {MAX_TODO_CHARACTERS}"
    return None


class UpdateTodos(TaggedValue, frozen=True, kw_only=True):
    """Replace the model's task list. Publishes `TodoChange`.

    Attributes:
        todos: All of them: unique ids, at most 100, each of at most 1,000 characters. Others raise
            `ToolContractError`.
    """

    todos: tuple[Todo, ...]

    def __post_init__(self) -> None:
        """Copy the todos, because the tool may change its own list later, and refuse invalid ones."""
        force_setattr(self, "todos", tuple(self.todos))
        fault = fault_of_todos(self.todos)
        if fault is not None:
            message = f"UpdateTodos: {fault}"
            raise ToolContractError(message)


class UpdateContext(TaggedValue, frozen=True, kw_only=True):
    """Set data that the session keeps in addition to its conversation.

    Attributes:
        key: `memory` is data that the tools of a session keep between calls, and no model sees it. Any other key
            names a section of the system prompt. `todos` is refused: use `UpdateTodos`.
        value: For `memory` any JSON, for a section its text. None removes it. Others raise `ToolContractError`.
    """

    key: str
    value: JsonValue

    def __post_init__(self) -> None:
        """Freeze the value, and refuse one that the session could not store."""
        force_setattr(self, "value", frozen_value(self.value))
        key, value = self.key, self.value
        if not key:
            message = "UpdateContext has an empty key: name a section of the system prompt, or `memory`"
            raise ToolContractError(message)
        if key == "todos":
            message = "UpdateContext has the key 'todos': return UpdateTodos(todos=…) instead"
            raise ToolContractError(message)
        if key != "memory" and not (value is None or isinstance(value, str)):
            message = (
                f"UpdateContext sets the section {key!r} of the system prompt to {type(value).__name__}: "
                "expected text, or None to remove it"
            )
            raise ToolContractError(message)
        fault = not_json(value, "value")
        if fault is not None:
            message = f"UpdateContext sets {key!r}: {fault}, and the session could not keep it"
            raise ToolContractError(message)


class RequestCompaction(TaggedValue, frozen=True, kw_only=True):
    """Compact the conversation before the next request.

    Attributes:
        reason: For users.
    """

    reason: str | None = None


Change: TypeAlias = UpdateTodos | UpdateContext | RequestCompaction
"""All changes that a tool can make in its session."""
