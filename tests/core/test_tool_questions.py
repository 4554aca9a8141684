"""Questions that running tools put before the user: how many may wait, and to whom a model's tools describe themselves."""

from agentrail.core.protocol.effects import Refuse, RunTool
from agentrail.core.protocol.signals import SignalId, ToolAsked
from agentrail.core.session import machine
from agentrail.core.session.cycle import MAX_ASKERS
from agentrail.errors import MailboxFull
from agentrail.testing.scenario import read_scenario

RUNNING = """# a tool runs
session show=tools
tool read path=string?
@0     Prompt p1 "Hello"
@900   ResponseCompleted r1 c1:read
"""


def test_questions_of_tools_have_a_bound():
    """As all that waits has: the tool that asks once more hears it, and what waits goes on waiting."""
    scenario = read_scenario(RUNNING)
    state = machine.new_session(scenario.config, scenario.tools)
    ran = []
    for line in scenario.inputs:
        state, effects = machine.step(state, line.signal)
        ran += [effect.effect_id for effect in effects if isinstance(effect, RunTool)]
    for number in range(MAX_ASKERS + 1):
        state, effects = machine.step(
            state, ToolAsked(at_ms=1_000, signal_id=SignalId(f"q{number}"), effect_id=ran[0], question="?")
        )
    assert len(state.data.interactions) == MAX_ASKERS
    (refused,) = effects
    assert isinstance(refused, Refuse)
    assert isinstance(refused.error, MailboxFull)
    assert str(refused.error) == f"{MAX_ASKERS} questions of tools are already waiting for the user"
