"""Sandboxes that a supervisor creates for sessions without one."""

from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import trio
from attrs import define, field

from agentrail.abc import Sandbox
from agentrail.wire.sandbox_address import is_alone

_CLOSE_WITHIN_SECONDS: Final = 5.0


class OwnSandbox(Sandbox, Protocol):
    async def aclose(self) -> None: ...


MakeSandbox: TypeAlias = Callable[[str, Path], OwnSandbox]
"""Creates a sandbox from a name such as `memory`, and the working directory."""


def is_unconfined(sandbox: Sandbox) -> bool:
    """Return whether commands are known to run with the user's rights. A sandbox without the attribute confines them."""
    return getattr(sandbox, "is_unconfined", False) is True


@define(eq=False, repr=False, weakref_slot=False)
class Workspace:
    """Sandbox of one session: a given one, or one of its own, opened by the first tool that uses it."""

    _make: MakeSandbox
    _name: str
    _working_dir: str
    _given: Sandbox | None = field(default=None, kw_only=True)
    _opened: OwnSandbox | None = field(init=False, default=None)
    _holders: int = field(init=False, default=0)
    _is_closed: bool = field(init=False, default=False)

    def open(self) -> Sandbox:
        if self._given is not None:
            return self._given
        if self._opened is None:
            self._opened = self._make(self._name, Path(self._working_dir))
        return self._opened

    def take(self, sandbox: OwnSandbox) -> None:
        self._given, self._opened = None, sandbox

    @property
    def place(self) -> Hashable:
        """Identity of the files, equal for two workspaces on the same files: a given sandbox, or a directory."""
        if self._given is not None:
            return id(self._given)
        return id(self) if is_alone(self._name) else (self._name, self._working_dir)

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    def is_unconfined(self) -> bool:
        known = self._opened if self._given is None else self._given
        return known is not None and is_unconfined(known)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[Sandbox]:
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
        self._is_closed = True
        await self._close_left()

    async def _close_left(self) -> None:
        if self._is_closed and not self._holders and self._opened is not None:
            await self._opened.aclose()
