"""`check_store` passes for our stores, and names the rule that a broken one breaks."""

import pytest

from agentrail.errors import AgentrailError
from agentrail.stores.memory import MemoryStore
from agentrail.testing.check_store import STORE_RULES, check_store, store_rule_name
from agentrail.testing.store_rules.ownership import a_repeated_append_of_an_old_owner_is_refused
from tests.stores.rig import Clock
from tests.testing.broken_stores import BROKEN, ForgivesOpenings


@pytest.mark.parametrize("rule", STORE_RULES, ids=store_rule_name)
def test_memory_keeps_to_the_port(rule):
    """`MemoryStore`, under every rule; closed, it keeps what it has."""
    clock = Clock()

    def move():
        clock.now += 15_001

    check_store(lambda: MemoryStore(now_ms=clock), pass_lease=move, reopen=lambda store: store, rules=[rule])


def test_each_rule_has_a_store_that_breaks_it():
    """A rule that no broken store fails says nothing."""
    assert set(BROKEN) == set(STORE_RULES)


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        pytest.param(rule, one, id=f"{rule.__name__}-{one.__name__}")
        for rule, stores in BROKEN.items()
        for one in stores
    ],
)
def test_a_broken_store_is_noticed(rule, broken):
    """By the very rule that it breaks, and the rule is named."""
    clock = Clock()

    def move():
        clock.now += 15_001

    with pytest.raises((AssertionError, AgentrailError)) as caught:
        check_store(
            lambda: broken(now_ms=clock),
            pass_lease=move,
            reopen=lambda store: store.reopened() if hasattr(store, "reopened") else store,
            rules=[rule],
        )
    sentence = " ".join(rule.__doc__.split())
    assert sentence in "\n".join((str(caught.value), *getattr(caught.value, "__notes__", ())))


def test_the_message_says_what_came_instead():
    """With the store and the rule."""
    expected = r"MemoryStore\(sessions=1\) breaks a rule: .*the opening again: expected Fenced, got None"
    with pytest.raises(AssertionError, match=expected):
        check_store(
            ForgivesOpenings, pass_lease=lambda: None, rules=[a_repeated_append_of_an_old_owner_is_refused]
        )
