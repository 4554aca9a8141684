"""How a session stands, without asking it: for lists of many. One that sleeps is not woken, one that is busy not waited for."""

from typing import Final

from agentrail.core.session.projection import Status, model_of
from agentrail.runtime.clock import now_ms
from agentrail.runtime.handle import Session

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
