"""Apply each planted bug of tests/mutants to a copy of the package, run its test, and report the ones that survive.

    python -m scripts.run_mutants [--compiled] [PART OF A NAME, OR OF A GUARANTEE ...]

Ends with 1 if a bug survives or no longer applies, or if its test fails without it: then it proves nothing. A run of all also
names the rows of the acceptance list that no killed bug breaks, and ends with 1 if there is one.

With `--compiled`: the bugs in modules that are compiled, each with its module compiled and the others as sources, because
compiling all of them for each bug would take hours. A bug that mypy refuses never runs; that counts as noticed too.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from scripts.compiling import SUFFIX, compiled_modules
from scripts.scenario_coverage import SERIES, as_ranges
from tests.mutants.catalogue import MUTANTS, Mutant

ROOT: Final = Path(__file__).parent.parent
WITHIN_SECONDS: Final = 120
ALL_WITHIN_SECONDS: Final = 1200
FAILED: Final = (
    1  # what pytest ends with when tests ran, and one of them failed; all others above 0 are mistakes of ours
)


def main(arguments: Sequence[str]) -> int:
    """Run those in whose names or guarantees one of these stands, or all; give the exit code."""
    wanted = [one for one in arguments if one != "--compiled"]
    compiled = "--compiled" in arguments
    chosen = [
        one for one in MUTANTS if not wanted or any(part in f"{one.name} {one.breaks}" for part in wanted)
    ]
    if compiled:
        modules = compiled_modules(ROOT)
        chosen = [one for one in chosen if _module_of(one) in modules]
    if not chosen:  # pytest without a test would run all of them
        print(f"no mutant has one of {wanted} in its name or guarantee")
        return 1
    begun_at = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="agentrail-mutants-") as directory:
        trees: SimpleQueue[Path] = SimpleQueue()
        jobs = min(os.cpu_count() or 1, 4)
        for number in range(jobs):
            trees.put(copy_project(Path(directory) / str(number)))
        tree = trees.get()
        everything = sorted({one.killed_by for one in chosen})
        if run_tests(tree, *everything, within_seconds=ALL_WITHIN_SECONDS, show=True) != 0:
            print("the tests fail without any mutant: mend that first")
            return 1
        trees.put(tree)
        verdicts = []
        with ThreadPoolExecutor(jobs) as pool:
            tried = pool.map(lambda one: _try(one, trees, compiled=compiled), chosen)
            for mutant, verdict in zip(chosen, tried, strict=True):
                print(f"{verdict:9} {mutant.name}  ({mutant.breaks})", flush=True)
                verdicts.append(verdict)
    wrong = sum(verdict not in {"killed", "refused"} for verdict in verdicts)
    seconds = time.monotonic() - begun_at
    print(f"{len(chosen) - wrong} of {len(chosen)} mutants killed in {seconds:.0f} s")
    if not wanted and not compiled:
        killed = [one for one, verdict in zip(chosen, verdicts, strict=True) if verdict == "killed"]
        without = rows_without(killed)
        print(f"rows of the acceptance list without a mutant: {as_ranges(without)}")
        wrong += len(without)
    return int(bool(wrong))


def rows_without(mutants: Sequence[Mutant]) -> frozenset[int]:
    """The rows of the acceptance list that none of these breaks."""
    return SERIES["AT"] - {row for one in mutants for row in one.rows}


def _try(mutant: Mutant, trees: "SimpleQueue[Path]", *, compiled: bool) -> str:
    tree = trees.get()
    try:
        with _mutated(tree / "agentrail" / mutant.file, mutant) as is_there:
            if not is_there:
                return "stale"
            if compiled and (said := _compile(tree, _module_of(mutant))):
                return said
            match run_tests(tree, mutant.killed_by):
                case 0:
                    return "SURVIVED"
                case 1:
                    return "killed"
                case code:
                    return f"error {code}"
    finally:
        for extension in (tree / "agentrail").rglob(f"*{SUFFIX}"):
            extension.unlink()
        trees.put(tree)


def _module_of(mutant: Mutant) -> str:
    return f"agentrail.{mutant.file.removesuffix('.py').replace('/', '.')}"


def _compile(tree: Path, module: str) -> str | None:
    """Compile one module of a tree; give the verdict when that ends the matter."""
    script = Path("scripts", "compiling.py")
    compiling = subprocess.run(  # noqa: S603 - our own script
        (sys.executable, str(script), ".", "0", module), cwd=tree, capture_output=True, text=True, check=False
    )
    if compiling.returncode != 0:
        return "refused" if ": error: " in compiling.stdout + compiling.stderr else "no build"
    # It is this that is tested, and not the source: a path of its own says so.
    code = f"import {module} as it; print(it.__file__)"
    command = (sys.executable, "-c", code)
    ran = subprocess.run(  # noqa: S603 - as above
        command, cwd=tree, env=_environment(tree), capture_output=True, text=True, check=False
    )
    is_compiled = ran.returncode != 0 or ran.stdout.strip().endswith(SUFFIX)  # a bug may end even the import
    return None if is_compiled else "no build"


@contextmanager
def _mutated(path: Path, mutant: Mutant) -> Iterator[bool]:
    """Put the bug in, and take it out again; gives whether there was a place for it."""
    text = path.read_text()
    mutated = mutant.apply(text)
    if mutated is None:
        yield False
        return
    path.write_text(mutated)
    try:
        yield True
    finally:
        path.write_text(text)


def copy_project(to: Path) -> Path:
    """Copy the files of this checkout into a new folder, and return it."""
    # What git has or would take: a list of our own forgot the files that new rules read.
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603 - ours
    for name in filter(None, listed.stdout.split("\0")):
        if (source := ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, to / name)
    return to


def run_tests(tree: Path, *tests: str, within_seconds: float = WITHIN_SECONDS, show: bool = False) -> int:
    """Run tests in a copy of the project; return pytest's exit code, and `FAILED` where they took too long."""
    command = (sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests)
    try:
        ended = subprocess.run(  # noqa: S603 - pytest, on tests of ours
            command,
            cwd=tree,
            env=_environment(tree),
            stdout=None if show else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=within_seconds,
        )
    except subprocess.TimeoutExpired:  # a bug that makes everybody wait for ever is noticed too
        return FAILED
    return ended.returncode


def _environment(tree: Path) -> dict[str, str]:
    # Without compiled files: one of them may be as old as the text, to the second, and be taken for it.
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["HYPOTHESIS_PROFILE"] = (
        "mutants"  # the same examples each time: a property kills always, or never
    )
    environment.pop("AGENTRAIL_TEST_BUILD", None)  # a mutant is compiled alone, if at all
    return environment


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
