"""Events of the session itself, of its prompts, and of the cycles they start."""

from typing import Literal, TypeAlias

from agentrail.errors import ErrorInfo
from agentrail.events.envelope import EventBase
from agentrail.events.values import AbortReceipt, RecoveryDecision
from agentrail.messages import ApprovalId, Message, PromptRef, StopReason, TokenUsage, UserBlock


class SessionStart(EventBase, frozen=True, kw_only=True):
    """The actor is up.

    Attributes:
        model: The model string.
        tools: The names of its tools.
        plugins: The names of its plugins.
    """

    model: str
    tools: tuple[str, ...]
    plugins: tuple[str, ...] = ()


class SessionRestarted(EventBase, frozen=True, kw_only=True):
    """The session crashed and its supervisor brought it back.

    Attributes:
        reason: Why it crashed, one line.
        incarnation: 2 for the first restart.
    """

    reason: str
    incarnation: int


class SessionRecovered(EventBase, frozen=True, kw_only=True):
    """The session was rebuilt from its journal.

    Attributes:
        decisions: One for each thing that was open when the process stopped, in the order of the journal.
    """

    decisions: tuple[RecoveryDecision, ...]


class SessionEnd(EventBase, frozen=True, kw_only=True):
    """The last event of a session.

    Attributes:
        reason: How it ended, one line.
    """

    reason: str


class SessionParked(EventBase, frozen=True, kw_only=True):
    """The session crashed too often and is not brought back; `SessionEnd` follows.

    Attributes:
        reason: The last crash, one line.
    """

    reason: str


class PromptReceived(EventBase, frozen=True, kw_only=True):
    """A prompt was accepted and starts at once.

    Attributes:
        ref: Its name in all that follows from it.
        content: What the user said.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]


class PromptQueued(EventBase, frozen=True, kw_only=True):
    """A prompt was accepted and waits.

    Attributes:
        ref: Its name in all that follows from it.
        content: What the user said.
        position: 0 is next.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    position: int


class PromptDropped(EventBase, frozen=True, kw_only=True):
    """A prompt that waited was thrown away: the queue was cleared, or the session ended.

    Attributes:
        ref: Its name.
        content: What the user had said.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]


class PromptRejected(EventBase, frozen=True, kw_only=True):
    """A plugin refused a prompt; its text never enters the history.

    Attributes:
        ref: Its name.
        reason: Why, in the plugin's words.
    """

    ref: PromptRef
    reason: str


class PromptTaken(EventBase, frozen=True, kw_only=True):
    """A plugin took a prompt for a decision about what waits: its text never enters the history, and no cycle of its own begins.

    `ApprovalResolved` follows, and says what was decided.

    Attributes:
        ref: Its name.
        approval_id: What it decides.
        by: The plugin.
    """

    ref: PromptRef
    approval_id: ApprovalId
    by: str


class AgentStart(EventBase, frozen=True, kw_only=True):
    """A cycle begins. Exactly one of `AgentEnd`, `AgentAbort`, `AgentError` ends it.

    Attributes:
        ref: The prompt that it works on.
    """

    ref: PromptRef


EndReason: TypeAlias = StopReason | Literal["max_turns", "not_resumed", "superseded"]


class AgentEnd(EventBase, frozen=True, kw_only=True):
    """The cycle finished.

    Attributes:
        messages: Those of this cycle, the user's first.
        usage: Of this cycle.
        stop_reason: Why the last response stopped; or why the model was not asked again: `max_turns`; a person decided
            and did not want it to go on (`not_resumed`); or a prompt came while a person was waited for (`superseded`).
    """

    messages: tuple[Message, ...]
    usage: TokenUsage
    stop_reason: EndReason


class AgentAbort(EventBase, frozen=True, kw_only=True):
    """The cycle was aborted; published in idle too, where there was none.

    Attributes:
        reason: What `abort` was given.
    """

    reason: str | None


class AbortSettled(EventBase, frozen=True, kw_only=True):
    """The teardown behind an abort is over.

    Attributes:
        receipt: What was stopped, and what would not stop.
    """

    receipt: AbortReceipt


class AgentError(EventBase, frozen=True, kw_only=True):
    """The cycle failed; the history is valid and the session takes the next prompt at once.

    Attributes:
        error: What went wrong.
    """

    error: ErrorInfo


ResumeTrigger: TypeAlias = Literal[
    "tool_approved", "tool_rejected", "tool_approval_timeout", "user_respond", "steering"
]
"""What makes a suspended cycle go on."""


class AgentResumed(EventBase, frozen=True, kw_only=True):
    """A cycle that waited for a person goes on.

    Attributes:
        trigger: What made it.
    """

    trigger: ResumeTrigger


class MaxTurnsReached(EventBase, frozen=True, kw_only=True):
    """The last turn of the cycle begins: tools are withheld and the model is told to answer.

    Attributes:
        turns: How many turns the cycle may have.
    """

    turns: int


class SignalQuarantined(EventBase, frozen=True, kw_only=True):
    """A signal crashed the core; it was put aside and the state is as if it had never come.

    Attributes:
        signal_kind: Its type.
        error: What it raised, text only.
    """

    signal_kind: str
    error: ErrorInfo


class EventsLost(EventBase, frozen=True, kw_only=True):
    """A subscriber asked for events that are kept no longer; a fresh snapshot follows. Only that subscriber gets it.

    Attributes:
        from_seq: The number of the first event that it will not see.
        to_seq: The number of the last one.
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
    | AgentResumed
    | MaxTurnsReached
    | SignalQuarantined
    | EventsLost
)
