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
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=calling("record"), tools=[RecordingTool()])
        await session.ask("Go")
        return await events_of(session)


async def test_expectations_hold():
    """Kinds in their order among others, exactly these, none of those, and the one; drawn as a tree. A session that ended has its events."""
    events = await hold()
    assert tree(events) == TREE
    expect(events).kinds(AgentStart, ToolExecutionStart, ToolExecutionEnd, AgentEnd).never(ToolKilled)
    expect(events[:3]).exactly(SessionStart, PromptReceived, AgentStart)
    assert expect(events).one(ToolExecutionEnd).result.text == "recorded"
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=saying("ok"))
        await session.stop()
        expect(await events_of(session)).kinds(SessionStart)


async def test_what_is_something_else_is_drawn():
    """The complaint, and behind it all that was published."""
    events = await hold()
    start, end = AgentStart, AgentEnd
    for wrong, complaint in (
        (lambda e: e.kinds(end, start), "expected AgentEnd, AgentStart, got AgentStart, AgentEnd"),
        (lambda e: e.kinds(RequestStart), "expected RequestStart, got RequestStart, RequestStart"),
        (lambda e: e.exactly(start, end), "expected AgentStart, AgentEnd and nothing else"),
        (lambda e: e.never(start), "expected no AgentStart, got AgentStart"),
        (lambda e: e.one(ResponseComplete), "expected one ResponseComplete, got 2"),
    ):
        with pytest.raises(AssertionError) as caught:
            wrong(expect(events))
        assert str(caught.value).startswith(f"{complaint}; what was published:\n{TREE}")
