"""What a session knows. The invariants stand beside the fields they bind; the property tests hold exactly those.

`SessionState` is the value that `step` takes and returns: the engine, whose states are the four phases, around
`SessionData`, which is everything else. All of it is frozen; fields that change in every step are why these are Structs.
"""

import enum
from typing import Literal

import msgspec

from agentrail.core.append_only import GrowingSet, Log
from agentrail.core.history import History
from agentrail.core.request import EffectId
from agentrail.core.signals import SignalId
from agentrail.core.toolbox import Toolbox
from agentrail.errors import ErrorInfo
from agentrail.messages import (
    CallId,
    JsonObject,
    PromptRef,
    SessionId,
    TokenUsage,
    ToolCall,
    ToolResult,
    UserBlock,
)
from agentrail.otp.statem import Engine


class Phase(enum.Enum):
    """Where a session stands."""

    IDLE = "idle"
    """Waiting for a prompt, or tearing down what an abort stopped."""
    RUNNING = "running"
    """A request was sent and has not answered yet."""
    STREAMING = "streaming"
    """Chunks of a response arrive."""
    EXECUTING_TOOLS = "executing_tools"
    """The response is complete and its calls run."""


class SessionConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a session was started with, as far as the core decides by it.

    Attributes:
        session_id: Its name.
        path: The chain of sessions from the root, this one included.
        model: The model string.
        system_prompt: Or None.
        max_turns: Model calls in one cycle.
        max_output_tokens: Per response, or None.
        max_prompt_queue: How many prompts may wait.
        max_parallel_tools: How many calls of a batch run at a time.
        immune_tools: Names that a default abort does not stop.
    """

    session_id: SessionId
    path: tuple[SessionId, ...]
    model: str
    system_prompt: str | None = None
    max_turns: int = 100
    max_output_tokens: int | None = None
    max_prompt_queue: int = 100
    max_parallel_tools: int = 8
    immune_tools: frozenset[str] = frozenset()


class QueuedPrompt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A prompt that waits.

    Attributes:
        ref: Its name.
        content: What the user said.
        asker: Whoever waits for the text of its cycle.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    asker: SignalId | None


class Cycle(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """From a prompt to the return to idle.

    Attributes:
        ref: The prompt.
        first_message: Where its messages begin in the history.
        turn: The turn it is in, from 1.
        usage: What it used so far.
        asker: Whoever waits for its text.
    """

    ref: PromptRef
    first_message: int
    turn: int = 0
    usage: TokenUsage = TokenUsage()
    asker: SignalId | None = None


class Stream(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The request that is out.

    Attributes:
        effect_id: Its id; what carries another is late.
        text: The visible text so far, in pieces; an abort keeps it.
        thinking: Whether the model has begun to think aloud.
        last_turn: Whether tools were withheld, because this is the last turn that the cycle may have.
    """

    effect_id: EffectId
    text: Log[str] = Log()
    thinking: bool = False
    last_turn: bool = False


class CallState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call of the batch.

    Attributes:
        call: As it stands in the history.
        arguments: What will run: validated, defaults filled in. Of a call that was refused, what the model sent.
        stage: `waiting` for a slot, `running`, or `done`.
        effect_id: Of the attempt that runs or ran; None before the first.
        result: Set exactly when done.
    """

    call: ToolCall
    arguments: JsonObject
    stage: Literal["waiting", "running", "done"]
    effect_id: EffectId | None = None
    result: ToolResult | None = None


class TeardownState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What goes on behind an abort.

    Attributes:
        effect_id: The teardown's id.
        waiting: Whoever waits for the receipt.
    """

    effect_id: EffectId
    waiting: tuple[SignalId, ...]


class Ended(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How the last cycle ended, for whoever asks later.

    Attributes:
        outcome: One of three; no adapter turns one into another.
        text: All that the model said aloud.
        reason: Of an abort.
        error: Of a failure.
    """

    outcome: Literal["finished", "aborted", "failed"]
    text: str
    reason: str | None = None
    error: ErrorInfo | None = None


class SessionData(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that a session knows, besides its phase. Each line names what binds its field."""

    config: SessionConfig
    tools: Toolbox
    history: History = History()  # has open calls in EXECUTING_TOOLS and in no other phase
    queue: tuple[QueuedPrompt, ...] = ()  # oldest first; empty in IDLE, unless a teardown is going on
    cycle: Cycle | None = None  # None in IDLE, and only there
    stream: Stream | None = None  # set in RUNNING and STREAMING, and only there
    batch: tuple[CallState, ...] = ()  # the open calls of the history, in order; at least one is not done
    survivors: tuple[CallState, ...] = ()  # running calls that an abort spared; the history answered each
    notes: tuple[str, ...] = ()  # what survivors said since; goes in front of the next prompt
    teardown: TeardownState | None = None  # only in IDLE
    stopping: str | None = None  # why it ends; set only while a teardown is going on, and when it has ended
    stoppers: tuple[SignalId, ...] = ()  # whoever waits for the end; empty unless stopping
    last: Ended | None = None  # how the last cycle ended; None before the first
    usage: TokenUsage = TokenUsage()  # of the whole session; never falls
    seq: int = 0  # the number of the last committed event; rises by one with each
    minted: int = 0  # how many effect ids were given out; never falls
    call_ids: GrowingSet[CallId] = GrowingSet()  # all of the session so far, those of the history among them
    dropped: int = 0  # late outcomes; never falls
    quarantined: int = 0  # signals that crashed the core; never falls
    incarnation: int = 1  # rises with each restart
    started_at_ms: int = 0  # when the actor first came up


class SessionState(msgspec.Struct, frozen=True, gc=False):
    """What `step` takes and returns: complete, so that one can be kept, compared, and gone back to.

    Attributes:
        engine: The gen_statem engine; its states are the phases, its data is `SessionData`.
    """

    engine: Engine[Phase, SessionData]

    @property
    def phase(self) -> Phase:
        """Where the session stands."""
        return self.engine.state

    @property
    def data(self) -> SessionData:
        """All that it knows besides."""
        return self.engine.data

    @property
    def ended(self) -> bool:
        """Whether it is over: no signal does anything any more."""
        return self.engine.stopped is not None
