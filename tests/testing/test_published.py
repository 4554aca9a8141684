"""`events_of`, `expect` and `tree`: what was published, said in a line, and drawn when it is something else."""

import pytest

from agentrail.events import (
    AgentEnd,
    AgentStart,
    PromptReceived,
    RequestStart,
    ResponseComplete,
    SessionStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolKilled,
)
from agentrail.testing.published import events_of, expect, tree
from agentrail.testing.tools import RecordingTool
from tests.runtime.rig import calling, open_bare, saying

TREE = """\
SessionStart
PromptReceived
AgentStart
  RequestStart
    MessageStart
  ResponseComplete
  ToolCalls
  ToolExecutionStart record
  ToolExecutionEnd record
  ToolExecutionMetrics record
  RequestStart
    MessageStart
  ResponseComplete
AgentEnd"""


async def hold():
    """Hold a conversation with a tool, and give its events."""
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=calling("record"), tools=[RecordingTool()])
        await session.ask("Go")
        return await events_of(session)


async def test_events_are_drawn_as_a_tree():
    """What belongs to a cycle or to a request stands below it."""
    assert tree(await hold()) == TREE


async def test_events_of_a_session_that_has_ended_are_there():
    """All of them, its end too."""
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=saying("ok"))
        await session.stop()
        expect(await events_of(session)).kinds(SessionStart)


async def test_expectations_hold():
    """Kinds in their order among others, exactly these, none of those, and the one."""
    events = await hold()
    expect(events).kinds(AgentStart, ToolExecutionStart, ToolExecutionEnd, AgentEnd).never(ToolKilled)
    expect(events[:3]).exactly(SessionStart, PromptReceived, AgentStart)
    assert expect(events).one(ToolExecutionEnd).result.text == "recorded"


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (
            lambda e: expect(e).kinds(AgentEnd, AgentStart),
            "expected AgentEnd, AgentStart, got AgentStart, AgentEnd",
        ),
        (lambda e: expect(e).kinds(RequestStart), "expected RequestStart, got RequestStart, RequestStart"),
        (lambda e: expect(e).exactly(AgentStart, AgentEnd), "expected AgentStart, AgentEnd and nothing else"),
        (lambda e: expect(e).never(AgentStart), "expected no AgentStart, got AgentStart"),
        (lambda e: expect(e).one(ResponseComplete), "expected one ResponseComplete, got 2"),
    ],
)
async def test_what_is_something_else_is_drawn(wrong, complaint):
    """The complaint, and behind it all that was published."""
    events = await hold()
    with pytest.raises(AssertionError) as caught:
        wrong(events)
    assert str(caught.value).startswith(f"{complaint}; what was published:\n{TREE}")
