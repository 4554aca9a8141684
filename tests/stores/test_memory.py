"""`MemoryStore`: what it does beyond the port, and what of the port only a clock that is moved by hand shows."""

import threading

import msgspec
import pytest

from agentrail import outside
from agentrail.abc.store import Filters, Node, Standing
from agentrail.core.journal.record import first_broken
from agentrail.errors import AlreadyExists, Fenced, HeldBy, OptionError, SessionNotFound, StillNeeded, Trimmed
from agentrail.stores.memory import MemoryStore
from agentrail.testing.seeded import SeededMachine
from tests.stores.rig import Clock, following, opening, snapshot_of


@pytest.fixture
def clock():
    """The clock of the store, which stands still."""
    return Clock()


@pytest.fixture
def store(clock):
    """A store without journals, with a lease of 15 s."""
    return MemoryStore(now_ms=clock)


def test_a_journal_is_read_as_it_was_written(store):
    """The records themselves, in order, in pages."""
    begun = opening(more=["a"])
    store.create(begun)
    one, tail = following(store.get("", "s").tail, "b", "c", events=7)
    assert store.append([one]) == (None,)
    records = store.read("", "s")
    assert records == (*begun.records, *one.records)
    assert first_broken(records) is None
    assert (store.read("", "s", 1, 2), store.read("", "s", 4), store.read("", "s", 9)) == (
        records[1:3],
        (),
        (),
    )
    found = store.get("", "s")
    assert (found.tail, found.events, found.first_seq, found.node) == (tail, 7, 1, "n1")


def test_no_writer_is_needed(store):
    """It says so."""
    assert store.is_immediate


def test_it_reads_the_clock_of_the_machine_unless_it_is_given_one():
    """Through the door that a simulation closes."""
    with outside.installed(SeededMachine(7)):
        assert MemoryStore().now_ms() == int(outside.wall() * 1000)
    assert MemoryStore(now_ms=lambda: 5).now_ms() == 5


def test_a_second_record_of_an_old_owner_is_refused_too(store, clock):
    """The one before it is of another epoch, though its number is free."""
    store.create(opening())
    old = store.get("", "s").tail
    first, then = following(old, "a")
    second, _ = following(then, "b")
    store.take("", "s", "n2", "gone", force=True)
    for fenced in (*store.append([first]), *store.append([second]), *store.append([first, second])):
        assert isinstance(fenced, Fenced)
        assert fenced.durable_up_to == 1
    assert [record.kind for record in store.read("", "s")] == ["opened", "taken"]


def test_a_repeated_append_of_an_old_owner_is_refused(store):
    """Though it is durable: told that all is well it would begin to work."""
    store.create(opening())
    one, _ = following(store.get("", "s").tail, "a")
    assert store.append([one]) == (None,)
    assert store.append([one]) == (None,)
    store.take("", "s", "n2", "gone")
    (fenced,) = store.append([one])
    assert isinstance(fenced, Fenced)
    assert fenced.durable_up_to == 2
    with pytest.raises(Fenced):
        store.create(opening())


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


def test_a_node_that_was_heard_of_holds_its_trees_for_a_lease(store, clock):
    """To the millisecond, and its address is told."""
    store.create(opening())
    store.beat(Node(id="n1", address="http://a"))
    clock.now += 14_999
    with pytest.raises(HeldBy) as caught:
        store.take("", "s", "n2", "lease_over")
    assert (caught.value.node, caught.value.address, caught.value.seen_ago_ms) == ("n1", "http://a", 14_999)
    assert [node.id for node in store.nodes()] == ["n1"]
    clock.now += 1
    (taken,) = store.take("", "s", "n2", "lease_over").sessions
    assert (taken.node, taken.tail.epoch, taken.tail.seq) == ("n2", 2, 2)
    store.beat(Node(id="n3"))
    assert [node.id for node in store.nodes()] == ["n3"]


def test_a_clock_that_goes_back_makes_nothing_older_than_now(store, clock):
    """An age is never negative."""
    store.create(opening())
    store.beat(Node(id="n1"))
    clock.now -= 5_000
    with pytest.raises(HeldBy, match=r"seen 0\.0 s ago"):
        store.take("", "s", "n2", "lease_over")


def test_who_takes_is_written_down(store):
    """With the version that it beats with."""
    store.create(opening())
    store.beat(Node(id="n2", version="9.9"))
    store.take("", "s", "n2", "drain")
    body = msgspec.json.decode(store.read("", "s", 1)[0].body)
    assert (body["node"], body["cause"], body["engine"]) == ("n2", "drain", "9.9")


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


def test_ids_that_look_alike_are_named_within_their_scope(store):
    """Of another scope nothing is told."""
    for scope, session in (("", "session-abcd"), ("other", "session-abce"), ("", "zzz")):
        store.create(opening(session, scope=scope))
    with pytest.raises(SessionNotFound, match="is it 'session-abcd'") as caught:
        store.read("", "session-abce")
    assert caught.value.nearest == ("session-abcd",)
    with pytest.raises(SessionNotFound, match="look for it"):
        store.read("", "q")


def test_what_is_given_may_be_changed_afterwards(store):
    """What is kept stays."""
    content = bytearray(b"large")
    blobs = {"d": content}
    store.create(opening(blobs=blobs))
    content[:] = b"other"
    blobs.clear()
    assert store.blob("d") == b"large"


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


def test_readers_in_threads_see_whole_journals_while_one_is_written(store):
    """No number is missing and none is there twice, however a reader comes in between."""
    store.create(opening())
    faults = []
    is_over = threading.Event()

    def read():
        while not is_over.is_set():
            records = store.read("", "s", 0, 10_000)
            if [record.seq for record in records] != list(range(1, len(records) + 1)):
                faults.append(records)
            if not store.find(Filters(node="n1")):
                faults.append("not found")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for one in readers:
        one.start()
    tail = store.get("", "s").tail
    for _ in range(300):
        one, tail = following(tail, "a", "b")
        assert store.append([one]) == (None,)
    is_over.set()
    for one in readers:
        one.join(10)
    assert faults == []
    assert len(store.read("", "s")) == 601


def test_it_can_be_handed_on_when_it_was_closed(store):
    """What it has stays, for the supervisor that comes next."""
    store.create(opening())
    store.close()
    store.close()
    assert store.get("", "s") is not None
