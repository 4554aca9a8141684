"""What a tool changes in its session, as one option of a scenario: `changes=[{"compact": "too long"}]`, and back."""

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

import msgspec

from agentrail.core.protocol.changes import Change, RequestCompaction, UpdateContext, UpdateTodos
from agentrail.events import Todo


def decode_changes(listed: Iterable[Mapping[str, Any]]) -> tuple[Change, ...]:
    """Read the option.

    Raises:
        ValueError: Your move: an object that stands for no change.
    """
    return tuple(map(_decode, listed))


def encode_changes(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Write the option."""
    return [_encode(change) for change in changes]


def _decode(written: Mapping[str, Any]) -> Change:
    match written:
        case {"todos": todos}:
            return UpdateTodos(todos=tuple(Todo(**todo) for todo in todos))
        case {"context": key, "value": value}:
            return UpdateContext(key=key, value=value)
        case {"compact": reason}:
            return RequestCompaction(reason=reason)
        case _:
            message = f"{dict(written)!r} is no change: expected todos, context and value, or compact"
            raise ValueError(message)


def _encode(change: Change) -> dict[str, Any]:
    match change:
        case UpdateTodos(todos=todos):
            return {"todos": [msgspec.structs.asdict(todo) for todo in todos]}
        case UpdateContext(key=key, value=value):
            return {"context": key, "value": value}
        case RequestCompaction(reason=reason):
            return {"compact": reason}
        case _ as never:
            assert_never(never)
