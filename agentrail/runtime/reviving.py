"""What a stored session comes to: its journal is read and folded, in a worker thread, without any effect. No loop enters.

Code is not stored. Plugins come from what the caller gives, by their names, else from where they were defined; a plugin that is not
there is said by name, because a guard that is missing must not be missed.
"""

import importlib
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from attrs import field, frozen

from agentrail.abc.store import Store, StoredSession
from agentrail.core.journal.folding import Drift, Folded, Sources, first_state, fold, walk
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
from agentrail.core.protocol.effects import Publish
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import EffectId
from agentrail.core.session.state import SessionConfig, SessionState
from agentrail.core.session.state_codec import begun_in, decode_config, decode_session
from agentrail.core.stack.loading import Ask
from agentrail.core.stack.plugin import Plugin
from agentrail.errors import CodecError, Erased, PluginError, StillNeeded, Trimmed, Unrevivable
from agentrail.events import Event
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.otp.edges import call_guarded
from agentrail.runtime.snapshots import is_sound

LOGGER: Final = Logger("agentrail.runtime")

REPLAYED_RECORDS: Final = 200
"""Of how many records the events are at hand again for subscribers that come back."""

_PAGE: Final = 1_000


@frozen(kw_only=True)
class StoredOpening:
    """What is known of a stored session before any of its code is there: for who has to find that code.

    Attributes:
        session_id: Which session.
        scope: Of which scope; empty for one without.
        origin: Where its code comes from, as it was opened with; empty for nowhere, and where its first record was trimmed.
        config: What it was started with; the model that it has by now may be another one.
        tools: The names of its tools when it began; of one that was trimmed, at its newest snapshot. So are the plugins.
        plugins: What stands for its plugins when it began.
    """

    session_id: SessionId
    scope: str
    origin: str
    config: SessionConfig
    tools: tuple[str, ...]
    plugins: tuple[PluginRecord, ...]


@frozen(kw_only=True)
class Revived:
    """What a journal comes to.

    Attributes:
        stored: How the store has it.
        state: What the session knows.
        tail: Where the journal ends.
        begun: The open effects that may have begun.
        attempt: How many owners in a row came without anything happening.
        events: What its last records published, oldest first; those that are never replayed are left out.
        snapshot: Behind which record its newest snapshot stands; 0 for none.
        drift: Where the code here makes another history of it than the one that was lived; None where it does not.
        set_aside: How often verdicts of plugins on calls did not count, because the records say whether those ran, by plugin.
    """

    stored: StoredSession
    state: SessionState
    tail: Tail
    begun: tuple[EffectId, ...] = ()
    attempt: int = 0
    events: tuple[Event, ...] = field(default=(), repr=False)
    snapshot: int = 0
    drift: Drift | None = None
    set_aside: tuple[tuple[str, int], ...] = ()


class PluginFinder:
    """Finds the code of stored plugins, and remembers what it did not find."""

    def __init__(self, given: Mapping[str, Plugin]) -> None:
        """Look among these first.

        Args:
            given: By their names.
        """
        self._given = given
        self.missing: dict[str, None] = {}

    def __call__(self, record: PluginRecord) -> Plugin | type[Plugin] | None:
        """Find the code of one; None where it is not there."""
        found = self._given.get(record.name) or _made_at(record)
        if found is None:
            self.missing[f"plugin {record.name!r} (version {record.version!r}, from {record.origin})"] = None
        return found


def _made_at(record: PluginRecord) -> Any:
    """Make a plugin of the class that stands at its origin; None where that makes none of this name.

    So it is with one that its caller made, with arguments or under a name of its own: only the caller can give it.
    """
    found = found_at(record.origin)
    if isinstance(found, type) and not (hasattr(found, "handle") and hasattr(found, "init")):
        return None  # a journal of someone else may name any class, and to make one may do anything
    plugin = call_guarded(lambda _: None, found) if isinstance(found, type) else found
    name = call_guarded(lambda _: None, getattr, plugin, "name", None)
    return plugin if name == record.name else None


def found_at(origin: str) -> Any:
    """Give what stands at `package.module:NAME`; None where nothing does, or it cannot be imported.

    An origin may come with a journal of someone else. No plugin is defined in the standard library, so none of it is imported.
    """
    module, _, name = origin.partition(":")
    if not name or "<" in name or module.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
        return None

    def find() -> Any:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found

    return call_guarded(lambda _: None, find)


def fault_of_origin(record: PluginRecord) -> str | None:
    """Say what is wrong with a plugin that comes to a stored session: another process has to find it by where it was defined."""
    if found_at(record.origin) is not None:
        return None
    return (
        f"plugin {record.name!r} is defined at {record.origin!r}, where no other process finds it, and the session is kept in a store: "
        "make it importable as package.module:NAME, give it to start_session and resume_session, or use store='memory:'"
    )


def opening_of(store: Store, stored: StoredSession) -> StoredOpening:
    """Read how a session began; of one that was trimmed, how it stood at its newest snapshot. This blocks.

    Raises:
        SessionNotFound, Trimmed, StoreUnavailable: As of `Store.read`.
        Erased: What stood there was removed.
        CodecError: It is of a newer version.
    """
    state, origin = _beginning_of(store, stored)
    document = msgspec.json.decode(state)
    config = document["session_state"]["data"]["config"]
    # Without its plugins: no code is there yet, and the configuration does not refer to them.
    head = {"codec": document["codec"], "tools": document["tools"], "plugins": []}
    plugins = [
        PluginRecord(
            name=one["name"], version=one["version"], origin=one["origin"], options=one.get("options")
        )
        for one in document["plugins"]
    ]
    numbers = document["session_state"]["data"]["tools"]["tools"]
    return StoredOpening(
        session_id=stored.session,
        scope=stored.scope,
        origin=origin,
        config=decode_config(msgspec.json.encode({**head, "kind": "config", "config": config})),
        tools=tuple(document["tools"][number]["name"] for number in numbers),
        plugins=tuple(plugins),
    )


def _beginning_of(store: Store, stored: StoredSession) -> tuple[bytes, str]:
    if stored.first_seq > 1:
        for snapshot in store.snapshots(stored.scope, stored.session, stored.tail.seq):
            if is_sound(snapshot):
                return snapshot.state, ""
    (first,) = store.read(stored.scope, stored.session, stored.first_seq - 1, 1)
    if first.kind == ERASED:
        raise Erased(stored.session, first.seq)
    if first.seq > 1:
        raise Trimmed(stored.session, first=first.seq)
    opened = decode_opened(join_blobs(first.body, store.blob))
    return bytes(opened.state), opened.origin


def revive(store: Store, stored: StoredSession, finder: PluginFinder, ask: Ask) -> Revived:
    """Read a journal, and fold it. This blocks, and carries nothing out.

    Args:
        store: Where it is.
        stored: Which one.
        finder: Finds the code of its plugins.
        ask: How handlers are called.

    Raises:
        Unrevivable: Your move: a plugin is not there.
        JournalCorrupt, Erased, CodecError, PluginError: As of `fold`.
        SessionNotFound, Trimmed, StoreUnavailable: As of `Store.read`.
    """
    sources = fold_sources(store, stored, finder, ask)
    try:
        start, tail, begun = newest_snapshot(store, stored, finder, ask)
        records = read_after(store, stored.scope, stored.session, tail.seq)
        if start is None:
            start = first_state(records, sources)
        folded, events = _fold(start, records, tail, begun, sources)
    except PluginError:
        if finder.missing:
            raise Unrevivable(stored.session, missing=tuple(finder.missing)) from None
        raise
    return Revived(
        stored=stored,
        state=folded.state,
        tail=folded.tail,
        begun=folded.begun,
        attempt=folded.attempt,
        events=events,
        snapshot=tail.seq,
        drift=folded.drift,
        set_aside=folded.set_aside,
    )


def revive_ended(
    store: Store, scope: str, session: SessionId, finder: PluginFinder, ask: Ask
) -> Revived | None:
    """Read what came of a session that has ended; None where there is none of this id. This blocks.

    Raises:
        Unrevivable, JournalCorrupt, CodecError, PluginError, StoreUnavailable: As of `revive`.
    """
    stored = store.get(scope, session)
    return None if stored is None else revive(store, stored, finder, ask)


def taken_on(
    store: Store, revived: Revived, stored: StoredSession, finder: PluginFinder, ask: Ask
) -> Revived:
    """Go on behind what was read before the session was taken: mostly the record of that alone. This blocks.

    Args:
        store: Where it is.
        revived: What was read.
        stored: How the store has it by now.
        finder: As of `revive`.
        ask: As of `revive`.

    Raises:
        Unrevivable, JournalCorrupt, CodecError, PluginError, StoreUnavailable: As of `revive`.
    """
    rest = read_after(store, stored.scope, stored.session, revived.tail.seq)
    if any(record.kind != TAKEN for record in rest):
        return revive(store, stored, finder, ask)
    folded = fold(revived.state, rest, tail=revived.tail, begun=revived.begun)
    return Revived(
        stored=stored,
        state=folded.state,
        tail=folded.tail,
        begun=revived.begun,
        attempt=revived.attempt + folded.attempt,
        events=revived.events,
        snapshot=revived.snapshot,
        drift=revived.drift,
        set_aside=revived.set_aside,
    )


def stored_of(store: Store, scope: str, session_id: SessionId) -> StoredSession:
    """Look a session up. This blocks.

    Raises:
        SessionNotFound: Your move: there is none; `nearest` are like it.
    """
    stored = store.get(scope, session_id)
    while stored is None:
        store.read(scope, session_id, 0, 1)  # says that there is none, and what is like it
        stored = store.get(scope, session_id)  # it came just now
    return stored


def read_after(
    store: Store, scope: str, session: SessionId, after: int, up_to: int | None = None
) -> tuple[Record, ...]:
    """Read all records behind a number, up to another one or to the end. This blocks."""
    records: list[Record] = []
    while up_to is None or after < up_to:
        limit = _PAGE if up_to is None else min(_PAGE, up_to - after)
        page = store.read(scope, session, after, limit)
        records += page
        if len(page) < limit:
            break
        after = page[-1].seq
    return tuple(records)


def check_may_trim(store: Store, scope: str, session_id: SessionId, before: int, *, seen: int = 0) -> int:
    """Look whether a session can come back without the records in front of a number. This blocks.

    Args:
        store: Where it is.
        scope: Of which scope.
        session_id: Its id.
        before: The first record that is to stay.
        seen: Up to which record was looked already.

    Returns:
        Up to which record was looked by now.

    Raises:
        StillNeeded: Your move: a record that stays goes back to one that does not.
        SessionNotFound, StoreUnavailable: As of `Store.read`.
    """
    stored = stored_of(store, scope, session_id)
    kept = [one.seq for one in store.snapshots(scope, session_id) if one.seq >= before]
    first = min(
        kept, default=before
    )  # what stood in front of the first snapshot cannot be folded, nor is it then
    after = max(first, stored.first_seq - 1, seen)
    back = [
        f"its record {one.seq}, with which it went back behind record {number}"
        for one in read_after(store, scope, session_id, after)
        if one.kind == REWOUND and (number := decode_rewound(one.body).number) < first
    ]
    if back:
        raise StillNeeded(session_id, by=back)
    return max(after, stored.tail.seq)


def fold_sources(store: Store, stored: StoredSession, finder: PluginFinder, ask: Ask) -> Sources:
    """Say where what the records of a session refer to comes from; where it went back, that is another fold."""
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
    """Fold a journal up to a number, from the newest snapshot in front of it. This blocks; it raises as `fold` does.

    Raises:
        Trimmed: The records that it takes were dropped.
    """
    start, tail, _ = newest_snapshot(store, stored, finder, ask, at_most=number)
    if start is None and stored.first_seq > 1:
        oldest = store.snapshots(stored.scope, stored.session)
        raise Trimmed(stored.session, first=oldest[-1].seq if oldest else stored.first_seq)
    records = read_after(store, stored.scope, stored.session, tail.seq, number)
    sources = fold_sources(store, stored, finder, ask)
    if start is None:
        start = first_state(records, sources)
    return fold(start, records, tail=tail, sources=sources).state


def newest_snapshot(  # noqa: PLR0913 - what is asked of it, by name
    store: Store,
    stored: StoredSession,
    finder: PluginFinder,
    ask: Ask,
    *,
    at_most: int | None = None,
    last_event: int | None = None,
) -> tuple[SessionState | None, Tail, tuple[EffectId, ...]]:
    """Give the newest snapshot that is sound, of this journal, and can be read; None and the beginning where there is none.

    With it come its open effects that may have begun.

    Args:
        store: Where it is.
        stored: Of which session.
        finder: As of `revive`.
        ask: As of `revive`.
        at_most: Only of those that stand behind no later record; None for any.
        last_event: Only of those that no event behind this number is in; None for any.
    """
    for snapshot in store.snapshots(
        stored.scope, stored.session, stored.tail.seq if at_most is None else at_most
    ):
        fault: str | None = None
        behind = store.read(stored.scope, stored.session, snapshot.seq - 1, 1)
        if not is_sound(snapshot) or not behind or behind[0].hash != snapshot.hash:
            fault = "its hash does not belong to it"
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
            "session %s: its snapshot behind record %s is ignored: %s", stored.session, snapshot.seq, fault
        )
    return None, Tail(), ()


def _fold(
    start: SessionState,
    records: Sequence[Record],
    tail: Tail,
    begun: tuple[EffectId, ...],
    sources: Sources,
) -> tuple[Folded, tuple[Event, ...]]:
    """Fold records; of the last ones keep what they published, too.

    What was published in front of a drift that is recorded had other numbers, or was something else: none of it is kept.
    """
    settled = max((number for number, record in enumerate(records, 1) if record.kind == DRIFTED), default=0)
    cut = max(settled, len(records) - REPLAYED_RECORDS)
    head = Folded(state=start, tail=tail, begun=begun)
    if cut:
        head = fold(start, records[:cut], tail=tail, begun=begun, sources=sources)
    last = fold(head.state, records[cut:], tail=head.tail, begun=head.begun, sources=sources)
    # In one, as it will be folded later: its number goes on at its end, and not in between.
    if head.drift is not None or last.drift is not None:
        return fold(start, records, tail=tail, begun=begun, sources=sources), ()
    counts = Counter(dict(head.set_aside)) + Counter(dict(last.set_aside))
    last = msgspec.structs.replace(last, set_aside=tuple(counts.items()))
    steps = walk(head.state, records[cut:], tail=head.tail, sources=sources)
    events = [effect.event for one in steps for effect in one.effects if isinstance(effect, Publish)]
    return last, tuple([one for one in events if one.meta is not None and not one.meta.ephemeral])
