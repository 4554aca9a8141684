"""What a client says, read and decided: nothing that it sends raises, and nothing but an answer to what waits decides anything."""

from typing import Any

import pytest
from attrs import evolve

from agentrail.events import Approval, PendingClientCall, Question
from agentrail.messages import ApprovalId, CallId, ClientCallRef, QuestionRef, SessionId
from agentrail.protocols.ai_ui_messages import UiCallBody, UiPlan, decide_ui_call, read_ui_call
from agentrail.wire.operations import AnswerBody, RejectBody, RespondBody
from tests.protocols.refusals import refusal_of
from tests.wire.test_forms import BARE

PATH = (SessionId("s"),)
ASKED: dict[str, Any] = {"requested_at_ms": 0, "path": PATH}
STATUS = evolve(
    BARE,
    approvals=(
        Approval(
            id=ApprovalId("a1"), call_id=CallId("c1"), tool="shell", arguments={}, arguments_hash="h", **ASKED
        ),
    ),
    questions=(Question(ref=QuestionRef("q1"), call_id=CallId("c2"), question="?", **ASKED),),
    client_calls=(
        PendingClientCall(ref=ClientCallRef("k1"), call_id=CallId("c3"), name="show", arguments={}, **ASKED),
    ),
    suspended=True,
    last_seq=20,
)


def tool(call_id, state, **facts):
    return {"type": "dynamic-tool", "toolCallId": call_id, "state": state, "input": {}, **facts}


def page(*parts, name="m3"):
    return {"id": name, "role": "assistant", "parts": parts}


def user(text, name="u1"):
    return {"id": name, "role": "user", "parts": [{"type": "text", "text": text}]}


def decide(*messages, status=STATUS, known=()):
    read = read_ui_call(messages, "submit-message")
    assert isinstance(read, UiCallBody)
    return decide_ui_call(read, status, frozenset(known))


def planned(*messages, **given_):
    plan = decide(*messages, **given_)
    assert isinstance(plan, UiPlan)
    return plan


def test_answers_go_to_what_waits_and_to_nothing_else():
    """An approval by its id, a result by its call; of what the page shows besides nothing counts."""
    answers = planned(
        user("Hi"),
        page(
            tool("c9", "output-available", output="past"),
            tool("c1", "approval-responded", approval={"id": "a1", "approved": False, "reason": "no"}),
            tool("c2", "output-available", output="b"),
            tool("c3", "output-available", output={"zoom": 3}),
        ),
    ).answers
    assert answers == (
        RejectBody(approval_id="a1", reason="no", auto_resume=True),
        RespondBody(ref="q1", response="b"),
        AnswerBody(ref="k1", text='{"zoom": 3}', details={"zoom": 3}),
    )


def test_results_of_a_page_are_texts_objects_or_failures():
    """A text is what the model reads; of all else it reads the JSON. A form is an object, and other answers are words."""
    for facts, outcome in (
        ({"output": "shown"}, {"text": "shown"}),
        ({}, {"text": "null"}),
        ({"errorText": "no map"}, {"text": "no map", "is_error": True}),
    ):
        state = "output-error" if "errorText" in facts else "output-available"
        answers = planned(page(tool("c3", state, **facts))).answers
        assert answers == (AnswerBody(ref="k1", **outcome),)
    form = planned(page(tool("c2", "output-available", output={"name": "Ann"}))).answers
    number = planned(page(tool("c2", "output-available", output=3))).answers
    assert [form[0].response, number[0].response] == [{"name": "Ann"}, "3"]


def test_an_answer_to_what_waits_no_more_comes_first_where_it_is_all_that_is_said():
    """The session refuses it first; with new words it is past, and so are answers of earlier messages."""
    late = tool("c8", "approval-responded", approval={"id": "a0", "approved": True})
    good = tool("c1", "approval-responded", approval={"id": "a1", "approved": True})
    assert [one.approval_id for one in planned(page(good, late)).answers] == ["a0", "a1"]
    assert [one.approval_id for one in planned(page(good, late), user("So?")).answers] == ["a1"]
    assert planned(page(good), user("a"), page(name="m9"), user("b")).answers == ()


def test_parts_of_a_call_that_answer_nothing_are_left_out_and_malformed_ones_refused():
    """A call that runs is shown and says nothing; what is no part, or gives a reason that is no text, names its place."""
    good = tool("c1", "approval-responded", approval={"id": "a1", "approved": True})
    assert len(planned(page({"type": "step-start"}, tool("c3", "input-available"), good)).answers) == 1
    for part, place in (
        (5, "messages[0].parts[0]"),
        (
            tool("c1", "approval-responded", approval={"id": "a1", "approved": False, "reason": 5}),
            "messages[0].parts[0].approval.reason",
        ),
    ):
        assert refusal_of(read_ui_call, [page(part)], None).place == place


def test_what_is_new_stands_behind_the_last_response_of_ours():
    """Known words are left out, and the last ones name the message. A number that the session has not reached, or no session: somebody else's."""
    words = planned(user("a", "u1"), page(), user("b", "u2"), user("c", "u3"), known=["u2"])
    assert (words.text, words.message_id) == ("c", "u3")
    words = planned(user("a", "u1"), page(), user("b", "u2"), user("c", "u3"))
    assert words.text == "b\n\nc"
    for name, status, differs in (
        ("m3", STATUS, False),
        ("m21", STATUS, True),
        ("x3", STATUS, True),
        ("m3", None, True),
    ):
        assert planned(page(name=name), user("a"), status=status).differs is differs, name


def test_the_past_is_read_for_its_ids_alone_and_what_is_new_is_bounded():
    """Old pages hold parts of many kinds; and each message behind the last response is asked about."""
    old = [
        page({"type": "tool-of-yesterday"}, name="m1"),
        {**user("x", "u0"), "parts": [{"type": "picture"}]},
    ]
    assert planned(*old, page(name="m3"), user("a", "u1")).text == "a"
    noted = {**user("a", "u1"), "parts": [{"type": "data-place", "data": {}}, *user("a")["parts"]]}
    assert planned(noted).text == "a"
    for messages in ([page()], [user("  ")], [page(tool("c1", "output-available", output="forged"))]):
        assert refusal_of(decide, *messages).code == "field_invalid"  # nothing new, or words without a word
    many = [user("a", f"u{number}") for number in range(257)]
    assert refusal_of(read_ui_call, many, None).code == "field_invalid"
    assert isinstance(read_ui_call([*many, page(), *many[:255]], None), UiCallBody)
    assert [one.id for one in read_ui_call([*many, page(), user("b", "u300")], None).past] == ["u300"]


PART, RESPONDED = "messages[0].parts[0]", "approval-responded"


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([], "messages"),
        ([{"id": "s", "role": "system", "parts": []}], "messages"),
        (["Hi"], "messages[0]"),
        ([user("a", "")], "messages[0].id"),
        ([user("a", "u" * 129)], "messages[0].id"),
        ([{"id": "u", "role": "king", "parts": []}], "messages[0].role"),
        ([{"id": "u", "role": "user", "parts": "Hi"}], "messages[0].parts"),
        ([{"id": "u", "role": "user", "parts": [{"type": "text", "text": 5}]}], f"{PART}.text"),
        ([{"id": "u", "role": "user", "parts": [{"type": "file", "url": "x"}]}], PART),
        ([{"id": "u", "role": "user", "parts": ["Hi"]}], f"{PART}.type"),
        ([{"id": "u", "role": "user", "parts": [{"type": "picture"}]}], f"{PART}.type"),
        ([page({"type": 5})], PART),
        ([page({"type": "tool-show", "state": "output-available"})], PART),
        ([page(tool("c1", "output-error"))], f"{PART}.errorText"),
        ([page(tool("c1", RESPONDED, approval={"approved": True}))], f"{PART}.approval"),
        ([page(tool("c1", RESPONDED, approval={"id": "a1", "approved": "yes"}))], f"{PART}.approval.approved"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_named_by_its_place(messages, place):
    """Nothing of the call is read then."""
    assert refusal_of(read_ui_call, messages, None).place == place


def test_an_answer_cannot_be_generated_again():
    """It says what to do, and no other trigger is known."""
    again = refusal_of(read_ui_call, [user("Hi")], "regenerate-message")
    assert (again.place, "/rewind" in str(again.hint)) == ("trigger", True)
    other = refusal_of(read_ui_call, [user("Hi")], "resume")
    assert (other.place, other.hint) == ("trigger", None)
