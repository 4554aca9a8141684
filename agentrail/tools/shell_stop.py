"""The tool `shell_stop`: stops a background command and all processes that it started."""

from typing import Annotated, Final

import trio

from agentrail.abc import Error, Ok, ToolContext
from agentrail.tools.function import tool

_STOPPED_WITHIN_SECONDS: Final = 8.0
"""Longer than a sandbox takes to end a process: a request, two seconds, a kill."""


@tool(effect_class="idempotent", timeout_seconds=30)
async def shell_stop(
    id: Annotated[str, "The id that shell returned."],  # noqa: A002 - what the model writes
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """Stop a command in the background, with all that it started, and read what it printed last."""
    begun = ctx.commands.find(id)
    if begun is None:
        return Error(text=ctx.commands.explain_unknown(id))
    begun.scope.cancel(reason="shell_stop")
    with trio.move_on_after(_STOPPED_WITHIN_SECONDS):
        await begun.wait_gone()
    if begun.is_running:
        return Error(text=f"{id} was told to stop but is still running: check again with shell_output.")
    return Ok(text=begun.read())
