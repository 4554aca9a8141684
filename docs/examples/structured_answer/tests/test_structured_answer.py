"""The answer is tested without a model."""

from contextlib import asynccontextmanager

import trio
from agentrail import open_session
from agentrail.errors import Authentication
from agentrail.testing.models import FunctionModel, ScriptedModel, fails, says

import structured_answer

TICKET = '{"product": "billing", "summary": "Was charged twice.", "urgency": 2, "order": 17}'


async def test_a_ticket(capsys):
    """The document becomes a value, also where it stands in a fence."""
    model = ScriptedModel([says(f"Here it is:\n```json\n{TICKET}\n```")])
    await structured_answer.main("I was charged twice for order 17!", model)
    assert capsys.readouterr().out == "billing, urgency 2: Was charged twice.\n"
    assert model.requests[0].response_format is not None


async def test_a_ticket_that_is_put_right(capsys):
    """The model is told what is wrong, once."""
    model = ScriptedModel([says(TICKET.replace("2,", "9,")), says(TICKET)])
    await structured_answer.main("I was charged twice for order 17!", model)
    assert capsys.readouterr().out == "billing, urgency 2: Was charged twice.\n"
    assert "urgency" in model.requests[1].messages[-1].content[0].text


async def test_no_ticket(capsys):
    """The second answer is wrong too."""
    await structured_answer.main("Hello", ScriptedModel([says("A ticket?"), says("Which ticket?")]))
    assert capsys.readouterr().out.startswith("No ticket: the cycle failed (response_format)")


async def test_the_demo_has_no_intelligence(capsys):
    """So there is no ticket, and the program says so."""
    await structured_answer.main("Hello")
    assert capsys.readouterr().out.startswith("No ticket: ")


async def test_a_model_that_fails(capsys):
    """It says why."""
    model = FunctionModel(lambda request: fails(Authentication("no such key")))
    await structured_answer.main("Hello", model)
    assert capsys.readouterr().out == "No ticket: the cycle failed (authentication): no such key\n"


async def test_a_model_that_says_nothing(capsys):
    """The patience ends."""
    await structured_answer.main("Hello", ScriptedModel([says("Hm.", pause_seconds=3600)]), patience=0.1)
    assert "no answer within 0.1 s" in capsys.readouterr().out


async def test_a_cycle_that_is_aborted(capsys, monkeypatch, nursery):
    """It says why, too."""

    @asynccontextmanager
    async def open_and_abort(**given):
        async with open_session(**given) as session:
            nursery.start_soon(abort_soon, session)
            yield session

    async def abort_soon(session):
        await trio.sleep(0.1)
        await session.abort("enough")

    monkeypatch.setattr(structured_answer.agentrail, "open_session", open_and_abort)
    await structured_answer.main("Hello", ScriptedModel([says("Hm.", pause_seconds=3600)]))
    assert capsys.readouterr().out == "No ticket: the cycle was aborted: enough\n"
