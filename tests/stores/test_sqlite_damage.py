"""A damaged `SqliteStore`: no byte of it, flipped or missing, gives a record that nobody wrote; what can be read is saved, and told."""

import hashlib
import random
import shutil
import tracemalloc
from contextlib import closing
from itertools import pairwise

import apsw
import pytest

from agentrail.abc.store import JOURNAL_BEHIND, OwedRow, Standing
from agentrail.core.journal.record import Tail, first_broken
from agentrail.errors import NotAStore, StoreTooNew, StoreUnavailable
from agentrail.runtime.session_loader import stored_of
from agentrail.stores import sqlite
from agentrail.stores.sqlite import SqliteStore
from agentrail.stores.sqlite_damage import marker_path
from agentrail.stores.sqlite_files import lock_path
from tests.pipes import pipe_at
from tests.stores.rig import following, opening, snapshot_of
from tests.thinned import nightly

PAGE = 4096
SESSIONS = ("alpha", "beta", "gamma")
BLOB = b"b" * 5000
DIGEST = hashlib.sha256(BLOB).hexdigest()


def open_at(path, **options):
    return SqliteStore(path, **options)


def write_golden(path, records=8):
    """A small store: three sessions, one of them below another, with a snapshot, a large value and a takeover."""
    with closing(open_at(path, wall=lambda: 1_790_000_000.0)) as store:
        store.create(opening("alpha", node="n1", standing=Standing(title="First")))
        store.create(opening("beta", root="alpha", parent="alpha", blobs={DIGEST: BLOB}))
        store.create(
            opening("gamma", forked_from=("alpha", 1), standing=Standing(is_working=True, due_at_ms=9))
        )
        store.take("", "gamma", "n1", "start")
        for n in range(records):
            for session in SESSIONS:
                one, _ = following(store.get("", session).tail, f"{session} {n} " * 20, session=session)
                store.append([one])
        store.put_snapshot(snapshot_of(store.read("", "alpha")[3], state=b"s" * 300))


def journals_of(store):
    return {one.session: store.read(one.scope, one.session) for one in store.find()}


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    path = tmp_path_factory.mktemp("golden") / "sessions.db"
    write_golden(path)
    return path


@pytest.fixture(scope="module")
def written(golden):
    with closing(open_at(golden, read_only=True)) as store:
        return journals_of(store)


def judge(path, written):
    """Open a store that was damaged, and hold what it says against what was written.

    Each record up to the first that does not fit is one that was written; what is missing is told by the end that the session says,
    by the report of a salvage, or by an error.
    """
    try:
        store = open_at(path)
    except (NotAStore, StoreTooNew, StoreUnavailable) as error:
        return type(error).__name__
    with closing(store):
        for _ in range(3):
            try:
                found = {one.session: (one, store.read("", one.session)) for one in store.find()}
                for session in written:  # as one who resumes does: it writes, so a salvage comes to it
                    if session not in found and store.get("", session) is None:
                        store.release("n1", "", session)
                break
            except StoreUnavailable:
                try:
                    store.release("n1", "", "alpha")
                except StoreUnavailable as error:
                    return f"unusable: {error}"
        else:
            return "unusable"
        return "; ".join(sorted({say(session, found, written, store) for session in written}))


def say(session, found, written, store):
    """What becomes of one session: the same, said to be bad, or a test that fails."""
    report = store.salvaged
    hurt = {} if report is None else {one.session: one for one in report.sessions if not one.is_whole}
    if session not in found:
        with pytest.raises(Exception, match="no session"):
            store.read("", session)
        return "missing and told" if report is not None else "missing"
    there, records = found[session]
    behind = Tail() if there.first_seq == 1 else Tail(seq=there.first_seq - 1, hash=bytes(16))
    broken = first_broken(records, behind)
    sound = records if broken is None else records[: max(0, broken - there.first_seq)]
    assert sound == written[session][: len(sound)], "a record that was never written passes for one"
    end = Tail(seq=len(records), epoch=records[-1].epoch, hash=records[-1].hash) if records else Tail()
    if broken is not None or there.tail != end:
        return "said to be bad"
    if records == written[session]:
        return "same"
    assert session in hurt, f"{session} lost {len(written[session]) - len(records)} records in silence"
    return "cut and told"


def flip(golden, target, place, bit):
    """A copy with one bit flipped, without a lock file beside it."""
    for one in target.iterdir():
        one.unlink()
    data = bytearray(golden.read_bytes())
    data[place] ^= bit
    path = target / "sessions.db"
    path.write_bytes(data)
    return path


def change(path, statement, schema=None):
    """Change rows by hand; first, where it is given, what the schema of tables says of them."""
    if schema is not None:
        with closing(apsw.Connection(str(path))) as connection:
            connection.pragma("writable_schema", "on")
            connection.execute(f"UPDATE sqlite_schema SET sql = {schema} WHERE type = 'table'")  # noqa: S608
            connection.pragma("writable_schema", "reset")
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(statement)


@pytest.mark.at(142)
@pytest.mark.parametrize(
    ("bit", "is_all"),
    [
        (0x10, False),
        *(pytest.param(bit, True, marks=[pytest.mark.check, nightly]) for bit in (0x10, 0x01, 0x80)),
    ],
)
def test_a_flipped_bit_is_told_or_changes_nothing(golden, written, tmp_path, bit, is_all):
    """No record appears that no owner wrote, and no loss is silent; `make nightly` takes all of the file, in steps."""
    said, size = {}, golden.stat().st_size
    places = [*range(100), *range(100 + bit % 41, size, 41)]
    if not is_all:  # the same in each run
        places = [*range(0, 100, 3), *random.Random(7).sample(range(100, size), 90)]  # noqa: S311
    for place in places:
        verdict = judge(flip(golden, tmp_path, place, bit), written)
        assert "missing" not in verdict.split("; "), place
        assert not verdict.startswith("unusable"), place
        said[verdict] = said.get(verdict, 0) + 1
    assert said["same"] > 30
    assert any("said to be bad" in verdict for verdict in said)


@pytest.mark.at(142)
def test_a_file_that_was_cut_off_is_told(golden, written, tmp_path):
    """At each page, and in the middle of some: what is left is saved, and what is lost is told."""
    size = golden.stat().st_size
    for length in [*range(PAGE, size, PAGE), *range(1, size, 9973)]:
        for one in tmp_path.iterdir():
            one.unlink()
        path = tmp_path / "sessions.db"
        path.write_bytes(golden.read_bytes()[:length])
        verdict = judge(path, written)
        assert "missing" not in verdict.split("; "), length
        assert verdict != "same", length


# --- salvage


def pages_of(path, name):
    """The pages that a table stands on, from 1, but for its first."""
    with closing(apsw.Connection(str(path))) as connection:
        found = connection.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'", (name,))
        return [row[0] for row in found]


def wreck(path, *pages):
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(b"\xa5" * PAGE)


@pytest.fixture
def large(tmp_path):
    """A store with a journal that fills many pages."""
    path = tmp_path / "sessions.db"
    write_golden(path, records=150)
    return path


@pytest.mark.at(142)
def test_damaged_pages_are_set_aside_and_what_can_be_read_is_saved(large):
    """The report names each session and its last good number; what lies behind the gap is there, and what was whole goes on."""
    with closing(open_at(large, read_only=True)) as store:
        written = journals_of(store)
    damaged = pages_of(large, "record")
    before = wrecked = large.read_bytes()
    wreck(large, damaged[5], damaged[9])
    wrecked = large.read_bytes()
    assert wrecked != before
    with closing(open_at(large, wall=lambda: 1_790_000_000.0)) as store:
        with pytest.raises(StoreUnavailable, match=r"is damaged .*: the writing process repairs it"):
            journals_of(store)
        assert store.salvaged is None
        store.release("n1", "", "alpha")
        report = store.salvaged
        found = journals_of(store)
        hurt = {one.session: one for one in report.sessions if not one.is_whole}
        assert hurt
        assert {one.session for one in report.sessions} == set(SESSIONS)
        for session, records in written.items():
            if session in hurt:
                one = hurt[session]
                assert (one.last_good, one.last_known) == (first_broken(found[session]) - 1, len(records))
                assert found[session][: one.last_good] == records[: one.last_good]
                lost = set(records) - set(found[session])
                assert 0 < len(lost) < 60
                assert found[session][-1] == records[-1]
                assert f"session '{session}': intact up to record {one.last_good} of {len(records)}" in str(
                    report
                )
            else:
                assert found[session] == records
            on, _ = following(store.get("", session).tail, "on", session=session)
            assert store.append([on]) == (None,)
        assert len(store.snapshots("", "alpha")) == 1
    assert report.damaged.name == "sessions.db.damaged-20260921T141320Z"
    assert report.damaged.read_bytes() == wrecked
    assert report.damaged.with_name(report.damaged.name + ".report").read_text() == f"{report}\n"
    assert sorted(one.name for one in large.parent.iterdir()) == [
        "sessions.db", report.damaged.name, f"{report.damaged.name}.report", "sessions.lock"
    ]  # fmt: skip
    with closing(open_at(large)) as store:
        assert store.salvaged is None


@pytest.mark.parametrize(
    "mark", [b"", b'{"agentrail":1,"pid":7,"since_ms":0}\n'], ids=["no mark", "its mark"]
)
def test_a_sweep_that_was_broken_off_is_no_damage(tmp_path, mark):
    """A process was killed when the head of the file was written and its last pages were not: these still lie in the log."""
    path, killed, swept = tmp_path / "sessions.db", tmp_path / "killed.db", tmp_path / "swept.db"
    write_golden(path)
    with closing(SqliteStore(path)) as store:  # on a disk whose files are there for others
        store.create(opening("delta", blobs={DIGEST: BLOB}))
        for n in range(20):
            one, _ = following(store.get("", "delta").tail, f"delta {n} " * 300, session="delta")
            store.append([one])
        was = journals_of(store)
        for copy in (killed, swept):
            for end in ("", "-wal"):
                shutil.copyfile(f"{path}{end}", f"{copy}{end}")
    with closing(apsw.Connection(str(swept))) as connection:
        connection.pragma("user_version")  # before it was read once it knows of no log
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    with killed.open("r+b") as file:
        file.write(swept.read_bytes()[:PAGE])
    lock_path(killed).write_bytes(mark)
    with (
        closing(
            apsw.Connection(
                f"file:{killed}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            )
        ) as alone,
        pytest.raises(apsw.CorruptError),
    ):
        alone.pragma("application_id")
    with closing(open_at(killed, read_only=True)) as store:
        assert journals_of(store) == was
    with closing(open_at(killed)) as store:
        assert store.salvaged is None
        assert journals_of(store) == was


def test_sessions_of_which_only_records_are_left_are_listed(large):
    """As roots that have not ended, with what their records say; the report says that it is so."""
    with closing(open_at(large, read_only=True)) as store:
        written = journals_of(store)
    wreck(large, *pages_of(large, "session"))
    with closing(open_at(large)) as store:
        if store.salvaged is None:
            with pytest.raises(StoreUnavailable):
                store.find()
            store.release("n1", "", "alpha")
        assert all(one.is_rebuilt for one in store.salvaged.sessions)
        assert journals_of(store) == written
        assert [one.root for one in store.find()] == list(SESSIONS)
        assert "; the session's own row was lost" in str(store.salvaged)
        assert store.take("", "alpha", "n9", "start").sessions[0].tail.seq == len(written["alpha"]) + 1


def test_what_lies_between_two_damaged_pages_is_saved(tmp_path):
    """Also where what stood of the session is lost, so that nothing says where it ended."""
    path = tmp_path / "sessions.db"
    with closing(open_at(path)) as store:
        store.create(opening("alpha"))
        for _ in range(4):
            store.append([following(store.get("", "alpha").tail, *["x" * 300] * 100, session="alpha")[0]])
        records = store.read("", "alpha")
    leaves = pages_of(path, "record")
    wreck(path, leaves[4], leaves[12], *pages_of(path, "session"))
    with closing(open_at(path)) as store:
        with pytest.raises(StoreUnavailable, match="is damaged"):
            store.find()
        store.release("n1", "", "alpha")
        found = {record.seq for record in store.read("", "alpha")}
    lost = sorted({record.seq for record in records} - found)
    gaps = [at for at, after in pairwise(lost) if after != at + 1]
    assert len(gaps) == 1
    assert 2 < len(lost) < 30


VALUES = ("NULL", "7", "x'ff00fe'", "'text'", "1.5")


@pytest.mark.parametrize("column", ["epoch", "at_ms", "kind", "events", "hash", "does", "body"])
def test_a_value_of_another_kind_is_a_record_that_is_damaged(golden, written, tmp_path, column):
    """It is read as it is, its hash says that it is wrong, and who reads can compute that."""
    path = tmp_path / "sessions.db"
    lax = "rtrim(replace(replace(sql, 'STRICT', ''), 'NOT NULL', ''), ', ' || char(10))"
    for value in VALUES:
        shutil.copy(golden, path)
        change(path, f"UPDATE record SET {column} = {value} WHERE session = 'alpha' AND seq = 4", lax)  # noqa: S608
        with closing(open_at(path)) as store:
            records = store.read("", "alpha")
            assert len(records) == len(written["alpha"])
            assert records[:3] == written["alpha"][:3]
            assert first_broken(records) == 4


def test_a_row_that_contradicts_its_journal_is_found_by_who_takes_it(large):
    """A lost last record is reported, and the session continues behind the rest; a false alarm of a reader changes nothing."""
    with closing(open_at(large)) as store:
        store._is_suspect = True  # noqa: SLF001 - what a reader notes
        store.release("n1", "", "alpha")
        assert store.salvaged is None
        assert len(store.find()) == 3
    change(large, "DELETE FROM record WHERE session = 'gamma' AND seq > 100")
    with closing(open_at(large)) as store:
        with pytest.raises(StoreUnavailable, match="is not the one named by the session"):
            store.take("", "gamma", "n9", "start")
        (taken,) = store.take("", "gamma", "n9", "start").sessions
        assert taken.tail.seq == 101
        (one,) = [one for one in store.salvaged.sessions if not one.is_whole]
        assert (one.session, one.last_good, one.last_known) == ("gamma", 100, 152)


def test_a_salvage_that_died_on_its_way_goes_on(large, monkeypatch):
    """At each step: set aside, read, put in place. The damaged file is there once, and the new one whole."""
    with closing(open_at(large, read_only=True)) as store:
        written = journals_of(store)
    wreck(large, 1)
    for step in ("set_aside", "_make_beside", "salvage", "write_report", "_put_in_place", "end_salvage"):
        with monkeypatch.context() as patched:

            def die(*args, **options):
                raise KeyboardInterrupt

            patched.setattr(sqlite, step, die)
            with pytest.raises(KeyboardInterrupt):
                open_at(large)
        assert marker_path(large).exists()
    with closing(open_at(large)) as store:
        assert journals_of(store) == written
    assert not marker_path(large).exists()
    damaged, report = sorted(one for one in large.parent.iterdir() if ".damaged-" in one.name)
    assert report.name == f"{damaged.name}.report"
    assert "3 sessions are intact, 0 are damaged" in report.read_text()


def test_large_values_that_are_not_what_they_were_are_told(tmp_path):
    """And the others are kept. Of two that are set aside in one second the names do not meet."""
    path = tmp_path / "sessions.db"
    for _ in range(2):
        write_golden(path)
        with closing(open_at(path)) as store:
            blobs = {"no hash of it": b"x" * 900}
            on, _ = following(store.get("", "gamma").tail, "a", session="gamma", blobs=blobs)
            store.append([on])
        wreck(path, 1)
        with closing(open_at(path, wall=lambda: 1_790_000_000.0)) as store:
            assert store.salvaged.lost_blobs == 1
            assert store.blob("no hash of it") is None
            assert store.blob(DIGEST) == BLOB
        path.unlink()
    names = [
        one.name for one in tmp_path.iterdir() if "damaged" in one.name and not one.name.endswith("report")
    ]
    assert sorted(names) == ["sessions.db.damaged-20260921T141320Z", "sessions.db.damaged-20260921T141320Z-2"]


def test_a_child_whose_root_is_lost_is_a_root(golden, tmp_path):
    """Nothing could take it otherwise; what it was is reported. What is owed is kept, as it belongs to no session."""
    path, row = tmp_path / "sessions.db", OwedRow(kind="letter", id="a", body=b"1")
    shutil.copy(golden, path)
    with closing(open_at(path)) as store:
        store.change_owed([row])
    change(path, "DELETE FROM record WHERE session = 'alpha'")
    with closing(open_at(path)) as store:
        with pytest.raises(StoreUnavailable):
            store.take("", "alpha", "n9", "start")
        assert store.take("", "beta", "n9", "start").sessions[0].parent == ""
        said = {
            one.session: (one.last_good, one.last_known, one.is_rebuilt) for one in store.salvaged.sessions
        }
        assert said == {"alpha": (0, 9, False), "beta": (9, 9, True), "gamma": (10, 10, False)}
        assert store.get("", "alpha") is None
        assert store.salvaged.lost_snapshots == 1
        assert store.owed("letter") == (row,)


@pytest.mark.parametrize(
    ("session", "lost", "noted"),
    [
        ("alpha", 1, ()),
        ("alpha", 2, (("alpha", b"7 9"),)),
        ("beta", 3, (("alpha", b""),)),
        ("beta", 9, (("alpha", b""),)),
    ],
)
@pytest.mark.at(142)
def test_a_tree_that_lost_more_than_its_last_record_is_noted(golden, tmp_path, session, lost, noted):
    """Also if only a child lost them: a tool may have run in them, and would run again."""
    path = tmp_path / "sessions.db"
    shutil.copy(golden, path)
    change(path, f"DELETE FROM record WHERE session = '{session}' AND seq > {9 - lost}")  # noqa: S608 - of the test
    with closing(open_at(path)) as store:
        with pytest.raises(StoreUnavailable):
            store.take("", "alpha", "n9", "start")
        store.release("n1", "", "alpha")
        assert tuple([(one.id, one.body) for one in store.owed(JOURNAL_BEHIND)]) == noted


def test_snapshots_are_salvaged_one_by_one(golden, tmp_path):
    """All of them were held at once: of a large store they took more memory than there is."""
    path, count, size = tmp_path / "sessions.db", 24, 1 << 20
    with closing(open_at(path)) as store:
        for number in range(count):
            store.create(opening(f"s{number}"))
            store.put_snapshot(snapshot_of(store.read("", f"s{number}")[0], state=b"s" * size))
    change(path, "DELETE FROM record WHERE session = 's0'")
    with closing(open_at(path)) as store:
        with pytest.raises(StoreUnavailable):
            store.take("", "s0", "n9", "start")
        tracemalloc.start()
        store.release("n1", "", "s1")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert store.salvaged.lost_snapshots == 1
        assert len(store.snapshots("", "s9")) == 1
    assert peak < count * size / 3


def test_a_session_of_another_kind_of_values_is_damage(golden, tmp_path):
    """Found by who reads it, and salvaged by who writes."""
    path = tmp_path / "sessions.db"
    shutil.copy(golden, path)
    lax = "replace(sql, 'waits_for INTEGER NOT NULL', 'waits_for INTEGER')"
    change(path, "UPDATE session SET waits_for = NULL WHERE session = 'gamma'", lax)
    with closing(open_at(path)) as store:
        with pytest.raises(StoreUnavailable, match="session 'gamma' has changed since it was written"):
            store.find()
        store.release("n1", "", "alpha")
        assert [one.is_rebuilt for one in store.salvaged.sessions] == [False, False, True]
        assert len(store.read("", "gamma")) == 10


def changed(golden, tmp_path, statement):
    """A copy of the store in which somebody else has changed a row."""
    path = tmp_path / "changed.db"
    shutil.copy(golden, path)
    with closing(apsw.Connection(str(path))) as other:
        other.pragma("foreign_keys", "off")
        other.execute(statement)
    return path


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO owed VALUES ('webhook', CAST(x'ff' AS TEXT), x'7b7d', '')",
        "INSERT INTO owed VALUES ('webhook', 'y', x'7b7d', CAST(x'ff' AS TEXT))",
    ],
)
def test_a_small_row_that_is_no_text_is_salvaged(golden, written, tmp_path, statement):
    """Every server over this store ended at its start, and `sessions check` called it intact."""
    path = changed(golden, tmp_path, statement)
    with (
        closing(open_at(path, read_only=True)) as reader,
        pytest.raises(StoreUnavailable, match="is damaged"),
    ):
        reader.check_file()
    with closing(open_at(path)) as store:
        with pytest.raises(StoreUnavailable, match="is damaged"):
            store.owed("webhook")
        store.change_owed([OwedRow(kind="webhook", id="x", body=b"{}")])
        assert [row.id for row in store.owed("webhook") if row.id != "y"] == ["x"]
        assert journals_of(store) == written


@pytest.mark.parametrize("number", [2**63 - 1, 2**40])
def test_a_number_of_a_session_that_is_far_too_high_is_salvaged_at_once(golden, written, tmp_path, number):
    """Each number up to it was tried, for years."""
    statement = f"UPDATE session SET last_seq = {number} WHERE session = 'gamma'"  # noqa: S608 - of the test
    path = changed(golden, tmp_path, statement)
    with closing(open_at(path)) as store:
        with pytest.raises(StoreUnavailable, match="is damaged"):
            store.take("", "gamma", "n9", "start")
        store.release("n1", "", "alpha")
        assert journals_of(store) == written


def test_records_without_the_row_of_their_session_are_damage(golden, tmp_path):
    """Whoever asked for the session waited for ever, and a processor with them."""
    path = changed(golden, tmp_path, "DELETE FROM session WHERE session = 'beta'")
    with closing(open_at(path)) as store, pytest.raises(StoreUnavailable, match="is damaged"):
        stored_of(store, "", "beta")


@pytest.mark.parametrize("name", [b"", b"../x", b"a\0b", b"/tmp/x", b"\xff\n"])
def test_a_marker_of_a_salvage_that_names_no_file_is_refused(golden, tmp_path, name):
    """It was reported as a bug."""
    path = tmp_path / "sessions.db"
    shutil.copy(golden, path)
    marker_path(path).write_bytes(name)
    with pytest.raises(StoreUnavailable, match="names no file: remove it"), closing(open_at(path)) as store:
        store.change_owed([])


def test_a_pipe_in_place_of_a_marker_is_not_waited_for(golden, tmp_path):
    """Opened, it would wait for its writer, and the server would never start."""
    path = tmp_path / "sessions.db"
    shutil.copy(golden, path)
    with (
        pipe_at(marker_path(path), b"sessions.db.damaged"),
        pytest.raises(StoreUnavailable, match="names no file: remove it"),
        closing(open_at(path)) as store,
    ):
        store.change_owed([])
