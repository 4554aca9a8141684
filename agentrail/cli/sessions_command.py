"""`agentrail sessions`: read a store, even while another process writes it, and modify it: `recover`, `delete`."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import trio
from attrs import frozen
from cyclopts import App, Parameter, validators
from msgspec import MsgspecError

from agentrail import outside
from agentrail.abc.store import JOURNAL_BEHIND, Filters, OwedStore, Store, StoredSession
from agentrail.cli import chat_answers
from agentrail.cli.chat_notices import show_decision
from agentrail.cli.ctrl_c import interruptible
from agentrail.cli.default_stores import decide_place
from agentrail.cli.exit_codes import Exit
from agentrail.cli.resume_command import recover_sessions
from agentrail.cli.session_views import (
    CycleTree,
    past_as_json,
    row_as_json,
    show_head,
    show_past,
    show_record,
    show_rows,
    show_waits,
    standing_word,
)
from agentrail.cli.stdio import DESCRIPTORS, write_all, write_error
from agentrail.cli.store_access import (
    USUAL_PLACE,
    JsonLines,
    Owners,
    SessionArgument,
    StorePlace,
    all_sessions,
    find_one,
    journal_of,
    listed_sessions,
    overwrite,
    reading,
    records_of,
    say,
    shown_id,
    sources_of,
    state_of,
    store_command,
    write_new_file,
    writing,
)
from agentrail.cli.text_output import read_named
from agentrail.cli.trace_page import trace_page
from agentrail.core.journal.exports import EXPORT_BEGINS, read_export
from agentrail.core.journal.fold import Sources, no_blobs
from agentrail.core.journal.jsonl import encode_line, read_journal
from agentrail.core.journal.record import Record, Tail, blobs_of, first_broken, join_blobs, tail_of
from agentrail.core.journal.replay import ReplayStep, explain_journal, replay, steps, where_they_part
from agentrail.core.protocol.effects import Publish
from agentrail.core.session.recovery import decisions_of
from agentrail.core.session.views import status_of
from agentrail.core.values.port_members import offers
from agentrail.errors import AgentrailError, CodecError, JournalCorrupt, OptionError, StoreUnavailable
from agentrail.runtime.overwriter import note_overwriting
from agentrail.runtime.persistence import OnDrift, has_other_nodes
from agentrail.runtime.session_keys import key_of
from agentrail.runtime.session_loader import opening_of, read_after, record_at
from agentrail.runtime.session_stores import key_of_notes, owed_notes, settle_notes
from agentrail.runtime.snapshots import is_sound
from agentrail.stores.memory_store_names import make_notes
from agentrail.stores.sqlite import SqliteStore
from agentrail.stores.store_urls import PRIVATE, is_shared_store

# Journals: replay, step through, compare and check. Read-only, and no effect is carried out.

_STEP_PROMPT: Final = b"Enter goes on, q leaves: "


@frozen(kw_only=True)
class LoadedJournal:
    name: str
    records: tuple[Record, ...]
    sources: Sources
    snapshots: Mapping[int, bytes] = {}


def load(name: str, place: StorePlace) -> tuple[LoadedJournal, ...]:
    """Read journals: from a file, if one has this name, otherwise from a session of the store."""
    # The name of a session in a scope also has a slash, but no id starts with one or with a dot.
    if name.endswith(".jsonl") or name.startswith((os.sep, ".")) or Path(name).is_file():
        return _load_file(Path(name))
    with reading(place) as opened:
        found = find_one(opened, name, place.scope)
        records = records_of(opened, found)
        blobs = {digest: opened.blob(digest) for one in records for digest in blobs_of(one.body)}
        snapshots = {
            one.seq: one.state
            for one in opened.snapshots(found.scope, found.session)
            if is_sound(one) and one.seq <= len(records) and records[one.seq - 1].hash == one.hash
        }
    sources = sources_of(found.session, blobs.get)
    return (LoadedJournal(name=name, records=records, sources=sources, snapshots=snapshots),)


def _load_file(path: Path) -> tuple[LoadedJournal, ...]:
    text = read_named(path)
    if text.startswith(EXPORT_BEGINS):
        return _load_export(path, text)
    found = read_journal(text)
    if found.damaged is not None:
        raise found.damaged
    if not found.records:
        raise OptionError([f"{path} holds no journal: expected a record as JSON in each line"])
    sources = sources_of(found.records[0].session, no_blobs)
    return (LoadedJournal(name=str(path), records=found.records, sources=sources),)


def _load_export(path: Path, text: bytes) -> tuple[LoadedJournal, ...]:
    try:
        exported = read_export(text)
    except CodecError as error:
        raise OptionError([f"{path}: {error}"]) from error
    return tuple(
        LoadedJournal(
            name=f"{path}, session {one.head.session}",
            records=one.records,
            sources=sources_of(one.head.session, one.blobs.get),
        )
        for one in exported
    )


def live_again(loaded: LoadedJournal) -> Exit:
    found = replay(loaded.records, loaded.sources, loaded.snapshots)
    if found.difference is not None:
        say(str(found.difference))
        return Exit.FAILED
    say(f"{loaded.name}: {found.records} records, identical")
    return Exit.DONE


def tell_causes(loaded: LoadedJournal) -> Exit:
    for line in explain_journal(loaded.records, loaded.sources):
        say(line)
    return Exit.DONE


def compare(one: LoadedJournal, other: LoadedJournal) -> Exit:
    def blob(digest: str) -> bytes | None:
        found = one.sources.blob(digest)
        return other.sources.blob(digest) if found is None else found

    parting = where_they_part(one.records, other.records, Sources(blob=blob))
    if parting is None:
        say(f"{one.name} and {other.name} do not diverge")
        return Exit.DONE
    say(str(parting))
    return Exit.FAILED


def walk_through(loaded: LoadedJournal) -> Exit:
    """Print a journal record by record: one per Enter in a terminal, otherwise all."""
    is_asked = os.isatty(0)
    for step in steps(loaded.records, loaded.sources):
        say(*show_step(step))
        if is_asked:
            write_all(DESCRIPTORS["err"], _STEP_PROMPT)
            if (sys.stdin.readline() or "q").strip() == "q":  # Ctrl-D too
                break
    return Exit.DONE


def show_step(step: ReplayStep) -> Iterator[str]:
    """Yield the result of one record: hooks, decisions, published events, and the resulting state."""
    yield from show_record(step.walked.record)
    if step.caused_by is not None:
        yield f"        begun by record {step.caused_by}"
    for asked in step.asked:
        yield f"        asked {asked}"
    published = [type(one.event).__name__ for one in step.walked.effects if isinstance(one, Publish)]
    if published:
        yield f"        published {', '.join(published)}"
    data = step.walked.after.data
    waits = f", {len(data.interactions)} wait for people" if data.interactions else ""
    yield f"        then {step.walked.after.phase.value}, {len(data.history)} messages, {len(data.open)} open{waits}"


# --- checking


def damage_of(store: Store, stored: StoredSession) -> str | None:
    """Return the damage of a session (a record, a large value or a snapshot), or None if it is intact."""
    behind = Tail()
    try:
        if stored.first_seq > 1:  # the record before the first was dropped, so its hash is taken as given
            behind = tail_of((record_at(store, stored, stored.first_seq),))
        records = read_after(store, stored.scope, stored.session, behind.seq)
        broken = first_broken(records, behind)
        if broken is not None:
            raise JournalCorrupt(stored.session, broken)
        last = records[-1].seq if records else behind.seq
        if last < stored.tail.seq:
            raise JournalCorrupt(stored.session, last + 1, why="it is missing")
        for record in records:
            try:
                join_blobs(record.body, store.blob)
            except CodecError as error:
                raise JournalCorrupt(record.session, record.seq, why=str(error)) from error
    except AgentrailError as error:
        return str(error)
    hashes = {record.seq: record.hash for record in records} | {behind.seq: behind.hash}
    for snapshot in store.snapshots(stored.scope, stored.session):
        if not is_sound(snapshot) or hashes.get(snapshot.seq, snapshot.hash) != snapshot.hash:
            return f"the snapshot after record {snapshot.seq} is damaged: it is ignored, and nothing is lost"
    return None


# The commands.

app: Final = App(name="sessions", result_action="return_value")
app.command(
    "agentrail.cli.branch_commands:fork",
    name="fork",
    help="Start a session that continues from a record of another one, in its own journal. It starts when it is resumed.",
)
app.command(
    "agentrail.cli.branch_commands:export",
    name="export",
    help="Write a session with its sub-agents as a file that `sessions import` reads back bit for bit; or as a scenario, Markdown or spans.",
)
app.command(
    "agentrail.cli.branch_commands:import_",
    name="import",
    help="""Read a session back that `sessions export` wrote. A file that was changed is refused, and the first changed record named.

    Import what you trust: a session that continues runs the calls that were approved in it, and keeps the rules of its user.
    A fork of it has none of the open calls.""",
)


@app.command(name="list", help="List the stored sessions: running, waiting for you, or interrupted.")
@store_command
def list_sessions(
    *,
    every: Annotated[
        bool, Parameter(name="--all", help="List sub-agents and sessions that have ended too.")
    ] = False,
    json: JsonLines = False,
    place: StorePlace = USUAL_PLACE,
) -> None:
    with reading(place) as opened:
        owners = Owners.of(opened)
        filters = Filters(scope=place.scope or None, only_roots=not every, has_ended=None if every else False)
        found = [
            (one, standing_word(one, is_owned=owners.owns(one))) for one in listed_sessions(opened, filters)
        ]
    found.sort(key=lambda pair: pair[0].written_at_ms, reverse=True)
    say(*((row_as_json(*row) for row in found) if json else show_rows(found)))
    if not found:
        write_error("there is no session; --all lists those that have ended too")


@app.command(
    name="show",
    help="Show what a session did: its cycles as trees with times, tokens, cost, tools and gates.",
)
@store_command
def show_session(
    session: SessionArgument,
    *,
    at: Annotated[
        int | None,
        Parameter(
            help="Show its state after this record, with everything that was pending; -1 is the last one."
        ),
    ] = None,
    json: JsonLines = False,
    place: StorePlace = USUAL_PLACE,
) -> None:
    with reading(place) as opened:
        found = find_one(opened, session, place.scope)
        if at is not None:
            past = journal_of(opened, found).past_state(found.tail.seq if at == -1 else at)
            waiting = chat_answers.show_waiting(past.status)
            say(*([past_as_json(found, past)] if json else show_past(found, past, waiting)))
            return
        word = standing_word(found, is_owned=Owners.of(opened).owns(found))
        if json:
            say(row_as_json(found, word))
            return
        say(*show_head(found, word))
        tree = CycleTree()
        last = None
        for step in steps(records_of(opened, found), sources_of(found.session, opened.blob)):
            last = step.walked.after
            say(*tree.feed(step))
        assert last is not None  # noqa: S101 - a journal has a first record
        status = status_of(last.phase, last.data, found.written_at_ms)
        say(*show_waits(status, chat_answers.show_waiting(status)))


@app.command(
    help="Print the records of a session, one line each, with decisions below. The conversation is not shown."
)
@store_command
def trace(  # noqa: PLR0913 - one option per way to cut or write the records
    session: SessionArgument,
    *,
    after: Annotated[int, Parameter(help="Start after this record.", validator=validators.Number(gte=0))] = 0,
    limit: Annotated[
        int | None, Parameter(help="The maximum number of records.", validator=validators.Number(gte=1))
    ] = None,
    json: Annotated[
        bool,
        Parameter(name="--json", help="Print whole records, contents included, one JSON object per line."),
    ] = False,
    html: Annotated[
        Path | None,
        Parameter(
            help="Write one page of HTML instead: timeline, conversation with its decisions, and cost. It loads nothing and runs no script."
        ),
    ] = None,
    place: StorePlace = USUAL_PLACE,
) -> None:
    if html is not None and (after or limit is not None or json):
        raise OptionError(["--html is the whole session as a page: leave out --after, --limit and --json"])
    with reading(place) as opened:
        found = find_one(opened, session, place.scope)
        if html is not None:
            _write_page(opened, found, html)
            return
        if after > found.tail.seq:
            fault = (
                f"after is {after}: expected a number up to {found.tail.seq}, where session {session!r} ends"
            )
            raise OptionError([fault])
        for record in islice(_records_after(opened, found, after), limit):
            say(*([encode_line(record).decode().rstrip("\n")] if json else show_record(record)))


def _write_page(opened: Store, found: StoredSession, path: Path) -> None:
    tokens = (files("agentrail") / "gateway/console/css/tokens.css").read_text(encoding="utf-8")
    word = standing_word(found, is_owned=Owners.of(opened).owns(found))
    walked = steps(records_of(opened, found), sources_of(found.session, opened.blob))
    data = "".join(trace_page(found, word, walked, tokens=tokens)).encode()
    write_new_file(path, [data])
    say(f"{path}: {len(data):,} bytes")


def _records_after(store: Store, found: StoredSession, after: int) -> Iterator[Record]:
    while page := store.read(found.scope, found.session, after):
        yield from page
        after = page[-1].seq


@app.command(
    name="replay",
    help="""Replay a session from its journal, without a network, and compare it with the record.

    JOURNAL is the id of a stored session, or a file: what `sessions export` or `sessions trace --json` wrote. Exit codes: 0 all is as
    it was, 1 it differs or is damaged, 2 there is no such journal.""",
)
@store_command
def replay_journal(  # noqa: PLR0913 - an option each
    journal: Annotated[str, Parameter(help="The id of a session, or a file.")],
    other: Annotated[str | None, Parameter(help="With --diff: the journal to compare it with.")] = None,
    *,
    explained: Annotated[
        bool,
        Parameter(
            name="--explain",
            help="Explain causes: each record, its trigger, the plugins consulted, and the outcome.",
        ),
    ] = False,
    step: Annotated[bool, Parameter(help="Step through it, one record per Enter; q exits.")] = False,
    diff: Annotated[bool, Parameter(help="Show where two journals diverge.")] = False,
    place: StorePlace = USUAL_PLACE,
) -> Exit:
    if diff != (other is not None):
        raise OptionError(["--diff compares two journals: expected agentrail sessions replay --diff A B"])
    loaded = load(journal, place)
    if other is not None:
        return compare(loaded[0], load(other, place)[0])
    look = walk_through if step else tell_causes if explained else live_again
    return max([look(one) for one in loaded])


@app.command(
    help="""Resume sessions whose process was killed: decide interrupted work, and report it.

    Without an id: all sessions with interrupted work. --dry-run only shows the decisions. Exit codes: 0 done, 1 some did not come back, 2 there
    is no such session, or another process writes the store."""
)
@store_command
def recover(
    session: Annotated[str | None, Parameter(help="The id of a session.")] = None,
    *,
    dry_run: Annotated[bool, Parameter(help="Show the decisions, and change nothing.")] = False,
    place: StorePlace = USUAL_PLACE,
) -> Exit:
    if not dry_run:
        return trio.run(interruptible, partial(recover_sessions, session, place))
    with reading(place) as opened:
        found = _to_recover(opened, session, place.scope)
        for one in found:
            say(*_would_decide(opened, one))
        if not found:
            say("nothing was interrupted: no session had work when its process ended")
    return Exit.DONE


@app.command(
    help="""Resume a session that is parked because plugins or agentrail changed during a crash, or its store was restored from a backup.

    --on-drift go_on continues it with the state of the code that is here: no `once` tool that had begun runs again, and the model reads
    that its outcome is unknown. Exit codes: 0 done, 1 it did not come back, 2 there is no such session, or another process writes the
    store.""",
    name="resume",
)
@store_command
def resume_parked(
    session: Annotated[str | None, Parameter(help="The id of a session.")] = None,
    *,
    on_drift: Annotated[
        OnDrift, Parameter(help="Leave a session parked whose operations differ, or continue it.")
    ] = "park",
    drifted_by: Annotated[
        str | None, Parameter(help="In place of an id: all sessions parked because of this plugin.")
    ] = None,
    place: StorePlace = USUAL_PLACE,
) -> Exit:
    if (session is None) is (drifted_by is None):
        raise OptionError(["name one session by its id, or a plugin with --drifted-by"])
    go_on = partial(recover_sessions, session, place, on_drift=on_drift, drifted_by=drifted_by)
    return trio.run(interruptible, go_on)


def _to_recover(store: Store, session: str | None, scope: str) -> tuple[StoredSession, ...]:
    if session is not None:
        return (find_one(store, session, scope),)
    owners = Owners.of(store)  # a session that runs in a living process was not interrupted
    working = all_sessions(store, Filters(scope=scope or None, is_working=True, has_ended=False))
    return tuple(one for one in working if not owners.owns(one))


def _would_decide(store: Store, found: StoredSession) -> Iterator[str]:
    revived = state_of(store, found)
    data = revived.state.data
    decisions = list(decisions_of(data, frozenset(revived.begun), int(outside.wall() * 1000)))
    open_things = {0: "nothing is", 1: "one thing is"}.get(len(decisions), f"{len(decisions)} things are")
    yield f"{shown_id(found)}: {open_things} open"
    yield from (f"  {show_decision(one)}" for one in decisions)


@app.command(
    help="""Check that stored data is intact: each record, large value and snapshot, and the file.

    Exit codes: 0 it is, 1 something is damaged, 2 there is no such session or store."""
)
@store_command
def check(
    session: Annotated[str | None, Parameter(help="The id of a session. Default: all sessions.")] = None,
    *,
    place: StorePlace = USUAL_PLACE,
) -> Exit:
    with reading(place) as opened:
        one = None if session is None else find_one(opened, session, place.scope)
        found = all_sessions(opened, Filters(scope=place.scope or None)) if one is None else iter((one,))
        count, damaged = 0, 0
        for stored in found:
            count += 1
            damage = damage_of(opened, stored)
            if damage is not None:
                damaged += 1
                say(damage if stored.session in damage else f"{stored.session}: {damage}")
        if one is None and isinstance(opened, SqliteStore):
            opened.check_file()
    say(
        f"{count} sessions were looked at, {damaged} are damaged"
        if damaged
        else f"{count} sessions are intact"
    )
    return Exit.FAILED if damaged else Exit.DONE


@app.command(
    help="""Delete a session with its sub-agents, and overwrite their data. No process may write the store meanwhile.

    Exit codes: 0 done, 1 deleted but not overwritten yet, 2 there is no such session or store."""
)
@store_command
def delete(
    session: SessionArgument,
    *,
    place: StorePlace = USUAL_PLACE,
) -> Exit:
    with reading(place) as opened:  # to create no missing store, and to suggest similar ids
        found = find_one(opened, session, place.scope)
    with writing(place) as opened:
        remove_notes = _notes_removal(opened, found, place)
        is_owed = not has_other_nodes(opened)  # a database overwrites nothing
        note_overwriting(opened, is_owed=is_owed)
        size = opened.delete(found.scope, found.session)
        if offers(opened, OwedStore):  # lost records of it are not those of a new session with its id
            opened.change_owed((), ((JOURNAL_BEHIND, key_of(found.scope, found.session)),))
        remove_notes()
        is_owed = is_owed and not overwrite(opened)  # no session is delayed by it here
        note_overwriting(opened, is_owed=is_owed)
    say(f"deleted {session}: {size} bytes")
    if is_owed:
        write_error(
            "its data is not overwritten yet, because another process reads the store: the next process that writes the store does it"
        )
    return Exit.FAILED if is_owed else Exit.DONE


def _notes_removal(store: Store, found: StoredSession, place: StorePlace) -> Callable[[], object]:
    """Return a call that removes the working notes of a session. Only its journal names their owner."""
    memories, data_dir = decide_place("memories", None, place.data_dir, os.environ)
    name = PRIVATE if is_shared_store(place.store) else memories
    notes = make_notes(None, name, data_dir, os.environ, store)
    try:
        key = key_of_notes(found.session, found.scope, opening_of(store, found).config.user_data)
    except (AgentrailError, MsgspecError) as error:  # a session that cannot be read can be deleted
        if isinstance(error, StoreUnavailable):
            raise
        return lambda: None
    notes.read(*key)  # while they cannot be removed, the session stays
    row = owed_notes(found.scope, found.session, *key)
    if offers(store, OwedStore):  # so that the next process removes them if this one is killed
        store.change_owed((row,))
    return partial(settle_notes, store, row, notes)


@app.command(help="Copy the whole store to a new file, also while a process writes it.")
@store_command
def backup(
    file: Annotated[Path, Parameter(help="A new file.")],
    *,
    place: StorePlace = USUAL_PLACE,
) -> None:
    with reading(place) as opened:
        if not isinstance(opened, SqliteStore):
            message = "PostgreSQL is backed up with its own tools, such as pg_dump and pg_basebackup"
            raise OptionError([message])
        size = opened.back_up(file)
    say(f"{file}: {size} bytes; read it with --store sqlite:{file}")
