"""The importer: any messages make a valid history, and whatever had to be changed is reported (AT-007)."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentrail.core.values.history import History
from agentrail.core.values.import_history import NO_OUTPUT, Repair, import_messages
from agentrail.errors import OptionError
from agentrail.messages import AssistantMessage, CallId, ToolCall, ToolMessage, ToolResult, UserMessage
from agentrail.testing import strategies


@pytest.mark.parametrize("given", [None, 5, "Hi", [{"role": "user"}], [UserMessage(content=()), None]])
def test_what_is_no_message_is_refused(given):
    """Not imported as an empty one, and not by an assertion."""
    with pytest.raises(OptionError, match=r"messages has .*: expected messages of a conversation"):
        import_messages(given)


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


def test_what_says_nothing_gets_words_or_is_left_out():
    """Empty messages go; an empty result, a wrong name and a call without arguments are mended."""
    empty = UserMessage(content=())
    odd = (calls("c1", arguments=None), results("c1", name="x", text=""))
    messages, repairs = repaired(empty, calls(), results(), *odd)
    assert messages == [calls("c1"), results("c1", text=NO_OUTPUT)]
    codes = ["empty_message"] * 3 + ["call_arguments", "result_name", "empty_result"]
    assert [code for code, _, _ in repairs] == codes
    malformed = calls("c1", arguments=None, malformed="{")
    assert repaired(malformed, results("c1")) == ([malformed, results("c1")], [])


ANY_MESSAGES = st.lists(
    strategies.messages()
    | st.builds(calls, st.sampled_from(["c1", "c2", ""]), st.sampled_from(["c1", "c3"]))
    | st.builds(results, st.sampled_from(["c1", "c2", ""]), st.sampled_from(["c1", "c3"]), text=st.text())
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
    made_up = codes.count("missing_result") - codes.count("orphan_result")
    assert count(history.messages) == count(messages) + made_up


@pytest.mark.parametrize("are_same", [False, True])
def test_each_call_finds_its_result_without_a_look_at_all_others(are_same):
    """With the same id in each of 2,000 calls it took 18 s."""
    compared = 0

    class Counted(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    ids = [Counted("c" if are_same else f"c{number}") for number in range(200)]
    _, repairs = repaired(calls(*ids), results(*ids))
    assert [code for code, _, _ in repairs] == ["call_id"] * (199 if are_same else 0)
    assert compared < 10 * len(ids)
