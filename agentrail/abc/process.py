"""The port of an interactive process, and of the sandboxes that can open one."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Literal, Protocol, runtime_checkable

import trio
from attrs import frozen


@frozen(kw_only=True)
class ProcessOptions:
    """Options of a process.

    Attributes:
        workdir: Initial directory.
        env: Extra environment variables, in addition to those of every command.
        errors: Destination of standard error: `merged` into standard output, or `dropped`.
        timeout_seconds: Expected run time in seconds, from which the CPU time limit is derived.
    """

    workdir: str = "."
    env: Mapping[str, str] = MappingProxyType({})
    errors: Literal["merged", "dropped"] = "merged"
    timeout_seconds: float = 600.0


class ToolProcess(Protocol):
    """A process in a sandbox, with a pipe to it and one from it."""

    @property
    def pid(self) -> int:
        """Process id on this machine. For a confined process, that of the outermost wrapper."""
        ...

    @property
    def stdin(self) -> trio.abc.SendStream:
        """Standard input of the process. Close it to signal end of file."""
        ...

    @property
    def stdout(self) -> trio.abc.ReceiveStream:
        """Standard output of the process. Keep reading it: a full pipe blocks the process."""
        ...

    async def wait(self) -> int:
        """Wait for the process and return its exit code, or minus the number of the signal that ended it, if known.

        Cancellation: Only the wait is cancelled.
        """
        ...

    async def stop(self) -> None:
        """Stop the process and its descendants: `SIGTERM`, two seconds, `SIGKILL`. Reaps them and closes the pipes. Idempotent.

        Cancellation: Shielded, and limited to about five seconds.
        """
        ...


@runtime_checkable
class ProcessSandbox(Protocol):
    """A sandbox that can open interactive processes. A sandbox with `execute` need not support this."""

    def open_process(
        self, argv: Sequence[str], options: ProcessOptions
    ) -> AbstractAsyncContextManager[ToolProcess]:
        """Open a process. Leaving the block stops it and its descendants, shielded and with a time limit.

        Raises:
            ProcessRefused: The process was not started.
        """
        ...
