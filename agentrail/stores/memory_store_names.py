"""Stores of memories, notes and knowledge by name: `memory:`, `sqlite:`, `sqlite:DIRECTORY`, `files:DIRECTORY`, `postgres:`, `postgres://…`."""

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agentrail.abc.knowledge import KnowledgeStore
from agentrail.abc.notes import NoteStore
from agentrail.abc.recall import RecallStore
from agentrail.errors import OptionError
from agentrail.otp.guarded_calls import repr_of
from agentrail.stores.data_directory import expand_home, find_data_directory
from agentrail.stores.notes_files import NoteFiles
from agentrail.stores.recall_memory import InMemoryNotes, InMemoryRecall
from agentrail.stores.store_names import opened_aside
from agentrail.stores.store_urls import (
    PRIVATE,
    faults_of_url,
    is_of_several_nodes,
    is_shared_store,
    shown_store,
)
from agentrail.stores.vectors import has_numpy, no_numpy

if TYPE_CHECKING:
    from agentrail.stores.postgres_connections import ConnectionPool

MEMORIES_DIRECTORY: Final = "memories"
"""Directory of `sqlite:` in the data directory, with a file per tenant."""

MEMORY_NAMES: Final = (
    "'memory:', 'sqlite:', 'sqlite:DIRECTORY', 'postgres:' or 'postgres://USER@HOST/DATABASE'"
)
"""Names of memory stores, for messages."""


def faults_of_memories(memories: object) -> list[str]:
    if isinstance(memories, str):
        scheme, colon, rest = memories.partition(":")
        is_name = bool(colon) and (scheme == "sqlite" or (scheme == "memory" and not rest))
        return [] if is_name else _faults_of_database("memories", memories, MEMORY_NAMES)
    if memories is not None and not (hasattr(memories, "search") and hasattr(memories, "forget")):
        return [f"memories is {repr_of(memories):.80}: expected {MEMORY_NAMES}, or a RecallStore"]
    return []


def _faults_of_database(option: str, name: str, names: str) -> list[str]:
    if not is_shared_store(name):
        return [f"{option} is {shown_store(name)!r:.80}: expected {names}"]
    return [] if name == PRIVATE else faults_of_url(name, option)


def faults_of_shared(store: object, memories: object, notes: object) -> Iterator[str]:
    """Return the faults of memories and notes that would stay on one machine while their sessions move to another."""
    given = (("memories", memories, "a RecallStore"), ("notes", notes, "a NoteStore"))
    for option, name, port in given:
        if name == PRIVATE and not (is_shared_store(store) or hasattr(store, "pool")):
            yield f"{option} is {PRIVATE!r}, the database of the store, but the store is not a database: name one, as in 'postgres://USER@HOST/DATABASE'"
        elif isinstance(name, str) and not is_shared_store(name) and is_of_several_nodes(store):
            yield f"{option} is {name!r:.80}, which stays on one machine, while sessions of a shared store move: give {PRIVATE!r} for the database of the store, {port} that all nodes share, or None"


def directory_of_memories(
    name: str, data_dir: str | os.PathLike[str] | None, environ: Mapping[str, str]
) -> Path | None:
    OptionError.raise_for(faults_of_memories(name))
    return None if name == "memory:" else _directory_of(name, MEMORIES_DIRECTORY, data_dir, environ)


def _directory_of(
    name: str, usual: str, data_dir: str | os.PathLike[str] | None, environ: Mapping[str, str]
) -> Path:
    rest = name.partition(":")[2]
    if rest:
        return expand_home(rest)
    return find_data_directory(environ, data_dir) / usual


NOTES_DIRECTORY: Final = "notes"
"""Directory of working notes, in the directory of the memories."""

NOTES_NAMES: Final = "'memory:', 'files:DIRECTORY', 'postgres:' or 'postgres://USER@HOST/DATABASE'"
"""Names of note stores, for messages."""


def faults_of_notes(notes: object) -> list[str]:
    if isinstance(notes, str):
        scheme, _, rest = notes.partition(":")
        is_name = notes == "memory:" or (scheme == "files" and bool(rest))
        return [] if is_name else _faults_of_database("notes", notes, NOTES_NAMES)
    if notes is not None and not (hasattr(notes, "change") and hasattr(notes, "forget")):
        return [f"notes is {repr_of(notes):.80}: expected {NOTES_NAMES}, or a NoteStore"]
    return []


def faults_of_embedder(embedder: object) -> list[str]:
    if embedder is None:
        return []
    name, dimension = getattr(embedder, "name", None), getattr(embedder, "dimension", None)
    is_one = callable(getattr(embedder, "embed", None)) and isinstance(name, str) and bool(name)
    if not is_one or type(dimension) is not int or dimension < 1:
        expected = "an Embedder, with a name, a dimension and embed()"
        return [f"embedder is {repr_of(embedder):.80}: expected {expected}"]
    return [] if has_numpy() else [no_numpy()]


def faults_of_own_stores(given: Any) -> Iterator[str]:
    """Return the faults of the options `memories`, `notes`, `knowledge` and `embedder`."""
    yield from faults_of_memories(given.memories)
    yield from faults_of_notes(given.notes)
    yield from faults_of_knowledge(given.knowledge)
    yield from faults_of_embedder(given.embedder)


def make_notes(
    notes: str | None,
    memories: str,
    data_dir: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
    *lenders: object,
) -> NoteStore:
    """Return the note store of a name, or the one next to the named memories. Blocks for a database."""
    name = memories if notes is None else notes
    if is_shared_store(name):
        from agentrail.stores.notes_postgres import PostgresNotes  # noqa: PLC0415 - as for SQLite below

        return PostgresNotes(**_pool_of(name, lenders))
    if notes is not None:
        scheme, _, rest = notes.partition(":")
        return NoteFiles(expand_home(rest)) if scheme == "files" else InMemoryNotes()
    beside = directory_of_memories(memories, data_dir, environ)
    return InMemoryNotes() if beside is None else NoteFiles(beside / NOTES_DIRECTORY)


def _pool_of(name: str, lenders: tuple[object, ...]) -> dict[str, Any]:
    """Return connections to a database, if possible those of another store, so that a node has no more than five."""
    for lender in lenders:
        pool: ConnectionPool | None = getattr(lender, "pool", None)
        if pool is not None and name in {PRIVATE, pool.url}:
            return {"pool": pool}
    from agentrail.stores.postgres_schema import open_connections  # noqa: PLC0415 - as for SQLite below

    return {"pool": open_connections(name), "is_lent": False}


@asynccontextmanager
async def opened_notes(
    notes: str | NoteStore | None,
    memories: str | RecallStore | None,
    data_dir: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
    *lenders: object,
) -> AsyncIterator[NoteStore | None]:
    """Open a named note store for a block. An open store is passed through."""
    if notes is not None and not isinstance(notes, str):
        yield notes
    elif notes is None and not isinstance(memories, str):
        yield None
    else:
        name = str(memories)
        make = partial(make_notes, notes, name, data_dir, environ, *lenders)
        is_remote = is_shared_store(name if notes is None else notes)
        async with opened_aside(make, blocks=is_remote, is_remote=is_remote) as opened:
            yield opened


KNOWLEDGE_DIRECTORY: Final = "knowledge"
"""Directory of `sqlite:` in the data directory, with a file per tenant."""


def faults_of_knowledge(knowledge: object) -> list[str]:
    is_name = isinstance(knowledge, str) and knowledge.startswith("sqlite:")
    if knowledge is None or is_name or (hasattr(knowledge, "search") and hasattr(knowledge, "bases")):
        return []
    names = "'sqlite:' or 'sqlite:DIRECTORY'"
    return [f"knowledge is {repr_of(knowledge):.80}: expected {names}, or a KnowledgeStore"]


def directory_of_knowledge(
    name: str, data_dir: str | os.PathLike[str] | None, environ: Mapping[str, str]
) -> Path:
    OptionError.raise_for(faults_of_knowledge(name))
    return _directory_of(name, KNOWLEDGE_DIRECTORY, data_dir, environ)


@asynccontextmanager
async def opened_knowledge(
    knowledge: str | KnowledgeStore | None,
    data_dir: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
) -> AsyncIterator[KnowledgeStore | None]:
    """Open a named knowledge store for a block. An open store is passed through."""
    if not isinstance(knowledge, str):
        yield knowledge
        return
    directory = directory_of_knowledge(knowledge, data_dir, environ)
    # As for memories: SQLite is loaded only if a knowledge base is used.
    from agentrail.stores.knowledge_sqlite import SqliteKnowledge  # noqa: PLC0415 - see above

    async with opened_aside(partial(SqliteKnowledge, directory)) as opened:
        yield opened


def make_recall(
    memories: str,
    data_dir: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
    *lenders: object,
) -> RecallStore:
    """Return the memory store of a name. Blocks, except for `memory:`."""
    if is_shared_store(memories):
        from agentrail.stores.recall_postgres import PostgresRecall  # noqa: PLC0415 - as for SQLite

        return PostgresRecall(**_pool_of(memories, lenders))
    directory = directory_of_memories(memories, data_dir, environ)
    if directory is None:
        return InMemoryRecall()
    # Imported only if needed: loading SQLite costs more than all the rest of a small program.
    from agentrail.stores.recall_sqlite import SqliteRecall  # noqa: PLC0415 - see above

    return SqliteRecall(directory)


@asynccontextmanager
async def opened_recall(
    memories: str | RecallStore | None,
    data_dir: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
    *lenders: object,
) -> AsyncIterator[RecallStore | None]:
    """Open a named memory store for a block. An open store is passed through."""
    if not isinstance(memories, str):
        yield memories
        return
    make = partial(make_recall, memories, data_dir, environ, *lenders)
    blocks, is_remote = memories != "memory:", is_shared_store(memories)
    async with opened_aside(make, blocks=blocks, is_remote=is_remote) as opened:
        yield opened
