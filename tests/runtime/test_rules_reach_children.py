"""A deny or an ask that a session gets holds for its living children and background agents, before their next call (12.7)."""

import pytest
import trio

from agentrail import Agent, tool
from agentrail.errors import StoreUnavailable
from agentrail.events import AgentSuspended, SubagentEvent, ToolExecutionStart
from agentrail.outside import installed
from agentrail.plugins import Permissions
from agentrail.stores.memory import MemoryStore
from agentrail.testing.faulty_store import FaultyStore
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import Inline, on_virtual_time, open_over, until

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


async def deny(session):
    await session.update_plugin_opts("Permissions", deny=["pay"])


async def stop_at(session):
    await session.break_on("pay")


async def revoke(session):
    (rule,) = await session.rules()
    await session.revoke_rule(rule.rule_id)


TASK = ("task", {"description": "l", "subagent_type": "scout"})
SPAWN = ("spawn_agent", {"agent": "scout", "task": "l"})


class AwayOnce(FaultyStore):
    """A store that is away as the second session is created, so that this is tried again after other writes."""

    creations = 0

    def _call(self, name, *args, **options):
        self.creations += name == "create"
        if name == "create" and self.creations == 2:
            message = "it is away"
            raise StoreUnavailable(message)
        return super()._call(name, *args, **options)


@on_virtual_time
@pytest.mark.parametrize("made", [FaultyStore, AwayOnce])
@pytest.mark.parametrize(("change", "start"), [(deny, TASK), (deny, SPAWN), (stop_at, TASK), (revoke, TASK)])
async def test_a_change_reaches_a_child_that_is_starting(change, start, made):
    """It got the rules of before, and its store is still creating it; after the change it makes no call by them."""
    pay = RecordingTool(name="pay")

    def answer(request):
        if is_child(request):
            return calls(("pay", {}))
        return {"first": calls(("pay", {})), "go": calls(start)}.get(last_text(request), says("ok"))

    with installed(Inline()):
        async with open_over(made(MemoryStore())) as supervisor:
            session = await supervisor.start_session(
                model=FunctionModel(answer), tools=[pay, TaskTool()], agents=[SCOUT],
                plugins=[(Permissions, {"allow": [start[0]] if change is revoke else [start[0], "pay"]})],
            )  # fmt: skip
            async with session.subscribe() as events:
                if change is revoke:
                    await session.prompt("first")
                    await until(events, AgentSuspended)
                    (approval,) = (await session.status()).approvals
                    await session.approve(approval.id, kind="always")
                    await session.collect_reply()
                await session.prompt("go")
                await until(events, ToolExecutionStart)
            await change(session)
            before = len(pay.calls)
            await trio.sleep(10)
            assert len(pay.calls) == before
