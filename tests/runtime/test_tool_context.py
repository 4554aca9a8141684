"""What a running tool may ask of its session: a process, an answer of the user, a session of its own, time to clean up."""

import math
import sys
from pathlib import Path

import attrs
import pytest
import trio

from agentrail.abc import ExecuteOptions, ToolContext, ToolQuestion
from agentrail.errors import ProcessRefused
from agentrail.sandboxes.composite import CompositeSandbox
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.tools import builtin
from agentrail.tools.function import tool
from tests.runtime.rig import calling, on_virtual_time
from tests.runtime.test_sessions_of_tools import PATIENCE_SECONDS, tool_of
from tests.sandboxes.rig import make_sandbox

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
@pytest.mark.at(14, 29, 38)
@pytest.mark.parametrize("whose", ["obeys", "deaf", "child"])
async def test_an_abort_reaps_the_processes_of_a_call(supervisor, local, tmp_path, whose):
    """Also of a tool that does not hear its cancellation, and of a child; the receipt counts them, and nothing is left."""
    opened = trio.Event()

    async def work(ctx):
        with trio.CancelScope(shield=whose == "deaf"):
            process = await ctx.open_process(SLEEPS)
            await process.stdout.receive_some()
            opened.set()
            await process.wait()
        return "it has ended"

    def answer(request):
        is_above = whose == "child" and request.messages[0].content[0].text == "Hi"
        return calls(("task", {"description": "x"}) if is_above else ("work", {}))

    tools = [tool_of(work), *builtin("task")]
    async with no_orphans():
        session = await supervisor.start_session(model=FunctionModel(answer), tools=tools, sandbox=local)
        await session.prompt("Hi")
        with trio.fail_after(PATIENCE_SECONDS):
            await opened.wait()
            receipt = await session.abort()
        assert receipt.stuck == ()
        assert receipt.processes_reaped >= 3
        assert receipt.milliseconds < 4_000
        assert alive_in(tmp_path) == 0
        if whose == "child":
            assert receipt.tasks_ended == 2
        else:  # A deaf tool gave its value in spite of the stop, so nothing about it is doubtful.
            done = [call.call_id for message in (await session.messages())[1:2] for call in message.calls]
            in_doubt = [] if whose == "deaf" else done
            assert (list(receipt.committed), list(receipt.unknown)) == (done[len(in_doubt) :], in_doubt)
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


async def test_what_opens_no_process_says_so(supervisor, tmp_path):
    """A sandbox without processes refuses with a type and a code; what is no program is the author's move. Nothing was started."""
    refused = 'Tool "work" crashed: ProcessRefused: MemorySandbox cannot open processes'
    wrong = "ToolContractError: open_process takes a program and its arguments"
    for sandbox, argv, words in (
        (MemorySandbox(), ["true"], f"{refused}: use a LocalSandbox"),
        (CompositeSandbox(MemorySandbox(), {}), ["true"], refused),
        *((LocalSandbox(tmp_path), argv, wrong) for argv in ([], [""], ["a\0b"])),
    ):

        async def work(ctx, argv=argv):
            await ctx.open_process(argv)

        result = await result_of(supervisor, tool_of(work), sandbox=sandbox)
        assert words in result.text, argv
        assert ("use a LocalSandbox" in result.text) == isinstance(sandbox, MemorySandbox)


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
    assert refused == ["the call was stopped: it can no longer open processes"]
    assert alive_in(tmp_path) == 0


@pytest.mark.parametrize(
    ("question", "seconds"),
    [(" ", 1), ("Which?", 0), ("Which?", -1), ("Which?", math.inf), ("?", math.nan), ("?", 1e306)],
)
@pytest.mark.parametrize("waits_as_data", [False, True])
async def test_a_question_that_is_none_is_refused(supervisor, question, seconds, waits_as_data):
    """Empty, or with a time that is none: the author's move. One of 1e306 s crashed the session."""

    async def work(ctx):
        if waits_as_data:
            return ToolQuestion(question=question, timeout_seconds=seconds)
        return await ctx.ask_user(question, timeout_seconds=seconds)

    result = await result_of(supervisor, tool_of(work))
    words = "returned a question without words" if waits_as_data else "ToolContractError: ask_user"
    assert words in result.text


@on_virtual_time
async def test_a_context_says_the_same_whenever_it_is_asked(supervisor):
    """Its members are looked up when somebody asks, in a thread and after the call too; a copy has them all, and none can be set."""
    kept: list[ToolContext] = []

    @tool(timeout_seconds=100)
    def keep(key: str, ctx: ToolContext, path: str = ".") -> str:
        """Keep the context."""
        kept.append(ctx)
        assert ctx.turn == 1
        assert 0 < ctx.seconds_left() <= 100
        return key

    session = await supervisor.start_session(
        model=ScriptedModel([calls(("keep", {"key": "a"})), says("done")]),
        tools=[keep],
        user_data={"team": "red"},
        session_id="s-1",
        scope="acme",
        group_id="g",
    )
    assert await session.ask("go") == "done"
    assert not (await session.messages())[2].results[0].is_error
    (ctx,) = kept
    assert (ctx.depth, ctx.scope, ctx.group_id) == (0, "acme", "g")
    assert 0 < ctx.total_tokens < (await session.status()).usage.total
    copied = attrs.evolve(ctx, turn=9)
    assert isinstance(ctx, ToolContext)
    assert (ctx.session_id, ctx.path, ctx.arguments, ctx.user_data) == (
        "s-1",
        ("s-1",),
        {"key": "a", "path": "."},
        {"team": "red"},
    )
    assert (copied.turn, copied.session_id, copied.arguments) == (9, "s-1", ctx.arguments)
    assert attrs.evolve(copied, turn=ctx.turn) == attrs.evolve(ctx) == ctx
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        ctx.turn = 2
    for one in (ctx, copied):
        with pytest.raises(AttributeError, match="'ToolContext' object has no attribute 'sesion_id'"):
            one.sesion_id  # noqa: B018 - a typing error
