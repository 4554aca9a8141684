"""Sessions that become cases, and those of which a cassette alone does not repeat the run."""

import json

import pytest

import agentrail
from agentrail.cli.store_access import sources_of
from agentrail.core.journal.replay import steps
from agentrail.errors import Overloaded
from agentrail.evals.from_journals import case_of_journal
from agentrail.messages import Image, Text, UserMessage
from agentrail.plugins import HumanApproval
from agentrail.testing.models import ScriptedModel, calls, fails, says


@agentrail.tool
async def buy(item: str) -> str:
    """Buy an item."""
    return f"bought {item}"


async def made(supervisor, session):
    entries = await supervisor.stored_journal(session.session_id, limit=10_000)
    store = supervisor.journals._shared.keeping.store  # noqa: SLF001 - as a command has it
    records = store.read("", session.session_id, 0, len(entries))
    return case_of_journal(
        session.session_id, steps(records, sources_of(session.session_id, store.blob)), cassette="c.jsonl"
    )


@pytest.fixture
async def supervisor():
    async with agentrail.open_supervisor(store="memory:") as opened:
        yield opened


async def test_a_case_has_what_was_asked_called_and_approved(supervisor):
    """A retried request has two lines, and the one that failed says so."""
    script = [
        fails(Overloaded("busy", retry_after_seconds=0.0)),
        calls(("buy", {"item": "tea"})),
        says("Bought."),
    ]
    session = await supervisor.start_session(
        model=ScriptedModel(script),
        tools=[buy],
        session_id="shop",
        plugins=[(HumanApproval, {"require_approval_for": ["buy"]})],
    )
    with pytest.raises(agentrail.errors.CycleWaiting) as waiting:
        await session.run("Buy tea.")
    await session.approve(waiting.value.pending[0].id)
    await session.collect_reply()
    case, lines = await made(supervisor, session)
    assert (case.id, case.prompts, case.expected) == ("shop", ("Buy tea.",), "Bought.")
    assert case.metadata == {
        "cassette": "c.jsonl",
        "calls": [{"buy": {"item": "tea"}}],
        "approve": ["buy"],
        "outcome": "done",
    }
    read = [json.loads(line) for line in lines]
    assert [one["error"] and one["error"]["code"] for one in read] == ["overloaded", None, None]
    assert {one["request"]["model"] for one in read} == {"cassette:object"}
    assert read[0]["capabilities"]["context_window"] == 128_000


async def weather(_context, _messages):
    return [UserMessage(content=(Text(text="It rains."),))]


async def test_what_a_cassette_alone_does_not_repeat_is_refused_with_the_reason(supervisor):
    """Its prompt, its models, its context or its agents would be missing."""
    say = ScriptedModel([says("One.")] * 9)
    helper = agentrail.Agent(name="helper", description="Helps.", model="demo:fast")
    picture = [Text(text="See."), Image(media_type="image/png", data="aGk=")]
    wanted = [
        ({}, (), "it has no prompt"),
        ({}, (picture,), "it has no prompt, or one that is not only text"),
        ({"context_providers": [weather]}, ("Hi.",), "its requests contain messages of context providers"),
    ]
    for options, prompts, reason in wanted:
        session = await supervisor.start_session(model=say, **options)
        for prompt in prompts:
            await session.run(prompt)
        with pytest.raises(agentrail.OptionError, match=reason):
            await made(supervisor, session)
    switched = await supervisor.start_session(model=say)
    await switched.run("Hi.")
    await switched.switch_model("demo:fast")
    await switched.run("Hi.")
    with pytest.raises(agentrail.OptionError, match="it used several models: demo:fast, scripted:object"):
        await made(supervisor, switched)
    script = ScriptedModel(
        [calls(("task", {"subagent_type": "helper", "description": "Hi."})), says("Done.")]
    )
    leader = await supervisor.start_session(
        model=script, agents=[helper], tools=agentrail.tools.builtin("task")
    )
    await leader.run("Ask the helper.")
    with pytest.raises(agentrail.OptionError, match="it had sub-agents"):
        await made(supervisor, leader)
