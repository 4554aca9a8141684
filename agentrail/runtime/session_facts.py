"""Session facts that need no round trip: its owner, its place in its tree, and the format of its answers."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from attrs import field, frozen

from agentrail.core.policy.response_format import document_in
from agentrail.core.session.inline_tags import without_tags
from agentrail.errors import Erased, SessionNotFound
from agentrail.messages import AssistantMessage, JsonObject, Message, SessionId
from agentrail.runtime.persistence import Keeping
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_loader import StoredOpening, opening_of, stored_of

ReadAnswer: TypeAlias = Callable[[Sequence[Message]], str]
"""Returns the answer for users among the messages of a cycle."""


@frozen(kw_only=True)
class SessionFacts:
    """Facts of a session that need no round trip.

    Attributes:
        root_id: Root of its tree, which may be itself.
        user_data: Data that it was started with. For a child session that of its root.
        is_here: Whether it is live here, awake or hibernated. Otherwise it is only in the store.
        has_ended: Whether it is in the store and has ended there.
        has_format: Whether its answers are JSON. Only known of one that is live.
    """

    session_id: SessionId
    root_id: SessionId
    user_data: JsonObject = field(repr=False)
    is_here: bool
    has_ended: bool = False
    has_format: bool = False


def facts_of_cell(cell: SessionCell) -> SessionFacts:
    ports = cell.ports
    return SessionFacts(
        session_id=ports.session_id,
        root_id=cell.bus.path[0],
        user_data=ports.user_data,
        is_here=True,
        has_format=cell.reading.has_format,
    )


def stored_facts(keeping: Keeping, scope: str, session_id: SessionId) -> SessionFacts | None:
    try:
        stored = stored_of(keeping.store, scope, session_id)
        if keeping.is_vain(scope, session_id):
            return None
        opening: StoredOpening = opening_of(keeping.store, stored)
    except (SessionNotFound, Erased):
        return None
    return SessionFacts(
        session_id=session_id,
        root_id=stored.root,
        user_data=opening.config.user_data,
        is_here=False,
        has_ended=stored.standing.has_ended,
    )


def reader_of(cell: SessionCell) -> ReadAnswer:
    reading = cell.reading

    def read(messages: Sequence[Message]) -> str:
        last = next((one for one in reversed(messages) if isinstance(one, AssistantMessage)), None)
        said = "" if last is None else last.text
        shown = without_tags(said) if reading.has_tags else said
        return document_in(shown) if reading.has_format else shown

    return read
