"""The tool `shell_output`: new output of a background command since the last read, and whether it still runs."""

from typing import Annotated

from agentrail.abc import Error, Ok, ToolContext
from agentrail.tools.function import tool


# `pure`: only the read position changes, and nothing outside. Repeated calls do not count as a loop.
@tool(effect_class="pure", timeout_seconds=30, polling=True)
async def shell_output(  # noqa: RUF029 - in the loop: a plain function would have a thread
    id: Annotated[str, "The id that shell returned."],  # noqa: A002 - what the model writes
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """Read what a command in the background has printed since the last time, and whether it is still running."""
    begun = ctx.commands.find(id)
    return Error(text=ctx.commands.explain_unknown(id)) if begun is None else Ok(text=begun.read())
