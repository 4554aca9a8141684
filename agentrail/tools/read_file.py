"""The tool `read_file`: a text file of the workspace, in pages of numbered lines."""

from itertools import accumulate
from typing import Annotated, Final

import msgspec

from agentrail.abc import Error, Ok, ReadResult, ToolContext
from agentrail.tools.function import tool
from agentrail.tools.tool_text import MAX_LINE_CHARACTERS, MAX_TEXT_BYTES, counted, cut_line, size_in_text

MAX_LINES: Final = 2_000


@tool(effect_class="pure", timeout_seconds=30, label=lambda arguments: f"Read {arguments.get('path')}")
async def read_file(
    path: Annotated[str, "File, relative to the working directory."],
    offset: Annotated[int, msgspec.Meta(ge=1), "The first line to read, from 1."] = 1,
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LINES), "How many lines to read at most."] = MAX_LINES,
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """Read a text file. Each line comes with its number and a tab before it; long files come in pages."""
    found = await ctx.sandbox.read(path, offset=offset, limit=limit)
    if found.error is not None:
        return Error(text=found.error.message)
    return render_page(found, offset=offset)


def render_page(found: ReadResult, *, offset: int) -> Ok | Error:
    total = found.total_lines
    if not total:
        return Ok(text="[The file is empty.]")
    if offset > total:
        return Error(text=f"offset {offset} is past the end: the file has {counted(total, 'line')}.")
    # Not splitlines(), which also breaks at form feeds and the like: other tools count "\n" only.
    lines = found.text.removesuffix("\n").split("\n")
    if "\r" in found.text or max(map(len, lines)) > MAX_LINE_CHARACTERS:
        lines = [cut_line(line) for line in lines]
    page = [f"{number}\t{line}" for number, line in enumerate(lines, start=offset)]
    # Measured at once, because most pages fit: per line it would be most of the work of a read.
    if size_in_text("\n".join(page)) > MAX_TEXT_BYTES:
        fitting = sum(size_bytes <= MAX_TEXT_BYTES for size_bytes in accumulate(map(size_in_text, page)))
        page = page[:fitting]
    last = offset + len(page) - 1
    if last < total:
        page.append(f"[Lines {offset}-{last} of {total}. Continue with offset={last + 1}.]")
    return Ok(text="\n".join(page))
