"""Rate limits and quotas of callers. Callers pass the time."""

import datetime
import math
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from hashlib import blake2b
from itertools import islice
from types import MappingProxyType
from typing import Final, Generic, Literal, Self, TypeAlias, TypeVar

import trio
from attrs import define, field, frozen
from msgspec import Struct
from msgspec.json import encode

from agentrail import outside
from agentrail.abc.store import OwedRow, SharedDraw, decoded_rows
from agentrail.actors.keyed_locks import KeyedLocks
from agentrail.config.host_limits import Limits as Limits  # noqa: PLC0414 - imported from here by hosts and their tests
from agentrail.core.journal.usage import atto_of, usd_of
from agentrail.errors import DayBudgetSpent, QuotaReached, StoreUnavailable
from agentrail.host.hook_payloads import DayBudgetWarning
from agentrail.host.identity import SessionOwner
from agentrail.logs import Logger
from agentrail.runtime.cost_table import begin_of, day_of
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.spending_book import SessionSpending
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.structs import decoder_of, picked_fields

LOGGER: Final = Logger("agentrail.host")

K = TypeVar("K", bound=Hashable)


@frozen
class Pace:
    """A rate with a burst."""

    count: int
    window_seconds: float
    burst: int

    @property
    def interval_seconds(self) -> float:
        return self.window_seconds / self.count


@frozen(kw_only=True)
class Draw:
    """Result of taking from a bucket.

    Attributes:
        full_in_seconds: Time until the bucket is full again without further use, rounded up.
        retry_after_seconds: Time until the next token. 0 if allowed, otherwise rounded up and at least 1.
    """

    is_allowed: bool
    left: int
    full_in_seconds: int
    retry_after_seconds: int


_SLACK: Final = 1e-6
"""Tolerance in seconds: sums of times are inexact, and a caller that waits the announced time is not too early."""


def decide_draw(full_at: float, pace: Pace, now: float, count: int = 1) -> tuple[float, Draw]:
    """Take tokens from a bucket, which is the time when it will be full. A refused call takes nothing, and -1 returns one."""
    lacking = max(full_at - now, 0.0)
    room = pace.interval_seconds * pace.burst
    needed = lacking + pace.interval_seconds * count
    # Each draw may round the full time by half of the clock's resolution, and a burst of draws adds up.
    slack = _SLACK + pace.burst * math.ulp(now)
    is_allowed = needed <= room + slack
    behind = needed if is_allowed else lacking
    return now + behind, _draw(pace, behind, needed, slack, is_allowed=is_allowed)


def draw_of_shared(answer: SharedDraw, pace: Pace) -> Draw:
    """Return the result of a draw from a bucket that a store keeps for all nodes."""
    behind = max(answer.full_at_ms - answer.now_ms, 0.0) / 1000
    return _draw(pace, behind, behind + pace.interval_seconds, _SLACK, is_allowed=answer.is_allowed)


def _draw(pace: Pace, behind: float, needed: float, slack: float, *, is_allowed: bool) -> Draw:
    room = pace.interval_seconds * pace.burst
    return Draw(
        is_allowed=is_allowed,
        left=max(math.floor((room - behind + slack) / pace.interval_seconds), 0),
        full_in_seconds=math.ceil(behind - slack),
        retry_after_seconds=0 if is_allowed else max(math.ceil(needed - room - slack), 1),
    )


class Allowance(Generic[K]):
    """Token buckets of one rate, by key. Above `max_keys`, the least recently used one is dropped."""

    def __init__(self, pace: Pace, *, max_keys: int = 100_000) -> None:
        self.pace = pace
        self._max_keys = max_keys
        self._full_at: OrderedDict[K, float] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: K, now: float, count: int = 1) -> Draw:
        full_at, draw = decide_draw(self._full_at.pop(key, now), self.pace, now, count)
        # Two per call, so that buckets go faster than they come, and no call pays for all of them.
        for oldest, its_full_at in tuple(islice(self._full_at.items(), 2)):
            if its_full_at > now:
                break
            del self._full_at[oldest]
        if full_at > now:
            self._full_at[key] = full_at
            if len(self._full_at) > self._max_keys:
                self._full_at.popitem(last=False)
        return draw


Charge: TypeAlias = Literal["messages", "calls"]
"""The bucket that a call is charged to."""

_CHARGES: Final[dict[str, Charge | None]] = {
    "chat": "messages",
    "stream": "messages",
    "prompt": "messages",
    "steer": "messages",
    "respond": "messages",
    "abort": None,
    "reject": None,
    "cancel": None,
}


def decide_charge(operation: str) -> Charge | None:
    """Return the bucket that a call is charged to. None for free calls: a stop must never be delayed."""
    return _CHARGES.get(operation, "calls")


class Allowances(Generic[K]):
    """The buckets of all principals of a host: one for messages, one for all other calls."""

    def __init__(self, limits: Limits) -> None:
        self.by_charge: dict[Charge, Allowance[K]] = {
            "messages": Allowance(Pace(limits.messages_per_minute, 60.0, limits.messages_burst)),
            "calls": Allowance(Pace(limits.calls_per_minute, 60.0, limits.calls_burst)),
        }

    def take(self, owner: K, operation: str, now: float, count: int = 1) -> Draw | None:
        """Charge a call. None if it is free."""
        charge = decide_charge(operation)
        return None if charge is None else self.by_charge[charge].take(owner, now, count)


Fullness: TypeAlias = Literal["caller", "process"]
"""Exhausted limit: the caller's own, or the process's."""


@define(eq=False)
class OpenCounts(Generic[K]):
    """Counts of open streams and sockets, limited per key and, unless `max_in_all` is None, in total."""

    _max_of_each: int
    _max_in_all: int | None = None
    _of_each: dict[K, int] = field(init=False, factory=dict)
    _in_all: int = field(init=False, default=0)

    def of(self, key: K) -> int:
        return self._of_each.get(key, 0)

    @property
    def in_all(self) -> int:
        return self._in_all

    def take(self, key: K) -> "OpenPlace[K] | Fullness":
        if self.of(key) >= self._max_of_each:
            return "caller"
        if self._max_in_all is not None and self._in_all >= self._max_in_all:
            return "process"
        return self.take_anyway(key)

    def take_anyway(self, key: K) -> "OpenPlace[K]":
        self._of_each[key] = self.of(key) + 1
        self._in_all += 1
        return OpenPlace(self, key)

    def _give_back(self, key: K) -> None:
        self._in_all -= 1
        left = self._of_each.pop(key) - 1
        if left:  # otherwise a key would be kept for every caller ever seen
            self._of_each[key] = left


@define(eq=False, weakref_slot=False)
class OpenPlace(Generic[K]):
    """A taken place until it is closed. A context manager."""

    _counts: OpenCounts[K]
    _key: K
    _is_open: bool = field(init=False, default=True)

    def close(self) -> None:
        """Release the place. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._counts._give_back(self._key)  # noqa: SLF001 - the two are one thing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class OpenSessions(Generic[K]):
    """Sessions per caller that have not ended. Ended ones are found when a caller reaches the limit."""

    def __init__(self, max_of_each: int, is_open: Callable[[K, str], bool]) -> None:
        self._max_of_each = max_of_each
        self._is_open = is_open
        # Whether each has started, with the last checked caller at the end.
        self._ids: dict[K, dict[str, bool]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def of(self, owner: K) -> int:
        return len(self._ids.get(owner, ()))

    @contextmanager
    def starting(self, owner: K, session_id: str) -> Iterator[None]:
        was_known = session_id in self._ids.get(owner, ())
        if not was_known:
            self._look_at_another(owner)
            if self.of(owner) >= self._max_of_each:
                self._forget_ended(owner)
            if self.of(owner) >= self._max_of_each:
                message = f"{self._max_of_each} sessions are open, which is the limit; end one, or continue one of them"
                raise QuotaReached(message)
            self._ids.setdefault(owner, {})[session_id] = False
        try:
            yield
        except BaseException:
            if not was_known:
                self.forget(owner, session_id)
            raise
        self.note(owner, session_id)

    def note(self, owner: K, session_id: str) -> None:
        """Count an existing session regardless of the limit."""
        self._ids.setdefault(owner, {})[session_id] = True

    def forget(self, owner: K, session_id: str) -> None:
        """Stop counting a session. Idempotent."""
        ids = self._ids.get(owner, {})
        ids.pop(session_id, None)
        if not ids:
            self._ids.pop(owner, None)

    def _forget_ended(self, owner: K) -> None:
        for session_id, has_started in [*self._ids.get(owner, {}).items()]:
            if has_started and not self._is_open(owner, session_id):
                self.forget(owner, session_id)

    def _look_at_another(self, owner: K) -> None:
        # One per new session, so that callers who never return are not held indefinitely.
        oldest = next(iter(self._ids), owner)
        if oldest == owner:
            return
        self._forget_ended(oldest)
        if oldest in self._ids:
            self._ids[oldest] = self._ids.pop(oldest)


# Day budgets of a user and of a tenant, from one midnight UTC to the next.
#
# Spending is read from the journals, and that of deleted sessions from rows, so it is the same after a restart and
# on every node. A message is refused once the budget is spent. A running cycle is not stopped. Reserving a
# budget before each request was rejected: only the session knows the cost of its cycle, and the reservations
# of a tenant would need one place for all nodes.

LOOK_AGAIN_SECONDS: Final = 2.0
"""How long a reading is valid, in seconds. Later spending is noticed after that."""

WARN_AT: Final = 0.8
"""Part of a daily budget after whose use plugins and the webhook address of the host are warned, once a day."""

_NANO_USD: Final = 1e-9
"""Tolerance of that part in dollars, because products of floats are inexact."""

BudgetOf: TypeAlias = Literal["user", "tenant"]
"""Owner of a budget."""


NO_CYCLES: Final[Mapping[str, int]] = MappingProxyType({})


@frozen(kw_only=True)
class DayUse:
    """Usage of a tenant on one day."""

    day: datetime.date
    tenant_atto_usd: int = 0
    user_atto_usd: Mapping[str, int]


class CostDayBudget(Struct, frozen=True, kw_only=True):
    """A daily budget and its use. Once it is exhausted, no messages are accepted.

    Attributes:
        of: Kind of the budget's owner: `user` or `tenant`.
        name: User or tenant id.
        used_usd: Cost since the last UTC midnight, counting only known prices. A few seconds old.
        limit_usd: Limit of the budget.
        resets_at_ms: Next UTC midnight, in milliseconds since 1970.
        overrun_usd: The most by which cycles of this server that are under way may exceed the limit. Null without
            `cost_per_cycle_usd`.
    """

    of: BudgetOf
    name: str
    used_usd: float
    limit_usd: float
    resets_at_ms: int
    overrun_usd: float | None


def use_of_day(
    sessions: Iterable[SessionSpending], at_ms: int, deleted: Iterable[tuple[str, int]] = ()
) -> DayUse:
    """Add up what sessions have spent, and what users have in deleted ones, in 10⁻¹⁸ dollars."""
    day = day_of(at_ms, datetime.UTC)
    begin, end = begin_of(day, datetime.UTC), midnight_behind(day)
    of_users = dict[str, int]()
    of_sessions = (
        (told.user_id, sum(one.amount.atto_usd for one in told.spendings if begin <= one.slot_ms < end))
        for told in sessions
    )
    for user_id, used in (*of_sessions, *deleted):
        if used:
            of_users[user_id] = of_users.get(user_id, 0) + used
    return DayUse(day=day, tenant_atto_usd=sum(of_users.values()), user_atto_usd=MappingProxyType(of_users))


def midnight_behind(day: datetime.date) -> int:
    return begin_of(day + datetime.timedelta(days=1), datetime.UTC)


def day_budgets(
    limits: Limits, use: DayUse, tenant_id: str, users: Iterable[str], cycles: Mapping[str, int] = NO_CYCLES
) -> tuple[CostDayBudget, ...]:
    """Return the budgets of a tenant, its own first. `cycles` are those of each user whose cost may be missing in `use`."""
    found: list[CostDayBudget] = []

    def add(of: BudgetOf, name: str, used_atto_usd: int, limit_usd: float | None, count: int) -> None:
        if limit_usd is not None:
            most = limits.cost_per_cycle_usd
            found.append(
                CostDayBudget(
                    of=of,
                    name=name,
                    used_usd=usd_of(used_atto_usd),
                    limit_usd=limit_usd,
                    resets_at_ms=midnight_behind(use.day),
                    overrun_usd=None if most is None else most * count,
                )
            )

    add("tenant", tenant_id, use.tenant_atto_usd, limits.tenant_cost_per_day_usd, sum(cycles.values()))
    for user_id in users:
        used = use.user_atto_usd.get(user_id, 0)
        add("user", user_id, used, limits.cost_per_day_usd, cycles.get(user_id, 0))
    return tuple(found)


def decide_spent(limits: Limits, use: DayUse, user_id: str) -> BudgetOf | None:
    """Return the exhausted budget that blocks a user's message. Sums are compared as integers."""
    if _is_spent(use.user_atto_usd.get(user_id, 0), limits.cost_per_day_usd):
        return "user"
    return "tenant" if _is_spent(use.tenant_atto_usd, limits.tenant_cost_per_day_usd) else None


def _is_spent(used_atto_usd: int, limit_usd: float | None) -> bool:
    return limit_usd is not None and used_atto_usd >= atto_of(float(limit_usd))


DAY_SPENT: Final = "day_spent"
"""Kind of the stored rows of what was spent in deleted sessions: one for each day, user and process."""

_KEPT_DAYS: Final = datetime.timedelta(days=1)
"""Former days whose rows stay: a node whose clock is ahead would remove those of today."""


class _SpentRow(Struct, frozen=True, kw_only=True, tag_field="v", tag=1):
    user: str
    atto_usd: str  # beyond the integers of JSON


_ROWS: Final = decoder_of(_SpentRow)


def _place_of_rows(day: datetime.date, tenant_id: str) -> str:
    return f"{day}/{_digest(tenant_id)}/"


def _digest(name: str) -> str:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def encode_day_spent(day: datetime.date, owner: SessionOwner, process: str, atto_usd: int) -> OwedRow:
    row_id = f"{_place_of_rows(day, owner.tenant_id)}{_digest(owner.user_id)}/{process}"
    body = encode(_SpentRow(user=owner.user_id, atto_usd=f"{atto_usd}"))
    return OwedRow(kind=DAY_SPENT, id=row_id, body=body)


def decode_day_spent(row: OwedRow) -> tuple[str, int]:
    read = _ROWS.decode(row.body)
    return read.user, max(int(read.atto_usd), 0)


@frozen(kw_only=True)
class _Reading:
    at: float
    ends_before: int
    use: DayUse


class DayBudgets:
    """Checks the spending of all tenants of a host against their budgets."""

    def __init__(self, supervisor: SessionSupervisor, limits: Limits) -> None:
        self._supervisor = supervisor
        self._limits = limits
        self.cost_per_cycle_usd: float | None = limits.cost_per_cycle_usd
        self.has_budgets: bool = limits.has_day_budgets
        self._known: OrderedDict[str, _Reading] = OrderedDict()  # oldest first
        self._reading = trio.Lock()
        self._deleted: dict[SessionOwner, int] = {}  # by this process
        self._erased: dict[SessionOwner, dict[str, int]] = {}  # same, and known to it
        self._leaving: dict[tuple[SessionOwner, str], int] = {}  # perhaps deleted
        self._deleting = KeyedLocks()
        self._deleted_on = datetime.date.min
        self._has_old_rows = False
        self._process = ""
        self._open: Counter[SessionOwner] = Counter()
        # Those whose cost may be missing in a reading that is in use, numbered in the order of their ends.
        self._ended: deque[tuple[int, SessionOwner]] = deque()
        self._ends = 0
        self._warned: set[tuple[datetime.date, BudgetOf, str, str]] = set()
        self.warnings: Counter[BudgetOf] = Counter()
        self.on_warning: Callable[[DayBudgetWarning], None] = lambda _: None

    def count_cycle(self, owner: SessionOwner) -> Callable[[], None]:
        """Count the cycle of a message, and return the function to call at its end. The next reading has its cost."""
        self._open[owner] += 1
        return partial(self._end_cycle, owner)

    def _end_cycle(self, owner: SessionOwner) -> None:
        self._open[owner] -= 1
        if not self._open[owner]:  # otherwise each user ever seen would stay
            del self._open[owner]
        self._ends += 1
        self._ended.append((self._ends, owner))

    @asynccontextmanager
    async def counting(self, owner: SessionOwner, session_id: str) -> AsyncIterator[None]:
        """Count today's spending of a session and its children until the end of the day, although the block deletes it."""
        scope = owner.tenant_id
        async with self._deleting.hold((scope, session_id)):  # a second deletion finds it gone
            if self.has_budgets:
                told = await self._supervisor.spendings(scope=scope, since_ms=_today_ms(), root=session_id)
                if told:  # otherwise an attempt that was cancelled has deleted it
                    self._begin_day()
                    self._leaving[owner, session_id] = use_of_day(told, now_ms()).tenant_atto_usd
            yield
            await self._count_deleted(owner, session_id)

    async def _count_deleted(self, owner: SessionOwner, session_id: str) -> None:
        self._begin_day()
        spent = self._leaving.pop((owner, session_id), 0)
        if spent:
            self._deleted[owner] = self._deleted.get(owner, 0) + spent
            self._erased.get(owner, {}).pop(session_id, None)
            await self._store(owner)

    async def spendings_of(self, owner: SessionOwner) -> list[SessionSpending]:
        """Return today's spending of a user's sessions. What was read stays known to this process if they are erased next."""
        if not self.has_budgets:
            return []
        told = await self._supervisor.spendings(scope=owner.tenant_id, since_ms=_today_ms())
        return [one for one in told if one.user_id == owner.user_id]

    async def keep_erased(self, owner: SessionOwner, spent: Iterable[SessionSpending]) -> None:
        """Count the spending of erased sessions in other processes too."""
        self._begin_day()
        of_roots = Counter[str]()
        for one in spent:
            of_roots[one.root_id] += use_of_day([one], now_ms()).tenant_atto_usd
        self._erased.setdefault(owner, {}).update(of_roots)
        await self._store(owner)

    def _begin_day(self) -> None:
        """Forget what was noted on another day: a deletion may take from one day into the next."""
        day = day_of(now_ms(), datetime.UTC)
        if day != self._deleted_on:
            self._deleted_on = day
            self._has_old_rows = True
            for known in (self._leaving, self._deleted, self._erased):
                known.clear()

    async def _store(self, owner: SessionOwner) -> None:
        total = self._deleted.get(owner, 0) + sum(self._erased.get(owner, {}).values())
        if total and self._supervisor.keeps_owed:
            self._process = self._process or outside.ids(9)
            row = encode_day_spent(self._deleted_on, owner, self._process, total)
            with suppress(StoreUnavailable):  # the next row of this user has it too
                await self._supervisor.change_owed([row])
                if self._has_old_rows:
                    self._has_old_rows = False
                    await self._remove_rows(f"{self._deleted_on - _KEPT_DAYS}/")

    async def _remove_rows(self, before: str) -> None:
        while True:
            rows = await self._supervisor.owed(DAY_SPENT)
            old = [(DAY_SPENT, row.id) for row in rows if row.id < before]
            if not old:
                return
            await self._supervisor.change_owed([], old)

    async def _deleted_elsewhere(self, tenant_id: str, day: datetime.date) -> list[tuple[str, int]]:
        """Return what users have spent in sessions that other nodes and earlier processes have deleted."""
        found: list[OwedRow] = []
        after = place = _place_of_rows(day, tenant_id)
        while self._supervisor.keeps_owed and after.startswith(place):
            rows = await self._supervisor.owed(DAY_SPENT, after=after)
            found += [row for row in rows if row.id.startswith(place)]
            after = rows[-1].id if rows else ""
        others = [row for row in found if row.id.rpartition("/")[2] != self._process]
        return [*decoded_rows(others, decode_day_spent, LOGGER.warning, "what was spent in deleted sessions")]

    async def check(self, owner: SessionOwner) -> None:
        """Raise if a budget of the caller is exhausted."""
        if not self.has_budgets:
            return
        use = (await self._read(owner.tenant_id)).use
        spent = decide_spent(self._limits, use, owner.user_id)
        if spent is not None:
            raise _refusal(spent, self._limits, use.day, now_ms())

    async def of_tenant(self, tenant_id: str) -> tuple[CostDayBudget, ...]:
        """Return the tenant's budgets, those of today's spenders nearest to their limit first."""
        if not self.has_budgets:
            await trio.lowlevel.checkpoint()
            return ()
        use = (await self._read(tenant_id)).use
        cycles, used = self._cycles_of(tenant_id), use.user_atto_usd
        users = sorted({*used, *cycles}, key=lambda user_id: (-used.get(user_id, 0), user_id))
        return day_budgets(self._limits, use, tenant_id, users, cycles)

    def _cycles_of(self, tenant_id: str) -> Counter[str]:
        """Count the cycles of each user that are open, or have ended since the last reading began."""
        known = self._known.get(tenant_id)
        ended = [one for number, one in self._ended if known is None or number > known.ends_before]
        return Counter(one.user_id for one in (*self._open.elements(), *ended) if one.tenant_id == tenant_id)

    async def _read(self, tenant_id: str) -> _Reading:
        async with self._reading:  # one task reads for all waiting tasks
            known = self._fresh(tenant_id)
            if known is not None:
                return known
            at_ms, ends = now_ms(), self._ends
            day = day_of(at_ms, datetime.UTC)
            # Before the journals: a session that is deleted meanwhile is missing for once, and does not count twice.
            deleted = await self._deleted_elsewhere(tenant_id, day)
            own = self._deleted.items() if self._deleted_on == day else ()
            deleted += [(owner.user_id, spent) for owner, spent in own if owner.tenant_id == tenant_id]
            told = await self._supervisor.spendings(scope=tenant_id, since_ms=_today_ms())
            there = {one.root_id for one in told}
            self._begin_day()
            for (owner, session_id), spent in [*self._leaving.items()]:
                if owner.tenant_id == tenant_id and session_id not in there:
                    deleted.append((owner.user_id, spent))
                    await self._count_deleted(owner, session_id)
            use = use_of_day(told, at_ms, deleted)
            read = self._known[tenant_id] = _Reading(at=trio.current_time(), ends_before=ends, use=use)
            oldest = next(iter(self._known.values()))
            while self._ended and self._ended[0][0] <= oldest.ends_before:
                self._ended.popleft()
            self._warn(tenant_id, use)
            return read

    def _warn(self, tenant_id: str, use: DayUse) -> None:
        self._warned = {one for one in self._warned if one[0] >= use.day}
        for budget in day_budgets(self._limits, use, tenant_id, use.user_atto_usd):
            key = (use.day, budget.of, tenant_id, budget.name)
            if budget.used_usd >= WARN_AT * budget.limit_usd - _NANO_USD and key not in self._warned:
                self._warned.add(key)
                self.warnings[budget.of] += 1
                user_id = budget.name if budget.of == "user" else None
                names = ("of", "used_usd", "limit_usd", "resets_at_ms")
                self.on_warning(
                    DayBudgetWarning(tenant_id=tenant_id, user_id=user_id, **picked_fields(budget, *names))
                )

    def _fresh(self, tenant_id: str) -> _Reading | None:
        oldest = trio.current_time() - LOOK_AGAIN_SECONDS
        today = day_of(now_ms(), datetime.UTC)
        for known, read in [*self._known.items()]:
            if read.at > oldest and read.use.day == today:
                break
            del self._known[known]
        return self._known.get(tenant_id)


def _today_ms() -> int:
    return begin_of(day_of(now_ms(), datetime.UTC), datetime.UTC)


def _refusal(spent: BudgetOf, limits: Limits, day: datetime.date, at_ms: int) -> DayBudgetSpent:
    # The amount is not included: a tenant's spending does not concern each of its users.
    if spent == "tenant":
        whose = f"the ${limits.tenant_cost_per_day_usd:.2f} that your tenant has"
    else:
        whose = f"the ${limits.cost_per_day_usd:.2f} that you have"
    wait_seconds = max(midnight_behind(day) - at_ms, 1_000) / 1000
    message = f"{whose} for this UTC day are spent: nothing was started, running cycles continue; try again after midnight UTC"
    return DayBudgetSpent(message, retry_after_seconds=wait_seconds)
