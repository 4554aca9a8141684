"""How a session stands, without asking it: for lists of many. One that sleeps is not woken, one that is busy not waited for."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from agentrail.core.policy.context import fixed_tokens_of
from agentrail.core.protocol.request import ModelFacts
from agentrail.core.session.next_request import NextRequest, next_request_of
from agentrail.core.session.projection import Status, first_words_in, model_of, system_sections_of
from agentrail.core.values.toolbox import Toolbox
from agentrail.events import Event
from agentrail.messages import SessionId
from agentrail.runtime.clock import now_ms
from agentrail.runtime.handle import Session
from agentrail.runtime.ruling import step_of

ASLEEP: Final = "asleep"
ENDED: Final = "ended"


def glance_at(session: Session) -> Status | None:
    """Say how a session stands at this moment; None of one that sleeps or has ended, of which nothing is in memory.

    It may be ahead of what the session has answered to others, and never behind.
    """
    cell = session._cell  # noqa: SLF001 - the door between a handle and its cell
    return None if cell.is_asleep or cell.ending is not None else cell.status_at(now_ms())


def phase_of(session: Session) -> str:
    """Say what a session is at: one of the four phases, or `asleep`, or `ended`. Cheaper than all of its status."""
    cell = session._cell  # noqa: SLF001 - as above
    if cell.ending is not None:
        return ENDED
    return ASLEEP if cell.is_asleep else cell.visible.phase.value


def began_at_ms(session: Session) -> int:
    """Say when a session first came up; 0 of one that sleeps, or has not yet."""
    cell = session._cell  # noqa: SLF001 - as above
    return 0 if cell.is_asleep else cell.visible.data.started_at_ms


def window_of(session: Session) -> int | None:
    """Say how many tokens the model of a session reads at most; None where that is not known, or the session sleeps.

    A guess that compaction has to live with is none that a reader should be told.
    """
    cell = session._cell  # noqa: SLF001 - as above
    if cell.is_asleep:
        return None
    facts = model_of(cell.visible.data)
    return None if facts.window_is_assumed else facts.context_window


def hold_next_request(session: Session) -> Callable[[], NextRequest] | None:
    """Hold what a session knows now, to be drawn as what its model will be sent next: that blocks, and belongs into a thread.

    What is drawn has no secret in it that the session knows. None of one that sleeps or has ended.
    """
    cell = session._cell  # noqa: SLF001 - as above
    if cell.is_asleep or cell.ending is not None:
        return None
    return partial(next_request_of, cell.visible.data, cell.ports.withheld.replaced)


def model_facts_of(session: Session) -> ModelFacts | None:
    """Say what is known of the model that a session asks; None of one that sleeps."""
    cell = session._cell  # noqa: SLF001 - as above
    return None if cell.is_asleep else model_of(cell.visible.data)


def changed_at_ms(session: Session) -> int:
    """Say when a session published something last, in milliseconds since 1970; 0 of one that never did."""
    cell = session._cell  # noqa: SLF001 - as above
    return cell.bus.last_at_ms


def newest_events(session: Session) -> Iterator[Event]:
    """Give the events that a session keeps in memory, from the newest on; none of one that sleeps."""
    cell = session._cell  # noqa: SLF001 - as above
    return cell.bus.newest_first()


def title_of(session: Session) -> str | None:
    """Say what the model called the conversation last; None where it has not, or the session sleeps."""
    cell = session._cell  # noqa: SLF001 - as above
    return None if cell.is_asleep else cell.visible.data.title


def first_words_of(session: Session) -> str | None:
    """Give the first words that a person said to a session, on one line; None where there are none, or it sleeps."""
    cell = session._cell  # noqa: SLF001 - as above
    return None if cell.is_asleep else first_words_in(cell.visible.data.history.messages)


def step_to(session: Session, session_id: str) -> tuple[str | None, str | None]:
    """Give the title and the first words of a session or of one that works for it; None for what is not known of it."""
    return step_of(session._cell, SessionId(session_id))  # noqa: SLF001 - as above


def names_for_commands(
    session: Session,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, int], ...]]:
    """Give the names of the tools and the agents of a session, and the sections of its prompt with their tokens; nothing of one that sleeps."""
    cell = session._cell  # noqa: SLF001 - as above
    if cell.is_asleep:
        return (), (), ()
    data = cell.visible.data
    sections = tuple((name, fixed_tokens_of(text, _NO_TOOLS)) for name, text in system_sections_of(data))
    return tuple(data.tools.names), tuple(cell.ports.agents), sections


_NO_TOOLS: Final = Toolbox()
