"""What a user always allows covers the text of a source's tool that was shown, and no other (11.5)."""

import pytest
from attrs import define

from agentrail import Agent
from agentrail.errors import CycleWaiting
from agentrail.events import AgentEnd, ApprovalRequired
from agentrail.plugins import HumanApproval
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import on_virtual_time, open_bare, open_over

FIRST, SECOND = "mcp.p 1", "mcp.p 2"
ASKING = [(HumanApproval, {"require_approval_for": ["record"]})]


@define(kw_only=True, eq=False)
class Sourced(RecordingTool):
    """A tool of a source."""

    comes_from: str = FIRST


async def asked_for(session, text="go"):
    """Prompt, and return the approval that the call waits for, or None."""
    try:
        await session.ask(text)
    except CycleWaiting as waiting:
        return waiting.pending[0]
    return None


@on_virtual_time
async def test_an_always_covers_the_text_that_was_shown():
    """Also if the tool changed while its call waited. The text of before is asked about no more when it is back."""
    async with open_bare() as supervisor:
        model = ScriptedModel([calls(("record", {})), says("done")] * 5)
        session = await supervisor.start_session(model=model, plugins=ASKING)
        await session.attach_tools(Sourced())
        waiting = await asked_for(session)
        await session.attach_tools(Sourced(comes_from=SECOND))
        await session.approve(waiting.id, kind="always")
        assert await session.collect_reply() == "done"
        assert await session.rules() == ()  # it covers no tool that is there
        await session.attach_tools(Sourced())
        assert await asked_for(session) is None
        await session.attach_tools(Sourced(comes_from=SECOND))
        waiting = await asked_for(session)
        await session.approve(waiting.id, kind="always")
        assert await session.collect_reply() == "done"
        assert [rule.tool for rule in await session.rules()] == ["record"]
        await session.attach_tools(Sourced(comes_from=SECOND))
        assert await asked_for(session) is None
        await session.attach_tools(Sourced())
        assert await asked_for(session) is not None


@pytest.mark.parametrize(("text", "is_asked"), [(FIRST, False), (SECOND, True)])
@on_virtual_time
async def test_an_always_that_a_child_passed_on_covers_its_own_text(text, is_asked):
    """The child began with the tool as it was."""

    def answer(request):
        is_child = request.messages[0].content[0].text == "below"
        names = [call.name for message in request.messages for call in getattr(message, "calls", ())]
        wanted = ["record"] if is_child else ["task", "record"]
        left = wanted[len(names) :]
        return (
            calls((left[0], {"description": "below"} if left[0] == "task" else {})) if left else says("done")
        )

    async with open_bare() as supervisor:
        options = {"model": FunctionModel(answer), "plugins": ASKING, "tools": [TaskTool()]}
        session = await supervisor.start_session(**options)
        await session.attach_tools(Sourced())
        waiting = await asked_for(session)
        await session.attach_tools(Sourced(comes_from=text))
        async with session.subscribe(kinds=[ApprovalRequired, AgentEnd]) as events:
            await session.approve(waiting.id, kind="always")
            assert isinstance(await anext(events), ApprovalRequired) == is_asked


def note_and_book():
    return (RecordingTool(name="record", description=words) for words in ("Make a note.", "Book an invoice."))


@on_virtual_time
async def test_an_always_covers_no_local_tool_that_takes_the_place_of_the_one_shown():
    """The other tool is attached later, or belongs to an agent that takes over. The first one is still covered, also after a restart."""

    def answer(request):
        text = getattr(next(iter(getattr(request.messages[-1], "content", ())), None), "text", "")
        wanted = {"over": ("handoff_to", {"agent": "scout"}), "go": ("record", {})}
        return calls(wanted[text]) if text in wanted else says("done")

    note, book = note_and_book()
    scout = Agent(name="scout", description="Looks.", system_prompt="You look.", tools=[note], handoff=True)
    options = {"model": FunctionModel(answer), "plugins": ASKING}
    store = MemoryStore()
    async with open_over(store) as supervisor:
        session = await supervisor.start_session(session_id="s", **options, tools=[book], agents=[scout])
        waiting = await asked_for(session)
        await session.approve(waiting.id, kind="always")
        assert await session.collect_reply() == "done"
        assert await asked_for(session) is None
        await session.attach_tools(note)
        waiting = await asked_for(session)
        assert waiting is not None
        await session.reject(waiting.id)
        await session.collect_reply()
        await session.attach_tools(book)
    async with open_over(store) as supervisor:
        session = await supervisor.resume_session("s", **options, tools=[book], agents=[scout])
        assert await asked_for(session) is None
        assert await asked_for(session, "over") is None
        assert await asked_for(session) is not None
        (rule,) = await session.rules()
        assert rule.words.startswith("record of another agent, or before it changed")
    assert (len(book.calls), len(note.calls)) == (3, 0)


@pytest.mark.parametrize("first", ["below", "here"])
@on_virtual_time
async def test_an_always_covers_no_tool_of_another_agent_with_the_same_name(first):
    """An agent has a tool of its own: what is allowed there is kept for later ones, and nothing is allowed for the other tool."""
    own, booked = note_and_book()

    def answer(request):
        if request.system == "You look.":
            return calls(("record", {})) if len(request.messages) == 1 else says("done")
        text = getattr(next(iter(getattr(request.messages[-1], "content", ())), None), "text", "")
        wanted = {"below": ("task", {"description": "l", "subagent_type": "scout"}), "here": ("record", {})}
        return calls(wanted[text]) if text in wanted else says("done")

    scout = Agent(name="scout", description="Looks.", system_prompt="You look.", tools=[own])
    async with open_bare() as supervisor:
        options = {"model": FunctionModel(answer), "plugins": ASKING, "tools": [TaskTool(), booked]}
        session = await supervisor.start_session(**options, agents=[scout])
        waiting = await asked_for(session, first)
        await session.approve(waiting.id, kind="always")
        await session.collect_reply()
        (rule,) = await session.rules()
        assert ("of another agent" in rule.words) == (first == "below")
        assert await asked_for(session, first) is None
        assert await asked_for(session, "here" if first == "below" else "below") is not None
        assert (len(own.calls), len(booked.calls)) == ((2, 0) if first == "below" else (0, 2))
        await session.revoke_rule(rule.rule_id)
        assert await session.rules() == ()
