"""Whether a value offers the calls of a port: asked of the value itself, on each Python alike.

`isinstance` with a port looks at the value on Python 3.11, and from 3.12 at its class. A wrapper that hands calls on by
`__getattr__` then offers nothing, without an error.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeIs

P = TypeVar("P")


def offers(value: object, port: Callable[..., P]) -> "TypeIs[P]":
    """Say whether a value has all members of a port, its own or those that its `__getattr__` finds."""
    bases: tuple[type, ...] = getattr(port, "__mro__", ())
    return all(
        hasattr(value, name)
        for base in bases
        if getattr(base, "_is_protocol", False)
        for name in (*vars(base), *getattr(base, "__annotations__", ()))
        if not name.startswith("_")
    )
