"""`SqliteStore` on a `SimulatedDisk`, in one thread and without a real file.

    disk = SimulatedDisk(Tape(7), "node-0")
    with simulated_files():
        store = open_disk_store(disk)
        disk.crash()
        store = open_disk_store(disk)

Stores of other paths are not affected.
"""

import errno
import io
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path, PurePath
from typing import Any, ClassVar, cast

import apsw
from attrs import evolve

from agentrail import outside
from agentrail.errors import AgentrailError, StoreInUse, StoreUnavailable
from agentrail.runtime import persistence
from agentrail.runtime.witness import Witness
from agentrail.stores import sqlite, sqlite_damage
from agentrail.stores.data_directory import no_store_at
from agentrail.stores.sqlite_connections import connect, forget
from agentrail.stores.sqlite_files import lock_path
from agentrail.testing.faulty_store import CutStore
from agentrail.testing.seams import around, wrapped
from agentrail.testing.simulation.disk import SimulatedDisk
from agentrail.testing.simulation.facts import StoreCall
from agentrail.testing.simulation.log import LifeLog
from agentrail.testing.simulation.machine import NodeMachine
from agentrail.testing.simulation.store_calls import named_arguments, sentence_of, session_of


def open_disk_store(disk: SimulatedDisk, name: str = "sessions.db", **options: Any) -> sqlite.SqliteStore:
    """Open a store for a process that starts now, with options of `SqliteStore`. Only within `simulated_files()`."""
    path = disk_path(disk) / name
    connection = partial(_connect, disk, disk.crashes)
    return sqlite.SqliteStore(path, vfs=disk.name, connect=connection, mounts=str, **options)


def disk_path(disk: SimulatedDisk) -> "DiskPath":
    """Return the directory for a process that starts now. After a crash it changes nothing any more."""
    kind = type("DiskPath", (DiskPath,), {"disk": disk, "life": disk.crashes})
    return cast("DiskPath", kind(f"/{disk.place}"))


def simulated_files() -> AbstractContextManager[None]:
    """Let stores keep files that SQLite does not open for them on the disk of their path."""
    return wrapped(
        [
            (sqlite, "check_place", _on_disks(lambda *_, **__: None)),
            (sqlite, "WriteLock", _on_disks(_Lock)),
            (sqlite, "sync_directory", _on_disks(DiskPath.sync)),
            (sqlite_damage, "sync_directory", _on_disks(DiskPath.sync)),
            (sqlite_damage, "sync_file", _on_disks(DiskPath.sync)),
            (sqlite_damage, "read_regular", _on_disks(lambda path, most: path.read_bytes()[:most])),
            (shutil, "copyfile", _on_disks(lambda a, b: b.write_bytes(a.read_bytes()))),
        ]
    )


def _on_disks(simulated: Callable[..., Any]) -> Callable[[Any], Any]:
    def call(real: Any, path: Any, *args: Any, **options: Any) -> Any:
        return (simulated if isinstance(path, DiskPath) else real)(path, *args, **options)

    return around(call)


class LoggedStore(CutStore):
    """Passes each call on, and logs it like the model store does. A call that failed may have taken effect nevertheless."""

    path = None  # next to a file nodes look for processes of earlier ones, and a world has no processes

    def __init__(self, store: Any, log: LifeLog) -> None:
        super().__init__(store)
        self._log = log

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        if getattr(outside.current(), "is_dead", False):
            message = "the process has ended"
            raise StoreUnavailable(message)
        call = StoreCall(name, named_arguments(name, args, options))
        try:
            call = evolve(call, answer=self._execute(name, *args, **options))
        except StoreUnavailable:
            call = evolve(call, trouble="away")
            raise
        except AgentrailError as error:
            call = evolve(call, answer=error)
            raise
        finally:
            self._log.note("store", sentence_of(call), session=session_of(call), facts=call)
        return call.answer


# --- connections: SQLite shares no memory between two of a file here, so each has its file alone, and readers use that of
# the writer. No call of a store interrupts another one.


def _connect(disk: SimulatedDisk, life: int, uri: str, flags: int, vfs: str | None) -> apsw.Connection:
    disk.check_life(life)
    if "immutable" in uri:
        return connect(uri, flags, vfs)
    if flags & apsw.SQLITE_OPEN_READONLY:
        return cast("apsw.Connection", _Reader(partial(_shared, disk, life, uri.partition("?")[0])))
    return _open_alone(disk, uri)


def _open_alone(disk: SimulatedDisk, uri: str) -> apsw.Connection:
    name = PurePath(uri).name
    if name in disk.connections:
        forget(disk.connections[name])
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    connection = disk.connections[name] = _Alone(uri, flags=flags, vfs=disk.name)
    connection.disk = disk
    connection.pragma("locking_mode", "exclusive")
    return connection


def _shared(disk: SimulatedDisk, life: int, uri: str) -> apsw.Connection:
    disk.check_life(life)
    return disk.connections.get(PurePath(uri).name) or _open_alone(disk, uri)


class _Alone(apsw.Connection):
    disk: SimulatedDisk

    def close(self, force: bool = False) -> None:  # noqa: FBT001, FBT002
        self.disk.connections = {name: one for name, one in self.disk.connections.items() if one is not self}
        super().close(force)


class _Reader:
    """A connection that reads through another one, which it does not close."""

    def __init__(self, shared: Callable[[], apsw.Connection]) -> None:
        self._shared = shared

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shared(), name)

    def config(self, *_: object) -> None: ...

    def close(self, *_: object) -> None: ...


# --- paths


@contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        number = errno.ENOSPC if isinstance(error, apsw.FullError) else errno.EIO
        raise OSError(number, str(error)) from error


class DiskPath(type(Path())):  # type: ignore[misc] # the class of paths of this system
    """A path on a disk. Each life of its machine has a subclass."""

    disk: ClassVar[SimulatedDisk]
    life: ClassVar[int]

    def resolve(self, **_: object) -> "DiskPath":
        return self

    def absolute(self) -> "DiskPath":
        return self

    def stat(self, **_: object) -> os.stat_result:
        if self.is_dir():
            return os.stat_result((stat.S_IFDIR | 0o700, 0, 0, 1, 0, 0, 0, 0, 0, 0))
        if self.name not in self.disk.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        file = self.disk.files[self.name]
        return os.stat_result((stat.S_IFREG | 0o600, file.number, 0, 1, 0, 0, len(file.data), 0, 0, 0))

    def is_dir(self, **_: object) -> bool:
        return bool(self.parent == self.parent.parent)

    def is_file(self, **_: object) -> bool:
        return self.name in self.disk.files

    def exists(self, **_: object) -> bool:
        return self.is_dir() or self.is_file()

    def iterdir(self) -> Iterator["DiskPath"]:
        return (self / name for name in sorted(self.disk.files))

    def chmod(self, *_: object, **__: object) -> None: ...

    def mkdir(self, *_: object, **__: object) -> None: ...

    @_as_os_error()
    def touch(self, *_: object, exist_ok: bool = True) -> None:
        if not self.exists():
            self.disk.create(self.life, self.name)
        elif not exist_ok:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self))

    @_as_os_error()
    def unlink(self, *, missing_ok: bool = False) -> None:
        if self.exists() or not missing_ok:
            self.stat()
            self.disk.list_anew(self.life, "delete", self.name, {self.name: None})

    @_as_os_error()
    def rename(self, target: Any) -> Any:
        self.stat()
        file = self.disk.files[self.name]
        self.disk.list_anew(self.life, "rename", self.name, {self.name: None, target.name: file})
        return target

    def open(self, mode: str = "r", buffering: int = -1, *text: Any, **options: Any) -> Any:
        del buffering
        if "w" in mode:
            self.touch()
        self.stat()
        opened = _OpenBytes(self, mode)
        return opened if "b" in mode else io.TextIOWrapper(opened, *text, **options)

    @_as_os_error()
    def sync(self) -> None:
        """Sync the file, or the directory."""
        self.disk.sync(self.life, self.name, None if self.is_dir() else self.disk.files[self.name])


class _OpenBytes(io.BytesIO):
    def __init__(self, path: DiskPath, mode: str) -> None:
        self._path, self._file = path, path.disk.files[path.name]
        self._is_changed = mode.strip("bt") != "r"
        super().__init__(b"" if "w" in mode else self._file.data)

    @_as_os_error()
    def close(self) -> None:
        try:
            if self._is_changed and not self.closed:
                self._path.disk.begin(self._path.life, "write", self._path.name)
                self._file.change(0, self.getvalue())
                if len(self._file.data) > len(self.getvalue()):
                    self._file.change(len(self.getvalue()), None)
        finally:  # as a file of the system: it would be closed once more by the garbage collector
            super().close()


class _Lock:
    """The lock of a running process, in the place of `WriteLock`. A crash releases it."""

    def __init__(self, store: DiskPath, *, since_ms: int) -> None:
        self.path: Path = lock_path(store)
        self._locks = store.disk.locks
        if self._locks.setdefault(self.path.name, self) is not self:
            message = f"the store {os.fspath(store)!r} is written by another process"
            raise StoreInUse(message, pid=None)
        try:
            self.path.write_bytes(b'{"pid": 0, "since_ms": %d, "agentrail": "writes the store"}\n' % since_ms)
        except OSError as error:
            self.release()
            raise no_store_at(store, str(error)) from error

    def release(self) -> None:
        if self._locks.get(self.path.name) is self:
            del self._locks[self.path.name]


def simulated_witnesses() -> AbstractContextManager[None]:
    """Let each node keep its witness on its own computer."""
    return wrapped([(persistence, "Witness", lambda _: SimulatedWitness)])


class SimulatedWitness(Witness):
    """An entry in `NodeMachine.witnesses`. As the kernel does, a computer frees its lock when the process ends, and only then."""

    def __init__(self, directory: Path, node: str) -> None:
        """Create the witness of the current machine. Nothing is opened."""
        super().__init__(directory, node)
        machine = outside.current()
        assert isinstance(machine, NodeMachine)
        self._machine = machine

    def find_ended(self) -> tuple[str, ...]:
        """See `Witness`. A stopped node keeps its lock."""
        return tuple(node for node, owner in self._machine.witnesses.items() if owner.has_ended)

    def forget(self, nodes: Iterable[str]) -> None:
        """See `Witness`."""
        for node in nodes:
            self._machine.witnesses.pop(node, None)

    def open(self) -> None:
        """See `Witness`. A process that was killed meanwhile opens nothing."""
        if not self._machine.has_ended:
            self._machine.witnesses[self._node] = self._machine

    def close(self, *, was_reported: bool) -> None:
        """See `Witness`."""
        if was_reported and not self._machine.has_ended:
            self._machine.witnesses.pop(self._node, None)
