"""The tool `remember`: stores a text in the session's working notes, or for later sessions of the same user."""

import hashlib
from typing import Annotated, Literal

import msgspec

from agentrail.abc import MAX_TAGS, Error, Ok, ToolContext
from agentrail.core.values.notes_markdown import MAX_TOPIC_CHARACTERS, USUAL_TOPIC
from agentrail.errors import AgentrailError
from agentrail.messages import JsonObject
from agentrail.tools.function import tool
from agentrail.tools.memory_text import NO_MEMORIES, NOTES_MISSING


def _label(arguments: JsonObject) -> str:
    return f"Remember {str(arguments.get('text'))[:60]!r}"


# A repeated call stores one memory only: its id derives from the operation, and a note is not written twice.
@tool(name="remember", effect_class="idempotent", timeout_seconds=30, label=_label)
async def remember_text(
    text: Annotated[
        str,
        msgspec.Meta(min_length=1),
        "What to remember: one fact, in sentences that can be understood alone.",
    ],
    topic: Annotated[
        str,
        msgspec.Meta(max_length=MAX_TOPIC_CHARACTERS),
        "For a working note: its topic, in one to three words; notes with the same topic are kept together.",
    ] = "",
    scope: Annotated[
        Literal["session", "user"],
        "session: a working note, for the rest of this conversation. user: for all later conversations with this user.",
    ] = "session",
    tags: Annotated[
        tuple[str, ...],
        msgspec.Meta(max_length=MAX_TAGS),
        "With scope user: its subjects, as short words such as food or project-x.",
    ] = (),
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """Remember something: a working note that outlasts a compaction, or with scope user a fact about the user for later conversations."""
    try:
        if scope == "user":
            return await _keep(text, (topic.strip(), *tags), ctx)
        return await _note(text, topic.strip() or USUAL_TOPIC, ctx)
    except AgentrailError as error:
        return Error(text=f"Nothing was remembered: {error}")


async def _note(text: str, topic: str, ctx: ToolContext) -> Ok | Error:
    if ctx.notes is None:
        return Error(text=NOTES_MISSING)
    await ctx.notes.add(topic, [text])
    ctx.emit("note_written", {"topic": topic, "text": text})
    return Ok(text=f"Noted under {topic!r}.", details={"topic": topic})


async def _keep(text: str, tags: tuple[str, ...], ctx: ToolContext) -> Ok | Error:
    if ctx.memories is None:
        return Error(text=NO_MEMORIES)
    digest = hashlib.blake2b(f"{ctx.session_id} {ctx.operation_id}".encode(), digest_size=8)
    own = dict.fromkeys(tag.strip() for tag in tags if tag)
    entry = await ctx.memories.put(text, tags=own, entry_id=f"m-{digest.hexdigest()}")
    ctx.emit("memory_written", {"id": entry.id, "text": entry.text, "tags": list(entry.tags)})
    return Ok(text=f"Remembered as {entry.id}.", details={"id": entry.id})
