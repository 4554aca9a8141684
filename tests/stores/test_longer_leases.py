"""An owner with a longer lease than the store of the looking process, such as a server with `lease = 60` while a command looks."""

import os
from contextlib import closing

import pytest

from agentrail.abc.store import Node, Standing
from agentrail.cli.store_access import Owners
from agentrail.errors import StillNeeded
from agentrail.stores.memory import MemoryStore
from agentrail.stores.postgres import PostgresStore
from agentrail.stores.sqlite import SqliteStore
from tests.stores.postgres_databases import run_sql
from tests.stores.rig import Clock, opening


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def clocked(request, tmp_path):
    """Lend a store, and a function that moves its clock."""
    clock = Clock()

    def move(milliseconds):
        clock.now += milliseconds

    if request.param == "memory":
        yield MemoryStore(now_ms=clock), move
    elif request.param == "sqlite":
        with closing(SqliteStore(tmp_path / "s.db", wall=lambda: clock() / 1000)) as store:
            yield store, move
    else:
        url = request.getfixturevalue("databases")()
        with closing(PostgresStore(url)) as store:
            yield store, lambda ms: run_sql(url, f"UPDATE public.clock SET ms = ms + {ms}")  # noqa: S608 - a number


def test_a_session_is_deleted_or_erased_only_after_the_lease_of_its_owner(clocked):
    """Between two heartbeats of a living owner it is needed, and afterwards it is not."""
    store, move = clocked
    for name, lease_ms in (("long", 60_000), ("short", 3_000)):
        store.beat(Node(id=name, lease_ms=lease_ms))
        for session in ("a", "b"):
            store.create(opening(f"{name}-{session}", node=name, standing=Standing(is_working=True)))
    move(14_999)  # the shorter lease of an owner does not count
    for name in ("long", "short"):
        with pytest.raises(StillNeeded):
            store.delete("", f"{name}-a")
    move(20_000)
    store.delete("", "short-a")
    with pytest.raises(StillNeeded):
        store.delete("", "long-a")
    with pytest.raises(StillNeeded):
        store.erase("", "long-b", "why")
    move(25_001)
    store.delete("", "long-a")
    store.erase("", "long-b", "why")


def test_a_list_shows_an_owner_as_living_for_its_own_lease(clocked, monkeypatch):
    """A session of a server does not look interrupted between two heartbeats, nor running once its node is reported gone."""
    store, move = clocked
    monkeypatch.setattr("agentrail.cli.store_access.writer_of", lambda _: os.getpid())
    store.beat(Node(id="n1", lease_ms=60_000))
    store.create(opening("a", node="n1"))
    move(20_000)
    assert Owners.of(store).alive == {"n1"}
    store.gone("n1")
    assert Owners.of(store).alive == frozenset()
