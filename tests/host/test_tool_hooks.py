"""The hooks of plugins at the calls of real sessions: what the model asks for, what plugins make of it, and what runs (8.3, 8.4)."""

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from attrs import evolve

from agentrail import plugins as p
from agentrail.abc import NO_HOST, Error, HostCall, Ok
from agentrail.core.journal.replay import replay
from agentrail.events import AbortSettled, ToolBlocked, ToolExecutionEnd, ToolExecutionStart
from agentrail.host.hook_payloads import Allow, Deny
from agentrail.host.plugin_chain import open_hook_runner, tool_hooks
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import CrashingTool, HangingTool, RecordingTool
from agentrail.tools.task import TaskTool
from tests.host.rig import Reports, hang, order, plugin, raising, saying
from tests.runtime.rig import on_virtual_time, only

OURS = {"tenant_id": "acme", "user_id": "ada", "agent_id": "travel"}


class Ears:
    def __init__(self):
        self.asked, self.told = [], []

    def judge(self, name, verdict=None, **members):
        """A plugin with both hooks; `verdict` is an answer, an exception, or a function of the event."""

        async def before(event):
            await trio.lowlevel.checkpoint()
            self.asked.append((name, event))
            answer = verdict(event) if callable(verdict) else verdict
            if isinstance(answer, BaseException):
                raise answer
            return Allow() if answer is None else answer

        async def after(event):
            await trio.lowlevel.checkpoint()
            self.told.append((name, event))

        return plugin(name, **{"on_before_tool_call": before, "on_after_tool_call": after, **members})


@asynccontextmanager
async def hosted(*plugins, on_plugin_error=None, reader_of=None, **options):
    """Open a supervisor whose sessions ask these plugins."""
    async with open_hook_runner(on_plugin_error=on_plugin_error or Reports().hear) as runner:
        given = () if reader_of is None else (reader_of,)
        hooks = tool_hooks(order(*plugins), runner, *given)
        async with open_nameless(host=hooks, **options) as supervisor:
            yield supervisor


def booking(*given):
    """A model that calls `book` once with each of these, in one batch."""
    wanted = given or ({"city": "Lisbon"},)
    return ScriptedModel([calls(*(("book", one) for one in wanted)), says("done")])


async def play(*plugins, tools=None, model=None, session=None, **options):
    """Play one prompt with the tool `book`. Gives the tool and the events of its calls."""
    book = RecordingTool(name="book")
    async with hosted(*plugins, **options) as supervisor:
        started = await supervisor.start_session(
            model=model or booking(), tools=tools or [book], user_data=OURS, **(session or {})
        )
        async with started.subscribe() as events:
            assert await started.ask("Book.", timeout_seconds=60) == "done"
            said = []
            while True:
                try:
                    said.append(events.next_nowait())
                except trio.WouldBlock:
                    return book, said


def results_of(said):
    return [event.result.text for event in said if isinstance(event, ToolExecutionEnd)]


@p.plugin(init=lambda: 0, priority=10, hooks=(p.BeforeTool,))
def no_porto(event, state, ctx):
    """Forbid one city, as a safety plugin of a session does."""
    if event.arguments.get("city") == "Porto":
        return p.BlockTool("never Porto", state)
    return p.Continue(state)


@p.plugin(init=lambda: 0, hooks=(p.BeforeTool,))
def people(event, state, ctx):
    """Let people decide each call."""
    return p.RequireApproval("it costs", state)


@on_virtual_time
@pytest.mark.host("H-020")
async def test_where_no_plugin_has_tool_hooks_sessions_do_not_ask():
    """Only where one has the hook is there a gate; in the core's own words."""
    asks, tells = plugin("a", on_before_tool_call=saying(Allow())), plugin("b", on_after_tool_call=hang)
    for plugins, gates in (
        ([plugin("x", on_request_start=hang)], frozenset()),
        ([asks], {"before_tool"}),
        ([tells], {"after_tool"}),
        ([asks, tells], {"before_tool", "after_tool"}),
    ):
        async with open_hook_runner() as runner:
            hooks = tool_hooks(order(*plugins), runner)
            assert (hooks is NO_HOST) is (not gates)
            assert {name for name in ("before_tool", "after_tool") if getattr(hooks, name)} == gates
            async with open_nameless(host=hooks) as supervisor:
                session = await supervisor.start_session(model=booking())
                assert session._cell.state.data.config.host_hooks == gates  # noqa: SLF001 - what no caller sees


@on_virtual_time
@pytest.mark.host("H-040")
async def test_of_what_is_no_object_the_model_hears_before_any_plugin():
    """The session lets nothing else through (gate 2), and the pipeline of the host keeps the rule by itself."""
    ears = Ears()
    book, said = await play(ears.judge("a", Deny("no")), model=booking("[1]", "5", '"text"', "null"))
    assert (ears.asked, ears.told, book.calls) == ([], [], [])
    assert len(results_of(said)) == 4
    async with open_hook_runner() as runner:
        hooks = tool_hooks(order(ears.judge("a", Deny("no"))), runner)
        call = HostCall(session_id="s", root_session_id="s", call_id="c", tool_name="book", input=[1])
        assert (await hooks.before_tool(call)).deny is None
        assert ears.asked == []
        assert (await hooks.before_tool(evolve(call, input={}))).deny == "no"


@on_virtual_time
@pytest.mark.host("H-053")
async def test_the_call_of_a_child_passes_the_hooks_with_its_own_id():
    """And with that of its root, and the same tenant and user."""
    ears, read = Ears(), RecordingTool(name="read")

    def answer(request):
        if len(request.messages) > 1:
            return says("done")
        is_child = request.messages[0].content[0].text == "Look left"
        return calls(("read", {})) if is_child else calls(("task", {"description": "Look left"}))

    async with hosted(ears.judge("a")) as supervisor:
        session = await supervisor.start_session(
            model=FunctionModel(answer), tools=[TaskTool(), read], session_id="root", user_data=OURS
        )
        assert await session.ask("go", timeout_seconds=60) == "done"
    (_, task), (_, below) = ears.asked
    assert (task.tool_name, below.tool_name) == ("task", "read")
    assert (task.context.session_id, below.context.root_session_id) == ("root", "root")
    assert below.context.session_id.startswith("root.")
    assert (below.context.tenant_id, below.context.user_id) == ("acme", "ada")
    assert [event.tool_name for _, event in ears.told] == ["read", "task"]


@on_virtual_time
@pytest.mark.host("H-041")
@pytest.mark.host("H-045")
@pytest.mark.host("H-047")
@pytest.mark.host("H-056")
async def test_the_first_denial_wins_and_the_model_reads_why():
    """The tool does not run, and no end is reported. A rewrite is checked against schema, policy and session plugins."""
    ears = Ears()
    book, said = await play(
        ears.judge("first"), ears.judge("guard", Deny("ada may not travel")), ears.judge("later")
    )
    assert [name for name, _ in ears.asked] == ["first", "guard"]
    assert (book.calls, ears.told) == ([], [])
    assert results_of(said) == ["ada may not travel"]
    blocked = [(event.by, event.reason) for event in said if isinstance(event, ToolBlocked)]
    assert blocked == [("guard", "ada may not travel")]

    ears, schema = Ears(), {"type": "object", "properties": {"city": {"type": "string"}}}
    strict = RecordingTool(name="book", parameters=schema)
    _, said = await play(ears.judge("travel", Allow({"city": 7})), tools=[strict])
    (text,) = results_of(said)
    assert "travel" in text
    assert (strict.calls, ears.told) == ([], [])

    def judge(event):
        return Deny("not Porto") if event.input["city"] == "Porto" else None

    ears, porto = Ears(), Allow({"city": "Porto"})
    policy = ears.judge("policy", judge, priority=100, fail_closed=True)
    book, said = await play(policy, ears.judge("travel", porto))
    asked = [(name, event.input["city"]) for name, event in ears.asked]
    assert asked == [("policy", "Lisbon"), ("travel", "Lisbon"), ("policy", "Porto")]
    assert (book.calls, results_of(said)) == ([], ["not Porto"])

    book, said = await play(ears.judge("travel", porto), session={"plugins": [no_porto]})
    assert (book.calls, ears.told) == ([], [])
    assert results_of(said) == ["never Porto"]


@on_virtual_time
@pytest.mark.host("H-043")
@pytest.mark.host("H-044")
@pytest.mark.host("H-055")
async def test_what_a_plugin_rewrites_runs_and_the_journal_has_both():
    """A change in place reaches no other code, top level or nested; the journal replays without any plugin."""
    wanted = {"city": "Lisbon", "stops": [{"at": "Faro"}]}
    mine = {"city": "Porto", "stops": [{"at": "Braga"}]}

    def scribble(event):
        event.input["city"] = "Nowhere"
        event.input["stops"][0]["at"] = "Nowhere"

    def rewrite(event):
        return Allow(mine) if event.input["city"] == "Lisbon" else None

    def change_mine(_event):
        mine["stops"][0]["at"] = "Nowhere"

    ears, store = Ears(), MemoryStore()
    book, said = await play(
        ears.judge("scribbles", scribble),
        ears.judge("rewrites", rewrite),
        ears.judge("late", change_mine),
        ears.judge("denies", lambda event: Deny("no") if event.input["city"] == "Rome" else None),
        model=booking(wanted, {"city": "Rome", "stops": [{"at": "Pisa"}]}),
        store=store,
        session={"session_id": "s"},
    )
    assert [event.input["city"] for name, event in ears.asked if name == "rewrites"] == ["Lisbon", "Rome"]
    ran = {"city": "Porto", "stops": [{"at": "Braga"}]}
    assert book.calls[0] == ran
    started = [event for event in said if isinstance(event, ToolExecutionStart)]
    assert started[0].arguments == ran
    records = store.read("", "s", 0, 10_000)
    replayed = replay(records)
    assert replayed.difference is None
    bodies = b"".join(record.body for record in records)
    assert b"Lisbon" in bodies
    assert b"Braga" in bodies
    assert b"Nowhere" not in bodies


@on_virtual_time
@pytest.mark.host("H-046")
@pytest.mark.host("H-049")
@pytest.mark.parametrize(
    ("hook", "kind"),
    [(raising(ValueError("s3cret")), "ValueError"), (hang, "HookTimeout"), (saying(None), "WrongAnswer")],
)
@pytest.mark.parametrize("fail_closed", [True, False])
async def test_a_hook_that_fails_denies_only_where_it_is_fail_closed(hook, kind, fail_closed):
    """It is reported either way; a forgotten verdict is such a failure. The reason names the plugin, and not what it raised."""
    ears, reports = Ears(), Reports()
    book, said = await play(
        plugin("guard", fail_closed=fail_closed, on_before_tool_call=hook),
        ears.judge("later"),
        on_plugin_error=reports.hear,
    )
    assert reports == [("guard", "on_before_tool_call", kind)]
    assert [name for name, _ in ears.asked] == ([] if fail_closed else ["later"])
    assert len(book.calls) == (0 if fail_closed else 1)
    (text,) = results_of(said)
    assert ("'guard'" in text) is fail_closed
    assert "s3cret" not in text


@on_virtual_time
@pytest.mark.host("H-052")
async def test_people_are_shown_what_plugins_made_of_a_call_and_that_runs():
    """What they write instead passes the plugins as well, and what comes of it is shown again."""
    ears, book = Ears(), RecordingTool(name="book")
    travel = ears.judge(
        "travel", lambda event: Allow({"city": "Porto"}) if event.input["city"] != "Porto" else None
    )
    async with hosted(travel) as supervisor:
        session = await supervisor.start_session(model=booking(), tools=[book], plugins=[people])
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
    assert [event.input["city"] for _, event in ears.asked] == ["Lisbon", "Faro"]


@on_virtual_time
@pytest.mark.host("H-050")
async def test_plugins_hear_of_each_call_whose_code_has_ended():
    """Results and errors are reported. Denied, unknown, malformed, rejected and aborted calls are not."""
    ears = Ears()
    tools = [
        RecordingTool(name="good", answer=Ok(text="fine")),
        RecordingTool(name="bad", answer=Error(text="broken")),
        CrashingTool(name="crash"),
        RecordingTool(name="denied"),
        RecordingTool(name="strict", parameters={"type": "object", "required": ["x"]}),
    ]
    names = (*(tool.name for tool in tools), "unknown")
    model = ScriptedModel([calls(*((name, {}) for name in names)), says("done")])
    await play(
        ears.judge("a", lambda event: Deny("no") if event.tool_name == "denied" else None),
        tools=tools,
        model=model,
    )
    told = {event.tool_name: (event.is_error, event.result) for _, event in ears.told}
    errors = {name: is_error for name, (is_error, _) in told.items()}
    assert errors == {"good": False, "bad": True, "crash": True}
    assert told["good"][1] == "fine"
    assert len(ears.told) == 3

    ears = Ears()
    async with hosted(ears.judge("a")) as supervisor:
        session = await supervisor.start_session(
            model=booking(), tools=[RecordingTool(name="book")], plugins=[people]
        )
        await session.prompt("Book.")
        await trio.testing.wait_all_tasks_blocked()
        await session.reject((await session.status()).approvals[0].id, "no", auto_resume=True)
        assert await session.collect_reply() == "done"
        slow = HangingTool(name="book")
        session = await supervisor.start_session(model=booking(), tools=[slow])
        await session.prompt("Book.")
        await slow.started.wait()
        await session.abort()
    assert len(ears.asked) == 2
    assert ears.told == []


@on_virtual_time
@pytest.mark.host("H-051")
@pytest.mark.parametrize(
    ("hook", "kind", "seconds"), [(raising(ValueError()), "ValueError", 0), (hang, "HookTimeout", 3)]
)
async def test_an_after_hook_that_fails_leaves_the_result_as_it_is(hook, kind, seconds):
    """It costs its timeout at most, and the next plugin hears of the call."""
    ears, reports = Ears(), Reports()
    began = trio.current_time()
    _, said = await play(
        plugin("audit", on_after_tool_call=hook, timeouts={"on_after_tool_call": 3}),
        ears.judge("later"),
        on_plugin_error=reports.hear,
    )
    assert trio.current_time() - began == pytest.approx(seconds, abs=0.1)
    assert results_of(said) == ["recorded"]
    assert reports == [("audit", "on_after_tool_call", kind)]
    assert [name for name, _ in ears.told] == ["later"]


@on_virtual_time
@pytest.mark.host("H-051")
@pytest.mark.host("H-091")
async def test_an_abort_waits_for_no_after_hook_and_ends_a_before_hook():
    """The call keeps the result that it had; one that was still judged did not run."""
    begun = trio.Event()

    async def begin_and_hang(_event):
        begun.set()
        await trio.sleep_forever()

    for hook, text in (
        ("on_after_tool_call", "recorded"),
        ("on_before_tool_call", "[Stopped: aborted by the user]"),
    ):
        begun = trio.Event()
        book, reports = RecordingTool(name="book"), Reports()
        async with hosted(plugin("a", **{hook: begin_and_hang}), on_plugin_error=reports.hear) as supervisor:
            session = await supervisor.start_session(model=booking(), tools=[book])
            await session.prompt("Book.")
            await begun.wait()
            began = trio.current_time()
            await session.abort()
            assert trio.current_time() - began < 0.1
            assert (await session.messages())[-1].results[0].text == text
        assert reports == []
        assert len(book.calls) == (1 if hook == "on_after_tool_call" else 0)


@on_virtual_time
@pytest.mark.host("H-091")
@pytest.mark.parametrize(("seconds", "named"), [(3, []), (60, ["host: book"])])
async def test_a_hook_that_will_not_stop_is_gone_or_named_when_the_receipt_comes(seconds, named):
    """Left behind by the runner after a second, it would be neither."""
    begun, gone = trio.Event(), trio.Event()

    async def deaf(_event):
        begun.set()
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds)
        gone.set()

    reports = Reports()
    async with hosted(plugin("a", on_before_tool_call=deaf), on_plugin_error=reports.hear) as supervisor:
        session = await supervisor.start_session(model=booking(), tools=[RecordingTool(name="book")])
        async with only(session, AbortSettled) as events:
            await session.prompt("Book.")
            await begun.wait()
            await session.abort(wait=False)
            receipt = (await anext(events)).receipt
        assert [one.name for one in receipt.stuck] == named
        assert gone.is_set() is (not named)
    assert reports == []
