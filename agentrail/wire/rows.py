"""Rows: what lists show of a session, and of what waits for people; whole values that a newer one takes the place of.

Pure. Both sides of a connection read them: a socket sends them to those who watch, and `agentrail top` draws them. How a row comes about
is said in `agentrail.host`; a field may be added at any time, none is taken away.
"""

from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from agentrail.structs import Value, converter_of

R = TypeVar("R", bound=msgspec.Struct)


class ToolAtWork(Value, frozen=True, kw_only=True):
    """A tool that runs.

    Attributes:
        name: Of the tool.
        since_ms: When its attempt began, in milliseconds since 1970.
    """

    name: str
    since_ms: int


class WaitingCounts(Value, frozen=True, kw_only=True):
    """How much waits for people in a session and all below it.

    Attributes:
        approvals: Calls, those of the client among them.
        questions: Questions.
    """

    approvals: int
    questions: int


class SessionRow(Value, frozen=True, kw_only=True):
    """A session in a list.

    Attributes:
        session_id: Which one; of a root.
        title: What it is about; None while it has none.
        first_words: What was said to it first, up to 80 characters, for those that have no title; None where that is not known.
        agent_id: Its profile; None of one that has none.
        phase: One of the four, or `asleep`, or `ended`.
        suspended: Whether its cycle waits for people and for nothing else.
        tearing_down: Whether what an abort stopped is not gone yet.
        tool: The tool that runs longest; None while none does.
        running: How many calls run.
        waiting: How much waits for people.
        queued: How many prompts wait.
        model: The model string; None of one that was not awake since the server began.
        turn: Of the running cycle, from 1; 0 in idle.
        tokens: Read and written by all of it; None where `model` is.
        cost_usd: What that cost; None where a price is not known.
        created_at_ms: When it began, in milliseconds since 1970; None where that is not known.
        changed_at_ms: When it published something last.
        outcome: How its last cycle ended; None while one runs, before the first, and where that is not known.
        restarts: How often it crashed and came back.
        parent: The session that it was forked from; None for none.
        ended: Whether nothing follows.
        user: Whose it is.
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
    """One session on the way from a root to the one that asks.

    Attributes:
        session_id: Which one.
        title: What it is about; None of one that works for another, and while it has none.
        first_words: What one that works for another has to do, up to 80 characters. Left out where that is not known, and of the root,
            whose first words stand beside the path.
    """

    session_id: str
    title: str | None
    first_words: str | UnsetType = UNSET


class WaitingRow(Value, frozen=True, kw_only=True):
    """Something that waits for a person.

    Attributes:
        key: Its own name.
        kind: An approval, or a question.
        session_id: The root, which decides it too.
        title: What that is about; None while it has none.
        first_words: What was said to that first, up to 80 characters; None where that is not known.
        agent_id: The profile of that.
        path: From the root to the session that asks, both among them.
        at_ms: Since when it waits, in milliseconds since 1970.
        expires_at_ms: When the clock decides; None: never.
        tool: Of an approval the tool.
        summary: The command, the path, or the question, in up to 200 characters.
        approval_id: What `approve` and `reject` are given; None of a question.
        ref: What `respond` and `decline` are given; None of an approval.
        arguments_hash: Of an approval the hash of what would run.
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
    """Which rows are wanted; what is left out lets all pass.

    Attributes:
        q: Words that stand in the title, the first words, the id, the profile or the user; capitals do not matter.
        agent_id: Only of this profile.
        phase: Only those that are at it.
        outcome: Only those whose last cycle ended so: `completed`, `aborted` or `failed`.
        waiting: Only those that wait for people, or only those that do not.
        ended: Only those that have ended, or only those that have not.
        limit: How many rows at most, from 1 to 5,000; those that changed last.
    """

    q: str | None = None
    agent_id: str | None = None
    phase: str | None = None
    outcome: str | None = None
    waiting: bool | None = None
    ended: bool | None = None
    limit: int = 1_000


ALL_ROWS: Final = RowFilter()
"""Lets all rows pass."""

MAX_ROWS: Final = 5_000
"""How many rows one watch may have."""

OUTCOMES_OF_ROWS: Final = ("completed", "aborted", "failed")
"""How the last cycle of a session may have ended."""


def row_fits(row: SessionRow, wanted: RowFilter) -> bool:
    """Say whether a session is among those that are wanted; the limit is not looked at."""
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
    """Say whether words stand in what a row is found by."""
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
    """Say whether what waits is among that which is wanted; what speaks of sessions alone is not looked at."""
    return wanted.agent_id in (None, row.agent_id) and (not wanted.q or has_words(wanted.q, row))


def decode_row(kind: type[R], told: Any) -> R:
    """Read a row that a server sent; what a newer one adds is skipped."""
    known = kind.__struct_fields__
    kept = {name: told[name] for name in known if name in told} if isinstance(told, dict) else told
    return converter_of(kind)(kept)
