"""The tool `forget`: removes one memory of the user, for good."""

from typing import Annotated

import msgspec

from agentrail.abc import Error, Ok, ToolContext
from agentrail.errors import AgentrailError
from agentrail.messages import JsonObject
from agentrail.tools.function import tool
from agentrail.tools.remembered import NO_MEMORIES, NO_SUCH


def _label(arguments: JsonObject) -> str:
    return f"Forget {arguments.get('id')}"


@tool(name="forget", effect_class="idempotent", timeout_seconds=30, label=_label)
async def forget_memory(
    id: Annotated[str, msgspec.Meta(min_length=1), "Of the memory, as recall shows it."],  # noqa: A002 - what the model reads in the fence
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """Forget one memory for good, because it is wrong, out of date, or the user wants it gone."""
    if ctx.memories is None:
        return Error(text=NO_MEMORIES)
    try:
        was_there = await ctx.memories.delete(id)
    except AgentrailError as error:
        return Error(text=f"Nothing was forgotten: {error}")
    if not was_there:
        return Error(text=NO_SUCH)
    ctx.emit("memory_forgotten", {"id": id})
    return Ok(text="It is forgotten.")
