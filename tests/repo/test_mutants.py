"""The catalogue of mutants is in order; that each is killed is what `make mutants` says."""

from pathlib import Path

import pytest

from scripts.marked_rows import rows_of
from tests.mutants.catalogue import MUTANTS
from tests.thinned import each

ROOT = Path(__file__).parent.parent.parent


@each("mutant", MUTANTS, label=lambda mutant: mutant.name)
def test_a_mutant_has_its_place(mutant):
    """What it replaces stands in its file, once; and its test is there."""
    assert (ROOT / "agentrail" / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new
    file, _, test = mutant.killed_by.partition("::")
    assert test.partition("[")[0] in (ROOT / file).read_text()


def test_there_are_enough():
    """Twenty-five at least, each under a name of its own."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25


@pytest.mark.check  # it collects the tests once more
def test_a_mutant_of_a_row_is_killed_by_a_test_of_that_row():
    """Whoever reads the mark of a test can believe it: without the guarantee the test fails."""
    marked = rows_of(mutant.killed_by for mutant in MUTANTS)
    unmarked = {one.name: set(one.rows) - marked[one.killed_by] for one in MUTANTS}
    assert not {name: rows for name, rows in unmarked.items() if rows}


@pytest.mark.check  # pytest in a process of its own
def test_a_row_of_a_parameter_is_found():
    """Marks of parameters count for the test that names them, and for no other."""
    scenarios = "tests/core/test_scenarios.py::test_scenario"
    rows = rows_of([f"{scenarios}[approval_edited]", f"{scenarios}[client_ids]"])
    assert rows == {f"{scenarios}[approval_edited]": {58}, f"{scenarios}[client_ids]": {11}}
