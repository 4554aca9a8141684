"""`grep` of sandboxes, by Python's `re` in a helper process or by ripgrep."""

import json
import os
import re
import subprocess
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import trio
from attrs import frozen

from agentrail import outside
from agentrail.abc import GrepLine, GrepOptions, GrepResult, Refusal
from agentrail.sandboxes.path_patterns import PathPattern, decide_anchored, expand_braces, pattern_lines
from agentrail.sandboxes.paths import escape
from agentrail.sandboxes.programs import find_interpreter
from agentrail.sandboxes.walk import (
    MAX_DIRECTORY_DEPTH,
    MAX_SEARCHED_BYTES,
    SKIPPED_DIRECTORIES,
    is_included,
)

SEARCH_SECONDS: Final = 20.0
"""Time limit of a search: less than that of its tool, so that it can still report the cause."""

MAX_SEARCH_PATTERN_CHARACTERS: Final = 10_000

BATCH_BYTES: Final = 1 << 20
"""Size of text sent to the helper at a time."""

_MAX_LINE_CHARACTERS: Final = 2_000
_HELPER: Final = Path(__file__).with_name("grep_helper.py").read_text(encoding="utf-8")
"""Read once at import, and started in that version: the file could change before a search."""


@frozen(kw_only=True)
class Document:
    path: str
    text: str


NextBatch = Callable[[], Awaitable[Sequence[Document]]]
"""Returns the next documents, in the order of their paths, empty at the end."""


class Collected:
    def __init__(self, options: GrepOptions) -> None:
        self._context_lines = options.context_lines
        self._left = options.max_results
        self._lines: list[GrepLine] = []
        self.truncated: bool = False

    def add(self, document: Document, numbers: Sequence[int]) -> None:
        """Add the numbers of the matching lines of a text, in ascending order."""
        taken = numbers[: self._left]
        self.truncated = self.truncated or len(taken) < len(numbers)
        self._left -= len(taken)
        self._lines += _with_context(document, taken, self._context_lines)

    def result(self, searched_files: int) -> GrepResult:
        return GrepResult(lines=tuple(self._lines), searched_files=searched_files, truncated=self.truncated)


async def grep_in_helper(
    pattern: str, options: GrepOptions, next_batch: NextBatch, *, searched_files: int
) -> GrepResult:
    """Search texts with Python's `re`.

    Cancellation: The helper is killed.
    """
    with trio.move_on_after(SEARCH_SECONDS):
        # -I and -S: no environment variables and no site-packages, so it starts in a third of the time.
        # The interpreter by its own path: a link to it, in an environment, may be in a directory that others can write.
        argv = [find_interpreter(), "-I", "-S", "-c", _HELPER]
        # Without standard error: `re` would print its warnings about a pattern to the terminal of the user.
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        process = await outside.processes().open(argv, stdin=pipe, stdout=pipe, stderr=nothing, env={})
        asking, answering = process.stdin, process.stdout
        if asking is None or answering is None:  # never: both were requested
            message = "the search helper has no pipes"
            raise trio.TrioInternalError(message)
        try:
            collected = await _converse(_Helper(asking, answering), pattern, options, next_batch)
            return (
                GrepResult(error=collected)
                if isinstance(collected, Refusal)
                else collected.result(searched_files)
            )
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                await asking.aclose()
                await answering.aclose()
    return GrepResult(error=refuse_slow())


def refuse_slow() -> Refusal:
    """Return the refusal of a search that took too long."""
    message = f"The search took longer than {SEARCH_SECONDS:g} s and was stopped. Simplify the pattern, or narrow the path."
    return Refusal(code="timeout", message=message)


def fault_of_pattern(pattern: str) -> Refusal | None:
    """Refuse a pattern that cannot be passed to any engine: it would cause an exception of the system instead of an answer."""
    if len(pattern) > MAX_SEARCH_PATTERN_CHARACTERS:
        fault = f"it has {len(pattern):,} characters, at most {MAX_SEARCH_PATTERN_CHARACTERS:,} are allowed"
    elif "\0" in pattern or any("\ud800" <= character <= "\udfff" for character in pattern):
        fault = "it contains a character that text files cannot have (NUL or a lone surrogate)"
    else:
        return None
    return refuse_pattern(pattern, "grep", fault)


def refuse_pattern(pattern: str, engine: str, fault: str) -> Refusal:
    """Return the refusal of a pattern that an engine does not accept, with the name of the engine."""
    message = f'Invalid pattern "{escape(pattern)}" for {engine}: {escape(fault)}'
    return Refusal(code="invalid_pattern", message=message)


def fill_batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document.text)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Helper:
    def __init__(self, asking: trio.abc.SendStream, answering: trio.abc.ReceiveStream) -> None:
        self._asking = asking
        self._answering = answering
        self._received = bytearray()

    async def ask(self, question: bytes) -> dict[str, Any]:
        await self._asking.send_all(question)
        while b"\n" not in self._received:
            piece = await self._answering.receive_some()
            if not piece:
                message = "the search helper ended"
                raise trio.BrokenResourceError(message)
            self._received.extend(piece)
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received[:] = rest
        answer: dict[str, Any] = json.loads(line)
        return answer


async def _converse(
    helper: _Helper, pattern: str, options: GrepOptions, next_batch: NextBatch
) -> Collected | Refusal:
    job = {
        "pattern": pattern,
        "ignore_case": options.ignore_case,
        "max_per_text": options.max_results + 1,
    }
    fault = (await helper.ask(json.dumps(job).encode() + b"\n"))["fault"]
    if fault is not None:
        return refuse_pattern(pattern, "Python's re", fault)
    collected = Collected(options)
    while not collected.truncated and (batch := await next_batch()):
        texts = [document.text.encode() for document in batch]
        sizes = json.dumps([len(text) for text in texts]).encode()
        found = await helper.ask(b"\n".join((sizes, b"".join(texts))))
        for document, numbers in zip(batch, found["numbers"], strict=True):
            collected.add(document, numbers)
    return collected


def _with_context(document: Document, numbers: Sequence[int], context_lines: int) -> Iterator[GrepLine]:
    lines = document.text.removesuffix("\n").split("\n") if numbers else []
    matching = frozenset(numbers)
    shown = 0
    for match in numbers:
        first = max(match - context_lines, shown + 1)
        shown = min(match + context_lines, len(lines))
        for number in range(first, shown + 1):
            text = lines[number - 1].removesuffix("\r")
            if len(text) > _MAX_LINE_CHARACTERS:
                text = text[:_MAX_LINE_CHARACTERS] + "…"
            yield GrepLine(path=document.path, number=number, text=text, is_match=number in matching)


# By ripgrep, which finds the places. The lines are read here.
#
# Two calls: the first counts matches in all files, in any order and on all cores. The second requests the line numbers in
# the few files that will be shown. Both have small answers, even with many matches. ripgrep opens files by name, so a
# program that moves links meanwhile could make it read elsewhere. The text comes from our own, checked reading.

_FILES_AT_A_TIME: Final = 100
_READ_AT_A_TIME: Final = 8  # files per trip to a thread; each may have ten megabytes
_SEARCHED: Final = re.compile(rb"^(\d+) files searched$", re.MULTILINE)
_COUNTED: Final = re.compile(rb"([^\0]+)\0(\d+)\r?\n")  # a file name may contain line feeds
_NUMBERED: Final = re.compile(rb"([^\0]+)\0(\d+):[^\n]*\n")
_COMMON: Final = (
    "--no-config",
    "--no-messages",
    "--no-mmap",
    "--crlf",
    "--null",
    "--color=never",
    "--hidden",
)
# Only git's own files in the tree, not those elsewhere on the machine, which the other engine cannot see.
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

# With --text, because it would report a binary file between two paths.
_NUMBERING: Final = ("--text", "--with-filename", "--line-number", "--no-heading", "--max-columns=1")


@frozen(kw_only=True)
class RipgrepSearch:
    """A search.

    Attributes:
        include: The only files to search, or None.
    """

    program: str
    root: str
    start: tuple[str, ...]
    pattern: str
    options: GrepOptions
    include: PathPattern | None
    rules: Sequence[str]

    def is_included(self, path: str) -> bool:
        """Return whether a file, by its path from the root, is one of those to search."""
        return is_included(self.include, tuple(path.split("/")), self.start)


ReadDocuments = Callable[[Sequence[str]], Awaitable[Sequence[Document | None]]]
"""Reads files by their paths from the root. None for a file that is not text."""


def decide_rules(
    include: str | None, start: Sequence[str], above: Iterable[tuple[Sequence[str], str | None]]
) -> list[str]:
    """Return the ignore rules as lines of a `.gitignore` at the root."""
    rules: list[str] = []
    if include is not None:
        wanted = (decide_anchored(one, start) for one in expand_braces(include))
        rules += ["*", "!*/", *(f"!{one}" for one in wanted if one is not None)]
    for directory, text in above:
        anchored = (decide_anchored(line, directory) for line in pattern_lines(text or ""))
        rules += [line for line in anchored if line is not None]
    return rules


async def grep_with_ripgrep(search: RipgrepSearch, read: ReadDocuments) -> GrepResult:
    """Search text files below a directory.

    Cancellation: ripgrep is stopped.
    """
    options = search.options
    case = ("--ignore-case",) if options.ignore_case else ("--case-sensitive",)
    wanted = (*_COMMON, *case, f"--regexp={search.pattern}")
    # Through standard input, because there may be no space for a temporary file.
    argv = (search.program, *wanted, *_IGNORING, "--ignore-file=/dev/stdin", "--count", "--stats")
    if search.include is not None:
        # An exception in a .gitignore would include unrequested files, so all are listed and judged here.
        argv = (*argv, "--include-zero")
    rules = "\n".join((*search.rules, "")).encode("utf-8", "surrogateescape")
    counted = await _run(search, (*argv, "--", "/".join((".", *search.start))), stdin=rules)
    searched = _SEARCHED.search(counted.stdout)
    if searched is None:
        fault = counted.stderr.decode(errors="replace").strip().removeprefix("rg: ")
        return GrepResult(error=refuse_pattern(search.pattern, "ripgrep", " ".join(fault.split())))
    # Lines such as `./src/a.py NUL 3`.
    counts = {_path(path): int(count) for path, count in _COUNTED.findall(counted.stdout)}
    searched_files = int(searched[1])
    if search.include is not None:
        counts = {path: count for path, count in counts.items() if search.is_included(path)}
        searched_files = len(counts)
    paths = sorted(path for path, count in counts.items() if count)
    collected = Collected(options)
    argv = (search.program, *wanted, *_NUMBERING, f"--max-count={options.max_results + 1}")
    for begin in range(0, len(paths), _FILES_AT_A_TIME):
        some = paths[begin : begin + _FILES_AT_A_TIME]
        found = await _run(search, (*argv, "--", *(f"./{one}" for one in some)))
        if await _collect(collected, some, _read_numbers(found.stdout), read):
            break
    return collected.result(searched_files)


async def _collect(
    collected: Collected, paths: Sequence[str], numbers: Mapping[str, list[int]], read: ReadDocuments
) -> bool:
    for begin in range(0, len(paths), _READ_AT_A_TIME):
        some = paths[begin : begin + _READ_AT_A_TIME]
        for path, document in zip(some, await read(some), strict=True):
            if document is not None:
                collected.add(document, numbers.get(path, []))
            if collected.truncated:
                return True
    return False


async def _run(
    search: RipgrepSearch, argv: Sequence[str], stdin: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    return await outside.processes().run(
        argv,
        stdin=stdin,
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        cwd=search.root,
        env={},
    )


def _path(printed: bytes) -> str:
    return os.fsdecode(printed.removeprefix(b"./"))


def _read_numbers(printed: bytes) -> dict[str, list[int]]:
    """Parse lines such as `./src/a.py NUL 12:…`."""
    numbers: dict[str, list[int]] = {}
    for path, number in _NUMBERED.findall(printed):
        numbers.setdefault(_path(path), []).append(int(number))
    return numbers
