"""The catalogue of mutants is in order; that each is killed is what `make mutants` says."""

from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_has_its_place(mutant):
    """What it replaces stands in its file, once; and its test is there."""
    assert (ROOT / "agentrail" / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new
    file, _, test = mutant.killed_by.partition("::")
    assert test.partition("[")[0] in (ROOT / file).read_text()


def test_there_are_enough():
    """Twenty-five at least, each under a name of its own."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25
