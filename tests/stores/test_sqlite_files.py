"""The files of `SqliteStore`: who may read and write them, and what is no store or no place for one."""

import errno
import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest

from agentrail import open_supervisor
from agentrail.abc.recall import MemoryOwner
from agentrail.abc.store import Filters, OwedRow
from agentrail.core.journal.session_owner import session_owner_key
from agentrail.errors import OptionError, StoreInUse, StoreTooNew, StoreUnavailable
from agentrail.file_systems import file_system_of
from agentrail.stores.recall_sqlite import SqliteRecall
from agentrail.stores.sqlite import SqliteStore
from agentrail.stores.sqlite_connections import check_sqlite
from agentrail.stores.sqlite_files import WriteLock, lock_path, writer_of
from agentrail.stores.sqlite_schema import SCHEMA, StoreSchema
from agentrail.stores.store_names import open_store
from agentrail.testing.models import ScriptedModel, says
from agentrail.testing.store_rules.trial import session_ids
from tests.pipes import pipe_at
from tests.stores.rig import following, opening

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_name("golden")

HOLDS = """
import sys
from agentrail.stores.sqlite import SqliteStore
from tests.stores.rig import following, opening
store = SqliteStore(sys.argv[1])
store.create(opening())
print("open", flush=True)
for line in sys.stdin:
    one, _ = following(store.get("", "s").tail, line.strip())
    print(store.append([one]), flush=True)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions.db"


@pytest.fixture
def other(path):
    command = [sys.executable, "-c", HOLDS, str(path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()


def test_a_forked_process_does_not_keep_the_store(tmp_path):
    """Its copy of the lock does not outlive that of the process that forked it, and to close it releases nothing."""
    command = [sys.executable, "-c", FORKING, str(tmp_path / "s.db")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


FORKING = """
import os
import sys
import time
from pathlib import Path
from agentrail.errors import StoreInUse
from agentrail.stores.sqlite_files import WriteLock
path = Path(sys.argv[1])
lock = WriteLock(path, since_ms=0)
if not os.fork():
    lock.release()
    os._exit(0)
os.wait()
try:
    WriteLock(path, since_ms=0)
except StoreInUse:
    pass
else:
    sys.exit("the other process released it")
child = os.fork()
if not child:
    time.sleep(30)
    os._exit(0)
lock.release()
WriteLock(path, since_ms=0).release()
os.kill(child, 9)
"""


def test_a_copy_that_does_not_fit_leaves_nothing_and_tells_why(tmp_path):
    """Neither a part of it nor its rollback journal, which would take the space that is missing."""
    command = [sys.executable, "-c", COPYING, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


COPYING = """
import os, resource, sys
from pathlib import Path
import apsw
from agentrail.errors import StoreUnavailable
from agentrail.stores.sqlite import copy_store
from agentrail.stores.sqlite_connections import Connector
source = Path(sys.argv[1], "s.db")
connection = apsw.Connection(str(source))
connection.execute("CREATE TABLE t AS SELECT zeroblob(1000000)")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
copy = source.with_name("copy.db")
try:
    copy_store(Connector(path=source), connection, copy)
except StoreUnavailable as error:
    assert str(error) == f"the copy '{copy}' cannot be written: the disk could not be read or written; name another place", error
else:
    sys.exit("it was copied")
assert os.listdir(source.parent) == ["s.db"], os.listdir(source.parent)
"""


def test_a_store_on_a_read_only_file_system_can_be_read(path, tmp_path):
    """Such as a snapshot, or a disk that the system mounted again without writing. It was closed, so there is no log."""
    with closing(SqliteStore(path)) as store:
        store.create(opening(more=["a"]))
    apart = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    shell = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
    mounted = [*apart, "sh", "-c", shell, "sh", str(tmp_path)]
    if shutil.which("unshare") is None or subprocess.run([*mounted, "true"], check=False).returncode:
        pytest.skip("needs to mount in a namespace")
    command = [*mounted, sys.executable, "-c", READING, str(path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


READING = """
import sys
from agentrail.errors import StoreUnavailable
from agentrail.stores.sqlite import SqliteStore
store = SqliteStore(sys.argv[1], read_only=True)
assert [record.kind for record in store.read("", "s")] == ["opened", "prompt"]
store.check_file()
try:
    SqliteStore(sys.argv[1])
except StoreUnavailable as error:
    assert "the directory cannot be written" in str(error), error
else:
    sys.exit("it was opened")
"""


def test_a_name_that_the_system_refuses_is_a_sentence(path, tmp_path):
    """A file name has at most 255 bytes: of a store that is written or read, of a copy, and of memories."""
    long = tmp_path / ("x" * 300)
    with closing(SqliteStore(path)) as store:
        for call in (
            lambda: SqliteStore(long),
            lambda: SqliteStore(long, read_only=True),
            lambda: store.back_up(long),
            lambda: SqliteRecall(long).list(MemoryOwner(tenant="")),
        ):
            with pytest.raises(StoreUnavailable, match="File name too long; name another"):
                call()


@pytest.mark.journal(18)
def test_a_second_process_hears_who_writes_and_may_read(path, other):
    """`StoreInUse` with the pid and since when; lists beside it work, also of what is written meanwhile (J-018)."""
    since = json.loads(lock_path(path).read_text())["since_ms"]
    with pytest.raises(
        StoreInUse, match=rf"process {other.pid} since 20..-..-.. .* read-only commands work"
    ) as caught:
        SqliteStore(path)
    assert caught.value.pid == other.pid
    assert since == json.loads(lock_path(path).read_text())["since_ms"]
    with closing(SqliteStore(path, read_only=True)) as reading:
        assert [one.session for one in reading.find()] == ["s"]
        for n in range(3):
            other.stdin.write(f"{n}\n")
            other.stdin.flush()
            assert other.stdout.readline() == "(None,)\n"
            assert [record.body for record in reading.read("", "s", 1)] == [b"%d" % at for at in range(n + 1)]


def test_a_lock_that_says_nothing_yet_is_a_lock(path):
    """Its process has just begun: the pid is not known."""
    lock = WriteLock(path, since_ms=1)
    lock_path(path).write_bytes(b"{")
    with pytest.raises(StoreInUse, match="written by another process: read-only") as caught:
        SqliteStore(path)
    assert caught.value.pid is None
    lock.release()
    lock.release()
    SqliteStore(path).close()


@pytest.mark.parametrize(
    "held",
    [
        b'{"pid":4611686018427387904,"since_ms":1}',
        b'{"pid":1,"since_ms":9223372036854775807}',
        b'{"pid":-1,"since_ms":1}',
    ],
)
def test_a_lock_file_that_was_damaged_names_no_process(path, held):
    """A number that no process or date has was reported as a bug: "signed integer is greater than maximum"."""
    lock = WriteLock(path, since_ms=1)
    assert writer_of(path) == os.getpid()
    lock_path(path).write_bytes(held)
    with pytest.raises(StoreInUse, match="written by another process: read-only"):
        WriteLock(path, since_ms=1)
    assert writer_of(path) is None
    lock.release()


def test_a_pipe_in_place_of_the_lock_names_no_process(path):
    """Opened, it would wait for its writer, and `sessions list` with it."""
    with pipe_at(lock_path(path), b'{"pid":1,"since_ms":1}'):
        assert writer_of(path) is None


def test_a_place_where_no_store_can_be_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    """The path, the reason, and what to do."""
    with pytest.raises(StoreUnavailable, match=r"nowhere/s\.db': the directory does not exist; .*--data-dir"):
        SqliteStore(tmp_path / "nowhere" / "s.db")
    with pytest.raises(StoreUnavailable, match="it is a directory"):
        SqliteStore(tmp_path)
    with pytest.raises(StoreUnavailable, match=r"there is no such file; .*--data-dir"):
        SqliteStore(tmp_path / "s.db", read_only=True)
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreUnavailable, match=r"empty\.db': it is empty; .*--data-dir"):
        SqliteStore(tmp_path / "empty.db", read_only=True)
    (tmp_path / "empty.db").unlink()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(StoreUnavailable, match="the directory cannot be written"):
        SqliteStore(tmp_path / "s.db")
    assert list(tmp_path.iterdir()) == []


def test_a_store_replaces_no_device_or_pipe(tmp_path):
    """Root may replace /dev/null, which someone names to keep nothing, and then no program has it."""
    pipe, loop = tmp_path / "pipe", tmp_path / "loop"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    for read_only in (False, True):
        with pytest.raises(StoreUnavailable, match="it is not a regular file"):
            SqliteStore(pipe, read_only=read_only)
    assert pipe.is_fifo()
    with pytest.raises(StoreUnavailable, match="there is no such file"):
        SqliteStore(loop, read_only=True)
    with pytest.raises(StoreUnavailable, match=os.strerror(errno.ELOOP)):
        SqliteStore(loop)
    assert loop.is_symlink()
    (target := tmp_path / "later").with_name("link").symlink_to(target)
    SqliteStore(tmp_path / "link").close()
    assert target.is_file()


@pytest.mark.parametrize("held", ["link", "device", "pipe", "directory", b"# @generated by Poetry"])
def test_a_store_takes_no_file_of_others_for_its_lock(path, tmp_path, request, held):
    """Its target, `/etc/passwd` or `/dev/null` for root, was overwritten and made private; `poetry.db` overwrote `poetry.lock`."""
    lock, others = lock_path(path), tmp_path / "others"
    others.write_text("precious")
    others.chmod(0o644)
    holder, terminal = os.openpty()  # a device that no other program has
    request.addfinalizer(lambda: [*map(os.close, (holder, terminal))])
    match held:
        case bytes():
            lock.write_bytes(held)
        case "pipe":
            os.mkfifo(lock)
        case "directory":
            lock.mkdir()
        case _:
            lock.symlink_to(others if held == "link" else os.ttyname(terminal))
    before = lock.lstat().st_mode, others.stat().st_mode, os.fstat(terminal).st_mode
    with pytest.raises(StoreUnavailable, match=rf"\({lock.name}\); name another place"):
        SqliteStore(path)
    assert (lock.lstat().st_mode, others.stat().st_mode, os.fstat(terminal).st_mode) == before
    assert others.read_text() == "precious"
    assert not path.exists()
    if isinstance(held, bytes):
        assert lock.read_bytes() == held


@pytest.mark.parametrize("target", ["nothing", "an empty file", "the lock of another store"])
def test_a_lock_is_never_taken_through_a_link(path, tmp_path, target):
    """Even where what it leads to could be a lock: it would be made, or made private, in a directory of somebody else."""
    lock, others = lock_path(path), tmp_path / "others.lock"
    if target == "an empty file":
        others.touch(0o644)
    elif target == "the lock of another store":
        SqliteStore(tmp_path / "others.db").close()
    before = others.read_bytes() if others.exists() else None
    lock.symlink_to(others)
    with pytest.raises(StoreUnavailable, match=rf"a link has the name of its lock \({lock.name}\)"):
        SqliteStore(path)
    assert (others.read_bytes() if others.exists() else None) == before
    assert not path.exists()


@pytest.mark.parametrize("left", [b"", b"{", b'{"pid":4', b"\0" * 40])
def test_a_lock_of_which_only_a_part_was_written_is_taken(path, left):
    """As a killed process or a machine without power leaves it."""
    lock_path(path).write_bytes(left)
    SqliteStore(path).close()
    assert writer_of(path) == os.getpid()


@pytest.mark.parametrize("name", [".salvaging.new", "-wal", "-shm"])
def test_a_store_writes_through_no_link_beside_it(path, tmp_path, name):
    """A link leads to a file of somebody else, which a salvage overwrote, and the start made private."""
    SqliteStore(path).close()
    if name == ".salvaging.new":
        path.write_bytes(path.read_bytes()[:100] + b"x" * 5_000)
    others = tmp_path / "others"
    others.write_text("precious")
    others.chmod(0o644)
    path.with_name(path.name + name).symlink_to(others)
    with suppress(StoreUnavailable):  # SQLite itself follows no link
        SqliteStore(path).close()
    assert bool([*tmp_path.glob("*.damaged-*")]) == (name == ".salvaging.new")
    assert others.read_text() == "precious"
    assert stat.S_IMODE(others.stat().st_mode) == 0o644


def test_a_data_directory_that_is_no_directory_is_refused_by_that_reason(tmp_path):
    """A file, or a link to nothing: "File exists" did not say what to correct."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(StoreUnavailable, match="it is not a directory, or a link that leads to none"):
            open_store("sqlite:", tmp_path / name)


def mounts_of(*pairs):
    """A `mountinfo` with these mounts."""
    lines = [
        f"{n} 1 0:{n} / {place} rw,relatime shared:1 - {kind} source rw"
        for n, (place, kind) in enumerate(pairs)
    ]
    return lambda: "\n".join(["garbage", *lines, ""])


@pytest.mark.parametrize("kind", ["nfs4", "nfs", "cifs", "fuse.sshfs", "9p", "ceph"])
def test_a_network_file_system_is_refused_by_name(path, kind):
    """Before anything is made there."""
    with pytest.raises(StoreUnavailable, match=rf"network file system \({kind}\).*locks.*--data-dir"):
        SqliteStore(path, mounts=mounts_of(("/", "ext4"), (path.parent, kind)))
    assert list(path.parent.iterdir()) == []


def test_the_nearest_mount_counts_and_of_two_the_last(tmp_path):
    """Whole parts of a path are compared, spaces are escaped, and links are followed."""
    spaced = tmp_path / "a b"
    spaced.mkdir()
    (tmp_path / "link").symlink_to(spaced)
    escaped = str(spaced).replace(" ", "\\040")
    mounts = mounts_of(("/", "ext4"), (escaped, "tmpfs"), (escaped, "nfs"), (f"{tmp_path}/a", "cifs"))
    assert file_system_of(spaced, mounts) == file_system_of(tmp_path / "link", mounts) == "nfs"
    assert file_system_of(tmp_path, mounts) == "ext4"
    assert file_system_of(tmp_path, lambda: "") == ""


@pytest.mark.parametrize("found", ["3.51.2", "3.40.1", "3.9.99"])
def test_a_sqlite_that_may_lose_commits_is_refused(found):
    """Systems bring their own; the message says what to do."""
    with pytest.raises(StoreUnavailable, match=rf"SQLite {found} may lose commits, which 3\.51\.3 fixed"):
        check_sqlite(found)
    check_sqlite("3.51.3")
    check_sqlite("3.100.0")


def test_a_file_system_without_shared_memory_or_that_is_not_known_is_refused(path):
    """Without a log the store would promise less; an unknown one is refused before the file is opened."""
    real = apsw.Connection.pragma

    class Without(apsw.Connection):
        def pragma(self, name, *value, **options):
            return "delete" if name == "journal_mode" else real(self, name, *value, **options)

    with pytest.raises(StoreUnavailable, match="cannot share memory"):
        SqliteStore(path, connect=lambda uri, flags, vfs: Without(uri, flags=flags, vfs=vfs))
    SqliteStore(path).close()
    with pytest.raises(OptionError, match="vfs is 'nowhere', but SQLite knows only unix"):
        SqliteStore(path, vfs="nowhere")
    assert sorted(one.name for one in path.parent.iterdir()) == ["sessions.db", "sessions.lock"]


TO_VERSION_1 = """
DROP INDEX session_by_owner; DROP INDEX session_deaths; DROP INDEX session_claimed;
ALTER TABLE session DROP COLUMN owner; ALTER TABLE session DROP COLUMN codec; ALTER TABLE session DROP COLUMN deaths;
ALTER TABLE session DROP COLUMN claimed_by; ALTER TABLE node DROP COLUMN load; ALTER TABLE node DROP COLUMN codec;
ALTER TABLE node DROP COLUMN digest; ALTER TABLE node DROP COLUMN lease_ms; ALTER TABLE node DROP COLUMN gone_at_ms;
DROP TABLE owed; DROP TABLE allowance;
PRAGMA user_version = 1
"""
STEP = "ALTER TABLE session ADD COLUMN extra TEXT NOT NULL DEFAULT 'none'"
NEXT = StoreSchema(version=4, tables=SCHEMA.tables, steps={3: STEP})


def test_an_older_store_is_brought_up_after_a_copy(path):
    """The copy is whole, is private, and opens as what it was; the store has all that it had."""
    with closing(SqliteStore(path)) as store:
        store.create(opening(more=["a"]))
        records = store.read("", "s")
    with closing(SqliteStore(path, schema=NEXT)) as store:
        assert store.read("", "s") == records
        one, _ = following(store.get("", "s").tail, "b")
        assert store.append([one]) == (None,)
    copy = path.with_name("sessions.db.v3")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.pragma("user_version") == 4
        assert connection.execute("SELECT extra FROM session").get == "none"
    with closing(SqliteStore(copy)) as store:
        assert store.read("", "s") == records
    with pytest.raises(StoreTooNew, match="version 4"):
        SqliteStore(path)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ({3: "CREATE TABLE more (a); INSERT INTO nowhere VALUES (1)"}, r"from table version 3 .*nowhere"),
        ({}, "there is no migration from table version 3 to version 4"),
    ],
)
def test_a_migration_that_fails_changes_nothing(path, steps, said):
    """One transaction: both steps are undone, and the sound file is not set aside."""
    with closing(SqliteStore(path)) as store:
        store.create(opening(more=["a"]))
    for _ in range(2):
        with pytest.raises(ValueError, match=said):
            SqliteStore(path, schema=StoreSchema(version=4, tables=SCHEMA.tables, steps=steps))
    for options in ({}, {"schema": NEXT}):
        with closing(SqliteStore(path, **options)) as store:
            assert store.get("", "s").tail.seq == 2
            assert not [one.name for one in path.parent.iterdir() if "damaged" in one.name]


def unpacked(version, path):
    path.write_bytes(gzip.decompress((GOLDEN / f"sessions.v{version}.db.gz").read_bytes()))


def test_a_store_of_version_2_opens_with_all_that_it_had(path):
    """Read-only before the upgrade and after it: sessions, records, owed rows, nodes; then it takes new records."""
    unpacked(2, path)
    with closing(SqliteStore(path, read_only=True)) as store:
        before = (store.find(), store.read("", "root"), store.snapshots("", "root"), store.owed("letter"))
        assert [(one.session, one.node, one.codec, one.deaths) for one in before[0]] == [
            ("child", "n1", 0, 0),
            ("fork", "", 0, 0),
            ("root", "n1", 0, 0),
        ]
        assert before[3] == (OwedRow(kind="letter", id="1", body=b"x"),)
        assert store.nodes()[0].address == "http://10.0.0.7:8700"
        store.check_file()  # its tables are older, and sound
        with closing(SqliteStore(path)) as upgraded:
            assert upgraded.nodes()[0].gone_at_ms > 0
            assert store.get("", "root") == upgraded.get("", "root")  # a reader that was open meanwhile
    with closing(SqliteStore(path)) as store:
        assert (
            store.find(),
            store.read("", "root"),
            store.snapshots("", "root"),
            store.owed("letter"),
        ) == before
        one, _ = following(store.get("", "root").tail, "c", session="root")
        assert store.append([one]) == (None,)
        assert [one.session for one in store.claim("n2")] == ["root"]
    new = path.with_name("new.db")
    SqliteStore(new).close()
    with closing(apsw.Connection(str(path))) as found, closing(apsw.Connection(str(new))) as fresh:
        assert columns_of(found) == columns_of(fresh)


def columns_of(connection):
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    columns = {
        table: set(
            connection.execute(
                'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)', (table,)
            )
        )
        for table in tables
    }
    return columns, set(connection.execute("SELECT name, tbl_name FROM sqlite_schema WHERE type = 'index'"))


def test_a_damaged_store_of_version_2_is_salvaged(path):
    """Its rows lack the later columns, and keep what they have."""
    unpacked(2, path)
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 3 + 16] = bytes(16)
    path.write_bytes(content)
    with closing(SqliteStore(path)) as store:
        with suppress(StoreUnavailable):
            store.find()
        with suppress(StoreUnavailable):
            store.check_file()
        store.release("nobody", "", "root")
        assert store.salvaged is not None
        assert store.owed("letter") == (OwedRow(kind="letter", id="1", body=b"x"),)
        assert store.get("", "root").root == "root"


async def test_owners_of_older_sessions_are_read_from_their_journals(path):
    """Tables of version 1 have no column for them: the first record names the owner, or a snapshot where it was trimmed."""
    data = [{"tenant_id": "t", "user_id": name} for name in ("ann", "bob", "ann")]
    async with open_supervisor(store=f"sqlite:{path}") as supervisor:
        for number, user_data in enumerate([*data, {}]):
            session = await supervisor.start_session(
                session_id=f"s{number}", scope="t", user_data=user_data, model=ScriptedModel([says("Hi.")])
            )
            await session.ask("Hello")
    with closing(SqliteStore(path)) as store:
        last = store.get("t", "s2").tail
        (shot,) = [one for one in store.snapshots("t", "s2") if one.seq == last.seq]
        store.trim("t", "s2", shot.seq)
        owners = [session_ids(store.find(Filters(owner=session_owner_key(one)))) for one in [*data, {}]]
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(TO_VERSION_1)
    with closing(SqliteStore(path, read_only=True)) as store:
        assert len(store.find(limit=9)) == 4
    with closing(SqliteStore(path)) as store:
        assert [
            session_ids(store.find(Filters(owner=session_owner_key(one)))) for one in [*data, {}]
        ] == owners
    assert owners == [["s0", "s2"], ["s1"], ["s0", "s2"], ["s3"]]
