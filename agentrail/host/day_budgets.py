"""Budgets of a day: what a caller, and a whole tenant, may spend from one midnight of UTC to the next, and what is spent of that.

What was spent is read from the journals, so it is the same behind a restart and on all nodes, and the same that `/inspect/cost` tells. What
follows from it is decided in plain functions. No HTTP enters.

A message is refused when the budget is spent; it is not cut when it passes the budget. Not a reservation in front of each request: what a
cycle is going to cost is known to its session, and what all sessions of a tenant reserve would have to be known in one place, on all nodes.
"""

import datetime
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import trio
from attrs import frozen

from agentrail.core.journal.spending import atto_of, usd_of
from agentrail.errors import DayBudgetSpent
from agentrail.host.identity import SessionOwner
from agentrail.host.limits import Limits
from agentrail.runtime.clock import now_ms
from agentrail.runtime.cost_table import begin_of, day_of
from agentrail.runtime.spending_book import SessionSpending
from agentrail.runtime.supervisor import SessionSupervisor

LOOK_AGAIN_SECONDS: Final = 2.0
"""How long what was read counts; what is spent meanwhile is seen later."""

BudgetOf: TypeAlias = Literal["user", "tenant"]
"""Whose a budget is."""


@frozen(kw_only=True)
class DayUse:
    """What was used on one day by a tenant.

    Attributes:
        day: Of UTC.
        tenant_atto_usd: By all its users, in 10⁻¹⁸ dollars.
        user_atto_usd: By each of them, by id; those who used nothing are left out.
    """

    day: datetime.date
    tenant_atto_usd: int = 0
    user_atto_usd: Mapping[str, int]


@frozen(kw_only=True)
class DayBudget:
    """A budget of a day, and what is used of it.

    Attributes:
        of: Whose it is.
        name: The user's id, or the tenant's.
        used_usd: What was spent since midnight, as far as prices are known.
        limit_usd: What may be spent.
        resets_at_ms: The next midnight of UTC, in milliseconds since 1970.
    """

    of: BudgetOf
    name: str
    used_usd: float
    limit_usd: float
    resets_at_ms: int


def use_of_day(sessions: Iterable[SessionSpending], at_ms: int) -> DayUse:
    """Add up what was used on the day of an instant.

    Args:
        sessions: Of one tenant; those that work for others by themselves, as of `SessionSupervisor.spendings`.
        at_ms: In milliseconds since 1970.
    """
    day = day_of(at_ms, datetime.UTC)
    begin = begin_of(day, datetime.UTC)
    of_users: dict[str, int] = {}
    for told in sessions:
        used = sum(one.amount.atto_usd for one in told.spendings if begin <= one.slot_ms)
        if used:
            of_users[told.user_id] = of_users.get(told.user_id, 0) + used
    return DayUse(day=day, tenant_atto_usd=sum(of_users.values()), user_atto_usd=MappingProxyType(of_users))


def midnight_behind(day: datetime.date) -> int:
    """Say when a day of UTC is over, in milliseconds since 1970."""
    return begin_of(day + datetime.timedelta(days=1), datetime.UTC)


def day_budgets(limits: Limits, use: DayUse, tenant_id: str, users: Iterable[str]) -> tuple[DayBudget, ...]:
    """Say how budgets stand: that of the tenant, then those of users; none where none is set.

    Args:
        limits: What may be spent.
        use: What was.
        tenant_id: Of which tenant.
        users: Of which of its users.
    """
    return tuple(_budgets(limits, use, tenant_id, users))


def _budgets(limits: Limits, use: DayUse, tenant_id: str, users: Iterable[str]) -> Iterator[DayBudget]:
    resets_at_ms = midnight_behind(use.day)
    if limits.tenant_cost_per_day_usd is not None:
        yield DayBudget(
            of="tenant",
            name=tenant_id,
            used_usd=usd_of(use.tenant_atto_usd),
            limit_usd=limits.tenant_cost_per_day_usd,
            resets_at_ms=resets_at_ms,
        )
    if limits.cost_per_day_usd is not None:
        for user_id in users:
            yield DayBudget(
                of="user",
                name=user_id,
                used_usd=usd_of(use.user_atto_usd.get(user_id, 0)),
                limit_usd=limits.cost_per_day_usd,
                resets_at_ms=resets_at_ms,
            )


def decide_spent(limits: Limits, use: DayUse, user_id: str) -> BudgetOf | None:
    """Say whose budget is spent, so that a message of a user is refused; None where there is something left of each.

    Sums are compared as whole numbers: floats that were added up would pass a limit, or not reach it, by their rounding.
    """
    if _is_spent(use.user_atto_usd.get(user_id, 0), limits.cost_per_day_usd):
        return "user"
    return "tenant" if _is_spent(use.tenant_atto_usd, limits.tenant_cost_per_day_usd) else None


def _is_spent(used_atto_usd: int, limit_usd: float | None) -> bool:
    return limit_usd is not None and used_atto_usd >= atto_of(float(limit_usd))


class DayBudgets:
    """Holds the budgets of all tenants of a host against what was spent."""

    def __init__(self, supervisor: SessionSupervisor, limits: Limits) -> None:
        """Begin without having read anything.

        Args:
            supervisor: Whose sessions spend; it has a store where there are budgets.
            limits: What may be spent.
        """
        self._supervisor = supervisor
        self._limits = limits
        self._known: OrderedDict[str, tuple[float, DayUse]] = OrderedDict()  # what was read longest ago first
        self._reading = trio.Lock()

    async def check(self, owner: SessionOwner) -> None:
        """Let a message of a caller pass, if there is something left of the budgets that it is held against.

        Raises:
            DayBudgetSpent: The caller's move: nothing is left, theirs or their tenant's.
            StoreUnavailable: What was spent cannot be read now.

        Cancellation: Nothing is lost by it.
        """
        if not self._limits.has_day_budgets:
            return
        use = await self._use_of(owner.tenant_id)
        spent = decide_spent(self._limits, use, owner.user_id)
        if spent is not None:
            raise _refusal(spent, self._limits, use.day, now_ms())

    async def of_tenant(self, tenant_id: str) -> tuple[DayBudget, ...]:
        """Say how the budgets of a tenant stand: its own, and those of users who spent something today, nearest to their limit first.

        Raises:
            StoreUnavailable: What was spent cannot be read now.

        Cancellation: Nothing is lost by it.
        """
        if not self._limits.has_day_budgets:
            await trio.lowlevel.checkpoint()
            return ()
        use = await self._use_of(tenant_id)
        users = sorted(use.user_atto_usd, key=lambda user_id: (-use.user_atto_usd[user_id], user_id))
        return day_budgets(self._limits, use, tenant_id, users)

    async def _use_of(self, tenant_id: str) -> DayUse:
        async with self._reading:  # one reads for all who wait
            known = self._fresh(tenant_id)
            if known is not None:
                return known
            at_ms = now_ms()
            since_ms = begin_of(day_of(at_ms, datetime.UTC), datetime.UTC)
            use = use_of_day(await self._supervisor.spendings(scope=tenant_id, since_ms=since_ms), at_ms)
            self._known[tenant_id] = (trio.current_time(), use)
            return use

    def _fresh(self, tenant_id: str) -> DayUse | None:
        """Give what was read just now; what counts no more is forgotten, so that not each tenant that ever came is held."""
        oldest = trio.current_time() - LOOK_AGAIN_SECONDS
        today = day_of(now_ms(), datetime.UTC)
        for known, (read_at, use) in [*self._known.items()]:
            if read_at > oldest and use.day == today:
                break
            del self._known[known]
        found = self._known.get(tenant_id)
        return None if found is None else found[1]


def _refusal(spent: BudgetOf, limits: Limits, day: datetime.date, at_ms: int) -> DayBudgetSpent:
    # What was spent is not said: of a tenant it is no business of each of its users.
    if spent == "tenant":
        whose = f"the ${limits.tenant_cost_per_day_usd:.2f} that your tenant has"
    else:
        whose = f"the ${limits.cost_per_day_usd:.2f} that you have"
    wait_seconds = max(midnight_behind(day) - at_ms, 1_000) / 1000
    message = f"{whose} for a day of UTC are spent: nothing was begun, cycles under way go on; try again after midnight"
    return DayBudgetSpent(message, retry_after_seconds=wait_seconds)
