"""The importer: any messages make a valid history, and whatever had to be changed is reported (AT-007)."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentrail.core.values.history import History
from agentrail.core.values.importing import NO_OUTPUT, NO_RESULT, Repair, import_messages
from agentrail.messages import (
    AssistantMessage,
    CallId,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentrail.testing import strategies

ASKED = UserMessage(content=(Text(text="Look."),))


def calls(*ids: str, **fields: Any) -> AssistantMessage:
    """A response with calls of these ids."""
    values = {"name": "read", "arguments": {}, **fields}
    return AssistantMessage(content=tuple(ToolCall(call_id=CallId(i), **values) for i in ids), model="x:y")


def results(*ids: str, name: str = "read", text: str = "here") -> ToolMessage:
    """Results of these calls."""
    return ToolMessage(results=tuple(ToolResult(call_id=CallId(i), name=name, text=text) for i in ids))


def repaired(*messages):
    """The messages after the import, and the repairs as code, position and call."""
    history, repairs = import_messages(messages)
    return list(history.messages), [(repair.code, repair.position, repair.call_id) for repair in repairs]


def answered(message):
    """The ids of the results of a message."""
    return [result.call_id for result in message.results]


def test_a_valid_history_passes_as_it_is():
    """Nothing is changed where nothing is wrong, and nothing is reported."""
    messages = [ASKED, calls("c1", "c2"), results("c1", "c2"), calls("c3"), results("c3"), ASKED]
    assert repaired(*messages) == (messages, [])


def test_a_call_without_a_result_is_answered_with_an_error():
    """A conversation that was cut in the middle of a call: the model reads that nothing is known of it."""
    messages, repairs = repaired(ASKED, calls("c1", "c2"), results("c2"), ASKED)
    stand_in = ToolResult(call_id=CallId("c1"), name="read", text=NO_RESULT, is_error=True)
    assert messages[2].results == (stand_in, *results("c2").results)
    assert repairs == [("missing_result", 1, "c1")]


def test_results_without_a_call_are_left_out():
    """Before any call, of another call, or a second time."""
    messages, repairs = repaired(results("c0"), ASKED, calls("c1"), results("c1", "c1", "c9"))
    assert messages == [ASKED, calls("c1"), results("c1")]
    assert repairs == [("orphan_result", 0, "c0"), ("orphan_result", 3, "c1"), ("orphan_result", 3, "c9")]


def test_results_come_to_their_calls():
    """In another order, in several messages, behind what the user said meanwhile: one message, in the order of the calls."""
    messages, repairs = repaired(calls("c1", "c2", "c3"), results("c2", "c1"), ASKED, results("c3"))
    assert messages == [calls("c1", "c2", "c3"), results("c1", "c2", "c3"), ASKED]
    assert repairs == [("misplaced_result", 1, "c2"), ("misplaced_result", 3, "c3")]


def test_a_result_behind_the_next_response_is_nobodys():
    """The model went on without it, so it cannot have been there."""
    messages, repairs = repaired(
        calls("c1"), AssistantMessage(content=(Text(text="?"),), model="x:y"), results("c1")
    )
    assert answered(messages[1]) == ["c1"]
    assert [code for code, _, _ in repairs] == ["missing_result", "orphan_result"]


def test_each_call_gets_an_id_of_its_own():
    """Ids that are empty or used before are replaced, by none that comes later; their results go along, in order."""
    messages, repairs = repaired(
        calls("c1", "c1", ""),
        results("c1", "c1", ""),
        calls("c1"),
        results("c1"),
        calls("c1_2"),
        results("c1_2"),
    )
    assert [answered(message) for message in messages[1::2]] == [["c1", "c1_3", "call_2"], ["c1_4"], ["c1_2"]]
    assert repairs == [("call_id", 0, "c1"), ("call_id", 0, ""), ("call_id", 2, "c1")]


def test_what_says_nothing_gets_words_or_is_left_out():
    """Empty messages go; an empty result, a wrong name and a call without arguments are mended."""
    empty = UserMessage(content=())
    messages, repairs = repaired(
        empty, calls(), results(), calls("c1", arguments=None), results("c1", name="x", text="")
    )
    assert messages == [calls("c1"), results("c1", text=NO_OUTPUT)]
    assert [code for code, _, _ in repairs] == [
        "empty_message",
        "empty_message",
        "empty_message",
        "call_arguments",
        "result_name",
        "empty_result",
    ]
    malformed = calls("c1", arguments=None, malformed="{")
    assert repaired(malformed, results("c1")) == ([malformed, results("c1")], [])


ANY_MESSAGES = st.lists(
    strategies.messages()
    | st.builds(calls, st.sampled_from(["c1", "c2", ""]), st.sampled_from(["c1", "c3"]))
    | st.builds(
        results,
        st.sampled_from(["c1", "c2", ""]),
        st.sampled_from(["c1", "c3"]),
        text=st.just("") | st.text(),
    )
    | st.sampled_from([UserMessage(content=()), calls(), results(), calls("c1", "c1")])
)


@pytest.mark.at(7)
@given(messages=ANY_MESSAGES)
def test_any_messages_make_a_history_that_needs_no_repair(messages):
    """Whatever comes: no call is open, and what came out passes unchanged; it is reported if and only if it changed."""
    history, repairs = import_messages(messages)
    assert isinstance(history, History)
    assert history.open == ()
    again, nothing = import_messages(history.messages)
    assert (again, nothing) == (history, ())
    assert (list(history.messages) == messages) == (repairs == ())
    assert all(isinstance(repair, Repair) and 0 <= repair.position < len(messages) for repair in repairs)


@given(messages=ANY_MESSAGES)
def test_no_word_is_lost_or_made_up_unsaid(messages):
    """What people and models said stays, in order; each result is kept, or reported as an orphan; each made up is reported."""
    history, repairs = import_messages(messages)

    def said(all_messages):
        return [
            [block for block in message.content if not isinstance(block, ToolCall)]
            for message in all_messages
            if not isinstance(message, ToolMessage) and message.content
        ]

    def count(all_messages):
        return sum(len(message.results) for message in all_messages if isinstance(message, ToolMessage))

    assert said(history.messages) == said(messages)
    codes = [repair.code for repair in repairs]
    assert count(history.messages) == count(messages) - codes.count("orphan_result") + codes.count(
        "missing_result"
    )


def test_a_vendor_that_has_the_same_id_each_time_is_imported_too():
    """Each call of a long history gets an id of its own, numbered on."""
    history, repairs = import_messages(
        [message for _ in range(2_000) for message in (calls("0"), results("0"))]
    )
    assert [repair.code for repair in repairs] == ["call_id"] * 1_999
    assert answered(history.messages[-1]) == ["0_2000"]
