"""The package is tested without a model, with nothing but what agentrail ships."""

from agentrail.events import ToolBlocked, ToolExecutionEnd
from agentrail.testing.models import calls, says
from agentrail.testing.published import events_of, expect

from tides import KnownPorts, high_tide


async def test_the_tide_is_told(supervisor, scripted):
    """The tool runs, and the plugin lets it."""
    model = scripted(calls(("high_tide", {"port": "Lisbon"})), says("At twelve past three."))
    session = await supervisor.start_session(model=model, tools=[high_tide], plugins=[KnownPorts])
    assert await session.ask("When is high tide in Lisbon?") == "At twelve past three."
    expect(await events_of(session)).never(ToolBlocked).one(ToolExecutionEnd)


async def test_an_unknown_port_is_blocked(supervisor, scripted):
    """The model reads which ports there are."""
    model = scripted(calls(("high_tide", {"port": "Atlantis"})), says("I do not know."))
    session = await supervisor.start_session(model=model, tools=[high_tide], plugins=[KnownPorts])
    await session.ask("When is high tide in Atlantis?")
    blocked = expect(await events_of(session)).one(ToolBlocked)
    assert "ask for one of lisbon, porto" in blocked.reason
