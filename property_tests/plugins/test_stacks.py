"""Stacks of plugins through the stack machine: drawn ones that do anything, and all that are built in (5.9)."""

import inspect
import pkgutil
from importlib import import_module

from hypothesis import settings, strategies as st

import agentrail.plugins
from agentrail import plugins as p
from agentrail.testing import strategies
from agentrail.testing.lives import Scene
from agentrail.testing.plugins import ACTIONS
from agentrail.testing.session_machine import SessionMachine
from tests.core.worlds import TOOLS

LARGER_STACKS = 200

# A guard that says Skip lets calls past the guards behind it: that is what it says, and the promise would say so too.
HARMLESS = tuple(sorted(ACTIONS - {"skip", "raise"}))


class AnyStack(SessionMachine):
    """Plugins that answer anything anywhere, and fail: sessions keep their promises all the same."""

    scenes = st.builds(
        Scene,
        entries=strategies.stacks(),
        tools=st.just(TOOLS),
        without=st.just(frozenset({"plugins_do_not_fail", "actions_are_taken", "no_call_gets_past_a_judge"})),
    )


class AnyGuards(SessionMachine):
    """Plugins that answer anything but Skip: no order of them lets a call past one that refuses it."""

    scenes = st.builds(
        Scene,
        entries=strategies.stacks(actions=HARMLESS),
        tools=st.just(TOOLS),
        without=st.just(frozenset({"plugins_do_not_fail", "actions_are_taken"})),
    )


TestAnyStack = AnyStack.TestCase
TestAnyGuards = AnyGuards.TestCase
for case in (TestAnyStack, TestAnyGuards):
    case.settings = settings(report_multiple_bugs=False, stateful_step_count=30)


def built_in() -> list[type[p.Plugin]]:
    """Every plugin class that a module of the room defines."""
    found = []
    for module in pkgutil.iter_modules(agentrail.plugins.__path__, "agentrail.plugins."):
        for thing in vars(import_module(module.name)).values():
            is_plugin = inspect.isclass(thing) and issubclass(thing, p.Plugin)
            if is_plugin and thing.__module__ == module.name and not inspect.isabstract(thing):
                found.append(thing)
    return [one for one in found if one is not p.FunctionPlugin]
