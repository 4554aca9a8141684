"""A session in a list, as far as it is known without asking it. A value; which ones there are is found in `session_list`."""

from typing import Final

from attrs import field, frozen

from agentrail.abc.store import StoredSession
from agentrail.core.session.projection import Status
from agentrail.frozen import EMPTY
from agentrail.host.identity import SessionOwner, owner_of_session, profile_of_session
from agentrail.messages import JsonObject, SessionId
from agentrail.runtime.glancing import ASLEEP, ENDED, began_at_ms, phase_of
from agentrail.runtime.handle import Session
from agentrail.wire.rows import SessionRow

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
        row: As it stands in a list; None before it is shown in one.
        metadata: What its caller said of it when it was created.
        stored: As the store has it; None of one that no store keeps.
        changed_at_ms: When it published something last, as far as the store says; 0 where that is not known.
        parent: The session that it was forked from; empty for none.
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
    row: SessionRow | None = None
    metadata: JsonObject = field(default=EMPTY, repr=False)
    stored: StoredSession | None = field(default=None, repr=False)
    changed_at_ms: int = 0
    parent: str = ""


def listed_awake(
    session: Session, tenant_id: str, wanted: SessionOwner | None = None
) -> ListedSession | None:
    """Return the facts of a session that is alive here; None for a child, another tenant's, or another user's than the wanted one."""
    facts = session.facts
    owner = owner_of_session(facts.user_data)
    if owner is None or owner.tenant_id != tenant_id or facts.root_id != session.session_id:
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
