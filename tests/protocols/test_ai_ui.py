"""The fold of the UI message stream, event by event: what each part of the table of 8.17 looks like, and what a client is spared."""

from timeit import repeat

import pytest
from msgspec.structs import replace

from agentrail.errors import ErrorInfo
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentResumed,
    AgentStart,
    AgentSuspended,
    Approval,
    ApprovalRequired,
    ApprovalResolved,
    AskUser,
    Envelope,
    MessageDelta,
    MessageStart,
    PromptDropped,
    PromptRejected,
    PromptTaken,
    RequestStart,
    ResponseComplete,
    SteeringApplied,
    StreamError,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    WaitingFor,
)
from agentrail.messages import (
    ApprovalId,
    AssistantMessage,
    CallId,
    PromptRef,
    QuestionRef,
    SessionId,
    SteerRef,
    Text,
    Thinking,
    TokenUsage,
    ToolResult,
)
from agentrail.protocols.ai_ui import (
    UiResponse,
    catch_up,
    fail_response,
    last_parts,
    pause,
    resume_response,
    show_event,
)
from tests.protocols.ui_client import UiClient

MINE, OTHER = PromptRef("p1"), PromptRef("p2")
SESSION = SessionId("s")
CALL = CallId("c1")
USAGE = TokenUsage(input=10, output=5)
BROKE = ErrorInfo(code="overloaded", message="busy")
START = AgentStart(ref=MINE)
ASK = RequestStart(model="m", messages=1)


def numbered(*events):
    """Give events their numbers: ephemeral ones have that of the last committed one."""
    seq = 4
    for event in events:
        is_ephemeral = isinstance(event, MessageDelta | ThinkingDelta)
        seq += not is_ephemeral
        yield replace(event, meta=Envelope(SESSION, seq, 0, (SESSION,), is_ephemeral))


def folded(*events, response=None):
    """Fold events into a response, and give it with the parts."""
    response = response or UiResponse(ref=MINE)
    parts = []
    for event in numbered(*events):
        response, more = show_event(response, event)
        parts.extend(more)
    return response, parts


def whole(*events, response=None):
    """All parts of a response that ends with these events."""
    response, parts = folded(*events, response=response)
    return [*parts, *last_parts(response)]


def types(parts):
    """What kind of part each is."""
    return [part["type"] for part in parts]


def said(*texts, thinking=""):
    """A response that is complete."""
    blocks = [Thinking(text=thinking, provider="p")] if thinking else []
    content = (*blocks, *(Text(text=text) for text in texts))
    message = AssistantMessage(content=content, model="m")
    return ResponseComplete(message=message, usage=USAGE, stop_reason="end")


def ended(reason="end"):
    """A cycle that finished."""
    return AgentEnd(messages=(), usage=USAGE, stop_reason=reason, ref=MINE)


def approval(arguments=None, name="a1"):
    """A call that waits for a person."""
    return Approval(
        id=ApprovalId(name),
        call_id=CALL,
        tool="shell",
        arguments=arguments or {"command": "ls"},
        arguments_hash="h",
        requested_at_ms=0,
        path=(SESSION,),
    )


RUNS = ToolExecutionStart(name="shell", call_id=CALL, arguments={"command": "ls"})


def result(text="done", **facts):
    """A call that has its result."""
    return ToolExecutionEnd(
        name="shell", call_id=CALL, result=ToolResult(call_id=CALL, name="shell", text=text, **facts)
    )


# --- whose


def test_what_belongs_to_another_cycle_is_not_shown():
    """A prompt waits for the cycle in front of it, and is shown from its own start on."""
    other = (AgentStart(ref=OTHER), ASK, MessageStart(), MessageDelta(delta="no"), said("no"))
    end = AgentEnd(messages=(), usage=USAGE, stop_reason="end", ref=OTHER)
    parts = whole(*other, end, START, ASK, MessageStart(), MessageDelta(delta="yes"), said("yes"), ended())
    assert [part.get("delta") for part in parts if part["type"] == "text-delta"] == ["yes"]
    assert parts[0] == {"type": "start", "messageId": "m10"}
    UiClient().read(parts)


@pytest.mark.parametrize(
    ("event", "last"),
    [
        (
            PromptDropped(ref=MINE, content=()),
            {"type": "abort", "reason": "the prompt was taken out of the queue"},
        ),
        (PromptRejected(ref=MINE, reason="be polite"), {"type": "error", "errorText": "be polite"}),
    ],
)
def test_a_prompt_that_no_cycle_works_on_ends_its_response(event, last):
    """In one part, without a message; that of another prompt does not."""
    assert whole(event) == [last]
    assert folded(replace(event, ref=OTHER))[0].end is None


@pytest.mark.parametrize(
    "taken",
    [
        PromptTaken(ref=MINE, approval_id=ApprovalId("a1"), by="p"),
        SteeringApplied(refs=(SteerRef(MINE),), count=1),
    ],
)
def test_words_that_join_a_cycle_have_a_message_of_their_own(taken):
    """It begins with them, and the calls that it shows are opened in it."""
    parts = whole(AgentStart(ref=OTHER), ASK, taken, RUNS, result(), ended())
    assert types(parts) == [
        "start",
        "tool-input-start",
        "tool-input-available",
        "tool-output-available",
        "finish",
    ]
    assert parts[0]["messageId"] == "m7"


def test_behind_its_end_nothing_is_shown():
    """Whatever the session does next."""
    response, _ = folded(START, ASK, ended())
    for event in (
        MessageDelta(delta="x"),
        RUNS,
        AgentResumed(trigger="tool_approved"),
        AgentStart(ref=OTHER),
    ):
        assert folded(event, response=response)[1] == []


# --- words


def test_text_and_thinking_are_opened_and_closed_in_order():
    """Their ids come from the numbers of events; what is opened twice at one number is told apart."""
    thinks = (
        ThinkingDelta(delta="hm"),
        MessageDelta(delta="a"),
        ThinkingDelta(delta="so"),
        MessageDelta(delta="b"),
    )
    parts = whole(START, ASK, MessageStart(), *thinks, said("ab", thinking="hmso"), ended())
    client = UiClient()
    client.read(parts)
    assert client.told() == [("reasoning", "hm"), ("text", "a"), ("reasoning", "so"), ("text", "b")]
    opened = [part["id"] for part in parts if part["type"].endswith("-start") and "id" in part]
    assert opened == ["p7", "p7.1", "p7.2", "p7.3"]


def test_a_response_that_was_not_heard_comes_whole():
    """Its deltas are kept nowhere: thinking, then text."""
    parts = whole(START, ASK, MessageStart(), said("Hello.", thinking="Hm."), ended())
    client = UiClient()
    client.read(parts)
    assert client.told() == [("reasoning", "Hm."), ("text", "Hello.")]


def test_what_a_reader_missed_at_the_end_is_said_behind_the_rest():
    """Deltas are given up where a reader is slow: what it has is how the text begins, and the rest follows."""
    parts = whole(START, ASK, MessageStart(), MessageDelta(delta="Hel"), said("Hello."), ended())
    assert [part["delta"] for part in parts if "delta" in part] == ["Hel", "lo."]
    assert "data-discarded" not in types(parts)


@pytest.mark.parametrize("complete", ["Hallo.", "He", "HXelo."])
def test_what_is_not_how_the_response_begins_is_taken_back(complete):
    """A gap in the middle, or a plugin that wrote another text: said anew under new ids (nothing taken back is passed off as said)."""
    parts = whole(START, ASK, MessageStart(), MessageDelta(delta="Helo."), said(complete), ended())
    client = UiClient()
    client.read(parts)
    assert client.told() == [("text", complete)]
    (taken,) = [part for part in parts if part["type"] == "data-discarded"]
    assert taken["data"]["ids"] == ["p7"]


def test_an_attempt_that_is_discarded_is_taken_back_and_one_that_is_kept_is_not():
    """New ids for the next one, in a step of its own."""
    begun = (START, ASK, MessageStart(), MessageDelta(delta="Half"))
    again = (
        RequestStart(model="m", messages=1, attempt=2),
        MessageStart(),
        MessageDelta(delta="All"),
        said("All"),
    )
    parts = whole(*begun, StreamError(error=BROKE, discarded=True), *again, ended())
    client = UiClient()
    client.read(parts)
    assert client.told() == [("text", "All")]
    assert types(parts).count("start-step") == 2
    kept = whole(*begun, StreamError(error=BROKE), AgentError(error=BROKE, ref=MINE))
    assert "data-discarded" not in types(kept)
    assert types(kept)[-3:] == ["text-end", "finish-step", "error"]


def test_what_streams_is_caught_up_with():
    """Text so far, then its deltas; thinking whose beginning was missed comes whole when the response is complete."""
    response, parts = folded(START, ASK, MessageStart())
    response, more = catch_up(response, "Hel")
    assert [part["delta"] for part in more if "delta" in part] == ["Hel"]
    events = [
        *numbered(
            ThinkingDelta(delta="…m"), MessageDelta(delta="lo."), said("Hello.", thinking="Hm"), ended()
        )
    ]
    parts.extend(more)
    for event in events:
        response, more = show_event(response, event)
        parts.extend(more)
    client = UiClient()
    client.read([*parts, *last_parts(response)])
    assert client.told() == [("text", "Hello."), ("reasoning", "Hm")]


# --- calls


def test_a_call_is_opened_once_however_often_it_is_shown():
    """An approval shows it before it runs; arguments that changed come again, as its input."""
    asked = ApprovalRequired(approval=approval())
    yes = ApprovalResolved(approval=approval(), status="approved", by="user")
    edited = ToolExecutionStart(name="shell", call_id=CALL, arguments={"command": "pwd"})
    parts = whole(START, ASK, asked, yes, edited, result(), ended())
    assert types(parts)[2:6] == [
        "tool-input-start",
        "tool-input-available",
        "tool-approval-request",
        "tool-input-available",
    ]
    assert parts[5]["input"] == {"command": "pwd"}
    UiClient().read(parts)


def test_a_second_approval_of_the_same_call_is_asked_for_again():
    """Rewritten arguments are shown to the person again, with an id of their own."""
    first, second = approval(), approval({"command": "rm"}, "a2")
    decided = [
        ApprovalResolved(approval=first, status="rejected", by="user"),
        ApprovalRequired(approval=second),
    ]
    yes = ApprovalResolved(approval=second, status="approved", by="user")
    _, parts = folded(START, ASK, ApprovalRequired(approval=first), *decided, yes, RUNS, result(), ended())
    assert [part["approvalId"] for part in parts if "approvalId" in part] == ["a1", "a2"]
    assert "tool-output-denied" not in types(parts)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("rejected", "tool-output-denied"),
        ("timeout", "tool-output-error"),
        ("superseded", "tool-output-error"),
    ],
)
def test_a_call_that_a_person_refused_is_denied_and_no_other(status, kind):
    """One that nobody decided has failed."""
    resolved = ApprovalResolved(approval=approval(), status=status, by="user")
    parts = whole(
        START, ASK, ApprovalRequired(approval=approval()), resolved, RUNS, result(is_error=True), ended()
    )
    assert kind in types(parts)
    assert {"tool-output-denied", "tool-output-error"} & {*types(parts)} == {kind}


def test_details_of_a_result_come_beside_its_words():
    """What the model read is the output."""
    parts = whole(START, ASK, RUNS, result("12 files", details={"count": 12}), ended())
    (output,) = [part for part in parts if part["type"] == "tool-output-available"]
    assert (output["output"], output["toolMetadata"]) == ("12 files", {"details": {"count": 12}})


def test_a_result_of_a_call_that_was_not_shown_shows_it():
    """A client breaks on a result of a call that it does not know."""
    assert types(whole(START, ASK, result(), ended()))[2:4] == ["tool-input-start", "tool-input-available"]


@pytest.mark.parametrize(
    "end", [ended(), AgentAbort(reason="enough", ref=MINE), AgentError(error=BROKE, ref=MINE)]
)
def test_a_call_without_a_result_is_closed_with_its_cycle(end):
    """A page would show it as running for ever."""
    parts = whole(START, ASK, RUNS, end)
    assert types(parts)[-3:-1] == ["tool-output-error", "finish-step"]


def test_a_question_becomes_the_clients_call_where_its_cycle_waits():
    """So that the page can answer it as its result; a call of ours that waits for an approval stays ours."""
    asks = ToolExecutionStart(name="ask_user", call_id=CALL, arguments={"question": "?"})
    waits = AgentSuspended(waiting=(WaitingFor(kind="question", id=QuestionRef("q"), call_id=CALL),))
    parts = whole(
        START, ASK, asks, AskUser(ref=QuestionRef("q"), question="?", schema={"type": "object"}), waits
    )
    assert [part["providerExecuted"] for part in parts if "providerExecuted" in part] == [True, True, False]
    (question,) = [part for part in parts if part["type"] == "data-question"]
    assert question["data"] == {"ref": "q", "question": "?", "options": [], "schema": {"type": "object"}}


# --- ends


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("context_window", "length"),
        ("refused", "content-filter"),
        ("tool_use", "tool-calls"),
        ("max_turns", "other"),
        ("not_resumed", "other"),
        ("pause", "other"),
        ("other", "other"),
    ],
)
def test_a_finished_cycle_says_why_and_what_it_used(reason, finish):
    """In the vendor's words and in ours."""
    last = whole(START, ASK, ended(reason))[-1]
    assert (last["type"], last["finishReason"], last["messageMetadata"]["stopReason"]) == (
        "finish",
        finish,
        reason,
    )
    assert last["messageMetadata"]["usage"]["totalTokens"] == 15


@pytest.mark.parametrize(
    ("event", "last"),
    [
        (ended("superseded"), {"type": "abort", "reason": "a later prompt took its place"}),
        (AgentAbort(reason="enough", ref=MINE), {"type": "abort", "reason": "enough"}),
        (AgentAbort(reason=None, ref=MINE), {"type": "abort"}),
        (AgentError(error=BROKE, ref=MINE), {"type": "error", "errorText": "busy"}),
    ],
)
def test_a_cycle_that_did_not_finish_says_how(event, last):
    """And never with `finish`."""
    assert whole(START, ASK, event)[-1] == last


def test_a_cycle_that_waits_ends_its_response_and_goes_on_in_the_same_message():
    """The client has its parts: only what is new is given."""
    waits = AgentSuspended(waiting=(WaitingFor(kind="approval", id=ApprovalId("a1"), call_id=CALL),))
    response, parts = folded(START, ASK, ApprovalRequired(approval=approval()), waits)
    first = [*parts, *last_parts(response)]
    assert (first[-1]["type"], first[-1]["finishReason"]) == ("finish", "tool-calls")
    response, again = resume_response(response, "m5")
    yes = ApprovalResolved(approval=approval(), status="approved", by="user")
    second = [
        *again,
        *whole(yes, AgentResumed(trigger="tool_approved"), RUNS, result(), ended(), response=response),
    ]
    client = UiClient()
    client.read(first)
    client.read(second)
    assert types(second) == ["start", "tool-output-available", "finish"]
    assert [*client.messages] == ["m5"]


def test_a_wait_that_goes_on_and_a_stream_that_breaks_off_end_once():
    """What came first holds."""
    response, _ = folded(START, ASK)
    assert last_parts(pause(response))[-1]["finishReason"] == "tool-calls"
    assert last_parts(fail_response(response, "gone"))[-1] == {"type": "error", "errorText": "gone"}
    over = folded(ended(), response=response)[0]
    assert last_parts(fail_response(pause(over), "gone"))[-1]["finishReason"] == "stop"


@pytest.mark.check
def test_a_delta_costs_a_few_microseconds():
    """11.15: at most 5 on a quiet machine; ten times that would be another way of working."""
    response, _ = folded(START, ASK, MessageStart(), MessageDelta(delta="a"))
    (delta,) = numbered(MessageDelta(delta="word "))

    def many():
        nonlocal response
        for _ in range(1_000):
            response, _ = show_event(response, delta)

    assert min(repeat(many, number=1, repeat=5)) < 0.05
