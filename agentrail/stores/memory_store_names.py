"""Stores of memories and knowledge by name: `memory:`, `sqlite:`, `sqlite:DIRECTORY`."""

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio

from agentrail import outside
from agentrail.abc.knowledge import KnowledgeStore
from agentrail.abc.notes import NoteStore
from agentrail.abc.recall import RecallStore
from agentrail.errors import OptionError
from agentrail.stores.data_directory import find_data_directory
from agentrail.stores.notes_files import NoteFiles
from agentrail.stores.recall_memory import InMemoryNotes, InMemoryRecall
from agentrail.stores.vectors import has_numpy, no_numpy

MEMORIES_DIRECTORY: Final = "memories"
"""Directory of `sqlite:` in the data directory, with a file per tenant."""

MEMORY_NAMES: Final = "'memory:', 'sqlite:' or 'sqlite:DIRECTORY'"
"""Names of memory stores, for messages."""


def faults_of_memories(memories: object) -> list[str]:
    if isinstance(memories, str):
        scheme, colon, rest = memories.partition(":")
        is_name = bool(colon) and (scheme == "sqlite" or (scheme == "memory" and not rest))
        return [] if is_name else [f"memories is {memories!r:.80}: expected {MEMORY_NAMES}"]
    if memories is not None and not (hasattr(memories, "search") and hasattr(memories, "forget")):
        return [f"memories is {memories!r:.80}: expected {MEMORY_NAMES}, or a RecallStore"]
    return []


def directory_of_memories(
    name: str, data_dir: str | os.PathLike[str] | None, environ: Mapping[str, str]
) -> Path | None:
    faults = faults_of_memories(name)
    if faults:
        raise OptionError(faults)
    return None if name == "memory:" else _directory_of(name, MEMORIES_DIRECTORY, data_dir, environ)


def _directory_of(
    name: str, usual: str, data_dir: str | os.PathLike[str] | None, environ: Mapping[str, str]
) -> Path:
    rest = name.partition(":")[2]
    if rest:
        return Path(rest).expanduser()
    return (find_data_directory(environ) if data_dir is None else Path(data_dir)) / usual


NOTES_DIRECTORY: Final = "notes"
"""Directory of working notes, in the directory of the memories."""

NOTES_NAMES: Final = "'memory:' or 'files:DIRECTORY'"
"""Names of note stores, for messages."""


def faults_of_notes(notes: object) -> list[str]:
    if isinstance(notes, str):
        scheme, _, rest = notes.partition(":")
        is_name = notes == "memory:" or (scheme == "files" and bool(rest))
        return [] if is_name else [f"notes is {notes!r:.80}: expected {NOTES_NAMES}"]
    if notes is not None and not (hasattr(notes, "change") and hasattr(notes, "forget")):
        return [f"notes is {notes!r:.80}: expected {NOTES_NAMES}, or a NoteStore"]
    return []


def faults_of_embedder(embedder: object) -> list[str]:
    if embedder is None:
        return []
    name, dimension = getattr(embedder, "name", None), getattr(embedder, "dimension", None)
    is_one = callable(getattr(embedder, "embed", None)) and isinstance(name, str) and bool(name)
    if not is_one or type(dimension) is not int or dimension < 1:
        return [f"embedder is {embedder!r:.80}: expected an Embedder, with a name, a dimension and embed()"]
    return [] if has_numpy() else [no_numpy()]


@contextmanager
def opened_notes(
    notes: str | NoteStore | None,
    memories: str | RecallStore | None,
    data_dir: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
) -> Iterator[NoteStore | None]:
    if notes is not None and not isinstance(notes, str):
        yield notes
        return
    if notes is None and not isinstance(memories, str):
        yield None
        return
    opened = _notes_of(notes, str(memories), data_dir, environ)
    try:
        yield opened
    finally:
        opened.close()


def _notes_of(
    notes: str | None, memories: str, data_dir: str | os.PathLike[str] | None, environ: Mapping[str, str]
) -> InMemoryNotes | NoteFiles:
    if notes is not None:
        scheme, _, rest = notes.partition(":")
        return NoteFiles(Path(rest).expanduser()) if scheme == "files" else InMemoryNotes()
    beside = directory_of_memories(memories, data_dir, environ)
    return InMemoryNotes() if beside is None else NoteFiles(beside / NOTES_DIRECTORY)


KNOWLEDGE_DIRECTORY: Final = "knowledge"
"""Directory of `sqlite:` in the data directory, with a file per tenant."""


def faults_of_knowledge(knowledge: object) -> list[str]:
    if isinstance(knowledge, str):
        fault = f"knowledge is {knowledge!r:.80}: expected 'sqlite:' or 'sqlite:DIRECTORY'"
        return [] if knowledge.startswith("sqlite:") else [fault]
    if knowledge is not None and not (hasattr(knowledge, "search") and hasattr(knowledge, "bases")):
        return [
            f"knowledge is {knowledge!r:.80}: expected 'sqlite:' or 'sqlite:DIRECTORY', or a KnowledgeStore"
        ]
    return []


def directory_of_knowledge(
    name: str, data_dir: str | os.PathLike[str] | None, environ: Mapping[str, str]
) -> Path:
    faults = faults_of_knowledge(name)
    if faults:
        raise OptionError(faults)
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

    opened = await outside.offload(partial(SqliteKnowledge, directory))
    try:
        yield opened
    finally:
        with trio.CancelScope(shield=True):
            await outside.offload(opened.close)


@asynccontextmanager
async def opened_recall(
    memories: str | RecallStore | None,
    data_dir: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
) -> AsyncIterator[RecallStore | None]:
    """Open a named memory store for a block. An open store is passed through."""
    if not isinstance(memories, str):
        yield memories
        return
    directory = directory_of_memories(memories, data_dir, environ)
    if directory is None:
        yield InMemoryRecall()
        return
    # Imported only if needed: loading SQLite costs more than all the rest of a small program.
    from agentrail.stores.recall_sqlite import SqliteRecall  # noqa: PLC0415 - see above

    opened = await outside.offload(partial(SqliteRecall, directory))
    try:
        yield opened
    finally:
        with trio.CancelScope(shield=True):
            await outside.offload(opened.close)
