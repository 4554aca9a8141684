"""What `make test` leaves out of a table is in `make check`, and it leaves out no row and no column."""

import pytest

from tests.thinned import first, paired


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
