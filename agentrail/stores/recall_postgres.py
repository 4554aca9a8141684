"""`PostgresRecall`: memories in a database, found by PostgreSQL's text search and ranked by BM25.

The index holds a hash of owner and word in place of each word. So no query can reach another owner's entries, and the encoding of
the database does not matter.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, Final

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
from agentrail.errors import StoreUnavailable
from agentrail.stores.postgres_connections import (
    ConnectionPool,
    PostgresConnection,
    PostgresTables,
    bigints,
    byteas,
)
from agentrail.stores.postgres_rows import PostgresRow, run_statement
from agentrail.stores.recall_memory import BM25_B, BM25_K1, word_weight
from agentrail.stores.recall_sqlite import entry_of_row
from agentrail.stores.sqlite_connections import DamagedStoreError
from agentrail.stores.tenant_files import list_of
from agentrail.stores.vectors import VectorCache
from agentrail.stores.words import choose_words, cut_words, key_of_owner, label_of, owner_key, query_words

_COLUMNS: Final = "m.id, m.text, m.tags, m.session, m.at_ms, m.version"

_PUT: Final = """
INSERT INTO agentrail.memory (tenant, own, id, at_ms, session, version, text, tags, words, size)
VALUES (%b, %b, %b, %b, %b, %b, %b, %b, %b::text::tsvector, %b)
ON CONFLICT (own, id) DO UPDATE SET number = EXCLUDED.number, at_ms = EXCLUDED.at_ms, session = EXCLUDED.session,
    version = EXCLUDED.version, text = EXCLUDED.text, tags = EXCLUDED.tags, words = EXCLUDED.words, size = EXCLUDED.size,
    vector_kind = NULL, vector = NULL
"""

_COUNT: Final = """
SELECT count(*), coalesce(sum(m.size), 0)::bigint, ARRAY(
    SELECT (SELECT count(*) FROM agentrail.memory AS o WHERE o.words @@ w.lexeme::tsquery)
    FROM unnest(%b::text[]) WITH ORDINALITY AS w (lexeme, place) ORDER BY w.place
) FROM agentrail.memory AS m WHERE m.own = %b
"""

_SEARCH: Final = f"""
SELECT {_COLUMNS} FROM agentrail.memory AS m, LATERAL (
    SELECT sum(w.weight * p.positions[1] / (p.positions[1] + {BM25_K1} * ({1 - BM25_B} + {BM25_B} * m.size / %b)) ORDER BY w.lexeme) AS score
    FROM unnest(m.words) AS p (lexeme, positions) JOIN unnest(%b::text[], %b::float8[]) AS w (lexeme, weight) USING (lexeme)
) AS s WHERE m.words @@ %b::text::tsquery ORDER BY s.score DESC, m.number DESC LIMIT %b
"""  # noqa: S608 - constants

_NUMBERED: Final = f"""
SELECT {_COLUMNS} FROM unnest(%b) WITH ORDINALITY AS wanted (number, place) JOIN agentrail.memory AS m USING (number) ORDER BY wanted.place
"""  # noqa: S608 - constants

_MAX_COUNTED: Final = 16_383
"""The highest position in a `tsvector`."""


class PostgresRecall(PostgresTables):
    """Memories in a database. See `RecallStore` for the contract of each call."""

    _WHAT: ClassVar = "memories"

    def __init__(self, pool: ConnectionPool, *, is_lent: bool = True) -> None:
        """Use connections to a database whose tables exist."""
        super().__init__(pool, is_lent=is_lent)
        self._vectors = VectorCache()

    def put(self, owner: MemoryOwner, entry: MemoryEntry) -> None:
        own = key_of_owner(owner)
        words = Counter(cut_words(" ".join([entry.text, *entry.tags])))
        labels = {_tag_lexeme(own, tag): 1 for tag in entry.tags}
        lexemes = {_lexeme(own, word): min(count, _MAX_COUNTED) for word, count in words.items()} | labels
        vector = " ".join([f"{lexeme}:{count}" for lexeme, count in lexemes.items()])
        values = entry.at_ms, entry.session.encode(), entry.version, entry.text.encode()
        tags = json.dumps(entry.tags).encode()
        row = owner_key(owner.tenant).encode(), own.encode(), entry.id.encode(), *values, tags, vector
        self._run(lambda connection: run_statement(connection, _PUT, *row, words.total()))

    def get(self, owner: MemoryOwner, entry_id: str) -> MemoryEntry | None:
        statement = f"SELECT {_COLUMNS} FROM agentrail.memory AS m WHERE m.own = %b AND m.id = %b"  # noqa: S608 - constants
        key = key_of_owner(owner).encode(), entry_id.encode("utf-8", "surrogatepass")
        rows = self._run(lambda connection: run_statement(connection, statement, *key))
        return _entry_of(rows[0]) if rows else None

    def search(
        self, owner: MemoryOwner, query: str, tags: TagFilter = ANY_TAGS, *, limit: int = 5
    ) -> tuple[MemoryEntry, ...]:
        check_limit(limit, MAX_FOUND)
        words, own = query_words(query), key_of_owner(owner)
        lexemes = {word: _lexeme(own, word) for word in words}

        def read(connection: PostgresConnection) -> Sequence[PostgresRow]:
            key = own.encode()
            ((rows, size, found),) = run_statement(connection, _COUNT, [*lexemes.values()], key)
            counts = dict(zip(words, found, strict=True))
            chosen = choose_words(words, lambda word, _: counts[word], rows)
            if not chosen or not size:
                return ()
            given = [lexemes[word] for word in chosen]
            weights = [word_weight(counts[word], rows) for word in chosen]
            asked = " & ".join([_any_of(given), *_queries_of(own, tags)])
            return run_statement(connection, _SEARCH, size / rows, given, weights, asked, limit)

        return tuple(map(_entry_of, self._run(read))) if words else ()

    def nearest(
        self, owner: MemoryOwner, vector: bytes, kind: str, tags: TagFilter = ANY_TAGS, *, limit: int
    ) -> tuple[MemoryEntry, ...]:
        """Return entries of similar meaning. See `VectorRecall.nearest`."""
        own = key_of_owner(owner)
        asked = " & ".join(_queries_of(own, tags))
        part = "FROM agentrail.memory AS m WHERE m.own = %b AND m.vector_kind = %b"
        key = own.encode(), kind.encode()

        def read(connection: PostgresConnection) -> Sequence[PostgresRow]:
            stamp = run_statement(
                connection, f"SELECT count(*), bit_xor(hashint8extended(m.number, 0)) {part}", *key
            )
            allowed = None
            if asked:
                wanted = "SELECT m.number FROM agentrail.memory AS m WHERE m.own = %b AND m.words @@ %b::text::tsquery"
                allowed = [number for (number,) in run_statement(connection, wanted, key[0], asked)]
            near = self._vectors.nearest(
                stamp,
                (own, kind),
                vector,
                lambda: run_statement(connection, f"SELECT m.number, m.vector {part}", *key),
                limit=limit,
                allowed=allowed,
            )
            return run_statement(connection, _NUMBERED, bigints([number for _, number in near]))

        return tuple(map(_entry_of, self._run(read)))

    def without_vectors(self, tenant: str, kind: str, *, limit: int) -> tuple[tuple[int, str], ...]:
        """Return texts without a vector. See `VectorKeeper.without_vectors`."""
        statement = "SELECT number, text, tags FROM agentrail.memory WHERE tenant = %b AND vector_kind IS DISTINCT FROM %b LIMIT %b"
        values = owner_key(tenant).encode(), kind.encode(), limit
        rows = self._run(lambda connection: run_statement(connection, statement, *values))
        with _undamaged():
            return tuple([(number, " ".join([text.decode(), *list_of(tags)])) for number, text, tags in rows])

    def put_vectors(self, tenant: str, kind: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        """Store vectors of texts that still exist. See `VectorKeeper.put_vectors`."""
        statement = """UPDATE agentrail.memory AS m SET vector_kind = %b, vector = v.data
            FROM unnest(%b, %b) AS v (number, data) WHERE m.number = v.number AND m.tenant = %b"""
        numbers, data = bigints([number for number, _ in vectors]), byteas([one for _, one in vectors])
        values = kind.encode(), numbers, data, owner_key(tenant).encode()
        self._run(lambda connection: run_statement(connection, statement, *values))

    def list(
        self,
        owner: MemoryOwner,
        tags: TagFilter = ANY_TAGS,
        *,
        limit: int = 100,
        after: tuple[int, str] | None = None,
    ) -> tuple[MemoryEntry, ...]:
        check_limit(limit, MAX_LISTED)
        own = key_of_owner(owner)
        where, given = "m.own = %b", list[object]([own.encode()])
        if after is not None:
            where, given = f"{where} AND (m.at_ms, m.id) < (%b, %b)", [*given, after[0], after[1].encode()]
        asked = " & ".join(_queries_of(own, tags))
        if asked:
            where, given = f"{where} AND m.words @@ %b::text::tsquery", [*given, asked]
        statement = f"SELECT {_COLUMNS} FROM agentrail.memory AS m WHERE {where} ORDER BY m.at_ms DESC, m.id DESC LIMIT %b"  # noqa: S608 - constants
        rows = self._run(lambda connection: run_statement(connection, statement, *given, limit))
        return tuple(map(_entry_of, rows))

    def delete(self, owner: MemoryOwner, entry_id: str) -> bool:
        return self._remove(" AND id = %b", owner, entry_id.encode("utf-8", "surrogatepass")) > 0

    def forget(self, owner: MemoryOwner) -> Forgotten:
        return Forgotten(entries=self._remove("", owner), is_erased=False)

    def _remove(self, condition: str, owner: MemoryOwner, *values: object) -> int:
        statement = f"DELETE FROM agentrail.memory WHERE own = %b{condition} RETURNING number"  # noqa: S608 - constants
        key = key_of_owner(owner).encode()
        gone = len(self._run(lambda connection: run_statement(connection, statement, key, *values)))
        self._vectors.drop()
        return gone


def _lexeme(own: str, word: str) -> str:
    return label_of(own + word)


def _tag_lexeme(own: str, tag: str) -> str:
    return _lexeme(own, f" {tag}")  # no word contains a space


def _any_of(lexemes: Sequence[str]) -> str:
    return f"({' | '.join(lexemes)})"


def _queries_of(own: str, tags: TagFilter) -> Sequence[str]:
    any_of = [_tag_lexeme(own, tag) for tag in tags.any_of]
    return [*([_any_of(any_of)] if any_of else []), *(_tag_lexeme(own, tag) for tag in tags.all_of)]


def _entry_of(row: PostgresRow) -> MemoryEntry:
    entry_id, text, tags, session, at_ms, version = row
    with _undamaged():
        return entry_of_row((entry_id.decode(), text.decode(), tags, session.decode(), at_ms, version))


@contextmanager
def _undamaged() -> Iterator[None]:
    try:
        yield
    except DamagedStoreError as error:
        message = f"the table agentrail.memory is damaged ({error}): restore a backup"
        raise StoreUnavailable(message) from error
