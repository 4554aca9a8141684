"""The history cannot hold what a provider would refuse (promise 2)."""

import pytest

from agentrail.core.values.history import History
from agentrail.errors import HistoryError
from agentrail.messages import AssistantMessage, CallId, Text, ToolCall, ToolResult, UserMessage

HELLO = UserMessage(content=(Text(text="Hello"),))


def says(*content) -> AssistantMessage:
    return AssistantMessage(content=content, model="m")


def call(call_id: str) -> ToolCall:
    return ToolCall(call_id=CallId(call_id), name="read", arguments={})


def result(call_id: str) -> ToolResult:
    return ToolResult(call_id=CallId(call_id), name="read", text="a")


@pytest.fixture
def asked() -> History:
    """Two calls are open."""
    return History().with_user(HELLO).with_response(says(Text(text="Hm."), call("c1"), call("c2")))


def test_nothing_is_added_that_a_provider_would_refuse(asked):
    """Neither speaks while calls are open, which are named; no message is empty, and two calls of one response have two ids."""
    with pytest.raises(HistoryError, match=r"a user message cannot be added while .* \['c1', 'c2'\]"):
        asked.with_user(HELLO)
    with pytest.raises(HistoryError, match=r"a response cannot be added while calls are unanswered"):
        asked.with_response(says(Text(text="Hi.")))

    with pytest.raises(HistoryError, match="a user message needs at least one block"):
        History().with_user(UserMessage(content=()))
    with pytest.raises(HistoryError, match="a response needs at least one block"):
        History().with_response(says())

    with pytest.raises(HistoryError, match="two calls in one response share an id:"):
        History().with_response(says(call("c1"), call("c1")))


def test_a_summary_stands_for_messages_that_are_there(asked):
    """At least one, at most all; a cut parts no result from its call, and there is none while one is open or for a summary that says nothing."""
    with pytest.raises(HistoryError, match="a summary cannot be added while calls are unanswered"):
        asked.compacted(1, HELLO)
    history = asked.answered([result("c1"), result("c2")])
    with pytest.raises(HistoryError, match="a cut at 2 would separate results from their calls"):
        history.compacted(2, HELLO)
    with pytest.raises(HistoryError, match="a summary of one block or more"):
        history.compacted(1, UserMessage(content=()))
    for cut in (0, -1, 5):
        said = f"a summary of one block or more replaces 1 to 4 messages, not {cut}"
        with pytest.raises(HistoryError, match=said):
            history.with_user(HELLO).compacted(cut, HELLO)


def test_only_a_result_of_the_last_message_is_corrected(asked):
    """Of another call, and where the last message has no results, it is refused."""
    answered = asked.answered([result("c1"), result("c2")])
    with pytest.raises(HistoryError, match=r"no result for 'c9'; it has results for \['c1', 'c2'\]"):
        answered.corrected(result("c9"))
    with pytest.raises(HistoryError, match=r"no result for 'c1'; it has results for \[\]"):
        asked.corrected(result("c1"))
    late = ToolResult(call_id=CallId("c2"), name="read", text="late")
    assert answered.corrected(late).messages[-1].results == (result("c1"), late)


def test_histories_are_values(asked):
    """Equal messages make equal histories; a repr shows how much there is, and no conversation."""
    again = History().with_user(HELLO).with_response(asked.messages[1])
    assert again == asked
    assert hash(again) == hash(asked)
    assert asked != History()
    assert asked != asked.messages
    assert repr(asked) == "<History of 2 messages, 2 calls open>"
