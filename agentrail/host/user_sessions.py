"""The sessions of the users of a host, as `Consolidation` reads them. None is woken."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from agentrail.abc import Memories
from agentrail.abc.store import Filters
from agentrail.errors import SessionUnknown
from agentrail.host.host_sessions import HostSessions
from agentrail.host.identity import SessionOwner, owner_of_session
from agentrail.host.profile_policy import SessionChange
from agentrail.messages import Message
from agentrail.runtime.clock import now_ms

_PAGE = 500


class SessionsOfUsers:
    """Reads what there is of users. See `UserSessions` for what each call promises."""

    def __init__(self, sessions: HostSessions) -> None:
        """Take the sessions of a host."""
        self._sessions = sessions

    def now_ms(self) -> int:
        """Read the clock."""
        return now_ms()

    async def changes(self) -> Mapping[SessionOwner, Sequence[SessionChange]]:
        """Give all stored sessions of all users; none where no store keeps them."""
        found: defaultdict[SessionOwner, list[SessionChange]] = defaultdict(list)
        after: tuple[str, str] | None = None
        supervisor, filters = self._sessions.supervisor, Filters(only_roots=True)
        while self._sessions.has_store and (page := await supervisor.find(filters, after=after, limit=_PAGE)):
            after = (page[-1].scope, page[-1].session)
            for row in page:
                listed = await self._sessions.list.listed(row)
                if listed is not None:
                    change = SessionChange(session=row.session, changed_at_ms=row.written_at_ms)
                    found[SessionOwner(row.scope, listed.user_id)].append(change)
        return found

    async def conversation(self, owner: SessionOwner, session: str) -> Sequence[Message] | None:
        """Give what was said in a session."""
        try:
            facts = await self._sessions.of_tenant(owner.tenant_id, session)
        except SessionUnknown:
            return None
        return (await self._sessions.conversation(facts, owner.tenant_id))[0]

    async def is_there(self, owner: SessionOwner, session: str) -> bool:
        """Say whether a user has a session."""
        facts = await self._sessions.supervisor.facts_of(session, scope=owner.tenant_id)
        return facts is not None and owner_of_session(facts.user_data) == owner

    def memories(self, owner: SessionOwner) -> Memories | None:
        """Give what a user has remembered."""
        return self._sessions.supervisor.memories_of(owner.user_id, tenant_id=owner.tenant_id)
