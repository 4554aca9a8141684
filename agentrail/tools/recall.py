"""The tool `recall`: memories from earlier sessions of the same user, and notes of this one."""

from typing import Annotated

import msgspec

from agentrail.abc import MAX_TAGS, Error, Ok, ToolContext
from agentrail.core.values.notes_markdown import notes_about, topics_of
from agentrail.errors import AgentrailError
from agentrail.messages import JsonObject
from agentrail.tools.function import tool
from agentrail.tools.memory_text import NO_MEMORIES, NOTES_MISSING, fenced, fenced_notes
from agentrail.tools.tool_text import printable

MAX_RECALLED = 20
"""Maximum memories per call, of at most 8 KiB each, so that they fit into a result."""


def _label(arguments: JsonObject) -> str:
    wanted = arguments.get("query") or arguments.get("topic") or "the newest memories"
    return f"Recall {str(wanted)[:60]!r}"


@tool(name="recall", effect_class="pure", timeout_seconds=30, label=_label)
async def recall_memories(
    query: Annotated[str, "Words to search for; empty for the newest memories."] = "",
    tags: Annotated[
        tuple[str, ...],
        msgspec.Meta(max_length=MAX_TAGS),
        "Only memories with one of these tags, exactly as they were written.",
    ] = (),
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_RECALLED), "How many to show at most."] = 5,
    topic: Annotated[
        str,
        "Instead of a query: a topic of your working notes, returned whole; * for the list of topics.",
    ] = "",
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """Look up what was remembered about the user and their work in earlier conversations, or a topic of your working notes."""
    wanted = dict.fromkeys(tag.strip() for tag in tags)
    try:
        if topic.strip():
            return await _read_notes(topic.strip(), ctx)
        if ctx.memories is None:
            return Error(text=NO_MEMORIES)
        if query.strip():
            memories = ctx.memories.telling(lambda reason: ctx.emit("memory_words_only", {"reason": reason}))
            found = await memories.search(query, tags_any=wanted, limit=limit)
        else:
            found = await ctx.memories.newest(tags_any=wanted, limit=limit)
    except AgentrailError as error:
        return Error(text=f"The search failed: {error}")
    if not found:
        about = f' about "{printable(query[:200])}"' if query.strip() else ""
        return Ok(
            text=f"No memories found{about}{' with these tags' if tags else ''}. Try other words, or fewer tags."
        )
    return Ok(text=fenced(found), details={"ids": [entry.id for entry in found]})


async def _read_notes(topic: str, ctx: ToolContext) -> Ok | Error:
    if ctx.notes is None:
        return Error(text=NOTES_MISSING)
    text = await ctx.notes.read()
    topics = [one.name for one in topics_of(text)]
    found = notes_about(text, topic)
    if found is not None:
        return Ok(text=fenced_notes(topic, found), details={"topic": topic})
    listed = ", ".join(map(printable, topics)) or "none yet"
    if topic == "*":
        return Ok(text=f"Topics of your working notes: {listed}.", details={"topics": [*topics]})
    return Error(text=f"There is no topic {printable(topic[:80])!r} in your working notes. Topics: {listed}.")
