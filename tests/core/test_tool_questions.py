"""Questions that running tools put before the user: how many may wait, and to whom a model's tools describe themselves."""

from agentrail.core.protocol.effects import Refuse, RunTool
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import SignalId, ToolAsked
from agentrail.core.session import machine
from agentrail.core.session.cycle import MAX_ASKERS
from agentrail.core.values.toolbox import Toolbox, ToolSpec
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
        state, effects = machine.step(state, _asked(ran[0], number))
    assert len(state.data.interactions) == MAX_ASKERS
    (refused,) = effects
    assert isinstance(refused, Refuse)
    assert isinstance(refused.error, MailboxFull)
    assert str(refused.error) == f"{MAX_ASKERS} questions of tools wait for the user already"


def _asked(effect_id: EffectId, number: int) -> ToolAsked:
    return ToolAsked(at_ms=1_000, signal_id=SignalId(f"q{number}"), effect_id=effect_id, question="?")


def test_a_box_whose_tools_say_the_same_is_the_same():
    """So the list is encoded once; a tool that says something else keeps its place and its generation."""
    spec = ToolSpec(name="a", description="one", parameters={"type": "object"})
    other = ToolSpec(name="a", description="two", parameters={"type": "object"})
    gone = ToolSpec(name="b", description="gone", parameters={"type": "object"})
    box = Toolbox([spec]).changed([spec], [], 4, replace=False)
    assert box.described([spec, gone]) is box
    anew = box.described([other, gone])
    assert [one.description for one in anew] == ["two"]
    assert (anew.generation_of("a"), anew.generation) == (4, 4)
