"""Collections of rows with vectors, in files of tenants: their tables, what is still to be made, and which are nearest.

numpy is loaded when the first vectors are compared.
"""

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
from agentrail.stores.tenant_files import TenantFiles, TenantSchema

MAX_CACHED_BYTES: Final = 128 << 20
"""Of vectors in memory, in one store; what has more at once is read anew for each search."""

NUMBER_BYTES: Final = 4
"""Of a float32."""


def vector_tables(rows: str) -> str:
    """Write the tables for vectors beside a table of rows: whatever removes a row removes its vector."""
    return f"""
CREATE TABLE vector (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, data BLOB NOT NULL) STRICT;
-- Says whether vectors in memory are still those of the file, which any process may write.
CREATE TABLE vector_change (stamp INTEGER NOT NULL) STRICT;
INSERT INTO vector_change VALUES (0);
CREATE TRIGGER vector_added AFTER INSERT ON vector BEGIN UPDATE vector_change SET stamp = stamp + 1; END;
CREATE TRIGGER vector_removed AFTER DELETE ON vector BEGIN UPDATE vector_change SET stamp = stamp + 1; END;
CREATE TRIGGER {rows}_removed AFTER DELETE ON {rows} BEGIN DELETE FROM vector WHERE number = old.number; END;
"""  # noqa: S608 - the name of a table of ours


def has_numpy() -> bool:
    """Say whether vectors can be compared here."""
    return importlib.util.find_spec("numpy") is not None


def no_numpy() -> str:
    """Return the message for an embedder without numpy."""
    return f"an embedder needs numpy to compare vectors: {install_command('embeddings')}"


@frozen
class _Loaded:
    stamp: int
    numbers: Any
    matrix: Any


class VectorCache:
    """Vectors as matrices, one for each part of a file that is searched. Threads may share it."""

    def __init__(self) -> None:
        """Begin with none."""
        self._turn = threading.Lock()
        self._loaded: OrderedDict[tuple[str, ...], _Loaded] = OrderedDict()

    def nearest(  # noqa: PLR0913 - a part, and what is wanted of it
        self,
        connection: apsw.Connection,
        part: tuple[str, ...],
        vector: bytes,
        rows: Callable[[], Sequence[tuple[int, bytes]]],
        *,
        limit: int,
        allowed: Sequence[int] | None = None,
    ) -> list[tuple[float, int]]:
        """Give the nearest of a part, the nearest first, with how near each is: from 1 down to 0, which is left out."""
        found = self._of(connection, part, rows, len(vector))
        if found is None:
            return []
        numpy = importlib.import_module("numpy")
        # Not `@`, for which a library starts threads of its own: beside other work they wait for each other [20 ms for 0.35].
        scores = numpy.vecdot(found.matrix, numpy.frombuffer(vector, dtype="<f4"))
        if allowed is not None:
            scores = numpy.where(numpy.isin(found.numbers, numpy.array(allowed, dtype="i8")), scores, 0.0)
        # Partitioned first: to sort ten thousand takes as long as all the rest.
        best = numpy.argpartition(-scores, limit - 1)[:limit] if limit < len(scores) else range(len(scores))
        pairs = [(float(scores[place]), int(found.numbers[place])) for place in best]
        return sorted([pair for pair in pairs if pair[0] > 0], key=lambda pair: (-pair[0], pair[1]))

    def drop(self) -> None:
        """Let go of all: what was forgotten may be among them."""
        with self._turn:
            self._loaded.clear()

    def _of(
        self,
        connection: apsw.Connection,
        part: tuple[str, ...],
        rows: Callable[[], Sequence[tuple[int, bytes]]],
        size: int,
    ) -> _Loaded | None:
        if not connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'vector_change'").get:
            return None  # a file of an older version, to which nothing was written since
        # Before the rows: if they are newer than the stamp, the next search reads them again.
        stamp = int(connection.execute("SELECT stamp FROM vector_change").get)
        with self._turn:
            found = self._loaded.get(part)
            if found is not None and found.stamp == stamp:
                self._loaded.move_to_end(part)
                return found
        read = [row for row in rows() if len(row[1]) == size]
        if not read:
            return None
        numpy = importlib.import_module("numpy")
        numbers = numpy.array([number for number, _ in read], dtype="i8")
        matrix = numpy.frombuffer(b"".join([data for _, data in read]), dtype="<f4").reshape(len(read), -1)
        loaded = _Loaded(stamp, numbers, matrix)
        with self._turn:
            self._loaded[part] = loaded
            while self._loaded and sum(one.matrix.nbytes for one in self._loaded.values()) > MAX_CACHED_BYTES:
                self._loaded.popitem(last=False)
        return loaded


class SqliteCollection:
    """Texts of owners in a directory, a file of SQLite for each tenant, with a vector beside each text."""

    _SCHEMA: ClassVar[TenantSchema]
    _ROWS: ClassVar[str]
    """The table of the texts."""
    _PARTS: ClassVar[str]
    """The columns of which the text of a vector is made."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Open nothing yet: a tenant's file is made with what is kept first.

        Args:
            directory: Where the files are; it is made, for its owner alone, where there is none.

        Raises:
            StoreUnavailable: The SQLite here is too old to be trusted.
        """
        self._files = TenantFiles(Path(directory), self._SCHEMA)
        self._vectors = VectorCache()

    def __repr__(self) -> str:
        """Say where it is."""
        return f"{type(self).__name__}({os.fspath(self._files.directory)!r})"

    def path_of(self, tenant: str) -> Path:
        """Give the file of a tenant, also before there is one."""
        return self._files.of(tenant).path

    @staticmethod
    def _joined(parts: Sequence[str]) -> str:
        """Return the text that a vector is made of, from the values of its columns."""
        raise NotImplementedError

    def without_vectors(self, tenant: str, kind: str, *, limit: int) -> tuple[tuple[int, str], ...]:
        """Give what has no vector; see `VectorKeeper.without_vectors`."""
        file = self._files.of(tenant)
        if not file.path.exists():
            return ()
        with file.writing() as connection:  # which also makes an older file a newer one
            rows: list[Any] = connection.execute(
                f"""SELECT r.number, {self._PARTS} FROM {self._ROWS} AS r LEFT JOIN vector AS v ON v.number = r.number
                WHERE v.kind IS NOT ? LIMIT ?""",  # noqa: S608 - constants
                (kind, limit),
            ).fetchall()
        return tuple([(int(number), self._joined(parts)) for number, *parts in rows])

    def put_vectors(self, tenant: str, kind: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        """Keep vectors beside texts that are still there; see `VectorKeeper.put_vectors`."""
        statement = f"INSERT OR REPLACE INTO vector SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM {self._ROWS} WHERE number = ?1)"  # noqa: S608 - a constant
        with self._files.of(tenant).writing() as connection:
            connection.executemany(statement, [(number, kind, data) for number, data in vectors])

    def close(self) -> None:
        """Let go of all files; again if you like. Who reads or writes has their answer first."""
        self._files.close()
