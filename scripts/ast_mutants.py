"""Put random bugs into a copy of the package and report how many the tests notice: mutation testing, for `make nightly`.

    python -m scripts.ast_mutants [--count 200] [--seed 20261124] [ROOM ...]

The bugs are those of `scripts.ast_mutations`, drawn with the seed from the given rooms. Each runs against the tests that enter
its line, at most a minute. Which tests those are comes from one run of the suite with a coverage context per test, which is
kept in `build/contexts.coverage`: remove that file after tests changed. Prints the survivors and the rate per room, and always
ends with 0: a survivor may be equivalent to the original, so the rates of two versions are compared for the same seed.
"""

import argparse
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from attrs import frozen
from coverage import CoverageData

from scripts.ast_mutations import Mutation, mutations
from scripts.run_mutants import FAILED, ROOT, copy_project, run_tests

ROOMS: Final = ("core", "otp", "actors", "runtime", "host", "gateway", "stores")
CONTEXTS: Final = ROOT / "build" / "contexts.coverage"
WITHIN_SECONDS: Final = 60
JOBS: Final = 2
MAX_TESTS: Final = 400
"""Most tests that one bug runs against; more would take longer than a minute in any case."""


@frozen(kw_only=True)
class Bug:
    """A mutation of a module, with the tests that enter its line."""

    file: str
    mutation: Mutation
    tests: tuple[str, ...]

    @property
    def room(self) -> str:
        """Room of the module."""
        return self.file.split("/")[1]


def main(arguments: Sequence[str]) -> int:
    """Draw the bugs, try each, print survivors and rates."""
    parser = argparse.ArgumentParser(description="Random bugs against the tests that enter their lines.")
    parser.add_argument("--count", type=int, default=200, help="number of bugs")
    parser.add_argument("--seed", type=int, default=20_261_124, help="seed of the draw")
    parser.add_argument("rooms", nargs="*", default=ROOMS, help="rooms of the package")
    given = parser.parse_args(arguments)
    if not CONTEXTS.exists():
        _record_contexts()
    bugs = draw(given.rooms, _tests_by_line(CONTEXTS), count=given.count, seed=given.seed)
    print(f"{len(bugs)} bugs in {' '.join(given.rooms)}, seed {given.seed}", flush=True)
    verdicts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for bug, verdict in _try_all(bugs):
        verdicts[bug.room][verdict] += 1
        if verdict != "killed":
            place, made = f"{bug.file}:{bug.mutation.line}", bug.mutation
            print(f"{verdict:8}  {place}  {made.operator}: {made.new[:80]!r}", flush=True)
    for room, counted in sorted(verdicts.items()):
        print(f"{room:10} {counted['killed']:4} of {counted.total():4} killed, {dict(counted)}")
    total = sum(verdicts.values(), Counter())
    print(f"{total['killed']} of {total.total()} killed, seed {given.seed}")
    return 0


def draw(
    rooms: Sequence[str], tests: Mapping[str, Mapping[int, Sequence[str]]], *, count: int, seed: int
) -> list[Bug]:
    """Draw bugs from the modules of rooms; the same arguments draw the same bugs.

    Args:
        rooms: Folders of the package.
        tests: The tests that enter each line, by file and line.
        count: Number of bugs; fewer if the rooms have fewer mutations.
        seed: Seed of the draw.
    """
    every = [
        (path.relative_to(ROOT).as_posix(), mutation)
        for room in rooms
        for path in sorted((ROOT / "agentrail" / room).rglob("*.py"))
        for mutation in mutations(path.read_text(encoding="utf-8"))
    ]
    drawn = random.Random(seed).sample(every, min(count, len(every)))  # noqa: S311 - no secret
    return [
        Bug(
            file=file,
            mutation=mutation,
            tests=_nearest(file, _tests_of(tests.get(file, {}), mutation.line)),
        )
        for file, mutation in drawn
    ]


def _tests_of(by_line: Mapping[int, Sequence[str]], line: int) -> Sequence[str]:
    """The tests that enter a line's statement; all tests of the module for a line that runs when it is imported."""
    begins = max(
        (one for one in by_line if one <= line), default=0
    )  # coverage counts the first line of a statement
    return by_line.get(begins) or sorted({test for tests in by_line.values() for test in tests})


def _nearest(file: str, tests: Sequence[str]) -> tuple[str, ...]:
    """The tests of the module's own folder first: they are the quickest to notice."""
    folder = file.replace("agentrail/", "tests/", 1).rpartition("/")[0]
    return tuple(sorted(tests, key=lambda test: (not test.startswith(folder), test))[:MAX_TESTS])


def _record_contexts() -> None:
    CONTEXTS.parent.mkdir(exist_ok=True)
    command = (
        *(sys.executable, "-m", "pytest", "-q", "-n", str(JOBS), "-m", "not check", "--cov=agentrail"),
        *("--cov-context=test", "--cov-report=", "-p", "no:cacheprovider"),
    )
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 - pytest, on tests of ours
    (ROOT / ".coverage").rename(CONTEXTS)


def _tests_by_line(contexts: Path) -> dict[str, dict[int, list[str]]]:
    data = CoverageData(str(contexts))
    data.read()
    return {
        (ROOT / file).relative_to(ROOT).as_posix(): {
            line: sorted({name.partition("|")[0] for name in names if name})
            for line, names in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }


def _try_all(bugs: Sequence[Bug]) -> Iterator[tuple[Bug, str]]:
    with tempfile.TemporaryDirectory(prefix="agentrail-mutants-") as directory:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(JOBS):
            trees.put(copy_project(Path(directory) / str(number)))
        with ThreadPoolExecutor(JOBS) as pool:
            yield from zip(bugs, pool.map(lambda bug: _try(bug, trees), bugs), strict=True)


def _try(bug: Bug, trees: "SimpleQueue[Path]") -> str:
    if not bug.tests:
        return "no test"
    tree = trees.get()
    path = tree / bug.file
    source = path.read_text(encoding="utf-8")
    try:
        path.write_text(bug.mutation.apply(source), encoding="utf-8")
        code = run_tests(tree, *bug.tests, within_seconds=WITHIN_SECONDS)
    finally:
        path.write_text(source, encoding="utf-8")
        trees.put(tree)
    # Pytest ends with 2 to 4 where the bug breaks an import or a fixture of all tests.
    return "survived" if code == 0 else "killed" if code in range(FAILED, 5) else f"error {code}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
