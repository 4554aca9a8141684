"""What it takes to recall: 100,000 memories of one owner, and of a thousand, beside a table of FTS5 as one would write it."""

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final, TypeAlias

import apsw

from agentrail.abc.recall import MemoryEntry, MemoryOwner
from agentrail.stores.recall_sqlite import SqliteRecall
from benchmarks.bars import target_of
from benchmarks.explain import explain_in_a_folder
from benchmarks.measure import Effort, Row, Sample, interleave, percentile
from benchmarks.ours import expect

Asked: TypeAlias = Sequence[tuple[int, str, str]]
"""Of each question the number of its owner, the query, and the text that it was taken from."""

_MEMORIES: Final = 100_000
_MANY: Final = 1_000
_QUESTIONS: Final = 15
_WORDS: Final = 20_000
_LONG: Final = 20
_ASKED: Final = 6
_MILLISECONDS: Final = 1e3


def ordinary_texts(count: int, words: int = _LONG) -> list[str]:
    """Make texts in which words are as frequent as in ordinary ones: the second one half as frequent as the first (Zipf)."""
    chance = random.Random(20_261_122)  # noqa: S311 - the same texts in each run
    vocabulary = [f"word{number}" for number in range(_WORDS)]
    weights = [*accumulate(1 / (number + 1) for number in range(_WORDS))]
    return [" ".join(chance.choices(vocabulary, cum_weights=weights, k=words)) for _ in range(count)]


def recall(effort: Effort) -> list[Row]:
    """Six words of one of the memories, and the five that fit best."""
    count = effort.of(_MEMORIES)
    texts = ordinary_texts(count)
    rows: list[Row] = []
    for owners, target in (
        (1, target_of("recall of one")),
        (min(_MANY, count), target_of("recall of 1,000")),
    ):
        with TemporaryDirectory() as folder:
            asked = _questions(texts, owners)
            with (
                closing(_bare_table(Path(folder) / "bare.db", texts, owners)) as bare,
                closing(SqliteRecall(Path(folder) / "ours")) as ours,
            ):
                _fill(ours, texts, owners)
                taken = interleave(
                    partial(_timed, partial(_ask_bare, bare), asked),
                    partial(_timed, partial(_ask, ours), asked),
                    effort.rounds,
                    explain=partial(
                        explain_in_a_folder,
                        partial(_fill_folder, texts=texts, owners=owners),
                        partial(_ask_in, asked=asked),
                    ),
                )
        whose = "one owner" if owners == 1 else f"{owners:,} owners"
        rows.append(
            taken.row(
                "recall",
                "p50",
                f"six words among {count:,} memories of {whose}: the median",
                unit="ms",
                factor=_MILLISECONDS,
                target=target,
            )
        )
    return rows


def _questions(texts: Sequence[str], owners: int) -> Asked:
    places = range(0, len(texts), max(1, len(texts) // _QUESTIONS))
    return [(place % owners, " ".join(texts[place].split()[:_ASKED]), texts[place]) for place in places]


def _fill(store: SqliteRecall, texts: Sequence[str], owners: int) -> None:
    entries = (
        (f"u{n % owners}", MemoryEntry(id=f"m{n}", text=text, at_ms=n)) for n, text in enumerate(texts)
    )
    store.put_all("", entries)


def _fill_folder(folder: str, *, texts: Sequence[str], owners: int) -> None:
    with closing(SqliteRecall(Path(folder))) as store:
        _fill(store, texts, owners)


def _ask_in(folder: str, *, asked: Asked) -> Sample:
    with closing(SqliteRecall(Path(folder))) as store:
        return _timed(partial(_ask, store), asked)


def _ask(store: SqliteRecall, owner: int, query: str) -> list[str]:
    return [one.text for one in store.search(MemoryOwner(user=f"u{owner}"), query, limit=5)]


def _bare_table(path: Path, texts: Sequence[str], owners: int) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.execute("CREATE VIRTUAL TABLE m USING fts5(owner UNINDEXED, text); BEGIN")
    connection.executemany(
        "INSERT INTO m VALUES (?, ?)", ((f"u{n % owners}", text) for n, text in enumerate(texts))
    )
    connection.execute("COMMIT")
    return connection


def _ask_bare(connection: apsw.Connection, owner: int, query: str) -> list[str]:
    match = " OR ".join(f'"{word}"' for word in query.split())
    statement = "SELECT text FROM m WHERE m MATCH ? AND owner = ? ORDER BY rank LIMIT 5"
    return [text for (text,) in connection.execute(statement, (match, f"u{owner}"))]


def _timed(ask: Callable[[int, str], list[str]], asked: Asked) -> Sample:
    took: list[float] = []
    wanted = 0
    for owner, query, text in asked:
        began_at = perf_counter()
        found = ask(owner, query)
        took.append(perf_counter() - began_at)
        wanted += text in found
    expect("that most of what was asked for is found", wanted > len(asked) // 2, wanted=True)
    return {"p50": percentile(took, 50)}
