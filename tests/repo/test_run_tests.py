"""A test that fails beside others is tried once more, alone; a run that is red stays red."""

import json

import pytest

from scripts import run_tests as module
from scripts.run_tests import MOST, alone, last_failed_of, run_tests

# Fails as often as its file says, and passes from then on.
UNSTEADY = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("name", {names})
def test_counted(name):
    left = Path(name)
    times = int(left.read_text())
    left.write_text(str(times - 1))
    assert times <= 0
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a test for each name, that fails so many times."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"
    )  # most of a second is taken by plugins that it needs not

    def make(**times):
        for name, count in times.items():
            (tmp_path / name).write_text(str(count))
        (tmp_path / "test_it.py").write_text(UNSTEADY.format(names=sorted(times)))
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        return ["-q"]

    return make


@pytest.mark.check
@pytest.mark.parametrize(
    ("times", "code", "said"),
    [
        ({"a": 1, "b": 0}, 0, ["UNSTEADY, passed alone: test_it.py::test_counted[a]"]),
        ({"a": 1, "b": 2}, 1, ["UNSTEADY, passed alone: test_it.py::test_counted[a]", "failed twice: test_it.py::test_counted[b]"]),
    ],
)  # fmt: skip
def test_what_fails_is_tried_once_more_and_named(project, capfd, times, code, said):
    """What passes then is named; what fails again is red."""
    assert run_tests(project(**times)) == code
    out = capfd.readouterr().out
    assert [
        line.removeprefix("==> ") for line in out.splitlines() if "test_it.py::" in line and "==>" in line
    ] == said


def runs(monkeypatch, *ends):
    """Let pytest end so, in turn, with so many failed tests; gives what it was called with."""
    called = []
    left = list(ends)

    def run(python, arguments):
        code, failed = left.pop(0)
        called.append(arguments)
        list_of_failed = last_failed_of(arguments)
        list_of_failed.parent.mkdir(parents=True, exist_ok=True)
        list_of_failed.write_text(json.dumps({f"t{number}": True for number in range(failed)}))
        return code

    monkeypatch.setattr(module, "_pytest", run)
    return called


@pytest.mark.parametrize(
    ("end", "is_tried_again"),
    [((0, 0), 0), ((1, 1), 1), ((1, MOST), 1), ((1, MOST + 1), 0), ((1, 0), 0), ((2, 1), 0), ((-9, 1), 0)],
)
def test_only_a_few_tests_that_failed_are_tried_again(project, monkeypatch, end, is_tried_again):
    """Not a run that was ended, and not one in which much is red."""
    project()
    called = runs(monkeypatch, end, (1, 1))
    assert run_tests(["-q"]) == (1 if is_tried_again else end[0])
    assert len(called) == 1 + is_tried_again


def test_what_failed_in_another_run_is_not_tried(project, monkeypatch):
    """Its list is forgotten first."""
    project()
    runs(monkeypatch, (0, 1), (1, 0))
    assert run_tests(["-q"]) == 0
    monkeypatch.setattr(module, "_pytest", lambda python, arguments: 1)
    assert run_tests(["-q"]) == 1
    assert not last_failed_of([]).exists()


def test_a_run_with_a_cache_of_its_own_leaves_another_alone(project, monkeypatch):
    """Two runs at the same time each try only their own failures again."""
    project()
    called = runs(monkeypatch, (0, 2), (1, 1), (0, 0))
    own = ["-q", "-o", "cache_dir=slow"]
    assert run_tests(["-q"]) == run_tests(own) == 0
    assert [list(one) for one in called] == [["-q"], own, ["-p", "no:randomly", *own, "t0"]]
    assert last_failed_of([]).exists()


def test_the_second_try_has_the_options_of_the_first_and_its_own_tests():
    """The profile's, and not those that choose tests, count lines or share the work."""
    given = "-n auto -rs -p no:x --cov --cov-report= --folded=all -m".split()  # noqa: SIM905 - as they are typed
    given += ["not check", "--ignore=x.py", "tests"]
    assert alone(given) == ["-rs", "-p", "no:x", "--folded=all"]
