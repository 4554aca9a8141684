"""The plugins that ask for files, in sessions that do what they ask for."""

import pytest
import trio

import agentrail
from agentrail.events import PluginEvent, SessionStart
from agentrail.messages import AssistantMessage, CallId, ToolCall
from agentrail.plugins.patch_tool_calls import PatchToolCalls
from agentrail.testing.models import ScriptedModel, says

NUMBERS = "".join(f"{number}\n" for number in range(1, 1_001))


@agentrail.tool
def count() -> str:
    """Count to a thousand."""
    return NUMBERS


@pytest.fixture
async def supervisor():
    """A supervisor, for not too long."""
    with trio.fail_after(60):
        async with agentrail.open_supervisor() as opened:
            yield opened


async def test_what_was_repaired_of_imported_messages_is_published(supervisor):
    """`history_repaired` comes with the first request of a session that began with a broken history (AT-007)."""
    call = ToolCall(call_id=CallId("c1"), name="count", arguments={})
    broken = [AssistantMessage(content=(call,), model="another:model")]
    options = {"messages": broken, "plugins": [PatchToolCalls]}
    session = await supervisor.start_session(model=ScriptedModel([says("On I go.")]), **options)
    async with session.subscribe(after=0, kinds=[SessionStart, PluginEvent]) as events:
        await session.ask("Go on")
        assert isinstance(await anext(events), SessionStart)
        event = await anext(events)
    assert (event.name, event.payload["count"]) == ("history_repaired", 1)
    assert event.payload["repairs"] == [{"code": "missing_result", "position": 0, "call_id": "c1"}]


# --- judges
