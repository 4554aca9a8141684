"""The pure side of the MCP server: lists, questions as forms, answers, and results."""

import re
from contextlib import suppress
from typing import Any

import mcp_types
import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail.core.values.toolbox import ToolSpec
from agentrail.events import AgentEnd, Approval, AskUser, ClientCall, ToolProgress
from agentrail.messages import ApprovalId, CallId, Image, QuestionRef, TokenUsage, ToolResult
from agentrail.protocols import mcp_server as shapes
from agentrail.protocols.decisions import WireRefused
from agentrail.protocols.response_changes import (
    CallEnded,
    CallShown,
    Happened,
    PartText,
    ResponseEnd,
    ShownCall,
    Step,
    TakenBack,
)
from agentrail.protocols.response_state import Response
from agentrail.wire.operations import ApproveArguments, DeclineBody, RejectBody, RespondBody
from tests.protocols.refusals import refusal_of

CALL = CallId("c1")
APPROVAL = Approval(
    id=ApprovalId("a1"),
    call_id=CALL,
    tool="shell",
    arguments={"command": "ls"},
    arguments_hash="h1",
    hint="it writes",
    requested_at_ms=0,
    path=(),
)
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
}
TEXT = AskUser(ref=QuestionRef("q1"), question="Which?")
CHOICE = AskUser(ref=QuestionRef("q2"), question="Which?", options=("a", "b"))
OBJECT = AskUser(ref=QuestionRef("q3"), question="How many?", schema=FORM)
LINK = AskUser(ref=QuestionRef("q4"), question="Go there.", url="https://login.example/")


def accept(**content):
    return {"action": "accept", "content": content}


def decided(asked, answer):
    """The decisions in one answer to one question."""
    question = shapes.mcp_question(asked)
    return shapes.decide_mcp_answers({question.id: question.digest}, [question], {question.id: answer})


@pytest.mark.parametrize(
    ("asked", "answer", "decision"),
    [
        (APPROVAL, accept(decision="approve"), ApproveArguments(approval_id="a1")),
        (
            APPROVAL,
            accept(decision="reject", reason="No."),
            RejectBody(approval_id="a1", reason="No.", auto_resume=True),
        ),
        (APPROVAL, {"action": "decline"}, RejectBody(approval_id="a1", auto_resume=True)),
        (TEXT, accept(answer="x"), RespondBody(ref="q1", response="x")),
        (TEXT, {"action": "decline"}, DeclineBody(ref="q1")),
        (CHOICE, accept(answer="b"), RespondBody(ref="q2", response="b")),
        (OBJECT, accept(answer=3), RespondBody(ref="q3", response={"answer": 3})),
        (LINK, {"action": "accept"}, RespondBody(ref="q4", response="done")),
        (LINK, {"action": "decline"}, DeclineBody(ref="q4")),
    ],
)
def test_an_answer_is_one_decision(asked, answer, decision):
    """11.6: a form of ours has one field, whose text is the answer; another form is answered as an object."""
    assert decided(asked, answer) == (decision,)
    assert decided(asked, {"action": "cancel"}) == ()


@pytest.mark.parametrize("asked", [APPROVAL, TEXT, CHOICE, OBJECT])
@pytest.mark.parametrize(
    "answer",
    [accept(), accept(decision="yes"), accept(answer=["x"]), {"action": "accept"}, {"action": "x"}, {}],
)
def test_an_answer_that_does_not_fit_is_refused(asked, answer):
    """Also an action that is none."""
    assert refusal_of(decided, asked, answer).code == "invalid_response"


@pytest.mark.protocol(19)
@pytest.mark.parametrize("changed", [msgspec.structs.replace(APPROVAL, arguments_hash="h2"), None])
def test_an_answer_counts_only_for_what_was_shown(changed):
    """P-019: an approval with other arguments, or one that is decided, refuses all answers of the request."""
    shown = {one.id: one.digest for one in map(shapes.mcp_question, (APPROVAL, TEXT))}
    pending = [shapes.mcp_question(one) for one in (changed, TEXT) if one is not None]
    answers = {"a1": accept(decision="approve"), "q1": accept(answer="x")}
    refused = refusal_of(shapes.decide_mcp_answers, shown, pending, answers)
    assert refused.code == "already_resolved"


def test_a_missing_answer_leaves_its_question_open():
    """The others count; an answer to something else is ignored."""
    questions = [*map(shapes.mcp_question, (APPROVAL, TEXT))]
    shown = {one.id: one.digest for one in questions}
    answers = {"q1": accept(answer="x"), "q9": accept(answer="y")}
    assert shapes.decide_mcp_answers(shown, questions, answers) == (RespondBody(ref="q1", response="x"),)


@given(st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.text())), st.text())
def test_no_answer_approves_but_an_approval(content, action):
    """Whatever a client sends."""
    for asked in (APPROVAL, TEXT, OBJECT, LINK):
        for answer in ({"action": action, "content": content}, {"action": "accept", "content": content}):
            found = ()
            with suppress(WireRefused):
                found = decided(asked, answer)
            approves = any(isinstance(one, ApproveArguments) for one in found)
            assert approves == (
                asked is APPROVAL and content.get("decision") == "approve" and "reason" not in content
            )


def test_forms_show_what_is_decided():
    """The arguments of an approval, the options of a question, and an address with its id."""
    approval = shapes.mcp_question(APPROVAL).form
    assert approval["message"] == 'Allow shell with {"command":"ls"}? (it writes)'
    assert approval["requestedSchema"]["properties"]["decision"]["enum"] == ["approve", "reject"]
    plain = shapes.mcp_question(msgspec.structs.replace(APPROVAL, hint=None))
    assert plain.form["message"] == 'Allow shell with {"command":"ls"}?'
    choice = shapes.mcp_question(CHOICE).form["requestedSchema"]
    assert choice["properties"] == {"answer": {"type": "string", "enum": ["a", "b"]}}
    assert shapes.mcp_question(OBJECT).form["requestedSchema"] == FORM
    link = shapes.mcp_question(LINK).form
    assert (link["mode"], link["url"], link["elicitationId"]) == ("url", "https://login.example/", "q4")


def test_a_call_of_the_client_cannot_be_answered_in_a_form():
    """So nothing is asked: half an answer would not resume the cycle."""
    call = ClientCall(ref="c1", name="show", call_id=CALL, arguments={})
    assert shapes.mcp_questions({"a1": ("c1", APPROVAL), "c1": ("c1", call)}) == ()
    (question,) = shapes.mcp_questions({"a1": ("c1", APPROVAL)})
    assert question.id == "a1"


def test_a_state_comes_back_as_it_was():
    """It is JSON, which the library seals."""
    question = shapes.mcp_question(APPROVAL)
    state = shapes.McpState(session_id="s1", ref="p1", asked={"a1": question.digest})
    result = shapes.input_required(state, [question])
    assert shapes.MCP_STATES.decode(result["requestState"]) == state
    assert result["inputRequests"]["a1"] == {"method": "elicitation/create", "params": question.form}


def frames_of(*changes):
    return [frame for change in changes for frame in shapes.MCP_SERVER.show(None, change, Response())[1]]


def test_progress_is_without_text_that_was_taken_back():
    """P-058; parts of two messages are apart."""
    frames = frames_of(
        PartText("text", "Half", "p1", "m1", 0, is_first=True),
        TakenBack(("p1",), "m1", 2, "again"),
        PartText("text", "Wh", "p2", "m2", 0, is_first=True),
        PartText("text", "ole.", "p2", "m2", 0, is_first=False),
        PartText("thinking", "Hm.", "p3", "m2", 1, is_first=True),
        PartText("text", "More.", "p4", "m3", 0, is_first=True),
    )
    assert shapes.text_so_far(frames) == "Whole.\n\nMore."


def test_calls_and_their_progress_are_lines():
    """Each once; the end and steps are none."""
    shown = ShownCall(name="look", arguments={})
    result = ToolResult(call_id=CALL, name="look", text="seen")
    frames = frames_of(
        Step(is_begun=True),
        CallShown(CALL, shown, is_new=True),
        CallShown(CALL, shown, is_new=False),
        Happened(ToolProgress(name="look", call_id=CALL, text="half")),
        Happened(TEXT),
        CallEnded(CALL, shown, result),
        CallEnded(CALL, shown, None),
        ResponseEnd(kind="finished"),
    )
    assert [frame["line"] for frame in frames if "line" in frame] == ["[look]", "half"]
    assert [frame["asked"] for frame in frames if "asked" in frame] == ["q1"]
    assert shapes.result_of_call(frames, CALL)["content"] == [{"type": "text", "text": "seen"}]
    assert shapes.result_of_call([], CALL)["structuredContent"]["code"] == "cycle_failed"


def test_results():
    """Of an agent, with its usage; of a tool, with its images and data; of a plugin or a command; of a failure."""
    end = ResponseEnd(kind="finished", stop_reason="end", usage=TokenUsage(input=1, output=2), event=AgentEnd)
    told = shapes.call_answer("Hi", "s1", end)["structuredContent"]
    assert (told["text"], told["session_id"], told["stop_reason"], told["usage"]["input"]) == (
        "Hi",
        "s1",
        "end",
        1,
    )
    assert "usage" not in shapes.call_answer("Hi", "s1", ResponseEnd(kind="finished"))["structuredContent"]
    image = Image(media_type="image/png", data="AAAA")
    result = ToolResult(call_id=CALL, name="x", text="t", details={"a": [1]}, images=(image,))
    shown = shapes.result_of_call([{"call_id": CALL, "result": result}], CALL)
    assert shown["content"][1] == {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    assert shown["structuredContent"] == {"a": [1]}
    assert (
        shapes.handled_answer({"command": "help", "lines": ["a", "b"]}, 200)["content"][0]["text"] == "a\nb"
    )
    assert shapes.handled_answer({"x": 1}, 402) == {
        "content": [{"type": "text", "text": '{"x":1}'}],
        "isError": True,
    }
    failed = shapes.call_failure("quota", "too much", {"more": 1})
    assert failed["structuredContent"] == {"more": 1, "code": "quota", "message": "too much"}


def test_lists():
    """Names that MCP allows, hints from the effect class, a description in any case, and arguments that are checked."""
    assert shapes.mcp_name("a:b@c+d.e-f") == "a_b_c_d.e-f"
    assert (
        shapes.tool_of_profile("x", "Desk", "")["description"]
        == "Asks the agent Desk, and returns its answer."
    )
    pure = shapes.tool_of_spec(ToolSpec(name="t", description="d", parameters=FORM, effect_class="pure"))
    assert pure["annotations"] == {"readOnlyHint": True, "idempotentHint": True}
    assert pure["inputSchema"] == FORM
    once = shapes.tool_of_spec(ToolSpec(name="t", description="d", parameters=FORM))
    assert once["annotations"] == {"readOnlyHint": False, "idempotentHint": False}
    assert shapes.shown_prompt("p", "d", "")["arguments"] == []
    assert shapes.shown_prompt("p", "d", "file")["arguments"] == [
        {"name": "arguments", "required": False, "description": "file"}
    ]
    assert shapes.shown_prompt("p", "d", "<file> [line]")["arguments"] == [
        {"name": "file", "required": True},
        {"name": "line", "required": False},
    ]
    form = shapes.form_of_arguments("p", ["file"])
    assert form["requestedSchema"]["required"] == ["file"]
    assert shapes.faults_of_call({"prompt": "Hi"}) == ()
    assert len(shapes.faults_of_call({"prompt": "", "x": 1})) == 2


LINKED = {"type": "resource_link", "uri": "docs://a", "name": "a"}
HELD = {"type": "resource", "resource": {"uri": "docs://a", "mimeType": "text/plain", "text": "A"}}


@pytest.mark.parametrize(
    ("given", "is_valid"),
    [
        ([], True),
        ([LINKED, HELD, {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}], True),
        ([{"type": "resource", "resource": {"uri": "docs://a", "blob": "AAAA"}}], True),
        ([{"type": "resource", "resource": {"uri": "docs://a"}}], False),
        ([{"type": "resource", "resource": {"uri": "docs://a", "text": "A", "mimeType": 7}}], False),
        ([{**LINKED, "size": "x", "name": None}], False),
        ([LINKED, {"type": "audio", "data": "AAAA"}], False),
        ([{"type": "text", "text": "A"}], False),
        ([7], False),
        ("A", False),
    ],
)
def test_a_tool_adds_blocks_for_mcp_clients(given, is_valid):
    """11.6: audio, images, links and resources in `details`. Invalid ones are left out, which the text says."""
    result = ToolResult(call_id=CALL, name="x", text="t", details={shapes.CONTENT_KEY: given})
    shown = shapes.result_of_call([{"call_id": CALL, "result": result}], CALL)
    told = given if is_valid else [{"type": "text", "text": "[mcp_content has an invalid block]"}]
    assert shown == {"content": [{"type": "text", "text": "t"}, *told], "isError": False}
    mcp_types.CallToolResult.model_validate({**shown, "resultType": "complete"})


def test_a_resource_is_the_resources_of_a_result_or_its_text():
    """A tool that reads a resource needs no blocks for a text."""
    words = {"type": "text", "text": "t"}
    assert shapes.contents_of_result("docs://a", {"content": [words, LINKED, HELD]})["contents"] == [
        HELD["resource"]
    ]
    assert shapes.contents_of_result("docs://a", {"content": [words]})["contents"] == [
        {"uri": "docs://a", "text": "t"}
    ]


@pytest.mark.parametrize(
    ("template", "uri", "found"),
    [
        ("docs://all", "docs://all", {}),
        ("docs://all", "docs://al", None),
        ("docs://{name}/v{number}", "docs://a%20b/v2", {"name": "a b", "number": "2"}),
        ("docs://{name}", "docs://a/b", None),
        ("docs://{name}", "docs://", None),
        ("docs://.{name}", "docs://xa", None),
        ("docs://{name}", "docs://" + "x" * 300, None),
    ],
)
def test_a_uri_fits_a_template(template, uri, found):
    """A variable is one part of a path, unquoted."""
    assert shapes.read_template(template, uri) == found


TEXTS = st.sampled_from(["", "-", "a", "--", "/", "-a", "a/", "d:"])


@given(
    texts=st.lists(TEXTS, min_size=1, max_size=4),
    uri=st.text("-ad/:", max_size=9) | st.lists(TEXTS, max_size=9).map("".join),
)
def test_a_uri_fits_a_template_as_one_expression_would_find_it(texts, uri):
    """Of several ways to read a URI, an earlier variable is as long as possible."""
    names = [f"x{place}" for place in range(len(texts) - 1)]
    template = texts[0] + "".join([f"{{{name}}}{text}" for name, text in zip(names, texts[1:], strict=True)])
    expected = re.fullmatch("([^/?#]{1,256})".join(map(re.escape, texts)), uri)
    found = shapes.read_template(template, uri)
    assert found == (None if expected is None else dict(zip(names, expected.groups(), strict=True)))


def test_a_uri_of_dashes_takes_no_time():
    """An expression would try each place of four variables: three minutes for this one."""
    template = "docs://{a}-{b}-{c}-{d}-{e}"
    assert shapes.read_template(template, "docs://" + "-" * 900 + "/") is None
    assert shapes.read_template(template, "docs://a-b-c-d-e-f") == {
        "a": "a-b",
        "b": "c",
        "c": "d",
        "d": "e",
        "e": "f",
    }


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("agentrail://sessions/s-1", ("s-1", False)),
        ("agentrail://sessions/s-1/messages", ("s-1", True)),
        ("agentrail://sessions/s-1/other", None),
        ("agentrail://sessions/", None),
        ("https://sessions/s-1", None),
    ],
)
def test_a_resource_is_a_session_or_its_conversation(uri, found):
    """Anything else is unknown."""
    assert shapes.read_session_uri(uri) == found


@pytest.mark.protocol(21)
def test_a_client_without_forms_reads_what_waits():
    """P-021: each with its id; for the call of a tool there is no later call."""
    question = shapes.mcp_question(APPROVAL)
    words = shapes.waiting_words("s1", [question], is_tool=False)
    assert words.splitlines()[0] == "Session s1 waits for a user."
    assert "a1: Allow shell" in words
    assert "call again" in words
    assert "call again" not in shapes.waiting_words("s1", [question], is_tool=True)
