"""The gates of the host under Trio: a host that hangs, denies, rewrites and crashes (8.3, 8.16)."""

import logging
from typing import Any

import pytest
import trio
import trio.testing

from agentrail.abc import NO_HOST, HostCall, HostCallEnd, HostHooks, HostVerdict, Secret
from agentrail.errors import OptionError
from agentrail.events import AbortSettled, ToolBlocked, ToolExecutionEnd, ToolExecutionStart
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.plugins import PuppetPlugin, read_rule
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import CrashingTool, HangingTool, RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import on_virtual_time, only, until

AWAY = "the database is away"
SEVEN: Any = 7  # what no type checker lets through as a text


class Host:
    """A host that remembers what it was asked and told, and answers what the test wants."""

    def __init__(self, verdict=None, *, after=None):
        self.verdict, self.after = verdict, after
        self.asked: list[HostCall] = []
        self.told: list[HostCallEnd] = []
        self.asking, self.telling = trio.Event(), trio.Event()
        self.cancelled = 0

    @property
    def hooks(self) -> HostHooks:
        return HostHooks(before_tool=self.before_tool, after_tool=self.after_tool)

    async def before_tool(self, call: HostCall) -> Any:
        """Answer as the test wants; without a word about that it hangs."""
        self.asked.append(call)
        self.asking.set()
        try:
            if self.verdict is None:
                await trio.sleep_forever()
            return await self.verdict(call)
        except trio.Cancelled:
            self.cancelled += 1
            raise

    async def after_tool(self, call: HostCallEnd) -> None:
        self.told.append(call)
        self.telling.set()
        if self.after is not None:
            await self.after(call)


def answering(make):
    async def answer(call: HostCall) -> Any:
        await trio.lowlevel.checkpoint()
        return make(call)

    return answer


def raising(error):
    async def fail(call: HostCall) -> Any:
        await trio.lowlevel.checkpoint()
        raise error

    return fail


allow = answering(lambda _: HostVerdict())
crash = raising(RuntimeError(AWAY))
exits = raising(BaseExceptionGroup(AWAY, [RuntimeError("one"), ValueError("other")]))


def ends_in(events):
    return [one.result.text for one in events if isinstance(one, ToolExecutionEnd)]


def two_turns(*names: str) -> ScriptedModel:
    return ScriptedModel([calls(*((name, {"path": name}) for name in names)), says("done"), says("done")])


async def asked_of(host: Host, tools, model=None, **options):
    """Play one prompt, and give the events of its calls."""
    async with open_nameless(host=host.hooks) as supervisor:
        session = await supervisor.start_session(
            model=model or two_turns(*(tool.name for tool in tools)), tools=tools, **options
        )
        async with session.subscribe() as events:
            assert await session.ask("go", timeout_seconds=30) == "done"
            said = []
            while True:
                try:
                    said.append(events.next_nowait())
                except trio.WouldBlock:
                    return said


@on_virtual_time
async def test_a_call_is_asked_about_and_told_of():
    """With its ids and its own copy of the arguments, and with what it came to (H-050)."""
    host = Host(allow)
    read = RecordingTool(name="read", answer="a file")
    await asked_of(host, [read], session_id="s-1", user_data={"tenant_id": "acme"})
    (asked,), (told,) = host.asked, host.told
    assert (asked.session_id, asked.root_session_id, asked.tool_name) == ("s-1", "s-1", "read")
    assert (asked.input, dict(asked.user_data)) == ({"path": "read"}, {"tenant_id": "acme"})
    assert told.call_id == asked.call_id
    assert (told.result, told.is_error, told.input) == ("a file", False, {"path": "read"})


@on_virtual_time
async def test_what_a_hook_writes_to_its_copy_reaches_no_other_code():
    """Top level and nested (H-044)."""
    given = {"path": "a", "deep": [{"b": 1}]}

    def scribble(call):
        call.input["path"] = "changed"
        call.input["deep"][0]["b"] = 2
        return HostVerdict()

    host = Host(answering(scribble), after=answering(scribble))
    read = RecordingTool(name="read")
    await asked_of(host, [read], ScriptedModel([calls(("read", given)), says("done")]))
    assert read.calls == [given]
    assert host.told[0].input == {"path": "changed", "deep": [{"b": 2}]}


@on_virtual_time
async def test_the_host_hears_of_code_that_raised_and_of_code_that_ran_out_of_time():
    """And not of what was denied, unknown, or does not fit (H-050)."""
    host = Host(answering(lambda call: HostVerdict(deny="no" if call.tool_name == "deploy" else None)))
    tools = [
        CrashingTool(name="crash"),
        HangingTool(name="hang", timeout_seconds=2),
        RecordingTool(name="deploy"),
        RecordingTool(name="strict", parameters={"type": "object", "required": ["x"]}),
    ]
    model = two_turns("crash", "hang", "deploy", "strict", "unknown")
    await asked_of(host, tools, model)
    assert sorted((told.tool_name, told.is_error) for told in host.told) == [("crash", True), ("hang", True)]
    assert {told.tool_name: told.duration_ms for told in host.told}["hang"] == 2000


@on_virtual_time
async def test_a_denied_call_does_not_run():
    """The model reads why, and people see who said no (H-041)."""
    read, why = RecordingTool(name="read"), "tenant acme may not read"
    said = await asked_of(Host(answering(lambda _: HostVerdict(deny=why, by="quota"))), [read])
    assert read.calls == []
    assert [(one.reason, one.by) for one in said if isinstance(one, ToolBlocked)] == [(why, "quota")]
    assert ends_in(said) == [why]


@on_virtual_time
async def test_a_rewritten_call_runs_as_it_was_rewritten():
    """And the host's own object may change behind that (H-043)."""
    wanted = {"path": "b", "deep": [1]}
    host = Host(
        answering(lambda _: HostVerdict(input=wanted, by="audit")),
        after=answering(lambda _: wanted["deep"].append(2)),
    )
    read = RecordingTool(name="read")
    said = await asked_of(host, [read])
    assert read.calls == [{"path": "b", "deep": [1]}]
    assert [one.arguments for one in said if isinstance(one, ToolExecutionStart)] == read.calls


@on_virtual_time
@pytest.mark.parametrize(
    ("hook", "why"),
    [
        (answering(lambda _: None), "before_tool returned NoneType, expected HostVerdict"),
        (crash, "RuntimeError: the database is away"),
        (exits, "ValueError: other"),
        (
            answering(lambda _: HostVerdict(input={"path": "x" * 2_000_000})),
            "an input of more than 1,000,000 characters",
        ),
        (answering(lambda _: HostVerdict(input={"path": object()})), "an input that is not JSON: $.path"),
        (answering(lambda _: HostVerdict(input={"path": float("nan")})), "an input that is not JSON: $.path"),
        (answering(lambda _: HostVerdict(deny=SEVEN)), "deny is 7: expected the reason as text"),
        (lambda _: HostVerdict(), "TypeError"),
    ],
)
async def test_what_is_no_verdict_denies_the_call(hook, why, caplog):
    """A host that fails has not let the call run; the log has its traceback, and the session goes on (8.4, H-049)."""
    read = RecordingTool(name="read")
    with caplog.at_level(logging.ERROR):
        said = await asked_of(Host(hook), [read])
    assert read.calls == []
    (text,) = ends_in(said)
    assert text.startswith('Not run: the host could not judge this call of "read" (')
    assert why in text
    assert "could not judge" in caplog.text


@on_virtual_time
@pytest.mark.parametrize("after", [crash, exits])
async def test_a_host_that_fails_behind_a_call_changes_nothing(after, caplog):
    """The result stands, and the log says what happened (H-051)."""
    with caplog.at_level(logging.ERROR):
        said = await asked_of(Host(allow, after=after), [RecordingTool(name="read", answer="a file")])
    assert ends_in(said) == ["a file"]
    assert 'the host failed to handle the end of a call of "read"' in caplog.text


@on_virtual_time
async def test_the_secrets_of_a_session_are_in_no_denial(caplog):
    """What a hook raises may hold one (H-088)."""
    leak = raising(RuntimeError("password hunter22 refused"))
    with caplog.at_level(logging.ERROR):
        said = await asked_of(Host(leak), [RecordingTool(name="read")], user_data={"key": Secret("hunter22")})
    assert "hunter22" not in ends_in(said)[0] + caplog.text


@on_virtual_time
async def test_an_abort_ends_a_call_unrun_whose_hook_hangs():
    """At once, and the receipt comes when the hook is gone (H-091)."""
    host, read = Host(), RecordingTool(name="read")
    async with open_nameless(host=host.hooks) as supervisor:
        session = await supervisor.start_session(model=two_turns("read"), tools=[read])
        await session.prompt("go")
        await host.asking.wait()
        began = trio.current_time()
        receipt = await session.abort()
        assert trio.current_time() - began < 0.1
        assert (receipt.tasks_ended, receipt.stuck, receipt.unknown) == (1, (), ())
        assert host.cancelled == 1
        assert (read.calls, host.told) == ([], [])
        assert (await session.status()).phase == "idle"
        assert (await session.messages())[-1].results[0].text == "[Stopped: aborted by the user]"


@on_virtual_time
async def test_a_hook_that_will_not_stop_is_named_in_the_receipt():
    """After the bound of a teardown; the call was answered long before (H-091)."""

    async def deaf(call):
        with trio.CancelScope(shield=True):
            await trio.sleep(60)
        return HostVerdict()

    host, read = Host(deaf), RecordingTool(name="read")
    async with open_nameless(host=host.hooks) as supervisor:
        session = await supervisor.start_session(model=two_turns("read"), tools=[read])
        async with only(session, AbortSettled) as events:
            await session.prompt("go")
            await host.asking.wait()
            assert not (await session.abort(wait=False)).settled
            assert (await session.status()).tearing_down
            (settled,) = await until(events, AbortSettled)
        assert [left.name for left in settled.receipt.stuck] == ["host: read"]
        await trio.sleep(100)
        assert read.calls == []


@on_virtual_time
async def test_a_caller_stops_one_call_and_its_siblings_go_on():
    """While it waits for the host (H-091)."""

    async def left_alone(call):
        if call.tool_name == "left":
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return HostVerdict()

    host, right = Host(left_alone), RecordingTool(name="right")
    async with open_nameless(host=host.hooks) as supervisor:
        session = await supervisor.start_session(
            model=two_turns("left", "right"), tools=[RecordingTool(name="left"), right]
        )
        async with session.subscribe(kinds=[ToolExecutionEnd]) as events:
            await session.prompt("go")
            await anext(events)
            await session.abort_tool(host.asked[0].call_id, "not that")
            assert (await anext(events)).result.text == "[Stopped: not that]"
        assert await session.collect_reply() == "done"
        assert (len(right.calls), host.cancelled) == (1, 1)


@on_virtual_time
async def test_a_steer_skips_a_call_whose_hook_hangs():
    """The model hears of the steer at once."""
    host = Host()
    async with open_nameless(host=host.hooks) as supervisor:
        session = await supervisor.start_session(model=two_turns("read"), tools=[RecordingTool(name="read")])
        await session.prompt("go")
        await host.asking.wait()
        await session.steer("stop that")
        assert await session.collect_reply() == "done"
        assert host.cancelled == 1


@on_virtual_time
async def test_an_abort_does_not_wait_until_the_host_was_told():
    """The call keeps its result, the hook goes on, and the next prompt is taken (H-051)."""
    gone = trio.Event()

    async def slowly(call):
        await trio.sleep(60)
        gone.set()

    host = Host(allow, after=slowly)
    async with open_nameless(host=host.hooks) as supervisor:
        session = await supervisor.start_session(
            model=two_turns("read"), tools=[RecordingTool(name="read", answer="a file")]
        )
        await session.prompt("go")
        await host.telling.wait()
        began = trio.current_time()
        receipt = await session.abort()
        assert trio.current_time() - began < 0.1
        assert (receipt.tasks_ended, len(receipt.committed)) == (0, 1)
        assert (await session.messages())[-1].results[0].text == "a file"
        assert await session.ask("and now?") == "done"
        assert not gone.is_set()
        await gone.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert (await session.status()).dropped_signals == 0


@on_virtual_time
async def test_the_calls_of_children_pass_the_gates_too():
    """With the child's own id, and that of the session above all (H-053)."""

    def answer(request):
        if len(request.messages) > 1:
            return says("done")
        is_child = request.messages[0].content[0].text == "Look left"
        return calls(("read", {})) if is_child else calls(("task", {"description": "Look left"}))

    host = Host(allow)
    await asked_of(host, [TaskTool(), RecordingTool(name="read")], FunctionModel(answer), session_id="root")
    assert [(one.tool_name, one.root_session_id) for one in host.asked] == [
        ("task", "root"),
        ("read", "root"),
    ]
    assert host.asked[1].session_id.startswith("root.")
    assert [one.tool_name for one in host.told] == ["read", "task"]


@on_virtual_time
async def test_an_approval_shows_what_the_host_made_of_a_call():
    """And runs exactly that; what it makes of a person's edit is shown first: Faro was approved, Porto does not run (H-052)."""
    people = PuppetPlugin((read_rule("BeforeTool.book", "approve:it costs"),), name="people")
    host = Host(answering(lambda _: HostVerdict(input={"city": "Porto"}, by="travel")))
    book = RecordingTool(name="book")
    async with open_nameless(host=host.hooks) as supervisor:
        session = await supervisor.start_session(
            model=ScriptedModel([calls(("book", {"city": "Lisbon"})), says("done")]),
            tools=[book],
            plugins=[people],
        )
        await session.prompt("Book.")
        await trio.testing.wait_all_tasks_blocked()
        (shown,) = (await session.status()).approvals
        assert shown.arguments == {"city": "Porto"}
        await session.approve(shown.id, arguments={"city": "Faro"})
        await trio.testing.wait_all_tasks_blocked()
        (again,) = (await session.status()).approvals
        assert (again.arguments, again.hint) == ({"city": "Porto"}, "travel changed what you wrote")
        assert book.calls == []
        await session.approve(again.id)
        assert await session.collect_reply() == "done"
    assert book.calls == [{"city": "Porto"}]
    assert [call.input for call in host.asked] == [{"city": "Lisbon"}, {"city": "Faro"}]


async def test_hooks_that_cannot_be_called_are_refused():
    """All at once, where they are given."""
    with pytest.raises(OptionError) as caught:
        HostHooks(before_tool=7, after_tool="later")
    assert list(caught.value.faults) == [
        "before_tool is 7: expected an async function (`async def`), or None",
        "after_tool is 'later': expected an async function (`async def`), or None",
    ]
    with pytest.raises(OptionError, match=r"after_tool is <function .*: expected an async function"):
        HostHooks(after_tool=lambda end: None)
    with pytest.raises(OptionError) as caught:
        HostVerdict(deny=1, input="{}", by=None)
    assert list(caught.value.faults) == [
        "deny is 1: expected the reason as text, or None to let the call run",
        "input is '{}': expected a JSON object, or None to run the original call",
        "by is None: expected the name of the decider",
    ]
    assert HostHooks() == NO_HOST


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_what_is_for_the_process_leaves_a_hook_as_from_any_port(error):
    """An interruption is no verdict: it ends the program, as from a provider."""
    with pytest.raises(error):  # noqa: PT012
        async with open_nameless(host=HostHooks(before_tool=raising(error))) as supervisor:
            session = await supervisor.start_session(
                model=two_turns("read"), tools=[RecordingTool(name="read")]
            )
            await session.prompt("go")
            await trio.sleep(5)
