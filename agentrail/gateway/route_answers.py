"""What each route may answer with: the structs of its successes by status, and the codes of its refusals.

Pure tables. The page of the interface is made of them, and the suite of the gateway holds each answer that it gets against that page, so a
row that is missing here fails the test that meets it. What a code's status is says `answers`, once for all routes.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from agentrail.core.journal.explaining import ExplainedStep
from agentrail.core.session.projection import Status
from agentrail.events import AbortReceipt
from agentrail.gateway.answers import ERROR_ANSWERS
from agentrail.gateway.endpoint import CallRoute
from agentrail.gateway.inspection_replies import (
    CallDetails,
    ContextReply,
    CostReply,
    EventPageReply,
    HostPluginList,
    InspectedMessages,
    SpanPage,
    StateReply,
    TracePage,
    TreePage,
)
from agentrail.gateway.replies import (
    ApprovalDecided,
    CallStopped,
    CancelReply,
    ChatReply,
    ChatWaiting,
    CommandDone,
    CommandList,
    CompactionAsked,
    ConsoleInfo,
    FilePage,
    HealthReply,
    ModelReply,
    QuestionAnswered,
    ReadyReply,
    RequestReply,
    ResponseCancelled,
    SessionCreated,
    SessionForked,
    SessionPage,
    SessionResumed,
    SessionRewound,
    ShownApproval,
    SteerReply,
    StopUnwritten,
    UserForgotten,
)
from agentrail.host.payloads import STATUSES
from agentrail.wire.forms import AcceptedForm, MessagePage, RuleList, SnapshotForm

RouteReply: TypeAlias = type | tuple[type, ...]
"""The struct of an answer, or those of which it is one; none of an answer without a body."""

RouteKey: TypeAlias = tuple[str, str]
"""Method and path."""

_OF_SESSION: Final = "/sessions/{session_id}"
_OF_REQUEST: Final = f"{_OF_SESSION}/requests/{{request_id}}"
_OF_CHAT: Final = "/ai-ui/{agent_id}/{session_id}"
_INSPECTED: Final = "/inspect/sessions/{session_id}"

REPLIES: Final[Mapping[RouteKey, Mapping[int, RouteReply]]] = {
    ("POST", "/chat"): {200: (ChatReply, CommandDone), 202: ChatWaiting},
    ("POST", "/stream"): {},
    ("GET", "/health"): {200: HealthReply},
    ("GET", "/ready"): {200: ReadyReply, 503: ReadyReply},
    ("POST", "/sessions"): {201: SessionCreated},
    ("GET", "/sessions"): {200: SessionPage},
    ("GET", "/console/info"): {200: ConsoleInfo},
    ("GET", _OF_SESSION): {200: SnapshotForm},
    ("DELETE", _OF_SESSION): {},
    ("DELETE", "/users/{user_id}/memory"): {200: UserForgotten},
    ("POST", f"{_OF_SESSION}/prompt"): {202: (AcceptedForm, SteerReply)},
    ("POST", f"{_OF_SESSION}/steer"): {202: SteerReply},
    ("GET", f"{_OF_SESSION}/messages"): {200: MessagePage},
    ("GET", f"{_OF_SESSION}/events"): {200: EventPageReply, 204: ()},
    ("GET", f"{_OF_SESSION}/calls/{{call_id}}"): {200: CallDetails},
    ("GET", f"{_OF_SESSION}/context"): {200: ContextReply},
    ("GET", f"{_INSPECTED}/spans"): {200: SpanPage},
    ("POST", f"{_OF_SESSION}/model"): {200: ModelReply},
    ("GET", "/commands"): {200: CommandList},
    ("POST", "/commands/{name}"): {200: CommandDone, 202: CommandDone},
    ("POST", f"{_OF_SESSION}/fork"): {201: SessionForked},
    ("POST", f"{_OF_SESSION}/rewind"): {200: SessionRewound},
    ("POST", f"{_OF_SESSION}/resume"): {200: SessionResumed},
    ("POST", f"{_OF_SESSION}/compact"): {202: CompactionAsked},
    ("POST", f"{_OF_SESSION}/abort"): {
        202: (AbortReceipt, CallStopped, StopUnwritten),
        200: (AbortReceipt, CallStopped),
    },
    ("POST", f"{_OF_SESSION}/approve"): {200: ApprovalDecided},
    ("POST", f"{_OF_SESSION}/reject"): {200: ApprovalDecided},
    ("POST", f"{_OF_SESSION}/respond"): {200: QuestionAnswered},
    ("GET", f"{_OF_SESSION}/approvals/{{approval:path}}"): {200: ShownApproval},
    ("GET", f"{_OF_SESSION}/rules"): {200: RuleList},
    ("DELETE", f"{_OF_SESSION}/rules/{{rule_id}}"): {},
    ("GET", _OF_REQUEST): {200: RequestReply},
    ("POST", f"{_OF_REQUEST}/cancel"): {202: CancelReply},
    ("GET", f"{_OF_SESSION}/files"): {200: FilePage},
    ("GET", f"{_OF_SESSION}/files/{{path:path}}"): {},
    ("GET", "/inspect/sessions"): {200: SessionPage},
    ("GET", "/inspect/tree"): {200: TreePage},
    ("GET", "/inspect/plugins"): {200: HostPluginList},
    ("GET", "/inspect/cost"): {200: CostReply},
    ("GET", f"{_INSPECTED}/trace"): {200: TracePage},
    ("GET", f"{_INSPECTED}/state"): {200: StateReply},
    ("GET", f"{_INSPECTED}/explain"): {200: ExplainedStep},
    ("GET", f"{_INSPECTED}/messages"): {200: InspectedMessages},
    ("GET", "/"): {302: ()},
    ("GET", "/console"): {302: ()},
    ("GET", "/console/{path:path}"): {304: ()},
    ("POST", "/ai-ui/{agent_id}"): {},
    ("GET", f"{_OF_CHAT}/stream"): {204: ()},
    ("POST", f"{_OF_CHAT}/cancel"): {202: ResponseCancelled},
}
"""What a route answers with where it succeeds. A stream, a file and an answer without a body have no struct."""

COMMAND_REPLIES: Final[Mapping[str, RouteReply]] = {
    "prompt": (AcceptedForm, SteerReply),
    "abort": AbortReceipt,
    "abort_tool": (),
    "answer": (),
    "decline": (),
    "status": Status,
    "stop": (),
}
"""What commands of a socket are replied with that are no routes; of others among them it is any JSON."""

ASKS_PLUGINS: Final = frozenset(
    ("POST", path)
    for path in (
        "/chat",
        "/stream",
        f"{_OF_SESSION}/prompt",
        f"{_OF_SESSION}/steer",
        f"{_OF_SESSION}/respond",
        "/ai-ui/{agent_id}",
        "/commands/{name}",
    )
)
"""The routes that bring a user's words: a plugin of the host may answer them in place of the session, with any object."""

PLUGIN_STATUSES: Final = STATUSES
"""With which statuses it may do so."""

# --- refusals

_ANY: Final = "headers_too_large internal"
_BY_PLACE: Final = "token_in_url forbidden host_refused origin_refused"
_GUARDED: Final = (
    "token_in_url unauthorized forbidden host_refused origin_refused principal_mismatch id_invalid field_invalid"
    " field_unknown too_many_requests not_started draining plugin_failed"
)
_WITH_BODY: Final = "bad_json content_type too_large too_slow server_full"
_STREAMED: Final = "too_many_streams server_full cursor_ahead subscriber_too_slow"
_ON_SESSION: Final = (
    "session_unknown session_ended session_rested session_refused supervisor_closed mailbox_full call_timeout reply_timeout"
    " store_unavailable held_by fenced unrevivable journal_drifted erased trimmed"
)
_CREATING: Final = (
    "profile_unknown session_unknown already_exists already_started reply_timeout quota session_refused session_ended store_unavailable held_by model_not_found"
    " option_error"
)
_MESSAGE: Final = (
    f"{_ON_SESSION} {_CREATING} profile_mismatch session_is_child session_busy client_id_reused queue_full"
    " steering_queue_full prompt_rejected prompt_error cannot_go_on budget webhook_invalid webhooks_off"
    " attachment_invalid attachments_unsupported request_refused command_unknown command_error"
)
_DECIDING: Final = (
    f"{_ON_SESSION} approval_unknown already_resolved interaction_error unknown_call cannot_go_on your_move"
)
_BRANCHING: Final = f"{_ON_SESSION} session_is_child cannot_go_on option_error your_move"

_REFUSALS: Final[Mapping[RouteKey, str]] = {
    ("POST", "/chat"): f"{_MESSAGE} aborted cycle_failed provider_error timeout",
    ("POST", "/stream"): _MESSAGE,
    ("GET", "/commands"): f"{_ON_SESSION} session_is_child",
    ("POST", "/commands/{name}"): f"{_MESSAGE} {_BRANCHING} already_exists still_needed unknown_call",
    ("POST", "/sessions"): _CREATING,
    ("GET", "/sessions"): "cursor_invalid store_unavailable",
    ("DELETE", _OF_SESSION): f"{_ON_SESSION} session_is_child still_needed",
    ("DELETE", "/users/{user_id}/memory"): "store_unavailable reply_timeout supervisor_closed",
    ("POST", f"{_OF_SESSION}/prompt"): _MESSAGE,
    ("POST", f"{_OF_SESSION}/steer"): _MESSAGE,
    ("GET", f"{_OF_SESSION}/events"): f"{_ON_SESSION} cursor_invalid request_unknown option_error",
    ("GET", f"{_OF_SESSION}/calls/{{call_id}}"): f"{_ON_SESSION} unknown_call",
    ("GET", f"{_OF_SESSION}/context"): f"{_ON_SESSION} session_is_child",
    ("POST", f"{_OF_SESSION}/model"): f"{_ON_SESSION} session_is_child model_not_found option_error",
    ("POST", f"{_OF_SESSION}/fork"): f"{_BRANCHING} already_exists quota still_needed",
    ("POST", f"{_OF_SESSION}/rewind"): _BRANCHING,
    ("POST", f"{_OF_SESSION}/resume"): f"{_ON_SESSION} session_is_child",
    ("POST", f"{_OF_SESSION}/compact"): _BRANCHING,
    ("POST", f"{_OF_SESSION}/abort"): f"{_ON_SESSION} unknown_call option_error",
    ("POST", f"{_OF_SESSION}/approve"): (
        f"{_DECIDING} approval_mismatch approval_expired invalid_arguments answer_not_offered"
    ),
    ("POST", f"{_OF_SESSION}/reject"): f"{_DECIDING} approval_expired answer_not_offered",
    ("POST", f"{_OF_SESSION}/respond"): (
        f"{_DECIDING} invalid_response answer_not_offered question_declined prompt_error request_refused"
    ),
    ("GET", f"{_OF_SESSION}/approvals/{{approval:path}}"): f"{_ON_SESSION} approval_unknown",
    ("DELETE", f"{_OF_SESSION}/rules/{{rule_id}}"): f"{_ON_SESSION} rule_unknown",
    ("GET", _OF_REQUEST): f"{_ON_SESSION} request_unknown",
    ("POST", f"{_OF_REQUEST}/cancel"): f"{_ON_SESSION} request_unknown request_over",
    ("GET", f"{_OF_SESSION}/files"): f"{_ON_SESSION} file_unknown files_unsupported",
    ("GET", f"{_OF_SESSION}/files/{{path:path}}"): f"{_ON_SESSION} file_unknown files_unsupported too_large",
    ("GET", "/inspect/sessions"): "cursor_invalid store_unavailable",
    ("GET", "/inspect/cost"): "option_error store_unavailable",
    **dict.fromkeys(
        [("GET", f"{_INSPECTED}/{place}") for place in ("trace", "state", "explain")], "option_error"
    ),
    **dict.fromkeys(
        [("GET", f"{_INSPECTED}/{place}") for place in ("trace", "state", "explain")], "option_error"
    ),
    (
        "POST",
        "/ai-ui/{agent_id}",
    ): f"{_MESSAGE} {_DECIDING} approval_expired invalid_response invalid_arguments",
    ("GET", "/console"): _BY_PLACE,
    ("GET", "/console/{path:path}"): f"{_BY_PLACE} file_unknown",
    ("GET", f"{_OF_CHAT}/stream"): "profile_unknown profile_mismatch session_is_child",
    ("POST", f"{_OF_CHAT}/cancel"): "profile_unknown profile_mismatch session_is_child request_over",
}
"""What a route refuses besides what all of its kind do, by the codes of `ERROR_ANSWERS`."""

_MORE_STATUSES: Final[Mapping[RouteKey, Mapping[int, str]]] = {
    ("POST", "/chat"): {409: "cycle_failed"},  # where a budget was spent
}
"""Codes whose status is not that of the table."""

OF_NO_ROUTE: Final = frozenset(
    {
        "route_unknown",
        "method_not_allowed",
        "unknown_tool",
        "cycle_ended",
        "event_missed",
        "plan_error",
        "stop_not_written",
        "cycle_waiting",
    }
)
"""What a call is refused with that meets no route, and what a session raises where no route asks it."""

SOCKET_REFUSALS: Final = (
    f"{_ANY} token_in_url unauthorized forbidden host_refused origin_refused principal_mismatch id_invalid field_invalid"
    " field_unknown too_many_requests not_started draining plugin_failed too_many_streams server_full route_unknown"
)
"""What an upgrade at `/ws` is refused with; without an upgrade there is nothing at this path."""


def route_key_of(route: CallRoute) -> RouteKey:
    """Say by what a route stands in the tables."""
    return route.method, route.path


def refusals_of(route: CallRoute) -> dict[int, tuple[str, ...]]:
    """Say with which statuses a route refuses, and with which codes each; an answer of a plugin has any."""
    key = route_key_of(route)
    told = [_ANY, _REFUSALS.get(key, "")]
    if route.scope is not None:
        told.append(_GUARDED)
        if "{session_id}" in route.path:
            told.append(_ON_SESSION)
        if route.body is not None:
            told.append(_WITH_BODY)
        if route.is_stream:
            told.append(_STREAMED)
    by_status = statuses_of(" ".join(told))
    for status, codes in _MORE_STATUSES.get(key, {}).items():
        by_status[status] = tuple(sorted({*by_status.get(status, ()), *codes.split()}))
    return by_status


def statuses_of(codes: str) -> dict[int, tuple[str, ...]]:
    """Sort codes of `ERROR_ANSWERS` by their statuses; each is given as a caller is told it."""
    found: dict[int, set[str]] = {}
    for code in codes.split():
        row = ERROR_ANSWERS[code]
        found.setdefault(row.status, set()).add(row.code or code)
    return {status: tuple(sorted(found[status])) for status in sorted(found)}
