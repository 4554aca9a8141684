"""Error codes of routes: those common to all routes of a kind, and groups of codes for individual routes."""

from collections.abc import Mapping
from typing import Final

from agentrail.gateway.error_responses import ERROR_ANSWERS
from agentrail.gateway.path_endpoint import CallRoute
from agentrail.host.hook_payloads import STATUSES

PLUGIN_STATUSES: Final = STATUSES
"""Statuses with which a host plugin may answer in place of a session."""

# --- refusals

_ANY: Final = "headers_too_large internal"
BY_PLACE: Final = "token_in_url forbidden host_refused origin_refused"
_GUARDED: Final = (
    "token_in_url unauthorized forbidden host_refused origin_refused principal_mismatch id_invalid field_invalid"
    " field_unknown too_many_requests not_started draining plugin_failed"
)
_WITH_BODY: Final = "bad_json content_type too_large too_slow server_full"
_STREAMED: Final = "too_many_streams server_full cursor_ahead subscriber_too_slow"
ON_SESSION: Final = (
    "session_unknown session_is_child profile_unknown session_ended session_rested session_refused supervisor_closed mailbox_full call_timeout reply_timeout"
    " store_unavailable held_by owner_silent fenced unrevivable store_too_new journal_drifted journal_behind erased trimmed session_unreadable"
)
CREATING: Final = (
    "profile_unknown session_unknown already_exists already_started reply_timeout quota session_refused session_ended store_unavailable held_by owner_silent model_not_found"
    " option_error"
)
MESSAGE: Final = (
    f"{ON_SESSION} {CREATING} profile_mismatch session_busy client_id_reused queue_full"
    " steering_queue_full prompt_rejected prompt_error cannot_go_on budget webhook_invalid webhooks_off"
    " attachment_invalid attachments_unsupported request_refused command_unknown command_error"
)
DECIDING: Final = "approval_unknown already_resolved interaction_error unknown_call cannot_go_on your_move"
BRANCHING: Final = "cannot_go_on option_error your_move"


_MORE_STATUSES: Final[Mapping[tuple[str, str], Mapping[int, str]]] = {
    ("POST", "/chat"): {409: "cycle_failed"},  # if a budget is spent
    ("GET", "/v1/models/{agent_id}"): {404: "model_not_found"},
    ("POST", "/v1/chat/completions"): {404: "model_not_found", 409: "cycle_failed"},
    ("POST", "/v1/responses"): {404: "model_not_found", 409: "cycle_failed"},
}
"""Codes whose status differs from the table."""

SOCKET_REFUSALS: Final = (
    f"{_ANY} token_in_url unauthorized forbidden host_refused origin_refused principal_mismatch id_invalid field_invalid"
    " field_unknown too_many_requests not_started draining plugin_failed too_many_streams server_full route_unknown"
)
"""Codes that refuse an upgrade at `/ws`. Without an upgrade, the path is unknown."""


def refusals_of(route: CallRoute) -> dict[int, tuple[str, ...]]:
    told = [_ANY, route.refusals]
    if route.scope is not None:
        told.append(_GUARDED)
        if "{session_id}" in route.path:
            told.append(ON_SESSION)
        if route.body is not None:
            told.append(_WITH_BODY)
        if route.is_stream:
            told.append(_STREAMED)
    by_status = statuses_of(" ".join(told))
    for status, codes in _MORE_STATUSES.get((route.method, route.path), {}).items():
        by_status[status] = tuple(sorted({*by_status.get(status, ()), *codes.split()}))
    return by_status


def statuses_of(codes: str) -> dict[int, tuple[str, ...]]:
    found: dict[int, set[str]] = {}
    for code in codes.split():
        row = ERROR_ANSWERS[code]
        found.setdefault(row.status, set()).add(row.code or code)
    return {status: tuple(sorted(found[status])) for status in sorted(found)}
