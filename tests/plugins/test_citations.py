"""`Citations`: which citations of an answer no result of its cycle held."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.events import CitationUnknown
from agentrail.messages import AssistantMessage, CallId, Text, ToolResult
from agentrail.plugins.citations import unknown_citations
from agentrail.testing.hooks import load_stack, run_hook
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


@given(st.text(st.sampled_from("[]#Lp19-ab\n"), max_size=80))
def test_a_source_holds_its_own_citation(text):
    """Whatever stands around it; and nothing of another form is said to be unknown."""
    assert "a.md#L1-L2" not in unknown_citations(f"{text}[a.md#L1-L2]", ("a.md#L1-L2",))
    assert all("#" in one for one in unknown_citations(text, ()))
