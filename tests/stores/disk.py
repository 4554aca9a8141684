"""A disk below SQLite that does what a test tells it to: a file system of apsw's, in front of the real one."""

import itertools
from pathlib import Path

import apsw

NUMBERS = itertools.count()


class Disk(apsw.VFS):
    """Hands all on to the real disk, but for what is switched on; `name` is for `SqliteStore(vfs=…)`.

    `fail_sync` and `fail_read` are asked with the name of a file, `is_full` refuses writes, and `is_quick` syncs nothing. `used` has
    each write and sync by the number of its handle, `failed` the handles of failed syncs, `durable` what a power cut leaves of a file.
    """

    def __init__(self, *, is_quick=False):
        self.name = f"disk-{next(NUMBERS)}"
        self.fail_sync = lambda name: False
        self.fail_read = lambda name: False
        self.is_full = False
        self.is_quick = is_quick
        self.used = []
        self.failed = set()
        self.durable = {}
        super().__init__(self.name, "")

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        return DiskFile(self, name, flags)


class DiskFile(apsw.VFSFile):
    def __init__(self, disk, name, flags):
        self.disk = disk
        self.number = next(NUMBERS)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self.path = path
        self.name = Path(path or "").name
        super().__init__("", name, flags)

    def xSync(self, flags):  # noqa: N802 - SQLite's name
        self.disk.used.append((self.number, self.name, "sync"))
        if self.disk.fail_sync(self.name):
            self.disk.failed.add(self.number)
            message = "the sync failed"
            raise apsw.IOError(message)
        if not self.disk.is_quick:
            super().xSync(flags)
            self.disk.durable[self.name] = Path(self.path).read_bytes()

    def xRead(self, amount, offset):  # noqa: N802 - SQLite's name
        if self.disk.fail_read(self.name):
            message = "the read failed"
            raise apsw.IOError(message)
        return super().xRead(amount, offset)

    def xWrite(self, data, offset):  # noqa: N802 - SQLite's name
        self.disk.used.append((self.number, self.name, "write"))
        if self.disk.is_full:
            message = "no space is left"
            raise apsw.FullError(message)
        super().xWrite(data, offset)
