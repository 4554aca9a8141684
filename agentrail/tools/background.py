"""A command that runs on behind its call: begun, followed to its end, and stopped with the session. What the model reads of it, it asks for."""

import signal
from typing import Final

import trio

from agentrail.abc import MAX_BACKGROUND_COMMANDS, BackgroundCommand, Error, Ok, ToolContext, ToolProcess
from agentrail.errors import ProcessRefused

MAX_PROCESSOR_SECONDS: Final = 86_400.0
"""How much processor time it may use: a day's, which bounds one that spins while no one looks."""

_DRAIN_SECONDS: Final = 0.5
"""How long its last words are waited for where something that it left running holds its output open."""

# Read by `sh`, which every sandbox has: bash where there is one, as for a command in the foreground.
_CHOOSE_SHELL: Final = 'command -v bash >/dev/null 2>&1 && exec bash -c "$1"; exec sh -c "$1"'


async def run_in_background(command: str, workdir: str, ctx: ToolContext) -> Ok | Error:
    """Begin a command, answer the call with its id, and follow it until it has ended.

    Args:
        command: For the shell.
        workdir: Where it begins.
        ctx: Of the call, which is answered as soon as the command runs.

    Returns:
        Why it was not begun; or how it ended, which the model reads as a note.

    Cancellation: It is stopped with all that it started, by what runs the call.
    """
    if ctx.tools and "shell_output" not in ctx.tools:
        return Error(
            text="Not started: nothing runs in the background here, because there is no shell_output to read it with."
        )
    fault = _fault_of(command)
    if fault is not None:
        return Error(text=fault)
    begun = ctx.commands.begin(ctx.operation_id, command)
    if begun is None:
        running = ", ".join([f"{one.id} ({one.command})" for one in ctx.commands.running])
        return Error(
            text=f"Not started: {MAX_BACKGROUND_COMMANDS} commands run in the background already, and no more may. "
            f"Stop one with shell_stop first: {running}."
        )
    how = "stopped"
    try:
        process = await ctx.open_process(
            ("sh", "-c", _CHOOSE_SHELL, "sh", command), workdir=workdir, timeout_seconds=MAX_PROCESSOR_SECONDS
        )
        ctx.detach(_begun_text(begun), {"id": begun.id})
        with begun.scope:
            how = await _follow(process, begun)
        await process.stop()
    except ProcessRefused as refused:
        ctx.commands.forget(begun)
        return Error(text=str(refused))
    finally:
        begun.close(how)
    return Ok(
        text=f"{begun.id} has ended ({how}). shell_output gives what it printed since it was read last."
    )


def _begun_text(begun: BackgroundCommand) -> str:
    return (
        f"{begun.id} runs in the background. shell_output gives what it prints, shell_stop ends it; "
        "it ends with the session."
    )


def _fault_of(command: str) -> str | None:
    try:
        if b"\0" not in command.encode():
            return None
    except UnicodeEncodeError:
        pass
    return "The command has a NUL or a lone surrogate in it, which no command can have. Leave it out."


async def _follow(process: ToolProcess, begun: BackgroundCommand) -> str:
    """Take what it prints until it has ended, and say how. What it left running is stopped behind this."""
    is_read = trio.Event()

    async def read() -> None:
        async for piece in process.stdout:
            begun.take(piece)
        is_read.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await process.stdin.aclose()
        code = await process.wait()
        with trio.move_on_after(_DRAIN_SECONDS):
            await is_read.wait()
        nursery.cancel_scope.cancel()
    return f"exit code {code}" if code >= 0 else f"ended by {signal_name(-code)}"


def signal_name(number: int) -> str:
    """Name a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name of its own
        return f"signal {number}"
