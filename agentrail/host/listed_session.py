"""A session in a list, with the facts known without a round trip."""

from typing import Final

from attrs import field, frozen

from agentrail.abc.store import StoredSession
from agentrail.core.session.views import Status
from agentrail.frozen import EMPTY
from agentrail.host.identity import SessionOwner, is_temporary, owner_of_session, profile_of_session
from agentrail.messages import JsonObject
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_rows import ASLEEP, ENDED, began_at_ms, phase_of
from agentrail.wire.rows import SessionRow, SessionSummary

SESSION_PHASES: Final = ("idle", "running", "streaming", "executing_tools", ASLEEP, ENDED)
"""Phases of a listed session: one of the four phases in memory, hibernated, or ended."""


@frozen(kw_only=True)
class ListedSession(SessionSummary):
    """A session in a list of the host.

    Attributes:
        created_at_ms: Time of its start, in milliseconds since 1970.
        session: Its handle. None if it is only in the store.
        row: Its row. None before it is shown in a list.
    """

    user_id: str
    created_at_ms: int
    has_metadata: bool = False
    session: Session | None = None
    status: Status | None = None
    row: SessionRow | None = None
    metadata: JsonObject = field(default=EMPTY, repr=False)
    stored: StoredSession | None = field(default=None, repr=False)
    parent: str = ""


def listed_awake(
    session: Session, tenant_id: str, wanted: SessionOwner | None = None
) -> ListedSession | None:
    facts = session.facts
    owner = owner_of_session(facts.user_data)
    if owner is None or owner.tenant_id != tenant_id or facts.root_id != session.session_id:
        return None
    if is_temporary(facts.user_data):
        return None
    if wanted is not None and owner != wanted:
        return None
    return ListedSession(
        session_id=session.session_id,
        user_id=owner.user_id,
        agent_id=profile_of_session(facts.user_data) or "",
        phase=phase_of(session),
        created_at_ms=began_at_ms(session),
        session=session,
    )
