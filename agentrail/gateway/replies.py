"""Reply structs of calls. They are encoded unchanged, and the OpenAPI document is generated from them.

Pure values. An `UNSET` field is omitted from the reply. `wire` defines snapshots, messages and receipts.
"""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from agentrail.core.journal.branches import CallBehind
from agentrail.core.session.asked_forms import AlwaysOffer
from agentrail.core.values.toolbox import EffectClass
from agentrail.errors import ErrorInfo
from agentrail.events import EndReason, PermissionOption, WaitingFor
from agentrail.gateway.frames import ContextUse
from agentrail.host.approval_forms import ApprovalPreview
from agentrail.host.payloads import RequestKind
from agentrail.host.requests import RequestStatus
from agentrail.host.workspace_files import WorkspaceEntry
from agentrail.messages import TokenUsage
from agentrail.runtime.restoring import RestoredFiles
from agentrail.wire.rows import RowStep, ToolAtWork, WaitingCounts

_Text: TypeAlias = str | UnsetType
_Number: TypeAlias = int | UnsetType


class CallReply(Struct, frozen=True, kw_only=True):
    """What a call answers with."""


class DecisionTold(CallReply, frozen=True, kw_only=True):
    """How something was decided that waited for a person.

    Attributes:
        how: `approved`, `rejected`, `timeout`, `aborted` or `superseded`.
        by: Who decided: `user`, `rule`, `timeout`, `abort`, `superseded` or `client`.
        at_ms: When, in milliseconds since 1970; None where that was not kept.
        user: The id of the user who decided; None where it is unknown.
    """

    how: str
    by: str | None
    at_ms: int | None
    user: str | None


class ErrorDetail(CallReply, frozen=True, kw_only=True):
    """Why a call was refused, or failed. Behind the first three stands what one code or another tells besides.

    Attributes:
        code: Stable, for programs.
        message: What was expected, what came.
        hint: What to do next; None where the message says it.
        field: Which field of the body, or name of the query.
        index: Of the attachment, from 0.
        status: How an approval or a question was decided; of another error in a socket its status over HTTP.
        by: Who decided it.
        decided: How an approval or a question was decided, by whom and when.
        arguments_hash: Of the arguments that the call has.
        last_seq: The number of the last event that there is.
        agent_id: The profile that the session has.
        root_id: The session that this one works for.
        node: Which node has the session.
        address: Where that one can be called.
        resume_after: The number to go on after.
        names: The tools that there are.
        name: The slash command that there is not.
        near: The one that may have been meant; null for none.
        first: The number of the first record that is kept, or that can be asked for.
        cause: The code of what failed in the cycle.
        text: What the model had said until then.
        reason: Why the cycle was aborted.
        session_id: Which session.
        request_id: Which request; of a fault of ours what the operator finds it by in the log.
        body: What a plugin of the host answered in place of the session; in a socket alone.
        retry_after: The header of this name; in a socket alone.
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
    request_id: _Text = UNSET
    body: dict[str, Any] | UnsetType = UNSET
    retry_after: _Text = UNSET


class ErrorReply(CallReply, frozen=True, kw_only=True):
    """The answer to a call that was refused, or failed.

    Attributes:
        error: Why.
    """

    error: ErrorDetail


class ChatReply(CallReply, frozen=True, kw_only=True):
    """What the cycle of a message came to.

    Attributes:
        session_id: The session that worked on it.
        request_id: Of the request.
        text: The answer.
        usage: Of the cycle; None where no model was asked.
        cost_usd: What that cost; None where a price is not known.
        stop_reason: Why the cycle finished.
        seq: The number of the event that ended it.
        context: How full the model's window is.
    """

    session_id: str
    request_id: str
    text: str
    usage: TokenUsage | None
    cost_usd: float | None
    stop_reason: EndReason | None
    seq: int | None
    context: ContextUse


class ChatWaiting(CallReply, frozen=True, kw_only=True):
    """A message whose cycle goes on: it waits for people, or takes longer than a call may wait.

    Attributes:
        session_id: The session that works on it.
        request_id: Of the request: ask for it later.
        status: `queued`, `running` or `waiting`.
        pending: What it waits for.
        after: The number to read events after, to see all of the cycle.
    """

    session_id: str
    request_id: str
    status: Literal["queued", "running", "waiting"]
    pending: tuple[WaitingFor, ...]
    after: int


class SteerReply(CallReply, frozen=True, kw_only=True):
    """Words that were spoken into the running cycle.

    Attributes:
        ref: The name of the words.
        status: What became of them; `became_prompt` in idle.
        seq: The number of the event that says so.
        request_id: Of the request that they are, where they are one.
    """

    ref: str
    status: str
    seq: int
    request_id: _Text = UNSET


class HealthReply(CallReply, frozen=True, kw_only=True):
    """The process answers.

    Attributes:
        status: `ok`.
    """

    status: Literal["ok"]


class CheckReply(CallReply, frozen=True, kw_only=True):
    """What came of one check.

    Attributes:
        name: Which one.
        status: Whether it passed.
        duration_ms: How long it took.
        error: How it failed; why, the log says.
    """

    name: str
    status: Literal["ready", "not_ready"]
    duration_ms: int
    error: Literal["failed", "timeout"] | UnsetType = UNSET


class ReadyReply(CallReply, frozen=True, kw_only=True):
    """Whether the server can do its work.

    Attributes:
        status: `ready` where each check passed.
        checks: Each of them.
    """

    status: Literal["ready", "not_ready", "not_started"]
    checks: tuple[CheckReply, ...]


class SessionCreated(CallReply, frozen=True, kw_only=True):
    """A session that is there now.

    Attributes:
        session_id: Which one.
        agent_id: Its profile.
    """

    session_id: str
    agent_id: str | None


class SessionItem(CallReply, frozen=True, kw_only=True):
    """A session in a list. What only one knows that is awake is left out of others.

    Attributes:
        session_id: Which one.
        user_id: Whose it is; told to who inspects.
        agent_id: Its profile.
        phase: One of the four, or `asleep`, or `ended`.
        created_at_ms: In milliseconds since 1970.
        waits_for: How many approvals, questions and calls of the client wait for people.
        title: What it is about; empty while it has none.
        metadata: What its caller said of it when it was created; left out where that is nothing.
        model: The model string.
        turn: Of the running cycle, from 1; 0 in idle.
        queued: How many prompts wait.
        messages: How many the conversation has.
        usage: Of the whole session.
        restarts: How often it crashed and came back.
        suspended: Whether its cycle waits for people and for nothing else.
        first_words: What was said to it first, up to 80 characters; None where that is not known.
        tearing_down: Whether what an abort stopped is not gone yet.
        tool: The tool that runs longest; None while none does.
        running: How many calls run.
        waiting: How much waits for people.
        tokens: Read and written by all of it; None of one that is not awake.
        cost_usd: What that cost; None where a price is not known.
        changed_at_ms: When it published something last.
        outcome: How its last cycle ended; None while one runs, before the first, and where that is not known.
        parent: The session that it was forked from; None for none.
        ended: Whether nothing follows.
    """

    session_id: str
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
    """Who calls.

    Attributes:
        tenant: The tenant.
        user: Who of them; None for a token that speaks for the tenant.
        scopes: What they may do.
        expires_at_ms: When the token ends, in milliseconds since 1970; None where it does not, and where that is not known.
    """

    tenant: str
    user: str | None
    scopes: tuple[str, ...]
    expires_at_ms: int | None


class ConsoleProfile(CallReply, frozen=True, kw_only=True):
    """A profile that sessions can be created with.

    Attributes:
        agent_id: What a caller names it by.
        name: For people.
        description: For people; None without one.
        model: What it asks; None where that is decided for each session.
        fault: Why no session of it can begin, such as a key that is not set; None where nothing is known to be wrong.
    """

    agent_id: str
    name: str
    description: str | None
    model: str | None
    fault: str | None


class ConsoleModel(CallReply, frozen=True, kw_only=True):
    """A model that is asked here.

    Attributes:
        model: The model string.
        window: How many tokens it reads; None where that is not known.
        input_price: US dollars for a million tokens read; None where that is not known.
        output_price: US dollars for a million tokens written; None where that is not known.
    """

    model: str
    window: int | None
    input_price: float | None
    output_price: float | None


class ConsoleLimits(CallReply, frozen=True, kw_only=True):
    """What the limits of a socket are, as `welcome` says too, and what may be spent.

    Attributes:
        frame_bytes: Of one frame that a client sends.
        subscriptions: How many it may have.
        commands_per_second: How many frames it may send.
        cost_per_day_usd: What a caller may spend from one midnight of UTC to the next; None for no such limit.
        tenant_cost_per_day_usd: The same of all callers of a tenant together.
    """

    frame_bytes: int
    subscriptions: int
    commands_per_second: int
    cost_per_day_usd: float | None
    tenant_cost_per_day_usd: float | None


class ConsoleInfo(CallReply, frozen=True, kw_only=True):
    """What a console has to know of its server.

    Attributes:
        version: Of the server.
        instance: A text that each process makes anew: another one is a process that was started since.
        protocol: What its sockets speak.
        features: What it has of that which consoles can show.
        principal: Who calls.
        profiles: With what sessions can be created; none where that is decided for each.
        models: What they ask.
        limits: Of a socket.
        journal: Whether sessions are kept, so that there are journals.
        demo: Whether it only shows what it could do, with a model that needs no key.
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
    """A part of a list.

    Attributes:
        sessions: The newest first.
        next_cursor: `cursor` of the page behind; None behind the last.
    """

    sessions: tuple[SessionItem, ...]
    next_cursor: str | None


class ModelReply(CallReply, frozen=True, kw_only=True):
    """Which model is asked from now on.

    Attributes:
        session_id: Of the session.
        model: The model string.
    """

    session_id: str
    model: str


class SessionForked(CallReply, frozen=True, kw_only=True):
    """A session that goes on from another one.

    Attributes:
        session_id: Of the fork.
        parent: The session that it was forked from.
        at: Behind which record.
    """

    session_id: str
    parent: str
    at: int


class SessionRewound(CallReply, frozen=True, kw_only=True):
    """A session that went back.

    Attributes:
        session_id: Which one.
        at: Behind which record it goes on.
        calls: What happened outside since and is not taken back.
        files: What became of the files; left out where they were not asked for.
        dry: Whether this only says what going back would come to; left out where it went back.
    """

    session_id: str
    at: int
    calls: tuple[CallBehind, ...]
    files: RestoredFiles | UnsetType = UNSET
    dry: bool | UnsetType = UNSET


class SessionResumed(CallReply, frozen=True, kw_only=True):
    """A session that is awake.

    Attributes:
        session_id: Of the session.
        phase: Its phase.
    """

    session_id: str
    phase: str


class CompactionAsked(CallReply, frozen=True, kw_only=True):
    """A conversation that is to be summarised.

    Attributes:
        session_id: Of the session.
    """

    session_id: str


class CommandItem(CallReply, frozen=True, kw_only=True):
    """A slash command.

    Attributes:
        name: Without its slash.
        description: What it does.
        arguments: What may stand behind it; empty for nothing.
        source: Whose it is: `built in`, `project`, `user`, or another word of who brought it.
        available: Whether it can be run from here.
        why_not: Why it cannot; null where it can.
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
        commands: Those that are built in first, the others by name.
    """

    commands: tuple[CommandItem, ...]


class CommandDone(CallReply, frozen=True, kw_only=True):
    """What came of a slash command.

    Attributes:
        command: Which.
        lines: What it tells who asked.
        session_id: Where it said something.
        request_id: The request that this became.
    """

    command: str
    lines: tuple[str, ...] = ()
    session_id: str | UnsetType = UNSET
    request_id: str | UnsetType = UNSET


class CallStopped(CallReply, frozen=True, kw_only=True):
    """A call that was stopped.

    Attributes:
        call_id: Which one.
    """

    call_id: str


class StopUnwritten(CallReply, frozen=True, kw_only=True):
    """Work that was stopped while the store takes no records. It is written down when the store is back; there is nothing to send again.

    Attributes:
        detail: For people.
        is_written: Always false: the receipt is not there yet.
    """

    detail: str
    is_written: bool = False


class ApprovalDecided(CallReply, frozen=True, kw_only=True):
    """A call that was decided on.

    Attributes:
        approval_id: Which one.
    """

    approval_id: str


class UserForgotten(CallReply, frozen=True, kw_only=True):
    """What became of all that was kept of a user.

    Attributes:
        memories: How many memories there were.
        notes: Of how many sessions there were working notes.
        sessions: In how many sessions something was erased.
        records: How many records of journals have `erased` in their place.
        snapshots: How many snapshots were dropped.
        blobs: How many large values were dropped.
        is_overwritten: Whether what stood there is overwritten in all files; else a reader stood in the way: call again.
        left: What was not erased, and why.
        not_reached: Where more of the user may be, which this server does not reach.
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
    """All that a person is shown of a call that waits for an approval.

    Attributes:
        approval_id: Which one.
        call_id: The call.
        tool: Its tool.
        arguments: What runs when it is approved.
        arguments_hash: SHA-256 of their canonical JSON, hexadecimal.
        arguments_text: The arguments as JSON text, each number as it is hashed.
        reason: Why a person is asked, in the words of who asks.
        by: The plugin that wants a person to decide; None where that was not kept.
        effect: What the tool promises about being run twice; None of a tool that is not known.
        schema: Of the arguments; None of a tool that is not known.
        always: The rule that an approval with `always` would make; None where that is not taken.
        preview: What the call would do; None where that is not known.
        path: From the root session to the one whose call it is.
        first_words: What was said to the root first, up to 80 characters; None where that is not known.
        requested_at_ms: Since when it waits, in milliseconds since 1970.
        expires_at_ms: When the clock answers it; None: never.
        permission_options: The answers that are taken.
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
    """A question that has its answer.

    Attributes:
        ref: Which one.
    """

    ref: str


class RequestReply(CallReply, frozen=True, kw_only=True):
    """How a request stands. What is not known yet, or does not apply, is left out.

    Attributes:
        request_id: Its name.
        session_id: The session that works on it.
        agent_id: Of the profile.
        kind: How its answer is wanted; None where that is not known any more.
        status: `queued`, `running`, `waiting`, or what became of it.
        seq: The number of the event that it began with.
        end_seq: The number of the event that ended it; None before.
        text: The answer, or what was said of it.
        usage: What its cycle has used so far.
        cost_usd: What that cost.
        stop_reason: Why its cycle finished.
        error: Why it failed.
        reason: Why it was aborted or refused.
        pending: What it waits for.
    """

    request_id: str
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


class CancelReply(CallReply, frozen=True, kw_only=True):
    """A request that is being cancelled.

    Attributes:
        request_id: Which one.
    """

    request_id: str


class ResponseCancelled(CallReply, frozen=True, kw_only=True):
    """The response of a chat that is being stopped.

    Attributes:
        session_id: The chat.
        status: What it is at.
    """

    session_id: str
    status: Literal["cancelling"] = "cancelling"


class FilePage(CallReply, frozen=True, kw_only=True):
    """A part of a directory.

    Attributes:
        entries: Directories first, then files, by name.
        next: `after` of the page behind; None behind the last.
    """

    entries: tuple[WorkspaceEntry, ...]
    next: int | None


def as_given(value: Any) -> Any:
    """Leave a field out that is None."""
    return UNSET if value is None else value
