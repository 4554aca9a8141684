"""Stacks of plugins under any order of signals: what is found, how short it is, and what it looks like."""

import pytest

from agentrail.testing import stacks
from agentrail.testing.scenario import play, read_scenario
from tests.testing import planted

EXAMPLES = 400


@pytest.mark.parametrize("bug", planted.BUGS)
def test_a_planted_bug_is_found_and_told_in_six_signals(bug):
    """Each bug is found within a few hundred sessions, by the promise that it breaks, with six signals at most."""
    stack, rule, words = planted.BUGS[bug]
    machine = stack if isinstance(stack, type) else stacks.stack_machine(stack)
    found = stacks.check_stack(machine, examples=EXAMPLES, seed=1).found
    assert found is not None
    assert found.rule == rule
    assert words in found.why
    assert len(found.signals) <= 6, str(found)


def test_a_counter_example_is_a_scenario_that_can_be_read_back():
    """What is printed plays again, with the same plugins, to the same text."""
    machine = stacks.stack_machine(planted.APPROVAL_SKIPPED)
    found = stacks.check_stack(machine, examples=EXAMPLES, seed=1).found
    assert found is not None
    assert "plugin tests.testing.planted:Deployer" in found.scenario
    assert play(read_scenario(found.scenario)) == found.scenario
    origin = ("tests.testing.planted:APPROVAL_SKIPPED", planted.APPROVAL_SKIPPED)
    by_list = stacks.stack_machine(planted.APPROVAL_SKIPPED, origin=origin)
    again = stacks.check_stack(by_list, examples=EXAMPLES, seed=1).found
    assert again is not None
    assert "plugin tests.testing.planted:APPROVAL_SKIPPED[1]" in again.scenario
    assert play(read_scenario(again.scenario)) == again.scenario
