"""Commands that run on behind their call: begun by `shell`, read and stopped by two other tools, ended with the session (12.9)."""

import re
import sys
from contextlib import asynccontextmanager

import pytest
import trio

from agentrail.abc import ToolContext
from agentrail.errors import ProcessRefused, ToolContractError
from agentrail.events import AgentEnd, ToolExecutionEnd
from agentrail.messages import ToolMessage, UserMessage
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.orphans import no_orphans
from agentrail.tools import builtin
from agentrail.tools.function import tool
from tests.runtime.rig import on_virtual_time, only, until, until_status
from tests.sandboxes.rig import make_sandbox

TOOLS = builtin("shell", "shell_output", "shell_stop", "sleep")
BACKGROUND = ("shell", {"command": "serve", "background": True})


class PretendedProcess:
    """Prints what the test says, and ends when the test says, or when it is stopped."""

    pid = 1

    def __init__(self):
        self.prints, self.stdout = trio.testing.memory_stream_one_way_pair()
        self.stdin, self.read = trio.testing.memory_stream_one_way_pair()
        self.code = None
        self.is_stopped = False
        self._ended = trio.Event()

    def end(self, code):
        if self.code is None:
            self.code = code
            self._ended.set()
            self.prints.close()

    async def wait(self):
        await self._ended.wait()
        return self.code

    async def stop(self):
        self.is_stopped = True
        await trio.lowlevel.checkpoint()


class Workshop(MemorySandbox):
    def __init__(self):
        super().__init__()
        self.opened = []
        self.options = []

    @asynccontextmanager
    async def open_process(self, argv, options):
        """Open one, and see that it is left."""
        assert argv[:2] == ("sh", "-c")
        self.options.append((argv[-1], options))
        if argv[-1] == "nothing":
            message = "Commands are disabled here."
            raise ProcessRefused(message, code="unsupported")
        process = PretendedProcess()
        self.opened.append(process)
        try:
            yield process
        finally:
            process.is_stopped = True
            process.end(-15)


def notes_in(messages):
    noted = [said for said in messages if isinstance(said, UserMessage) and said.origin == "note"]
    return [block.text for said in noted for block in said.content]


def id_in(request):
    return re.match(r"sh-\w+", results_in_history(request.messages)[0])[0]


def acting(*answers):
    """Make a model whose answers are functions of what was said, or answers."""
    left = list(answers)

    def answer(request):
        said = left.pop(0) if left else says("done")
        return said(request) if callable(said) else said

    return FunctionModel(answer)


async def start(supervisor, model, sandbox, **options):
    return await supervisor.start_session(model=model, tools=TOOLS, sandbox=sandbox, **options)


@on_virtual_time
async def test_a_command_is_begun_read_and_its_end_is_told(supervisor):
    """The call is answered while it runs, longer than any call may; what it prints is read once; how it ended is told before the next turn."""
    workshop = Workshop()

    def look(request):
        return calls(("shell_output", {"id": id_in(request)}))

    model = acting(calls(BACKGROUND), calls(("sleep", {"seconds": 20})), look, says("later"), look, look)
    session = await start(supervisor, model, workshop, tool_timeout_seconds=1)
    async with session.subscribe() as events:
        await session.prompt("Serve.")
        await until(events, ToolExecutionEnd)
        (process,) = workshop.opened
        await process.prints.send_all(b"\x1b[1mready\x1b[0m on 8000\r\n")
        await until(events, AgentEnd)
        status = await session.status()
        assert [(one.name, one.survivor, one.detached) for one in status.running_tools] == [
            ("shell", True, True)
        ]
        await trio.sleep(600)
        process.end(3)
        await until_status(session, lambda now: not now.running_tools)
        await session.ask("How is it?")
    begun, slept, first, second, third = results_in_history(await session.messages())
    assert re.fullmatch(r"sh-\w+ runs in the background\. .*", begun)
    assert slept == "[Slept 20 s]"
    assert first == "ready on 8000\n[still running · 20.0 s]"
    assert second == "[nothing new · exit code 3 · 620.0 s]" == third
    (note,) = notes_in(await session.messages())
    assert re.fullmatch(
        r"\[shell, call \S+, is over in the background: sh-\w+ has ended \(exit code 3\)\. .*\]", note
    )
    assert workshop.options[0][1].timeout_seconds > 3_600
    await supervisor.stop_session(session.session_id)


def results_in_history(messages):
    return [one.text for said in messages if isinstance(said, ToolMessage) for one in said.results]


@on_virtual_time
async def test_it_is_stopped_by_its_id(supervisor):
    """With its last words; another time it says the same, and no other id is known."""
    workshop = Workshop()

    def stop(request):
        return calls(("shell_stop", {"id": id_in(request)}), ("shell_stop", {"id": "sh-other"}))

    model = acting(calls(BACKGROUND), stop, lambda request: calls(("shell_stop", {"id": id_in(request)})))
    session = await start(supervisor, model, workshop)
    async with session.subscribe() as events:
        await session.prompt("Serve, and stop.")
        await until(events, ToolExecutionEnd)
        await workshop.opened[0].prints.send_all(b"half a line")
        await until(events, AgentEnd)
    begun, stopped, unknown, again = results_in_history(await session.messages())
    assert workshop.opened[0].is_stopped
    assert (stopped, again) == ("half a line\n[stopped · 0.0 s]", "[nothing new · stopped · 0.0 s]")
    assert unknown.startswith("No command 'sh-other' is known here")
    assert unknown.endswith("Running: none.") or "serve" in unknown
    assert begun
    await supervisor.stop_session(session.session_id)


@on_virtual_time
@pytest.mark.parametrize("kill", ["killable", "none", "all"])
async def test_only_an_abort_of_all_ends_it(supervisor, kill):
    """It is named among the survivors of the receipt; or it is gone when the receipt comes, and may have taken effect."""
    workshop = Workshop()
    model = acting(calls(BACKGROUND), calls(("sleep", {"seconds": 100})))
    session = await start(supervisor, model, workshop)
    async with only(session, ToolExecutionEnd) as ended:
        await session.prompt("Serve.")
        call_id = (await anext(ended)).call_id
        receipt = await session.abort(kill_tools=kill)
    spared = kill != "all"
    assert receipt.survivors == ((call_id,) if spared else ())
    assert receipt.unknown == (() if spared else (call_id,))
    assert receipt.stuck == ()
    assert workshop.opened[0].is_stopped is not spared
    await supervisor.stop_session(session.session_id)
    assert workshop.opened[0].is_stopped


@on_virtual_time
async def test_where_no_process_can_be_opened_the_call_says_so(supervisor):
    """A sandbox that opens none, one that refuses this one, and a command that is none: errors, and no id."""
    for sandbox, command, said in (
        (MemorySandbox(), "serve", "MemorySandbox cannot open processes"),
        (Workshop(), "nothing", "Commands are disabled here."),
        (
            Workshop(),
            "a\0b",
            "The command contains a NUL or a lone surrogate, which is not allowed. Remove it.",
        ),
    ):
        model = acting(calls(("shell", {"command": command, "background": True})))
        session = await start(supervisor, model, sandbox)
        await session.ask("Serve.")
        (result,) = results_in_history(await session.messages())
        assert result.startswith(said)
        assert not (await session.status()).running_tools
        await supervisor.stop_session(session.session_id)


@on_virtual_time
async def test_the_ninth_is_not_begun(supervisor):
    """Eight in one batch run; the ninth names them, and no process was opened for it. When one has ended there is room again."""
    workshop = Workshop()
    begin = [("shell", {"command": f"serve {number}", "background": True}) for number in range(9)]
    model = acting(calls(*begin), says("Eight."), calls(begin[8]))
    session = await start(supervisor, model, workshop, max_parallel_tools=9)
    await session.ask("Serve.")
    refused = [
        one for one in results_in_history(await session.messages()) if "runs in the background." not in one
    ]
    assert len(refused) == 1  # whichever came last
    assert refused[0].startswith("Not started: 8 commands are already running in the background")
    assert refused[0].count("(serve ") == 8
    assert len(workshop.opened) == 8
    workshop.opened[0].end(0)
    await until_status(session, lambda now: len(now.running_tools) == 7)
    await session.ask("One more.")
    assert len(workshop.opened) == 9
    await supervisor.stop_session(session.session_id)
    assert all(process.is_stopped for process in workshop.opened)


@on_virtual_time
async def test_any_tool_may_go_on_in_the_background(supervisor):
    """From a thread too; it answers once, with what may be an answer, and what it says at its end is a note that is not too long."""
    faults = []
    go = trio.Event()

    @tool
    def watch(ctx: ToolContext) -> str:
        """Watch."""
        for given in ((1, None), ("text", object())):
            with pytest.raises(ToolContractError):
                ctx.detach(*given)
        ctx.detach("I watch.", {"n": 1})
        with pytest.raises(ToolContractError, match="already called"):
            ctx.detach("again")
        faults.append("as expected")
        trio.from_thread.run(go.wait)
        return "x" * 5_000

    model = acting(calls(("watch", {})), says("It watches."))
    session = await supervisor.start_session(model=model, tools=[watch])
    async with only(session, ToolExecutionEnd) as ended:
        await session.ask("Watch.")
        end = await anext(ended)
    assert (end.result.text, dict(end.result.details)) == ("I watch.", {"n": 1})
    go.set()
    await until_status(session, lambda now: not now.running_tools)
    await session.ask("So?")
    (note,) = notes_in(await session.messages())
    assert note.endswith("x…]")
    assert len(note) < 2_100
    assert faults
    await supervisor.stop_session(session.session_id)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
@pytest.mark.parametrize("mode", ["unconfined", pytest.param("confined", marks=pytest.mark.check)])
async def test_a_real_command_prints_and_leaves_nothing(supervisor, tmp_path, monkeypatch, mode):
    """A shell runs it, what it starts is ended with it, and behind the session there is no process, task or descriptor."""
    sandbox = make_sandbox(mode, tmp_path, monkeypatch)
    deaf = "trap '' TERM; " if mode == "confined" else ""
    line = f"{deaf}sleep 600 & echo one; echo two >&2; touch begun; wait"

    async with no_orphans():
        model = acting(calls(("shell", {"command": line, "background": True})), says("It runs."))
        session = await start(supervisor, model, sandbox)
        with trio.fail_after(60):
            await session.ask("Serve.")
            while not tmp_path.joinpath("begun").exists():  # noqa: ASYNC110 - nothing tells
                await trio.sleep(0.005)
            receipt = await session.abort(kill_tools="all")
        assert receipt.stuck == ()
        assert receipt.processes_reaped >= 2
        await supervisor.stop_session(session.session_id)
    await sandbox.aclose()
