"""Long-lived processes of tool sources. They belong to their source, not to a call, and end with it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from agentrail.abc import ProcessOptions, ServerProcess
from agentrail.sandboxes.bubblewrap import Network
from agentrail.sandboxes.command_process import Program, open_process
from agentrail.sandboxes.command_runner import passed_on
from agentrail.sandboxes.local import LocalSandbox

_CPU_SECONDS: Final = 1e8
"""CPU time limit of a confined server: three years."""


@asynccontextmanager
async def open_server_process(
    argv: tuple[str, ...], *, directory: str, env: Mapping[str, str], network: Network | None = None
) -> AsyncIterator[ServerProcess]:
    """Open a process with the variables that commands get. Leaving the block stops it with all its descendants.

    It has two seconds to leave after its input was closed, two more after `SIGTERM`, then it is killed.

    Raises:
        OSError: It could not be started.
        ProcessRefused: It is to be confined, and processes cannot be confined here.
        SandboxError: It is to be confined to a directory that cannot be one of a sandbox.

    Cancellation: Shielded while it is stopped, for at most about seven seconds.
    """
    if network is None:
        program = Program(argv=argv, confine=None, directory=directory, environment=passed_on() | dict(env))
        opening = open_process(program, errors="apart")
    else:
        sandbox = LocalSandbox(directory, network=network)
        options = ProcessOptions(env=env, timeout_seconds=_CPU_SECONDS)
        opening = sandbox.open_process(argv, options, errors="apart")
    async with opening as process:
        try:
            yield process
        finally:
            await process.ask_to_leave()  # noqa: ASYNC102 - shielded and bounded inside
