"""Which sessions there are of a user, or of a tenant: those that are awake, and those that are in the store alone.

None is woken for it, and none is asked: a list is made of what is known. Whose a stored session is stands in its first record, which never
changes, so it is read once.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, TypeAlias

import trio
from attrs import evolve, field, frozen

from agentrail.abc.store import Filters, StoredSession
from agentrail.core.session.projection import Status
from agentrail.frozen import EMPTY
from agentrail.host.identity import (
    METADATA_KEY,
    SessionOwner,
    metadata_of_session,
    owner_of_session,
    profile_of_session,
)
from agentrail.messages import JsonObject, SessionId
from agentrail.runtime.glancing import ASLEEP, ENDED, began_at_ms, glance_at, phase_of
from agentrail.runtime.handle import Session
from agentrail.runtime.supervisor import SessionSupervisor

ListPlace: TypeAlias = tuple[int, str]
"""Where a session stands in a list: when it began, and its id; the greater, the newer."""

_AT_ONCE: Final = 500
_MAX_KNOWN_OWNERS: Final = 100_000

SESSION_PHASES: Final = ("idle", "running", "streaming", "executing_tools", ASLEEP, ENDED)
"""What a session of a list may be at: one of the four phases, or out of memory for now, or for good."""


@frozen(kw_only=True)
class ListedSession:
    """A session in a list.

    Attributes:
        session_id: Which one; of a root.
        user_id: Whose it is.
        agent_id: Its profile.
        phase: One of `SESSION_PHASES`.
        created_at_ms: When it began, in milliseconds since 1970.
        waits_for: How many approvals, questions and calls of the client wait for people.
        title: What it is about; empty while it has none.
        has_metadata: Whether anything was said of one that is in the store alone.
        session: Its handle; None of one that is in the store alone.
        status: How it stands; None of one that is not awake.
        metadata: What its caller said of it when it was created.
    """

    session_id: SessionId
    user_id: str
    agent_id: str
    phase: str
    created_at_ms: int
    waits_for: int = 0
    title: str = ""
    has_metadata: bool = False
    session: Session | None = None
    status: Status | None = None
    metadata: JsonObject = field(default=EMPTY, repr=False)

    @property
    def place(self) -> ListPlace:
        """Where it stands in a list."""
        return self.created_at_ms, self.session_id


class SessionList:
    """Lists sessions of a host."""

    def __init__(self, supervisor: SessionSupervisor, *, has_store: bool) -> None:
        """Know of no owner yet.

        Args:
            supervisor: Whose sessions they are.
            has_store: Whether it keeps them.
        """
        self._supervisor = supervisor
        self._has_store = has_store
        self._owners: OrderedDict[tuple[str, str, int], _Known | None] = OrderedDict()

    async def page(
        self,
        tenant_id: str,
        user_id: str | None,
        *,
        phase: str | None = None,
        behind: ListPlace | None = None,
        limit: int = 50,
    ) -> tuple[ListedSession, ...]:
        """Give some of the sessions of a user, or of all users of a tenant; not those that work for others.

        Args:
            tenant_id: Of the tenant.
            user_id: Of the user; None for all of them.
            phase: Only those that are at it; None for all that have not ended.
            behind: The place of the last one that is known already; None to begin.
            limit: How many at most.

        Returns:
            The newest first.

        Raises:
            StoreUnavailable: The store cannot be read now.

        Cancellation: At once.
        """
        await trio.lowlevel.checkpoint()
        found = {listed.session_id: listed for listed in self._awake(tenant_id)}
        if self._has_store:
            for row in await self._rows(tenant_id):
                known = await self._listed(row)
                awake = found.get(row.session)
                if known is not None and awake is not None:
                    known = evolve(known, phase=awake.phase, session=awake.session)
                if known is not None:
                    found[row.session] = known
        theirs = [
            one
            for one in found.values()
            if (user_id is None or one.user_id == user_id)
            and (one.phase != ENDED if phase is None else one.phase == phase)
            and (behind is None or one.place < behind)
        ]
        shown = sorted(theirs, key=lambda one: one.place, reverse=True)[:limit]
        return tuple([_with_status(await self._with_metadata(one, tenant_id)) for one in shown])

    def _awake(self, tenant_id: str) -> Iterable[ListedSession]:
        for session in self._supervisor.sessions(scope=tenant_id):
            facts = session.facts
            owner = owner_of_session(facts.user_data)
            if owner is None or owner.tenant_id != tenant_id or facts.root_id != session.session_id:
                continue
            yield ListedSession(
                session_id=session.session_id,
                user_id=owner.user_id,
                agent_id=profile_of_session(facts.user_data) or "",
                phase=phase_of(session),
                created_at_ms=began_at_ms(session),
                session=session,
            )

    async def _rows(self, tenant_id: str) -> list[StoredSession]:
        rows: list[StoredSession] = []
        after: tuple[str, str] | None = None
        filters = Filters(scope=tenant_id, only_roots=True)
        while page := await self._supervisor.find(filters, after=after, limit=_AT_ONCE):
            rows += page
            after = (page[-1].scope, page[-1].session)
        return rows

    async def _listed(self, row: StoredSession) -> ListedSession | None:
        # With the moment of its beginning: when one was deleted another user's may have its id.
        key = (row.scope, row.session, row.opened_at_ms)
        if key not in self._owners:
            facts = await self._supervisor.facts_of(row.session, scope=row.scope)
            if facts is None:  # deleted meanwhile
                return None
            owner = owner_of_session(facts.user_data)
            agent_id = profile_of_session(facts.user_data) or ""
            self._owners[key] = (
                None if owner is None else _Known(owner, agent_id, METADATA_KEY in facts.user_data)
            )
            if len(self._owners) > _MAX_KNOWN_OWNERS:
                self._owners.popitem(last=False)
        known = self._owners[key]
        if known is None or known.owner.tenant_id != row.scope:
            return None
        return ListedSession(
            session_id=row.session,
            user_id=known.owner.user_id,
            agent_id=known.agent_id,
            phase=ENDED if row.standing.has_ended else ASLEEP,
            created_at_ms=row.opened_at_ms,
            waits_for=row.standing.waits_for,
            title=row.standing.title,
            has_metadata=known.has_metadata,
        )

    async def _with_metadata(self, listed: ListedSession, tenant_id: str) -> ListedSession:
        """Read what was said of a session that is shown; of those that are only counted it is not even remembered."""
        if listed.session is not None:
            return evolve(listed, metadata=metadata_of_session(listed.session.facts.user_data))
        if not listed.has_metadata:
            return listed
        facts = await self._supervisor.facts_of(listed.session_id, scope=tenant_id)
        return listed if facts is None else evolve(listed, metadata=metadata_of_session(facts.user_data))


@frozen
class _Known:
    """What is remembered of a stored session; small, because there may be very many."""

    owner: SessionOwner
    agent_id: str
    has_metadata: bool


def _with_status(listed: ListedSession) -> ListedSession:
    status = None if listed.session is None else glance_at(listed.session)
    if status is None:
        return listed
    waiting = (*status.all_approvals, *status.all_questions, *status.all_client_calls)
    return evolve(listed, phase=status.phase, waits_for=len(waiting), status=status)
