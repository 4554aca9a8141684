"""Forgets a user from the command line: erases journals and memories, and reports what was and was not reached.

While a server writes the store of sessions, only the server may erase journals, because it knows the running sessions.
"""

import time
from pathlib import Path
from typing import Final

from attrs import evolve

from agentrail.abc.notes import NoteStore
from agentrail.abc.recall import MemoryOwner, RecallStore
from agentrail.cli.exits import Exit, describe_error
from agentrail.cli.kept_in import directory_of
from agentrail.cli.output import write_error
from agentrail.cli.stored import StorePlace, say, writing
from agentrail.errors import StoreInUse
from agentrail.runtime.forgetting import NOT_REACHED, ForgottenUser, erase_trees, trees_of_user
from agentrail.stores.named import path_of_store
from agentrail.tools.printing import printable

_TRIES: Final = 10
_PAUSE_SECONDS: Final = 0.5
"""Attempts to overwrite while another process reads the store, and the delay between them in seconds."""


def forget_everything(
    memories: RecallStore, notes: NoteStore, owner: MemoryOwner, sessions: StorePlace
) -> Exit:
    """Forget a user: erase the journals of their sessions and their memories."""
    in_use: StoreInUse | None = None
    told = ForgottenUser()
    if owner.user:
        try:
            told = _forget_sessions(owner, sessions)
        except StoreInUse as error:  # the memories are removed nevertheless
            in_use = error
    forgotten = memories.forget(owner)
    told = evolve(
        told,
        memories=forgotten.entries,
        notes=notes.forget(owner),
        is_overwritten=told.is_overwritten and forgotten.is_erased,
    )
    _tell(told, owner, in_use)
    return Exit.DONE if told.is_done and in_use is None else Exit.FAILED


def _forget_sessions(owner: MemoryOwner, place: StorePlace) -> ForgottenUser:
    path = path_of_store(place.store, _directory(place))
    if path is None or not path.exists():  # do not create a store just to find it empty
        return ForgottenUser()
    with writing(place) as store:
        told = erase_trees(store, trees_of_user(store, owner))
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_PAUSE_SECONDS)
            if store.overwrite_removed():
                return told
        return evolve(told, is_overwritten=False)


def _directory(place: StorePlace) -> Path:
    # Looked up only where needed: a command that names a file may run without a home directory.
    return directory_of(place.data_dir) if place.store == "sqlite:" else Path()


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
        write_error("journals were not erased: they are for a user that is named (say --user)")
    if not told.is_overwritten:
        write_error("a process reads beside it, so a log could not be emptied: run the same command again.")
    write_error(f"not reached: {', '.join(NOT_REACHED)}.")
