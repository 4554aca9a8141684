"""Who writes and what comes first is decided by numbers: a clock that stands still, or goes back, changes nothing (docs: the journal)."""

from contextlib import closing

import pytest

from agentrail.abc.store import Node
from agentrail.core.journal.record import first_broken
from agentrail.stores.memory import MemoryStore
from agentrail.stores.sqlite import SqliteStore
from tests.stores.rig import Clock, following, opening, snapshot_of

STORES = ["memory", "sqlite"]
CLOCKS = {"stands still": 0, "goes back": -1_000}


@pytest.fixture(params=STORES)
def clocked(request, tmp_path):
    clock = Clock()
    if request.param == "memory":
        yield MemoryStore(now_ms=clock, lease_ms=0), clock
    else:
        path, wall = tmp_path / "sessions.db", lambda: clock() / 1000
        with closing(SqliteStore(path, wall=wall, lease_ms=0)) as store:
            yield store, clock


@pytest.mark.at(102)
@pytest.mark.parametrize("moves", CLOCKS)
def test_of_two_owners_at_one_clock_reading_the_later_one_writes(clocked, moves):
    """Records, snapshots and pages are in the order of their numbers, and the epoch decides who is refused, whatever the time is."""
    store, clock = clocked
    store.beat(Node(id="n1"))
    store.create(opening("s"))
    for text in "abcdef":
        clock.now += CLOCKS[moves]
        append, _ = following(store.get("", "s").tail, text)
        assert store.append((append,)) == (None,)
    records = store.read("", "s")
    assert [record.seq for record in records] == [1, 2, 3, 4, 5, 6, 7]
    assert [record.body for record in records[1:]] == [text.encode() for text in "abcdef"]
    assert first_broken(records) is None
    assert store.read("", "s", 4, 2) == records[4:6]
    for record in (records[5], records[2]):  # the one that comes last is the older one
        store.put_snapshot(snapshot_of(record))
    assert [one.seq for one in store.snapshots("", "s")] == [6, 3]
    assert [one.seq for one in store.snapshots("", "s", 5)] == [3]

    old = store.get("", "s").tail
    epochs = [old.epoch]
    for node in ("n2", "n3"):
        clock.now += CLOCKS[moves]
        (taken,) = store.take("", "s", node, "gone", force=True).sessions
        epochs.append(taken.tail.epoch)
    late, _ = following(old, "of the first owner")
    own, after = following(store.get("", "s").tail, "of the last owner")
    assert [one is None for one in store.append((late,))] == [False]
    assert [one is None for one in store.append((own, late))] == [True, False]
    assert epochs == [1, 2, 3]
    assert all(type(epoch) is int for epoch in epochs)
    assert store.get("", "s").tail == after
