"""The sessions of a tenant as changing rows. An event only marks its session, and rows are made on reading."""

from collections.abc import Iterable
from typing import Final, Generic, TypeVar

import msgspec
import trio
from attrs import evolve
from msgspec.structs import replace

from agentrail.abc.store import Filters, StoredSession
from agentrail.errors import AgentrailError, SessionDown, StoreUnavailable, SubscriberTooSlow
from agentrail.events import Event, SessionStart
from agentrail.host.host_sessions import HostSessions
from agentrail.host.listed_session import ListedSession, listed_awake
from agentrail.host.row_sources import RowFeed, RowSource
from agentrail.host.session_rows import (
    RowNotes,
    first_notes,
    make_row,
    note,
    out_of_memory,
    waiting_rows,
)
from agentrail.logs import Logger
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_rows import ASLEEP, ENDED, glance_at
from agentrail.wire.rows import RowFilter, SessionRow, WaitingCounts, WaitingRow, row_fits, waiting_fits

R = TypeVar("R", bound=msgspec.Struct)

LOGGER: Final = Logger("agentrail.host")

FEED_BUFFER: Final = 4_096
"""Event buffer of a feed. On overflow, the feed scans all sessions in memory."""

LOOK_SECONDS: Final = 30.0
"""Interval between full scans, including the store, while there are watchers, in seconds."""

CHANGES_SECONDS: Final = 5.0
"""Interval between looks at what other nodes of a shared store have written, in seconds."""

OVERLAP_MS: Final = 10_000
"""Overlap of a look with the one before, because a transaction becomes visible later than the time of its records."""


MAX_FEED_ROWS: Final = 20_000
"""Maximum rows of one tenant: all sessions in memory, and the most recently changed in the store."""

MAX_READ_WAITING: Final = 200
"""Maximum stored sessions read per scan, for approvals and questions of sessions that were not in memory."""

_TURN_EVERY: Final = 64


class SessionFeed(RowFeed):
    """Rows of a tenant's sessions and of their pending approvals and questions."""

    def __init__(self, sessions: HostSessions, tenant_id: str) -> None:
        self._host_sessions = sessions
        self.tenant_id = tenant_id
        self.is_over: bool = False
        self._notes: dict[str, RowNotes] = {}
        self._marked: dict[str, None] = {}
        self._known: dict[str, ListedSession] = {}
        self._since_ms = 0
        self.sessions: SessionSource = SessionSource(self)
        self.waiting: WaitingSource = WaitingSource(self)

    # --- following

    async def run(self, up: trio.Event) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._look_always, up)
                await self._follow()
                nursery.cancel_scope.cancel(reason="the supervisor is closed")
        finally:
            self.is_over = True

    async def _follow(self) -> None:
        supervisor = self._host_sessions.supervisor
        while True:
            subscription = supervisor.subscribe_all(deltas=False, buffer=FEED_BUFFER, scope=self.tenant_id)
            try:
                async with subscription as events:
                    for session in supervisor.sessions(scope=self.tenant_id):
                        self._mark(session.facts.root_id)
                    async for event in events:
                        self.hear(event)
                    return
            except SubscriberTooSlow:
                # Missed changes are in the sessions themselves, except the outcomes of cycles, which are
                # looked up.
                self._notes.clear()
            except SessionDown:
                return

    def hear(self, event: Event) -> None:
        meta = event.meta
        if meta is None:
            return
        root = meta.path[0]
        if meta.session_id == root:
            if isinstance(event, SessionStart):
                # The id may now belong to another user's session, so nothing known about the previous one
                # applies.
                self._notes.pop(root, None)
                self._known.pop(root, None)
            known = self._notes.get(root)
            if known is not None:
                self._notes[root] = note(known, event)
        self._mark(root)

    def _mark(self, root: str) -> None:
        self._marked[root] = None
        self.sessions.log.wake()
        self.waiting.log.wake()

    async def _look_always(self, up: trio.Event) -> None:
        is_shared, full_at = bool(self._host_sessions.supervisor.shared_node), float("-inf")
        while True:
            try:
                if trio.current_time() >= full_at:
                    since_ms = now_ms() - OVERLAP_MS
                    await self._look_at_all()
                    self._since_ms, full_at = since_ms, trio.current_time() + LOOK_SECONDS
                else:
                    await self._look_at_changed()
            except StoreUnavailable as error:
                LOGGER.warning(
                    "the session list may be out of date, because the store cannot be read: %s", error
                )
            up.set()
            await trio.sleep(CHANGES_SECONDS if is_shared else LOOK_SECONDS)

    async def _look_at_changed(self) -> None:
        """Read the sessions that other nodes have written since the last look."""
        since_ms, self._since_ms = self._since_ms, now_ms() - OVERLAP_MS
        filters = Filters(scope=self.tenant_id, only_roots=True, written_after_ms=since_ms)
        for row in await self._host_sessions.list.rows(filters):
            if self._find(row.session) is None and not self._host_sessions.temporary.has(
                row.scope, row.session
            ):
                await self._take_changed(row)

    async def _take_changed(self, row: StoredSession) -> None:
        one = await self._host_sessions.list.listed(row)
        known = self._known.get(row.session)
        if one is None or (known is not None and known.stored is not None and known.stored.tail == row.tail):
            return
        self._known[row.session] = one
        self._take_stored(one)
        if one.phase != ENDED and (one.waits_for or self.waiting.has_of(row.session)):
            await self._read_waiting(one)

    async def _look_at_all(self) -> None:
        """Merge the store's sessions and those in memory, and remove other rows."""
        found = await self._host_sessions.list.everything(self.tenant_id, most=MAX_FEED_ROWS)
        found.sort(
            key=lambda one: (one.session is not None, one.changed_at_ms or one.created_at_ms, one.session_id)
        )
        kept = found[-MAX_FEED_ROWS:]
        self._known = {one.session_id: one for one in kept}
        for key in [key for key in self.sessions.rows if key not in self._known]:
            words = self._host_sessions.supervisor.last_words(key, scope=self.tenant_id)
            if words is not None and not self._host_sessions.has_store:
                self._end(key)
            elif self._find(key) is None:
                self.forget(key)
        unread = []
        for place, one in enumerate(kept, 1):
            if one.session is None:
                self._take_stored(one)
                if one.waits_for and not self.waiting.has_of(one.session_id):
                    unread.append(one)
            elif one.session_id not in self.sessions.rows:
                self._refresh(one.session_id)
            else:
                self._mark(one.session_id)
            if place % _TURN_EVERY == 0:
                await trio.lowlevel.checkpoint()
        for one in unread[-MAX_READ_WAITING:]:
            await self._read_waiting(one)

    def _take_stored(self, one: ListedSession) -> None:
        before = self.sessions.rows.get(one.session_id)
        if before is None or before.user != one.user_id:
            self.sessions.put(make_row(one))
        elif one.phase == ENDED:
            self._end(one.session_id)
        else:
            asleep = before if before.phase == ASLEEP else out_of_memory(before, ASLEEP)
            changed_ms = max(asleep.changed_at_ms, one.changed_at_ms)  # it may have run on another node
            self.sessions.put(replace(asleep, changed_at_ms=changed_ms))

    def _end(self, session_id: str) -> None:
        row = self.sessions.rows.get(session_id)
        if row is not None and not row.ended:
            self.sessions.put(out_of_memory(row, ENDED))
        self.waiting.put_of(session_id, [])

    async def _read_waiting(self, one: ListedSession) -> None:
        try:
            past = await self._host_sessions.supervisor.stored_state(one.session_id, scope=self.tenant_id)
        except AgentrailError as error:
            LOGGER.info(
                "cannot read pending approvals and questions of session %s: %s", one.session_id, error
            )
            return
        row = self.sessions.rows.get(one.session_id)
        if row is not None and row.phase in (ASLEEP, ENDED):
            found = waiting_rows(row, past.status)
            self.waiting.put_of(one.session_id, found)
            self.sessions.put(replace(row, waiting=_counted(found)))

    def is_approver(self, agent_id: str, user_id: str) -> bool:
        return self._host_sessions.profiles.is_approver(agent_id, user_id)

    # --- rows

    @property
    def is_marked(self) -> bool:
        return bool(self._marked)

    async def settle(self) -> None:
        """Make the rows of the marked sessions.

        Cancellation: Immediate. The remaining sessions stay marked.
        """
        await trio.lowlevel.checkpoint()
        made = 0
        while self._marked:
            root = next(iter(self._marked))
            del self._marked[root]
            self._refresh(root)
            made += 1
            if made % _TURN_EVERY == 0:
                await trio.lowlevel.checkpoint()

    def _refresh(self, root: str) -> None:
        session = self._find(root)
        listed = None if session is None else listed_awake(session, self.tenant_id)
        if session is None or listed is None:
            self._leave(root)
            return
        before, known = self.sessions.rows.get(root), self._known.get(root)
        if before is not None and before.user != listed.user_id:
            before, known = None, None
            self._notes.pop(root, None)
        if listed.phase == ASLEEP and before is not None:
            self.sessions.put(out_of_memory(before, ASLEEP))
            return
        if known is not None:
            created = known.created_at_ms or listed.created_at_ms
            listed = evolve(listed, created_at_ms=created, parent=known.parent, title=known.title)
        notes = self._notes.get(root)
        if notes is None:
            notes = self._notes[root] = first_notes(session)
        row = make_row(listed, notes)
        self.sessions.put(row)
        status = glance_at(session)
        if status is not None:
            self.waiting.put_of(root, waiting_rows(row, status, session))

    def _find(self, root: str) -> Session | None:
        try:
            return self._host_sessions.supervisor.session(root, scope=self.tenant_id)
        except SessionDown:
            return None

    def _leave(self, root: str) -> None:
        """Handle a session that left memory: the next scan finds out whether it has ended."""
        notes, row = self._notes.pop(root, None), self.sessions.rows.get(root)
        if row is None:
            return
        if notes is not None and notes.has_ended:
            self._end(root)
        else:
            self.sessions.put(out_of_memory(row, ASLEEP))

    def forget(self, session_id: str) -> None:
        self._notes.pop(session_id, None)
        self._marked.pop(session_id, None)
        self._known.pop(session_id, None)
        self.sessions.drop(session_id)
        self.waiting.put_of(session_id, [])


class _SourceOfFeed(RowSource, Generic[R]):
    def __init__(self, feed: SessionFeed) -> None:
        super().__init__()
        self._feed = feed
        self.rows: dict[str, R] = {}

    @property
    def is_marked(self) -> bool:
        return self._feed.is_marked

    async def settle(self) -> None:
        await self._feed.settle()

    def row(self, key: str) -> R | None:
        return self.rows.get(key)


class SessionSource(_SourceOfFeed[SessionRow]):
    """Rows of a tenant's sessions, by id."""

    def put(self, row: SessionRow) -> None:
        """Replace a row. Equal rows count as unchanged."""
        if self.rows.get(row.session_id) != row:
            self.rows.pop(row.session_id, None)
            self.rows[row.session_id] = row
            self.note(row.session_id)

    def drop(self, session_id: str) -> None:
        if self.rows.pop(session_id, None) is not None:
            self.note(session_id)

    def keys(self) -> Iterable[str]:
        return tuple(self.rows)

    def is_of(self, key: str, user_id: str) -> bool:
        row = self.rows.get(key)
        return row is not None and row.user == user_id

    def fits(self, row: SessionRow, wanted: RowFilter) -> bool:
        return row_fits(row, wanted)


class WaitingSource(_SourceOfFeed[WaitingRow]):
    def __init__(self, feed: SessionFeed) -> None:
        super().__init__(feed)
        self._of: dict[str, tuple[str, ...]] = {}

    def put_of(self, session_id: str, rows: list[WaitingRow]) -> None:
        now = {row.key: row for row in rows}
        for key in self._of.get(session_id, ()):
            if key not in now:
                del self.rows[key]
                self.note(key)
        for key, row in now.items():
            if self.rows.get(key) != row:
                self.rows[key] = row
                self.note(key)
        if now:
            self._of[session_id] = tuple(now)
        else:
            self._of.pop(session_id, None)

    def has_of(self, session_id: str) -> bool:
        return session_id in self._of

    def keys(self) -> Iterable[str]:
        """Return all keys, newest first, so that a limited watcher gets the oldest."""
        return [row.key for row in sorted(self.rows.values(), key=lambda row: (-row.at_ms, row.key))]

    def is_of(self, key: str, user_id: str) -> bool:
        row = self.rows.get(key)
        if row is None:
            return False
        is_own = self._feed.sessions.is_of(row.session_id, user_id)
        return is_own or self._feed.is_approver(row.agent_id or "", user_id)

    def fits(self, row: WaitingRow, wanted: RowFilter) -> bool:
        return waiting_fits(row, wanted)


def _counted(rows: list[WaitingRow]) -> WaitingCounts:
    approvals = sum(row.kind == "approval" for row in rows)
    return WaitingCounts(approvals=approvals, questions=len(rows) - approvals)
