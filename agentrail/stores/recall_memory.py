"""`InMemoryRecall` and `InMemoryNotes`: memories in dictionaries, for tests and short-lived programs."""

import math
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import count as counter
from operator import mul
from typing import Final

from attrs import frozen

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
from agentrail.stores.words import choose_words, cut_words, query_words

# Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009; the constants are those of SQLite's
# FTS5.
BM25_K1: Final = 1.2
BM25_B: Final = 0.75
_LEAST_IDF: Final = 1e-6


@frozen
class _Row:
    entry: MemoryEntry
    number: int
    words: Counter[str]
    size: int


class InMemoryRecall:
    """Memories in this process. See `RecallStore` for the contract of each call."""

    is_immediate: Final = True

    def __init__(self) -> None:
        """Create an empty store."""
        self._rows: dict[MemoryOwner, dict[str, _Row]] = {}
        self._numbers = counter(1)
        self._vectors: dict[str, dict[int, bytes]] = {}
        self._turn = threading.Lock()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"InMemoryRecall(entries={sum(map(len, self._rows.values()))})"

    def put(self, owner: MemoryOwner, entry: MemoryEntry) -> None:
        """Store an entry. See `RecallStore.put`."""
        words = Counter(cut_words(entry.text))
        words.update(cut_words(" ".join(entry.tags)))
        with self._turn:
            row = _Row(entry, next(self._numbers), words, words.total())
            self._open().setdefault(owner, {})[entry.id] = row

    def get(self, owner: MemoryOwner, entry_id: str) -> MemoryEntry | None:
        """Return one entry. See `RecallStore.get`."""
        with self._turn:
            row = self._open().get(owner, {}).get(entry_id)
        return None if row is None else row.entry

    def search(
        self, owner: MemoryOwner, query: str, tags: TagFilter = ANY_TAGS, *, limit: int = 5
    ) -> tuple[MemoryEntry, ...]:
        """Return entries that match a query. See `RecallStore.search`."""
        check_limit(limit, MAX_FOUND)
        rows = self._rows_of(owner)

        def count(word: str, most: int | None) -> int:
            found = sum(word in row.words for row in rows)
            return found if most is None else min(found, most)

        words = choose_words(query_words(query), count, len(rows))
        weights = {word: word_weight(count(word, None), len(rows)) for word in words}
        # Texts may have no words at all. Then nothing is found, and any size will do.
        size = (sum(row.size for row in rows) / len(rows) if rows else 0.0) or 1.0
        found = [
            (score, row.number, row.entry)
            for row in rows
            if tags.passes(row.entry.tags) and (score := _score(row, weights, size))
        ]
        found.sort(key=lambda one: one[:2], reverse=True)
        return tuple([entry for _, _, entry in found[:limit]])

    def nearest(
        self, owner: MemoryOwner, vector: bytes, kind: str, tags: TagFilter = ANY_TAGS, *, limit: int
    ) -> tuple[MemoryEntry, ...]:
        """Return entries of similar meaning. See `VectorRecall.nearest`. In plain Python, for the few rows of a test."""
        with self._turn:
            kept = dict(self._vectors.get(kind, {}))
        wanted = array("f", vector)
        rows = [row for row in self._rows_of(owner) if row.number in kept and tags.passes(row.entry.tags)]
        scores = [(sum(map(mul, wanted, array("f", kept[row.number]))), row) for row in rows]
        near = sorted([one for one in scores if one[0] > 0], key=lambda one: (-one[0], one[1].number))
        return tuple([row.entry for _, row in near[:limit]])

    def without_vectors(self, tenant: str, kind: str, *, limit: int) -> tuple[tuple[int, str], ...]:
        """Return entries without a vector. See `VectorKeeper.without_vectors`."""
        with self._turn:
            kept = self._vectors.get(kind, {})
            rows = [
                row for owner, own in self._open().items() if owner.tenant == tenant for row in own.values()
            ]
        left = [row for row in rows if row.number not in kept][:limit]
        return tuple([(row.number, " ".join([row.entry.text, *row.entry.tags])) for row in left])

    def put_vectors(self, tenant: str, kind: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        """Store vectors. See `VectorKeeper.put_vectors`."""
        with self._turn:
            there = {row.number for own in self._open().values() for row in own.values()}
            known = self._vectors.get(kind, {})
            self._vectors = {kind: {n: one for n, one in (known | dict(vectors)).items() if n in there}}

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
        entries = [row.entry for row in self._rows_of(owner)]
        entries.sort(key=_place_of, reverse=True)
        page = [one for one in entries if tags.passes(one.tags) and (after is None or _place_of(one) < after)]
        return tuple(page[:limit])

    def delete(self, owner: MemoryOwner, entry_id: str) -> bool:
        """Remove an entry. See `RecallStore.delete`."""
        with self._turn:
            row = self._open().get(owner, {}).pop(entry_id, None)
            self._drop_vectors([] if row is None else [row])
        return row is not None

    def forget(self, owner: MemoryOwner) -> Forgotten:
        """Remove all entries of an owner. See `RecallStore.forget`."""
        with self._turn:
            rows = self._open().pop(owner, {})
            self._drop_vectors(rows.values())
        return Forgotten(entries=len(rows), is_erased=True)

    def close(self) -> None:
        """Drop all entries. Can be called repeatedly."""
        with self._turn:
            self._is_closed = True
            self._rows = {}
            self._vectors = {}

    def _drop_vectors(self, rows: Iterable[_Row]) -> None:
        for row in rows:
            for kept in self._vectors.values():
                kept.pop(row.number, None)

    def _open(self) -> dict[MemoryOwner, dict[str, _Row]]:
        if self._is_closed:
            message = "the memories of this process were closed"
            raise StoreUnavailable(message)
        return self._rows

    def _rows_of(self, owner: MemoryOwner) -> Sequence[_Row]:
        with self._turn:
            return [*self._open().get(owner, {}).values()]


def _place_of(entry: MemoryEntry) -> tuple[int, str]:
    return entry.at_ms, entry.id


def word_weight(rows_with: int, rows: int) -> float:
    """Return the inverse document frequency of BM25 (Robertson and Zaragoza 2009) of a word in some of the rows, above 0."""
    return max(math.log((rows - rows_with + 0.5) / (rows_with + 0.5)), _LEAST_IDF)


def _score(row: _Row, weights: dict[str, float], mean_size: float) -> float:
    long = BM25_K1 * (1 - BM25_B + BM25_B * row.size / mean_size)
    return sum(
        [
            idf * row.words[word] * (BM25_K1 + 1) / (row.words[word] + long)
            for word, idf in weights.items()
            if word in row.words
        ]
    )


# `InMemoryNotes`: working notes in a dictionary, for tests and short-lived programs. Nothing survives the
# process.


class InMemoryNotes:
    """Notes in this process. See `NoteStore` for the contract of each call."""

    is_immediate: Final = True

    def __init__(self) -> None:
        """Create an empty store."""
        self._texts: dict[MemoryOwner, dict[str, str]] = {}
        self._turn = threading.RLock()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"InMemoryNotes(sessions={sum(map(len, self._texts.values()))})"

    def read(self, owner: MemoryOwner, session: str) -> str:
        """Return the notes of a session. See `NoteStore.read`."""
        with self._turn:
            return self._open().get(owner, {}).get(session, "")

    def change(self, owner: MemoryOwner, session: str, edit: Callable[[str], str]) -> str:
        """Replace the notes of a session. See `NoteStore.change`."""
        with self._turn:
            text = edit(self._open().get(owner, {}).get(session, ""))
            if text:
                self._texts.setdefault(owner, {})[session] = text
            else:
                self._texts.get(owner, {}).pop(session, None)
        return text

    def forget(self, owner: MemoryOwner) -> int:
        """Remove all notes of an owner. See `NoteStore.forget`."""
        with self._turn:
            return len(self._open().pop(owner, {}))

    def close(self) -> None:
        """Drop all notes. Can be called repeatedly."""
        with self._turn:
            self._is_closed = True
            self._texts = {}

    def _open(self) -> dict[MemoryOwner, dict[str, str]]:
        if self._is_closed:
            message = "the notes of this process were closed"
            raise StoreUnavailable(message)
        return self._texts
