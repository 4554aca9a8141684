"""Reply structs of calls. An `UNSET` field is omitted from the reply."""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from agentrail.core.journal.turn_index import CallBehind
from agentrail.core.session.approval_details import AlwaysOffer
from agentrail.core.values.import_history import Repair
from agentrail.core.values.toolbox import EffectClass
from agentrail.errors import ErrorInfo
from agentrail.events import EndReason, PermissionOption, WaitingFor
from agentrail.gateway.sse_frames import ContextUse
from agentrail.host.approval_preview import ApprovalPreview
from agentrail.host.hook_payloads import RequestKind
from agentrail.host.requests import RequestStatus
from agentrail.host.workspace_files import WorkspaceEntry
from agentrail.messages import TokenUsage
from agentrail.runtime.file_restore import RestoredFiles
from agentrail.wire.rows import RowStep, ToolAtWork, WaitingCounts

_Text: TypeAlias = str | UnsetType
_Number: TypeAlias = int | UnsetType


class CallReply(Struct, frozen=True, kw_only=True):
    """Reply to a call."""


class SessionReply(CallReply, frozen=True, kw_only=True):
    """Reply about a session."""

    session_id: str


class MessageReply(SessionReply, frozen=True, kw_only=True):
    """Reply to a message, about its request."""

    request_id: str


class RequestCallReply(CallReply, frozen=True, kw_only=True):
    """Reply about a request."""

    request_id: str


class DecisionTold(CallReply, frozen=True, kw_only=True):
    """The decision on an approval or a question.

    Attributes:
        how: `approved`, `rejected`, `timeout`, `aborted` or `superseded`.
        by: Source of the decision: `user`, `rule`, `timeout`, `abort`, `superseded` or `client`.
        at_ms: Time in milliseconds since 1970, or None if not recorded.
        user: Id of the user who decided, or None if unknown.
    """

    how: str
    by: str | None
    at_ms: int | None
    user: str | None


class ErrorDetail(CallReply, frozen=True, kw_only=True):
    """Why a call was refused or failed. The fields after the first three depend on the code.

    Attributes:
        code: Stable error code, for programs.
        message: The expected and the given value.
        hint: What to do next, or None if the message covers it.
        field: Field of the body, or name of the query parameter.
        index: Index of the attachment, from 0.
        status: Decision on an approval or a question. For other errors in a socket, the HTTP status.
        by: Source of the decision.
        decided: The decision on an approval or a question, with its source and time.
        arguments_hash: Hash of the call's current arguments.
        last_seq: Number of the last event.
        agent_id: Session profile.
        root_id: Root session that this session works for.
        node: Node that has the session.
        address: Address of that node.
        resume_after: Event number to continue after.
        names: Names of the existing tools.
        name: Name of the unknown slash command.
        near: Closest existing command, or null if there is none.
        first: Number of the first record that is kept, or that can be read.
        cause: Code of the error in the cycle.
        text: Model output up to that point.
        reason: Reason for aborting the cycle.
        session_id: Session id.
        type: Kind of the error in the OpenAI API.
        param: Place in a request of the OpenAI API.
        request_id: Id of the request. For a server error, operators find it in the log by this id.
        body: Reply of a host plugin in place of the session's. Only in a socket.
        retry_after: Value of the `Retry-After` header. Only in a socket.
    """

    code: str
    message: str
    hint: str | None
    field: _Text = UNSET
    index: _Number = UNSET
    status: str | int | UnsetType = UNSET
    by: str | UnsetType | None = UNSET
    decided: DecisionTold | UnsetType = UNSET
    arguments_hash: _Text = UNSET
    last_seq: _Number = UNSET
    agent_id: str | UnsetType | None = UNSET
    root_id: _Text = UNSET
    node: str | UnsetType | None = UNSET
    address: str | UnsetType | None = UNSET
    resume_after: int | UnsetType | None = UNSET
    names: tuple[str, ...] | UnsetType = UNSET
    name: _Text = UNSET
    near: str | UnsetType | None = UNSET
    first: _Number = UNSET
    cause: _Text = UNSET
    text: _Text = UNSET
    reason: str | UnsetType | None = UNSET
    session_id: _Text = UNSET
    type: _Text = UNSET
    param: str | UnsetType | None = UNSET
    request_id: _Text = UNSET
    body: dict[str, Any] | UnsetType = UNSET
    retry_after: _Text = UNSET


class ErrorReply(CallReply, frozen=True, kw_only=True):
    """Reply to a call that was refused or failed.

    Attributes:
        error: Details of the error.
    """

    error: ErrorDetail


class ChatReply(MessageReply, frozen=True, kw_only=True):
    """The result of a message's cycle.

    Attributes:
        session_id: Session that handled the message.
        request_id: Request id.
        text: The model's answer.
        usage: Usage of the cycle, or None if no model was called.
        cost_usd: Cost of the cycle, or None if a price is unknown.
        stop_reason: Why the cycle finished.
        seq: Number of the event that ended the cycle.
        context: How full the model's context window is.
    """

    text: str
    usage: TokenUsage | None
    cost_usd: float | None
    stop_reason: EndReason | None
    seq: int | None
    context: ContextUse


class ChatWaiting(MessageReply, frozen=True, kw_only=True):
    """A message whose cycle is still open: it waits for users, or takes longer than a call may wait.

    Attributes:
        session_id: Session that handles the message.
        request_id: Id of the request, with which to ask for its result later.
        status: `queued`, `running` or `waiting`.
        pending: Pending approvals, questions and client calls.
        after: Event number after which all events of the cycle follow.
    """

    status: Literal["queued", "running", "waiting"]
    pending: tuple[WaitingFor, ...]
    after: int


class SteerReply(CallReply, frozen=True, kw_only=True):
    """The result of a steering message.

    Attributes:
        ref: Name of the message.
        status: Status of the message, `became_prompt` if the session was idle.
        seq: Number of the event that records it.
        request_id: Id of the request, if the message became one.
    """

    ref: str
    status: str
    seq: int
    request_id: _Text = UNSET


class HealthReply(CallReply, frozen=True, kw_only=True):
    """Reply of a live process.

    Attributes:
        status: `ok`.
    """

    status: Literal["ok"]


class CheckReply(CallReply, frozen=True, kw_only=True):
    """The result of one readiness check.

    Attributes:
        name: Name of the check.
        status: Whether it passed.
        duration_ms: Duration of the check in milliseconds.
        error: Kind of failure. The log has the cause.
        reason: Code of the error, if it has one: `store_unavailable` if no recent heartbeat of this node reached a shared store, `draining`. A `store` that passed
            has `sessions_need_newer` if sessions wait for a node of a newer version.
    """

    name: str
    status: Literal["ready", "not_ready"]
    duration_ms: int
    error: Literal["failed", "timeout"] | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class ReadyReply(CallReply, frozen=True, kw_only=True):
    """Whether the server is ready for requests.

    Attributes:
        status: `ready` if every check passed.
        checks: Results of all checks.
    """

    status: Literal["ready", "not_ready", "not_started"]
    checks: tuple[CheckReply, ...]


class ModelEntry(CallReply, frozen=True, kw_only=True):
    """A profile as a model of the OpenAI API.

    Attributes:
        id: Id of the profile.
        created: Always 0.
    """

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "agentrail"


class ModelList(CallReply, frozen=True, kw_only=True):
    """The profiles as models of the OpenAI API."""

    data: tuple[ModelEntry, ...]
    object: Literal["list"] = "list"


class OpenAiObject(CallReply, frozen=True, kw_only=True):
    """An object of the OpenAI API, whose documentation has its fields."""


class A2aObject(CallReply, frozen=True, kw_only=True):
    """An object of A2A, whose specification has its fields."""


class SessionCreated(SessionReply, frozen=True, kw_only=True):
    """A created session.

    Attributes:
        session_id: Session id.
        agent_id: Session profile.
        repairs: Repairs of the given history. Positions include the messages of the profile, which come first.
    """

    agent_id: str | None
    repairs: tuple[Repair, ...] | UnsetType = UNSET


class SessionItem(SessionReply, frozen=True, kw_only=True):
    """A session in a list. Fields that only an awake session knows are omitted for others.

    Attributes:
        session_id: Session id.
        user_id: User that the session belongs to. Shown only to callers that inspect.
        agent_id: Session profile.
        phase: One of the four phases, or `asleep`, or `ended`.
        created_at_ms: Time of creation in milliseconds since 1970.
        waits_for: Number of pending approvals, questions and client calls.
        title: Title of the session, or empty while it has none.
        metadata: Metadata given when the session was created. Omitted if empty.
        model: Model string.
        turn: Turn of the running cycle, from 1, or 0 when idle.
        queued: Number of queued prompts.
        messages: Number of messages in the conversation.
        usage: Usage of the whole session.
        restarts: Number of restarts after a crash.
        suspended: Whether the cycle waits only for users.
        first_words: First message to the session, up to 80 characters, or None if unknown.
        tearing_down: Whether work stopped by an abort is still shutting down.
        tool: The longest running tool, or None if no tool runs.
        running: Number of running calls.
        waiting: Number of pending approvals and questions.
        tokens: Tokens read and written by the whole session, or None if it is not awake.
        cost_usd: Cost of those tokens, or None if a price is unknown.
        changed_at_ms: Time of the last published event.
        outcome: Outcome of the last cycle, or None while a cycle runs, before the first one, or if unknown.
        parent: Session that this one was forked from, or None if it is not a fork.
        ended: Whether the session has ended.
    """

    user_id: _Text = UNSET
    agent_id: str
    phase: str
    created_at_ms: int
    waits_for: int
    title: str
    metadata: dict[str, Any] | UnsetType = UNSET
    model: _Text = UNSET
    turn: _Number = UNSET
    queued: _Number = UNSET
    messages: _Number = UNSET
    usage: TokenUsage | UnsetType = UNSET
    restarts: _Number = UNSET
    suspended: bool | UnsetType = UNSET
    first_words: str | UnsetType | None = UNSET
    tearing_down: bool | UnsetType = UNSET
    tool: ToolAtWork | UnsetType | None = UNSET
    running: _Number = UNSET
    waiting: WaitingCounts | UnsetType = UNSET
    tokens: int | UnsetType | None = UNSET
    cost_usd: float | UnsetType | None = UNSET
    changed_at_ms: _Number = UNSET
    outcome: str | UnsetType | None = UNSET
    parent: str | UnsetType | None = UNSET
    ended: bool | UnsetType = UNSET


class ConsolePrincipal(CallReply, frozen=True, kw_only=True):
    """The caller.

    Attributes:
        tenant: Tenant of the caller.
        user: User of the caller, or None for a token that acts for the whole tenant.
        scopes: Scopes granted to the caller.
        expires_at_ms: Expiry of the token in milliseconds since 1970, or None if it never expires or its expiry is unknown.
    """

    tenant: str
    user: str | None
    scopes: tuple[str, ...]
    expires_at_ms: int | None


class ConsoleProfile(CallReply, frozen=True, kw_only=True):
    """A profile for new sessions.

    Attributes:
        agent_id: Id of the profile in requests.
        name: Display name.
        description: Description for users, or None without one.
        model: Model of the profile, or None if it is decided for each session.
        fault: Why its sessions cannot start, such as a missing key, or None if no fault is known.
    """

    agent_id: str
    name: str
    description: str | None
    model: str | None
    fault: str | None


class ConsoleModel(CallReply, frozen=True, kw_only=True):
    """A model in use on this server.

    Attributes:
        model: Model string.
        window: Context window in tokens, or None if unknown.
        input_price: US dollars per million input tokens, or None if unknown.
        output_price: US dollars per million output tokens, or None if unknown.
    """

    model: str
    window: int | None
    input_price: float | None
    output_price: float | None


class ConsoleLimits(CallReply, frozen=True, kw_only=True):
    """Limits of a socket, as in `welcome`, and spending limits.

    Attributes:
        frame_bytes: Maximum size of one client frame, in bytes.
        subscriptions: Maximum number of subscriptions.
        commands_per_second: Maximum number of client frames per second.
        cost_per_day_usd: Spending limit of a caller per UTC day, or None without a limit.
        tenant_cost_per_day_usd: Spending limit of all callers of a tenant together per UTC day, or None without a limit.
    """

    frame_bytes: int
    subscriptions: int
    commands_per_second: int
    cost_per_day_usd: float | None
    tenant_cost_per_day_usd: float | None


class ConsoleInfo(CallReply, frozen=True, kw_only=True):
    """Facts about the server for its console.

    Attributes:
        version: Version of the server.
        instance: Random text of the server process. It changes when the server restarts.
        protocol: Subprotocol of its sockets.
        features: Features of the server that a console can display.
        principal: The caller.
        profiles: Profiles for new sessions, empty if the profile is decided for each session.
        models: Models of these profiles.
        limits: Limits of a socket, and spending limits.
        journal: Whether sessions are stored, so that journals exist.
        demo: Whether this is a demo with a model that needs no key.
    """

    version: str
    instance: str
    protocol: str
    features: tuple[str, ...]
    principal: ConsolePrincipal
    profiles: tuple[ConsoleProfile, ...]
    models: tuple[ConsoleModel, ...]
    limits: ConsoleLimits
    journal: bool
    demo: bool


class SessionPage(CallReply, frozen=True, kw_only=True):
    """A page of the session list.

    Attributes:
        sessions: Sessions, the newest first.
        next_cursor: `cursor` of the next page, or None on the last page.
    """

    sessions: tuple[SessionItem, ...]
    next_cursor: str | None


class ModelReply(SessionReply, frozen=True, kw_only=True):
    """The model for the next requests.

    Attributes:
        session_id: Session id.
        model: Model string.
    """

    model: str


class SessionForked(SessionReply, frozen=True, kw_only=True):
    """A fork of a session.

    Attributes:
        session_id: Fork id.
        parent: Session that it was forked from.
        at: Number of the record after which it was forked.
    """

    parent: str
    at: int


class SessionRewound(SessionReply, frozen=True, kw_only=True):
    """A rewound session.

    Attributes:
        session_id: Session id.
        at: Number of the record after which the session continues.
        calls: Calls since then whose external effects are not undone.
        files: Result of restoring the files. Omitted if not requested.
        dry: Whether this is only a preview. Omitted if the session was rewound.
    """

    at: int
    calls: tuple[CallBehind, ...]
    files: RestoredFiles | UnsetType = UNSET
    dry: bool | UnsetType = UNSET


class SessionResumed(SessionReply, frozen=True, kw_only=True):
    """A resumed session.

    Attributes:
        session_id: Session id.
        phase: Phase of the session.
    """

    phase: str


class CompactionAsked(SessionReply, frozen=True, kw_only=True):
    """An accepted request to summarise the conversation.

    Attributes:
        session_id: Session id.
    """


class CommandItem(CallReply, frozen=True, kw_only=True):
    """A slash command.

    Attributes:
        name: Name without its slash.
        description: Short description.
        arguments: Arguments that it accepts, or empty for none.
        source: Source of the command: `built in`, `project`, `user`, or another word for it.
        available: Whether the caller can run it here.
        why_not: Why it cannot be run, or null if it can.
    """

    name: str
    description: str
    arguments: str
    source: str
    available: bool
    why_not: str | None


class CommandList(CallReply, frozen=True, kw_only=True):
    """The slash commands.

    Attributes:
        commands: Built-in commands first, then the others by name.
    """

    commands: tuple[CommandItem, ...]


class CommandDone(CallReply, frozen=True, kw_only=True):
    """The result of a slash command.

    Attributes:
        command: Name of the command.
        lines: Output lines for the caller.
        session_id: Session that received a message from it.
        request_id: Request that it became.
    """

    command: str
    lines: tuple[str, ...] = ()
    session_id: str | UnsetType = UNSET
    request_id: str | UnsetType = UNSET


class CallStopped(CallReply, frozen=True, kw_only=True):
    """A stopped call.

    Attributes:
        call_id: Call id.
    """

    call_id: str


class StopUnwritten(CallReply, frozen=True, kw_only=True):
    """Work was stopped while the store is unavailable. It is recorded once the store is back. Do not send the request again.

    Attributes:
        detail: Explanation for users.
        is_written: Always false, because the receipt is not recorded yet.
    """

    detail: str
    is_written: bool = False


class ApprovalDecided(CallReply, frozen=True, kw_only=True):
    """A decided approval.

    Attributes:
        approval_id: Approval id.
    """

    approval_id: str


class UserForgotten(CallReply, frozen=True, kw_only=True):
    """The result of erasing a user's data.

    Attributes:
        memories: Number of erased memories.
        notes: Number of sessions whose working notes were erased.
        sessions: Number of sessions with erased data.
        records: Number of journal records replaced by `erased`.
        snapshots: Number of deleted snapshots.
        blobs: Number of deleted large values.
        is_overwritten: Whether the erased data is overwritten in all files. If false, a reader prevented it: call again. Always false with a database.
        left: Data that was not erased, with the reasons.
        not_reached: Places outside this server that may hold more data of the user.
    """

    memories: int
    notes: int
    sessions: int
    records: int
    snapshots: int
    blobs: int
    is_overwritten: bool
    left: tuple[str, ...] = ()
    not_reached: tuple[str, ...] = ()


class ShownApproval(CallReply, frozen=True, kw_only=True):
    """All facts about a call that waits for an approval.

    Attributes:
        approval_id: Approval id.
        call_id: Call id.
        tool: Tool of the call.
        arguments: Arguments with which it runs once approved.
        arguments_hash: SHA-256 of their canonical JSON, hexadecimal.
        arguments_text: Arguments as JSON text, with each number in the form that is hashed.
        reason: Why an approval is needed, in the words of the plugin or tool that requires it.
        by: Plugin that requires the decision, or None if not recorded.
        effect: Effect class of the tool: whether its call may run again. None if the tool is unknown.
        schema: Schema of the arguments, or None if the tool is unknown.
        always: Rule that an approval with `always` would create, or None if `always` is not accepted.
        preview: Expected effect of the call, or None if unknown.
        path: Sessions from the root to the one that makes the call.
        first_words: First message to the root session, up to 80 characters, or None if unknown.
        requested_at_ms: Start of the wait, in milliseconds since 1970.
        expires_at_ms: Time at which it times out, or None if it never does.
        permission_options: Accepted answers.
    """

    approval_id: str
    call_id: str
    tool: str
    arguments: dict[str, Any]
    arguments_hash: str
    arguments_text: str
    reason: str | None
    by: str | None
    effect: EffectClass | None
    schema: dict[str, Any] | None
    always: AlwaysOffer | None
    preview: ApprovalPreview | None
    path: tuple[RowStep, ...]
    first_words: str | None
    requested_at_ms: int
    expires_at_ms: int | None
    permission_options: tuple[PermissionOption, ...]


class QuestionAnswered(CallReply, frozen=True, kw_only=True):
    """An answered question.

    Attributes:
        ref: Question id.
    """

    ref: str


class RequestReply(RequestCallReply, frozen=True, kw_only=True):
    """Status of a request. Fields that are unknown or do not apply are omitted.

    Attributes:
        request_id: Request id.
        session_id: Session that handles the request.
        agent_id: Session profile.
        kind: Requested form of the answer, or None if no longer known.
        status: `queued`, `running`, `waiting`, or its outcome.
        seq: Number of its first event.
        end_seq: Number of the event that ended it, or None before.
        text: Answer of an ended request, or the part produced before it failed.
        usage: Usage of its cycle so far.
        cost_usd: Cost of that usage.
        stop_reason: Why its cycle finished.
        error: Why it failed.
        reason: Why it was aborted or refused.
        pending: Pending approvals, questions and client calls.
    """

    session_id: str
    agent_id: str
    kind: RequestKind | None
    status: RequestStatus
    seq: int
    end_seq: int | None
    text: _Text = UNSET
    usage: TokenUsage | UnsetType = UNSET
    cost_usd: float | UnsetType = UNSET
    stop_reason: EndReason | UnsetType = UNSET
    error: ErrorInfo | UnsetType = UNSET
    reason: _Text = UNSET
    pending: tuple[WaitingFor, ...] | UnsetType = UNSET


class CancelReply(RequestCallReply, frozen=True, kw_only=True):
    """A request that is being cancelled.

    Attributes:
        request_id: Request id.
    """


class ResponseCancelled(SessionReply, frozen=True, kw_only=True):
    """A chat response that is being stopped.

    Attributes:
        session_id: The chat.
        status: Always `cancelling`.
    """

    status: Literal["cancelling"] = "cancelling"


class FilePage(CallReply, frozen=True, kw_only=True):
    """A page of a directory.

    Attributes:
        entries: Directories first, then files, by name.
        next: `after` of the next page, or None on the last page.
    """

    entries: tuple[WorkspaceEntry, ...]
    next: int | None


def as_given(value: Any) -> Any:
    return UNSET if value is None else value
