"""Decisions of a look for dead nodes: how long a node waits for others, and why a tree changes its owner."""

from agentrail.abc.store import Node
from agentrail.runtime.orphans import cause_of, decide_looks_to_wait
from agentrail.stores.memory import MemoryStore
from tests.stores.rig import opening


def test_a_node_above_the_median_load_or_of_another_version_waits():
    """A node above the median load or of another version waits."""
    own = Node(id="own", load=10, version="2")
    idle = [Node(id="a", load=1), Node(id="b", load=2)]
    assert decide_looks_to_wait(own, [own, *idle], [Node(id="dead", version="2")]) == 1
    assert decide_looks_to_wait(own, [own, *idle], [Node(id="dead", version="1")]) == 2
    assert decide_looks_to_wait(idle[0], [own, *idle], [Node(id="dead", version="")]) == 0


def test_the_cause_is_the_state_of_the_old_owner():
    """The cause is the state of the old owner."""
    store = MemoryStore()
    store.create(opening("s", node="dead"))
    row = store.get("", "s")
    silent = frozenset({"dead"})
    assert cause_of(row, [Node(id="dead", gone_at_ms=5)], silent) == "gone"
    assert cause_of(row, [], {}) == "gone"
    assert cause_of(row, [Node(id="dead")], silent) == "lease_over"
    assert cause_of(row, [Node(id="dead")], {}) == "gone"  # since the nodes were read
    store.release("dead", "", "s")
    assert cause_of(store.get("", "s"), [], silent) == "drain"
