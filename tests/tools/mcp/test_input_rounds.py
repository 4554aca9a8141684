"""Questions of a call's result: in their order, each once, and the answers by the server's keys."""

import msgspec
import pytest

from agentrail.abc import Resumption
from agentrail.tools.mcp.call_result import CallFailed
from agentrail.tools.mcp.input_rounds import MAX_QUESTION_ROUNDS, OUR_ANSWERS, InputRounds, resumed_rounds

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


def result(sealed="v1.sealed", **requests):
    """Return a result that asks."""
    asked = {key: {"method": "elicitation/create", "params": params} for key, params in requests.items()}
    return {"resultType": "input_required", "inputRequests": asked, "requestState": sealed}


def answered(question, outcome="answered", answer=None):
    """Return the rounds with an answer to a question, whose state went through a journal."""
    state = msgspec.json.decode(msgspec.json.encode(question.state))
    return resumed_rounds(Resumption(state=state, outcome=outcome, answer=answer))


def test_each_question_of_a_result_is_put_and_answered_under_its_key():
    """11.5: a form, an address that is shown, and one that no session can show, which is declined."""
    address = {"message": "Go there.", "url": "https://login.example/x"}
    rounds = InputRounds().asked(
        result(
            form={"message": "Who?", "requestedSchema": FORM},
            list={"message": "Which?", "requestedSchema": {"type": "array"}},
            place=address,
            wrong={"message": "Go.", "url": "javascript:alert(1)"},
        )
    )
    rounds, question = rounds.next_question("s")
    assert (question.question, question.schema) == ("s: Who?", FORM)
    rounds, question = answered(question, answer={"name": "Ada"}).next_question("s")
    assert (question.question, question.url, question.options) == ("s: Go there.", address["url"], ("Done",))
    rounds, question = answered(question, answer="Done").next_question("s")
    assert question is None
    assert rounds.sealed == "v1.sealed"
    assert rounds.answers == {
        "form": {"action": "accept", "content": {"name": "Ada"}},
        "list": {"action": "decline"},
        "place": {"action": "accept"},
        "wrong": {"action": "decline"},
    }


@pytest.mark.parametrize(("outcome", "action"), [("declined", "decline"), ("timeout", "cancel")])
def test_a_question_without_an_answer_says_why(outcome, action):
    """11.5."""
    _, question = InputRounds().asked(result(a={"message": "?", "requestedSchema": FORM})).next_question("s")
    assert answered(question, outcome).answers == {"a": {"action": action}}


def test_answers_of_one_result_are_not_sent_with_the_next():
    """Its keys may be the same. What needs no user is not asked."""
    first = InputRounds().asked(result(a={"message": "?", "requestedSchema": FORM}))
    second = answered(first.next_question("s")[1]).asked(result("two") | {OUR_ANSWERS: {"b": {"roots": []}}})
    assert (second.count, second.sealed, second.answers) == (2, "two", {"b": {"roots": []}})
    assert second.next_question("s")[1] is None


@pytest.mark.parametrize(
    ("rounds", "asked", "said"),
    [
        (InputRounds(count=MAX_QUESTION_ROUNDS), result(), "it asked more than 10 times"),
        (InputRounds(), result("x" * 2_000_000), "its questions have"),
    ],
)
def test_too_many_and_too_large_questions_end_the_call(rounds, asked, said):
    """11.5: ten rounds at most. The state is stored with the session, so it has a limit."""
    with pytest.raises(CallFailed, match=said):
        rounds.asked(asked)
