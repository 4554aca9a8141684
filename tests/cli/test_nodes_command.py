"""`agentrail nodes`: what is shown is what the rows of the store say, and changes are refused with the living nodes."""

import pytest

from agentrail.abc.store import Node
from agentrail.cli.nodes_command import decide_state, listed_nodes, living_node
from agentrail.cli.serve_options import ServeOptions, node_options
from agentrail.errors import OptionError
from agentrail.runtime.node_heartbeat import fault_of_address

LEASE_MS = 15_000


def node(name, *, seen_at_ms=100_000, **given):
    return Node(id=name, lease_ms=LEASE_MS, seen_at_ms=seen_at_ms, **given)


@pytest.mark.machine(23)
def test_a_killed_node_is_shown_as_late_within_six_seconds_and_as_dead_after_its_lease():
    """A killed node is shown as late within six seconds and as dead after its lease."""
    killed = node("n-1")
    assert decide_state(killed, 104_000) == "alive"
    assert decide_state(killed, 106_001) == "late"
    assert decide_state(killed, 115_001) == "dead"


@pytest.mark.machine(23)
def test_a_stopped_node_is_shown_as_gone_at_once():
    """A stopped node is shown as gone at once."""
    assert decide_state(node("n-1", gone_at_ms=100_500), 100_501) == "gone"


def test_nodes_are_listed_last_seen_first():
    """Nodes are listed last seen first."""
    shown = listed_nodes([node("n-1"), node("n-2", seen_at_ms=101_000)], 102_000)
    assert [(one.id, one.seen_ago_ms) for one in shown] == [("n-2", 1_000), ("n-1", 2_000)]


def test_a_node_that_is_not_alive_is_refused_with_the_living_ones():
    """A node that is not alive is refused with the living ones."""
    nodes = [node("n-1"), node("n-2", gone_at_ms=1)]
    assert living_node(nodes, "n-1", 101_000).id == "n-1"
    for wanted in ("n-2", "n-3"):
        with pytest.raises(OptionError, match="not a living node: expected one of n-1"):
            living_node(nodes, wanted, 101_000)


URL = "postgres://agentrail@db/agentrail"


def test_a_served_node_of_a_shared_store_has_an_address():
    """A served node of a shared store has an address."""
    served = ServeOptions(store=URL, port=8701, lease=3.0)
    assert node_options(served, {}) == {"store": URL, "lease": 3.0, "advertise": "http://127.0.0.1:8701"}
    assert node_options(ServeOptions(), {"store": URL, "advertise": "http://10.0.0.7:8700"}) == {}
    assert node_options(ServeOptions(), {"store": "sqlite:"}) == {}
    with pytest.raises(OptionError, match="--advertise is missing"):
        node_options(ServeOptions(store=URL, port=0), {})


def test_a_loopback_address_is_refused_while_nodes_of_other_machines_live():
    """A loopback address is refused while nodes of other machines live."""
    own, far = node("n-1", address="http://127.0.0.1:8700"), node("n-2", address="http://10.0.0.7:8700")
    assert "node n-2 at http://10.0.0.7:8700" in (fault_of_address(own, [own, far], 101_000) or "")
    assert fault_of_address(own, [node("n-3", address="http://127.0.0.1:8701")], 101_000) is None
    assert fault_of_address(own, [far], 116_000) is None
