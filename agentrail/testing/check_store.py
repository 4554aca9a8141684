"""`check_store`: tests the rules of every session store through the port alone, for our stores and yours.

    def test_mine(tmp_path):
        numbers = itertools.count()
        clock = Clock()
        check_store(
            lambda: MyStore(tmp_path / f"{next(numbers)}.db", now_ms=clock, lease_ms=1_000),
            pass_lease=lambda: clock.move(1_001),
            reopen=lambda store: reopened(store),
        )

or one rule at a time, for a report with a line for each:

    @pytest.mark.parametrize("rule", STORE_RULES, ids=store_rule_name)
    def test_mine(rule):
        check_store(MyStore, pass_lease=wait, rules=[rule])
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final, TypeAlias

from agentrail.abc.store import Store
from agentrail.testing.rule_failures import rules_on, under_rule
from agentrail.testing.store_rules import (
    claims,
    durability,
    journal_rules,
    ownership,
    queries,
)
from agentrail.testing.store_rules.trial import LOCAL_CUT, OpenCut, StoreTrial

StoreRule: TypeAlias = Callable[[StoreTrial], None]

STORE_RULES: Final[tuple[StoreRule, ...]] = rules_on(
    StoreTrial, journal_rules, ownership, claims, queries, durability
)
"""The rules, each tested on its own store."""


def store_rule_name(rule: StoreRule) -> str:
    """Return the name of a rule, for a report."""
    return rule.__name__


def check_store(
    make: Callable[[], Store],
    *,
    pass_lease: Callable[[], None],
    reopen: Callable[[Store], Store] | None = None,
    cut: OpenCut = LOCAL_CUT,
    rules: Sequence[StoreRule] = STORE_RULES,
) -> None:
    """Test a store against the port.

    Args:
        make: Returns a new, empty store on each call, several at the same time. It is closed here.
        pass_lease: Lets the leases of all stores expire, plus some milliseconds: advances their clock, or waits.
        reopen: Closes a store and opens its stored data again. It is closed here. None if it stores nothing.
        cut: Wraps a store so that its connection can be cut on request: for a store on a network, a real connection. By
            default, calls and answers are lost within this process.
        rules: The rules to test.

    Raises:
        AssertionError: A rule is broken. The message contains the rule and the result. Other errors of a store propagate, with
            the rule as a note.
    """
    for rule in rules:
        with ExitStack() as opened:

            def make_closed(opened: ExitStack = opened) -> Store:
                store = make()
                opened.callback(store.close)
                return store

            store = make_closed()
            trial = StoreTrial(store, make_closed, pass_lease, reopen, cut)
            with under_rule(rule, store):
                rule(trial)
