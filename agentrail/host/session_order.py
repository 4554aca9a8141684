"""In which order sessions are listed, and where a page goes on. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from agentrail.wire.rows import SessionRow

SORTS: Final = ("created", "changed", "cost", "tokens", "title")
"""By what sessions are sorted; with `-` in front the greatest comes first."""

USUAL_SORT: Final = "-created"

ListPlace: TypeAlias = tuple[int, str]
"""Where a session stands in a list: the number that it is sorted by, and its id."""

_USD: Final = 1_000_000
_PREFIX_BYTES: Final = 6
_MAX_NUMBER: Final = (1 << 53) - 1


def place_in_list(row: SessionRow, sort: str) -> ListPlace:
    """Say where a session stands; of a title the number is its beginning."""
    match sort.removeprefix("-"):
        case "created":
            number = row.created_at_ms or 0
        case "changed":
            number = row.changed_at_ms
        case "cost":
            number = round((row.cost_usd or 0.0) * _USD)
        case "tokens":
            number = row.tokens or 0
        case _:
            beginning = _title(row).encode("utf-8", "replace")[:_PREFIX_BYTES]
            number = int.from_bytes(beginning.ljust(_PREFIX_BYTES, b"\0"))
    return min(number, _MAX_NUMBER), row.session_id


def rows_in_order(rows: Iterable[SessionRow], sort: str, behind: ListPlace | None) -> Sequence[SessionRow]:
    """Give rows in order, those behind a place.

    A row that moved meanwhile is given again or left out, as in any list that changes while it is read; no page comes twice for ever.
    """
    turned = sort.startswith("-")
    is_by_title = sort.endswith("title")

    def key(row: SessionRow) -> tuple[int, str, str]:
        number, session_id = place_in_list(row, sort)
        return number, _title(row) if is_by_title else "", session_id

    ordered = sorted(rows, key=key, reverse=turned)
    if behind is None:
        return ordered
    if is_by_title:
        # Titles that begin alike have one number: where the row itself is still there, it says where to go on.
        at = next((place for place, row in enumerate(ordered) if row.session_id == behind[1]), None)
        if at is not None:
            return ordered[at + 1 :]
    return [
        row
        for row in ordered
        if (place_in_list(row, sort) < behind if turned else place_in_list(row, sort) > behind)
    ]


def _title(row: SessionRow) -> str:
    return (row.title or row.first_words or "").casefold()
