"""Timers of sessions that no process runs: a question, and an approval with a deadline, end at their time, also after a restart, and nobody has to ask."""

import trio

import agentrail
from agentrail import open_supervisor
from agentrail.messages import ToolMessage
from agentrail.outside import RealMachine, installed
from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.tools import builtin
from tests.runtime.rig import on_virtual_time


class Wall(RealMachine):
    """The clock on the wall is that of Trio."""

    def wall(self):
        """Read it."""
        return 1_000_000 + trio.current_time()


@agentrail.tool(effect_class="once")
async def act() -> str:
    """Act."""
    return "acted"


def answer(request):
    """Call, then say that it went on."""
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


@on_virtual_time
async def test_all_come_back_eight_at_a_time():
    """However many there are, in pages, each once."""
    at_once, most, pause, seen = 0, 0, 0.0, []

    class Machine(Wall):
        async def offload(self, function, /, *args, **_):
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await trio.sleep(pause)
            at_once -= 1
            return function(*args)

    class Slow(MemoryStore):
        is_immediate = False  # type: ignore[misc]  # final for users

    def revive(opening):
        seen.append(opening.session_id)
        return options()

    with installed(Machine()):
        store = Slow(now_ms=lambda: int((1_000_000 + trio.current_time()) * 1000))
        async with open_supervisor(store=store) as supervisor:
            for number in range(120):
                await supervisor.start_session(session_id=f"s{number}", **options())
        most, pause = 0, 0.1
        async with open_supervisor(store=store, resume="all", revive=revive) as supervisor:
            assert len(supervisor.sessions()) == 120
            assert sorted(seen) == sorted(f"s{number}" for number in range(120))
            assert 4 <= most <= 10  # and the writer, and the beats
