"""`agentrail memory`: list, search and forget memories of a user, also while another process adds some."""

import datetime
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

from attrs import frozen
from cyclopts import App, Parameter
from msgspec.structs import replace

from agentrail.abc.notes import NoteStore
from agentrail.abc.recall import (
    MAX_FOUND,
    MAX_LISTED,
    MemoryEntry,
    MemoryOwner,
    RecallStore,
    TagFilter,
    check_limit,
)
from agentrail.cli.default_stores import PLACES, decide_place
from agentrail.cli.exit_codes import Exit, describe_error
from agentrail.cli.log_output import Debug
from agentrail.cli.stdio import write_error
from agentrail.cli.storage_options import DataDirectory, directory_for
from agentrail.cli.store_access import JsonLines, StorePlace, overwrite, say, store_command, writing
from agentrail.cli.vector_search import WordsAlone, embedder_of_files, meaning_of
from agentrail.errors import OptionError, StoreInUse
from agentrail.runtime.erasure_report import (
    DATABASE_COPIES,
    ForgottenUser,
    erase_trees,
    trees_of_user,
    unreached_of,
)
from agentrail.runtime.session_stores import json_of_memory, search_both
from agentrail.stores.memory_store_names import faults_of_memories, make_notes, make_recall
from agentrail.stores.store_names import path_of_store
from agentrail.stores.store_urls import PRIVATE, is_shared_store
from agentrail.structs import END_OF_CALENDAR_MS
from agentrail.tools.tool_text import printable

# Forgetting a user: erases journals and memories, and reports what was and was not reached.
#
# While a server writes the store of sessions, only the server may erase journals, because it knows the running sessions.


def forget_everything(
    memories: RecallStore, notes: NoteStore, owner: MemoryOwner, sessions: StorePlace
) -> Exit:
    in_use: StoreInUse | None = None
    told = ForgottenUser()
    if owner.user:
        try:
            told = _forget_sessions(owner, sessions)
        except StoreInUse as error:  # the memories are removed nevertheless
            in_use = error
    forgotten = memories.forget(owner)
    told = replace(
        told,
        memories=forgotten.entries,
        notes=notes.forget(owner),
        is_overwritten=told.is_overwritten and forgotten.is_erased,
        not_reached=tuple(dict.fromkeys((*told.not_reached, *unreached_of(memories)))),
    )
    _tell(told, owner, in_use)
    return Exit.DONE if told.is_done and in_use is None else Exit.FAILED


def _forget_sessions(owner: MemoryOwner, place: StorePlace) -> ForgottenUser:
    path = path_of_store(place.store, directory_for(place.store, place.data_dir) or Path())
    is_there = is_shared_store(place.store) if path is None else path.exists()
    if not is_there:  # do not create a store just to find it empty
        return ForgottenUser()
    with writing(place) as store:
        told = erase_trees(store, trees_of_user(store, owner))
        return replace(told, not_reached=unreached_of(store), is_overwritten=overwrite(store))


def _tell(told: ForgottenUser, owner: MemoryOwner, in_use: StoreInUse | None) -> None:
    say(f"{told.memories:,} memories forgotten.")
    if told.notes:
        say(f"Working notes of {told.notes:,} sessions removed.")
    if owner.user and in_use is None:
        say(
            f"{told.sessions:,} sessions erased: {told.records:,} records, {told.snapshots:,} snapshots, {told.blobs:,} large values."
        )
    for line in told.left:
        write_error(f"left: {printable(line)}")
    if in_use is not None:
        route = f"DELETE /users/{owner.user}/memory"
        write_error(f"journals were not erased: {describe_error(in_use)} Or ask that process: {route}")
    elif not owner.user:
        write_error("journals were not erased: that needs a user (--user)")
    if not told.is_overwritten and DATABASE_COPIES not in told.not_reached:
        write_error("another process is reading, so a log could not be emptied: run the same command again.")
    write_error(f"not erased: {', '.join(told.not_reached)}.")


# The commands.

app: Final = App(name="memory", result_action="return_value")


@Parameter(name="*")
@frozen(kw_only=True)
class MemoryPlace:
    """The user of the memories, and their store.

    Attributes:
        data_dir: The data directory, or None for the default.
    """

    user: Annotated[str, Parameter(help="The user. Default: memories without a user.")] = ""
    tenant: Annotated[str, Parameter(help="The tenant of the user.")] = ""
    memories: Annotated[
        str | None,
        Parameter(
            help=f"Where they are: sqlite:DIRECTORY, sqlite: for that in the data directory, or postgres://USER@HOST/DATABASE. {PLACES}"
        ),
    ] = None
    data_dir: DataDirectory = None
    debug: Debug = False

    def decided(self) -> tuple[str, Path | None]:
        return decide_place("memories", self.memories, self.data_dir, os.environ)

    @property
    def owner(self) -> MemoryOwner:
        return MemoryOwner(tenant=self.tenant, user=self.user)


USUAL_MEMORIES: Final = MemoryPlace()

Tags = Annotated[
    tuple[str, ...], Parameter(name="--tag", help="Only those with this tag; repeatable: with any of them.")
]


@app.command(name="list", help="List memories of a user, the newest first.")
@store_command
def list_memories(
    *,
    limit: Annotated[int, Parameter(help=f"The maximum number of memories, up to {MAX_LISTED:,}.")] = 100,
    tag: Tags = (),
    as_json: JsonLines = False,
    place: MemoryPlace = USUAL_MEMORIES,
) -> Exit:
    with opened_memories(place) as store:
        return _show(store.list(place.owner, TagFilter(any_of=tag), limit=limit), place, as_json=as_json)


@app.command(
    name="search",
    help="""Search memories of a user: any word of the query matches, the best match comes first.

    Where [embedder] in agentrail.toml names one, memories are found by meaning too, in one ranking, as sessions find them.""",
)
@store_command
def search_memories(  # noqa: PLR0913 - one for each flag
    query: Annotated[str, Parameter(help="The words to search for. No character has a special meaning.")],
    *,
    limit: Annotated[int, Parameter(help=f"The maximum number of memories, up to {MAX_FOUND}.")] = 20,
    tag: Tags = (),
    as_json: JsonLines = False,
    words: WordsAlone = False,
    place: MemoryPlace = USUAL_MEMORIES,
) -> Exit:
    with opened_memories(place) as store:
        tags = TagFilter(any_of=tag)
        check_limit(limit, MAX_FOUND)
        meaning = None if words else meaning_of(query, embedder_of_files(os.environ))
        if meaning is None:
            found = store.search(place.owner, query, tags, limit=limit)
        else:
            found = search_both(store, place.owner, query, meaning, tags, limit=limit)
        return _show(found, place, as_json=as_json)


@app.command(
    name="forget",
    help="""Permanently forget the named memories of a user; or with --all the user, with the content of their sessions.

    Rows and words are removed, journal records are erased, and the freed space is overwritten. Sessions of a user who is forgotten
    cannot be read or resumed any more. Exports, backups, files in workspaces, logs, telemetry
    and providers are not reached.
    Exit codes: 0 forgotten, 1 something is left or not yet overwritten, 2 wrong usage, or there is no such memory.""",
)
@store_command
def forget_memories(
    *ids: Annotated[str, Parameter(help="The ids of the memories, as shown by memory list.")],
    every: Annotated[
        bool,
        Parameter(
            name="--all", help="Forget the user: all memories of them, and the content of all their sessions."
        ),
    ] = False,
    sessions: Annotated[
        str | None,
        Parameter(
            name="--store",
            help=f"With --all: where sessions are: sqlite:PATH, sqlite: for the file in the data directory, or postgres://USER@HOST/DATABASE. {PLACES}",
        ),
    ] = None,
    place: MemoryPlace = USUAL_MEMORIES,
) -> Exit:
    with opened_memories(place) as store:
        if bool(ids) is every:
            raise OptionError(["name the memories to forget, or say --all: one of the two"])
        if every:
            named, directory = decide_place("store", sessions, place.data_dir, os.environ)
            kept = StorePlace(store=named, data_dir=directory)
            with closing(make_notes(None, *place.decided(), os.environ, store)) as notes:
                return forget_everything(store, notes, place.owner, kept)
        return _forget_some(store, place, ids)


def _forget_some(store: RecallStore, place: MemoryPlace, ids: Sequence[str]) -> Exit:
    missing = [one for one in dict.fromkeys(ids) if store.get(place.owner, one) is None]
    if missing:  # then forget nothing: a wrong id usually means a wrong user
        raise OptionError([f"{_whose(place, 'is')} no memory {printable(one)!r:.140}" for one in missing])
    for one in dict.fromkeys(ids):
        store.delete(place.owner, one)
    say(f"{len(dict.fromkeys(ids)):,} forgotten.")
    return Exit.DONE


def _show(found: Sequence[MemoryEntry], place: MemoryPlace, *, as_json: bool) -> Exit:
    say(*(map(json.dumps, map(json_of_memory, found)) if as_json else text_lines(found)))
    if not found:
        write_error(f"{_whose(place, 'are')} no matching memories.")
    return Exit.DONE


def _whose(place: MemoryPlace, verb: str) -> str:
    return f"user {place.user!r} has" if place.user else f"without --user, there {verb}"


def text_lines(found: Sequence[MemoryEntry]) -> Iterator[str]:
    """Yield a line per memory: id, day, tags, text. Control characters are escaped."""
    for one in found:
        day = datetime.datetime.fromtimestamp(min(one.at_ms, END_OF_CALENDAR_MS - 1) / 1000, datetime.UTC)
        tags = f" [{', '.join(one.tags)}]" if one.tags else ""
        yield f"{one.id}  {day:%Y-%m-%d}{tags}  {printable(one.text)}"


def opened_memories(place: MemoryPlace) -> closing[RecallStore]:
    name, directory = place.decided()
    faults = faults_of_memories(name)
    if name == "memory:":
        faults = [
            "memories is 'memory:', which ends with its process: name a directory, as in 'sqlite:DIRECTORY'"
        ]
    elif name == PRIVATE:
        faults = [
            f"memories is {PRIVATE!r}, the database of a server's store: name it, as in 'postgres://USER@HOST/DATABASE'"
        ]
    OptionError.raise_for(faults)
    return closing(make_recall(name, directory, os.environ))
