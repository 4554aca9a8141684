"""The promise: after an abort nothing is left. It is published at once, the receipt is true, and the next prompt works."""

from typing import Any

import pytest
import trio

from agentrail.abc import Error, HostCall, HostCallEnd, HostHooks, HostVerdict, Ok
from agentrail.events import (
    AbortSettled,
    AgentAbort,
    AgentEnd,
    AgentError,
    LeftBehind,
    ToolCalls,
    ToolExecutionEnd,
    ToolExecutionMetrics,
    ToolExecutionStart,
    ToolKilled,
)
from agentrail.messages import ToolMessage
from agentrail.runtime.agent import Agent
from agentrail.testing.cancelling import cancel_everywhere, check_history
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.testing.tools import HangingTool, RecordingTool, StubbornTool
from tests.runtime.rig import calling, kinds, on_virtual_time, open_bare, saying, start_hanging, until, wants
from tests.thinned import first, paired, sampled


@on_virtual_time
@pytest.mark.parametrize("parallel", [1, 2, 8])
async def test_hung_tools_are_stopped(parallel):
    """Each call has its result in the history, the receipt counts each and comes when the last one has ended, and no task is left."""
    tools = [HangingTool(name=f"hang{number}") for number in range(parallel)]
    async with open_bare() as supervisor, no_orphans():
        session = await start_hanging(supervisor, *tools)
        receipt = await session.abort("enough")
        assert (receipt.settled, receipt.tasks_ended, receipt.milliseconds) == (True, parallel, 0)
        assert (receipt.stuck, receipt.survivors) == ((), ())
        assert [tool.stopped for tool in tools] == [1] * parallel
        messages = await session.messages()
        check_history(messages)
        assert [result.text for result in messages[2].results] == ["[Stopped: enough]"] * parallel
        assert await session.ask("Go on") == "next"
        await session.stop()


@on_virtual_time
@pytest.mark.at(19)
async def test_the_abort_is_published_before_anything_is_waited_for():
    """`AgentAbort` and every result come in the step of the abort, while a tool does not stop; the next prompt starts when it has."""
    async with open_bare() as supervisor:
        session = await start_hanging(supervisor, StubbornTool(deaf_seconds=3), HangingTool())
        async with session.subscribe() as events:
            begun_at = trio.current_time()
            await session.abort("enough", wait=False)
            seen = await until(events, AgentAbort)
            assert trio.current_time() == begun_at
            assert kinds(seen) == [
                "ToolKilled",
                "ToolExecutionEnd",
                "ToolKilled",
                "ToolExecutionEnd",
                "AgentAbort",
            ]
            assert len({event.meta.at_ms for event in seen}) == 1
            assert (await session.status()).phase == "idle"
            assert (await session.prompt("Go on")).queued
            seen = kinds(await until(events, AgentEnd))
        assert seen.index("AbortSettled") < seen.index("AgentStart")


@on_virtual_time
@pytest.mark.at(28)
async def test_what_is_stuck_is_named_with_its_age():
    """Five seconds are waited; what is there after that is in the receipt; the session goes on, and what the tool says at last is dropped."""
    async with open_bare() as supervisor, no_orphans():
        stubborn, hang = StubbornTool(deaf_seconds=60), HangingTool()
        session = await start_hanging(supervisor, stubborn, hang)
        await trio.sleep(1)
        begun_at = trio.current_time()
        receipt = await session.abort()
        assert trio.current_time() - begun_at == 5.0
        assert (receipt.tasks_ended, receipt.milliseconds) == (1, 5000)
        assert receipt.stuck == (LeftBehind(name="stubborn", age_ms=6000),)
        assert len(receipt.unknown) == 2
        assert await session.ask("Go on") == "next"
        dropped = (await session.status()).dropped_signals
        await trio.sleep(60)
        assert (await session.status()).dropped_signals == dropped + 1
        await session.stop()


@pytest.mark.at(17, 38)
@pytest.mark.parametrize("wait", [True, False])
async def test_the_receipt_says_what_was_committed_and_the_next_prompt_is_taken_at_once(wait):
    """Calls that had ended stand, one that was at work is in doubt, one that harms nobody is neither; the session goes on."""
    told, fail = RecordingTool(name="told"), RecordingTool(name="fail", answer=Error(text="no"))
    tools = [told, HangingTool(name="send"), HangingTool(name="read", effect_class="pure"), fail]
    async with open_bare() as supervisor, no_orphans():
        script = ScriptedModel([wants(*(tool.name for tool in tools)), says("next")])
        session = await supervisor.start_session(model=script, tools=tools)
        async with session.subscribe() as events:
            await session.prompt("Hi")
            for _ in (told, fail):
                await until(events, ToolExecutionMetrics)
            receipt = await session.abort("enough", wait=wait)
            with trio.fail_after(60):
                answer = await session.ask("Go on")
            settled = (await until(events, AbortSettled))[-1].receipt
        ended, in_doubt, _harmless, failed = (call.call_id for call in (await session.messages())[1].calls)
        assert (receipt.settled, receipt.committed) == (wait, (ended, failed))
        assert (settled.committed, settled.unknown) == ((ended, failed), (in_doubt,))
        results = (await session.messages())[2].results
        stopped = "[Stopped: enough]"
        assert [result.text for result in results] == ["recorded", stopped, stopped, "no"]
        assert answer == "next"
        await session.stop()


@pytest.mark.parametrize("how", ["unkillable", "immune"])
async def test_what_was_spared_runs_on_and_is_told(how):
    """Immune calls survive a default abort, are named in the receipt, and speak in front of the next prompt."""
    spared = HangingTool(name="spared", killable=how != "unkillable")
    immune = ["spared"] if how == "immune" else []
    async with open_bare() as supervisor:
        session = await start_hanging(supervisor, spared, HangingTool(), immune_tools=immune)
        receipt = await session.abort()
        assert (receipt.tasks_ended, len(receipt.survivors)) == (1, 1)
        running = (await session.status()).running_tools
        assert [(tool.name, tool.survivor, tool.call_id) for tool in running] == [
            ("spared", True, receipt.survivors[0])
        ]
        messages = await session.messages()
        check_history(messages)
        assert messages[2].results[0].text == "[Still running when the cycle was aborted]"
        assert spared.stopped == 0
        async with session.subscribe() as events:
            await session.stop()
            ended = [event async for event in events if isinstance(event, ToolKilled | ToolExecutionEnd)]
        assert kinds(ended) == ["ToolKilled", "ToolExecutionEnd"]
        assert spared.stopped == 1


async def test_a_survivor_speaks_in_front_of_the_next_prompt():
    """Its real result is published when it comes, and is a note in the history."""
    go_on = trio.Event()

    class Slow(HangingTool):
        async def execute(self, arguments, ctx):
            self.started.set()
            await go_on.wait()
            return Ok(text="42")

    async with open_bare() as supervisor:
        session = await start_hanging(supervisor, Slow())
        await session.abort(kill_tools="none")
        async with session.subscribe() as events:
            go_on.set()
            ended = (await until(events, ToolExecutionEnd))[-1]
        assert ended.result.text == "42"
        await session.ask("Go on")
        messages = await session.messages()
        check_history(messages)
        note = "[The call of hang that was still running at the abort has ended: 42]"
        assert [(message.origin, message.content[0].text) for message in messages[3:5]] == [
            ("note", note),
            ("prompt", "Go on"),
        ]


@pytest.mark.at(23)
async def test_kill_all_spares_nobody():
    """`kill_tools="all"` stops immune calls too."""
    immune = HangingTool(killable=False)
    async with open_bare() as supervisor, no_orphans():
        session = await start_hanging(supervisor, immune)
        receipt = await session.abort(kill_tools="all")
        assert (receipt.tasks_ended, receipt.survivors, immune.stopped) == (1, (), 1)
        await session.stop()


# --- at every step


async def plain_cycle(stage):
    session = await stage.start_session(model=ScriptedModel([says("one ", "two ", "three")]))
    assert await session.ask("Hi") == "one two three"


async def two_tools(stage):
    """Run two tools side by side, one of which hangs until the abort; then go on."""
    hang = HangingTool()

    async def answer(request):
        if len(request.messages) == 1:
            return calls(("record", {}), ("hang", {}))
        return says("next")

    session = await stage.start_session(model=FunctionModel(answer), tools=[RecordingTool(), hang])
    async with session.subscribe(kinds=[AgentAbort, AgentError, ToolExecutionEnd]) as events:
        await session.prompt("Hi")
        await anext(events)  # the result of the one that does not hang, or the end of the cycle
        await session.abort()
    assert (await session.status()).phase == "idle"


async def queued_prompts(stage):
    """Ask three times at once; each gets its own answer or hears why there is none."""
    session = await stage.start_session(
        model=FunctionModel(lambda request: says(request.messages[-1].content[0].text))
    )
    first = await session.prompt("one")
    second = await session.prompt("two")
    assert await session.ask("three") == "three"
    assert first.ref != second.ref


async def immune_tool(stage):
    """Abort around a tool that is spared, and end the session with it."""
    spared = HangingTool(killable=False)
    session = await stage.start_session(model=calling("hang"), tools=[spared])
    async with session.subscribe(kinds=[AgentAbort, AgentError]) as events, trio.open_nursery() as nursery:
        nursery.start_soon(spared.started.wait)
        nursery.start_soon(anext, events)
        await session.prompt("Hi")
        await session.status()
        await session.abort()
        nursery.cancel_scope.cancel()
    await session.stop()


@pytest.mark.parametrize(
    ("scenario", "mode"),
    sampled(
        paired([plain_cycle, two_tools, queued_prompts, immune_tool], ["cancel", "close", "abort", "crash"])
    ),
)
async def test_at_every_step(scenario, mode):
    """Struck at its n-th step, for every n: nothing is left, and all that was begun has an end."""
    assert await cancel_everywhere(scenario, mode=mode) > 10


async def three_agents(stage):
    """Abort a session that waits for three agents, each of which has a tool that hangs; then go on."""

    def answer(request):
        if request.system == "You look.":
            return calls(("hang", {}))
        if any(
            getattr(message, "origin", "") == "prompt" and "Go on" in str(message)
            for message in request.messages
        ):
            return says("next")
        match sum(isinstance(message, ToolMessage) for message in request.messages):
            case 0:
                return calls(
                    *(("spawn_agent", {"agent": "scout", "task": "Look.", "name": name}) for name in "abc")
                )
            case 1:
                return calls(("wait_agents", {}))
        return says("next")

    scout = Agent(
        name="scout", description="Looks.", system_prompt="You look.", tools=[HangingTool()], background=True
    )
    session = await stage.start_session(model=FunctionModel(answer), agents=[scout])
    async with session.subscribe(kinds=[AgentAbort, AgentEnd, AgentError, ToolExecutionStart]) as events:
        await session.prompt("Hi")
        async for event in events:
            if not isinstance(event, ToolExecutionStart) or event.name == "wait_agents":
                break
        receipt = await session.abort()
    assert {child.session_id.rpartition(":")[2] for child in receipt.children} <= {"a", "b", "c"}
    # A crash in the middle of the teardown leaves what it had stopped to the next incarnation.
    while (await session.status()).children:  # noqa: ASYNC110 - no event says that the last one is gone
        await trio.sleep(0.001)
    assert (await session.ask("Go on")).endswith("next")


@pytest.mark.parametrize("mode", sampled(first(["abort", "cancel", "close", "crash", "steer"], 0)))
async def test_at_every_step_with_three_agents_in_the_background(mode):
    """Struck at its n-th step, for every n: no agent outlives what it works for, and none of their calls is without an end (12.2.5)."""
    assert await cancel_everywhere(three_agents, mode=mode) > 10


# --- a host


def two_calls(request):
    return says("done") if len(request.messages) > 1 else calls(("record", {}), ("record", {"path": "a"}))


async def called_twice(stage):
    """Two calls of which the host has something to say, and one more turn."""
    session = await stage.start_session(model=FunctionModel(two_calls), tools=[RecordingTool()])
    await session.ask("Hi", timeout_seconds=5)


async def called_and_aborted(stage):
    """The host hangs over two calls, until they are aborted."""
    session = await stage.start_session(model=FunctionModel(two_calls), tools=[RecordingTool()])
    async with session.subscribe(kinds=[ToolCalls, AgentAbort, AgentError]) as events:
        await session.prompt("Hi")
        await anext(events)
        await trio.lowlevel.checkpoint()
        await session.abort()


async def hang(call: HostCall) -> HostVerdict:
    """Never answer."""
    await trio.Event().wait()
    return HostVerdict(deny=call.tool_name)


async def deny(call: HostCall) -> HostVerdict:
    """Let no call run."""
    await trio.lowlevel.checkpoint()
    return HostVerdict(deny="no")


async def rewrite(call: HostCall) -> HostVerdict:
    """Add to the arguments."""
    await trio.lowlevel.checkpoint()
    return HostVerdict(input={**call.input, "by": "host"})


async def hear(call: HostCallEnd) -> None:
    """Take notice of an end."""
    await trio.lowlevel.checkpoint()


async def fail(call: HostCall | HostCallEnd) -> Any:
    """Crash."""
    await trio.lowlevel.checkpoint()
    raise ValueError(call.tool_name)


@pytest.mark.parametrize(
    ("scenario", "host", "mode"),
    sampled(
        paired(
            [
                (called_and_aborted, HostHooks(before_tool=hang)),
                (called_twice, HostHooks(before_tool=deny)),
                (called_twice, HostHooks(before_tool=rewrite, after_tool=hear)),
                (called_twice, HostHooks(before_tool=fail, after_tool=fail)),
            ],
            ["cancel", "close", "abort", "steer", "crash"],
        )
    ),
)
async def test_at_every_step_with_a_host(scenario, host, mode):
    """A host that hangs, denies, rewrites and tells, crashes: as without one nothing is left, and every call has its end (8.16)."""
    assert await cancel_everywhere(scenario, mode=mode, make_host=lambda: host) > 10


async def test_an_abort_of_one_session_leaves_the_others_alone():
    """Neither their tools nor their cycles notice."""
    async with open_bare() as supervisor:
        hang = HangingTool()
        bystander = await start_hanging(supervisor, hang)
        other = await supervisor.start_session(model=saying("ok"))
        await other.abort()
        assert await other.ask("Hi") == "ok"
        assert hang.stopped == 0
        assert (await bystander.status()).phase == "executing_tools"
