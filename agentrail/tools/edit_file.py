"""The tool `edit_file`: replaces a text in a file of the workspace."""

from typing import Annotated

from agentrail.abc import Done, Error, NotDone, Ok, Reconciled, ToolContext, Unknown
from agentrail.tools.changed_file import details_of
from agentrail.tools.function import tool
from agentrail.tools.tool_text import printable


async def reconcile(_operation_id: str, ctx: ToolContext) -> Reconciled:
    path = str(ctx.arguments["path"])
    found = await ctx.sandbox.read(path)
    if found.error is not None:
        return Unknown()
    old, new = str(ctx.arguments["old_string"]), str(ctx.arguments["new_string"])
    return decide_whether_done(found.text, old, new, path=path)


def decide_whether_done(text: str, old: str, new: str, *, path: str) -> Reconciled:
    """Return what a file shows about an edit that may have been made.

    The file looks the same before and after if one text contains the other or the new text is empty.
    """
    text, old, new = (one.replace("\r\n", "\n") for one in (text, old, new))
    if old in new or new in old:
        return Unknown()
    if old in text:
        return NotDone()
    if new not in text:
        return Unknown()
    return Done(Ok(text=f"{printable(path)} has the new text already: an earlier attempt replaced it."))


@tool(
    effect_class="reconcilable",
    reconcile=reconcile,
    max_retries=2,
    killable=False,
    timeout_seconds=30,
    label=lambda arguments: f"Edit {arguments.get('path')}",
)
async def edit_file(
    path: Annotated[str, "File, relative to the working directory."],
    old_string: Annotated[str, "The current text, exactly, with all spaces and line ends."],
    new_string: Annotated[str, "The new text."],
    *,
    replace_all: Annotated[
        bool, "Whether every occurrence is replaced; otherwise there must be exactly one."
    ] = False,
    ctx: ToolContext,
) -> Ok | Error:
    """Replace a text in a file: exactly one occurrence, or all with replace_all. Answers with the diff."""
    edited = await ctx.sandbox.edit(path, old_string, new_string, replace_all=replace_all)
    if edited.error is not None:
        return Error(text=edited.error.message)
    return Ok(text=edited.diff, details=details_of(path, before=edited.sha256_before, after=edited.sha256))
