"""A page of a user's sessions costs what the user has, and not what the tenant has."""

import sys
from functools import partial

import pytest
import trio

from agentrail.abc.store import Filters
from agentrail.errors import CodecError, JournalCorrupt
from agentrail.host.quotas import Limits
from agentrail.stores.memory import MemoryStore
from agentrail.wire.rows import RowFilter
from tests.host.hosting import ANN, BOB, answering, hosting, spoil
from tests.runtime.rig import on_virtual_time

MANY = 120


class CountingStore(MemoryStore):
    found = journals_read = pages = 0

    def find(self, filters=Filters(), *, after=None, limit=100):  # noqa: B008 - frozen
        page = super().find(filters, after=after, limit=limit)
        self.found += len(page)
        return page

    def newest(self, filters=Filters(), *, before=None, limit=100):  # noqa: B008 - frozen
        page = super().newest(filters, before=before, limit=limit)
        self.found += len(page)
        self.pages += 1
        return page

    def read(self, scope, session, after=0, limit=1000):
        self.journals_read += 1
        return super().read(scope, session, after, limit)


@on_virtual_time
async def test_a_page_costs_the_sessions_of_its_user():
    """Also where it is sorted or searched, and in a process that has read no journal yet; pages are the same after a restart."""
    store = CountingStore()
    async with hosting(answering(), store=store, limits=Limits(max_sessions_per_principal=MANY)) as host:
        for number in range(MANY):
            await host.create(BOB, session_id=f"b{number}")
        for number in range(5):
            await host.create(ANN, session_id=f"a{number}")
    async with hosting(answering(), store=store) as host:
        store.journals_read = 0
        for given in (
            {"limit": 2},
            {"limit": 2, "sort": "title"},
            {"limit": 2, "sort": "-changed"},
            {"limit": 2, "wanted": RowFilter(q="a")},
        ):
            store.found = 0
            listed = await host.list_sessions(ANN, **given)
            assert len(listed) == 2
            assert {one.user_id for one in listed} == {"ann"}
            assert {one.agent_id for one in listed} == {"desk"}
            assert store.found <= 5
        assert store.journals_read <= 5
        store.found = 0
        assert len(await host.list_sessions(BOB, limit=3)) == 3
        assert store.found == 3
        assert len(await host.list_sessions(BOB, limit=MANY)) == MANY
        assert len(await host.list_sessions(ANN, limit=MANY + 9, of_tenant=True)) == MANY + 5
        await host.delete_session("a0", ANN)
        known = host._parts.sessions.list._owners  # noqa: SLF001 - what a server of many sessions would keep of each
        assert len(known) == MANY + 4

    store = CountingStore()
    async with hosting(answering(), store=store) as host:
        for number in range(6):
            await host.create(ANN, session_id=f"a{number}")
    for wanted in (RowFilter(), RowFilter(agent_id="desk"), RowFilter(agent_id="other"), RowFilter(q="A3")):
        async with hosting(answering(), store=store) as host:
            pages, behind = [], None
            while page := await host.list_sessions(ANN, wanted=wanted, behind=behind, limit=4):
                pages += [(one.session_id, one.agent_id, one.row.agent_id) for one in page]
                behind = (page[-1].row.created_at_ms or 0, page[-1].session_id)
        expected = {"other": [], "desk": [5, 4, 3, 2, 1, 0]}.get(wanted.agent_id or "desk")
        shown = [f"a{one}" for one in expected if wanted.q is None or wanted.q.lower() == f"a{one}"]
        assert pages == [(one, "desk", "desk") for one in shown]


@on_virtual_time
async def test_the_last_place_of_a_page_costs_no_read_per_temporary_session():
    """Temporary sessions are in no list, and stand between two that are."""
    store = CountingStore()
    async with hosting(answering(), store=store, limits=Limits(max_sessions_per_principal=MANY + 3)) as host:
        await host.create(ANN, session_id="old")
        for number in range(MANY):
            await host.create(ANN, session_id=f"t{number}", keep=False)
        for name in ("newer", "newest"):
            await host.create(ANN, session_id=name)
        store.pages = 0
        listed = await host.list_sessions(ANN, limit=3)
        assert [one.session_id for one in listed] == ["newest", "newer", "old"]
        assert store.pages == 2
        assert [one.session_id for one in await host.list_sessions(ANN, limit=2)] == ["newest", "newer"]


@on_virtual_time
async def test_the_usual_list_is_the_whole_list_in_pages():
    """Awake, resting and ended sessions, children and other users: page by page the same rows as sorted by this process, of one user and of the tenant."""
    store = CountingStore()
    async with hosting(answering(), store=store) as host:
        for number in range(4):
            await host.create(ANN, session_id=f"old{number}")
    async with hosting(answering(*["yes"] * 4), store=store) as host:
        for number in range(4):
            session = await host.create(ANN if number % 2 else BOB, session_id=f"new{number}")
            await session.ask("Hi")
        await host.supervisor.session("new1", scope=ANN.tenant_id).stop()
        for of_tenant in (False, True):
            for ended in (None, False, True):
                wanted = RowFilter(ended=ended)
                asked = partial(host.list_sessions, ANN, wanted=wanted, of_tenant=of_tenant)
                pages, behind = [], None
                while page := await asked(behind=behind, limit=3):
                    pages += page
                    behind = (page[-1].created_at_ms, page[-1].session_id)
                whole = await asked(sort="created", limit=99)
                assert [one.row for one in pages] == [one.row for one in reversed(whole)]
                assert [one.status for one in pages] == [one.status for one in reversed(whole)]
                assert len(pages) > 0


@on_virtual_time
async def test_a_session_whose_first_record_is_missing_does_not_keep_the_others_from_being_listed():
    """As below. Its row names a record that the journal does not have."""
    store = MemoryStore()
    async with hosting(answering(), store=store) as host:
        for name in ("a", "z"):
            await host.create(ANN, session_id=name)
    del store._journals["acme", "a"].records[0]  # noqa: SLF001 - no public way loses a record
    async with hosting(answering(), store=store) as host:
        assert {one.session_id for one in await host.list_sessions(ANN)} == {"z"}
        with pytest.raises(JournalCorrupt):
            await host.session("a", ANN)


@on_virtual_time
async def test_a_session_that_cannot_be_read_does_not_keep_the_others_from_being_listed(caplog):
    """A newer version wrote its beginning, or a disk damaged it: the log names it once, however often and however they are listed."""
    store = MemoryStore()
    async with hosting(answering(), store=store) as host:
        for name in ("a", "newer", "z"):
            await host.create(ANN, session_id=name, metadata={"of": name})
    spoil(store, "newer")
    async with hosting(answering(), store=store) as host:
        for given in ({}, {"sort": "-changed"}, {"wanted": RowFilter(q="a")}, {"of_tenant": True}):
            listed = await host.list_sessions(ANN, **given)
            assert {one.session_id for one in listed} == {"a", "z"}
        with pytest.raises(CodecError, match="a newer version wrote it"):
            await host.session("newer", ANN)
        spoil(store, "z")  # its owner is known here
        assert [dict(one.metadata) for one in await host.list_sessions(ANN)] == [{}, {"of": "a"}]
    said = [one.getMessage() for one in caplog.records if "is in no list" in one.getMessage()]
    assert len(said) == 1
    assert "session newer is in no list: its beginning cannot be read: no opened record" in said[0]


@on_virtual_time
async def test_a_feed_costs_the_rows_that_it_has(monkeypatch):
    """It has the sessions in memory, and those of the store that changed last. Of others it reads no journal."""
    monkeypatch.setattr("agentrail.host.session_feed.MAX_FEED_ROWS", 10)
    monkeypatch.setattr("agentrail.host.session_list._AT_ONCE", 7)
    store = CountingStore()
    async with hosting(answering(), store=store, limits=Limits(max_sessions_per_principal=MANY)) as host:
        for number in range(MANY):
            await host.create(ANN, session_id=f"a{number}")
            await trio.sleep(0.01)
    rows = sorted(store.find(limit=MANY), key=lambda row: (row.written_at_ms, row.session))
    async with hosting(answering(), store=store) as host, trio.open_nursery() as nursery:
        await host.session(rows[0].session, ANN)
        store.journals_read = 0
        feed, up = host.session_feed(ANN.tenant_id), trio.Event()
        nursery.start_soon(feed.run, up)
        await up.wait()
        await feed.settle()
        assert {*feed.sessions.rows} == {rows[0].session, *[row.session for row in rows[-9:]]}
        assert store.journals_read <= 20
        nursery.cancel_scope.cancel()


@on_virtual_time
async def test_other_tasks_run_while_many_sessions_are_listed(monkeypatch):
    """Also if all of them are known, so that no journal is read."""
    monkeypatch.setattr("agentrail.host.session_list._TURN_EVERY", 10)
    store, turns = CountingStore(), []
    async with hosting(answering(), store=store, limits=Limits(max_sessions_per_principal=MANY)) as host:
        for number in range(MANY):
            await host.create(ANN, session_id=f"a{number}")
    async with hosting(answering(), store=store) as host, trio.open_nursery() as nursery:

        async def count_turns():
            while True:
                await trio.lowlevel.checkpoint()
                turns.append(store.found)

        await host.list_sessions(ANN, limit=MANY)
        nursery.start_soon(count_turns)
        store.found = 0
        assert len(await host._parts.sessions.list.everything(ANN.tenant_id)) == MANY  # noqa: SLF001 - what feeds read
        assert turns.count(MANY) >= MANY // 10
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("most_here", "here"), [(5, 1), (4, 0)])
async def test_many_sessions_are_put_in_order_in_a_thread(monkeypatch, most_here, here):
    """100,000 take a second. Few are sorted at once."""
    monkeypatch.setattr("agentrail.host.session_list._ORDERED_HERE", most_here)
    called: list[str] = []
    async with hosting(answering(), store=MemoryStore()) as host:
        for number in range(5):
            await host.create(ANN, session_id=f"a{number}")
        sys.setprofile(lambda frame, kind, _: called.append(frame.f_code.co_name) if kind == "call" else None)
        try:
            listed = await host.list_sessions(ANN, sort="created")
        finally:
            sys.setprofile(None)
    assert [one.session_id for one in listed] == [f"a{number}" for number in range(5)]
    assert called.count("rows_in_order") == here
