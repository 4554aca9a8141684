"""Breakpoints: approvals that an operator asks for (docs/how-to/operate-a-server.md)."""

from contextlib import asynccontextmanager

import pytest
import trio

from agentrail import open_supervisor
from agentrail.abc import HostHooks, HostVerdict
from agentrail.errors import InvalidArguments, OptionError, UnknownRule
from agentrail.events import ApprovalRequired, SubagentEvent, ToolBlocked
from agentrail.plugins import BeforeTool, BlockTool, Continue, HumanApproval, Permissions, Plugin
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import result_texts
from tests.runtime.test_killed_at_each_point import Process

LS = ("shell", {"command": "ls"})
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
EVERYTHING = {"mode": "bypass", "dangerously_bypass_permissions": True}


class NoRemoving(Plugin[None]):
    """A guard of the session."""

    name = "NoRemoving"
    hooks = frozenset({BeforeTool})

    def init(self):
        """No state."""

    def handle(self, event, state, ctx):
        removes = getattr(event, "arguments", {}).get("command", "").startswith("rm")
        return BlockTool("removes", state) if removes else Continue(state)


async def allow(_call):
    await trio.lowlevel.checkpoint()
    return HostVerdict()


def shell():
    return RecordingTool(name="shell", parameters=SCHEMA, effect_class="once")


async def asked(events):
    """The next approval. The end of a cycle comes whatever kinds are asked for."""
    while not isinstance(event := await anext(events), ApprovalRequired):
        pass
    return event.approval


@asynccontextmanager
async def stopped_at(supervisor, session, tool="*"):
    """The approval of the first call of a session with a breakpoint."""
    await session.break_on(tool)
    with trio.fail_after(60):
        async with session.subscribe(kinds=[ApprovalRequired]) as events:
            await session.prompt("go")
            yield await asked(events)


@pytest.mark.operation(14)
@pytest.mark.parametrize("tool", ["shell", "*"])
@pytest.mark.parametrize(
    "plugins",
    [
        (),
        [(Permissions, EVERYTHING)],
        [(Permissions, {"allow": ["shell"]})],
        [(Permissions, {"mode": "accept_edits", "allow": ["shell(ls)"]})],
        [(Permissions, {"mode": "strict", "allow": ["shell"]})],
        [(HumanApproval, {"require_approval_for": []})],
        [NoRemoving],
    ],
)
async def test_a_breakpoint_stops_a_call_in_every_mode_and_without_a_policy(supervisor, plugins, tool):
    """Nothing has run, the approval is an operator's, and the session takes its usual answers but *always*."""
    ran = shell()
    session = await supervisor.start_session(
        model=ScriptedModel([calls(LS), says("done")]), tools=[ran], plugins=plugins
    )
    async with stopped_at(supervisor, session, tool) as approval:
        assert (approval.by, approval.tool, ran.calls) == ("operator", "shell", [])
        assert approval.permission_options == ("approve", "edit", "reject", "respond")
        await session.approve(approval.id)
        assert await session.collect_reply() == "done"
    assert ran.calls == [{"command": "ls"}]


@pytest.mark.operation(14)
async def test_a_rule_of_the_user_does_not_lift_a_breakpoint_and_unbreak_does(supervisor):
    """`always` was said before; the breakpoint stops that very command, and what follows it runs by the rule again."""
    turns = (calls(LS), says("one"), calls(LS), says("two"), calls(LS), says("three"))
    ran = shell()
    session = await supervisor.start_session(
        model=ScriptedModel([*turns]), tools=[ran], plugins=[HumanApproval]
    )
    with trio.fail_after(60):
        async with session.subscribe(kinds=[ApprovalRequired]) as events:
            await session.prompt("go")
            await session.approve((await asked(events)).id, kind="always")
            assert await session.collect_reply() == "one"
            await session.break_on("shell")
            await session.break_on("shell")
            rule, stop = sorted(await session.rules(), key=lambda one: one.breaks)
            assert (rule.words, stop.words) == (
                "shell: this very command and no other: ls",
                "breakpoint: every call of shell needs an approval",
            )
            await session.prompt("again")
            stopped = await asked(events)
            assert (stopped.by, len(ran.calls)) == ("operator", 1)
            await session.unbreak()
            assert len(ran.calls) == 1
            await session.approve(stopped.id)
            assert await session.collect_reply() == "two"
            assert await session.ask("and again") == "three"
    assert len(ran.calls) == 3
    assert await session.rules() == (rule,)
    with pytest.raises(UnknownRule, match="no breakpoint at 'shell'"):
        await session.unbreak("shell")


@pytest.mark.operation(14)
@pytest.mark.parametrize("hosted", [False, True])
async def test_other_arguments_pass_the_schema_the_guards_and_the_host_again(hosted):
    """What the schema refuses leaves the call waiting; what a guard refuses is answered, and did not run."""
    ran, host = shell(), HostHooks(before_tool=allow) if hosted else HostHooks()
    turns = (calls(LS), says("one"), calls(LS), says("two"))
    async with open_supervisor() as supervisor:
        supervisor.ask_host(host)
        session = await supervisor.start_session(
            model=ScriptedModel([*turns]), tools=[ran], plugins=[NoRemoving]
        )
        async with stopped_at(supervisor, session, "shell") as approval:
            with pytest.raises(InvalidArguments, match="the call still waits"):
                await session.approve(approval.id, arguments={"command": 7})
            await session.approve(approval.id, arguments={"command": "ls -l"}, user="ann")
            assert await session.collect_reply() == "one"
        assert ran.calls == [{"command": "ls -l"}]
        assert (
            '[The user changed the arguments. What ran: {"command":"ls -l"}]'
            in (await result_texts(session))[0]
        )
        async with session.subscribe(kinds=[ToolBlocked]) as blocked:
            async with stopped_at(supervisor, session, "shell") as approval:
                await session.approve(approval.id, arguments={"command": "rm x"})
                assert await session.collect_reply() == "two"
            assert (await anext(blocked)).by == "NoRemoving"
    assert ran.calls == [{"command": "ls -l"}]


@pytest.mark.operation(14)
@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_breakpoint_survives_a_process_that_is_killed(is_stopped):
    """Killed before the call, or while it waits: another process stops it, and runs it once, when it is approved."""
    store, ran = MemoryStore(lease_ms=0), shell()
    killed = Process(store, [])
    options = {"model": ScriptedModel([calls(LS), says("done")]), "tools": [ran]}
    with trio.fail_after(60):
        async with open_supervisor(store=killed) as supervisor:
            session = await supervisor.start_session(session_id="s", **options)
            if is_stopped:
                async with stopped_at(supervisor, session, "shell"):
                    pass
            else:
                await session.break_on("shell")
            killed.is_killed = True
        async with open_supervisor(store=store) as supervisor:
            session = await supervisor.resume_session("s", **options)
            assert [one.breaks for one in await session.rules()] == [True]
            if not is_stopped:
                await session.prompt("go")
                async with session.subscribe(after=0, kinds=[ApprovalRequired]) as events:
                    await anext(events)
            (approval,) = (await session.status()).approvals
            assert (approval.by, ran.calls) == ("operator", [])
            await session.approve(approval.id)
            assert await session.collect_reply() == "done"
    assert ran.calls == [{"command": "ls"}]


@pytest.mark.operation(14)
async def test_a_breakpoint_holds_for_sub_agents_that_start_later(supervisor):
    """They have the rules of their parent, so the tool is named at the root and stops below it too."""
    ran = shell()

    def answer(request):
        is_child = request.messages[0].content[0].text == "Look."
        call = LS if is_child else ("task", {"description": "Look."})
        return calls(call) if len(request.messages) == 1 else says("done")

    session = await supervisor.start_session(model=FunctionModel(answer), tools=[ran, TaskTool()])
    await session.break_on("shell")
    with trio.fail_after(60):
        async with session.subscribe(kinds=[SubagentEvent]) as told:
            await session.prompt("go")
            while not isinstance((event := await anext(told)).event, ApprovalRequired):
                pass
        approval = event.event.approval
        assert (approval.by, approval.path[-1] != session.session_id, ran.calls) == ("operator", True, [])
        assert {one.session_id for one in await session.rules()} == {*approval.path}
        await session.unbreak("shell")
        assert await session.rules() == ()
        await session.approve(approval.id)
        assert await session.collect_reply() == "done"
    assert ran.calls == [{"command": "ls"}]


@pytest.mark.parametrize(
    ("tool", "says_so"),
    [
        ("shel", "tool is 'shel': the session has no such tool; did you mean 'shell'"),
        ("", "tool is '': the session has no such tool; * is every tool"),
        ("x" * 100_000, "; * is every tool"),
    ],
)
async def test_a_tool_that_the_session_lacks_is_refused_with_the_nearest_name(supervisor, tool, says_so):
    """Bad input (13.7)."""
    session = await supervisor.start_session(model=ScriptedModel([]), tools=[shell()])
    with pytest.raises(OptionError) as caught:
        await session.break_on(tool)
    assert str(caught.value).endswith(says_so)
    assert await session.rules() == ()
