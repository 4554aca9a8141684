"""What a session publishes: one frozen class per kind, one closed union. Data only: no live object, no presentation.

*Committed* events have a number of their own, dense and rising per session. *Ephemeral* ones (`EPHEMERAL`) carry the
number of the committed event before them; they are never replayed, and whatever they said is in the committed event
that follows. `Envelope` says everything about an event but the event itself; subscribers find it in `event.meta`.

This is the door: everybody else imports from here, whichever file a kind stands in.
"""

from agentrail.events.envelope import (
    Envelope as Envelope,
    EventBase as EventBase,
)
from agentrail.events.people import (
    ApprovalRequired as ApprovalRequired,
    ApprovalResolved as ApprovalResolved,
    AskUser as AskUser,
    ClientCall as ClientCall,
    CompactDue as CompactDue,
    CompactEnd as CompactEnd,
    CompactSkipped as CompactSkipped,
    CompactStart as CompactStart,
    SkipReason as SkipReason,
    SteeringApplied as SteeringApplied,
    SteeringReceived as SteeringReceived,
    SteerStatus as SteerStatus,
    ToolApprovedAlways as ToolApprovedAlways,
    UserDeclined as UserDeclined,
    UserResponded as UserResponded,
)
from agentrail.events.plan_markdown import (
    CHECKBOX as CHECKBOX,
    STEP_MARKS as STEP_MARKS,
    decode_plan as decode_plan,
    encode_plan as encode_plan,
    read_steps as read_steps,
)
from agentrail.events.plans import (
    MOVES as MOVES,
    Plan as Plan,
    PlanProgress as PlanProgress,
    PlanStatus as PlanStatus,
    PlanStep as PlanStep,
    may_move as may_move,
)
from agentrail.events.plugins import (
    ActionIgnored as ActionIgnored,
    BudgetWarning as BudgetWarning,
    ContentPolicyViolated as ContentPolicyViolated,
    Intervention as Intervention,
    MemoryFlushed as MemoryFlushed,
    PlanCompleted as PlanCompleted,
    PlanGenerated as PlanGenerated,
    PlanStepCompleted as PlanStepCompleted,
    PluginEvent as PluginEvent,
    PluginFailed as PluginFailed,
    PluginOptsUpdated as PluginOptsUpdated,
    PluginSlow as PluginSlow,
    TodoChange as TodoChange,
)
from agentrail.events.response import (
    ContextOverflow as ContextOverflow,
    MessageDelta as MessageDelta,
    MessageStart as MessageStart,
    ModelSwitched as ModelSwitched,
    RequestStart as RequestStart,
    ResponseComplete as ResponseComplete,
    Retry as Retry,
    StatusUpdate as StatusUpdate,
    StreamError as StreamError,
    StreamStalled as StreamStalled,
    ThinkingDelta as ThinkingDelta,
    ThinkingStart as ThinkingStart,
    TitleGenerated as TitleGenerated,
)
from agentrail.events.session import (
    AbortSettled as AbortSettled,
    AgentAbort as AgentAbort,
    AgentChanged as AgentChanged,
    AgentEnd as AgentEnd,
    AgentError as AgentError,
    AgentResumed as AgentResumed,
    AgentStart as AgentStart,
    AgentSuspended as AgentSuspended,
    EndReason as EndReason,
    EventsLost as EventsLost,
    MaxTurnsReached as MaxTurnsReached,
    PromptDropped as PromptDropped,
    PromptQueued as PromptQueued,
    PromptReceived as PromptReceived,
    PromptRejected as PromptRejected,
    PromptTaken as PromptTaken,
    ResumeTrigger as ResumeTrigger,
    SessionEnd as SessionEnd,
    SessionParked as SessionParked,
    SessionRecovered as SessionRecovered,
    SessionRestarted as SessionRestarted,
    SessionStart as SessionStart,
    SignalQuarantined as SignalQuarantined,
)
from agentrail.events.tools import (
    LargeResultOffloaded as LargeResultOffloaded,
    LoopDetected as LoopDetected,
    ToolAttached as ToolAttached,
    ToolBlocked as ToolBlocked,
    ToolCalls as ToolCalls,
    ToolCallUnknown as ToolCallUnknown,
    ToolDetached as ToolDetached,
    ToolExecutionEnd as ToolExecutionEnd,
    ToolExecutionMetrics as ToolExecutionMetrics,
    ToolExecutionStart as ToolExecutionStart,
    ToolKilled as ToolKilled,
    ToolProgress as ToolProgress,
    ToolRetry as ToolRetry,
    ToolSkippedForSteering as ToolSkippedForSteering,
    ToolSourceChanged as ToolSourceChanged,
    ToolSourceState as ToolSourceState,
    ToolsUpdated as ToolsUpdated,
)
from agentrail.events.union import (
    EPHEMERAL as EPHEMERAL,
    KINDS as KINDS,
    SECTIONS as SECTIONS,
    TERMINAL as TERMINAL,
    Event as Event,
    SubagentEnd as SubagentEnd,
    SubagentEvent as SubagentEvent,
    SubagentStart as SubagentStart,
    UnknownEvent as UnknownEvent,
    kind_of as kind_of,
)
from agentrail.events.values import (
    PERMISSION_OPTIONS as PERMISSION_OPTIONS,
    AbortReceipt as AbortReceipt,
    Amount as Amount,
    Approval as Approval,
    ApprovalStatus as ApprovalStatus,
    ChildReceipt as ChildReceipt,
    DecidedBy as DecidedBy,
    LeftBehind as LeftBehind,
    PendingClientCall as PendingClientCall,
    PermissionOption as PermissionOption,
    Question as Question,
    RecoveryDecision as RecoveryDecision,
    Todo as Todo,
    TodoStatus as TodoStatus,
    WaitingFor as WaitingFor,
)
