"""`SqliteStore` when the disk does not do what it should, and when its process dies: acknowledged is durable, and is there once."""

import itertools
import json
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agentrail.core.journal.record import first_broken
from agentrail.errors import StoreInUse, StoreUnavailable
from agentrail.stores import sqlite
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.simulation.disk import SimulatedDisk
from agentrail.testing.simulation.disk_store import open_disk_store, simulated_files
from agentrail.testing.simulation.tape import Tape
from tests.stores.rig import following, opening

ROOT = Path(__file__).parents[2]


@pytest.fixture
def disk():
    with simulated_files():
        yield SimulatedDisk(Tape(1))


@pytest.fixture
def store(disk):
    with closing(open_disk_store(disk)) as opened:
        opened.create(opening())
        yield opened


def tail(store, session="s"):
    return store.get("", session).tail


def bodies(store):
    """What stands in the journal, behind its opening; it must be whole."""
    records = store.read("", "s")
    assert first_broken(records) is None
    return [record.body.decode() for record in records[1:]]


def never(name):
    return False


def test_a_sweep_that_fails_behind_a_commit_takes_nothing_back(store, disk, monkeypatch):
    """The record is durable, and the caller hears so; the next call opens another connection."""
    monkeypatch.setattr(sqlite, "MAX_LOG_BYTES", 1)
    failed = []

    def fail_of_file(name):
        failed.append(name)
        return name == "sessions.db"

    disk.fail_sync = fail_of_file
    one, behind = following(tail(store), "a")
    assert store.append([one]) == (None,)
    assert "sessions.db" in failed
    two, _ = following(behind, "b")
    with pytest.raises(StoreUnavailable):
        store.append([two])
    disk.fail_sync = never
    assert store.append([two]) == (None,)
    assert bodies(store) == ["a", "b"]


@pytest.mark.at(142)
def test_on_a_full_disk_nothing_is_acknowledged_and_all_goes_on_when_there_is_room(store, disk):
    """`StoreUnavailable` says why; the same append again is fine, and readers read all the time."""
    one, behind = following(tail(store), "a", "b")
    disk.is_full = True
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            store.append([one])
        assert bodies(store) == []
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        store.create(opening("t"))
    disk.is_full = False
    assert store.append([one]) == (None,)
    assert tail(store) == behind
    assert store.get("", "t") is None


def test_a_salvage_that_finds_the_disk_full_goes_on_when_there_is_room(disk):
    """At whichever of its writes: nothing is lost, and nothing of the attempt stays."""
    with closing(open_disk_store(disk)) as store:
        store.create(opening(more=["a"]))
    sound = bytes(disk.files["sessions.db"].data)
    for allowed in (*range(6), 20, 40):
        left = itertools.count(allowed, -1)

        def fill(operation, name, left=left):
            disk.is_full |= operation in ("write", "create") and next(left) <= 0

        disk.files["sessions.db"].change(0, bytes(16) + sound[16:])
        disk.before = fill
        with pytest.raises(StoreUnavailable, match=r"no space is left|the disk is full"):
            open_disk_store(disk)
        disk.before = lambda operation, name: None
        disk.mend()
        with closing(open_disk_store(disk)) as store:
            assert bodies(store) == ["a"]
        assert {name.partition(".damaged-")[0] for name in disk.files} == {"sessions.db", "sessions.lock"}


def use_again_and_again(store):
    """Use it with new connections each time, which read again what they had read."""
    for _ in range(30):
        store.release("n9", "", "s")
        store.get("", "s")
        store._drop_writer()  # noqa: SLF001
        store._readers.drop()  # noqa: SLF001


def test_a_disk_that_cannot_be_read_now_is_no_damage(disk):
    """A sound file is not set aside because it could not be read once: not when it is opened, and not later."""
    with closing(open_disk_store(disk)) as store:
        store.create(opening(more=["a"]))
    for allowed in range(30):
        left = [allowed]

        def fail(name, left=left):
            left[0] -= 1
            return left[0] < 0

        disk.fail_read = fail
        try:
            store = open_disk_store(disk)
        except StoreUnavailable as error:
            assert "could not be read or written" in str(error)  # noqa: PT017 - it need not come
            continue
        with closing(store):
            with pytest.raises(StoreUnavailable, match="could not be read or written"):
                use_again_and_again(store)
            disk.fail_read = never
            assert bodies(store) == ["a"]
    disk.fail_read = never
    with closing(open_disk_store(disk)) as store:
        assert bodies(store) == ["a"]
        assert store.salvaged is None
    assert sorted(disk.files) == ["sessions.db", "sessions.lock"]


@pytest.mark.check  # as test_killed.py, of other points
def test_killed_anywhere_nothing_that_was_acknowledged_is_lost(tmp_path):
    """Twenty processes, one after the other, on one store in a real file."""
    command = [sys.executable, "-m", "tests.stores.crashing", str(tmp_path), "20"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    for one in found:  # acknowledged ⊆ stored ⊆ attempted, and what is stored is whole
        assert (one["broken"], one["salvaged"]) == (None, ""), one
        assert one["acknowledged"] <= one["tail"], one
        assert one["tail"] <= max(one["tried"], 1) or one["tried"] == 0, one
    assert found[-1]["tail"] > 100
    assert {one["status"] for one in found} == {9}


@pytest.mark.parametrize("how", ["unlinked", "moved", "with its directory", "its log"])
def test_a_file_that_is_taken_away_is_written_again(tmp_path, how):
    """What was acknowledged is in it, also what its log alone had; one append is refused meanwhile, and no other process gets the store."""
    path = tmp_path / "d" / "sessions.db"
    path.parent.mkdir()
    with closing(SqliteStore(path)) as store:
        store.create(opening())
        first, after = following(tail(store), "1")
        assert store.append([first]) == (None,)
        if how == "with its directory":
            shutil.rmtree(path.parent)
        elif how == "moved":
            path.rename(tmp_path / "elsewhere.db")
        else:
            path.with_name(path.name + ("-wal" if how == "its log" else "")).unlink()
        second, _ = following(after, "2")
        with pytest.raises(StoreUnavailable, match="removed or replaced"):
            store.append([second])
        assert store.append([second]) == (None,)
        with pytest.raises(StoreInUse):
            SqliteStore(path)
    with closing(SqliteStore(path)) as store:
        assert store.salvaged is None
        assert bodies(store) == ["1", "2"]
