"""Rows of sessions and pending decisions, from memory or the store. Nothing is awaited, and no session is woken."""

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Final

from attrs import evolve, frozen
from msgspec import UNSET
from msgspec.structs import replace as evolve_row

from agentrail.core.session.views import Status
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentStart,
    Approval,
    Event,
    Question,
    SessionEnd,
)
from agentrail.host.listed_session import ListedSession
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_rows import (
    ASLEEP,
    ENDED,
    changed_at_ms,
    first_words_of,
    glance_at,
    newest_events,
    step_to,
    title_of,
)
from agentrail.structs import picked_fields
from agentrail.wire.rows import RowStep, SessionRow, ToolAtWork, WaitingCounts, WaitingRow

MAX_SUMMARY: Final = 200

LOOKED_BACK: Final = 64
"""Number of recent events searched for the outcome of the last cycle. It is near the end, unless a cycle runs."""

_TELLING: Final = ("command", "cmd", "path", "file_path", "url", "query", "pattern")
"""Arguments that best describe a call, in this order."""


@frozen(kw_only=True)
class RowNotes:
    """Facts of a session known only from its events."""

    first_words: str | None = None
    outcome: str | None = None
    has_ended: bool = False


def note(notes: RowNotes, event: Event) -> RowNotes:
    """Return the notes after an event. The same object if nothing changed."""
    match event:
        case AgentStart():
            return evolve(notes, outcome=None)
        case AgentEnd():
            return evolve(notes, outcome="completed")
        case AgentError():
            return evolve(notes, outcome="failed")
        case AgentAbort() if event.ref is not None:  # in idle it ended nothing
            return evolve(notes, outcome="aborted")
        case SessionEnd():
            return evolve(notes, has_ended=True)
        case _:
            return notes


def first_notes(session: Session) -> RowNotes:
    words = first_words_of(session)
    for event in islice(newest_events(session), LOOKED_BACK):
        told = note(RowNotes(), event)
        if told.outcome is not None or isinstance(event, AgentStart):
            return RowNotes(first_words=words, outcome=told.outcome)
    return RowNotes(first_words=words)


NO_NOTES: Final = RowNotes()


def row_with_notes(listed: ListedSession) -> SessionRow:
    is_here = listed.session is not None and listed.phase not in (ASLEEP, ENDED)
    return make_row(
        listed, first_notes(listed.session) if is_here and listed.session is not None else NO_NOTES
    )


def make_row(listed: ListedSession, notes: RowNotes = NO_NOTES) -> SessionRow:
    session = listed.session
    base = SessionRow(
        session_id=listed.session_id,
        title=(None if session is None else title_of(session)) or listed.title or None,
        first_words=notes.first_words,
        agent_id=listed.agent_id or None,
        phase=listed.phase,
        waiting=WaitingCounts(approvals=listed.waits_for, questions=0),
        created_at_ms=listed.created_at_ms or None,
        changed_at_ms=listed.changed_at_ms or listed.created_at_ms,
        outcome=notes.outcome,
        parent=listed.parent or None,
        ended=listed.phase == ENDED,
        user=listed.user_id,
    )
    status = None if session is None else glance_at(session)
    if session is None or status is None:
        return base
    words = notes.first_words or first_words_of(session)
    return _awake(base, status, words, max(changed_at_ms(session), base.changed_at_ms))


def _awake(base: SessionRow, status: Status, first_words: str | None, changed_ms: int) -> SessionRow:
    running = [one for one in status.running_tools if not one.stopping and not one.detached]
    longest = min(running, key=lambda one: one.started_at_ms, default=None)
    return evolve_row(
        base,
        **picked_fields(status, "phase", "suspended", "tearing_down", "model", "turn", "restarts"),
        first_words=first_words,
        tool=None if longest is None else ToolAtWork(name=longest.name, since_ms=longest.started_at_ms),
        running=len(running),
        waiting=WaitingCounts(approvals=len(status.all_approvals), questions=len(status.all_questions)),
        queued=len(status.queued),
        tokens=status.usage.total,
        cost_usd=status.usage.cost_usd,
        changed_at_ms=changed_ms,
        outcome=base.outcome if status.phase == "idle" and not status.suspended else None,
    )


def out_of_memory(row: SessionRow, phase: str) -> SessionRow:
    ended = phase == ENDED
    return evolve_row(
        row,
        phase=phase,
        suspended=row.suspended and not ended,
        tearing_down=False,
        tool=None,
        running=0,
        waiting=WaitingCounts(approvals=0, questions=0) if ended else row.waiting,
        queued=0 if ended else row.queued,
        turn=0,
        ended=ended,
    )


# --- pending approvals and questions


def waiting_rows(row: SessionRow, status: Status, session: Session | None = None) -> list[WaitingRow]:
    """Return the rows of pending approvals and questions of a session and its children, without client calls."""
    asked: tuple[Approval | Question, ...] = (*status.all_approvals, *status.all_questions)
    return [_waiting_row(row, one, session) for one in asked]


def _waiting_row(row: SessionRow, one: Approval | Question, session: Session | None) -> WaitingRow:
    made = partial(
        WaitingRow,
        session_id=row.session_id,
        title=row.title,
        first_words=row.first_words,
        agent_id=row.agent_id,
        path=tuple([_step(one_id, row, session) for one_id in one.path]),
        at_ms=one.requested_at_ms,
        expires_at_ms=one.expires_at_ms,
    )
    match one:
        case Approval():
            return made(
                key=f"{row.session_id}/a/{one.id}",
                kind="approval",
                tool=one.tool,
                summary=summary_line(one.arguments),
                approval_id=one.id,
                ref=None,
                arguments_hash=one.arguments_hash,
            )
        case Question():
            return made(
                key=f"{row.session_id}/q/{one.ref}",
                kind="question",
                tool=None,
                summary=line_of_summary(one.question),
                approval_id=None,
                ref=one.ref,
                arguments_hash=None,
            )


def _step(session_id: str, row: SessionRow, session: Session | None) -> RowStep:
    if session_id == row.session_id:
        return RowStep(session_id=session_id, title=row.title)
    title, words = (None, None) if session is None else step_to(session, session_id)
    return RowStep(session_id=session_id, title=title, first_words=words or UNSET)


def summary_line(arguments: Mapping[str, object]) -> str:
    for name in _TELLING:
        told = arguments.get(name)
        if isinstance(told, str) and told:
            return line_of_summary(told)
        if isinstance(told, tuple | list) and told:
            return line_of_summary(
                " ".join(f"{part:.200}" if isinstance(part, str) else f"{part!r:.200}" for part in told[:50])
            )
    return line_of_summary(
        ", ".join(f"{name}={_brief(value)}" for name, value in islice(arguments.items(), 20))
    )


def _brief(value: object) -> str:
    if isinstance(value, str | int | float | bool) or value is None:
        return f"{value}"[:MAX_SUMMARY]
    return "{…}" if isinstance(value, Mapping) else "[…]"


def line_of_summary(text: str) -> str:
    line = " ".join(text[: 4 * MAX_SUMMARY].split())
    is_whole = len(line) <= MAX_SUMMARY and len(text) <= 4 * MAX_SUMMARY
    return line if is_whole else f"{line[: MAX_SUMMARY - 1]}…"
