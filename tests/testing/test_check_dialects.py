"""`check_dialects`: what a vendor would refuse is found and named, and what it takes is not."""

import json

import pytest

from agentrail.messages import AssistantMessage, CallId, Text, ToolCall, ToolMessage, ToolResult
from agentrail.testing.check_dialects import check_dialect, check_dialects
from tests.providers.transcripts import request_of, said

CALL = AssistantMessage(content=(ToolCall(call_id=CallId("c1"), name="read", arguments={}),), model="x:m")
RESULT = ToolMessage(results=(ToolResult(call_id=CallId("c1"), name="read", text="done"),))
ANSWER = AssistantMessage(content=(Text(text="That is all."),), model="x:m")


def test_a_conversation_with_all_its_results_is_taken():
    """Prompts, calls, results and answers, in every format."""
    check_dialects(request_of(said("Look."), CALL, RESULT, ANSWER, said("Again."), system="Be brief."))


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ((said("Look."), CALL), "no result behind c1"),
        ((said("Look."), CALL, said("Well?")), "expected the results of c1 at 2, got those of none"),
        ((said("Look."), RESULT), "in front of its results|expected the results of no call"),
    ],
    ids=["open", "passed over", "unasked"],
)
def test_a_conversation_that_vendors_refuse_is_named(messages, words):
    """The first format that would refuse it, with the place."""
    with pytest.raises(AssertionError, match=f"anthropic would not take this: .*({words})"):
        check_dialects(request_of(*messages))


def _user(text):
    return {"role": "user", "content": text}


TOOL = {"role": "tool", "tool_call_id": "c1", "content": "done"}
CALLS = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "read", "arguments": "{}"}}]}
LIST = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "read", "arguments": "[]"}}]}
DO = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
DONE = {"type": "function_call_output", "call_id": "c1", "output": "done"}
PART = {"functionCall": {"id": "c1", "name": "read", "args": {}}}


@pytest.mark.parametrize(
    ("dialect", "body", "words"),
    [
        ("anthropic", {"messages": [_user([])]}, "message 0 is empty"),
        ("anthropic", {"messages": [_user([{"type": "text", "text": " "}])]}, "a text of message 0 is blank"),
        ("openai-chat", {"messages": [_user("a"), _user("b")]}, "'user' speaks twice, from message 0"),
        ("openai-chat", {"messages": [_user("a"), CALLS]}, "no result behind c1"),
        ("openai-chat", {"messages": [_user("a"), CALLS, _user("b")]}, "no result behind c1"),
        ("openai-chat", {"messages": [_user("a"), TOOL]}, "message 1 is a result without a call"),
        ("openai-chat", {"messages": [_user("a"), LIST, TOOL]}, r"the arguments at 1 are no object: \[\]"),
        ("openai", {"input": [_user("a"), DO]}, "no result behind c1"),
        ("openai", {"input": [_user("a"), DONE]}, "function_call_output stands behind user"),
        ("openai", {"input": [_user("a"), {"type": "reasoning"}]}, "led to nothing"),
        (
            "openai",
            {"input": [_user("a"), DO, {**DONE, "call_id": "c2"}]},
            "results of c1 at 2, got those of c2",
        ),
        ("google", {"contents": [{"role": "user", "parts": []}]}, "message 0 is empty"),
        ("google", {"contents": [{"role": "model", "parts": [PART]}]}, "no result behind c1"),
    ],
)
def test_a_body_that_breaks_a_rule_is_named(dialect, body, words):
    """Each rule of each format, at the place where it is broken."""
    with pytest.raises(AssertionError, match=f"{dialect} would not take this: .*{words}"):
        check_dialect(dialect, json.dumps(body).encode())
