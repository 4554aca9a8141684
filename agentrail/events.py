"""What a session publishes: one frozen class per kind, one closed union. Data only: no live object, no presentation.

*Committed* events have a number of their own, dense and rising per session. *Ephemeral* ones (`EPHEMERAL`) carry the
number of the committed event before them; they are never replayed, and whatever they said is in the committed event
that follows. `Envelope` says everything about an event but the event itself; subscribers find it in `event.meta`.
"""

import re
from typing import Final, Literal, TypeAlias, get_args

from attrs import field, frozen
from msgspec import Struct

from agentrail.errors import ErrorInfo
from agentrail.messages import (
    AssistantMessage,
    CallId,
    JsonObject,
    Message,
    PromptRef,
    SessionId,
    StopReason,
    TokenUsage,
    ToolResult,
    UserBlock,
)


class Envelope(Struct, frozen=True, gc=False):
    """Where an event stands. A Struct, because every event gets one and an attrs class would cost more than the event.

    Attributes:
        session_id: Whose event it is.
        seq: Its number; of an ephemeral event the number of the last committed one before it.
        at_ms: When the signal behind it arrived, in milliseconds since 1970.
        path: The chain of sessions from the root, this one included.
        ephemeral: Whether it is never replayed.
    """

    session_id: SessionId
    seq: int
    at_ms: int
    path: tuple[SessionId, ...]
    ephemeral: bool = False


@frozen(kw_only=True)
class EventBase:
    """What all events share.

    Attributes:
        meta: Set on everything that a session published; None on an event that somebody made by hand.
    """

    meta: Envelope | None = field(default=None, eq=False, repr=False)


# --- the session and its cycles


@frozen(kw_only=True)
class SessionStart(EventBase):
    """The actor is up.

    Attributes:
        model: The model string.
        tools: The names of its tools.
        plugins: The names of its plugins.
    """

    model: str
    tools: tuple[str, ...]
    plugins: tuple[str, ...] = ()


@frozen(kw_only=True)
class SessionRestarted(EventBase):
    """The session crashed and its supervisor brought it back.

    Attributes:
        reason: Why it crashed, one line.
        incarnation: 2 for the first restart.
    """

    reason: str
    incarnation: int


@frozen(kw_only=True)
class SessionParked(EventBase):
    """The session crashed too often and is not brought back; `SessionEnd` follows.

    Attributes:
        reason: The last crash, one line.
    """

    reason: str


@frozen(kw_only=True)
class SessionEnd(EventBase):
    """The last event of a session.

    Attributes:
        reason: How it ended, one line.
    """

    reason: str


@frozen(kw_only=True)
class PromptReceived(EventBase):
    """A prompt was accepted and starts at once.

    Attributes:
        ref: Its name in all that follows from it.
        content: What the user said.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]


@frozen(kw_only=True)
class PromptQueued(EventBase):
    """A prompt was accepted and waits.

    Attributes:
        ref: Its name in all that follows from it.
        content: What the user said.
        position: 0 is next.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    position: int


@frozen(kw_only=True)
class PromptDropped(EventBase):
    """A prompt that waited was thrown away: the queue was cleared, or the session ended.

    Attributes:
        ref: Its name.
        content: What the user had said.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]


@frozen(kw_only=True)
class AgentStart(EventBase):
    """A cycle begins. Exactly one of `AgentEnd`, `AgentAbort`, `AgentError` ends it.

    Attributes:
        ref: The prompt that it works on.
    """

    ref: PromptRef


@frozen(kw_only=True)
class AgentEnd(EventBase):
    """The cycle finished.

    Attributes:
        messages: Those of this cycle, the user's first.
        usage: Of this cycle.
        stop_reason: Why the last response stopped, or `max_turns`.
    """

    messages: tuple[Message, ...]
    usage: TokenUsage
    stop_reason: StopReason | Literal["max_turns"]


@frozen(kw_only=True)
class AgentAbort(EventBase):
    """The cycle was aborted; published in idle too, where there was none.

    Attributes:
        reason: What `abort` was given.
    """

    reason: str | None


@frozen(kw_only=True)
class AbortReceipt:
    """What an abort found and what became of it.

    Attributes:
        settled: False when the caller did not want to wait: the rest then says nothing yet.
        tasks_ended: How many streams and tool calls were stopped and are gone.
        stuck: Tools that had not ended when the time for teardown was over.
        survivors: Calls that run on by policy.
        milliseconds: From the abort to the end of the teardown.
    """

    settled: bool = True
    tasks_ended: int = 0
    stuck: tuple[str, ...] = ()
    survivors: tuple[CallId, ...] = ()
    milliseconds: int = 0


@frozen(kw_only=True)
class AbortSettled(EventBase):
    """The teardown behind an abort is over.

    Attributes:
        receipt: What was stopped, and what would not stop.
    """

    receipt: AbortReceipt


@frozen(kw_only=True)
class AgentError(EventBase):
    """The cycle failed; the history is valid and the session takes the next prompt at once.

    Attributes:
        error: What went wrong.
    """

    error: ErrorInfo


@frozen(kw_only=True)
class MaxTurnsReached(EventBase):
    """The last turn of the cycle begins: tools are withheld and the model is told to answer.

    Attributes:
        turns: How many turns the cycle may have.
    """

    turns: int


@frozen(kw_only=True)
class SignalQuarantined(EventBase):
    """A signal crashed the core; it was put aside and the state is as if it had never come.

    Attributes:
        signal_kind: Its type.
        error: What it raised, text only.
    """

    signal_kind: str
    error: ErrorInfo


# --- the response


@frozen(kw_only=True)
class RequestStart(EventBase):
    """A request goes to the model.

    Attributes:
        model: The model string.
        messages: How many messages it sees.
        context_messages: How many of them the host added for this request only.
        context_digest: SHA-256 of those, hexadecimal; empty when there are none.
        attempt: 1 for the first attempt at this turn.
    """

    model: str
    messages: int
    context_messages: int = 0
    context_digest: str = ""
    attempt: int = 1


@frozen(kw_only=True)
class MessageStart(EventBase):
    """The first chunk of a response is here.

    Attributes:
        attempt: Which attempt at this turn.
    """

    attempt: int = 1


@frozen(kw_only=True)
class MessageDelta(EventBase):
    """More visible text. Ephemeral.

    Attributes:
        delta: The text; deltas that waited together come as one.
        attempt: Which attempt at this turn.
    """

    delta: str
    attempt: int = 1


@frozen(kw_only=True)
class ThinkingStart(EventBase):
    """The model begins to think aloud.

    Attributes:
        attempt: Which attempt at this turn.
    """

    attempt: int = 1


@frozen(kw_only=True)
class ThinkingDelta(EventBase):
    """More thinking. Ephemeral.

    Attributes:
        delta: The text; deltas that waited together come as one.
        attempt: Which attempt at this turn.
    """

    delta: str
    attempt: int = 1


@frozen(kw_only=True)
class ResponseComplete(EventBase):
    """The response is complete and in the history.

    Attributes:
        message: As it stands in the history.
        usage: Of this response.
        stop_reason: Why the model stopped.
        attempt: Which attempt at this turn.
    """

    message: AssistantMessage
    usage: TokenUsage
    stop_reason: StopReason
    attempt: int = 1


@frozen(kw_only=True)
class StreamError(EventBase):
    """A response broke off.

    Attributes:
        error: What went wrong.
        attempt: Which attempt at this turn.
        discarded: Whether the deltas of this attempt must be dropped.
    """

    error: ErrorInfo
    attempt: int = 1
    discarded: bool = True


# --- tools


@frozen(kw_only=True)
class ToolCalls(EventBase):
    """The response asks for tools.

    Attributes:
        count: How many calls the batch has.
    """

    count: int


@frozen(kw_only=True)
class ToolExecutionStart(EventBase):
    """The verdict on a call is known: it runs now, or it is refused. One `ToolExecutionEnd` follows.

    Attributes:
        name: The tool.
        call_id: The call.
        arguments: As they are when the verdict is known; empty for a call whose arguments are no JSON object.
    """

    name: str
    call_id: CallId
    arguments: JsonObject


@frozen(kw_only=True)
class ToolProgress(EventBase):
    """A tool says how far it is. Ephemeral.

    Attributes:
        name: The tool.
        call_id: The call.
        text: What it says.
    """

    name: str
    call_id: CallId
    text: str


@frozen(kw_only=True)
class ToolExecutionEnd(EventBase):
    """A call has its result.

    Attributes:
        name: The tool.
        call_id: The call.
        result: What the model will read, and `details` for people.
    """

    name: str
    call_id: CallId
    result: ToolResult


@frozen(kw_only=True)
class ToolExecutionMetrics(EventBase):
    """How long a call took; only for calls that were executed.

    Attributes:
        name: The tool.
        call_id: The call.
        started_at_ms: When it began, in milliseconds since 1970.
        ended_at_ms: When it was done.
        duration_ms: Between the two.
        attempts: How often it was tried.
    """

    name: str
    call_id: CallId
    started_at_ms: int
    ended_at_ms: int
    duration_ms: int
    attempts: int = 1


@frozen(kw_only=True)
class ToolKilled(EventBase):
    """A running call was stopped; it has its result already.

    Attributes:
        name: The tool.
        call_id: The call.
        reason: Why.
    """

    name: str
    call_id: CallId
    reason: str


@frozen(kw_only=True)
class ToolCallUnknown(EventBase):
    """The model asked for a tool that does not exist.

    Attributes:
        name: What it wrote.
        call_id: The call.
    """

    name: str
    call_id: CallId


Event: TypeAlias = (
    SessionStart
    | SessionRestarted
    | SessionParked
    | SessionEnd
    | PromptReceived
    | PromptQueued
    | PromptDropped
    | AgentStart
    | AgentEnd
    | AgentAbort
    | AbortSettled
    | AgentError
    | MaxTurnsReached
    | SignalQuarantined
    | RequestStart
    | MessageStart
    | MessageDelta
    | ThinkingStart
    | ThinkingDelta
    | ResponseComplete
    | StreamError
    | ToolCalls
    | ToolExecutionStart
    | ToolProgress
    | ToolExecutionEnd
    | ToolExecutionMetrics
    | ToolKilled
    | ToolCallUnknown
)

EPHEMERAL: Final[frozenset[type[Event]]] = frozenset({MessageDelta, ThinkingDelta, ToolProgress})
TERMINAL: Final[frozenset[type[Event]]] = frozenset({AgentEnd, AgentAbort, AgentError})

KINDS: Final[dict[type[Event], str]] = {
    event: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", event.__name__).lower() for event in get_args(Event)
}
"""The name of each kind on the wire: the class name in snake_case."""
