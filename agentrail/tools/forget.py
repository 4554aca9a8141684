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
    if topic.strip():
        return await _forget_topic(topic.strip(), ctx)
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


async def _forget_topic(topic: str, ctx: ToolContext) -> Ok | Error:
    if ctx.notes is None:
        return Error(text=NOTES_MISSING)
    try:
        was_there = await ctx.notes.remove(topic)
    except AgentrailError as error:
        return Error(text=f"Nothing was forgotten: {error}")
    if not was_there:
        return Error(text="There is no such topic in your working notes: use one that recall has shown.")
    ctx.emit("note_forgotten", {"topic": topic})
    return Ok(text="It is forgotten.")
