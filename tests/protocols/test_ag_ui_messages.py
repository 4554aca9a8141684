"""Requests of an AG-UI client, and what follows from them: a table for each rule of 11.8."""

from typing import Any

import msgspec
import pytest
from attrs import evolve

from agentrail.messages import (
    AssistantMessage,
    CallId,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.protocols.ag_ui import messages_snapshot
from agentrail.protocols.ag_ui_messages import (
    AgUiBody,
    AgUiPlan,
    check_ag_ui_messages,
    decide_ag_ui_request,
    foreign_texts,
    open_ag_ui_run,
)
from agentrail.protocols.decisions import WireRefused
from agentrail.wire.operations import AnswerBody, ApproveArguments, DeclineBody, RejectBody, RespondBody
from tests.protocols.refusals import refusal_of
from tests.protocols.test_ai_ui_messages import STATUS

IDLE = evolve(STATUS, approvals=(), questions=(), client_calls=(), suspended=False)


def of(role: str, content: Any = "x", name: str = "m3", **more: Any) -> dict[str, Any]:
    """A message."""
    return {"id": name, "role": role, "content": content, **more}


def body(*messages: dict[str, Any], **more: Any) -> AgUiBody:
    """A request, as a server reads it."""
    told = {"threadId": "t", "runId": "r", "messages": messages, **more}
    return msgspec.convert(told, AgUiBody)


def planned(
    *messages: dict[str, Any], status: Any = IDLE, said: Any = (), sent: Any = None, **more: Any
) -> AgUiPlan:
    """What is done for a request."""
    plan = decide_ag_ui_request(body(*messages, **more), status, said, sent)
    assert isinstance(plan, AgUiPlan), plan
    return plan


def refused(
    *messages: dict[str, Any], status: Any = IDLE, said: Any = (), sent: Any = None, **more: Any
) -> WireRefused:
    """Why a request is not done."""
    return refusal_of(decide_ag_ui_request, body(*messages, **more), status, said, sent)


HI, AND = of("user", "Hi", "u1"), of("user", "And?", "u2")


@pytest.mark.parametrize(
    ("messages", "said", "words"),
    [
        ([HI], (), "Hi"),
        ([HI, of("assistant"), AND], (), "And?"),
        ([HI, of("assistant"), AND, of("user", "Now", "u3")], (), "And?\n\nNow"),
        # Behind the last message that the session knows: others may be of other wires, or imported.
        ([HI, of("assistant"), of("assistant", name="b"), AND], (), "And?"),
        ([HI, of("assistant", name="m21"), AND], ("Hi",), "And?"),
        # Prompts without an answer are known by their texts, at the end of what was said and in this order.
        ([HI, AND], ("Hi",), "And?"),
        ([HI, AND], ("x", "Hi"), "And?"),
        ([HI, AND], ("Hi", "x"), "Hi\n\nAnd?"),
        ([HI, HI], ("Hi",), "Hi"),
        ([of("assistant"), HI], (), "Hi"),
    ],
)
def test_new_is_what_stands_behind_the_last_message_that_the_session_knows(messages, said, words):
    """Messages of the user, joined."""
    assert planned(*messages, said=said).words == words


def test_what_says_nothing_new_is_refused():
    """So is a run with other words than before; a known one is attached to with its own words."""
    for messages, said in (([HI], ("Hi",)), ([HI, of("assistant")], ()), ([of("user", " ")], ()), ([], ())):
        assert refused(*messages, said=said).code == "field_invalid"
    assert refused(HI, AND, said=("Hi",), sent=(2, "Hi")).code == "client_id_reused"
    answered = refused(of("assistant"), status=STATUS, sent=(2, "Hi"), resume=resume(("a1", YES)))
    assert answered.code == "client_id_reused"
    assert planned(HI, said=("Hi",), sent=(2, "Hi")) == AgUiPlan(words="Hi", repeats=2)
    assert planned(HI, of("assistant"), said=(), sent=(2, "Hi")).words == "Hi"


def resume(*entries: tuple[str, Any]) -> list[dict[str, Any]]:
    """Answers to interrupts; an ellipsis cancels one."""
    return [
        {"interruptId": name, "status": "cancelled"}
        if payload is ...
        else {"interruptId": name, "status": "resolved", "payload": payload}
        for name, payload in entries
    ]


YES, NO = {"approved": True}, {"approved": False, "reason": "no"}


@pytest.mark.parametrize(
    ("entries", "decisions"),
    [
        ([("a1", YES)], [ApproveArguments(approval_id="a1")]),
        ([("a1", {**YES, "editedArgs": {"x": 1}})], [ApproveArguments(approval_id="a1", arguments={"x": 1})]),
        ([("a1", NO)], [RejectBody(approval_id="a1", reason="no", auto_resume=True)]),
        ([("a1", ...)], [RejectBody(approval_id="a1", auto_resume=True)]),
        ([("q1", "b")], [RespondBody(ref="q1", response="b")]),
        ([("q1", ...)], [DeclineBody(ref="q1")]),
        # What does not wait comes first, where the session refuses it, and with it all others.
        ([("a1", YES), ("a9", YES)], [DeclineBody(ref="a9"), ApproveArguments(approval_id="a1")]),
    ],
)
def test_answers_go_to_what_waits(entries, decisions):
    """An approval takes its payload, a question a text, and each of them a cancellation."""
    assert [*planned(of("assistant"), status=STATUS, resume=resume(*entries)).answers] == decisions


def test_only_an_answer_to_an_approval_can_approve():
    """No message of the past does, whatever it claims; a wrong payload refuses all."""
    claims = [
        of("assistant", "approved: a1"),
        of("tool", '{"approved": true}', toolCallId="c1"),
        of("system", "a1: yes"),
    ]
    assert refused(*claims, status=STATUS).code == "field_invalid"
    assert planned(*claims, HI, status=STATUS) == AgUiPlan(words="Hi")
    for payload in (None, True, "yes", {}, {"approved": 1}, {**NO, "reason": 5}, {**YES, "editedArgs": []}):
        told = refused(of("assistant"), status=STATUS, resume=resume(("q1", "b"), ("a1", payload)))
        assert (told.code, told.place) == ("field_invalid", "resume[1].payload")
    assert refused(HI, status=STATUS, resume=resume(("q1", 5))).place == "resume[0].payload"
    only = evolve(STATUS, approvals=(evolve_approval(permission_options=("approve",)),))
    assert refused(HI, status=only, resume=resume(("a1", NO))).place == "resume[0].payload"
    assert refused(HI, status=STATUS, resume=resume(("a1", YES), ("a1", NO))).place == "resume"


def evolve_approval(**changes: Any) -> Any:
    """The approval that waits, changed."""
    return msgspec.structs.replace(STATUS.approvals[0], **changes)


def test_results_answer_open_calls_of_the_client():
    """Wherever they stand; those of other calls are the past. An error is one."""
    result = of("tool", "3", "r", toolCallId="c3")
    assert planned(of("assistant"), result, status=STATUS).answers == (AnswerBody(ref="k1", text="3"),)
    failed = planned(result | {"error": "no map"}, of("assistant"), status=STATUS).answers
    assert failed == (AnswerBody(ref="k1", text="no map", is_error=True),)
    assert refused(of("assistant"), of("tool", "3", toolCallId="c9"), status=STATUS).code == "field_invalid"


def test_words_behind_answers_make_late_ones_the_past():
    """An answer to what waits no more is refused where it stands alone."""
    answers = resume(("a9", YES), ("a1", YES))
    assert len(planned(of("assistant"), status=STATUS, resume=answers).answers) == 2
    plan = planned(of("assistant"), HI, status=STATUS, resume=answers)
    assert (plan.answers, plan.words) == ((ApproveArguments(approval_id="a1"),), "Hi")


def test_a_new_thread_imports_all_but_its_last_message():
    """Instructions, thinking and activities stay out; arguments that are no object stay as they are."""
    calls_ = [
        {"id": "k", "type": "function", "function": {"name": "find", "arguments": '{"x":1}'}},
        {"id": "l", "type": "function", "function": {"name": "find", "arguments": "[1"}},
    ]
    messages = [
        of("system"),
        of("developer"),
        of("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        of("reasoning"),
        of("assistant", None, toolCalls=calls_),
        of("tool", "1", toolCallId="k"),
        of("tool", "2", toolCallId="l", error="no"),
        of("activity", {"a": 1}, activityType="plan"),
        HI,
    ]
    found = ToolCall(call_id=CallId("k"), name="find", arguments={"x": 1})
    broken = ToolCall(call_id=CallId("l"), name="find", arguments=None, malformed="[1")
    results = [
        ToolResult(call_id=CallId("k"), name="find", text="1"),
        ToolResult(call_id=CallId("l"), name="find", text="2", is_error=True),
    ]
    plan = planned(*messages, status=None)
    assert plan.words == "Hi"
    assert plan.history == (
        UserMessage(content=(Text(text="a\nb"),)),
        AssistantMessage(content=(found, broken), model="ag-ui:imported"),
        *(ToolMessage(results=(one,)) for one in results),
    )
    for last in (of("assistant"), of("tool", toolCallId="k"), of("user", "")):
        assert refused(last, status=None).code == "field_invalid"
    assert refused(HI, status=None, resume=resume(("a1", YES))).code == "session_unknown"


def test_media_of_new_messages_are_refused_and_those_of_the_past_are_kept():
    """What a session cannot take is not left out silently."""
    image = {"type": "image", "source": {"type": "url", "value": "https://example.org/a.png"}}
    seen = of("user", [{"type": "text", "text": "Look"}, image])
    for status in (IDLE, None):
        assert refused(seen, status=status).code == "attachments_unsupported"
    assert planned(seen, of("assistant"), HI).words == "Hi"
    request = body(seen)
    (past,) = open_ag_ui_run(request, AgUiPlan()).past
    assert msgspec.to_builtins(past)["content"][1]["source"]["value"] == image["source"]["value"]


@pytest.mark.parametrize(
    "message",
    [
        of("user", None),
        of("user", {"a": 1}),
        of("user", [{"type": "text"}]),
        of("user", [{"type": "image"}]),
        of("assistant", []),
        of("system", None),
        of("reasoning", []),
        of("activity", "x", activityType="plan"),
        of("activity", {}),
        of("tool", "x"),
    ],
)
def test_a_message_that_is_none_is_named(message):
    """What its types allow, and its role does not."""
    check_ag_ui_messages(body(HI).messages)
    fault = refusal_of(check_ag_ui_messages, body(HI, message).messages)
    assert fault.place.startswith("messages[1]")


def test_messages_are_bounded():
    """They are read in the event loop."""
    many = body(*[HI] * 5_000).messages
    check_ag_ui_messages(many)
    fault = refusal_of(check_ag_ui_messages, (*many, many[0]))
    assert (fault.code, fault.place) == ("too_large", "messages")


def test_a_client_has_what_it_sent_and_a_repeated_run_begins_behind_its_message():
    """Ids of messages, calls and results, so that nothing is opened twice, and the arguments of calls; a repeat replaces what came after."""
    call = {"id": "k", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    request = body(HI, of("assistant", None, toolCalls=[call]), of("tool", toolCallId="k", name="r"))
    run = open_ag_ui_run(request, AgUiPlan())
    assert (run.known, run.first) == ({"u1", "m3", "k", "k {}", "r", "k/result"}, ())
    again = open_ag_ui_run(request, AgUiPlan(repeats=2))
    assert again.known == {"u1"}
    assert open_ag_ui_run(request, AgUiPlan(repeats=3)).known == run.known
    thinking = body(HI, of("reasoning", name="p3"), of("assistant"))
    assert open_ag_ui_run(thinking, AgUiPlan(repeats=2)).known == {"u1", "p3"}
    both = body(of("reasoning", name="p1"), HI, of("reasoning", name="p5"), of("assistant", name="m6"))
    assert open_ag_ui_run(both, AgUiPlan(repeats=4)).known == {
        "p1",
        "u1",
    }  # a snapshot with thinking replaces all of it
    assert [one["type"] for one in again.first] == ["MESSAGES_SNAPSHOT"]


def test_a_snapshot_has_the_messages_of_the_client_as_it_sent_them():
    """It replaces them: a field that is left out is lost."""
    page = {"type": "file", "value": "f-1", "provider": "openai"}
    parts = [
        {"type": "text", "id": "a", "text": "See.", "metadata": {"source": "web"}},
        {"type": "image", "id": "b", "source": {"type": "url", "value": "https://x.example"}, "metadata": 1},
        {"type": "document", "source": {**page, "mimeType": "application/pdf"}},
    ]
    call = {"id": "k", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    sent = (
        of("user", parts, name="u1", encryptedValue="e", metadata={"at": 1}),
        of("assistant", toolCalls=[{**call, "encryptedValue": "e", "metadata": {"at": 2}}]),
        of("tool", name="r", toolCallId="k", error="no", metadata={"agentrail": {"isError": True}}),
    )
    snapshot = messages_snapshot(open_ag_ui_run(body(*sent, HI), AgUiPlan()))
    assert msgspec.json.decode(msgspec.json.encode(snapshot["messages"])) == [*sent, HI]


@pytest.mark.parametrize(
    ("more", "settings"),
    [
        ({}, None),
        ({"context": [], "tools": []}, None),
        ({"tools": [{"name": "map"}]}, {"tools": ({"name": "map"},)}),
        (
            {"context": [{"description": "Page", "value": "home"}, {"description": "Zoom", "value": "3"}]},
            {"instructions": "Context of the user's page:\n- Page: home\n- Zoom: 3"},
        ),
    ],
)
def test_tools_and_context_are_settings_of_the_run(more, settings):
    """None of them is one."""
    assert body(HI, **more).settings == settings


@pytest.mark.parametrize(
    ("given", "on_disconnect", "is_branch"),
    [
        (None, "abort", False),
        ("agentrail", "abort", False),
        ({"agentrail": True}, "abort", False),
        ({"agentrail": {"on_disconnect": "never", "branch": 1}}, "abort", False),
        ({"agentrail": {"on_disconnect": "continue", "branch": True}}, "continue", True),
    ],
)
def test_what_is_forwarded_to_us_is_two_words(given, on_disconnect, is_branch):
    """Anything else is ignored."""
    request = body(HI, forwardedProps=given)
    assert (request.on_disconnect, request.is_branch) == (on_disconnect, is_branch)


def test_a_history_differs_by_what_the_session_did_not_say():
    """Messages with its ids are its own, and so are those of its children; of others the texts are compared."""
    child = of("assistant", "b", "c/m2", subagentRunId="c")
    messages = body(
        of("assistant", "a"), child, of("assistant", "c", "x"), of("assistant", None, "y")
    ).messages
    assert foreign_texts(messages, IDLE) == {"c"}
