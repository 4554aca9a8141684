"""A session is asked about by the host that runs it, also if it began under another one."""

import pytest
import trio

from agentrail.abc import NO_HOST, HostHooks, HostVerdict
from agentrail.events import AgentEnd, ApprovalRequired
from agentrail.plugins.human_approval import HumanApproval
from agentrail.testing.models import ScriptedModel, says
from agentrail.testing.tools import HangingTool, RecordingTool
from tests.runtime.rig import kinds_in, on_virtual_time, saying, until, wants
from tests.runtime.test_resumed_sessions import Process, fresh, open_again

pytestmark = on_virtual_time


class Guard:
    """A host that denies payments, and remembers what it was asked and told."""

    def __init__(self):
        self.asked, self.told = [], []
        self.hooks = HostHooks(before_tool=self.before_tool, after_tool=self.after_tool)

    async def before_tool(self, call):
        await trio.lowlevel.checkpoint()
        self.asked.append(call.tool_name)
        return HostVerdict(deny="no payments") if call.tool_name == "pay" else HostVerdict()

    async def after_tool(self, end):
        await trio.lowlevel.checkpoint()
        self.told.append(end.tool_name)


async def _results(session):
    messages = await session.messages()
    return [one.text for message in messages for one in getattr(message, "results", ())]


async def _began_without_a_host(inner, model, *tools, snapshot=False, **options):
    async with open_again(inner) if snapshot else Process(inner) as supervisor:
        session = await supervisor.start_session(model=model, tools=tools, session_id="s-1", **options)
        async with session.subscribe() as events:
            await session.prompt("Hi")
            await until(events, ApprovalRequired if options else AgentEnd)


@pytest.mark.parametrize("snapshot", [False, True])
async def test_a_new_guard_of_the_host_judges_sessions_that_began_without_it(snapshot):
    """A session that was resumed called its tools past every host plugin that came after its start."""
    inner, tools = fresh(), [RecordingTool(name="pay"), RecordingTool(name="look")]
    await _began_without_a_host(inner, saying("a"), *tools, snapshot=snapshot)
    for _ in range(2):
        guard = Guard()
        async with open_again(inner, host=guard.hooks) as supervisor:
            model = ScriptedModel([wants("pay", "look"), says("done")])
            session = await supervisor.resume_session("s-1", model=model, tools=tools)
            assert await session.ask("Go on") == "done"
            assert await session.status()
            assert (guard.asked, guard.told) == (["pay", "look"], ["look"])
    assert [len(one.calls) for one in tools] == [0, 2]
    assert kinds_in(inner).count("recovered") == 2


@pytest.mark.parametrize("how", ["approve", "always", "edit"])
async def test_a_new_guard_judges_a_call_that_waits_for_its_approval(how):
    """The user decides about a call that the guard has not seen. It sees it before it runs, and no rule is made of a denied one."""
    inner, pay, look = fresh(), RecordingTool(name="pay"), RecordingTool(name="look")
    asking = [(HumanApproval, {"require_approval_for": ["pay", "look"]})]
    await _began_without_a_host(inner, ScriptedModel([wants("pay", "look")]), pay, look, plugins=asking)
    guard = Guard()
    async with open_again(inner, host=guard.hooks) as supervisor:
        session = await supervisor.resume_session(
            "s-1", model=saying("done"), tools=[pay, look], plugins=asking
        )
        assert guard.asked == []
        for card in (await session.status()).approvals:
            arguments = {"arguments": {"edited": True}} if how == "edit" else {}
            await session.approve(card.id, kind="always" if how == "always" else "once", **arguments)
        assert await session.collect_reply() == "done"
        assert [text.split("\n")[-1] for text in await _results(session)] == ["no payments", "recorded"]
        assert [one.tool for one in await session.rules()] == (["look"] if how == "always" else [])
    assert sorted(guard.asked) == ["look", "pay"]
    assert (pay.calls, len(look.calls)) == ([], 1)


async def test_a_new_guard_judges_calls_that_wait_for_a_slot():
    """They have not begun. A call that ran when the process stopped is run again without it."""
    inner, pay = fresh(), RecordingTool(name="pay")
    hang = HangingTool(name="hang", effect_class="pure")
    async with Process(inner) as supervisor:
        model = ScriptedModel([wants("hang", "pay", "look")])
        look = RecordingTool(name="look")
        session = await supervisor.start_session(
            model=model, tools=[hang, pay, look], session_id="s-1", max_parallel_tools=1
        )
        await session.prompt("Hi")
        await hang.started.wait()
    guard, again = Guard(), RecordingTool(name="hang", effect_class="pure")
    async with open_again(inner, host=guard.hooks) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("done"), tools=[again, pay, look])
        assert await session.collect_reply() == "done"
        assert await _results(session) == ["recorded", "no payments", "recorded"]
    assert guard.asked == ["pay", "look"]
    assert sorted(guard.told) == ["hang", "look"]
    assert (len(again.calls), pay.calls, len(look.calls)) == (1, [], 1)


@pytest.mark.parametrize("is_asking", [False, True])
async def test_a_session_whose_host_has_no_hooks_any_more_runs_its_calls(is_asking):
    """It crashed with AssertionError. A call about which the host was asked when the process stopped runs as well."""
    inner, look = fresh(), RecordingTool(name="look")
    asked = trio.Event()

    async def judge(call):
        asked.set()
        await (trio.sleep_forever if is_asking else trio.lowlevel.checkpoint)()
        return HostVerdict()

    async with Process(
        inner, host=Guard().hooks if not is_asking else HostHooks(before_tool=judge)
    ) as supervisor:
        session = await supervisor.start_session(
            model=ScriptedModel([wants("look"), says("a")]), tools=[look], session_id="s-1"
        )
        await (session.prompt if is_asking else session.ask)("Hi")
        if is_asking:
            await asked.wait()
    async with open_again(inner, host=NO_HOST) as supervisor:
        model = saying("done") if is_asking else ScriptedModel([wants("look"), says("done")])
        session = await supervisor.resume_session("s-1", model=model, tools=[look])
        assert await (session.collect_reply() if is_asking else session.ask("Go on")) == "done"
    assert len(look.calls) == (1 if is_asking else 2)


@pytest.mark.parametrize("how", ["fork", "rewind"])
async def test_a_new_guard_judges_calls_after_a_return_to_an_earlier_turn(how):
    """The session began without it, and neither a fork nor a rewind goes back to that."""
    inner, pay, guard = fresh(), RecordingTool(name="pay"), Guard()
    await _began_without_a_host(inner, saying("a"), pay)
    async with open_again(inner, host=guard.hooks) as supervisor:
        model = ScriptedModel([wants("pay"), says("done")])
        session = await supervisor.resume_session("s-1", model=model, tools=[pay])
        if how == "fork":
            session = await session.fork(turn=1)
        else:
            await session.rewind(turn=1)
        assert await session.ask("Go on") == "done"
    assert (guard.asked, pay.calls) == (["pay"], [])
