"""A2A without a session: the frames of each event, and what follows from a client's parts."""

import pytest
from google.protobuf.json_format import ParseDict

from agentrail import events
from agentrail.errors import ErrorInfo
from agentrail.messages import AssistantMessage, QuestionRef, Text
from agentrail.protocols.a2a import (
    A2A,
    A2aTask,
    decide_answers,
    open_task,
    page_of_tasks,
    read_parts,
    read_task_id,
    settled_task,
    show_task,
)
from agentrail.protocols.response_state import Bridged, Response, catch_up, fail_response
from agentrail.wire.operations import AnswerBody, ApproveArguments, DeclineBody, RejectBody, RespondBody
from tests.protocols.refusals import refusal_of
from tests.protocols.test_ai_ui import ASK, BEGIN, BROKE, CALL, MINE, START, USAGE, delta, numbered, thinks
from tests.protocols.test_ai_ui_messages import STATUS
from tests.protocols.test_openai_chat import APPROVAL, CALL_WAITS, CALLED, END, HELLO, SHOWN, calls_in
from tests.providers.vendors import library
from tests.wire.test_forms import BARE

PB2 = library("a2a.types.a2a_pb2")
TASK = A2aTask(id="p1~4~s", context_id="s", at_ms=0)
ENDS = ("COMPLETED", "FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED")


def test_the_id_of_a_task_has_its_prompt_its_event_and_its_session():
    """Any other text is none, also one with more digits than a number may have."""
    assert read_task_id(TASK.id) == ("p1", 4, "s")
    assert [read_task_id(text) for text in ("", "p1", "p1~0~s", f"p1~{'9' * 5_000}~s")] == [None] * 4


def check_frames(frames):
    """The official type parses each frame; one is terminal, and it is the last one."""
    for frame in frames:
        if "error" not in frame:
            ParseDict(frame, PB2.StreamResponse())
    assert [is_last(frame) for frame in frames].index(True) == len(frames) - 1


def is_last(frame):
    """Whether a stream ends with this frame: a final state, a message, or an error."""
    state = frame.get("statusUpdate", {}).get("status", {}).get("state", "")
    return state.removeprefix("TASK_STATE_") in ENDS or "error" in frame or "message" in frame


def folded(*given, task=TASK, response=None):
    """The state, and all frames of a stream that ends with these events."""
    state = Bridged(response or Response(ref=MINE), task)
    frames = []
    for event in numbered(*given):
        state, more = A2A.fold(state, event)
        frames += more
    if state.response.end is None:
        state = Bridged(fail_response(state.response, "draining", "the server is going down"), state.own)
    frames += A2A.close(state)
    check_frames(frames)
    return state, frames


def shown(*given, **more):
    return folded(*given, **more)[1]


def kinds(frames):
    """States, and texts with a plus where they are appended."""
    told = []
    for frame in frames:
        match frame:
            case {"statusUpdate": {"status": {"state": state}}}:
                told.append(state.removeprefix("TASK_STATE_"))
            case {"artifactUpdate": {"append": append, "artifact": {"parts": parts}}}:
                told.append("+" * append + "".join([part.get("text", "") for part in parts]))
            case _:
                told.append(next(iter(frame)))
    return told


def said(text):
    message = AssistantMessage(content=(Text(text=text),), model="m")
    return events.ResponseComplete(message=message, usage=USAGE, stop_reason="end")


DISCARDED = events.StreamError(error=BROKE, discarded=True, attempt=1)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((*BEGIN, thinks("Hm"), delta("Hel"), delta("lo."), HELLO, END), ["WORKING", "Hel", "+lo.", "COMPLETED"]),
        ((*BEGIN, HELLO, END), ["WORKING", "Hello.", "COMPLETED"]),
        ((*BEGIN, delta("No"), DISCARDED, events.MessageStart(), HELLO, END), ["WORKING", "No", "", "+Hello.", "COMPLETED"]),
        ((*BEGIN, said("Look."), ASK, events.MessageStart(), delta("D"), said("Done."), END),
         ["WORKING", "Look.", "+\n\nD", "+one.", "COMPLETED"]),
        ((*BEGIN, said("Look."), ASK, events.MessageStart(), delta("X"), DISCARDED, events.MessageStart(), said("Done."), END),
         ["WORKING", "Look.", "+\n\nX", "Look.", "+\n\nDone.", "COMPLETED"]),
        ((START, events.AgentError(error=ErrorInfo(code="overloaded", message="busy"), ref=MINE)), ["WORKING", "FAILED"]),
        ((START, events.AgentAbort(reason="stop", ref=MINE)), ["WORKING", "CANCELED"]),
        ((events.PromptRejected(ref=MINE, reason="no"),), ["REJECTED"]),
        ((events.PromptDropped(ref=MINE, content=()),), ["CANCELED"]),
        ((START,), ["WORKING", "error"]),
        ((), ["error"]),
    ],
)  # fmt: skip
def test_each_event_has_its_row(given, wanted):
    """The column of 11.7: and a stream that ends alone ends with an error, because its task goes on."""
    assert kinds(shown(*given)) == wanted


def test_a_pause_asks_for_what_is_needed():
    """Each interaction in words, and as the facts that its data part needs."""
    question = events.AskUser(ref=QuestionRef("q1"), question="Which?", options=("a",), call_id=CALL)
    asked = events.ApprovalRequired(approval=APPROVAL)
    waiting = (CALL_WAITS,)
    frames = shown(*BEGIN, HELLO, SHOWN, CALLED, asked, question, events.AgentSuspended(waiting=waiting))
    status = frames[-1]["statusUpdate"]["status"]
    assert status["state"] == "TASK_STATE_INPUT_REQUIRED"
    facts = [part["data"] for part in status["message"]["parts"] if "data" in part]
    assert [one.get("approval_id") or one["ref"] for one in facts] == ["k1", "a1", "q1"]
    assert facts[1]["arguments"] == {"command": "ls"}


def test_a_task_is_what_its_stream_adds_up_to():
    """Parts of the answer, messages of its history, and the last of them where a client wants no more."""
    state, frames = folded(*BEGIN, said("Look."), ASK, events.MessageStart(), said("Done."), END)
    task = show_task(settled_task(state))
    ParseDict(task, PB2.Task())
    assert "".join([part["text"] for part in task["artifacts"][0]["parts"]]) == "Look.\n\nDone."
    assert [one["messageId"] for one in task["history"]] == ["m7", "m10"]
    last = show_task(settled_task(state), history=1, artifacts=False)
    assert ([one["messageId"] for one in last["history"]], "artifacts" in last) == (["m10"], False)
    assert "history" not in show_task(settled_task(state), history=0)
    assert kinds(frames)[-1] == "COMPLETED"


def test_a_document_is_a_data_part():
    """At the end, in place of its text; what is none by then stays text."""
    task = open_task(events.PromptReceived(ref=MINE, content=(Text(text="Hi"),)), "s", is_json=True)
    state, frames = folded(*BEGIN, delta("{"), said('{"n": 1}'), END, task=task)
    assert kinds(frames) == ["WORKING", "", "COMPLETED"]
    assert settled_task(state).parts == ({"data": {"n": 1}},)
    for text in ("no JSON", "[" * 100_000, '{"n": NaN}', '{"n": 1e999}'):
        state, frames = folded(*BEGIN, said(text), END, task=task)
        assert settled_task(state).parts == ({"text": text},)


def test_a_late_reader_gets_the_text_so_far_appended():
    """Behind the messages that its first frame has."""
    state = Bridged(Response(ref=MINE), TASK)
    for event in numbered(*BEGIN, said("Look."), ASK, events.MessageStart()):
        state, _ = A2A.fold(state, event)
    _, frames = A2A.write(state.own, catch_up(state.response, "Do"))
    assert kinds(frames) == ["+\n\nDo"]


def params(*parts, **more):
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": parts, "taskId": "t", **more}}


@pytest.mark.parametrize(
    ("text", "data", "wanted"),
    [
        ("", [{"approval_id": "a1", "approved": True}], (ApproveArguments(approval_id="a1"),)),
        ("", [{"approval_id": "a1", "approved": True, "arguments": {"x": 1}}],
         (ApproveArguments(approval_id="a1", arguments={"x": 1}),)),
        ("", [{"approval_id": "a1", "approved": False, "reason": "no"}],
         (RejectBody(approval_id="a1", reason="no", auto_resume=True),)),
        ("blue", [], (RespondBody(ref="q1", response="blue"),)),
        ("", [{"colour": "blue"}], (RespondBody(ref="q1", response={"colour": "blue"}),)),
        ("", [{"ref": "q1", "response": 2}], (RespondBody(ref="q1", response=2),)),
        ("", [{"ref": "q1", "declined": True}], (DeclineBody(ref="q1"),)),
        ("", [{"ref": "k1", "text": "seen"}], (AnswerBody(ref="k1", text="seen"),)),
        ("blue", [{"approval_id": "a1", "approved": True}],
         (ApproveArguments(approval_id="a1"), RespondBody(ref="q1", response="blue"))),
        ("", [], None),
        ("", [{"approval_id": "a1"}], None),
        ("", [{"approval_id": "a1", "approved": "yes"}], None),
        ("", [{"approval_id": 7, "approved": True}], None),
        ("", [{"approval_id": "a1", "approved": True, "arguments": "ls"}], None),
        ("", [{"approval_id": "a1", "approved": True, "more": 1}], None),
        ("", [{"ref": "q1"}], None),
        ("", [{"ref": "q1", "response": [1]}], None),
        ("", [{"approval_id": "a1", "approved": True}, {"ref": 1}], None),
    ],
)  # fmt: skip
def test_parts_are_decisions_or_refused_together(text, data, wanted):
    """Words answer a question; what is refused names what is needed."""
    if wanted is None:
        assert '"approval_id": "a1"' in refusal_of(decide_answers, text, data, STATUS).message
    else:
        assert decide_answers(text, data, STATUS) == wanted


def test_words_approve_nothing():
    """Without a question they answer nothing, and a form has nobody who asked."""
    for text, data in (("yes", []), ("", [{"a": 1}])):
        assert refusal_of(decide_answers, text, data, BARE).place == "message.parts"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (params({"text": "a"}, {"text": "b"}), ("a\nb", ())),
        (params({"data": {"a": 1}}), ("", ({"a": 1},))),
        (params({"data": {"a": [1.0, 1.5, 1e300]}}), ("", ({"a": [1, 1.5, 1e300]},))),
        (params({"data": [1]}), "part_unsupported"),
        (params({"url": "x"}), "part_unsupported"),
        (params({"text": "a"}, role="ROLE_AGENT"), "field_invalid"),
        ({**params({"text": "a"}), "configuration": {"taskPushNotificationConfig": {}}}, "push_unsupported"),
    ],
)
def test_the_parts_of_a_message(given, wanted):
    """Text and answers; others are named."""
    if isinstance(wanted, str):
        assert refusal_of(read_parts, given).code == wanted
    else:
        assert read_parts(given) == wanted


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ({"pageSize": 0}, "pageSize"),
        ({"pageSize": 101}, "pageSize"),
        ({"pageToken": "x"}, "pageToken"),
        ({"pageToken": ""}, "pageToken"),
        ({"pageToken": "²."}, "pageToken"),
        ({"pageToken": f"{'9' * 17}.x"}, "pageToken"),
    ],
)
def test_a_page_that_cannot_be_is_refused(asked, place):
    """A size out of range, and a token that is none."""
    assert refusal_of(page_of_tasks, [TASK], asked).place == place


def test_pages_of_tasks_have_each_task_once():
    """The last changed first; equal times are told apart by their ids."""
    tasks = [A2aTask(id=f"p{number}~1~s", context_id="s", at_ms=number // 2) for number in range(9)]
    for size in (1, 2, 4, 9, 100):
        found, token = [], {}
        while True:
            page, rest = page_of_tasks(tasks, {"pageSize": size, **token})
            found += page
            token = {"pageToken": rest["nextPageToken"]}
            if not rest["nextPageToken"]:
                break
        assert found == sorted(tasks, key=lambda one: (one.at_ms, one.id), reverse=True)


def test_a_delta_costs_little():
    """11.15: five microseconds each, which are some calls of functions. A clock would measure the machine, too."""
    state = Bridged(Response(ref=MINE), TASK)
    *begun, event = numbered(*BEGIN, delta("a"))
    for one in begun:
        state, _ = A2A.fold(state, one)
    assert calls_in(lambda: A2A.fold(state, event)) < 20
