"""`GET /inspect/cost`: usage of a tenant's sessions."""

from collections.abc import Sequence

from msgspec import UNSET

from agentrail import outside
from agentrail.core.journal.usage import SpentAmount, usd_of
from agentrail.errors import OptionError
from agentrail.gateway.calls.inspection import check_may_inspect
from agentrail.gateway.inspection_replies import CostBudget, CostItem, CostReply
from agentrail.gateway.request_parser import refuse_field
from agentrail.gateway.whole_answer import WholeAnswer, answer_json
from agentrail.host import Host, Principal
from agentrail.host.tenant_rows import abouts_of
from agentrail.runtime.cost_table import CostQuery, CostTable, begin_of, cost_table, first_day_of, make_query
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.spending_book import SessionSpending
from agentrail.structs import struct_from

MAX_BUDGETS = 20


async def inspect_cost(  # noqa: PLR0913 - the query parameters, by name
    host: Host,
    principal: Principal,
    *,
    by: str = "day",
    since: str | None = None,
    until: str | None = None,
    tz: str = "UTC",
) -> WholeAnswer:
    check_may_inspect(principal)
    at_ms = now_ms()
    query = _read_query(by, since, until, tz, at_ms)
    first = first_day_of(query, at_ms)
    since_ms = None if first is None else begin_of(first, query.zone)
    told = await host.supervisor.spendings(scope=principal.tenant_id, since_ms=since_ms)
    table, rows = await outside.offload(_add_up, told, query, at_ms, abandon_on_cancel=True)
    budgets = host.supervisor.budget_use(scope=principal.tenant_id)[:MAX_BUDGETS]
    sessions = {str(one.session_id) for one in budgets}
    if query.by == "session":
        sessions.update(row.key for row in table.rows)
    of_days = await host.budgets.of_tenant(principal.tenant_id)
    reply = CostReply(
        by=query.by,
        tz=tz,
        rows=rows,
        total=cost_item("", table.total),
        today=cost_item("", table.today),
        month=cost_item("", table.month),
        budgets=tuple([
            CostBudget(name=str(one.session_id), used_usd=one.used_usd, limit_usd=one.limit_usd)
            for one in budgets
        ]),
        unread=table.unread,
        day_budgets=of_days[: MAX_BUDGETS + 1],  # that of the tenant comes first
        names=_names_of(host, principal.tenant_id, sessions) or UNSET,
    )  # fmt: skip
    return await outside.offload(answer_json, reply)


def _add_up(
    told: Sequence[SessionSpending], query: CostQuery, at_ms: int
) -> tuple[CostTable, tuple[CostItem, ...]]:
    table = cost_table(told, query, at_ms)
    return table, tuple([cost_item(row.key, row.amount) for row in table.rows])


def _names_of(host: Host, tenant_id: str, sessions: set[str]) -> dict[str, str]:
    abouts = abouts_of(host.supervisor, tenant_id, sessions)
    return {key: name for key, one in abouts.items() if (name := one.title or one.first_words)}


def _read_query(by: str, since: str | None, until: str | None, tz: str, at_ms: int) -> CostQuery:
    try:
        return make_query(by, zone=tz, since=since, until=until, now_ms=at_ms)
    except OptionError as error:
        name, _, what = error.faults[0].partition(" ")
        refuse_field(name, what)


def cost_item(key: str, amount: SpentAmount) -> CostItem:
    return struct_from(
        CostItem,
        amount,
        key=key,
        cost_usd=usd_of(amount.atto_usd),
        estimated_usd=usd_of(amount.estimated_atto_usd),
    )
