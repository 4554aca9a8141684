"""Whether a value offers the methods of a port: checked on the value itself, the same in each Python version.

`isinstance` with a port checks the value in Python 3.11, and its class from 3.12 on.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeIs

P = TypeVar("P")


def offers(value: object, port: Callable[..., P]) -> "TypeIs[P]":
    """Return whether a value has all members of a port, its own or those that its `__getattr__` finds."""
    bases: tuple[type, ...] = getattr(port, "__mro__", ())
    return all(
        hasattr(value, name)
        for base in bases
        if getattr(base, "_is_protocol", False)
        for name in (*vars(base), *getattr(base, "__annotations__", ()))
        if not name.startswith("_")
    )
