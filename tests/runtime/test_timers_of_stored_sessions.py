"""Timers of sessions that no process runs: a question, and an approval with a deadline, end at their time, also after a restart, and nobody has to ask."""

import pytest
import trio

import agentrail
from agentrail import open_supervisor
from agentrail.events import ApprovalRequired
from agentrail.messages import ToolMessage
from agentrail.outside import RealMachine, installed
from agentrail.plugins import HumanApproval
from agentrail.runtime.session_options import SessionOptions
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.tools import builtin
from tests.runtime.rig import on_virtual_time


class Wall(RealMachine):
    def wall(self):
        return 1_000_000 + trio.current_time()


@agentrail.tool(effect_class="once")
async def act() -> str:
    """Act."""
    return "acted"


def answer(request):
    if isinstance(request.messages[-1], ToolMessage):
        return says("went on")
    return (
        calls(("act", {}))
        if "act" in request.messages[-1].content[0].text
        else calls(("ask_user", {"question": "q"}))
    )


def options(_opening=None):
    """Code of the sessions: an approval and a question wait for an hour."""
    return {
        "model": FunctionModel(answer),
        "tools": [act, *builtin("ask_user")],
        "plugins": [(HumanApproval, {"require_approval_for": ["act"]})],
        "approval_timeout_seconds": 3600.0,
        "tool_timeout_seconds": 3600.0,
    }


def store_of_now():
    """A store whose clock is that of the sessions."""
    return MemoryStore(now_ms=lambda: int((1_000_000 + trio.current_time()) * 1000))


@on_virtual_time
@pytest.mark.parametrize(
    ("what", "back_after", "is_soon"),
    [("act", 60, False), ("act", 3590, True), ("act", 9999, True), ("ask", 60, True), ("ask", 9999, True)],
)
async def test_a_timer_of_an_earlier_process_is_over_at_its_time(what, back_after, is_soon):
    """Whether it runs out while no process runs or behind that; before it is soon, nobody wakes its session."""
    with installed(Wall()):
        store = store_of_now()
        async with open_supervisor(store=store) as supervisor:
            session = await supervisor.start_session(session_id="s", **options())
            began = trio.current_time()
            await session.prompt(what)
            await trio.sleep(1)
        await trio.sleep_until(began + back_after)
        async with open_supervisor(store=store, resume="working", revive=options) as supervisor:
            assert bool(supervisor.sessions()) == is_soon
            await trio.sleep_until(began + 3600 + 30)
            ((came_back),) = supervisor.sessions()
            assert await came_back.collect_reply() == "went on"


@on_virtual_time
async def test_an_approval_without_a_deadline_is_never_over():
    """That is the default: nothing wakes its session, and a click of hours later runs that very call."""
    given = {**options(), "approval_timeout_seconds": SessionOptions(model="").approval_timeout_seconds}
    with installed(Wall()):
        store = store_of_now()
        async with open_supervisor(store=store) as supervisor:
            session = await supervisor.start_session(session_id="s", **given)
            await session.prompt("act")
            await trio.sleep(1)
        async with open_supervisor(store=store, resume="working", revive=lambda _: given) as supervisor:
            await trio.sleep(3 * 3600)
            assert supervisor.sessions() == ()
            (stored,) = await supervisor.find()
            assert (stored.standing.waits_for, stored.standing.due_at_ms) == (1, None)
            session = await supervisor.resume_session("s", **given)
            async with session.subscribe(after=0) as events:
                async for event in events:
                    if isinstance(event, ApprovalRequired):
                        break
            await session.approve(event.approval.id)
            assert await session.collect_reply() == "went on"


@on_virtual_time
async def test_one_that_cannot_come_back_is_tried_once_and_keeps_no_other():
    """The log says why; it is not asked for again and again."""
    tried = []

    def revive(opening):
        tried.append(opening.session_id)
        return {**options(), "tools": []} if opening.session_id == "a" else options()

    with installed(Wall()):
        store = store_of_now()
        async with open_supervisor(store=store) as supervisor:
            for name in "ab":
                session = await supervisor.start_session(session_id=name, **options())
                await session.prompt("ask")
            await trio.sleep(1)
        async with open_supervisor(store=store, resume="working", revive=revive) as supervisor:
            await trio.sleep(3700)
            assert "b" in [one.session_id for one in supervisor.sessions()]
            await trio.sleep(3700)
        assert tried.count("a") == 1
