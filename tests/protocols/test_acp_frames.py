"""What an editor is shown, what it is asked and how its answers are read, without a session. Official types judge each frame."""

import pytest
from msgspec.structs import replace

from agentrail import events
from agentrail.messages import ApprovalId, AssistantMessage, CallId, QuestionRef, SessionId, Text, TokenUsage
from agentrail.protocols import acp
from agentrail.protocols.decisions import question_words
from agentrail.protocols.response_changes import CallEnded, CallShown, Happened, MessageCompleted, ShownCall
from agentrail.protocols.response_state import Response
from agentrail.wire.operations import ApproveArguments, DeclineBody, RejectBody, RespondBody
from tests.conftest import SERVICES
from tests.gateway.stdio.acp_types import check_frame

VIEW = acp.AcpView(session_id="s", cwd="/w", window=1_000)
PLAN = events.Plan(
    steps=(events.PlanStep(index=0, content="Look", done=True), events.PlanStep(index=1, content="Act"))
)
APPROVAL = events.Approval(
    id=ApprovalId("a1"),
    call_id=CallId("c1"),
    tool="shell",
    arguments={"command": "ls"},
    arguments_hash="0",
    requested_at_ms=0,
    path=(SessionId("s"),),
)
ASKED = events.AskUser(ref=QuestionRef("q1"), question="Which?", options=("a", "b"), call_id=CallId("c1"))
FORM = events.AskUser(
    ref=QuestionRef("q1"),
    question="Which?",
    schema={"type": "object", "properties": {"n": {"type": "integer"}}},
    call_id=None,
)
LINK = events.AskUser(ref=QuestionRef("q1"), question="Log in", url="https://example.org/login")


def shown(change, view=VIEW):
    """The updates of a change, which the official types accept."""
    after, frames = acp.show_acp_change(view, change, Response())
    for frame in frames:
        if SERVICES["acp"].exists():
            check_frame(dict(frame), {})
    return after, [frame["params"]["update"] for frame in frames]


@pytest.mark.parametrize(
    ("event", "update"),
    [
        (
            events.PlanGenerated(plan=PLAN),
            {
                "sessionUpdate": "plan",
                "entries": [
                    {"content": "Look", "priority": "medium", "status": "completed"},
                    {"content": "Act", "priority": "medium", "status": "pending"},
                ],
            },
        ),
        (
            events.TodoChange(todos=(events.Todo(id="1", content="Sweep", status="in_progress"),)),
            {
                "sessionUpdate": "plan",
                "entries": [{"content": "Sweep", "priority": "medium", "status": "in_progress"}],
            },
        ),
        (events.TitleGenerated(title="Notes"), {"sessionUpdate": "session_info_update", "title": "Notes"}),
        (
            events.ToolProgress(call_id=CallId("c1"), name="shell", text="half"),
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "c1",
                "content": [{"type": "content", "content": {"type": "text", "text": "half"}}],
            },
        ),
    ],
)
def test_other_events(event, update):
    """A plan, a list of todos, a title and progress of a call."""
    assert shown(Happened(event))[1] == [update]


def test_usage_adds_up_until_a_price_is_unknown():
    """The cost of the session, and the size of its window."""
    message = AssistantMessage(content=(Text(text="x"),), model="scripted:x", stop_reason="end")
    after, (update,) = shown(MessageCompleted("m1", message, "", TokenUsage(input=5, output=2, cost_usd=0.5)))
    assert (update["used"], update["size"], update["cost"]) == (7, 1_000, {"amount": 0.5, "currency": "USD"})
    after, (update,) = shown(MessageCompleted("m2", message, "", TokenUsage(input=5, cost_usd=None)), after)
    assert "cost" not in update
    assert shown(MessageCompleted("m3", message, "", TokenUsage()), acp.AcpView("s", "/w"))[1] == []


def test_a_call_has_a_place_a_kind_and_a_diff():
    """Paths are absolute. A call that the response leaves open has failed."""
    call = ShownCall(name="read_file", arguments={"path": "a/../b", "offset": 3})
    update = shown(CallShown("c1", call, is_new=True))[1][0]
    assert (update["kind"], update["locations"]) == ("read", [{"path": "/w/a/../b", "line": 3}])
    edit = ShownCall(name="edit_file", arguments={"path": "/w/b", "old_string": "x", "new_string": "y"})
    update = shown(CallShown("c1", edit, is_new=False))[1][0]
    assert update["sessionUpdate"] == "tool_call_update"
    assert update["content"] == [{"type": "diff", "path": "/w/b", "oldText": "x", "newText": "y"}]
    assert shown(CallEnded("c1", edit, None))[1][0]["status"] == "failed"


SELECTED = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}


@pytest.mark.parametrize(
    ("asked", "result", "decision"),
    [
        (APPROVAL, SELECTED, ApproveArguments(approval_id="a1")),
        (
            APPROVAL,
            {"outcome": {"outcome": "selected", "optionId": "allow_always"}},
            ApproveArguments(approval_id="a1", kind="always"),
        ),
        (
            APPROVAL,
            {"outcome": {"outcome": "selected", "optionId": "what"}},
            RejectBody(approval_id="a1", auto_resume=True),
        ),
        (APPROVAL, {"outcome": {"outcome": "cancelled"}}, None),
        (
            APPROVAL,
            None,
            RejectBody(approval_id="a1", reason="the editor could not ask the user", auto_resume=True),
        ),
        (ASKED, {"action": "accept", "content": {"answer": "a"}}, RespondBody(ref="q1", response="a")),
        (ASKED, {"action": "accept", "content": {}}, DeclineBody(ref="q1")),
        (ASKED, {"action": "cancel"}, None),
        (ASKED, {"action": "decline"}, DeclineBody(ref="q1")),
        (FORM, {"action": "accept", "content": {"n": 1}}, RespondBody(ref="q1", response={"n": 1})),
        (LINK, {"action": "accept"}, RespondBody(ref="q1", response="done")),
        (LINK, 3, DeclineBody(ref="q1")),
    ],
)
def test_answers_of_an_editor(asked, result, decision):
    """Only `allow_once` and `allow_always` approve. A question that is left alone stays open."""
    assert acp.read_acp_decision(asked, result) == decision


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///w/My%20caf%C3%A9.py", "/w/My café.py"),
        ("file:///w/100%.txt", "/w/100%.txt"),
        ("https://example.org/a%20b", "https://example.org/a%20b"),
    ],
)
def test_a_file_of_an_editor_has_the_name_that_it_has_on_disk(uri, path):
    """An editor encodes it, and a tool that was given the encoded name would find no file. Other addresses stay."""
    assert acp.read_block({"type": "resource_link", "uri": uri}) == Text(text=f"@{path}")
    embedded = {"type": "resource", "resource": {"uri": uri, "text": "x"}}
    assert acp.read_block(embedded) == Text(text=f'<file path="{path}">\nx\n</file>')


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        ({"command": "rm a"}, "shell rm a"),
        ({"workdir": "ls", "command": "rm a"}, "shell rm a"),
        ({"command": "x" * 114}, f"shell {'x' * 114}"),
        ({"command": f"ls {' ' * 200}; rm a"}, f"shell ls {' ' * 110}…"),
    ],
)
def test_the_title_of_a_request_is_the_command_and_shows_where_it_is_cut(arguments, title):
    """Whatever the order in which the model wrote its arguments."""
    asked = replace(APPROVAL, arguments=arguments)
    call = acp.permission_request(VIEW, "c1", asked, ())["params"]["toolCall"]
    assert (call["title"], call["rawInput"]) == (title, arguments)


@pytest.mark.services("acp")
def test_requests_are_of_the_official_types():
    """A permission with and without `always`, a form, an address."""
    bound = replace(APPROVAL, permission_options=("approve", "reject"))
    frames = [
        acp.permission_request(VIEW, "c1", APPROVAL, ()),
        acp.permission_request(VIEW, "c1", bound, ()),
        acp.question_request(VIEW, "c1", ASKED),
        acp.question_request(VIEW, "", FORM),
        acp.question_request(VIEW, "", LINK),
        acp.said_in_words("s", question_words(LINK)),
        *acp.user_chunks("s", (Text(text="x"),)),
        acp.commands_update("s", [("help", "Help.", ""), ("model", "Model.", "[name]")]),
    ]
    for frame in frames:
        check_frame(dict(frame), {})
    names = [[one["optionId"] for one in frame["params"]["options"]] for frame in frames[:2]]
    assert names == [["allow_once", "allow_always", "reject_once"], ["allow_once", "reject_once"]]
    assert "exactly this call" in frames[0]["params"]["options"][1]["name"]


@pytest.mark.parametrize(
    ("server", "options"),
    [
        (
            {"name": "My Files!", "command": "npx", "args": ["-y"], "env": [{"name": "A", "value": "b"}]},
            {"name": "my-files-", "scope": "session", "command": ("npx", "-y"), "env": {"A": "b"}},
        ),
        (
            {"name": "web", "type": "http", "url": "https://a", "headers": [3, {"name": "A", "value": "b"}]},
            {"name": "web", "scope": "session", "url": "https://a", "headers": {"A": "b"}},
        ),
    ],
)
def test_servers_of_an_editor(server, options):
    """Names become those that servers may have here."""
    assert acp.server_options(server) == options


@pytest.mark.parametrize(
    "server", [{}, {"name": "a", "type": "sse", "url": "https://a"}, {"name": 3, "command": "a"}]
)
def test_a_server_of_another_kind_is_refused(server):
    """Only stdio and HTTP."""
    with pytest.raises(acp.AcpFault, match="an MCP server has a name"):
        acp.server_options(server)
