"""The planted bugs apply to the package as it is, and each names its test; `make mutants` reports whether that one notices."""

import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.marked_rows import rows_of
from tests.mutants.catalogue import FOLDER, MUTANTS, parse, read_all
from tests.thinned import nightly

ROOT = Path(__file__).parent.parent.parent

PATCH = """\
Bug: one is two
Breaks: AT-001, AT-163: numbers are numbers
Killed-by: tests/test_numbers.py::test_one

--- a/agentrail/numbers.py
+++ b/agentrail/numbers.py
@@ -1,4 +1,4 @@
 def one():

-    return 1
+    return 2

"""


def test_every_patch_applies_to_one_place():
    """Its text is in its module exactly once, its test exists, and its name is its own."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 150
    faults = []
    for name, mutant in read_all().items():
        source = (ROOT / "agentrail" / mutant.file).read_text()
        mutated = mutant.apply(source)
        file, _, test = mutant.killed_by.partition("::")
        if mutated in {None, source} or test.partition("[")[0] not in (ROOT / file).read_text():
            faults.append(name)
    assert faults == []


@pytest.mark.check  # git
def test_git_applies_every_patch(tmp_path):
    """The files are patches that a person can apply, and not only our reader; a syntax error would be noticed by any test."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for mutant in MUTANTS:
        copy = tmp_path / "agentrail" / mutant.file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text((ROOT / "agentrail" / mutant.file).read_text())
        compile(mutant.apply(copy.read_text()) or "(", mutant.name, "exec")
    for path in sorted(FOLDER.glob("*.patch")):
        subprocess.run(["git", "apply", "--check", path], cwd=tmp_path, check=True)


def test_a_patch_is_read():
    """An empty line without its space is context too, as editors leave it."""
    mutant = parse(PATCH)
    assert (mutant.name, mutant.rows, mutant.file) == ("one is two", (1, 163), "numbers.py")
    assert mutant.apply("def one():\n\n    return 1\n\n") == "def one():\n\n    return 2\n\n"
    assert mutant.apply("def two():\n\n    return 1\n\n") is None
    assert mutant.apply("def one():\n\n    return 1\n\n" * 2) is None


@pytest.mark.parametrize(
    "broken",
    [
        "",
        PATCH.replace("Breaks: ", "Brakes: "),
        PATCH.partition("--- a/")[0],
        PATCH.replace("/agentrail/", "/tests/"),
        PATCH.partition("@@")[0],
    ],
)
def test_an_incomplete_patch_is_refused(broken):
    """A missing field, no patch, another folder and no hunk are each an error."""
    with pytest.raises(ValueError, match="expected the fields Bug, Breaks and Killed-by above a patch"):
        parse(broken)


@nightly  # when `make ast-mutants` runs; it collects the tests once more
@pytest.mark.check
def test_a_mutant_of_a_row_is_killed_by_a_test_of_that_row():
    """The mark of a test can be believed: without the guarantee the test fails."""
    marked = rows_of(mutant.killed_by for mutant in MUTANTS)
    unmarked = {one.name: set(one.rows) - marked[one.killed_by] for one in MUTANTS}
    assert not {name: rows for name, rows in unmarked.items() if rows}


@pytest.mark.check  # pytest in a process of its own
def test_a_row_of_a_parameter_is_found():
    """Marks of parameters count for the test that names them, and for no other."""
    scenarios = "tests/core/test_scenarios.py::test_scenario"
    rows = rows_of([f"{scenarios}[approval_edited]", f"{scenarios}[client_ids]"])
    assert rows == {f"{scenarios}[approval_edited]": {58}, f"{scenarios}[client_ids]": {11}}


PYTHON = """#!/bin/sh
case "$*" in
    "-m pip wheel"*) mkdir -p build/compiled-wheel && touch build/compiled-wheel/agentrail-0.whl ;;
    "-m scripts.run_mutants"*) pwd ;;
    "-P"*) echo /nowhere ;;
esac
"""


def test_mutants_of_the_compiled_build_are_copied_from_the_checkout(tmp_path):
    """Git lists the files of a mutant, and none of the tree in which the suite runs: it ignores that."""
    python = tmp_path / ".venv-compiled/bin/python"
    for folder in ("agentrail", "scripts", ".venv-compiled/bin"):
        (tmp_path / folder).mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    (tmp_path / "pyproject.toml").touch()
    for name in ("compiled_test.sh", "compiling.py", "build_hook.py"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    command = ["bash", "scripts/compiled_test.sh"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (f"{tmp_path}\n", 0), done.stderr
