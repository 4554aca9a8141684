"""The tool `shell`: a command in the workspace, with what it printed and how it ended."""

from typing import Annotated, Final

import msgspec

from agentrail.abc import Error, ExecuteOptions, ExecuteResult, Ok, ToolContext, ToolListing
from agentrail.messages import JsonObject
from agentrail.tools.background import run_in_background, signal_name
from agentrail.tools.function import tool

MAX_COMMAND_SECONDS: Final = 600


MAX_SHELL_LABEL_CHARACTERS: Final = 80


def _label(arguments: JsonObject) -> str:
    line, _, more = str(arguments.get("command", "")).strip().partition("\n")
    return (
        f"{line[:MAX_SHELL_LABEL_CHARACTERS]} …" if more or len(line) > MAX_SHELL_LABEL_CHARACTERS else line
    )


_DESCRIPTION: Final = "Run a shell command and return its output and exit code. What it leaves running in the background is stopped."
_UNCONFINED: Final = "Commands are not confined here: they run with all rights of the user."


def _describe(listing: ToolListing) -> str:
    return f"{_DESCRIPTION} {_UNCONFINED}" if listing.is_unconfined else _DESCRIPTION


# The time of the tool is that of the longest command and five seconds, for the command's own stop; a shorter command
# is ended by the sandbox, which can still tell what it printed.
@tool(timeout_seconds=MAX_COMMAND_SECONDS + 5, label=_label, description=_describe)
async def shell(
    command: Annotated[str, "What to run, as in `bash -c`. It cannot ask questions: its input is closed."],
    timeout_seconds: Annotated[
        float,
        msgspec.Meta(ge=1, le=MAX_COMMAND_SECONDS),
        "After this time it is stopped, with all it started.",
    ] = 30,
    workdir: Annotated[str, "Where to run it, relative to the working directory."] = ".",
    background: Annotated[  # noqa: FBT002 - what the model writes
        bool,
        "For a server or a long job: answer at once with an id and let it run on, without a time limit, until it ends or is stopped.",
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
    """Write the output, then how the command ended.

    Args:
        result: What it did.
        within_seconds: The time it had.

    Returns:
        `Ok` when the command ended by itself, whatever its exit code, for that is information; `Error` when it was
        stopped.
    """
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
    seconds = f"{result.duration_ms / 1000:.1f} s"
    if result.exit_code is not None:
        parts.append(f"[exit code {result.exit_code} · {seconds}]")
        return Ok(text="\n".join(parts))
    if result.signal is not None:
        parts.append(f"[ended by {signal_name(result.signal)} · {seconds}]")
        return Ok(text="\n".join(parts))
    parts.append(f"[stopped · {seconds}]")
    return Error(text="\n".join(parts))
