"""The tool `remember`: keeps something for later sessions of the same user."""

import hashlib
from typing import Annotated

import msgspec

from agentrail.abc import MAX_TAGS, Error, Ok, ToolContext
from agentrail.errors import AgentrailError
from agentrail.messages import JsonObject
from agentrail.tools.function import tool
from agentrail.tools.remembered import NO_MEMORIES


def _label(arguments: JsonObject) -> str:
    return f"Remember {str(arguments.get('text'))[:60]!r}"


# The id is that of the operation, so that a call that is made again keeps one memory and not two.
@tool(name="remember", effect_class="idempotent", timeout_seconds=30, label=_label)
async def remember_text(
    text: Annotated[
        str,
        msgspec.Meta(min_length=1),
        "What to remember: one fact, in sentences that can be understood alone.",
    ],
    tags: Annotated[
        tuple[str, ...],
        msgspec.Meta(max_length=MAX_TAGS),
        "What it is about, in short words such as food or project-x.",
    ] = (),
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """Remember something about the user or their work for later conversations. Not for what only matters now."""
    if ctx.memories is None:
        return Error(text=NO_MEMORIES)
    entry_id = (
        f"m-{hashlib.blake2b(f'{ctx.session_id} {ctx.operation_id}'.encode(), digest_size=8).hexdigest()}"
    )
    try:
        entry = await ctx.memories.put(
            text, tags=dict.fromkeys(tag.strip() for tag in tags), entry_id=entry_id
        )
    except AgentrailError as error:
        return Error(text=f"Nothing was remembered: {error}")
    ctx.emit("memory_written", {"id": entry.id, "text": entry.text, "tags": list(entry.tags)})
    return Ok(text=f"Remembered as {entry.id}.", details={"id": entry.id})
