"""The tool `glob`: files and directories of the workspace whose path matches a pattern."""

from typing import Annotated

import msgspec

from agentrail.abc import Error, GlobResult, Ok, ToolContext
from agentrail.tools.function import tool
from agentrail.tools.tool_text import printable


@tool(effect_class="pure", timeout_seconds=30, label=lambda arguments: f"Find {arguments.get('pattern')}")
async def glob(
    pattern: Annotated[
        str,
        msgspec.Meta(min_length=1),
        "Such as *.py, src/**/test_*.py or *.{md,txt}. ** matches any number of directories.",
    ],
    path: Annotated[str, "Where to start, relative to the working directory."] = ".",
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """Find files and directories by a pattern. Directories end with a slash."""
    found = await ctx.sandbox.glob(pattern, path)
    if found.error is not None:
        return Error(text=found.error.message)
    return Ok(text=render_paths(found, pattern=pattern, path=path))


def render_paths(found: GlobResult, *, pattern: str, path: str) -> str:
    if not found.paths:
        return f'Nothing in {printable(path)} matches "{printable(pattern)}".'
    lines = [printable(one) for one in found.paths]
    if found.truncated:
        lines.append(f"[{len(lines):,} paths shown, there are more. Narrow the pattern or the path.]")
    return "\n".join(lines)
