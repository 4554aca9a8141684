"""`agentrail sessions fork`, `export` and `import`: branch a stored session, or move it to another store."""

import shlex
from pathlib import Path
from typing import Annotated, Final, Literal

import trio
from cyclopts import Parameter, validators

from agentrail import outside
from agentrail.abc import Sandbox
from agentrail.abc.store import Store, StoredSession
from agentrail.cli.stdio import write_text
from agentrail.cli.storage_options import store_arguments
from agentrail.cli.store_access import (
    USUAL_PLACE,
    SessionArgument,
    StorePlace,
    find_one,
    in_scope,
    journal_of,
    reading,
    records_of,
    say,
    shown_id,
    sources_of,
    store_command,
    write_new_file,
    writing,
)
from agentrail.cli.text_output import read_named
from agentrail.errors import OptionError
from agentrail.messages import SessionId
from agentrail.runtime.file_restore import copy_files
from agentrail.runtime.journal_state import Journal
from agentrail.runtime.session_export import (
    export_spans,
    export_stored,
    fork_stored,
    import_stored,
    leaving_export,
    render_markdown,
)
from agentrail.runtime.session_options import faults_of_value
from agentrail.sandboxes.local import LocalSandbox
from agentrail.testing.scenario_export import scenario_of_journal, sizes_of_journal

_CLOSE_WITHIN_SECONDS: Final = 60.0


@store_command
def fork(  # noqa: PLR0913 - the options of a command
    session: SessionArgument,
    *,
    at: Annotated[int | None, Parameter(help="Fork after this record. Default: the last one.")] = None,
    turn: Annotated[int | None, Parameter(help="Fork after this turn, counted from 1.")] = None,
    name: Annotated[
        str | None, Parameter(name="--id", help="The id of the fork. Default: a generated one.")
    ] = None,
    files: Annotated[
        Path | None, Parameter(help="A new directory for a copy of the session's files as they were then.")
    ] = None,
    place: StorePlace = USUAL_PLACE,
) -> None:
    if at is not None and turn is not None:
        raise OptionError(["--at and --turn are both given: give one of them"])
    if name is not None:
        _check_id(name)
    with reading(place) as opened:  # to create no missing store, and to suggest similar ids
        find_one(opened, session, place.scope)
    with writing(place) as opened:
        found = find_one(opened, session, place.scope)
        if found.root != found.session:
            raise OptionError([f"{session} works for another session: fork {found.root}, its root"])
        journal = journal_of(opened, found)
        number = journal.number_of(at, turn)
        session_id = SessionId(name or f"s-{outside.ids(6)}")
        at_ms = int(outside.wall() * 1000)
        if opened.get(found.scope, session_id) is not None:
            there_is = f"there is a session {in_scope(found.scope, session_id)} already: give another --id"
            raise OptionError([there_is])
        if files is None:
            fork_stored(opened, journal, number, session_id, at_ms)
        else:
            there = number, files.absolute()
            trio.run(_fork_with_files, opened, journal, there, session_id, at_ms)
    go_there = "" if files is None else f"cd {shlex.quote(str(files))} && "
    named = in_scope(found.scope, session_id)
    say(
        f"{named}: a fork of {shown_id(found)} after record {number}; "
        f"{go_there}agentrail chat --resume {named}{store_arguments(place.store, place.data_dir)} continues it"
    )


def _check_id(name: str) -> None:
    faults = faults_of_value("session_id", name)
    OptionError.raise_for([fault.replace("session_id", "--id", 1) for fault in faults])


@store_command
def export(
    session: SessionArgument,
    *,
    form: Annotated[
        Literal["jsonl", "scenario", "markdown", "otlp"],
        Parameter(
            name="--format",
            help="jsonl can be imported; scenario is a text test that replays to the same events; markdown is the conversation, "
            "for reading; otlp is spans of cycles, requests, calls and sub-agents, as OpenTelemetry writes them to a file.",
        ),
    ] = "jsonl",
    no_content: Annotated[
        bool,
        Parameter(
            name="--no-content",
            help="Write only kinds, numbers, times and sizes, and no text of the conversation.",
        ),
    ] = False,
    file: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="A new file. Default: stdout.")
    ] = None,
    place: StorePlace = USUAL_PLACE,
) -> None:
    with reading(place) as opened:
        data = _exported(opened, find_one(opened, session, place.scope), form, content=not no_content)
    data = leaving_export(data, is_exact=form == "jsonl" and not no_content)
    if file is None:
        write_text(data.decode())
        return
    write_new_file(file, [data])
    say(f"{file}: {len(data)} bytes")


def _exported(store: Store, found: StoredSession, form: str, *, content: bool) -> bytes:
    sources = sources_of(found.session, store.blob)
    match form:
        case "jsonl":
            return b"".join(export_stored(store, found, content=content))
        case "otlp":
            return b"".join(export_spans(store, found, sources.ask, content=content))
        case "scenario" if content:
            return scenario_of_journal(records_of(store, found), sources).encode("utf-8", "replace")
        case "scenario":
            return sizes_of_journal(records_of(store, found)).encode()
        case _:
            messages = journal_of(store, found).state_behind(found.tail.seq).data.history.messages[:]
            return render_markdown(messages, content=content).encode("utf-8", "replace")


@store_command
def import_(
    file: Annotated[
        Path,
        Parameter(
            help="A file written by `sessions export`.",
            validator=validators.Path(exists=True, dir_okay=False),
        ),
    ],
    *,
    place: StorePlace = USUAL_PLACE,
) -> None:
    data = read_named(file)
    with writing(place) as opened:
        sessions = import_stored(opened, data)
    again = f"{sessions[0]}{store_arguments(place.store, place.data_dir)}"
    say(f"imported {', '.join(sessions)}; agentrail chat --resume {again} continues it")


async def _fork_with_files(
    store: Store, journal: Journal, place: tuple[int, Path], session_id: SessionId, at_ms: int
) -> None:
    number, directory = place
    config = journal.state_behind(number).data.config
    sandbox = LocalSandbox(config.working_dir)
    is_done = False
    try:
        copied = await copy_files(sandbox, directory, journal.files_behind(number), store.blob, session_id)
        try:
            fork_stored(store, journal, number, session_id, at_ms, working_dir=str(directory))
            is_done = True
        finally:
            await (_close(copied.sandbox) if is_done else copied.remove())  # noqa: ASYNC102 - both are shielded inside
    finally:
        await _close(sandbox)  # noqa: ASYNC102 - same


async def _close(sandbox: Sandbox) -> None:
    with trio.move_on_after(_CLOSE_WITHIN_SECONDS, shield=True):
        await sandbox.aclose()
