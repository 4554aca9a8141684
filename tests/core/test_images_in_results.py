"""Pictures of a result: they stand in the conversation, count as tokens, and are words wherever none can be shown (11.2, K4)."""

from typing import Any

import pytest
from msgspec.structs import replace

from agentrail.core.protocol import actions as p
from agentrail.core.values.history import History, fault_of_messages
from agentrail.messages import (
    AssistantMessage,
    CallId,
    Image,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)

CALL = ToolCall(call_id=CallId("c"), name="shot", arguments={})
made: Any = Image  # also of what a type checker refuses
PICTURE = Image(media_type="image/png", data="QUFB")
RESULT = ToolResult(call_id=CallId("c"), name="shot", text="the window", images=(PICTURE,))
SAID = (
    UserMessage(content=(Text(text="Look"),)),
    AssistantMessage(content=(CALL,), model="m"),
    ToolMessage(results=(RESULT,)),
)


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (("a.png",), "pictures ('a.png',): expected a tuple of Image"),
        ((made(media_type="image/png", data=7),), "expected texts where it has something else"),
    ],
)
def test_what_is_no_picture_is_refused_where_it_would_get_in(images, words):
    """From a plugin, in a message of its own or in a result that takes the place of another."""
    bad = replace(RESULT, images=images)
    assert words in fault_of_messages((*SAID[:2], ToolMessage(results=(bad,))), ())
    assert words in p.malformed(p.ReplaceToolResult(bad, None))
    assert p.malformed(p.ReplaceToolResult(RESULT, None)) is None
    assert History.of(SAID).messages[2].results == (RESULT,)
