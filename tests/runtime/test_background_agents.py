"""Agents in the background: started by a call, outliving it and its cycle, waited for as data, gone with their session."""

import attrs
import pytest
import trio

from agentrail.core.policy.budget import Budget
from agentrail.errors import ToolDefinitionError
from agentrail.messages import AssistantMessage
from agentrail.runtime.agent import Agent
from agentrail.runtime.assembly import AgentTool
from agentrail.runtime.crashes import TaskCrashed
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import HangingTool

SCOUT = Agent(name="scout", description="Finds files.", system_prompt="You look.", tools=(), background=True)
SPAWN = ("spawn_agent", {"agent": "scout", "task": "Look."})
WAIT: tuple[str, dict[str, str]] = ("wait_agents", {})


class Script:
    """A model that says one turn after another to the session, and answers every agent alike."""

    def __init__(self, *turns, agent=None):
        self.turns = list(turns)
        self.agent = agent or (lambda request: says(f"seen: {request.messages[-1].content[-1].text}"))
        self.requests = []

    def __call__(self, request):
        if request.system == "You look.":
            return self.agent(request)
        self.requests.append(request)
        return self.turns.pop(0) if self.turns else says("ok")


def results(request):
    return [result.text for result in request.messages[-1].results]


def hangs():
    """An agent for the background, whose tool hangs."""
    return attrs.evolve(SCOUT, tools=[HangingTool(name="hang")])


async def start(supervisor, script, **options):
    return await supervisor.start_session(
        model=FunctionModel(script), session_id="boss", **({"agents": [SCOUT]} | options)
    )


def crash(cell):
    cell.mailbox.put_control(TaskCrashed(ValueError("bad")))


async def test_agents_of_a_session_that_is_given_up_go_with_it(supervisor, autojump_clock):
    """Parked, it has no next incarnation: nothing of it may be left at work (12.2.6)."""
    script = Script(calls(SPAWN), says("on"))
    script.agent = lambda request: calls(("hang", {}))
    session = await start(supervisor, script, agents=[hangs()], restart="temporary")
    await session.ask("go")
    await trio.sleep(1)
    crash(session._cell)  # noqa: SLF001 - a crash from inside
    await trio.sleep(6)
    assert supervisor.statistics().live == 0


async def test_a_crash_of_an_agent_is_never_one_of_its_session(supervisor, autojump_clock):
    """Its cycle failed, it is there again, and who waits is told (12.2.6)."""
    script = Script(calls(SPAWN), calls(WAIT), says("done"))
    script.agent = lambda request: calls(("hang", {}))
    session = await start(supervisor, script, agents=[hangs()])
    await session.prompt("go")
    await trio.sleep(1)
    crash(supervisor.session("boss:agent-1")._cell)  # noqa: SLF001 - a crash from inside
    assert await session.collect_reply() == "done"
    (said,) = results(script.requests[-1])
    assert said.startswith("[agent-1 (scout) is idle, its last cycle failed;")
    assert "the session crashed" in said
    assert (await session.status()).restarts == 0


async def test_an_agent_is_lent_a_share_for_each_cycle_and_gives_the_rest_back(supervisor):
    """So that the session can always ask on; a cycle of one gets a new share (12.2.4)."""
    script = Script(
        calls(SPAWN),
        calls(WAIT),
        calls(("send_input", {"name": "agent-1", "text": "More."})),
        calls(WAIT),
        says("done"),
    )
    session = await start(supervisor, script, budget=Budget(max_total_tokens=100_000), max_output_tokens=100)
    assert await session.ask("go") == "done"
    child = supervisor.session("boss:agent-1")
    left = (await child.status()).budget_left.tokens
    assert 20_000 < left < 50_000
    whole = (await session.status()).budget_left.tokens
    used = (await session.status()).usage.total
    assert whole == 100_000 - used


@pytest.mark.parametrize("budget", [None, Budget(max_total_tokens=100_000)])
async def test_an_agent_with_a_budget_has_no_cycle_that_its_parent_does_not_pay_for(
    supervisor, autojump_clock, budget
):
    """An agent of the agent ends when that one is idle, and may wake it: only where no budget is lent."""

    def answer(request):
        if request.system == "You look.":
            return says("found", pause_seconds=5)
        name = "scout" if request.system == "You lead." else "lead"
        return calls((SPAWN[0], {**SPAWN[1], "agent": name})) if len(request.messages) == 1 else says("on")

    lead = Agent(name="lead", description="Leads.", system_prompt="You lead.", background=True)
    options = {"budget": budget, "max_output_tokens": 100, "max_agent_depth": 2}
    session = await start(supervisor, answer, agents=[lead, attrs.evolve(SCOUT, wake=True)], **options)
    await session.ask("go")
    await trio.sleep(60)
    cycles = await supervisor.session("boss:agent-1").messages()
    assert [one.text for one in cycles if isinstance(one, AssistantMessage)][1:] == ["on"] * (
        2 if budget is None else 1
    )


async def test_agents_do_not_start_agents_unless_that_is_allowed(supervisor):
    """One deep, as a rule: the session of an agent has no such tools."""
    seen = []

    def look(request):
        seen.append(request.tools.names)
        return says("x")

    agent = Agent(name="scout", description="x", system_prompt="You look.", background=True)
    script = Script(calls(SPAWN), calls(WAIT), says("done"))
    script.agent = look
    session = await start(supervisor, script, agents=[agent])
    assert await session.ask("go") == "done"
    assert seen == [()]


async def test_an_unknown_kind_of_machine_tool_is_refused(supervisor):
    """No session answers calls of that name."""
    wrong = AgentTool(name="dance", description="x", parameters={"type": "object"})
    with pytest.raises(ToolDefinitionError, match="code', because sessions do not answer calls of that tool"):
        await supervisor.start_session(model=FunctionModel(lambda _: says("x")), tools=[wrong])
