"""Lives that broke a promise once, and were kept when their bug was mended."""

import warnings
from pathlib import Path

import pytest

from agentrail.testing.seeded import NotRepeatable
from agentrail.testing.simulation.sim_files import replay

KEPT = sorted((Path(__file__).parent / "lives").glob("*.sim"))


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_what_was_mended_stays_mended(file):
    """The same draws lead to a life in which all holds. It may be another life than then, since the code has changed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotRepeatable)
        report = replay(file)
    assert report.broken is None, report.broken


def test_there_are_kept_lives():
    """So that an empty directory is no success."""
    assert KEPT
