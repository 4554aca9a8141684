"""What a model will be sent next, part by part: a projection of what a session knows."""

from msgspec.structs import replace

from agentrail.core.session.request_preview import MAX_MESSAGES_NAMED, next_request_of
from agentrail.core.values.history import History
from agentrail.messages import AssistantMessage, Text, UserMessage
from tests.core import worlds

KEY = "sk-very-secret-0123456789"


def said(text, origin="prompt"):
    return UserMessage(content=(Text(text=text),), origin=origin)


def data_with(*messages, **fields):
    """What a session knows that has this conversation."""
    return replace(worlds.new_session().data, history=History.of(messages), **fields)


def test_no_half_of_a_secret_is_left_at_an_end():
    """A text is cleaned in front of the cut: a key that lies across it is not shown by half."""
    for before in range(470, 505):
        drawn = next_request_of(data_with(said("x" * before + KEY)), lambda text: text.replace(KEY, "…"))
        assert KEY[:4] not in drawn.parts[-1].text_head
        assert len(drawn.parts[-1].text_head) <= 500


def test_of_a_long_conversation_the_beginning_is_one_part():
    """So that the answer is bounded, and nothing is missing in its sum."""
    answer = AssistantMessage(content=(Text(text="b" * 40),), model="m")
    pairs = [one for number in range(MAX_MESSAGES_NAMED) for one in (said(f"{number:040}"), answer)]
    drawn = next_request_of(data_with(*pairs), str)
    messages = [part for part in drawn.parts if part.kind == "message"]
    assert len(messages) == MAX_MESSAGES_NAMED + 1
    assert (messages[0].name, messages[0].text_head) == ("earlier", f"{MAX_MESSAGES_NAMED}")
    assert sum(part.tokens for part in messages) == 2 * MAX_MESSAGES_NAMED * 10
    summary = next_request_of(data_with(said("before", origin="note"), said("a")), str)
    assert [part.kind for part in summary.parts if part.role] == ["summary", "message"]
