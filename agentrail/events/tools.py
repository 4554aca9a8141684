"""Events of tool calls, and of the set of tools.

Every call that the model made gives exactly one pair of `ToolExecutionStart` and `ToolExecutionEnd`, whatever becomes of
it; what became of it stands between the two.
"""

from typing import Literal, TypeAlias

from msgspec.structs import force_setattr

from agentrail.errors import ErrorInfo
from agentrail.events.envelope import EventBase
from agentrail.frozen import frozen_json
from agentrail.messages import CallId, JsonObject, ToolResult


class ToolCalls(EventBase, frozen=True, kw_only=True):
    """The response asks for tools.

    Attributes:
        count: How many calls the batch has.
    """

    count: int


class ToolExecutionStart(EventBase, frozen=True, kw_only=True):
    """The verdict on a call is known: it runs now, or it is refused. One `ToolExecutionEnd` follows.

    Attributes:
        name: The tool.
        call_id: The call.
        arguments: As they are when the verdict is known, frozen; empty for a call whose arguments are no JSON object.
    """

    name: str
    call_id: CallId
    arguments: JsonObject

    def __post_init__(self) -> None:
        """Freeze the arguments, which every subscriber will be given."""
        force_setattr(self, "arguments", frozen_json(self.arguments))


class ToolProgress(EventBase, frozen=True, kw_only=True):
    """A tool says how far it is. Ephemeral.

    Attributes:
        name: The tool.
        call_id: The call.
        text: What it says.
    """

    name: str
    call_id: CallId
    text: str


class ToolExecutionEnd(EventBase, frozen=True, kw_only=True):
    """A call has its result.

    Attributes:
        name: The tool.
        call_id: The call.
        result: What the model will read, and `details` for people.
    """

    name: str
    call_id: CallId
    result: ToolResult


class ToolExecutionMetrics(EventBase, frozen=True, kw_only=True):
    """How long a call took; only for calls that were executed.

    Attributes:
        name: The tool.
        call_id: The call.
        started_at_ms: When it began, in milliseconds since 1970.
        ended_at_ms: When it was done.
        duration_ms: Between the two.
        attempts: How often it was tried.
    """

    name: str
    call_id: CallId
    started_at_ms: int
    ended_at_ms: int
    duration_ms: int
    attempts: int = 1


class ToolBlocked(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A policy said no: the call is not run, and the model reads why.

    Attributes:
        name: The tool.
        call_id: The call.
        reason: What the model reads.
        by: The name of the plugin that said so.
        approved: Whether a person had allowed the call: no approval switches a guard off.
    """

    name: str
    call_id: CallId
    reason: str
    by: str
    approved: bool = False


class ToolKilled(EventBase, frozen=True, kw_only=True):
    """A running call was stopped; it has its result already.

    Attributes:
        name: The tool.
        call_id: The call.
        reason: Why.
    """

    name: str
    call_id: CallId
    reason: str


class ToolSkippedForSteering(EventBase, frozen=True, kw_only=True):
    """A call was stopped, or never started, because the user spoke into the cycle.

    Attributes:
        name: The tool.
        call_id: The call.
        reason: What the model reads.
    """

    name: str
    call_id: CallId
    reason: str


class ToolTookEffect(EventBase, frozen=True, kw_only=True):
    """A stopped call took effect: its tool returned a value in spite of the stop, after `ToolExecutionEnd`.

    Attributes:
        name: The tool.
        call_id: The call.
        result: What the model reads in place of the earlier result.
    """

    name: str
    call_id: CallId
    result: ToolResult


class ToolRetry(EventBase, frozen=True, kw_only=True):
    """A call raised and is tried once more after a pause.

    Attributes:
        name: The tool.
        call_id: The call.
        attempt: The one that failed, 1 is the first.
        error: What it raised, text only.
    """

    name: str
    call_id: CallId
    attempt: int
    error: ErrorInfo


class ToolCallUnknown(EventBase, frozen=True, kw_only=True):
    """The model asked for a tool that does not exist.

    Attributes:
        name: What it wrote.
        call_id: The call.
    """

    name: str
    call_id: CallId


class ToolAttached(EventBase, frozen=True, kw_only=True):
    """A tool was added. The next request shows it.

    Attributes:
        name: The tool.
    """

    name: str


class ToolDetached(EventBase, frozen=True, kw_only=True):
    """A tool was taken away. Calls under way go on.

    Attributes:
        name: The tool.
    """

    name: str


class ToolsUpdated(EventBase, frozen=True, kw_only=True):
    """A change to the set of tools is complete.

    Attributes:
        attached: The names that were added.
        detached: The names that were taken away.
    """

    attached: tuple[str, ...] = ()
    detached: tuple[str, ...] = ()


ToolSourceState: TypeAlias = Literal[
    "connecting", "ready", "restarting", "parked", "needs_login", "changed", "closed"
]
"""How something that gives a session tools stands: it is on its way; its tools are there; it went away and comes back; it went
away too often, and its tools are taken away until an operator acts; a person has to log in; it has other tools than before, or
one of them is not as it was; it is over."""


class ToolSourceChanged(EventBase, frozen=True, kw_only=True):
    """Something that gives the session tools stands otherwise than before, such as a server. Which tools there are says `ToolsUpdated`.

    Attributes:
        source: Its name.
        state: How it stands now.
        reason: Why, for people; None where the state says it all.
    """

    source: str
    state: ToolSourceState
    reason: str | None = None


class LoopDetected(EventBase, frozen=True, kw_only=True):
    """The model goes round in circles.

    Attributes:
        type: The same call again and again, or a file that keeps coming back to what it was: a note to the model, or
            the end of the cycle.
        name: The tool.
        count: The how manieth time it is.
    """

    type: Literal["repeat_pattern", "file_loop_warn", "file_loop_abort"]
    name: str
    count: int


class LargeResultOffloaded(EventBase, frozen=True, kw_only=True):
    """A result was too large for the model: all of it is in a file, the model sees how it begins and how to read on.

    Attributes:
        name: The tool.
        call_id: The call.
        path: Of the file, in the workspace.
        bytes: How large the result is.
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
