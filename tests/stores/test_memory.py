"""`MemoryStore`: what it does beyond the port, and what of the port only a clock that is moved by hand shows."""

import msgspec
import pytest

from agentrail.abc.store import Node
from agentrail.errors import AlreadyExists, HeldBy, OptionError, Trimmed
from agentrail.stores.append_rules import FORGET_NODE_MS
from agentrail.stores.memory import MemoryStore
from tests.stores.rig import Clock, following, opening, snapshot_of


@pytest.fixture
def clock():
    """The clock of the store, which stands still."""
    return Clock()


@pytest.fixture
def store(clock):
    """A store without journals, with a lease of 15 s."""
    return MemoryStore(now_ms=clock)


def test_a_clock_that_goes_back_makes_nothing_older_than_now(store, clock):
    """An age is never negative."""
    store.create(opening())
    store.beat(Node(id="n1"))
    clock.now -= 5_000
    with pytest.raises(HeldBy, match=r"seen 0\.0 s ago"):
        store.take("", "s", "n2", "lease_over")
    assert repr(store) == "MemoryStore(sessions=1)"


def test_a_clock_that_goes_back_takes_no_allowance_away(store, clock):
    """A used-up burst comes back in its usual time, and not only when the clock has caught up."""
    for _ in range(2):
        drawn = [store.take_allowance("ann", 1_000, 3_000).is_allowed for _ in range(4)]
        assert drawn == [True, True, True, False]
        clock.now -= 1_800_000
        assert not store.take_allowance("ann", 1_000, 3_000).is_allowed
        clock.now += 3_001


def test_a_clock_that_goes_forward_makes_no_living_node_unknown(store, clock):
    """A node without sessions has sent its heartbeat before the step. It takes one, and another node must not take that. A node without heartbeats is forgotten."""
    store.create(opening(node=""))
    for name in ("n1", "n2", "gone"):
        store.beat(Node(id=name))
    first, clock.now = clock.now, clock.now + FORGET_NODE_MS
    store.beat(Node(id="n1"))
    store.take("", "s", "n2", "start")
    with pytest.raises(HeldBy):
        store.take("", "s", "n1", "lease_over", silent={})
    assert store.beat(Node(id="n2")).before_ms == first
    store.beat(Node(id="n1"))
    assert store.beat(Node(id="gone")).before_ms == 0


def test_what_was_trimmed_is_said_and_counts_as_repeated(store):
    """A repeated append of dropped records is fine; reading them is not, and neither is an opening."""
    begun = opening()
    store.create(begun)
    one, tail = following(store.get("", "s").tail, "a", "b", "c")
    store.append([one])
    store.put_snapshot(snapshot_of(one.records[-1]))
    assert (store.trim("", "s", 3), store.trim("", "s", 3), store.trim("", "s", 1)) == (2, 0, 0)
    with pytest.raises(Trimmed) as caught:
        store.read("", "s")
    assert caught.value.first == 3
    assert store.read("", "s", 2) == one.records[1:]
    two, tail = following(tail, "d")
    assert store.append([one, two]) == (None, None)
    with pytest.raises(AlreadyExists):
        store.create(begun)
    assert (store.get("", "s").first_seq, store.get("", "s").tail) == (3, tail)


@pytest.mark.parametrize(
    "broken", [{"state": b"statf"}, {"hash": b"0" * 16}, {"seq": 3}, {"seq": 9}, {"check": b""}], ids=str
)
def test_nothing_is_trimmed_before_a_damaged_snapshot(store, broken):
    """It is no cache of this journal, so the records are all there is."""
    store.create(opening())
    one, _ = following(store.get("", "s").tail, "a", "b", "c")
    store.append([one])
    with pytest.raises(OptionError, match="ends at 4"):
        store.trim("", "s", 5)
    with pytest.raises(OptionError, match="no intact snapshot"):
        store.trim("", "s", 3)
    store.put_snapshot(msgspec.structs.replace(snapshot_of(one.records[-1]), **broken))
    with pytest.raises(OptionError, match="no intact snapshot"):
        store.trim("", "s", 3)
    assert len(store.read("", "s")) == 4
