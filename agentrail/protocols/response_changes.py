"""Changes of a response, which each wire writes as frames of its own. `response_state` makes them from events."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from agentrail import events
from agentrail.messages import AssistantMessage, JsonObject, TokenUsage, ToolResult

Frame: TypeAlias = Mapping[str, Any]
"""One frame of a wire, as plain JSON."""

Frames: TypeAlias = tuple[Frame, ...]

ShownPartKind: TypeAlias = Literal["text", "thinking"]


class Begun(msgspec.Struct, frozen=True):
    """A response starts, or continues after a user's answer. A second one in a stream replaces the first."""

    response_id: str
    is_resumed: bool = False


class Step(msgspec.Struct, frozen=True):
    """A model request starts or ends. Its calls belong to its step."""

    is_begun: bool


class PartText(msgspec.Struct, frozen=True, gc=False):
    """Text or thinking of the model.

    Attributes:
        part_id: Id of the part, which ends before another one starts.
        message_id: Id of the model's message: `m` and the number of its `MessageStart`.
        place: Position of the part in that message, from 0.
    """

    kind: ShownPartKind
    text: str
    part_id: str
    message_id: str
    place: int
    is_first: bool


class PartEnded(msgspec.Struct, frozen=True):
    """The open part is complete, or the stream ends within it."""

    kind: ShownPartKind
    part_id: str


class TakenBack(msgspec.Struct, frozen=True):
    """Shown parts no longer count: the model starts again, or the whole text follows. New parts have other ids."""

    part_ids: tuple[str, ...]
    message_id: str
    number: int
    reason: str


class MessageCompleted(msgspec.Struct, frozen=True):
    """A message of the model is complete. Its parts have ended, and its calls follow."""

    message_id: str
    message: AssistantMessage
    text: str
    usage: TokenUsage


class ShownCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call as its client has it.

    Attributes:
        is_clients: Whether the client runs the tool and provides its result.
        is_denied: Whether a user rejected it.
        is_childs: Whether it belongs to a child session. The id of that session is then a prefix of the call's.
    """

    name: str
    arguments: JsonObject
    is_clients: bool = False
    is_denied: bool = False
    is_over: bool = False
    is_childs: bool = False


class CallShown(msgspec.Struct, frozen=True):
    """A call is opened, or an open one has changed."""

    call_id: str
    call: ShownCall
    is_new: bool


class ApprovalAsked(msgspec.Struct, frozen=True):
    """A call that was shown needs an approval."""

    call_id: str
    approval: events.Approval


class CallEnded(msgspec.Struct, frozen=True):
    """A call is over. The result is None if the response ended first."""

    call_id: str
    call: ShownCall
    result: ToolResult | None


class Happened(msgspec.Struct, frozen=True):
    """Another event of the cycle, or `PromptQueued`. A child's question also comes unwrapped, as `AskUser`."""

    event: events.Event


class ResponseEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a response, and the last change of its stream.

    Attributes:
        kind: `paused` if the cycle waits for users. It continues in another response after their answer.
        reason: Explanation for users.
        code: Error code of an aborted or failed response, as in error responses.
        usage: Usage of the cycle, or of its messages so far.
        event: The cycle's own end. None if only the stream ends: the cycle waits, continues, or never started.
    """

    kind: Literal["finished", "paused", "aborted", "failed"]
    stop_reason: events.EndReason | None = None
    reason: str | None = None
    code: str | None = None
    usage: TokenUsage | None = None
    event: events.AgentEnd | events.AgentAbort | events.AgentError | None = None


ResponseChange: TypeAlias = (
    PartText
    | PartEnded
    | TakenBack
    | MessageCompleted
    | Begun
    | Step
    | CallShown
    | ApprovalAsked
    | CallEnded
    | Happened
    | ResponseEnd
)
