"""`Citations`: which citations of an answer no result of its cycle held."""

import time

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.abc import Ok
from agentrail.core.values.sources import MAX_SOURCES
from agentrail.events import CitationUnknown
from agentrail.messages import AssistantMessage, CallId, Text, ToolResult
from agentrail.plugins.citations import HeldSources, unknown_citations
from agentrail.runtime.agent import Agent
from agentrail.testing.hooks import load_stack, run_hook
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.tools.function import tool
from agentrail.tools.task import TaskTool
from tests.core.plugin_rig import CTX

SOURCES = ("travel.md#L3-L9", "report.pdf#p3-p5", "https://a.example/x#p2", "odd")


def after(stack, states, event, turn=1):
    """What comes of an event."""
    return run_hook(stack, event, states, p.Context(session_id=CTX.session_id, turn=turn))


def said(text):
    """An answer."""
    return p.AfterResponse(message=AssistantMessage(content=(Text(text=text),), model="demo:"))


def result(details, *, is_error=False):
    """What a tool gave."""
    given_result = ToolResult(
        call_id=CallId("c1"), name="kb_search", text="x", details=details, is_error=is_error
    )
    return p.AfterToolBatch(results=(given_result,))


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("[travel.md#L3-L9] and [report.pdf#p3-p5]", ()), ("a part: [travel.md#L4-L4], [report.pdf#p4], [https://a.example/x#p2]", ()),
        ("[travel.md#L2-L9]", ("travel.md#L2-L9",)), ("[travel.md#L9-L3]", ("travel.md#L9-L3",)), ("[report.pdf#p2-p3]", ("report.pdf#p2-p3",)),
        ("[travel.md#p3] [other.md#L3-L9]", ("travel.md#p3", "other.md#L3-L9")), ("[x#L1-L1] [x#L1-L1]", ("x#L1-L1",)),
        ("[link](https://a.example) [1] [ ] [odd] [x#L] x#L1-L2 [[travel.md#L3-L9]]", ()), ("", ()),
    ],
)  # fmt: skip
def test_a_citation_is_known_where_a_source_holds_it(text, unknown):
    """Whole or in part, lines by lines and pages by pages; what has another form is none."""
    assert unknown_citations(text, SOURCES) == unknown


async def test_what_an_agent_has_read_may_be_cited_by_its_leader(supervisor):
    """12.6: of one that worked for a call, and of one in the background; what none of them has read may not."""

    @tool
    async def look_up(place: str) -> Ok:
        """Look it up."""
        return Ok(text="found", details={"sources": [place]})

    def answer(request):
        if request.system == "You look.":
            place = request.messages[0].content[0].text
            return says("It is there.") if len(request.messages) > 1 else calls(("look_up", {"place": place}))
        match len(request.messages):
            case 1:
                spawn = {"agent": "scout", "task": "beside.md#L1-L2"}
                return calls(
                    ("task", {"description": "for.md#L1-L2", "subagent_type": "scout"}),
                    ("spawn_agent", spawn),
                )
            case 4:
                return calls(("wait_agents", {}))
        return says("[for.md#L1-L2] [beside.md#L1-L2] [never.md#L1-L2]")

    scout = Agent(
        name="scout", description="x", system_prompt="You look.", tools=[look_up], plugins=[], background=True
    )
    session = await supervisor.start_session(
        model=FunctionModel(answer), tools=[TaskTool()], agents=[scout], plugins=[p.Citations]
    )
    async with session.subscribe(kinds=[CitationUnknown]) as events:
        await session.ask("go")
        assert (await anext(events)).citations == ("never.md#L1-L2",)


def test_what_a_cycle_found_may_be_cited_in_it_and_in_no_other():
    """One event for a response, with what is unknown in it."""
    stack, states = load_stack([p.Citations])
    asked = after(stack, states, said("I look it up."))
    found = after(stack, asked.states, result({"sources": ["travel.md#L3-L9", 7]}), 1)
    answered = after(stack, found.states, said("[travel.md#L3-L9] [b.md#L1-L2]"), 2)
    assert [one for one in answered.events if isinstance(one, CitationUnknown)] == [
        CitationUnknown(citations=("b.md#L1-L2",))
    ]
    again = after(stack, answered.states, said("[travel.md#L3-L9]"), 1)
    assert CitationUnknown(citations=("travel.md#L3-L9",)) in again.events


@pytest.mark.parametrize(
    "event",
    [result(None), result("x"), result({"sources": "x"}), result({"sources": ["a#L1-L1"]}, is_error=True)],
)
def test_results_that_hold_no_source_change_nothing(event):
    """Details are the business of each tool."""
    stack, states = load_stack([p.Citations])
    assert after(stack, states, event).states == states


def test_sources_are_bounded():
    """The first ones are forgotten."""
    plugin, states = p.Citations(), HeldSources()
    for begin in (0, MAX_SOURCES):
        event = result({"sources": [f"a#L{one}-L{one}" for one in range(begin, begin + MAX_SOURCES)]})
        states = plugin.keep(event, states, CTX).state
    assert len(states.sources) == MAX_SOURCES
    assert states.sources[0] == f"a#L{MAX_SOURCES}-L{MAX_SOURCES}"


@given(st.text(st.sampled_from("[]#Lp19-ab\n"), max_size=80))
def test_a_source_holds_its_own_citation(text):
    """Whatever stands around it; and nothing of another form is said to be unknown."""
    assert "a.md#L1-L2" not in unknown_citations(f"{text}[a.md#L1-L2]", ("a.md#L1-L2",))
    assert all("#" in one for one in unknown_citations(text, ()))


def test_a_long_answer_is_read_in_time_that_grows_with_it():
    """A megabyte of what nearly is a citation."""
    begun = time.process_time()
    for piece in ("[", "[a", "[a#", "[a#L1-", "a#L1-L1]", "[" + "a" * 700):
        unknown_citations(piece * (200_000 // len(piece)), SOURCES)
    assert time.process_time() - begun < 2
