"""What the port promises to tools and asks of them: threads, progress, events, changes, reconciling, receipts."""

import threading
from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing

from agentrail.abc import Done, NotDone, Ok, ToolContext, Unknown
from agentrail.core.policy.calls import hash_arguments
from agentrail.core.protocol.effects import RunTool
from agentrail.core.session.batch import ARGUMENTS_CHANGED
from agentrail.errors import ToolContractError
from agentrail.events import (
    AgentEnd,
    LeftBehind,
    PluginEvent,
    ToolExecutionEnd,
    ToolExecutionMetrics,
    ToolExecutionStart,
    ToolProgress,
    ToolRetry,
    ToolTookEffect,
)
from agentrail.process_account import note_started, note_stopped
from agentrail.runtime.tool_calls import Attempt, run_tool
from agentrail.runtime.tool_threads import MAX_LEFT_BEHIND, TOO_MANY
from agentrail.testing.cancelling import check_events, check_history
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import CrashingTool, HangingTool, RecordingTool, StubbornTool
from agentrail.tools.function import tool
from tests.runtime.doors import Foreign
from tests.runtime.rig import calling, kinds, on_virtual_time, rest, saying, start_hanging, until, wants
from tests.tools.rig import CTX


async def results_of(session):
    return (await session.messages())[2].results


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ({"a": "x" * 1_000_001}, "more than 1,000,000 characters"),
        ([["x" * 600_000], {"y" * 600_000: 1}], "more than 1,000,000 characters"),
        (list(range(1_000_001)), "more than 1,000,000 characters"),
        ([{} for _ in range(50_001)], "more than 50,000 objects and arrays"),
    ],
    ids=["text", "keys", "numbers", "objects"],
)
async def test_details_that_are_too_large(supervisor, details, said):
    """They are copied while every session waits, so they have a bound; the tool reads which."""
    record = RecordingTool(answer=Ok(text="fine", details=details), effect_class="pure")
    session = await supervisor.start_session(model=calling("record"), tools=[record])
    await session.ask("Hi")
    (result,) = await results_of(session)
    assert result.is_error
    assert f"ToolContractError: tool 'record' returned details of {said}: write them to a file" in result.text


# --- what it says


async def test_a_tool_emits_events(supervisor):
    """They are committed, in order, between start and end of the call, with the application's data in them; a payload has its bounds."""

    @tool
    def deploy(ctx: ToolContext) -> str:
        """Deploy, in a thread."""
        ctx.emit("ticket", {"id": 7})
        ctx.emit("note", "on its way")
        refused: tuple[tuple[Any, str], ...] = (
            ({"x": "y" * 70_000}, "the payload of 'big' has 70,009 bytes, at most 65,536 are allowed"),
            ({"x": float("inf")}, "the payload of 'big' is not JSON"),
        )
        for payload, words in refused:
            with pytest.raises(ToolContractError, match=words):
                ctx.emit("big", payload)
        return "deployed"

    session = await supervisor.start_session(model=calling("deploy"), tools=[deploy], user_data={"tenant": 1})
    async with session.subscribe() as events:
        await session.ask("Hi")
        seen = [event for event in await until(events, AgentEnd) if isinstance(event, PluginEvent)]
    assert (await results_of(session))[0].text == "deployed"
    assert seen == [
        PluginEvent(name="ticket", payload={"id": 7, "user_data": {"tenant": 1}}),
        PluginEvent(name="note", payload="on its way"),
    ]


@on_virtual_time
async def test_progress_is_merged_when_it_comes_too_fast(supervisor):
    """Ten a second at most; what waits comes out together when its time has come, or when the call ends."""

    @tool
    async def work(ctx: ToolContext) -> str:
        """Work."""
        for number in range(5):
            ctx.report_progress(str(number))
        await trio.sleep(1)
        ctx.report_progress("x" * 5_000)
        ctx.report_progress("last")
        return "worked"

    session = await supervisor.start_session(model=calling("work"), tools=[work])
    async with session.subscribe() as events:
        await session.ask("Hi")
        seen = [event.text for event in await until(events, AgentEnd) if isinstance(event, ToolProgress)]
    assert seen == ["0", "1\n2\n3\n4", "x" * 4_096, "last"]


# --- who asks


@pytest.mark.at(118)
async def test_a_tool_describes_itself_again_when_the_model_changes(supervisor):
    """The next request shows what it says to the new model; the tool stays the same, and the others do too."""
    asked = []

    def describe(listing):
        asked.append(listing.model)
        return f"Written for {listing.model}."

    @tool(description=describe)
    async def know() -> str:
        """Know."""
        return "it"

    first, second = saying("one"), calling("know")
    session = await supervisor.start_session(model=first, tools=[know, RecordingTool()])
    await session.ask("Hi")
    await session.switch_model(second)
    assert await session.ask("And now?") == "done"
    names = [(await session.status()).model, asked[0]]
    assert asked == [names[1], names[0]]
    assert first.requests[0].tools.get("know").description == f"Written for {names[1]}."
    box = second.requests[0].tools
    assert box.get("know").description == f"Written for {names[0]}."
    assert box.get("record").description == RecordingTool().description
    assert (await session.messages())[4].results[0].text == "it"


class Reconciling(RecordingTool):
    """A tool that crashes at first, and is asked what became of that."""

    def __init__(self, found):
        super().__init__(name="pay", effect_class="reconcilable")
        self.max_retries = 1
        self.found = found
        self.asked = []

    async def execute(self, arguments, ctx):
        self._begin(arguments, ctx)
        await trio.lowlevel.checkpoint()
        if ctx.attempt == 1:
            message = "the line broke"
            raise OSError(message)
        return Ok(text="paid now")

    async def reconcile(self, operation_id, ctx):
        self.asked.append((operation_id, ctx.attempt, ctx.arguments))
        await trio.lowlevel.checkpoint()
        return self.found


@on_virtual_time
@pytest.mark.at(122)
@pytest.mark.parametrize(
    ("found", "executed", "text", "is_error"),
    [
        (NotDone(), 2, "paid now", False),
        (Done(Ok(text="paid before")), 1, "paid before", False),
        (Unknown(), 1, "[Outcome unknown: an attempt failed, and whether it took effect cannot", True),
        (
            "yes",
            1,
            "reconcile of tool 'pay' returned str, expected Done(result), NotDone() or Unknown()",
            True,
        ),
    ],
    ids=["not done", "done", "unknown", "no answer"],
)
async def test_a_reconcilable_tool_is_asked_before_it_runs_again(supervisor, found, executed, text, is_error):
    """It runs again only when it says that nothing happened."""
    pay = Reconciling(found)
    script = ScriptedModel([calls(("pay", {"euros": 3})), says("done")])
    session = await supervisor.start_session(model=script, tools=[pay])
    await session.ask("Hi")
    (result,) = await results_of(session)
    assert text in result.text
    assert (len(pay.calls), result.is_error) == (executed, is_error)
    assert pay.asked == [(pay.contexts[0].operation_id, 2, {"euros": 3})]


# --- threads


@pytest.mark.at(18)
async def test_a_thread_that_asks_is_stopped(supervisor):
    """`check_cancelled` raises inside of it, and nothing is left behind."""
    started = threading.Event()

    @tool
    def work(ctx: ToolContext) -> None:
        """Work until somebody says no."""
        while True:
            started.set()
            ctx.check_cancelled()

    session = await supervisor.start_session(model=calling("work"), tools=[work])
    with trio.fail_after(60):
        await session.prompt("Hi")
        await trio.to_thread.run_sync(started.wait)
        receipt = await session.abort()
    assert (receipt.tasks_ended, receipt.stuck, receipt.abandoned) == (1, (), ())
    assert receipt.unknown == tuple(call.call_id for call in (await session.messages())[1].calls)


@pytest.mark.at(26)
@pytest.mark.at(27)
async def test_a_thread_that_may_be_left_behind_is(supervisor):
    """At once; the receipt names it, the statistics count it, and its end is noticed."""
    started, release = threading.Event(), threading.Event()

    @tool(effect_class="pure", abandonable=True)
    def deaf() -> None:
        """Hear nothing."""
        started.set()
        release.wait(30)

    session = await supervisor.start_session(model=calling("deaf", then="fine"), tools=[deaf])
    with trio.fail_after(60):
        await session.prompt("Hi")
        await trio.to_thread.run_sync(started.wait)
        receipt = await session.abort()
        assert (receipt.tasks_ended, receipt.stuck, receipt.unknown) == (1, (), ())
        assert [left.name for left in receipt.abandoned] == ["deaf"]
        assert supervisor.statistics().left_behind == ("deaf",)
        release.set()
        while supervisor.statistics().tool_threads:
            await trio.lowlevel.checkpoint()
    assert supervisor.statistics().left_behind == ()


@pytest.mark.at(27)
async def test_with_too_many_left_behind_none_begins(supervisor):
    """The seventeenth call of a threaded tool is answered at once; other tools run on."""
    release = threading.Event()
    started = threading.Semaphore(0)

    @tool(abandonable=True)
    def deaf() -> None:
        """Hear nothing."""
        started.release()
        release.wait(30)

    def wait_for_all() -> None:
        for _ in range(MAX_LEFT_BEHIND):
            started.acquire()

    script = ScriptedModel([wants(*["deaf"] * MAX_LEFT_BEHIND), wants("deaf", "record"), says("done")])
    session = await supervisor.start_session(
        model=script, tools=[deaf, RecordingTool()], max_parallel_tools=MAX_LEFT_BEHIND
    )
    with trio.fail_after(60):
        await session.prompt("Hi")
        await trio.to_thread.run_sync(wait_for_all)
        await session.abort()
        await session.ask("Again")
        release.set()
        while supervisor.statistics().tool_threads:
            await trio.lowlevel.checkpoint()
    results = (await session.messages())[-2].results
    assert [(result.text, result.is_error) for result in results] == [(TOO_MANY, True), ("recorded", False)]


# --- stopping


def _attempt(one):
    arguments = {"a": 1}
    effect = RunTool(
        effect_id="t1",
        call_id="c1",
        name=one.name,
        generation=0,
        arguments=arguments,
        arguments_hash=hash_arguments(arguments),
        operation_id="o1",
        turn=1,
        model="m",
        path=("s1",),
    )
    return effect, Attempt(tool=one, context=CTX, timeout_seconds=30)


@pytest.mark.at(31)
async def test_a_cancellation_from_outside_is_no_result():
    """It travels through the runner; only the scope of the call itself makes a result of it."""
    hang = HangingTool()
    ended = []
    with trio.CancelScope() as outside:
        outside.cancel()
        ended.append(await run_tool(*_attempt(hang), trio.CancelScope()))
    assert outside.cancelled_caught
    own = trio.CancelScope()
    own.cancel()
    ended.append(await run_tool(*_attempt(hang), own))
    assert [(one.text.startswith("Timed out"), one.is_error, one.late) for one in ended] == [
        (True, True, None)
    ]


@pytest.mark.at(31)
@pytest.mark.parametrize("grouped", [False, True])
async def test_an_interrupt_travels(grouped):
    """Ctrl-C stops the program, alone or in a group, also beside a crash of the tool; it leaves as itself."""
    error = KeyboardInterrupt()
    raised = BaseExceptionGroup("both", [ValueError("a crash"), error]) if grouped else error
    with pytest.raises(KeyboardInterrupt) as caught:
        await run_tool(*_attempt(CrashingTool(error=raised)), trio.CancelScope())
    assert caught.value is error


@pytest.mark.at(31)
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Foreign("of a library"), 'Tool "crash" crashed: Foreign: of a library'),
        (GeneratorExit(), 'Tool "crash" crashed: GeneratorExit: '),
        (BaseExceptionGroup("one", [Foreign("x")]), 'Tool "crash" crashed: Foreign: x'),
        (SystemExit(2), 'Tool "crash" exited with status 2'),
        (SystemExit(), 'Tool "crash" exited with status 0'),
        (SystemExit("no such option: --x"), 'Tool "crash" exited: no such option: --x'),
        (BaseExceptionGroup("one", [SystemExit(2)]), 'Tool "crash" exited with status 2'),
    ],
)
async def test_what_else_a_tool_raises_is_its_result(error, text, caplog):
    """No class of exception ends more than the call: what argparse raises over wrong input is an answer to the model."""
    ended = await run_tool(*_attempt(CrashingTool(error=error)), trio.CancelScope())
    assert (ended.text, ended.is_error) == (text, True)
    assert ended.crashed == ("exited" not in text)  # the same input would end it again
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@on_virtual_time
@pytest.mark.at(28, 29)
@pytest.mark.parametrize("is_deaf", [False, True])
async def test_a_process_that_outlives_its_kill_is_named_with_its_pid(supervisor, is_deaf):
    """Stuck in the kernel: its call may have ended or not, the process is what is left."""

    class Stuck(StubbornTool):
        async def execute(self, arguments, ctx):
            note_started(4710)
            try:
                return await super().execute(arguments, ctx)
            finally:
                note_stopped(4710, ended=2, left=frozenset({4711, 4712}))

    stuck = Stuck(name="disk", deaf_seconds=60 if is_deaf else 1)
    session = await start_hanging(supervisor, stuck)
    await trio.sleep(0.5)
    receipt = await session.abort()
    if is_deaf:
        assert receipt.stuck == (LeftBehind(name="disk", age_ms=5_500, pid=4710),)
        assert (receipt.processes_reaped, receipt.tasks_ended) == (0, 0)
    else:
        assert receipt.stuck == tuple(LeftBehind(name="disk", age_ms=1_000, pid=pid) for pid in (4711, 4712))
        assert (receipt.processes_reaped, receipt.tasks_ended) == (2, 1)


@on_virtual_time
@pytest.mark.at(13, 38)
@pytest.mark.parametrize("how", ["abort", "steer", "abort_tool"])
async def test_a_call_that_was_stopped_too_late_is_told_alike_everywhere(supervisor, how):
    """It took effect: the receipt, the history, the events and the next request of the model all say so."""
    charge = StubbornTool(name="charge", deaf_seconds=2)
    model = calling("charge", then="I see.")
    session = await supervisor.start_session(model=model, tools=[charge])
    async with session.subscribe() as events:
        await session.prompt("Charge it.")
        await charge.started.wait()
        call_id = (await session.messages())[1].calls[0].call_id
        if how == "abort":
            receipt = await session.abort("enough")
            assert (receipt.committed, receipt.unknown) == ((call_id,), ())
            await session.prompt("Was it charged?")
        elif how == "steer":
            await session.steer("Was it charged?")
        else:
            await session.abort_tool(call_id)
        told = (await until(events, ToolTookEffect))[-1]
        await until(events, AgentEnd)
    (result,) = await results_of(session)
    assert (result.text, result.is_error) == (
        "[Stopped too late: the call took effect.]\ndone at last",
        False,
    )
    assert told.result == result
    assert model.requests[-1].messages[2].results == (result,)


@on_virtual_time
@pytest.mark.at(13)
async def test_a_value_that_comes_after_the_timeout_is_dropped(supervisor):
    """The tool swallowed its cancellation: the model reads of the timeout, and the value is counted."""
    stubborn = StubbornTool(deaf_seconds=10, timeout_seconds=2)
    session = await supervisor.start_session(model=calling("stubborn"), tools=[stubborn])
    await session.ask("Hi")
    (result,) = await results_of(session)
    assert (result.text, result.is_error) == (
        "Timed out after 2 s. It may have taken effect; check before repeating.",
        True,
    )
    assert (await session.status()).dropped_signals == 1


OF_THE_CALL = (ToolExecutionStart, ToolExecutionEnd, ToolExecutionMetrics, ToolRetry)


async def outcome_of(supervisor, tool):
    """Let a model make one call of a tool named `read`; give its result and the kinds of its events."""
    script = ScriptedModel([calls(("read", {"path": "a"})), says("done")])
    session = await supervisor.start_session(model=script, tools=[tool])
    async with session.subscribe() as events:
        await session.ask("Hi")
        messages = await session.messages()
        await session.stop()
        seen = await rest(events)
    check_history(messages)
    check_events(seen)
    (result,) = messages[2].results
    return result, kinds(event for event in seen if isinstance(event, OF_THE_CALL))


async def test_a_call_stops_where_its_arguments_are_compared(supervisor, monkeypatch):
    """Gate 9: what arrives at the runner is not what was checked; it never runs."""
    monkeypatch.setattr(RunTool, "arguments", property(lambda self: {"path": "/etc/passwd"}))
    record = RecordingTool(name="read")
    result, told = await outcome_of(supervisor, record)
    assert (result.text, result.is_error, record.calls) == (ARGUMENTS_CHANGED, True, [])
    assert told == ["ToolExecutionStart", "ToolExecutionEnd", "ToolExecutionMetrics"]


@on_virtual_time
async def test_a_call_stops_where_it_runs(supervisor):
    """Gate 10: it raises, and is tried again as often as its class allows; one result and one pair all the same (AT-119)."""
    crash = CrashingTool(name="read", effect_class="pure")
    result, told = await outcome_of(supervisor, crash)
    assert (result.text, result.is_error) == ('Tool "read" crashed: ValueError: bad city', True)
    assert len(crash.calls) == 3
    assert told == [
        "ToolExecutionStart",
        *["ToolRetry"] * 2,
        "ToolExecutionEnd",
        "ToolExecutionMetrics",
    ]
