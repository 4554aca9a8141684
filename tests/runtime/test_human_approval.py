"""`HumanApproval` in sessions that run: a person decides, or something stands in for one."""

import gc
import math
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

import agentrail
import agentrail.plugins as p
from agentrail.core.session.step_context import StepContext
from agentrail.errors import AgentrailError, UnknownRule
from agentrail.events import ApprovalRequired, ApprovalResolved, SubagentEvent
from agentrail.plugins import HumanApproval
from agentrail.runtime.pending_calls import PendingCall
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools.task import TaskTool
from tests.garbage import without_collector

LS = ("shell", {"command": "ls"})
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


@asynccontextmanager
async def asking(supervisor, *turns, **options):
    """A session that was asked to go; with its tool, its approvals, and where its answer will be."""
    tool = RecordingTool(name="shell", parameters=SCHEMA)
    session = await supervisor.start_session(
        model=ScriptedModel([*turns]), tools=[tool], plugins=[(HumanApproval, options)]
    )
    answers: list[str] = []

    async def ask() -> None:
        answers.append(await session.ask("go"))

    with trio.fail_after(60):
        async with (
            session.subscribe(kinds=[ApprovalRequired, ApprovalResolved]) as events,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(ask)
            yield session, tool, events, answers


async def test_another_prompt_supersedes_what_waits(supervisor):
    """Its cycle ends, and the new one begins."""
    async with asking(supervisor, calls(LS), says("new")) as (session, tool, events, _):
        await anext(events)
        assert await session.ask("something else") == "new"
        assert (await anext(events)).status == "superseded"
    assert tool.calls == []


async def test_a_rule_is_listed_and_revoked_and_the_next_call_asks(supervisor):
    """It says what it allows, since when and where; what is revoked already cannot be revoked again."""
    turns = (calls(LS), calls(LS), says("done"), calls(LS), says("done"))
    async with asking(supervisor, *turns) as (session, tool, events, _):
        assert await session.rules() == ()
        await session.approve((await anext(events)).approval.id, kind="always")
        assert (await anext(events)).by == "user"
        assert await session.collect_reply() == "done"
        (rule,) = await session.rules()
        assert (rule.session_id, rule.tool, rule.command_family) == (session.session_id, "shell", "ls")
        assert (rule.exact, rule.reach, rule.at_ms is not None) == (True, "session", True)
        assert rule.words == "shell: this very command and no other: ls"
        assert len(tool.calls) == 2
        await session.revoke_rule(rule.rule_id)
        assert await session.rules() == ()
        for gone in (rule.rule_id, "rule_0"):
            with pytest.raises(UnknownRule):
                await session.revoke_rule(gone)
        await session.prompt("again")
        while not isinstance(event := await anext(events), ApprovalRequired):
            pass
        asked = event.approval
        assert (asked.arguments, len(tool.calls)) == ({"command": "ls"}, 2)
        await session.reject(asked.id)


async def test_a_rule_of_a_child_is_listed_and_revoked_through_its_parent(supervisor):
    """It is kept at the root (12.7), and it goes there and in the child with one call on the root."""
    tool, hanging = RecordingTool(name="shell", parameters=SCHEMA), HangingTool(name="hang")

    def answer(request):
        text = request.messages[0].content[0].text
        if text == "Look.":
            return calls(LS) if len(request.messages) == 1 else calls(("hang", {}))
        return calls(("task", {"description": "Look."})) if len(request.messages) == 1 else says("done")

    session = await supervisor.start_session(
        model=FunctionModel(answer), tools=[tool, TaskTool(), hanging], plugins=[HumanApproval]
    )
    with trio.fail_after(60):
        async with session.subscribe(kinds=[SubagentEvent]) as told:
            await session.prompt("go")
            while not isinstance((event := await anext(told)).event, ApprovalRequired):
                pass
        asked = event.event.approval
        await session.approve(asked.id, kind="always")
        await hanging.started.wait()
        rule, below = await session.rules()
        assert (rule.session_id, rule.command_family) == (session.session_id, "ls")
        assert (below.session_id, below.rule_id) == (asked.path[-1], rule.rule_id)
        await session.revoke_rule(rule.rule_id)
        assert await session.rules() == ()
        await session.abort(kill_tools="all")


async def test_always_is_a_rule_for_the_very_words(supervisor):
    """The same call of the batch and of the next turn runs without asking; twice at once is asked twice."""
    turns = (calls(LS, LS), calls(LS), says("done"))
    async with asking(supervisor, *turns) as (session, tool, events, answers):
        first, second = (await anext(events)).approval, (await anext(events)).approval
        assert first.id != second.id
        await session.approve(first.id, kind="always")
        resolved = [await anext(events) for _ in range(2)]
        assert [(one.approval.id, one.by) for one in resolved] == [(first.id, "user"), (second.id, "rule")]
    assert answers == ["done"]
    assert len(tool.calls) == 3


@attrs.frozen
class NoState:
    pass


class Endless(p.Plugin[NoState]):
    """Asks about each call, with an infinite time limit."""

    seconds = math.inf

    def init(self):
        return NoState()

    @p.on(p.BeforeTool)
    def asks(self, event, state, ctx):
        return p.RequireApproval("may it?", state, expires_seconds=self.seconds)


class Over(Endless):
    """Asks about each call, when it is too late."""

    seconds = -math.inf


@pytest.mark.parametrize(
    "options",
    [
        {"plugins": [(HumanApproval, {"require_approval_for": ["shell"]})], "approval_timeout_seconds": 1e17},
        {"plugins": [Endless]},
    ],
    ids=["of the session", "of a plugin"],
)
async def test_a_limit_that_no_store_can_keep_is_none(tmp_path, options):
    """The call waits for the user, and the session lives."""
    turns, tool = [calls(LS), says("done")], RecordingTool(name="shell", parameters=SCHEMA)
    async with agentrail.open_supervisor(store=f"sqlite:{tmp_path}/sessions.db") as supervisor:
        session = await supervisor.start_session(model=ScriptedModel(turns), tools=[tool], **options)
        with trio.fail_after(60):
            async with session.stream("go") as events:
                async for event in events:
                    if isinstance(event, ApprovalRequired):
                        assert event.approval.expires_at_ms is None
                        await session.approve(event.approval.id)
    assert len(tool.calls) == 1


async def test_a_limit_before_all_time_has_passed(tmp_path):
    """The call is answered with a timeout and does not run, as with any limit in the past."""
    turns, tool = [calls(LS), says("done")], RecordingTool(name="shell", parameters=SCHEMA)
    async with agentrail.open_supervisor(store=f"sqlite:{tmp_path}/sessions.db") as supervisor:
        session = await supervisor.start_session(model=ScriptedModel(turns), tools=[tool], plugins=[Over])
        with trio.fail_after(60):
            assert await session.ask("go") == "done"
    assert tool.calls == []


async def test_what_a_refused_decision_leaves_is_freed_without_the_collector(supervisor):
    """Its error once referred to the step that refused it, through values that the collector never looks at."""
    async with asking(supervisor, calls(LS), says("done")) as (session, _, events, _):
        approval = (await anext(events)).approval
        gc.collect()
        with without_collector():
            for decide in (
                lambda: session.approve("unknown"),
                lambda: session.approve(approval.id, arguments={"command": 1}),
                lambda: session.respond(approval.id, {"command": "ls"}),
                lambda: session.abort_tool("unknown"),
                lambda: session.revoke_rule("unknown"),
            ):
                try:
                    await decide()
                except AgentrailError:  # `pytest.raises` would keep it, with its traceback
                    continue
                pytest.fail("it was not refused")
            left = [one for one in gc.get_objects() if isinstance(one, StepContext | PendingCall)]
            assert [one for one in left if getattr(one, "error", True)] == []  # the cycle's own call has none
        await session.approve(approval.id)
