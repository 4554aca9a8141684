"""The state of a session.

Each invariant is documented next to the field it binds, and the property tests check exactly those.
"""

import enum
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, final

import msgspec
from msgspec.structs import force_setattr

from agentrail.core.policy.budget import Budget, Ledger
from agentrail.core.policy.calls import LoopHistory
from agentrail.core.policy.patience import Attempts, StallClock
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.policy.request_context import CompactionPlan, CompactionWatch, Outgoing, TokenCount
from agentrail.core.policy.response_format import ResponseFormat
from agentrail.core.policy.tags import TagReader
from agentrail.core.protocol.request import CachePoint, EffectId, ModelFacts
from agentrail.core.protocol.signals import HostHook, Signal, SignalId, ToolWantsChild
from agentrail.core.session.agent_records import (
    ITSELF,
    NO_AGENTS,
    ActingAgent,
    AgentLimits,
    Agents,
    AgentSpec,
)
from agentrail.core.session.effect_owners import NOTHING_OPEN, OpenEffects
from agentrail.core.session.open_calls import NO_CALLS, CallState, OpenCalls
from agentrail.core.stack.hook_outcome import Injected, Outcome
from agentrail.core.stack.loaded_stack import EMPTY_STACK, NO_STATES, PluginStates, Stack
from agentrail.core.values.history import GrowingSet, History, Log
from agentrail.core.values.import_history import Repair
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
    TraceContext,
    UserBlock,
)


class Phase(enum.Enum):
    """Phases of a session."""

    # Members are singletons. The `__hash__` of `Enum` hashes the name, in Python, in every step.
    __hash__: Callable[..., int] = object.__hash__

    IDLE = "idle"
    """Waiting for a prompt, or for the user while a cycle is suspended, or for the teardown after an abort."""
    RUNNING = "running"
    """A request is being prepared, has had no response yet, or waits for its next attempt. Or a hook is waiting."""
    STREAMING = "streaming"
    """Chunks of a response are arriving."""
    EXECUTING_TOOLS = "executing_tools"
    """The response is complete and its calls are running."""


@final
class BreakOff(msgspec.Struct, frozen=True, gc=False):
    """A request to end the cycle, because a plugin wants it or a limit was exceeded. Nothing more of the cycle may start."""

    reason: str


Next: TypeAlias = Phase | BreakOff
"""The result of handling a signal: the next phase, or a request to end the cycle there."""


PromptMode: TypeAlias = Literal["full", "task", "minimal", "none"]


class Rule(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call that the user always allows, or a breakpoint.

    Attributes:
        family: The words of the command. None for all calls of the tool.
        at_ms: When it was first made, in milliseconds since 1970. None for rules older than this field.
        exact: Whether it covers these very words. Otherwise, in records before this field, all simple commands that
            begin with them.
        shown: `rule_text` of the tool when the rule was made. It covers no other. Empty for a tool of no source in records
            before version 3 of `SEMANTICS`.
        breaks: Whether it is a breakpoint instead: every call of the tool, or of every tool (`*`), needs an approval.
    """

    tool: str
    family: str | None
    at_ms: int | None = None
    exact: bool = False
    shown: str = ""
    breaks: bool = False


class SessionConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The configuration of a session, as far as it affects decisions of the core.

    Attributes:
        session_id: Its name.
        path: The chain of sessions from the root, this one included.
        model: The initial model. `SessionData.model` is the current one.
        system_prompt: The system prompt, or None.
        max_turns: Model calls in one cycle.
        max_output_tokens: Per response, or None.
        max_prompt_queue: Maximum number of queued prompts.
        max_steering_queue: Maximum number of queued steers.
        max_parallel_tools: How many calls of a batch run at a time.
        immune_tools: Names that a steer or a default abort does not stop.
        tool_max_retries: How often a call that raised is retried, if its tool declares that this is harmless.
        approval_timeout_ms: How long an approval waits, in milliseconds. None waits until it is decided, same as in
            `SessionOptions`. Scenarios use the default.
        question_timeout_ms: How long a question waits, in milliseconds, if its tool names no time of its own. None
            waits indefinitely.
        fallbacks: Models that are tried in order after the previous one has failed for good.
        max_retries: How often a request is retried with one model.
        on_max_turns: "answer": the last turn asks for an answer without tools. "abort": the cycle is aborted when
            it wants another turn. "stop": it finishes when the calls of the last turn are answered.
        compact_at_tokens: Conversation length, in tokens, at which it is compacted, however large the window is.
        prompt_mode: Which sections the system prompt has in addition to `system_prompt`.
        working_dir: The root of the file tools, visible to plugins.
        user_data: The application's own data, frozen and visible to plugins.
        group_id: The group that the session belongs to, or None.
        scope: The scope in which its name is unique. Empty: among sessions without a scope.
        inline_tags: Whether tags are removed from the model's text.
        budget: Its spending limit, or None.
        response_format: The schema that the last answer of a cycle must match, or None.
        agents: Agents that may work for it, in addition to the general one.
        host_hooks: The gates of its host. The session calls no others.
        gathers_context: Whether extra context is gathered before the first request of each turn.
        agent_limits: Limits on agents in the background.
        rules: Rules of the user, as the parent session knew them when this one started.
        replaced_sections: Texts that replace system prompt sections of plugins, tools and the mode, by key. An
            empty one removes the section.
        wake_on_background_end: Whether background work that ends while the session is idle starts a cycle.
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
        """Freeze the application's own data: plugins and tools see it, and children inherit it."""
        force_setattr(self, "user_data", frozen_json(self.user_data))
        if self.replaced_sections:
            force_setattr(self, "replaced_sections", frozen_json(self.replaced_sections))


class QueuedPrompt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A queued prompt.

    Attributes:
        ref: Its name.
        content: The user's message.
        askers: Callers that wait for the text of its cycle.
        via: The channel that it came through, or None.
        request_id: The request that sent it, or None.
        settings: Model settings for its cycle alone, or None.
        trace: The trace of its sender, or None.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    askers: tuple[SignalId, ...] = ()
    via: str | None = None
    request_id: str | None = None
    settings: PromptSettings | None = None
    trace: TraceContext | None = None


class QueuedSteer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A steer that waits for the gap between two turns.

    Attributes:
        ref: Its name.
        text: The user's message.
        via: Same as in `QueuedPrompt`, which it may become.
        request_id: Same as in `QueuedPrompt`.
    """

    ref: SteerRef
    text: str
    via: str | None = None
    request_id: str | None = None


class GatheredContext(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Context added to the requests of one turn, as the core knows it. Every attempt at that turn gets the same.

    Attributes:
        is_open: Whether gathering is still in progress. Until it ends, nothing is known and no request is sent.
        count: Number of messages.
        digest: SHA-256 of them. Empty if there are none.
        tokens: Their estimated length.
    """

    effect_id: EffectId
    is_open: bool = True
    count: int = 0
    digest: str = ""
    tokens: int = 0


class Cycle(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A cycle: from a prompt to the return to idle.

    Attributes:
        ref: The prompt.
        earlier: Its messages that a summary has replaced.
        turn: Current turn, from 1.
        askers: Callers that wait for its text.
        repaired: Whether the model had its turn to correct an answer that does not match the response format.
        resume: Whether the model gets another turn when its open calls are answered. A user who rejects a call can
            prevent it.
        cache_points: Where plugins want the prompt cache of this turn's request to end.
        handed: Messages from plugins for this turn's request, in place of the conversation. None: none. Empty: the
            plugins must be asked again, because the conversation they saw has been compacted since.
        context: Context added to the requests of this turn. None: not requested yet, or the session gathers none.
        request_id: The request that sent the prompt, or None.
        goes_on: Whether it started without a prompt and continues the conversation. `ref` is then its own name.
        settings: Model settings for this cycle, over those of the session. None: none.
        misfit: Why the caller cannot read the last response in the requested format. None if it can, or was not
            checked.
        trace: The trace of the prompt's sender, or None.
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
    trace: TraceContext | None = None


class Stream(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The current request: sent, or waiting for its next attempt.

    Attributes:
        effect_id: Its id. Signals with another id are late. During a pause, the id of the timer.
        model: The model string that it was sent to. The session may use another by now.
        pausing: Whether no request is out, because the next attempt waits for its time.
        due_at_ms: The time of the next attempt. 0 if it is not pausing.
        text: Visible text so far, in pieces, including tags. An abort keeps it.
        reader: Has read all of that text, and holds back a possible start of a tag. Unused without `inline_tags`.
        clock: Timing of its chunks, to detect a stall. Meaningless during a pause.
        last_turn: Whether tools were withheld, because this is the last turn that the cycle may have.
        usage: Usage so far as its server has reported it. None before the first report.
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
    """A pending interaction with the user: a call that needs approval, a call that is a question, or a tool's question.

    Attributes:
        timer: The timer that ends it without an answer. None: it waits indefinitely.
        asker: The running tool that waits for the answer. None if the call itself does.
        by: The plugin that requires approval. None for a question, and for interactions older than this field.
    """

    asked: Approval | Question | PendingClientCall
    timer: EffectId | None
    asker: SignalId | None = None
    by: str | None = None

    @property
    def id(self) -> ApprovalId | QuestionRef | ClientCallRef:
        """The id that answers refer to. No other interaction has it, in this session or another."""
        return self.asked.id if isinstance(self.asked, Approval) else self.asked.ref


class Resolved(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A decided interaction, kept for a while for answers that come late.

    Attributes:
        status: How it ended.
        by: Who decided.
        at_ms: When, in milliseconds since 1970. None for decisions older than this field.
        user: The id of the user who decided. None if unknown.
    """

    id: str
    status: ApprovalStatus
    by: DecidedBy
    at_ms: int | None = None
    user: str | None = None


class Remembered(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message with a client id, so that sending it again returns the same receipt."""

    client_id: str
    digest: str
    receipt: object


class Compaction(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A running compaction.

    Attributes:
        effect_id: The request for the summary. Once the summary exists: the writing of the full text.
        plan: The messages to remove.
        summary: The model's summary, once it exists.
        error: The error of the request that did not fit. The cycle ends with it if the compaction fails.
    """

    effect_id: EffectId
    plan: CompactionPlan
    summary: str | None = None
    error: ErrorInfo | None = None


class SuspendedHook(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A hook that waits for a plugin's request: before a prompt starts, after a batch of calls, or before a cycle finishes.

    Attributes:
        effect_id: The request.
        outcome: The plugins' decisions so far, with `waiting` set.
        prompt: The prompt that is judged. None for other hooks.
        stop_reason: The reason that the cycle would end with. None for other hooks.
        notes: Notes to the model after a batch of calls. None for other hooks.
    """

    effect_id: EffectId
    timer: EffectId
    outcome: Outcome
    prompt: QueuedPrompt | None = None
    stop_reason: EndReason | None = None
    notes: tuple[str, ...] | None = None


class DoubtfulCalls(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Calls that began before a drift and whose end is unknown. An equal call from any source does not run.

    Attributes:
        calls: Tool and digest of the arguments of each, as in outlines. For a sub-agent its kind and an empty
            digest.
        prompts: The prompts known at that time. The cycle of any other prompt ends the doubt.
    """

    calls: tuple[tuple[str, str], ...]
    prompts: tuple[PromptRef, ...] = ()


class OptsUpdate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """New options of a plugin, applied in idle.

    Attributes:
        plugin: Its name.
    """

    plugin: str
    options: JsonObject


class TeardownState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The teardown that runs after an abort."""

    effect_id: EffectId
    waiting: tuple[SignalId, ...]


class Ended(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Outcome of the last cycle, for a caller that asks later.

    Attributes:
        outcome: One of three. No adapter turns one into another.
        text: Its last answer: the visible text of the last response, or the document if the response has a format.
    """

    outcome: Literal["finished", "aborted", "failed"]
    text: str
    reason: str | None = None
    error: ErrorInfo | None = None


NO_SECTIONS: Final[Mapping[str, str]] = MappingProxyType({})

SEMANTICS: Final = 4
"""Version of the decisions of a step. A journal of an older version replays with its own, up to the next `Recovered` signal.

0: "always" meant a program. An approval was final. `Permissions` and `HumanApproval` had deadlines of their own. A
summary was requested even where it could not help, and was free if it failed. The budget counted an estimate of a
request that was cut off.

1: "always" means the very words. Guards judge after an approval. The session's deadline is the only one. A due
compaction starts only if it can shrink the conversation by a fifth. The budget counts the whole reservation of a
request that was cut off.

2: A request that failed after a user chose another model is followed by `Retry`. Before, no event ended it if it had no
chunk yet.

3: "always" covers only the tool that was shown. Before, a tool that is from no source was its name.

4: A rewind returns to the session's own budget. Before, the cost limit of the last cycle stayed, and a reservation for
each request of a plugin that never started.
"""


# One flat list, not groups: a step copies forty-odd fields in 0.7 µs. Six groups, each copied at its first
# write, cost 1.2 to 5 µs, and each read one more lookup.
class _Fields(msgspec.Struct, gc=False):
    """The session's data, without its phase. Each comment states the invariant that binds the field between two steps."""

    config: SessionConfig
    model: ModelFacts  # of the next request
    tools: Toolbox
    history: History = History()  # has open calls in EXECUTING_TOOLS and in a suspended cycle, otherwise none
    repairs: tuple[Repair, ...] = ()  # of the initial messages, never changes
    # Oldest first, empty in IDLE, unless a teardown or the user is waited for.
    queue: tuple[QueuedPrompt, ...] = ()
    steers: tuple[QueuedSteer, ...] = ()  # oldest first, empty without a cycle
    cycle: Cycle | None = (
        None  # None in IDLE, unless suspended, may be None in a compaction requested in idle, and while a prompt is held
    )
    held: SuspendedHook | None = (
        None  # only in RUNNING, and next to a suspended cycle, its request and its timer are open
    )
    # Text from plugins for the next request, empty without a cycle.
    interventions: tuple[Injected, ...] = ()
    stack: Stack = EMPTY_STACK  # the plugins that the hooks call
    plugin_states: PluginStates = NO_STATES  # one for each plugin of the stack
    # At most one for each plugin, empty in IDLE, unless a cycle is suspended.
    updates: tuple[OptsUpdate, ...] = ()
    sections: Mapping[str, str] = NO_SECTIONS  # of the system prompt, in addition to its own text
    stream: Stream | None = (
        None  # set exactly in STREAMING and RUNNING, unless a compaction runs, a hook waits or context is gathered
    )
    compaction: Compaction | None = None  # only in RUNNING
    compaction_watch: CompactionWatch = CompactionWatch()  # when the next ones may start
    compact_asked: str | None = None  # why a caller wants one before the next request
    refused: tuple[PromptRef, ...] = ()  # prompts whose cycles ended in a refusal without text
    # Messages that are sent shortened or not at all, derived from the history.
    outgoing: Outgoing = Outgoing()
    batch: OpenCalls = NO_CALLS  # the open calls of the history, in order, at least one is not done
    # One for each call that waits for the user, and those of running tools, oldest first.
    interactions: tuple[Interaction, ...] = ()
    resolved: tuple[Resolved, ...] = ()  # the most recently decided ones
    rules: frozenset[Rule] = frozenset()  # rules of the user, shrinks only when one is revoked
    # Calls spared by an abort, running or stopping, the history has an answer for each.
    survivors: tuple[CallState, ...] = ()
    doubtful: DoubtfulCalls | None = None  # set only by a drift, until a prompt that came after it starts
    notes: tuple[str, ...] = ()  # output of survivors since, goes before the next prompt
    teardown: TeardownState | None = None  # only in IDLE, and not while a cycle is suspended
    stopping: str | None = None  # why it ends, set only during a teardown or drain, and after the end
    stoppers: tuple[SignalId, ...] = ()  # callers that wait for the end, empty unless stopping
    last: Ended | None = None  # how the last cycle ended, None before the first
    todos: tuple[Todo, ...] = ()  # the model's task list, each id once
    memory: JsonValue = None  # data that tools keep between calls, no model sees it
    title: str | None = None  # the model's latest title for the conversation, None before the first
    # Input of the last response's request, including its cached part, after a compaction, the new length. 0
    # before the first.
    context_tokens: int = 0
    remembered: tuple[Remembered, ...] = ()  # the last messages that had a client id
    usage: TokenUsage = TokenUsage()  # of the whole session, never falls
    ledger: Ledger | None = (
        None  # None without a budget or a limited cycle, holds a reservation for each open request and each loan
    )
    # Children of calls and tools, ended or not, whose spending has not been counted yet.
    loans: tuple[EffectId, ...] = ()
    # Children that running tools wait for, oldest first, empty without a ledger.
    wishes: tuple[ToolWantsChild, ...] = ()
    # Agents in the background. Every running one has an open effect.
    agents: Agents = NO_AGENTS
    acting: ActingAgent = ITSELF  # the agent that the session works as
    tokens: TokenCount = TokenCount()  # of the last request, if there is a ledger
    open: OpenEffects = NOTHING_OPEN  # the owner of each effect that owes an outcome: exactly those
    seq: int = 0  # number of the last committed event, rises by one with each
    minted: int = 0  # number of effect ids minted, never falls
    # All call ids so far, including those of the history, forgotten after a summary if there are many.
    call_ids: GrowingSet[CallId] = GrowingSet()
    dropped: int = 0  # late outcomes, except ephemeral ones, which the shell counts, never falls
    quarantined: int = 0  # signals that crashed the core, never falls
    incarnation: int = 1  # rises with each restart
    started_at_ms: int = 0  # when the actor first started
    semantics: int = 0  # version of the step's decisions, see `SEMANTICS`, never falls


class SessionData(_Fields, frozen=True, gc=False):  # type: ignore[misc]  # the draft has the same fields, and no others
    """The session's data between two steps, without its phase."""


class StepDraft(_Fields, gc=False):
    """The session's data within a step, without its phase. Its fields are written as decisions are made."""


Known: TypeAlias = SessionData | StepDraft
"""The session's data, for code that only reads."""


class SessionState(msgspec.Struct, frozen=True, gc=False):
    """The argument and the result of `step`: complete, so that a state can be kept, compared and returned to.

    Attributes:
        phase: The current phase.
        data: Everything else.
        postponed: Signals postponed to another phase, oldest first. At most `MAX_POSTPONED`, and none in IDLE.
        ended: Whether the session has ended and ignores every signal.
    """

    phase: Phase
    data: SessionData
    postponed: tuple[Signal, ...] = ()
    ended: bool = False

    @property
    def suspended(self) -> bool:
        """Whether its cycle waits for the user and for nothing else."""
        return self.phase is Phase.IDLE and self.data.cycle is not None
