"""The tool `kb_list`: which knowledge bases the user of the session may read, and what is in one of them."""

from typing import Annotated, Final

from agentrail.abc import Error, Ok, ToolContext
from agentrail.errors import AgentrailError
from agentrail.tools.function import tool
from agentrail.tools.printing import counted
from agentrail.tools.quoted_passages import NO_KNOWLEDGE, listed_documents

MAX_LISTED_DOCUMENTS: Final = 200


@tool(effect_class="pure", timeout_seconds=30)
async def kb_list(
    kb: Annotated[str, "A knowledge base, to list its documents; empty to list the bases."] = "",
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """List the knowledge bases that can be searched, or the documents of one of them, with what each is about where that is known."""
    if ctx.knowledge is None:
        return Error(text=NO_KNOWLEDGE)
    try:
        if kb:
            return Ok(text=listed_documents(await ctx.knowledge.documents(kb), most=MAX_LISTED_DOCUMENTS))
        bases = await ctx.knowledge.bases()
    except AgentrailError as error:
        return Error(text=f"The knowledge bases could not be listed: {error}")
    lines = [
        f"{one.name}: {counted(one.documents, 'document')}, {counted(one.passages, 'passage')}"
        for one in bases
    ]
    return Ok(text="\n".join(lines) or "There is no knowledge base that this user may read.")
