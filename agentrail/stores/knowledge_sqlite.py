"""`SqliteKnowledge`: knowledge bases in one SQLite file per tenant, searched by words.

A document is `pending` until all its passages are stored. Each word of the index starts with the key of its base.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Final

import apsw
from attrs import evolve

from agentrail.abc.knowledge import (
    ALL_DOCUMENTS,
    MAX_AROUND,
    MAX_DOCUMENT_BYTES,
    MAX_FOUND_PASSAGES,
    DocumentFilter,
    KnowledgeBase,
    KnowledgeDocument,
    Passage,
    check_base_name,
    check_document_tags,
    check_readers,
    check_summary,
    may_read,
)
from agentrail.abc.recall import MemoryOwner, check_limit
from agentrail.errors import OptionError
from agentrail.stores.documents import UnreadDocument, cut_document, read_kb_document
from agentrail.stores.tenant_files import TenantSchema, cut_index_again, list_of
from agentrail.stores.vectors import SqliteCollection, vector_stamp, vector_tables
from agentrail.stores.words import any_of, choose_words, cut_words, indexed, owner_key, query_words

_TABLES: Final = """
CREATE TABLE base (name TEXT PRIMARY KEY, readers TEXT NOT NULL) WITHOUT ROWID, STRICT;
CREATE TABLE document (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    base TEXT NOT NULL REFERENCES base, path TEXT NOT NULL, digest TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,
    passages INTEGER NOT NULL DEFAULT 0,
    UNIQUE (base, path)
) STRICT;
CREATE TABLE passage (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    document INTEGER NOT NULL REFERENCES document, place INTEGER NOT NULL, id TEXT NOT NULL UNIQUE,
    trail TEXT NOT NULL, first_line INTEGER NOT NULL, last_line INTEGER NOT NULL, text TEXT NOT NULL,
    UNIQUE (document, place)
) STRICT;
"""

_INDEX: Final = (
    "CREATE VIRTUAL TABLE words USING fts5(head, body, content='', contentless_delete=1, tokenize='ascii');"
)

_VECTORS: Final = vector_tables("passage")

SCHEMA_OF_KNOWLEDGE: Final = TenantSchema(
    what="knowledge",
    application_id=0x6167746B,  # `agtk`
    version=3,
    tables=_TABLES + _INDEX + _VECTORS,
    upgrades=(_VECTORS, partial(cut_index_again, table=_INDEX, columns=("head", "body"))),
)

# Created with the first summary, so that existing files need no new version.
_SUMMARIES: Final = """
CREATE TABLE IF NOT EXISTS summary (document INTEGER PRIMARY KEY REFERENCES document, text TEXT NOT NULL) STRICT
"""

# Created with the first tags, for the same reason. Tags are a JSON list and stay when a document changes. The
# trigger also works with an older agentrail.
_TAGS: Final = """
CREATE TABLE IF NOT EXISTS tagged (document INTEGER PRIMARY KEY REFERENCES document, tags TEXT NOT NULL) STRICT;
CREATE TRIGGER IF NOT EXISTS document_removed AFTER DELETE ON document BEGIN DELETE FROM tagged WHERE document = old.number; END;
"""

MAX_DOCUMENT_PATH: Final = 500

_COLUMNS: Final = "p.id, d.base, d.path, p.trail, p.first_line, p.last_line, p.text"

# Documents are a JSON list of numbers. For NULL, `_INSIDE` accepts all.
_PASSAGES: Final = "SELECT number FROM passage WHERE document IN (SELECT value FROM json_each({numbers}))"
_INSIDE: Final = f"(?3 IS NULL OR rowid IN ({_PASSAGES.format(numbers='?3')}))"

_SEARCH: Final = f"""
SELECT {_COLUMNS} FROM (
    SELECT rowid AS number, bm25(words, 2.0, 1.0) AS score FROM words WHERE words MATCH ?1 AND {_INSIDE}
    ORDER BY score, rowid LIMIT ?2
) AS found JOIN passage AS p ON p.number = found.number JOIN document AS d ON d.number = p.document
ORDER BY found.score, p.number
"""  # noqa: S608 - constants

_NUMBERED: Final = f"""
SELECT {_COLUMNS} FROM json_each(?) AS wanted JOIN passage AS p ON p.number = wanted.value
JOIN document AS d ON d.number = p.document ORDER BY wanted.key
"""  # noqa: S608 - constants

_COUNT: Final = f"SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ?1 AND {_INSIDE} LIMIT ?2)"  # noqa: S608 - constants
_NO_BOUND: Final = -1
_MAX_BASES: Final = 16
"""Limit on bases per search. A user who may read more has to name one."""


class SqliteKnowledge(SqliteCollection):
    """Knowledge bases in a directory. See `KnowledgeStore` for the contract of each call."""

    _SCHEMA: ClassVar = SCHEMA_OF_KNOWLEDGE
    _ROWS: ClassVar = "passage"
    _PARTS: ClassVar = "r.trail, r.text"

    @staticmethod
    def _joined(parts: Sequence[str]) -> str:
        trail, text = parts
        return "\n".join([*list_of(trail), text])

    # --- for maintainers of a base

    def open_base(self, tenant: str, base: str, readers: Iterable[str] | None = None) -> None:
        """Create a base, or change its readers. See `KnowledgeStore.open_base`."""
        name = check_base_name(base)
        given = None if readers is None else json.dumps(check_readers(readers))
        with self._files.of(tenant).writing() as connection:
            connection.execute("INSERT OR IGNORE INTO base VALUES (?, '[]')", (name,))
            if given is not None:
                connection.execute("UPDATE base SET readers = ? WHERE name = ?", (given, name))

    def announce(self, tenant: str, base: str, documents: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Register documents as pending. See `KnowledgeStore.announce`."""
        waiting: list[str] = []
        with self._writing(tenant, base) as connection:
            for path, digest in documents:
                row = connection.execute(
                    "SELECT digest, state FROM document WHERE base = ? AND path = ?",
                    (base, _checked_path(path)),
                ).fetchone()
                if row != (digest, "indexed"):
                    _note(connection, base, KnowledgeDocument(path=path, digest=digest, state="pending"))
                    waiting.append(path)
        return tuple(waiting)

    def add(self, tenant: str, base: str, path: str, content: bytes) -> KnowledgeDocument:
        """Split a document into passages and index them. See `KnowledgeStore.add`."""
        digest = hashlib.sha256(content).hexdigest()
        try:
            document = read_kb_document(_checked_path(path), content, MAX_DOCUMENT_BYTES)
        except UnreadDocument as error:
            failed = KnowledgeDocument(path=path, digest=digest, state="failed", reason=str(error))
            return self._fail(tenant, base, failed)
        pieces = cut_document(document)
        # Page numbers are stored as negative numbers, so that no column for the unit is needed.
        sign = -1 if document.pages else 1
        added = KnowledgeDocument(path=path, digest=digest, state="indexed", passages=len(pieces))
        key = owner_key("base", base)
        with self._writing(tenant, base) as connection:
            number = _note(connection, base, added)
            _drop_passages(connection, number)
            connection.execute("UPDATE document SET passages = ? WHERE number = ?", (len(pieces), number))
            for place, piece in enumerate(pieces):
                lines = sign * piece.first, sign * piece.last
                passage_id = f"p-{owner_key(base, path, digest, str(place))[:16]}"
                connection.execute(
                    "INSERT INTO passage (document, place, id, trail, first_line, last_line, text) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (number, place, passage_id, json.dumps(piece.trail), *lines, piece.text),
                )
                head = " ".join((*piece.headings, path))
                words = [indexed(key, cut_words(text)) for text in (head, piece.text)]
                row = connection.last_insert_rowid(), *words
                connection.execute("INSERT INTO words (rowid, head, body) VALUES (?, ?, ?)", row)
            return evolve(added, tags=_tags_of(connection, number))

    def fail(self, tenant: str, base: str, path: str, reason: str) -> KnowledgeDocument:
        """Record that a document could not be fetched. See `KnowledgeStore.fail`."""
        failed = KnowledgeDocument(path=_checked_path(path), digest="", state="failed", reason=reason)
        return self._fail(tenant, base, failed)

    def _fail(self, tenant: str, base: str, failed: KnowledgeDocument) -> KnowledgeDocument:
        with self._writing(tenant, base) as connection:
            number = _note(connection, base, failed)
            _drop_passages(connection, number)
            return evolve(failed, tags=_tags_of(connection, number))

    def tag(self, tenant: str, base: str, paths: Sequence[str], tags: Iterable[str]) -> int:
        """Set the tags of documents. See `KnowledgeStore.tag`."""
        given = json.dumps(check_document_tags(tags))
        with self._writing(tenant, base) as connection:
            connection.execute(_TAGS)
            connection.execute(
                """INSERT OR REPLACE INTO tagged SELECT number, ?1 FROM document
                WHERE base = ?2 AND path IN (SELECT value FROM json_each(?3))""",
                (given, base, json.dumps([*map(_checked_path, paths)])),
            )
            return connection.changes()

    def remove(self, tenant: str, base: str, path: str) -> bool:
        """Remove a document. See `KnowledgeStore.remove`."""
        return self.remove_all(tenant, base, [path]) > 0

    def remove_all(self, tenant: str, base: str, paths: Iterable[str]) -> int:
        """Remove documents in one transaction, and return how many existed. The index is rewritten once, not for each of them."""
        file = self._files.of(tenant)
        if not file.exists():
            return 0
        statement = "SELECT number FROM document WHERE base = ? AND path IN (SELECT value FROM json_each(?))"
        with file.writing() as connection:
            numbers: list[Any] = connection.execute(statement, (base, json.dumps([*paths]))).fetchall()
            for (number,) in numbers:
                _drop_passages(connection, number)
                connection.execute("DELETE FROM document WHERE number = ?", (number,))
            if numbers:
                connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        if numbers:
            file.empty_log()
        return len(numbers)

    def documents(
        self, tenant: str, base: str, within: DocumentFilter = ALL_DOCUMENTS
    ) -> tuple[KnowledgeDocument, ...]:
        """Return the documents of a base. See `KnowledgeStore.documents`."""
        with self._files.of(tenant).reading() as connection:
            return () if connection is None else _documents_of(connection, base, within)

    def beginning(self, tenant: str, base: str, path: str, *, most: int = 8_000) -> str:
        """Return the beginning of a document. See `KnowledgeStore.beginning`."""
        statement = """SELECT p.text FROM passage AS p JOIN document AS d ON d.number = p.document
            WHERE d.base = ? AND d.path = ? ORDER BY p.place LIMIT ?"""
        with self._files.of(tenant).reading() as connection:
            if connection is None or most < 1:
                return ""
            # A passage has at least one character, and there is an empty line between two of them.
            texts = [text for (text,) in connection.execute(statement, (base, path, most))]
        return "\n\n".join(texts)[:most]

    def summarize(self, tenant: str, base: str, path: str, digest: str, summary: str) -> bool:
        """Store a one-line summary of a document. See `KnowledgeStore.summarize`."""
        line = check_summary(summary)
        with self._writing(tenant, base) as connection:
            number = connection.execute(
                "SELECT number FROM document WHERE base = ? AND path = ? AND digest = ? AND state = 'indexed'",
                (base, path, digest),
            ).get
            if number is not None:
                connection.execute(_SUMMARIES)
                connection.execute("INSERT OR REPLACE INTO summary VALUES (?, ?)", (number, line))
        return number is not None

    # --- for readers

    def bases(self, reader: MemoryOwner) -> tuple[KnowledgeBase, ...]:
        """Return the bases that a user may read. See `KnowledgeStore.bases`."""
        with self._files.of(reader.tenant).reading() as connection:
            return () if connection is None else _bases_for(connection, reader)

    def readable(
        self, reader: MemoryOwner, base: str, within: DocumentFilter = ALL_DOCUMENTS
    ) -> tuple[KnowledgeDocument, ...]:
        """Return the searchable documents of a base. See `KnowledgeStore.readable`."""
        with self._files.of(reader.tenant).reading() as connection:
            there = [] if connection is None else [one.name for one in _bases_for(connection, reader)]
            if connection is None or base not in there:
                raise OptionError([_fault_of_base(base, there)])
            return tuple([one for one in _documents_of(connection, base, within) if one.state == "indexed"])

    def search(
        self,
        reader: MemoryOwner,
        query: str,
        base: str = "",
        within: DocumentFilter = ALL_DOCUMENTS,
        *,
        limit: int = 8,
    ) -> tuple[Passage, ...]:
        """Return passages that match a query. See `KnowledgeStore.search`."""
        check_limit(limit, MAX_FOUND_PASSAGES)
        words = query_words(query)
        with self._files.of(reader.tenant).reading() as connection:
            asked = _asked_for(() if connection is None else _bases_for(connection, reader), base)
            if connection is None:
                return ()
            asked, numbers = _narrowed(connection, asked, within)
            matches = [_match(connection, one, words, numbers) for one in asked]
            match = " OR ".join([f"({one})" for one in matches if one])
            if not match:
                return ()
            return tuple(map(_passage_of, connection.execute(_SEARCH, (match, limit, numbers))))

    def nearest(  # noqa: PLR0913 - same as the port
        self,
        reader: MemoryOwner,
        vector: bytes,
        kind: str,
        base: str = "",
        within: DocumentFilter = ALL_DOCUMENTS,
        *,
        limit: int,
    ) -> tuple[Passage, ...]:
        """Return passages of similar meaning. See `VectorKnowledge.nearest`."""
        with self._files.of(reader.tenant).reading() as connection:
            if connection is None:
                return ()
            asked, numbers = _narrowed(connection, _asked_for(_bases_for(connection, reader), base), within)
            inside: Any = connection.execute(_PASSAGES.format(numbers="?"), (numbers,))
            allowed = None if numbers is None else [number for (number,) in inside]
            near: list[tuple[float, int]] = []
            for one in asked:
                rows = partial(_vectors_of, connection, one.name, kind)
                part = (reader.tenant, one.name, kind)
                near += self._vectors.nearest(
                    vector_stamp(connection), part, vector, rows, limit=limit, allowed=allowed
                )
            near.sort(key=lambda pair: (-pair[0], pair[1]))
            found = json.dumps([number for _, number in near[:limit]])
            return tuple(map(_passage_of, connection.execute(_NUMBERED, (found,))))

    def read(self, reader: MemoryOwner, passage_id: str, *, around: int = 0) -> tuple[Passage, ...]:
        """Return a passage with its neighbours. See `KnowledgeStore.read`."""
        if type(around) is not int or not 0 <= around <= MAX_AROUND:
            raise OptionError([f"around is {around!r:.80}: expected a whole number from 0 to {MAX_AROUND}"])
        with self._files.of(reader.tenant).reading() as connection:
            if connection is None or not passage_id.isascii():
                return ()
            found = connection.execute(
                "SELECT d.number, d.base, p.place FROM passage AS p JOIN document AS d ON d.number = p.document WHERE p.id = ?",
                (passage_id,),
            ).fetchone()
            if found is None or found[1] not in [one.name for one in _bases_for(connection, reader)]:
                return ()
            document, _, place = found
            statement = f"""SELECT {_COLUMNS} FROM passage AS p JOIN document AS d ON d.number = p.document
                WHERE p.document = ? AND p.place BETWEEN ? AND ? ORDER BY p.place"""  # noqa: S608 - constants
            return tuple(
                map(_passage_of, connection.execute(statement, (document, place - around, place + around)))
            )

    @contextmanager
    def _writing(self, tenant: str, base: str) -> Iterator[apsw.Connection]:
        file = self._files.of(tenant)
        if not file.exists():  # a tenant without a base has no file, and none is created
            raise OptionError([_fault_of_base(check_base_name(base), [])])
        with file.writing() as connection:
            if connection.execute("SELECT 1 FROM base WHERE name = ?", (check_base_name(base),)).get is None:
                names = [name for (name,) in connection.execute("SELECT name FROM base ORDER BY name")]
                raise OptionError([_fault_of_base(base, names)])
            yield connection


def _checked_path(path: Any) -> str:
    if not isinstance(path, str) or not 0 < len(path) <= MAX_DOCUMENT_PATH or not path.isprintable():
        fault = f"{path!r:.80} is not a document path: expected 1 to {MAX_DOCUMENT_PATH} printable characters"
        raise OptionError([fault])
    return path


def _fault_of_base(base: str, names: Sequence[str]) -> str:
    there = f"expected one of {', '.join(names)}" if names else "there is none"
    return (
        f"there is no knowledge base {base!r:.80}: {there}"
        if base
        else f"name one of the knowledge bases: {there}"
    )


def _asked_for(bases: Sequence[KnowledgeBase], base: str) -> Sequence[KnowledgeBase]:
    asked = [one for one in bases if base in ("", one.name)]
    if (base and not asked) or len(asked) > _MAX_BASES:
        raise OptionError([_fault_of_base(base, [one.name for one in bases])])
    return asked


def _narrowed(
    connection: apsw.Connection, bases: Sequence[KnowledgeBase], within: DocumentFilter
) -> tuple[Sequence[KnowledgeBase], str | None]:
    if within == ALL_DOCUMENTS:
        return bases, None
    tags = _column_of(connection, "tagged", "tags")
    statement = f"SELECT number, path, passages, {tags} FROM document WHERE base = ? AND passages > 0"  # noqa: S608 - constants
    narrowed: list[KnowledgeBase] = []
    numbers: list[int] = []
    for base in bases:
        rows: list[Any] = connection.execute(statement, (base.name,)).fetchall()
        inside = [row for row in rows if within.passes(row[1], list_of(row[3] or "[]"))]
        if inside:
            narrowed.append(evolve(base, documents=len(inside), passages=sum(row[2] for row in inside)))
            numbers += [row[0] for row in inside]
    return narrowed, json.dumps(numbers)


def _vectors_of(connection: apsw.Connection, base: str, kind: str) -> Sequence[tuple[int, bytes]]:
    statement = """SELECT v.number, v.data FROM document AS d JOIN passage AS p ON p.document = d.number
        JOIN vector AS v ON v.number = p.number WHERE d.base = ? AND v.kind = ?"""
    rows: list[Any] = connection.execute(statement, (base, kind)).fetchall()
    return rows


def _note(connection: apsw.Connection, base: str, document: KnowledgeDocument) -> int:
    return int(
        connection.execute(
            """INSERT INTO document (base, path, digest, state, reason) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (base, path) DO UPDATE SET digest = ?3, state = ?4, reason = ?5 RETURNING number""",
            (base, document.path, document.digest, document.state, document.reason),
        ).get
    )


def _has_table(connection: apsw.Connection, name: str) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (name,)).get)


def _column_of(connection: apsw.Connection, table: str, column: str) -> str:
    if not _has_table(connection, table):
        return "NULL"
    return f"(SELECT {column} FROM {table} WHERE document = number)"  # noqa: S608 - constants


def _tags_of(connection: apsw.Connection, document: int) -> tuple[str, ...]:
    tags = _column_of(connection, "tagged", "tags")
    kept = connection.execute(f"SELECT {tags} FROM document WHERE number = ?", (document,)).get  # noqa: S608 - constants
    return list_of(kept or "[]")


def _documents_of(
    connection: apsw.Connection, base: str, within: DocumentFilter
) -> tuple[KnowledgeDocument, ...]:
    line, tagged = _column_of(connection, "summary", "text"), _column_of(connection, "tagged", "tags")
    statement = f"""SELECT path, digest, state, reason, passages, coalesce({line}, ''), coalesce({tagged}, '[]')
        FROM document WHERE base = ? ORDER BY path"""  # noqa: S608 - constants
    names = ("path", "digest", "state", "reason", "passages", "summary")
    rows: Iterable[Any] = connection.execute(statement, (base,))
    found = [
        KnowledgeDocument(**dict(zip(names, row, strict=True)), tags=list_of(tags)) for *row, tags in rows
    ]
    return tuple([one for one in found if within.passes(one.path, one.tags)])


def _drop_passages(connection: apsw.Connection, document: int) -> None:
    if _has_table(connection, "summary"):
        connection.execute("DELETE FROM summary WHERE document = ?", (document,))
    connection.execute(
        "DELETE FROM words WHERE rowid IN (SELECT number FROM passage WHERE document = ?)", (document,)
    )
    connection.execute("DELETE FROM passage WHERE document = ?", (document,))
    connection.execute("UPDATE document SET passages = 0 WHERE number = ?", (document,))


def _bases_for(connection: apsw.Connection, reader: MemoryOwner) -> tuple[KnowledgeBase, ...]:
    rows = connection.execute(
        """SELECT b.name, b.readers, count(d.number) FILTER (WHERE d.state = 'indexed'), coalesce(sum(d.passages), 0)
        FROM base AS b LEFT JOIN document AS d ON d.base = b.name GROUP BY b.name ORDER BY b.name"""
    )
    found = [
        KnowledgeBase(name=name, readers=list_of(readers), documents=documents, passages=passages)
        for name, readers, documents, passages in rows
    ]
    return tuple([base for base in found if may_read(base.readers, reader)])


def _match(
    connection: apsw.Connection, base: KnowledgeBase, words: Sequence[str], numbers: str | None
) -> str:
    key = owner_key("base", base.name)

    def count(word: str, most: int | None) -> int:
        match = any_of("head body", key, [word])
        return int(connection.execute(_COUNT, (match, _NO_BOUND if most is None else most, numbers)).get)

    chosen = choose_words(words, count, base.passages)
    return any_of("head body", key, chosen) if chosen else ""


def _passage_of(row: Any) -> Passage:
    passage_id, base, path, trail, first_line, last_line, text = row
    headings: Any = list_of(trail)
    return Passage(
        id=passage_id,
        base=base,
        path=path,
        trail=headings,
        first_line=abs(first_line),
        last_line=abs(last_line),
        text=text,
        unit="line" if first_line > 0 else "page",
    )
