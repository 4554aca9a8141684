"""What people ask of a stored journal: some of its records, what the session was behind one of them, and why it did what it did there.

Each function reads the store and blocks, so it runs in a worker thread; none of them carries anything out. What leaves is without the
secrets that are known by now, whether they were when it was recorded or not. No loop enters.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from attrs import evolve, frozen

from agentrail.abc.store import Store, StoredSession
from agentrail.core.journal.explaining import ExplainedStep
from agentrail.core.journal.record import OWN_KINDS, Record
from agentrail.core.protocol.signals import ChangePlugins, PluginLagged, Signal, UpdatePluginOpts
from agentrail.core.session.plain_state import plain_state
from agentrail.core.values.json_patch import PatchStep, json_patch
from agentrail.core.wire.codec import SIGNAL_KINDS
from agentrail.frozen import EMPTY
from agentrail.runtime.past import Journal, JournalEntry, entry_of
from agentrail.runtime.withheld import without_known_in

RECORD_KINDS: Final = OWN_KINDS | frozenset(SIGNAL_KINDS.values())
"""What kinds of records there are."""

MAX_LOOKED_THROUGH: Final = 20_000
"""How many records one call looks through at most for those that are wanted; the page says where to go on."""

_AT_ONCE: Final = 1_000


@frozen(kw_only=True)
class WantedRecords:
    """Which records of a journal are wanted.

    Attributes:
        after: The number behind which to begin.
        before: The number in front of which to end; None for the end of the journal. With it the last ones are given, else the first.
        limit: How many at most.
        kinds: Of which kinds; empty for all.
        plugin: That concern this plugin: it said something there, or the record names it. None for all.
        text: That hold this text, in upper or lower case, in what they say or in what was decided; None for all.
        with_bodies: Whether what the records say comes along; else their `body` is empty.
    """

    after: int = 0
    before: int | None = None
    limit: int = 100
    kinds: frozenset[str] = frozenset()
    plugin: str | None = None
    text: str | None = None
    with_bodies: bool = True

    @property
    def takes_all(self) -> bool:
        """Whether nothing is looked for."""
        return not self.kinds and self.plugin is None and self.text is None


@frozen(kw_only=True)
class JournalPage:
    """A part of a journal.

    Attributes:
        entries: Records in order.
        next: `after` of the page behind; None behind the last record.
        previous: `before` of the page in front; None in front of the first record.
        first: The number of the first record that is kept.
        last: The number of the last one.
    """

    entries: tuple[JournalEntry, ...]
    next: int | None
    previous: int | None
    first: int
    last: int


@frozen(kw_only=True)
class InspectedState:
    """What a session was behind a record, as plain data.

    Attributes:
        at: The number of the record.
        state: As of `plain_state`, without secrets.
        patch: What makes of the state behind another record this one; None where no other was named.
    """

    at: int
    state: Mapping[str, Any]
    patch: tuple[PatchStep, ...] | None


def page_of_journal(journal: Journal, store: Store, wanted: WantedRecords) -> JournalPage:
    """Give the records that are wanted, with where to go on."""
    stored = journal.stored
    end = stored.tail.seq if wanted.before is None else min(stored.tail.seq, wanted.before - 1)
    # With `before` alone one comes from behind, and what was dropped is only where it ends.
    begin = wanted.after if wanted.before is None else max(wanted.after, stored.first_seq - 1)
    if wanted.before is None:
        found, seen = _first_of(journal, store, wanted, begin, end)
        start, stop = begin, seen
    else:
        found, seen = _last_of(journal, store, wanted, begin, end)
        start, stop = seen, end
    return JournalPage(
        entries=tuple([_shown(record, store, with_body=wanted.with_bodies) for record in found]),
        next=stop if stop < stored.tail.seq else None,
        previous=start + 1 if start >= stored.first_seq else None,
        first=stored.first_seq,
        last=stored.tail.seq,
    )


def state_of_journal(journal: Journal, number: int, since: int | None) -> InspectedState:
    """Say what a session was behind a record, and what has changed since another one."""
    state = without_known_in(plain_state(journal.state_behind(number)))
    if since is None:
        return InspectedState(at=number, state=state, patch=None)
    other = without_known_in(plain_state(journal.state_behind(since)))
    return InspectedState(at=number, state=state, patch=json_patch(other, state))


def explanation_of_journal(journal: Journal, number: int) -> ExplainedStep:
    """Say what came of a record, and why."""
    return without_known_in(journal.explained(number))


# --- which records


def _first_of(
    journal: Journal, store: Store, wanted: WantedRecords, after: int, end: int
) -> tuple[list[Record], int]:
    """Find the first ones behind a number; say also up to which number was looked."""
    if wanted.plugin is not None:
        found = list(_with_plugin(journal, store, wanted, after, end))[: wanted.limit]
        return found, found[-1].seq if len(found) == wanted.limit else end
    found = []
    place = after
    stop = end if wanted.takes_all else min(end, after + MAX_LOOKED_THROUGH)
    while place < stop:
        for record in _read(journal.stored, store, place, min(stop - place, _step(wanted))):
            place = record.seq
            if _is_wanted(record, store, wanted):
                found.append(record)
                if len(found) == wanted.limit:
                    return found, place
    return found, max(place, after)


def _last_of(
    journal: Journal, store: Store, wanted: WantedRecords, after: int, end: int
) -> tuple[list[Record], int]:
    """Find the last ones in front of an end; say also down to behind which number was looked."""
    if wanted.plugin is not None:
        kept = deque(_with_plugin(journal, store, wanted, after, end), maxlen=wanted.limit)
        return list(kept), kept[0].seq - 1 if len(kept) == wanted.limit else after
    found: list[Record] = []
    place = end
    stop = after if wanted.takes_all else max(after, end - MAX_LOOKED_THROUGH)
    while place > stop:
        count = min(place - stop, _step(wanted))
        for record in reversed(_read(journal.stored, store, place - count, count)):
            place = record.seq - 1
            if _is_wanted(record, store, wanted):
                found.append(record)
                if len(found) == wanted.limit:
                    return found[::-1], place
    return found[::-1], place


def _step(wanted: WantedRecords) -> int:
    return min(wanted.limit, _AT_ONCE) if wanted.takes_all else _AT_ONCE


def _read(stored: StoredSession, store: Store, after: int, limit: int) -> tuple[Record, ...]:
    return store.read(stored.scope, stored.session, after, limit)


def _with_plugin(
    journal: Journal, store: Store, wanted: WantedRecords, after: int, end: int
) -> Iterator[Record]:
    """Find those in which a plugin said something, or that name it. It takes a fold: no record says whom its step asked."""
    if after >= end:
        return
    for step in journal.explained_steps(after, end):
        links = [link for run in step.runs for link in run.links]
        said = any(link.plugin == wanted.plugin and link.verdict != "silent" for link in links)
        record = step.walked.record
        if (said or _names(step.walked.signal, wanted.plugin)) and _is_wanted(record, store, wanted):
            yield record


def _names(signal: Signal | None, plugin: str | None) -> bool:
    match signal:
        case UpdatePluginOpts(plugin=named) | PluginLagged(plugin=named) | ChangePlugins(name=named):
            return named == plugin
        case _:
            return False


def _is_wanted(record: Record, store: Store, wanted: WantedRecords) -> bool:
    if wanted.kinds and record.kind not in wanted.kinds:
        return False
    return wanted.text is None or _holds(_shown(record, store), wanted.text)


def _holds(entry: JournalEntry, text: str) -> bool:
    """Look for a text in what is shown, and not in what is stored: else who asks for one character after the other reads a secret."""
    written = msgspec.json.encode(entry.body).decode()
    needle = msgspec.json.encode(text).decode()[1:-1]  # as it stands in there, its quotes escaped
    return needle.casefold() in written.casefold() or text.casefold() in "\n".join(entry.does).casefold()


def _shown(record: Record, store: Store, *, with_body: bool = True) -> JournalEntry:
    if not with_body:
        record = msgspec.structs.replace(record, body=b"{}")
        return evolve(without_known_in(entry_of(record, store)), body=EMPTY)
    return without_known_in(entry_of(record, store))
