"""The tool `kb_read`: a passage with its context."""

from typing import Annotated

import msgspec

from agentrail.abc import Error, Ok, ToolContext
from agentrail.errors import AgentrailError
from agentrail.tools.function import tool
from agentrail.tools.kb_text import NO_KNOWLEDGE, NO_SUCH_PASSAGE, fenced_passages


@tool(effect_class="pure", timeout_seconds=30, label=lambda arguments: f"Read passage {arguments.get('id')}")
async def kb_read(
    id: Annotated[str, msgspec.Meta(min_length=1), "The id of a passage, as kb_search shows it."],  # noqa: A002 - what the model reads in the fence
    around: Annotated[int, msgspec.Meta(ge=0, le=5), "How many passages before and after it to show."] = 1,
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """Read a passage of a knowledge base with what stands around it in its document."""
    if ctx.knowledge is None:
        return Error(text=NO_KNOWLEDGE)
    try:
        found = await ctx.knowledge.read(id, around=around)
    except AgentrailError as error:
        return Error(text=f"Nothing could be read: {error}")
    if not found:
        return Error(text=NO_SUCH_PASSAGE)
    return Ok(text=fenced_passages(found), details={"sources": [one.source for one in found]})
