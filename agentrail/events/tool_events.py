"""Events of tool calls, and of the set of tools.

Every call has exactly one `ToolExecutionStart` and `ToolExecutionEnd`, with its other events between them.
"""

from typing import Literal, TypeAlias

from msgspec.structs import force_setattr

from agentrail.errors import ErrorInfo
from agentrail.events.envelope import EventBase
from agentrail.frozen import frozen_json
from agentrail.messages import CallId, JsonObject, ToolResult


class ToolCalls(EventBase, frozen=True, kw_only=True):
    """The response contains tool calls.

    Attributes:
        count: Number of calls in the batch.
    """

    count: int


class ToolExecutionStart(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A call was cleared to run, or refused. One `ToolExecutionEnd` follows.

    Attributes:
        name: Name of the tool.
        call_id: Id of the call.
        arguments: The final arguments, frozen, empty if not a JSON object.
        effect_class: The tool's `effect_class`. None for an unknown tool.
    """

    name: str
    call_id: CallId
    arguments: JsonObject
    effect_class: str | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "arguments", frozen_json(self.arguments))


class ToolProgress(EventBase, frozen=True, kw_only=True):
    """A tool reports progress. Ephemeral.

    Attributes:
        name: Name of the tool.
        call_id: Id of the call.
        text: The progress message.
    """

    name: str
    call_id: CallId
    text: str


class ToolExecutionEnd(EventBase, frozen=True, kw_only=True):
    """A call has a result.

    Attributes:
        name: Name of the tool.
        call_id: Id of the call.
        result: Result for the model, with `details` for users.
    """

    name: str
    call_id: CallId
    result: ToolResult


class ToolExecutionMetrics(EventBase, frozen=True, kw_only=True):
    """Duration of an executed call.

    Attributes:
        name: Name of the tool.
        call_id: Id of the call.
        started_at_ms: Start time, in milliseconds since 1970.
        ended_at_ms: End time, in milliseconds since 1970.
        duration_ms: Time between the two, in milliseconds.
        attempts: Number of attempts.
    """

    name: str
    call_id: CallId
    started_at_ms: int
    ended_at_ms: int
    duration_ms: int
    attempts: int = 1


class ToolBlocked(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A policy blocked the call. The model receives the reason.

    Attributes:
        name: Name of the tool.
        call_id: Id of the call.
        reason: Reason shown to the model.
        by: Name of the plugin that blocked it.
        approved: Whether a user had approved it. No approval overrides a guard.
    """

    name: str
    call_id: CallId
    reason: str
    by: str
    approved: bool = False


class ToolKilled(EventBase, frozen=True, kw_only=True):
    """A running call was stopped. Its result is already published.

    Attributes:
        name: Name of the tool.
        call_id: Id of the call.
        reason: Reason of the stop.
    """

    name: str
    call_id: CallId
    reason: str


class ToolSkippedForSteering(EventBase, frozen=True, kw_only=True):
    """A steer stopped a call, or kept it from starting.

    Attributes:
        name: Name of the tool.
        call_id: Id of the call.
        reason: Reason shown to the model.
    """

    name: str
    call_id: CallId
    reason: str


class ToolTookEffect(EventBase, frozen=True, kw_only=True):
    """A stopped call's tool still returned a value, after `ToolExecutionEnd`.

    Attributes:
        name: Name of the tool.
        call_id: Id of the call.
        result: Result that replaces the earlier one for the model.
    """

    name: str
    call_id: CallId
    result: ToolResult


class ToolRetry(EventBase, frozen=True, kw_only=True):
    """A call raised and is retried after a pause.

    Attributes:
        name: Name of the tool.
        call_id: Id of the call.
        attempt: The failed attempt, from 1.
        error: The error, as text.
    """

    name: str
    call_id: CallId
    attempt: int
    error: ErrorInfo


class ToolCallUnknown(EventBase, frozen=True, kw_only=True):
    """The model called a tool that does not exist.

    Attributes:
        name: The unknown tool name.
        call_id: Id of the call.
    """

    name: str
    call_id: CallId


class ToolAttached(EventBase, frozen=True, kw_only=True):
    """A tool was added. The next request includes it.

    Attributes:
        name: Name of the tool.
    """

    name: str


class ToolDetached(EventBase, frozen=True, kw_only=True):
    """A tool was removed. Running calls continue.

    Attributes:
        name: Name of the tool.
    """

    name: str


class ToolsUpdated(EventBase, frozen=True, kw_only=True):
    """A change to the set of tools is complete.

    Attributes:
        attached: Names of the added tools.
        detached: Names of the removed tools.
    """

    attached: tuple[str, ...] = ()
    detached: tuple[str, ...] = ()


ToolSourceState: TypeAlias = Literal[
    "connecting", "ready", "restarting", "parked", "needs_login", "changed", "closed"
]
"""State of a tool source.

- `connecting`: it is starting.
- `ready`: its tools are available.
- `restarting`: it disconnected and is reconnecting.
- `parked`: it disconnected too often, and its tools are removed until an operator acts.
- `needs_login`: a user must log in.
- `changed`: its tools differ from before, or one of them has changed.
- `closed`: it has ended.
"""


class ToolSourceChanged(EventBase, frozen=True, kw_only=True):
    """The state of a tool source, such as a server, changed. `ToolsUpdated` lists the tools.

    Attributes:
        source: Name of the source.
        state: The new state.
        reason: Explanation for users, or None.
    """

    source: str
    state: ToolSourceState
    reason: str | None = None


class LoopDetected(EventBase, frozen=True, kw_only=True):
    """The model repeats itself.

    Attributes:
        type: Repeated identical calls, or a file that keeps returning to an earlier content. The model gets a note, or the cycle ends.
        name: Name of the tool.
        count: Number of repetitions.
    """

    type: Literal["repeat_pattern", "file_loop_warn", "file_loop_abort"]
    name: str
    count: int


class LargeResultOffloaded(EventBase, frozen=True, kw_only=True):
    """A result too large for the model is in a file. The model gets its beginning and how to read on.

    Attributes:
        name: Name of the tool.
        call_id: Id of the call.
        path: Path of the file in the workspace.
        bytes: Size of the result, in bytes.
    """

    name: str
    call_id: CallId
    path: str
    bytes: int


ToolEvent: TypeAlias = (
    ToolCalls
    | ToolExecutionStart
    | ToolProgress
    | ToolExecutionEnd
    | ToolExecutionMetrics
    | ToolBlocked
    | ToolKilled
    | ToolSkippedForSteering
    | ToolTookEffect
    | ToolRetry
    | ToolCallUnknown
    | ToolAttached
    | ToolDetached
    | ToolsUpdated
    | ToolSourceChanged
    | LoopDetected
    | LargeResultOffloaded
)
