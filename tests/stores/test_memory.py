"""`MemoryStore`: what it does beyond the port, and what of the port only a clock that is moved by hand shows."""

import msgspec
import pytest

from agentrail.abc.store import Filters, Node, Standing
from agentrail.errors import AlreadyExists, Fenced, HeldBy, OptionError, SessionNotFound, StillNeeded, Trimmed
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


def test_an_opening_is_taken_once(store):
    """The same again is fine; another one, or the same of another node, is none."""
    store.create(opening(more=["a"]))
    store.create(opening(more=["a"]))
    for other in (
        opening(more=["b"]),
        opening(more=["a", "b"]),
        opening(more=["a"], node="n2"),
        opening(parent="p"),
    ):
        with pytest.raises(AlreadyExists, match="resume_session"):
            store.create(other)
    assert store.get("", "s").tail.seq == 2


def test_a_clock_that_goes_back_makes_nothing_older_than_now(store, clock):
    """An age is never negative."""
    store.create(opening())
    store.beat(Node(id="n1"))
    clock.now -= 5_000
    with pytest.raises(HeldBy, match=r"seen 0\.0 s ago"):
        store.take("", "s", "n2", "lease_over")


def test_an_ended_root_is_taken_as_it_stands(store):
    """Nothing is written behind its end; what lives below it is taken."""
    store.create(opening("r", standing=Standing(has_ended=True)))
    store.create(opening("a", root="r", parent="r"))
    root, child = store.take("", "r", "n2", "gone").sessions
    assert (root.tail.epoch, root.tail.seq, root.node) == (1, 1, "n2")
    assert (child.tail.epoch, child.tail.seq, child.node) == (2, 2, "n2")


def test_an_old_owner_begins_nothing_below_a_tree_that_lives_on_elsewhere(store):
    """A new journal has no epoch that could be old, so the owner of its tree is looked at."""
    store.create(opening("r"))
    store.create(opening("a", root="r", parent="r"))
    store.take("", "r", "n2", "gone")
    for _ in range(2):
        with pytest.raises(Fenced, match="session 'b'"):
            store.create(opening("b", root="r", parent="r"))
        store.release("n2", "", "r")
    with pytest.raises(Fenced, match="session 'a'"):
        store.create(opening("a", root="r", parent="r"))
    with pytest.raises(SessionNotFound):
        store.create(opening("c", root="q", parent="q"))
    assert [one.session for one in store.find()] == ["a", "r"]


def test_bytes_that_a_deletion_frees_are_counted(store):
    """Records, and blobs that no other session has."""
    store.create(opening("a", blobs={"x": b"12345", "y": b"123"}))
    store.create(opening("b", blobs={"y": b"123"}))
    store.release("n1", "", "a")
    assert store.delete("", "a") == len(b"{}") + 5
    assert (store.blob("x"), store.blob("y")) == (None, b"123")
    store.release("n1", "", "b")
    store.delete("", "b")
    assert store.blob("y") is None
    assert store.find() == ()
    assert store.nodes() == ()


def test_a_fork_that_is_gone_needs_nothing(store):
    """What it was forked from can be deleted then."""
    store.create(opening("a"))
    store.create(opening("f", forked_from=("a", 1)))
    with pytest.raises(StillNeeded, match="needed by f"):
        store.delete("", "a")
    store.delete("", "f")
    store.delete("", "a")
    assert repr(store) == "MemoryStore(sessions=0)"


def test_what_was_trimmed_is_said_and_counts_as_repeated(store):
    """A repeated append of dropped records is fine; reading them is not."""
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
    with pytest.raises(OptionError, match="no sound snapshot"):
        store.trim("", "s", 3)
    store.put_snapshot(msgspec.structs.replace(snapshot_of(one.records[-1]), **broken))
    with pytest.raises(OptionError, match="no sound snapshot"):
        store.trim("", "s", 3)
    assert len(store.read("", "s")) == 4


def test_a_fork_keeps_what_it_stands_on(store):
    """Records before it are not dropped; another session's are."""
    store.create(opening("a", more=["1", "2"]))
    store.create(opening("f", forked_from=("a", 1)))
    store.put_snapshot(snapshot_of(store.read("", "a")[-1]))
    with pytest.raises(StillNeeded, match="needed by f"):
        store.trim("", "a", 2)


def test_sessions_are_found_by_whatever_they_are_looked_for_by(store, clock):
    """Each filter alone, together, and from behind a place."""
    store.create(opening("a", standing=Standing(is_working=True)))
    store.create(opening("b", root="a", parent="a", standing=Standing(has_ended=True)))
    clock.now += 10
    store.create(opening("c", scope="x", node="n2"))
    store.release("n2", "x", "c")

    def found(after=None, limit=100, **filters):
        return "".join(one.session for one in store.find(Filters(**filters), after=after, limit=limit))

    assert (found(), found(limit=2), found(limit=0), found(after=("", "a")), found(after=("x", "c"))) == (
        *("abc", "ab", "", "bc", ""),
    )
    assert (found(scope=""), found(scope="x"), found(scope="y"), found(scope="", after=("", "a"))) == (
        *("ab", "c", "", "b"),
    )
    assert (
        found(root="a"),
        found(scope="", root="a", after=("", "a")),
        found(node=""),
        found(node="n1"),
    ) == (*("ab", "b", "c", "ab"),)
    assert (
        found(is_working=True),
        found(is_working=False),
        found(has_ended=True),
        found(has_ended=False),
    ) == (*("a", "bc", "b", "ac"),)
    assert (
        found(only_roots=True),
        found(written_before_ms=clock.now),
        found(root="a", is_working=False),
    ) == (*("ac", "ab", "b"),)
