"""What a session knows. The invariants stand beside the fields they bind; the property tests hold exactly those.

`SessionState` is the value that `step` takes and returns: one of the four phases, and `SessionData`, which is everything
else. All of it is frozen. Inside a step the same fields are those of a `StepDraft`, which is frozen once, at its end.
"""

import enum
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, final

import msgspec
from msgspec.structs import force_setattr

from agentrail.core.policy.budget import Budget, Ledger
from agentrail.core.policy.calls import LoopHistory
from agentrail.core.policy.context import CompactionPlan, CompactionWatch, Outgoing, TokenCount
from agentrail.core.policy.patience import Attempts, StallClock
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.policy.response_format import ResponseFormat
from agentrail.core.policy.tags import TagReader
from agentrail.core.protocol.request import CachePoint, EffectId, ModelFacts
from agentrail.core.protocol.signals import Signal, SignalId, ToolWantsChild
from agentrail.core.session.agent_state import (
    ITSELF,
    NO_AGENTS,
    ActingAgent,
    AgentLimits,
    Agents,
    AgentSpec,
)
from agentrail.core.session.open_calls import NO_CALLS, CallState, OpenCalls
from agentrail.core.session.owners import NOTHING_OPEN, OpenEffects
from agentrail.core.stack.loading import EMPTY_STACK, NO_STATES, PluginStates, Stack
from agentrail.core.stack.outcome import Injected, Outcome
from agentrail.core.values.history import GrowingSet, History, Log
from agentrail.core.values.importing import Repair
from agentrail.core.values.toolbox import Toolbox
from agentrail.errors import ErrorInfo
from agentrail.events import Approval, ApprovalStatus, DecidedBy, EndReason, PendingClientCall, Question, Todo
from agentrail.frozen import EMPTY, frozen_json
from agentrail.messages import (
    ApprovalId,
    CallId,
    ClientCallRef,
    JsonObject,
    JsonValue,
    Message,
    PromptRef,
    QuestionRef,
    SessionId,
    SteerRef,
    TokenUsage,
    UserBlock,
)


class Phase(enum.Enum):
    """Where a session stands."""

    # Members are one of a kind; that of `Enum` hashes the name, in Python, in every step.
    __hash__: Callable[..., int] = object.__hash__

    IDLE = "idle"
    """Waiting for a prompt; or for a person, with a cycle that is suspended; or tearing down what an abort stopped."""
    RUNNING = "running"
    """A request is being prepared, or was sent and has not answered yet, or waits for its next attempt; or a hook waits."""
    STREAMING = "streaming"
    """Chunks of a response arrive."""
    EXECUTING_TOOLS = "executing_tools"
    """The response is complete and its calls run."""


@final
class BreakOff(msgspec.Struct, frozen=True, gc=False):
    """The cycle is to be over, because a plugin wants that, or it has gone too far; nothing of it may begin any more."""

    reason: str


Next: TypeAlias = Phase | BreakOff
"""What follows when something was taken: the phase in which it left the session, or that the cycle is to be broken off there."""


PromptMode: TypeAlias = Literal["full", "task", "minimal", "none"]

HostHook: TypeAlias = Literal["before_tool", "after_tool"]
"""A gate of the host: it is asked about a call before that runs; it is told what a call came to whose code has ended."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a person always allows.

    Attributes:
        tool: The tool.
        family: The words of the command; None for all calls of the tool.
        at_ms: When it was made first, in milliseconds since 1970; None of one that was made before that was kept.
        exact: Whether it covers these very words. Otherwise, in records before this field, all simple commands that begin with them.
    """

    tool: str
    family: str | None
    at_ms: int | None = None
    exact: bool = False


class SessionConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a session was started with, as far as the core decides by it.

    Attributes:
        session_id: Its name.
        path: The chain of sessions from the root, this one included.
        model: What it begins with; `SessionData.model` is what it has by now.
        system_prompt: Or None.
        max_turns: Model calls in one cycle.
        max_output_tokens: Per response, or None.
        max_prompt_queue: How many prompts may wait.
        max_steering_queue: How many steers may wait.
        max_parallel_tools: How many calls of a batch run at a time.
        immune_tools: Names that a steer or a default abort does not stop.
        tool_max_retries: How often a call that raised is made again, where its tool promises that this does no harm.
        approval_timeout_ms: How long an approval waits; None until it is decided, as of `SessionOptions`. The default is that of scenarios.
        question_timeout_ms: How long a question waits whose tool names no time of its own; None for ever.
        fallbacks: Models that are asked when the one before them has failed for good.
        max_retries: How often a request is sent again to one model.
        on_max_turns: Whether the last turn asks for an answer without tools, the cycle is aborted when it wants one more, or it
            ends well when the calls of the last turn are answered.
        compact_at_tokens: How long the conversation may become, however large the window is.
        prompt_mode: Which sections the system prompt has besides `system_prompt`.
        working_dir: The root of the file tools; plugins see it.
        user_data: The application's own data, frozen; plugins see it.
        group_id: The group that the session belongs to, or None.
        scope: Where its name is the only one; empty: among those without a scope.
        inline_tags: Whether tags are taken out of what the model says.
        budget: What it may spend, or None.
        response_format: What the last answer of a cycle is judged by, or None.
        agents: Those that may work for it, beside the general one.
        host_hooks: Which gates its host has; a session asks and tells at no other.
        gathers_context: Whether something is asked for what to add, before the first request of each turn.
        agent_limits: How many of them may work in the background.
        rules: What people always allow, as the session above knew it when this one began.
        replaced_sections: Texts in place of what plugins, tools and the mode add to the system prompt, by key; an empty one removes it.
        wake_on_background_end: Whether what ends by itself in the background, while the session is idle, starts a cycle.
    """

    session_id: SessionId
    path: tuple[SessionId, ...]
    model: ModelFacts
    system_prompt: str | None = None
    max_turns: int = 100
    max_output_tokens: int | None = None
    max_prompt_queue: int = 100
    max_steering_queue: int = 3
    max_parallel_tools: int = 8
    immune_tools: frozenset[str] = frozenset()
    tool_max_retries: int = 2
    approval_timeout_ms: int | None = 120_000
    question_timeout_ms: int | None = None
    fallbacks: tuple[ModelFacts, ...] = ()
    max_retries: int = 3
    on_max_turns: Literal["answer", "abort", "stop"] = "answer"
    compact_at_tokens: int = 170_000
    prompt_mode: PromptMode = "full"
    working_dir: str = "."
    user_data: JsonObject = EMPTY
    group_id: str | None = None
    inline_tags: bool = True
    budget: Budget | None = None
    response_format: ResponseFormat | None = None
    scope: str = ""
    agents: tuple[AgentSpec, ...] = ()
    host_hooks: frozenset[HostHook] = frozenset()
    gathers_context: bool = False
    agent_limits: AgentLimits = AgentLimits()
    rules: frozenset[Rule] = frozenset()
    replaced_sections: JsonObject = EMPTY
    wake_on_background_end: bool = False

    def __post_init__(self) -> None:
        """Freeze the application's own data: it is shown to plugins and tools, and handed on to children."""
        force_setattr(self, "user_data", frozen_json(self.user_data))
        if self.replaced_sections:
            force_setattr(self, "replaced_sections", frozen_json(self.replaced_sections))


class QueuedPrompt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A prompt that waits.

    Attributes:
        ref: Its name.
        content: What the user said.
        askers: The callers that wait for the text of its cycle.
        via: The door that it came through, or None.
        request_id: The request that brought it, or None.
        settings: What is wanted of the model for its cycle alone, or None.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    askers: tuple[SignalId, ...] = ()
    via: str | None = None
    request_id: str | None = None
    settings: PromptSettings | None = None


class QueuedSteer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A steer that waits for the gap between two turns.

    Attributes:
        ref: Its name.
        text: What the user said.
        via: As of `QueuedPrompt`, which it may become.
        request_id: As of `QueuedPrompt`.
    """

    ref: SteerRef
    text: str
    via: str | None = None
    request_id: str | None = None


class GatheredContext(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is added to the requests of one turn, as far as the core knows it; all attempts at that turn have the same.

    Attributes:
        effect_id: Of the gathering.
        is_open: Whether it goes on; then nothing is known yet, and no request is out.
        count: How many messages.
        digest: SHA-256 of them; empty when there are none.
        tokens: How long they are, estimated.
    """

    effect_id: EffectId
    is_open: bool = True
    count: int = 0
    digest: str = ""
    tokens: int = 0


class Cycle(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """From a prompt to the return to idle.

    Attributes:
        ref: The prompt.
        first_message: Where its messages begin in the history.
        earlier: Those of its messages that a summary stands for by now.
        started_at_ms: When it began.
        turn: The turn it is in, from 1.
        usage: What it used so far.
        attempts: What the requests of this turn have been through.
        askers: The callers that wait for its text.
        repaired: Whether the model had its turn to put an answer right that is not of the response format.
        loops: What its calls were, as far as loops are judged by it.
        resume: Whether the model gets another turn when its open calls are answered; a person may have said no.
        cache_points: Where plugins want the prompt cache of this turn's request to end.
        handed: What plugins handed on for this turn's request, in place of the conversation; None: nothing. Empty: they have
            to be asked once more, because the conversation that they had seen was compacted since.
        context: What is added to the requests of this turn; None: it was not asked for yet, or the session has no such thing.
        request_id: The request that brought the prompt, or None.
        goes_on: Whether it began without a prompt, behind what the conversation ended with; `ref` is its own name then.
        settings: What is wanted of the model in it, over what the session was set up with; None: nothing.
        misfit: Why the caller cannot read the last response as what it wants; None where nothing is wrong, or was looked for.
    """

    ref: PromptRef
    first_message: int
    earlier: tuple[Message, ...] = ()
    started_at_ms: int = 0
    turn: int = 0
    usage: TokenUsage = TokenUsage()
    attempts: Attempts = Attempts()
    askers: tuple[SignalId, ...] = ()
    repaired: bool = False
    loops: LoopHistory = LoopHistory()
    resume: bool = True
    cache_points: tuple[CachePoint, ...] = ()
    handed: tuple[Message, ...] | None = None
    context: GatheredContext | None = None
    request_id: str | None = None
    goes_on: bool = False
    settings: PromptSettings | None = None
    misfit: str | None = None


class Stream(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The request that is out, or is about to go out once more.

    Attributes:
        effect_id: Its id; what carries another is late. During a pause that of the timer.
        model: The model string that it was asked for; the session may have another by now.
        pausing: Whether nothing is out, because the next attempt waits for its time.
        due_at_ms: That time; 0 where nothing pauses.
        text: What it said aloud so far, in pieces, tags and all; an abort keeps it.
        reader: Has read all of that text, and holds back what may still become a tag; untouched without `inline_tags`.
        clock: What was heard of it, and when; of no meaning in a pause.
        thinking: Whether the model has begun to think aloud.
        last_turn: Whether tools were withheld, because this is the last turn that the cycle may have.
        usage: What it has used so far, as far as its server has said; None while it has said nothing.
    """

    effect_id: EffectId
    model: str
    pausing: bool = False
    text: Log[str] = Log()
    reader: TagReader = TagReader()
    clock: StallClock = StallClock(heard_at_ms=0)
    thinking: bool = False
    last_turn: bool = False
    usage: TokenUsage | None = None
    due_at_ms: int = 0


class Interaction(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What waits for a person: a call that wants an approval, one that is a question, or the question of a running tool.

    Attributes:
        asked: As it was published.
        timer: What ends it when no answer comes; None: it waits for ever.
        asker: The running tool that waits for the answer; None where the call itself does.
        by: The plugin that wants a person to decide; None of a question, and of what was asked before that was kept.
    """

    asked: Approval | Question | PendingClientCall
    timer: EffectId | None
    asker: SignalId | None = None
    by: str | None = None

    @property
    def id(self) -> ApprovalId | QuestionRef | ClientCallRef:
        """What people answer to; unique in the session, and no other session has the same."""
        return self.asked.id if isinstance(self.asked, Approval) else self.asked.ref


class Resolved(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An interaction that is decided, kept for a while for those who come late.

    Attributes:
        id: Which one.
        status: How it ended.
        by: Who decided.
        at_ms: When, in milliseconds since 1970; None of one that was decided before that was kept.
        user: The id of the user who decided; None where it is unknown.
    """

    id: str
    status: ApprovalStatus
    by: DecidedBy
    at_ms: int | None = None
    user: str | None = None


class Remembered(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message with a name of its sender's, so that sending it again gives the same answer.

    Attributes:
        client_id: The name.
        digest: Of what was said.
        receipt: What was answered.
    """

    client_id: str
    digest: str
    receipt: object


class Compaction(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A compaction that goes on.

    Attributes:
        effect_id: Of the request for the summary; of the writing of the full text, when that is there.
        plan: What is to go.
        summary: The model's, when it is there.
        error: Of the request that did not fit; what the cycle ends with when this comes to nothing.
    """

    effect_id: EffectId
    plan: CompactionPlan
    summary: str | None = None
    error: ErrorInfo | None = None


class SuspendedHook(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A hook that waits for what a plugin asked for: before a prompt starts, behind a batch of calls, or before a cycle finishes.

    Attributes:
        effect_id: Of the request.
        timer: What ends the wait when nothing comes.
        outcome: What the plugins said so far, with `waiting` set.
        prompt: The prompt that is judged; None where it is something else.
        stop_reason: What the cycle ends with, if it does; None where it is something else.
        notes: What the model is told behind a batch of calls; None where it is something else.
    """

    effect_id: EffectId
    timer: EffectId
    outcome: Outcome
    prompt: QueuedPrompt | None = None
    stop_reason: EndReason | None = None
    notes: tuple[str, ...] | None = None


class DoubtfulCalls(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Calls that began before a drift and whose end is unknown: an equal one does not run, whatever asks for it.

    Attributes:
        calls: Tool and digest of the arguments of each, as outlines have them; of a sub-agent its kind and nothing.
        prompts: The prompts that were known then. The cycle of another one ends the doubt.
    """

    calls: tuple[tuple[str, str], ...]
    prompts: tuple[PromptRef, ...] = ()


class OptsUpdate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """New options of a plugin, which wait for idle.

    Attributes:
        plugin: Its name.
        options: The new ones, those of earlier updates among them.
    """

    plugin: str
    options: JsonObject


class TeardownState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What goes on behind an abort.

    Attributes:
        effect_id: The teardown's id.
        waiting: The callers that wait for the receipt.
    """

    effect_id: EffectId
    waiting: tuple[SignalId, ...]


class Ended(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How the last cycle ended, for a caller that asks later.

    Attributes:
        outcome: One of three; no adapter turns one into another.
        text: Its last answer: what the model said aloud in its last response, or the document where that is to have a shape.
        reason: Of an abort.
        error: Of a failure.
    """

    outcome: Literal["finished", "aborted", "failed"]
    text: str
    reason: str | None = None
    error: ErrorInfo | None = None


NO_SECTIONS: Final[Mapping[str, str]] = MappingProxyType({})


SEMANTICS: Final = 1
"""Version of the decisions that a step makes. A journal of an older version folds as it was lived, up to the next `Recovered` signal.

0: "always" stood for a program; an approval was the last word; `Permissions` and `HumanApproval` had a deadline of their own; a summary was requested
even where it could not help, and was free when it did not come; the budget counted an estimate of a request that was cut off. 1: "always" stands for the
very words; guards judge behind an approval; the session's deadline is the only one; a compaction that is due begins only where it can shrink the
conversation by a fifth; and the budget counts all that was reserved for a request that was cut off.
"""


# One flat list, not groups: a step copies forty-odd fields in 0.7 µs. Six groups, each copied at its first write, cost 1.2 to 5 µs, and
# every read one more look-up.
class _Fields(msgspec.Struct, gc=False):
    """All that a session knows, besides its phase. Each line names what binds its field, between two steps."""

    config: SessionConfig
    model: ModelFacts  # of the next request
    tools: Toolbox
    history: History = History()  # has open calls in EXECUTING_TOOLS and in a suspended cycle, else none
    repairs: tuple[Repair, ...] = ()  # of the messages that it began with; never changes
    # Oldest first; empty in IDLE, unless a teardown or a person is waited for.
    queue: tuple[QueuedPrompt, ...] = ()
    steers: tuple[QueuedSteer, ...] = ()  # oldest first; empty without a cycle
    cycle: Cycle | None = (
        None  # None in IDLE, unless it is suspended; in a compaction that was asked for in idle, and while a prompt is held, it may be
    )
    held: SuspendedHook | None = (
        None  # only in RUNNING and beside a suspended cycle; its request and its timer are open
    )
    # What plugins want said before the next request; empty without a cycle.
    interventions: tuple[Injected, ...] = ()
    stack: Stack = EMPTY_STACK  # whom the hooks ask
    plugin_states: PluginStates = NO_STATES  # one for each plugin of the stack
    # One for each plugin at most; empty in IDLE, unless a cycle is suspended.
    updates: tuple[OptsUpdate, ...] = ()
    sections: Mapping[str, str] = NO_SECTIONS  # of the system prompt, beside its own text
    stream: Stream | None = (
        None  # set in STREAMING and in RUNNING, unless a compaction goes on, a hook waits or context is gathered, and only there
    )
    compaction: Compaction | None = None  # only in RUNNING
    compaction_watch: CompactionWatch = CompactionWatch()  # when the next ones may be
    compact_asked: str | None = None  # why a caller wants one before the next request
    refused: tuple[PromptRef, ...] = ()  # prompts whose cycles ended in a refusal without a word
    # What is sent shorter than it is, or not at all; follows from the history.
    outgoing: Outgoing = Outgoing()
    batch: OpenCalls = NO_CALLS  # the open calls of the history, in order; at least one is not done
    # One for each call that is asking, and those of running tools; oldest first.
    interactions: tuple[Interaction, ...] = ()
    resolved: tuple[Resolved, ...] = ()  # the last ones that were decided
    rules: frozenset[Rule] = frozenset()  # what a person always allows; shrinks only when one is revoked
    # Calls that an abort spared, running or stopping; the history answered each.
    survivors: tuple[CallState, ...] = ()
    doubtful: DoubtfulCalls | None = None  # set by a drift alone, until a prompt that came after it begins
    notes: tuple[str, ...] = ()  # what survivors said since; goes in front of the next prompt
    teardown: TeardownState | None = None  # only in IDLE, and not while a cycle is suspended
    stopping: str | None = (
        None  # why it ends; set only while a teardown or drain goes on, and when it has ended
    )
    stoppers: tuple[SignalId, ...] = ()  # the callers that wait for the end; empty unless stopping
    last: Ended | None = None  # how the last cycle ended; None before the first
    todos: tuple[Todo, ...] = ()  # the list that the model keeps of its work; each id once
    memory: JsonValue = None  # what tools keep between their calls; no model sees it
    title: str | None = None  # what the model called the conversation last; None before it has
    # The input of the last response's request, with its cached part; behind a compaction what that made of it. 0 before the first.
    context_tokens: int = 0
    remembered: tuple[Remembered, ...] = ()  # the last messages that came with a name of their sender's
    usage: TokenUsage = TokenUsage()  # of the whole session; never falls
    ledger: Ledger | None = (
        None  # None without a budget; a reservation for each request that is out, and for each loan
    )
    # Children of calls and tools, ended or not, whose spending is not counted yet.
    loans: tuple[EffectId, ...] = ()
    # Children that running tools wait for, oldest first; empty without a ledger.
    wishes: tuple[ToolWantsChild, ...] = ()
    # Those in the background; each that has not ended is open.
    agents: Agents = NO_AGENTS
    acting: ActingAgent = ITSELF  # as which agent it works
    tokens: TokenCount = TokenCount()  # of the last request, where there is a ledger
    open: OpenEffects = NOTHING_OPEN  # who waits for each effect that owes an outcome: exactly those that do
    seq: int = 0  # the number of the last committed event; rises by one with each
    minted: int = 0  # how many effect ids were given out; never falls
    # Of the session so far, those of the history among them; forgotten behind a summary when they are many.
    call_ids: GrowingSet[CallId] = GrowingSet()
    dropped: int = 0  # late outcomes, but for ephemeral ones, which the shell counts; never falls
    quarantined: int = 0  # signals that crashed the core; never falls
    incarnation: int = 1  # rises with each restart
    started_at_ms: int = 0  # when the actor first came up
    semantics: int = 0  # of which version the steps are, see `SEMANTICS`; never falls


class SessionData(_Fields, frozen=True, gc=False):  # type: ignore[misc]  # the draft has the same fields, and no others
    """All that a session knows, besides its phase, between two steps."""


class StepDraft(_Fields, gc=False):
    """All that a session knows, besides its phase, inside a step: its fields are written as decisions fall.

    One step makes it, and no other code ever sees it. The values in it are frozen, so they may be kept and handed out.
    """


Known: TypeAlias = SessionData | StepDraft
"""What a session knows, for code that only reads."""


class SessionState(msgspec.Struct, frozen=True, gc=False):
    """What `step` takes and returns: complete, so that one can be kept, compared, and gone back to.

    Attributes:
        phase: Where the session stands.
        data: All that it knows besides.
        postponed: Signals that wait for another phase, oldest first; at most `MAX_POSTPONED`, and none in IDLE.
        ended: Whether it is over: no signal does anything any more.
    """

    phase: Phase
    data: SessionData
    postponed: tuple[Signal, ...] = ()
    ended: bool = False

    @property
    def suspended(self) -> bool:
        """Whether its cycle waits for a person and for nothing else."""
        return self.phase is Phase.IDLE and self.data.cycle is not None
