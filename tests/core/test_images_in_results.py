"""Pictures of a result: they stand in the conversation, count as tokens, and are words wherever none can be shown (11.2, K4)."""

from msgspec.structs import replace

from agentrail import messages as m
from agentrail.core.protocol import actions as p
from agentrail.core.values.history import History, fault_of_messages

CALL = m.ToolCall(call_id=m.CallId("c"), name="shot", arguments={})
PICTURE = m.Image(media_type="image/png", data="QUFB")
RESULT = m.ToolResult(call_id=m.CallId("c"), name="shot", text="the window", images=(PICTURE,))
SAID = (
    m.UserMessage(content=(m.Text(text="Look"),)),
    m.AssistantMessage(content=(CALL,), model="m"),
    m.ToolMessage(results=(RESULT,)),
)


def test_what_is_no_picture_is_refused_where_it_would_get_in():
    """From a plugin, in a message of its own or in a result that takes the place of another."""
    for images, words in (
        (("a.png",), "pictures ('a.png',): expected a tuple of Image"),
        ((m.Image(media_type="image/png", data=7),), "expected text fields"),
    ):
        bad = replace(RESULT, images=images)
        assert words in fault_of_messages((*SAID[:2], m.ToolMessage(results=(bad,))), ())
        assert words in p.malformed(p.ReplaceToolResult(bad, None))
    assert p.malformed(p.ReplaceToolResult(RESULT, None)) is None
    assert History.of(SAID).messages[2].results == (RESULT,)
