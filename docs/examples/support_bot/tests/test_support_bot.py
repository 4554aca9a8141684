"""The bot is tested without a model and without a person."""

from contextlib import asynccontextmanager

import pytest
import trio
from agentrail import open_session
from agentrail.errors import Authentication
from agentrail.testing.models import FunctionModel, ScriptedModel, calls, fails, says

import support_bot

WANTS_IT_BACK = [
    calls(("find_order", {"number": 17})),
    calls(("refund", {"number": 17, "euros": 39.9})),
    says("Your money is on its way."),
]


@pytest.fixture
def person(monkeypatch):
    """An operator at the terminal, who says what is in the list, and what that one was asked."""
    answers, asked = [], []

    def say(hint):
        asked.append(hint)
        return answers.pop(0)

    monkeypatch.setattr("builtins.input", say)
    return answers, asked


async def test_a_person_lets_it_pay_back(person, capsys):
    """It looks up the order by itself; the refund waits for a yes."""
    answers, asked = person
    answers.append("yes")
    model = ScriptedModel(WANTS_IT_BACK)
    await support_bot.main("Order 17 came broken.", model)
    assert capsys.readouterr().out == "Your money is on its way.\n"
    assert [hint.partition("(")[0].partition("{")[0].strip() for hint in asked] == ["refund"]
    found, paid = (request.messages[-1].results[0].text for request in model.requests[1:])
    assert found == "a kettle, 39.90 EUR"
    assert paid == "39.90 EUR of order 17 are on their way."


async def test_a_person_refuses(person, capsys):
    """Nothing is paid, and the model does not go on."""
    answers, _ = person
    answers.append("no")
    model = ScriptedModel(WANTS_IT_BACK)
    await support_bot.main("Order 17 came broken.", model)
    assert len(model.requests) == 2
    assert "on its way" not in capsys.readouterr().out


async def test_an_unknown_order(capsys):
    """The model reads what to ask for."""
    model = ScriptedModel([calls(("find_order", {"number": 99})), says("Which number is on the receipt?")])
    await support_bot.main("Where is my order?", model)
    assert "ask for the number on the receipt" in model.requests[1].messages[-1].results[0].text
    assert capsys.readouterr().out == "Which number is on the receipt?\n"


async def test_the_tools_are_functions():
    """They are tested as such too."""
    assert await support_bot.find_order(18) == "a lamp, 25.00 EUR"
    assert await support_bot.refund(18, 5) == "5.00 EUR of order 18 are on their way."


async def test_a_model_that_fails(capsys):
    """It says why."""
    model = FunctionModel(lambda request: fails(Authentication("no such key")))
    await support_bot.main("Hello?", model)
    assert "No answer, CycleFailed: the cycle failed (authentication): no such key" in capsys.readouterr().out


async def test_a_model_that_says_nothing(capsys):
    """The patience ends."""
    await support_bot.main("Hello?", ScriptedModel([says("Hm.", pause_seconds=3600)]), patience=0.1)
    assert capsys.readouterr().out.startswith("No answer, TooSlowError")


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

    monkeypatch.setattr(support_bot, "open_session", open_and_abort)
    await support_bot.main("Hello?", ScriptedModel([says("Hm.", pause_seconds=3600)]))
    assert capsys.readouterr().out == "No answer, CycleAborted: the cycle was aborted: enough\n"
