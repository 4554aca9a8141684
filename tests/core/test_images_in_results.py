"""Pictures of a result: they stand in the conversation, count as tokens, and are words wherever none can be shown (11.2, K4)."""

from typing import Any

import pytest
from msgspec.structs import replace

from agentrail.core.policy.context import IMAGE_TOKENS, tokens_of
from agentrail.core.protocol import actions as p
from agentrail.core.protocol.signals import ToolFinished
from agentrail.core.session.loops import _seen
from agentrail.core.session.open_calls import CallState
from agentrail.core.values.history import History, fault_of_messages
from agentrail.core.values.importing import import_messages
from agentrail.core.values.transcript import transcript_of
from agentrail.core.wire.codec import decode_event, decode_signal, encode_event, encode_signal
from agentrail.events import ToolExecutionEnd
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


def test_words_name_each_picture():
    """As the specification writes it: type and size, with the base64 taken off."""
    large = Image(media_type="image/png", data="A" * 16_460)
    assert replace(RESULT, images=(large, PICTURE)).words == (
        "the window\n[image/png, 12,345 bytes]\n[image/png, 3 bytes]"
    )
    assert replace(RESULT, images=()).words == "the window"
    assert transcript_of(SAID).endswith("the window\n[image/png, 3 bytes]\n")


def test_a_picture_counts_what_one_of_a_user_counts():
    """Not its base64, which would be a million tokens."""
    alone = tokens_of([ToolMessage(results=(replace(RESULT, images=()),))])
    assert tokens_of(SAID[2:]) == alone + IMAGE_TOKENS
    huge = replace(RESULT, images=(Image(media_type="image/png", data="A" * 10**6), PICTURE))
    assert tokens_of([ToolMessage(results=(huge,))]) == alone + 2 * IMAGE_TOKENS


def test_what_has_none_is_written_as_before():
    """Journals and events of sessions without pictures have no word of them; with one both ways are the inverse of each other."""
    plain = ToolExecutionEnd(name="shot", call_id=CallId("c"), result=replace(RESULT, images=()))
    assert b"images" not in encode_event(plain)
    assert b'"is_error":false,"details":null' in encode_event(plain)
    shown = ToolExecutionEnd(name="shot", call_id=CallId("c"), result=RESULT)
    assert decode_event(encode_event(shown)) == shown
    finished = ToolFinished(at_ms=1, effect_id="t1", text="x", started_at_ms=0)
    assert encode_signal(finished).endswith(
        b'"is_error":false,"details":null,"started_at_ms":0,"crashed":false,"jitter":0.0,"changes":[],"late":false,"spent":null}'
    )
    with_one = replace(finished, images=(PICTURE,))
    assert decode_signal(encode_signal(with_one)) == with_one


def test_a_repeat_that_shows_something_else_is_none():
    """A tool that looks again and again says the same words about another picture: no loop."""
    call = CallState(call=CALL, arguments={}, stage="done", result=RESULT)
    other = replace(RESULT, images=(Image(media_type="image/png", data="QUFC"),))
    seen = [_seen(replace(call, result=result)).text for result in (RESULT, RESULT, other)]
    assert seen[0] == seen[1] != seen[2]


def test_they_come_along_with_an_imported_conversation():
    """Also where the result had to be mended."""
    given = (*SAID[:2], ToolMessage(results=(replace(RESULT, name="other", text=""),)))
    history, repairs = import_messages(given)
    assert {repair.code for repair in repairs} == {"result_name", "empty_result"}
    assert history.messages[2].results[0].images == (PICTURE,)


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
