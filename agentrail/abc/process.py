"""The port of a process that is talked to while it runs, and of the sandboxes that open one."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Literal, Protocol, runtime_checkable

import trio
from attrs import frozen


@frozen(kw_only=True)
class ProcessOptions:
    """How a process is opened.

    Attributes:
        workdir: Where it begins.
        env: Variables that it sees besides those that every command sees.
        errors: Where its standard error goes: `merged` into its output, or `dropped`.
        timeout_seconds: How much time it may need; its limit of processor time follows from that.
    """

    workdir: str = "."
    env: Mapping[str, str] = MappingProxyType({})
    errors: Literal["merged", "dropped"] = "merged"
    timeout_seconds: float = 600.0


class ToolProcess(Protocol):
    """A process that was opened in a sandbox, with a pipe to it and one from it."""

    @property
    def pid(self) -> int:
        """Its number on this machine; where it is confined, that of the first process around it."""
        ...

    @property
    def stdin(self) -> trio.abc.SendStream:
        """What it reads; close it to let it read the end."""
        ...

    @property
    def stdout(self) -> trio.abc.ReceiveStream:
        """What it prints. Read it: a full pipe stops it."""
        ...

    async def wait(self) -> int:
        """Wait for its end, and give its exit code; minus the number of the signal that ended it, where it is known.

        Cancellation: Only the waiting ends.
        """
        ...

    async def stop(self) -> None:
        """End it and all that it started: `SIGTERM`, two seconds, `SIGKILL`; reaped, pipes closed. Again if you like.

        Cancellation: Shielded and bounded by about five seconds.
        """
        ...


@runtime_checkable
class ProcessSandbox(Protocol):
    """A sandbox in which a process can be opened that is talked to while it runs; not every one with `execute` is."""

    def open_process(
        self, argv: Sequence[str], options: ProcessOptions
    ) -> AbstractAsyncContextManager[ToolProcess]:
        """Open a process; leaving the block stops it and all that it started, shielded and bounded.

        Raises:
            ProcessRefused: It is not started.
        """
        ...
