"""What a running tool may ask of its session: a process, an answer of the user, a session of its own, time to clean up."""

import math
import os
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from agentrail.abc import ExecuteOptions, ToolContext
from agentrail.core.session.children import MAX_SESSION_DEPTH
from agentrail.errors import (
    ChildRefused,
    CycleAborted,
    CycleFailed,
    ProcessRefused,
    PromptError,
)
from agentrail.events import (
    AskUser,
    ResponseComplete,
    SubagentEnd,
    SubagentEvent,
    SubagentStart,
    ToolExecutionEnd,
    UserResponded,
)
from agentrail.runtime.agent import Agent
from agentrail.runtime.tool_calls import _MEMBERS
from agentrail.sandboxes.composite import CompositeSandbox
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools import builtin
from agentrail.tools.function import tool
from tests.runtime.rig import calling, on_virtual_time, only, until, wants
from tests.sandboxes.rig import make_sandbox

PATIENCE_SECONDS = 30
SLEEPS = ("sh", "-c", "sleep 600 & sleep 600 & echo ready; wait")

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")


@pytest.fixture(params=["confined", "unconfined"])
def local(request, tmp_path, monkeypatch):
    """A directory whose commands are confined, or not."""
    return make_sandbox(request.param, tmp_path, monkeypatch)


def alive_in(root: Path, *, named: str | None = None) -> int:
    """Count the processes that carry the mark of a sandbox: all of them, those of a jail too, or those of a name."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = f"TEST_TREE={root}".encode() in (process / "environ").read_bytes().split(b"\0")
            found += is_ours and named in {None, (process / "comm").read_text().strip()}
        except OSError:
            continue
    return found


def tool_of(work, **options):
    """Make a tool named `work` of an async function of its context."""

    @tool(name="work", description="Works.", **options)
    async def made(*, ctx: ToolContext) -> Any:
        return await work(ctx)

    return made


async def result_of(supervisor, made, **options):
    """Let a model call the tool `work` once, and give the result that entered the history."""
    session = await supervisor.start_session(model=calling("work"), tools=[made], **options)
    with trio.fail_after(PATIENCE_SECONDS):
        assert await session.ask("Hi") == "done"
        result = (await session.messages())[2].results[0]
        await supervisor.stop_session(session.session_id)
    return result


# --- processes


@linux_only
async def test_a_process_is_talked_to_and_ends_with_its_input(supervisor, local):
    """What it prints is read while it runs; it sees what commands see, and the variables that it was given."""

    async def work(ctx):
        process = await ctx.open_process(
            ["sh", "-c", 'read line; echo "$line $WORD"; cat'], env={"WORD": "there"}
        )
        await process.stdin.send_all(b"hello\nmore\n")
        await process.stdin.aclose()
        said = b"".join([piece async for piece in process.stdout])
        return f"{said.decode()}{await process.wait()}"

    async with no_orphans():
        result = await result_of(supervisor, tool_of(work), sandbox=local)
    assert result.text == "hello there\nmore\n0"
    assert not result.is_error


@linux_only
async def test_a_process_does_not_outlive_its_call(supervisor, local, tmp_path):
    """The tool forgets it and returns: it is gone, with all that it had started, before the result is there."""
    seen = []

    async def work(ctx):
        process = await ctx.open_process(SLEEPS)
        assert await process.stdout.receive_some() == b"ready\n"
        with trio.move_on_after(10):
            while alive_in(tmp_path) < 3:  # noqa: ASYNC110 - nothing tells; one in the middle of its `exec` shows no environment
                await trio.sleep(0.01)
        seen.append(alive_in(tmp_path))
        return "forgot it"

    async with no_orphans():
        session = await supervisor.start_session(model=calling("work"), tools=[tool_of(work)], sandbox=local)
        async with session.subscribe() as events:
            await session.prompt("Hi")
            await until(events, ToolExecutionEnd)
        assert seen[0] >= 3
        assert alive_in(tmp_path) == 0
        await supervisor.stop_session(session.session_id)


@linux_only
@pytest.mark.at(29, 38)
@pytest.mark.parametrize("is_deaf", [False, True], ids=["obeys", "deaf"])
async def test_an_abort_reaps_the_processes_of_a_call(supervisor, local, tmp_path, is_deaf):
    """Also of a tool that does not hear its cancellation; the receipt counts them, and nothing is left."""
    opened = trio.Event()

    async def work(ctx):
        with trio.CancelScope(shield=is_deaf):
            process = await ctx.open_process(SLEEPS)
            await process.stdout.receive_some()
            opened.set()
            await process.wait()
        return "it has ended"

    async with no_orphans():
        session = await supervisor.start_session(model=calling("work"), tools=[tool_of(work)], sandbox=local)
        await session.prompt("Hi")
        with trio.fail_after(PATIENCE_SECONDS):
            await opened.wait()
            receipt = await session.abort()
        assert receipt.stuck == ()
        assert receipt.processes_reaped >= 3
        assert receipt.milliseconds < 4_000
        assert alive_in(tmp_path) == 0
        # A deaf tool gave its value in spite of the stop, so nothing about it is doubtful.
        done = [call.call_id for message in (await session.messages())[1:2] for call in message.calls]
        assert (list(receipt.committed), list(receipt.unknown)) == ((done, []) if is_deaf else ([], done))
        await supervisor.stop_session(session.session_id)


@linux_only
@pytest.mark.at(14, 29)
async def test_an_abort_reaps_the_processes_of_a_child(supervisor, local, tmp_path):
    """The receipt of the session above counts them, and nothing is left."""
    opened = trio.Event()

    async def work(ctx):
        process = await ctx.open_process(SLEEPS)
        await process.stdout.receive_some()
        opened.set()
        await process.wait()
        return "it has ended"

    def answer(request):
        return (
            calls(("task", {"description": "x"}))
            if request.messages[0].content[0].text == "Hi"
            else calls(("work", {}))
        )

    async with no_orphans():
        session = await supervisor.start_session(
            model=FunctionModel(answer), tools=[tool_of(work), *builtin("task")], sandbox=local
        )
        await session.prompt("Hi")
        with trio.fail_after(PATIENCE_SECONDS):
            await opened.wait()
            receipt = await session.abort()
        assert receipt.stuck == ()
        assert receipt.tasks_ended == 2
        assert receipt.processes_reaped >= 3
        assert alive_in(tmp_path) == 0
        await supervisor.stop_session(session.session_id)


@linux_only
@pytest.mark.at(29)
async def test_an_abort_reaps_a_shell_and_its_grandchildren(supervisor, local, tmp_path):
    """What `sandbox.execute` had started is in the receipt too, and `no_orphans` agrees."""

    async def work(ctx):
        ctx.report_progress("begins")
        result = await ctx.sandbox.execute("sleep 600 & sh -c 'sleep 600' & wait", ExecuteOptions())
        return result.output

    async with no_orphans():
        session = await supervisor.start_session(model=calling("work"), tools=[tool_of(work)], sandbox=local)
        await session.prompt("Hi")
        with trio.fail_after(PATIENCE_SECONDS):
            while alive_in(tmp_path, named="sleep") < 2:  # noqa: ASYNC110 - processes set no event
                await trio.sleep(0.01)
            receipt = await session.abort()
            await supervisor.stop_session(session.session_id)
    assert receipt.processes_reaped >= 3
    assert receipt.stuck == ()
    assert alive_in(tmp_path) == 0


@linux_only
async def test_a_process_ends_when_the_time_of_its_call_is_up(supervisor, local, tmp_path):
    """A timeout stops it like an abort does, although the tool is deaf."""

    async def work(ctx):
        with trio.CancelScope(shield=True):
            process = await ctx.open_process(SLEEPS)
            await process.wait()
        return "late"

    async with no_orphans():
        result = await result_of(supervisor, tool_of(work, timeout_seconds=1), sandbox=local)
    assert result.text.startswith("Timed out after 1 s.")
    assert alive_in(tmp_path) == 0


@linux_only
async def test_a_tool_stops_its_process_itself(supervisor, local):
    """`stop` ends all of it, and may be called again; what came before can be read, and its errors are dropped on wish."""

    async def work(ctx):
        process = await ctx.open_process(["sh", "-c", "echo out; echo err >&2; sleep 600"], errors="dropped")
        said = await process.stdout.receive_some()
        await process.stop()
        await process.stop()
        return f"{said.decode()}{await process.wait() != 0} {process.pid > 0}"

    async with no_orphans():
        result = await result_of(supervisor, tool_of(work), sandbox=local)
    assert result.text == "out\nTrue True"


@linux_only
async def test_a_process_begins_below_the_root(supervisor, local, tmp_path):
    """In the directory that was named; one that is not there, or is outside, is refused with the code of that."""
    tmp_path.joinpath("deep").mkdir()

    async def work(ctx):
        process = await ctx.open_process(["pwd"], workdir="deep")
        said = [(b"".join([piece async for piece in process.stdout])).decode().strip()]
        for wrong in ("gone", "../x"):
            try:
                await ctx.open_process(["pwd"], workdir=wrong)
            except ProcessRefused as refused:
                said.append(refused.code)
        return " ".join(said)

    result = await result_of(supervisor, tool_of(work), sandbox=local)
    assert result.text == f"{tmp_path.resolve() / 'deep'} file_not_found invalid_path"


@linux_only
async def test_a_process_of_a_composite_runs_in_its_default(supervisor, local):
    """As commands do; a prefix of another sandbox is no place for it."""

    async def work(ctx):
        process = await ctx.open_process(["echo", "here"])
        said = (await process.stdout.receive_some()).decode()
        with pytest.raises(ProcessRefused) as refused:
            await ctx.open_process(["echo"], workdir="/notes/")
        return f"{said}{refused.value.code}"

    composite = CompositeSandbox(local, {"/notes/": MemorySandbox()})
    result = await result_of(supervisor, tool_of(work), sandbox=composite)
    assert result.text == "here\nunsupported"


@pytest.mark.parametrize(
    "sandbox", [MemorySandbox(), CompositeSandbox(MemorySandbox(), {})], ids=["memory", "composite"]
)
async def test_a_sandbox_without_processes_says_so(supervisor, sandbox):
    """The refusal has a type and a code; a tool that does not catch it is answered as a crash that says what to do."""

    async def work(ctx):
        await ctx.open_process(["true"])

    result = await result_of(supervisor, tool_of(work), sandbox=sandbox)
    assert result.text == (
        'Tool "work" crashed: ProcessRefused: MemorySandbox opens no processes'
        + ("" if isinstance(sandbox, CompositeSandbox) else ": use a LocalSandbox, or do without")
    )


async def test_where_commands_are_refused_processes_are(supervisor, tmp_path, monkeypatch):
    """`shell_fallback` decides of both."""
    make_sandbox("unconfined", tmp_path, monkeypatch)  # takes bubblewrap away

    async def work(ctx):
        with pytest.raises(ProcessRefused, match="Commands are disabled") as refused:
            await ctx.open_process(["true"])
        return refused.value.code

    result = await result_of(supervisor, tool_of(work), sandbox=LocalSandbox(tmp_path))
    assert result.text == "unsupported"


@pytest.mark.parametrize("argv", [[], [""], ["a\0b"]], ids=["nothing", "no name", "nul"])
async def test_what_is_no_program_is_refused(supervisor, tmp_path, argv):
    """The author's move: nothing was started."""

    async def work(ctx):
        await ctx.open_process(argv)

    result = await result_of(supervisor, tool_of(work), sandbox=LocalSandbox(tmp_path))
    assert "ToolContractError: open_process takes a program and its arguments" in result.text


@linux_only
async def test_a_call_that_was_stopped_opens_nothing(supervisor, local, tmp_path):
    """A deaf tool goes on after the abort, and gets no process any more."""
    go_on, began = trio.Event(), trio.Event()
    refused = []

    async def work(ctx):
        with trio.CancelScope(shield=True):
            began.set()
            await go_on.wait()
            try:
                await ctx.open_process(SLEEPS)
            except ProcessRefused as refusal:
                refused.append(str(refusal))
        return "late"

    session = await supervisor.start_session(model=calling("work"), tools=[tool_of(work)], sandbox=local)
    await session.prompt("Hi")
    await began.wait()
    await session.abort(wait=False)
    go_on.set()
    with trio.fail_after(PATIENCE_SECONDS):
        await session.ask("Again") if not refused else None
    assert refused == ["the call was stopped: it cannot open processes any more"]
    assert alive_in(tmp_path) == 0


@linux_only
async def test_a_thread_opens_a_process_too(supervisor, local):
    """Through Trio, as all that a worker thread asks of the loop."""

    @tool(name="work", description="Works.")
    def work(*, ctx: ToolContext) -> str:
        async def talk() -> str:
            process = await ctx.open_process(["echo", "from a thread"])
            return (await process.stdout.receive_some()).decode()

        return trio.from_thread.run(talk)

    result = await result_of(supervisor, work, sandbox=local)
    assert result.text == "from a thread\n"


# --- questions


async def test_a_tool_asks_the_user(supervisor):
    """The call waits, and gets the answer; an option by its index, too."""

    async def work(ctx):
        which = await ctx.ask_user("Which one?", ["left", "right"])
        return f"{which}, {await ctx.ask_user('Sure?')}"

    session = await supervisor.start_session(model=calling("work"), tools=[tool_of(work)], session_id="one")
    async with session.subscribe(kinds=[AskUser, UserResponded, ToolExecutionEnd]) as events:
        await session.prompt("Hi")
        with trio.fail_after(PATIENCE_SECONDS):
            first = await anext(events)
            assert (await session.status()).questions[0].ref == first.ref
            await session.respond(first.ref, 1)
            assert (await anext(events)).response == "right"
            second = await anext(events)
            await session.respond(second.ref, "yes")
            await anext(events)
            ended = await anext(events)
    assert (first.question, first.options) == ("Which one?", ("left", "right"))
    assert ended.result.text == "right, yes"
    assert (await session.status()).questions == ()


@on_virtual_time
async def test_nobody_answers_a_tool(supervisor):
    """It gets None when its time is up, and goes on."""

    async def work(ctx):
        began_at = trio.current_time()
        answer = await ctx.ask_user("Anybody?", timeout_seconds=20)
        return f"{answer} after {trio.current_time() - began_at:g} s"

    session = await supervisor.start_session(model=calling("work"), tools=[tool_of(work)])
    assert await session.ask("Hi") == "done"
    (result,) = (await session.messages())[2].results
    assert result.text == "None after 20 s"


@pytest.mark.parametrize("is_spared", [False, True], ids=["killed", "spared"])
async def test_an_abort_ends_the_question_of_a_tool(supervisor, is_spared):
    """Both hear that nobody will answer; one that is killed gets no further than that."""
    heard = []

    async def work(ctx):
        try:
            await ctx.ask_user("Anybody?")
        except CycleAborted as aborted:
            heard.append(aborted)
            await trio.lowlevel.checkpoint()
            heard.append("goes on")
        finally:
            heard.append("over")
        return "went on"

    made = tool_of(work, killable=not is_spared)
    session = await supervisor.start_session(model=calling("work"), tools=[made])
    async with only(session, AskUser, ToolExecutionEnd) as events:
        await session.prompt("Hi")
        with trio.fail_after(PATIENCE_SECONDS):
            await anext(events)
            receipt = await session.abort()
            ended = await anext(events)
    assert (await session.status()).questions == ()
    assert len(receipt.survivors) == is_spared
    assert isinstance(heard[0], CycleAborted)
    assert heard[1:] == ["goes on", "over"] if is_spared else ["over"]
    assert ended.result.text == ("went on" if is_spared else "[Stopped: aborted by the user]")


@pytest.mark.parametrize(
    ("question", "seconds"), [(" ", 1), ("Which?", 0), ("Which?", -1), ("Which?", math.inf), ("?", math.nan)]
)
async def test_a_question_that_is_none_is_refused(supervisor, question, seconds):
    """Empty, or with a time that is none: the author's move."""

    async def work(ctx):
        return await ctx.ask_user(question, timeout_seconds=seconds)

    result = await result_of(supervisor, tool_of(work))
    assert "ToolContractError: ask_user" in result.text


# --- sessions


def asking(*prompts, **options):
    """Make a tool that lets sessions work for these prompts, side by side, and joins what they say."""

    async def work(ctx):
        said = {}

        async def ask(prompt):
            said[prompt] = await ctx.run_session(prompt, **options)

        async with trio.open_nursery() as nursery:
            for prompt in prompts:
                nursery.start_soon(ask, prompt)
        return ", ".join(said[prompt] for prompt in prompts)

    return tool_of(work)


def answering(child):
    """A model whose first session calls `work`, and whose others answer as a function of their request says."""

    def answer(request):
        if request.messages[0].content[0].text == "go":
            return says("done") if len(request.messages) > 1 else calls(("work", {}))
        return child(request)

    return FunctionModel(answer)


def echo(request):
    """Say what was asked."""
    return says(f"<{request.messages[0].content[0].text}>")


@pytest.mark.at(91)
async def test_a_tool_is_answered_by_sessions(supervisor):
    """Each is told of by itself on the session above, and all are gone when the call is over."""
    session = await supervisor.start_session(
        model=answering(echo), tools=[asking("left", "right")], session_id="boss"
    )
    async with session.subscribe(
        kinds=[SubagentStart, SubagentEvent, SubagentEnd, ToolExecutionEnd]
    ) as events:
        assert await session.ask("go") == "done"
        seen = await until(events, ToolExecutionEnd)
    call = seen[-1]
    assert call.result.text == "<left>, <right>"
    responses = [event.event for event in seen if isinstance(getattr(event, "event", None), ResponseComplete)]
    assert len(responses) == 2
    # Two responses of its own, and those of the two below, each of the same size.
    assert (await session.status()).usage.total == 4 * responses[0].usage.total > 0
    started = {event.child_id: event.description for event in seen if isinstance(event, SubagentStart)}
    stem = f"boss.{call.call_id}"
    assert set(started) == {f"{stem}.1", f"{stem}.2"}
    assert set(started.values()) == {"left", "right"}
    ended = {event.child_id for event in seen if isinstance(event, SubagentEnd)}
    assert ended == set(started)
    for event in seen:
        if isinstance(event, SubagentEvent):
            assert event.event.meta.path == ("boss", event.child_id)
    assert [one.session_id for one in supervisor.sessions()] == ["boss"]


async def test_a_session_of_a_tool_inherits_and_may_have_less(supervisor):
    """The tools that were named, another system prompt, fewer turns."""
    seen = []

    def child(request):
        seen.append((request.tools.names, request.system))
        return says("ok") if len(request.messages) > 1 else calls(("record", {}))

    tools = [
        asking("x", tools=["record"], system_prompt="Be brief.", max_turns=2),
        RecordingTool(),
        HangingTool(),
    ]
    session = await supervisor.start_session(model=answering(child), tools=tools)
    assert await session.ask("go") == "done"
    assert [names for names, _ in seen] == [("record",)] * 2
    assert "Be brief." in str(seen[0][1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": ["gone"]}, "OptionError: tools has ['gone']: expected names of work"),
        ({"max_turns": 0}, "OptionError: max_turns is 0: expected 1 or more"),
    ],
)
async def test_a_session_that_cannot_be_is_refused(supervisor, options, message):
    """The author's move; nothing was started."""
    session = await supervisor.start_session(model=answering(echo), tools=[asking("x", **options)])
    await session.ask("go")
    assert message in (await session.messages())[2].results[0].text
    assert supervisor.statistics().started == 1


async def test_an_empty_prompt_of_a_tool_is_refused(supervisor):
    """As any empty prompt; the session that was started for it is gone."""
    caught = []

    async def work(ctx):
        try:
            await ctx.run_session("")
        except PromptError as error:
            caught.append(error)
        return "ok"

    session = await supervisor.start_session(model=answering(echo), tools=[tool_of(work)])
    await session.ask("go")
    assert len(caught) == 1
    assert len(supervisor.sessions()) == 1


async def test_sessions_do_not_stand_on_one_another_without_end(supervisor):
    """A tool that is in its own child would start sessions for ever; at the eighth it is refused."""

    def child(request):
        return says("bottom") if len(request.messages) > 1 else calls(("work", {}))

    session = await supervisor.start_session(model=answering(child), tools=[asking("deeper")])
    with trio.fail_after(PATIENCE_SECONDS):
        assert await session.ask("go") == "done"
    assert supervisor.statistics().started == MAX_SESSION_DEPTH
    assert len(supervisor.sessions()) == 1


async def test_a_session_of_a_tool_that_fails_or_is_aborted_raises(supervisor):
    """What `session.ask` would raise, so that the tool can say something better."""
    caught = []

    async def work(ctx):
        for prompt in ("fail", "abort"):
            try:
                await ctx.run_session(prompt)
            except (CycleFailed, CycleAborted) as ended:
                caught.append(type(ended))
        return "ok"

    def child(request):
        if request.messages[0].content[0].text == "fail":
            message = "no"
            raise ValueError(message)
        return calls(("hang", {}))

    hanging = HangingTool(name="hang")
    session = await supervisor.start_session(model=answering(child), tools=[tool_of(work), hanging])
    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.ask, "go")
            await hanging.started.wait()
            below = next(one for one in supervisor.sessions() if one.session_id != session.session_id)
            await below.abort()
    assert caught == [CycleFailed, CycleAborted]


async def test_what_the_sessions_of_a_stopped_call_used_is_counted(supervisor):
    """Also when the call is aborted: the receipt comes when they are gone, and their parent knows by then (3.2)."""
    hanging = HangingTool(name="hang")
    session = await supervisor.start_session(
        model=answering(lambda _: calls(("hang", {}))), tools=[asking("left", "right"), hanging]
    )
    with trio.fail_after(PATIENCE_SECONDS):
        await session.prompt("go")
        await hanging.started.wait()
        below = [one for one in supervisor.sessions() if one.session_id != session.session_id]
        used = [await one.status() for one in (session, *below)]
        while not all(one.usage.total for one in used):
            await trio.sleep(0.01)
            used = [await one.status() for one in (session, *below)]
        await session.abort()
    total = sum(one.usage.total for one in used)
    assert len(below) == 2
    assert (await session.status()).usage.total == total


@pytest.mark.at(14)
async def test_an_abort_takes_the_sessions_of_a_tool_along(supervisor):
    """The receipt comes when they are gone."""
    hanging = HangingTool(name="hang")
    model = answering(lambda _request: calls(("hang", {})))
    async with no_orphans():
        session = await supervisor.start_session(model=model, tools=[asking("a", "b"), hanging])
        await session.prompt("go")
        with trio.fail_after(PATIENCE_SECONDS):
            while len(hanging.calls) < 2:  # noqa: ASYNC110 - its event is set by the first
                await trio.sleep(0.001)
            receipt = await session.abort()
        assert receipt.stuck == ()
        assert hanging.stopped == 2
        assert [one.session_id for one in supervisor.sessions()] == [session.session_id]
        await supervisor.stop_session(session.session_id)


# --- clean-up


@on_virtual_time
async def test_a_stopped_tool_may_clean_up_for_two_seconds(supervisor):
    """What is awaited in a `cleanup_scope` is not cut by the stop, and is cut when its time is over."""
    seen = []

    async def work(ctx):
        try:
            ctx.report_progress("begins")
            await trio.sleep_forever()
        finally:
            stopped_at = trio.current_time()
            with ctx.cleanup_scope(0.5):
                await trio.sleep(0.25)
                seen.append(trio.current_time() - stopped_at)
            with ctx.cleanup_scope() as scope:
                await trio.sleep(60)
            seen.append((scope.cancelled_caught, trio.current_time() - stopped_at))

    session = await supervisor.start_session(model=calling("work"), tools=[tool_of(work)])
    await session.prompt("Hi")
    await trio.sleep(1)
    receipt = await session.abort()
    assert seen == [0.25, (True, 2.25)]
    assert (receipt.stuck, receipt.milliseconds) == ((), 2_250)


@pytest.mark.parametrize("seconds", [0, -1, 2.1, math.nan])
async def test_a_clean_up_has_a_bound(supervisor, seconds):
    """More than two seconds would make the call stuck: the author's move."""

    async def work(ctx):
        with ctx.cleanup_scope(seconds):
            return "never"

    result = await result_of(supervisor, tool_of(work))
    assert (
        f"ToolContractError: cleanup_scope takes a time above 0 and up to 2 s; got {seconds!r}" in result.text
    )


async def test_a_context_that_was_made_by_hand_has_nobody(tmp_path):
    """Outside of a session no process is opened, nobody answers, and there is no session to be above another."""
    ctx = ToolContext(
        session_id="s",
        call_id="c",
        operation_id="o",
        working_dir=os.fspath(tmp_path),
        open_sandbox=MemorySandbox,
        model="m",
        turn=1,
        user_data={},
        deadline=math.inf,
        progress=lambda _text: None,
    )
    assert await ctx.ask_user("Anybody?") is None
    assert (ctx.tools, ctx.agents, ctx.prompt_mode, ctx.last_reply) == ((), (), "full", "")
    with pytest.raises(ProcessRefused, match="made by hand"):
        await ctx.open_process(["true"])
    with pytest.raises(ChildRefused, match="made by hand"):
        await ctx.run_session("x")


def test_a_context_knows_where_each_of_its_members_is():
    """What a tool may ask of a context that the session made is what it may ask of one that was made by hand."""
    assert {member.name for member in attrs.fields(ToolContext)} == set(_MEMBERS)


@on_virtual_time
async def test_a_tool_sees_the_session_that_it_works_in(supervisor):
    """The tools and agents that there are, how the system prompt is made, and what was answered last: as of the start of the call."""
    seen: list[tuple[Any, ...]] = []
    kept: list[ToolContext] = []

    @tool
    async def look(ctx: ToolContext) -> str:
        """Look around."""
        seen.append((ctx.tools, ctx.agents, ctx.prompt_mode, ctx.last_reply))
        return "seen"

    @tool
    async def keep(ctx: ToolContext) -> str:
        """Look at nothing yet."""
        kept.append(ctx)
        return "kept"

    model = ScriptedModel(
        [wants("look"), says("One."), wants("look", "keep"), says("Two."), wants("look"), says("Three.")]
    )
    session = await supervisor.start_session(
        model=model,
        tools=[look, keep],
        agents=[Agent(name="scout", description="Finds files.")],
        prompt_mode="minimal",
    )
    for prompt in ("1", "2"):
        await session.ask(prompt)
    await session.detach_tools("keep")
    await session.ask("3")
    agents = (("scout", "Finds files."),)
    assert seen == [
        (("keep", "look"), agents, "minimal", ""),
        (("keep", "look"), agents, "minimal", "One."),
        (("look",), agents, "minimal", "Two."),
    ]
    (late,) = kept
    assert (late.tools, late.last_reply) == (("keep", "look"), "One.")


@on_virtual_time
async def test_what_ended_without_an_answer_is_no_last_reply(supervisor):
    """A cycle that was aborted before it said anything leaves the empty text."""
    seen: list[str] = []

    @tool
    async def look(ctx: ToolContext) -> str:
        """Look back."""
        seen.append(ctx.last_reply)
        return "seen"

    hanging = HangingTool()
    model = ScriptedModel([wants(hanging.name), wants("look"), says("Done.")])
    session = await supervisor.start_session(model=model, tools=[look, hanging])
    await session.prompt("Hang")
    await hanging.started.wait()
    await session.abort("enough")
    await session.ask("Look")
    assert seen == [""]


@on_virtual_time
async def test_a_context_says_the_same_whenever_it_is_asked(supervisor):
    """Its members are looked up when somebody asks, also after the call; a copy has them all, and none can be set."""
    kept: list[ToolContext] = []

    @tool
    async def keep(key: str, ctx: ToolContext) -> str:
        """Keep the context."""
        kept.append(ctx)
        assert ctx.turn == 1
        return key

    session = await supervisor.start_session(
        model=ScriptedModel([calls(("keep", {"key": "a"})), says("done")]),
        tools=[keep],
        user_data={"team": "red"},
        session_id="s-1",
    )
    await session.ask("go")
    (ctx,) = kept
    copied = attrs.evolve(ctx, turn=9)
    assert isinstance(ctx, ToolContext)
    assert (ctx.session_id, ctx.path, ctx.arguments, ctx.user_data) == (
        "s-1",
        ("s-1",),
        {"key": "a"},
        {"team": "red"},
    )
    assert (copied.turn, copied.session_id, copied.arguments) == (9, "s-1", {"key": "a"})
    assert attrs.evolve(copied, turn=ctx.turn) == attrs.evolve(ctx) == ctx
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        ctx.turn = 2
    for one in (ctx, copied):
        with pytest.raises(AttributeError, match="'ToolContext' object has no attribute 'sesion_id'"):
            one.sesion_id  # noqa: B018 - a typing error
