"""The tool `write_file`: creates or replaces a whole file of the workspace."""

from typing import Annotated

from agentrail.abc import Error, Ok, ToolContext, WriteResult
from agentrail.tools.changed_file import details_of
from agentrail.tools.function import tool
from agentrail.tools.tool_text import counted, printable


# Not killable: it takes milliseconds, and a write cancelled by a steer would be useless.
@tool(
    effect_class="idempotent",
    killable=False,
    timeout_seconds=30,
    label=lambda arguments: f"Write {arguments.get('path')}",
)
async def write_file(
    path: Annotated[str, "File, relative to the working directory. Missing directories are created."],
    content: Annotated[str, "The whole content of the file: it replaces the previous content."],
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """Write a whole text file, new or in place of what is there. To change a part of a file use edit_file."""
    written = await ctx.sandbox.write(path, content)
    if written.error is not None:
        return Error(text=written.error.message)
    return render_written(path, written)


def render_written(path: str, written: WriteResult) -> Ok:
    """Return the result of a write."""
    size = f"{counted(written.total_lines, 'line')} ({counted(written.size_bytes, 'byte')})"
    new = " (new file)" if written.is_new else ""
    return Ok(
        text=f"Wrote {size} to {printable(path)}{new}.",
        details=details_of(path, before=written.sha256_before, after=written.sha256),
    )
