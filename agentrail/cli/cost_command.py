"""`agentrail cost`: total usage of stored sessions. The same function computes the sums of `GET /inspect/cost`."""

import csv
import io
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Annotated, Final

from cyclopts import Parameter

from agentrail import outside
from agentrail.cli.stdio import write_error
from agentrail.cli.store_access import USUAL_PLACE, StorePlace, admit_named_code, reading, say, store_command
from agentrail.core.journal.usage import ATTO, SpentAmount
from agentrail.runtime.cost_table import (
    By,
    CostQuery,
    CostTable,
    begin_of,
    cost_table,
    first_day_of,
    make_query,
)
from agentrail.runtime.spending_book import SpendingBook

COLUMNS: Final = (
    "key",
    "requests",
    "tokens_in",
    "tokens_out",
    "cached",
    "cost_usd",
    "estimated_usd",
    "unpriced",
)
"""The columns of the CSV: the fields of a row of `GET /inspect/cost`."""

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_UNREAD_NAMED: Final = 5


@store_command
def show_cost(  # noqa: PLR0913 - an option each
    *,
    by: Annotated[By, Parameter(help="The rows of the table.")] = "day",
    since: Annotated[
        str | None,
        Parameter(
            help="The first day, such as 2026-11-01, or 7d for the last seven days. Default: the beginning."
        ),
    ] = None,
    until: Annotated[str | None, Parameter(help="The last day, inclusive. Default: today.")] = None,
    tz: Annotated[str, Parameter(help="The time zone of the days, such as Europe/Berlin.")] = "UTC",
    as_csv: Annotated[bool, Parameter(name="--csv", help="Print CSV, with every digit of the sums.")] = False,
    place: StorePlace = USUAL_PLACE,
) -> None:
    at_ms = int(outside.wall() * 1000)
    query = make_query(by, zone=tz, since=since, until=until, now_ms=at_ms)
    table = read_table(place, query, at_ms)
    say(*(csv_lines(table) if as_csv else table_lines(table, query)))
    if table.unread:
        write_error(say_unread(table.unread))


def read_table(place: StorePlace, query: CostQuery, at_ms: int) -> CostTable:
    first = first_day_of(query, at_ms)
    since_ms = None if first is None else begin_of(first, query.zone)
    admit_named_code()
    with reading(place) as opened:
        book = SpendingBook(opened)
        return cost_table(book.look(place.scope or None, since_ms), query, at_ms)


def csv_lines(table: CostTable) -> Iterator[str]:
    """Yield a table as lines of CSV, starting with the column names. Sums are exact."""
    yield _csv(COLUMNS)
    for row in table.rows:
        one = row.amount
        # A spreadsheet would treat some names as formulas.
        key = f"'{row.key}" if row.key.startswith(_FORMULA) else row.key
        counts = (one.requests, one.tokens_in, one.tokens_out, one.cached)
        yield _csv([
            key, *map(str, counts), exact_usd(one.atto_usd), exact_usd(one.estimated_atto_usd), str(one.unpriced),
        ])  # fmt: skip


def _csv(fields: Sequence[str]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow(fields)
    return written.getvalue()


def exact_usd(atto_usd: int) -> str:
    text = f"{Decimal(atto_usd).scaleb(-18):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def table_lines(table: CostTable, query: CostQuery) -> Iterator[str]:
    heads = (query.by, "requests", "in", "cached", "out", "cost", "")
    rows = [_cells(row.key or "-", row.amount) for row in table.rows]
    rows.append(_cells("all", table.total))
    widths = [max(len(line[place]) for line in (heads, *rows)) for place in range(len(heads))]
    for line in (heads, *rows):
        first = f"{line[0]:<{widths[0]}}"
        others = [f"{text:>{width}}" for text, width in zip(line[1:-1], widths[1:-1], strict=True)]
        yield "  ".join((first, *others, line[-1])).rstrip()
    if table.total.tokens_in:
        share = table.total.cached / table.total.tokens_in
        yield f"{share:.0%} of the input came from a cache"


def _cells(key: str, one: SpentAmount) -> tuple[str, ...]:
    notes = []
    if one.estimated_atto_usd:
        notes.append(f"{one.estimated_atto_usd / one.atto_usd:.0%} estimated")
    if one.unpriced:
        notes.append(f"{one.unpriced} without a price")
    counts = (one.requests, one.tokens_in, one.cached, one.tokens_out)
    return (key, *(f"{count:,}" for count in counts), f"${one.atto_usd / ATTO:,.4f}", ", ".join(notes))


def say_unread(unread: Sequence[str]) -> str:
    some = ", ".join(unread[:_UNREAD_NAMED])
    more = f" and {len(unread) - _UNREAD_NAMED} more" if len(unread) > _UNREAD_NAMED else ""
    return f"the table is incomplete: the journals of these sessions cannot be read: {some}{more}"
