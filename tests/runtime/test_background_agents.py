"""Agents in the background: started by a call, outliving it and its cycle, waited for as data, gone with their session."""

from contextlib import suppress

import pytest
import trio

from agentrail.core.policy.budget import Budget
from agentrail.core.session.state import Phase
from agentrail.errors import SessionDown, ToolDefinitionError
from agentrail.events import (
    AgentEnd,
    MessageDelta,
    SessionRestarted,
    SubagentEnd,
    SubagentEvent,
    SubagentStart,
)
from agentrail.runtime.agent import Agent
from agentrail.runtime.agent_tools import AgentTool
from agentrail.runtime.crashes import TaskCrashed
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import HangingTool
from tests.runtime.rig import only

SCOUT = Agent(name="scout", description="Finds files.", system_prompt="You look.", tools=(), background=True)
SPAWN = ("spawn_agent", {"agent": "scout", "task": "Look."})
WAIT: tuple[str, dict[str, str]] = ("wait_agents", {})


class Script:
    """A model that says one turn after another to the session, and answers every agent alike."""

    def __init__(self, *turns, agent=None):
        self.turns = list(turns)
        self.agent = agent or (lambda request: says(f"seen: {last_words(request)}"))
        self.requests = []

    def __call__(self, request):
        """Give the next turn."""
        if request.system == "You look.":
            return self.agent(request)
        self.requests.append(request)
        return self.turns.pop(0) if self.turns else says("ok")


def last_words(request):
    """What the last message says."""
    return request.messages[-1].content[-1].text


def results(request):
    """The results of the last batch."""
    return [result.text for result in request.messages[-1].results]


def hangs():
    """An agent for the background, whose tool hangs."""
    tools = [HangingTool(name="hang")]
    return Agent(name="scout", description="x", system_prompt="You look.", tools=tools, background=True)


async def start(supervisor, script, **options):
    """A session of that model, with an agent for the background."""
    return await supervisor.start_session(
        model=FunctionModel(script), session_id="boss", **({"agents": [SCOUT]} | options)
    )


async def test_an_agent_is_started_waited_for_told_more_and_closed(supervisor):
    """The four tools, through the whole of its life (12.2.2)."""
    script = Script(
        calls(SPAWN),
        calls(WAIT),
        calls(("send_input", {"name": "agent-1", "text": "And there?"})),
        calls(WAIT),
        calls(("close_agent", {"name": "agent-1"})),
        calls(WAIT),
        says("all done"),
    )
    session = await start(supervisor, script)
    async with session.subscribe(kinds=[SubagentStart, SubagentEnd]) as events:
        assert await session.ask("go") == "all done"
        started, ended = await anext(events), await anext(events)
    assert (started.child_id, started.description) == ("boss:agent-1", "Look.")
    assert (ended.child_id, ended.result.text) == ("boss:agent-1", "seen: And there?")
    said = [text for request in script.requests[1:] for text in results(request)]
    assert said[0].startswith("agent-1 has begun.")
    assert said[1].startswith("[agent-1 (scout) is idle; 1 turns")
    assert said[1].endswith("\nseen: Look.")
    assert said[2] == "agent-1 works on."
    assert said[3].endswith("\nseen: And there?")
    assert said[4].startswith("[agent-1 (scout) is ended: closed;")
    assert said[5] == "No agent is alive: there is nothing to wait for."
    with pytest.raises(SessionDown):
        supervisor.session("boss:agent-1")


async def test_an_agent_outlives_its_cycle_and_goes_with_its_session(supervisor, autojump_clock):
    """Three are at work when the cycle ends; the stop takes all of them along (12.2.5)."""
    script = Script(
        calls(SPAWN, (*SPAWN[:1], {**SPAWN[1], "name": "b"}), (*SPAWN[:1], {**SPAWN[1], "name": "c"})),
        says("on"),
    )
    script.agent = lambda request: calls(("hang", {}))
    hanging = HangingTool(name="hang")
    agent = Agent(name="scout", description="x", system_prompt="You look.", tools=[hanging], background=True)
    session = await start(supervisor, script, agents=[agent])
    assert await session.ask("go") == "on"
    await trio.sleep(1)
    status = await session.status()
    assert [child.session_id for child in status.children] == ["boss:agent-1", "boss:b", "boss:c"]
    assert status.phase == "idle"
    assert supervisor.statistics().live == 4
    await supervisor.stop_session("boss")
    assert supervisor.statistics().live == 0


async def test_an_abort_stops_agents_and_its_receipt_says_what_became_of_each(supervisor, autojump_clock):
    """Three children, each with a tool that hangs; one abort, one receipt (12.2.5)."""
    named = [("spawn_agent", {**SPAWN[1], "name": name}) for name in "abc"]
    script = Script(calls(*named), calls(WAIT))
    script.agent = lambda request: calls(("hang", {}))
    session = await start(supervisor, script, agents=[hangs()])
    await session.prompt("go")
    await trio.sleep(1)
    receipt = await session.abort("enough")
    assert [child.session_id for child in receipt.children] == ["boss:a", "boss:b", "boss:c"]
    assert all(child.tasks_ended >= 1 for child in receipt.children)
    assert receipt.tasks_ended >= 3
    assert not receipt.stuck
    assert supervisor.statistics().live == 1
    assert (await session.status()).children == ()
    assert await session.ask("still there?") == "ok"


async def test_an_abort_may_spare_them(supervisor, autojump_clock):
    """`children=False`: the cycle is broken off, and its agents work on (12.2.5)."""
    script = Script(calls(SPAWN), calls(WAIT), calls(WAIT), says("done"))
    gate = trio.Event()

    def slow(request):
        return calls(("hang", {})) if not gate.is_set() else says("found")

    script.agent = slow
    session = await start(supervisor, script, agents=[hangs()])
    await session.prompt("go")
    await trio.sleep(1)
    receipt = await session.abort("enough", children=False)
    assert receipt.children == ()
    assert supervisor.statistics().live == 2
    gate.set()
    await supervisor.session("boss:agent-1").abort_tool(
        (await supervisor.session("boss:agent-1").status()).running_tools[0].call_id
    )
    assert await session.ask("and now?") == "done"
    assert results(script.requests[-1])[0].endswith("\nfound")


async def test_a_wait_and_its_agents_survive_a_crash_of_the_session(supervisor, autojump_clock):
    """The session comes back first, then the agent behind it goes on with what it has, and the wait is answered (12.2.6)."""
    script = Script(calls(SPAWN), calls(WAIT), says("done"))
    gate = trio.Event()

    def slow(request):
        return says("found") if len(request.messages) > 1 else calls(("wait_for", {}))

    class Waiting(HangingTool):
        async def execute(self, arguments, ctx):
            await gate.wait()
            return "1"

    script.agent = slow
    agent = Agent(
        name="scout",
        description="x",
        system_prompt="You look.",
        tools=[Waiting(name="wait_for")],
        background=True,
    )
    session = await start(supervisor, script, agents=[agent])
    async with session.subscribe(kinds=[SessionRestarted, SubagentEvent, AgentEnd]) as events:
        await session.prompt("go")
        await trio.sleep(1)
        cell = session._cell  # noqa: SLF001 - a crash from inside
        assert cell.state.phase is Phase.EXECUTING_TOOLS
        crash(cell)
        await trio.sleep(1)
        assert supervisor.session("boss:agent-1").session_id == "boss:agent-1"
        gate.set()
        await trio.sleep(1)
        kinds = []
        seqs = []
        with trio.move_on_after(1):
            async for event in events:
                kinds.append(type(event))
                if isinstance(event, SubagentEvent):
                    seqs.append(event.event.meta.seq)
    assert SessionRestarted in kinds
    assert kinds[-1] is AgentEnd
    assert seqs == sorted(set(seqs)), "what the agent published came twice, or is missing"
    assert await session.collect_reply() == "done"
    assert results(script.requests[-1])[0].endswith("\nfound")


def crash(cell):
    """Let the actor of a session crash."""
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


async def test_only_what_is_committed_is_passed_on(supervisor):
    """Deltas are had by a subscription of one's own: a hundred agents that talk would fill the mailbox above (12.14)."""
    script = Script(calls(SPAWN), calls(WAIT), says("done"))
    session = await start(supervisor, script)
    seen = []
    async with session.subscribe(after=0) as events:
        await session.ask("go")
        with suppress(trio.WouldBlock):
            while True:
                seen.append(events.next_nowait())
    passed = [event.event for event in seen if isinstance(event, SubagentEvent)]
    assert passed
    assert not [event for event in passed if isinstance(event, MessageDelta)]


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


async def test_what_an_agent_says_while_nothing_waits_is_read_in_front_of_the_next_prompt(supervisor):
    """A note never starts a cycle by itself (12.2.2)."""
    script = Script(calls(SPAWN), says("on"))
    session = await start(supervisor, script)
    async with only(session, SubagentEvent, after=0) as events:
        await session.ask("go")
        async for event in events:
            if isinstance(event.event, AgentEnd):
                break
    before = len(script.requests)
    await trio.testing.wait_all_tasks_blocked()
    assert len(script.requests) == before
    await session.ask("and?")
    texts = [block.text for message in script.requests[-1].messages[-2:] for block in message.content]
    assert any("seen: Look." in text for text in texts)


async def test_an_agent_may_wake_its_session(supervisor):
    """`wake=True`: what it said is the next prompt, once per idle."""
    agent = Agent(
        name="scout", description="x", system_prompt="You look.", tools=(), background=True, wake=True
    )
    script = Script(calls(SPAWN), says("on"), says("woken"))
    session = await start(supervisor, script, agents=[agent])
    async with session.subscribe(kinds=[AgentEnd], after=0) as events:
        await session.prompt("go")
        await anext(events)
        with trio.fail_after(2):
            await anext(events)
    assert "seen: Look." in last_words(script.requests[-1])


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
    with pytest.raises(ToolDefinitionError, match="no session answers calls of that name"):
        await supervisor.start_session(model=FunctionModel(lambda _: says("x")), tools=[wrong])
