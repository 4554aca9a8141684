"""One call, whatever its tool does: exactly one result, and no sibling, session or conversation is harmed."""

import threading

import trio

from agentrail.abc import MAX_RESULT_BYTES, Ok
from agentrail.events import AgentEnd, ToolExecutionEnd, ToolProgress
from agentrail.runtime.tool_calls import clean_text
from agentrail.testing.cancelling import check_history
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.tools import HangingTool, RecordingTool
from tests.runtime.rig import calling, on_virtual_time, until


async def result_of(supervisor, tool, arguments=None, **options):
    """Let a model call a tool once, and give the result that entered the history."""
    script = ScriptedModel([calls((tool.name, arguments or {})), says("done")])
    session = await supervisor.start_session(model=script, tools=[tool], **options)
    with trio.fail_after(1_000):  # virtual, where it matters
        assert await session.ask("Hi") == "done"
    messages = await session.messages()
    check_history(messages)
    assert (await session.status()).restarts == 0
    return messages[2].results[0]


async def test_a_tool_that_returns_the_wrong_type_or_nothing(supervisor):
    """The model reads that the tool is broken, and the cycle goes on; no provider is ever sent an empty result."""
    for returned, kind in ((None, "NoneType"), (42, "int")):
        result = await result_of(supervisor, RecordingTool(answer=lambda _arguments, it=returned: it))
        text = f'Tool "record" is broken: execute returned {kind}, expected Ok, Error, ToolUpdate or ToolQuestion.'
        assert (result.text, result.is_error) == (text, True)
    assert (await result_of(supervisor, RecordingTool(answer=""))).text == "[no output]"


@on_virtual_time
async def test_a_tool_without_a_timeout_gets_that_of_its_session(supervisor):
    """`tool_timeout_seconds` holds where the tool names none."""
    result = await result_of(supervisor, HangingTool(), tool_timeout_seconds=2.5)
    assert result.text.startswith("Timed out after 2.5 s.")


async def test_a_huge_result_is_cut(supervisor):
    """1 MiB of it is kept, first and last half, with the number of bytes between them."""
    result = await result_of(
        supervisor,
        RecordingTool(answer="a" * 1_000_000 + "b" * 1_000_000),
        plugins=[
            PuppetPlugin((read_rule("BeforeCompact", "skip"),), name="keeper")
        ],  # it is longer than any window
    )
    half = MAX_RESULT_BYTES // 2
    left_out = 2_000_000 - MAX_RESULT_BYTES
    assert result.text == f"{'a' * half}\n[… {left_out:,} bytes left out …]\n{'b' * half}"


def test_a_cut_never_splits_a_character():
    """Half a character at the edge is left out too."""
    cut = clean_text("€" * MAX_RESULT_BYTES)
    assert set(cut.replace("\n", "")) <= set("€[… 0123456789,bytes left out]")
    assert "\ufffd" not in cut


async def test_a_tool_in_a_worker_thread_reports_progress(supervisor):
    """`report_progress` may be called there; it is an ephemeral event with the call's name and id."""
    go_on = threading.Event()

    class Threaded(RecordingTool):
        async def execute(self, arguments, ctx):
            def work() -> None:
                ctx.report_progress("half")
                go_on.wait(10)

            await trio.to_thread.run_sync(work)
            ctx.report_progress("all")
            return Ok(text="worked")

    session = await supervisor.start_session(model=calling("record"), tools=[Threaded()])
    async with session.subscribe() as events:
        await session.prompt("Hi")
        half = (await until(events, ToolProgress))[-1]
        go_on.set()
        seen = await until(events, AgentEnd)
    end = next(event for event in seen if isinstance(event, ToolExecutionEnd))
    assert (half.text, half.name, half.call_id) == ("half", "record", end.call_id)
    assert [event.text for event in seen if isinstance(event, ToolProgress)] == ["all"]


async def test_at_most_so_many_calls_run_at_a_time(supervisor):
    """`max_parallel_tools` bounds a batch; the rest wait in the order of the calls."""
    running, most, order = [], [], []

    class Counting(RecordingTool):
        async def execute(self, arguments, ctx):
            running.append(ctx.call_id)
            order.append(arguments["number"])
            most.append(len(running))
            await trio.lowlevel.checkpoint()
            running.remove(ctx.call_id)
            return Ok(text="ok")

    script = ScriptedModel([calls(*(("record", {"number": number}) for number in range(7))), says("done")])
    session = await supervisor.start_session(model=script, tools=[Counting()], max_parallel_tools=2)
    await session.ask("Hi")
    assert max(most) == 2
    assert sorted(order) == list(range(7))
