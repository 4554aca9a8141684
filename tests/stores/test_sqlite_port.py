"""`SqliteStore` keeps to the port, under every rule that there is for stores."""

import itertools

import pytest

from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.check_store import STORE_RULES, check_store, store_rule_name
from tests.stores.disk import Disk
from tests.stores.rig import Clock


@pytest.mark.parametrize("rule", STORE_RULES, ids=store_rule_name)
def test_sqlite_keeps_to_the_port(rule, tmp_path):
    """Opened again it has all that it had."""
    clock, numbers, disk = Clock(), itertools.count(), Disk(is_quick=True)

    def open_at(path):
        return SqliteStore(path, wall=lambda: clock() / 1000, vfs=disk.name)

    def move():
        clock.now += 15_001

    def reopen(store):
        store.close()
        return open_at(store.path)

    check_store(
        lambda: open_at(tmp_path / f"{next(numbers)}.db"), pass_lease=move, reopen=reopen, rules=[rule]
    )
