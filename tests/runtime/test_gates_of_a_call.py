"""The gates of one call: at each of them it can stop, with exactly one result and one pair of events, and runs not at all."""

import pytest
import trio

from agentrail.abc import Ok
from agentrail.core.protocol.effects import RunTool
from agentrail.core.session.batch import ARGUMENTS_CHANGED
from agentrail.events import (
    AgentEnd,
    ApprovalRequired,
    ApprovalResolved,
    ToolBlocked,
    ToolCallUnknown,
    ToolExecutionEnd,
    ToolExecutionMetrics,
    ToolExecutionStart,
    ToolRetry,
    ToolSkippedForSteering,
)
from agentrail.testing.cancelling import check_events, check_history
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import CrashingTool, RecordingTool
from tests.runtime.rig import kinds, on_virtual_time, rest, until

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
OF_THE_CALL = (
    ToolExecutionStart,
    ToolExecutionEnd,
    ToolExecutionMetrics,
    ToolCallUnknown,
    ToolBlocked,
    ToolRetry,
    ApprovalRequired,
    ApprovalResolved,
    ToolSkippedForSteering,
)


async def outcome_of(supervisor, name, arguments, *, plugins=(), tool=None):
    """Let a model make one call; give its result, the events of it, and how often its tool ran."""
    record = tool or RecordingTool(name="read", parameters=SCHEMA)
    script = ScriptedModel([calls((name, arguments)), says("done")])
    session = await supervisor.start_session(model=script, tools=[record], plugins=plugins)
    async with session.subscribe() as events:
        await session.ask("Hi")
        messages = await session.messages()
        await session.stop()
        seen = await rest(events)
    check_history(messages)
    check_events(seen)
    (result,) = messages[2].results
    return result, [event for event in seen if isinstance(event, OF_THE_CALL)], len(record.calls)


async def test_a_call_stops_where_its_arguments_are_compared(supervisor, monkeypatch):
    """Gate 9: what arrives at the runner is not what was checked; it never runs."""

    def another(self):
        return {"path": "/etc/passwd"}

    record = RecordingTool(name="read", parameters=SCHEMA)
    script = ScriptedModel([calls(("read", {"path": "a"})), says("done")])
    session = await supervisor.start_session(model=script, tools=[record])
    monkeypatch.setattr(RunTool, "arguments", property(another))
    async with session.subscribe() as events:
        await session.prompt("Hi")
        seen = await until(events, AgentEnd)
    (result,) = (await session.messages())[2].results
    assert (result.text, result.is_error, record.calls) == (ARGUMENTS_CHANGED, True, [])
    assert kinds(event for event in seen if isinstance(event, OF_THE_CALL)) == [
        "ToolExecutionStart",
        "ToolExecutionEnd",
        "ToolExecutionMetrics",
    ]


@on_virtual_time
async def test_a_call_stops_where_it_runs(supervisor):
    """Gate 10: it raises, and is tried again as often as its class allows; one result and one pair all the same (AT-119)."""
    crash = CrashingTool(name="read", effect_class="pure")
    result, events, runs = await outcome_of(supervisor, "read", {}, tool=crash)
    assert (result.text, result.is_error, runs) == ('Tool "read" crashed: ValueError: bad city', True, 3)
    assert kinds(events) == [
        "ToolExecutionStart",
        "ToolRetry",
        "ToolRetry",
        "ToolExecutionEnd",
        "ToolExecutionMetrics",
    ]


@on_virtual_time
@pytest.mark.at(119)
async def test_a_retry_repeats_only_the_call_that_failed(supervisor):
    """Its siblings keep their results and run once; the operation keeps its id."""
    seen = []

    class Flaky(RecordingTool):
        async def execute(self, arguments, ctx):
            seen.append((ctx.attempt, ctx.operation_id))
            await trio.lowlevel.checkpoint()
            if ctx.attempt == 1:
                message = "once"
                raise OSError(message)
            return Ok(text="at last")

    record = RecordingTool()
    script = ScriptedModel([calls(("flaky", {}), ("record", {})), says("done")])
    session = await supervisor.start_session(
        model=script, tools=[Flaky(name="flaky", effect_class="idempotent"), record]
    )
    await session.ask("Hi")
    assert [result.text for result in (await session.messages())[2].results] == ["at last", "recorded"]
    assert len(record.calls) == 1
    assert [attempt for attempt, _ in seen] == [1, 2]
    assert len({operation for _, operation in seen}) == 1
