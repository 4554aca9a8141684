"""Events of the session, its prompts and its cycles."""

from typing import Literal, TypeAlias

from agentrail.errors import ErrorInfo
from agentrail.events.envelope import EventBase
from agentrail.events.values import AbortReceipt, RecoveryDecision, WaitingFor
from agentrail.messages import ApprovalId, Message, PromptRef, StopReason, TokenUsage, TraceContext, UserBlock


class SessionStart(EventBase, frozen=True, kw_only=True):
    """The session's actor has started.

    Attributes:
        model: The model string.
        tools: Names of the session's tools.
        plugins: Names of the session's plugins.
    """

    model: str
    tools: tuple[str, ...]
    plugins: tuple[str, ...] = ()


class SessionRestarted(EventBase, frozen=True, kw_only=True):
    """The session crashed and its supervisor restarted it.

    Attributes:
        reason: Cause of the crash, in one line.
        incarnation: 2 for the first restart.
    """

    reason: str
    incarnation: int


class SessionRecovered(EventBase, frozen=True, kw_only=True):
    """The session was rebuilt from its journal.

    Attributes:
        decisions: One decision per item that was open when the process stopped. Effects come first, then waits without a deadline, then queued prompts and
            steers.
    """

    decisions: tuple[RecoveryDecision, ...]


class SessionEnd(EventBase, frozen=True, kw_only=True):
    """The last event of a session.

    Attributes:
        reason: How it ended, in one line.
    """

    reason: str


class SessionParked(EventBase, frozen=True, kw_only=True):
    """The session crashed too often and is not restarted. `SessionEnd` follows.

    A session recovered too often without a new record stays unchanged instead. Then no `SessionEnd` follows, and resuming decides the open items.

    Attributes:
        reason: The last crash or cause of a recovery, in one line.
    """

    reason: str


class PromptReceived(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt was accepted and starts at once.

    Attributes:
        ref: Id of the prompt in later events.
        content: The user's message.
        via: Interface that the prompt came through: `http`, `acp`. None: the session's own process.
        request_id: The host's id of the request, or None without one.
        trace: The trace of its sender, or None without a valid one.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    via: str | None = None
    request_id: str | None = None
    trace: TraceContext | None = None


class PromptQueued(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt was accepted and queued.

    Attributes:
        ref: Id of the prompt in later events.
        content: The user's message.
        position: Position in the queue, where 0 is next.
        via: Same as in `PromptReceived`.
        request_id: Same as in `PromptReceived`.
        trace: Same as in `PromptReceived`.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    position: int
    via: str | None = None
    request_id: str | None = None
    trace: TraceContext | None = None


class PromptDropped(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A queued prompt was discarded by a clearing or the session's end.

    Attributes:
        ref: Id of the prompt.
        content: The user's message.
        reason: Reason of the abort or of the session's end. None: none was given.
        at_end: Whether the session's end discarded it.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    reason: str | None = None
    at_end: bool = False


class PromptRejected(EventBase, frozen=True, kw_only=True):
    """A plugin refused a prompt. It never enters the history.

    Attributes:
        ref: Id of the prompt.
        reason: The plugin's reason.
    """

    ref: PromptRef
    reason: str


class PromptTaken(EventBase, frozen=True, kw_only=True):
    """A plugin read a prompt as a decision about a pending approval. It never enters the history, and starts no cycle.

    `ApprovalResolved` follows.

    Attributes:
        ref: Id of the prompt.
        approval_id: Id of the decided approval.
        by: Name of the plugin.
    """

    ref: PromptRef
    approval_id: ApprovalId
    by: str


class AgentStart(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A cycle starts. Exactly one of `AgentEnd`, `AgentAbort`, `AgentError` ends it.

    Attributes:
        ref: The prompt of the cycle.
        request_id: The request that brought the prompt, or None.
        goes_on: Whether the cycle has no prompt: the model answers the end of the conversation. Then `ref` is the cycle's id, without a `PromptReceived`.
        via: Interface that requested a cycle without a prompt. Otherwise see `PromptReceived`.
    """

    ref: PromptRef
    request_id: str | None = None
    goes_on: bool = False
    via: str | None = None


EndReason: TypeAlias = StopReason | Literal["max_turns", "not_resumed", "superseded"]


class AgentEnd(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The cycle finished.

    Attributes:
        messages: Messages of this cycle, starting with the user's, if any.
        usage: Token usage of this cycle.
        stop_reason: Stop reason of the last response, or why the model was not called again: `max_turns`, `not_resumed` (a user decided against continuing),
            `superseded` (a prompt arrived while the cycle waited).
        ref: Same as in `AgentStart`.
        turns: Number of model turns, without retries.
    """

    messages: tuple[Message, ...]
    usage: TokenUsage
    stop_reason: EndReason
    ref: PromptRef | None = None
    turns: int = 0


class AgentAbort(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The cycle was aborted. Also published for an idle session.

    Attributes:
        reason: The reason passed to `abort`.
        ref: Same as in `AgentStart`, or None without a cycle.
    """

    reason: str | None
    ref: PromptRef | None = None


class AbortSettled(EventBase, frozen=True, kw_only=True):
    """The teardown after an abort is over.

    Attributes:
        receipt: Work that was stopped, or could not be.
    """

    receipt: AbortReceipt


class AgentError(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The cycle failed. The session accepts the next prompt at once.

    Attributes:
        error: The failure.
        ref: Same as in `AgentStart`.
    """

    error: ErrorInfo
    ref: PromptRef | None = None


class AgentSuspended(EventBase, frozen=True, kw_only=True):
    """The cycle waits for users and nothing else. A user interface can release the session until `AgentResumed`.

    For now the cycle's last event. It alternates with `AgentResumed`, which ends every wait.

    Attributes:
        waiting: Pending approvals, questions and client calls, oldest first, at least one.
    """

    waiting: tuple[WaitingFor, ...]


ResumeTrigger: TypeAlias = Literal[
    "tool_approved",
    "tool_rejected",
    "tool_approval_timeout",
    "user_respond",
    "user_decline",
    "client_answer",
    "steering",
    "superseded",
    "abort",
    "stop",
]
"""Cause that ended the wait of a suspended cycle. The cycle continues afterwards, except after the last three, which end it."""


class AgentResumed(EventBase, frozen=True, kw_only=True):
    """A suspended cycle continues or ends. Published after the decision and before its consequences.

    Attributes:
        trigger: Cause of the resumption.
    """

    trigger: ResumeTrigger


class AgentChanged(EventBase, frozen=True, kw_only=True):
    """The session was handed over to another agent. The next request uses its system prompt, model and tools.

    `ModelSwitched` and `ToolsUpdated` follow. The conversation stays.

    Attributes:
        from_agent: Name of the previous agent, or None for the initial one.
        to_agent: Name of the new agent.
        note: The model's handover note.
    """

    from_agent: str | None = None
    to_agent: str
    note: str | None = None


class MaxTurnsReached(EventBase, frozen=True, kw_only=True):
    """The last turn of the cycle starts. Tools are withheld so that the model answers.

    Attributes:
        turns: Maximum turns in a cycle.
    """

    turns: int


class SignalQuarantined(EventBase, frozen=True, kw_only=True):
    """A signal crashed the core. The state is unchanged.

    Attributes:
        signal_kind: Type of the signal.
        error: The error, as text.
    """

    signal_kind: str
    error: ErrorInfo


class EventsLost(EventBase, frozen=True, kw_only=True):
    """A subscriber requested events that are gone, and alone receives this. A new snapshot follows.

    Attributes:
        from_seq: Number of the first lost event.
        to_seq: Number of the last lost event.
    """

    from_seq: int
    to_seq: int


SessionEvent: TypeAlias = (
    SessionStart
    | SessionRestarted
    | SessionRecovered
    | SessionEnd
    | SessionParked
    | PromptReceived
    | PromptQueued
    | PromptDropped
    | PromptRejected
    | PromptTaken
    | AgentStart
    | AgentEnd
    | AgentAbort
    | AbortSettled
    | AgentError
    | AgentSuspended
    | AgentResumed
    | AgentChanged
    | MaxTurnsReached
    | SignalQuarantined
    | EventsLost
)
