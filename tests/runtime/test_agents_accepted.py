"""The acceptance cases of sub-agents, with a session that really runs them."""

import attrs
import pytest
import trio

from agentrail.abc import Ok
from agentrail.core.session.state import Phase
from agentrail.errors import SessionDown
from agentrail.events import (
    AgentEnd,
    ApprovalRequired,
    LoopDetected,
    SessionRecovered,
    SessionRestarted,
    SubagentEvent,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agentrail.plugins import HumanApproval
from agentrail.runtime.agent import Agent
from agentrail.testing.cancelling import check_history
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import eventually, until
from tests.runtime.test_background_agents import SCOUT, SPAWN, WAIT, Script, crash, hangs, results, start
from tests.runtime.test_children import below, first_words
from tests.runtime.test_resumed_sessions import Process, fresh, open_again

TASK = ("task", {"description": "Look."})


async def test_three_tasks_run_side_by_side_and_an_abort_names_them(supervisor):
    """G-004: all three are at work at once; an abort leaves nothing, and its receipt has each of them."""
    hanging = HangingTool(name="hang")

    def answer(request):
        if first_words(request) == "Look.":
            return calls(("hang", {}))
        return calls(TASK, TASK, TASK) if len(request.messages) == 1 else says("after")

    session = await supervisor.start_session(
        model=FunctionModel(answer), tools=[TaskTool(), hanging], session_id="boss"
    )
    await session.prompt("go")
    with trio.fail_after(60):
        await eventually(lambda: len(hanging.calls) == 3)
        at_work = [child.session_id for child in (await session.status()).children]
        receipt = await session.abort("enough")
    assert len(set(at_work)) == 3
    assert sorted(child.session_id for child in receipt.children) == sorted(at_work)
    assert all(child.tasks_ended >= 1 for child in receipt.children)
    assert (receipt.stuck, hanging.stopped, supervisor.statistics().live) == ((), 3, 1)
    status = await session.status()
    assert (status.children, status.running_tools, status.phase) == ((), (), "idle")
    assert await session.ask("go on") == "after"


SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}


@pytest.mark.parametrize("deep", [False, True])
async def test_an_approval_of_a_child_is_decided_at_the_root(supervisor, deep):
    """G-007: listed there, approved there, and the very call runs; a grandchild's too. What is always allowed is kept there (12.7)."""
    tool = RecordingTool(name="shell", parameters=SCHEMA, answer="a file")

    def answer(request):
        depth = first_words(request)
        if depth == "Look.":
            match len(request.messages):
                case 1 if deep and "task" in request.tools.names:
                    return calls(("task", {"description": "Deeper."}))
                case 1:
                    return calls(("shell", {"command": "ls -l"}))
            return says(request.messages[-1].results[0].text)
        if depth == "Deeper.":
            wanted = calls(("shell", {"command": "ls -l"}))
            return wanted if len(request.messages) == 1 else says(request.messages[-1].results[0].text)
        rounds = len([one for one in request.messages if type(one).__name__ == "UserMessage"])
        is_new = type(request.messages[-1]).__name__ == "UserMessage"
        if is_new and rounds == 3:
            return calls(("shell", {"command": "ls -l"}))
        return calls(TASK) if is_new else says(request.messages[-1].results[0].text)

    session = await supervisor.start_session(
        model=FunctionModel(answer),
        tools=[TaskTool(max_depth=2), tool],
        plugins=[HumanApproval],
        session_id="boss",
    )
    async with session.subscribe(kinds=[SubagentEvent]) as told:
        await session.prompt("go")
        inner = await below(told, ApprovalRequired)
    (asked,) = (await session.status()).all_approvals
    assert (await session.snapshot()).status.all_approvals == (asked,)
    assert (asked.id, asked.arguments, len(asked.path)) == (
        inner.approval.id,
        {"command": "ls -l"},
        3 if deep else 2,
    )
    await session.approve(asked.id, kind="always")
    assert await session.collect_reply() == "a file"
    assert tool.calls == [{"command": "ls -l"}]
    (rule,) = await session.rules()
    assert (rule.session_id, rule.tool, rule.command_family) == ("boss", "shell", "ls -l")
    # What begins below afterwards has it, and so has the root itself; once it is taken back all ask again.
    assert await session.ask("again") == "a file"
    assert await session.ask("yourself") == "a file"
    assert len(tool.calls) == 3
    await session.revoke_rule(rule.rule_id)
    async with session.subscribe(kinds=[SubagentEvent]) as told:
        await session.prompt("and now")
        await below(told, ApprovalRequired)
        await session.abort()
    assert len(tool.calls) == 3


class Waiting(HangingTool):
    def __init__(self, gate):
        super().__init__(name="wait_for")
        self.gate = gate

    async def execute(self, arguments, ctx):
        await self.gate.wait()
        return Ok(text="1")


@pytest.mark.check
async def test_a_wait_survives_a_restart_of_the_process_and_keeps_its_time():
    """G-006: the agent works on and the wait is answered, once; its time counts from the call."""
    inner = fresh()
    gone, back = trio.Event(), trio.Event()

    def leader(request):
        if request.system == "You look.":
            return says("found") if back.is_set() else calls(("wait_for", {}))
        match len(request.messages):
            case 1:
                return calls(SPAWN)
            case 3:
                gone.set()
                return calls(WAIT, ("wait_agents", {"until": "closed", "timeout_seconds": 1}))
        return says("done")

    agent = attrs.evolve(SCOUT, tools=[Waiting(back)])
    options = {"model": FunctionModel(leader), "agents": [agent]}
    async with Process(inner) as supervisor:
        session = await supervisor.start_session(session_id="boss", **options)
        async with session.subscribe(kinds=[ToolExecutionStart]) as events:
            await session.prompt("go")
            with trio.fail_after(60):
                for _ in range(3):  # what is published is in the store
                    await anext(events)
        first, second = session._cell.state.data.agents.waits  # noqa: SLF001 - they are data of the session
    back.set()
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("boss", **options)
        with trio.fail_after(60):
            assert await session.collect_reply() == "done"
        async with session.subscribe(after=0, kinds=[SessionRecovered, ToolExecutionEnd]) as events:
            seen = await until(events, AgentEnd)
        (recovered,) = [one.meta.at_ms for one in seen if isinstance(one, SessionRecovered)]
        answered = [one.meta.at_ms for one in seen if getattr(one, "name", "") == "wait_agents"]
        assert answered[-1] - recovered < 1_000  # a second from the call, and not from the restart
        messages = await session.messages()
        check_history(messages)
        said = [one.text for one in messages[4].results]
        assert len(said) == 2
        assert "found" in said[0] or "failed" in said[0] or "aborted" in said[0]
        assert said[1].startswith("[The time is up. Still at work: agent-1]")
        assert second.expires_at_ms - first.expires_at_ms == (1 - 600) * 1000


async def test_both_come_back_when_the_parent_crashes_and_a_parked_child_is_told(supervisor, autojump_clock):
    """G-023: parent first, the wait is answered once; of a child that is given up the wait says why."""
    waiting = Waiting(trio.Event())
    script = Script(calls(SPAWN), calls(WAIT), says("done"))
    script.agent = lambda request: says("found") if waiting.gate.is_set() else calls(("wait_for", {}))
    agent = attrs.evolve(SCOUT, tools=[waiting])
    session = await start(supervisor, script, agents=[agent])
    async with session.subscribe(kinds=[SessionRestarted, SubagentEvent]) as events:
        await session.prompt("go")
        await trio.sleep(1)
        assert session._cell.state.phase is Phase.EXECUTING_TOOLS  # noqa: SLF001 - a crash from inside
        crash(session._cell)  # noqa: SLF001 - as above
        while not isinstance(await anext(events), SessionRestarted):
            pass
        await trio.sleep(1)
        assert supervisor.session("boss:agent-1").session_id == "boss:agent-1"
        waiting.gate.set()
        assert await session.collect_reply() == "done"
        seqs = []
        with trio.move_on_after(1):
            async for event in events:
                if isinstance(event, SubagentEvent):
                    seqs.append(event.event.meta.seq)  # noqa: PERF401 - what came before the end of the time counts
    assert seqs == sorted(set(seqs)), "what the agent published came twice, or is missing"
    said = [one for message in await session.messages() for one in getattr(message, "results", ())]
    waits = [one for one in said if one.name == "wait_agents"]
    assert len(waits) == 1
    assert waits[0].text.endswith("\nfound")
    # Crashes without an end: the child is given up, and its parent hears why and goes on.
    script.turns = [
        calls((SPAWN[0], {**SPAWN[1], "name": "b"})),
        calls(("wait_agents", {"names": ["b"]})),
        says("on"),
    ]
    waiting.gate = trio.Event()
    await session.prompt("again")
    for _ in range(8):
        await trio.sleep(1)
        try:
            crash(supervisor.session("boss:b")._cell)  # noqa: SLF001 - a crash from inside
        except SessionDown:
            break
    assert await session.collect_reply() == "on"
    assert (await session.status()).restarts == 1
    (told,) = results(script.requests[-1])
    assert told.startswith("[b (scout) is ")
    assert "fail" in told or "ended" in told


async def test_a_wait_is_no_loop_while_its_agent_works_and_one_of_a_dead_agent_is(supervisor, autojump_clock):
    """G-024: twelve equal waits for one that works go on; equal answers of one that is gone end the cycle."""
    poll = calls(("wait_agents", {"names": ["agent-1"], "timeout_seconds": 1}))
    script = Script(calls(SPAWN), *[poll] * 12, says("patient"))
    script.agent = lambda request: calls(("hang", {}))
    session = await start(supervisor, script, agents=[hangs()])
    async with session.subscribe(kinds=[LoopDetected, AgentEnd]) as events:
        assert await session.ask("go") == "patient"
        assert isinstance(await anext(events), AgentEnd)
    script.turns = [calls(("close_agent", {"name": "agent-1", "now": True})), *[poll] * 12, says("never")]
    async with session.subscribe(kinds=[LoopDetected]) as events:
        with pytest.raises(Exception, match="wait_agents"):
            await session.ask("again")
        assert (await anext(events)).name == "wait_agents"
    assert len(script.turns) > 1


async def test_beyond_each_limit_there_is_an_answer_and_nothing_is_left(supervisor, autojump_clock):
    """G-031: depth, number, names used again, closing twice, a closing one: each says what holds; after `stop` nothing is left (12.2.3)."""
    deep = Agent(name="scout", description="x", system_prompt="You look.", background=True)
    answers = []

    def answer(request):
        if request.system == "You look.":
            if "spawn_agent" in request.tools.names and len(request.messages) == 1:
                return calls((SPAWN[0], {**SPAWN[1], "name": "below"}))
            return says("seen")
        if type(request.messages[-1]).__name__ == "ToolMessage":
            answers.extend(results(request))
        return script.pop(0) if script else says("ok")

    spawn = lambda name: (SPAWN[0], {**SPAWN[1], "name": name})  # noqa: E731 - short
    script = [
        calls(spawn("a")),
        calls(WAIT),
        calls(("close_agent", {"name": "a"})),
        calls(spawn("a"), ("close_agent", {"name": "a"}), ("send_input", {"name": "a", "text": "x"})),
        calls(("wait_agents", {"names": ["nobody"]})),
        *[
            calls(spawn(f"n{number}"), ("close_agent", {"name": f"n{number}", "now": True}))
            for number in range(64)
        ],
        says("enough"),
    ]
    session = await supervisor.start_session(
        model=FunctionModel(answer), agents=[deep], max_agent_depth=2, session_id="boss"
    )
    assert await session.ask("go") == "enough"
    assert "names are never used twice" in answers[3]
    assert "it is ended. Alive: none" in answers[4]
    assert "it is ended. Alive: none" in answers[5]
    assert "never was one" in answers[6]
    assert answers[-2].startswith("64 agents were started in this cycle, and no more may be.")
    await session.stop()
    assert supervisor.statistics().live == 0


async def test_the_ninth_is_refused_with_who_is_alive(supervisor, autojump_clock):
    """G-008: eight work; a ninth is refused by name; and the session asks its model on meanwhile."""
    named = [(SPAWN[0], {**SPAWN[1], "name": f"w{number}"}) for number in range(9)]
    script = Script(calls(*named), says("asked on"))
    script.agent = lambda request: calls(("hang", {}))
    session = await start(supervisor, script, agents=[hangs()])
    assert await session.ask("go") == "asked on"
    said = results(script.requests[-1])
    assert said[7].startswith("w7 has begun.")
    alive = ", ".join(f"w{number} (working)" for number in range(8))
    assert said[8] == f"8 agents are alive, at most 8 may be: {alive}. Close one first."
    assert len((await session.status()).children) == 8


async def test_what_comes_while_a_wait_is_open(supervisor, autojump_clock):
    """G-032: a prompt queues, a steer wakes the wait, an approval of the child lets it go on, an abort and a stop end it; one result per call."""
    gate = RecordingTool(name="gate", answer="open")
    agent = attrs.evolve(SCOUT, tools=[gate])
    script = Script(calls(SPAWN), calls(WAIT), calls(WAIT), says("first"), says("second"))
    script.agent = lambda request: calls(("gate", {})) if len(request.messages) == 1 else says("found")
    session = await start(
        supervisor,
        script,
        agents=[agent],
        plugins=[(HumanApproval, {"timeout_seconds": 0, "require_approval_for": ["gate"]})],
    )
    await session.prompt("go")
    await trio.sleep(1)
    receipt = await session.prompt("more")
    assert receipt.queued
    await session.steer("hurry")
    await trio.sleep(1)
    woken, steered = script.requests[2].messages[-2:]
    assert woken.results[0].text.startswith("[The user has something to say. Still at work: agent-1]")
    assert steered.content[0].text == "hurry"
    assert (await session.status()).questions == ()
    (asked,) = (await session.status()).all_approvals
    await session.approve(asked.id)
    await trio.sleep(1)
    assert gate.calls == [{}]
    messages = await session.messages()
    check_history(messages)
    assert [one.text for one in messages if type(one).__name__ == "AssistantMessage" and one.text] == [
        "first",
        "second",
    ]
    script.turns = [calls((SPAWN[0], {**SPAWN[1], "name": "b"})), calls(WAIT)]
    await session.prompt("again")
    await trio.sleep(1)
    receipt = await session.abort("enough")
    assert [child.session_id for child in receipt.children][-1:] == ["boss:b"]
    check_history(await session.messages())
    script.turns = [calls((SPAWN[0], {**SPAWN[1], "name": "c"})), calls(WAIT)]
    await session.prompt("once more")
    await trio.sleep(1)
    await session.stop()
    assert supervisor.statistics().live == 0
