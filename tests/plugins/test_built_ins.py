"""What holds for every built-in plugin, and for stacks of them."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from agentrail import plugins as p
from agentrail.core.protocol.hooks import HOOKS
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.pipeline import run_hook
from agentrail.testing.check_plugin import SAMPLES, check_plugin
from tests.core.plugin_rig import CTX

ROOT = Path(__file__).parents[2]
OPTIONS = {
    p.OutputFilter: {"keywords": ["secret"]},
    p.CostGuard: {"max_tokens": 1_500},
    p.SkillGuard: {"skills": {"x": ["read_*", "shell"]}, "active": ["x"]},
}
BUILT_INS = sorted(
    (thing for thing in vars(p).values() if isinstance(thing, type) and issubclass(thing, p.Plugin)),
    key=lambda plugin: plugin.__name__,
)
BUILT_INS = [plugin for plugin in BUILT_INS if plugin not in {p.Plugin, p.FunctionPlugin}]
PRIORITIES = {
    "Permissions": 5,
    "SecurityGuard": 10,
    "SkillGuard": 20,
    "HumanApproval": 50,
    "EventLogger": 90,
    "MemoryLoader": 115,
    "SkillListing": 116,
    "OutputFilter": 110,
    "CostGuard": 120,
    "PatchToolCalls": 120,
    "PromptCache": 130,
    "Recovery": 150,
    "Planning": 200,
    "ModelRouter": 310,
    "LargeResultOffload": 320,
    "WorkingNotes": 325,
    "MemoryFlush": 330,
    "AutoRecall": 335,
    "ContentPolicy": 340,
    "Citations": 350,
    "Reflection": 400,
    "EpisodicMemory": 610,
    "AutoCheckpoint": 700,
}
each_built_in = pytest.mark.parametrize("plugin", BUILT_INS, ids=lambda plugin: plugin.__name__)


def entry(plugin):
    """How it stands in a stack here."""
    return (plugin, OPTIONS.get(plugin, {}))


def file_name(plugin):
    """SecurityGuard: security_guard."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", plugin.__name__).lower()


def test_they_stand_in_the_documented_order():
    """Each has the priority that the documentation gives it."""
    assert {plugin.__name__: plugin.priority for plugin in BUILT_INS} == PRIORITIES


@each_built_in
def test_each_has_a_short_file_a_page_and_a_scenario(plugin):
    """One file of at most 150 lines, a page that runs, a scenario that shows what it is for (5.8)."""
    lines = (
        (ROOT / "agentrail" / "plugins" / f"{file_name(plugin)}.py").read_text(encoding="utf-8").splitlines()
    )
    assert len(lines) <= 150
    page = ROOT / "docs" / "how-to" / "plugins" / f"{file_name(plugin).replace('_', '-')}.md"
    assert f"# `{plugin.__name__}`" in page.read_text(encoding="utf-8")
    scenario = ROOT / "tests" / "scenarios" / f"{file_name(plugin)}.txt"
    assert f"plugin {plugin.__name__}" in scenario.read_text(encoding="utf-8")


@each_built_in
def test_each_keeps_the_contract_of_plugins(plugin):
    """`check_plugin` over all built-ins (5.9)."""
    check_plugin(plugin, options=[OPTIONS.get(plugin, {})])


@settings(max_examples=30)
@given(
    pool=st.permutations(BUILT_INS),
    size=st.integers(1, len(BUILT_INS)),
    moments=st.lists(st.sampled_from(SAMPLES), max_size=12),
)
def test_a_stack_of_them_answers_alike_in_every_order(pool, size, moments):
    """Registered in any order, a stack of built-ins comes to the same outcomes, and none of them fails."""
    chosen = pool[:size]
    stack, states = load_stack([entry(plugin) for plugin in chosen])
    other, other_states = load_stack(
        [entry(plugin) for plugin in sorted(chosen, key=lambda plugin: plugin.__name__)]
    )
    for event in moments:
        outcome, twin = run_hook(stack, event, states, CTX), run_hook(other, event, other_states, CTX)
        assert outcome == twin
        assert not [published for published in outcome.events if type(published).__name__ == "PluginFailed"]
        states, other_states = outcome.states, twin.states
    assert {type(event) for event in SAMPLES} == set(HOOKS)
