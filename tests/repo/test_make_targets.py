"""What `make test` leaves to `make check` is run there, so no test is run by nobody."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import agentrail
from agentrail.builds import FOLDER, look_at_build
from scripts import lint_sources
from scripts.run_tests import last_failed_of

ROOT = Path(__file__).parents[2]
RUNNER = "scripts.run_tests"  # pytest, and one more try for what failed
CHOOSES = ("-m", "-k", "--ignore", "--ignore-glob", "--deselect", "--last-failed", "--lf", "--maxfail", "-x")


def commands(*target: str) -> list[str]:
    """Give the lines that the target would run; a variable of make may follow it."""
    # COUNTED is set where CI runs this very test.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "COUNTED"))
    }
    said = subprocess.run(
        ["make", "--dry-run", *target], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return said.stdout.splitlines()


def pytest_runs(*target: str) -> list[list[str]]:
    """Give the arguments of each run of pytest that the target would make."""
    lines = [shlex.split(line) for line in commands(*target) if f" -m {RUNNER} " in line]
    return [words[words.index(RUNNER) + 1 :] for words in lines]


def chosen(arguments: list[str]) -> list[str]:
    """Give what of the arguments leaves tests out."""
    return [
        " ".join(arguments[place : place + 1 if "=" in word else place + 2])
        for place, word in enumerate(arguments)
        if word.partition("=")[0] in CHOOSES
    ]


def paths(arguments: list[str]) -> list[str]:
    """Give the files and folders that are named."""
    return [word for word in arguments if (ROOT / word).exists()]


def test_make_test_and_make_check_leave_out_nothing_together():
    """`make test` leaves out what is marked `check`; `make check` has that too, and of the properties what has no run of its own."""
    (run,) = pytest_runs("test")
    long, quick, properties, *others = pytest_runs("check")
    for one in (run, quick):
        assert (chosen(one), paths(one)) == (["-m not check"], [])
    assert (chosen(long), paths(long)) == (["-m check"], ["tests"])
    assert "property_tests" in paths(properties)
    alone = [path for run in others for path in paths(run) if not chosen(run)]
    assert chosen(properties) == [f"--ignore={path}" for path in alone]
    # Beside mypy, which reads our code, pyright reads what others do of it: each public type is said.
    assert [line for line in commands("check") if line.endswith(" -m scripts.verify_types")]
    assert [line for line in commands("lint") if line.endswith(" -m scripts.lint_sources")]
    assert lint_sources.LINTERS.keys() == {
        *("longest", "trio_habits", "prose", "repository_rules", "generate_docs")
    }


WHOLE = (["check"], ["check", "COUNTED=build/stranger"], ["nightly"])


def test_where_the_suite_was_counted_make_check_runs_what_was_skipped_there():
    """And everything else as always; its lines add to those that were counted, and of the floors that of the pure rooms is held, and the other one at home and by night."""
    long, rest, *others = pytest_runs("check", "COUNTED=build/stranger")
    assert [word for word in rest if word.startswith("@")] == ["@build/stranger/skipped"]
    assert chosen(rest) == []
    assert {"--cov-append", "--counted=pure"} <= {*rest}
    assert "cp build/stranger/coverage .coverage" in commands("check", "COUNTED=build/stranger")
    whole = pytest_runs("check")
    assert [long, *others] == [whole[0], *whole[2:]]
    # They run at the same time, and each tries again what failed in itself.
    assert last_failed_of(long) != last_failed_of(rest)
    (stranger,) = pytest_runs("test", "COUNTED=build/stranger")
    assert {"--counted=pure", "--skipped-to=build/stranger/skipped"} <= {*stranger}
    floors = [[line for line in commands(*target) if "--fail-under=" in line] for target in WHOLE]
    assert [len(one) for one in floors] == [2, 1, 2]


@pytest.mark.check
def test_what_was_skipped_is_written_so_that_it_can_be_run(tmp_path):
    """Each test by its name, and an example by that of its page."""
    page = "docs/how-to/behind-fastapi.md"
    skipped = tmp_path / "skipped"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    first = [*command, f"--skipped-to={skipped}", "-k", "missing or sybil", "tests/test_builds.py", page]
    whole = subprocess.run(first, cwd=ROOT, check=True, capture_output=True, text=True)
    written = skipped.read_text(encoding="utf-8").splitlines()
    assert page in written
    if not look_at_build(FOLDER, agentrail.__version__)[0].modules:
        assert "tests/test_builds.py::test_the_library_may_be_missing" in written
        assert (
            "tests/test_builds.py::test_each_module_may_be_missing[agentrail.core.session.machine]" in written
        )
    ran = subprocess.run([*command, f"@{skipped}"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert re.findall(r"\d+ skipped", ran.stdout) == re.findall(r"\d+ skipped", whole.stdout) != []


def test_make_property_has_all_examples_of_each_property():
    """Properties among the unit tests run once in `make check`, with ten examples each, as in `make test`."""
    for run in (*pytest_runs("test"), *pytest_runs("check")):
        assert not [word for word in run if word.startswith("--unit-examples")]
    _, beside_units = pytest_runs("property")
    assert "--unit-examples=1000000" in beside_units
    assert (chosen(beside_units), paths(beside_units)) == (["-m hypothesis"], ["tests"])


def test_the_options_that_every_run_has_leave_out_the_examples_alone():
    """Those packages need the wheel, and have a target of their own, which CI runs beside others."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
    assert chosen(options) == ["--ignore=docs/examples"]
    assert all(chosen(["-n", "auto", one, "y"]) for one in ("-m", "-k", "--ignore=tests", "--deselect=x"))
    (checks,) = re.findall(r"^step \d+ make (check .+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert any("run_examples.sh structured_answer" in line for line in commands(*shlex.split(checks)))
