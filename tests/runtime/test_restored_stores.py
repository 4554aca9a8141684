"""A store that was restored from a backup (M-029): what stays parked, what continues, and what a reader of the lost time is told."""

import sqlite3
from contextlib import closing

import pytest
import trio

import agentrail
from agentrail.abc.store import JOURNAL_BEHIND
from agentrail.errors import CursorAhead, JournalBehind, StoreInUse, StoreUnavailable
from agentrail.plugins.human_approval import HumanApproval
from agentrail.runtime.agent import Agent
from agentrail.runtime.restored_store import note_restored
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.models import FunctionModel, calls, says
from tests.runtime.nodes import node_over, shared_store, taken_by
from tests.runtime.rig import on_virtual_time, saying
from tests.runtime.test_dead_nodes import Work

pytestmark = on_virtual_time

LEASE = 15


def talk(_opening=None):
    return {"model": FunctionModel(lambda _: says("done"))}


def asks(work, _opening=None):
    """Its tool waits for a user, for a minute."""
    model = FunctionModel(lambda _: calls(("work", {})))
    plugin = (HumanApproval, {"require_approval_for": ["work"]})
    return {"model": model, "tools": [work.tool], "plugins": [plugin], "approval_timeout_seconds": 60}


async def left_by_a_dead_node(store, work, waiting):
    """Leave a session in the middle of a tool, one that waits for a user, and one at rest."""
    async with node_over(store, revive=talk) as (one, connection):
        idle = await one.start_session(session_id="idle", **talk())
        assert await idle.ask("Hi") == "done"
        waits = await one.start_session(session_id="waits", **asks(waiting))
        await waits.prompt("Hi")
        busy = await one.start_session(session_id="busy", **work.options())
        await busy.prompt("Hi")
        await work.began.wait()
        await trio.sleep(1)
        connection.cut()
    await trio.sleep(LEASE + 1)


@pytest.mark.machine(29)
async def test_open_work_of_a_restored_store_stays_parked_until_someone_resumes_it():
    """Open work of a restored store stays parked until someone resumes it."""
    store, _ = shared_store()
    work, waiting = Work(seconds=100), Work(seconds=1)
    await left_by_a_dead_node(store, work, waiting)
    before = len(work.ledger)
    found = note_restored(store)
    assert ([one.session for one in found.parked], found.idle) == (["busy", "waits"], 1)
    assert [taken_by(store, name) for name in ("busy", "idle", "waits")] == [[2], [2], [2]]

    def revive(opening):
        return {"busy": work.options, "idle": talk}.get(opening.session_id, lambda: asks(waiting))()

    async with node_over(store, revive=revive) as (two, _):
        await trio.sleep(120)  # the approval has expired by now
        assert {one.session_id for one in two.parked_sessions()} == {"busy", "waits"}
        assert all("restored" in one.reason for one in two.parked_sessions())
        assert (len(work.ledger), waiting.ledger, two.sessions()) == (before, [], ())
        last = store.get("", "idle").events
        idle = await two.resume_session("idle")
        with pytest.raises(CursorAhead):
            async with idle.subscribe(after=last + 400):
                pass
        assert await idle.ask("And now?") == "done"
        for given in ({}, {"on_drift": "park"}, {"force": True}):
            with pytest.raises(JournalBehind, match="restored from a backup"):
                await two.resume_session("busy", **given)
        busy = await two.resume_session("busy", on_drift="go_on")
        await trio.sleep(5)
        assert "Outcome unknown" in str(await busy.messages())
        assert len(work.ledger) == before  # `once`: not repeated


async def test_a_restored_store_is_not_prepared_while_a_node_lives():
    """A restored store is not prepared while a node lives: the error has its id and address."""
    store, _ = shared_store()
    async with node_over(store, advertise="http://10.0.0.7:8700") as (one, _):
        await one.start_session(session_id="s", model=saying())
        with pytest.raises(
            StoreInUse, match=rf"{one.shared_node} at http://10\.0\.0\.7:8700 .*stop all nodes"
        ):
            note_restored(store)
        assert taken_by(store, "s") == []
    assert note_restored(store).idle == 1


async def test_a_tree_is_parked_for_the_open_work_of_a_child():
    """A tree is parked for the open work of a child, although its root is idle."""
    store, _ = shared_store()
    work = Work(seconds=100)
    agent = Agent(
        name="scout", description="Looks.", system_prompt="You look.", tools=[work.tool], background=True
    )

    def boss(_opening=None):
        def answer(request):
            if request.system == "You look.":
                return calls(("work", {}))
            said = str(request.messages[-1])
            return (
                says("ok")
                if "Result" in said
                else calls(("spawn_agent", {"agent": "scout", "task": "Look."}))
            )

        return {"model": FunctionModel(answer), "agents": [agent]}

    async with node_over(store, revive=boss) as (one, connection):
        session = await one.start_session(session_id="boss", **boss())
        assert await session.ask("Go") == "ok"
        await work.began.wait()
        await trio.sleep(1)
        assert not store.get("", "boss").standing.has_open_work
        connection.cut()
    await trio.sleep(LEASE + 1)
    assert [one.session for one in note_restored(store).parked] == ["boss"]
    before = len(work.ledger)
    async with node_over(store, revive=boss) as (two, _):
        await trio.sleep(LEASE)
        with pytest.raises(JournalBehind):
            await two.resume_session("boss")
        assert ([one.session_id for one in two.parked_sessions()], len(work.ledger)) == (["boss"], before)


@pytest.mark.parametrize("scope", ["", "acme"])
async def test_a_tool_whose_records_a_salvage_lost_does_not_run_again(tmp_path, scope):
    """The journal ends before its call: the model would be asked again, and a `once` tool run a second time."""
    path, work = tmp_path / "s.db", Work(seconds=1)
    async with agentrail.open_supervisor(store=f"sqlite:{path}") as supervisor:
        session = await supervisor.start_session(session_id="s", scope=scope, **work.options())
        await session.ask("Work.")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM record WHERE seq > 4")
        connection.commit()
    with closing(SqliteStore(path)) as store:
        with pytest.raises(StoreUnavailable):
            store.take(scope, "s", "n9", "start")
        store.release("n1", scope, "s")
    for drift in ("park", "go_on"):
        async with agentrail.open_supervisor(store=f"sqlite:{path}") as supervisor:
            if drift == "park":
                with pytest.raises(JournalBehind, match=r"acknowledged record \d+ and now ends at 4"):
                    await supervisor.resume_session("s", scope=scope, **work.options())
                assert len(work.ledger) == 1
                continue
            await supervisor.resume_session("s", scope=scope, on_drift="go_on", **work.options())
            await supervisor.stop_session("s", scope=scope)
    with closing(SqliteStore(path)) as store:
        assert store.owed(JOURNAL_BEHIND) == ()
