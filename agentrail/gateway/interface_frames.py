"""What streams and sockets consist of, as JSON Schema for the page of the interface: one frame of each, and each command of a socket.

Pure, and made of the structs that are read and written. A command has the fields of its route's body, query and path side by side, so its
schema is put together of theirs.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from agentrail.events import KINDS
from agentrail.gateway.frames import StreamEnd
from agentrail.gateway.socket_calls import SocketCommand
from agentrail.gateway.socket_frames import (
    MAX_ID_CHARACTERS,
    Hello,
    Ping,
    Subscribe,
    Unsubscribe,
    UnwatchRows,
    WatchRows,
)
from agentrail.wire.inspected_rows import PluginRow, TreeRow
from agentrail.wire.rows import SessionRow, WaitingRow
from agentrail.wire.server_frames import (
    Changed,
    Closing,
    Lag,
    Pong,
    RowsWatched,
    SocketReply,
    Subscribed,
    Welcome,
)

SCHEMA_REFS: Final = "#/components/schemas/"

OF_CLIENT: Final[Mapping[str, type[msgspec.Struct]]] = {
    "hello": Hello,
    "subscribe": Subscribe,
    "unsubscribe": Unsubscribe,
    "watch": WatchRows,
    "unwatch": UnwatchRows,
    "ping": Ping,
}
"""The frames of a client that are no commands, by their type."""

OF_SERVER: Final[tuple[type[msgspec.Struct], ...]] = (
    Welcome,
    Subscribed,
    SocketReply,
    RowsWatched,
    Changed,
    Pong,
    Lag,
    Closing,
)
"""The frames of a server, but for events."""

ROWS: Final[tuple[type[msgspec.Struct], ...]] = (SessionRow, WaitingRow, TreeRow, PluginRow)
"""What stands in the rows of a watch: one of these, by what is watched."""

FRAME_STRUCTS: Final[tuple[type[msgspec.Struct], ...]] = (*OF_CLIENT.values(), *OF_SERVER, *ROWS, StreamEnd)

_FRAME_ID: Final[dict[str, Any]] = {
    "description": "How the client calls the frame; it comes back in the reply.",
    "anyOf": [{"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARACTERS}, {"type": "integer"}],
}


def ref(name: str) -> dict[str, str]:
    """Refer to a schema of the page."""
    return {"$ref": f"{SCHEMA_REFS}{name}"}


def stream_frame() -> dict[str, Any]:
    """Describe one frame of a stream: `event:`, `data:` as JSON, and `id:`, which committed events alone have."""

    def frame(name: dict[str, Any], data: str, **more: Any) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["event", "data"],
            "properties": {"event": name, "data": ref(data), **more},
        }

    return {
        "description": "One server-sent event: its name, its data as JSON, and its id. The last of a stream is `done`.",
        "anyOf": [
            frame({"const": "done"}, "StreamEnd"),
            frame({"const": "snapshot"}, "SnapshotForm"),
            frame({"enum": sorted(KINDS.values())}, "Event", id={"type": "integer", "minimum": 0}),
        ],
    }


def add_frames(
    schemas: dict[str, Any],
    commands: Mapping[str, SocketCommand],
    parameter_of: Callable[[SocketCommand, str], dict[str, Any]],
) -> None:
    """Put the schemas of all frames among those of the structs."""
    schemas["StreamFrame"] = stream_frame()
    for name, kind in OF_CLIENT.items():
        _put_type(schemas[kind.__name__], name)
    for name, command in commands.items():
        schemas[_name_of(name)] = _command(name, command, schemas, parameter_of)
    asked = {name: kind.__name__ for name, kind in OF_CLIENT.items()} | {
        name: _name_of(name) for name in commands
    }
    schemas["ClientFrame"] = _one_of(
        "What a client sends over a socket: one JSON object in a message.", asked
    )
    schemas["Subscribed"]["properties"]["snapshot"] = ref("SnapshotForm")
    schemas["SocketReply"]["properties"]["error"] = ref("ErrorDetail")
    schemas["SocketReply"]["properties"]["result"] = {
        "description": "What the command gave, null where that is nothing; see `x-replies` of the route."
    }
    of_rows = {"type": "array", "items": {"anyOf": [ref(kind.__name__) for kind in ROWS]}}
    for told in (RowsWatched, Changed):
        rows = schemas[told.__name__]["properties"]
        rows["rows"] = {**of_rows, "description": rows["rows"].get("description", "")}
    schemas["EventFrame"] = {
        "type": "object",
        "description": "An event of a session that is read.",
        "required": ["type", "event"],
        "properties": {"type": {"enum": ["event"]}, "event": ref("Event")},
    }
    schemas["EventsFrame"] = {
        "type": "object",
        "description": "What a session published before it was read, for a client whose `hello` asked for such frames.",
        "required": ["type", "session_id", "events"],
        "properties": {
            "type": {"enum": ["events"]},
            "session_id": {"type": "string"},
            "events": {"type": "array", "items": ref("Event")},
        },
    }
    names = {_tag_of(kind): kind.__name__ for kind in OF_SERVER} | {
        "event": "EventFrame",
        "events": "EventsFrame",
    }
    schemas["ServerFrame"] = _one_of(
        "What a server sends over a socket: one JSON object in a message.", names
    )


def _command(
    name: str,
    command: SocketCommand,
    schemas: Mapping[str, Any],
    parameter_of: Callable[[SocketCommand, str], dict[str, Any]],
) -> dict[str, Any]:
    route = command.route
    of_body: Mapping[str, Any] = {} if route.body is None else schemas[route.body.__name__]
    properties: dict[str, Any] = {"type": {"enum": [name]}, "id": _FRAME_ID, "client_id": _CLIENT_ID}
    properties |= of_body.get("properties", {})
    properties |= {one: parameter_of(command, one) for one in (*command.params, *route.query)}
    required = {"type", "id", *command.params, *of_body.get("required", ())}
    if name == "abort_tool":
        required.add("call_id")
    return {
        "type": "object",
        "description": f"A command: {route.does}.",
        "required": [one for one in properties if one in required],
        "properties": properties,
        "additionalProperties": False,
    }


_CLIENT_ID: Final[dict[str, Any]] = {
    "description": "The client's own name of the command, so that it can be sent again.",
    "anyOf": [{"type": "string", "minLength": 1, "maxLength": 128}, {"type": "null"}],
}


def _put_type(schema: dict[str, Any], name: str) -> None:
    schema["properties"] = {"type": {"enum": [name]}, **schema["properties"]}
    schema["required"] = ["type", *schema.get("required", ())]


def _one_of(words: str, names: Mapping[str, str]) -> dict[str, Any]:
    mapping = {kind: f"{SCHEMA_REFS}{name}" for kind, name in names.items()}
    return {
        "description": words,
        "anyOf": [{"$ref": one} for one in mapping.values()],
        "discriminator": {"propertyName": "type", "mapping": mapping},
    }


def _name_of(command: str) -> str:
    return re.sub(r"(?:^|_)(\w)", lambda found: found[1].upper(), command) + "Command"


def _tag_of(kind: type[msgspec.Struct]) -> str:
    return str(kind.__struct_config__.tag)


def replies_of_commands(
    commands: Mapping[str, SocketCommand], schema_of: Callable[[SocketCommand], Iterable[dict[str, Any]]]
) -> dict[str, Any]:
    """Say with what each command is replied to that was done."""
    told: dict[str, Any] = {}
    for name, command in commands.items():
        schemas = list(schema_of(command))
        told[name] = (
            {"type": "null"} if not schemas else schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        )
    return told
