"""`SqliteStore`: it keeps to the port, under every rule that there is for stores; and what it does beyond it, when all goes well."""

import contextlib
import itertools
from contextlib import closing

import apsw
import pytest

from agentrail.abc.store import Filters, Node, Standing, Taken, TakeOver
from agentrail.errors import AlreadyExists, HeldBy, OptionError, StoreUnavailable
from agentrail.messages import SessionId
from agentrail.stores import sqlite, sqlite_deletions, sqlite_writes
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.check_store import STORE_RULES, check_store, store_rule_name
from agentrail.testing.simulation.disk import SimulatedDisk
from agentrail.testing.simulation.disk_store import open_disk_store as open_on_disk, simulated_files
from agentrail.testing.simulation.tape import Tape
from tests.stores.rig import Clock, following, opening, snapshot_of

CANARY = "the-canary-that-is-to-be-forgotten"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions.db"


@pytest.fixture
def open_store(path, clock):
    """Open stores, which are closed when the test is over."""
    opened = []

    def open_one(**options):
        opened.append(SqliteStore(path, **{"wall": lambda: clock() / 1000, **options}))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def store(open_store):
    return open_store()


def tail(store, session="s"):
    return store.get("", session).tail


@pytest.mark.parametrize("rule", STORE_RULES, ids=store_rule_name)
def test_sqlite_keeps_to_the_port(rule, tmp_path, clock):
    """Opened again it has all that it had."""
    numbers = itertools.count()

    def open_at(path):
        return SqliteStore(path, wall=lambda: clock() / 1000)

    def move():
        clock.now += 15_001

    def reopen(store):
        store.close()
        return open_at(store.path)

    check_store(
        lambda: open_at(tmp_path / f"{next(numbers)}.db"), pass_lease=move, reopen=reopen, rules=[rule]
    )


def test_another_opening_of_the_same_id_is_refused(store):
    """Longer, or below another, or one that can no longer be compared, because it was trimmed away."""
    store.create(opening(more=["a"]))
    store.create(opening(more=["a"]))
    for other in (opening(more=["a", "b"]), opening(parent="p")):
        with pytest.raises(AlreadyExists, match="resume_session"):
            store.create(other)
    store.append([following(tail(store), "b", "c")[0]])
    store.put_snapshot(snapshot_of(store.read("", "s")[3]))
    assert store.trim("", "s", 4) == 3
    with pytest.raises(AlreadyExists, match="resume_session"):
        store.create(opening(more=["a"]))


def test_records_with_gaps_are_a_fault_of_the_one_who_made_them(store):
    """Nothing of the batch goes in, and the store goes on."""
    store.create(opening())
    one, _ = following(tail(store), "a", "b", "c")
    broken = type(one)(records=(one.records[0], one.records[2]))
    with pytest.raises(ValueError, match="records 2 to 4 of session 's' are 2"):
        store.append([broken])
    assert store.append([one]) == (None,)


def test_what_is_known_of_rows_is_bounded(store, monkeypatch):
    """Of too many sessions all is forgotten, and written again."""
    monkeypatch.setattr(sqlite_writes, "_MAX_KNOWN", 2)
    for session in ("a", "b", "c"):
        store.create(opening(session))
    for title in ("one", "one", "two"):
        batch = [
            following(tail(store, session), title, session=session, standing=Standing(title=title))[0]
            for session in ("a", "b", "c")
        ]
        assert store.append(batch) == (None, None, None)
        assert {store.get("", session).standing.title for session in ("a", "b", "c")} == {title}
        assert len(store._standings) <= 2  # noqa: SLF001 - it cannot be seen from outside


@pytest.fixture(scope="module")
def crowds(tmp_path_factory):
    """Stores with few and with many other sessions of the scope, and a list of the steps that SQLite has done."""
    steps = []

    def connect(uri, flags, vfs):
        connection = apsw.Connection(uri, flags=flags, vfs=vfs)
        connection.trace_v2(
            apsw.SQLITE_TRACE_PROFILE,
            lambda event: steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
        )
        return connection

    with contextlib.ExitStack() as stack:
        stores = []
        for others in (5, 45):
            path = tmp_path_factory.mktemp("crowd") / "sessions.db"
            stores.append(stack.enter_context(closing(SqliteStore(path, connect=connect, wall=lambda: 1))))
            for number in range(others):
                stores[-1].create(opening(f"other-{number}"))
            for name in ("w", "x", "y"):
                stores[-1].create(
                    opening(name, node="n2", owner="u", more="ab", standing=Standing(is_working=True))
                )
            stores[-1].put_snapshot(snapshot_of(stores[-1].read("", "x")[-1]))
        yield stores, steps


@pytest.mark.parametrize(
    "call",
    {
        "find a tree": lambda store: store.find(Filters(scope="", root=SessionId("w"))),
        "find by owner": lambda store: store.find(Filters(scope="", owner="u"), after=("", "a")),
        "find by node": lambda store: store.find(Filters(scope="", node="n2")),
        "find working": lambda store: store.find(Filters(scope="", is_working=True, has_ended=False)),
        "newest of an owner": lambda store: store.newest(Filters(scope="", owner="u")),
        "claim": lambda store: store.claim("n3"),
        "take": lambda store: store.take("", "w", "n2", "start"),
        "release": lambda store: store.release("n2", "", "w"),
        "trim": lambda store: store.trim("", "x", 3),
        "delete": lambda store: store.delete("", "y"),
    }.items(),
    ids=lambda call: call[0],
)
def test_a_call_costs_the_same_among_many_sessions_of_its_scope(crowds, call):
    """Counted in the steps of SQLite. Searching the others would cost several for each."""
    stores, steps = crowds
    counts = []
    for store in stores:
        steps.clear()
        call[1](store)
        counts.append(sum(steps))
    few, many = counts
    assert few > 0
    assert many - few < 40, counts


def test_many_trees_are_taken_in_one_transaction(store):
    """One commit for all; what one of them is refused for leaves nothing in it."""
    for name in ("a", "b", "held"):
        store.create(opening(name, node="n3" if name == "held" else ""))
    store.beat(Node(id="n3"))
    commits = []
    store._writer.set_commit_hook(lambda: bool(commits.append(1)))  # noqa: SLF001 - what a disk pays for
    names = ("a", "held", "b")
    answers = store.take_many([TakeOver(scope="", root=name, node="n2", cause="gone") for name in names])
    assert [type(one) for one in answers] == [Taken, HeldBy, Taken]
    assert commits == [1]


@pytest.mark.at(141)
def test_a_node_of_a_dead_process_blocks_nothing(open_store):
    """The lock ends with the process that has it, so when it is ours no other node lives, whatever its row says."""
    first = open_store()
    first.beat(Node(id="n1", address="http://a"))
    first.create(opening(standing=Standing(is_working=True, due_at_ms=1)))
    with pytest.raises(HeldBy):
        first.take("", "s", "n2", "start")
    assert first.orphans() == first.due() == ()
    first.close()
    second = open_store()
    assert [one.session for one in second.orphans()] == ["s"]
    assert [one.session for one in second.due()] == ["s"]
    assert [node.id for node in second.nodes()] == ["n1"]
    assert second.take("", "s", "n2", "start").sessions[0].node == "n2"
    second.beat(Node(id="n2"))
    assert [node.id for node in second.nodes()] == ["n2"]


def test_the_log_is_swept_in_an_idle_moment():
    """By `checkpoint`; without anything to sweep it does nothing."""
    disk, used = SimulatedDisk(Tape(1)), []
    with simulated_files(), closing(open_on_disk(disk)) as store:
        store.create(opening())
        disk.before = lambda *operation: used.append(operation)
        store.checkpoint()
        assert ("write", "sessions.db") in used
        used.clear()
        store.checkpoint()
        assert used == []


@pytest.mark.check
def test_the_log_is_swept_at_a_size_without_an_idle_moment(store, path):
    """16 MiB, here less: it begins anew, and does not grow on."""
    assert sqlite.MAX_LOG_BYTES == 16 * 1024 * 1024
    store.create(opening())
    log, sizes = path.with_name("sessions.db-wal"), []
    for _ in range(60):
        one, _ = following(tail(store), "x" * 1_000_000)
        assert store.append([one]) == (None,)
        sizes.append(log.stat().st_size)
    assert max(sizes) < 18 * 1024 * 1024
    assert path.stat().st_size > 30 * 1024 * 1024


def test_what_is_deleted_is_nowhere_in_the_files(store, path):
    """Not in the file, not in its log: overwritten, and swept at once."""
    blobs = {"d": f"{CANARY}-blob".encode() * 2000}
    store.create(opening(more=[CANARY], blobs=blobs, standing=Standing(title=CANARY)))
    store.create(opening("other", more=["stays"]))
    store.put_snapshot(snapshot_of(store.read("", "s")[1], state=CANARY.encode() * 500))
    assert any(CANARY.encode() in one.read_bytes() for one in path.parent.iterdir())
    size = store.delete("", "s")
    assert size == len(CANARY) + len(b"{}reply") + len(blobs["d"]) + len(CANARY) * 500
    assert not [one.name for one in path.parent.iterdir() if CANARY.encode() in one.read_bytes()]
    assert store.blob("d") is None
    assert [one.session for one in store.find()] == ["other"]


def test_data_is_overwritten_although_the_outcome_of_its_deletion_was_unknown(store, path, monkeypatch):
    """The deletion is in the file, and its caller got an error: the log was removed meanwhile."""
    rewritten = []
    monkeypatch.setattr(sqlite, "write_anew", rewritten.append)
    store.create(opening(more=[CANARY]))
    assert store.overwrite_removed()
    store.create(opening("other", more=["stays"]))
    path.with_name(f"{path.name}-wal").unlink()
    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        store.delete("", "s")
    assert store.get("", "s") is None
    assert store.overwrite_removed()
    assert len(rewritten) == 2


def test_a_reader_in_the_way_of_what_is_erased_is_told_and_the_next_call_overwrites(store, path):
    """The reader keeps its view, and nobody else has it; what is damaged is not erased, and the next call salvages the file."""
    store.create(opening(more=[CANARY]))
    with closing(apsw.Connection(f"file:{path}?mode=ro", flags=0x41)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM record WHERE kind = 'prompt'").get == 1
        assert store.erase("", "s", "user forgotten").records == 2
        assert not store.overwrite_removed()
        assert reader.execute("SELECT count(*) FROM record WHERE kind = 'prompt'").get == 1
        assert {one.kind for one in store.read("", "s")} == {"erased", "closed"}
        reader.execute("COMMIT")
    assert store.overwrite_removed()
    assert not [one.name for one in path.parent.iterdir() if CANARY.encode() in one.read_bytes()]
    store.create(opening("t", more=["a"]))
    with closing(apsw.Connection(str(path))) as other:
        other.execute("UPDATE session SET last_seq = 9 WHERE session = 't'")
    with pytest.raises(StoreUnavailable, match="damaged"):
        store.erase("", "t", "user forgotten")


def test_of_a_large_file_the_copy_is_made_in_a_file(store, path, monkeypatch):
    """And what is deleted later lies in memory again, and in no file that nothing knows of."""
    monkeypatch.setattr(sqlite_deletions, "_MOST_IN_MEMORY", 1)
    said = []
    with closing(apsw.Connection(str(path))) as connection:
        connection.pragma("temp_store", "memory")
        connection.exec_trace = lambda _, statement, __: said.append(statement) or True
        sqlite_deletions.write_anew(connection)
        assert connection.pragma("temp_store") == 2
    assert [one for one in said if "VACUUM" in one]
    assert any("temp_store" in one and "file" in one for one in said)


def test_a_store_that_was_closed_says_so(store, path):
    """Every caller hears it, and nothing is left beside the file but the lock."""
    store.create(opening())
    store.close()
    store.close()
    for call in (store.find, lambda: store.create(opening("b")), lambda: store.get("", "s")):
        with pytest.raises(StoreUnavailable, match="the store was closed"):
            call()
    store.checkpoint()
    assert sorted(one.name for one in path.parent.iterdir()) == ["sessions.db", "sessions.lock"]
    assert repr(store) == f"SqliteStore({str(path)!r}, closed)"


def test_a_store_that_reads_writes_nothing(store, open_store):
    """It is told what to do instead; what is there it reads."""
    store.create(opening(more=["a"]))
    reading = open_store(read_only=True)
    assert repr(reading).endswith("reads)")
    assert [record.body for record in reading.read("", "s", 1)] == [b"a"]
    one, _ = following(tail(store), "b")
    for call in (
        lambda: reading.append([one]),
        lambda: reading.create(opening("b")),
        lambda: reading.delete("", "s"),
    ):
        with pytest.raises(OptionError, match="open it without read_only"):
            call()
    reading.checkpoint()
    assert store.append([one]) == (None,)
    assert tail(reading).seq == 3
