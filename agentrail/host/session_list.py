"""Lists of the sessions of a user or a tenant. Listing wakes no session."""

from collections import OrderedDict
from collections.abc import Callable, Container
from contextlib import suppress
from functools import partial
from typing import Final

import trio
from attrs import define, evolve, field, frozen
from msgspec.structs import replace

from agentrail import outside
from agentrail.abc.store import Filters, StoredSession
from agentrail.errors import CodecError, JournalCorrupt, SessionDown, Trimmed
from agentrail.host.identity import (
    METADATA_KEY,
    SessionOwner,
    is_temporary,
    metadata_of_session,
    owner_key_of,
    owner_of_session,
    profile_of_session,
)
from agentrail.host.listed_session import ListedSession, listed_awake
from agentrail.host.session_order import USUAL_SORT, ListPlace, rows_in_order
from agentrail.host.session_rows import make_row, row_with_notes
from agentrail.logs import Logger
from agentrail.messages import JsonObject
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_rows import ASLEEP, ENDED, glance_at, phase_of
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.wire.rows import RowFilter, SessionRow, row_fits

ALIVE: Final = RowFilter(ended=False)
"""All sessions that have not ended."""

UNREADABLE: Final = (CodecError, JournalCorrupt, Trimmed)
"""Errors of one session whose beginning cannot be read."""

LOGGER: Final = Logger("agentrail.host")

_AT_ONCE: Final = 500
_ORDERED_HERE: Final = 5_000
_TURN_EVERY: Final = 64
_MAX_KNOWN_OWNERS: Final = 100_000


@define(eq=False)
class SessionList:
    """Lists the sessions of a host."""

    _supervisor: SessionSupervisor
    _has_store: bool = field(kw_only=True)
    _is_hidden: Callable[[str, str], bool] = field(kw_only=True)
    _owners: OrderedDict[tuple[str, str], "tuple[int, _Known | None]"] = field(
        init=False, factory=OrderedDict
    )

    async def page(  # noqa: PLR0913 - as of `Host.list_sessions`
        self,
        tenant_id: str,
        user_id: str | None,
        *,
        wanted: RowFilter = ALIVE,
        sort: str = USUAL_SORT,
        behind: ListPlace | None = None,
        limit: int = 50,
    ) -> tuple[ListedSession, ...]:
        owner = None if user_id is None else SessionOwner(tenant_id, user_id)
        if (
            self._has_store
            and sort == USUAL_SORT
            and wanted == RowFilter(ended=wanted.ended, limit=wanted.limit)
        ):
            filters = replace(filters_of(tenant_id, owner), has_ended=wanted.ended)
            return tuple(await self._newest(filters, behind, limit))
        needs_all = (
            sort.removeprefix("-") != "created"
            or bool(wanted.q or wanted.outcome)
            or wanted.waiting is not None
        )
        found: dict[str, ListedSession] = {}
        rows: list[SessionRow] = []
        names_profiles = owner is None or bool(wanted.q or wanted.agent_id)
        everything = await self.everything(tenant_id, owner, names_profiles=names_profiles)
        for place, one in enumerate(everything, 1):
            row = row_with_notes(one) if needs_all else make_row(evolve(one, session=None))
            if row_fits(row, wanted):
                found[one.session_id] = one
                rows.append(row)
            if place % _TURN_EVERY == 0:
                await trio.lowlevel.checkpoint()
        order = partial(rows_in_order, rows, sort, behind)
        shown = (await outside.offload(order) if len(rows) > _ORDERED_HERE else order())[:limit]
        told = []
        for row in shown:
            named = await self._with_profile(found[row.session_id])
            if named is not None:
                told.append(await self._shown(named, tenant_id))
        return tuple(told)

    async def _newest(self, filters: Filters, behind: ListPlace | None, limit: int) -> list[ListedSession]:
        """Return the usual list: its page costs what it shows, however many sessions a user has."""
        shown: list[ListedSession] = []
        at_once = min(_AT_ONCE, limit)
        while len(shown) < limit:
            rows = await self._supervisor.newest(filters, before=behind, limit=at_once)
            if not rows:
                break
            behind, at_once = (rows[-1].opened_at_ms, rows[-1].session), _AT_ONCE  # some are in no list
            for place, row in enumerate(rows, 1):
                known = None if self._is_hidden(row.scope, row.session) else await self.listed(row)
                if known is not None:
                    here = self._awake(row)
                    listed = known if here is None else evolve(known, phase=phase_of(here), session=here)
                    shown.append(await self._shown(listed, row.scope))
                    if len(shown) == limit:
                        break
                if place % _TURN_EVERY == 0:
                    await trio.lowlevel.checkpoint()
        return shown

    def _awake(self, row: StoredSession) -> Session | None:
        try:
            session = self._supervisor.session(row.session, scope=row.scope)
        except SessionDown:
            return None
        return None if phase_of(session) in (ASLEEP, ENDED) else session

    async def _shown(self, listed: ListedSession, tenant_id: str) -> ListedSession:
        with_row = evolve(listed, row=row_with_notes(listed))
        return _with_status(await self._with_metadata(with_row, tenant_id))

    def forget(self, tenant_id: str, session_id: str) -> None:
        self._owners.pop((tenant_id, session_id), None)

    async def everything(
        self,
        tenant_id: str,
        owner: SessionOwner | None = None,
        *,
        names_profiles: bool = True,
        most: int | None = None,
    ) -> list[ListedSession]:
        """Return all root sessions, ended ones included, unordered and without metadata. With `most`: those in memory, and at least as many that changed last."""
        await trio.lowlevel.checkpoint()
        sessions = self._supervisor.sessions(scope=tenant_id)
        awake = [listed_awake(session, tenant_id, owner) for session in sessions]
        found = {one.session_id: one for one in awake if one is not None}
        if self._has_store:
            rows = await self.rows(filters_of(tenant_id, owner), most=most, first=found)
            for place, row in enumerate(rows, 1):
                if place % _TURN_EVERY == 0:  # known rows need no read, which would let other tasks run
                    await trio.lowlevel.checkpoint()
                if self._is_hidden(tenant_id, row.session):
                    continue
                here = found.get(row.session)
                if names_profiles or owner is None:
                    known = await self.listed(row)
                else:
                    known = _stored(row, owner, "" if here is None else here.agent_id)
                if known is not None:
                    found[row.session] = (
                        known if here is None else evolve(known, phase=here.phase, session=here.session)
                    )
        return [*found.values()]

    async def rows(
        self, filters: Filters, *, most: int | None = None, first: Container[str] = ()
    ) -> list[StoredSession]:
        """Return all stored sessions that a filter finds. Of more than twice `most`, it keeps those in `first` and those that changed last."""
        rows: list[StoredSession] = []
        after: tuple[str, str] | None = None
        while page := await self._supervisor.find(filters, after=after, limit=_AT_ONCE):
            rows += page
            after = (page[-1].scope, page[-1].session)
            if most is not None and len(rows) > 2 * most:
                rows.sort(key=lambda row: (row.session in first, row.written_at_ms, row.session))
                del rows[:-most]
        return rows

    async def listed(self, row: StoredSession) -> ListedSession | None:
        # With the start time: after a deletion, another user's session may have the id.
        opened_at_ms, known = self._owners.get((row.scope, row.session), (None, None))
        if opened_at_ms != row.opened_at_ms:
            try:
                facts = await self._supervisor.facts_of(row.session, scope=row.scope)
            except UNREADABLE as error:  # of one session, and the others are listed
                LOGGER.warning(
                    "session %s is in no list: its beginning cannot be read: %s", row.session, error
                )
                known = None
            else:
                if facts is None:  # deleted meanwhile
                    return None
                known = _known_from(facts.user_data)
            self._owners[row.scope, row.session] = row.opened_at_ms, known
            if len(self._owners) > _MAX_KNOWN_OWNERS:
                self._owners.popitem(last=False)
        if known is None or known.owner.tenant_id != row.scope:
            return None
        return evolve(_stored(row, known.owner, known.agent_id), has_metadata=known.has_metadata)

    async def _with_profile(self, listed: ListedSession) -> ListedSession | None:
        if listed.stored is None:
            return listed
        known = await self.listed(listed.stored)
        return (
            None
            if known is None
            else evolve(listed, agent_id=known.agent_id, has_metadata=known.has_metadata)
        )

    async def _with_metadata(self, listed: ListedSession, tenant_id: str) -> ListedSession:
        if listed.session is not None:
            return evolve(listed, metadata=metadata_of_session(listed.session.facts.user_data))
        if not listed.has_metadata:
            return listed
        facts = None
        with suppress(*UNREADABLE):  # damaged since its owner was read
            facts = await self._supervisor.facts_of(listed.session_id, scope=tenant_id)
        return listed if facts is None else evolve(listed, metadata=metadata_of_session(facts.user_data))


@frozen
class _Known:
    owner: SessionOwner
    agent_id: str
    has_metadata: bool


def _known_from(user_data: JsonObject) -> _Known | None:
    owner = None if is_temporary(user_data) else owner_of_session(user_data)
    if owner is None:
        return None
    return _Known(owner, profile_of_session(user_data) or "", METADATA_KEY in user_data)


def filters_of(tenant_id: str, owner: SessionOwner | None) -> Filters:
    return Filters(scope=tenant_id, owner=None if owner is None else owner_key_of(owner), only_roots=True)


def _stored(row: StoredSession, owner: SessionOwner, agent_id: str) -> ListedSession:
    return ListedSession(
        session_id=row.session,
        user_id=owner.user_id,
        agent_id=agent_id,
        phase=ENDED if row.standing.has_ended else ASLEEP,
        created_at_ms=row.opened_at_ms,
        waits_for=row.standing.waits_for,
        title=row.standing.title,
        changed_at_ms=row.written_at_ms,
        parent="" if row.forked_from is None else row.forked_from[0],
        stored=row,
    )


def _with_status(listed: ListedSession) -> ListedSession:
    status = None if listed.session is None else glance_at(listed.session)
    if status is None:
        return listed
    waiting = (*status.all_approvals, *status.all_questions, *status.all_client_calls)
    return evolve(listed, phase=status.phase, waits_for=len(waiting), status=status)
