"""What `make test` leaves to `make check` is run there, so no test is run by nobody."""

import os
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNNER = "scripts.run_tests"  # pytest, and one more try for what failed
CHOOSES = ("-m", "-k", "--ignore", "--ignore-glob", "--deselect", "--last-failed", "--lf", "--maxfail", "-x")


def commands(target: str) -> list[str]:
    """Give the lines that the target would run."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    said = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return said.stdout.splitlines()


def pytest_runs(target: str) -> list[list[str]]:
    """Give the arguments of each run of pytest that the target would make."""
    lines = [shlex.split(line) for line in commands(target) if f" -m {RUNNER} " in line]
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


def test_make_test_leaves_out_what_is_marked_and_nothing_else():
    """It has one run, of all test paths, without the tests that are marked `check`."""
    (run,) = pytest_runs("test")
    assert chosen(run) == ["-m not check"]
    assert paths(run) == []


def test_make_check_runs_everything():
    """What `make test` runs, and what that leaves out; of the properties it leaves out what has its own run."""
    quick, long, properties, *others = pytest_runs("check")
    assert (chosen(quick), paths(quick)) == (["-m not check"], [])
    assert (chosen(long), paths(long)) == (["-m check or hypothesis"], ["tests"])
    assert "property_tests" in paths(properties)
    alone = [path for run in others for path in paths(run) if not chosen(run)]
    assert chosen(properties) == [f"--ignore={path}" for path in alone]


def test_make_check_gives_properties_more_examples_than_make_test():
    """Ten beside a unit test are enough while one works; before a commit they are more, and `make property` has all."""
    (run,) = pytest_runs("test")
    assert not [word for word in run if word.startswith("--unit-examples")]
    assert "--unit-examples=30" in pytest_runs("check")[1]
    _, beside_units = pytest_runs("property")
    assert "--unit-examples=1000000" in beside_units
    assert (chosen(beside_units), paths(beside_units)) == (["-m hypothesis"], ["tests"])


def test_the_options_that_every_run_has_leave_out_the_examples_alone():
    """Those packages need the wheel, and have a target and a step of their own."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
    assert chosen(options) == ["--ignore=docs/examples"]
    steps = [line.split() for line in (ROOT / ".ci" / "run").read_text().splitlines()]
    assert any("make" in step and "examples" in step for step in steps)


@pytest.mark.parametrize("option", ["-m", "-k", "--ignore=tests", "--deselect=x"])
def test_an_option_that_chooses_is_seen(option):
    """The reading above is not blind."""
    assert chosen(["-n", "auto", option, "y"])


def test_make_check_judges_types_as_users_see_them():
    """Beside mypy, which reads our code, pyright reads what others do of it: each public type is said."""
    assert [line for line in commands("check") if line.endswith(" -m scripts.verify_types")]
