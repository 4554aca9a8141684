"""Instruction files for agents, such as `AGENTS.md`: their order and size limits, and the directories of a call. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from agentrail.structs import Value

MAX_FILE_CHARACTERS: Final = 40_000
"""Limit of one file. It is in every request of the session, so longer texts belong in a file that the model reads on demand."""

MAX_READ_CHARACTERS: Final = MAX_FILE_CHARACTERS + 1
"""One more than is shown, to detect that there is more."""

MAX_INSTRUCTION_BYTES: Final = 64 << 10
"""Limit of all files together, in UTF-8."""

MAX_DEPTH: Final = 16
"""Maximum number of directories below the working directory that are checked for one call."""

# Tools whose path is a directory, or may be one, and tools whose path is a file.
_DIRECTORY_TOOLS: Final = frozenset({"list_dir", "glob", "grep"})
_FILE_TOOLS: Final = frozenset({"read_file", "edit_file", "write_file"})

OVERRIDES: Final[Mapping[str, str]] = MappingProxyType({"AGENTS.md": "AGENTS.override.md"})
"""Files that replace another file if they exist."""


class InstructionFile(Value, frozen=True, kw_only=True):
    """An instruction file that was found.

    Attributes:
        path: The path as the model reads it: `AGENTS.md`, `../AGENTS.md`, `~/.agentrail/AGENTS.md`.
        text: Its beginning: at most one character more than is ever shown.
    """

    path: str
    text: str


@frozen(kw_only=True)
class FittedInstructions:
    """The visible parts of the files.

    Attributes:
        cut: Files of which only the beginning is shown.
    """

    files: tuple[InstructionFile, ...]
    cut: tuple[str, ...]
    left_out: tuple[str, ...]
    size_bytes: int


def fit_instructions(
    files: Sequence[InstructionFile], max_bytes: int = MAX_INSTRUCTION_BYTES
) -> FittedInstructions:
    """Return the visible parts of the files: the nearest complete, farther ones while there is room."""
    left = max_bytes
    shown: list[InstructionFile] = []
    cut: list[str] = []
    left_out: list[str] = []
    for file in reversed(files):
        text = file.text.strip()
        if not text:
            continue
        data = text[:MAX_FILE_CHARACTERS].encode("utf-8", "surrogatepass")[:left]
        # Cut between two characters: half of one at the end is not valid text.
        kept = data.decode("utf-8", "ignore" if len(data) == left else "surrogatepass").rstrip()
        if not kept:
            left = 0
            left_out.append(file.path)
            continue
        left -= len(data)
        if len(kept) < len(text):
            cut.append(file.path)
            kept += f"\n[Only the first {len(kept):,} characters are shown. The rest is in {file.path}.]"
        shown.append(InstructionFile(path=file.path, text=kept))
    return FittedInstructions(
        files=tuple(reversed(shown)),
        cut=tuple(reversed(cut)),
        left_out=tuple(reversed(left_out)),
        size_bytes=max_bytes - left,
    )


def line_of_left_out(left_out: Iterable[str]) -> str:
    """Return a line with the files that are not shown."""
    return f"[Left out, because nearer files took the room that there is for all of them: {', '.join(left_out)}.]"


def touched_directories(tool: str, arguments: Mapping[str, Any], working_dir: str) -> tuple[str, ...]:
    """Return the directories below the working directory that a file tool's call touches, from the top. Empty for other calls."""
    path: Any = arguments.get("path")
    if not isinstance(path, str) or tool not in _FILE_TOOLS | _DIRECTORY_TOOLS or "\0" in path:
        return ()
    pure = PurePosixPath(path)
    if pure.is_absolute():
        if not pure.is_relative_to(working_dir):
            return ()
        pure = pure.relative_to(working_dir)
    names = pure.parts if tool in _DIRECTORY_TOOLS else pure.parts[:-1]
    # With a link on the way, `..` leads elsewhere than its text, so a check by text skips such paths.
    if ".." in names or any(sign in name for name in names for sign in "*?["):
        return ()
    return tuple("/".join(names[: depth + 1]) for depth in range(min(len(names), MAX_DEPTH)))


def names_in_order(wanted: Iterable[str]) -> tuple[str, ...]:
    """Insert before each name the one that replaces it."""
    return tuple(dict.fromkeys(name for one in wanted for name in (OVERRIDES.get(one, one), one)))
