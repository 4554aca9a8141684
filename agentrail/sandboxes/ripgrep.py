"""`grep` by ripgrep: it says where, and what is shown is read by us.

Two calls: the first counts matches in all files, in any order and on all cores; the second asks for the line numbers in
the few files that will be shown. Both have small answers, however much matches. What ripgrep opens it opens by name,
so that a program that moves links meanwhile could make it read elsewhere; the text comes from our own, checked reading.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

import trio
from attrs import frozen

from agentrail import outside
from agentrail.abc import GrepOptions, GrepResult
from agentrail.sandboxes.gitignore import decide_anchored, pattern_lines
from agentrail.sandboxes.globbing import PathPattern, expand_braces
from agentrail.sandboxes.searching import SEARCH_SECONDS, Collected, Document, refuse_pattern, refuse_slow
from agentrail.sandboxes.walking import (
    MAX_DIRECTORY_DEPTH,
    MAX_SEARCHED_BYTES,
    SKIPPED_DIRECTORIES,
    is_included,
)

_FILES_AT_A_TIME: Final = 100
_READ_AT_A_TIME: Final = 8  # files for one way to a thread; each may have ten megabytes
_SEARCHED: Final = re.compile(rb"^(\d+) files searched$", re.MULTILINE)
_COMMON: Final = (
    "--no-config",
    "--no-messages",
    "--no-mmap",
    "--crlf",
    "--null",
    "--color=never",
    "--hidden",
)
# Only what git's own files in the tree say; nothing from elsewhere on the machine, which the other engine cannot see.
_IGNORING: Final = (
    *(
        "--no-ignore-global",
        "--no-ignore-parent",
        "--no-ignore-exclude",
        "--no-ignore-dot",
        "--no-require-git",
    ),
    *(f"--glob=!{name}/" for name in SKIPPED_DIRECTORIES),
    *(f"--max-depth={MAX_DIRECTORY_DEPTH}", f"--max-filesize={MAX_SEARCHED_BYTES}"),
)


@frozen(kw_only=True)
class RipgrepSearch:
    """What to search.

    Attributes:
        program: Where ripgrep is.
        root: The root of the sandbox, as a path; ripgrep begins there.
        start: The names of the directory to search.
        pattern: The regular expression.
        options: The rest.
        include: The only files to search, or None.
        rules: Lines as of a `.gitignore` at the root, for what stands above `start`.
    """

    program: str
    root: str
    start: tuple[str, ...]
    pattern: str
    options: GrepOptions
    include: PathPattern | None
    rules: Sequence[str]

    def is_included(self, path: str) -> bool:
        """Tell whether a file, by its path from the root, is one of those to search."""
        return is_included(self.include, tuple(path.split("/")), self.start)


ReadDocuments = Callable[[Sequence[str]], Awaitable[Sequence[Document | None]]]
"""Reads files by their paths from the root; None for what is no text."""


async def grep_with_ripgrep(search: RipgrepSearch, read: ReadDocuments) -> GrepResult:
    """Search text files below a directory.

    Returns:
        The matches; or an error with the code `invalid_pattern` or `timeout`.

    Cancellation: ripgrep is stopped.
    """
    with trio.move_on_after(SEARCH_SECONDS):
        return await _grep(search, read)
    return GrepResult(error=refuse_slow())


def decide_rules(
    include: str | None, start: Sequence[str], above: Iterable[tuple[Sequence[str], str | None]]
) -> list[str]:
    """Write what is to be ignored as lines of a `.gitignore` at the root.

    Args:
        include: The only files to search, or None.
        start: The names of the directory to search.
        above: Directories above that one, from the root on, each with the text of its `.gitignore` or None.
    """
    rules: list[str] = []
    if include is not None:
        wanted = (decide_anchored(one, start) for one in expand_braces(include))
        rules += ["*", "!*/", *(f"!{one}" for one in wanted if one is not None)]
    for directory, text in above:
        anchored = (decide_anchored(line, directory) for line in pattern_lines(text or ""))
        rules += [line for line in anchored if line is not None]
    return rules


async def _grep(search: RipgrepSearch, read: ReadDocuments) -> GrepResult:
    options = search.options
    case = ("--ignore-case",) if options.ignore_case else ("--case-sensitive",)
    wanted = (*_COMMON, *case, f"--regexp={search.pattern}")
    with tempfile.NamedTemporaryFile(
        "w", suffix=".gitignore", encoding="utf-8", errors="surrogateescape"
    ) as rules:
        rules.write("\n".join(search.rules) + "\n")
        rules.flush()
        argv = (search.program, *wanted, *_IGNORING, f"--ignore-file={rules.name}", "--count", "--stats")
        if search.include is not None:
            # An exception in a .gitignore brings files back that were not asked for, so all are named and judged here.
            argv = (*argv, "--include-zero")
        counted = await _run(search, (*argv, "--", "/".join((".", *search.start))))
    searched = _SEARCHED.search(counted.stdout)
    if searched is None:
        fault = counted.stderr.decode(errors="replace").strip().removeprefix("rg: ")
        return GrepResult(error=refuse_pattern(search.pattern, "ripgrep", " ".join(fault.split())))
    counts = _read_counts(counted.stdout)
    searched_files = int(searched[1])
    if search.include is not None:
        counts = {path: count for path, count in counts.items() if search.is_included(path)}
        searched_files = len(counts)
    paths = sorted(path for path, count in counts.items() if count)
    collected = Collected(options)
    for begin in range(0, len(paths), _FILES_AT_A_TIME):
        some = paths[begin : begin + _FILES_AT_A_TIME]
        argv = (
            search.program,
            *wanted,
            "--with-filename",
            "--line-number",
            "--no-heading",
            "--max-columns=1",
        )
        found = await _run(
            search, (*argv, f"--max-count={options.max_results + 1}", "--", *(f"./{one}" for one in some))
        )
        if await _collect(collected, some, _read_numbers(found.stdout), read):
            break
    return collected.result(searched_files)


async def _collect(
    collected: Collected, paths: Sequence[str], numbers: Mapping[str, list[int]], read: ReadDocuments
) -> bool:
    """Add what was found in these files; say whether it is enough."""
    for begin in range(0, len(paths), _READ_AT_A_TIME):
        some = paths[begin : begin + _READ_AT_A_TIME]
        for path, document in zip(some, await read(some), strict=True):
            if document is not None:
                collected.add(document, numbers.get(path, []))
            if collected.truncated:
                return True
    return False


async def _run(search: RipgrepSearch, argv: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
    return await outside.processes().run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        cwd=search.root,
        env={},
    )


def _read_counts(printed: bytes) -> dict[str, int]:
    """Read lines such as `./src/a.py NUL 3`."""
    counts = (line.partition(b"\0") for line in printed.split(b"\n") if b"\0" in line)
    return {_path(path): int(count) for path, _, count in counts}


def _path(printed: bytes) -> str:
    return os.fsdecode(printed.removeprefix(b"./"))


def _read_numbers(printed: bytes) -> dict[str, list[int]]:
    """Read lines such as `./src/a.py NUL 12:…`; there may be others, which say that a file is binary."""
    numbers: dict[str, list[int]] = {}
    for line in printed.split(b"\n"):
        path, nul, rest = line.partition(b"\0")
        if nul:
            numbers.setdefault(_path(path), []).append(int(rest.partition(b":")[0]))
    return numbers
