"""What plugins ask of the memories and of the notes of a session; each ends in exactly one answer. See `plugin_requests`."""

from typing import Final

from agentrail.abc import Memories, Notes
from agentrail.abc.recall import MAX_LISTED
from agentrail.core.protocol.actions import KeepMemory, ReadNotes, Search, WriteNotes
from agentrail.core.protocol.hooks import Found, MemoryKept, NotesIndex, RequestFailed, RequestResult
from agentrail.errors import ErrorInfo
from agentrail.runtime.memories import json_of_memory
from agentrail.runtime.own_stores import OwnStores

MOST_PRUNED: Final = 100
"""How many old memories one request takes away at most, beside the one that it puts: the next one goes on."""


async def run_memory_request(
    wanted: Search | KeepMemory | ReadNotes | WriteNotes, own: OwnStores
) -> RequestResult:
    """Do what a plugin asked for.

    Args:
        wanted: What to do.
        own: What the session has.

    Returns:
        The answer; `RequestFailed` with `no_memory` or `no_notes` where the session has none.

    Raises:
        AgentrailError: It could not be done, by whatever fault.
    """
    match wanted:
        case ReadNotes() if own.notes is not None:
            return NotesIndex(topics=await own.notes.topics())
        case WriteNotes() if own.notes is not None:
            return await _write_notes(wanted, own.notes)
        case Search() if own.memories is not None:
            return await _search(wanted, own.memories)
        case KeepMemory() if own.memories is not None:
            return await _keep(wanted, own.memories)
        case Search(query=query):
            return _missing(
                f"nothing is remembered in this session that {query!r:.200} could be looked up in"
            )
        case KeepMemory():
            return _missing("nothing can be remembered in this session")
        case _:
            message = (
                "this session has no working notes: give its supervisor memories by name, or notes of its own"
            )
            return RequestFailed(error=ErrorInfo(code="no_notes", message=message))


def _missing(what: str) -> RequestFailed:
    message = f"{what}: give its supervisor memories"
    return RequestFailed(error=ErrorInfo(code="no_memory", message=message))


async def _write_notes(wanted: WriteNotes, notes: Notes) -> RequestResult:
    added, topics = await notes.add(wanted.topic, wanted.facts, only_new=wanted.dedupe)
    return NotesIndex(topics=topics, added=added)


async def _search(wanted: Search, memories: Memories) -> RequestResult:
    said: list[str] = []
    found = await memories.telling(said.append).search(
        wanted.query, tags_all=wanted.tags, limit=wanted.max_entries
    )
    return Found(entries=tuple(map(json_of_memory, found)), words_only=said[0] if said else "")


async def _keep(wanted: KeepMemory, memories: Memories) -> RequestResult:
    await memories.put(wanted.text, tags=wanted.tags, entry_id=wanted.entry_id)
    if wanted.max_entries is not None:
        listed = await memories.newest(
            tags_all=wanted.tags, limit=min(wanted.max_entries + MOST_PRUNED, MAX_LISTED)
        )
        for old in listed[wanted.max_entries :]:
            await memories.delete(old.id)
    return MemoryKept(entry_id=wanted.entry_id)
