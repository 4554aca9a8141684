"""A crash can be read: one record of level error with its traceback, and the place in what the caller reads (X-006)."""

import logging
import re

import pytest
import structlog
import trio

from agentrail import ToolContext, plugins as p, tool
from agentrail.abc import HostHooks, Secret
from agentrail.core.protocol.signals import Prompt
from agentrail.core.session.machine import step
from agentrail.errors import AgentrailError, CycleFailed, InternalError, PluginError
from agentrail.events import PluginFailed, PromptRejected, SessionParked, SessionRestarted, ToolExecutionEnd
from agentrail.runtime.interpreter import Interpreter
from agentrail.testing.models import FunctionModel
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from tests.runtime.doors import Reader, calls_then, says_ok
from tests.runtime.rig import NoSandbox, open_with, saying, until

pytestmark = pytest.mark.experience("X-006")

PLACE = r"\(runtime/test_crash_records\.py:\d+ in \w+\)"
SECRET = "sk-very-secret-1"  # noqa: S105 - of nobody


class Bug(Exception):
    """Planted."""


def plant(*_args, **_options):
    """Raise, and say more than may be told."""
    message = f"planted {SECRET}"
    raise Bug(message)


@pytest.fixture
def records(caplog):
    caplog.set_level(logging.ERROR)
    return lambda: [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def check(records, said):
    """Hold the one record, and what the caller read."""
    (told,) = records()
    assert "Traceback (most recent call last)" in told
    assert re.search(r'tests/runtime/test_crash_records\.py", line \d+, in plant', told)
    assert re.search(PLACE, said), said
    for text in (told, said):
        assert SECRET not in text
        assert "planted Secret(…)" in text


OPTIONS = {"user_data": {"key": Secret(SECRET)}}


async def test_a_bug_in_step(supervisor, records, monkeypatch):
    """Whoever asked reads it as an internal error, and the session goes on."""
    session = await supervisor.start_session(model=saying("ok", "ok"), **OPTIONS)
    with monkeypatch.context() as patch:
        patch.setattr(
            "agentrail.runtime.session_actor.step",
            lambda state, signal: plant() if isinstance(signal, Prompt) else step(state, signal),
        )
        with pytest.raises(InternalError) as caught:
            await session.ask("go")
    check(records, str(caught.value))
    assert await session.ask("again") == "ok"


class Guard(p.Plugin[int]):
    def init(self) -> int:
        return 0

    @p.on(p.BeforePrompt)
    def judge(self, event, state, ctx):
        plant()


async def test_a_bug_in_a_handler_of_a_plugin(supervisor, records):
    """`PluginFailed` names the place."""
    session = await supervisor.start_session(model=saying("ok"), plugins=[Guard], **OPTIONS)
    async with session.subscribe() as events:
        await session.prompt("go")
        failed = (await until(events, PluginFailed))[-1]
    check(records, failed.error.message)
    (told,) = records()
    assert "plugin 'Guard' crashed on BeforePrompt: Bug: planted Secret(…)" in told


async def test_a_bug_in_a_plugin_that_may_refuse(supervisor, records):
    """Whoever prompted reads which plugin it was, what it raised, and where."""

    class Closed(Guard):
        on_error = "closed"

    session = await supervisor.start_session(model=saying("ok"), plugins=[Closed], **OPTIONS)
    async with session.subscribe() as events:
        with pytest.raises(AgentrailError) as caught:
            await session.ask("go")
        rejected = (await until(events, PromptRejected))[-1]
    for said in (str(caught.value), rejected.reason):
        assert re.search(r"plugin 'Closed' failed: (PluginCrashed: )?Bug: planted", said)
        check(records, said)


async def test_a_bug_in_the_start_of_a_plugin(supervisor, records):
    """`PluginError` names the place; also of one that comes later."""

    class Bad(Guard):
        def init(self) -> int:
            plant()
            return 0

    with pytest.raises(PluginError) as caught:
        await supervisor.start_session(model=saying(), plugins=[Bad], **OPTIONS)
    assert re.search(PLACE, str(caught.value))
    assert len(records()) == 1
    session = await supervisor.start_session(model=saying(), **OPTIONS)
    with pytest.raises(PluginError) as caught:
        await session.attach_plugin(Bad)
    assert re.search(PLACE, str(caught.value))
    assert len(records()) == 2


async def test_a_bug_before_a_session_begins_is_told_once(supervisor, records):
    """The first step is taken twice, once to see: that is one crash. A crash of the next session is another one."""

    class Open(Guard):
        on_error = "open"

        @p.on(p.SessionStarted)
        def begin(self, event, state, ctx):
            plant()

    for number in (1, 2):
        session = await supervisor.start_session(model=saying(), plugins=[Open], **OPTIONS)
        await session.status()
        assert len(records()) == number


async def test_a_bug_in_a_sandbox(records):
    """The plugin that asked for a file reads the place; and where it cannot be closed, the log alone is told."""

    class Torn(NoSandbox):
        read = aclose = plant

    answers = []

    class Tells(Reader):
        @p.on(p.RequestDone)
        def take(self, event, state, ctx):
            answers.append(event.result.error.message)
            return p.Continue(state)

    async with open_with([Torn()]) as supervisor:
        session = await supervisor.start_session(model=saying("ok"), plugins=[Tells], **OPTIONS)
        assert await session.ask("go") == "ok"
        check(records, answers[0])
        await session.stop()
        await session.monitor().wait()
    assert len(records()) == 2
    assert "the sandbox could not be closed (Bug: planted Secret(…)" in records()[1]


async def raise_for_the_host(_call):
    """Fail as a hook of a host does."""
    await trio.lowlevel.checkpoint()
    return plant()


async def ended_under(hooks):
    """Let a session call a tool under a host, and give what became of the call."""
    async with open_nameless(host=hooks) as supervisor:
        session = await supervisor.start_session(
            model=calls_then("read"), tools=[RecordingTool(name="read", answer="a file")], **OPTIONS
        )
        async with session.subscribe() as events:
            await session.prompt("go")
            return (await until(events, ToolExecutionEnd))[-1]


async def test_a_bug_in_a_hook_of_the_host(records, caplog):
    """Before a call, what takes its place names the bug and the place; after it the result stands, and the record alone says so."""
    ended = await ended_under(HostHooks(before_tool=raise_for_the_host))
    assert ended.result.text.startswith('Not run: the host could not judge this call of "read" (Bug: planted')
    check(records, ended.result.text)
    caplog.clear()
    ended = await ended_under(HostHooks(after_tool=raise_for_the_host))
    assert ended.result.text == "a file"
    (told,) = records()
    check(records, told.partition("\n")[0])


async def test_a_bug_in_a_provider(supervisor, records, caplog):
    """`CycleFailed` names the place. A program that set structlog up has the record there, once and nowhere else, with its traceback."""
    session = await supervisor.start_session(model=FunctionModel(plant), **OPTIONS)
    with pytest.raises(CycleFailed) as caught:
        await session.ask("go")
    check(records, str(caught.value))
    caplog.clear()
    with structlog.testing.capture_logs() as logs:
        session = await supervisor.start_session(model=FunctionModel(plant), **OPTIONS)
        with pytest.raises(CycleFailed) as caught:
            await session.ask("go")
    (log,) = [log for log in logs if log["log_level"] not in {"debug", "info"}]
    assert log["log_level"] == "error"
    assert log["event"] in str(caught.value)
    assert re.search(r'tests/runtime/test_crash_records\.py", line \d+, in plant', log["exception"])
    assert SECRET not in str(log)
    assert records() == []


async def test_a_bug_in_a_tool(supervisor, records):
    """The model reads what it was, and no place: whoever mends it reads the log."""

    @tool
    async def bad(ctx: ToolContext) -> str:
        """Bad."""
        return str(plant())

    session = await supervisor.start_session(model=calls_then("bad"), tools=[bad], **OPTIONS)
    async with session.subscribe() as events:
        await session.prompt("go")
        ended = (await until(events, ToolExecutionEnd))[-1]
    assert ended.result.text == 'Tool "bad" crashed: Bug: planted Secret(…)'
    assert len(records()) == 1
    assert SECRET not in records()[0]


async def test_a_bug_in_an_actor(supervisor, records, monkeypatch):
    """`SessionRestarted` names the place, and so does the end of one that crashes too often."""
    session = await supervisor.start_session(model=says_ok(), **OPTIONS)
    await session.ask("go")
    async with session.subscribe() as events:
        with monkeypatch.context() as patch:
            patch.setattr(Interpreter, "carry_out", plant)
            for _ in range(3):  # each answer crashes it again
                with trio.move_on_after(0.01):
                    await session.status()
            restarted = await until(events, SessionParked)
    said = [event.reason for event in restarted if isinstance(event, SessionRestarted | SessionParked)]
    assert all(re.search(PLACE, one) and SECRET not in one for one in said)
    assert len(records()) == 3
    assert all("Traceback" in told and SECRET not in told for told in records())
