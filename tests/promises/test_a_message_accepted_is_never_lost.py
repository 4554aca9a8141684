"""Promise 5: a message accepted leaves a queue only in the step that puts it into the history.

Here for prompts; at the level of the core, where "accepted" is the step that says so.
"""

import pytest
from hypothesis import given, strategies as st

from agentrail.core.effects import Publish
from agentrail.core.signals import Abort, Prompt, SignalId, TeardownFinished
from agentrail.events import PromptDropped, PromptQueued, PromptReceived
from agentrail.messages import PromptRef, Text, UserMessage
from agentrail.testing import strategies
from agentrail.testing.rest import come_to_rest
from tests.core.worlds import completed, new_session, run, walk


def accepted_and_dropped(life):
    """The prompts that were accepted, and those that were thrown away aloud."""
    events = [effect.event for seen in life for effect in seen.effects if isinstance(effect, Publish)]
    accepted = [event.ref for event in events if isinstance(event, PromptReceived | PromptQueued)]
    return accepted, [event.ref for event in events if isinstance(event, PromptDropped)]


def said(state):
    """The prompts in the history, in order."""
    messages = state.data.history.messages
    return [m.ref for m in messages if isinstance(m, UserMessage) and m.origin == "prompt"]


@pytest.mark.at(39, 49)
@given(data=st.data())
def test_every_prompt_waits_or_was_said_or_was_dropped_aloud(data):
    """After every step of a long life, in the order in which they were accepted, aborts and crashes included."""
    start = new_session()
    life = []
    for seen in walk(data.draw(strategies.scripts(start)), start):
        life.append(seen)
        accepted, dropped = accepted_and_dropped(life)
        waiting = [prompt.ref for prompt in seen.after.data.queue]
        assert [ref for ref in accepted if ref not in dropped] == [*said(seen.after), *waiting]


@pytest.mark.at(39)
def test_an_abort_between_queue_and_history_loses_nothing():
    """There is no step between the two: a prompt is in the queue before it, and in the history behind it."""

    def prompt(name: str) -> Prompt:
        return Prompt(at_ms=1, signal_id=SignalId(name), ref=PromptRef(name), content=(Text(text=name),))

    abort = Abort(at_ms=2, signal_id=SignalId("a1"))
    before = run([prompt("p1"), prompt("p2"), prompt("p3")])
    for moment in ([abort], [completed("r1", Text(text="one")), abort]):
        life = list(walk(moment, before))
        life += come_to_rest(life[-1].after)
        assert said(life[-1].after) == ["p1", "p2", "p3"]
        assert any(isinstance(seen.signal, TeardownFinished) for seen in life)
