"""Members of classes and modules, wrapped for the time of a block: how the test kit watches what has no event."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

Seam: TypeAlias = tuple[Any, str, Callable[[Any], Any]]
"""Where a member is, its name, and what makes the watched one of the one before."""


@contextmanager
def wrapped(seams: Iterable[Seam]) -> Iterator[None]:
    """Wrap each, one after the other, and put back what was there, last one first.

    Not in two threads at once: what is wrapped belongs to the process.
    """
    with ExitStack() as stack:
        for owner, name, wrap in seams:
            before = getattr(owner, name)
            stack.callback(setattr, owner, name, before)
            setattr(owner, name, wrap(before))
        yield
