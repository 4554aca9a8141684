"""Cost reports: spending summed by day, profile, model, user or session, in a time zone. Pure functions, without a store."""

import datetime
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo

from attrs import frozen

from agentrail.core.journal.usage import Spending, SpentAmount, add_up
from agentrail.errors import OptionError
from agentrail.runtime.spending_book import SessionSpending

By: TypeAlias = Literal["day", "profile", "model", "user", "session"]
"""The grouping of a table."""

WAYS: Final[tuple[By, ...]] = get_args(By)

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_LAST_DAYS: Final = re.compile(r"([1-9]\d{0,4})d")
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]{1,64}(/[A-Za-z0-9_+-]{1,64}){0,2}")
_DAY_MS: Final = 86_400_000


@frozen(kw_only=True)
class CostQuery:
    """The range and grouping of a cost table.

    Attributes:
        since: The first day. None: no limit.
        until: The last day, inclusive. None: today.
    """

    by: By = "day"
    zone: datetime.tzinfo = datetime.UTC
    since: datetime.date | None = None
    until: datetime.date | None = None


@frozen(kw_only=True)
class CostRow:
    """One row.

    Attributes:
        key: The day as `2026-11-22`, or the name of the profile, model, user or root session. Empty if there is none.
    """

    key: str
    amount: SpentAmount


@frozen(kw_only=True)
class CostTable:
    """A cost table with its totals.

    Attributes:
        rows: Days in order. Other groupings by cost, the most expensive first.
        today: Spending of the current day, also outside the range of the query.
        unread: Ids of sessions whose journals could not be read to their end: their later spending is missing.
    """

    rows: tuple[CostRow, ...]
    total: SpentAmount
    today: SpentAmount
    month: SpentAmount
    unread: tuple[str, ...] = ()


def make_query(
    by: str = "day",
    *,
    zone: str = "UTC",
    since: str | None = None,
    until: str | None = None,
    now_ms: int,
) -> CostQuery:
    faults: list[str] = []
    way = next((one for one in WAYS if one == by), None)
    if way is None:
        faults.append(f"by is {by!r:.80}: expected one of {', '.join(WAYS)}")
    found = zone_named(zone)
    if found is None:
        faults.append(f"tz is {zone!r:.80}: expected the name of a time zone, such as Europe/Berlin or UTC")
    today = day_of(now_ms, found or datetime.UTC)
    days: dict[str, datetime.date | None] = {}
    for name, text in (("since", since), ("until", until)):
        day = None if text is None else _day_in(text, today)
        if text is not None and day is None:
            faults.append(
                f"{name} is {text!r:.80}: expected a day such as 2026-11-01, or 7d for the last seven days"
            )
        days[name] = day
    if faults or way is None or found is None:
        raise OptionError(faults)
    return CostQuery(by=way, zone=found, since=days["since"], until=days["until"])


def zone_named(name: str) -> datetime.tzinfo | None:
    """Find a time zone, or None. The name is validated first, because it is a path in the time zone data."""
    if name in ("UTC", "Z"):
        return datetime.UTC
    if not _ZONE.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # a directory raises one of these too
        return None


def day_of(at_ms: int, zone: datetime.tzinfo) -> datetime.date:
    return datetime.datetime.fromtimestamp(at_ms / 1000, zone).date()


def first_day_of(query: CostQuery, now_ms: int) -> datetime.date | None:
    """Return the first day whose sessions must be read: that of the query or of the month. None: all days."""
    month = day_of(now_ms, query.zone).replace(day=1)
    return None if query.since is None else min(query.since, month)


def begin_of(day: datetime.date, zone: datetime.tzinfo) -> int:
    begin = datetime.datetime.combine(day, datetime.time(), zone)
    return int(begin.timestamp() * 1000)


def cost_table(sessions: Iterable[SessionSpending], query: CostQuery, now_ms: int) -> CostTable:
    today = day_of(now_ms, query.zone)
    key_of = _KEYS[query.by]
    days: dict[int, datetime.date] = {}
    rows: dict[str, SpentAmount] = {}
    of_today, of_month = SpentAmount(), SpentAmount()
    unread: list[str] = []
    for told in sessions:
        if told.fault is not None:
            unread.append(str(told.session_id))
        for one in told.spendings:
            day = days.get(one.slot_ms)
            if day is None:
                day = days[one.slot_ms] = day_of(one.slot_ms, query.zone)
            if day == today:
                of_today += one.amount
            if (day.year, day.month) == (today.year, today.month):
                of_month += one.amount
            if (query.since is None or day >= query.since) and (query.until is None or day <= query.until):
                key = key_of(told, one, day)
                rows[key] = rows.get(key, SpentAmount()) + one.amount
    return CostTable(
        rows=tuple(_in_order(rows, query.by)),
        total=add_up(rows.values()),
        today=of_today,
        month=of_month,
        unread=tuple(unread),
    )


def _in_order(rows: dict[str, SpentAmount], by: By) -> Iterator[CostRow]:
    def place(pair: tuple[str, SpentAmount]) -> tuple[int, int, str]:
        key, amount = pair
        return (0, 0, key) if by == "day" else (-amount.atto_usd, -amount.tokens_in - amount.tokens_out, key)

    for key, amount in sorted(rows.items(), key=place):
        yield CostRow(key=key, amount=amount)


_KeyOf: TypeAlias = Callable[[SessionSpending, Spending, datetime.date], str]

_KEYS: Final[dict[By, _KeyOf]] = {
    "day": lambda _told, _one, day: day.isoformat(),
    "profile": lambda told, _one, _day: told.agent_id,
    "model": lambda _told, one, _day: one.model,
    "user": lambda told, _one, _day: told.user_id,
    "session": lambda told, _one, _day: str(told.root_id),
}


def _day_in(text: str, today: datetime.date) -> datetime.date | None:
    last = _LAST_DAYS.fullmatch(text)
    try:
        if last is not None:
            return today - datetime.timedelta(days=int(last[1]) - 1)
        return datetime.date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except (ValueError, OverflowError):
        return None
