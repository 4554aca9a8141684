"""The changes of a call as a diff. Reads only the call itself."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentrail.cli.terminal.styles import Ink, Rows, draw_line

MAX_DIFF_ROWS: Final = 40
_MAX_LINES: Final = 2_000
"""Maximum lines to compare: the time grows with their square."""


def diff_of_call(tool: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the changes of a call of `edit_file` or `write_file`, as lines of a unified diff without its header.

    Empty for any other call, and for texts too long to be compared.
    """
    old, new = arguments.get("old_string"), arguments.get("new_string")
    if tool == "edit_file" and isinstance(old, str) and isinstance(new, str):
        before, after = old.splitlines(), new.splitlines()
        if max(len(before), len(after)) > _MAX_LINES:
            return ()
        return tuple(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    content = arguments.get("content")
    if tool == "write_file" and isinstance(content, str):
        return tuple(f"+{line}" for line in content.splitlines())
    return ()


def style_of_line(line: str) -> tuple[str, str]:
    return line, {"+": "added", "-": "removed", "@": "place"}.get(line[:1], "dim")


def draw_diff(lines: Sequence[str], ink: Ink, most: int = MAX_DIFF_ROWS) -> Rows:
    shown = lines if len(lines) <= most else lines[: most - 1]
    rows = [draw_line((("    ", ""), style_of_line(line)), ink) for line in shown]
    if len(lines) > len(shown):
        rows.append(draw_line(((f"    … {len(lines) - len(shown)} more lines", "dim"),), ink))
    return tuple(rows)
