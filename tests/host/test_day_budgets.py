"""What a caller, and a whole tenant, may spend in a day: what was spent is added up, and what is beyond it is refused (13.4)."""

import datetime
import math
from fractions import Fraction

import pytest
import trio
from hypothesis import given, strategies as st

from agentrail.core.journal.usage import ATTO, Spending, SpentAmount
from agentrail.errors import DayBudgetSpent, OptionError
from agentrail.host.host_options import HostOptions
from agentrail.host.quotas import (
    LOOK_AGAIN_SECONDS,
    DayUse,
    Limits,
    day_budgets,
    decide_spent,
    midnight_behind,
    use_of_day,
)
from agentrail.messages import SessionId
from agentrail.runtime.session_clock import set_now_ms
from agentrail.runtime.spending_book import SessionSpending
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, says
from tests.host.hosting import ANN, BOB, EVE, asked, hosting, profile
from tests.runtime.rig import on_virtual_time
from tests.runtime.test_spending import Priced

NOON = 1_795_348_800_000  # 2026-11-22, 12:00 UTC
HOUR_MS = 3_600_000
DAY = datetime.date(2026, 11, 22)


def spent(user, *amounts):
    """What one session of a user spent: pairs of hours since the noon of the day, and dollars as whole parts."""
    spendings = [
        Spending(slot_ms=NOON + hours * HOUR_MS, model="m", amount=SpentAmount(requests=1, atto_usd=atto))
        for hours, atto in amounts
    ]
    return SessionSpending(
        session_id=SessionId("s"), root_id=SessionId("s"), scope="acme", agent_id="", user_id=user, spendings=tuple(spendings)
    )  # fmt: skip


def whole_parts(dollars):
    return math.floor(Fraction(dollars) * ATTO + Fraction(1, 2))


def test_a_day_is_one_of_utc_and_sessions_of_a_user_are_added_up():
    """Spending counts from midnight on. Budgets are listed if they exist, the tenant's first."""
    told = [spent("ann", (-13, 5), (-12, 7), (0, 11)), spent("ann", (1, 13)), spent("bob", (-13, 17))]
    told.append(spent("", (0, 19)))
    use = use_of_day(told, NOON)
    assert (use.day, use.tenant_atto_usd, dict(use.user_atto_usd)) == (DAY, 50, {"ann": 31, "": 19})
    assert midnight_behind(use.day) == NOON + 12 * HOUR_MS
    with pytest.raises(TypeError):
        use.user_atto_usd["ann"] = 0

    use = DayUse(day=DAY, tenant_atto_usd=3 * ATTO, user_atto_usd={"ann": 2 * ATTO})
    both = Limits(cost_per_day_usd=4, tenant_cost_per_day_usd=20.0)
    budgets = day_budgets(both, use, "acme", ["ann", "bob"])
    told = [(one.of, one.name, one.used_usd, one.limit_usd) for one in budgets]
    assert told == [("tenant", "acme", 3.0, 20.0), ("user", "ann", 2.0, 4), ("user", "bob", 0.0, 4)]
    assert day_budgets(Limits(), use, "acme", ["ann"]) == ()
    (one,) = day_budgets(Limits(tenant_cost_per_day_usd=1.0), use, "acme", ["ann"])
    assert one.resets_at_ms == NOON + 12 * HOUR_MS


def test_a_budget_is_spent_when_all_of_it_is():
    """To the last part; the user's own is named first, and without a limit nothing is ever spent."""
    limits = Limits(cost_per_day_usd=0.1, tenant_cost_per_day_usd=1)
    tenth = whole_parts(0.1)  # what the number says, and not what it looks like

    def decide(user_atto, tenant_atto, limits=limits):
        use = DayUse(day=DAY, tenant_atto_usd=tenant_atto, user_atto_usd={"ann": user_atto})
        return decide_spent(limits, use, "ann")

    assert decide(tenth - 1, ATTO - 1) is None
    assert decide(tenth, 0) == "user"
    assert decide(tenth, ATTO) == "user"
    assert decide(0, ATTO) == "tenant"
    assert decide(9 * ATTO, 9 * ATTO, Limits()) is None
    assert decide(9 * ATTO, 9 * ATTO, Limits(tenant_cost_per_day_usd=10.0)) is None
    use = DayUse(day=DAY, tenant_atto_usd=ATTO, user_atto_usd={"bob": ATTO})
    assert decide_spent(limits, use, "ann") == "tenant"
    assert decide_spent(Limits(cost_per_day_usd=0.5), use, "ann") is None


@given(
    st.lists(st.tuples(st.sampled_from(["ann", "bob"]), st.integers(-30, 11), st.integers(0, 3 * ATTO))),
    st.floats(0.01, 10),
)
def test_it_is_refused_exactly_when_the_exact_sum_has_reached_the_limit(amounts, limit):
    """However the sum comes about: against fractions."""
    use = use_of_day([spent(user, (hours, atto)) for user, hours, atto in amounts], NOON)
    of_ann = sum(Fraction(atto, ATTO) for user, hours, atto in amounts if user == "ann" and hours >= -12)
    of_all = sum(Fraction(atto, ATTO) for _, hours, atto in amounts if hours >= -12)
    reached = Fraction(limit) - Fraction(1, ATTO)  # a limit is rounded to a whole part
    if decide_spent(Limits(cost_per_day_usd=limit), use, "ann"):
        assert of_ann >= reached
    else:
        assert of_ann <= limit
    assert bool(decide_spent(Limits(tenant_cost_per_day_usd=limit), use, "ann")) is (
        of_all * ATTO >= whole_parts(limit)
    )


def test_a_budget_that_is_no_amount_is_refused():
    """With its name, and what it takes. One needs journals: a host without a store of its own says so when it is made."""
    for name in ("cost_per_day_usd", "tenant_cost_per_day_usd"):
        for bad in (-1, 0, True, "5", float("inf"), float("nan")):
            said = f"^{name} is .*: expected a finite number of dollars above 0, or None"
            with pytest.raises(OptionError, match=said):
                Limits(**{name: bad})
    limits, desk = Limits(cost_per_day_usd=1.0), profile("demo:")
    with pytest.raises(
        OptionError,
        match="limits set a daily budget, which needs a store, because spending is read from journals: configure one",
    ):
        HostOptions(profiles=[desk], store=None, limits=limits)
    assert HostOptions(profiles=[desk], store="memory:", limits=limits).limits is limits


def priced(*, count=12):
    """A model whose requests cost something: 3.3 cents, 2.5, 2, and less each time."""
    return Priced([says("Yes.")] * count)


async def spends(host, by=ANN, **given):
    """Let a user spend something, and wait until it is seen."""
    request = await asked(host, by=by, **given)
    assert await request.outcome() == "completed"
    await host.quiet()
    await trio.sleep(LOOK_AGAIN_SECONDS + 0.1)
    return request


@on_virtual_time
async def test_who_has_spent_the_budget_is_refused_until_midnight():
    """Others are not; nothing is left of what was refused; what was taken before is answered as it was. It is known behind a restart."""
    set_now_ms(NOON)
    store, limits = MemoryStore(), Limits(cost_per_day_usd=0.05)
    async with hosting(priced(), store=store, limits=limits) as host:
        await spends(host, session_id="a", client_id="first")
        request = await spends(host, session_id="a")  # which costs more than there is, and comes to its end
        assert (await request.session.status()).usage.cost_usd > 0.05
        for given in (
            {"session_id": "a"},
            {"session_id": "new"},
            {"client_id": "x"},
            {"session_id": "a", "kind": "prompt"},
        ):
            said = r"the \$0\.05 that you have for this UTC day are spent"
            with pytest.raises(DayBudgetSpent, match=said) as caught:
                await asked(host, **given)
            assert 0 < caught.value.retry_after_seconds <= 12 * 3600
        assert {one.session_id for one in host.sessions_of(ANN)} <= {"a"}  # it may sleep by now
        again = await asked(host, session_id="a", client_id="first")
        assert again.is_repeat
        await spends(host, BOB)
    async with hosting(priced(), store=store, limits=limits) as host:
        with pytest.raises(DayBudgetSpent):
            await asked(host, session_id="a")
        set_now_ms(NOON + 13 * HOUR_MS)
        await spends(host, session_id="a")


@on_virtual_time
async def test_a_tenant_has_a_budget_together():
    """One of its users spends it all, another one is refused; another tenant is not. What was spent is not told to who may not know."""
    set_now_ms(NOON)
    limits = Limits(tenant_cost_per_day_usd=0.03)
    async with hosting(priced(), store="memory:", limits=limits) as host:
        await spends(host)
        with pytest.raises(DayBudgetSpent, match=r"the \$0\.03 that your tenant has"):
            await asked(host, by=BOB)
        await spends(host, EVE)
        (told,) = await host.budgets.of_tenant("acme")
        assert (told.of, told.name, told.limit_usd) == ("tenant", "acme", 0.03)
        assert told.used_usd >= 0.03
        (of_others,) = await host.budgets.of_tenant("else")
        assert 0 < of_others.used_usd < told.used_usd


@on_virtual_time
async def test_journals_are_read_once_by_many_who_come_at_once_and_by_none_without_a_budget():
    """Again only when that is some time ago; who is cancelled while it is read leaves it to the next."""
    async with hosting(ScriptedModel([says("Yes.")] * 2), store="memory:") as host:
        host.supervisor.spendings = None  # what would be called
        await spends(host)
        assert await host.budgets.of_tenant("acme") == ()
        await spends(host)

    async with hosting(priced(), store="memory:", limits=Limits(cost_per_day_usd=5.0)) as host:
        read = []
        spendings = host.supervisor.spendings

        async def counted(**asked_for):
            read.append(asked_for)
            await trio.sleep(0.5)
            return await spendings(**asked_for)

        host.supervisor.spendings = counted
        with trio.move_on_after(0.1) as scope:
            await host.budgets.of_tenant("acme")
        assert scope.cancelled_caught
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(host.budgets.of_tenant, "acme")
        assert len(read) == 2
        await trio.sleep(LOOK_AGAIN_SECONDS + 0.1)
        await host.budgets.of_tenant("acme")
        await host.budgets.of_tenant("else")
        assert [one["scope"] for one in read] == ["acme", "acme", "acme", "else"]
