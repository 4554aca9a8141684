"""The tool `shell`: runs a command in the workspace, and returns its output and exit status."""

import signal
from typing import Annotated, Final

import msgspec
import trio

from agentrail.abc import (
    MAX_BACKGROUND_COMMANDS,
    BackgroundCommand,
    Error,
    ExecuteOptions,
    ExecuteResult,
    Ok,
    ToolContext,
    ToolListing,
    ToolProcess,
)
from agentrail.errors import ProcessRefused
from agentrail.messages import JsonObject
from agentrail.tools.function import tool

# Background commands: started, followed to their end, and stopped with the session. The model reads their
# output on request.


MAX_PROCESSOR_SECONDS: Final = 86_400.0
"""Limit of CPU time, in seconds: one day, which stops a forgotten busy loop."""

_DRAIN_SECONDS: Final = 0.5
"""Time to wait for the last output if a leftover process holds it open, in seconds."""

# Run by `sh`, which every sandbox has. Prefers bash, as for a foreground command.
_CHOOSE_SHELL: Final = 'command -v bash >/dev/null 2>&1 && exec bash -c "$1"; exec sh -c "$1"'


async def run_in_background(command: str, workdir: str, ctx: ToolContext) -> Ok | Error:
    """Start a command, answer the call with its id, and follow it until it ends.

    Cancellation: The runner of the call stops the command and all processes that it started.
    """
    if ctx.tools and "shell_output" not in ctx.tools:
        return Error(
            text="Not started: background commands are not possible here, because there is no shell_output to read their output."
        )
    fault = _fault_of(command)
    if fault is not None:
        return Error(text=fault)
    begun = ctx.commands.begin(ctx.operation_id, command)
    if begun is None:
        running = ", ".join([f"{one.id} ({one.command})" for one in ctx.commands.running])
        return Error(
            text=f"Not started: {MAX_BACKGROUND_COMMANDS} commands are already running in the background, which is the limit. Stop one with shell_stop first: {running}."
        )
    how = "stopped"
    try:
        process = await ctx.open_process(
            ("sh", "-c", _CHOOSE_SHELL, "sh", command), workdir=workdir, timeout_seconds=MAX_PROCESSOR_SECONDS
        )
        said = f"{begun.id} runs in the background. shell_output returns its output, shell_stop ends it; it ends with the session."
        ctx.detach(said, {"id": begun.id})
        with begun.scope:
            how = await _follow(process, begun)
        await process.stop()
    except ProcessRefused as refused:
        ctx.commands.forget(begun)
        return Error(text=str(refused))
    finally:
        begun.close(how)
    return Ok(text=f"{begun.id} has ended ({how}). shell_output returns its output since the last read.")


def _fault_of(command: str) -> str | None:
    if "\0" not in command and not any("\ud800" <= character <= "\udfff" for character in command):
        return None
    return "The command contains a NUL or a lone surrogate, which is not allowed. Remove it."


async def _follow(process: ToolProcess, begun: BackgroundCommand) -> str:
    """Collect its output until it ends, and return how it ended. Leftover processes are stopped afterwards."""
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
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name of its own
        return f"signal {number}"


MAX_COMMAND_SECONDS: Final = 600


MAX_SHELL_LABEL_CHARACTERS: Final = 80


def _label(arguments: JsonObject) -> str:
    line, _, more = str(arguments.get("command", "")).strip().partition("\n")
    return (
        f"{line[:MAX_SHELL_LABEL_CHARACTERS]} …" if more or len(line) > MAX_SHELL_LABEL_CHARACTERS else line
    )


_DESCRIPTION: Final = "Run a shell command and return its output and exit code. Processes that it leaves in the background are stopped."
_UNCONFINED: Final = "Commands are not confined here: they run with all rights of the user."


def _describe(listing: ToolListing) -> str:
    return f"{_DESCRIPTION} {_UNCONFINED}" if listing.is_unconfined else _DESCRIPTION


# The tool's time limit is that of the longest command plus five seconds for stopping it. The sandbox ends a
# shorter command itself, and can still return its output.
@tool(timeout_seconds=MAX_COMMAND_SECONDS + 5, label=_label, description=_describe)
async def shell(
    command: Annotated[str, "The command, as for `bash -c`. It cannot ask questions: its input is closed."],
    timeout_seconds: Annotated[
        float,
        msgspec.Meta(ge=1, le=MAX_COMMAND_SECONDS),
        "It is stopped after this time, with all processes it started.",
    ] = 30,
    workdir: Annotated[str, "Where to run it, relative to the working directory."] = ".",
    background: Annotated[  # noqa: FBT002 - what the model writes
        bool,
        "For a server or a long job: return an id at once and let it run without a time limit, until it ends or is stopped.",
    ] = False,
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """Run a shell command and return its output and exit code."""
    if background:
        return await run_in_background(command, workdir, ctx)
    options = ExecuteOptions(workdir=workdir, timeout_seconds=timeout_seconds, output_name=ctx.call_id)
    result = await ctx.sandbox.execute(command, options)
    if result.error is not None:
        return Error(text=result.error.message)
    return render_result(result, within_seconds=timeout_seconds)


def render_result(result: ExecuteResult, *, within_seconds: float) -> Ok | Error:
    parts = [result.output.rstrip("\n")] if result.output.strip("\n") else []
    count = result.stopped_processes
    if count:
        parts.append(f"[{count} background {'process was' if count == 1 else 'processes were'} stopped]")
    if result.written_protected:
        parts.append(f"[Protected files were written: {', '.join(result.written_protected)}]")
    if result.timed_out:
        parts.append(
            f"Timed out after {within_seconds:g} s. It may have taken effect; check before repeating."
        )
        return Error(text="\n".join(parts))
    how = "stopped" if result.signal is None else f"ended by {signal_name(result.signal)}"
    if result.exit_code is not None:
        how = f"exit code {result.exit_code}"
    parts.append(f"[{how} · {result.duration_ms / 1000:.1f} s]")
    return (Error if how == "stopped" else Ok)(text="\n".join(parts))
