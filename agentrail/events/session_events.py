"""Events of the session itself, of its prompts and of its cycles."""

from typing import Literal, TypeAlias

from agentrail.errors import ErrorInfo
from agentrail.events.envelope import EventBase
from agentrail.events.values import AbortReceipt, RecoveryDecision, WaitingFor
from agentrail.messages import ApprovalId, Message, PromptRef, StopReason, TokenUsage, UserBlock


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
        decisions: One decision for each item that was open when the process stopped. Effects come first, in the order of
            their requests, then waits without a deadline, then queued prompts and steers.
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

    A session that was recovered too often in a row, with no new record in between, is left unchanged instead. No `SessionEnd`
    follows, and open items are decided when it is resumed.

    Attributes:
        reason: The last crash, or the last cause of a recovery, in one line.
    """

    reason: str


class PromptReceived(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt was accepted and starts at once.

    Attributes:
        ref: Id of the prompt in later events.
        content: The user's message.
        via: Interface that the prompt arrived through: `http`, `acp`. None: the session's own process.
        request_id: The host's id of the request that brought it. None: no request did.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    via: str | None = None
    request_id: str | None = None


class PromptQueued(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt was accepted and queued.

    Attributes:
        ref: Id of the prompt in later events.
        content: The user's message.
        position: Position in the queue, where 0 is next.
        via: Same as in `PromptReceived`.
        request_id: Same as in `PromptReceived`.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    position: int
    via: str | None = None
    request_id: str | None = None


class PromptDropped(EventBase, frozen=True, kw_only=True):
    """A queued prompt was discarded: the queue was cleared, or the session ended.

    Attributes:
        ref: Id of the prompt.
        content: The user's message.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]


class PromptRejected(EventBase, frozen=True, kw_only=True):
    """A plugin refused a prompt. Its text never enters the history.

    Attributes:
        ref: Id of the prompt.
        reason: The plugin's reason.
    """

    ref: PromptRef
    reason: str


class PromptTaken(EventBase, frozen=True, kw_only=True):
    """A plugin interpreted a prompt as a decision about a pending approval. Its text never enters the history, and it starts no cycle.

    `ApprovalResolved` follows with the decision.

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
        request_id: The request that brought the prompt. None: no request did.
        goes_on: Whether the cycle has no prompt: the model answers the results, or the user message, at the end of the
            conversation. In that case `ref` is only the cycle's id, and no `PromptReceived` precedes it.
        via: Interface that requested a cycle without a prompt. For other cycles, see `PromptReceived`.
    """

    ref: PromptRef
    request_id: str | None = None
    goes_on: bool = False
    via: str | None = None


EndReason: TypeAlias = StopReason | Literal["max_turns", "not_resumed", "superseded"]


class AgentEnd(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The cycle finished.

    Attributes:
        messages: Messages of this cycle, starting with the user's if it had a prompt.
        usage: Token usage of this cycle.
        stop_reason: Stop reason of the last response, or the reason that the model was not called again: `max_turns`,
            `not_resumed` (a user decided against continuing), `superseded` (a prompt arrived while the cycle waited for a
            user).
        ref: The prompt of the cycle, same as in `AgentStart`.
        turns: Number of model turns, not counting retries.
    """

    messages: tuple[Message, ...]
    usage: TokenUsage
    stop_reason: EndReason
    ref: PromptRef | None = None
    turns: int = 0


class AgentAbort(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The cycle was aborted. Also published for an abort of an idle session.

    Attributes:
        reason: The reason passed to `abort`.
        ref: The prompt of the cycle, same as in `AgentStart`, or None if no cycle was running.
    """

    reason: str | None
    ref: PromptRef | None = None


class AbortSettled(EventBase, frozen=True, kw_only=True):
    """The teardown after an abort is over.

    Attributes:
        receipt: Work that was stopped, and work that could not be stopped.
    """

    receipt: AbortReceipt


class AgentError(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The cycle failed. The history is valid, and the session accepts the next prompt at once.

    Attributes:
        error: The failure.
        ref: The prompt of the cycle, same as in `AgentStart`.
    """

    error: ErrorInfo
    ref: PromptRef | None = None


class AgentSuspended(EventBase, frozen=True, kw_only=True):
    """The cycle waits for users and nothing else. A user interface can release the session until `AgentResumed`.

    It comes after all events that led to the wait, as the last event of the cycle for the time being. Within a cycle it
    alternates with `AgentResumed`, which reports the end of every wait, even if the cycle ends with it.

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
    """The wait of a suspended cycle is over: it continues or ends. Published after the decision and before its consequences.

    Attributes:
        trigger: Cause of the resumption.
    """

    trigger: ResumeTrigger


class AgentChanged(EventBase, frozen=True, kw_only=True):
    """The session was handed over to another agent. The next request uses that agent's system prompt, model and tools.

    `ModelSwitched` and `ToolsUpdated` follow for the changes of model and tools. The conversation is kept.

    Attributes:
        from_agent: Name of the previous agent. None: the one the session started as.
        to_agent: Name of the new agent.
        note: The model's handover note.
    """

    from_agent: str | None = None
    to_agent: str
    note: str | None = None


class MaxTurnsReached(EventBase, frozen=True, kw_only=True):
    """The last turn of the cycle starts. Tools are withheld, and the model is asked for an answer.

    Attributes:
        turns: Maximum number of turns in a cycle.
    """

    turns: int


class SignalQuarantined(EventBase, frozen=True, kw_only=True):
    """A signal crashed the core. It was set aside, and the state is unchanged.

    Attributes:
        signal_kind: Type of the signal.
        error: The error, as text.
    """

    signal_kind: str
    error: ErrorInfo


class EventsLost(EventBase, frozen=True, kw_only=True):
    """A subscriber requested events that are no longer kept. A new snapshot follows. Only that subscriber receives this event.

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
