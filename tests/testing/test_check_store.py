"""`check_store` passes for our stores, and names the rule that a broken one breaks."""

import pytest

from agentrail.stores.memory import MemoryStore
from agentrail.testing.check_store import STORE_RULES, check_store, store_rule_name
from tests.stores.rig import Clock


@pytest.mark.parametrize("rule", STORE_RULES, ids=store_rule_name)
def test_memory_keeps_to_the_port(rule):
    """`MemoryStore`, under every rule; closed, it keeps what it has."""
    clock = Clock()

    def move():
        clock.now += 15_001

    check_store(lambda: MemoryStore(now_ms=clock), pass_lease=move, reopen=lambda store: store, rules=[rule])
