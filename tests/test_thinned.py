"""Tables that are run as one test: each row runs, and each that fails is told of."""

import pytest

from tests.thinned import each

ASKED: list[int] = []


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
