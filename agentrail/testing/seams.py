"""Temporary wrappers around members of classes and modules. The test kit uses them to observe code that has no events."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, TypeAlias

Seam: TypeAlias = tuple[Any, str, Callable[[Any], Any]]
"""The owner of a member, its name, and a function that wraps the original."""


def around(call: Callable[..., Any]) -> Callable[[Any], Any]:
    """Make a wrap of a function that is called with the original and then its arguments."""

    def wrap(before: Any) -> Any:
        @wraps(before)
        def instead(*args: Any, **options: Any) -> Any:
            return call(before, *args, **options)

        return instead

    return wrap


@contextmanager
def wrapped(seams: Iterable[Seam]) -> Iterator[None]:
    """Wrap each member in order, and restore the originals in reverse order."""
    with ExitStack() as stack:
        for owner, name, wrap in seams:
            before = getattr(owner, name)
            stack.callback(setattr, owner, name, before)
            setattr(owner, name, wrap(before))
        yield
