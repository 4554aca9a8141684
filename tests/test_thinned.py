"""What `make test` leaves out of a table is in `make check`, with no row and no column left out; of one that is one test each row runs."""

import pytest

from tests import thinned
from tests.thinned import each, first, paired, sample, sampled

ASKED: list[int] = []


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


def test_a_row_may_have_several_values():
    """They stand before the column."""
    assert [cell.values for cell in paired([(1, 2)], ["x"])] == [(1, 2, "x")]


def test_of_many_the_first_stay():
    """And all others are there, for `make check`."""
    cells = first("abc", 2)
    assert [cell.values for cell in cells] == [("a",), ("b",), ("c",)]
    assert [[mark.name for mark in cell.marks] for cell in cells] == [[], [], ["check"]]


@pytest.mark.parametrize(("is_nightly", "values"), [(False, "abcf"), (True, "abcdefg")])
def test_a_sample_has_all_at_night(is_nightly, values, monkeypatch):
    """What `make test` runs stays, and of the others one in four."""
    monkeypatch.setattr(thinned, "IS_NIGHTLY", is_nightly)
    assert "".join(cell.values[0] for cell in sampled(first("abcdefg", 1), every=4)) == values.replace(
        "cf", "f"
    )


@pytest.mark.parametrize(("is_nightly", "values"), [(False, "adg"), (True, "abcdefghij")])
def test_a_sample_is_spread_evenly(is_nightly, values, monkeypatch):
    """A second run has the same one, and no more is wanted than there is."""
    monkeypatch.setattr(thinned, "IS_NIGHTLY", is_nightly)
    assert "".join(sample("abcdefghij", 3)) == values
    assert sample("abc", 5) == "abc"


@each(("number", "double"), [(1, 2), (2, 4), (3, 6)])
def test_rows_have_the_names_of_their_columns(number, double):
    """As `parametrize` gives them."""
    assert 2 * number == double


@each("number", range(3))
def test_fixtures_come_beside_a_row(number, tmp_path):
    """The same for all rows."""
    assert tmp_path.is_dir()
    assert (tmp_path / str(number - 1)).exists() is (number > 0)
    (tmp_path / str(number)).touch()


def test_every_row_runs_and_each_that_fails_is_told_of():
    """Also behind one that fails."""

    @each("number", range(5))
    def run(number):
        ASKED.append(number)
        assert number % 2

    with pytest.raises(ExceptionGroup, match="3 of 5 rows") as failed:
        run()
    assert ASKED == [0, 1, 2, 3, 4]
    assert [error.__notes__ for error in failed.value.exceptions] == [["row 0"], ["row 2"], ["row 4"]]


def test_a_table_without_rows_is_refused():
    """It would be green whatever happens."""
    with pytest.raises(AssertionError, match="proves nothing"):
        each("number", [])
