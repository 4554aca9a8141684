"""Responses without a session: the events of each change, their numbers, and what follows from a client's input."""

import pytest
from attrs import evolve
from msgspec.structs import replace

from agentrail import events
from agentrail.messages import AssistantMessage, QuestionRef, Text, Thinking, ToolResult
from agentrail.protocols.decisions import WireRefused
from agentrail.protocols.openai_responses import (
    RESPONSES,
    Responding,
    decide_response,
    read_response_id,
    read_response_request,
    response_id,
)
from agentrail.protocols.response_state import Bridged, Response, fail_response
from agentrail.wire.operations import AnswerBody, ApproveArguments, RejectBody
from tests.protocols.test_ai_ui import (
    ASK,
    BEGIN,
    BROKE,
    CALL,
    MINE,
    OTHER,
    START,
    USAGE,
    delta,
    numbered,
    thinks,
)
from tests.protocols.test_openai_chat import APPROVAL, CALL_WAITS, CALLED, END, HELLO, OPEN, SHOWN, WAITS
from tests.providers.vendors import judge
from tests.wire.test_forms import BARE

OWN = Responding(id="resp_s_4", model="desk", created=0, session_id="s")
LASTS = ("response.completed", "response.incomplete", "response.failed")


def shown(*given, own=OWN):
    """All events of a response that ends with these events of the session. Each is as the official types say."""
    state = Bridged(Response(ref=MINE), own)
    frames = []
    for event in numbered(*given):
        state, more = RESPONSES.fold(state, event)
        frames += more
    if state.response.end is None:
        state = Bridged(fail_response(state.response, "draining", "the server is going down"), state.own)
    frames += RESPONSES.close(state)
    check_events(frames)
    return frames


def check_events(frames):
    """The official types parse each event, numbers rise, one event is terminal, and items open and close once."""
    for frame in frames:
        judge("openai.types.responses", "ResponseStreamEvent").validate_python(frame)
    numbers = [frame["sequence_number"] for frame in frames]
    assert numbers == sorted({*numbers})
    assert [frame["type"] in LASTS for frame in frames].count(True) == 1
    assert frames[-1]["type"] in LASTS
    judge("openai.types.responses", "Response").validate_python(frames[-1]["response"])
    for kind in ("added", "done"):
        ids = [frame["item"]["id"] for frame in frames if frame["type"] == f"response.output_item.{kind}"]
        assert len(ids) == len({*ids})


def types(frames):
    """The kinds of the events, without their prefix."""
    return [frame["type"].removeprefix("response.") for frame in frames]


THOUGHT = events.ResponseComplete(
    message=AssistantMessage(content=(Thinking(text="Hm.", provider="x"), Text(text="Hello.")), model="m"),
    usage=USAGE,
    stop_reason="end",
)


def test_a_plain_answer_opens_its_items_and_completes_them():
    """The last event has the whole response; reasoning is an item of its own."""
    frames = shown(*BEGIN, thinks("Hm."), delta("Hel"), delta("lo."), THOUGHT, END)
    assert types(frames) == [
        "created", "in_progress", "output_item.added", "reasoning_text.delta", "output_item.added", "content_part.added",
        "output_text.delta", "output_text.delta", "reasoning_text.done", "output_item.done", "output_text.done",
        "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    response = judge("openai.types.responses", "Response").validate_python(frames[-1]["response"])
    assert (response.output_text, response.usage.total_tokens) == ("Hello.", 15)
    assert [item.type for item in response.output] == ["reasoning", "message"]


def test_each_reading_after_a_number_ends_in_the_same_object_and_repeats_nothing():
    """From every number: what the reader has is left out, and an item that was open comes whole when it is complete."""
    live = (*BEGIN, thinks("Hm."), delta("Hel"), delta("lo."), THOUGHT, SHOWN, END)
    kept = tuple(
        [event for event in live if not isinstance(event, events.MessageDelta | events.ThinkingDelta)]
    )
    seen = shown(*live)
    for place, last in enumerate(seen[:-1]):
        rest = []
        state = Bridged(Response(ref=MINE), evolve_own(after=last["sequence_number"]))
        for event in numbered(*kept):
            state, more = RESPONSES.fold(state, event)
            rest += more
        rest += RESPONSES.close(state)
        assert all(frame["sequence_number"] > last["sequence_number"] for frame in rest)
        both = [*seen[: place + 1], *rest]
        ids = [frame["item"]["id"] for frame in both if frame["type"] == "response.output_item.done"]
        assert sorted(ids) == sorted(item["id"] for item in seen[-1]["response"]["output"])
        opened = [frame["item"]["id"] for frame in both if frame["type"] == "response.output_item.added"]
        assert len(opened) == len({*opened})
        assert rest[-1]["response"] == seen[-1]["response"]
        said = "".join([frame["delta"] for frame in both if frame["type"] == "response.output_text.delta"])
        assert "Hello.".startswith(said)


QUEUED = events.PromptQueued(ref=MINE, content=(Text(text="Hi"),), position=0)


@pytest.mark.parametrize(
    ("given", "kinds", "status"),
    [
        ((QUEUED, *BEGIN, END), ["created", "queued", "in_progress", "completed"], "completed"),
        ((QUEUED, events.PromptDropped(ref=MINE, content=())), ["created", "queued", "failed"], "cancelled"),
        ((QUEUED,), ["created", "queued", "failed"], "failed"),
        ((), ["created", "failed"], "failed"),
        ((replace(QUEUED, ref=OTHER), *BEGIN, END), ["created", "in_progress", "completed"], "completed"),
    ],
)  # fmt: skip
def test_a_queued_prompt_is_shown_as_such_before_it_begins(given, kinds, status):
    """`created` comes first and once, as the official clients demand, whatever becomes of the prompt."""
    frames = shown(*given)
    assert types(frames) == kinds
    assert frames[-1]["response"]["status"] == status
    told = [frame["response"]["status"] for frame in frames if "queued" in kinds]
    assert told[:2] == ["queued", "queued"][: len(told)]


def evolve_own(**changes):
    """What a wire keeps of a response, with these changes."""
    return Responding(**{name: getattr(OWN, name) for name in OWN.__struct_fields__} | changes)


@pytest.mark.parametrize(
    ("given", "last", "status", "items"),
    [
        ((*BEGIN, delta("Hel"), events.StreamError(error=BROKE, discarded=True), ASK, events.MessageStart(), HELLO, END), "completed", "completed", ["message"]),
        ((*BEGIN, delta("So"), events.AgentAbort(reason="enough", ref=MINE)), "failed", "cancelled", []),
        ((START, events.AgentError(error=BROKE, ref=MINE)), "failed", "failed", []),
        ((*BEGIN, HELLO, events.AgentEnd(messages=(), usage=USAGE, stop_reason="max_tokens", ref=MINE)), "incomplete", "incomplete", ["message"]),
        ((*BEGIN, SHOWN, CALLED, events.AgentSuspended(waiting=(CALL_WAITS,))), "completed", "completed", ["function_call"]),
        ((*BEGIN, SHOWN, events.ToolExecutionEnd(name="show", call_id=CALL, result=ToolResult(call_id=CALL, name="show", text="ok")), END), "completed", "completed", ["mcp_call"]),
        ((*BEGIN, SHOWN, events.AgentAbort(reason=None, ref=MINE)), "failed", "cancelled", ["mcp_call"]),
        ((*BEGIN, events.ApprovalRequired(approval=APPROVAL), events.AgentSuspended(waiting=())), "completed", "completed", ["mcp_approval_request"]),
        ((*BEGIN, events.AskUser(ref=QuestionRef("q1"), question="Which?", call_id=CALL), END), "completed", "completed", ["message"]),
        ((*BEGIN, delta("So")), "failed", "failed", []),
    ],
)  # fmt: skip
def test_each_end_has_its_status_and_its_items(given, last, status, items):
    """A row for each way that a cycle goes."""
    frames = shown(*given)
    response = frames[-1]["response"]
    assert (frames[-1]["type"], response["status"]) == (f"response.{last}", status)
    assert [item["type"] for item in response["output"]] == items


def test_a_question_has_its_options_and_its_link():
    """A user who has to log in somewhere finds the address here alone."""
    asked = events.AskUser(
        ref=QuestionRef("q1"), question="Log in.", options=("a",), url="https://x.example", call_id=CALL
    )
    (item,) = shown(*BEGIN, asked, END)[-1]["response"]["output"]
    assert item["content"][0]["text"] == "Log in.\n- a\nhttps://x.example"


def test_what_was_taken_back_is_incomplete_and_not_part_of_the_response():
    """And the new text is another item."""
    again = (ASK, events.MessageStart(), HELLO, END)
    frames = shown(*BEGIN, delta("Hel"), events.StreamError(error=BROKE, discarded=True), *again)
    done = [frame["item"] for frame in frames if frame["type"] == "response.output_item.done"]
    assert [item["status"] for item in done] == ["incomplete", "completed"]
    assert [item["id"] for item in frames[-1]["response"]["output"]] == [done[1]["id"]]


# --- in


def asked(given, **more):
    """A request, read."""
    return read_response_request({"model": "desk", "input": given, **more})


def test_an_id_has_its_session_and_its_event():
    """And no other text has one."""
    assert read_response_id(response_id("s-1_a", 12)) == ("s-1_a", 12)
    for other in ("", "resp_", "resp_s", "resp__1", "resp_s_x", "s_1", f"resp_{'s' * 200}_1"):
        assert read_response_id(other) is None


def test_input_is_words_results_and_decisions():
    """Text is a message of the user; items that we made are left out; instructions are those of the cycle."""
    given = asked(
        "Hi", instructions="Be brief.", reasoning={"effort": "high"}, text={"format": {"type": "json_object"}}
    )
    plan = decide_response(given, None)
    assert plan.words == (Text(text="Hi"),)
    settings = given.parameters.settings
    assert (settings.instructions, settings.reasoning, settings.response_format) == (
        "Be brief.",
        "high",
        {"type": "object"},
    )
    past = [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "id": "r", "summary": []},
    ]
    made = {"type": "function_call", "call_id": "x", "name": "show", "arguments": "{}"}
    plan = decide_response(
        asked([*past, made, {"type": "function_call_output", "call_id": "x", "output": "ok"}]), None
    )
    assert (plan.goes_on, len(plan.history), plan.history[2].results[0].name) == (True, 3, "show")
    both = [{"type": "function_call_output", "call_id": one, "output": one} for one in ("c1", "c2")]
    assert decide_response(asked(both), OPEN).decisions == (
        AnswerBody(ref="k1", text="c1"),
        AnswerBody(ref="k2", text="c2"),
    )
    yes = {"type": "mcp_approval_response", "approval_request_id": "a1", "approve": True}
    assert decide_response(asked([yes]), WAITS).decisions == (ApproveArguments(approval_id="a1"),)
    no = {**yes, "approve": False, "reason": "never"}
    assert decide_response(asked([no]), WAITS).decisions == (
        RejectBody(approval_id="a1", reason="never", auto_resume=True),
    )


@pytest.mark.parametrize(
    ("given", "code", "place"),
    [
        ({"input": None}, "messages_missing", "input"),
        ({"input": []}, "messages_missing", "input"),
        ({"input": 7}, "field_invalid", "input"),
        ({"input": [7]}, "field_invalid", "input[0]"),
        ({"input": [{"type": "computer_call"}]}, "field_invalid", "input[0]"),
        ({"input": [{"type": "mcp_approval_response", "approval_request_id": "a1", "approve": "yes"}]}, "field_invalid", "input[0]"),
        ({"input": [{"type": "mcp_approval_response", "approval_request_id": "a1", "approve": True}]}, "approval_unknown", "input"),
        ({"conversation": 7}, "field_invalid", "conversation"),
        ({"conversation": {}}, "field_invalid", "conversation.id"),
        ({"previous_response_id": "x"}, "field_invalid", "previous_response_id"),
        ({"previous_response_id": "resp_s_1", "conversation": "s"}, "field_invalid", "previous_response_id"),
        ({"background": "yes"}, "field_invalid", "background"),
        ({"background": True, "store": False}, "unsupported_parameter", "background"),
        ({"instructions": 7}, "field_invalid", "instructions"),
        ({"tools": [{"type": "web_search"}]}, "unsupported_tool", "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "field_invalid", "tools[0]"),
        ({"tool_choice": "required"}, "unsupported_parameter", "tool_choice"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_named(given, code, place):
    """Nothing is decided."""
    with pytest.raises(WireRefused) as caught:
        decide_response(read_response_request({"model": "desk", "input": "Hi", **given}), None)
    assert (caught.value.code, caught.value.place) == (code, place)


def test_a_session_takes_something_new_or_nothing():
    """Input without words, results or decisions has none."""
    assert decide_response(asked("And?"), evolve(BARE)).words == (Text(text="And?"),)
    with pytest.raises(WireRefused):
        decide_response(asked([{"role": "assistant", "content": "Hello."}]), BARE)


def test_what_is_taken_back_leaves_earlier_messages_alone():
    """Only the item of the discarded message is closed as incomplete."""
    again = (ASK, events.MessageStart(), HELLO, END)
    frames = shown(
        *(*BEGIN, delta("Hello."), HELLO, ASK, events.MessageStart(), delta("And")),
        *(events.StreamError(error=BROKE, discarded=True), *again),
    )
    done = [frame["item"] for frame in frames if frame["type"] == "response.output_item.done"]
    assert [item["status"] for item in done] == ["completed", "incomplete", "completed"]


def test_a_developers_message_is_an_instruction():
    """As is that of a system, behind the request's own."""
    given = asked([{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    assert given.parameters.settings.instructions == "Be brief."


def test_a_request_names_the_response_that_it_follows():
    """By an id that has the session and the first event."""
    given = asked("And?", previous_response_id=response_id("s", 4))
    assert (given.session_id, given.previous) == ("s", ("s", 4))
    given = asked("And?", previous_response_id=response_id("s", 0))  # of a command, before its session began
    assert (given.session_id, given.previous) == ("s", None)
