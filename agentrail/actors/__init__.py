"""OTP-style actors on Trio: supervisors restart crashed actors, and no actor outlives its block.

This package knows nothing about LLM agents. Import everything from here. `docs/reference/actors.md` is its reference.
The rules are in `agentrail.otp`, which runs without Trio. This package carries them out.

async with open_supervisor(SupervisorFlags("rest_for_one"), [ChildSpec("door", machine(Door))]) as supervisor:
    supervisor.handle("door").cast(("coin", 2))
    print(await supervisor.handle("door").call("total"))
"""

from agentrail.actors.actor_handle import (
    ActorContext as ActorContext,
    ActorHandle as ActorHandle,
    ExitSignal as ExitSignal,
    current_actor as current_actor,
)
from agentrail.actors.actor_registry import (
    Entry as Entry,
    Name as Name,
    Registered as Registered,
    Registry as Registry,
    RegistryEvent as RegistryEvent,
    Unregistered as Unregistered,
)
from agentrail.actors.actor_types import (
    IGNORE as IGNORE,
    Behaviour as Behaviour,
    Ignore as Ignore,
    InitStop as InitStop,
    MachineStatus as MachineStatus,
    Start as Start,
    machine as machine,
    worker as worker,
)
from agentrail.actors.address import Address as Address
from agentrail.actors.child_run import cleanup_scope as cleanup_scope
from agentrail.actors.child_watcher import (
    ChildDown as ChildDown,
    ChildEvent as ChildEvent,
    ChildGone as ChildGone,
    ChildRestarted as ChildRestarted,
    ChildUp as ChildUp,
    Watching as Watching,
    watch as watch,
)
from agentrail.actors.dead_letters import DeadLetters as DeadLetters, dead_letters as dead_letters
from agentrail.actors.introspection import (
    change_code as change_code,
    get_state as get_state,
    get_status as get_status,
    replace_state as replace_state,
    resume as resume,
    suspend as suspend,
)
from agentrail.actors.machine_loop import (
    SELF as SELF,
    CrashReport as CrashReport,
    Link as Link,
    Send as Send,
    Unlink as Unlink,
    Unwatch as Unwatch,
    Watch as Watch,
)
from agentrail.actors.mailbox import (
    LaneStatistics as LaneStatistics,
    MailboxStatistics as MailboxStatistics,
    Overflow as Overflow,
)
from agentrail.actors.monitor import (
    Down as Down,
    Monitor as Monitor,
    link as link,
    monitor as monitor,
    unlink as unlink,
)
from agentrail.actors.pool import Pool as Pool, PoolJob as PoolJob, open_pool as open_pool
from agentrail.actors.reply_slots import ReplyTo as ReplyTo
from agentrail.actors.supervisor_handle import (
    Supervisor as Supervisor,
    TaskHandle as TaskHandle,
    TaskResult as TaskResult,
)
from agentrail.actors.supervisor_scope import (
    Partitions as Partitions,
    SupervisorInit as SupervisorInit,
    open_partitions as open_partitions,
    open_supervisor as open_supervisor,
    subtree as subtree,
)
from agentrail.actors.tree_report import (
    TreeNode as TreeNode,
    render_tree as render_tree,
)
from agentrail.errors import (
    ActorDown as ActorDown,
    ActorError as ActorError,
    AlreadyPresent as AlreadyPresent,
    AlreadyRegistered as AlreadyRegistered,
    AlreadyStarted as AlreadyStarted,
    CallingSelf as CallingSelf,
    CallTimeout as CallTimeout,
    ChildNotFound as ChildNotFound,
    ChildRestarting as ChildRestarting,
    ChildRunning as ChildRunning,
    ChildStartFailed as ChildStartFailed,
    ChildStuck as ChildStuck,
    InvalidSpec as InvalidSpec,
    JobGivenUp as JobGivenUp,
    JobWithdrawn as JobWithdrawn,
    MailboxFull as MailboxFull,
    NoMailbox as NoMailbox,
    NoPartitions as NoPartitions,
    NotOwner as NotOwner,
    NotSuspended as NotSuspended,
    PoolFull as PoolFull,
    PoolStopped as PoolStopped,
    RegistryClosed as RegistryClosed,
    SupervisorError as SupervisorError,
    SupervisorGaveUp as SupervisorGaveUp,
    SupervisorStartFailed as SupervisorStartFailed,
    SupervisorStopping as SupervisorStopping,
    TooManyChildren as TooManyChildren,
    WatcherTooSlow as WatcherTooSlow,
    WouldDeadlock as WouldDeadlock,
    WrongChildKey as WrongChildKey,
)
from agentrail.otp.child_specs import (
    Backoff as Backoff,
    ChildSpec as ChildSpec,
    SupervisorFlags as SupervisorFlags,
    check_child_specs as check_child_specs,
)
from agentrail.otp.exits import (
    ActorExit as ActorExit,
    Crashed as Crashed,
    ExitReason as ExitReason,
    InitFailed as InitFailed,
    Killed as Killed,
    NoProcess as NoProcess,
    Normal as Normal,
    Shutdown as Shutdown,
    Stuck as Stuck,
    describe as describe,
    is_clean as is_clean,
)
from agentrail.otp.pool import PoolFlags as PoolFlags, PoolStatistics as PoolStatistics
from agentrail.otp.statem import (
    KEEP as KEEP,
    Call as Call,
    CancelTimer as CancelTimer,
    Cast as Cast,
    EventTimeout as EventTimeout,
    Hibernate as Hibernate,
    Info as Info,
    Init as Init,
    Internal as Internal,
    Keep as Keep,
    Limits as Limits,
    MachineEvent as MachineEvent,
    NamedTimeout as NamedTimeout,
    NextEvent as NextEvent,
    NextState as NextState,
    Perform as Perform,
    Postpone as Postpone,
    Repeat as Repeat,
    Reply as Reply,
    RequestFor as RequestFor,
    StateTimeout as StateTimeout,
    Stop as Stop,
    StopAndReply as StopAndReply,
    TimedOut as TimedOut,
    Transition as Transition,
    TransitionAction as TransitionAction,
    UpdateTimer as UpdateTimer,
)
from agentrail.otp.supervision_types import (
    ChildCounts as ChildCounts,
    ChildInfo as ChildInfo,
    Report as Report,
    Started as Started,
    StopSummary as StopSummary,
)
