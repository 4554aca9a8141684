"""Hook events that people write down."""

import pytest

from agentrail.core.protocol.hooks import HOOKS, BeforePrompt, BeforeTool, OnToolError
from agentrail.core.wire.hook_codec import decode_hook_event
from agentrail.errors import CodecError, ErrorInfo
from agentrail.messages import CallId, Text


def test_hook_events_are_read():
    """`hook` names the class; what has a default may be left out."""
    assert decode_hook_event(
        '{"hook": "BeforeTool", "name": "t", "arguments": {"a": [1]}, "call_id": "c1"}'
    ) == (BeforeTool(name="t", arguments={"a": [1]}, call_id=CallId("c1")))
    assert decode_hook_event(
        '{"hook": "BeforePrompt", "text": "Hi", "content": [{"kind": "text", "text": "Hi"}]}'
    ) == (BeforePrompt(text="Hi", content=(Text(text="Hi"),)))
    error = '{"hook": "OnToolError", "name": "t", "call_id": "c1", "attempt": 1, "error": {"code": "x", "message": "y"}}'
    assert decode_hook_event(error) == OnToolError(
        name="t", call_id=CallId("c1"), attempt=1, error=ErrorInfo(code="x", message="y")
    )


@pytest.mark.parametrize(
    "hook", ["SessionStarted", "SessionEnding", "BeforeFinish", "BeforeCompact", "BeforeRequest"]
)
def test_hook_events_without_fields_are_a_name(hook):
    """Nothing else has to be said."""
    assert decode_hook_event(f'{{"hook": "{hook}"}}') == next(one for one in HOOKS if one.__name__ == hook)()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"hook": "Before"}', '{"hook": "BeforeTool"}', "[" * 100_000]
)
def test_what_is_no_hook_event_is_refused(text):
    """With those that there are."""
    with pytest.raises(CodecError, match="whose `hook` is one of SessionStarted, SessionEnding"):
        decode_hook_event(text)
