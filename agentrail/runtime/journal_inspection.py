"""Inspection of a stored journal: its records, the state after one of them, and explanations of its decisions."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from attrs import evolve, frozen
from msgspec.structs import replace

from agentrail.abc.store import Store
from agentrail.core.journal.record import OWN_KINDS, Record
from agentrail.core.journal.step_explanation import ExplainedStep
from agentrail.core.protocol.signals import ChangePlugins, PluginLagged, Signal, UpdatePluginOpts
from agentrail.core.session.plain_state import plain_state
from agentrail.core.values.json_patch import PatchStep, json_patch
from agentrail.core.wire.codec import SIGNAL_KINDS
from agentrail.frozen import EMPTY
from agentrail.runtime.journal_state import Journal, JournalEntry, entry_of
from agentrail.runtime.session_loader import read_after
from agentrail.runtime.tree_secrets import without_known_in

RECORD_KINDS: Final = OWN_KINDS | frozenset(SIGNAL_KINDS.values())
"""All kinds of records."""

MAX_LOOKED_THROUGH: Final = 20_000
"""Maximum number of records that one call searches. The page shows where to continue."""

_AT_ONCE: Final = 1_000


@frozen(kw_only=True)
class WantedRecords:
    """Conditions on the records of a journal.

    Attributes:
        before: Record number before which to end. None for the end of the journal. If set, the last records are returned,
            otherwise the first.
        limit: Maximum number of records.
        kinds: Only these kinds. Empty for all.
        plugin: Only records of this plugin: it contributed to the step, or the record names it. None for all.
        text: Only records that contain this text, ignoring case, in their body or in their decisions. None for all.
        with_bodies: Whether to include the bodies of the records. Otherwise their `body` is empty.
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
        return not self.kinds and self.plugin is None and self.text is None


@frozen(kw_only=True)
class JournalPage:
    """A page of a journal.

    Attributes:
        entries: Records in order.
        next: `after` of the next page. None after the last record.
        previous: `before` of the previous page. None before the first record.
        first: Number of the first record that is kept.
    """

    entries: tuple[JournalEntry, ...]
    next: int | None
    previous: int | None
    first: int
    last: int


@frozen(kw_only=True)
class InspectedState:
    """The state of a session after a record, as plain data.

    Attributes:
        at: Number of the record.
        state: Same as `plain_state`, without secrets.
        patch: JSON Patch from the state after another record. None if no other record was named.
    """

    at: int
    state: Mapping[str, Any]
    patch: tuple[PatchStep, ...] | None


def page_of_journal(journal: Journal, wanted: WantedRecords) -> JournalPage:
    stored = journal.stored
    end = stored.tail.seq if wanted.before is None else min(stored.tail.seq, wanted.before - 1)
    # With only `before`, the search runs backwards, and dropped records matter only at its end.
    begin = wanted.after if wanted.before is None else max(wanted.after, stored.first_seq - 1)
    if wanted.before is None:
        found, seen = _first_of(journal, wanted, begin, end)
        start, stop = begin, seen
    else:
        found, seen = _last_of(journal, wanted, begin, end)
        start, stop = seen, end
    return JournalPage(
        entries=tuple([_shown(record, journal.store, with_body=wanted.with_bodies) for record in found]),
        next=stop if stop < stored.tail.seq else None,
        previous=start + 1 if start >= stored.first_seq else None,
        first=stored.first_seq,
        last=stored.tail.seq,
    )


def state_of_journal(journal: Journal, number: int, since: int | None) -> InspectedState:
    state = without_known_in(plain_state(journal.state_behind(number)))
    patch = None
    if since is not None:
        patch = json_patch(without_known_in(plain_state(journal.state_behind(since))), state)
    return InspectedState(at=number, state=state, patch=patch)


def explanation_of_journal(journal: Journal, number: int) -> ExplainedStep:
    return without_known_in(journal.explained(number))


# --- search


def _first_of(journal: Journal, wanted: WantedRecords, after: int, end: int) -> tuple[list[Record], int]:
    if wanted.plugin is not None:
        found = list(_with_plugin(journal, wanted, after, end))[: wanted.limit]
        return found, found[-1].seq if len(found) == wanted.limit else end
    found = []
    place = after
    stop = end if wanted.takes_all else min(end, after + MAX_LOOKED_THROUGH)
    while place < stop:
        up_to = min(stop, place + _step(wanted))
        for record in _read(journal, place, up_to):
            if _is_wanted(record, journal.store, wanted):
                found.append(record)
                if len(found) == wanted.limit:
                    return found, record.seq
        place = up_to
    return found, place


def _last_of(journal: Journal, wanted: WantedRecords, after: int, end: int) -> tuple[list[Record], int]:
    if wanted.plugin is not None:
        kept = deque(_with_plugin(journal, wanted, after, end), maxlen=wanted.limit)
        return list(kept), kept[0].seq - 1 if len(kept) == wanted.limit else after
    found: list[Record] = []
    place = end
    stop = after if wanted.takes_all else max(after, end - MAX_LOOKED_THROUGH)
    while place > stop:
        up_to, place = place, max(stop, place - _step(wanted))
        for record in reversed(_read(journal, place, up_to)):
            if _is_wanted(record, journal.store, wanted):
                found.append(record)
                if len(found) == wanted.limit:
                    return found[::-1], record.seq - 1
    return found[::-1], place


def _step(wanted: WantedRecords) -> int:
    return min(wanted.limit, _AT_ONCE) if wanted.takes_all else _AT_ONCE


def _read(journal: Journal, after: int, up_to: int) -> list[Record]:
    stored, store = journal.stored, journal.store
    found = store.read(stored.scope, stored.session, after, up_to - after)
    if not found:
        read_after(store, stored.scope, stored.session, stored.first_seq - 1, stored.tail.seq)  # raises
    return [record for record in found if record.seq <= up_to]  # after a gap there are later ones


def _with_plugin(journal: Journal, wanted: WantedRecords, after: int, end: int) -> Iterator[Record]:
    """Return the records that a plugin contributed to, or that name it. Needs a fold: records do not list called plugins."""
    if after >= end:
        return
    for step in journal.explained_steps(after, end):
        links = [link for run in step.runs for link in run.links]
        said = any(link.plugin == wanted.plugin and link.verdict != "silent" for link in links)
        record = step.walked.record
        if (said or _names(step.walked.signal, wanted.plugin)) and _is_wanted(record, journal.store, wanted):
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
    """Search for a text in the shown data. In the stored data, a reader could guess a secret character by character."""
    written = msgspec.json.encode(entry.body).decode()
    needle = msgspec.json.encode(text).decode()[1:-1]  # in its encoded form, with escaped quotes
    return needle.casefold() in written.casefold() or text.casefold() in "\n".join(entry.does).casefold()


def _shown(record: Record, store: Store, *, with_body: bool = True) -> JournalEntry:
    if not with_body:
        record = replace(record, body=b"{}")
        return evolve(without_known_in(entry_of(record, store)), body=EMPTY)
    return without_known_in(entry_of(record, store))
