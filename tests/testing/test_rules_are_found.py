"""Rules of conformance suites are found by their form, so a function of another form would be left out without a word."""

import inspect
from types import FunctionType

import pytest

from agentrail.testing import (
    check_knowledge,
    check_memory,
    check_notes,
    check_sandbox,
    check_store,
    plugin_promises,
    promises,
)
from agentrail.testing.promises import callers, conversation, effect_promises, state_promises
from agentrail.testing.rule_failures import rules_on
from agentrail.testing.store_rules import claims, durability, journal_rules, ownership, queries

SUITES = {
    "knowledge": (check_knowledge.KNOWLEDGE_RULES, 17, [check_knowledge]),
    "memory": (check_memory.MEMORY_RULES, 19, [check_memory]),
    "notes": (check_notes.NOTE_RULES, 7, [check_notes]),
    "sandbox": (check_sandbox.SANDBOX_RULES, 23, [check_sandbox]),
    "store": (check_store.STORE_RULES, 73, [journal_rules, ownership, claims, queries, durability]),
    "plugin": (plugin_promises.PLUGIN_PROMISES, 12, [plugin_promises]),
    "session": (promises.PROMISES, 40, [state_promises, conversation, effect_promises, callers]),
}


@pytest.mark.parametrize("suite", SUITES)
def test_every_public_function_with_one_argument_is_a_rule(suite):
    """Also one whose argument has another annotation, or none. The number is what it was when the rules were listed by name."""
    found, at_least, modules = SUITES[suite]
    assert len(found) >= at_least
    alike = {
        function
        for module in modules
        for name, function in vars(module).items()
        if isinstance(function, FunctionType) and function.__module__ == module.__name__
        if len(inspect.signature(function).parameters) == 1
        if name[0] != "_" and not name.endswith("_rule_name") and name != "check_sandbox"
    }
    assert alike == set(found)


def test_rules_are_the_public_functions_of_the_module_itself():
    """In the order of the file; not what it imports, and not helpers."""
    (module,) = SUITES["notes"][2]
    assert rules_on(object, module) == ()
    names = [one.__name__ for one in rules_on(check_notes.NoteStore, module)]
    assert names == sorted(names, key=lambda name: getattr(module, name).__code__.co_firstlineno)
