"""Routes of sessions, requests, files and inspection, and all socket commands. They only parse query parameters."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from attrs import evolve, field, frozen
from msgspec.structs import replace

from agentrail.core.session.views import Status
from agentrail.events import AbortReceipt
from agentrail.gateway.authorization import checked, name_user
from agentrail.gateway.calls import command_calls, cost_report, decision_calls, inspection, session_calls
from agentrail.gateway.calls.decision_calls import MAX_WAIT_SECONDS, AskedSession, answer_client_call
from agentrail.gateway.calls.session_calls import AskedSessions, record_of_place, record_to_fork
from agentrail.gateway.chat_routes import answer_prompt
from agentrail.gateway.inspection_replies import CostReply, HostPluginList, InspectedMessages, TreePage
from agentrail.gateway.path_endpoint import (
    CallRoute,
    Result,
    RouteCall,
    RouteHandler,
    SessionMoved,
    aim_nowhere,
)
from agentrail.gateway.request_bodies import (
    AbortBody,
    ApproveBody,
    CancelBody,
    CommandBody,
    CreateSessionBody,
    ForkBody,
    ModelBody,
    RestartSourceBody,
    ResumeBody,
    RewindBody,
)
from agentrail.gateway.request_parser import (
    check_id,
    named_by_client,
    refuse_field,
    whole_number,
    yes_or_no,
)
from agentrail.gateway.response_bodies import (
    ApprovalDecided,
    CallStopped,
    CancelReply,
    CommandDone,
    CommandList,
    CompactionAsked,
    FilePage,
    ModelReply,
    QuestionAnswered,
    RequestReply,
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
from agentrail.gateway.route_errors import BRANCHING, CREATING, DECIDING, MESSAGE, ON_SESSION
from agentrail.gateway.socket_bodies import (
    AbortCommandBody,
    ForkCommandBody,
    PromptCommandBody,
    RewindCommandBody,
)
from agentrail.gateway.whole_answer import WholeAnswer, answer_json
from agentrail.host.hook_payloads import HandledResponse
from agentrail.host.session_order import USUAL_SORT
from agentrail.runtime.session_handle import Session
from agentrail.wire import operations
from agentrail.wire.form_fields import (
    AcceptedForm,
    MessagePage,
    RuleList,
    SnapshotForm,
    encode_past_state,
    encode_receipt,
    encode_receipt_found,
    list_rules,
)
from agentrail.wire.operations import (
    AnswerBody,
    BreakpointBody,
    CompactBody,
    DeclineBody,
    GoOnBody,
    Operation,
    ReceiptBody,
    RejectBody,
    RespondBody,
    StateAtBody,
    StopBody,
)
from agentrail.wire.rows import RowFilter
from agentrail.wire.server_frames import MAX_CURSOR

MAX_SESSIONS_OF_A_PAGE: Final = 200
MAX_MESSAGES_OF_A_PAGE: Final = 1_000
MAX_FILES_OF_A_PAGE: Final = 1_000

MAX_RECORDS_OF_A_COMMAND: Final = 1_000
"""Journal records returned by one command."""

MAX_TURNS_OF_A_COMMAND: Final = 1_000
"""Turns returned by one command: the latest ones."""

_NO_CONTENT: Final = 204

# --- arguments of calls

ArgumentReader: TypeAlias = Callable[[RouteCall], Any]
"""Reads one argument of a call from its route."""


def runs(
    do: Callable[..., Awaitable[WholeAnswer | HandledResponse | None]],
    *given: ArgumentReader,
    **named: ArgumentReader,
) -> RouteHandler:
    """Return the handler of a route that runs one call with these arguments. A call without an answer runs again on another node."""

    async def handle(call: RouteCall) -> Result:
        values = [read(call) for read in given]
        options = {name: read(call) for name, read in named.items()}
        answer = await do(call.host, call.principal, *values, **options)
        if answer is None:
            raise SessionMoved
        return answer

    return handle


def _session(call: RouteCall) -> str:
    return call.params["session_id"]


def _body(call: RouteCall) -> Any:
    return call.body


def in_path(name: str) -> ArgumentReader:
    return lambda call: call.params[name]


def _in_query(name: str, default: str | None = None) -> ArgumentReader:
    return lambda call: call.query.get(name, default)


def _flag(name: str) -> ArgumentReader:
    return lambda call: yes_or_no(name, call.query.get(name))


def number_in_query(
    name: str, default: int | None = None, *, least: int = 0, most: int = MAX_CURSOR
) -> ArgumentReader:
    """Return a reader of a whole number. Without the parameter, it returns the default."""

    def read(call: RouteCall) -> int | None:
        given = call.query.get(name)
        return default if given is None else whole_number(name, given, 0, least=least, most=most)

    return read


def _limit_to(most: int, default: int | None = None) -> ArgumentReader:
    return number_in_query("limit", most if default is None else default, least=1, most=most)


_after: Final = number_in_query("after", 0)
_wait: Final = number_in_query("wait", 0, most=MAX_WAIT_SECONDS)


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
        limit=_limit_to(MAX_SESSIONS_OF_A_PAGE, 50)(call),
        cursor=given.get("cursor"),
        sort=given.get("sort", USUAL_SORT),
    )


# --- calls that take their arguments as they are

_list_own: Final = runs(session_calls.list_own_sessions, _asked_sessions)
_show: Final = runs(session_calls.read_snapshot, _session)
_delete: Final = runs(session_calls.delete_session, _session, purge=_flag("purge"))
_messages: Final = runs(
    session_calls.read_messages, _session, after=_after, limit=_limit_to(MAX_MESSAGES_OF_A_PAGE, 100)
)
_model: Final = runs(session_calls.switch_session_model, _session, _body)
_rewind: Final = runs(session_calls.rewind_session, _session, _body)
_resume: Final = runs(session_calls.resume_session, _session, _body)
_abort: Final = runs(decision_calls.abort_session, _session, _body, wait=_flag("wait"))
_approve: Final = runs(decision_calls.accept_approval, _session, _body)
_approval: Final = runs(decision_calls.read_shown_approval, _session, in_path("approval"))
_respond: Final = runs(decision_calls.respond_to_question, _session, _body)
_request: Final = runs(decision_calls.read_request, _session, in_path("request_id"), wait=_wait)
_cancel: Final = runs(decision_calls.cancel_request, _session, in_path("request_id"), _body)
_files: Final = runs(
    session_calls.list_workspace,
    _session,
    _in_query("path", ""),
    after=_after,
    limit=_limit_to(MAX_FILES_OF_A_PAGE),
)
_file: Final = runs(session_calls.read_workspace_file, _session, in_path("path"))
_all_sessions: Final = runs(inspection.inspect_sessions, _asked_sessions)
_tree: Final = runs(
    inspection.inspect_tree,
    after=number_in_query("after"),
    limit=_limit_to(inspection.MAX_SESSIONS_OF_A_TREE, 200),
)
_cost: Final = runs(
    cost_report.inspect_cost,
    by=_in_query("by", "day"),
    since=_in_query("since"),
    until=_in_query("until"),
    tz=_in_query("tz", "UTC"),
)
_plugins: Final = runs(inspection.inspect_plugins)
_all_messages: Final = runs(
    inspection.inspect_messages, _session, after=_after, limit=_limit_to(MAX_MESSAGES_OF_A_PAGE, 100)
)


# --- sessions


async def _create(call: RouteCall) -> WholeAnswer:
    made = await session_calls.create_session(call.host, call.principal, call.body)
    return _located(made, call.head.path)


async def _fork(call: RouteCall) -> WholeAnswer:
    made = await session_calls.fork_session(call.host, call.principal, _session(call), call.body)
    above = call.head.path.removesuffix(f"/{_session(call)}/fork")
    return _located(made, above)


def _located(made: WholeAnswer, above: str) -> WholeAnswer:
    """Add the address of a new session to the answer that has its id."""
    location = quote(f"{above}/{made.headers['x-session-id']}")
    return evolve(made, headers={**made.headers, "location": location})


async def _forget_user(call: RouteCall) -> WholeAnswer:
    named = checked(name_user(call.principal, user_id=call.params["user_id"]))
    return await session_calls.forget_user(call.host, named)


# --- direct calls of a session

OfferedReply: TypeAlias = Callable[[RouteCall, Any], object]
"""Converts the result of a call to the response value, or to its JSON as bytes."""


def passes(
    operation: Operation[Any],
    *,
    asks: AskedSession = "any",
    reply: OfferedReply | None = None,
    status: int = 200,
    **named: ArgumentReader,
) -> RouteHandler:
    """Return the handler of a route that calls an operation. Its arguments come from the path and the body, unless a reader is named."""

    async def handle(call: RouteCall) -> WholeAnswer:
        given = {
            one: getattr(call.body, one, None) if one not in call.params else call.params[one]
            for one in operation.takes.__struct_fields__
        }
        given |= {one: read(call) for one, read in named.items()}
        result = await decision_calls.call_session(
            operation, call.host, call.principal, _session(call), given, asks=asks, via=call.via
        )
        if status == _NO_CONTENT:
            return WholeAnswer(status=status)
        return answer_json(None if reply is None else reply(call, result), status)

    return handle


def _result(_: RouteCall, result: Any) -> object:
    return result


# --- commands with more options than their routes


async def _asked_session(call: RouteCall, *, only_root: bool = False) -> Session:
    return await call.host.session(call.params["session_id"], call.principal, only_root=only_root)


async def _prompt(call: RouteCall) -> Result:
    body: PromptCommandBody = call.body
    if body.content is not None and (body.message or body.attachments or body.when_busy == "steer"):
        refuse_field("content", "replaces the whole message: omit message, attachments and 'steer'")
    return await answer_prompt(call)


async def _answer(call: RouteCall) -> WholeAnswer:
    await answer_client_call(await _asked_session(call), call.body)
    return answer_json(None)


async def _fork_exactly(call: RouteCall) -> WholeAnswer:
    body: ForkCommandBody = call.body
    session_id = call.params["session_id"]
    place = await record_to_fork(call.host, call.principal, session_id, at=body.at, event=body.event)
    fork, at = await call.host.fork_session(
        session_id, call.principal, at=place, turn=body.turn, wanted=body.fork_id
    )
    return answer_json({"session_id": fork.session_id, "at": at})


async def _rewind_exactly(call: RouteCall) -> WholeAnswer:
    body: RewindCommandBody = call.body
    session = await _asked_session(call, only_root=True)
    place = await record_of_place(session, "to", body.to, body.event)
    rewound = await session.rewind(place, turn=body.turn, files=body.files, force=body.force, dry=body.dry)
    return answer_json(rewound)


# --- the tables

_ONE: Final = "/sessions/{session_id}"
_REQUEST: Final = f"{_ONE}/requests/{{request_id}}"
_INSPECT: Final = "/inspect/sessions"
_PAGE: Final = ("after", "limit")
_LIST: Final = ("limit", "cursor", "phase", "q", "agent_id", "waiting", "outcome", "ended", "sort")

# fmt: off
SESSION_ROUTES: Final = (
    CallRoute("POST", "/sessions", _create, does="creates a session", body=CreateSessionBody, success=201, replies={201: SessionCreated}, refusals=CREATING),
    CallRoute("GET", "/sessions", _list_own, does="lists sessions, newest first", query=_LIST, replies={200: SessionPage}, refusals="cursor_invalid store_unavailable"),
    CallRoute("GET", _ONE, _show, does="shows the status and the last messages of a session", replies={200: SnapshotForm}),
    CallRoute("DELETE", _ONE, _delete, does="ends a session", query=("purge",), success=204, replies={}, refusals="still_needed"),
    CallRoute("DELETE", "/users/{user_id}/memory", _forget_user, does="erases the sessions and memories of a user", needs_user=False, replies={200: UserForgotten}, refusals="store_unavailable reply_timeout supervisor_closed"),
    CallRoute("GET", f"{_ONE}/messages", _messages, does="shows a conversation", query=_PAGE, replies={200: MessagePage}),
    CallRoute("POST", f"{_ONE}/model", _model, does="switches the model from the next request on", body=ModelBody, replies={200: ModelReply}, refusals="model_not_found option_error"),
    CallRoute("POST", f"{_ONE}/fork", _fork, does="forks a session", body=ForkBody, success=201, replies={201: SessionForked}, refusals=f"{BRANCHING} already_exists quota still_needed"),
    CallRoute("POST", f"{_ONE}/rewind", _rewind, does="rewinds a session to an earlier point", body=RewindBody, replies={200: SessionRewound}, refusals=BRANCHING),
    CallRoute("POST", f"{_ONE}/resume", _resume, does="wakes a session, including one whose code has changed", body=ResumeBody, replies={200: SessionResumed}),
    CallRoute("POST", f"{_ONE}/compact", passes(operations.COMPACT, asks="root", reply=lambda call, _: CompactionAsked(session_id=_session(call)), status=202), does="replaces the start of the conversation with a summary", body=CompactBody, success=202, replies={202: CompactionAsked}, refusals=BRANCHING),
    CallRoute("POST", f"{_ONE}/abort", _abort, does="aborts the running cycle or one call", operation="abort", body=AbortBody, query=("wait",), success=202, replies={202: (AbortReceipt, CallStopped, StopUnwritten), 200: (AbortReceipt, CallStopped)}, refusals="unknown_call option_error"),
    CallRoute("POST", f"{_ONE}/approve", _approve, does="approves a pending call", also="decide", body=ApproveBody, replies={200: ApprovalDecided}, refusals=f"{DECIDING} approval_mismatch approval_expired invalid_arguments answer_not_offered"),
    CallRoute("POST", f"{_ONE}/reject", passes(operations.REJECT, asks="to_decide", reply=lambda call, _: ApprovalDecided(approval_id=call.body.approval_id)), does="rejects a pending call", also="decide", operation="reject", body=RejectBody, replies={200: ApprovalDecided}, refusals=f"{DECIDING} approval_expired answer_not_offered"),
    CallRoute("POST", f"{_ONE}/respond", _respond, does="answers a question", also="decide", operation="respond", body=RespondBody, replies={200: QuestionAnswered}, refusals=f"{DECIDING} invalid_response answer_not_offered question_declined prompt_error request_refused", asks_plugins=True),
    CallRoute("GET", f"{_ONE}/approvals/{{approval:path}}", _approval, does="shows a pending approval with its call", also="decide", replies={200: ShownApproval}, refusals="approval_unknown"),
    CallRoute("GET", f"{_ONE}/rules", passes(operations.RULES, reply=lambda _, found: list_rules(found)), does="lists the rules for calls that are always allowed", replies={200: RuleList}),
    CallRoute("DELETE", f"{_ONE}/rules/{{rule_id}}", passes(operations.REVOKE_RULE, status=204), does="revokes a rule", operation="reject", success=204, replies={}, refusals="rule_unknown"),
    CallRoute("POST", f"{_ONE}/breakpoints", passes(operations.BREAK_ON, asks="to_decide", status=204), does="stops calls of a tool before they run", also="decide", body=BreakpointBody, success=204, replies={}, refusals="option_error"),
    CallRoute("DELETE", f"{_ONE}/breakpoints/{{tool}}", passes(operations.UNBREAK, asks="to_decide", status=204), does="ends a breakpoint, or all of them with `*`", also="decide", operation="reject", success=204, replies={}, refusals="rule_unknown"),
    CallRoute("GET", _REQUEST, _request, does="shows the status and the answer of a request", query=("wait",), replies={200: RequestReply}, refusals="request_unknown"),
    CallRoute("POST", f"{_REQUEST}/cancel", _cancel, does="cancels a request", operation="cancel", body=CancelBody, success=202, replies={202: CancelReply}, refusals="request_unknown request_over"),
    CallRoute("GET", f"{_ONE}/files", _files, does="lists a directory of the workspace", query=("path", *_PAGE), replies={200: FilePage}, refusals="file_unknown files_unsupported"),
    CallRoute("GET", f"{_ONE}/files/{{path:path}}", _file, does="downloads a file of the workspace", replies={}, refusals="file_unknown files_unsupported too_large"),
    CallRoute("GET", _INSPECT, _all_sessions, does="lists the sessions of the tenant", query=_LIST, scope="inspect", replies={200: SessionPage}, refusals="cursor_invalid store_unavailable"),
    CallRoute(
        "GET",
        "/inspect/tree",
        _tree,
        does="shows the supervision tree of the tenant, page by page",
        query=("after", "limit"),
        scope="inspect", replies={200: TreePage}),
    CallRoute("POST", "/inspect/sources/restart", runs(inspection.restart_source, _body), does="restarts an MCP server, also one that was given up", body=RestartSourceBody, scope="decide", success=204, replies={}, refusals="option_error"),
    CallRoute("GET", "/inspect/plugins", _plugins, does="shows the plugins of the host and of the sessions, by name", scope="inspect", replies={200: HostPluginList}),
    CallRoute("GET", "/inspect/cost", _cost, does="sums the usage of the tenant's sessions", query=("by", "since", "until", "tz"), scope="inspect", replies={200: CostReply}, refusals="option_error store_unavailable"),
    CallRoute("GET", f"{_INSPECT}/{{session_id}}/messages", _all_messages, does="shows a conversation of the tenant", query=_PAGE, scope="inspect", aim=aim_nowhere, replies={200: InspectedMessages}),
)
# fmt: on


@frozen
class Offer:
    """A command that sockets offer: a call of a session, or a route with more work."""

    call: Operation[Any] | str
    route: CallRoute | tuple[str, str]
    is_ordered: bool = field(default=True, kw_only=True)
    is_read: bool = field(kw_only=True)
    is_named: bool = field(default=False, kw_only=True)

    @is_read.default
    def _is_read_by_row(self) -> bool:
        return isinstance(self.call, Operation) and self.call.is_read

    @property
    def name(self) -> str:
        return self.call if isinstance(self.call, str) else self.call.name


def _only(does: str, handler: Any, body: Any = None, **given: Any) -> CallRoute:
    return CallRoute("POST", _ONE, handler, does=does, body=body, **given)


# fmt: off
OFFERS: Final = (
    Offer("steer", ("POST", f"{_ONE}/steer")),
    Offer(operations.APPROVE, ("POST", f"{_ONE}/approve"), is_ordered=False),
    Offer(operations.REJECT, ("POST", f"{_ONE}/reject"), is_ordered=False),
    Offer(operations.RESPOND, ("POST", f"{_ONE}/respond"), is_ordered=False),
    Offer(operations.RULES, ("GET", f"{_ONE}/rules"), is_ordered=False),
    Offer(operations.REVOKE_RULE, ("DELETE", f"{_ONE}/rules/{{rule_id}}"), is_ordered=False),
    Offer(operations.BREAK_ON, ("POST", f"{_ONE}/breakpoints"), is_ordered=False),
    Offer(operations.UNBREAK, ("DELETE", f"{_ONE}/breakpoints/{{tool}}"), is_ordered=False),
    Offer(operations.COMPACT, ("POST", f"{_ONE}/compact")),
    Offer(operations.SWITCH_MODEL, ("POST", f"{_ONE}/model")),
    Offer("messages", ("GET", f"{_ONE}/messages"), is_ordered=False, is_read=True),
    Offer(operations.SNAPSHOT, ("GET", _ONE), is_ordered=False),
    Offer("request", ("GET", _REQUEST), is_ordered=False, is_read=True),
    Offer("cancel", ("POST", f"{_REQUEST}/cancel"), is_ordered=False),
    Offer("create", ("POST", "/sessions")),
    Offer("sessions", ("GET", "/sessions"), is_ordered=False, is_read=True),
    Offer("commands", ("GET", "/commands"), is_ordered=False, is_read=True),
    Offer("restart_source", ("POST", "/inspect/sources/restart")),
    Offer("run_command", ("POST", "/commands/{name}"), is_named=True),
    Offer("prompt", _only("sends a message", _prompt, PromptCommandBody, operation="prompt", replies={200: (AcceptedForm, SteerReply)}, asks_plugins=True)),
    # It costs as much as a message.
    Offer(operations.GO_ON, _only("runs a cycle without a new message", passes(operations.GO_ON, asks="root", reply=_result), GoOnBody, operation="prompt")),
    Offer(operations.RECEIPT_OF, _only("returns the receipt of an earlier message by its client_id", passes(operations.RECEIPT_OF, reply=lambda _, found: encode_receipt_found(found)), ReceiptBody), is_ordered=False),
    Offer(operations.ABORT, _only("aborts the running cycle or one call", passes(operations.ABORT, reply=lambda _, receipt: encode_receipt(receipt), wait=_flag("wait")), AbortCommandBody, operation="abort", query=("wait",), replies={200: AbortReceipt}), is_ordered=False),
    Offer(operations.ABORT_TOOL, _only("stops one call", passes(operations.ABORT_TOOL), AbortBody, operation="abort", replies={200: ()}), is_ordered=False),
    Offer(operations.DECLINE, _only("declines a question", passes(operations.DECLINE, asks="to_decide"), DeclineBody, operation="reject", also="decide", replies={200: ()}), is_ordered=False),
    Offer("answer", _only("returns the result of a client call", _answer, AnswerBody, replies={200: ()}), is_ordered=False),
    Offer(operations.STATUS, _only("shows the status of a session", passes(operations.STATUS, reply=_result), replies={200: Status}), is_ordered=False),
    Offer("fork", _only("forks a session", _fork_exactly, ForkCommandBody)),
    Offer(operations.REWIND, _only("rewinds a session to an earlier point", _rewind_exactly, RewindCommandBody)),
    Offer(operations.TURNS, _only("lists the finished turns", passes(operations.TURNS, asks="to_read", reply=_result, limit=_limit_to(MAX_TURNS_OF_A_COMMAND)), query=("limit",)), is_ordered=False),
    Offer(operations.STOP, _only("ends a session", passes(operations.STOP, asks="root"), StopBody, replies={200: ()}), is_ordered=False),
    Offer(operations.JOURNAL, _only("shows a journal", passes(operations.JOURNAL, asks="to_read", reply=_result, after=_after, limit=_limit_to(MAX_RECORDS_OF_A_COMMAND)), query=("after", "limit"), scope="inspect"), is_ordered=False),
    Offer(operations.STATE_AT, _only("shows the state of a session after a record", passes(operations.STATE_AT, asks="to_read", reply=lambda _, past: encode_past_state(past.number, past.at_ms, past.snapshot, past.messages)), StateAtBody, scope="inspect"), is_ordered=False),
)
"""Commands of sockets. The interface page lists their names in this order."""
# fmt: on


# Slash commands.


async def _list_commands(call: RouteCall) -> WholeAnswer:
    session_id = call.query.get("session_id")
    if session_id is not None:
        check_id("session_id", session_id, of_session=True)
    return await command_calls.list_commands(call.host, call.principal, session_id)


async def _run_command(call: RouteCall) -> Result:
    client_id = named_by_client(call.body.client_id, call.client_id)
    body = replace(call.body, client_id=client_id)
    name = call.params["name"]
    return await command_calls.run_slash_command(call.host, call.principal, name, body, via=call.via)


COMMAND_ROUTES: Final = (
    CallRoute(
        "GET",
        "/commands",
        _list_commands,
        does="lists the slash commands, with the reason where one is unavailable",
        query=("session_id",),
        replies={200: CommandList},
        refusals=ON_SESSION,
    ),
    CallRoute(
        "POST",
        "/commands/{name}",
        _run_command,
        does="runs a slash command",
        body=CommandBody,
        replies={200: CommandDone, 202: CommandDone},
        refusals=f"{MESSAGE} {BRANCHING} already_exists still_needed unknown_call",
        asks_plugins=True,
    ),
)
