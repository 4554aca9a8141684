"""The tool `kb_list`: the knowledge bases that the session's user may read, or the content of one."""

from typing import Annotated, Final

import msgspec

from agentrail.abc import MAX_TAGS, Error, Ok, ToolContext
from agentrail.errors import AgentrailError
from agentrail.tools.function import tool
from agentrail.tools.kb_text import NO_KNOWLEDGE, WANTED_FOLDER, listed_documents, wanted_tags
from agentrail.tools.tool_text import counted

MAX_LISTED_DOCUMENTS: Final = 200

BASE_MISSING: Final = "folder and tags need a knowledge base: name it in kb."


@tool(effect_class="pure", timeout_seconds=30)
async def kb_list(
    kb: Annotated[str, "A knowledge base, to list its documents; empty to list the bases."] = "",
    folder: Annotated[str, WANTED_FOLDER] = "",
    tags: Annotated[
        tuple[str, ...], msgspec.Meta(max_length=MAX_TAGS), "Only documents that have all of these tags."
    ] = (),
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """List the knowledge bases that can be searched, or the documents of one of them, with their tags and what each is about."""
    if ctx.knowledge is None:
        return Error(text=NO_KNOWLEDGE)
    try:
        if kb:
            found = await ctx.knowledge.documents(kb, folder=folder.strip() or None, tags=wanted_tags(tags))
            return Ok(text=listed_documents(found, most=MAX_LISTED_DOCUMENTS))
        if folder.strip() or tags:
            return Error(text=BASE_MISSING)
        bases = await ctx.knowledge.bases()
    except AgentrailError as error:
        return Error(text=f"The knowledge bases could not be listed: {error}")
    lines = [
        f"{one.name}: {counted(one.documents, 'document')}, {counted(one.passages, 'passage')}"
        for one in bases
    ]
    return Ok(text="\n".join(lines) or "There is no knowledge base that this user may read.")
