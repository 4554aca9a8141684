"""What is known of a session without asking it: whose data it was started with, where it stands in its tree, how its answers read.

For the code that puts sessions behind a product: it has to know to whom a session belongs before it wakes or touches it.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from attrs import field, frozen

from agentrail.core.policy.response_format import document_in
from agentrail.core.session.tags import without_tags
from agentrail.errors import Erased, SessionNotFound
from agentrail.messages import AssistantMessage, JsonObject, Message, SessionId
from agentrail.runtime.keeping import Keeping
from agentrail.runtime.reviving import StoredOpening, opening_of, stored_of
from agentrail.runtime.session import SessionCell

ReadAnswer: TypeAlias = Callable[[Sequence[Message]], str]
"""Gives what people read as the answer among the messages of a cycle."""


@frozen(kw_only=True)
class SessionFacts:
    """What is known of a session without asking it.

    Attributes:
        session_id: Which one.
        root_id: The session that no other one started, above it or itself.
        user_data: What it was started with; that of its root, for one that works for another.
        is_here: Whether it is alive here, awake or asleep; else it is in the store alone.
        has_ended: Whether it is in the store and has ended there.
    """

    session_id: SessionId
    root_id: SessionId
    user_data: JsonObject = field(repr=False)
    is_here: bool
    has_ended: bool = False


def facts_of_cell(cell: SessionCell) -> SessionFacts:
    """Say what is known of a session that is, or was, alive here."""
    ports = cell.ports
    return SessionFacts(
        session_id=ports.session_id, root_id=cell.bus.path[0], user_data=ports.user_data, is_here=True
    )


def stored_facts(keeping: Keeping, scope: str, session_id: SessionId) -> SessionFacts | None:
    """Read them from the first record of a journal. This blocks."""
    try:
        stored = stored_of(keeping.store, scope, session_id)
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
    """Say how answers of a session read, for as long as one likes: also when it sleeps, or has ended."""
    reading = cell.reading

    def read(messages: Sequence[Message]) -> str:
        last = next((one for one in reversed(messages) if isinstance(one, AssistantMessage)), None)
        said = "" if last is None else last.text
        shown = without_tags(said) if reading.has_tags else said
        return document_in(shown) if reading.has_format else shown

    return read
