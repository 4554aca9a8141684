"""Tables of tests whose cells prove much the same: `make test` runs a cell for each row and each column, `make check` all."""

from collections.abc import Sequence
from typing import Any

import pytest


def paired(rows: Sequence[Any], columns: Sequence[Any]) -> list[Any]:
    """Give each row with each column, for `parametrize`; what `make test` leaves out is marked `check`.

    Left in are a first row with a first column, a second with a second, and so on until both have been through: whatever
    breaks for one row, or for one column, is noticed at once.

    Args:
        rows: Values, or tuples of several; at least one.
        columns: Values; at least one.
    """
    left_in = {(turn % len(rows), turn % len(columns)) for turn in range(max(len(rows), len(columns)))}
    return [
        pytest.param(
            *(row if isinstance(row, tuple) else (row,)),
            column,
            marks=() if (line, place) in left_in else pytest.mark.check,
        )
        for line, row in enumerate(rows)
        for place, column in enumerate(columns)
    ]


def first(values: Sequence[Any], many: int = 1) -> list[Any]:
    """Give all values, for `parametrize`; those behind the first few are marked `check`.

    Args:
        values: Each of them is one value, not a tuple of several.
        many: How many `make test` runs.
    """
    return [
        pytest.param(value, marks=() if place < many else pytest.mark.check)
        for place, value in enumerate(values)
    ]
