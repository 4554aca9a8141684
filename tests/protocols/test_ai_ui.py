"""The fold of the UI message stream, event by event: what each part of the table of 8.17 looks like, and what a client is spared."""

from timeit import repeat

import pytest
from msgspec.structs import replace

from agentrail import events
from agentrail.errors import ErrorInfo
from agentrail.messages import (
    ApprovalId,
    AssistantMessage,
    CallId,
    ClientCallRef,
    PromptRef,
    QuestionRef,
    SessionId,
    SteerRef,
    Text,
    Thinking,
    TokenUsage,
    ToolResult,
)
from agentrail.protocols.ai_ui import AI_UI
from tests.protocols.ui_client import UiClient
from tests.protocols.ui_response import (
    caught_up,
    failed,
    last_parts,
    paused,
    resumed,
    started,
)

MINE, OTHER = PromptRef("p1"), PromptRef("p2")
SESSION = SessionId("s")
CALL = CallId("c1")


SHOWN = ["tool-input-start", "tool-input-available"]
USAGE = TokenUsage(input=10, output=5)
BROKE = ErrorInfo(code="overloaded", message="busy")
START = events.AgentStart(ref=MINE)
ASK = events.RequestStart(model="m", messages=1)


BEGIN = (START, ASK, events.MessageStart())


def delta(text):
    return events.MessageDelta(delta=text)


def thinks(text):
    return events.ThinkingDelta(delta=text)


def numbered(*given):
    """Give events their numbers: ephemeral ones have that of the last committed one."""
    seq = 4
    for event in given:
        is_ephemeral = isinstance(event, events.MessageDelta | events.ThinkingDelta)
        seq += not is_ephemeral
        yield replace(event, meta=events.Envelope(SESSION, seq, 0, (SESSION,), is_ephemeral))


def folded(*given, response=None):
    """Fold events into a response, and give it with the parts."""
    response = response or started(ref=MINE)
    parts = []
    for event in numbered(*given):
        response, more = AI_UI.fold(response, event)
        parts.extend(more)
    return response, parts


def whole(*given, response=None):
    """All parts of a response that ends with these events."""
    response, parts = folded(*given, response=response)
    return [*parts, *last_parts(response)]


def types(parts):
    return [part["type"] for part in parts]


def told(parts):
    """What stands in the message that these parts make."""
    client = UiClient()
    client.read(parts)
    return client.told()


def said(*texts, thinking=""):
    blocks = [Thinking(text=thinking, provider="p")] if thinking else []
    content = (*blocks, *(Text(text=text) for text in texts))
    message = AssistantMessage(content=content, model="m")
    return events.ResponseComplete(message=message, usage=USAGE, stop_reason="end")


def ended(reason="end"):
    return events.AgentEnd(messages=(), usage=USAGE, stop_reason=reason, ref=MINE)


def approval(arguments=None, name="a1"):
    return events.Approval(
        id=ApprovalId(name),
        call_id=CALL,
        tool="shell",
        arguments=arguments or {"command": "ls"},
        arguments_hash="h",
        requested_at_ms=0,
        path=(SESSION,),
    )


RUNS = events.ToolExecutionStart(name="shell", call_id=CALL, arguments={"command": "ls"})


def result(text="done", **facts):
    return events.ToolExecutionEnd(
        name="shell", call_id=CALL, result=ToolResult(call_id=CALL, name="shell", text=text, **facts)
    )


def test_what_belongs_to_another_cycle_is_not_shown():
    """A prompt waits for the cycle in front of it, and is shown from its own start on."""
    other = (events.AgentStart(ref=OTHER), ASK, events.MessageStart(), delta("no"), said("no"))
    end = events.AgentEnd(messages=(), usage=USAGE, stop_reason="end", ref=OTHER)
    parts = whole(*other, end, *BEGIN, delta("yes"), said("yes"), ended())
    assert [part.get("delta") for part in parts if part["type"] == "text-delta"] == ["yes"]
    assert parts[0] == {"type": "start", "messageId": "m10"}
    UiClient().read(parts)


def test_words_that_join_a_cycle_have_a_message_of_their_own():
    """It begins with them, and the calls that it shows are opened in it."""
    for taken in (
        events.PromptTaken(ref=MINE, approval_id=ApprovalId("a1"), by="p"),
        events.SteeringApplied(refs=(SteerRef(MINE),), count=1),
    ):
        parts = whole(events.AgentStart(ref=OTHER), ASK, taken, RUNS, result(), ended())
        assert types(parts) == ["start", *SHOWN, "tool-output-available", "finish"], taken
        assert parts[0]["messageId"] == "m7", taken


def test_behind_its_end_nothing_is_shown():
    """Whatever the session does next."""
    response, _ = folded(START, ASK, ended())
    for event in (
        delta("x"),
        RUNS,
        events.AgentResumed(trigger="tool_approved"),
        events.AgentStart(ref=OTHER),
    ):
        assert folded(event, response=response)[1] == []


def test_text_and_thinking_are_opened_and_closed_in_order():
    """Their ids come from the numbers of events; what is opened twice at one number is told apart."""
    heard = (thinks("hm"), delta("a"), thinks("so"), delta("b"))
    parts = whole(*BEGIN, *heard, said("ab", thinking="hmso"), ended())
    assert told(parts) == [("reasoning", "hm"), ("text", "a"), ("reasoning", "so"), ("text", "b")]
    opened = [part["id"] for part in parts if part["type"].endswith("-start") and "id" in part]
    assert opened == ["p7", "p7.1", "p7.2", "p7.3"]


@pytest.mark.parametrize("complete", ["Helo. So.", "Hallo.", "He", "HXelo."])
def test_a_response_is_whole_whatever_of_it_was_heard(complete):
    """Missing words are added at the end; after a gap, or another text of a plugin, all of it is sent again under new ids."""
    parts = whole(*BEGIN, delta("Helo."), said(complete), ended())
    assert told(parts) == [("text", complete)]
    taken = [part["data"]["ids"] for part in parts if part["type"] == "data-discarded"]
    assert taken == ([] if complete.startswith("Helo.") else [["p7"]])
    unheard = whole(*BEGIN, said(complete, thinking="Hm."), ended())
    assert told(unheard) == [("reasoning", "Hm."), ("text", complete)]


def test_an_attempt_that_is_discarded_is_taken_back_and_one_that_is_kept_is_not():
    """New ids for the next one, in a step of its own."""
    begun = (*BEGIN, delta("Half"))
    second = events.RequestStart(model="m", messages=1, attempt=2)
    again = (second, events.MessageStart(), delta("All"), said("All"))
    parts = whole(*begun, events.StreamError(error=BROKE, discarded=True), *again, ended())
    assert told(parts) == [("text", "All")]
    assert types(parts).count("start-step") == 2
    kept = whole(*begun, events.StreamError(error=BROKE), events.AgentError(error=BROKE, ref=MINE))
    assert "data-discarded" not in types(kept)
    assert types(kept)[-3:] == ["text-end", "finish-step", "error"]


def test_what_streams_is_caught_up_with():
    """Text so far, then its deltas; thinking whose beginning was missed comes whole when the response is complete."""
    response, parts = folded(*BEGIN)
    response, more = caught_up(response, "Hel")
    assert [part["delta"] for part in more if "delta" in part] == ["Hel"]
    rest = [*numbered(thinks("…m"), delta("lo."), said("Hello.", thinking="Hm"), ended())]
    parts.extend(more)
    for event in rest:
        response, more = AI_UI.fold(response, event)
        parts.extend(more)
    assert told([*parts, *last_parts(response)]) == [("text", "Hello."), ("reasoning", "Hm")]


# --- calls


def test_a_call_is_opened_once_however_often_it_is_shown():
    """An approval shows it before it runs; arguments that changed come again, as its input."""
    asked = events.ApprovalRequired(approval=approval())
    yes = events.ApprovalResolved(approval=approval(), status="approved", by="user")
    edited = events.ToolExecutionStart(name="shell", call_id=CALL, arguments={"command": "pwd"})
    parts = whole(START, ASK, asked, yes, edited, result(), ended())
    assert types(parts)[2:6] == [*SHOWN, "tool-approval-request", "tool-input-available"]
    assert parts[5]["input"] == {"command": "pwd"}
    UiClient().read(parts)


def test_a_second_approval_of_the_same_call_is_asked_for_again():
    """Rewritten arguments are shown to the person again, with an id of their own."""
    first, second = approval(), approval({"command": "rm"}, "a2")
    decided = [
        events.ApprovalResolved(approval=first, status="rejected", by="user"),
        events.ApprovalRequired(approval=second),
    ]
    yes = events.ApprovalResolved(approval=second, status="approved", by="user")
    _, parts = folded(
        START, ASK, events.ApprovalRequired(approval=first), *decided, yes, RUNS, result(), ended()
    )
    assert [part["approvalId"] for part in parts if "approvalId" in part] == ["a1", "a2"]
    assert "tool-output-denied" not in types(parts)


def test_a_call_that_a_person_refused_is_denied_and_no_other():
    """One that nobody decided has failed."""
    denied, failed = "tool-output-denied", "tool-output-error"
    for status, kind in (("rejected", denied), ("timeout", failed), ("superseded", failed)):
        asked = events.ApprovalRequired(approval=approval())
        resolved = events.ApprovalResolved(approval=approval(), status=status, by="user")
        parts = whole(START, ASK, asked, resolved, RUNS, result(is_error=True), ended())
        assert {denied, failed} & {*types(parts)} == {kind}, status


def test_a_result_shows_its_call_and_has_details_beside_its_words():
    """A client breaks on a result of a call that it does not know. What the model read is the output."""
    for shown in ((RUNS,), ()):
        parts = whole(START, ASK, *shown, result("12 files", details={"count": 12}), ended())
        assert types(parts)[2:4] == SHOWN
        (output,) = [part for part in parts if part["type"] == "tool-output-available"]
        assert (output["output"], output["toolMetadata"]) == ("12 files", {"details": {"count": 12}})
    called = events.ClientCall(ref=ClientCallRef("k"), name="shell", call_id=CALL, arguments={})
    parts = whole(START, ASK, called, result('{"zoom": 3}', details={"zoom": 3}), ended())
    (output,) = [part for part in parts if part["type"] == "tool-output-available"]
    assert output == {
        "type": "tool-output-available",
        "toolCallId": CALL,
        "dynamic": True,
        "output": {"zoom": 3},
    }


def test_a_question_becomes_the_clients_call_where_its_cycle_waits():
    """So that the page can answer it as its result; a call of ours that waits for an approval stays ours."""
    asks = events.ToolExecutionStart(name="ask_user", call_id=CALL, arguments={"question": "?"})
    waits = events.AgentSuspended(
        waiting=(events.WaitingFor(kind="question", id=QuestionRef("q"), call_id=CALL),)
    )
    parts = whole(
        START, ASK, asks, events.AskUser(ref=QuestionRef("q"), question="?", schema={"type": "object"}), waits
    )
    assert [part["providerExecuted"] for part in parts if "providerExecuted" in part] == [True, True, False]
    (question,) = [part for part in parts if part["type"] == "data-question"]
    assert question["data"] == {"ref": "q", "question": "?", "options": [], "schema": {"type": "object"}}
    link = events.AskUser(ref=QuestionRef("q"), question="?", url="https://a.example")
    *_, question = folded(START, ASK, link, waits)[1]  # of a call that was not shown, so nothing else
    assert question["data"] == {"ref": "q", "question": "?", "options": [], "url": "https://a.example"}


def test_todos_are_data_and_progress_is_passing():
    """The page keeps the last list, and no progress."""
    todo = events.TodoChange(todos=(events.Todo(id="1", content="Look.", status="pending"),))
    progress = events.ToolProgress(name="shell", call_id=CALL, text="half")
    *_, told_todos, half = folded(START, ASK, RUNS, todo, progress)[1]
    todos = ({"id": "1", "content": "Look.", "status": "pending"},)
    assert told_todos == {"type": "data-todos", "id": "todos", "data": {"todos": todos}}
    passing = {"toolCallId": CALL, "toolName": "shell", "text": "half"}
    assert half == {"type": "data-progress", "data": passing, "transient": True}


def test_a_result_that_came_after_all_takes_the_place_of_the_one_shown():
    """A call that was given up may still have taken effect; one that was not shown is none of this message."""
    late = events.ToolTookEffect(name="shell", call_id=CALL, result=result("late").result)
    parts = folded(START, ASK, RUNS, result("given up", is_error=True), late)[1]
    assert [part["type"] for part in parts[-2:]] == ["tool-output-error", "tool-output-available"]
    assert parts[-1]["output"] == "late"
    assert folded(START, ASK, late)[1] == folded(START, ASK)[1]


# --- ends


def test_a_finished_cycle_says_why_and_what_it_used():
    """In the vendor's words and in ours."""
    for finish, reasons in {
        "stop": ("end", "stop_sequence"),
        "length": ("max_tokens", "context_window"),
        "content-filter": ("refused",),
        "tool-calls": ("tool_use",),
        "other": ("max_turns", "not_resumed", "pause", "other"),
    }.items():
        for reason in reasons:
            last = whole(START, ASK, ended(reason))[-1]
            assert (last["type"], last["finishReason"]) == ("finish", finish), reason
            assert last["messageMetadata"]["stopReason"] == reason
            assert last["messageMetadata"]["usage"]["totalTokens"] == 15
    assert types(whole(START, ASK, RUNS, ended()))[-3:-1] == ["tool-output-error", "finish-step"]


def test_what_did_not_finish_says_how():
    """Never with `finish`; a prompt without a cycle ends in one part, and another prompt's end changes nothing."""
    for event, last in (
        (ended("superseded"), {"type": "abort", "reason": "a later prompt took its place"}),
        (events.AgentAbort(reason="enough", ref=MINE), {"type": "abort", "reason": "enough"}),
        (events.AgentAbort(reason=None, ref=MINE), {"type": "abort"}),
        (events.AgentError(error=BROKE, ref=MINE), {"type": "error", "errorText": "busy"}),
        (
            events.PromptDropped(ref=MINE, content=()),
            {"type": "abort", "reason": "the prompt was taken out of the queue"},
        ),
        (events.PromptRejected(ref=MINE, reason="be polite"), {"type": "error", "errorText": "be polite"}),
    ):
        begun = () if isinstance(event, events.PromptDropped | events.PromptRejected) else (START, ASK)
        parts = whole(*begun, event)
        assert parts[-1] == last, event
        if begun:  # a page would show a call without a result as running for ever
            assert types(whole(START, ASK, RUNS, event))[-3:-1] == ["tool-output-error", "finish-step"]
        else:
            assert len(parts) == 1
            assert folded(replace(event, ref=OTHER))[0].response.end is None


def test_a_cycle_that_waits_ends_its_response_and_goes_on_in_the_same_message():
    """The client has its parts: only what is new is given."""
    waits = events.AgentSuspended(
        waiting=(events.WaitingFor(kind="approval", id=ApprovalId("a1"), call_id=CALL),)
    )
    response, parts = folded(START, ASK, events.ApprovalRequired(approval=approval()), waits)
    first = [*parts, *last_parts(response)]
    assert (first[-1]["type"], first[-1]["finishReason"]) == ("finish", "tool-calls")
    response, again = resumed(response, "m5")
    yes = events.ApprovalResolved(approval=approval(), status="approved", by="user")
    second = [
        *again,
        *whole(yes, events.AgentResumed(trigger="tool_approved"), RUNS, result(), ended(), response=response),
    ]
    client = UiClient()
    client.read(first)
    client.read(second)
    assert types(second) == ["start", "tool-output-available", "finish"]
    assert [*client.messages] == ["m5"]


def test_a_wait_that_goes_on_and_a_stream_that_breaks_off_end_once():
    """What came first holds."""
    response, _ = folded(START, ASK)
    assert last_parts(paused(response))[-1]["finishReason"] == "tool-calls"
    assert last_parts(failed(response, "gone"))[-1] == {"type": "error", "errorText": "gone"}
    over = folded(ended(), response=response)[0]
    assert last_parts(failed(paused(over), "gone"))[-1]["finishReason"] == "stop"


@pytest.mark.check
def test_a_delta_costs_a_few_microseconds():
    """11.15: at most 5 on a quiet machine; ten times that would be another way of working."""
    response, _ = folded(*BEGIN, delta("a"))
    (word,) = numbered(delta("word "))

    def many():
        nonlocal response
        for _ in range(1_000):
            response, _ = AI_UI.fold(response, word)

    assert min(repeat(many, number=1, repeat=5)) < 0.05
