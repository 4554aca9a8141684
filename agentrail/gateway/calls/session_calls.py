"""Calls on whole sessions: create, list, show, fork, rewind, delete."""

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from attrs import frozen
from msgspec import UNSET
from msgspec.structs import replace

from agentrail.frozen import thawed
from agentrail.gateway.error_responses import refuse_call
from agentrail.gateway.request_bodies import (
    CreateSessionBody,
    ForkBody,
    ModelBody,
    ResumeBody,
    RewindBody,
)
from agentrail.gateway.request_parser import check_filter, refuse_field
from agentrail.gateway.response_bodies import (
    FilePage,
    ModelReply,
    SessionCreated,
    SessionForked,
    SessionItem,
    SessionPage,
    SessionResumed,
    SessionRewound,
    UserForgotten,
    as_given,
)
from agentrail.gateway.whole_answer import WholeAnswer, answer_json
from agentrail.host import Host, Principal
from agentrail.host.host_sessions import profile_of_root
from agentrail.host.identity import metadata_of_session, profile_of_session
from agentrail.host.listed_session import ListedSession
from agentrail.host.session_order import SORTS, USUAL_SORT, ListPlace, place_in_list
from agentrail.runtime.journal_access import record_of_event
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_rows import repairs_of
from agentrail.structs import picked_fields, struct_from
from agentrail.wire.form_fields import encode_messages, encode_snapshot
from agentrail.wire.rows import ALL_ROWS, RowFilter

# Calls that read the workspace of a session. The host and the sandbox check the access.

_PLAIN_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")


async def list_workspace(  # noqa: PLR0913 - a page of one directory of one session
    host: Host, principal: Principal, session_id: str, path: str = "", *, after: int = 0, limit: int = 1_000
) -> WholeAnswer:
    found = await host.list_files(session_id, principal, path)
    shown = found[after : after + limit]
    behind = after + len(shown)
    more = behind if shown and behind < len(found) else None
    return answer_json(FilePage(entries=shown, next=more))


async def read_workspace_file(host: Host, principal: Principal, session_id: str, path: str) -> WholeAnswer:
    found = await host.read_file(session_id, principal, path)
    return answer_download(found.content, etag=f'"{found.sha256}"', name=path.rpartition("/")[2])


def answer_download(content: bytes, *, etag: str, name: str) -> WholeAnswer:
    """Return a file to download, which browsers must never display, because it may be a page with scripts."""
    plain = _PLAIN_NAME.sub("_", name) or "_"
    quoted = quote(name, safe="", errors="replace")
    return WholeAnswer(
        body=content,
        content_type="application/octet-stream",
        headers={
            "content-disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quoted}",
            "content-security-policy": "sandbox; default-src 'none'",
            "etag": etag,
            "x-content-type-options": "nosniff",
        },
    )


# Calls about a user instead of a session.


async def forget_user(host: Host, principal: Principal) -> WholeAnswer:
    told = await host.users.forget(principal)
    return answer_json(struct_from(UserForgotten, told))


OPEN_MODEL_OPTIONS: Final = frozenset(
    {"temperature", "top_p", "stop", "max_output_tokens", "reasoning", "tool_choice", "structured"}
)
"""Model options that a caller may set.

The operator sets addresses, keys, files and prices. An address from a caller would receive the operator's key.
"""


async def create_session(host: Host, principal: Principal, body: CreateSessionBody) -> WholeAnswer:
    session = await host.create(
        principal,
        agent_id=body.agent_id or "",
        session_id=body.session_id,
        model=body.model,
        metadata=body.metadata,
        history=body.history,
        keep=body.keep,
    )
    agent_id = profile_of_session(session.facts.user_data)
    repairs = repairs_of(session) if body.history else UNSET
    told = SessionCreated(session_id=session.session_id, agent_id=agent_id, repairs=repairs)
    return answer_json(told, 201, {"x-session-id": session.session_id})


async def read_snapshot(host: Host, principal: Principal, session_id: str) -> WholeAnswer:
    session = await host.session(session_id, principal)
    facts = session.facts
    metadata, agent_id = metadata_of_session(facts.user_data), profile_of_root(facts)
    return WholeAnswer(body=encode_snapshot(await session.snapshot(), metadata=metadata, agent_id=agent_id))


async def delete_session(
    host: Host, principal: Principal, session_id: str, *, purge: bool = False
) -> WholeAnswer:
    await host.delete_session(session_id, principal, purge=purge)
    return WholeAnswer(status=204)


async def read_messages(
    host: Host, principal: Principal, session_id: str, *, after: int = 0, limit: int = 100
) -> WholeAnswer:
    session = await host.session(session_id, principal)
    return WholeAnswer(body=encode_messages(await session.messages(), after=after, limit=limit))


async def switch_session_model(
    host: Host, principal: Principal, session_id: str, body: ModelBody
) -> WholeAnswer:
    closed = sorted(body.provider_opts.keys() - OPEN_MODEL_OPTIONS)
    if closed:
        refuse_field(
            "provider_opts",
            f"has {closed[0]!r:.60}: a caller may set only {', '.join(sorted(OPEN_MODEL_OPTIONS))}",
        )
    session = await host.session(session_id, principal, only_root=True)
    await session.switch_model(body.model, body.provider_opts or None)
    status = await session.status()
    return answer_json(ModelReply(session_id=session.session_id, model=status.model))


async def fork_session(host: Host, principal: Principal, session_id: str, body: ForkBody) -> WholeAnswer:
    place = await record_to_fork(host, principal, session_id, at=body.at, event=body.event)
    fork, at = await host.fork_session(session_id, principal, at=place, wanted=body.session_id)
    told = SessionForked(session_id=fork.session_id, parent=session_id, at=at)
    return answer_json(told, 201, {"x-session-id": fork.session_id})


async def record_to_fork(
    host: Host, principal: Principal, session_id: str, *, at: int | None, event: int | None
) -> int | None:
    """Return the record after which to fork, or None for the last one. Ended sessions can be forked too."""
    # Only an event number needs a handle. Without one, no session is woken before the fork is known to be
    # allowed.
    if event is None:
        return at
    return await record_of_place(await host.session_to_read(session_id, principal), "at", at, event)


async def rewind_session(host: Host, principal: Principal, session_id: str, body: RewindBody) -> WholeAnswer:
    session = await host.session(session_id, principal, only_root=True)
    place = await record_of_place(session, "to", body.to, body.event)
    if place is None:
        refuse_field("to", "is missing: give the number of a record, or the number of an event in `event`")
    rewound = await session.rewind(place, files=body.files, dry=body.dry)
    told = SessionRewound(
        session_id=session_id,
        at=rewound.number,
        calls=rewound.calls,
        files=as_given(rewound.files),
        dry=body.dry or UNSET,
    )
    return answer_json(told)


async def record_of_place(session: Session, name: str, number: int | None, event: int | None) -> int | None:
    """Return the record meant by its number or by an event's number."""
    if event is None:
        return number
    if number is not None:
        refuse_field("event", f"is given together with {name}: give one of them")
    return await record_of_event(session, event)


async def resume_session(host: Host, principal: Principal, session_id: str, body: ResumeBody) -> WholeAnswer:
    session = await host.session(session_id, principal, only_root=True, on_drift=body.on_drift)
    status = await session.status()
    return answer_json(SessionResumed(session_id=session.session_id, phase=status.phase))


# --- pages of sessions


@frozen(kw_only=True)
class AskedSessions:
    """Parameters of a page of a list.

    Attributes:
        cursor: Start of the page, from the previous page; None for the first.
    """

    wanted: RowFilter = ALL_ROWS
    limit: int = 50
    cursor: str | None = None
    sort: str = USUAL_SORT

    async def find(
        self, host: Host, principal: Principal, *, of_tenant: bool = False
    ) -> Sequence[ListedSession]:
        wanted = self.wanted
        check_filter(wanted)
        if self.sort.removeprefix("-") not in SORTS:
            expected = f"expected one of {', '.join(SORTS)}, optionally with a leading -"
            refuse_field("sort", f"is {self.sort!r:.40}: {expected}")
        if wanted.ended is None and wanted.phase is None:
            wanted = replace(wanted, ended=False)
        return await host.list_sessions(
            principal,
            wanted=wanted,
            sort=self.sort,
            behind=place_of_cursor(self.cursor),
            limit=self.limit + 1,
            of_tenant=of_tenant,
        )


FIRST_PAGE: Final = AskedSessions()


async def list_own_sessions(
    host: Host, principal: Principal, asked: AskedSessions = FIRST_PAGE
) -> WholeAnswer:
    return page_of_sessions(await asked.find(host, principal), asked)


CURSOR: Final = re.compile(r"([0-9]{1,16})~([A-Za-z0-9._:-]{1,128})")
"""Format of a cursor: creation time and id of a session."""


def place_of_cursor(cursor: str | None) -> ListPlace | None:
    """Parse the start of a page; None for the first."""
    if cursor is None:
        return None
    found = CURSOR.fullmatch(cursor)
    if found is None:
        refuse_call("cursor_invalid", "cursor is invalid: expected `next_cursor` of the previous page")
    return int(found[1]), found[2]


def page_of_sessions(
    found: Sequence[ListedSession], asked: AskedSessions, *, with_users: bool = False
) -> WholeAnswer:
    shown = found[: asked.limit]
    last = shown[-1].row if len(found) > asked.limit else None
    number, session_id = (0, "") if last is None else place_in_list(last, asked.sort)
    cursor = None if last is None else f"{number}~{session_id}"
    items = tuple(item_of_session(one, with_user=with_users) for one in shown)
    return answer_json(SessionPage(sessions=items, next_cursor=cursor))


_OF_ROW: Final = (
    *("first_words", "tearing_down", "tool", "running", "waiting", "tokens"),
    *("cost_usd", "changed_at_ms", "outcome", "parent", "ended"),
)
_OF_STATUS: Final = ("model", "turn", "messages", "usage", "restarts", "suspended")


def item_of_session(listed: ListedSession, *, with_user: bool) -> SessionItem:
    row, status = listed.row, listed.status
    told: dict[str, Any] = {} if row is None else picked_fields(row, *_OF_ROW)
    if status is not None:
        told |= picked_fields(status, *_OF_STATUS) | {"queued": len(status.queued)}
    return SessionItem(
        session_id=listed.session_id,
        user_id=listed.user_id if with_user else UNSET,
        agent_id=listed.agent_id,
        phase=listed.phase,
        created_at_ms=listed.created_at_ms,
        waits_for=listed.waits_for,
        title=listed.title if row is None else row.title or "",
        metadata=thawed(listed.metadata) or UNSET,
        **told,
    )
