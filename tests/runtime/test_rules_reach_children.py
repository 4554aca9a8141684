"""A deny or an ask that a session gets holds for its living children and background agents, before their next call (12.7)."""

import pytest
import trio

from agentrail import Agent, tool
from agentrail.events import SubagentEvent
from agentrail.plugins import Permissions
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools.task import TaskTool

SCOUT = Agent(name="scout", description="Looks.", system_prompt="You look.", background=True)
WIDE = (Permissions, {"allow": ["*"]})


def is_child(request):
    return bool(request.system) and request.system.startswith("You look")


def last_text(request):
    last = request.messages[-1]
    return getattr(last.content[0], "text", "") if getattr(last, "content", None) else ""


@pytest.mark.parametrize("rules", [{"deny": ["pay"]}, {"deny": ["pay(cents=*)"]}])
@pytest.mark.parametrize("is_nested", [False, True])
async def test_a_deny_reaches_a_child_in_its_cycle(supervisor, rules, is_nested):
    """It hangs in one call, and the next one is refused; also in a session below that one."""
    pay, begun, goes_on = RecordingTool(name="pay"), trio.Event(), trio.Event()

    @tool
    async def hang() -> str:
        """Wait until the rule is there."""
        begun.set()
        await goes_on.wait()
        return "on"

    inner = (
        SCOUT if not is_nested else Agent(name="boss", description="Hands on.", system_prompt="You hand on.")
    )

    def answer(request):
        done = len([one for one in request.messages if type(one).__name__ == "AssistantMessage"])
        if is_child(request):
            return (calls(("hang", {})), calls(("pay", {"cents": 5})), says("looked"))[min(done, 2)]
        agent = inner.name if not (request.system or "").startswith("You hand") else "scout"
        return calls(("task", {"description": "l", "subagent_type": agent})) if done == 0 else says("done")

    session = await supervisor.start_session(
        model=FunctionModel(answer), tools=[pay, hang, TaskTool(max_depth=3)], agents=[SCOUT, *({inner} - {SCOUT})], plugins=[WIDE],
    )  # fmt: skip
    with trio.fail_after(60):
        await session.prompt("go")
        await begun.wait()
        await session.update_plugin_opts("Permissions", **rules)
        goes_on.set()
        await session.collect_reply()
    assert pay.calls == []


@pytest.mark.parametrize("rule", ["deny", "ask"])
async def test_a_rule_reaches_a_background_agent_in_its_next_cycle(supervisor, rule):
    """It was idle when the rule came; one that asks is listed at the root."""
    pay = RecordingTool(name="pay")

    def answer(request):
        if is_child(request):
            return calls(("pay", {})) if "pay now" in last_text(request) else says("looked")
        if last_text(request) == "spawn":
            return calls(("spawn_agent", {"agent": "scout", "task": "idle"}))
        if last_text(request) == "send":
            return calls(
                ("send_input", {"name": "agent-1", "text": "pay now"}),
            )
        return says("ok")

    session = await supervisor.start_session(
        model=FunctionModel(answer), tools=[pay], agents=[SCOUT], plugins=[WIDE]
    )
    with trio.fail_after(60):
        await session.ask("spawn")
        async with session.subscribe(kinds=[SubagentEvent]) as events:
            await session.update_plugin_opts("Permissions", **{rule: ["pay"]})
            await session.ask("send")
            async for event in events:
                kind = type(getattr(event, "event", event)).__name__
                if kind in {"ToolBlocked", "ToolExecutionMetrics", "ApprovalRequired"}:
                    break
    assert (kind, pay.calls) == ("ToolBlocked" if rule == "deny" else "ApprovalRequired", [])


async def test_a_rule_reaches_a_call_that_waits_for_an_approval_and_a_child_that_begins_later(supervisor):
    """What a person allows afterwards is judged by the rule, and so is a child of the same cycle."""
    pay = RecordingTool(name="pay")

    def answer(request):
        done = len([one for one in request.messages if type(one).__name__ == "AssistantMessage"])
        if is_child(request):
            return calls(("pay", {})) if done == 0 else says("looked")
        return calls(("task", {"description": "l", "subagent_type": "scout"})) if done < 2 else says("done")

    session = await supervisor.start_session(
        model=FunctionModel(answer), tools=[pay, TaskTool()], agents=[SCOUT],
        plugins=[(Permissions, {"allow": ["task"]})],
    )  # fmt: skip
    with trio.fail_after(60):
        await session.prompt("go")
        while not (waiting := (await session.status()).all_approvals):
            await trio.lowlevel.checkpoint()
        await session.update_plugin_opts("Permissions", deny=["pay"])
        await session.approve(waiting[0].id)
        await session.collect_reply()
    assert pay.calls == []
