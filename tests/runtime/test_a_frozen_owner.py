"""An owner that was frozen past its lease goes on with a full queue: not one record of it stands behind the taking over (the fence)."""

from contextlib import closing

import pytest

from agentrail.abc.store import Node
from agentrail.core.journal.record import Draft, first_broken, sealed
from agentrail.errors import Fenced
from agentrail.runtime.store_writer import Writer
from agentrail.stores.memory import MemoryStore
from agentrail.stores.postgres import PostgresStore
from agentrail.stores.sqlite import SqliteStore
from tests.runtime.test_store_writer import Heard
from tests.stores.postgres_databases import fresh_databases, run_sql
from tests.stores.rig import Clock, opening

SESSIONS = [f"s-{number}" for number in range(20)]
LEASE_MS = 15_000


class Owned(Heard):
    def __init__(self, store, session):
        super().__init__()
        self.session, self.tail = session, store.get("", session).tail

    def records(self, *bodies):
        drafts = [Draft(at_ms=1, kind="prompt", body=body.encode(), does="publish 1") for body in bodies]
        made, self.tail = sealed(drafts, self.tail, scope="", session=self.session)
        return made


class ServerClock:
    """The clock of a database."""

    def __init__(self, url):
        self._url = url

    @property
    def now(self):
        return run_sql(self._url, "SELECT ms FROM public.clock")[0][0]

    @now.setter
    def now(self, ms):
        run_sql(self._url, f"UPDATE public.clock SET ms = {ms}")  # noqa: S608 - a number


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def clocked(request, tmp_path):
    clock = Clock()
    if request.param == "memory":
        yield MemoryStore(now_ms=clock, lease_ms=LEASE_MS), clock
    elif request.param == "postgres":
        with fresh_databases(request.getfixturevalue("postgres_server")) as create:
            url = create()
            with closing(PostgresStore(url, lease_ms=LEASE_MS)) as store:
                yield store, ServerClock(url)
    else:
        path, wall = tmp_path / "sessions.db", lambda: clock() / 1000
        with closing(SqliteStore(path, wall=wall, lease_ms=LEASE_MS)) as store:
            yield store, clock


@pytest.mark.at(149)
@pytest.mark.at(100)
async def test_nothing_of_a_queue_goes_in_behind_a_taking_over(clocked):
    """Twenty jobs wait, bursts among them; of some the commit was done and never heard of. All are refused, and nothing leaves."""
    store, clock = clocked
    store.beat(Node(id="n1"))
    for session in SESSIONS:
        store.create(opening(session, node="n1"))
    writer = Writer(store, patience_seconds=5)
    owned = [Owned(store, session) for session in SESSIONS]
    for number, one in enumerate(owned):
        writer.put(one, one.records("a", *"bc"[: number % 3]))
    batch = writer.take_batch()
    appends = [job.append() for job in batch]
    half = writer.commit(appends[::2])  # durable, and then it freezes before it hears so
    assert half.answers == (None,) * 10
    for one in owned[:5]:
        writer.put(one, one.records("more", "and more"))

    clock.now += 2 * LEASE_MS
    store.beat(Node(id="n2"))
    for session in SESSIONS:
        store.take("", session, "n2", "lease_over")

    while batch:
        assert writer.report(batch, writer.commit([job.append() for job in batch]))
        batch = writer.take_batch()
    assert [one.durable for one in owned] == [[]] * 20  # so no effect left
    assert all([type(error) for error in one.errors] == [Fenced] for one in owned)
    for number, session in enumerate(SESSIONS):
        records = store.read("", session)
        assert first_broken(records) is None
        assert [record.epoch for record in records] == [1] * (len(records) - 1) + [2]
        assert records[-1].kind == "taken"
        assert len(records) == (3 + number % 3 if number % 2 == 0 else 2)
