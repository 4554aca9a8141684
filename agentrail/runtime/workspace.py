"""The sandbox that a supervisor makes for a session which brought none."""

from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import trio

from agentrail.abc import Sandbox
from agentrail.wire.sandbox_address import is_alone

_CLOSE_WITHIN_SECONDS: Final = 5.0


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
    """The sandbox of one session: the one that it brought, or one of its own, opened by the first tool that wants it.

    Ten thousand sessions that touch no file would otherwise hold ten thousand directories open, and most systems allow
    a tenth of that.
    """

    __slots__ = ("_given", "_holders", "_is_closed", "_make", "_name", "_opened", "_working_dir")

    def __init__(
        self, make: MakeSandbox, name: str, working_dir: str, *, given: Sandbox | None = None
    ) -> None:
        """Open nothing yet."""
        self._make = make
        self._name = name
        self._working_dir = working_dir
        self._given = given
        self._opened: OwnSandbox | None = None
        self._holders = 0
        self._is_closed = False

    def open(self) -> Sandbox:
        """Give the sandbox, the same one each time."""
        if self._given is not None:
            return self._given
        if self._opened is None:
            self._opened = self._make(self._name, Path(self._working_dir))
        return self._opened

    def take(self, sandbox: OwnSandbox) -> None:
        """Own a sandbox that was made for this session elsewhere, and close it with the session."""
        self._given, self._opened = None, sandbox

    @property
    def place(self) -> Hashable:
        """What is the same for two workspaces on the same files: a sandbox that was brought, or a directory."""
        if self._given is not None:
            return id(self._given)
        return id(self) if is_alone(self._name) else (self._name, self._working_dir)

    @property
    def is_open(self) -> bool:
        """Whether there is something to close."""
        return self._opened is not None

    def is_unconfined(self) -> bool:
        """Say whether it is known that commands run with the user's rights; nothing is opened to find out."""
        known = self._opened if self._given is None else self._given
        return known is not None and is_unconfined(known)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[Sandbox]:
        """Give the sandbox, and keep it open for the block: for what is no call of the session, so that the session does not wait for it.

        Closed under a write, its root would be a number that the next directory of another session gets.
        """
        if self._is_closed:
            message = "the workspace was closed: its session has ended"
            raise trio.ClosedResourceError(message)
        self._holders += 1
        try:
            yield self.open()
        finally:
            self._holders -= 1
            with trio.move_on_after(_CLOSE_WITHIN_SECONDS, shield=True):
                await self._close_left()

    async def aclose(self) -> None:
        """Close what was made; while it is held, the last holder does."""
        self._is_closed = True
        await self._close_left()

    async def _close_left(self) -> None:
        if self._is_closed and not self._holders and self._opened is not None:
            await self._opened.aclose()
