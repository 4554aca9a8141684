"""Reading of a stored session: its journal is read and folded, in a worker thread, without effects or an event loop."""

import importlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from attrs import frozen
from msgspec.structs import replace

from agentrail.abc.store import Filters, Store, StoredSession
from agentrail.core.journal.fold import Folded, Sources, Walked, first_state, fold, walk
from agentrail.core.journal.record import (
    DRIFTED,
    ERASED,
    REWOUND,
    TAKEN,
    Record,
    Tail,
    decode_opened,
    decode_rewound,
    join_blobs,
)
from agentrail.core.policy.budget import Spent
from agentrail.core.protocol.effects import Publish
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import EffectId
from agentrail.core.session.state import SessionConfig, SessionState
from agentrail.core.session.state_codec import begun_in, decode_codeless, decode_session
from agentrail.core.stack.loaded_stack import Ask
from agentrail.core.stack.plugin import Plugin
from agentrail.errors import (
    CodecError,
    Erased,
    JournalCorrupt,
    PluginError,
    StillNeeded,
    Trimmed,
    Unrevivable,
)
from agentrail.events import Event
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.otp.guarded_calls import call_contained
from agentrail.runtime.snapshots import is_sound
from agentrail.structs import struct_from

LOGGER: Final = Logger("agentrail.runtime")

REPLAYED_RECORDS: Final = 200
"""Number of last records whose events are available again for returning subscribers."""

_PAGE: Final = 1_000
_AFTER_ALL: Final = 2**53
"""After the number of every record."""


@frozen(kw_only=True)
class StoredOpening:
    """Facts of a stored session before its code is found, for the function that has to find it.

    Attributes:
        session_id: Its id.
        scope: Its scope. Empty for none.
        origin: Source of its code, as given at its start. Empty for none, and if its first record was trimmed.
        config: Its initial configuration. The current model may be another one.
        tools: Names of its tools at its start, or at its newest snapshot if it was trimmed. The same holds for `plugins`.
        plugins: Records of its plugins at its start.
    """

    session_id: SessionId
    scope: str
    origin: str
    config: SessionConfig
    tools: tuple[str, ...]
    plugins: tuple[PluginRecord, ...]


class Revived(Folded, frozen=True, kw_only=True, gc=False):
    """A folded journal.

    Attributes:
        stored: Its row in the store.
        begun: Open effects that may have begun.
        attempt: Number of consecutive owners without any progress.
        events: Events of its last records since the last rewind, oldest first, without those that are never replayed.
        snapshot: Record number of its newest snapshot. 0 for none.
        set_aside: How often verdicts of plugins on calls were ignored, because the records show whether those ran, by plugin.
        ended_below: Usage of sessions of its running tools that ended, or never began, without a record of that in it.
    """

    stored: StoredSession
    events: tuple[Event, ...] = ()
    snapshot: int = 0
    ended_below: tuple[Spent, ...] = ()


class PluginFinder:
    """Finds the code of stored plugins, and remembers missing ones."""

    def __init__(self, given: Mapping[str, Plugin]) -> None:
        """Set the plugins to search first.

        Args:
            given: By their names.
        """
        self._given = given
        self.missing: dict[str, None] = {}

    def __call__(self, record: PluginRecord) -> Plugin | type[Plugin] | None:
        """Return the code of a plugin. None if it is missing."""
        found = self._given.get(record.name) or _made_at(record)
        if found is None:
            self.missing[f"plugin {record.name!r} (version {record.version!r}, from {record.origin})"] = None
        return found

    @contextmanager
    def naming_missing(self, session: SessionId) -> Iterator[None]:
        """Raise Unrevivable in place of a PluginError if code is missing."""
        try:
            yield
        except PluginError:
            if self.missing:
                raise Unrevivable(session, missing=tuple(self.missing)) from None
            raise


def _made_at(record: PluginRecord) -> Any:
    found = found_at(record.origin)
    if isinstance(found, type) and not (hasattr(found, "handle") and hasattr(found, "init")):
        return None  # a foreign journal may name any class, and creating one may have any effect
    plugin = call_contained(lambda _: None, found) if isinstance(found, type) else found
    name = call_contained(lambda _: None, getattr, plugin, "name", None)
    return plugin if name == record.name else None


def found_at(origin: str) -> Any:
    """Return the object at `package.module:NAME`. None if it does not exist or cannot be imported.

    Nothing of the standard library is imported.
    """
    module, _, name = origin.partition(":")
    if not name or "<" in name or module.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
        return None

    def find() -> Any:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found

    return call_contained(lambda _: None, find)


def fault_of_origin(record: PluginRecord) -> str | None:
    """Return why a plugin must not be added to a stored session: another process must find it where it was defined."""
    if found_at(record.origin) is not None:
        return None
    return f"plugin {record.name!r} is defined at {record.origin!r}, where no other process can find it, but the session is stored: make it importable as package.module:NAME, give it to start_session and resume_session, or use store='memory:'"


def opening_of(store: Store, stored: StoredSession) -> StoredOpening:
    """Read the start of a session. For a trimmed one, its state at its newest snapshot. This blocks.

    Raises:
        SessionNotFound, Trimmed, StoreUnavailable: Same as `Store.read`.
        Erased: The content was erased.
        CodecError: A newer version wrote it, or it is damaged.
    """
    state, origin = _beginning_of(store, stored)
    begun = decode_codeless(state)
    return StoredOpening(
        session_id=stored.session,
        scope=stored.scope,
        origin=origin,
        config=begun.config,
        tools=tuple(spec.name for spec in begun.tools.specs),
        plugins=begun.plugins,
    )


def _beginning_of(store: Store, stored: StoredSession) -> tuple[bytes, str]:
    if stored.first_seq > 1:
        for snapshot in store.snapshots(stored.scope, stored.session, stored.tail.seq):
            if is_sound(snapshot):
                return snapshot.state, ""
    first = record_at(store, stored, stored.first_seq)
    if first.kind == ERASED:
        raise Erased(stored.session, first.seq)
    if first.seq > 1:
        raise Trimmed(stored.session, first=first.seq)
    opened = decode_opened(join_blobs(first.body, store.blob))
    return bytes(opened.state), opened.origin


def revive(store: Store, stored: StoredSession, finder: PluginFinder, ask: Ask) -> Revived:
    """Read a journal up to its row, and fold it. This blocks, and executes no effect.

    Args:
        store: Its store.
        stored: The session.
        finder: Finds the code of its plugins.
        ask: Calls handlers.

    Raises:
        Unrevivable: Your move: a plugin is missing.
        JournalCorrupt, Erased, CodecError, PluginError: Same as `fold`.
        SessionNotFound, Trimmed, StoreUnavailable: Same as `Store.read`.
    """
    sources = fold_sources(store, stored, finder, ask)
    with finder.naming_missing(stored.session):
        start, tail, begun = newest_snapshot(store, stored, finder, ask)
        records = read_after(store, stored.scope, stored.session, tail.seq, stored.tail.seq)
        if start is None:
            start = first_state(records, sources)
        folded, events = _fold(start, records, tail, begun, sources)
    return struct_from(Revived, folded, stored=stored, events=events, snapshot=tail.seq, ended_below=())


def revive_ended(
    store: Store, scope: str, session: SessionId, finder: PluginFinder, ask: Ask
) -> Revived | None:
    """Read the outcome of an ended session. None if this id does not exist. This blocks.

    Raises:
        Unrevivable, JournalCorrupt, CodecError, PluginError, StoreUnavailable: Same as `revive`.
    """
    stored = store.get(scope, session)
    return None if stored is None else revive(store, stored, finder, ask)


def taken_on(
    store: Store, revived: Revived, stored: StoredSession, finder: PluginFinder, ask: Ask
) -> Revived:
    """Fold the records written before the session was taken over, usually only that of the takeover. This blocks.

    Args:
        store: Its store.
        revived: The folded records.
        stored: Its current row in the store.
        finder: Same as `revive`.
        ask: Same as `revive`.

    Raises:
        Unrevivable, JournalCorrupt, CodecError, PluginError, StoreUnavailable: Same as `revive`.
    """
    # Not further: the node that took it since has the newest epoch, with which this node would pass the fence.
    rest = read_after(store, stored.scope, stored.session, revived.tail.seq, stored.tail.seq)
    if any(record.kind != TAKEN for record in rest):
        return revive(store, stored, finder, ask)
    folded = fold(revived.state, rest, tail=revived.tail, begun=revived.begun)
    attempt = revived.attempt + folded.attempt
    return replace(revived, stored=stored, state=folded.state, tail=folded.tail, attempt=attempt)


def stored_of(store: Store, scope: str, session_id: SessionId) -> StoredSession:
    """Return the row of a session. This blocks.

    Raises:
        SessionNotFound: Your move: it does not exist. `nearest` has similar ids.
    """
    while (stored := store.get(scope, session_id)) is None:  # or it is just being created
        store.read(scope, session_id, _AFTER_ALL, 1)  # raises with similar ids, or that its row is lost
    return stored


def all_sessions(store: Store, filters: Filters) -> Iterator[StoredSession]:
    """Yield the sessions that a filter finds, in order. Reads a page at a time, which blocks."""
    after: tuple[str, str] | None = None
    while page := store.find(filters, after=after, limit=_PAGE):
        yield from page
        after = (page[-1].scope, page[-1].session)


def read_after(
    store: Store, scope: str, session: SessionId, after: int, up_to: int | None = None
) -> tuple[Record, ...]:
    """Read all records after a number, up to another one, which must exist, or to the end. This blocks."""
    records: list[Record] = []
    while up_to is None or after < up_to:
        limit = _PAGE if up_to is None else min(_PAGE, up_to - after)
        page = store.read(scope, session, after, limit)
        records += page
        after = page[-1].seq if page else after
        if len(page) < limit:
            break
    if up_to is not None and after < up_to:  # a record that the row of the session names
        raise JournalCorrupt(session, after + 1, why="it is missing")
    return tuple(records)


def record_at(store: Store, stored: StoredSession, number: int) -> Record:
    """Read one record up to the last one that its row names, or raise JournalCorrupt. This blocks."""
    for record in store.read(stored.scope, stored.session, number - 1, 1):
        if record.seq == number:
            return record
    raise JournalCorrupt(stored.session, number, why="it is missing")


def check_may_trim(store: Store, scope: str, session_id: SessionId, before: int, *, seen: int = 0) -> int:
    """Check that a session can resume without the records before a number. Those up to `seen` were checked already. This blocks.

    Returns:
        Number of the last record checked now.

    Raises:
        StillNeeded: Your move: a kept record refers to a dropped one.
        SessionNotFound, StoreUnavailable: Same as `Store.read`.
    """
    stored = stored_of(store, scope, session_id)
    kept = [one.seq for one in store.snapshots(scope, session_id) if one.seq >= before]
    # Records before the first snapshot cannot be folded, neither now nor after trimming.
    first = min(kept, default=before)
    after = max(first, stored.first_seq - 1, seen)
    back = [
        f" its record {one.seq}, with which it went back to record {number}"
        for one in read_after(store, scope, session_id, after)
        if one.kind == REWOUND and (number := decode_rewound(one.body).number) < first
    ]
    if back:
        raise StillNeeded(session_id, by=back)
    return max(after, stored.tail.seq)


def fold_sources(store: Store, stored: StoredSession, finder: PluginFinder, ask: Ask) -> Sources:
    """Return the sources of the references in a session's records. After a rewind, one of them is another fold."""
    return Sources(
        resolve=finder,
        ask=ask,
        blob=store.blob,
        state_at=partial(state_behind, store, stored, finder, ask),
        keeps_verdicts=True,
    )


def state_behind(
    store: Store, stored: StoredSession, finder: PluginFinder, ask: Ask, number: int
) -> SessionState:
    """Fold a journal up to a number, from the newest snapshot before it. This blocks, and raises the same errors as `fold`.

    Raises:
        Trimmed: The records needed were dropped. `first` is the first number that still works.
    """
    if stored.first_seq > 1:
        kept = [one.seq for one in store.snapshots(stored.scope, stored.session)]
        first = min((seq for seq in kept if seq >= stored.first_seq), default=stored.first_seq)
        if number < first:
            raise Trimmed(stored.session, first=first)
    start, tail, _ = newest_snapshot(store, stored, finder, ask, at_most=number)
    records = read_after(store, stored.scope, stored.session, tail.seq, number)
    sources = fold_sources(store, stored, finder, ask)
    begun = first_state(records, sources) if start is None else start
    return fold(begun, records, tail=tail, sources=sources).state


def newest_snapshot(  # noqa: PLR0913 - its conditions, by name
    store: Store,
    stored: StoredSession,
    finder: PluginFinder,
    ask: Ask,
    *,
    at_most: int | None = None,
    last_event: int | None = None,
) -> tuple[SessionState | None, Tail, tuple[EffectId, ...]]:
    """Return the newest snapshot of this journal that is intact and readable. None and the beginning if there is none.

    Its open effects that may have begun are returned with it.

    Args:
        store: Its store.
        stored: The session.
        finder: Same as `revive`.
        ask: Same as `revive`.
        at_most: Only snapshots up to this record. None for any.
        last_event: Only snapshots without events after this number. None for any.
    """
    for snapshot in store.snapshots(
        stored.scope, stored.session, stored.tail.seq if at_most is None else at_most
    ):
        fault: str | None = None
        behind = store.read(stored.scope, stored.session, snapshot.seq - 1, 1)
        if not is_sound(snapshot) or not behind or behind[0].hash != snapshot.hash:
            fault = "its hash does not match"
        else:
            try:
                state, begun = decode_session(snapshot.state, finder, ask=ask), begun_in(snapshot.state)
            except CodecError as error:
                fault = str(error)
            else:
                if last_event is not None and state.data.seq > last_event:
                    continue
                return state, Tail(seq=snapshot.seq, epoch=behind[0].epoch, hash=snapshot.hash), begun
        LOGGER.warning(
            "session %s: its snapshot after record %s is ignored: %s", stored.session, snapshot.seq, fault
        )
    return None, Tail(), ()


def _fold(
    start: SessionState,
    records: Sequence[Record],
    tail: Tail,
    begun: tuple[EffectId, ...],
    sources: Sources,
) -> tuple[Folded, tuple[Event, ...]]:
    settled = max((number for number, record in enumerate(records, 1) if record.kind == DRIFTED), default=0)
    cut = max(settled, len(records) - REPLAYED_RECORDS)
    head = Folded(state=start, tail=tail, begun=begun)
    if cut:
        head = fold(start, records[:cut], tail=tail, begun=begun, sources=sources)
    last = fold(head.state, records[cut:], tail=head.tail, begun=head.begun, sources=sources)
    # In one go, as in later folds: its number advances at its end, and not in between.
    if head.drift is not None or last.drift is not None:
        return fold(start, records, tail=tail, begun=begun, sources=sources), ()
    counts = Counter(dict(head.set_aside)) + Counter(dict(last.set_aside))
    last = replace(last, set_aside=tuple(counts.items()))
    events: list[Event] = []
    for one in walk(head.state, records[cut:], tail=head.tail, sources=sources):
        if one.record.kind == REWOUND:
            events.clear()  # they no longer count, or are older than those that no longer count
        events += committed_events_of(one)
    return last, tuple(events)


def committed_events_of(walked: Walked) -> list[Event]:
    """Return the events of a step that are kept, in order."""
    published = (effect.event for effect in walked.effects if isinstance(effect, Publish))
    return [event for event in published if event.meta is not None and not event.meta.ephemeral]
