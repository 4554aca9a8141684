"""A tool that came while a session ran comes back with it, from where it can be imported; one that is gone is taken away, and said."""

import sys

import pytest
import trio
from attrs import field, frozen

from agentrail import tool
from agentrail.abc import Ok
from agentrail.core.protocol.signals import ChangeTools
from agentrail.errors import OptionError, Unrevivable
from agentrail.events import AgentEnd, ApprovalRequired, SessionRecovered, ToolDetached, ToolsUpdated
from agentrail.messages import JsonObject
from agentrail.plugins.human_approval import HumanApproval
from agentrail.runtime.agent import Agent
from agentrail.runtime.tool_origins import tool_origin
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import (
    calling,
    eventually,
    kinds,
    kinds_in,
    on_virtual_time,
    open_over,
    saying,
    until,
    wants,
)
from tests.runtime.test_resumed_sessions import Process, Reconciled, fresh, open_again, results, wants_task

pytestmark = on_virtual_time

HERE = sys.modules[__name__]


@tool
def look() -> str:
    """Look something up."""
    return "looked"


class Plain(RecordingTool):
    """Made without arguments."""


@frozen(kw_only=True)
class Rooted:
    """A tool that may be given where to read."""

    name: str = "rooted"
    description: str = "Reads below a directory."
    parameters: JsonObject = field(factory=lambda: {"type": "object"})
    root: str = "/"

    async def execute(self, arguments, ctx):
        await trio.lowlevel.checkpoint()
        return Ok(text=f"below {self.root}")


class Hidden(Rooted):
    """A tool whose argument shows nowhere."""

    def __init__(self, where="/"):
        super().__init__(root=where)


BELOW_SRV = Rooted(root="/srv")


def _plain_function() -> str:
    """Do nothing."""
    return ""


WRAPPED = tool(_plain_function)


# --- where they come from


async def test_an_origin_is_where_the_very_tool_is_found_again():
    """By its name in its module; by its class where that makes the same one; else there is none."""
    assert tool_origin(look) == f"{__name__}:look"
    assert tool_origin(BELOW_SRV) == f"{__name__}:BELOW_SRV"
    assert tool_origin(WRAPPED) == f"{__name__}:WRAPPED"
    assert tool_origin(Rooted()) == f"{__name__}:Rooted"
    assert tool_origin(TaskTool()) == "agentrail.tools.task:TaskTool"


@pytest.mark.parametrize(
    "bare", [Rooted(root="/srv"), Hidden(), RecordingTool(answer="other")], ids=["given", "hidden", "answer"]
)
async def test_a_tool_that_would_come_back_as_another_one_is_refused(bare):
    """What it was made with is not stored, so its class alone would give one that reads elsewhere."""
    assert tool_origin(bare) is None
    async with open_again(fresh()) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        with pytest.raises(OptionError, match=r"package\.module:NAME.*store='memory:'"):
            await session.attach_tools(bare)
    async with open_over(MemoryStore()) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        await session.attach_tools(bare)
        await supervisor.rest("s-1")
        with pytest.raises(Unrevivable, match=f"tool {bare.name!r}"):
            await supervisor.resume_session("s-1", model=saying("a"))


# --- they come back


@pytest.mark.parametrize("snapshot", [False, True])
async def test_tools_that_can_be_imported_come_back_without_being_given(snapshot):
    """From a journal and from a snapshot; the very object that stands there; and they work."""
    inner = fresh()
    model = calling("look", "rooted", "record")
    async with open_again(inner) if snapshot else Process(inner) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        await session.attach_tools(look, BELOW_SRV, Plain())
        await session.ask("Hi")
        await session.switch_model(saying())
    assert bool(inner.snapshots("", "s-1")) is snapshot
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("s-1", model=model)
        async with session.subscribe() as events:
            await session.prompt("Use them")
            seen = kinds(await until(events, AgentEnd))
        assert "ToolDetached" not in seen
        texts = {
            result.text for message in await session.messages() for result in getattr(message, "results", ())
        }
        assert texts == {"looked", "below /srv", "recorded"}
    given = RecordingTool(
        name="look"
    )  # as of plugins, one that is given counts before the one that stands there
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("s-1", model=calling("look"), tools=[given])
        await session.ask("Hi")
    assert len(given.calls) == 1


async def test_a_child_that_had_it_from_its_parent_has_it_again():
    """Also one that came to the parent alone."""
    inner = fresh()
    hang = HangingTool(effect_class="pure")
    async with Process(inner) as supervisor:
        session = await supervisor.start_session(
            model=ScriptedModel([wants_task(), wants("hang")]), tools=[TaskTool(), hang], session_id="s-1"
        )
        await session.attach_tools(look)
        await session.prompt("Hi")
        await hang.started.wait()
    async with open_again(inner) as supervisor:
        model = ScriptedModel([wants("look"), says("from the child"), says("done")])
        again = RecordingTool(name="hang", effect_class="pure")
        session = await supervisor.resume_session("s-1", model=model, tools=[TaskTool(), again])
        assert await session.collect_reply() == "done"
        assert await results(session) == ["from the child"]


# --- they are gone


BY_CLASS = {
    "once": HangingTool(name="once"),
    "pure": HangingTool(name="pure", effect_class="pure"),
    "idempotent": HangingTool(name="idempotent", effect_class="idempotent"),
    "reconcilable": Reconciled(name="reconcilable", effect_class="reconcilable", hangs=True),
}
ONCE, PURE, IDEMPOTENT, RECONCILABLE = BY_CLASS.values()


async def test_open_calls_of_tools_that_are_gone_end_as_unknown_and_the_tools_are_detached(monkeypatch):
    """Whatever they promised: nothing can be run again, or asked. The event comes before any request, and once."""
    inner = fresh()
    async with Process(inner) as supervisor:
        model = ScriptedModel([wants(*BY_CLASS)])
        session = await supervisor.start_session(model=model, tools=[RecordingTool()], session_id="s-1")
        await session.attach_tools(*BY_CLASS.values())
        await session.prompt("Hi")
        await eventually(lambda: all(one.calls for one in (ONCE, PURE, IDEMPOTENT)))
        await trio.sleep(0.05)
    for name in ("ONCE", "PURE", "IDEMPOTENT", "RECONCILABLE"):
        monkeypatch.delattr(HERE, name)
    for _ in range(2):
        async with open_again(inner) as supervisor:
            model = saying("done")
            session = await supervisor.resume_session("s-1", model=model, tools=[RecordingTool()])
            async with session.subscribe(after=0) as events:
                await session.collect_reply()
                last = (await session.status()).last_seq
                seen = []
                while not seen or seen[-1].meta.seq < last:
                    seen.append(await anext(events))
        detached = [one.name for one in seen if isinstance(one, ToolDetached)]
        assert sorted(detached) == sorted(BY_CLASS)
        names = kinds(seen)
        assert names.index("ToolsUpdated") < names.index("SessionRecovered")
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("x"), tools=[RecordingTool()])
        texts = [text.partition(":")[0] for text in await results(session)]
    assert texts == ["[Outcome unknown"] * 4
    assert kinds_in(inner).count("change_tools") == 2


async def test_a_call_that_waits_for_a_person_is_not_run_when_its_tool_is_gone(monkeypatch):
    """The card is there as before; a click says that the tool is not, and the model is shown no such tool."""
    inner = fresh()
    guard = [(HumanApproval, {"require_approval_for": ["look"]})]
    monkeypatch.setattr(HERE, "look", look)
    async with Process(inner) as supervisor:
        session = await supervisor.start_session(
            model=ScriptedModel([wants("look")]), plugins=guard, session_id="s-1"
        )
        await session.attach_tools(look)
        async with session.subscribe() as events:
            await session.prompt("Hi")
            await until(events, ApprovalRequired)
    monkeypatch.delattr(HERE, "look")
    async with open_again(inner) as supervisor:
        model = saying("done")
        session = await supervisor.resume_session("s-1", model=model, plugins=guard)
        async with session.subscribe(after=0) as events:
            seen = await until(events, SessionRecovered)
        assert any(isinstance(one, ToolsUpdated) for one in seen)
        (card,) = (await session.status()).approvals
        await session.approve(card.id)
        assert await session.collect_reply() == "done"
        assert await results(session) == ["[Not run: the tool is not there any more]"]
        assert not model.requests[0].tools.names


def amounts(*required):
    """Return the schema of an amount and a currency, of which some are required."""
    properties = {"amount": {"type": "integer"}, "currency": {"type": "string"}}
    return {"type": "object", "properties": properties, "required": list(required)}


@pytest.mark.parametrize("snapshot", [False, True])
@pytest.mark.parametrize("fits", [False, True])
async def test_an_approved_call_is_validated_against_the_schema_that_its_tool_has_by_then(snapshot, fits):
    """The user approved the arguments of another tool. Those that the tool still takes run, and only as shown."""
    inner, guard = fresh(), [(HumanApproval, {"require_approval_for": ["pay"]})]
    async with open_again(inner) if snapshot else Process(inner) as supervisor:
        session = await supervisor.start_session(
            model=ScriptedModel([calls(("pay", {"amount": 100}))]),
            tools=[RecordingTool(name="pay", parameters=amounts("amount"))],
            plugins=guard,
            session_id="s-1",
        )
        async with session.subscribe() as events:
            await session.prompt("Hi")
            await until(events, ApprovalRequired)
    pay = RecordingTool(name="pay", parameters=amounts() if fits else amounts("currency"))
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("done"), tools=[pay], plugins=guard)
        (card,) = (await session.status()).approvals
        await session.approve(card.id)
        assert await session.collect_reply() == "done"
        (text,) = await results(session)
        assert pay.calls == ([{"amount": 100}] if fits else [])
        assert fits or text == (
            'Not run: "pay" has changed since the call was checked, and its arguments no longer fit: $.currency is required.'
        )


@pytest.mark.parametrize("effect_class", ["idempotent", "reconcilable"])
async def test_a_call_is_repeated_only_if_the_tool_of_its_name_still_takes_its_arguments(effect_class):
    """Asking what became of it needs no arguments."""
    inner = fresh()
    hanging = Reconciled(name="pay", effect_class=effect_class, parameters=amounts("amount"), hangs=True)
    async with Process(inner) as supervisor:
        model = ScriptedModel([calls(("pay", {"amount": 100}))])
        session = await supervisor.start_session(model=model, tools=[hanging], session_id="s-1")
        await session.prompt("Hi")
        await hanging.started.wait()
    pay = Reconciled(name="pay", effect_class=effect_class, parameters=amounts("currency"))
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("done"), tools=[pay])
        assert await session.collect_reply() == "done"
        (text,) = await results(session)
        assert pay.calls == []
        if effect_class == "idempotent":
            assert text.startswith('Not run: "pay" has changed since the call was checked')
            assert text.endswith("required. An earlier attempt may have taken effect.")
        else:
            assert text == "it was done"


async def test_a_tool_that_raises_when_it_is_imported_or_has_another_name_is_gone(monkeypatch):
    """It ends no resumption."""
    inner = fresh()
    async with open_again(inner) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        await session.attach_tools(look, BELOW_SRV, Plain())

    def broken(self, **given):
        del self, given
        message = "no"
        raise RuntimeError(message)

    monkeypatch.setattr(Plain, "__init__", broken)
    monkeypatch.setattr(HERE, "look", RecordingTool(name="another"))
    monkeypatch.setattr(HERE, "BELOW_SRV", object())
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("b"))
        await session.ask("Hi")
        assert not session._cell.state.data.tools.names  # noqa: SLF001 - what the model is shown
    assert ChangeTools.__struct_config__.tag in kinds_in(inner)


@pytest.mark.parametrize("snapshot", [False, True])
async def test_a_tool_that_was_changed_is_shown_to_the_model_as_it_is(snapshot):
    """The model was shown the old schema, and its calls fitted either that or the code, so that none ran. An equal tool changes nothing."""
    inner, agents = fresh(), [Agent(name="scout", description="Looks.")]
    async with open_again(inner) if snapshot else Process(inner) as supervisor:
        old = RecordingTool(name="pay", parameters=amounts("amount"))
        session = await supervisor.start_session(
            model=saying("a"), tools=[old, TaskTool()], agents=agents, session_id="s-1"
        )
        await session.ask("Hi")
    for _ in range(2):
        pay = RecordingTool(name="pay", parameters=amounts("currency"), effect_class="pure")
        model = ScriptedModel([calls(("pay", {"currency": "EUR"})), says("done")])
        async with open_again(inner) as supervisor:
            session = await supervisor.resume_session(
                "s-1", model=model, tools=[pay, TaskTool()], agents=agents
            )
            async with session.subscribe(after=0) as events:
                updated = await until(events, SessionRecovered)
            assert kinds(updated).count("ToolsUpdated") == 1
            assert await session.ask("Hi") == "done"
            assert session._cell.state.data.tools.get("pay").effect_class == "pure"  # noqa: SLF001 - what decides
        assert model.requests[0].tools.get("pay").parameters == amounts("currency")
        assert pay.calls == [{"currency": "EUR"}]
        assert kinds_in(inner).count(ChangeTools.__struct_config__.tag) == 1


async def test_a_tool_that_cannot_be_described_any_more_keeps_its_description(monkeypatch):
    """The session is already taken over when its tools are compared, and its calls still have that code."""
    inner = fresh()
    async with open_again(inner) as supervisor:
        session = await supervisor.start_session(model=saying("a"), session_id="s-1")
        await session.attach_tools(look)
    monkeypatch.setattr(HERE, "look", RecordingTool(name="look", description=" "))
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("b"))
        assert await session.ask("Hi") == "b"
        assert session._cell.state.data.tools.get("look").description == "Look something up."  # noqa: SLF001


# --- tools of agents that take the session over


async def _all_results(session):
    messages = await session.messages()
    return [result.text for message in messages for result in getattr(message, "results", ())]


def agent(name, *tools):
    return Agent(name=name, description="Works.", handoff=True, tools=tools or None)


HANDOVER = calls(("handoff_to", {"agent": "clerk"}))


@pytest.mark.parametrize("snapshot", [False, True])
@pytest.mark.parametrize("is_acting", [False, True])
@pytest.mark.parametrize("name", ["pay", "draw"])
async def test_an_agent_keeps_its_own_tools_if_the_code_lists_agents_in_another_order(
    name, is_acting, snapshot
):
    """The tool of another agent ran in its place, or the session crashed. The model is shown the tools that the agent has now."""
    inner = fresh()
    async with open_again(inner) if snapshot else Process(inner) as supervisor:
        session = await supervisor.start_session(
            model=ScriptedModel([HANDOVER, says("a")] if is_acting else [says("a")]),
            agents=[agent("clerk", RecordingTool(name="pay", parameters=amounts("amount")))],
            session_id="s-1",
        )
        await session.ask("Hi")
    pay = RecordingTool(name="pay", parameters=amounts("currency"))
    of_another = RecordingTool(name=name)
    paying = [calls(("pay", {"currency": "EUR"})), says("done")]
    for turns in ([*([] if is_acting else [HANDOVER]), *paying], paying):
        async with open_again(inner) as supervisor:
            model = ScriptedModel(turns)
            session = await supervisor.resume_session(
                "s-1", model=model, agents=[agent("artist", of_another), agent("clerk", pay)]
            )
            assert await session.ask("Go on") == "done"
            assert model.requests[-1].tools.get("pay").parameters == amounts("currency")
    assert pay.calls == [{"currency": "EUR"}] * 2
    assert not of_another.calls
    assert kinds_in(inner).count(ChangeTools.__struct_config__.tag) == 1


async def test_an_agent_without_tools_of_its_own_any_more_has_those_of_the_session():
    """A handoff raised KeyError for the tools that it had."""
    inner = fresh()
    async with Process(inner) as supervisor:
        session = await supervisor.start_session(
            model=saying("a"),
            tools=[look],
            agents=[agent("clerk", RecordingTool(name="pay"))],
            session_id="s-1",
        )
        await session.ask("Hi")
    async with open_again(inner) as supervisor:
        model = ScriptedModel([HANDOVER, calls(("look", {})), says("done")])
        session = await supervisor.resume_session("s-1", model=model, tools=[look], agents=[agent("clerk")])
        assert await session.ask("Go on") == "done"
        assert set(model.requests[-1].tools.names) == {"look", "handoff_to"}
        assert "looked" in await _all_results(session)


def _offered(request):
    """The agents that each tool names: in its schema, and in its text."""
    return {
        spec.name: (
            spec.parameters["properties"].get("agent", {}).get("enum"),
            [line.split(":")[0][2:] for line in spec.description.splitlines() if line.startswith("- ")],
        )
        for spec in request.tools
        if spec.name in {"handoff_to", "spawn_agent", "task"}
    }


@pytest.mark.parametrize("how", ["resume", "switch", "attach"])
async def test_a_session_offers_the_agents_that_it_accepts(how):
    """Tools listed agents that came into the code after the start of the session, which refused them."""
    inner, task = fresh(), TaskTool()
    clerk, artist = [
        Agent(name=name, description="Works.", handoff=True, background=True) for name in ("clerk", "artist")
    ]
    async with Process(inner) as supervisor:
        session = await supervisor.start_session(
            model=saying("a"), agents=[clerk], tools=[task], session_id="s-1"
        )
        await session.ask("Hi")
    model = saying("b", "c")
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("s-1", model=model, agents=[artist, clerk], tools=[task])
        if how == "switch":
            await session.switch_model(model)
        elif how == "attach":
            await session.attach_tools(task)
        await session.ask("Go on")
        own = {name: (["clerk"], ["clerk"]) for name in ("handoff_to", "spawn_agent")}
        assert _offered(model.requests[0]) == own | {"task": (None, ["clerk", "general-purpose"])}
        fork = await session.fork(tools=[task])
        await fork.ask("Go on")
        every = {name: (["artist", "clerk"],) * 2 for name in own}
        assert _offered(model.requests[1]) == every | {"task": (None, ["artist", "clerk", "general-purpose"])}
        assert [one.name for one in fork._cell.state.data.config.agents] == ["artist", "clerk"]  # noqa: SLF001


@pytest.mark.parametrize("how", ["fork", "rewind"])
async def test_an_agent_of_the_past_has_tools_of_the_present(how):
    """A fork or a rewind to before the resumption crashed over tools that the agent had then."""
    inner = fresh()
    async with Process(inner) as supervisor:
        tools = RecordingTool(name="pay"), RecordingTool(name="lost")
        session = await supervisor.start_session(
            model=saying("a"), agents=[agent("clerk", *tools)], session_id="s-1"
        )
        await session.ask("Hi")
    pay = RecordingTool(name="pay")
    async with open_again(inner) as supervisor:
        model = ScriptedModel([HANDOVER, calls(("pay", {}), ("lost", {})), says("done")])
        session = await supervisor.resume_session("s-1", model=model, agents=[agent("clerk", pay)])
        if how == "fork":
            session = await session.fork(turn=1)
        else:
            await session.rewind(turn=1)
        assert await session.ask("Go on") == "done"
        assert 'Unknown tool "lost". Tools: handoff_to, pay.' in await _all_results(session)
    assert pay.calls == [{}]
