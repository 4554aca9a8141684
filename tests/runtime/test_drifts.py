"""Code that changed between two lives: the journal says which calls ran, and what it cannot settle is parked until somebody decides."""

import pytest
import trio

from agentrail.abc.store import Filters
from agentrail.core.journal.fold import Sources
from agentrail.core.journal.record import decode_drifted
from agentrail.core.journal.replay import replay
from agentrail.errors import JournalDrifted, OptionError
from agentrail.events import ApprovalRequired, ToolExecutionEnd
from agentrail.messages import ToolMessage
from agentrail.runtime.session_loader import PluginFinder
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.plugins import PuppetPlugin, PuppetRule
from agentrail.testing.tools import RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import calling, kinds_in, on_virtual_time, result_texts, saying, until, wants
from tests.runtime.test_resumed_sessions import UNKNOWN, Process, Reconciled, fresh, open_again, wants_task

pytestmark = on_virtual_time


class NoSnapshots(MemoryStore):
    """A store that lost every snapshot, as if each of its processes had been killed."""

    def put_snapshot(self, snapshot):
        """Lose it."""


def guard(action, text="", hook="BeforeTool"):
    """A guard that answers one hook in one way; `none` for a guard that allows all."""
    rules = () if action == "none" else (PuppetRule(hook=hook, tool=None, action=action, text=text),)
    # It listens to a hook that says nothing, so that its hooks are never empty.
    return PuppetPlugin(
        (*rules, PuppetRule(hook="BeforeSteering", tool=None, action="emit", text="seen")),
        name="guard",
        priority=50,
    )


def once():
    return RecordingTool(name="once", effect_class="once")


async def lived(inner, tool, plugin, decide=None):
    """Let a session call a tool, have it decided where it waits, and be killed; return its messages."""
    async with Process(inner) as supervisor:
        model = calling("once")
        session = await supervisor.start_session(
            model=model, tools=[tool], plugins=[plugin], session_id="s-1"
        )
        async with session.subscribe() as events:
            if plugin.rules[0].action == "approve":
                await session.prompt("Go")
                asked = (await until(events, ApprovalRequired))[-1].approval
                if decide is not None:
                    await getattr(session, decide)(asked.id)
                    await until(events, ToolExecutionEnd)
                    await session.collect_reply()
            else:
                await session.ask("Go")
        return await session.messages()


async def back(inner, tool, plugin, **options):
    """Bring it back with other code; return its messages, results, and what waits."""
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session(
            "s-1", model=saying("x"), tools=[tool], plugins=[plugin], **options
        )
        status = await session.status()
        return await session.messages(), status


@pytest.mark.parametrize(
    ("older", "decide", "newer"),
    [
        *(("none", None, newer) for newer in ("block", "approve", "abort", "raise", "args")),
        *(("block", None, newer) for newer in ("none", "approve")),
        *(("approve", decide, newer) for decide in ("approve", "reject") for newer in ("none", "block")),
    ],
)
async def test_another_guard_changes_nothing_about_a_call_that_was_settled(older, decide, newer):
    """Its verdict is set aside: a record names the call that ran, and none the one that was refused, which does not run now."""
    inner, tool = fresh(), once()
    before = await lived(inner, tool, guard(older, "no"), decide)
    after, status = await back(inner, tool, guard(newer, '{"other": 1}' if newer == "args" else "no"))
    assert [type(one) for one in after] == [type(one) for one in before]
    assert after == before or older == "block"
    assert (status.phase, status.suspended) == ("idle", False)
    assert len(tool.calls) == (older == "none" or decide == "approve")
    # One that crashes says so with an event: a drift of words, with which it goes on.
    assert ("drifted" in kinds_in(inner)) == (newer == "raise")


@pytest.mark.parametrize("newer", ["none", "block"])
async def test_a_call_that_waits_for_a_person_still_waits(newer):
    """What the person decides then counts."""
    inner, tool = fresh(), once()
    await lived(inner, tool, guard("approve", "sure?"))
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session(
            "s-1", model=saying("done"), tools=[tool], plugins=[guard(newer, "no")]
        )
        (waiting,) = (await session.status()).approvals
        await session.approve(waiting.id)
        assert await session.collect_reply() == "done"
    assert len(tool.calls) == 1
    assert "drifted" not in kinds_in(inner)


# --- what the journal cannot settle


def refusing_prompts():
    """Newer code that refuses every prompt: it folds to a session that never asked its model."""
    return guard("abort", "closed", hook="BeforePrompt")


async def test_a_drift_of_deeds_parks_the_session_and_says_how_to_go_on(caplog):
    """Nothing of it is touched, and the others come back."""
    inner, tool = fresh(), once()
    await lived(inner, tool, guard("none"))
    before = inner.read("", "s-1")

    def give(_opening):
        return {"model": saying("x"), "tools": [tool], "plugins": [refusing_prompts()]}

    async with open_again(inner, revive=give) as supervisor:
        with pytest.raises(JournalDrifted, match=r"parked.*on_drift='go_on'") as caught:
            await supervisor.resume_session("s-1")
        assert caught.value.plugin == "guard"
        assert caught.value.operation.startswith("start_stream ")
        (failed,) = await supervisor.resume_all("all")
        assert type(failed.error) is JournalDrifted
        assert "1 sessions are parked because of plugin 'guard'; the first is s-1: record " in caplog.text
        assert "s-1" in [one.session_id for one in supervisor.parked_sessions()]
        assert [one.reason for one in supervisor.parked_sessions()] == [str(failed.error)]
        with pytest.raises(OptionError, match="on_drift"):
            await supervisor.resume_session("s-1", on_drift="refuse")
    assert inner.read("", "s-1") == before


class Pay(Reconciled):
    """A tool of any class that says when it hangs."""

    def __init__(self, **options):
        super().__init__(name="pay", **options)
        self.started = trio.Event()

    def _begin(self, arguments, ctx):
        super()._begin(arguments, ctx)
        self.started.set()


@pytest.mark.parametrize("effect_class", ["once", "reconcilable", "idempotent"])
async def test_going_on_runs_nothing_again_that_a_record_names(effect_class):
    """An equal call is answered as unknown until a prompt comes that was not there yet; harmless ones run."""
    inner = fresh()
    tool = Pay(effect_class=effect_class, hangs=True)
    model = ScriptedModel([wants("pay")])
    async with Process(inner) as supervisor:
        session = await supervisor.start_session(
            model=model, tools=[tool], plugins=[guard("none")], session_id="s-1"
        )
        await session.prompt("Go")
        await tool.started.wait()
    again = Pay(effect_class=effect_class)
    # Newer code adds to each prompt, and waits for a file first: other requests, with other numbers.
    newer = guard("wait", "notes.md", hook="BeforePrompt")
    paying = FunctionModel(
        lambda request: says("done") if isinstance(request.messages[-1], ToolMessage) else calls(("pay", {}))
    )
    given = {"model": paying, "tools": [again], "plugins": [newer]}
    async with open_again(inner) as supervisor:
        with pytest.raises(JournalDrifted):
            await supervisor.resume_session("s-1", **given)
        session = await supervisor.resume_session("s-1", on_drift="go_on", **given)
        assert await session.collect_reply() == "done"
        assert await result_texts(session) == ([UNKNOWN] if effect_class != "idempotent" else ["run again"])
        assert len(again.calls) == (effect_class == "idempotent")
        assert await session.ask("Again") == "done"
        assert len(again.calls) == 1 + (effect_class == "idempotent")
        whole = await session.messages()
    assert kinds_in(inner).count("drifted") == 1
    async with open_again(inner) as supervisor:  # and the next owner begins with the state in that record
        session = await supervisor.resume_session("s-1", **given)
        assert await session.messages() == whole
    assert kinds_in(inner).count("drifted") == 1
    records = inner.read("", "s-1")
    assert decode_drifted(next(one for one in records if one.kind == "drifted").body).has_state
    sources = Sources(resolve=PluginFinder({"guard": newer}), blob=inner.blob)
    assert replay(records, sources).difference is None


async def test_a_second_drift_does_not_forget_what_the_first_one_doubted():
    """The call was answered as unknown in the life between, so no record of that one names it."""
    inner = NoSnapshots(lease_ms=0)
    tool, free = Pay(effect_class="once", hangs=True), RecordingTool(name="free", effect_class="idempotent")
    async with Process(inner) as supervisor:
        session = await supervisor.start_session(
            model=ScriptedModel([wants("pay")]), tools=[tool, free], plugins=[guard("none")], session_id="s-1"
        )
        await session.prompt("Go")
        await tool.started.wait()
        await session.prompt("More")
    again = Pay(effect_class="once")

    def pay(request):
        is_answered = isinstance(request.messages[-1], ToolMessage)
        return says("done") if is_answered else calls(("pay", {}), ("free", {}))

    for newer in (guard("wait", "notes.md", hook="BeforePrompt"), guard("none")):
        async with Process(inner) as supervisor:
            session = await supervisor.resume_session(
                "s-1", on_drift="go_on", model=FunctionModel(pay), tools=[again, free], plugins=[newer]
            )
            async with session.subscribe() as events:
                while (await session.status()).phase != "idle":
                    await anext(events)
    assert not again.calls
    assert kinds_in(inner).count("drifted") == 2


@pytest.mark.parametrize("below", [False, True])
async def test_a_planned_stop_in_mid_cycle_parks_nobody(below):
    """Newer code folds nothing of what was lived, of sub-agents neither: each session left its state and what had begun."""
    inner, tool = fresh(), Pay(effect_class="once", hangs=True)
    turns = [*([wants_task()] if below else []), wants("pay")]
    async with open_again(inner) as supervisor:
        session = await supervisor.start_session(
            model=ScriptedModel(turns), tools=[tool, TaskTool()], plugins=[guard("none")], session_id="s-1"
        )
        await session.prompt("Go")
        await tool.started.wait()
    again = Pay(effect_class="once")
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session(
            "s-1",
            model=FunctionModel(lambda _: says("done")),
            tools=[again, TaskTool()],
            plugins=[refusing_prompts()],
        )
        assert await session.collect_reply() == "done"
    assert not again.calls
    every = inner.find(Filters(), limit=10)
    assert len(every) == 1 + below
    assert all("drifted" not in [one.kind for one in inner.read("", found.session)] for found in every)


async def test_an_explanation_with_another_guard_shows_the_difference():
    """The guard is asked once. Its present refusal is not shown as the cause of a call that ran."""
    inner, tool = NoSnapshots(), once()
    await lived(inner, tool, guard("none"))
    (ran,) = [one.seq for one in inner.read("", "s-1") if "run_tool" in one.does]
    async with open_again(inner) as supervisor:
        step = await supervisor.explain_record("s-1", ran, plugins=[guard("block", "not today")])
    (run,) = step.runs
    assert (run.outcome.action, run.outcome.by) == ("BlockTool", "guard")
    assert step.drift is not None
    assert "run_tool" in step.drift
    assert step.signal.begun_by == ran - 2
    assert "run_tool" not in [effect.kind for effect in step.effects]
