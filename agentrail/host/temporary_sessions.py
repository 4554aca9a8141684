"""Temporary sessions: in no list, and deleted when they end, at the latest ten minutes after their last cycle."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec
import trio

from agentrail.abc.living_nodes import Departures
from agentrail.abc.store import TEMPORARY_SESSIONS, Filters, OwedRow, decoded_rows
from agentrail.actors.keyed_locks import KeyedLocks
from agentrail.errors import AgentrailError, OptionError, SessionDown, SessionNotFound
from agentrail.host.identity import SessionOwner, is_temporary
from agentrail.host.quotas import DayBudgets
from agentrail.host.requests import RequestBook, key_of_requests
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.runtime.arguments import faults_of_key
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_rows import ASLEEP, changed_at_ms, phase_of
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.structs import decoder_of

LOGGER: Final = Logger("agentrail.host")

TEMPORARY_SECONDS: Final = 600.0
"""How long a temporary session is kept after its last cycle, in seconds."""

DELETE_RETRY_SECONDS: Final = 60.0
"""Pause before another attempt to delete a session, in seconds."""

_PAGE: Final = 1_000
_AT_REST: Final = frozenset({"idle", ASLEEP})


class _Row(msgspec.Struct, frozen=True, kw_only=True, tag_field="v", tag=1):
    tenant: str
    user: str
    session: str


_ROWS: Final = decoder_of(_Row)


def encode_temporary(owner: SessionOwner, session_id: str) -> OwedRow:
    row = _Row(tenant=owner.tenant_id, user=owner.user_id, session=session_id)
    return OwedRow(
        kind=TEMPORARY_SESSIONS, id=f"{owner.tenant_id}/{session_id}", body=msgspec.json.encode(row)
    )


def decode_temporary(row: OwedRow) -> tuple[SessionOwner, str]:
    read = _ROWS.decode(row.body)
    if faults := [*filter(None, faults_of_key(read.tenant, read.session))]:
        raise ValueError(*faults)
    return SessionOwner(read.tenant, read.user), read.session


def decide_seconds_left(*, is_working: bool, has_ended: bool, changed_at_ms: int, at_ms: int) -> float:
    """Return the seconds until a session is deleted, or looked at again. 0: now."""
    if has_ended:
        return 0.0
    if is_working:
        return TEMPORARY_SECONDS
    # The times may come from two clocks, such as that of a store and ours.
    return min(max(TEMPORARY_SECONDS - (at_ms - changed_at_ms) / 1_000, 0.0), TEMPORARY_SECONDS)


class TemporarySessions:
    """The temporary sessions of a host. A store keeps their names, so that the next process deletes them."""

    def __init__(self, supervisor: SessionSupervisor) -> None:
        self._supervisor = supervisor
        self._owners: dict[tuple[str, str], SessionOwner] = {}
        self._busy = KeyedLocks()
        self._departures = Departures(supervisor.shared_node)
        self._unread = 0  # adopted rows
        self._nursery: trio.Nursery | None = None
        self._budgets: DayBudgets | None = None
        self._book: RequestBook | None = None

    def has(self, tenant_id: str, session_id: str) -> bool:
        return (tenant_id, session_id) in self._owners

    async def load(self) -> None:
        """Read the temporary sessions of earlier processes. On a shared store those of dead nodes."""
        if self._supervisor.shared_node:
            await self._supervisor.look_at_nodes(self._departures)
            if self._departures.is_first:
                self._unread += await self._supervisor.adopt_owed(TEMPORARY_SESSIONS)
            if not self._unread:
                return
        after = ""
        while self._supervisor.keeps_owed:
            page = await self._supervisor.owed(TEMPORARY_SESSIONS, after=after, limit=_PAGE, own=True)
            if not page:
                break
            after = page[-1].id
            found = decoded_rows(page, decode_temporary, LOGGER.warning, "a temporary session")
            for owner, session_id in found:
                if not self.has(owner.tenant_id, session_id):
                    self._owners[owner.tenant_id, session_id] = owner
                    if self._nursery is not None:
                        self.follow(owner, session_id)
        self._unread = 0

    def begin(self, nursery: trio.Nursery, budgets: DayBudgets, book: RequestBook) -> None:
        """Follow the sessions from now on, in tasks of the host."""
        self._nursery, self._budgets, self._book = nursery, budgets, book
        for (_, session_id), owner in self._owners.items():
            self.follow(owner, session_id)
        if self._supervisor.shared_node:
            nursery.start_soon(self._look_on, name="look for temporary sessions of dead nodes")

    async def _look_on(self) -> None:
        while True:
            await trio.sleep(DELETE_RETRY_SECONDS)
            try:
                await self.load()
            except AgentrailError as error:
                LOGGER.warning("cannot look for temporary sessions of dead nodes: %s", error)

    @asynccontextmanager
    async def starting(self, owner: SessionOwner, session_id: str) -> AsyncIterator[None]:
        """Note a session before it is started in this block, so that a crash leaves none behind, and follow it afterwards."""
        key = owner.tenant_id, session_id
        async with self._busy.hold(key):
            is_new = key not in self._owners
            known = self._owners.setdefault(key, owner)
            try:
                if self._supervisor.keeps_owed:  # a known one too: its first note may have failed
                    await self._supervisor.change_owed([encode_temporary(known, session_id)], own=True)
                yield
            finally:
                if is_new:
                    self.follow(owner, session_id)

    def follow(self, owner: SessionOwner, session_id: str) -> None:
        """Delete a noted session when its time is over. One that was not started is forgotten."""
        assert self._nursery is not None  # noqa: S101 - the host has begun
        self._nursery.start_soon(self._follow, owner, session_id, name="follow a temporary session")

    async def _follow(self, owner: SessionOwner, session_id: str) -> None:
        seen: dict[int, int] = {}  # time of its last change, and of our first sight of it
        while self.has(owner.tenant_id, session_id):
            try:
                async with self._busy.hold((owner.tenant_id, session_id)):
                    seconds = await self._settle(owner, session_id, seen)
            except AgentrailError as error:
                LOGGER.warning("temporary session %s is not deleted yet: %s", session_id, error)
                seconds = DELETE_RETRY_SECONDS
            with trio.move_on_after(seconds):
                await self._ended(owner, session_id)

    async def _settle(self, owner: SessionOwner, session_id: str, seen: dict[int, int]) -> float:
        """Delete a session if it is time, and return when to look again."""
        facts = await self._supervisor.facts_of(session_id, scope=owner.tenant_id)
        if facts is not None and not is_temporary(facts.user_data):  # deleted, and the id was used again
            await self._forget(owner, session_id)
            return 0.0
        left = await self._seconds_left(owner, session_id, seen)
        if not left:
            if facts is not None:  # otherwise it was deleted, or erased with its user
                with suppress(SessionDown):
                    reason = "temporary, and its time is over"
                    await self._supervisor.stop_session(session_id, reason, scope=owner.tenant_id)
            await self._delete(owner, session_id)
        return left

    async def _seconds_left(self, owner: SessionOwner, session_id: str, seen: dict[int, int]) -> float:
        try:
            session = self._supervisor.session(session_id, scope=owner.tenant_id)
            is_working, has_ended = phase_of(session) not in _AT_REST, False
            written_ms = changed_at_ms(session)  # 0 before its first event
        except SessionDown:
            filters = Filters(scope=owner.tenant_id, root=SessionId(session_id), only_roots=True)
            rows = await self._supervisor.find(filters, limit=1)
            if not rows:
                return 0.0
            is_working, has_ended = rows[0].standing.is_working, rows[0].standing.has_ended
            written_ms = rows[0].written_at_ms
        at_ms = now_ms()
        if written_ms not in seen:
            seen.clear()
            seen[written_ms] = at_ms
        # The clock may have been set back since then.
        since_ms = min(written_ms or at_ms, seen[written_ms])
        return decide_seconds_left(
            is_working=is_working, has_ended=has_ended, changed_at_ms=since_ms, at_ms=at_ms
        )

    async def _ended(self, owner: SessionOwner, session_id: str) -> None:
        with suppress(SessionDown):
            await self._supervisor.monitor(session_id, scope=owner.tenant_id).wait()
            return
        await trio.sleep_forever()

    async def _delete(self, owner: SessionOwner, session_id: str) -> None:
        assert self._budgets is not None  # noqa: S101 - the host has begun
        assert self._book is not None  # noqa: S101 - same
        supervisor, scope = self._supervisor, owner.tenant_id
        async with self._budgets.counting(owner, session_id):
            with suppress(SessionNotFound, OptionError):  # OptionError: there is no store
                await supervisor.delete_session(session_id, scope=scope)
        self._book.forget_session(key_of_requests(owner, session_id))
        await self._forget(owner, session_id)

    async def _forget(self, owner: SessionOwner, session_id: str) -> None:
        if self._supervisor.keeps_owed:
            row = encode_temporary(owner, session_id)
            await self._supervisor.change_owed([], [(row.kind, row.id)])
        self._owners.pop((owner.tenant_id, session_id), None)
