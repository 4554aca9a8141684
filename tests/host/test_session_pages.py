"""A page of a user's sessions costs what the user has, and not what the tenant has."""

from agentrail.abc.store import Filters
from agentrail.host.quotas import Limits
from agentrail.stores.memory import MemoryStore
from agentrail.wire.rows import RowFilter
from tests.host.hosting import ANN, BOB, answering, hosting
from tests.runtime.rig import on_virtual_time

MANY = 120


class CountingStore(MemoryStore):
    found = journals_read = 0

    def find(self, filters=Filters(), *, after=None, limit=100):  # noqa: B008 - frozen
        page = super().find(filters, after=after, limit=limit)
        self.found += len(page)
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
        assert len(await host.list_sessions(BOB, limit=MANY)) == MANY
        assert len(await host.list_sessions(ANN, limit=MANY + 9, of_tenant=True)) == MANY + 5

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
