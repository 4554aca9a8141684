"""Long-lived processes of tool sources. They belong to their source, not to a call, and end with it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from agentrail.abc import ServerProcess
from agentrail.sandboxes.command_process import Program, open_process
from agentrail.sandboxes.command_runner import passed_on


@asynccontextmanager
async def open_server_process(
    argv: tuple[str, ...], *, directory: str, env: Mapping[str, str]
) -> AsyncIterator[ServerProcess]:
    """Open a process with the variables that commands get. Leaving the block stops it with all its descendants.

    It has two seconds to leave after its input was closed, two more after `SIGTERM`, then it is killed.

    Raises:
        OSError: It could not be started.

    Cancellation: Shielded while it is stopped, for at most about seven seconds.
    """
    program = Program(
        argv=argv,
        confine=None,
        directory=directory,
        environment=passed_on() | dict(env),
    )
    async with open_process(program, errors="apart") as process:
        try:
            yield process
        finally:
            await process.ask_to_leave()  # noqa: ASYNC102 - shielded and bounded inside
