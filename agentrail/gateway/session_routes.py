"""The routes of sessions, their requests, their files, and of who inspects them: each calls one function of `calls`, and adds headers.

Nothing is decided here but how texts of a query are read. A route says in `SESSION_ROUTES` what it takes; see `endpoint`.
"""

import re
from typing import Final
from urllib.parse import quote

from agentrail.gateway import calls
from agentrail.gateway.access import name_user
from agentrail.gateway.answers import CallRefused, ErrorAnswer
from agentrail.gateway.bodies import (
    AbortBody,
    ApproveBody,
    CancelBody,
    CreateSessionBody,
    ForkBody,
    ModelBody,
    ResumeBody,
    RewindBody,
)
from agentrail.gateway.calls import AskedSessions, CallAnswer, FileAnswer
from agentrail.gateway.calls.decisions import MAX_WAIT_SECONDS
from agentrail.gateway.endpoint import CallRoute, RouteCall, WholeAnswer
from agentrail.gateway.reading import MAX_CURSOR, whole_number, yes_or_no
from agentrail.host.session_order import USUAL_SORT
from agentrail.wire.operations import CompactBody, RejectBody, RespondBody
from agentrail.wire.rows import RowFilter

MAX_SESSIONS_OF_A_PAGE: Final = 200
MAX_MESSAGES_OF_A_PAGE: Final = 1_000
MAX_FILES_OF_A_PAGE: Final = 1_000

_PLAIN_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")


def answer_of_call(made: CallAnswer, **headers: str) -> WholeAnswer:
    """Send what a call came to."""
    return WholeAnswer(status=made.status, body=made.body, headers={**made.headers, **headers})


def answer_of_file(made: FileAnswer) -> WholeAnswer:
    """Send a file so that a browser keeps it and shows nothing of it, whatever it holds."""
    plain = _PLAIN_NAME.sub("_", made.name) or "_"
    named = (
        f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(made.name, safe='', errors='replace')}"
    )
    return WholeAnswer(
        body=made.content,
        content_type="application/octet-stream",
        headers={
            "content-disposition": named,
            "content-security-policy": "sandbox; default-src 'none'",
            "etag": made.etag,
            "x-content-type-options": "nosniff",
        },
    )


# --- sessions


async def _create(call: RouteCall) -> WholeAnswer:
    """Create a session."""
    made = await calls.create_session(call.host, call.principal, call.body)
    return answer_of_call(made, location=quote(f"{call.head.path}/{made.headers['x-session-id']}"))


async def _list_own(call: RouteCall) -> WholeAnswer:
    """List sessions."""
    return answer_of_call(await calls.list_own_sessions(call.host, call.principal, _asked_sessions(call)))


async def _show(call: RouteCall) -> WholeAnswer:
    """Show a session."""
    return answer_of_call(await calls.read_snapshot(call.host, call.principal, _session(call)))


async def _delete(call: RouteCall) -> WholeAnswer:
    """End a session."""
    purge = yes_or_no("purge", call.query.get("purge"))
    made = await calls.delete_session(call.host, call.principal, _session(call), purge=purge)
    return answer_of_call(made)


async def _messages(call: RouteCall) -> WholeAnswer:
    """Show a conversation."""
    made = await calls.read_messages(
        call.host,
        call.principal,
        _session(call),
        after=_after(call),
        limit=_limit(call, 100, MAX_MESSAGES_OF_A_PAGE),
    )
    return answer_of_call(made)


async def _model(call: RouteCall) -> WholeAnswer:
    """Ask another model from now on."""
    return answer_of_call(
        await calls.switch_session_model(call.host, call.principal, _session(call), call.body)
    )


async def _fork(call: RouteCall) -> WholeAnswer:
    """Fork a session."""
    made = await calls.fork_session(call.host, call.principal, _session(call), call.body)
    above = call.head.path.removesuffix(f"/{_session(call)}/fork")
    return answer_of_call(made, location=quote(f"{above}/{made.headers['x-session-id']}"))


async def _rewind(call: RouteCall) -> WholeAnswer:
    """Go back in a session."""
    return answer_of_call(await calls.rewind_session(call.host, call.principal, _session(call), call.body))


async def _resume(call: RouteCall) -> WholeAnswer:
    """Wake a session, and continue it if it is parked."""
    return answer_of_call(await calls.resume_session(call.host, call.principal, _session(call), call.body))


async def _compact(call: RouteCall) -> WholeAnswer:
    """Summarise the beginning of a conversation."""
    return answer_of_call(await calls.compact_session(call.host, call.principal, _session(call), call.body))


async def _forget_user(call: RouteCall) -> WholeAnswer:
    """Forget a user."""
    named = name_user(call.principal, user_id=call.params["user_id"])
    if isinstance(named, ErrorAnswer):
        raise CallRefused(named)
    return answer_of_call(await calls.forget_user(call.host, named))


# --- what runs


async def _abort(call: RouteCall) -> WholeAnswer:
    """Stop what runs."""
    wait = yes_or_no("wait", call.query.get("wait"))
    made = await calls.abort_session(call.host, call.principal, _session(call), call.body, wait=wait)
    return answer_of_call(made)


async def _approve(call: RouteCall) -> WholeAnswer:
    """Let a call run."""
    return answer_of_call(await calls.accept_approval(call.host, call.principal, _session(call), call.body))


async def _reject(call: RouteCall) -> WholeAnswer:
    """Let a call not run."""
    return answer_of_call(await calls.reject_approval(call.host, call.principal, _session(call), call.body))


async def _approval(call: RouteCall) -> WholeAnswer:
    """Show a call that waits for an approval; its id has a slash in it, which is one of the path."""
    made = await calls.read_shown_approval(call.host, call.principal, _session(call), call.params["approval"])
    return answer_of_call(made)


async def _rules(call: RouteCall) -> WholeAnswer:
    """List what is always allowed."""
    return answer_of_call(await calls.list_session_rules(call.host, call.principal, _session(call)))


async def _revoke_rule(call: RouteCall) -> WholeAnswer:
    """Take a rule back."""
    made = await calls.revoke_session_rule(call.host, call.principal, _session(call), call.params["rule_id"])
    return answer_of_call(made)


async def _respond(call: RouteCall) -> WholeAnswer:
    """WholeAnswer a question."""
    return answer_of_call(
        await calls.respond_to_question(call.host, call.principal, _session(call), call.body)
    )


async def _request(call: RouteCall) -> WholeAnswer:
    """Say how a request stands."""
    wait = whole_number("wait", call.query.get("wait"), 0, most=MAX_WAIT_SECONDS)
    made = await calls.read_request(
        call.host, call.principal, _session(call), call.params["request_id"], wait=wait
    )
    return answer_of_call(made)


async def _cancel(call: RouteCall) -> WholeAnswer:
    """Cancel a request."""
    made = await calls.cancel_request(
        call.host, call.principal, _session(call), call.params["request_id"], call.body
    )
    return answer_of_call(made)


# --- files


async def _files(call: RouteCall) -> WholeAnswer:
    """List a directory."""
    made = await calls.list_workspace(
        call.host,
        call.principal,
        _session(call),
        call.query.get("path", ""),
        after=_after(call),
        limit=_limit(call, MAX_FILES_OF_A_PAGE, MAX_FILES_OF_A_PAGE),
    )
    return answer_of_call(made)


async def _file(call: RouteCall) -> WholeAnswer:
    """Give a file out."""
    made = await calls.read_workspace_file(call.host, call.principal, _session(call), call.params["path"])
    return answer_of_file(made)


# --- inspection


async def _all_sessions(call: RouteCall) -> WholeAnswer:
    """List the sessions of the tenant."""
    return answer_of_call(await calls.inspect_sessions(call.host, call.principal, _asked_sessions(call)))


async def _tree(call: RouteCall) -> WholeAnswer:
    """Show the supervision tree."""
    query = call.query
    after = whole_number("after", query["after"], 0, most=MAX_CURSOR) if "after" in query else None
    limit = whole_number("limit", query.get("limit"), 200, least=1, most=calls.MAX_SESSIONS_OF_A_TREE)
    return answer_of_call(await calls.inspect_tree(call.host, call.principal, after=after, limit=limit))


async def _cost(call: RouteCall) -> WholeAnswer:
    """Show what was used."""
    made = await calls.inspect_cost(
        call.host,
        call.principal,
        by=call.query.get("by", "day"),
        since=call.query.get("since"),
        until=call.query.get("until"),
        tz=call.query.get("tz", "UTC"),
    )
    return answer_of_call(made)


async def _plugins(call: RouteCall) -> WholeAnswer:
    """Show the plugins of the host."""
    return answer_of_call(await calls.inspect_plugins(call.host, call.principal))


async def _all_messages(call: RouteCall) -> WholeAnswer:
    """Show a conversation of the tenant."""
    made = await calls.inspect_messages(
        call.host,
        call.principal,
        _session(call),
        after=_after(call),
        limit=_limit(call, 100, MAX_MESSAGES_OF_A_PAGE),
    )
    return answer_of_call(made)


def _asked_sessions(call: RouteCall) -> AskedSessions:
    given = call.query
    waiting, ended = given.get("waiting"), given.get("ended")
    wanted = RowFilter(
        q=given.get("q"),
        agent_id=given.get("agent_id"),
        phase=given.get("phase"),
        outcome=given.get("outcome"),
        waiting=None if waiting is None else yes_or_no("waiting", waiting),
        ended=None if ended is None else yes_or_no("ended", ended),
    )
    return AskedSessions(
        wanted=wanted,
        limit=_limit(call, 50, MAX_SESSIONS_OF_A_PAGE),
        cursor=given.get("cursor"),
        sort=given.get("sort", USUAL_SORT),
    )


def _session(call: RouteCall) -> str:
    return call.params["session_id"]


def _after(call: RouteCall) -> int:
    return whole_number("after", call.query.get("after"), 0, most=MAX_CURSOR)


def _limit(call: RouteCall, default: int, most: int) -> int:
    return whole_number("limit", call.query.get("limit"), default, least=1, most=most)


# --- the table

_ONE: Final = "/sessions/{session_id}"
_REQUEST: Final = f"{_ONE}/requests/{{request_id}}"
_INSPECT: Final = "/inspect/sessions"
_PAGE: Final = ("after", "limit")
_LIST: Final = ("limit", "cursor", "phase", "q", "agent_id", "waiting", "outcome", "ended", "sort")

# fmt: off
SESSION_ROUTES: Final = (
    CallRoute("POST", "/sessions", _create, does="creates a session", body=CreateSessionBody, success=201),
    CallRoute("GET", "/sessions", _list_own, does="lists sessions, the newest first", query=_LIST),
    CallRoute("GET", _ONE, _show, does="shows how a session stands, and its last messages"),
    CallRoute("DELETE", _ONE, _delete, does="ends a session", query=("purge",), success=204),
    CallRoute("DELETE", "/users/{user_id}/memory", _forget_user, does="forgets a user: ends and erases their sessions, and removes what is remembered", needs_user=False),
    CallRoute("GET", f"{_ONE}/messages", _messages, does="shows a conversation", query=_PAGE),
    CallRoute("POST", f"{_ONE}/model", _model, does="asks another model from the next request on", body=ModelBody),
    CallRoute("POST", f"{_ONE}/fork", _fork, does="begins a session that goes on from this one", body=ForkBody, success=201),
    CallRoute("POST", f"{_ONE}/rewind", _rewind, does="goes back to an earlier moment", body=RewindBody),
    CallRoute("POST", f"{_ONE}/resume", _resume, does="wakes a session, and continues one whose code changed", body=ResumeBody),
    CallRoute("POST", f"{_ONE}/compact", _compact, does="lets a summary stand for the beginning", body=CompactBody, success=202),
    CallRoute("POST", f"{_ONE}/abort", _abort, does="stops what runs", operation="abort", body=AbortBody, query=("wait",), success=202),
    CallRoute("POST", f"{_ONE}/approve", _approve, does="lets a call run that waits for it", also="decide", body=ApproveBody),
    CallRoute("POST", f"{_ONE}/reject", _reject, does="lets a call not run", also="decide", operation="reject", body=RejectBody),
    CallRoute("POST", f"{_ONE}/respond", _respond, does="answers a question", also="decide", operation="respond", body=RespondBody),
    CallRoute("GET", f"{_ONE}/approvals/{{approval:path}}", _approval, does="shows a call that waits for an approval, and all that is known of it", also="decide"),
    CallRoute("GET", f"{_ONE}/rules", _rules, does="lists what people always allow"),
    CallRoute("DELETE", f"{_ONE}/rules/{{rule_id}}", _revoke_rule, does="takes a rule back", operation="reject", success=204),
    CallRoute("GET", _REQUEST, _request, does="shows how a request stands, and its answer", query=("wait",)),
    CallRoute("POST", f"{_REQUEST}/cancel", _cancel, does="cancels a request", operation="cancel", body=CancelBody, success=202),
    CallRoute("GET", f"{_ONE}/files", _files, does="lists a directory of the workspace", query=("path", *_PAGE)),
    CallRoute("GET", f"{_ONE}/files/{{path:path}}", _file, does="gives a file of the workspace out"),
    CallRoute("GET", _INSPECT, _all_sessions, does="lists the sessions of the tenant", query=_LIST, scope="inspect"),
    CallRoute(
        "GET",
        "/inspect/tree",
        _tree,
        does="shows the supervision tree of the tenant, page by page",
        query=("after", "limit"),
        scope="inspect",
    ),
    CallRoute("GET", "/inspect/plugins", _plugins, does="shows the plugins of the host, and those of sessions by name", scope="inspect"),
    CallRoute("GET", "/inspect/cost", _cost, does="adds up what the sessions of the tenant have used", query=("by", "since", "until", "tz"), scope="inspect"),
    CallRoute("GET", f"{_INSPECT}/{{session_id}}/messages", _all_messages, does="shows a conversation of the tenant", query=_PAGE, scope="inspect"),
)
# fmt: on
