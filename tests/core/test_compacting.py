"""What comes while a conversation is shortened: it waits, it is not lost, and only an abort ends the compaction (3.10)."""

from pathlib import Path

import pytest

from agentrail.core.protocol.effects import CancelStream, Publish, StartStream
from agentrail.core.protocol.hooks import FileWritten
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import PluginRequestFinished, Prompt, SignalId, Steer
from agentrail.core.session import machine
from agentrail.core.session.state import Phase
from agentrail.core.stack.loading import load_stack
from agentrail.events import CompactEnd, PromptDropped
from agentrail.messages import PromptRef, SteerRef, Text, UserMessage
from agentrail.testing.scenario import read_scenario
from tests.core.worlds import completed

SCRIPT = Path("tests/scenarios/compact_aborted.txt")


def compacting():
    """A session that waits for a summary, as the scenario has it up to `Compact`."""
    scenario = read_scenario((Path(__file__).parents[2] / SCRIPT).read_text())
    stack, states = load_stack(scenario.plugins)
    state = machine.new_session(scenario.config, scenario.tools, stack, states)
    for line in scenario.inputs:
        if isinstance(line.signal, Steer):
            break
        state, _ = machine.step(state, line.signal)
    assert state.data.compaction is not None
    return state


def said(state):
    """What the user said, as the history has it."""
    users = [message for message in state.data.history.messages if isinstance(message, UserMessage)]
    return [block.text for message in users for block in message.content if isinstance(block, Text)]


SPEAKING = [
    Prompt(at_ms=110, signal_id=SignalId("p9"), ref=PromptRef("p9"), content=(Text(text="And you?"),)),
    Steer(at_ms=110, signal_id=SignalId("p9"), ref=SteerRef("p9"), text="And you?"),
]


@pytest.mark.at(41, 42, 45, 46)
@pytest.mark.parametrize("spoken", SPEAKING, ids=["prompt", "steer"])
def test_what_is_said_in_a_compaction_waits_and_is_heard(spoken):
    """It stops nothing, is not dropped, and stands in the history behind the summary."""
    state, effects = machine.step(compacting(), spoken)
    assert not any(isinstance(effect, CancelStream) for effect in effects)
    assert state.data.compaction is not None
    all_of_it = [*effects]
    for signal in (
        completed(state.data.compaction.effect_id, Text(text="They lived.")),
        PluginRequestFinished(
            at_ms=130, effect_id=EffectId("e6"), result=FileWritten(path="c/x.md", written_bytes=9)
        ),
    ):
        state, effects = machine.step(state, signal)
        all_of_it += effects
    published = [effect.event for effect in all_of_it if isinstance(effect, Publish)]
    assert any(isinstance(event, CompactEnd) and event.removed for event in published)
    assert not any(isinstance(event, PromptDropped) for event in published)
    assert said(state)[-1] == "And you?"
    assert state.phase is Phase.RUNNING
    assert isinstance(all_of_it[-1], StartStream)
