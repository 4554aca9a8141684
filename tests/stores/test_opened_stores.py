"""Stores that are opened by name for a block: they are closed once, whenever the caller is cancelled."""

import inspect
import socket
import threading

import pytest
import trio

from agentrail import open_supervisor
from agentrail.abc.store import ManyTaker, OwedStore, Store
from agentrail.stores.memory import MemoryStore
from agentrail.stores.sqlite import SqliteStore
from agentrail.stores.store_names import opened_aside


class Closable:
    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        assert not self.closed.is_set()
        self.closed.set()


@pytest.mark.parametrize("option", ["store", "memories"])
async def test_opening_a_silent_database_can_be_cancelled(option):
    """A server that accepts the connection and never answers. Without this, the caller waits for the time limit of libpq."""
    pytest.importorskip("psycopg")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgres://ada@127.0.0.1:{silent.getsockname()[1]}/agents"
        with trio.fail_after(4), trio.move_on_after(0.1) as patience:
            async with open_supervisor(**{option: url}):
                pytest.fail("opened")
        assert patience.cancelled_caught


@pytest.mark.parametrize("is_remote", [True, False])
async def test_a_store_that_was_opened_too_late_is_closed(is_remote):
    """By the thread that opened it if its caller has left, by the caller that waited for a local file."""
    token, scope = trio.lowlevel.current_trio_token(), trio.CancelScope()
    opening, left, may_open, store = trio.Event(), trio.Event(), threading.Event(), Closable()

    def make():
        trio.from_thread.run_sync(opening.set, trio_token=token)
        may_open.wait(10)
        return store

    async def use():
        with scope:
            async with opened_aside(make, is_remote=is_remote):
                await trio.sleep_forever()
        left.set()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(use)
            await opening.wait()
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert left.is_set() is is_remote
            assert not store.closed.is_set()
            may_open.set()
    assert await trio.to_thread.run_sync(store.closed.wait, 10)


@pytest.mark.parametrize("blocks", [True, False])
async def test_a_store_that_was_opened_is_closed_after_the_block(blocks):
    """Also if the block raises."""
    store = Closable()

    async def use():
        async with opened_aside(lambda: store, blocks=blocks, is_remote=blocks) as opened:
            assert opened is store
            raise KeyError

    with pytest.raises(KeyError):
        await use()
    assert store.closed.is_set()


@pytest.mark.parametrize("name", ["MemoryStore", "SqliteStore", "PostgresStore"])
def test_calls_have_the_parameters_of_the_port(name):
    """Also those that a store makes of a query, so that editors and `help` show the same call for each store."""
    store = {"MemoryStore": MemoryStore, "SqliteStore": SqliteStore}.get(name)
    if store is None:
        store = pytest.importorskip("agentrail.stores.postgres").PostgresStore

    def parameters(call):
        own = [*inspect.signature(call).parameters.values()][1:]
        return [(one.name, one.kind, one.default is inspect.Parameter.empty) for one in own]

    ports = [OwedStore, Store] if store is MemoryStore else [OwedStore, Store, ManyTaker]
    calls = [call for port in ports for call in vars(port).values() if inspect.isfunction(call)]
    public = [call for call in calls if not call.__name__.startswith("_")]
    assert [parameters(getattr(store, one.__name__)) for one in public] == [parameters(one) for one in public]
