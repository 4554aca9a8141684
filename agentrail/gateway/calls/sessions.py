"""Calls about sessions as wholes: created, listed, looked at, forked, rewound, deleted. Whose they are, the host says."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET

from agentrail.frozen import thawed
from agentrail.gateway.answers import refuse_call
from agentrail.gateway.bodies import CompactBody, CreateSessionBody, ForkBody, ModelBody, RewindBody
from agentrail.gateway.calls.answering import CallAnswer, answer_with
from agentrail.gateway.queries import refuse_field
from agentrail.gateway.replies import (
    CompactionAsked,
    ModelReply,
    SessionCreated,
    SessionForked,
    SessionItem,
    SessionPage,
    SessionRewound,
)
from agentrail.host import Host, Principal
from agentrail.host.identity import metadata_of_session, profile_of_session
from agentrail.host.session_list import SESSION_PHASES, ListedSession, ListPlace
from agentrail.wire.forms import encode_messages, encode_snapshot, encode_status

OPEN_MODEL_OPTIONS: Final = frozenset(
    {"temperature", "top_p", "stop", "max_output_tokens", "reasoning", "tool_choice", "structured"}
)
"""What a caller may tell a model. Where it is, which keys and files it is asked with, and what it costs, the operator says: an address
from outside would be sent the operator's key."""


async def create_session(host: Host, principal: Principal, body: CreateSessionBody) -> CallAnswer:
    """POST /sessions."""
    session = await host.create(
        principal,
        agent_id=body.agent_id or "",
        session_id=body.session_id,
        model=body.model,
        metadata=body.metadata,
    )
    agent_id = profile_of_session(session.facts.user_data)
    told = SessionCreated(session_id=session.session_id, agent_id=agent_id)
    return answer_with(told, status=201, x_session_id=session.session_id)


async def list_own_sessions(
    host: Host, principal: Principal, *, limit: int = 50, cursor: str | None = None, phase: str | None = None
) -> CallAnswer:
    """GET /sessions."""
    behind = place_of_cursor(cursor)
    found = await host.list_sessions(principal, phase=known_phase(phase), behind=behind, limit=limit + 1)
    return page_of_sessions(found, limit)


async def read_snapshot(host: Host, principal: Principal, session_id: str) -> CallAnswer:
    """GET /sessions/{id}."""
    session = await host.session(session_id, principal)
    metadata = metadata_of_session(session.facts.user_data)
    return CallAnswer(body=encode_snapshot(await session.snapshot(), metadata=metadata))


async def read_status(host: Host, principal: Principal, session_id: str) -> CallAnswer:
    """Say how a session stands, for sockets: a snapshot has it too."""
    session = await host.session(session_id, principal)
    return CallAnswer(body=encode_status(await session.status()))


async def delete_session(
    host: Host, principal: Principal, session_id: str, *, purge: bool = False
) -> CallAnswer:
    """DELETE /sessions/{id}."""
    await host.delete_session(session_id, principal, purge=purge)
    return CallAnswer(status=204)


async def read_messages(
    host: Host, principal: Principal, session_id: str, *, after: int = 0, limit: int = 100
) -> CallAnswer:
    """GET /sessions/{id}/messages."""
    session = await host.session(session_id, principal)
    return CallAnswer(body=encode_messages(await session.messages(), after=after, limit=limit))


async def switch_session_model(
    host: Host, principal: Principal, session_id: str, body: ModelBody
) -> CallAnswer:
    """POST /sessions/{id}/model."""
    closed = sorted(body.provider_opts.keys() - OPEN_MODEL_OPTIONS)
    if closed:
        refuse_field(
            "provider_opts",
            f"has {closed[0]!r:.60}: a caller may give {', '.join(sorted(OPEN_MODEL_OPTIONS))}",
        )
    session = await host.session(session_id, principal, only_root=True)
    await session.switch_model(body.model, body.provider_opts or None)
    status = await session.status()
    return answer_with(ModelReply(session_id=session.session_id, model=status.model))


async def fork_session(host: Host, principal: Principal, session_id: str, body: ForkBody) -> CallAnswer:
    """POST /sessions/{id}/fork."""
    fork, at = await host.fork_session(session_id, principal, at=body.at, wanted=body.session_id)
    told = SessionForked(session_id=fork.session_id, parent=session_id, at=at)
    return answer_with(told, status=201, x_session_id=fork.session_id)


async def rewind_session(host: Host, principal: Principal, session_id: str, body: RewindBody) -> CallAnswer:
    """POST /sessions/{id}/rewind."""
    session = await host.session(session_id, principal, only_root=True)
    rewound = await session.rewind(body.to)
    return answer_with(SessionRewound(session_id=session_id, at=rewound.number, calls=rewound.calls))


async def compact_session(host: Host, principal: Principal, session_id: str, body: CompactBody) -> CallAnswer:
    """POST /sessions/{id}/compact. That it has begun is not said yet: `CompactEnd`, or `CompactSkipped`, says what became of it."""
    session = await host.session(session_id, principal, only_root=True)
    await session.compact(body.reason)
    return answer_with(CompactionAsked(session_id=session.session_id), status=202)


# --- pages of sessions

CURSOR: Final = re.compile(r"([0-9]{1,16})~([A-Za-z0-9._:-]{1,128})")
"""What a cursor looks like: when a session was created, and which one it is."""


def place_of_cursor(cursor: str | None) -> ListPlace | None:
    """Read where a page begins; None for the first.

    Raises:
        CallRefused: 400 `cursor_invalid`: it is none that a page gave.
    """
    if cursor is None:
        return None
    found = CURSOR.fullmatch(cursor)
    if found is None:
        refuse_call("cursor_invalid", "cursor is none: expected `next_cursor` of the page before")
    return int(found[1]), found[2]


def known_phase(phase: str | None) -> str | None:
    """Let a phase pass that sessions can be at.

    Raises:
        CallRefused: 422: there is none of this name.
    """
    if phase is not None and phase not in SESSION_PHASES:
        refuse_field("phase", f"is {phase!r:.40}: expected one of {', '.join(SESSION_PHASES)}")
    return phase


def page_of_sessions(found: Sequence[ListedSession], limit: int, *, with_users: bool = False) -> CallAnswer:
    """Write a page: `{sessions, next_cursor}`.

    Args:
        found: In order, one more than the page holds where there are more.
        limit: How many it holds.
        with_users: Whether it says whose they are.
    """
    shown = found[:limit]
    last = shown[-1] if len(found) > limit else None
    cursor = None if last is None else f"{last.created_at_ms}~{last.session_id}"
    items = tuple(item_of_session(one, with_user=with_users) for one in shown)
    return answer_with(SessionPage(sessions=items, next_cursor=cursor))


def item_of_session(listed: ListedSession, *, with_user: bool) -> SessionItem:
    """Say of a session what stands in a list; of one that is not awake without what only that knows."""
    item = SessionItem(
        session_id=listed.session_id,
        user_id=listed.user_id if with_user else UNSET,
        agent_id=listed.agent_id,
        phase=listed.phase,
        created_at_ms=listed.created_at_ms,
        waits_for=listed.waits_for,
        title=listed.title,
        metadata=thawed(listed.metadata) or UNSET,
    )
    status = listed.status
    if status is None:
        return item
    return msgspec.structs.replace(
        item,
        model=status.model,
        turn=status.turn,
        queued=len(status.queued),
        messages=status.messages,
        usage=status.usage,
        restarts=status.restarts,
        suspended=status.suspended,
    )
