"""`check_store` passes for our stores, and names the rule that a broken one breaks."""

import pytest

from agentrail.errors import AgentrailError
from agentrail.stores.memory import MemoryStore
from agentrail.testing.check_store import STORE_RULES, check_store, store_rule_name
from agentrail.testing.store_rules.ownership import a_repeated_append_of_an_old_owner_is_refused
from tests.stores.rig import Clock
from tests.testing.broken_stores import BROKEN, ForgivesOpenings
from tests.thinned import each


def check(make, rule):
    """Hold a store to a rule; closed, it keeps what it has."""
    clock = Clock()

    def move():
        clock.now += 15_001

    reopen = lambda store: store.reopened() if hasattr(store, "reopened") else store  # noqa: E731 - an argument
    check_store(lambda: make(now_ms=clock), pass_lease=move, reopen=reopen, rules=[rule])


@each("rule", STORE_RULES, label=store_rule_name)
def test_memory_keeps_to_the_port(rule):
    """`MemoryStore`, under every rule, each of which some broken store fails."""
    check(MemoryStore, rule)
    assert BROKEN[rule]


@each(
    ("rule", "broken"),
    [(rule, one) for rule, stores in BROKEN.items() for one in stores],
    label=lambda row: f"{store_rule_name(row[0])}-{BROKEN[row[0]].index(row[1])}",
)
def test_a_broken_store_is_noticed(rule, broken):
    """By the very rule that it breaks, and the rule is named."""
    with pytest.raises((AssertionError, AgentrailError)) as caught:
        check(broken, rule)
    sentence = " ".join(rule.__doc__.split())
    assert sentence in "\n".join((str(caught.value), *getattr(caught.value, "__notes__", ())))


def test_the_message_says_what_came_instead():
    """With the store and the rule."""
    expected = r"MemoryStore\(sessions=1\) breaks a rule: .*the opening again: expected Fenced, got None"
    with pytest.raises(AssertionError, match=expected):
        check_store(
            ForgivesOpenings, pass_lease=lambda: None, rules=[a_repeated_append_of_an_old_owner_is_refused]
        )
