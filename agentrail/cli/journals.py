"""Journal commands: replay, step through, compare and check. Read-only, and no effect is carried out."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from agentrail.abc.store import Store, StoredSession
from agentrail.cli.exits import Exit
from agentrail.cli.session_views import show_record
from agentrail.cli.stored import StorePlace, find_one, reading, records_of, say, sources_of
from agentrail.core.journal.exports import EXPORT_BEGINS, read_export
from agentrail.core.journal.folding import Sources, no_blobs
from agentrail.core.journal.lines import read_journal
from agentrail.core.journal.record import Record, Tail, blobs_of, first_broken, join_blobs
from agentrail.core.journal.replaying import ReplayStep, explain_journal, replay, steps, where_they_part
from agentrail.core.protocol.effects import Publish
from agentrail.errors import AgentrailError, CodecError, JournalCorrupt, OptionError
from agentrail.runtime.reviving import read_after
from agentrail.runtime.snapshots import is_sound

_WALKED: Final = "Enter goes on, q leaves: "


@frozen(kw_only=True)
class LoadedJournal:
    """A loaded journal.

    Attributes:
        sources: Values that the fold looks up. Large values are already loaded.
        snapshots: Stored states, by the number of the record they follow.
    """

    name: str
    records: tuple[Record, ...]
    sources: Sources
    snapshots: dict[int, bytes]


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
    try:
        text = path.read_bytes()
    except OSError as error:
        raise OptionError([f"{path} cannot be read: {error.strerror}"]) from error
    if text.startswith(EXPORT_BEGINS):
        return _load_export(path, text)
    found = read_journal(text)
    if found.damaged is not None:
        raise found.damaged
    if not found.records:
        raise OptionError([f"{path} holds no journal: expected a record as JSON in each line"])
    session = found.records[0].session
    sources = sources_of(session, no_blobs)
    return (LoadedJournal(name=str(path), records=found.records, sources=sources, snapshots={}),)


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
            snapshots={},
        )
        for one in exported
    )


def live_again(loaded: LoadedJournal) -> Exit:
    """Replay a journal and report whether the result is the same."""
    found = replay(loaded.records, loaded.sources, loaded.snapshots)
    if found.difference is not None:
        say(str(found.difference))
        return Exit.FAILED
    say(f"{loaded.name}: {found.records} records, all as it was")
    return Exit.DONE


def tell_causes(loaded: LoadedJournal) -> Exit:
    """Print the cause of each record."""
    for line in explain_journal(loaded.records, loaded.sources):
        say(line)
    return Exit.DONE


def compare(one: LoadedJournal, other: LoadedJournal) -> Exit:
    """Print the first difference of two journals."""

    def blob(digest: str) -> bytes | None:
        found = one.sources.blob(digest)
        return other.sources.blob(digest) if found is None else found

    parting = where_they_part(one.records, other.records, Sources(blob=blob))
    if parting is None:
        say(f"{one.name} and {other.name} do not part")
        return Exit.DONE
    say(str(parting))
    return Exit.FAILED


def walk_through(loaded: LoadedJournal) -> Exit:
    """Print a journal record by record: one per Enter in a terminal, otherwise all."""
    is_asked = os.isatty(0)
    for step in steps(loaded.records, loaded.sources):
        for line in show_step(step):
            say(line)
        if is_asked:
            sys.stderr.write(_WALKED)
            sys.stderr.flush()
            if sys.stdin.readline().strip() == "q":
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
            first = store.read(stored.scope, stored.session, stored.first_seq - 1, 1)[0]
            behind = Tail(seq=first.seq, epoch=first.epoch, hash=first.hash)
        records = read_after(store, stored.scope, stored.session, behind.seq)
        broken = first_broken(records, behind)
        if broken is not None:
            raise JournalCorrupt(stored.session, broken)
        last = records[-1].seq if records else behind.seq
        if last < stored.tail.seq:
            raise JournalCorrupt(stored.session, last + 1, why="it is missing")
        for record in records:
            _check_blobs(store, record)
    except AgentrailError as error:
        return str(error)
    hashes = {record.seq: record.hash for record in records} | {behind.seq: behind.hash}
    for snapshot in store.snapshots(stored.scope, stored.session):
        if not is_sound(snapshot) or hashes.get(snapshot.seq, snapshot.hash) != snapshot.hash:
            return f"the snapshot behind record {snapshot.seq} is damaged: it is ignored, and nothing is lost"
    return None


def _check_blobs(store: Store, record: Record) -> None:
    try:
        join_blobs(record.body, store.blob)
    except CodecError as error:
        raise JournalCorrupt(record.session, record.seq, why=str(error)) from error
