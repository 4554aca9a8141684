"""What a supervisor shows of its sessions: the tree, the end of one, and the counts."""

import pytest
import trio

from agentrail.actors.supervisor import render_tree
from agentrail.errors import SessionDown
from agentrail.events import SessionRestarted
from agentrail.runtime.monitoring import SessionGone
from agentrail.runtime.statistics import SupervisorStatistics
from agentrail.testing.cancelling import crash
from agentrail.testing.models import ScriptedModel
from agentrail.testing.tools import HangingTool, StubbornTool
from tests.runtime.rig import calling, on_virtual_time, open_bare, saying, until, wants


async def test_the_tree_has_all_sessions(supervisor):
    """Root and sessions in start order, each with its phase; a crash shows as a restart, what ended is not there."""
    hang = HangingTool()
    busy = await supervisor.start_session(model=calling("hang"), tools=[hang], session_id="busy")
    await supervisor.start_session(model=saying(), session_id="idle")
    await supervisor.start_session(model=saying(), session_id="gone")
    await supervisor.stop_session("gone")
    await busy.prompt("Go")
    await hang.started.wait()
    root = await supervisor.tree()
    assert (root.id, root.kind, root.phase) == ("sessions", "supervisor", None)
    assert [(node.id, node.phase) for node in root.children] == [
        ("busy", "executing_tools"),
        ("idle", "idle"),
    ]
    assert [(node.restarts, node.incarnation, node.mailbox) for node in root.children] == [(0, 1, 0)] * 2
    async with busy.subscribe() as events:
        crash(busy)
        await until(events, SessionRestarted)
    node = (await supervisor.tree()).children[0]
    assert (node.status, node.phase, node.restarts, node.incarnation) == ("running", "idle", 1, 2)


@on_virtual_time
async def test_the_tree_shows_a_session_between_two_instances():
    """While it waits for its restart it has no uptime, but it has its phase, and mail that waits for the next one."""
    async with open_bare() as supervisor:
        hang = HangingTool()
        session = await supervisor.start_session(model=calling("hang"), tools=[hang], session_id="s-1")
        await session.prompt("Go")
        await hang.started.wait()
        crash(session)
        await trio.sleep(0.01)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.status)
            await trio.testing.wait_all_tasks_blocked()
            node = (await supervisor.tree()).children[0]
    assert (node.status, node.phase, node.uptime_seconds, node.mailbox) == (
        "restarting",
        "executing_tools",
        None,
        1,
    )
    assert "'s-1' worker restarting executing_tools #1 restarts=1 up=- mailbox=1" in render_tree(node)


async def test_a_closed_supervisor_has_no_tree():
    """It says so, instead of showing one that is empty."""
    async with open_bare() as supervisor:
        await supervisor.start_session(model=saying())
    with pytest.raises(SessionDown, match="the supervisor was closed"):
        await supervisor.tree()


async def test_a_monitor_tells_the_end_once_and_no_restart(supervisor):
    """One `SessionGone` with reason and incarnation, however often one waits; one more monitor has one of its own."""
    session = await supervisor.start_session(model=saying(), session_id="s-1")
    first, second = session.monitor(), supervisor.monitor("s-1")
    heard = []

    async def listen() -> None:
        heard.append(await first.wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        nursery.start_soon(listen)
        async with session.subscribe() as events:
            crash(session)
            await until(events, SessionRestarted)
        assert heard == []
        await session.stop("enough")
    down = SessionGone(session_id=session.session_id, reason="enough", incarnation=2)
    assert heard == [down, down]
    assert [await monitor.wait() for monitor in (first, second, supervisor.monitor(session))] == [down] * 3


@on_virtual_time
async def test_down_means_gone():
    """It is told when what the session had at work is gone, or was left behind; and not when callers hear of the end."""
    async with open_bare() as supervisor:
        tool = StubbornTool(deaf_seconds=7.0)
        session = await supervisor.start_session(model=calling("stubborn"), tools=[tool])
        await session.prompt("Go")
        await tool.started.wait()
        began_at = trio.current_time()
        await session.stop("enough")
        assert trio.current_time() - began_at == pytest.approx(5)
        await session.monitor().wait()
        assert trio.current_time() - began_at == pytest.approx(7)


async def test_who_is_not_there_cannot_be_monitored(supervisor):
    """By id only the living are found."""
    with pytest.raises(SessionDown, match="no live session"):
        supervisor.monitor("nobody")


async def test_a_supervisor_counts():
    """What was started, restarted, parked and ended; also after it was closed."""
    async with open_bare() as supervisor:
        assert supervisor.statistics() == SupervisorStatistics(
            live=0, started=0, ended=0, parked=0, restarts=0
        )
        crashing = await supervisor.start_session(model=saying())
        await supervisor.start_session(model=ScriptedModel([wants("hang")]), tools=[HangingTool()])
        for _ in range(3):
            crash(crashing)
        await crashing.monitor().wait()
        assert supervisor.statistics() == SupervisorStatistics(
            live=1, started=2, ended=1, parked=1, restarts=2
        )
    assert supervisor.statistics() == SupervisorStatistics(live=0, started=2, ended=2, parked=1, restarts=2)
