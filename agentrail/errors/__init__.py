"""The exceptions of agentrail, arranged by who can act. Import each of them from this package.

    AgentrailError
    ├── YourMove                    the caller's request is invalid: change the call
    │   ├── OptionError             an option of a session, provider or command
    │   │   ├── IdInvalid               an invalid id; the message does not repeat it
    │   │   └── CursorAhead             an event number that does not exist yet; carries the last one
    │   ├── PromptError             an empty prompt, a prompt that is too long, a block of unknown type
    │   ├── PlanError               a status change that a plan step does not allow, or text that is not a plan
    │   ├── CommandError            a slash command with invalid arguments
    │   │   └── UnknownCommand          unknown slash command; carries the nearest one
    │   ├── PromptQueueFull         the prompt queue is full
    │   ├── SteeringQueueFull       the steering queue is full
    │   ├── ClientIdReused          one client id for two messages
    │   ├── CannotGoOn              the conversation has nothing for a model to answer, or the session is not idle
    │   ├── UnknownCall             no open call has this id
    │   ├── UnknownTool             unknown tool; carries the known ones
    │   ├── InteractionError        a rejected decision
    │   │   ├── UnknownApproval         no approval, question or client call ever had this id
    │   │   ├── ApprovalExpired         the deadline has passed; carries its time
    │   │   ├── AlreadyResolved         already decided; carries the decision, its author and its time
    │   │   ├── UnknownRule             no such rule, or already revoked
    │   │   ├── InvalidArguments        edited arguments that do not match the tool's parameters
    │   │   ├── AnswerNotOffered        an answer that the approval does not offer
    │   │   └── InvalidResponse         an empty answer, an unknown option, or a value that does not fit the form
    │   ├── MailboxFull             the actor's mailbox is full
    │   ├── AlreadyStarted          a live session has this id; carries its handle
    │   ├── CallingSelf             an actor, or a session's own tool, waits for itself
    │   ├── NoTrioRun               a call that waits, outside a Trio run
    │   ├── HoldsLoop               a blocking call in a thread that runs an event loop
    │   ├── ActorError              a call that an actor or a registry rejects
    │   │   ├── NoMailbox               it is a worker, and reads no messages
    │   │   ├── NotSuspended            its code can only be changed while it is suspended
    │   │   ├── AlreadyRegistered       the key has an owner; carries its handle
    │   │   ├── NotOwner                only the owner of a key can change its value
    │   │   ├── RegistryClosed          the registry is closed and its names are released
    │   │   ├── NoPartitions            the pool of partitions is empty
    │   │   ├── PoolFull                the pool's queue is full
    │   │   ├── JobWithdrawn            the job was cancelled by its own caller
    │   │   └── WatcherTooSlow          a watcher that did not read; buffered updates are delivered first
    │   ├── SupervisorError         a call that a supervisor rejects in its current state
    │   │   ├── InvalidSpec             a child spec, a set of flags, or a call that does not fit the strategy
    │   │   ├── AlreadyPresent          the id has a spec, but no process
    │   │   ├── ChildNotFound           no child has this id or handle
    │   │   ├── ChildRunning · ChildRestarting · ChildStuck     stop it first; its process may still exist
    │   │   ├── ChildStartFailed        the child did not start; carries the reason
    │   │   ├── WrongChildKey           an id, where children are identified by handle
    │   │   ├── TooManyChildren         the supervisor has `max_children` children
    │   │   ├── SupervisorStopping      the supervisor is stopping
    │   │   └── WouldDeadlock           the call would wait for the start or stop of its own caller
    │   ├── ToolDefinitionError     a function that cannot be made a tool
    │   ├── TypeFault               a Python type without a JSON Schema, or a value of the wrong type
    │   ├── PluginError             a plugin, or a stack of plugins, that cannot be loaded
    │   ├── SandboxError            a root that is missing or not a directory
    │   ├── ProcessRefused          a process that the sandbox did not start; `code` has the reason
    │   ├── ChildRefused            a child session that a tool cannot start
    │   ├── NotAStore               a file that is not an agentrail store
    │   ├── StoreInUse              another process writes to the store; carries its id
    │   ├── StoreTooNew             a newer version created the store
    │   ├── SessionNotFound         the store has no session of this id; carries similar ids
    │   ├── AlreadyExists           the store has a session of this id
    │   ├── StillNeeded             a fork, or another owner, depends on the session to delete
    │   ├── Unrevivable             code of a stored session is missing; carries its names
    │   ├── JournalDrifted          newer code replays a journal to other operations; carries record, operation, plugin
    │   ├── PrincipalMismatch       a message that names a different tenant or user than its sender
    │   ├── NotRemote               a call that takes code, or that a server has no command for
    │   ├── Unauthorized            a server does not accept the token
    │   ├── SessionUnknown          unknown session id, or another owner's
    │   ├── SessionIsChild          an operation for root sessions only; carries the root's id
    │   ├── SessionBusy             a message that asked to be refused while its session is busy
    │   ├── ProfileUnknown          unknown profile id
    │   ├── ProfileMismatch         a session keeps the profile that it was created with; carries its id
    │   ├── RequestUnknown          unknown request id, or a request that the session has forgotten
    │   ├── RequestOver             a request that has already ended
    │   ├── AttachmentInvalid       an attachment that is not a valid file; carries its position
    │   ├── AttachmentsUnsupported  a session without a workspace for attachments
    │   ├── FilesUnsupported        a session without a workspace whose files can be read
    │   ├── FileUnknown             no such file in the workspace, or not readable
    │   ├── WebhookInvalid          an address that no webhook can be sent to
    │   ├── WebhooksOff             a webhook address, on a host that sends none
    │   ├── QuotaReached            a caller has reached a limit on open resources: sessions, or undelivered webhooks
    │   ├── DayBudgetSpent          the daily budget of a caller or tenant is spent; carries the time until the next day
    │   ├── TooLarge                the input exceeds the host's limit
    │   ├── CodecError              a text that is not an event, signal or state, or a state without a JSON form; carries the place
    │   └── SubscriberTooSlow       a subscriber that did not read; carries the number to resume after
    ├── ToolContractError           the tool's author: it returned an invalid result
    ├── ProviderError               the vendor, the network, or the key; one class per row of the error table
    │   ├── RateLimited · Overloaded · Transport · Timeout · StreamTimeout · ProtocolError
    │   └── Authentication · ModelNotFound · ContextWindowExceeded · ContentRefused · BadRequest
    ├── CycleEnded                  the cycle ended without the reply that a caller waited for
    │   ├── CycleAborted · CycleFailed
    │   ├── EventMissed             it finished before the expected event
    │   ├── CycleWaiting            it waits for users, and no user can answer; carries the pending requests
    │   └── ReplyTimeout            it has not ended yet; the session continues
    ├── QuestionDeclined            no one's move: the user declined to answer a tool's question
    ├── SessionDown                 no one's move: the session has ended; `reason` says how
    │   ├── SessionRested               it was put to rest, and continues when it is woken
    │   └── SupervisorClosed            its supervisor, used from other threads, was closed, or its Trio run crashed
    ├── SessionRefused              no one's move: a plugin prevented its start; `reason` says why
    ├── ActorDown                   no one's move: the actor ended without an answer; carries handle and reason
    ├── CallTimeout                 no one's move: no answer in time; the work continues
    ├── JobGivenUp                  no one's move: the job crashed worker after worker; carries their number and the reason
    ├── PoolStopped                 no one's move: the pool ended before the job was done; carries the reason
    ├── SupervisorStartFailed       a child did not start; carries its id and the reason
    ├── SupervisorGaveUp            it reached its restart limit, or was killed; carries the reason
    ├── StoreError                  sessions that a store cannot keep as they are
    │   ├── StoreUnavailable            no one's move: it accepts no records now; work continues when it is back
    │   │   └── StopNotWritten          no one's move: the work was stopped; the stop is recorded when the store is back
    │   ├── HeldBy                      another node owns the session; carries its name and address
    │   ├── Fenced                      another owner has taken the session over, and runs it
    │   ├── JournalBehind               the store lost records that it had acknowledged; carries both numbers
    │   ├── JournalCorrupt              a record is damaged; carries its number
    │   └── Erased · Trimmed            the content was removed on purpose, or to save space
    ├── RequestRefused              a host plugin rejects a request; carries status, code and headers
    ├── PromptRefused               no one's move: a session plugin rejects this prompt; carries the reason
    ├── RemoteRefused               a server refused a call for a reason of its own; carries code, status and hint
    ├── Unreachable                 no server answered in time
    ├── HostDraining                no one's move: the host is shutting down
    ├── HookTimeout                 a hook of a host plugin exceeded its time limit
    ├── UploadFailed                the attachments could not be written to a workspace; `__cause__` has the error
    ├── ProfileFailed               a profile of a host returned no options; `__cause__` has the error
    ├── HistoryError                ours: our code tried to build a conversation that no provider would accept
    └── InternalError               ours: a bug; the session set the signal aside and continued

Each class has a unique, stable `code`. Published and journaled records hold no exception objects but an `ErrorInfo` with that code.
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
    JournalBehind as JournalBehind,
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
from agentrail.errors.wrong_context import (
    HoldsLoop as HoldsLoop,
    NoTrioRun as NoTrioRun,
)
