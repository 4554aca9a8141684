"""What a tool may change in its own session: a closed set of values, which the session applies when it records the result.

Values only; applying one is in `step_context`. A tool that could reach into its session would act where no
journal sees it; a change travels in the signal of the result, so it is replayed like everything else.
"""

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
    """Say what is wrong with a list of todos, in one sentence; None when nothing is."""
    if len(todos) > MAX_TODOS:
        return f"{len(todos)} todos are too many: at most {MAX_TODOS}"
    counted = Counter(todo.id for todo in todos)
    double = [name for name, count in counted.items() if count > 1]
    if double:
        return f"the id {double[0]!r} is there {counted[double[0]]} times: each id once"
    for todo in todos:
        if not todo.content.strip():
            return f"the todo {todo.id!r} has no content: say what is to be done"
        if len(todo.content) > MAX_TODO_CHARACTERS:
            return f"the todo {todo.id!r} has {len(todo.content)} characters: at most {MAX_TODO_CHARACTERS}"
    return None


class UpdateTodos(TaggedValue, frozen=True, kw_only=True):
    """Replace the list that the model keeps of its work; publishes `TodoChange`.

    Attributes:
        todos: All of them: ids unique, at most 100 of 1,000 characters. Others raise `ToolContractError`.
    """

    todos: tuple[Todo, ...]

    def __post_init__(self) -> None:
        """Keep the todos, because the tool's own list may go on changing, and refuse those that are none."""
        force_setattr(self, "todos", tuple(self.todos))
        fault = fault_of_todos(self.todos)
        if fault is not None:
            message = f"UpdateTodos: {fault}"
            raise ToolContractError(message)


class UpdateContext(TaggedValue, frozen=True, kw_only=True):
    """Set something that the session keeps beside its conversation.

    Attributes:
        key: `memory` is what the tools of a session keep between their calls, and no model sees it. Any other key names
            a section of the system prompt. `todos` is refused: they have a change of their own.
        value: Of `memory` any JSON; of a section its text. None removes it. Others raise `ToolContractError`.
    """

    key: str
    value: JsonValue

    def __post_init__(self) -> None:
        """Freeze the value, and refuse what the session could not keep."""
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
    """Have the conversation shortened before the next request.

    Attributes:
        reason: For people.
    """

    reason: str | None = None


Change: TypeAlias = UpdateTodos | UpdateContext | RequestCompaction
"""All that a tool can change in its session."""
