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
from agentrail.testing.expectations import check_events, check_history
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.tools import CrashingTool, HangingTool, RecordingTool
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


def puppet(**rules):
    """Make a plugin that answers by rules."""
    return PuppetPlugin(
        tuple(read_rule(key.replace("__", "."), value) for key, value in rules.items()),
        name="puppet",
        priority=50,
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


@pytest.mark.parametrize(
    ("name", "arguments", "plugins", "between", "text"),
    [
        (
            "raed",
            {"path": "a"},
            (),
            ["ToolCallUnknown"],
            'Unknown tool "raed". Did you mean "read"? Tools: read.',
        ),
        (
            "read",
            '{"path": "a" "b',
            (),
            [],
            "Malformed arguments: Expecting ',' delimiter at line 1 column 14",
        ),
        ("read", {}, (), [], 'Invalid arguments for "read": $.path is required'),
        (
            "read",
            {"path": "a"},
            [puppet(BeforeTool__read="block:not today")],
            ["ToolBlocked"],
            "not today",
        ),
        (
            "read",
            {"path": "a"},
            [puppet(BeforeTool__read='args:{"path": 7}')],
            [],
            'Invalid arguments for "read":',
        ),
    ],
    ids=["1 lookup", "2 parse", "3 validate", "4 before_tool", "5 validate again"],
)
async def test_a_call_stops_at_a_gate_of_the_core(supervisor, name, arguments, plugins, between, text):  # noqa: PLR0913, PLR0917 - a row
    """One result, one pair of events, what happened between them, no metrics; its tool never ran."""
    result, events, runs = await outcome_of(supervisor, name, arguments, plugins=plugins)
    assert result.is_error
    assert result.text.startswith(text)
    assert kinds(events) == ["ToolExecutionStart", *between, "ToolExecutionEnd"]
    assert events[-1].result == result
    assert runs == 0


async def test_a_call_stops_at_an_approval(supervisor):
    """Gate 7: a person says no; the model reads why."""
    record = RecordingTool(name="read", parameters=SCHEMA)
    script = ScriptedModel([calls(("read", {"path": "a"})), says("done")])
    session = await supervisor.start_session(
        model=script, tools=[record], plugins=[puppet(BeforeTool__read="approve:is it safe?")]
    )
    async with session.subscribe() as events:
        await session.prompt("Hi")
        asked = (await until(events, ApprovalRequired))[-1]
        await session.reject(asked.approval.id, reason="not that one", auto_resume=True)
        seen = await until(events, AgentEnd)
    (result,) = (await session.messages())[2].results
    assert (result.text, result.is_error) == ("Rejected by the user: not that one", True)
    assert kinds(event for event in seen if isinstance(event, OF_THE_CALL)) == [
        "ApprovalResolved",
        "ToolExecutionStart",
        "ToolExecutionEnd",
    ]
    assert record.calls == []


async def test_a_call_stops_where_it_waits_for_a_slot(supervisor):
    """Gate 8: a steer comes before a slot is free; the call never began, and says so."""
    hang, record = HangingTool(), RecordingTool()
    script = ScriptedModel([calls(("hang", {}), ("record", {})), says("done")])
    session = await supervisor.start_session(model=script, tools=[hang, record], max_parallel_tools=1)
    async with session.subscribe() as events:
        await session.prompt("Hi")
        await hang.started.wait()
        await session.steer("rather not")
        seen = await until(events, AgentEnd)
    of_the_second = [
        event for event in seen if isinstance(event, OF_THE_CALL) and getattr(event, "name", "") == "record"
    ]
    assert kinds(of_the_second) == ["ToolExecutionStart", "ToolSkippedForSteering", "ToolExecutionEnd"]
    assert record.calls == []


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


async def test_a_plugin_has_the_last_word_on_a_result(supervisor):
    """Gate 11: what the model reads is what the plugin gave, in the one result that there is."""
    result, events, runs = await outcome_of(
        supervisor, "read", {"path": "a"}, plugins=[puppet(AfterTool__read="result:[hidden]")]
    )
    assert (result.text, runs) == ("[hidden]", 1)
    assert kinds(events) == ["ToolExecutionStart", "ToolExecutionEnd", "ToolExecutionMetrics"]


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
