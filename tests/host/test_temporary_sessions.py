"""Sessions that are not kept (11.2 K23): in no list, and deleted when they end, at the latest ten minutes after their last cycle."""

from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import trio

from agentrail.abc.store import TEMPORARY_SESSIONS, Filters, OwedRow
from agentrail.errors import (
    AlreadyExists,
    DayBudgetSpent,
    OptionError,
    QuotaReached,
    SessionDown,
    SessionUnknown,
    StoreUnavailable,
)
from agentrail.host import Host, Limits
from agentrail.host.hook_payloads import Principal
from agentrail.host.identity import SessionOwner, is_temporary
from agentrail.host.quotas import LOOK_AGAIN_SECONDS
from agentrail.host.session_list import ALIVE
from agentrail.host.temporary_sessions import (
    DELETE_RETRY_SECONDS,
    TEMPORARY_SECONDS,
    decide_seconds_left,
    decode_temporary,
    encode_temporary,
)
from agentrail.outside import installed
from agentrail.runtime.session_clock import now_ms, set_now_ms
from agentrail.stores.memory import MemoryStore
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import FunctionModel, Turn, says
from agentrail.wire.rows import ALL_ROWS
from tests.actors.test_cancelled_starts import CancelAtStep
from tests.host.hosting import ANN, asked, hosting, say
from tests.host.test_day_budgets import HOUR_MS, NOON
from tests.runtime.rig import Inline, eventually, on_virtual_time
from tests.runtime.test_cancelled_callers import struck_at
from tests.runtime.test_spending import Priced

OWNER = SessionOwner("acme", "ann")
DUE_MS = int(TEMPORARY_SECONDS * 1_000)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ({}, 600.0),
        ({"at_ms": 5_000}, 595.0),
        ({"at_ms": DUE_MS - 1}, 0.001),
        ({"at_ms": DUE_MS}, 0.0),
        ({"at_ms": 10 * DUE_MS}, 0.0),
        ({"at_ms": -5_000}, 600.0),  # the store's clock is ahead of ours
        ({"at_ms": 10 * DUE_MS, "is_working": True}, 600.0),
        ({"has_ended": True}, 0.0),
        ({"has_ended": True, "is_working": True}, 0.0),
    ],
)
def test_a_session_is_deleted_when_it_ended_or_rested_for_ten_minutes(said: dict[str, Any], seconds: float):
    """One that works is looked at again later."""
    usual = {"is_working": False, "has_ended": False, "changed_at_ms": 0, "at_ms": 0}
    assert decide_seconds_left(**usual | said) == pytest.approx(seconds)


def test_what_a_store_keeps_of_one_stays_readable():
    """Its form is fixed; what is damaged or newer is left where it is."""
    row = encode_temporary(OWNER, "s-1")
    assert row == OwedRow(
        kind="temporary_session", id="acme/s-1", body=b'{"v":1,"tenant":"acme","user":"ann","session":"s-1"}'
    )
    assert decode_temporary(row) == (OWNER, "s-1")
    for body in (
        b"",
        b"\xff",
        b'{"v":2}',
        b'{"v":1,"tenant":"acme"}',
        row.body.replace(b"acme", b"/etc"),
        row.body.replace(b'"s-1"', b"1"),
    ):
        with pytest.raises(ValueError, match=r"."):
            decode_temporary(OwedRow(kind=row.kind, id=row.id, body=body))


def talking() -> FunctionModel:
    """A model that answers everything."""
    return FunctionModel(lambda _: says("Hello."))


def own_store() -> MemoryStore:
    """A store on the clock of the test."""
    return MemoryStore(now_ms=now_ms, lease_ms=0)


def stored(store: MemoryStore) -> list[str]:
    """What is in the store: sessions, and what is kept of temporary ones."""
    rows = [one.session for one in store.find(Filters())]
    return [*rows, *(row.id for row in store.owed(TEMPORARY_SESSIONS))]


async def listed(host: Host) -> list[str]:
    """All sessions of all lists, ended ones too."""
    found = [one.session_id for one in await host.list_sessions(ANN, wanted=ALL_ROWS)]
    found += [one.session_id for one in await host.list_sessions(ANN, wanted=ALL_ROWS, of_tenant=True)]
    found += [one.session_id for one in await host.list_sessions(ANN, wanted=ALIVE, sort="-changed")]
    for sort in ("created", "-created"):  # no page is shorter for one
        found += [one.session_id for one in await host.list_sessions(ANN, sort=sort, limit=1)]
    return [*found, *(one.session_id for one in host.sessions_of(ANN))]


@on_virtual_time
async def test_a_temporary_session_is_in_no_list_and_goes_when_it_ends():
    """Its owner reads it by its id; a feed has no row of it; a session that is kept is as ever."""
    store = own_store()
    async with hosting(talking(), store=store) as host, trio.open_nursery() as nursery:
        session = await host.create(ANN, session_id="gone", keep=False)
        kept = await host.create(ANN, session_id="kept")
        feed, up = host.session_feed("acme"), trio.Event()
        nursery.start_soon(feed.run, up)
        await up.wait()
        await (await asked(host, "Hi", session_id="gone")).outcome()
        assert (is_temporary(session.facts.user_data), is_temporary(kept.facts.user_data)) == (True, False)
        assert await listed(host) == ["kept"] * 6
        await feed.settle()
        assert list(feed.sessions.keys()) == ["kept"]
        assert len(await (await host.session("gone", ANN)).messages()) == 2
        await host.delete_session("gone", ANN)
        await eventually(lambda: stored(store) == ["kept"])
        with pytest.raises(SessionUnknown):
            await host.session("gone", ANN)
        await host.delete_session("kept", ANN)
        assert stored(store) == ["kept"]
        nursery.cancel_scope.cancel()


@on_virtual_time
@pytest.mark.parametrize("store", [own_store, lambda: None], ids=["stored", "in memory"])
async def test_a_temporary_session_goes_ten_minutes_after_its_last_cycle(store):
    """Made without a message, and by one; a cycle that lasts is not cut, and the time begins behind it."""
    slow = trio.Event()

    async def answer(request: Any) -> Turn:
        if request.messages[-1].content[0].text == "Wait":
            await slow.wait()
        return says("Hello.")

    kept = store()
    async with hosting(FunctionModel(answer), store=kept) as host:
        await host.create(ANN, session_id="empty", keep=False)
        request = await asked(host, "Hi", session_id="asked", keep=False)
        await request.outcome()
        await trio.sleep(TEMPORARY_SECONDS - 1)
        assert len(host.supervisor.sessions()) == 2
        working = await host.submit(say("Wait", session_id="asked"), ANN)
        await trio.sleep(2)
        assert [one.session_id for one in host.supervisor.sessions()] == ["asked"]
        await trio.sleep(3 * TEMPORARY_SECONDS)
        slow.set()
        assert await working.outcome() == "completed"
        await trio.sleep(TEMPORARY_SECONDS - 1)
        assert [one.session_id for one in host.supervisor.sessions()] == ["asked"]
        await trio.sleep(2)
        assert host.supervisor.sessions() == ()
        assert await host.supervisor.facts_of("asked", scope="acme") is None
        assert kept is None or stored(kept) == []


@on_virtual_time
async def test_the_next_process_deletes_what_the_last_one_left():
    """Also what it noted and never began; a kept session that has the id by now stays."""
    store = own_store()
    async with hosting(talking(), store=store) as host:
        await (await asked(host, "Hi", session_id="gone", keep=False)).outcome()
        await host.create(ANN, session_id="kept")
        left_at_ms = now_ms()
    store.change_owed([encode_temporary(OWNER, "never"), encode_temporary(OWNER, "kept")])
    store.change_owed([OwedRow(kind=TEMPORARY_SESSIONS, id="acme/odd", body=b"?")])
    await trio.sleep(100)
    async with hosting(talking(), store=store) as host:
        await eventually(lambda: stored(store) == ["gone", "kept", "acme/gone", "acme/odd"])
        assert set(await listed(host)) == {"kept"}
        assert len(await (await host.session("gone", ANN)).messages()) == 2  # woken, and still temporary
        assert set(await listed(host)) == {"kept"}
    async with hosting(talking(), store=store) as host:
        await trio.sleep((left_at_ms - now_ms()) / 1_000 + 2 * TEMPORARY_SECONDS)
        assert stored(store) == ["kept", "acme/odd"]


@on_virtual_time
async def test_a_clock_that_was_set_back_delays_it_by_ten_minutes():
    """The next process begins a day before the last one ended; what is asked meanwhile counts as ever."""
    store = own_store()
    async with hosting(talking(), store=store) as host:
        for name in ("asked", "gone"):
            await (await asked(host, "Hi", session_id=name, keep=False)).outcome()
    set_now_ms(now_ms() - 24 * HOUR_MS)
    # Asleep it would have the time of the store, which is another one, at the moment of its end.
    async with hosting(talking(), store=store, idle_after=None) as host:
        await trio.sleep(TEMPORARY_SECONDS - 10)
        assert stored(store) == ["asked", "gone", "acme/asked", "acme/gone"]
        await (await host.submit(say("Hi", session_id="asked"), ANN)).outcome()
        await trio.sleep(20)
        assert stored(store) == ["asked", "acme/asked"]
        await trio.sleep(TEMPORARY_SECONDS)
        assert stored(store) == []


@on_virtual_time
@pytest.mark.parametrize("call", ["create", "cancelled create"])
async def test_an_id_that_is_used_again_at_any_step_is_temporary_too(call):
    """While the session before is deleted; and what a cancelled caller began goes as well."""
    step, is_struck = 0, True
    while is_struck:
        step += 1
        store = own_store()
        with installed(Inline()):
            async with hosting(talking(), store=FaultyStore(store)) as host, trio.open_nursery() as nursery:
                create = partial(host.create, ANN, session_id="a", keep=False)
                if call == "create":
                    due = trio.CancelScope()

                    async def create_again(due=due, create=create):
                        with due:
                            await trio.sleep_forever()
                        for _ in range(9):
                            with suppress(AlreadyExists, SessionDown):
                                await create()

                    await create()
                    nursery.start_soon(create_again)
                    await trio.testing.wait_all_tasks_blocked()
                    instrument = CancelAtStep(step, due)
                    trio.lowlevel.add_instrument(instrument)
                    await host.delete_session("a", ANN)
                    await trio.sleep(1)
                    trio.lowlevel.remove_instrument(instrument)
                    is_struck = due.cancel_called
                    due.cancel()
                else:
                    is_struck = await struck_at(step, create)
                await trio.sleep(1)
                here = [f"acme/{one.session_id}" for one in host.supervisor.sessions()]
                assert [row.id for row in store.owed(TEMPORARY_SESSIONS)] == here
                await trio.sleep(3 * TEMPORARY_SECONDS)
                assert stored(store) == []


@on_virtual_time
async def test_no_session_of_that_id_is_made_temporary_later():
    """An id that is taken is a conflict; a message to a session that is kept leaves it so; what did not start leaves nothing."""
    store = own_store()
    async with hosting(talking(), store=store, limits=Limits(max_sessions_per_principal=1)) as host:
        await host.create(ANN, session_id="kept")
        with pytest.raises(AlreadyExists):
            await host.create(ANN, session_id="kept", keep=False)
        await (await asked(host, "Hi", session_id="kept", keep=False)).outcome()
        with pytest.raises(QuotaReached):
            await host.create(ANN, session_id="more", keep=False)
        await trio.sleep(2 * TEMPORARY_SECONDS)
        assert stored(store) == ["kept"]
    with pytest.raises(OptionError, match="user_data sets 'temporary'"):
        async with hosting(talking(), session_user_data={"temporary": True}):
            pass  # pragma: no cover - no host is opened


@on_virtual_time
async def test_a_fork_is_temporary_too_and_its_source_waits_for_it():
    """The store keeps what a fork needs: its source goes with the next attempt."""
    store = own_store()
    async with hosting(talking(), store=store) as host:
        await (await asked(host, "Hi", session_id="a", keep=False)).outcome()
        await trio.sleep(300)
        fork, _ = await host.fork_session("a", ANN, wanted="b")
        assert is_temporary(fork.facts.user_data)
        await (await asked(host, "And?", session_id="b")).outcome()
        assert await listed(host) == []
        await trio.sleep(301)
        assert stored(store)[:2] == ["a", "b"]
        await trio.sleep(300 + DELETE_RETRY_SECONDS)
        assert stored(store) == []


@on_virtual_time
async def test_a_store_that_is_away_delays_it(monkeypatch):
    """A session is not begun without its note; one whose time is over is deleted when the store is back."""
    store = own_store()
    away: list[bool] = [True]
    change = MemoryStore.change_owed

    def refusing(self: MemoryStore, *given: Any) -> None:
        if away:
            message = "away"
            raise StoreUnavailable(message)
        change(self, *given)

    async with hosting(talking(), store=store) as host:
        monkeypatch.setattr(MemoryStore, "change_owed", refusing)
        with pytest.raises(StoreUnavailable):
            await host.create(ANN, session_id="a", keep=False)
        assert host.supervisor.sessions() == ()
        away.clear()
        await host.create(ANN, session_id="a", keep=False)
        away.append(True)
        await trio.sleep(TEMPORARY_SECONDS + 60)
        assert stored(store) == ["acme/a"]
        away.clear()
        await trio.sleep(2 * DELETE_RETRY_SECONDS + 60)
        assert stored(store) == []


@on_virtual_time
async def test_what_a_deleted_session_spent_counts_for_its_day():
    """So no one gets around a budget with sessions that are not kept; the next day has its own."""
    set_now_ms(NOON)
    store = own_store()
    async with hosting(Priced([says("One.")] * 4), store=store, limits=Limits(cost_per_day_usd=0.05)) as host:

        async def spends(session_id: str) -> None:
            await (await asked(host, "Hi", session_id=session_id, keep=False)).outcome()
            await host.delete_session(session_id, ANN)
            await eventually(lambda: stored(store) == [])
            await trio.sleep(LOOK_AGAIN_SECONDS + 1)

        await spends("a")
        (told,) = await host.budgets.of_tenant("acme")
        await spends("b")
        with pytest.raises(DayBudgetSpent):
            await spends("c")
        (both,) = await host.budgets.of_tenant("acme")
        assert both.used_usd > told.used_usd > 0
        set_now_ms(NOON + 24 * HOUR_MS)
        await spends("d")
        (next_day,) = await host.budgets.of_tenant("acme")
        assert 0 < next_day.used_usd < both.used_usd


@on_virtual_time
async def test_nothing_is_left_of_temporary_sessions_of_a_user_who_is_forgotten():
    """Erased records of a session stay, so that it can be verified. A temporary one has none to verify."""
    set_now_ms(NOON)
    store = own_store()
    async with hosting(Priced([says("One.")] * 7), store=store) as host:
        for session_id in "abcdef":
            await (await asked(host, "Hi", session_id=session_id, keep=False)).outcome()
        await asked(host, "Hi", session_id="kept")
        await host.users.forget(ANN)
        await eventually(lambda: stored(store) == ["kept"])


@on_virtual_time
async def test_budgets_remember_only_who_spent_today():
    """Users and tenants come and go: what they had deleted is forgotten on the next day, and their cycles with their cost."""
    set_now_ms(NOON)
    store = own_store()
    async with hosting(Priced([says("One.")] * 4), store=store, limits=Limits(cost_per_day_usd=9.0)) as host:
        for day, user in enumerate("abcd"):
            set_now_ms(NOON + 24 * day * HOUR_MS)
            who = Principal(tenant_id=f"tenant-{user}", user_id=user)
            await (await asked(host, "Hi", who, session_id=user, keep=False)).outcome()
            await host.delete_session(user, who)
            await eventually(lambda: stored(store) == [])
            await trio.sleep(LOOK_AGAIN_SECONDS + 1)
            # Nothing shows them: what has no cost in a day is no budget.
            assert [one.user_id for one in host.budgets._deleted] == [user]  # noqa: SLF001
            assert not host.budgets._open  # noqa: SLF001
            assert len(host.budgets._ended) == 1  # noqa: SLF001 - that of this day, until the next reading
