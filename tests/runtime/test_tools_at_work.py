"""One call, whatever its tool does: exactly one result, and no sibling, session or conversation is harmed."""

import re
import threading

import pytest
import trio

from agentrail.abc import MAX_RESULT_BYTES, Error, Ok, Secret, ToolContext
from agentrail.core.protocol.effects import RunTool
from agentrail.events import AgentEnd, ToolExecutionEnd, ToolProgress
from agentrail.runtime.tool_calls import clean_text, decide_arguments
from agentrail.testing.expectations import check_history
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.tools import CrashingTool, HangingTool, RecordingTool
from agentrail.tools.function import tool
from tests.runtime.rig import calling, on_virtual_time, until, wants


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


class Unprintable(Exception):
    """An exception that cannot even be shown."""

    def __str__(self) -> str:
        """Raise."""
        message = "no words"
        raise RuntimeError(message)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad city"), 'Tool "crash" crashed: ValueError: bad city'),
        (KeyError("x"), "Tool \"crash\" crashed: KeyError: 'x'"),
        (
            ExceptionGroup("many", [ValueError("a"), ExceptionGroup("inner", [TypeError("b")])]),
            'Tool "crash" crashed: ValueError: a; TypeError: b',
        ),
        (Unprintable(), 'Tool "crash" crashed: Unprintable: <no message: its __str__ raises>'),
        (ValueError("x" * 5000), f'Tool "crash" crashed: ValueError: {"x" * 5000}'[:1000]),
        (ValueError("a\x00\ud800b"), 'Tool "crash" crashed: ValueError: a\ufffdb'),
    ],
    ids=["plain", "key", "group", "unprintable", "long", "dirty"],
)
async def test_a_tool_that_raises(supervisor, error, text):
    """Its crash is the result: type and message, no traceback, groups flattened."""
    result = await result_of(supervisor, CrashingTool(error=error))
    assert (result.text, result.is_error) == (text, True)


async def test_a_traceback_goes_to_the_log_and_secrets_go_nowhere(supervisor, caplog):
    """The model reads type and message alone; what the application keeps secret is in neither (6.8)."""
    keys = {"key": Secret("sk-123"), "older": [{"key": Secret("sk-123456")}], "none": Secret("")}

    @tool
    async def leak(*, ctx: ToolContext) -> str:
        """Say more than it should."""
        await trio.lowlevel.checkpoint()
        message = "refused: sk-123456, sk-123"
        raise ValueError(message)

    with caplog.at_level("ERROR", "agentrail.runtime"):
        result = await result_of(supervisor, leak, user_data=keys)
    assert result.text == 'Tool "leak" crashed: ValueError: refused: Secret(…), Secret(…)'
    (told,) = caplog.messages
    assert re.match(r"tool 'leak' crashed in call \S+ of session \S+, attempt 1\nTraceback", told)
    assert "in leak" in told
    assert "sk-123" not in told


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (None, 'Tool "record" is broken: execute returned NoneType, expected Ok, Error or Effect.'),
        (42, 'Tool "record" is broken: execute returned int, expected Ok, Error or Effect.'),
    ],
)
async def test_a_tool_that_returns_the_wrong_type(supervisor, returned, text):
    """The model reads that the tool is broken, and the cycle goes on."""
    result = await result_of(supervisor, RecordingTool(answer=lambda _arguments: returned))
    assert (result.text, result.is_error) == (text, True)


async def test_an_outcome_whose_text_is_none_is_a_crash(supervisor):
    """`Ok(text=42)` is as wrong as no outcome at all."""
    result = await result_of(supervisor, RecordingTool(answer=Ok(text=42)))
    assert result.is_error
    assert 'Tool "record" crashed: TypeError' in result.text


@on_virtual_time
@pytest.mark.parametrize(
    ("effect_class", "text"),
    [
        ("once", "Timed out after 30 s. It may have taken effect; check before repeating."),
        ("pure", "Timed out after 30 s."),
    ],
)
async def test_a_tool_that_never_returns(supervisor, effect_class, text):
    """Its timeout is the result, and says whether something may have happened."""
    hang = HangingTool(effect_class=effect_class, timeout_seconds=30)
    result = await result_of(supervisor, hang)
    assert (result.text, result.is_error, hang.stopped) == (text, True, 1)


@on_virtual_time
async def test_a_tool_without_a_timeout_gets_that_of_its_session(supervisor):
    """`tool_timeout_seconds` holds where the tool names none."""
    result = await result_of(supervisor, HangingTool(), tool_timeout_seconds=2.5)
    assert result.text.startswith("Timed out after 2.5 s.")


async def test_a_tool_that_changes_its_arguments(supervisor):
    """It has a copy: the conversation says what the model said."""

    def spoil(arguments):
        arguments["list"].append("spoilt")
        return "ok"

    script = ScriptedModel([calls(("record", {"list": [1]})), says("done")])
    session = await supervisor.start_session(model=script, tools=[RecordingTool(answer=spoil)])
    await session.ask("Hi")
    assert (await session.messages())[1].calls[0].arguments == {"list": [1]}


async def test_a_result_without_words(supervisor):
    """No provider is ever sent an empty result."""
    assert (await result_of(supervisor, RecordingTool(answer=""))).text == "[no output]"


async def test_an_error_is_a_result_for_the_model(supervisor):
    """`Error` is marked, and its details are for people."""
    result = await result_of(
        supervisor, RecordingTool(answer=Error(text="No such file.", details={"tried": 1}))
    )
    assert (result.text, result.is_error, result.details) == ("No such file.", True, {"tried": 1})


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


def test_a_text_is_made_fit_for_every_wire():
    """Lone surrogates become U+FFFD; control characters go, except tab and newline."""
    assert clean_text("a\x00b\x1b[31m\tc\r\n\x7f\ud83d") == "ab[31m\tc\n\ufffd"


def test_arguments_that_changed_after_the_check_are_not_run():
    """The runner hashes once more, right before it runs."""
    effect = RunTool(
        effect_id="t1",
        call_id="c1",
        name="x",
        generation=0,
        arguments={"a": 1},
        arguments_hash="another",
        operation_id="o1",
        path=("s",),
        turn=1,
        model="m",
    )
    assert decide_arguments(effect) is None


async def test_siblings_do_not_notice_a_crash(supervisor):
    """Each call of a batch has its own result, in the order of the calls."""
    script = calling("crash", "record", "crash")
    session = await supervisor.start_session(model=script, tools=[CrashingTool(), RecordingTool()])
    assert await session.ask("Hi") == "done"
    results = (await session.messages())[2].results
    assert [(result.name, result.is_error) for result in results] == [
        ("crash", True),
        ("record", False),
        ("crash", True),
    ]


async def test_a_tool_that_crashes_while_it_is_killed(supervisor):
    """Neither its session nor its supervisor notices, also when the crash comes in one group with the cancellation."""

    class Messy(HangingTool):
        async def execute(self, arguments, ctx):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(super().execute, arguments, ctx)
                try:
                    await trio.sleep_forever()
                finally:
                    message = "while leaving"
                    raise ValueError(message)

    messy = Messy()
    session = await supervisor.start_session(
        model=ScriptedModel([wants("hang"), says("fine")]), tools=[messy]
    )
    await session.prompt("Hi")
    await messy.started.wait()
    receipt = await session.abort()
    assert (receipt.tasks_ended, receipt.stuck) == (1, ())
    assert await session.ask("Still there?") == "fine"
    assert (await session.status()).restarts == 0


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


async def test_progress_after_the_end_is_nothing(supervisor):
    """A context that outlives its call is deaf."""
    record = RecordingTool()
    session = await supervisor.start_session(model=calling("record"), tools=[record])
    await session.ask("Hi")
    async with session.subscribe() as events:
        record.contexts[0].report_progress("too late")
        await session.stop()
        assert ToolProgress not in [type(event) async for event in events]


async def test_a_call_knows_who_asks(supervisor, tmp_path):
    """Its context has the session, the call, the model, the turn, the directory and the application's data."""
    record = RecordingTool()
    session = await supervisor.start_session(
        model=calling("record"), tools=[record], user_data={"tenant": 7}, working_dir=tmp_path
    )
    await session.ask("Hi")
    context = record.contexts[0]
    call = (await session.messages())[1].calls[0]
    assert (context.session_id, context.call_id) == (session.session_id, call.call_id)
    assert (context.model, context.turn, context.attempt) == ("scripted:object", 1, 1)
    assert (context.user_data, context.working_dir) == ({"tenant": 7}, str(tmp_path.resolve()))


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
