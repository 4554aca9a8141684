"""The tool `kb_list`: which knowledge bases the user of the session may read."""

from agentrail.abc import Error, Ok, ToolContext
from agentrail.errors import AgentrailError
from agentrail.tools.function import tool
from agentrail.tools.printing import counted
from agentrail.tools.quoted_passages import NO_KNOWLEDGE


@tool(effect_class="pure", timeout_seconds=30)
async def kb_list(*, ctx: ToolContext) -> Ok | Error:
    """List the knowledge bases that can be searched."""
    if ctx.knowledge is None:
        return Error(text=NO_KNOWLEDGE)
    try:
        bases = await ctx.knowledge.bases()
    except AgentrailError as error:
        return Error(text=f"The knowledge bases could not be listed: {error}")
    lines = [
        f"{one.name}: {counted(one.documents, 'document')}, {counted(one.passages, 'passage')}"
        for one in bases
    ]
    return Ok(text="\n".join(lines) or "There is no knowledge base that this user may read.")
