"""What `make test` leaves out of a table is in `make check`, with no row and no column left out; of one that is one test each row runs."""

import pytest

from tests import thinned
from tests.thinned import each, first, paired, sample, sampled


@pytest.mark.parametrize(("rows", "columns"), [("ab", "xyz"), ("abcde", "xy"), ("a", "x"), ("abc", "xyz")])
def test_each_row_and_each_column_stays(rows, columns):
    """All cells are there, and those that are not for `make check` alone have each row and each column."""
    cells = paired(rows, columns)
    assert [cell.values for cell in cells] == [(row, column) for row in rows for column in columns]
    left_in = [cell.values for cell in cells if not cell.marks]
    assert {row for row, _ in left_in} == set(rows)
    assert {column for _, column in left_in} == set(columns)
    assert len(left_in) == max(len(rows), len(columns))
    assert {mark.name for cell in cells for mark in cell.marks} <= {"check"}


def test_of_many_the_first_stay():
    """And all others are there, for `make check`; a row of several values stands before the column."""
    cells = first("abc", 2)
    assert [cell.values for cell in cells] == [("a",), ("b",), ("c",)]
    assert [[mark.name for mark in cell.marks] for cell in cells] == [[], [], ["check"]]
    assert [cell.values for cell in paired([(1, 2)], ["x"])] == [(1, 2, "x")]


@pytest.mark.parametrize(
    ("is_nightly", "values", "spread"), [(False, "abcf", "adg"), (True, "abcdefg", "abcdefghij")]
)
def test_a_sample_has_all_at_night(is_nightly, values, spread, monkeypatch):
    """What `make test` runs stays, and of the others some, spread evenly; no more is wanted than there is."""
    monkeypatch.setattr(thinned, "IS_NIGHTLY", is_nightly)
    found = "".join(cell.values[0] for cell in sampled(first("abcdefg", 1), every=4))
    assert found == values.replace("cf", "f")
    assert "".join(sample("abcdefghij", 3)) == spread
    assert sample("abc", 5) == "abc"


@each(("number", "double"), [(0, 0), (1, 2), (2, 4)])
def test_fixtures_come_beside_a_row(number, double, tmp_path):
    """The same for all rows, whose values have the names of their columns."""
    assert 2 * number == double
    assert (tmp_path / str(number - 1)).exists() is (number > 0)
    (tmp_path / str(number)).touch()


def test_every_row_runs_and_each_that_fails_is_told_of():
    """Also behind one that fails. A table without rows would be green whatever happens, and is refused."""
    asked = []

    @each("number", range(5))
    def run(number):
        asked.append(number)
        assert number % 2

    with pytest.raises(ExceptionGroup, match="3 of 5 rows") as failed:
        run()
    assert asked == [0, 1, 2, 3, 4]
    assert [error.__notes__ for error in failed.value.exceptions] == [["row 0"], ["row 2"], ["row 4"]]
    with pytest.raises(AssertionError, match="proves nothing"):
        each("number", [])
