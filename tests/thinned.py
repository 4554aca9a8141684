"""Tables of tests: those whose cells prove much the same, of which `make test` runs a few, and those whose rows take no time."""

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import pytest

T = TypeVar("T")

IS_NIGHTLY: Final = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
"""Whether `make nightly` runs, which has what CI only samples."""

nightly: Final = pytest.mark.skipif(
    not IS_NIGHTLY, reason="make nightly runs it; another test of its kind runs here"
)
"""A test whose sibling is enough for one change."""


def paired(rows: Sequence[Any], columns: Sequence[Any]) -> list[Any]:
    """Give each row with each column, for `parametrize`; what `make test` leaves out is marked `check`.

    Left in are a first row with a first column, a second with a second, and so on until both have been through: whatever
    breaks for one row, or for one column, is noticed at once.
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
    """Give all values, for `parametrize`; those behind the first few are marked `check`."""
    return [
        pytest.param(value, marks=() if place < many else pytest.mark.check)
        for place, value in enumerate(values)
    ]


def sampled(cells: Sequence[Any], every: int = 3) -> list[Any]:
    """Return the cells of `paired` or `first`, of those marked `check` one in three; `make nightly` has all of them."""
    marked = [cell for cell in cells if cell.marks]
    dropped = [] if IS_NIGHTLY else [cell for place, cell in enumerate(marked) if place % every]
    return [cell for cell in cells if cell not in dropped]


def sample(values: Sequence[T], many: int) -> Sequence[T]:
    """Return so many values, spread evenly over all of them; in `make nightly`, all."""
    if IS_NIGHTLY or many >= len(values):
        return values
    return [values[place * len(values) // many] for place in range(many)]


def each(names: str | tuple[str, ...], values: Iterable[Any], *, label: Callable[[Any], str] = repr) -> Any:
    """Run a test for each row of a table, as one test: as `parametrize`, where a row costs less than a test of its own does.

    A test of its own is collected, ordered, set up and reported, in each worker; that is thirty times what a row of pure code takes.
    All rows run, and each that fails is told of. Fixtures are shared by the rows, so the test changes nothing of theirs.
    """
    rows = [one if isinstance(names, tuple) else (one,) for one in values]
    keys = names if isinstance(names, tuple) else (names,)
    assert rows, "a table without rows proves nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def every(**fixtures: Any) -> None:
            faults = []
            for row in rows:
                try:
                    test(**fixtures, **dict(zip(keys, row, strict=True)))
                except Exception as error:  # noqa: BLE001 - all that fail are told of
                    error.add_note(f"row {label(row[0] if len(row) == 1 else row):.300}")
                    faults.append(error)
            if faults:
                message = f"{len(faults)} of {len(rows)} rows"
                raise ExceptionGroup(message, faults)

        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in keys]
        every.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        del every.__wrapped__  # else its parameters are taken for fixtures
        return every

    return decorate
