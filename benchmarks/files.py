"""The workloads of the sandbox: reading and opening a file, searching a tree, and a command that prints without end."""

import math
import os
import shutil
import subprocess
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import trio

from agentrail.abc import ExecuteOptions, GrepOptions, ToolContext
from agentrail.messages import CallId, SessionId
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.safe_open import find_opener
from agentrail.tools.read_file import read_file
from benchmarks.explain import explain_in_a_folder
from benchmarks.measure import Effort, Row, Sample, Target, interleave, repeat
from benchmarks.ours import expect

_LINES: Final = 2_000
_READS: Final = 200
_OPENS: Final = 5_000
_FILES: Final = 10_000
_PLACE: Final = ("src", "deep", "page.txt")
_NEEDLE: Final = "needle"


def files(effort: Effort) -> list[Row]:
    """Read a page with line numbers, and open a file through all checks."""
    with TemporaryDirectory() as root:
        _write_page(root)
        place = Path(root, *_PLACE)
        count = effort.of(_READS)
        reads = interleave(
            partial(trio.run, _bare_reads, place, count),
            partial(trio.run, _our_reads, root, count),
            effort.rounds,
            explain=partial(explain_in_a_folder, _write_page, partial(_run_reads, count=count)),
        )
        count = effort.of(_OPENS)
        opens = interleave(
            partial(_bare_opens, place, count),
            partial(_our_opens, root, count),
            effort.rounds,
            explain=partial(explain_in_a_folder, _write_page, partial(_our_opens, count=count)),
        )
    return [
        reads.row(
            "files",
            "read_seconds",
            f"read_file of {_LINES:,} lines; bare: open, read, number and join in a thread",
            unit="µs",
            factor=1e6,
            target=Target(of="ratio", must=2.0),
        ),
        opens.row(
            "files",
            "open_seconds",
            "opening a file through all checks; bare: os.open of its whole path",
            unit="µs",
            factor=1e6,
            target=Target(of="ratio", must=3.0),
        ),
    ]


def search(effort: Effort) -> list[Row]:
    """Search a tree through ripgrep; without it there is no row."""
    program = shutil.which("rg")
    if program is None:
        return []
    count = effort.of(_FILES)
    with TemporaryDirectory() as root:
        fill = partial(_write_haystack, count=count)
        fill(root)
        rounds = interleave(
            partial(_bare_search, program, root),
            partial(_run_search, root),
            effort.rounds,
            explain=partial(explain_in_a_folder, fill, _run_search),
        )
    return [
        rounds.row(
            "search",
            "search_seconds",
            f"grep of {count:,} files; bare: `rg` itself",
            unit="ms",
            factor=1e3,
            target=Target(of="ratio", must=1.3),
        )
    ]


def output(effort: Effort) -> list[Row]:
    """Memory while a command prints as much as it may."""
    rounds = repeat(partial(trio.run, _our_output), min(effort.rounds, 3))
    return [
        rounds.row(
            "output",
            "above_idle",
            "memory above idle while a command prints without end",
            unit="MB",
            factor=1e-6,
            target=Target(of="ours", must=8.0),
        )
    ]


def _write_page(root: str) -> None:
    place = Path(root, *_PLACE)
    place.parent.mkdir(parents=True)
    place.write_text("".join(f"line {number}\n" for number in range(_LINES)))


def _write_haystack(root: str, count: int) -> None:
    for number in range(count):
        place = Path(root, f"d{number % 100}", f"f{number}.txt")
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"{_NEEDLE if number % 400 == 0 else 'hay'}\n" * 20)


def _run_reads(root: str, count: int) -> Sample:
    return trio.run(_our_reads, root, count)


def _run_search(root: str) -> Sample:
    return trio.run(_our_search, root)


async def _bare_reads(place: Path, count: int) -> Sample:
    def read() -> str:
        with place.open(encoding="utf-8") as file:
            return "\n".join(
                f"{number}\t{line}"
                for number, line in enumerate(file.read().removesuffix("\n").split("\n"), start=1)
            )

    began_at = perf_counter()
    for _ in range(count):
        expect("the page", (await trio.to_thread.run_sync(read)).count("\t"), _LINES)
    return {"read_seconds": (perf_counter() - began_at) / count}


async def _our_reads(root: str, count: int) -> Sample:
    sandbox = LocalSandbox(root)
    context = ToolContext(
        session_id=SessionId("s"),
        call_id=CallId("c"),
        operation_id="o",
        working_dir=root,
        open_sandbox=lambda: sandbox,
        model="m",
        turn=1,
        user_data={},
        deadline=math.inf,
        progress=lambda _text: None,
    )
    arguments = {"path": "/".join(_PLACE), "offset": 1, "limit": _LINES}
    began_at = perf_counter()
    for _ in range(count):
        expect("the page", (await read_file.execute(arguments, context)).text.count("\t"), _LINES)
    took = perf_counter() - began_at
    await sandbox.aclose()
    return {"read_seconds": took / count}


def _bare_opens(place: Path, count: int) -> Sample:
    path = str(place)
    began_at = perf_counter()
    for _ in range(count):
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    return {"open_seconds": (perf_counter() - began_at) / count}


def _our_opens(root: str, count: int) -> Sample:
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    opener = find_opener(directory)
    began_at = perf_counter()
    for _ in range(count):
        os.close(opener(directory, _PLACE, os.O_RDONLY))
    took = perf_counter() - began_at
    os.close(directory)
    return {"open_seconds": took / count}


def _bare_search(program: str, root: str) -> Sample:
    began_at = perf_counter()
    argv = [program, "--json", "-C", "2", _NEEDLE, root]
    ran = subprocess.run(argv, capture_output=True, check=False)  # noqa: S603 - ours
    took = perf_counter() - began_at
    expect("the end", ran.returncode, 0)
    return {"search_seconds": took}


async def _our_search(root: str) -> Sample:
    sandbox = LocalSandbox(root)
    began_at = perf_counter()
    found = await sandbox.grep(_NEEDLE, ".", GrepOptions(max_results=500))
    took = perf_counter() - began_at
    await sandbox.aclose()
    expect("the search", (found.error, bool(found.lines)), (None, True))
    return {"search_seconds": took}


async def _our_output() -> Sample:
    process = psutil.Process()
    most = idle = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, process.memory_info().rss)
            await trio.sleep(0.005)

    with TemporaryDirectory() as root:
        sandbox = LocalSandbox(root, shell_fallback="unconfined")
        await sandbox.execute("true", ExecuteOptions())
        async with trio.open_nursery() as nursery:
            idle = process.memory_info().rss
            nursery.start_soon(watch)
            result = await sandbox.execute("yes", ExecuteOptions(timeout_seconds=60))
            nursery.cancel_scope.cancel()
        expect("the end of the output", "more than 64 MB" in result.output, wanted=True)
        await sandbox.aclose()
    return {"above_idle": float(max(most - idle, 1))}
