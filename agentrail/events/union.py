"""The closed union of all events, its sections, and properties of kinds."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, get_args

import msgspec

from agentrail.events.envelope import EventBase
from agentrail.events.interaction_events import ContextEvent, PeopleEvent, SteeringEvent
from agentrail.events.plugin_events import PluginsEvent, PolicyEvent
from agentrail.events.response_events import MessageDelta, ResponseEvent, StreamStalled, ThinkingDelta
from agentrail.events.session_events import AgentAbort, AgentEnd, AgentError, SessionEvent
from agentrail.events.tool_events import ToolEvent, ToolProgress
from agentrail.messages import CallId, SessionId, ToolResult


class SubagentStart(EventBase, frozen=True, kw_only=True):
    """A call started a child session.

    Attributes:
        child_id: Id of the child.
        call_id: Id of the call.
        description: Task of the child.
    """

    child_id: SessionId
    call_id: CallId
    description: str


class SubagentEnd(EventBase, frozen=True, kw_only=True):
    """The child session of a call has ended.

    Attributes:
        child_id: Id of the child.
        call_id: Id of the call.
        result: Result of the call.
    """

    child_id: SessionId
    call_id: CallId
    result: ToolResult


class SubagentEvent(EventBase, frozen=True, kw_only=True):
    """An event of a child session. Each level of descent wraps it once more.

    Attributes:
        call_id: The call that the child works for.
        child_id: Id of the child.
        depth: Distance to the publisher: 1 for a child, 2 for a grandchild.
        event: The child's event. Its `meta` has the child's number and path.
    """

    call_id: CallId
    child_id: SessionId
    depth: int
    event: "Event"


SubagentsEvent: TypeAlias = SubagentStart | SubagentEnd | SubagentEvent

Event: TypeAlias = (
    SessionEvent
    | ResponseEvent
    | ToolEvent
    | PeopleEvent
    | SteeringEvent
    | ContextEvent
    | SubagentsEvent
    | PolicyEvent
    | PluginsEvent
)

SECTIONS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "Session and cycle": SessionEvent,
        "Response": ResponseEvent,
        "Tools": ToolEvent,
        "People": PeopleEvent,
        "Steering": SteeringEvent,
        "Context": ContextEvent,
        "Sub-sessions": SubagentsEvent,
        "Plans, memory, policy": PolicyEvent,
        "Plugins": PluginsEvent,
    }
)
"""The sections of the union, each a union itself, in the order of the reference."""

EPHEMERAL: Final[frozenset[type[Event]]] = frozenset(
    {MessageDelta, ThinkingDelta, ToolProgress, StreamStalled}
)
TERMINAL: Final[frozenset[type[Event]]] = frozenset({AgentEnd, AgentAbort, AgentError})


def kind_of(kind: type[msgspec.Struct]) -> str:
    """Return a class's name on the wire: by default its name in snake_case."""
    return str(kind.__struct_config__.tag)


KINDS: Final[dict[type[Event], str]] = {event: kind_of(event) for event in get_args(Event)}
"""Wire name of each kind of event."""


class UnknownEvent(EventBase, frozen=True, kw_only=True, tag_field=None, tag=False):
    """An event of a newer version.

    Never published, and not a member of `Event`. The codec returns it so that a relay loses nothing.

    Attributes:
        kind: The kind as received.
        document: The whole JSON object as received.
    """

    kind: str
    document: bytes
