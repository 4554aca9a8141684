"""The tool `forget`: permanently removes one memory of the user, or one topic of the working notes."""

from typing import Annotated

from agentrail.abc import Error, Ok, ToolContext
from agentrail.errors import AgentrailError
from agentrail.messages import JsonObject
from agentrail.tools.function import tool
from agentrail.tools.memory_text import NO_MEMORIES, NO_SUCH, NOTES_MISSING


def _label(arguments: JsonObject) -> str:
    return f"Forget {arguments.get('id') or arguments.get('topic')}"


@tool(name="forget", effect_class="idempotent", timeout_seconds=30, label=_label)
async def forget_memory(
    id: Annotated[str, "The id of the memory, as recall shows it."] = "",  # noqa: A002 - what the model reads in the fence
    topic: Annotated[
        str, "Instead of an id: a topic of your working notes, with all that is noted under it."
    ] = "",
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """Forget one memory, or one topic of your working notes, for good: it is wrong, out of date, or the user wants it gone."""
    if bool(id) == bool(topic.strip()):
        return Error(text="Nothing was forgotten: name either the id of a memory, or a topic of your notes.")
    try:
        return await (_forget_memory(id, ctx) if id else _forget_topic(topic.strip(), ctx))
    except AgentrailError as error:
        return Error(text=f"Nothing was forgotten: {error}")


async def _forget_memory(entry_id: str, ctx: ToolContext) -> Ok | Error:
    if ctx.memories is None:
        return Error(text=NO_MEMORIES)
    if not await ctx.memories.delete(entry_id):
        return Error(text=NO_SUCH)
    ctx.emit("memory_forgotten", {"id": entry_id})
    return Ok(text="It is forgotten.")


async def _forget_topic(topic: str, ctx: ToolContext) -> Ok | Error:
    if ctx.notes is None:
        return Error(text=NOTES_MISSING)
    if not await ctx.notes.remove(topic):
        return Error(text="There is no such topic in your working notes: use one that recall has shown.")
    ctx.emit("note_forgotten", {"topic": topic})
    return Ok(text="It is forgotten.")
