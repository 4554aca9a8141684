"""What a caller, and a whole tenant, may spend in a day: what was spent is added up, and what is beyond it is refused (13.4)."""

import datetime
import json
import math
from contextlib import suppress
from fractions import Fraction

import msgspec
import pytest
import trio
from hypothesis import example, given, settings, strategies as st

from agentrail.abc import Capabilities
from agentrail.abc.store import OwedRow
from agentrail.core.journal.usage import ATTO, Spending, SpentAmount
from agentrail.core.policy.budget import Budget, Price
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.errors import CycleFailed, DayBudgetSpent, OptionError, SessionUnknown, StillNeeded
from agentrail.gateway.calls.decision_calls import call_session
from agentrail.host import DayBudgetWarning, HostPlugin, Webhooks
from agentrail.host.host_options import HostOptions
from agentrail.host.identity import SessionOwner
from agentrail.host.quotas import (
    DAY_SPENT,
    LOOK_AGAIN_SECONDS,
    DayUse,
    Limits,
    day_budgets,
    decide_spent,
    decode_day_spent,
    encode_day_spent,
    midnight_behind,
    use_of_day,
)
from agentrail.messages import SessionId, Text, TokenUsage, UserMessage
from agentrail.runtime.session_clock import set_now_ms
from agentrail.runtime.spending_book import SessionSpending
from agentrail.stores.memory import MemoryStore
from agentrail.testing.clock import FakeClock, threads_hold
from agentrail.testing.models import FunctionModel, ScriptedModel, Turn, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.wire.operations import GO_ON
from tests.host.hosting import ANN, BOB, EVE, asked, hosting, profile, say
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
    """Spending counts from one midnight to the next, for the clock may have been ahead. Budgets are listed if they exist, the tenant's first."""
    told = [
        spent("ann", (-13, 5), (-12, 7), (0, 11)),
        spent("ann", (1, 13), (12, 23)),
        spent("bob", (-13, 17)),
    ]
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
    for name in ("cost_per_day_usd", "tenant_cost_per_day_usd", "cost_per_cycle_usd"):
        for bad in (-1, 0, True, "5", float("inf"), float("nan"), 10**400):
            said = f"^{name} is .*: expected a finite number of dollars above 0, or None"
            with pytest.raises(OptionError, match=said):
                Limits(**{name: bad})
    assert HostOptions(profiles=[profile("demo:")], store=None, limits=Limits(cost_per_cycle_usd=1)).limits
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
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("way", ["purge", "forget", "cancelled purge", "refused purge"])
async def test_nobody_gets_around_a_budget_by_deleting_what_was_spent(way, keep):
    """Whether it was read before or not. What is deleted in the end, after a caller left or at a second attempt, counts once, in the next process too."""
    set_now_ms(NOON)
    store = MemoryStore(lease_ms=0)
    async with hosting(priced(), store=store, limits=Limits(cost_per_day_usd=0.05)) as host:
        delete = host.supervisor.delete_session

        async def delete_or_not(*given, **options):
            if way == "refused purge":
                raise StillNeeded(given[0], by=["this test"])
            await delete(*given, **options)
            if way == "cancelled purge":
                await trio.sleep_forever()

        async def attempt():
            with trio.move_on_after(60), suppress(StillNeeded, SessionUnknown):
                await host.delete_session("a", ANN, purge=True)

        request = await asked(host, session_id="a", keep=keep)
        assert await request.outcome() == "completed"
        if way == "forget":
            await host.users.forget(ANN)
        else:
            host.supervisor.delete_session = delete_or_not
            await attempt()
            del host.supervisor.delete_session
            if way != "purge":
                await trio.sleep(LOOK_AGAIN_SECONDS + 0.1)
                (once,) = await host.budgets.of_tenant("acme")
                assert once.used_usd == pytest.approx(1 / 30)
                await attempt()
                assert store.find() == ()
        await trio.sleep(LOOK_AGAIN_SECONDS + 0.1)
        (told,) = await host.budgets.of_tenant("acme")
        assert (told.name, told.used_usd) == ("ann", pytest.approx(1 / 30))
    async with hosting(priced(), store=store, limits=Limits(cost_per_day_usd=0.05)) as host:
        (told,) = await host.budgets.of_tenant("acme")
        assert (told.name, told.used_usd) == ("ann", pytest.approx(1 / 30))
        await spends(host, session_id="b")
        await host.delete_session("b", ANN, purge=True)
        with pytest.raises(DayBudgetSpent):
            await asked(host, session_id="c")
    async with hosting(priced(), store=store, limits=Limits(cost_per_day_usd=0.05)) as host:
        assert (await host.budgets.of_tenant("acme"))[0].used_usd > 0.05
        set_now_ms(NOON + 24 * HOUR_MS)
        assert await host.budgets.of_tenant("acme") == ()
        set_now_ms(NOON + 48 * HOUR_MS)
        await spends(host, session_id="d")
        await host.delete_session("d", ANN, purge=True)
        assert [row.id[:10] for row in store.owed(DAY_SPENT)] == ["2026-11-24"]


@on_virtual_time
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_deletion_across_midnight_counts_on_no_day(is_cancelled):
    """What the session had spent is of yesterday, also if the caller left and the deletion is found later."""
    set_now_ms(NOON)
    async with hosting(priced(), store=MemoryStore(), limits=Limits(cost_per_day_usd=1.0)) as host:
        await spends(host, session_id="a")
        delete = host.supervisor.delete_session

        async def delete_until_morning(*given, **options):
            await delete(*given, **options)
            set_now_ms(NOON + 13 * HOUR_MS)
            if is_cancelled:
                await trio.sleep_forever()

        host.supervisor.delete_session = delete_until_morning
        with trio.move_on_after(60):
            await host.delete_session("a", ANN, purge=True)
        assert await host.budgets.of_tenant("acme") == ()
        del host.supervisor.delete_session
        await spends(host, session_id="b")
        await host.delete_session("b", ANN, purge=True)
        assert [one.used_usd for one in await host.budgets.of_tenant("acme")] == [pytest.approx(1 / 40)]


@on_virtual_time
async def test_who_takes_the_id_of_a_deleted_session_has_a_spending_of_their_own():
    """Also if nobody has looked between the deletion and the new session."""
    set_now_ms(NOON)
    async with hosting(priced(), store=MemoryStore(), limits=Limits(cost_per_day_usd=1.0)) as host:
        for principal, names in ((ANN, ["ann"]), (BOB, ["ann", "bob"])):
            await spends(host, by=principal, session_id="a")
            assert sorted(one.name for one in await host.budgets.of_tenant("acme")) == names
            await host.delete_session("a", principal, purge=True)
        told = {one.name: one.used_usd for one in await host.budgets.of_tenant("acme")}
        assert told == {"ann": pytest.approx(1 / 30), "bob": pytest.approx(1 / 40)}


def test_rows_of_what_was_spent_stay_readable():
    """What is written today is read by every later version. One row of each day, user and process."""
    owner = SessionOwner(tenant_id="acme", user_id="ann")
    row = encode_day_spent(DAY, owner, "p-1", 9 * ATTO)
    assert row == OwedRow(
        kind="day_spent",
        id="2026-11-22/bded55e7ce1c08f27738f8c77ec971e3/d8963d899008cf8c05369be7b9042715/p-1",
        body=b'{"v":1,"user":"ann","atto_usd":"9000000000000000000"}',
    )
    assert decode_day_spent(row) == ("ann", 9 * ATTO)
    for broken in (
        b"",
        b"{}",
        b'{"v":1,"user":"ann","atto_usd":"x"}',
        b'{"v":2,"user":"ann","atto_usd":"1"}',
    ):
        with pytest.raises(ValueError, match=r"."):
            decode_day_spent(msgspec.structs.replace(row, body=broken))


@on_virtual_time
async def test_a_budget_holds_after_the_clock_of_the_store_was_set_back():
    """Sessions that it dates before the day of the server are read too."""
    set_now_ms(NOON)
    store = MemoryStore(now_ms=lambda: NOON - 24 * HOUR_MS)
    async with hosting(priced(), store=store, limits=Limits(cost_per_day_usd=0.01)) as host:
        await spends(host)
        with pytest.raises(DayBudgetSpent):
            await asked(host)


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


# --- the cost of a cycle, and how far a day can pass its budget


class Metered(FunctionModel):
    """A model that uses some of the output tokens that it may, and none for nothing; a negative use is a turn with a call."""

    def __init__(self, uses, *, seconds=0.0):
        """Use these tokens, request by request."""
        super().__init__(self._answer_next)
        self._uses = iter(uses)
        self._seconds = seconds

    def capabilities(self, model):
        return Capabilities(
            context_window=100_000, max_output_tokens=1_000, price=Price(input=0.0, output=100.0)
        )

    def _answer_next(self, _request):
        used = next(self._uses, 0)
        usage = TokenUsage(input=1, output=abs(used), cost_usd=abs(used) * 1e-4)
        turn = calls(("look", {"at": len(self.requests)})) if used < 0 else says("Yes.")
        return Turn(text=turn.text, calls=turn.calls, usage=usage, pause_seconds=self._seconds)


def metered(uses, *plugins, limits, seconds=0.0, **options):
    tools = [RecordingTool(name="look")]
    desk = profile(Metered(uses, seconds=seconds), tools=tools, **options)
    return hosting(None, *plugins, profiles=[desk], store=MemoryStore(), limits=limits)


async def spent_by(host, **of):
    """What journals say was spent, in dollars."""
    told = await host.supervisor.spendings(scope="acme")
    whole = sum(
        one.amount.atto_usd
        for each in told
        if each.user_id in of.values() or not of
        for one in each.spendings
    )
    return float(Fraction(whole, ATTO))


@on_virtual_time
@pytest.mark.parametrize(
    ("uses", "options", "outcome", "cost"),
    [
        ([-1_000, 900], {}, "completed", 0.19),
        ([-1_000, -1_000, 1_000], {}, "failed", 0.2),
        ([-1_000, 500], {"budget": Budget(max_cost_usd=0.15)}, "failed", 0.1),
        ([-600, 600, 0], {"budget": Budget(max_total_tokens=5_000)}, "completed", 0.12),
    ],
    ids=["within", "ends", "own budget", "own tokens"],
)
async def test_a_cycle_of_a_caller_is_lent_what_it_may_cost(uses, options, outcome, cost):
    """Its next request is not sent if it could cost more; then the next message is lent the same again. A budget of the profile counts too."""
    async with metered([*uses, 100], limits=Limits(cost_per_cycle_usd=0.25), **options) as host:
        request = await asked(host, session_id="a")
        assert await request.outcome() == outcome
        assert await spent_by(host) == pytest.approx(cost)
        again = await asked(host, session_id="a")
        assert await again.outcome() == (
            "failed" if options.get("budget") and outcome == "failed" else "completed"
        )


@on_virtual_time
@pytest.mark.parametrize(
    ("wanted", "outcome"), [(9.0, "failed"), (0.05, "failed"), (0.2, "completed"), (None, "completed")]
)
async def test_a_caller_may_lower_what_a_cycle_costs_and_not_raise_it(wanted, outcome):
    """A smaller limit of the prompt counts, and a larger one is the operator's."""
    settings = None if wanted is None else PromptSettings(max_cost_usd=wanted)
    uses = [-1_000, -1_000, 1_000] if wanted == 9.0 else [-900, 900]
    async with metered(uses, limits=Limits(cost_per_cycle_usd=0.25)) as host:
        request = await host.submit(say("Hi", ANN), ANN, settings=settings)
        assert await request.outcome() == outcome


@on_virtual_time
@pytest.mark.parametrize("wanted", [0.0, "0.1"])
async def test_a_limit_of_a_caller_that_is_invalid_is_refused_with_one_of_the_operator_too(wanted):
    """The limit of the operator would take the place of 0, and a text could not be compared with it."""
    async with metered([0], limits=Limits(cost_per_cycle_usd=0.25)) as host:
        with pytest.raises(
            OptionError, match=f"max_cost_usd is {wanted!r}: expected a finite number of dollars above 0"
        ):
            await host.submit(say("Hi", ANN), ANN, settings=PromptSettings(max_cost_usd=wanted))


@on_virtual_time
async def test_a_first_message_that_is_a_steer_is_limited_too():
    """It starts a cycle, and a session that had none has no limit that it could share."""
    async with metered([-1_000, -1_000, 1_000], limits=Limits(cost_per_cycle_usd=0.25)) as host:
        request = await host.submit(say("Hi", ANN), ANN, when_busy="steer")
        assert await request.outcome() == "failed"
        assert await spent_by(host) == pytest.approx(0.2)


@on_virtual_time
async def test_a_day_can_pass_its_budget_by_the_cycles_under_way_and_the_operator_sees_by_how_much():
    """Counted until the cost of each is read; in all for the tenant, one by one for its users."""
    limits = Limits(cost_per_day_usd=1.0, tenant_cost_per_day_usd=9.0, cost_per_cycle_usd=0.5)
    async with metered([100] * 3, limits=limits, seconds=10.0) as host:
        requests = [await asked(host, by=by) for by in (ANN, ANN, BOB)]
        await trio.sleep(LOOK_AGAIN_SECONDS + 0.1)
        told = {one.name: one.overrun_usd for one in await host.budgets.of_tenant("acme")}
        assert told == {"acme": 1.5, "ann": 1.0, "bob": 0.5}
        for request in requests:
            await request.outcome()
        await host.quiet()
        told = {one.name: one.overrun_usd for one in await host.budgets.of_tenant("acme")}
        assert told == {"acme": 0.0, "ann": 0.0, "bob": 0.0}
    async with metered([100], limits=Limits(cost_per_day_usd=1.0)) as host:
        await spends(host)
        assert [one.overrun_usd for one in await host.budgets.of_tenant("acme")] == [None]


@example(
    uses=[-1_000] * 9, sent=[(ANN, "a", 1.0), (ANN, "a", 1.0)], seconds=1.0, budgets=(0.05, 0.05), most=0.2
)
@example(  # the first has ended, and its cost is in no reading yet
    uses=[-1_000, 900] * 2,
    sent=[(ANN, "a", 0.5), (ANN, "a", 0.5)],
    seconds=0.0,
    budgets=(0.05, 0.05),
    most=0.2,
)
@settings(max_examples=25, deadline=None)
@given(
    uses=st.lists(st.integers(-1_000, 300), max_size=60),
    sent=st.lists(
        st.tuples(st.sampled_from([ANN, BOB]), st.sampled_from(["a", "b", None]), st.floats(0, 4)),
        min_size=1,
        max_size=20,
    ),
    seconds=st.floats(0, 6),
    budgets=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)),
    most=st.floats(0.1, 0.5),
)
def test_whatever_cycles_cost_a_day_passes_its_budget_by_no_more_than_it_says(
    uses, sent, seconds, budgets, most
):
    """Any costs, any number of cycles at once, readings of any age: what was spent is within the budget and the bound at the last message."""
    of_user, of_tenant = budgets
    limits = Limits(
        cost_per_day_usd=of_user,
        tenant_cost_per_day_usd=of_tenant,
        cost_per_cycle_usd=most,
        messages_burst=1_000,
    )

    async def main():
        set_now_ms(NOON)
        bounds = {"ann": 0.0, "bob": 0.0, "acme": 0.0}
        async with metered(uses, limits=limits, seconds=seconds) as host:
            check = host.budgets.check

            async def noted(owner):
                await check(owner)
                counted = host.budgets._cycles_of("acme")  # noqa: SLF001 - at this very moment: a reading takes time
                counted[owner.user_id] += 1
                for name, count in (*counted.items(), ("acme", sum(counted.values()))):
                    bounds[name] = max(bounds[name], most * count)

            host.budgets.check = noted
            for by, session_id, pause in sent:
                with suppress(DayBudgetSpent):
                    await asked(
                        host, by=by, session_id=None if session_id is None else f"{by.user_id}-{session_id}"
                    )
                await trio.sleep(pause)
            await host.quiet()
            for user in ("ann", "bob"):
                assert await spent_by(host, user=user) <= of_user + bounds[user] + 1e-9
            assert await spent_by(host) <= of_tenant + bounds["acme"] + 1e-9

    clock = FakeClock()
    with threads_hold(clock):
        trio.run(main, clock=clock)


class Warned(HostPlugin):
    """Keeps what it hears of budgets, and then fails."""

    name = "warned"

    def __init__(self):
        self.heard = []

    async def on_budget_warning(self, warning: DayBudgetWarning):
        self.heard.append(warning.as_dict())
        message = "no pager"
        raise RuntimeError(message)


@on_virtual_time
async def test_operators_are_warned_once_a_day_when_four_fifths_of_a_budget_are_spent(caplog):
    """By a plugin, whose failure harms nothing, by the webhook of the host, and by a count. Each budget warns for itself."""
    set_now_ms(NOON)
    plugin, posted = Warned(), []

    async def send(signed):
        posted.append(json.loads(signed.body))
        return 204

    limits = Limits(cost_per_day_usd=0.1, tenant_cost_per_day_usd=0.2)
    desk = profile(Metered([700, 100, 100, 700, 900]))
    webhooks = Webhooks(secret=f"whsec_{'A' * 44}", url="https://ops.example/hook", send=send)
    async with hosting(
        None, plugin, profiles=[desk], store=MemoryStore(), limits=limits, webhooks=webhooks
    ) as host:
        await spends(host)
        await host.budgets.of_tenant("acme")
        assert (plugin.heard, dict(host.budgets.warnings)) == ([], {})
        for _ in range(2):
            await spends(host)
            await host.budgets.of_tenant("acme")
            await trio.sleep(1)
        of_ann = {"of": "user", "tenant_id": "acme", "user_id": "ann", "limit_usd": 0.1}
        (heard,) = plugin.heard
        assert heard == {**of_ann, "used_usd": pytest.approx(0.08), "resets_at_ms": NOON + 12 * HOUR_MS}
        await spends(host, by=BOB)
        await host.budgets.of_tenant("acme")
        await trio.sleep(1)
        whole = [(one["of"], one["user_id"]) for one in plugin.heard]
        assert sorted(whole[1:], key=str) == [("tenant", None)]
        assert dict(host.budgets.warnings) == {"user": 1, "tenant": 1}
        told = [one for one in posted if one["type"] == "budget.warning"]
        assert [one["data"] for one in told] == plugin.heard
        set_now_ms(NOON + 13 * HOUR_MS)
        await spends(host)
        await host.budgets.of_tenant("acme")
        await trio.sleep(1)
        assert [*whole, ("user", "ann")] == [(one["of"], one["user_id"]) for one in plugin.heard]
    assert "no pager" in caplog.text


@on_virtual_time
async def test_a_cycle_without_a_message_is_limited_and_refused_like_one_with_a_message():
    """`go_on` of a socket: it costs as much, so the operator's limit and the day's budget hold for it."""
    history = [UserMessage(content=(Text(text="Hi"),))]
    given = {"client_id": None, "settings": {"max_cost_usd": 7.0}}
    limits = Limits(cost_per_cycle_usd=0.15, cost_per_day_usd=0.05)
    async with metered([-900, 900], limits=limits) as host:
        session = await host.create(ANN, session_id="a", history=history)
        await call_session(GO_ON, host, ANN, "a", given, asks="root")
        with pytest.raises(CycleFailed, match="this cycle may cost"):
            await session.collect_reply()
        await trio.sleep(LOOK_AGAIN_SECONDS + 0.1)
        with pytest.raises(DayBudgetSpent):
            await call_session(GO_ON, host, ANN, "a", given, asks="root")
