"""Order of listed sessions, and the start of the next page. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from agentrail.wire.rows import SessionRow

SORTS: Final = ("created", "changed", "cost", "tokens", "title")
"""Sort keys. A leading `-` means descending order."""

USUAL_SORT: Final = "-created"

ListPlace: TypeAlias = tuple[int, str]
"""Place of a session in a list: its sort number and its id."""

_USD: Final = 1_000_000
_PREFIX_BYTES: Final = 6
_MAX_NUMBER: Final = (1 << 53) - 1


def place_in_list(row: SessionRow, sort: str) -> ListPlace:
    """Return the place of a session. For titles, the number encodes the first bytes."""
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
    """Return rows in order, after a place. One that moved meanwhile may be repeated or skipped."""
    turned = sort.startswith("-")
    is_by_title = sort.endswith("title")

    def key(row: SessionRow) -> tuple[int, str, str]:
        number, session_id = place_in_list(row, sort)
        return number, _title(row) if is_by_title else "", session_id

    ordered = sorted(rows, key=key, reverse=turned)
    if behind is None:
        return ordered
    if is_by_title:
        # Titles with equal beginnings have one number. If the row itself still exists, it marks the place.
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
