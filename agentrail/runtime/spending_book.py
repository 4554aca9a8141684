"""Usage of the sessions in a store: each journal is folded once, and after that only new records. Blocks. Uses no event loop."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec
from attrs import define, evolve, field, frozen

from agentrail.abc.store import Filters, Store, StoredSession
from agentrail.core.journal.fold import Sources, Walked, first_state, walk
from agentrail.core.journal.record import Record, Tail, tail_of
from agentrail.core.journal.usage import (
    Spending,
    join_spendings,
    spendings_in,
    spendings_of_usage,
)
from agentrail.core.session.state import SessionState
from agentrail.core.session.views import model_of
from agentrail.core.stack.loaded_stack import Ask
from agentrail.errors import AgentrailError, Erased, SessionNotFound, StoreUnavailable
from agentrail.frozen import EMPTY
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.runtime.plugin_watch import QuietWatch
from agentrail.runtime.session_loader import (
    PluginFinder,
    all_sessions,
    fold_sources,
    newest_snapshot,
    opening_of,
    read_after,
)

LOGGER: Final = Logger("agentrail.runtime")

MAX_KEPT_STATES: Final = 16
"""Number of most recently written sessions whose state is kept, so that only new records are folded."""

KNOWN_SLACK: Final = 1_000
"""Number of sessions beyond twice those that were found, above which all are looked for."""


_Key: TypeAlias = tuple[str, str, int]
FindCode: TypeAlias = Callable[[str, SessionId], tuple[PluginFinder, Ask]]
"""Returns the source of plugin code for a fold of a session, and its caller of handlers; by scope and id."""


def where_defined(_scope: str, session_id: SessionId) -> tuple[PluginFinder, Ask]:
    finder, watch = PluginFinder({}), QuietWatch(session_id, {})
    watch.find_others(finder)
    return finder, watch


@frozen(kw_only=True)
class SessionSpending:
    """Usage of one session.

    Attributes:
        agent_id: Its profile. Empty without one.
        user_id: Its user. Empty if unknown.
        spendings: Its own usage, in order of time. Child sessions have their own entries.
        fault: Why its journal could not be read. None if it was. If set, `spendings` are from an earlier call, or empty.
    """

    session_id: SessionId
    root_id: SessionId
    scope: str
    agent_id: str
    user_id: str
    spendings: tuple[Spending, ...] = ()
    fault: str | None = None


@frozen(kw_only=True)
class _Known:
    tail: Tail
    told: SessionSpending = field(repr=False)


def _key_of(stored: StoredSession) -> _Key:
    """Return the key of a session, with its start: after a deletion, another user's session may have the id."""
    return stored.scope, str(stored.session), stored.opened_at_ms


@define(eq=False, repr=False, slots=False)
class SpendingBook:
    _store: Store
    find_code: FindCode = field(init=False, default=where_defined)
    _known: dict[_Key, _Known] = field(init=False, factory=dict)
    _most: int = field(init=False, default=0)
    _states: OrderedDict[_Key, tuple[Tail, SessionState]] = field(init=False, factory=OrderedDict)

    def look(
        self, scope: str | None = None, since_ms: int | None = None, root: SessionId | None = None
    ) -> tuple[SessionSpending, ...]:
        filters = Filters(scope=scope, root=root, written_after_ms=since_ms)
        found = tuple(all_sessions(self._store, filters))
        told = tuple([self._spending_of(stored) for stored in found])
        if root is None and since_ms is None:
            self._drop_deleted(scope, found)
        if len(self._known) > self._most:  # perhaps of scopes that are asked about no more
            self._drop_deleted(None, all_sessions(self._store, Filters()))
            self._most = 2 * len(self._known) + KNOWN_SLACK
        return told

    def _drop_deleted(self, scope: str | None, stored: Iterable[StoredSession]) -> None:
        there = set(map(_key_of, stored))
        for key in [key for key in self._known if key not in there and scope in (None, key[0])]:
            del self._known[key]
            self._states.pop(key, None)

    def _spending_of(self, stored: StoredSession) -> SessionSpending:
        key = _key_of(stored)
        known = self._known.get(key)
        if known is not None and known.tail == stored.tail and known.told.fault is None:
            return known.told
        told = _described(self._store, stored) if known is None else known.told
        try:
            spendings = self._fold(stored, known)
        except Erased:
            # Its usage was erased with its content. While this process lives it is still known, for daily budgets.
            self._states.pop(key, None)
            self._known[key] = _Known(tail=stored.tail, told=evolve(told, fault=None))
            return self._known[key].told
        except StoreUnavailable:
            raise  # otherwise its usage would be missing from budgets
        except (AgentrailError, msgspec.MsgspecError) as error:
            # A damaged session, or one whose plugin is missing, is reported and does not affect the others.
            LOGGER.warning("session %s: its usage cannot be read: %s", stored.session, error)
            return evolve(told, fault=f"{error}")
        told = evolve(told, spendings=spendings, fault=None)
        self._known[key] = _Known(tail=stored.tail, told=told)
        return told

    def _fold(self, stored: StoredSession, known: _Known | None) -> tuple[Spending, ...]:
        key = _key_of(stored)
        finder, ask = self.find_code(stored.scope, stored.session)
        sources = fold_sources(self._store, stored, finder, ask)
        start = self._states.pop(key, None)
        if known is not None and start is not None and start[0] == known.tail:
            records = read_after(self._store, stored.scope, stored.session, known.tail.seq, stored.tail.seq)
            return join_spendings(known.told.spendings, self._walk(key, start[1], records, start[0], sources))
        return self._fold_all(stored, finder, ask, sources)

    def _fold_all(
        self, stored: StoredSession, finder: PluginFinder, ask: Ask, sources: Sources
    ) -> tuple[Spending, ...]:
        key = _key_of(stored)
        if stored.first_seq == 1:
            records = read_after(self._store, stored.scope, stored.session, 0, stored.tail.seq)
            return self._walk(key, first_state(records, sources), records, Tail(), sources)
        start, tail, _ = newest_snapshot(self._store, stored, finder, ask)
        if start is None:
            message = f"session {stored.session!r} was trimmed and has no snapshot to start from"
            raise SessionNotFound(message)
        earlier: tuple[Spending, ...] = ()
        if stored.forked_from is None:  # otherwise most of it was used by the source of the fork
            earlier = spendings_of_usage(start.data.usage, model_of(start.data).model, stored.opened_at_ms)
        records = read_after(self._store, stored.scope, stored.session, tail.seq, stored.tail.seq)
        return join_spendings(earlier, self._walk(key, start, records, tail, sources))

    def _walk(
        self,
        key: _Key,
        start: SessionState,
        records: Sequence[Record],
        tail: Tail,
        sources: Sources,
    ) -> tuple[Spending, ...]:
        last = start

        def steps() -> Iterator[Walked]:
            nonlocal last
            for walked in walk(start, records, tail=tail, sources=sources):
                last = walked.after
                yield walked

        told = spendings_in(steps())
        self._states[key] = (tail_of(records[-1:], tail), last)
        while len(self._states) > MAX_KEPT_STATES:
            self._states.popitem(last=False)
        return told


def _described(store: Store, stored: StoredSession) -> SessionSpending:
    try:
        data = opening_of(store, stored).config.user_data
    except StoreUnavailable:
        raise
    except (AgentrailError, msgspec.MsgspecError):
        data = EMPTY
    agent_id, user_id = data.get("agent_id"), data.get("user_id")
    return SessionSpending(
        session_id=stored.session,
        root_id=stored.root,
        scope=stored.scope,
        agent_id=agent_id if isinstance(agent_id, str) else "",
        user_id=user_id if isinstance(user_id, str) else "",
    )
