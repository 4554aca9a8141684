"""Agents with permissions, plugins and answers of their own: never more than their session may, and its guards always stay (12.2)."""

import pytest
import trio

from agentrail import plugins as p
from agentrail.abc import ToolContext
from agentrail.blueprints import Blueprint
from agentrail.errors import OptionError, PluginError
from agentrail.events import SessionRestarted, SubagentEvent, ToolExecutionStart
from agentrail.host.identity import OWN_KEYS
from agentrail.plugins import Permissions
from agentrail.runtime.agent import SAYS_WHOSE, Agent
from agentrail.testing.cancelling import crash
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.tools import HangingTool, RecordingTool
from agentrail.tools.function import tool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import eventually
from tests.runtime.test_resumed_sessions import Process, fresh, open_again


class Counting(p.Plugin[int]):
    """Counts the requests that it hears of; guards nothing."""

    def init(self, *, begin: int = 0) -> int:
        return begin

    @p.on(p.BeforeRequest)
    def count(self, event: p.BeforeRequest, state: int, ctx: p.Context) -> p.Action[int]:
        """Say the number in the system prompt, and count on."""
        return p.Continue(state + 1, emits=(("counted", {"by": self.name, "n": state}),))


class Guarding(Counting):
    priority = 20


class Raising(p.Plugin[int]):
    """Has no state to begin with."""

    def init(self) -> int:
        message = "no"
        raise ValueError(message)


def agent(**options):
    return Agent(**({"name": "scout", "description": "Looks.", "system_prompt": "You look."} | options))


def leader(*wanted, kind="scout"):
    """A model that lets the agent work first; the agent makes calls and says what came of them."""

    def answer(request):
        if (request.system or "").startswith("You look."):
            if len(request.messages) == 1:
                return calls(*wanted)
            return says(" | ".join(one.text for one in request.messages[-1].results))
        if len(request.messages) == 1:
            return calls(("task", {"description": "Look.", "subagent_type": kind}))
        return says(request.messages[-1].results[0].text)

    return FunctionModel(answer)


async def test_a_child_may_do_what_both_allow(supervisor):
    """What one of the two denies does not run, whatever the other allows; and its session goes on as before."""
    tools = [RecordingTool(name=name, answer=f"{name} ran") for name in ("look", "pay", "send")]
    rules = {"mode": "dont_ask", "allow": ["look", "pay", "task"]}
    session = await supervisor.start_session(
        model=leader(("look", {}), ("pay", {}), ("send", {})),
        tools=[*tools, TaskTool()],
        plugins=[(Permissions, rules)],
        agents=[agent(permissions={"mode": "dont_ask", "allow": ["look", "send"]})],
    )
    said = await session.ask("go")
    assert [len(one.calls) for one in tools] == [1, 0, 0]
    assert said.count("Not run") == 2
    assert said.startswith("look ran")


async def test_without_rules_of_its_session_an_agent_has_its_own(supervisor):
    """The plugin comes with the child, and not to the session."""
    tools = [RecordingTool(name=name, answer=f"{name} ran") for name in ("look", "pay")]
    session = await supervisor.start_session(
        model=leader(("look", {}), ("pay", {})),
        tools=[*tools, TaskTool()],
        agents=[agent(permissions={"deny": ["pay"]})],
    )
    assert (await session.ask("go")).startswith("look ran | Not run: the rule pay")
    assert (await session.status()).plugins == ()


async def test_a_child_begins_with_guards_as_they_are_and_plugins_of_its_own(supervisor):
    """Options that changed since the start count; what guards nothing gives way; without any all are there."""

    async def plugins_of(one):
        session = await supervisor.start_session(
            model=leader(("look", {})),
            tools=[RecordingTool(name="look"), TaskTool()],
            plugins=[(Counting, {"begin": 3}), (Guarding, {"begin": 4})],
            agents=[one],
        )
        await session.update_plugin_opts("Guarding", begin=40)
        async with session.subscribe(kinds=[SubagentEvent]) as events:
            await session.ask("go")
            found = []
            async for event in events:
                inner = event.event
                if getattr(inner, "name", "") == "counted":
                    found.append((inner.payload["by"], inner.payload["n"]))
                if type(inner).__name__ == "AgentEnd":
                    break
        return found

    assert await plugins_of(agent()) == [("Guarding", 40), ("Counting", 3), ("Guarding", 41), ("Counting", 4)]
    own = Counting(name="Own")
    named = await plugins_of(agent(plugins=[(own, {"begin": 7}), (Guarding, {"begin": 4})]))
    assert named == [("Guarding", 40), ("Own", 7), ("Guarding", 41), ("Own", 8)]


async def test_an_answer_of_a_shape_of_its_own(supervisor):
    """The parent's model reads the JSON; the shape of its own answers is not that of the child (12.2.1)."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    own = {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"]}
    read = []

    def answer(request):
        if request.system == "You look.":
            return says("in src" if len(request.messages) == 1 else '{"path": "src"}')
        if len(request.messages) == 1:
            return calls(("task", {"description": "Look.", "subagent_type": "scout"}))
        read.append(request.messages[-1].results[0].text)
        return says('{"done": true}')

    session = await supervisor.start_session(
        model=FunctionModel(answer), tools=[TaskTool()], agents=[agent(result=schema)], response_format=own
    )
    assert await session.ask("go") == '{"done": true}'
    assert read == ['{"path": "src"}']


async def test_an_agent_is_made_of_a_blueprint(supervisor):
    """What it does not say itself is that of the blueprint, but for its name and description."""
    look = RecordingTool(name="look", answer="look ran")
    base = Blueprint(
        "base", system_prompt="You look.", tools=[look], max_turns=3, plugins=[Counting], background=True
    )
    made = Agent(name="scout", description="Looks.", blueprint=base, max_turns=5)
    assert (made.name, made.description, made.max_turns, made.background) == ("scout", "Looks.", 5, True)
    assert (list(made.tools), list(made.plugins)) == ([look], [Counting])
    session = await supervisor.start_session(model=leader(("look", {})), tools=[TaskTool()], agents=[made])
    assert await session.ask("go") == "look ran"
    with pytest.raises(OptionError, match="max_retries cannot be set here"):
        Agent(name="x", description="x", blueprint=Blueprint(max_retries=1))
    for wrong in (Blueprint, 7):
        with pytest.raises(OptionError, match="expected a Blueprint, or None"):
            Agent(name="x", description="x", blueprint=wrong)


async def test_an_agent_has_data_and_deps_of_its_own(supervisor):
    """12.2: its tools see these; whose the session is, and what it does not name, is that of the session."""
    seen = {}

    @tool
    async def look(ctx: ToolContext) -> str:
        """Look."""
        seen[ctx.session_id] = (dict(ctx.user_data), ctx.deps)
        return "ran"

    pools = {"session": object(), "agent": object()}
    session = await supervisor.start_session(
        model=leader(("look", {})),
        tools=[TaskTool(), look],
        user_data={"region": "north", "user_id": "ada"},
        deps=pools["session"],
        agents=[agent(user_data={"region": "south"}, deps=pools["agent"]), agent(name="other")],
        session_id="boss",
    )
    assert await session.ask("go") == "ran"
    assert [*seen.values()] == [({"region": "south", "user_id": "ada"}, pools["agent"])]
    assert (await supervisor.facts_of("boss")).user_data == {"region": "north", "user_id": "ada"}
    other = await supervisor.start_session(
        model=leader(("look", {}), kind="other"),
        tools=[TaskTool(), look],
        deps=1,
        agents=[agent(name="other")],
    )
    await other.ask("go")
    assert [*seen.values()][1:] == [({}, 1)]


def test_keys_that_say_whose_a_session_is_are_those_of_the_host():
    """Who may see a session below is decided by them: an agent that could set one would give its work to another user."""
    assert SAYS_WHOSE == OWN_KEYS


async def test_an_agent_whose_tools_want_other_deps_is_refused(supervisor):
    """Before anything starts, with its name; one that may take the session over is held against what the session has too."""

    @tool
    async def query(ctx: ToolContext[dict]) -> str:
        """Ask."""
        return "ran"

    async def started(**said):
        scout = agent(tools=[query], **said)
        return await supervisor.start_session(model=leader(), agents=[scout])

    for said in ({}, {"deps": 7}, {"deps": {}, "handoff": True}):
        with pytest.raises(OptionError, match=r"agent 'scout': .*tool 'query' takes a ToolContext"):
            await started(**said)
    await started(deps={})


@pytest.mark.check
async def test_an_agent_comes_back_with_what_is_its_own():
    """9.3: its data, what its tools work with, and its tools, also where one of them is named like one of its session."""
    inner, back, seen = fresh(), trio.Event(), []

    class Look(RecordingTool):
        async def execute(self, arguments, ctx):
            seen.append((self.answer, dict(ctx.user_data), ctx.deps))
            return await super().execute(arguments, ctx)

    def answer(request):
        if request.system == "You look.":
            if not back.is_set():
                return calls(("hang", {}))
            return says("found") if seen else calls(("look", {}))
        match len(request.messages):
            case 1:
                return calls(("spawn_agent", {"agent": "scout", "task": "Look."}))
            case 3:
                return calls(("wait_agents", {}))
        return says("done")

    hanging = HangingTool(name="hang")
    options = {
        "model": FunctionModel(answer),
        "tools": [Look(name="look", answer="its session's")],
        "agents": [
            agent(
                tools=[Look(name="look", answer="its own"), hanging],
                user_data={"region": "south"},
                deps="a pool",
                background=True,
            )
        ],
    }
    async with Process(inner) as supervisor:
        session = await supervisor.start_session(session_id="boss", user_data={"user_id": "ada"}, **options)
        async with session.subscribe(kinds=[ToolExecutionStart, SubagentEvent]) as events:
            await session.prompt("go")
            with trio.fail_after(60):
                await eventually(lambda: len(hanging.calls) == 1)
                async for event in events:  # what is published is in the store
                    if getattr(event, "name", "") == "wait_agents":
                        break
    back.set()
    async with open_again(inner) as supervisor:
        session = await supervisor.resume_session("boss", **options)
        with trio.fail_after(60):
            assert await session.collect_reply() == "done"
    assert seen == [("its own", {"region": "south", "user_id": "ada"}, "a pool")]


async def test_plugins_of_agents_are_looked_at_before_anything_starts(supervisor):
    """One that cannot be loaded, one named like another guard of the session, and rules that nothing would hold after a handoff."""
    for one, kind, fault in (
        (agent(plugins=[Raising]), PluginError, "init"),
        (agent(plugins=[Counting, Counting]), PluginError, "two plugins are named 'Counting'"),
        (agent(plugins=[(Guarding, {"begin": 9})]), OptionError, "has the name of a guard of the session"),
        (
            agent(permissions={"deny": ["x"]}, handoff=True),
            OptionError,
            "give the session the plugin Permissions",
        ),
    ):
        with pytest.raises(kind, match=fault):
            await supervisor.start_session(model=leader(), plugins=[Guarding], agents=[one])
    session = await supervisor.start_session(
        model=leader(), plugins=[Guarding], agents=[agent(plugins=[Guarding])]
    )
    await session.stop()


def clerk(**options):
    """An agent that may take the session over."""
    return Agent(
        name="clerk", description="Pays.", **({"system_prompt": "You pay.", "handoff": True} | options)
    )


def handing_over(*wanted):
    """A model that hands the session over, then makes calls, and says what came of them."""

    def answer(request):
        said = len([one for one in request.messages if type(one).__name__ == "AssistantMessage"])
        if said == 0:
            return calls(("handoff_to", {"agent": "clerk"}))
        if said == 1:
            return calls(*wanted)
        return says(" | ".join(one.text for one in request.messages[-1].results) if said == 2 else "ok")

    return FunctionModel(answer)


async def test_plugins_of_the_other_agent_come_and_guards_stay_with_their_states(supervisor, autojump_clock):
    """The guard counts on, the others are the new agent's, after a crash too (12.2.8)."""
    session = await supervisor.start_session(
        model=handing_over(("look", {})),
        tools=[RecordingTool(name="look")],
        plugins=[(Counting, {"begin": 3}), (Guarding, {"begin": 40})],
        agents=[clerk(plugins=[(Counting(name="Own"), {"begin": 7})])],
    )
    async with session.subscribe() as events:
        await session.ask("go")
        found = []
        async for event in events:
            if getattr(event, "name", "") == "counted":
                found.append((event.payload["by"], event.payload["n"]))
            if type(event).__name__ == "AgentEnd":
                break
    assert found == [
        ("Guarding", 40),
        ("Counting", 3),
        ("Guarding", 41),
        ("Own", 7),
        ("Guarding", 42),
        ("Own", 8),
    ]
    async with session.subscribe(kinds=[SessionRestarted]) as events:
        crash(session)
        await anext(events)
    assert [one.name for one in (await session.status()).plugins] == ["Guarding", "Own"]
