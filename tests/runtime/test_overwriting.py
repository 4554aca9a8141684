"""What is purged or swept stands in no file some time later: once for all that was removed within a while, and never for long (12b.5, 9.2)."""

import logging
from contextlib import closing, suppress
from functools import partial

import pytest
import trio
import trio.testing

import agentrail
from agentrail.abc.store import OwedRow, Standing
from agentrail.errors import SessionNotFound, StillNeeded, StoreUnavailable
from agentrail.outside import current
from agentrail.runtime import overwriter
from agentrail.runtime.overwriter import OVERWRITE_AFTER_SECONDS, REST_PER_SECOND, Overwriter
from agentrail.runtime.retention import KeepLimits, Retention
from agentrail.stores.memory import MemoryStore
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.faulty_store import CutStore
from agentrail.testing.models import ScriptedModel
from agentrail.testing.store_rules.trial import Author
from tests.runtime.rig import on_virtual_time, open_over, saying
from tests.runtime.test_retention import remove_now

OWED = (OwedRow(kind="overwrite", id="removed", body=b"{}"),)


class FileStore(MemoryStore):
    """Says that it has a file, which takes some seconds to be written anew; told so, it does not do it."""

    is_immediate = False  # type: ignore[misc]  # what runs over it is not told that it is a `MemoryStore`

    def __init__(self, *answers):
        super().__init__()
        self.answers = list(answers)
        self.written_at = []

    def overwrite_removed(self):
        self.written_at.append(trio.current_time() - self.began)
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, Exception):
            raise answer
        return answer


def begin(store, *names):
    for name in names:
        store.create(Author(name).opening(node="", standing=Standing(has_ended=True)))


async def overwriting_of(store, nursery, *, takes_seconds=0.0):
    """Begin, with a store whose every call takes so long."""
    store.began = trio.current_time()

    async def write(function):
        await trio.sleep(takes_seconds)
        return function()

    one = Overwriter(store, write)
    nursery.start_soon(one.run)
    await trio.testing.wait_all_tasks_blocked()
    return one


async def purge(one, store, name):
    return await one.purge(partial(store.delete, "", name))


@on_virtual_time
async def test_all_that_is_purged_within_a_while_is_overwritten_once(nursery):
    """Half a minute behind the last one; until then it is owed in the store, and afterwards no more."""
    store = FileStore()
    begin(store, "a", "b", "c")
    one = await overwriting_of(store, nursery)
    assert await purge(one, store, "a") > 0
    await trio.sleep(20)
    await purge(one, store, "b")
    assert store.owed("overwrite") == OWED
    await trio.sleep(600)
    assert store.written_at == [2 * OVERWRITE_AFTER_SECONDS]
    assert store.owed("overwrite") == ()
    await purge(one, store, "c")
    await trio.sleep(600)
    assert (len(store.written_at), one.done) == (2, 2)


@on_virtual_time
async def test_it_takes_a_fiftieth_of_the_time_however_often_is_purged(nursery):
    """Also while things are removed all the time; then it is done all the same."""
    store = FileStore()
    begin(store, *map(str, range(2_000)))
    one = await overwriting_of(store, nursery, takes_seconds=2)
    for name in map(str, range(2_000)):
        await purge(one, store, name)
    assert 3 <= len(store.written_at) <= 4_000 / (2 * REST_PER_SECOND)


@on_virtual_time
async def test_a_process_that_ends_before_it_has_looked_does_what_is_owed():
    """Its task has not begun then. One that has looked does not look again."""
    store = FileStore()
    store.change_owed(OWED)
    store.began = trio.current_time()

    async def write(function):
        await trio.sleep(1)
        return function()

    one = Overwriter(store, write)
    await one.finish()
    assert store.written_at == [2]
    assert store.owed("overwrite") == ()
    await one.finish()
    assert trio.current_time() - store.began == 2


@on_virtual_time
async def test_what_an_earlier_process_owed_is_done():
    """It stands in the store; and where that cannot be asked, it is done in vain."""
    for asked, answer in ((lambda *_, **__: OWED, 1), (None, 1), (lambda *_, **__: (), 0)):
        store = FileStore()
        store.change_owed(OWED)

        def fails(*_, **__):
            raise StoreUnavailable("away")  # noqa: EM101

        store.owed = asked or fails
        async with trio.open_nursery() as nursery:
            await overwriting_of(store, nursery)
            await trio.sleep(100)
            nursery.cancel_scope.cancel()
        assert len(store.written_at) == answer


@on_virtual_time
async def test_a_purge_that_is_refused_owes_nothing(caplog, nursery):
    """Nor does it take back what was owed before."""
    store = FileStore()
    begin(store, "a", "b")
    store.create(Author("fork").opening(node="", forked_from=("a", 1)))
    one = await overwriting_of(store, nursery)
    with pytest.raises(StillNeeded):
        await purge(one, store, "a")
    assert store.owed("overwrite") == ()
    await purge(one, store, "b")
    with pytest.raises(StillNeeded):
        await purge(one, store, "a")
    assert store.owed("overwrite") == OWED


@on_virtual_time
async def test_a_reader_in_the_way_and_a_store_that_fails_are_tried_again_later(caplog, nursery):
    """Each time after a longer pause; what it raises that no store may is told to the log, and crashes nothing."""
    caplog.set_level(logging.WARNING)
    store = FileStore(*[False, StoreUnavailable("the disk is full"), ZeroDivisionError("oh")])
    begin(store, "a")
    one = await overwriting_of(store, nursery)
    await purge(one, store, "a")
    await trio.sleep(2_000)
    assert store.written_at == [30, 90, 210, 450]
    assert store.owed("overwrite") == ()
    said = caplog.text
    assert "the disk is full" in said
    assert "the store crashed in overwriting removed data: ZeroDivisionError" in said


@on_virtual_time
async def test_a_sweep_asks_once_and_only_of_a_small_file(tmp_path, monkeypatch, caplog, nursery):
    """Behind one that deleted something; of a large file nobody waits each hour."""
    caplog.set_level(logging.INFO)
    store = FileStore()
    begin(store, "a", "b")
    one = await overwriting_of(store, nursery)
    limits = KeepLimits(size_bytes=1)
    sweeps = Retention(store, limits, "n", current(), remove_now, after_removing=one.after_sweep)
    await sweeps.sweep()
    await sweeps.sweep()
    await trio.sleep(600)
    assert (sweeps.deleted, len(store.written_at)) == (2, 1)
    monkeypatch.setattr(overwriter, "MAX_SWEPT_BYTES", 3)
    store.path = tmp_path / "sessions.db"
    store.path.write_bytes(b"long")
    begin(store, "c")
    await sweeps.sweep()
    await trio.sleep(600)
    assert len(store.written_at) == 1
    assert "the store has 4 bytes, more than 3" in caplog.text


@on_virtual_time
async def test_what_waits_is_done_when_the_supervisor_is_closed(nursery):
    """Not where it has just taken long: then it stays owed, for the next process."""
    store = FileStore()
    begin(store, "a", "b", "c")
    one = await overwriting_of(store, nursery, takes_seconds=10)
    await trio.sleep(20)  # it has looked for what was owed
    await one.finish()
    assert not store.written_at
    await purge(one, store, "a")
    await one.finish()
    assert len(store.written_at) == 1
    await trio.sleep(100)
    assert len(store.written_at) == 1
    await purge(one, store, "b")
    await trio.sleep(100)
    assert len(store.written_at) == 2
    await purge(one, store, "c")
    await one.finish()
    assert len(store.written_at) == 2
    assert store.owed("overwrite") == OWED


async def test_nothing_of_a_purged_session_is_in_the_file(tmp_path, monkeypatch):
    """Nor that it was owed; a session that is deleted owes nothing, and a store in memory never does."""
    overwrites = []
    overwrite = SqliteStore.overwrite_removed
    monkeypatch.setattr(
        SqliteStore, "overwrite_removed", lambda self: overwrites.append(self) or overwrite(self)
    )
    file, canary = tmp_path / "sessions.db", "My number is 4711-0815. " * 400
    async with agentrail.open_supervisor(store=f"sqlite:{file}") as supervisor:
        for name in ("s-1", "s-2"):
            model = saying("Hi.")
            session = await supervisor.start_session(model=model, session_id=name)
            await session.ask(canary if name == "s-1" else "Hello")
            await supervisor.stop_session(name)
        assert await supervisor.delete_session("s-1", purge=True) > 0
        assert await supervisor.facts_of("s-2") is not None
    assert len(overwrites) == 1
    async with agentrail.open_supervisor(store=f"sqlite:{file}") as supervisor:
        assert await supervisor.delete_session("s-2") > 0
        with pytest.raises(SessionNotFound):
            await supervisor.delete_session("s-2")
    assert len(overwrites) == 1
    assert all(b"4711-0815" not in one.read_bytes() for one in tmp_path.iterdir())
    with closing(SqliteStore(file)) as store:
        assert store.owed("overwrite") == ()
    memory = MemoryStore()
    async with agentrail.open_supervisor(store=memory) as supervisor:
        await supervisor.start_session(model=ScriptedModel([]), session_id="s-1")
        await supervisor.stop_session("s-1")
        await supervisor.delete_session("s-1", purge=True)
        assert memory.owed("overwrite") == ()


@pytest.mark.parametrize("how", ["cancelled", "answer lost"])
async def test_a_purge_of_unknown_outcome_is_overwritten_too(tmp_path, how):
    """Its caller gives up while the store deletes, or the answer is lost."""
    calls, token, scope = [], trio.lowlevel.current_trio_token(), trio.CancelScope()

    def decide(name):
        calls.append(name)
        if name == "delete" and how == "cancelled":
            trio.from_thread.run_sync(scope.cancel, trio_token=token)
        return "after" if name == "delete" and how == "answer lost" else None

    with closing(SqliteStore(tmp_path / "sessions.db")) as inner:
        async with open_over(CutStore(inner, decide)) as supervisor:
            await supervisor.start_session(model=ScriptedModel([]), session_id="s-1")
            await supervisor.stop_session("s-1")
            with scope, suppress(StoreUnavailable):
                await supervisor.delete_session("s-1", purge=True)
        assert inner.get("", "s-1") is None
        assert calls.count("overwrite_removed") == 1
        assert inner.owed("overwrite") == ()
