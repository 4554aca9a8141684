"""The sandbox that a supervisor makes for a session which brought none."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias

from agentrail.abc import Sandbox


class OwnSandbox(Sandbox, Protocol):
    """A sandbox that the supervisor made for one session, and closes after it."""

    async def aclose(self) -> None:
        """Release what it holds."""
        ...


MakeSandbox: TypeAlias = Callable[[str, Path], OwnSandbox]
"""Turns a name such as `memory`, and the working directory, into a sandbox."""


def is_unconfined(sandbox: Sandbox) -> bool:
    """Say whether it is known that commands run in a sandbox with the user's rights; one that says nothing confines them."""
    return getattr(sandbox, "is_unconfined", False) is True


class Workspace:
    """The sandbox of one session, opened by the first tool that wants it.

    Ten thousand sessions that touch no file would otherwise hold ten thousand directories open, and most systems allow
    a tenth of that.
    """

    __slots__ = ("_make", "_opened")

    def __init__(self, make: Callable[[], OwnSandbox]) -> None:
        """Open nothing yet."""
        self._make = make
        self._opened: OwnSandbox | None = None

    def open(self) -> Sandbox:
        """Give the sandbox, the same one each time."""
        if self._opened is None:
            self._opened = self._make()
        return self._opened

    @property
    def is_unconfined(self) -> bool:
        """Whether it is known that commands run with the user's rights; nothing is opened to find out."""
        return self._opened is not None and is_unconfined(self._opened)

    async def aclose(self) -> None:
        """Close what was opened."""
        if self._opened is not None:
            await self._opened.aclose()
