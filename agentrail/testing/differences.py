"""Where two documents differ, for the messages of checks."""

from typing import Any


def first_difference(one: Any, other: Any, path: str = "$") -> tuple[str, Any, Any]:
    """Return the first place where two documents differ, and both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted({*one, *other}, key=str):
            if one.get(name) != other.get(name):
                return first_difference(one.get(name), other.get(name), f"{path}.{name}")
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        for place, (left, right) in enumerate(zip(one, other, strict=False)):
            if left != right:
                return first_difference(left, right, f"{path}[{place}]")
    return path, one, other
