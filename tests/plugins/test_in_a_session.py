"""The plugins that ask for files, in sessions that do what they ask for."""

import itertools

import pytest
import trio

import agentrail
from agentrail.abc import MemoryOwner
from agentrail.errors import CycleAborted
from agentrail.events import LargeResultOffloaded, PluginEvent, SessionStart
from agentrail.messages import AssistantMessage, CallId, ToolCall, UserMessage
from agentrail.plugins.content_policy import ContentPolicy
from agentrail.plugins.episodic_memory import EpisodicMemory
from agentrail.plugins.large_result_offload import LargeResultOffload
from agentrail.plugins.memory_loader import MemoryLoader
from agentrail.plugins.patch_tool_calls import PatchToolCalls
from agentrail.plugins.reflection import Reflection
from agentrail.sandboxes.memory import MemorySandbox
from agentrail.stores.recall_memory import InMemoryRecall
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, says
from agentrail.testing.supervisors import open_nameless

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
        event = next(
            e for e in [await anext(events), await anext(events)] if isinstance(e, LargeResultOffloaded)
        )
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


async def test_a_later_session_remembers_an_earlier_one():
    """What one session did the next one is shown, for the same user, behind the conversation; the workspace has nothing of it (12.5)."""
    store, sandbox = InMemoryRecall(), MemorySandbox()
    model = ScriptedModel([says("With deploy.sh.")] * 3)
    options = {"model": model, "sandbox": sandbox, "plugins": [EpisodicMemory]}
    async with open_nameless(recall=store) as supervisor:
        for user in ("ada", "bob", "ada"):
            session = await supervisor.start_session(**options, user_data={"user_id": user})
            await session.ask("How do we deploy?")
            while len(store.list(MemoryOwner(user=user))) < 1:
                await trio.lowlevel.checkpoint()
    shown = [[block.text for one in request.messages for block in one.content] for request in model.requests]
    assert [len(texts) for texts in shown] == [1, 1, 2]
    assert "- Asked: How do we deploy?\n  Answered: With deploy.sh." in shown[2][1]
    assert {request.system for request in model.requests} == {model.requests[0].system}
    assert (await sandbox.list_dir(".")).entries == ()


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


def judging(verdicts, *, kind="You judge"):
    """A model that is asked and judges: each verdict in turn, with any other request answered by its number."""
    said, answers = iter(verdicts), itertools.count(1)

    def answer(request):
        if request.system is not None and request.system.startswith(kind):
            return says(next(said))
        return says(f"Answer {next(answers)}.")

    return FunctionModel(answer)


async def test_a_judge_refuses_a_prompt_before_it_starts(supervisor):
    """`ContentPolicy` asks a model, the prompt waits for the verdict, and one that is refused never enters the history (5.8)."""
    options = {"rubric": "Nothing about Initech.", "judge_model": "scripted:object", "fail_open": False}
    model = judging(["It is about Initech.", "OK"])
    session = await supervisor.start_session(model=model, plugins=[(ContentPolicy, options)])
    with pytest.raises(CycleAborted, match=r"refused by the content policy: It is about Initech\."):
        await session.ask("Is Initech cheaper?")
    assert await session.ask("Are we cheap?") == "Answer 1."
    assert [type(message) for message in await session.messages()] == [UserMessage, AssistantMessage]


async def test_a_reviewer_sends_an_answer_back_before_it_is_returned(supervisor):
    """`Reflection` asks another model; the cycle ends with the answer that passed (5.8)."""
    model = judging(["It is long.", "APPROVED"], kind="You review")
    plugins = [(Reflection, {"reviewer_model": "scripted:object"})]
    session = await supervisor.start_session(model=model, plugins=plugins)
    assert await session.ask("Why?") == "Answer 2."
    reviewed = [m for m in await session.messages() if getattr(m, "origin", None) == "intervention"]
    assert len(reviewed) == 1


async def test_an_abort_stops_a_judge_that_hangs(supervisor):
    """Whoever judges is stopped with the prompt that it judges, and the receipt says that nothing is left (promise 1)."""

    def answer(request):
        is_judged = request.system is not None and request.system.startswith("You judge")
        return says("never", pause_seconds=1_000) if is_judged else says("fine")

    options = {"rubric": "Be kind.", "judge_model": "scripted:object"}
    session = await supervisor.start_session(model=FunctionModel(answer), plugins=[(ContentPolicy, options)])
    await session.prompt("Please.")
    status = await session.status()
    assert (status.phase, status.turn, len(status.queued)) == ("running", 0, 1)
    receipt = await session.abort("enough")
    assert (receipt.tasks_ended, receipt.stuck) == (1, ())
    with pytest.raises(CycleAborted, match="enough"):
        await session.collect_reply()
    assert await session.messages() == ()
