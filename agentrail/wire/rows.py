"""List rows of sessions and of pending approvals and questions. A newer row replaces the whole older one."""

from typing import Any, Final, Literal, TypeVar

import msgspec
from attrs import frozen
from msgspec import UNSET, UnsetType

from agentrail.messages import SessionId
from agentrail.structs import Value, converter_of

R = TypeVar("R", bound=msgspec.Struct)


@frozen(kw_only=True)
class SessionSummary:
    """A session in a list.

    Attributes:
        phase: One of the four phases, `asleep`, or `ended`.
        title: Title of the session. A remote session lists its first words if it has none. Empty if these are unknown.
        waits_for: Number of pending approvals, questions and client calls.
        changed_at_ms: Time of its last event, in milliseconds since 1970, or 0 if unknown.
    """

    session_id: SessionId
    agent_id: str
    phase: str
    title: str = ""
    waits_for: int = 0
    changed_at_ms: int = 0


class ToolAtWork(Value, frozen=True, kw_only=True):
    """A running tool.

    Attributes:
        name: Name of the tool.
        since_ms: Start of its current attempt, in milliseconds since 1970.
    """

    name: str
    since_ms: int


class WaitingCounts(Value, frozen=True, kw_only=True):
    """Number of pending approvals and questions in a session and all its child sessions.

    Attributes:
        approvals: Pending approvals, including calls that the client runs.
        questions: Pending questions.
    """

    approvals: int
    questions: int


class SessionRow(Value, frozen=True, kw_only=True):
    """A session in a list.

    Attributes:
        session_id: Id of the root session.
        title: Title of the session, or None while it has none.
        first_words: First message to the session, up to 80 characters, for sessions without a title, or None if unknown.
        agent_id: Profile of the session, or None if it has none.
        phase: One of the four phases, or `asleep`, or `ended`.
        suspended: Whether the cycle waits only for users.
        tearing_down: Whether work stopped by an abort is still shutting down.
        tool: The longest running tool, or None if no tool runs.
        running: Number of running calls.
        waiting: Number of pending approvals and questions.
        queued: Number of queued prompts.
        model: Model string, or None if the session has not been awake since the server started.
        turn: Turn of the running cycle, from 1, or 0 when idle.
        tokens: Tokens read and written by the whole session, or None if `model` is.
        cost_usd: Cost of those tokens, or None if a price is unknown.
        created_at_ms: Time of creation in milliseconds since 1970, or None if unknown.
        changed_at_ms: Time of the last published event.
        outcome: Outcome of the last cycle, or None while a cycle runs, before the first one, or if unknown.
        restarts: Number of restarts after a crash.
        parent: Session that this one was forked from, or None if it is not a fork.
        ended: Whether the session has ended.
        user: User that the session belongs to.
    """

    session_id: str
    title: str | None = None
    first_words: str | None = None
    agent_id: str | None = None
    phase: str
    suspended: bool = False
    tearing_down: bool = False
    tool: ToolAtWork | None = None
    running: int = 0
    waiting: WaitingCounts
    queued: int = 0
    model: str | None = None
    turn: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    created_at_ms: int | None = None
    changed_at_ms: int
    outcome: str | None = None
    restarts: int = 0
    parent: str | None = None
    ended: bool = False
    user: str | None = None


class RowStep(Value, frozen=True, kw_only=True):
    """One session on the path from a root to the session that asks.

    Attributes:
        session_id: Id of the session.
        title: Title of the session, or None for a child session, or while it has none.
        first_words: Task of a child session, up to 80 characters. Omitted if unknown, and for the root, whose row already has
            it.
    """

    session_id: str
    title: str | None
    first_words: str | UnsetType = UNSET


class WaitingRow(Value, frozen=True, kw_only=True):
    """A pending approval or question.

    Attributes:
        key: Key of the row.
        kind: Whether it is an approval or a question.
        session_id: The root session, which also accepts the decision.
        title: Title of the root session, or None while it has none.
        first_words: First message to the root session, up to 80 characters, or None if unknown.
        agent_id: Profile of the root session.
        path: Sessions from the root to the one that asks, both included.
        at_ms: Start of the wait, in milliseconds since 1970.
        expires_at_ms: Time at which it times out, or None if it never does.
        tool: Tool of an approval.
        summary: The command, the path or the question, up to 200 characters.
        approval_id: Id to pass to `approve` and `reject`, or None for a question.
        ref: Id to pass to `respond` and `decline`, or None for an approval.
        arguments_hash: Hash of the arguments that an approval would run.
    """

    key: str
    kind: Literal["approval", "question"]
    session_id: str
    title: str | None
    first_words: str | None = None
    agent_id: str | None
    path: tuple[RowStep, ...]
    at_ms: int
    expires_at_ms: int | None
    tool: str | None
    summary: str
    approval_id: str | None
    ref: str | None
    arguments_hash: str | None


class RowFilter(Value, frozen=True, kw_only=True):
    """Selects rows. An omitted field matches every row.

    Attributes:
        q: Text to find in the title, the first words, the id, the profile or the user. Case does not matter.
        agent_id: Match this profile only.
        phase: Match sessions in this phase only.
        outcome: Match sessions whose last cycle ended this way: `completed`, `aborted` or `failed`.
        waiting: Match only sessions that wait for users, or only those that do not.
        ended: Match only sessions that have ended, or only those that have not.
        limit: Maximum number of rows, from 1 to 5,000. The most recently changed ones are kept.
    """

    q: str | None = None
    agent_id: str | None = None
    phase: str | None = None
    outcome: str | None = None
    waiting: bool | None = None
    ended: bool | None = None
    limit: int = 1_000


ALL_ROWS: Final = RowFilter()
"""A filter that matches every row."""

MAX_ROWS: Final = 5_000
"""Maximum number of rows of one watch."""

OUTCOMES_OF_ROWS: Final = ("completed", "aborted", "failed")
"""Possible outcomes of a session's last cycle."""


def row_fits(row: SessionRow, wanted: RowFilter) -> bool:
    waits = row.waiting.approvals + row.waiting.questions > 0
    return (
        wanted.agent_id in (None, row.agent_id)
        and wanted.phase in (None, row.phase)
        and wanted.outcome in (None, row.outcome)
        and wanted.waiting in (None, waits)
        and wanted.ended in (None, row.ended)
        and (not wanted.q or has_words(wanted.q, row))
    )


def has_words(q: str, row: "SessionRow | WaitingRow") -> bool:
    looked_at: tuple[str | None, ...]
    if isinstance(row, SessionRow):
        looked_at = (row.title, row.first_words, row.session_id, row.agent_id, row.user)
    else:
        below = row.path[1:]
        names = [name for step in below for name in (step.title, step.first_words or None, step.session_id)]
        looked_at = (row.title, row.first_words, row.summary, row.session_id, row.agent_id, row.tool, *names)
    wanted = q.casefold()
    return any(wanted in one.casefold() for one in looked_at if one)


def waiting_fits(row: WaitingRow, wanted: RowFilter) -> bool:
    """Return whether a pending approval or question matches the filter. Ignores the fields that apply only to sessions."""
    return wanted.agent_id in (None, row.agent_id) and (not wanted.q or has_words(wanted.q, row))


def decode_row(kind: type[R], told: Any) -> R:
    """Decode a row sent by a server. Skips fields added by a newer server."""
    known = kind.__struct_fields__
    kept = {name: told[name] for name in known if name in told} if isinstance(told, dict) else told
    return converter_of(kind)(kept)
