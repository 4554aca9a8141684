"""Chat Completions without a session: the chunks of each event, and what follows from a client's messages."""

import sys
from functools import partial
from time import process_time
from timeit import repeat
from typing import ClassVar

import pytest
from attrs import evolve

from agentrail import events
from agentrail.errors import ErrorInfo
from agentrail.messages import (
    ApprovalId,
    AssistantMessage,
    CallId,
    ClientCallRef,
    Image,
    QuestionRef,
    SessionId,
    Text,
    UserMessage,
)
from agentrail.protocols.decisions import WireRefused
from agentrail.protocols.openai_chat import CHAT, Completion, decide_chat, read_chat, tag_of, whole_completion
from agentrail.protocols.openai_requests import read_parameters
from agentrail.protocols.openai_responses import read_response_request
from agentrail.protocols.response_state import Bridged, Response, fail_response
from agentrail.wire.operations import AnswerBody, ApproveArguments, RejectBody, RespondBody
from tests.protocols.test_ai_ui import ASK, BEGIN, BROKE, CALL, MINE, START, USAGE, delta, numbered, thinks
from tests.providers.vendors import judge
from tests.wire.test_forms import BARE

OWN = Completion(id="chatcmpl-1", model="desk", created=7, includes_usage=True)
HELLO = events.ResponseComplete(
    message=AssistantMessage(content=(Text(text="Hello."),), model="m"), usage=USAGE, stop_reason="end"
)
END = events.AgentEnd(messages=(), usage=USAGE, stop_reason="end", ref=MINE)
SHOWN = events.ToolExecutionStart(name="show", call_id=CALL, arguments={"at": "é"})
CALLED = events.ClientCall(ref=ClientCallRef("k1"), name="show", call_id=CALL, arguments={"at": "é"})
CALL_WAITS = events.WaitingFor(kind="client_call", id=ClientCallRef("k1"), call_id=CALL)
PATH = (SessionId("s"),)
APPROVAL = events.Approval(
    id=ApprovalId("a1"),
    call_id=CallId("c1"),
    tool="shell",
    arguments={"command": "ls"},
    arguments_hash="0123456789",
    requested_at_ms=0,
    path=PATH,
)
TAG = tag_of(APPROVAL)


def shown(*given, own=OWN, response=None):
    """All frames of a completion that ends with these events. Each is as the official types say."""
    state = Bridged(response or Response(ref=MINE), own)
    frames = []
    for event in numbered(*given):
        state, more = CHAT.fold(state, event)
        frames += more
    if state.response.end is None:
        state = Bridged(fail_response(state.response, "draining", "the server is going down"), state.own)
    frames += CHAT.close(state)
    check_frames(frames)
    return frames


def check_frames(frames):
    """The official types parse each chunk, and exactly one frame is terminal."""
    errors = [frame for frame in frames if "error" in frame]
    chunks = [
        judge("openai.types.chat", "ChatCompletionChunk").validate_python(frame)
        for frame in frames
        if "error" not in frame
    ]
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert len(errors) + len(reasons) == 1
    if reasons:
        judge("openai.types.chat", "ChatCompletion").validate_python(whole_completion(frames))


def text_in(frames):
    """The text of a completion, and how it ended."""
    chunks = [frame for frame in frames if frame.get("choices")]
    text = "".join([chunk["choices"][0]["delta"].get("content", "") for chunk in chunks])
    return text, frames[-1].get("error", {}).get("code") or chunks[-1]["choices"][0]["finish_reason"]


def test_a_plain_answer_is_a_role_its_text_a_reason_and_usage():
    """The deltas arrive as they are said, and a rest that was not streamed follows."""
    frames = shown(*BEGIN, delta("Hel"), HELLO, END)
    deltas = [frame["choices"][0]["delta"] for frame in frames[:-1]]
    assert deltas == [{"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "lo."}, {}]
    assert (frames[-1]["choices"], frames[-1]["usage"]["total_tokens"]) == ([], 15)
    whole = whole_completion(frames)
    assert whole["choices"][0]["message"]["content"] == "Hello."
    assert "usage" not in shown(*BEGIN, HELLO, END, own=Completion(id="i", model="m", created=1))[-1]


@pytest.mark.parametrize(
    ("given", "text", "reason"),
    [
        ((*BEGIN, delta("Hel"), events.StreamError(error=BROKE, discarded=True), ASK, events.MessageStart(), HELLO, END),
         "Hel\n\n[The answer broke off here and begins again.]\n\nHello.", "stop"),
        ((*BEGIN, thinks("Hm"), events.StreamError(error=BROKE, discarded=True), ASK, events.MessageStart(), HELLO, END), "Hello.", "stop"),
        ((*BEGIN, HELLO, ASK, events.MessageStart(), delta("And."), events.AgentAbort(reason="enough", ref=MINE)), "Hello.\n\nAnd.", "aborted"),
        ((START, events.AgentError(error=ErrorInfo(code="budget_exceeded", message="spent"), ref=MINE)), "", "budget_exceeded"),
        ((*BEGIN, HELLO, events.AgentEnd(messages=(), usage=USAGE, stop_reason="max_tokens", ref=MINE)), "Hello.", "length"),
        ((*BEGIN, events.AgentEnd(messages=(), usage=USAGE, stop_reason="refused", ref=MINE)), "", "content_filter"),
        ((*BEGIN, delta("So")), "So", "draining"),
        ((events.PromptDropped(ref=MINE, content=()),), "", "aborted"),
        ((*BEGIN, events.ApprovalRequired(approval=APPROVAL),
          events.AgentSuspended(waiting=(events.WaitingFor(kind="approval", id=ApprovalId("a1"), call_id=CALL),))),
         f'[{TAG}: shell {{"command": "ls"}}. Answer "yes" to run it, or "no" and a reason to reject it.]', "stop"),
        ((*BEGIN, delta("Well."), events.AskUser(ref=QuestionRef("q1"), question="Which?", options=("a", "b"), call_id=CALL),
          events.AgentSuspended(waiting=(events.WaitingFor(kind="question", id=QuestionRef("q1"), call_id=CALL),))),
         "Well.\n\nWhich?\n- a\n- b", "stop"),
    ],
)  # fmt: skip
def test_each_end_has_its_reason_and_what_was_taken_back_is_said(given, text, reason):
    """A row for each way that a cycle goes."""
    assert text_in(shown(*given)) == (text, reason)


def test_calls_of_the_client_are_sent_whole_and_once_and_others_only_if_wanted():
    """The id of a nameless session is part of the id. A resumed completion counts from 0 again."""
    waits = events.AgentSuspended(waiting=(CALL_WAITS,))
    own = evolve_own(session_id="s-1")
    frames = shown(*BEGIN, SHOWN, CALLED, waits, own=own)
    (call,) = whole_completion(frames)["choices"][0]["message"]["tool_calls"]
    assert call == {
        "id": "c1--s-1",
        "type": "function",
        "function": {"name": "show", "arguments": '{"at": "é"}'},
    }
    assert text_in(frames)[1] == "tool_calls"
    ours = shown(*BEGIN, SHOWN, END, own=evolve_own(shows_tools=True))
    assert whole_completion(ours)["choices"][0]["message"]["reasoning_content"] == '[show {"at": "é"}]\n'
    assert "tool_calls" not in whole_completion(shown(*BEGIN, SHOWN, END))["choices"][0]["message"]


def evolve_own(**changes):
    """What a wire keeps of a completion, with these changes."""
    return Completion(**{name: getattr(OWN, name) for name in OWN.__struct_fields__} | changes)


def test_a_request_sent_again_has_the_time_of_its_first_answer():
    """`created` is when the cycle began, and not when this request came."""
    frames = [shown(*BEGIN, HELLO, END, own=evolve_own(created=came)) for came in (7, 8)]
    assert frames[0] == frames[1]


def test_thinking_is_reasoning_if_the_client_asks_for_it():
    """And nothing otherwise."""
    told = whole_completion(shown(*BEGIN, thinks("Hm."), HELLO, END, own=evolve_own(shows_reasoning=True)))
    assert told["choices"][0]["message"]["reasoning_content"] == "Hm."
    told = whole_completion(shown(*BEGIN, thinks("Hm."), HELLO, END))
    assert "reasoning_content" not in told["choices"][0]["message"]


# --- in


def user(content):
    """A message of the user."""
    return {"role": "user", "content": content}


def called(*ids, content=None):
    """An answer with calls."""
    calls = [{"id": one, "type": "function", "function": {"name": "show", "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def result(call_id, text="seen"):
    """A result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def asked(*messages, named=None, **more):
    """A request, read."""
    return read_chat({"model": "desk", "messages": [*messages], **more}, named)


def refused(*messages, status=None, past=(), named=None, **more):
    """The refusal of a request: its code and its place."""
    with pytest.raises(WireRefused) as caught:
        decide_chat(read_chat({"model": "desk", "messages": [*messages], **more}, named), status, past)
    return caught.value.code, caught.value.place


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TOOL = {
    "type": "function",
    "function": {"name": "show", "description": "Show.", "parameters": {"type": "object"}},
}


def test_a_new_session_has_the_past_and_the_last_message():
    """The system prompt is no message; a conversation that ends with a result goes on without words."""
    given = asked(
        {"role": "system", "content": "Be brief."},
        user("Hi"),
        called("x"),
        result("x"),
        user([{"type": "text", "text": "And?"}, PICTURE]),
    )
    plan = decide_chat(given, None)
    assert plan.words == (Text(text="And?"), Image(media_type="image/png", data="AAAA"))
    assert [type(one).__name__ for one in plan.history] == ["UserMessage", "AssistantMessage", "ToolMessage"]
    assert plan.history[2].results[0].name == "show"
    assert given.parameters.settings.instructions == "Be brief."
    plan = decide_chat(asked(user("Hi"), called("x"), result("x")), None)
    assert (plan.goes_on, len(plan.history), plan.words) == (True, 3, ())
    assert plan.past_words == (Text(text="Hi"),)
    assert decide_chat(given, None).past_words == ()


OPEN = evolve(
    BARE,
    client_calls=(
        events.PendingClientCall(ref=ClientCallRef("k1"), call_id=CallId("c1"), name="show", arguments={}, requested_at_ms=0, path=PATH),
        events.PendingClientCall(ref=ClientCallRef("k2"), call_id=CallId("c2"), name="show", arguments={}, requested_at_ms=0, path=PATH),
    ),
    suspended=True,
)  # fmt: skip
PAST = tuple(asked(user("Hi"), called("c0", "c1", "c2"), result("c0")).messages)


def test_results_answer_all_open_calls_or_nothing():
    """A missing one, an unknown one and one that was answered before are refused."""
    ours = f"--{OPEN.session_id}"
    given = asked(
        user("Hi"), called("c1" + ours, "c2" + ours), result("c1" + ours), result("c2" + ours, "no")
    )
    assert given.session_id == OPEN.session_id
    assert not given.is_kept
    plan = decide_chat(given, OPEN, PAST)
    assert plan.decisions == (AnswerBody(ref="k1", text="seen"), AnswerBody(ref="k2", text="no"))
    both = user("Hi"), called("c1", "c2")
    assert refused(*both, result("c1"), status=OPEN, past=PAST) == ("result_missing", "messages")
    assert refused(*both, result("c0"), status=OPEN, past=PAST) == ("already_resolved", "messages")
    assert refused(*both, result("c9"), status=OPEN, past=PAST) == ("unknown_call", "messages")
    behind = decide_chat(asked(*both, result("c1"), result("c2"), user("And?")), OPEN, PAST)
    assert (len(behind.decisions), behind.words) == (2, (Text(text="And?"),))
    assert decide_chat(asked(user("Forget it")), OPEN, PAST).words == (Text(text="Forget it"),)


WAITS = evolve(BARE, approvals=(APPROVAL,), suspended=True)
SAID = {"role": "assistant", "content": f"[{TAG}: shell …]"}


@pytest.mark.parametrize(
    ("messages", "decision"),
    [
        ([user("no")], RejectBody(approval_id="a1", auto_resume=True)),
        ([user("Hi"), SAID, user(" Yes. ")], ApproveArguments(approval_id="a1")),
        ([user("Hi"), SAID, user("approve")], ApproveArguments(approval_id="a1")),
        ([user("Hi"), SAID, user("No, use -l.")], RejectBody(approval_id="a1", reason="use -l.", auto_resume=True)),
        ([user("Hi"), SAID, user("no")], RejectBody(approval_id="a1", auto_resume=True)),
        ([user("Hi"), SAID, user("yes, but with -l")], None),
        ([user("Hi"), SAID, user("nothing")], None),
        ([user("Hi"), SAID, user("yesterday")], None),
    ],
)  # fmt: skip
def test_the_next_word_decides_an_approval_that_its_client_has_seen(messages, decision):
    """Anything but a clear word is a new message."""
    plan = decide_chat(asked(*messages), WAITS)
    assert plan.decisions == (() if decision is None else (decision,))
    assert bool(plan.words) == (decision is None)


def test_an_approval_that_the_client_has_not_seen_is_not_decided():
    """The last answer of the client shows another one, or the client sends no answer."""
    for other in ("Approval 99999999: shell", f"{TAG}: look"):  # also another tool with the same arguments
        said = {"role": "assistant", "content": f"[{other} …]"}
        assert refused(user("Hi"), said, user("yes"), status=WAITS) == ("approval_mismatch", "messages")
    assert refused(user("yes"), status=WAITS) == ("approval_mismatch", "messages")


def test_words_answer_the_only_open_question():
    """With two, or beside an approval, they are a new message. Without the question, they may be an earlier one, sent again."""
    question = events.Question(
        ref=QuestionRef("q1"), call_id=CallId("c2"), question="?", requested_at_ms=0, path=PATH
    )
    status = evolve(BARE, questions=(question,), suspended=True)
    shown, other = ({"role": "assistant", "content": text} for text in ("Which?\n- a\n- b", "Hello."))
    answer = (RespondBody(ref="q1", response="b"),)
    assert decide_chat(asked(user("Hi"), shown, user("b")), status).decisions == answer
    for earlier in ((), (other,), (shown, user("a"), other)):
        assert refused(*earlier, user("b"), status=status) == ("already_resolved", "messages")
    two = evolve(status, questions=(question, question))
    assert decide_chat(asked(user("b")), two).words == (Text(text="b"),)


def test_a_session_takes_only_what_is_new():
    """A message that it has, whose answer was aborted, is not taken again. An answer that it never gave is told."""
    past = asked(user("Hi"), {"role": "assistant", "content": "Hello."}, user("A?")).messages
    ours = {"role": "assistant", "content": "Hello."}
    plan = decide_chat(asked(user("Hi"), ours, user("A?"), user("B?")), BARE, past)
    assert (plan.words, plan.differs) == ((Text(text="B?"),), False)
    plan = decide_chat(asked(user("Hi"), ours, user("C?"), user("A?")), BARE, past)
    assert plan.words == (Text(text="C?"), Text(text="A?"))
    assert decide_chat(
        asked(user("Hi"), {"role": "assistant", "content": "Bye."}, user("B?")), BARE, past
    ).differs


# --- 11.11 and 11.13, row by row

HI = user("Hi")


@pytest.mark.protocol(54)
@pytest.mark.parametrize(
    ("given", "code", "place"),
    [
        ({"n": 2}, "unsupported_parameter", "n"),
        ({"logprobs": True}, "unsupported_parameter", "logprobs"),
        ({"top_logprobs": 3}, "unsupported_parameter", "top_logprobs"),
        ({"audio": {"voice": "x"}}, "unsupported_parameter", "audio"),
        ({"modalities": ["text", "audio"]}, "unsupported_parameter", "modalities"),
        ({"tool_choice": "required"}, "unsupported_parameter", "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "show"}}}, "unsupported_parameter", "tool_choice"),
        ({"functions": [{"name": "f"}]}, "unsupported_parameter", "functions"),
        ({"tools": [{"type": "web_search"}]}, "unsupported_tool", "tools[0].type"),
        ({"tools": [TOOL, {}]}, "unsupported_tool", "tools[1].type"),
        ({"tools": {}}, "field_invalid", "tools"),
        ({"tools": [{"type": "function", "function": {}}]}, "field_invalid", "tools[0]"),
        ({"tools": [TOOL] * 2}, "field_invalid", "tools[1]"),
        ({"tools": [TOOL] * 65}, "field_invalid", "tools"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "field_invalid", "tools[0]"),
        ({"temperature": 3}, "field_invalid", "temperature"),
        ({"max_tokens": 0}, "field_invalid", "max_tokens"),
        ({"response_format": {"type": "grammar"}}, "field_invalid", "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}}, "field_invalid", "response_format"),
        ({"reasoning_effort": "huge"}, "field_invalid", "reasoning_effort"),
        ({"reasoning_effort": []}, "field_invalid", "reasoning_effort"),
        ({"reasoning": {"effort": []}}, "field_invalid", "reasoning"),
        ({"metadata": {"a": 1}}, "field_invalid", "metadata.a"),
        ({"metadata": ["a"]}, "field_invalid", "metadata"),
        ({"metadata": {f"m{number}": "x" for number in range(17)}}, "field_invalid", "metadata"),
        ({"stream": "yes"}, "field_invalid", "stream"),
        ({"messages": []}, "messages_missing", "messages"),
        ({"messages": None}, "messages_missing", "messages"),
        ({"messages": "Hi"}, "field_invalid", "messages"),
        ({"messages": [HI, {"role": "assistant", "content": "x"}]}, "messages_missing", "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages_missing", "messages"),
        ({"messages": [{"role": "king", "content": "x"}]}, "field_invalid", "messages[0]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "field_invalid", "messages[0]"),
        ({"messages": [user([{"type": "input_audio", "input_audio": {}}])]}, "unsupported_parameter", "messages[0].content[0]"),
        ({"messages": [user([{"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}])]}, "unsupported_parameter", "messages[0].content[0].image_url"),
        ({"messages": [called("x", content=[PICTURE]), HI]}, "unsupported_parameter", "messages[0].content"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}, HI]}, "field_invalid", "messages[0].tool_calls[0]"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_named(given, code, place):
    """By its code and its place; nothing is decided."""
    assert refused(HI, **given) == (code, place)


@pytest.mark.protocol(54)
def test_parameters_are_settings_of_the_cycle_and_what_has_no_effect_is_named():
    """Where a profile allows no settings, they have none either."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    given = {
        "temperature": 0.5, "top_p": 1, "max_completion_tokens": 9, "stop": "END", "reasoning_effort": "minimal",
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        "tools": [TOOL], "tool_choice": "auto", "n": 1, "metadata": {"a": "b", "c": ""}, "user": "u", "stream_options": {"include_usage": True},
    }  # fmt: skip
    ignored = {
        "seed": 1,
        "service_tier": "auto",
        "prompt_cache_key": "k",
        "parallel_tool_calls": True,
        "wholly_unknown": 1,
    }
    read = asked(HI, **given, **ignored).parameters
    settings = read.settings
    assert (settings.temperature, settings.top_p, settings.max_output_tokens) == (0.5, 1.0, 9)
    assert (settings.stop, settings.reasoning, settings.response_format) == (("END",), "low", schema)
    assert [tool.name for tool in settings.tools] == ["show"]
    metadata = {"user": "u", "a": "b", "c": ""}
    assert (read.metadata, read.includes_usage, read.wants_reasoning) == (metadata, True, True)
    assert read.ignored == tuple(ignored)
    body = {"model": "desk", "messages": [{"role": "developer", "content": "Be brief."}, HI], **given}
    narrow = read_chat(
        body, None, partial(read_parameters, client_system="ignore", allows_settings=False)
    ).parameters
    assert narrow.settings.temperature is narrow.settings.instructions is None
    assert [tool.name for tool in narrow.settings.tools] == ["show"]
    assert {*narrow.ignored} == {
        "temperature",
        "top_p",
        "max_completion_tokens",
        "stop",
        "reasoning_effort",
        "response_format",
        "instructions",
    }
    assert asked(HI, tools=[TOOL], tool_choice="none").parameters.settings.tools == ()
    with pytest.raises(WireRefused):
        read_chat(body, None, partial(read_parameters, client_system="refuse"))


FORM = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("given", "setting", "value"),
    [
        ({"reasoning": {"effort": "xhigh"}}, "reasoning", "high"),
        ({"reasoning": {"effort": "medium"}}, "reasoning", "medium"),
        ({"reasoning": {}}, "reasoning", None),
        ({"response_format": {"type": "text"}}, "response_format", None),
        ({"response_format": {"type": "json_object"}}, "response_format", {"type": "object"}),
        ({"text": {"format": {"type": "json_schema", "name": "x", "schema": FORM}}}, "response_format", FORM),
        ({"text": {"verbosity": "low"}}, "response_format", None),
    ],
)
def test_settings_have_the_forms_of_both_interfaces(given, setting, value):
    """Nested ones are those of Responses."""
    assert getattr(asked(HI, **given).parameters.settings, setting) == value


def test_content_has_the_forms_of_both_interfaces():
    """Parts of Responses are read too, and what a model refused is its text."""
    url = PICTURE["image_url"]["url"]
    parts = [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": url}]
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    messages = asked(HI, refusal, user(parts)).messages
    assert messages[1].text == "No."
    assert messages[2].content == (Text(text="Look."), Image(media_type="image/png", data="AAAA"))


def calls_in(work):
    """Count the calls of Python functions."""
    called = []
    sys.setprofile(lambda frame, kind, _: called.append(frame.f_code) if kind == "call" else None)
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(called)


def test_a_delta_costs_little():
    """At most five microseconds on a quiet machine, which are some calls of functions. A clock would measure the machine, too."""
    state = Bridged(Response(ref=MINE), OWN)
    for event in numbered(*BEGIN, delta("a")):
        state, _ = CHAT.fold(state, event)
    said = next(numbered(delta("b")))
    assert calls_in(lambda: CHAT.fold(state, said)) < 20


def test_a_long_conversation_is_compared_in_one_pass():
    """Eight times the answers take about eight times as long, not 64 times. Their order counts, as it does in the session."""

    def compare(texts, said):
        past = [AssistantMessage(content=(Text(text=one),), model="m") for one in texts]
        messages = [{"role": "assistant", "content": one} for one in said]
        asked = read_chat({"model": "desk", "messages": [*messages, {"role": "user", "content": "Hi"}]}, "s1")
        return partial(decide_chat, asked, BARE, past)

    few, many = ([f"{number} of these" * 200 for number in range(count)] for count in (100, 800))
    seconds = [min(repeat(compare(one, one), timer=process_time, number=1, repeat=5)) for one in (few, many)]
    assert seconds[1] < 30 * seconds[0]
    assert not compare(few, few)().differs
    assert not compare(few, [few[3], few[3], few[9]])().differs
    assert compare(few, [few[9], few[3]])().differs


class Compared(str):
    """A text that counts how often it is compared with another."""

    __slots__ = ()
    others: ClassVar[list[object]] = []

    def __eq__(self, other):
        self.others.append(other)
        return str(self) == other

    def __hash__(self):
        return hash(str(self))


def test_new_messages_are_not_compared_with_each_known_one():
    """A request may have thousands, and a session whose answers were all aborted may know a thousand."""
    past = [UserMessage(content=(Text(text=Compared(f"a{number}")),)) for number in range(20)]
    plan = decide_chat(asked(*[user(f"b{number}") for number in range(20)], user("a1")), BARE, past)
    assert len(plan.words) == 21
    assert len(Compared.others) < 21
    again = decide_chat(asked(user("a1"), user("a2")), BARE, past)
    assert again.words == (Text(text="a2"),)


def exchanges(count):
    """So many calls, each with its result: the messages of Chat Completions, and the items of Responses."""
    messages, items = [], []
    for call_id in map(str, range(count)):
        call = {"id": call_id, "function": {"name": f"tool-{call_id}", "arguments": "{}"}}
        messages.append({"role": "assistant", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call_id, "content": "r"})
        items.append({"type": "function_call", "call_id": call_id, **call["function"]})
        items.append({"type": "function_call_output", "call_id": call_id, "output": "r"})
    return {"messages": messages}, {"input": items}


@pytest.mark.parametrize("read", [read_chat, read_response_request])
def test_the_results_of_many_calls_are_read_in_one_pass(read):
    """Each knows the tool of its call. Four times the calls take about four times as long, not 16 times."""
    few, many = ({"model": "desk", **exchanges(count)[read is not read_chat]} for count in (25, 100))
    assert [one.results[0].name for one in read(few).messages[1::2]] == [f"tool-{n}" for n in range(25)]
    assert calls_in(lambda: read(many)) < 5 * calls_in(lambda: read(few))
