"""Old arguments are shortened on the way out, and refused cycles left out; never in the history."""

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from agentrail.core.policy.request_context import (
    FRESH_MESSAGES,
    KEPT_CHARACTERS,
    MAX_ARGUMENT_CHARACTERS,
    STEP,
    Outgoing,
    outgoing,
)
from agentrail.core.values.history import Log
from agentrail.messages import (
    AssistantMessage,
    CallId,
    Message,
    PromptRef,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)

LONG = "x" * (MAX_ARGUMENT_CHARACTERS + 1)
SHORT = f"{'x' * KEPT_CHARACTERS} [… 1,501 characters left out …]"


def user(text: str = "hello") -> UserMessage:
    """What a user says."""
    return UserMessage(content=(Text(text=text),))


def calls(**arguments) -> AssistantMessage:
    """A response with a call."""
    call = ToolCall(call_id=CallId("c"), name="write", arguments=arguments)
    return AssistantMessage(content=(Text(text=LONG), call), model="m")


def test_old_long_strings_are_shortened_wherever_they_stand():
    """In lists and objects too; words, numbers, short strings and what the model said stay."""
    old = calls(path="a.py", text=LONG, edits=[{"new": LONG, "line": 3}], short="x" * MAX_ARGUMENT_CHARACTERS)
    history = Log([old, *[user()] * 29])
    _, sent = outgoing(Outgoing(), history)
    assert sent[0] == calls(
        path="a.py", text=SHORT, edits=[{"new": SHORT, "line": 3}], short="x" * MAX_ARGUMENT_CHARACTERS
    )
    assert sent[1:] == list(history[1:])
    assert history[0] is old
    assert old.calls[0].arguments["text"] == LONG


@pytest.mark.at(140)
@given(long=st.lists(st.booleans(), min_size=60, max_size=90))
def test_between_two_steps_a_request_extends_the_one_before(long):
    """Messages that were sent are sent again as the very same, except where a step passes a long argument."""
    history: Log[Message] = Log()
    kept, before, changes = Outgoing(), [], 0
    for is_long in long:
        history = history.appended(calls(text=LONG) if is_long else user())
        kept, sent = outgoing(kept, history)
        if any(one is not other for one, other in zip(before, sent, strict=False)):
            changes += 1
            assert (len(history) - FRESH_MESSAGES) % STEP == 0
        assert list(sent[-FRESH_MESSAGES:]) == list(history[-FRESH_MESSAGES:])
        old = sent[: max(0, len(sent) - FRESH_MESSAGES - STEP)]
        assert calls(text=LONG) not in old
        before = list(sent)
    assert changes <= len(long) // STEP


@given(lengths=st.lists(st.integers(0, 60), max_size=8))
def test_another_conversation_is_looked_at_anew(lengths):
    """After a compaction, or a rewind, what is kept of the old one does no harm: the outcome is as if it had not been."""
    kept = Outgoing()
    shared = [calls(text=LONG) for _ in range(60)]
    for length in lengths:
        messages = Log([user(str(length)), *shared[:length]] if length % 2 else shared[:length])
        kept, sent = outgoing(kept, messages)
        assert list(sent) == list(outgoing(Outgoing(), messages)[1])


# --- refused cycles


def prompt(name: str) -> UserMessage:
    """A prompt with its name."""
    return UserMessage(content=(Text(text=name),), ref=PromptRef(name))


def note(text: str) -> UserMessage:
    """What the session itself says."""
    return UserMessage(content=(Text(text=text),), origin="note")


def said(text: str, *, refused: bool = False) -> AssistantMessage:
    """A response."""
    return AssistantMessage(
        content=(Text(text=text),), model="m", stop_reason="refused" if refused else "end"
    )


def texts(messages: Sequence[Message]) -> list[str]:
    """What the messages say."""
    return [
        message.content[0].text
        for message in messages
        if not isinstance(message, ToolMessage) and isinstance(message.content[0], Text)
    ]


CONVERSATIONS = [
    ([prompt("p1"), said("no", refused=True), prompt("p2"), said("yes")], (), ["p2", "yes"]),
    ([prompt("p1"), said("a"), said("no", refused=True)], (), []),
    ([prompt("p1"), prompt("p2"), said("a")], ("p1",), ["p2", "a"]),
    ([prompt("p1"), note("of a survivor"), prompt("p2")], ("p1",), ["of a survivor", "p2"]),
    ([note("summary"), said("a"), said("no", refused=True), prompt("p2")], (), ["summary", "p2"]),
    ([said("imported", refused=True), prompt("p2")], (), ["p2"]),
    ([prompt("p1"), said("a"), prompt("p2")], (), ["p1", "a", "p2"]),
]


@pytest.mark.parametrize(("messages", "refused", "sent"), CONVERSATIONS)
def test_a_refused_cycle_is_left_out(messages, refused, sent):
    """From its prompt to the refusal, or to the next prompt where nothing was said; in one look or message by message."""
    assert texts(outgoing(Outgoing(), Log(messages), refused)[1]) == sent
    kept = Outgoing()
    for end in range(1, len(messages) + 1):
        kept, grown = outgoing(kept, Log(messages[:end]), refused)
    assert texts(grown) == sent


@pytest.mark.parametrize(("messages", "refused", "sent"), CONVERSATIONS)
def test_places_are_those_in_the_request(messages, refused, sent):
    """Whoever named a message of the conversation finds it in the request, or learns that it is not in there."""
    kept, out = outgoing(Outgoing(), Log(messages), refused)
    places = [kept.place_of(place) for place in range(len(messages))]
    assert [place for place in places if place is not None] == list(range(len(sent)))
    assert all(out[place] is messages[old] for old, place in enumerate(places) if place is not None)
