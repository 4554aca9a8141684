"""The plugins that ask for files, in sessions that do what they ask for."""

import pytest
import trio

import agentrail
from agentrail.events import LargeResultOffloaded, PluginEvent, SessionStart
from agentrail.messages import AssistantMessage, CallId, ToolCall
from agentrail.plugins.episodic_memory import EpisodicMemory
from agentrail.plugins.large_result_offload import LargeResultOffload
from agentrail.plugins.memory_loader import MemoryLoader
from agentrail.plugins.patch_tool_calls import PatchToolCalls
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says

NUMBERS = "".join(f"{number}\n" for number in range(1, 1_001))


@agentrail.tool
def count() -> str:
    """Count to a thousand."""
    return NUMBERS


@pytest.fixture
async def supervisor():
    """A supervisor, for not too long."""
    with trio.fail_after(10):
        async with agentrail.open_supervisor() as opened:
            yield opened


async def asked_until(session, systems, wanted):
    """Ask until the system prompt has some words: a plugin cannot wait, so neither can its first request."""
    while wanted not in (systems[-1:] or [""])[0]:
        await session.ask("Deploy it")


def noting(systems):
    """A model that keeps the system prompts that it is shown."""

    def answer(request):
        systems.append(request.system or "")
        return says("With deploy.sh.")

    return FunctionModel(answer)


async def test_a_large_result_is_in_a_file_of_the_sandbox(supervisor):
    """When `LargeResultOffloaded` says so the file has all of it; the model was shown its beginning."""
    sandbox = MemorySandbox()
    model = ScriptedModel([calls(("count", {})), says("A thousand.")])
    plugins = [(LargeResultOffload, {"token_limit": 100})]
    session = await supervisor.start_session(model=model, tools=[count], sandbox=sandbox, plugins=plugins)
    async with session.subscribe(after=0, kinds=[LargeResultOffloaded]) as events:
        assert await session.ask("Count") == "A thousand."
        event = await anext(events)
    assert (event.name, event.bytes) == ("count", len(NUMBERS))
    assert (await sandbox.read(event.path)).text == NUMBERS
    shown = (await session.messages())[2].results[0].text
    assert shown.startswith("1\n2\n")
    assert event.path in shown
    assert len(shown) < len(NUMBERS)


async def test_a_memory_file_is_in_the_system_prompt(supervisor):
    """Of the sandbox that the session has."""
    systems = []
    sandbox = MemorySandbox({"AGENTS.md": "Use tabs."})
    session = await supervisor.start_session(model=noting(systems), sandbox=sandbox, plugins=[MemoryLoader])
    await asked_until(session, systems, '<agent_memory name="AGENTS.md">\nUse tabs.\n</agent_memory>')


async def test_a_later_session_remembers_an_earlier_one(supervisor):
    """What one session wrote the next one reads, for the same user."""
    systems = []
    options = {
        "model": noting(systems),
        "sandbox": MemorySandbox(),
        "plugins": [EpisodicMemory],
        "user_data": {"user_id": "ada"},
    }
    first = await supervisor.start_session(**options)
    await first.ask("How do we deploy?")
    path = "episodes/user-ada.jsonl"
    while not await options["sandbox"].exists(path):
        await trio.lowlevel.checkpoint()
    second = await supervisor.start_session(**options)
    await asked_until(second, systems, "Asked: How do we deploy?\n  Answered: With deploy.sh.")


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
