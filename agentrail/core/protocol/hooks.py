"""The lifecycle events that plugins see: fourteen hook events, and `RequestDone` for a plugin that made a request."""

from typing import Final, Literal, TypeAlias, get_args

from msgspec.structs import force_setattr

from agentrail.core.values.instruction_order import InstructionFile
from agentrail.core.values.notes_markdown import NoteTopic
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
    """Base of the fourteen. Their encoded form names their class."""


class SessionStarted(_LifecycleBase, frozen=True, kw_only=True):
    """The session has started, before its first prompt.

    Attributes:
        recovered: Whether it was restored from its journal.
    """

    recovered: bool = False


class SessionEnding(_LifecycleBase, frozen=True, kw_only=True):
    """The session ends normally."""


class AfterTurn(_LifecycleBase, frozen=True, kw_only=True):
    """A cycle has finished or failed, right before the return to idle. Also called for an abort without a cycle.

    Attributes:
        outcome: `finished` or `aborted`. A cycle that failed is aborted too.
        abort_reason: The reason of an abort or a failure, otherwise None.
        messages_diff: The messages that the cycle added.
        usage_diff: Usage of the cycle.
        started_at_ms: When its prompt started.
        ended_at_ms: When it ended.
        duration_ms: Time between the two, in milliseconds.
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
    """A request is about to be sent to a model.

    Attributes:
        messages: The messages as they will be sent.
    """

    messages: tuple[Message, ...] = ()


class AfterResponse(_LifecycleBase, frozen=True, kw_only=True):
    """A response is complete.

    Attributes:
        message: The model's message, including its calls.
    """

    message: AssistantMessage


class BeforeTool(_LifecycleBase, frozen=True, kw_only=True):
    """One call is about to run.

    Attributes:
        name: The tool.
        arguments: As changed by earlier plugins. Read-only.
        call_id: The call.
    """

    name: str
    arguments: JsonObject
    call_id: CallId

    def __post_init__(self) -> None:
        """Freeze the arguments: every plugin sees the same object."""
        force_setattr(self, "arguments", frozen_json(self.arguments))


class OnToolError(_LifecycleBase, frozen=True, kw_only=True):
    """A tool raised, and is about to be retried.

    Attributes:
        name: The tool.
        call_id: The call.
        error: The error that it raised.
        attempt: Number of the pending retry, from 1.
    """

    name: str
    call_id: CallId
    error: ErrorInfo
    attempt: int


class AfterTool(_LifecycleBase, frozen=True, kw_only=True):
    """One call has ended.

    Attributes:
        name: The tool.
        call_id: The call.
        result: As changed by earlier plugins.
    """

    name: str
    call_id: CallId
    result: ToolResult


class AfterToolBatch(_LifecycleBase, frozen=True, kw_only=True):
    """All calls of a batch have ended.

    Attributes:
        results: In the order of the calls.
    """

    results: tuple[ToolResult, ...]


class BeforeFinish(_LifecycleBase, frozen=True, kw_only=True):
    """The final answer is about to be returned."""


class BeforeCompact(_LifecycleBase, frozen=True, kw_only=True):
    """The conversation is about to be compacted.

    Attributes:
        messages: The messages that a summary would replace.
    """

    messages: tuple[Message, ...] = ()


class BeforeSteering(_LifecycleBase, frozen=True, kw_only=True):
    """A steer is about to be queued.

    Attributes:
        text: Its text.
    """

    text: str


class BeforePluginOptsUpdate(_LifecycleBase, frozen=True, kw_only=True):
    """The options of another plugin are about to change.

    Attributes:
        plugin: Its name.
        options: The new ones. Read-only.
    """

    plugin: str
    options: JsonObject

    def __post_init__(self) -> None:
        force_setattr(self, "options", frozen_json(self.options))


# --- results of a plugin's requests


class FileText(TaggedValue, frozen=True, kw_only=True):
    """The answer to `ReadFile`.

    Attributes:
        path: As requested.
        text: Its content. None if there is no such file, which is an answer and not a failure.
    """

    path: str
    text: str | None


class FileWritten(TaggedValue, frozen=True, kw_only=True):
    """The answer to `WriteFile`.

    Attributes:
        path: As requested.
        written_bytes: Number of bytes written.
    """

    path: str
    written_bytes: int


class ModelAnswer(TaggedValue, frozen=True, kw_only=True):
    """The answer to `CallModel`.

    Attributes:
        text: The model's text.
        usage: Its usage, which the session has already counted.
    """

    text: str
    usage: TokenUsage = TokenUsage()


# `words_only` came later, and is omitted if empty.
class Found(TaggedValue, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `Search`.

    Attributes:
        entries: JSON values, the best match first.
        words_only: Why a requested search by meaning compared only words. Empty if meanings were compared, or were
            not requested.
    """

    entries: tuple[JsonValue, ...]
    words_only: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "entries", tuple(map(frozen_value, self.entries)))


class MemoryKept(TaggedValue, frozen=True, kw_only=True):
    """The answer to `KeepMemory`.

    Attributes:
        entry_id: As requested.
    """

    entry_id: str


class NotesIndex(TaggedValue, frozen=True, kw_only=True):
    """The answer to `ReadNotes` and to `WriteNotes`.

    Attributes:
        topics: All topics, in the order of the file.
        added: The facts that were new.
    """

    topics: tuple[NoteTopic, ...] = ()
    added: tuple[str, ...] = ()


class UnreadInstructions(Value, frozen=True, kw_only=True):
    """An instruction file for agents that exists, or may exist, and could not be read.

    Attributes:
        path: The path as the model would read it.
        reason: For users.
    """

    path: str
    reason: str


class InstructionsFound(TaggedValue, frozen=True, kw_only=True):
    """The answer to `ReadInstructions`.

    Attributes:
        files: The files that are not empty, the farthest first: the user's, then from the root of the repository
            downwards.
        unread: The files that could not be read.
    """

    files: tuple[InstructionFile, ...] = ()
    unread: tuple[UnreadInstructions, ...] = ()


class RequestFailed(TaggedValue, frozen=True, kw_only=True):
    """The answer to a request that failed.

    Attributes:
        error: Why. The code is `budget_exceeded` if the session could not pay for a `CallModel`.
        usage: The usage of a model anyway. None if it broke off, and its usage is unknown.
    """

    error: ErrorInfo
    usage: TokenUsage | None = TokenUsage()


RequestResult: TypeAlias = (
    FileText | FileWritten | ModelAnswer | Found | InstructionsFound | MemoryKept | NotesIndex | RequestFailed
)


class RequestDone(Value, frozen=True, kw_only=True):
    """This plugin's `Request` has finished. No other plugin sees this event.

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
"""A hook, identified by the class of its event."""

HOOKS: Final[tuple[type[Lifecycle], ...]] = get_args(Lifecycle)
"""The fourteen, in the order of the documentation."""
