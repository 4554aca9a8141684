"""The tool `grep`: lines of the workspace that match a regular expression, with context."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated, Final

import msgspec

from agentrail.abc import Error, GrepLine, GrepOptions, GrepResult, Ok, ToolContext
from agentrail.tools.function import tool
from agentrail.tools.tool_text import MAX_TEXT_BYTES, counted, cut_line, printable, size_in_text

MAX_RESULTS: Final = 500


@tool(
    effect_class="pure", timeout_seconds=30, label=lambda arguments: f"Search for {arguments.get('pattern')}"
)
async def grep(  # noqa: PLR0913 - one parameter for each thing that a model may say
    pattern: Annotated[str, msgspec.Meta(min_length=1), "Regular expression."],
    path: Annotated[str, "Directory or file, relative to the working directory."] = ".",
    *,
    include: Annotated[
        str | None, "Only files that match this pattern, such as *.py or src/**/*.{ts,tsx}."
    ] = None,
    context_lines: Annotated[
        int, msgspec.Meta(ge=0, le=10), "How many lines to show before and after each match."
    ] = 2,
    max_results: Annotated[
        int, msgspec.Meta(ge=1, le=MAX_RESULTS), "How many matching lines to show at most."
    ] = 50,
    ignore_case: Annotated[bool, "Whether a finds A."] = False,
    ctx: ToolContext,
) -> Ok | Error:
    """Search text files for a regular expression. Ignored files, such as node_modules, are not searched."""
    options = GrepOptions(
        include=include, context_lines=context_lines, max_results=max_results, ignore_case=ignore_case
    )
    found = await ctx.sandbox.grep(pattern, path, options)
    if found.error is not None:
        return Error(text=found.error.message)
    return Ok(text=render_matches(found, pattern=pattern, path=path))


def render_matches(found: GrepResult, *, pattern: str, path: str) -> str:
    """Format the matches by file: `12:` before a match, `12-` before a context line."""
    if not any(line.is_match for line in found.lines):
        files = counted(found.searched_files, "file")
        return f'No matches for "{printable(pattern)}" in {printable(path)} ({files}).'
    shown: list[str] = []
    matches = size_bytes = 0
    truncated = found.truncated
    for text, is_match in _written(found.lines):
        size_bytes += size_in_text(text)
        if size_bytes > MAX_TEXT_BYTES:
            truncated = True
            break
        shown.append(text)
        matches += is_match
    if truncated:
        number = counted(matches, "match") if matches == 1 else f"{matches:,} matches"
        shown.append(f"[{number} shown, there are more. Narrow the pattern or the path.]")
    return "\n".join(shown)


def _written(lines: Sequence[GrepLine]) -> Iterator[tuple[str, bool]]:
    for position, (path, of_file) in enumerate(groupby(lines, key=lambda line: line.path)):
        if position:
            yield "", False
        yield printable(path), False
        before: int | None = None
        for line in of_file:
            if before is not None and line.number > before + 1:
                yield "--", False
            before = line.number
            yield f"{line.number}{':' if line.is_match else '-'}{cut_line(line.text)}", line.is_match
