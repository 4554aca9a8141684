"""The port of an interactive process."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Literal, Protocol, runtime_checkable

import trio
from attrs import frozen

from agentrail.otp.field_rules import CheckedFields, TimeLimit


@frozen(kw_only=True)
class ProcessOptions(CheckedFields):
    """Options of a process.

    Attributes:
        workdir: Initial directory.
        env: Environment variables in addition to those of every command.
        errors: Destination of standard error: `merged` into standard output, or `dropped`.
        timeout_seconds: Expected run time in seconds, which sets the CPU time limit.
    """

    workdir: str = "."
    env: Mapping[str, str] = MappingProxyType({})
    errors: Literal["merged", "dropped"] = "merged"
    timeout_seconds: TimeLimit = 600.0


class ToolProcess(Protocol):
    """A process in a sandbox, connected by two pipes."""

    @property
    def pid(self) -> int:
        """Process id on this machine, of the outermost wrapper if confined."""
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
        """Wait for the process. Return its exit code, or minus the signal that ended it, if known.

        Cancellation: Only the wait is cancelled.
        """
        ...

    async def stop(self) -> None:
        """Stop the process and its descendants: `SIGTERM`, two seconds, `SIGKILL`. Reaps them and closes the pipes. Idempotent.

        Cancellation: Shielded, for at most about five seconds.
        """
        ...


class ServerProcess(ToolProcess, Protocol):
    """The process of a tool source, whose errors are read apart from its output."""

    @property
    def stderr(self) -> trio.abc.ReceiveStream:
        """Standard error of the process. Keep reading it: a full pipe blocks the process."""
        ...


class OpenServerProcess(Protocol):
    """Opens a process on this machine."""

    def __call__(
        self,
        argv: tuple[str, ...],
        *,
        directory: str,
        env: Mapping[str, str],
        network: Literal["none", "host"] | None = None,
    ) -> AbstractAsyncContextManager[ServerProcess]:
        """Open a process. Leaving the block stops it and its descendants, shielded and with a time limit.

        Args:
            argv: Program and arguments.
            directory: Its working directory.
            env: Variables in addition to those of every command.
            network: Network access of a process that is confined as commands are. None: it has the rights of the user.

        Raises:
            OSError: The process was not started.
            ProcessRefused: Processes cannot be confined here.
        """
        ...


@runtime_checkable
class ProcessSandbox(Protocol):
    """A sandbox that can open interactive processes."""

    def open_process(
        self, argv: Sequence[str], options: ProcessOptions
    ) -> AbstractAsyncContextManager[ToolProcess]:
        """Open a process. Leaving the block stops it and its descendants, shielded and with a time limit.

        Raises:
            ProcessRefused: The process was not started.
        """
        ...
