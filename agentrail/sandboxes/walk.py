"""Walks through a tree of directories, for `grep` and `glob`."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from attrs import field, frozen

from agentrail.abc import DirectoryEntry, GlobResult, Refusal
from agentrail.sandboxes.path_patterns import (
    FILE_NAME,
    IgnoreFile,
    PathPattern,
    PatternFault,
    compile_pattern,
    is_ignored,
    read_ignore_file,
)
from agentrail.sandboxes.paths import escape, join_names

Names = tuple[str, ...]

SKIPPED_DIRECTORIES: Final = (
    *(".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".idea", ".vscode"),
    *("vendor", "dist", "build", "target"),
)
"""Directories that hold generated files."""

MAX_DIRECTORY_DEPTH: Final = 25
MAX_SEARCHED_BYTES: Final = 10_000_000
MAX_GLOB_PATHS: Final = 500


@frozen(kw_only=True)
class DirectoryTree:
    """The tree to walk.

    Attributes:
        list_dir: Returns the entries of a directory. Empty if it cannot be read.
        read_text: Returns the text of a file. None if there is none.
    """

    list_dir: Callable[[Names], Sequence[DirectoryEntry]]
    read_text: Callable[[Names], str | None]
    check: Callable[[], None] = field(default=lambda: None)


@frozen(kw_only=True)
class FoundEntry:
    names: Names
    entry: DirectoryEntry


def list_searched(tree: DirectoryTree, start: Names, include: PathPattern | None) -> list[Names]:
    """Return the files that `grep` searches below a directory, in the order of their paths."""
    found = (
        one.names
        for one in _walk(tree, start, skipped=frozenset(SKIPPED_DIRECTORIES), honour_ignore_files=True)
        if one.entry.kind == "file"
        and one.entry.size_bytes <= MAX_SEARCHED_BYTES
        and is_included(include, one.names, start)
    )
    return sorted(found, key=join_names)


def is_included(include: PathPattern | None, names: Names, start: Names) -> bool:
    """Return whether a file below `start` matches a pattern. A pattern without `/` matches the name alone."""
    return include is None or include.matches(names[len(start) :], is_directory=False)


def compile_include(include: str | None) -> PathPattern | Refusal | None:
    if include is None:
        return None
    return _compile(include if "/" in include else f"**/{include}", include)


def glob_tree(tree: DirectoryTree, pattern: str, start: Names) -> GlobResult:
    compiled = _compile(pattern, pattern)
    if isinstance(compiled, Refusal):
        return GlobResult(error=compiled)
    skipped = frozenset(name for name in SKIPPED_DIRECTORIES if name not in pattern)
    paths = (
        join_names(one.names) + ("/" if one.entry.kind == "dir" else "")
        for one in _walk(tree, start, skipped=skipped, honour_ignore_files=False)
        if compiled.matches(one.names[len(start) :], is_directory=one.entry.kind == "dir")
    )
    found = heapq.nsmallest(MAX_GLOB_PATHS + 1, paths)
    return GlobResult(paths=tuple(found[:MAX_GLOB_PATHS]), truncated=len(found) > MAX_GLOB_PATHS)


def read_ignore_files(tree: DirectoryTree, start: Names) -> tuple[IgnoreFile, ...]:
    """Read the `.gitignore` files above a directory, the nearest first."""
    above = (_read_ignore_file(tree, start[:depth]) for depth in range(len(start) - 1, -1, -1))
    return tuple(file for file in above if file is not None)


def _compile(pattern: str, shown: str) -> PathPattern | Refusal:
    try:
        return compile_pattern(pattern)
    except PatternFault as fault:
        message = f'Invalid pattern "{escape(shown)}": {fault}. Patterns are relative to the directory, such as "**/*.py".'
        return Refusal(code="invalid_pattern", message=message)


def _walk(
    tree: DirectoryTree, start: Names, *, skipped: frozenset[str], honour_ignore_files: bool
) -> Iterator[FoundEntry]:
    """Walk a tree in no particular order. Links are yielded, and not followed."""
    waiting = [(start, read_ignore_files(tree, start) if honour_ignore_files else ())]
    while waiting:
        names, ignore_files = waiting.pop()
        entries = tree.list_dir(names)
        if honour_ignore_files and any(entry.name == FILE_NAME for entry in entries):
            own = _read_ignore_file(tree, names)
            ignore_files = ignore_files if own is None else (own, *ignore_files)
        for entry in entries:
            tree.check()  # each may be compared with thousands of patterns
            below = (*names, entry.name)
            is_directory = entry.kind == "dir"
            if is_directory and entry.name in skipped:
                continue
            if is_ignored(ignore_files, below, is_directory=is_directory):
                continue
            yield FoundEntry(names=below, entry=entry)
            if is_directory and len(below) - len(start) < MAX_DIRECTORY_DEPTH:
                waiting.append((below, ignore_files))


def _read_ignore_file(tree: DirectoryTree, directory: Names) -> IgnoreFile | None:
    text = tree.read_text((*directory, FILE_NAME))
    return None if text is None else read_ignore_file(text, directory)
