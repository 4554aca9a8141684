"""Recorded turns, asked again of another model: what it is sent, what counts as the same, and where it ends."""

from typing import Any

import pytest

from agentrail.core.policy.budget import Budget, Ledger
from agentrail.core.session.machine import new_session
from agentrail.errors import Overloaded
from agentrail.evals.journal_turns import ask_turns, likeness_of, recorded_turns
from agentrail.evals.journals import OtherStack, StackComparison
from agentrail.messages import AssistantMessage
from agentrail.testing.models import FunctionModel, calls, fails, says
from tests.core.journal.recorded import Told, call
from tests.core.worlds import TOOLS, config

RICH = Ledger(budget=Budget(max_cost_usd=1.0, allow_unknown_prices=True))
POOR = Ledger(budget=Budget(max_total_tokens=1))


def two_cycles() -> Told:
    """A look with a call and an answer, and thanks."""
    session = Told(new_session(config(system_prompt="Be brief."), TOOLS))
    session.prompt("What is in a?")
    session.complete("I look.", call("read", "c1", path="a"))
    session.finish_tools("A fox.")
    session.complete("It is a fox.")
    session.prompt("Thanks!")
    session.complete("You are welcome.")
    return session


async def asked(*answers: Any, ledger: Ledger = RICH, other: OtherStack = OtherStack()) -> Any:  # noqa: B008 - frozen
    """Give what was asked, in order, and what came of it."""
    life, left, sent = two_cycles().life, list(answers), []

    def answer(request: Any) -> Any:
        sent.append(request)
        return left.pop(0)

    turns = recorded_turns(StackComparison(life.records, life.sources(), other))
    found, after, why = await ask_turns(turns, "new:model", FunctionModel(answer), ledger)
    return sent, [(one.likeness, one.same_calls, one.calls) for one in found], after, why


async def test_the_same_answers_are_the_same_and_each_request_is_that_of_the_other_stack():
    """With its instructions, and sent to the new model."""
    other = OtherStack(config={"system_prompt": "Be very brief."})
    sent, found, after, why = await asked(
        calls(("read", {"path": "a"}), text="I look."),
        says("It is a fox."),
        says("You are welcome."),
        other=other,
    )
    assert found == [(1.0, True, ("read",)), (1.0, True, ()), (1.0, True, ())]
    assert {(one.model, one.system) for one in sent} == {("new:model", "Be very brief.")}
    assert (after.open, why) == ((), "")


WORDS = " ".join(map(str, range(20_000)))


@pytest.mark.parametrize(
    ("one", "other", "like"),
    [
        ("It is a fox.", "It is a fox!", 0.917),
        ("It is a fox.", "", 0.0),
        ("a" * 1_999, "a" * 1_999 + "b", 0.999),
        (WORDS, WORDS, 1.0),
        (WORDS, f"{WORDS} fox", 0.999),
        (WORDS, WORDS.replace("7", "x"), 0.656),
    ],
)
def test_only_equal_texts_are_wholly_alike(one, other, like):
    """A changed letter of two thousand was rounded away, and two answers of 100,000 letters took minutes."""
    assert likeness_of(one, other) == like


async def test_other_words_go_on_with_the_recorded_result():
    """The next request of the cycle has the new words, and the call as it was recorded; the next cycle has the recorded ones."""
    sent, found, _, _ = await asked(
        calls(("read", {"path": "a"}), text="Let me see."), says("A cat!"), says("You are welcome.")
    )
    assert [one[1] for one in found] == [True, True, True]
    assert found[0][0] < 1 > found[1][0]
    (words,) = [one for one in sent[1].messages if isinstance(one, AssistantMessage)]
    assert (words.text, [one.call_id for one in words.calls]) == ("Let me see.", ["c1"])
    later = [one.text for one in sent[2].messages if isinstance(one, AssistantMessage)]
    assert later == ["I look.", "It is a fox."]


@pytest.mark.parametrize(
    "answer", [calls(("read", {"path": "b"})), calls(("watch", {"path": "a"})), says("I know it.")]
)
async def test_a_cycle_ends_where_the_calls_are_others(answer):
    """Their results are not in the journal. The next cycle is asked."""
    sent, found, _, _ = await asked(answer, says("You are welcome."))
    assert [one[1] for one in found] == [False, True]
    assert [len(one.messages) for one in sent] == [1, 5]


async def test_a_budget_that_is_spent_and_a_provider_that_fails_end_it():
    """With the reason, and what was asked so far. A request that failed is booked with all that it may have cost."""
    sent, found, _, why = await asked(ledger=POOR)
    assert (sent, found) == ([], [])
    assert "raise the budget" in why or "max_output_tokens" in why
    _, found, after, why = await asked(
        calls(("read", {"path": "a"}), text="I look."), fails(Overloaded("busy")), ledger=RICH
    )
    assert len(found) == 1
    assert "busy" in why
    assert after.spent_tokens > 0


async def test_a_stack_that_is_open_is_asked_up_to_there():
    """A conversation that the journal does not have is not sent."""
    life = two_cycles().life
    turns = recorded_turns(StackComparison(life.records, life.sources(), OtherStack(config={"max_turns": 1})))
    assert len(list(turns)) <= 1
