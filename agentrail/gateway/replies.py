"""What calls answer with, as structs: they are written as they are, and the page of the interface is made of these very classes.

Pure values. A field that stands as `UNSET` is left out of the answer. How a snapshot, messages and receipts look, `wire` says.
"""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from agentrail.core.journal.branches import CallBehind
from agentrail.errors import ErrorInfo
from agentrail.events import EndReason, WaitingFor
from agentrail.gateway.frames import ContextUse
from agentrail.host.payloads import RequestKind
from agentrail.host.request_end import RequestStatus
from agentrail.host.workspace_files import WorkspaceEntry
from agentrail.messages import Message, TokenUsage
from agentrail.runtime.past import JournalEntry

_Text: TypeAlias = str | UnsetType
_Number: TypeAlias = int | UnsetType


class CallReply(Struct, frozen=True, kw_only=True):
    """What a call answers with."""


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
        last_seq: The number of the last event that there is.
        agent_id: The profile that the session has.
        root_id: The session that this one works for.
        node: Which node has the session.
        address: Where that one can be called.
        resume_after: The number to go on after.
        names: The tools that there are.
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
    last_seq: _Number = UNSET
    agent_id: str | UnsetType | None = UNSET
    root_id: _Text = UNSET
    node: str | UnsetType | None = UNSET
    address: str | UnsetType | None = UNSET
    resume_after: int | UnsetType | None = UNSET
    names: tuple[str, ...] | UnsetType = UNSET
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
    """

    session_id: str
    at: int
    calls: tuple[CallBehind, ...]


class CompactionAsked(CallReply, frozen=True, kw_only=True):
    """A conversation that is to be summarised.

    Attributes:
        session_id: Of the session.
    """

    session_id: str


class CallStopped(CallReply, frozen=True, kw_only=True):
    """A call that was stopped.

    Attributes:
        call_id: Which one.
    """

    call_id: str


class ApprovalDecided(CallReply, frozen=True, kw_only=True):
    """A call that was decided on.

    Attributes:
        approval_id: Which one.
    """

    approval_id: str


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


class TreeItem(CallReply, frozen=True, kw_only=True):
    """A node of the supervision tree.

    Attributes:
        id: Of a session its id.
        kind: `worker` or `supervisor`.
        status: Such as `running`.
        strategy: Of a supervisor what it does about a child that ends; None of a worker.
        phase: Of a session what it does.
        incarnation: How many instances of it came up.
        restarts: How often it was started again since it recovered.
        uptime_seconds: Since its last instance came up; None while none is.
        mailbox: How many messages wait for it; None of what has no mailbox.
        children: In start order.
    """

    id: str
    kind: str
    status: str
    strategy: str | None
    phase: str | None
    incarnation: int
    restarts: int
    uptime_seconds: float | None
    mailbox: int | None
    children: tuple["TreeItem", ...]


class HostPluginItem(CallReply, frozen=True, kw_only=True):
    """A plugin of the host.

    Attributes:
        name: Which one.
        version: Of its code.
        priority: Higher runs first.
        critical: Whether a failing interceptor refuses the request.
        fail_closed: Whether a failing hook in front of a tool denies the call.
        hooks: Those that it has.
        failures: How often one of them failed.
        stuck_hook: One that does not come back; None without.
    """

    name: str
    version: str
    priority: int
    critical: bool
    fail_closed: bool
    hooks: tuple[str, ...]
    failures: int
    stuck_hook: str | None


class HostPluginList(CallReply, frozen=True, kw_only=True):
    """The plugins of the host.

    Attributes:
        plugins: In their order.
    """

    plugins: tuple[HostPluginItem, ...]


class TracePage(CallReply, frozen=True, kw_only=True):
    """A part of a journal.

    Attributes:
        entries: Its records, with what each step decided.
        next: `after` of the page behind; None behind the last.
    """

    entries: tuple[JournalEntry, ...]
    next: int | None


class InspectedMessages(CallReply, frozen=True, kw_only=True):
    """A part of a conversation, for who looks after it.

    Attributes:
        messages: In order.
        next: `after` of the page behind; None behind the last.
        usage: Of the whole session; that of each response stands in its journal.
    """

    messages: tuple[Message, ...]
    next: int | None
    usage: TokenUsage


def as_given(value: Any) -> Any:
    """Leave a field out that is None."""
    return UNSET if value is None else value
