"""What it takes to look something up: 10,000 passages of a knowledge base, beside a table of FTS5 as one would write it."""

import importlib
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

import apsw

from agentrail.abc.recall import MemoryOwner
from agentrail.core.values.ranking import FUSED_FROM_EACH, pack_vector
from agentrail.runtime.session_stores import search_passages
from agentrail.stores.knowledge_sqlite import SqliteKnowledge
from agentrail.stores.vectors import has_numpy
from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, interleave, percentile
from benchmarks.ours import expect
from benchmarks.recall import ordinary_texts

_PASSAGES: Final = 10_000
_OF_A_DOCUMENT: Final = 100
_WORDS: Final = 150
_QUESTIONS: Final = 40
_ASKED: Final = 6
_NUMBERS: Final = 384
_KIND: Final = "drawn 384"
_READER: Final = MemoryOwner(user="reader")


def knowledge(effort: Effort) -> list[Row]:
    """Six words of one of the passages, and the eight that fit best."""
    texts = ordinary_texts(effort.of(_PASSAGES), _WORDS)
    asked = [" ".join(text.split()[:_ASKED]) for text in texts[:: max(1, len(texts) // _QUESTIONS)]]
    with (
        TemporaryDirectory() as folder,
        closing(_bare_table(Path(folder) / "bare.db", texts)) as bare,
        closing(_filled(Path(folder) / "ours", texts)) as ours,
    ):
        taken = interleave(
            partial(_timed, partial(_ask_bare, bare), asked),
            partial(_timed, partial(_ask, ours), asked),
            effort.rounds,
        )
        meant = [_by_meaning(ours, bare, asked, effort.rounds)] if has_numpy() else []
    return [
        taken.row(
            "knowledge",
            "p50",
            f"six words among {len(texts):,} passages: the median",
            unit="ms",
            factor=1e3,
            target=target_of("kb search"),
        ),
        *meant,
    ]


def _by_meaning(ours: SqliteKnowledge, bare: apsw.Connection, asked: Sequence[str], rounds: int) -> Row:
    """Six words and a vector of 384 numbers: what both find, as one ranking. What an embedder takes is not in it."""
    numpy = importlib.import_module("numpy")
    chance = numpy.random.default_rng(20_261_122)
    vectors = {query: pack_vector(chance.standard_normal(_NUMBERS).tolist(), _NUMBERS) for query in asked}
    kept: list[bytes] = []
    while rows := ours.without_vectors("", _KIND, limit=_OF_A_DOCUMENT):
        made = [pack_vector(one.tolist(), _NUMBERS) for one in chance.standard_normal((len(rows), _NUMBERS))]
        ours.put_vectors("", _KIND, [(number, one) for (number, _), one in zip(rows, made, strict=True)])
        kept += made
    matrix = numpy.frombuffer(b"".join(kept), dtype="<f4").reshape(-1, _NUMBERS)

    def ask_bare(query: str) -> list[str]:
        near = numpy.argsort(-numpy.vecdot(matrix, numpy.frombuffer(vectors[query], dtype="<f4")))[
            :FUSED_FROM_EACH
        ]
        return [*_ask_bare(bare, query), *map(str, near)]

    def ask(query: str) -> list[str]:
        meaning = vectors[query], _KIND
        return [one.text for one in search_passages(ours, _READER, query, meaning, "", limit=8)]

    taken = interleave(partial(_timed, ask_bare, asked), partial(_timed, ask, asked), rounds)
    return taken.row(
        "knowledge",
        "p50",
        f"the same with vectors of {_NUMBERS} numbers: the median",
        unit="ms",
        factor=1e3,
        target=target_of("kb search by meaning"),
    )


def _filled(directory: Path, texts: Sequence[str]) -> SqliteKnowledge:
    store = SqliteKnowledge(directory)
    store.open_base("", "all", ["*"])
    for begin in range(0, len(texts), _OF_A_DOCUMENT):
        sections = [
            f"# Section {n}\n\n{text}\n" for n, text in enumerate(texts[begin : begin + _OF_A_DOCUMENT])
        ]
        store.add("", "all", f"{begin}.md", "\n".join(sections).encode())
    (base,) = store.bases(_READER)
    expect("the number of passages", base.passages, len(texts))
    return store


def _bare_table(path: Path, texts: Sequence[str]) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.execute("CREATE VIRTUAL TABLE p USING fts5(text); BEGIN")
    connection.executemany("INSERT INTO p VALUES (?)", ((text,) for text in texts))
    connection.execute("COMMIT")
    return connection


def _ask(store: SqliteKnowledge, query: str) -> list[str]:
    return [one.text for one in store.search(_READER, query, limit=8)]


def _ask_bare(connection: apsw.Connection, query: str) -> list[str]:
    match = " OR ".join(f'"{word}"' for word in query.split())
    return [
        text
        for (text,) in connection.execute(
            "SELECT text FROM p WHERE p MATCH ? ORDER BY rank LIMIT 8", (match,)
        )
    ]


def _timed(ask: Callable[[str], list[str]], asked: Sequence[str]) -> Sample:
    took: list[float] = []
    found = 0
    for query in asked:
        began_at = perf_counter()
        texts = ask(query)
        took.append(perf_counter() - began_at)
        found += bool(texts)
    expect("that something is found", found, len(asked))
    return {"p50": percentile(took, 50)}
