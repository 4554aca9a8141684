"""Events as JSON, one object each. Pure; what is read back from JSON is not decided here yet.

An event begins with what every reader needs: `kind`, `seq`, `session_id`, `at_ms`; then come its own fields, all of
them, under their own names. What stands in a union says which member it is: blocks have a `kind`, messages a `role`.
So each object can be decoded without looking at what else it holds.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs
import msgspec

from agentrail.events import KINDS, Event
from agentrail.messages import (
    AssistantMessage,
    FileRef,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
)

TAGS: Final[Mapping[type, tuple[str, str]]] = MappingProxyType(
    {
        Text: ("kind", "text"),
        Image: ("kind", "image"),
        FileRef: ("kind", "file_ref"),
        Thinking: ("kind", "thinking"),
        Opaque: ("kind", "opaque"),
        ToolCall: ("kind", "tool_call"),
        UserMessage: ("role", "user"),
        AssistantMessage: ("role", "assistant"),
        ToolMessage: ("role", "tool"),
    }
)
"""How the members of unions are told apart: the name and the value of a member of the object."""


def encode_event(event: Event) -> bytes:
    """Encode an event as one JSON object, without a line break.

    Args:
        event: With its `meta`, as subscribers get it; one that was made by hand has no number, session and time.

    Returns:
        UTF-8. `ephemeral` is there, and true, for events that are never replayed; `session_path` for those of a session
        that another one started.
    """
    document: dict[str, object] = {"kind": KINDS[type(event)]}
    meta = event.meta
    if meta is not None:
        document |= {"seq": meta.seq, "session_id": meta.session_id, "at_ms": meta.at_ms}
        if len(meta.path) > 1:
            document["session_path"] = list(meta.path)  # `path` is a field of one of the events
        if meta.ephemeral:
            document["ephemeral"] = True
    document |= {name: value for name, value in _fields_of(event).items() if name != "meta"}
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:  # a lone surrogate, which some models write as an escape and no UTF-8 can hold
        return msgspec.json.encode(_mended(document))


def _fields_of(value: Any) -> dict[str, object]:
    return {
        attribute.name: _plain(getattr(value, attribute.name))
        for attribute in attrs.fields(type(value))
        if not attribute.name.startswith("_")  # a memo, no part of the value
    }


def _plain(value: object) -> object:
    """Make of a value what JSON has: objects, arrays and what is plain already."""
    match value:
        case tuple() | list():
            return [_plain(item) for item in value]
        case Mapping():
            return {name: _plain(item) for name, item in value.items()}
        case _ if attrs.has(type(value)):
            tag = TAGS.get(type(value))
            return {**({tag[0]: tag[1]} if tag else {}), **_fields_of(value)}
        case _:
            return value


def _mended(value: object) -> object:
    match value:
        case str():
            # Through UTF-16, where two halves that belong together become the one character that they mean.
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case dict():
            return {_mended(name): _mended(item) for name, item in value.items()}
        case list():
            return [_mended(item) for item in value]
        case _:
            return value
