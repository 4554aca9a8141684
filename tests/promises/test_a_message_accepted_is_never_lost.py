"""Promise 5: a message accepted leaves a queue only in the step that puts it into the history.

Here for prompts; at the level of the core, where "accepted" is the step that says so.
"""

import pytest
from hypothesis import given, strategies as st

from agentrail.core.protocol.effects import Publish
from agentrail.core.protocol.signals import AbortCycle, Prompt, SignalId, TeardownFinished
from agentrail.events import AgentStart, PromptDropped, PromptQueued, PromptReceived
from agentrail.messages import PromptRef, Text, UserMessage
from agentrail.testing import strategies
from agentrail.testing.checked_run import come_to_rest
from tests.core.worlds import completed, new_session, run, walk


def line_of(life):
    """The prompts that were accepted and not thrown away aloud, in the order in which they have their turn.

    A steer that met the end of its cycle is a prompt then, in front of those that wait already, and says so.
    """
    line, begun = [], 0
    for event in (effect.event for seen in life for effect in seen.effects if isinstance(effect, Publish)):
        match event:
            case PromptReceived(ref=ref):
                line.append(ref)
            case PromptQueued(ref=ref, position=position):
                line.insert(begun + position, ref)
            case PromptDropped(ref=ref):
                line.remove(ref)
            case AgentStart():
                begun += 1
    return line


def said(state):
    messages = state.data.history.messages
    return [m.ref for m in messages if isinstance(m, UserMessage) and m.origin == "prompt"]


@pytest.mark.at(39, 49)
@given(data=st.data())
def test_every_prompt_waits_or_was_said_or_was_dropped_aloud(data):
    """After every step of a long life, in the order in which they have their turn, aborts and crashes included."""
    start = new_session()
    life = []
    for seen in walk(data.draw(strategies.scripts(start)), start):
        life.append(seen)
        waiting = [prompt.ref for prompt in seen.after.data.queue]
        assert line_of(life) == [*said(seen.after), *waiting]


@pytest.mark.at(39)
def test_an_abort_between_queue_and_history_loses_nothing():
    """There is no step between the two: a prompt is in the queue before it, and in the history behind it."""

    def prompt(name: str) -> Prompt:
        return Prompt(at_ms=1, signal_id=SignalId(name), ref=PromptRef(name), content=(Text(text=name),))

    abort = AbortCycle(at_ms=2, signal_id=SignalId("a1"))
    before = run([prompt("p1"), prompt("p2"), prompt("p3")])
    for moment in ([abort], [completed("r1", Text(text="one")), abort]):
        life = list(walk(moment, before))
        life += come_to_rest(life[-1].after)
        assert said(life[-1].after) == ["p1", "p2", "p3"]
        assert any(isinstance(seen.signal, TeardownFinished) for seen in life)
