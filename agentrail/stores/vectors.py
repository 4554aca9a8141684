"""Collections of rows with vectors, in tenant files. numpy is loaded with the first comparison."""

import importlib
import importlib.util
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import apsw
from attrs import frozen

from agentrail.distribution import install_command
from agentrail.stores.data_directory import checked_path
from agentrail.stores.sqlite_connections import DamagedStoreError
from agentrail.stores.tenant_files import TenantFiles, TenantSchema

MAX_CACHED_BYTES: Final = 128 << 20
"""Limit on vectors in memory per store, in bytes. A larger part is read again for each search."""


def vector_tables(rows: str) -> str:
    """Return the tables for the vectors of another table, whose deletions they follow."""
    return f"""
CREATE TABLE vector (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, data BLOB NOT NULL) STRICT;
-- Says whether vectors in memory are still those of the file, which any process may write.
CREATE TABLE vector_change (stamp INTEGER NOT NULL) STRICT;
INSERT INTO vector_change VALUES (0);
CREATE TRIGGER vector_added AFTER INSERT ON vector BEGIN UPDATE vector_change SET stamp = stamp + 1; END;
CREATE TRIGGER vector_removed AFTER DELETE ON vector BEGIN UPDATE vector_change SET stamp = stamp + 1; END;
CREATE TRIGGER {rows}_removed AFTER DELETE ON {rows} BEGIN DELETE FROM vector WHERE number = old.number; END;
"""  # noqa: S608 - the name of our own table


def has_numpy() -> bool:
    return importlib.util.find_spec("numpy") is not None


def no_numpy() -> str:
    return f"an embedder needs numpy to compare vectors: {install_command('embeddings')}"


@frozen
class _Loaded:
    stamp: object
    numbers: Any
    matrix: Any


class VectorCache:
    """Vectors as matrices, one for each searched part of a file. Thread-safe."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._loaded: OrderedDict[tuple[str, ...], _Loaded] = OrderedDict()
        self._drops = 0

    def nearest(  # noqa: PLR0913 - a part, and the query
        self,
        stamp: object,
        part: tuple[str, ...],
        vector: bytes,
        rows: Callable[[], Sequence[tuple[int, bytes]]],
        *,
        limit: int,
        allowed: Sequence[int] | None = None,
    ) -> list[tuple[float, int]]:
        """Return the nearest rows of a part with their similarity, from 1 down to 0 exclusive.

        Vectors in memory are those of an equal stamp, which is read before the rows: if these are newer, the next search reads them again.
        """
        found = self._of(stamp, part, rows, len(vector))
        if found is None:
            return []
        numpy = importlib.import_module("numpy")
        # Not `@`, which uses a library with its own threads: next to other work they wait for each other [20
        # ms instead of 0.35].
        scores = numpy.vecdot(found.matrix, numpy.frombuffer(vector, dtype="<f4"))
        if allowed is not None:
            scores = numpy.where(numpy.isin(found.numbers, numpy.array(allowed, dtype="i8")), scores, 0.0)
        # Partitioned first: sorting ten thousand takes as long as all the rest.
        best = numpy.argpartition(-scores, limit - 1)[:limit] if limit < len(scores) else range(len(scores))
        pairs = [(float(scores[place]), int(found.numbers[place])) for place in best]
        return sorted([pair for pair in pairs if pair[0] > 0], key=lambda pair: (-pair[0], pair[1]))

    def drop(self) -> None:
        """Drop all vectors, because forgotten ones may be among them."""
        with self._turn:
            self._loaded.clear()
            self._drops += 1

    def _of(
        self,
        stamp: object,
        part: tuple[str, ...],
        rows: Callable[[], Sequence[tuple[int, bytes]]],
        size: int,
    ) -> _Loaded | None:
        if stamp is None:
            return None
        with self._turn:
            found = self._loaded.get(part)
            if found is not None and found.stamp == stamp:
                self._loaded.move_to_end(part)
                return found
            drops = self._drops
        read = [row for row in rows() if len(row[1]) == size]
        if not read:
            return None
        numpy = importlib.import_module("numpy")
        numbers = numpy.array([number for number, _ in read], dtype="i8")
        matrix = numpy.frombuffer(b"".join([data for _, data in read]), dtype="<f4").reshape(len(read), -1)
        loaded = _Loaded(stamp, numbers, matrix)
        with self._turn:
            if drops == self._drops:  # otherwise forgotten rows may be among these
                self._loaded[part] = loaded
            while self._loaded and sum(one.matrix.nbytes for one in self._loaded.values()) > MAX_CACHED_BYTES:
                self._loaded.popitem(last=False)
        return loaded


def vector_stamp(connection: apsw.Connection) -> int | None:
    """Return a number that changes with the vectors of a file. None for a file of an older version without later writes."""
    if not connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'vector_change'").get:
        return None
    stamp: int | None = connection.execute("SELECT stamp FROM vector_change").get
    if stamp is None:
        message = "the stamp of the vectors is missing"
        raise DamagedStoreError(message)
    return stamp


class SqliteCollection:
    """Texts of owners with a vector per text, in one SQLite file per tenant."""

    _SCHEMA: ClassVar[TenantSchema]
    _ROWS: ClassVar[str]
    """The table of the texts."""
    _PARTS: ClassVar[str]
    """The columns whose text is embedded."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Create the object without opening files, which come with the first entry.

        Raises:
            StoreUnavailable: The installed SQLite is too old to be safe.
        """
        self._files = TenantFiles(checked_path("directory", directory), self._SCHEMA)
        self._vectors = VectorCache()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({os.fspath(self._files.directory)!r})"

    def path_of(self, tenant: str) -> Path:
        """Return the path of a tenant's file, which may not exist yet."""
        return self._files.of(tenant).path

    @staticmethod
    def _joined(parts: Sequence[str]) -> str:
        raise NotImplementedError

    def without_vectors(self, tenant: str, kind: str, *, limit: int) -> tuple[tuple[int, str], ...]:
        """Return texts without a vector. See `VectorKeeper.without_vectors`."""
        file = self._files.of(tenant)
        if not file.path.exists():
            return ()
        with file.writing() as connection:  # also upgrades an older file
            rows: list[Any] = connection.execute(
                f"""SELECT r.number, {self._PARTS} FROM {self._ROWS} AS r LEFT JOIN vector AS v ON v.number = r.number
                WHERE v.kind IS NOT ? LIMIT ?""",  # noqa: S608 - constants
                (kind, limit),
            ).fetchall()
            return tuple([(int(number), self._joined(parts)) for number, *parts in rows])

    def put_vectors(self, tenant: str, kind: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        """Store vectors of texts that still exist. See `VectorKeeper.put_vectors`."""
        statement = f"INSERT OR REPLACE INTO vector SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM {self._ROWS} WHERE number = ?1)"  # noqa: S608 - a constant
        with self._files.of(tenant).writing() as connection:
            connection.executemany(statement, [(number, kind, data) for number, data in vectors])

    def close(self) -> None:
        """Close all files. Can be called repeatedly. Running reads and writes finish first."""
        self._files.close()
