"""Two tenants use the same ids for their sessions. Whatever the one does, the sessions of the other behave as if it were alone."""

from itertools import zip_longest
from typing import Any, Final, TypeAlias

import trio
import trio.testing
from hypothesis import example, given, strategies as st

import agentrail
from agentrail.errors import AgentrailError
from agentrail.messages import UserMessage
from agentrail.runtime.agent import Agent
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.tools.task import TaskTool

CALLS: Final = {
    "spawn": ("spawn_agent", {"agent": "scout", "task": "Look."}),
    "wait": ("wait_agents", {}),
    "send": ("send_input", {"name": "agent-1", "text": "More."}),
    "dismiss": ("stop_agent", {"name": "agent-1"}),
    "delegate": ("task", {"agent": "clerk", "prompt": "Do it."}),
}
AGENTS: Final = [
    Agent(name="scout", description="Looks.", tools=(), background=True),
    Agent(name="clerk", description="Does.", tools=()),
]
ACTS: Final = ["start", "resume", *CALLS, "abort", "stop", "rest", "fork", "delete", "hours"]
FIRST: Final = [(what, of) for of in "xy" for what in ("start", "spawn")]
Acts: TypeAlias = list[tuple[str, str]]
TOLD: Final = st.lists(st.tuples(st.sampled_from(ACTS), st.sampled_from("xy")), max_size=16)


def _answer(request: Any) -> Any:
    last = request.messages[-1]
    asked = getattr(last.content[-1], "text", "") if isinstance(last, UserMessage) else ""
    return calls(CALLS[asked]) if asked in CALLS else says("ok")


async def _try(supervisor: SessionSupervisor, scope: str, act: tuple[str, str] | None) -> object:
    try:
        return None if act is None else await _act(supervisor, scope, *act)
    except AgentrailError as error:
        return type(error)
    finally:
        await trio.sleep(5)


async def _act(supervisor: SessionSupervisor, scope: str, what: str, of: str) -> object:
    options: Any = {"model": FunctionModel(_answer), "agents": AGENTS, "tools": [TaskTool()], "scope": scope}
    match what:
        case "start":
            return (await supervisor.start_session(session_id=of, **options)).session_id
        case "resume":
            return (await supervisor.resume_session(of, **options)).session_id
        case "abort":
            return await supervisor.session(of, scope=scope).abort("enough")
        case "stop":
            await supervisor.stop_session(of, scope=scope)
        case "rest":
            return type(await supervisor.rest(of, 0, scope=scope))
        case "fork":
            return (await supervisor.session(of, scope=scope).fork(session_id="xy".strip(of))).session_id
        case "delete":
            await supervisor.delete_session(of, scope=scope)
        case "hours":
            await trio.sleep(10_000)
        case _:
            return await supervisor.session(of, scope=scope).ask(what)
    return None


async def _live(acts: Acts, others: Acts, store: str | None) -> list[Any]:
    """Return what came of each act of a tenant, and its sessions when another tenant had acted, too."""
    seen: list[Any] = []
    async with agentrail.open_supervisor(store=store) as supervisor:
        for act, other in zip_longest(acts, others):
            came = await _try(supervisor, "anna", act)
            await _try(supervisor, "bert", other)
            live = [one.session_id for one in supervisor.sessions(scope="anna")]
            seen.append((act, came, [one for one in live if not one.startswith("s-")]))
    return seen


@example(acts=[("hours", "y")], others=[("stop", "x")], store=None)  # its agents were stopped, too
@given(acts=TOLD, others=TOLD, store=st.sampled_from((None, "memory:")))
def test_a_tenant_notices_nothing_of_another_with_the_same_ids(acts, others, store):
    """What its acts come to, and which sessions it has, depends on its own acts alone."""
    alone, together = (
        trio.run(_live, FIRST + acts, then, store, clock=trio.testing.MockClock(autojump_threshold=0))
        for then in ([None] * len(FIRST + others), FIRST + others)
    )
    assert together == alone
