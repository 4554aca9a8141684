"""The exceptions of agentrail, arranged by whose move it is. This is the door: each is imported from here.

    AgentrailError
    ├── YourMove                    the caller asked for something that cannot be: change the call
    │   ├── OptionError             an option of a session, provider or command
    │   │   ├── IdInvalid               an id that can be none; the message does not repeat it
    │   │   └── CursorAhead             a number of an event that does not exist yet; carries the last one
    │   ├── PromptError             an empty prompt, one that is too long, a block of unknown type
    │   ├── PlanError               a move that a step of a plan may not make, or text that is no plan
    │   ├── CommandError            a slash command that cannot be run as it was given
    │   │   └── UnknownCommand          there is none of this name; carries the nearest one
    │   ├── PromptQueueFull         as many prompts wait as are allowed
    │   ├── SteeringQueueFull       as many steers wait as are allowed
    │   ├── ClientIdReused          one name for two messages
    │   ├── CannotGoOn              nothing stands there for a model to answer, or the session is not idle
    │   ├── UnknownCall             no call of this id is open
    │   ├── UnknownTool             no tool of this name is there; carries those that are
    │   ├── InteractionError        a decision about something that does not wait
    │   │   ├── UnknownApproval         nothing of this id ever waited
    │   │   ├── ApprovalExpired         its time is over; carries since when
    │   │   ├── AlreadyResolved         it is decided; carries how, by whom, and when
    │   │   ├── UnknownRule             nothing always allows that, or not any more
    │   │   ├── InvalidArguments        edited arguments that the tool does not take
    │   │   ├── AnswerNotOffered        an approval that takes other answers
    │   │   └── InvalidResponse         an empty answer, an option that is none, or what does not fit the form
    │   ├── MailboxFull             as many messages wait as are allowed
    │   ├── AlreadyStarted          a live session of that id exists; carries its handle
    │   ├── CallingSelf             an actor, or a session's own tool, waits for itself
    │   ├── NoTrioRun               a call that waits, where no Trio runs
    │   ├── HoldsLoop               a call that blocks its thread, where a loop runs
    │   ├── ActorError              a call to an actor or a registry that cannot be
    │   │   ├── NoMailbox               it is a worker, and reads no messages
    │   │   ├── NotSuspended            its code can only be changed while it is suspended
    │   │   ├── AlreadyRegistered       the key has an owner; carries its handle
    │   │   ├── NotOwner                the value of a key is its owner's
    │   │   ├── RegistryClosed          the registry is gone, and all names with it
    │   │   ├── NoPartitions            there is no partition left to go to
    │   │   ├── PoolFull                as many jobs wait for a worker as are allowed
    │   │   ├── JobWithdrawn            the job was cancelled by its own caller
    │   │   └── WatcherTooSlow          a watcher that did not read; what it had is given first
    │   ├── SupervisorError         a call that a supervisor does not take as things stand
    │   │   ├── InvalidSpec             a child spec, a set of flags, or a call that the strategy does not know
    │   │   ├── AlreadyPresent          the id has a spec, and no process
    │   │   ├── ChildNotFound           no child has this id or handle
    │   │   ├── ChildRunning · ChildRestarting · ChildStuck     stop it first; its process may still be there
    │   │   ├── ChildStartFailed        the child did not start; carries the reason
    │   │   ├── WrongChildKey           an id, where children are known by their handles
    │   │   ├── TooManyChildren         as many children as are allowed
    │   │   ├── SupervisorStopping      it has begun to stop
    │   │   └── WouldDeadlock           the call would wait for the start or stop of its own caller
    │   ├── ToolDefinitionError     a function that cannot be made a tool
    │   ├── TypeFault               a Python type that no JSON Schema describes, or a value that is not of its type
    │   ├── PluginError             a plugin, or a stack of them, that cannot be loaded
    │   ├── SandboxError            a root that is missing, or no directory
    │   ├── ProcessRefused          a process that the sandbox did not start; `code` says why
    │   ├── ChildRefused            a session below this one that a tool cannot have
    │   ├── NotAStore               a file that is no store of sessions
    │   ├── StoreInUse              another process writes it; carries which
    │   ├── StoreTooNew             a newer version made it
    │   ├── SessionNotFound         the store has no session of this id; carries those that look like it
    │   ├── AlreadyExists           the store has a session of this id
    │   ├── StillNeeded             a fork, or another owner, needs what was to be deleted
    │   ├── Unrevivable             code that a stored session had is missing; carries what
    │   ├── JournalDrifted          newer code folds a stored session to other operations; carries record, operation, plugin
    │   ├── PrincipalMismatch       a message that names another tenant or user than the one that sends it
    │   ├── NotRemote               a call that takes code, or that a server has no command for
    │   ├── Unauthorized            a server does not know the token
    │   ├── SessionUnknown          no session of this id, as far as this caller may know
    │   ├── SessionIsChild          what only a root can do; carries the root's id
    │   ├── SessionBusy             a message that was to be refused while its session is at work
    │   ├── ProfileUnknown          a host has no profile of this id
    │   ├── ProfileMismatch         a session keeps the profile that it was created with; carries which
    │   ├── RequestUnknown          a session has no request of this id, or not any more
    │   ├── RequestOver             a request that has ended already
    │   ├── AttachmentInvalid       what came as a file with a message is none; carries which
    │   ├── AttachmentsUnsupported  a session has no place for the files of a message
    │   ├── FilesUnsupported        a session has no workspace whose files can be read
    │   ├── FileUnknown             there is no such file in a workspace, or it may not be read
    │   ├── WebhookInvalid          an address that no webhook may be sent to
    │   ├── WebhooksOff             an address for a webhook, where a host sends none
    │   ├── QuotaReached            a caller has as much open as it may: sessions, or webhooks that are not taken
    │   ├── DayBudgetSpent          a caller, or all of their tenant, have spent what they may in a day; carries when it is free again
    │   ├── TooLarge                more came at once than a host takes
    │   ├── CodecError              a text that is no event, signal or state, or a state that no text can hold; says where
    │   └── SubscriberTooSlow       a subscriber that did not read; carries the number to resume after
    ├── ToolContractError           the tool's author: it returned what a tool may not return
    ├── ProviderError               the vendor, the network, or the key; one class per row of the error table
    │   ├── RateLimited · Overloaded · Transport · Timeout · StreamTimeout · ProtocolError
    │   └── Authentication · ModelNotFound · ContextWindowExceeded · ContentRefused · BadRequest
    ├── CycleEnded                  how a cycle ended that a caller waited for
    │   ├── CycleAborted · CycleFailed
    │   ├── EventMissed             it finished before the event that was waited for
    │   ├── CycleWaiting            it waits for users, and no user can answer; carries what waits
    │   └── ReplyTimeout            it has not ended yet; the session goes on
    ├── QuestionDeclined            no one's move: the user does not want to answer what a tool asked
    ├── SessionDown                 no one's move: the session has ended, `reason` says how
    │   ├── SessionRested               it was put to rest, and goes on when it is woken
    │   └── SupervisorClosed            its supervisor, which other threads call, was closed, or its Trio run has crashed
    ├── SessionRefused              no one's move: a plugin did not let it begin, `reason` says why
    ├── ActorDown                   no one's move: the actor has ended without an answer; carries handle and reason
    ├── CallTimeout                 no one's move: no answer in time; the work goes on
    ├── JobGivenUp                  no one's move: the job brought down worker after worker; carries how many, and the reason
    ├── PoolStopped                 no one's move: the pool ended before the job was done; carries the reason
    ├── SupervisorStartFailed       a child did not start; carries its id and the reason
    ├── SupervisorGaveUp            it had to restart too often, or was killed; carries the reason
    ├── StoreError                  what becomes of sessions that a store cannot keep as they are
    │   ├── StoreUnavailable            no one's move: it takes no records now; all goes on when it is back
    │   │   └── StopNotWritten          no one's move: the work was stopped; that is written when the store is back
    │   ├── HeldBy                      another node owns the session; carries which, and its address
    │   ├── Fenced                      another owner has taken it over; it lives on there
    │   ├── JournalCorrupt              a record is damaged; carries its number
    │   └── Erased · Trimmed            what was asked for was removed on purpose, or to save space
    ├── RequestRefused              a host plugin does not let a request pass; carries status, code and headers
    ├── PromptRefused               no one's move: a session plugin does not want this prompt; carries why
    ├── RemoteRefused               a server refused a call for a reason of its own; carries code, status and hint
    ├── Unreachable                 no server answered in time
    ├── HostDraining                no one's move: the host is being closed
    ├── HookTimeout                 a hook of a host plugin did not come to an end in its time
    ├── UploadFailed                the files of a message could not be put into a workspace; the cause says why
    ├── ProfileFailed               a profile of a host gives no options; the cause says why
    ├── HistoryError                ours: our code tried to build a conversation that no provider would take
    └── InternalError               ours: a bug; the session put the signal aside and went on

Each has a `code`, which is unlike all others and stays. What is published or journaled holds no exception object: there an
error is an `ErrorInfo` with that code.
"""

from agentrail.errors.actors import (
    ActorDown as ActorDown,
    ActorError as ActorError,
    AlreadyPresent as AlreadyPresent,
    AlreadyRegistered as AlreadyRegistered,
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
from agentrail.errors.base import (
    AgentrailError as AgentrailError,
    YourMove as YourMove,
)
from agentrail.errors.host import (
    AttachmentInvalid as AttachmentInvalid,
    AttachmentsUnsupported as AttachmentsUnsupported,
    DayBudgetSpent as DayBudgetSpent,
    FilesUnsupported as FilesUnsupported,
    FileUnknown as FileUnknown,
    HookTimeout as HookTimeout,
    HostDraining as HostDraining,
    IdInvalid as IdInvalid,
    PrincipalMismatch as PrincipalMismatch,
    ProfileFailed as ProfileFailed,
    ProfileMismatch as ProfileMismatch,
    ProfileUnknown as ProfileUnknown,
    PromptRefused as PromptRefused,
    QuotaReached as QuotaReached,
    RequestOver as RequestOver,
    RequestRefused as RequestRefused,
    RequestUnknown as RequestUnknown,
    SessionBusy as SessionBusy,
    SessionIsChild as SessionIsChild,
    SessionUnknown as SessionUnknown,
    TooLarge as TooLarge,
    UploadFailed as UploadFailed,
    WebhookInvalid as WebhookInvalid,
    WebhooksOff as WebhooksOff,
)
from agentrail.errors.info import (
    ErrorInfo as ErrorInfo,
)
from agentrail.errors.places import (
    HoldsLoop as HoldsLoop,
    NoTrioRun as NoTrioRun,
)
from agentrail.errors.providers import (
    Authentication as Authentication,
    BadRequest as BadRequest,
    ContentRefused as ContentRefused,
    ContextWindowExceeded as ContextWindowExceeded,
    ModelNotFound as ModelNotFound,
    Overloaded as Overloaded,
    ProtocolError as ProtocolError,
    ProviderError as ProviderError,
    RateLimited as RateLimited,
    StreamTimeout as StreamTimeout,
    Timeout as Timeout,
    Transport as Transport,
)
from agentrail.errors.remote import (
    NotRemote as NotRemote,
    RemoteRefused as RemoteRefused,
    Unauthorized as Unauthorized,
    Unreachable as Unreachable,
)
from agentrail.errors.sessions import (
    AlreadyResolved as AlreadyResolved,
    AlreadyStarted as AlreadyStarted,
    AnswerNotOffered as AnswerNotOffered,
    ApprovalExpired as ApprovalExpired,
    CannotGoOn as CannotGoOn,
    ChildRefused as ChildRefused,
    ClientIdReused as ClientIdReused,
    CodecError as CodecError,
    CommandError as CommandError,
    CursorAhead as CursorAhead,
    CycleAborted as CycleAborted,
    CycleEnded as CycleEnded,
    CycleFailed as CycleFailed,
    CycleWaiting as CycleWaiting,
    EventMissed as EventMissed,
    HistoryError as HistoryError,
    InteractionError as InteractionError,
    InternalError as InternalError,
    InvalidArguments as InvalidArguments,
    InvalidResponse as InvalidResponse,
    OptionError as OptionError,
    PlanError as PlanError,
    PluginError as PluginError,
    ProcessRefused as ProcessRefused,
    PromptError as PromptError,
    PromptQueueFull as PromptQueueFull,
    QuestionDeclined as QuestionDeclined,
    ReplyTimeout as ReplyTimeout,
    SandboxError as SandboxError,
    SessionDown as SessionDown,
    SessionRefused as SessionRefused,
    SessionRested as SessionRested,
    SteeringQueueFull as SteeringQueueFull,
    SubscriberTooSlow as SubscriberTooSlow,
    SupervisorClosed as SupervisorClosed,
    ToolContractError as ToolContractError,
    ToolDefinitionError as ToolDefinitionError,
    TypeFault as TypeFault,
    UnknownApproval as UnknownApproval,
    UnknownCall as UnknownCall,
    UnknownCommand as UnknownCommand,
    UnknownRule as UnknownRule,
    UnknownTool as UnknownTool,
)
from agentrail.errors.stores import (
    AlreadyExists as AlreadyExists,
    Erased as Erased,
    Fenced as Fenced,
    HeldBy as HeldBy,
    JournalCorrupt as JournalCorrupt,
    JournalDrifted as JournalDrifted,
    NotAStore as NotAStore,
    SessionNotFound as SessionNotFound,
    StillNeeded as StillNeeded,
    StopNotWritten as StopNotWritten,
    StoreError as StoreError,
    StoreInUse as StoreInUse,
    StoreTooNew as StoreTooNew,
    StoreUnavailable as StoreUnavailable,
    Trimmed as Trimmed,
    Unrevivable as Unrevivable,
)
