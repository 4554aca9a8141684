"""The lifecycle events that plugins see: fourteen hook events, and `RequestDone` for a plugin that asked for something.

Values only. What a plugin may answer stands in `actions.py`, what its answer leads to in `pipeline.py`. They are
Structs and not attrs classes, because one is made for every hook of every turn that has a listener.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

from msgspec.structs import force_setattr

from agentrail.core.values.instructions import InstructionFile
from agentrail.core.values.notes import NoteTopic
from agentrail.errors import ErrorInfo
from agentrail.frozen import frozen_json, frozen_value
from agentrail.messages import (
    AssistantMessage,
    CallId,
    JsonObject,
    JsonValue,
    Message,
    TokenUsage,
    ToolResult,
    UserBlock,
)
from agentrail.structs import TaggedValue, Value


class _LifecycleBase(Value, frozen=True, tag_field="hook", tag=True):
    """What the fourteen share: where one is written down, its class is named."""


class SessionStarted(_LifecycleBase, frozen=True, kw_only=True):
    """The session is up, before its first prompt.

    Attributes:
        recovered: Whether it came back from its journal.
    """

    recovered: bool = False


class SessionEnding(_LifecycleBase, frozen=True, kw_only=True):
    """The session ends normally."""


class AfterTurn(_LifecycleBase, frozen=True, kw_only=True):
    """A cycle is over, well or not, right before the return to idle; an abort that met none is seen too.

    Attributes:
        outcome: `finished` or `aborted`; a cycle that failed is aborted too.
        abort_reason: Of an abort or a failure, else None.
        messages_diff: The messages that the cycle added.
        usage_diff: What it used.
        started_at_ms: When its prompt started.
        ended_at_ms: When it was over.
        duration_ms: What lies between.
    """

    outcome: Literal["finished", "aborted"]
    abort_reason: str | None = None
    messages_diff: tuple[Message, ...] = ()
    usage_diff: TokenUsage = TokenUsage()
    started_at_ms: int = 0
    ended_at_ms: int = 0
    duration_ms: int = 0


class BeforePrompt(_LifecycleBase, frozen=True, kw_only=True):
    """A user's prompt is about to start.

    Attributes:
        text: All of its text.
        content: Its blocks.
    """

    text: str
    content: tuple[UserBlock, ...] = ()


class BeforeRequest(_LifecycleBase, frozen=True, kw_only=True):
    """A model is about to be asked.

    Attributes:
        messages: As they will be sent.
    """

    messages: tuple[Message, ...] = ()


class AfterResponse(_LifecycleBase, frozen=True, kw_only=True):
    """A response is complete.

    Attributes:
        message: What the model said, its calls included.
    """

    message: AssistantMessage


class BeforeTool(_LifecycleBase, frozen=True, kw_only=True):
    """One call is about to run.

    Attributes:
        name: The tool.
        arguments: As left by the plugins that were asked before; read-only.
        call_id: The call.
    """

    name: str
    arguments: JsonObject
    call_id: CallId

    def __post_init__(self) -> None:
        """Freeze the arguments: every plugin is shown these very ones."""
        force_setattr(self, "arguments", frozen_json(self.arguments))


class OnToolError(_LifecycleBase, frozen=True, kw_only=True):
    """A tool raised, and is about to be tried again.

    Attributes:
        name: The tool.
        call_id: The call.
        error: What it raised.
        attempt: The retry that would come, from 1.
    """

    name: str
    call_id: CallId
    error: ErrorInfo
    attempt: int


class AfterTool(_LifecycleBase, frozen=True, kw_only=True):
    """One call is done.

    Attributes:
        name: The tool.
        call_id: The call.
        result: As left by the plugins that were asked before.
    """

    name: str
    call_id: CallId
    result: ToolResult


class AfterToolBatch(_LifecycleBase, frozen=True, kw_only=True):
    """All calls of a batch are done.

    Attributes:
        results: In the order of the calls.
    """

    results: tuple[ToolResult, ...]


class BeforeFinish(_LifecycleBase, frozen=True, kw_only=True):
    """The final answer is about to be returned."""


class BeforeCompact(_LifecycleBase, frozen=True, kw_only=True):
    """The conversation is about to be compacted.

    Attributes:
        messages: Those that would be replaced by a summary.
    """

    messages: tuple[Message, ...] = ()


class BeforeSteering(_LifecycleBase, frozen=True, kw_only=True):
    """A steer is about to be queued.

    Attributes:
        text: What it says.
    """

    text: str


class BeforePluginOptsUpdate(_LifecycleBase, frozen=True, kw_only=True):
    """The options of another plugin are about to change.

    Attributes:
        plugin: Its name.
        options: The new ones; read-only.
    """

    plugin: str
    options: JsonObject

    def __post_init__(self) -> None:
        """Freeze the options."""
        force_setattr(self, "options", frozen_json(self.options))


# --- what a plugin asked for


class FileText(TaggedValue, frozen=True, kw_only=True):
    """The answer to `ReadFile`.

    Attributes:
        path: As asked for.
        text: Its content; None when there is no such file, which is an answer and not a failure.
    """

    path: str
    text: str | None


class FileWritten(TaggedValue, frozen=True, kw_only=True):
    """The answer to `WriteFile`.

    Attributes:
        path: As asked for.
        written_bytes: How much was written.
    """

    path: str
    written_bytes: int


class ModelAnswer(TaggedValue, frozen=True, kw_only=True):
    """The answer to `CallModel`.

    Attributes:
        text: What the model said.
        usage: What it cost; the session has it in its sums already.
    """

    text: str
    usage: TokenUsage = TokenUsage()


# `words_only` came later, and is left out where it says nothing.
class Found(TaggedValue, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `Search`.

    Attributes:
        entries: JSON values, the best match first.
        words_only: Why no meanings were compared where that was wanted; empty where they were, or no one wanted it.
    """

    entries: tuple[JsonValue, ...]
    words_only: str = ""

    def __post_init__(self) -> None:
        """Freeze the entries."""
        force_setattr(self, "entries", tuple(map(frozen_value, self.entries)))


class MemoryKept(TaggedValue, frozen=True, kw_only=True):
    """The answer to `KeepMemory`.

    Attributes:
        entry_id: As asked for.
    """

    entry_id: str


class NotesIndex(TaggedValue, frozen=True, kw_only=True):
    """The answer to `ReadNotes` and to `WriteNotes`.

    Attributes:
        topics: All there are, in the order of the file.
        added: The facts that were not known.
    """

    topics: tuple[NoteTopic, ...] = ()
    added: tuple[str, ...] = ()


class UnreadInstructions(Value, frozen=True, kw_only=True):
    """A file for agents that is there, or may be, and could not be read.

    Attributes:
        path: As the model would read it.
        reason: For people.
    """

    path: str
    reason: str


class InstructionsFound(TaggedValue, frozen=True, kw_only=True):
    """The answer to `ReadInstructions`.

    Attributes:
        files: Those that say something, the farthest first: the user's, then from the root of the repository downwards.
        unread: Those that could not be read.
    """

    files: tuple[InstructionFile, ...] = ()
    unread: tuple[UnreadInstructions, ...] = ()


class RequestFailed(TaggedValue, frozen=True, kw_only=True):
    """The answer when it could not be done.

    Attributes:
        error: Why; `budget_exceeded` where the session could not pay for a `CallModel`.
        usage: What a model used for it all the same; None: it broke off, and that is unknown.
    """

    error: ErrorInfo
    usage: TokenUsage | None = TokenUsage()


RequestResult: TypeAlias = (
    FileText | FileWritten | ModelAnswer | Found | InstructionsFound | MemoryKept | NotesIndex | RequestFailed
)


class RequestDone(Value, frozen=True, kw_only=True):
    """What this plugin asked for with `Request` is there. No other plugin sees it.

    Attributes:
        tag: As in the request.
        result: The answer of its effect, or `RequestFailed`.
    """

    tag: str
    result: RequestResult


Lifecycle: TypeAlias = (
    SessionStarted
    | SessionEnding
    | AfterTurn
    | BeforePrompt
    | BeforeRequest
    | AfterResponse
    | BeforeTool
    | OnToolError
    | AfterTool
    | AfterToolBatch
    | BeforeFinish
    | BeforeCompact
    | BeforeSteering
    | BeforePluginOptsUpdate
)
HookEvent: TypeAlias = Lifecycle | RequestDone
Hook: TypeAlias = type[HookEvent]
"""A hook is named by the class of its event."""

HOOKS: Final[tuple[type[Lifecycle], ...]] = get_args(Lifecycle)
"""The fourteen, in the order of the documentation."""

WHEN: Final[Mapping[Hook, str]] = MappingProxyType(
    {hook: (hook.__doc__ or "").partition("\n")[0] for hook in (*HOOKS, RequestDone)}
)
"""What each hook event means, in a sentence."""
