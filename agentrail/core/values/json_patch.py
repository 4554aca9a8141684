"""The difference between two JSON documents as a JSON Patch (RFC 6902). Pure."""

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

_TRIMMED_DEEP: Final = 8
"""Depth down to which lists are compared for common beginnings and ends.

Each level reads everything below it once more, so a very deep document would cost the square of its length. Deeper
lists are compared by position.
"""


class PatchStep(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One operation of a JSON Patch.

    Attributes:
        op: The operation: `add`, `remove` or `replace`.
        path: Its target, as a JSON Pointer (RFC 6901). Empty for the whole document.
        value: The new value. Absent in a `remove`.
    """

    op: Literal["add", "remove", "replace"]
    path: str
    value: Any | UnsetType = UNSET


def json_patch(one: Any, other: Any) -> tuple[PatchStep, ...]:
    found: list[PatchStep] = []
    todo: list[tuple[str, int, Any, Any]] = [("", 0, one, other)]
    while todo:
        path, depth, left, right = todo.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            found += _of_names(path, left, right)
            shared = [name for name in left if name in right]
            todo += [(_below(path, name), depth + 1, left[name], right[name]) for name in reversed(shared)]
        elif isinstance(left, list) and isinstance(right, list):
            begin, ends = _alike(left, right) if depth < _TRIMMED_DEEP else (0, 0)
            here, there = len(left) - ends, len(right) - ends
            pairs = range(begin, min(here, there))
            found += _of_places(path, here, there, right)
            todo += [(f"{path}/{place}", depth + 1, left[place], right[place]) for place in reversed(pairs)]
        elif type(left) is not type(right) or left != right:
            found.append(PatchStep(op="replace", path=path, value=right))
    return tuple(found)


def _of_names(path: str, left: dict[str, Any], right: dict[str, Any]) -> Iterator[PatchStep]:
    for name in left:
        if name not in right:
            yield PatchStep(op="remove", path=_below(path, name))
    for name, item in right.items():
        if name not in left:
            yield PatchStep(op="add", path=_below(path, name), value=item)


def _of_places(path: str, here: int, there: int, right: list[Any]) -> Iterator[PatchStep]:
    """Yield the steps that adjust the length of a list. Members that are compared in pairs keep their positions."""
    for _ in range(there, here):
        yield PatchStep(op="remove", path=f"{path}/{there}")
    for place in range(here, there):
        yield PatchStep(op="add", path=f"{path}/{place}", value=right[place])


def _alike(left: list[Any], right: list[Any]) -> tuple[int, int]:
    """Return how many members two lists share at their beginning, and how many of the rest at their end."""
    one, other = [msgspec.json.encode(item) for item in left], [msgspec.json.encode(item) for item in right]
    most = min(len(one), len(other))
    begin = 0
    while begin < most and one[begin] == other[begin]:
        begin += 1
    ends = 0
    while ends < most - begin and one[-1 - ends] == other[-1 - ends]:
        ends += 1
    return begin, ends


def _below(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
