"""Old arguments are shortened on the way out, and refused cycles left out; never in the history."""

import pytest
from hypothesis import given, strategies as st

from agentrail.core.policy import request_context as rc
from agentrail.core.values.history import Log
from agentrail.messages import AssistantMessage, CallId, Message, Text, ToolCall, UserMessage
from tests.thinned import each

LONG = "x" * (rc.MAX_ARGUMENT_CHARACTERS + 1)
SHORT = f"{'x' * rc.KEPT_CHARACTERS} [… 1,501 characters left out …]"


def user(text: str = "hello", **more) -> UserMessage:
    """What a user says, or the session itself."""
    return UserMessage(content=(Text(text=text),), **more)


def calls(**arguments) -> AssistantMessage:
    call = ToolCall(call_id=CallId("c"), name="write", arguments=arguments)
    return AssistantMessage(content=(Text(text=LONG), call), model="m")


def test_old_long_strings_are_shortened_wherever_they_stand():
    """However deep; words, numbers, short strings and what the model said stay, and a call without anything long is the very same one."""
    old = calls(
        path="a.py", text=LONG, edits=[{"new": LONG, "line": 3}], short="x" * rc.MAX_ARGUMENT_CHARACTERS
    )
    history = Log([old, *[user()] * 29])
    _, sent = rc.outgoing(rc.Outgoing(), history)
    assert sent[0] == calls(
        path="a.py", text=SHORT, edits=[{"new": SHORT, "line": 3}], short="x" * rc.MAX_ARGUMENT_CHARACTERS
    )
    assert sent[1:] == list(history[1:])
    assert history[0] is old
    assert old.calls[0].arguments["text"] == LONG
    for arguments, is_same in (({"a": ["b", {"c": "d"}, 3]}, True), ({"a": {"b": LONG}}, False)):
        message = calls(**arguments)
        _, sent = rc.outgoing(rc.Outgoing(), Log([message, *[user()] * 29]))
        assert (sent[0] is message) is is_same
        assert sent[0].calls[0].arguments == (arguments if is_same else {"a": {"b": SHORT}})


@pytest.mark.at(140)
@given(long=st.lists(st.booleans(), min_size=60, max_size=90))
def test_between_two_steps_a_request_extends_the_one_before(long):
    """Messages that were sent are sent again as the very same, except where a step passes a long argument."""
    history: Log[Message] = Log()
    kept, before, changes = rc.Outgoing(), [], 0
    for is_long in long:
        history = history.appended(calls(text=LONG) if is_long else user())
        kept, sent = rc.outgoing(kept, history)
        if any(one is not other for one, other in zip(before, sent, strict=False)):
            changes += 1
            assert (len(history) - rc.FRESH_MESSAGES) % rc.STEP == 0
        assert list(sent[-rc.FRESH_MESSAGES :]) == list(history[-rc.FRESH_MESSAGES :])
        old = sent[: max(0, len(sent) - rc.FRESH_MESSAGES - rc.STEP)]
        assert calls(text=LONG) not in old
        before = list(sent)
    assert changes <= len(long) // rc.STEP


@given(lengths=st.lists(st.integers(0, 60), max_size=8))
def test_another_conversation_is_looked_at_anew(lengths):
    """After a compaction, or a rewind, what is kept of the old one does no harm: the outcome is as if it had not been."""
    kept = rc.Outgoing()
    shared = [calls(text=LONG) for _ in range(60)]
    for length in lengths:
        messages = Log([user(str(length)), *shared[:length]] if length % 2 else shared[:length])
        kept, sent = rc.outgoing(kept, messages)
        assert list(sent) == list(rc.outgoing(rc.Outgoing(), messages)[1])


def said(text, *, refused=False):
    stop_reason = "refused" if refused else "end"
    return AssistantMessage(content=(Text(text=text),), model="m", stop_reason=stop_reason)


def texts(messages) -> list[str]:
    return [message.content[0].text for message in messages]


CONVERSATIONS = [
    ([user("p1", ref="p1"), said("no", refused=True), user("p2", ref="p2"), said("yes")], (), ["p2", "yes"]),
    ([user("p1", ref="p1"), said("a"), said("no", refused=True)], (), []),
    ([user("p1", ref="p1"), user("p2", ref="p2"), said("a")], ("p1",), ["p2", "a"]),
    (
        [user("p1", ref="p1"), user("of a survivor", origin="note"), user("p2", ref="p2")],
        ("p1",),
        ["of a survivor", "p2"],
    ),
    (
        [user("summary", origin="note"), said("a"), said("no", refused=True), user("p2", ref="p2")],
        (),
        ["summary", "p2"],
    ),
    ([said("imported", refused=True), user("p2", ref="p2")], (), ["p2"]),
    ([user("p1", ref="p1"), said("a"), user("p2", ref="p2")], (), ["p1", "a", "p2"]),
]


@each(("messages", "refused", "sent"), CONVERSATIONS)
def test_a_refused_cycle_is_left_out(messages, refused, sent):
    """From its prompt to the refusal, or to the next prompt where nothing was said; whoever named a message finds its place, or that it is not there."""
    assert texts(rc.outgoing(rc.Outgoing(), Log(messages), refused)[1]) == sent
    kept = rc.Outgoing()
    for end in range(1, len(messages) + 1):  # message by message
        kept, grown = rc.outgoing(kept, Log(messages[:end]), refused)
    assert texts(grown) == sent

    kept, out = rc.outgoing(rc.Outgoing(), Log(messages), refused)
    places = [kept.place_of(place) for place in range(len(messages))]
    assert [place for place in places if place is not None] == list(range(len(sent)))
    assert all(out[place] is messages[old] for old, place in enumerate(places) if place is not None)
