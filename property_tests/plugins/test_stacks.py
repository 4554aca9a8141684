"""Stacks of plugins through the stack machine: drawn ones that do anything, and all that are built in (5.9)."""

import inspect
import itertools
import pkgutil
import random
from importlib import import_module
from typing import Any

import pytest
from hypothesis import settings, strategies as st

import agentrail.plugins
from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.testing import stacks, strategies
from agentrail.testing.checked_run import Setup
from agentrail.testing.plugins import PUPPET_ACTIONS
from agentrail.testing.session_machine import SessionMachine
from tests.core.worlds import TOOLS
from tests.thinned import IS_NIGHTLY

LARGER_STACKS = 200 if IS_NIGHTLY else 50
LIVES_OF_JUDGES = 60 if IS_NIGHTLY else 20

# A guard that says Skip lets calls past the guards behind it: that is what it says, and the promise would say so too.
APART = frozenset({"plugins_do_not_fail", "actions_are_taken", "only_the_user_approves"})
"""What is promised of plugins and not of sessions: these here answer anything, in the user's place too."""

HARMLESS = tuple(sorted(PUPPET_ACTIONS - {"skip", "raise"}))


class AnyStack(SessionMachine):
    """Plugins that answer anything anywhere, and fail: sessions keep their promises all the same."""

    setups = st.builds(
        Setup,
        entries=strategies.stacks(),
        tools=st.just(TOOLS),
        without=st.just(APART | {"no_call_gets_past_a_guard"}),
    )


class AnyGuards(SessionMachine):
    """Plugins that answer anything but Skip: no order of them lets a call past one that refuses it."""

    setups = st.builds(
        Setup,
        entries=strategies.stacks(actions=HARMLESS),
        tools=st.just(TOOLS),
        without=st.just(APART),
    )


TestAnyStack = AnyStack.TestCase
TestAnyGuards = AnyGuards.TestCase
# Not in a loop: its variable would be a third test, which is one of these again.
TestAnyStack.settings = TestAnyGuards.settings = settings(report_multiple_bugs=False, stateful_step_count=30)


def built_in() -> list[type[p.Plugin[Any]]]:
    """Every plugin class that a module of the room defines."""
    found = []
    for module in pkgutil.iter_modules(agentrail.plugins.__path__, "agentrail.plugins."):
        for thing in vars(import_module(module.name)).values():
            is_plugin = inspect.isclass(thing) and issubclass(thing, p.Plugin)
            if is_plugin and thing.__module__ == module.name and not inspect.isabstract(thing):
                found.append(thing)
    return [one for one in found if one is not p.FunctionPlugin]


BUILT_IN = built_in()
NEEDED: dict[str, dict[str, Any]] = {"CostGuard": {"max_cost_usd": 1.0}}
"""Options that a plugin cannot do without."""


def entry_of(plugin: type[p.Plugin[Any]]) -> PluginEntry:
    """A built-in plugin, with what it needs."""
    return plugin, NEEDED.get(plugin.__name__, {})


PAIRS = [
    (one, other)
    for (place, one), (behind, other) in itertools.combinations(enumerate(BUILT_IN), 2)
    if IS_NIGHTLY or (place + behind) % 3 == 0
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "-".join(one.__name__ for one in pair))
def test_every_pair_of_built_in_plugins_holds(pair):
    """Two built-in plugins keep every promise together, in a few sessions for each pair; CI runs one pair in three."""
    machine = stacks.stack_machine([entry_of(one) for one in pair])
    tally = stacks.check_stack(machine, examples=2, seed=0, max_signals=15, tours=False)
    assert tally.found is None, str(tally.found)


JUDGES: tuple[PluginEntry, ...] = (
    (p.HumanApproval, {"confirm_prefix": "!"}),
    (p.ContentPolicy, {"rubric": "Be kind.", "judge_model": "demo:judge", "fail_open": False}),
    (p.Reflection, {"reviewer_model": "demo:judge"}),
)


@pytest.mark.parametrize("seed", range(4))
def test_stacks_whose_hooks_wait_hold(seed):
    """Prompts and answers are judged by models, beside calls that wait for people: every promise is kept meanwhile."""
    machine = stacks.stack_machine(JUDGES)
    tally = stacks.check_stack(machine, examples=LIVES_OF_JUDGES, seed=seed, max_signals=30, tours=False)
    assert tally.found is None, str(tally.found)


@pytest.mark.at(161)
@pytest.mark.parametrize("number", range(LARGER_STACKS))
def test_larger_stacks_of_built_in_plugins_hold(number):
    """Three or more of them together, in any order, keep every promise; each stack has a number, and comes again."""
    drawn = random.Random(number)  # noqa: S311 - to be drawn again, not to be secret
    members = drawn.sample(BUILT_IN, drawn.randint(3, len(BUILT_IN)))
    machine = stacks.stack_machine([entry_of(one) for one in members])
    tally = stacks.check_stack(machine, examples=1, seed=number, max_signals=15, tours=False)
    assert tally.found is None, str(tally.found)
