"""Events of the session itself, of its prompts, and of the cycles they start."""

from typing import Literal, TypeAlias

from agentrail.errors import ErrorInfo
from agentrail.events.envelope import EventBase
from agentrail.events.values import AbortReceipt, RecoveryDecision, WaitingFor
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
        decisions: One for each thing that was open when the process stopped: effects in the order in which they were asked
            for, then what waits without a time, then prompts and steers that wait.
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

    One that was recovered too often in a row, without a new record in between, is left as it was: no `SessionEnd` follows, and
    what is open is decided when it is resumed.

    Attributes:
        reason: The last crash, or the last cause of a recovery, one line.
    """

    reason: str


class PromptReceived(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt was accepted and starts at once.

    Attributes:
        ref: Its name in all that follows from it.
        content: What the user said.
        via: The door that it came through: `http`, `acp`; None: the process of the session.
        request_id: The request that brought it, as the host calls it; None: no request did.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    via: str | None = None
    request_id: str | None = None


class PromptQueued(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt was accepted and waits.

    Attributes:
        ref: Its name in all that follows from it.
        content: What the user said.
        position: 0 is next.
        via: As of `PromptReceived`.
        request_id: As of `PromptReceived`.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    position: int
    via: str | None = None
    request_id: str | None = None


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


class AgentStart(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A cycle begins. Exactly one of `AgentEnd`, `AgentAbort`, `AgentError` ends it.

    Attributes:
        ref: The prompt that it works on.
        request_id: The request that brought that prompt; None: no request did.
        goes_on: Whether there is no prompt: the model answers the results, or the user's message, that the conversation ends
            with. `ref` is the name of the cycle alone then, and no `PromptReceived` came before.
        via: Of a cycle without a prompt, the door that it was asked for through; of others `PromptReceived` says it.
    """

    ref: PromptRef
    request_id: str | None = None
    goes_on: bool = False
    via: str | None = None


EndReason: TypeAlias = StopReason | Literal["max_turns", "not_resumed", "superseded"]


class AgentEnd(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The cycle finished.

    Attributes:
        messages: Those of this cycle, the user's first, if it had a prompt.
        usage: Of this cycle.
        stop_reason: Why the last response stopped; or why the model was not asked again: `max_turns`; a person decided
            and did not want it to go on (`not_resumed`); or a prompt came while a person was waited for (`superseded`).
        ref: The prompt that it worked on, as `AgentStart` said.
        turns: How often the model was asked, requests that were sent again not counted.
    """

    messages: tuple[Message, ...]
    usage: TokenUsage
    stop_reason: EndReason
    ref: PromptRef | None = None
    turns: int = 0


class AgentAbort(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The cycle was aborted; published in idle too, where there was none.

    Attributes:
        reason: What `abort` was given.
        ref: The prompt that the cycle worked on, as `AgentStart` said; None where there was no cycle.
    """

    reason: str | None
    ref: PromptRef | None = None


class AbortSettled(EventBase, frozen=True, kw_only=True):
    """The teardown behind an abort is over.

    Attributes:
        receipt: What was stopped, and what would not stop.
    """

    receipt: AbortReceipt


class AgentError(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The cycle failed; the history is valid and the session takes the next prompt at once.

    Attributes:
        error: What went wrong.
        ref: The prompt that it worked on, as `AgentStart` said.
    """

    error: ErrorInfo
    ref: PromptRef | None = None


class AgentSuspended(EventBase, frozen=True, kw_only=True):
    """The cycle waits for people and for nothing else; who draws a session can let go of it until `AgentResumed`.

    It follows all that brought the session there, as the last event of its cycle for now. Between a start and an end of a cycle
    these two alternate, and whatever ends the wait is said by `AgentResumed`, also where the cycle ends with it.

    Attributes:
        waiting: What is waited for, oldest first; at least one.
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
"""What ends the wait of a suspended cycle. The cycle goes on behind it; behind the last three it ends."""


class AgentResumed(EventBase, frozen=True, kw_only=True):
    """A suspended cycle waits no more: it goes on, or it ends. Comes behind what was decided, and in front of what follows.

    Attributes:
        trigger: What made it.
    """

    trigger: ResumeTrigger


class AgentChanged(EventBase, frozen=True, kw_only=True):
    """The session was handed over: the next request has the system prompt of another agent, and its model and tools.

    What else changed with that is said behind it, by `ModelSwitched` and `ToolsUpdated`. The conversation stays.

    Attributes:
        from_agent: As which agent it worked so far; None: as what it was started as.
        to_agent: As which one it goes on.
        note: What the model said with it.
    """

    from_agent: str | None = None
    to_agent: str
    note: str | None = None


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
    | AgentSuspended
    | AgentResumed
    | AgentChanged
    | MaxTurnsReached
    | SignalQuarantined
    | EventsLost
)
