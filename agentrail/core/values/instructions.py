"""Files for agents, such as `AGENTS.md`: in which order, how much of each, and which directories a call touches. Pure.

The nearest file is the one that counts most: where there is no room for all, what is farthest goes first. No file is opened here.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from agentrail.structs import Value

MAX_FILE_CHARACTERS: Final = 40_000
"""Of one file. It is in every request of the session, so an operator who needs more wants a file that the model reads."""

MAX_READ_CHARACTERS: Final = MAX_FILE_CHARACTERS + 1
"""One more than is shown, which says that there is more."""

MAX_INSTRUCTION_BYTES: Final = 64 << 10
"""Of all files together, in UTF-8."""

MAX_DEPTH: Final = 16
"""How many directories below the working directory are looked at for one call."""

# Those whose path is a directory, or may be one, and those whose path is a file.
_DIRECTORY_TOOLS: Final = frozenset({"list_dir", "glob", "grep"})
_FILE_TOOLS: Final = frozenset({"read_file", "edit_file", "write_file"})

OVERRIDES: Final[Mapping[str, str]] = MappingProxyType({"AGENTS.md": "AGENTS.override.md"})
"""What is read in place of a file where it is there."""


class InstructionFile(Value, frozen=True, kw_only=True):
    """A file for agents that was found.

    Attributes:
        path: As the model reads it: `AGENTS.md`, `../AGENTS.md`, `~/.agentrail/AGENTS.md`.
        text: How it begins: at most one character more than is ever shown.
    """

    path: str
    text: str


@frozen(kw_only=True)
class FittedInstructions:
    """What of the files is shown.

    Attributes:
        files: Their texts as they are shown, the farthest first.
        cut: Those of which only the beginning is shown.
        left_out: Those of which nothing is shown, because nearer ones took all the room; the farthest first.
        size_bytes: What is shown of the files, in UTF-8.
    """

    files: tuple[InstructionFile, ...]
    cut: tuple[str, ...]
    left_out: tuple[str, ...]
    size_bytes: int


def fit_instructions(
    files: Sequence[InstructionFile], max_bytes: int = MAX_INSTRUCTION_BYTES
) -> FittedInstructions:
    """Say what of the files is shown: the nearest whole, and the farther ones as far as there is room."""
    left = max_bytes
    shown: list[InstructionFile] = []
    cut: list[str] = []
    left_out: list[str] = []
    for file in reversed(files):
        text = file.text.strip()
        if not text:
            continue
        data = text[:MAX_FILE_CHARACTERS].encode("utf-8", "surrogatepass")[:left]
        # Cut between two characters: half of one at the end is no text.
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
    """Say which files are not shown."""
    return f"[Left out, because nearer files took the room that there is for all of them: {', '.join(left_out)}.]"


def touched_directories(tool: str, arguments: Mapping[str, Any], working_dir: str) -> tuple[str, ...]:
    """Say which directories below the working directory a call of a file tool touches, from the top; none for any other call."""
    path: Any = arguments.get("path")
    if not isinstance(path, str) or tool not in _FILE_TOOLS | _DIRECTORY_TOOLS or "\0" in path:
        return ()
    pure = PurePosixPath(path)
    if pure.is_absolute():
        if not pure.is_relative_to(working_dir):
            return ()
        pure = pure.relative_to(working_dir)
    names = pure.parts if tool in _DIRECTORY_TOOLS else pure.parts[:-1]
    # `..` leads elsewhere than it says where a link is on the way: who judges paths by text leaves it alone.
    if ".." in names or any(sign in name for name in names for sign in "*?["):
        return ()
    return tuple("/".join(names[: depth + 1]) for depth in range(min(len(names), MAX_DEPTH)))


def names_in_order(wanted: Iterable[str]) -> tuple[str, ...]:
    """Put in front of each name the one that is read in its place."""
    return tuple(dict.fromkeys(name for one in wanted for name in (OVERRIDES.get(one, one), one)))
