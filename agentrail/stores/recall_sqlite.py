"""`SqliteRecall`: memories in one SQLite file per tenant, ranked by FTS5's BM25.

Each word of the index starts with the key of its owner, so no query can reach another owner's entries.
"""

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import apsw

from agentrail.abc.recall import (
    ANY_TAGS,
    MAX_FOUND,
    MAX_LISTED,
    Forgotten,
    MemoryEntry,
    MemoryOwner,
    TagFilter,
    check_limit,
)
from agentrail.errors import OptionError
from agentrail.stores.sqlite_connections import DamagedStoreError
from agentrail.stores.tenant_files import TenantSchema, cut_index_again, list_of
from agentrail.stores.vectors import SqliteCollection, vector_stamp, vector_tables
from agentrail.stores.words import (
    all_of,
    any_of,
    choose_words,
    cut_words,
    indexed,
    key_of_owner,
    label_of,
    query_words,
)

_TABLES: Final = """
-- Numbers are never given twice: they say which entry was put last.
CREATE TABLE memory (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    own TEXT NOT NULL, id TEXT NOT NULL, at_ms INTEGER NOT NULL, session TEXT NOT NULL, version INTEGER NOT NULL,
    text TEXT NOT NULL, tags TEXT NOT NULL,
    UNIQUE (own, id)
) STRICT;
CREATE INDEX memory_by_time ON memory (own, at_ms, id);
CREATE TABLE owner (own TEXT PRIMARY KEY, entries INTEGER NOT NULL) WITHOUT ROWID, STRICT;
"""

# The texts are in `memory`. Text is split into words before it gets here, so the simplest tokenizer is
# enough.
_INDEX: Final = "CREATE VIRTUAL TABLE words USING fts5(body, tags, labels, content='', contentless_delete=1, tokenize='ascii');"

_VECTORS: Final = vector_tables("memory")

SCHEMA_OF_RECALL: Final = TenantSchema(
    what="memories",
    application_id=0x6167746D,  # `agtm`
    version=3,
    tables=_TABLES + _INDEX + _VECTORS,
    upgrades=(
        _VECTORS,
        partial(cut_index_again, table=_INDEX, columns=("body", "tags", "labels"), kept=("labels",)),
    ),
)

_COLUMNS: Final = "m.id, m.text, m.tags, m.session, m.at_ms, m.version"

_SEARCH: Final = f"""
SELECT {_COLUMNS} FROM (
    SELECT rowid AS number, bm25(words, 1.0, 1.0, 0.0) AS score FROM words WHERE words MATCH ?1 ORDER BY score, rowid DESC LIMIT ?2
) AS found JOIN memory AS m ON m.number = found.number AND m.own = ?3
ORDER BY found.score, m.number DESC
"""  # noqa: S608 - constants

_NUMBERED: Final = f"""
SELECT {_COLUMNS} FROM json_each(?) AS wanted JOIN memory AS m ON m.number = wanted.value WHERE m.own = ? ORDER BY wanted.key
"""  # noqa: S608 - constants

_COUNT: Final = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"

_NO_BOUND: Final = -1
"""SQLite's value for no limit."""


class SqliteRecall(SqliteCollection):
    """Memories in a directory. See `RecallStore` for the contract of each call."""

    is_immediate: Final = False

    _SCHEMA: ClassVar = SCHEMA_OF_RECALL
    _ROWS: ClassVar = "memory"
    _PARTS: ClassVar = "r.text, r.tags"

    @staticmethod
    def _joined(parts: Sequence[str]) -> str:
        text, tags = parts
        return " ".join([text, *list_of(tags)])

    def put(self, owner: MemoryOwner, entry: MemoryEntry) -> None:
        """Store an entry. See `RecallStore.put`."""
        with self._files.of(owner.tenant).writing() as connection:
            _put(connection, key_of_owner(owner), entry)

    def put_all(self, tenant: str, entries: Iterable[tuple[str, MemoryEntry]]) -> None:
        """Store many entries of one tenant, all or none. For an import, which would otherwise wait for the disk at each entry.

        Args:
            tenant: Tenant of the users.
            entries: Pairs of a user and an entry.
        """
        with self._files.of(tenant).writing() as connection:
            for user, entry in entries:
                _put(connection, key_of_owner(MemoryOwner(tenant=tenant, user=user)), entry)

    def get(self, owner: MemoryOwner, entry_id: str) -> MemoryEntry | None:
        """Return one entry. See `RecallStore.get`."""
        with self._files.of(owner.tenant).reading() as connection:
            if connection is None or not entry_id.isascii():
                return None
            statement = f"SELECT {_COLUMNS} FROM memory AS m WHERE m.own = ? AND m.id = ?"  # noqa: S608 - constants
            row = connection.execute(statement, (key_of_owner(owner), entry_id)).fetchone()
            return None if row is None else entry_of_row(row)

    def search(
        self, owner: MemoryOwner, query: str, tags: TagFilter = ANY_TAGS, *, limit: int = 5
    ) -> tuple[MemoryEntry, ...]:
        """Return entries that match a query. See `RecallStore.search`."""
        check_limit(limit, MAX_FOUND)
        words = query_words(query)
        if not words:
            return ()
        own = key_of_owner(owner)
        with self._files.of(owner.tenant).reading() as connection:
            if connection is None:
                return ()

            def count(word: str, most: int | None) -> int:
                match = any_of("body tags", own, [word])
                return int(connection.execute(_COUNT, (match, _NO_BOUND if most is None else most)).get)

            rows = connection.execute("SELECT entries FROM owner WHERE own = ?", (own,)).get or 0
            chosen = choose_words(words, count, rows)
            if not chosen:
                return ()
            match = " AND ".join([any_of("body tags", own, chosen), *_matches_of(own, tags)])
            return tuple(map(entry_of_row, connection.execute(_SEARCH, (match, limit, own))))

    def nearest(
        self, owner: MemoryOwner, vector: bytes, kind: str, tags: TagFilter = ANY_TAGS, *, limit: int
    ) -> tuple[MemoryEntry, ...]:
        """Return entries of similar meaning. See `VectorRecall.nearest`."""
        own = key_of_owner(owner)
        matches = " AND ".join(_matches_of(own, tags))
        with self._files.of(owner.tenant).reading() as connection:
            if connection is None:
                return ()
            rows = partial(_vectors_of, connection, own, kind)
            allowed = None
            if matches:
                wanted = connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (matches,))
                allowed = [int(number) for (number,) in wanted]
            part = (owner.tenant, own, kind)
            near = self._vectors.nearest(
                vector_stamp(connection), part, vector, rows, limit=limit, allowed=allowed
            )
            numbers = json.dumps([number for _, number in near])
            return tuple(map(entry_of_row, connection.execute(_NUMBERED, (numbers, own))))

    def list(
        self,
        owner: MemoryOwner,
        tags: TagFilter = ANY_TAGS,
        *,
        limit: int = 100,
        after: tuple[int, str] | None = None,
    ) -> tuple[MemoryEntry, ...]:
        """Return the newest entries. See `RecallStore.list`."""
        check_limit(limit, MAX_LISTED)
        own = key_of_owner(owner)
        where = "m.own = ?"
        given: list[str | int] = [own]
        if after is not None:
            where, given = f"{where} AND (m.at_ms, m.id) < (?, ?)", [*given, *after]
        matches = _matches_of(own, tags)
        if matches:
            where += " AND m.number IN (SELECT rowid FROM words WHERE words MATCH ?)"
            given.append(" AND ".join(matches))
        statement = (
            f"SELECT {_COLUMNS} FROM memory AS m WHERE {where} ORDER BY m.at_ms DESC, m.id DESC LIMIT ?"  # noqa: S608 - constants
        )
        with self._files.of(owner.tenant).reading() as connection:
            if connection is None:
                return ()
            return tuple(map(entry_of_row, connection.execute(statement, (*given, limit))))

    def delete(self, owner: MemoryOwner, entry_id: str) -> bool:
        """Remove an entry. See `RecallStore.delete`."""
        file = self._files.of(owner.tenant)
        if not file.exists() or not entry_id.isascii():
            return False
        own = key_of_owner(owner)
        with file.writing() as connection:
            is_gone = _remove(connection, own, entry_id)
            if is_gone:
                connection.execute("UPDATE owner SET entries = entries - 1 WHERE own = ?", (own,))
                connection.execute("DELETE FROM owner WHERE own = ? AND entries = 0", (own,))
                _overwrite_words(connection)
        if is_gone:
            self._vectors.drop()
            file.empty_log()
        return is_gone

    def forget(self, owner: MemoryOwner) -> Forgotten:
        """Remove all entries of an owner. See `RecallStore.forget`."""
        file = self._files.of(owner.tenant)
        if not file.exists():
            return Forgotten(entries=0, is_erased=True)
        own = key_of_owner(owner)
        with file.writing() as connection:
            connection.execute(
                "DELETE FROM words WHERE rowid IN (SELECT number FROM memory WHERE own = ?)", (own,)
            )
            connection.execute("DELETE FROM memory WHERE own = ?", (own,))
            entries = connection.changes()
            connection.execute("DELETE FROM owner WHERE own = ?", (own,))
            # Even if there were no entries: an earlier call may have been cut off before its log was emptied.
            _overwrite_words(connection)
        self._vectors.drop()
        return Forgotten(entries=entries, is_erased=file.empty_log())


def _vectors_of(connection: apsw.Connection, own: str, kind: str) -> Sequence[tuple[int, bytes]]:
    statement = "SELECT v.number, v.data FROM memory AS m JOIN vector AS v ON v.number = m.number WHERE m.own = ? AND v.kind = ?"
    rows: list[Any] = connection.execute(statement, (own, kind)).fetchall()
    return rows


def _matches_of(own: str, tags: TagFilter) -> list[str]:
    matches = []
    if tags.any_of:
        matches.append(any_of("labels", own, [*map(label_of, tags.any_of)]))
    if tags.all_of:
        matches.append(all_of("labels", own, [*map(label_of, tags.all_of)]))
    return matches


def _put(connection: apsw.Connection, own: str, entry: MemoryEntry) -> None:
    is_new = not _remove(connection, own, entry.id)
    connection.execute(
        "INSERT INTO memory (own, id, at_ms, session, version, text, tags) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (own, entry.id, entry.at_ms, entry.session, entry.version, entry.text, json.dumps(entry.tags)),
    )
    connection.execute(
        "INSERT INTO words (rowid, body, tags, labels) VALUES (?, ?, ?, ?)",
        (
            connection.last_insert_rowid(),
            indexed(own, cut_words(entry.text)),
            indexed(own, cut_words(" ".join(entry.tags))),
            indexed(own, map(label_of, entry.tags)),
        ),
    )
    if is_new:
        connection.execute(
            "INSERT INTO owner VALUES (?, 1) ON CONFLICT DO UPDATE SET entries = entries + 1", (own,)
        )


def _remove(connection: apsw.Connection, own: str, entry_id: str) -> bool:
    number = connection.execute("SELECT number FROM memory WHERE own = ? AND id = ?", (own, entry_id)).get
    if number is None:
        return False
    connection.execute("DELETE FROM words WHERE rowid = ?", (number,))
    connection.execute("DELETE FROM memory WHERE number = ?", (number,))
    return True


def _overwrite_words(connection: apsw.Connection) -> None:
    """Rewrite the index without deleted entries, and overwrite freed pages."""
    connection.execute("INSERT INTO words (words) VALUES ('optimize')")


def entry_of_row(row: Any) -> MemoryEntry:
    """Return the entry of a row. Damage, unless it can be one."""
    entry_id, text, tags, session, at_ms, version = row
    tags = list_of(tags)
    try:
        return MemoryEntry(id=entry_id, text=text, tags=tags, session=session, at_ms=at_ms, version=version)
    except OptionError as error:
        raise DamagedStoreError(str(error)) from error
