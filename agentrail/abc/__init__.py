"""The ports: interfaces between a session and its adapters.

Test an implementation with the port's `check_…` function in `agentrail.testing`.
"""

from agentrail.abc.background import (
    MAX_BACKGROUND_COMMANDS as MAX_BACKGROUND_COMMANDS,
    BackgroundCommand as BackgroundCommand,
    BackgroundCommands as BackgroundCommands,
)
from agentrail.abc.context import (
    MAX_CONTEXT_BYTES as MAX_CONTEXT_BYTES,
    AtEnd as AtEnd,
    ContextProvider as ContextProvider,
    ProviderContext as ProviderContext,
    TimedProvider as TimedProvider,
)
from agentrail.abc.embeddings import (
    MAX_EMBEDDED as MAX_EMBEDDED,
    Embedder as Embedder,
    VectorKeeper as VectorKeeper,
    VectorKnowledge as VectorKnowledge,
    VectorRecall as VectorRecall,
)
from agentrail.abc.host import (
    NO_HOST as NO_HOST,
    AfterToolHook as AfterToolHook,
    BeforeToolHook as BeforeToolHook,
    HostCall as HostCall,
    HostCallEnd as HostCallEnd,
    HostHooks as HostHooks,
    HostVerdict as HostVerdict,
)
from agentrail.abc.instructions import (
    FindInstructions as FindInstructions,
    InstructionFiles as InstructionFiles,
)
from agentrail.abc.knowledge import (
    ALL_DOCUMENTS as ALL_DOCUMENTS,
    EVERY_USER as EVERY_USER,
    DocumentFilter as DocumentFilter,
    Knowledge as Knowledge,
    KnowledgeBase as KnowledgeBase,
    KnowledgeDocument as KnowledgeDocument,
    KnowledgeStore as KnowledgeStore,
    Passage as Passage,
)
from agentrail.abc.notes import (
    Notes as Notes,
    NoteStore as NoteStore,
)
from agentrail.abc.process import (
    OpenServerProcess as OpenServerProcess,
    ProcessOptions as ProcessOptions,
    ProcessSandbox as ProcessSandbox,
    ServerProcess as ServerProcess,
    ToolProcess as ToolProcess,
)
from agentrail.abc.provider import (
    Capabilities as Capabilities,
    Profile as Profile,
    Provider as Provider,
    ProviderProfiles as ProviderProfiles,
    ResolveProfile as ResolveProfile,
    ResolveProvider as ResolveProvider,
    model_policy_of as model_policy_of,
)
from agentrail.abc.recall import (
    ANY_TAGS as ANY_TAGS,
    MAX_MEMORY_BYTES as MAX_MEMORY_BYTES,
    MAX_TAGS as MAX_TAGS,
    Forgotten as Forgotten,
    Memories as Memories,
    MemoryEntry as MemoryEntry,
    MemoryOwner as MemoryOwner,
    RecallStore as RecallStore,
    TagFilter as TagFilter,
)
from agentrail.abc.sandbox import (
    DirectoryEntry as DirectoryEntry,
    EditResult as EditResult,
    ExecuteOptions as ExecuteOptions,
    ExecuteResult as ExecuteResult,
    FileBytes as FileBytes,
    GlobResult as GlobResult,
    GrepLine as GrepLine,
    GrepOptions as GrepOptions,
    GrepResult as GrepResult,
    KeepsResultFiles as KeepsResultFiles,
    ListResult as ListResult,
    ReadResult as ReadResult,
    Refusal as Refusal,
    Sandbox as Sandbox,
    SnapshotSandbox as SnapshotSandbox,
    Transfer as Transfer,
    WriteResult as WriteResult,
)
from agentrail.abc.secret import (
    Secret as Secret,
)
from agentrail.abc.tool import (
    MAX_RESULT_BYTES as MAX_RESULT_BYTES,
    Done as Done,
    Error as Error,
    NotDone as NotDone,
    Ok as Ok,
    Reconciled as Reconciled,
    Tool as Tool,
    ToolListing as ToolListing,
    ToolOutcome as ToolOutcome,
    ToolUpdate as ToolUpdate,
    Unknown as Unknown,
    effect_class_of as effect_class_of,
    name_of as name_of,
    timeout_seconds_of as timeout_seconds_of,
)
from agentrail.abc.tool_context import (
    MAX_CLEANUP_SECONDS as MAX_CLEANUP_SECONDS,
    MAX_PAYLOAD_BYTES as MAX_PAYLOAD_BYTES,
    AskQuestion as AskQuestion,
    ChildRequest as ChildRequest,
    OpenProcess as OpenProcess,
    RunInThread as RunInThread,
    RunSession as RunSession,
    ToolContext as ToolContext,
    UserQuestion as UserQuestion,
)
from agentrail.abc.tool_images import (
    MAX_IMAGE_BYTES as MAX_IMAGE_BYTES,
    MAX_RESULT_IMAGES as MAX_RESULT_IMAGES,
)
from agentrail.abc.tool_source import (
    MakeToolSource as MakeToolSource,
    ToolListener as ToolListener,
    ToolServer as ToolServer,
    ToolSource as ToolSource,
    UserLogin as UserLogin,
)
from agentrail.abc.versions import (
    FileKeeper as FileKeeper,
    FileOutcome as FileOutcome,
    GetContent as GetContent,
    PutBack as PutBack,
    VersionedSandbox as VersionedSandbox,
)
from agentrail.core.journal.file_changes import (
    FileState as FileState,
    FileWrite as FileWrite,
    WantedFile as WantedFile,
)
from agentrail.core.policy.budget import Price as Price
from agentrail.core.protocol.request import (
    ModelFacts as ModelFacts,
    ModelRequest as ModelRequest,
)
from agentrail.core.protocol.tool_changes import (
    Change as Change,
    RequestCompaction as RequestCompaction,
    UpdateContext as UpdateContext,
    UpdateTodos as UpdateTodos,
)
from agentrail.core.protocol.tool_questions import (
    Resumption as Resumption,
    ToolQuestion as ToolQuestion,
)
