"""All that can arrive in a session's mailbox: calls from outside, and outcomes of effects. One closed union.

Signals are past tense or nouns, frozen, and carry their time and their ids; the shell mints both. There is no other
way in: what no signal says, the core does not know.

They are msgspec Structs and not attrs classes because one is made for every chunk of every stream, and a frozen
Struct costs a tenth. `gc=False`, here and in the other Structs of the core: frozen values that point downwards only can
form no cycle, and ten thousand sessions of them are what the cyclic collector would walk through again and again.
"""

from typing import Literal, NewType, TypeAlias

import msgspec

from agentrail.core.request import Chunk, EffectId
from agentrail.errors import ErrorInfo
from agentrail.events import AbortReceipt
from agentrail.messages import AssistantMessage, JsonValue, PromptRef, StopReason, TokenUsage, UserBlock

SignalId = NewType("SignalId", str)
KillTools: TypeAlias = Literal["killable", "all", "none"]


class Stamped(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What every signal carries.

    Attributes:
        at_ms: When it arrived, in milliseconds since 1970.
    """

    at_ms: int


class Asked(Stamped, frozen=True, kw_only=True, gc=False):
    """A call from outside, whose caller waits for exactly one `Reply`.

    Attributes:
        signal_id: What the reply is addressed to.
    """

    signal_id: SignalId


class Outcome(Stamped, frozen=True, kw_only=True, gc=False):
    """What became of an effect. One whose id is no longer open is dropped and counted.

    Attributes:
        effect_id: The effect.
    """

    effect_id: EffectId


# --- calls from outside


class Prompt(Asked, frozen=True, kw_only=True, gc=False):
    """The user says something.

    Attributes:
        ref: Its name in all that follows from it.
        content: What was said; at least one block, within the limits (the shell checked).
        reply: Whether the caller wants the receipt, or waits for the text of this prompt's own cycle.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    reply: Literal["receipt", "text"] = "receipt"


class Abort(Asked, frozen=True, kw_only=True, gc=False):
    """Stop the cycle, now.

    Attributes:
        reason: For people.
        kill_tools: Which running tools are stopped.
        clear_queue: Whether the prompts that wait are thrown away.
        wait: Whether the reply comes when the teardown is over, or at once.
    """

    reason: str | None = None
    kill_tools: KillTools = "killable"
    clear_queue: bool = False
    wait: bool = True


class Stop(Asked, frozen=True, kw_only=True, gc=False):
    """End the session: abort what runs, then go.

    Attributes:
        reason: For people.
    """

    reason: str = "stopped"


class ReplyQuery(Asked, frozen=True, kw_only=True, gc=False):
    """Somebody wants the text of the running cycle, or of the last one."""


class StatusQuery(Asked, frozen=True, kw_only=True, gc=False):
    """Somebody wants to know how the session stands."""


class MessagesQuery(Asked, frozen=True, kw_only=True, gc=False):
    """Somebody wants the conversation."""


class Steer(Asked, frozen=True, kw_only=True, gc=False):
    """The user speaks into a running cycle. Refused until steering is there."""

    text: str


class Approve(Asked, frozen=True, kw_only=True, gc=False):
    """A person lets a call run. Refused until calls can wait for people."""

    approval_id: str


class Reject(Asked, frozen=True, kw_only=True, gc=False):
    """A person refuses a call. Refused until calls can wait for people."""

    approval_id: str
    reason: str | None = None


class Respond(Asked, frozen=True, kw_only=True, gc=False):
    """A person answers a question. Refused until tools can ask."""

    ref: str
    response: str


class Compact(Asked, frozen=True, kw_only=True, gc=False):
    """Somebody wants the history shortened. Refused until compaction is there."""

    reason: str | None = None


# --- from the supervisor


class Started(Stamped, frozen=True, kw_only=True, gc=False):
    """The actor is up, for the first time."""


class Restarted(Stamped, frozen=True, kw_only=True, gc=False):
    """The actor crashed and is up again with the last state it had; nothing of the old one runs.

    Attributes:
        reason: Why it crashed, one line.
        incarnation: 2 for the first restart.
    """

    reason: str
    incarnation: int


class Parked(Stamped, frozen=True, kw_only=True, gc=False):
    """The actor crashed too often; this is the last signal of its life.

    Attributes:
        reason: The last crash, one line.
    """

    reason: str


class StepCrashed(Stamped, frozen=True, kw_only=True, gc=False):
    """A signal crashed the core and was put aside.

    Attributes:
        signal_kind: Its type.
        error: What it raised, text only.
        asked_by: Whom the signal would have answered.
        owed_by: The effect whose final outcome it was: nothing more will come of that one.
    """

    signal_kind: str
    error: ErrorInfo
    asked_by: SignalId | None = None
    owed_by: EffectId | None = None


# --- outcomes of effects


class Final(Outcome, frozen=True, kw_only=True, gc=False):
    """The one outcome that an effect owes; nothing comes after it."""


class StreamStarted(Outcome, frozen=True, kw_only=True, gc=False):
    """The first chunk of a response is here."""


class ChunksArrived(Outcome, frozen=True, kw_only=True, gc=False):
    """More of a response: all chunks that waited together. Ephemeral, never journaled.

    Attributes:
        chunks: In order; no terminal one among them.
    """

    chunks: tuple[Chunk, ...]


class ResponseCompleted(Final, frozen=True, kw_only=True, gc=False):
    """The response is complete.

    Attributes:
        message: All of it.
        usage: What it cost.
        stop_reason: Why the model stopped.
    """

    message: AssistantMessage
    usage: TokenUsage
    stop_reason: StopReason


class StreamFailed(Final, frozen=True, kw_only=True, gc=False):
    """There will be no response.

    Attributes:
        error: Why.
    """

    error: ErrorInfo


class ToolProgressed(Outcome, frozen=True, kw_only=True, gc=False):
    """A tool says how far it is. Ephemeral, never journaled.

    Attributes:
        text: What it says.
    """

    text: str


class ToolFinished(Final, frozen=True, kw_only=True, gc=False):
    """A tool is done, well or badly, or was stopped.

    Attributes:
        text: What the model may read.
        is_error: Whether it failed.
        details: JSON for people.
        started_at_ms: When it began.
    """

    text: str
    is_error: bool = False
    details: JsonValue = None
    started_at_ms: int


class TeardownFinished(Final, frozen=True, kw_only=True, gc=False):
    """All that an abort stopped is gone, or its time is over.

    Attributes:
        receipt: What became of it.
    """

    receipt: AbortReceipt


Signal: TypeAlias = (
    Prompt
    | Abort
    | Stop
    | ReplyQuery
    | StatusQuery
    | MessagesQuery
    | Steer
    | Approve
    | Reject
    | Respond
    | Compact
    | Started
    | Restarted
    | Parked
    | StepCrashed
    | StreamStarted
    | ChunksArrived
    | ResponseCompleted
    | StreamFailed
    | ToolProgressed
    | ToolFinished
    | TeardownFinished
)
