"""All events: the sections, the closed union over them, and what is true of some kinds and not of others.

The events of sub-sessions stand here and not in a section of their own, because one of them holds any other event.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, get_args

import msgspec

from agentrail.events.envelope import EventBase
from agentrail.events.people import ContextEvent, PeopleEvent, SteeringEvent
from agentrail.events.plugins import PluginsEvent, PolicyEvent
from agentrail.events.response import MessageDelta, ResponseEvent, StreamStalled, ThinkingDelta
from agentrail.events.session import AgentAbort, AgentEnd, AgentError, SessionEvent
from agentrail.events.tools import ToolEvent, ToolProgress
from agentrail.messages import CallId, SessionId, ToolResult


class SubagentStart(EventBase, frozen=True, kw_only=True):
    """A call started a session of its own.

    Attributes:
        child_id: That session.
        call_id: The call.
        description: What it is to do.
    """

    child_id: SessionId
    call_id: CallId
    description: str


class SubagentEnd(EventBase, frozen=True, kw_only=True):
    """The session that a call had started is over.

    Attributes:
        child_id: That session.
        call_id: The call.
        result: What the call is answered with.
    """

    child_id: SessionId
    call_id: CallId
    result: ToolResult


class SubagentEvent(EventBase, frozen=True, kw_only=True):
    """Something that a child published. A child's child appears on all sessions above it, one level in each.

    Attributes:
        call_id: The call of this session that the child works for.
        child_id: The child.
        depth: How far below this session the event was published: 1 for a child, 2 for a child's child.
        event: As the child published it; its `meta` has the child's number and path.
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
"""The parts of the union, each a union itself, in the order in which the reference has them."""

EPHEMERAL: Final[frozenset[type[Event]]] = frozenset(
    {MessageDelta, ThinkingDelta, ToolProgress, StreamStalled}
)
TERMINAL: Final[frozenset[type[Event]]] = frozenset({AgentEnd, AgentAbort, AgentError})


def kind_of(kind: type[msgspec.Struct]) -> str:
    """Give the name of a class on the wire: its tag, which is its own name in snake_case unless it says otherwise."""
    return str(kind.__struct_config__.tag)


KINDS: Final[dict[type[Event], str]] = {event: kind_of(event) for event in get_args(Event)}
"""The name of each kind on the wire."""


class UnknownEvent(EventBase, frozen=True, kw_only=True, tag_field=None, tag=False):
    """An event of a newer version: of a kind that is not known here, or with something in it that is not.

    No session publishes it, so it is no member of `Event`; it is what the codec makes of such a text, so that a reader that
    passes it on loses nothing.

    Attributes:
        kind: As it came.
        document: The whole JSON object, as it came but for the white space between its parts.
    """

    kind: str
    document: bytes
