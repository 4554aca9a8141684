"""The tool `list_dir`: the content of a workspace directory."""

from collections.abc import Sequence
from typing import Annotated, Final

from agentrail.abc import DirectoryEntry, Error, Ok, ToolContext
from agentrail.tools.function import tool
from agentrail.tools.tool_text import printable

MAX_ENTRIES: Final = 1_000


@tool(effect_class="pure", timeout_seconds=30, label=lambda arguments: f"List {arguments.get('path', '.')}")
async def list_dir(
    path: Annotated[str, "Directory, relative to the working directory."] = ".",
    *,
    ctx: ToolContext,
) -> Ok | Error:
    """List a directory: subdirectories first, then files with their sizes in bytes, and links with their targets."""
    listing = await ctx.sandbox.list_dir(path)
    if listing.error is not None:
        return Error(text=listing.error.message)
    return Ok(text=render_listing(listing.entries))


def render_listing(entries: Sequence[DirectoryEntry]) -> str:
    """Format one entry per line, at most a thousand, in the given order."""
    if not entries:
        return "[The directory is empty.]"
    lines = [_line(entry) for entry in entries[:MAX_ENTRIES]]
    if len(entries) > MAX_ENTRIES:
        lines.append(
            f"[{MAX_ENTRIES:,} of {len(entries):,} entries shown. List a subdirectory to see less at once.]"
        )
    return "\n".join(lines)


def _line(entry: DirectoryEntry) -> str:
    name = printable(entry.name)
    match entry.kind:
        case "dir":
            return f"[dir]  {name}/"
        case "file":
            return f"[file] {name} ({entry.size_bytes} bytes)"
        case "link":
            return f"[link] {name} -> {printable(entry.target or '?')}"
        case _:
            return f"[{entry.kind}] {name}"
