"""A simulated disk behaves as disks do, and `SqliteStore` keeps its word on it: acknowledged ⊆ recovered ⊆ attempted."""

import itertools
from contextlib import closing, suppress
from functools import partial

import apsw
import pytest

from agentrail import outside
from agentrail.core.journal.record import first_broken
from agentrail.errors import AgentrailError, StoreInUse, StoreUnavailable
from agentrail.stores import sqlite_connections
from agentrail.testing.check_store import STORE_RULES, check_store, store_rule_name
from agentrail.testing.seams import wrapped
from agentrail.testing.simulation.disk import REMAINS, SimulatedDisk
from agentrail.testing.simulation.disk_store import disk_path, open_disk_store, simulated_files
from agentrail.testing.simulation.machine import NodeMachine
from agentrail.testing.simulation.tape import Tape
from tests.simulation.audit import nothing_real
from tests.stores.rig import Clock, following, opening

SMALL = 4
"""Records of a session, after its opening."""


@pytest.fixture(autouse=True)
def files():
    with simulated_files():
        yield


@pytest.fixture
def disk():
    return SimulatedDisk(Tape(7))


def crashing_at(point, crash):
    """Let a disk crash at its nth operation."""
    left = [point]

    def count(_operation, _name):
        left[0] -= 1
        if left[0] == 0:
            crash()

    return count


def write_on(disk, said, records=SMALL):
    """A process that stores a session record by record, until it ends or its disk crashes."""
    with closing(open_disk_store(disk)) as store:
        there = store.get("", "s")
        if there is None:
            store.create(opening())
        for _ in range(records):
            one, after = following(store.get("", "s").tail, "text " * 300)
            said["tried"] = after.seq
            assert store.append([one]) == (None,)
            said["acknowledged"] = after.seq
            if after.seq % 2 == 0:
                store.checkpoint()


def recovered(disk):
    """Return the number of the last record that the next process finds."""
    with closing(open_disk_store(disk)) as store:
        assert store.salvaged is None
        there = store.get("", "s")
        if there is None:
            return 0
        store.check_file()
        records = store.read("", "s", 0, 1000)
        assert first_broken(records) is None
        assert [record.seq for record in records] == list(range(1, there.tail.seq + 1))
        return there.tail.seq


def crash_at(point, seed, remains=None):
    """Let a process write on a disk that crashes at one of its operations. Return the disk, and what the process said."""
    given = None if remains is None else {"disk.disk.crash#0": REMAINS.index(remains)}
    disk, said = SimulatedDisk(Tape(seed, given)), {"tried": 0, "acknowledged": 0}
    disk.before = crashing_at(point, disk.crash)
    try:
        write_on(disk, said)
    except AgentrailError:
        assert disk.crashes == 1
    disk.before = lambda *_: None
    return disk, said


@pytest.mark.parametrize(
    "rule",
    [
        rule
        for rule in STORE_RULES
        if store_rule_name(rule) != "readers_see_whole_journals_while_one_is_written"
    ],
    ids=store_rule_name,
)
def test_a_store_on_it_keeps_to_the_port(rule, disk):
    """All rules for stores hold that need one thread, also after it was opened again, and nothing real is opened for that."""
    numbers, clock = itertools.count(), Clock()

    def move():
        clock.now += 15_001

    def open_at(name):
        return open_disk_store(disk, name, wall=lambda: clock() / 1000)

    def reopen(store):
        store.close()
        return open_at(store.path.name)

    with nothing_real():
        check_store(lambda: open_at(f"{next(numbers)}.db"), pass_lease=move, reopen=reopen, rules=[rule])


@pytest.mark.simulation("V-012")
@pytest.mark.parametrize("remains", REMAINS)
def test_a_crash_at_each_operation_loses_nothing_acknowledged(remains):
    """From the creation of the store to its end: the next process opens it without damage, and continues."""
    found = set()
    for point in itertools.count(1):
        disk, said = crash_at(point, seed=point, remains=remains)
        if not disk.crashes:
            break
        last = recovered(disk)
        assert said["acknowledged"] <= last <= max(said["tried"], 1), (point, said, last)
        found.add(last)
        write_on(disk, said, records=1)
        assert recovered(disk) == max(last, 1) + 1
    assert point > 60
    assert found == {0, 1, 2, 3, 4, 5}


@pytest.mark.simulation("V-012")
@pytest.mark.parametrize(
    ("synchronous", "is_lying", "keeps_its_word"),
    [("full", False, True), ("full", True, False), ("normal", False, False)],
)
def test_only_full_syncs_of_an_honest_disk_keep_what_was_acknowledged(synchronous, is_lying, keeps_its_word):
    """A lying disk and `NORMAL` lose records that were acknowledged: the test that holds for `FULL` can fail."""

    def set_up(real):
        def wrapper(connection):
            real(connection)
            connection.pragma("synchronous", synchronous)

        return wrapper

    lost = 0
    with wrapped([(sqlite_connections, "_set_up", set_up)]):
        for seed in range(40):
            disk, said = SimulatedDisk(Tape(seed)), {}
            write_on(disk, said, records=1)
            disk.is_lying = is_lying
            store = open_disk_store(disk)
            for _ in range(1 + seed % 5):
                one, after = following(store.get("", "s").tail, "text " * 300)
                assert store.append([one]) == (None,)
            disk.crash()
            lost += recovered(disk) < after.seq
    assert (lost == 0) == keeps_its_word


def test_a_failed_sync_marks_changes_as_written(disk):
    """As with Linux: the next sync succeeds, and they are not on the disk. The store writes them again."""
    store = open_disk_store(disk)
    store.create(opening())
    one, after = following(store.get("", "s").tail, "a")
    disk.fail_sync = lambda name: name.endswith("-wal")
    with pytest.raises(StoreUnavailable, match="could not be read or written"):
        store.append([one])
    disk.fail_sync = lambda name: False
    log = disk.files["sessions.db-wal"]
    assert log.data != log.durable
    assert log.unsynced == []
    assert store.append([one]) == (None,)
    disk.crash()
    assert recovered(disk) == after.seq


def write_in_spite_of(disk, said):
    """A process that tries each call again after an error, as the writer of sessions does."""

    def insist(call):
        for _ in range(3):
            try:
                return call()
            except StoreUnavailable:
                if disk.crashes:
                    raise
        return None

    store = insist(partial(open_disk_store, disk))
    insist(partial(store.create, opening()))
    said["acknowledged"] = 1
    for number in range(SMALL):
        one, after = following(store.get("", "s").tail, "text " * 600)
        said["tried"] = after.seq
        assert insist(partial(store.append, [one])) == (None,)
        said["acknowledged"] = after.seq
        if number == 1:
            with suppress(StoreUnavailable):
                store.checkpoint()


@pytest.mark.simulation("V-012")
@pytest.mark.parametrize("remains", REMAINS)
def test_a_crash_after_a_failed_sync_loses_nothing_acknowledged(remains):
    """Each sync fails once, and the power is cut soon after: the store does not trust what it finds in the log."""
    crashed = 0
    for nth, later in itertools.product(range(8, 21), range(1, 16, 2)):
        disk = SimulatedDisk(Tape(f"{nth}/{later}", {"disk.disk.crash#0": REMAINS.index(remains)}))
        syncs, said = itertools.count(1), {"tried": 0, "acknowledged": 0}

        def fail(_name, disk=disk, syncs=syncs, nth=nth, later=later):
            if next(syncs) != nth:
                return False
            disk.before = crashing_at(later, disk.crash)
            return True

        disk.fail_sync = fail
        with suppress(AgentrailError):
            write_in_spite_of(disk, said)
        disk.before, disk.fail_sync = (lambda *_: None), (lambda _: False)
        crashed += disk.crashes
        if disk.crashes:
            assert said["acknowledged"] <= recovered(disk) <= max(1, said["tried"]), (nth, later, said)
    assert crashed > 80


def test_a_full_disk_refuses_until_there_is_room(disk):
    """Nothing is acknowledged meanwhile."""
    with closing(open_disk_store(disk)) as store:
        store.create(opening())
        one, _ = following(store.get("", "s").tail, "a")
        disk.is_full = True
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            store.append([one])
        disk.is_full = False
        assert store.append([one]) == (None,)


def test_a_slow_disk_delays_the_answer_of_the_call_that_syncs(disk):
    """One commit has one sync. The machine of the caller takes the time."""
    machine = NodeMachine(7, "node-0")
    with closing(open_disk_store(disk)) as store, outside.installed(machine):
        store.create(opening())
        store.append([following(store.get("", "s").tail, "a")[0]])
        disk.slow_seconds = 0.3
        store.append([following(store.get("", "s").tail, "b")[0]])
    assert machine.late_seconds == pytest.approx(0.3)


def test_a_dead_process_changes_nothing(disk):
    """Neither through its store and connections, nor through its paths, nor by releasing its lock."""
    dead, path = open_disk_store(disk), disk_path(disk) / "sessions.db"
    dead.create(opening())
    one, _ = following(dead.get("", "s").tail, "a")
    with pytest.raises(StoreInUse):
        open_disk_store(disk)
    disk.crash()
    alive = open_disk_store(disk)
    before = {name: bytes(file.data) for name, file in disk.files.items()}
    for act in (
        partial(dead.append, [one]),
        partial(dead.append, [one]),  # with another connection
        partial(dead.get, "", "s"),
        dead.overwrite_removed,
    ):
        with pytest.raises(StoreUnavailable):
            act()
    for act in (path.unlink, path.sync, lambda: path.write_bytes(b"x"), lambda: path.rename(path)):
        with pytest.raises(OSError, match="the power was cut"):
            act()
    dead.close()
    assert {name: bytes(file.data) for name, file in disk.files.items()} == before
    with pytest.raises(StoreInUse):
        open_disk_store(disk)
    alive.close()


SAID = {"flip": {"whole", "said to be bad"}, "cut": {"whole", "salvaged"}}


def damaged(disk, how):
    """Damage the file of a closed store, and return what its next process says: an error, a report, or nothing."""
    with closing(open_disk_store(disk)) as store:
        written = store.read("", "s")
    getattr(disk, how)("sessions.db")
    try:
        with closing(open_disk_store(disk)) as store:
            for _ in range(3):  # reading finds the damage, and writing salvages
                try:
                    found = store.read("", "s") if store.get("", "s") is not None else ()
                    break
                except StoreUnavailable:
                    store.release("n1", "", "s")
            good = found[: (first_broken(found) or len(found) + 1) - 1]
            assert good == written[: len(good)]
            if len(good) == len(written):
                return "whole"
            if len(good) < len(found):
                return "said to be bad"
            assert store.salvaged is not None
            return "salvaged"
    except AgentrailError as error:
        return type(error).__name__


@pytest.mark.parametrize(("how", "lives"), [("flip", 150), ("cut", 50)])
def test_damage_is_told_or_changes_nothing(how, lives):
    """A store with a flipped bit, or without its end, opens to the last good record or says which it was."""
    said = set()
    for seed in range(lives):
        disk = SimulatedDisk(Tape(seed))
        write_on(disk, {})
        with nothing_real():
            said.add(damaged(disk, how))
    assert said == SAID[how]


def test_a_lost_file_is_a_new_store_and_a_running_one_writes_it_again(disk):
    """What a process still has open is not lost."""
    write_on(disk, {}, records=2)
    store = open_disk_store(disk)
    one, after = following(store.get("", "s").tail, "a")
    disk.lose("sessions.db")
    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        store.append([one])
    assert store.append([one]) == (None,)
    store.close()
    assert recovered(disk) == after.seq
    disk.lose("sessions.db")
    assert recovered(disk) == 0


def test_a_torn_or_reordered_crash_leaves_a_part():
    """Of many crashes of one kind some leave a part of the changes, and no other bytes."""
    for remains in REMAINS:
        sizes = set()
        for seed in range(30):
            disk = SimulatedDisk(Tape(seed, {"disk.disk.crash#0": REMAINS.index(remains)}))
            path = disk_path(disk) / "a"
            path.write_bytes(b"")
            path.sync()
            disk_path(disk).sync()
            for number in range(4):
                disk.files["a"].change(4 * number, bytes([number + 1]) * 4)
            assert disk.crash() == remains
            left = bytes(disk.files["a"].data)
            assert all(byte in (0, place // 4 + 1) for place, byte in enumerate(left))
            sizes.add(len(left.replace(b"\0", b"")))
        assert {"lost": sizes == {0}, "kept": sizes == {16}}.get(remains, len(sizes) > 2), (remains, sizes)
        assert any(size % 4 for size in sizes) == (remains == "torn")


def test_names_are_durable_after_a_sync_of_the_directory():
    """A renamed file has its old name, or none, until then."""
    disk = SimulatedDisk(Tape(1, {}))
    new, old = disk_path(disk) / "new", disk_path(disk) / "old"
    new.write_bytes(b"new")
    new.sync()
    disk.crash()
    assert list(disk.files) == []
    new, old = disk_path(disk) / "new", disk_path(disk) / "old"
    new.write_bytes(b"new")
    new.sync()
    disk_path(disk).sync()
    new.rename(old)
    disk.crash()
    assert {name: bytes(file.data) for name, file in disk.files.items()} == {"new": b"new"}


def test_one_seed_has_one_outcome():
    """The operations of a process, and what is found after a crash, are the same again."""

    def live():
        seen = []
        for point in range(1, 80, 7):
            disk, said = crash_at(point, seed=point)
            disk.before = lambda *operation: seen.append(operation)
            seen.append((said, recovered(disk)))
        return seen

    assert live() == live()


def test_connections_stand_alone(disk):
    """A reader that SQLite would open by itself meets the file of the writer; a file without a store is not one."""
    with pytest.raises(apsw.CantOpenError):
        apsw.Connection("/disk/none.db", vfs=disk.name, flags=apsw.SQLITE_OPEN_READONLY)
    with closing(open_disk_store(disk)) as store, closing(open_disk_store(disk, read_only=True)) as reading:
        store.create(opening())
        assert reading.get("", "s").tail == store.get("", "s").tail
