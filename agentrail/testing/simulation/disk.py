"""`SimulatedDisk`: a disk in memory, below SQLite. A crash drops, tears or reorders what was not synced. See `disk_store`."""

import itertools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, TypeAlias

import apsw

from agentrail import outside
from agentrail.testing.simulation.tape import Tape

NUMBERS: Final = itertools.count(1)

REMAINS: Final = ("lost", "torn", "reordered", "kept")
"""What remains of changes after the last sync: nothing, the first ones and a part of the next, some of them, or all."""

DiskChange: TypeAlias = tuple[int, bytes | None]
"""An offset and the bytes written there. None: the file was cut there."""


def _apply(data: bytearray, changes: Sequence[DiskChange]) -> None:
    for offset, new in changes:
        data.extend(bytes(max(0, offset - len(data))))
        data[offset : len(data) if new is None else offset + len(new)] = new or b""


class StoredFile:
    """A file: its bytes as programs see them, its bytes on the disk, and the changes in between."""

    def __init__(self) -> None:
        self.data: bytearray = bytearray()
        self.durable: bytearray = bytearray()
        self.unsynced: list[DiskChange] = []
        self.number: int = next(NUMBERS)

    def change(self, offset: int, new: bytes | None) -> None:
        self.unsynced.append((offset, new))
        _apply(self.data, self.unsynced[-1:])

    def sync(self) -> None:
        _apply(self.durable, self.unsynced)
        self.unsynced = []

    def crash(self, remains: str, chance: random.Random) -> None:
        changes = [] if remains == "lost" else self.unsynced
        if remains == "reordered":
            changes = [one for one in changes if chance.getrandbits(1)]
        elif remains == "torn" and changes:
            last = chance.randrange(len(changes))
            offset, new = changes[last]
            changes = [*changes[:last], (offset, new and new[: chance.randrange(len(new))])]
        _apply(self.durable, changes)
        self.data, self.unsynced = bytearray(self.durable), []


class SimulatedDisk(apsw.VFS):
    """A disk with one directory. It outlives the processes that use it.

    Attributes:
        name: Its name as a file system of SQLite.
        crashes: Number of crashes.
        before: Called before each `create`, `write`, `cut`, `sync`, `rename`, `delete` and `sync directory` with the operation and the
            name of the file. May raise an error of apsw, or crash the disk.
        fail_sync: Whether to fail a sync of this file. As with Linux, its unsynced changes then count as written, but are not.
        fail_read: Whether to fail a read of this file.
        is_full: Whether to refuse writes and new files.
        is_lying: Whether to report syncs without doing them.
        slow_seconds: Additional time of each sync.
        locks: Locks of running processes, by name of their file.
        connections: The open connection of each database, by name of its file.
    """

    def __init__(self, tape: Tape, place: str = "disk") -> None:
        """Create an empty disk. The names of its draws begin with `PLACE.disk`."""
        self.name: str = f"disk-{next(NUMBERS)}"
        self.place: str = place
        self.crashes: int = 0
        self.before: Callable[[str, str], None] = lambda _operation, _name: None
        self.fail_sync: Callable[[str], bool]
        self.fail_read: Callable[[str], bool]
        self.is_full: bool
        self.is_lying: bool
        self.slow_seconds: float
        self.mend()
        self.locks: dict[str, object] = {}
        self.connections: dict[str, apsw.Connection] = {}
        self._tape = tape
        self._listings: list[dict[str, StoredFile]] = [{}]  # the durable one, then all later ones
        super().__init__(self.name, "")

    @property
    def files(self) -> dict[str, StoredFile]:
        """The files by name, as programs see them."""
        return self._listings[-1]

    # --- faults

    def crash(self) -> str:
        """Cut the power. Processes of before can change nothing any more.

        Returns:
            What remained of unsynced changes, see `REMAINS`. It is drawn.
        """
        remains = self._tape.choice(f"{self.place}.disk.crash", REMAINS)
        chance = self._tape.generator(f"{self.place}.disk.crash[{self.crashes}]")
        listings = {"lost": self._listings[:1], "kept": self._listings[-1:]}.get(remains, self._listings)
        self._listings = [chance.choice(listings)]
        for file in self.files.values():
            file.crash(remains, chance)
        self.crashes += 1
        self.locks.clear()
        self._abandon(list(self.connections))
        return remains

    def flip(self, name: str) -> int:
        """Flip a drawn bit of a file, and return its number."""
        file = self.files[name]
        bit = self._tape.integer(f"{self.place}.disk.flip", 0, 8 * len(file.durable) - 1)
        for data in (file.data, file.durable):
            data[bit // 8] ^= 1 << bit % 8
        return bit

    def cut(self, name: str) -> int:
        """Truncate a file to a drawn size, and return the size."""
        file = self.files[name]
        size = self._tape.integer(f"{self.place}.disk.cut", 0, len(file.durable) - 1)
        file.change(size, None)
        file.sync()
        return size

    def lose(self, name: str) -> None:
        """Lose a file."""
        self._listings = [{other: file for other, file in self.files.items() if other != name}]

    def mend(self) -> None:
        """End all faults that last."""
        self.fail_sync = self.fail_read = lambda _name: False
        self.is_full = self.is_lying = False
        self.slow_seconds = 0.0

    # --- operations of programs: `life` is the number of crashes before they started

    def check_life(self, life: int) -> None:
        if life != self.crashes:
            raise apsw.IOError("the power was cut")  # noqa: EM101, TRY003 - like all errors of the disk

    def begin(self, life: int, operation: str, name: str) -> None:
        self.check_life(life)
        self.before(operation, name)
        self.check_life(life)
        if self.is_full and operation in ("write", "create"):
            raise apsw.FullError("no space is left")  # noqa: EM101, TRY003

    def list_anew(
        self, life: int, operation: str, name: str, changed: Mapping[str, StoredFile | None]
    ) -> None:
        self.begin(life, operation, name)
        self._abandon(changed)
        listing = {**self.files, **changed}
        self._listings.append({name: file for name, file in listing.items() if file is not None})

    def _abandon(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self.connections:  # not closed: it may be calling the disk
                self.connections.pop(name).config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def create(self, life: int, name: str) -> None:
        self.list_anew(life, "create", name, {name: StoredFile()})

    def sync(self, life: int, name: str = "", file: StoredFile | None = None) -> None:
        """Sync a file, or the directory."""
        self.begin(life, "sync" if file else "sync directory", name)
        machine: Any = outside.current()
        if self.slow_seconds and hasattr(machine, "late_seconds"):
            machine.late_seconds += self.slow_seconds
        if self.fail_sync(name):
            if file:
                file.unsynced = []
            raise apsw.IOError("the sync failed")  # noqa: EM101, TRY003
        if not self.is_lying:
            self._listings = self._listings if file else [self.files]
            if file:
                file.sync()

    def xOpen(self, name: Any, flags: list[int]) -> "OpenFile":  # noqa: N802 - SQLite's name, as all that begin with x
        """Open a file, or create it."""
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return OpenFile(self, PurePath(path or "").name, flags)

    def xAccess(self, path: str, _flags: int) -> bool:  # noqa: N802
        return PurePath(path).name in self.files

    def xDelete(self, path: str, sync_directory: bool) -> None:  # noqa: N802, FBT001
        name = PurePath(path).name
        self.list_anew(self.crashes, "delete", name, {name: None})
        if sync_directory:
            self.sync(self.crashes)

    def xFullPathname(self, path: str) -> str:  # noqa: N802
        return path


class OpenFile(apsw.VFSFile):
    """A file that SQLite has open. One without a name is temporary."""

    def __init__(self, disk: SimulatedDisk, name: str, flags: list[int]) -> None:
        self.disk: SimulatedDisk = disk
        self.name: str = name
        self.life: int = disk.crashes
        is_new = bool(name) and name not in disk.files
        if is_new and not flags[0] & apsw.SQLITE_OPEN_CREATE:
            raise apsw.CantOpenError(name)
        if is_new:
            disk.create(self.life, name)
        self.file: StoredFile = disk.files[name] if name else StoredFile()
        # As SQLite does on Unix: the first sync of a log or journal is one of its directory too.
        self.is_listed: bool = not flags[0] & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL)
        flags[1] = flags[0]

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self.disk.check_life(self.life)
        if self.disk.fail_read(self.name):
            raise apsw.IOError("the read failed")  # noqa: EM101, TRY003
        return bytes(self.file.data[offset : offset + amount])

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        self.disk.begin(self.life, "write", self.name)
        self.file.change(offset, bytes(data))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self.disk.begin(self.life, "cut", self.name)
        self.file.change(size, None)

    def xSync(self, _flags: int) -> None:  # noqa: N802
        self.disk.sync(self.life, self.name, self.file)
        if not self.is_listed:
            self.disk.sync(self.life)
            self.is_listed = True

    def xFileSize(self) -> int:  # noqa: N802
        return len(self.file.data)

    def xSectorSize(self) -> int:  # noqa: N802
        return 4096

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE  # as SQLite assumes of all disks on Unix

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xFileControl(self, *_: object) -> bool:  # noqa: N802
        return False

    def xLock(self, *_: object) -> None: ...  # noqa: N802 - there is one connection for each file

    def xUnlock(self, *_: object) -> None: ...  # noqa: N802

    def xClose(self) -> None: ...  # noqa: N802
