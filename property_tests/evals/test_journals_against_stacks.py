"""Any recorded life is the same beside its own stack; beside one with a guard, exactly what a life with that guard blocks is named."""

from typing import Any

import pytest
from hypothesis import event, given, strategies as st

from agentrail.core.protocol.effects import Publish
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.evals.journals import OtherStack, StackComparison
from agentrail.events import ToolBlocked
from agentrail.testing import strategies
from agentrail.testing.checked_run import Run, Setup
from agentrail.testing.plugins import PuppetPlugin, read_rule
from property_tests.core.test_journals_fold import CONFIGS
from tests.core.journal.recorded import Life
from tests.core.worlds import WITH_CLIENT as TOOLS

GUARD = PuppetPlugin((read_rule("BeforeTool.read", "block:no"),), name="the guard", priority=5)


def begun(config: Any, *plugins: PluginEntry) -> Life:
    return Life.begun(Run(Setup(tools=TOOLS, config=config, entries=plugins)).state)


def compared(life: Life, other: OtherStack) -> StackComparison:
    found = StackComparison(life.records, life.sources(), other)
    for _ in found.steps():
        pass
    return found


@pytest.mark.operation(18)
@given(data=st.data(), plugins=strategies.stacks(max_size=3), chosen=CONFIGS)
def test_a_life_is_the_same_beside_its_own_stack(data, plugins, chosen):
    """Kept, given again, and with a limit of its own given again: each way steps other parts of it twice."""
    life = begun(chosen, *plugins)
    life.live_all(data.draw(strategies.scripts(life.start)))
    life.write(life.recorder.flush())
    for other in (
        OtherStack(),
        OtherStack(plugins=lambda recorded: recorded),
        OtherStack(config={"max_turns": chosen.max_turns}),
    ):
        found = compared(life, other)
        assert (found.first, found.what, found.fault, found.at) == (None, "", "", len(life.records))


@pytest.mark.operation(18)
@given(data=st.data(), plugins=strategies.stacks(max_size=2), chosen=CONFIGS)
def test_a_guard_blocks_exactly_what_is_named(data, plugins, chosen):
    """The same signals are lived with the guard, up to the first call that it blocks: from there on the lives are two."""
    life = begun(chosen, *plugins)
    life.live_all(data.draw(strategies.scripts(life.start, names=("read", "deploy"))))
    life.write(life.recorder.flush())
    found = compared(life, OtherStack(plugins=lambda recorded: [*recorded, GUARD]))
    named = [one.call_id for one in found.calls if one.by == GUARD.name and one.change == "blocked"]

    guarded, blocked = begun(chosen, *plugins, GUARD), []
    for signal, _ in life.steps:
        events = [one.event for one in guarded.live(signal) if isinstance(one, Publish)]
        blocked = [one.call_id for one in events if isinstance(one, ToolBlocked) and one.by == GUARD.name]
        if blocked:
            break
    event("blocks" if blocked else "blocks nothing")
    assert named[: len(blocked)] == blocked
    assert (found.first is None) == (not blocked)
