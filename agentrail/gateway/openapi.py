"""`/openapi.json`, generated from the routes and from the structs that they read and write."""

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

import msgspec

from agentrail import outside
from agentrail.core.wire import codec
from agentrail.events import KINDS
from agentrail.gateway.calls.decision_calls import MAX_WAIT_SECONDS
from agentrail.gateway.calls.event_queries import MAX_EVENTS_OF_A_PAGE
from agentrail.gateway.calls.inspection import MAX_SESSIONS_OF_A_TREE
from agentrail.gateway.calls.session_calls import CURSOR
from agentrail.gateway.history_routes import MAX_RECORDS_OF_A_PAGE
from agentrail.gateway.path_endpoint import CallRoute, RouteCall, RouteReply
from agentrail.gateway.request_bodies import OpenBody
from agentrail.gateway.request_parser import ID_FIELDS, MAX_SEARCH_CHARACTERS, WORD_FIELDS
from agentrail.gateway.response_bodies import ErrorReply
from agentrail.gateway.route_errors import (
    PLUGIN_STATUSES,
    SOCKET_REFUSALS,
    refusals_of,
    statuses_of,
)
from agentrail.gateway.session_routes import (
    MAX_FILES_OF_A_PAGE,
    MAX_MESSAGES_OF_A_PAGE,
    MAX_SESSIONS_OF_A_PAGE,
)
from agentrail.gateway.socket_calls import SocketCommand, socket_commands
from agentrail.gateway.socket_frames import (
    MAX_ID_CHARACTERS,
    OF_CLIENT,
)
from agentrail.gateway.sse_frames import StreamEnd
from agentrail.gateway.whole_answer import WholeAnswer
from agentrail.host.listed_session import SESSION_PHASES
from agentrail.host.session_order import SORTS
from agentrail.protocols.a2a import MAX_TASKS_OF_A_PAGE
from agentrail.runtime.cost_table import WAYS
from agentrail.wire.inspection_rows import PluginRow, TreeRow
from agentrail.wire.plain import encode_plain
from agentrail.wire.rows import OUTCOMES_OF_ROWS, SessionRow, WaitingRow
from agentrail.wire.server_frames import (
    MAX_CURSOR,
    Changed,
    Closing,
    Lag,
    Pong,
    RowsWatched,
    SocketReply,
    Subscribed,
    Welcome,
)

# Frames of streams and sockets, as JSON Schema.
#
# Pure, and generated from the structs. A command has the fields of its route's body, query and path in one
# object, so its schema combines theirs.

SCHEMA_REFS: Final = "#/components/schemas/"

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
"""Server frames other than events."""

ROWS: Final[tuple[type[msgspec.Struct], ...]] = (SessionRow, WaitingRow, TreeRow, PluginRow)
"""Rows of a watch: one of these, depending on the kind of watch."""

FRAME_STRUCTS: Final[tuple[type[msgspec.Struct], ...]] = (*OF_CLIENT.values(), *OF_SERVER, *ROWS, StreamEnd)

_FRAME_ID: Final[dict[str, Any]] = {
    "description": "The client's own id of the frame, repeated in the reply.",
    "anyOf": [{"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARACTERS}, {"type": "integer"}],
}


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"{SCHEMA_REFS}{name}"}


def stream_frame() -> dict[str, Any]:
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


def add_frames(schemas: dict[str, Any], commands: Mapping[str, SocketCommand]) -> None:
    schemas["StreamFrame"] = stream_frame()
    for name, kind in OF_CLIENT.items():
        schema = schemas[kind.__name__]
        schema["properties"] = {"type": {"enum": [name]}, **schema["properties"]}
        schema["required"] = ["type", *schema.get("required", ())]
    for name, command in commands.items():
        schemas[_name_of(name)] = _command(name, command, schemas)
    asked = {name: kind.__name__ for name, kind in OF_CLIENT.items()} | {
        name: _name_of(name) for name in commands
    }
    schemas["ClientFrame"] = _one_of(
        "What a client sends over a socket: one JSON object in a message.", asked
    )
    schemas["Subscribed"]["properties"]["snapshot"] = ref("SnapshotForm")
    schemas["SocketReply"]["properties"]["error"] = ref("ErrorDetail")
    schemas["SocketReply"]["properties"]["result"] = {
        "description": "The result of the command, null if it has none. See `x-replies` of the route."
    }
    of_rows = {"type": "array", "items": {"anyOf": [ref(kind.__name__) for kind in ROWS]}}
    for told in (RowsWatched, Changed):
        rows = schemas[told.__name__]["properties"]
        rows["rows"] = {**of_rows, "description": rows["rows"].get("description", "")}
    schemas["EventFrame"] = _frame_of(
        "An event of a subscribed session.", type={"enum": ["event"]}, event=ref("Event")
    )
    schemas["EventsFrame"] = _frame_of(
        "Earlier events of a session, for a client whose `hello` asked for such frames.",
        type={"enum": ["events"]},
        session_id={"type": "string"},
        events={"type": "array", "items": ref("Event")},
    )
    names = {str(kind.__struct_config__.tag): kind.__name__ for kind in OF_SERVER} | {
        "event": "EventFrame",
        "events": "EventsFrame",
    }
    schemas["ServerFrame"] = _one_of(
        "What a server sends over a socket: one JSON object in a message.", names
    )


def _frame_of(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "object", "description": words, "required": [*fields], "properties": fields}


def _command(name: str, command: SocketCommand, schemas: Mapping[str, Any]) -> dict[str, Any]:
    route = command.route
    of_body: Mapping[str, Any] = {} if route.body is None else schemas[route.body.__name__]
    properties: dict[str, Any] = {"type": {"enum": [name]}, "id": _FRAME_ID, "client_id": _CLIENT_ID}
    properties |= of_body.get("properties", {})
    properties |= {one: parameter_of(route, one) for one in (*command.params, *route.query)}
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
    "description": "The client's own id of the command, which makes a retry safe.",
    "anyOf": [{"type": "string", "minLength": 1, "maxLength": 128}, {"type": "null"}],
}


def _one_of(words: str, names: Mapping[str, str]) -> dict[str, Any]:
    mapping = {kind: f"{SCHEMA_REFS}{name}" for kind, name in names.items()}
    return {
        "description": words,
        "anyOf": [{"$ref": one} for one in mapping.values()],
        "discriminator": {"propertyName": "type", "mapping": mapping},
    }


def _name_of(command: str) -> str:
    return re.sub(r"(?:^|_)(\w)", lambda found: found[1].upper(), command) + "Command"


VERSION: Final = "1"
"""Version of the interface. It changes with every breaking change."""

PATH: Final = "/openapi.json"

_SOCKET_PATH: Final = "/ws"
_REFUSED_FROM: Final = 400

_MAX_ID_CHARACTERS: Final = 128
_SESSION_ID: Final[dict[str, Any]] = {
    "type": "string",
    "pattern": r"^[A-Za-z0-9](\.?[A-Za-z0-9_:-])*\.?$",
    "maxLength": _MAX_ID_CHARACTERS,
}
_NAME: Final = {**_SESSION_ID, "pattern": r"^[A-Za-z0-9](\.?[A-Za-z0-9_:@+-])*\.?$"}
_NOT_BLANK: Final = r"\S"
_EXAMPLE: Final = "What is left to do today?"
_TEXT: Final[Mapping[str, Any]] = {"type": "string"}
_FLAG: Final[dict[str, Any]] = {"type": "boolean", "default": False}
_FROM_ZERO: Final[dict[str, Any]] = {"type": "integer", "minimum": 0, "maximum": MAX_CURSOR}
_FROM_ONE: Final[dict[str, Any]] = {**_FROM_ZERO, "minimum": 1}
_DAY: Final = {"type": "string", "pattern": r"^(\d{4}-\d{2}-\d{2}|[1-9]\d{0,4}d)$"}

_PARAMETERS: Final[Mapping[str, Mapping[str, Any]]] = {
    **dict.fromkeys(("session_id", "contextId"), _SESSION_ID),
    **dict.fromkeys(("agent_id", "request_id", "rule_id", "user_id", "call_id"), _NAME),
    **dict.fromkeys(("stream", "includeArtifacts", "include_obfuscation", "purge", "whole"), _FLAG),
    **dict.fromkeys(
        ("task", "status", "pageToken", "approval", "path", "kinds", "order", "include[]"), _TEXT
    ),
    **dict.fromkeys(("ticket", "confirm", "state", "code", "iss", "error", "error_description"), _TEXT),
    **dict.fromkeys(("starting_after", "after", "before", "result_to"), _FROM_ZERO),
    **dict.fromkeys(("at", "from", "cycle"), _FROM_ONE),
    **dict.fromkeys(("since", "until"), _DAY),
    # No default: a missing value means neither.
    "waiting": {"type": "boolean"},
    "ended": {"type": "boolean"},
    "response": {"type": "string", "maxLength": 160},
    "tool": {"type": "string", "maxLength": 160},
    "q": {"type": "string", "maxLength": MAX_SEARCH_CHARACTERS},
    "plugin": {"type": "string", "maxLength": MAX_SEARCH_CHARACTERS},
    "pageSize": {"type": "integer", "minimum": 1, "maximum": MAX_TASKS_OF_A_PAGE},
    "historyLength": {"type": "integer", "minimum": 0},
    "statusTimestampAfter": {"type": "string", "format": "date-time"},
    "server": {"type": "string", "pattern": "^[a-z0-9-]{1,32}$"},
    "name": {"type": "string", "maxLength": 600},
    "cursor": {"type": "string", "pattern": f"^{CURSOR.pattern}$"},
    "phase": {"type": "string", "enum": [*SESSION_PHASES]},
    "outcome": {"type": "string", "enum": [*OUTCOMES_OF_ROWS]},
    "sort": {"type": "string", "enum": [sign + one for one in SORTS for sign in ("", "-")]},
    "format": {"type": "string", "enum": ["json", "stream"], "default": "stream"},
    "bodies": {"type": "boolean", "default": True},
    "result_from": {**_FROM_ZERO, "default": 0},
    "by": {"type": "string", "enum": [*WAYS], "default": WAYS[0]},
    "tz": {"type": "string", "default": "UTC"},
}
"""Schemas of path and query parameters, by name."""

_LIMITS: Final[Mapping[str, int]] = {
    "sessions": MAX_SESSIONS_OF_A_PAGE,
    "tree": MAX_SESSIONS_OF_A_TREE,
    "messages": MAX_MESSAGES_OF_A_PAGE,
    "trace": MAX_RECORDS_OF_A_PAGE,
    "events": MAX_EVENTS_OF_A_PAGE,
    "files": MAX_FILES_OF_A_PAGE,
}
"""Maximum page sizes, by the last part of the path."""

_PLUGIN_ANSWER: Final[dict[str, Any]] = {
    "type": "object",
    "description": "The answer of a host plugin in place of the session: any JSON object.",
}


_UI_PART: Final[dict[str, Any]] = {
    "type": "object",
    "description": "A part of a UI message stream, by `uiMessageChunkSchema` of the `ai` SDK. The last frame is `[DONE]`.",
    "required": ["type"],
    "properties": {"type": {"type": "string"}},
    "additionalProperties": True,
}
_AG_UI_EVENT: Final[dict[str, Any]] = {
    **_UI_PART,
    "description": "An event of AG-UI 1.0. The last one is `RUN_FINISHED` or `RUN_ERROR`.",
}


def _open_object(words: str) -> dict[str, Any]:
    return {"type": "object", "description": words, "additionalProperties": True}


_CHUNK: Final = _open_object(
    "A chunk of a completion, or an error, as of the OpenAI API. The last frame is `[DONE]`."
)
_OBJECT: Final = _open_object("An object of the OpenAI API.")
_A2A: Final = _open_object("An object of A2A 1.0, whose specification has its fields.")
_RESPONSE_EVENT: Final[dict[str, Any]] = {
    **_UI_PART,
    "description": "An event of a response, as of the OpenAI API. The last one has the whole response.",
}
_OPEN_BODY: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["model"],
    "properties": {"model": {"type": "string", "minLength": 1, "description": "Id of the profile."}},
    "additionalProperties": True,
}


def describe_interface(
    routes: Iterable[CallRoute],
    *,
    base_path: str = "",
    server: str = "",
    needs_token: bool = True,
    known: Iterable[CallRoute] = (),
) -> dict[str, Any]:
    """Return the document: OpenAPI 3.1."""
    shown = tuple(routes)
    commands = socket_commands(shown)
    paths: dict[str, dict[str, Any]] = {}
    for route in shown:
        path = f"{base_path}{route.path.replace(':path}', '}')}"
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, needs_token=needs_token)
    paths[f"{base_path}{_SOCKET_PATH}"] = {"get": _socket_operation(commands)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "agentrail",
            "version": VERSION,
            "description": "Sessions of agents behind HTTP. Bodies are JSON objects; unknown fields are refused. Fields may be"
            " added to answers. `x-codes` are the codes of the errors that a status stands for; `x-item-schema` is the schema of"
            " one frame of a stream.",
        },
        **({"servers": [{"url": quote(server)}]} if server else {}),
        "paths": paths,
        "components": {
            "schemas": dict(sorted(described_schemas(commands, (*shown, *known)).items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


# --- schemas


def described_schemas(commands: Mapping[str, SocketCommand], known: Iterable[CallRoute]) -> dict[str, Any]:
    routes = [*known, *(one.route for one in commands.values())]
    bodies = dict.fromkeys([one.body for one in routes if one.body is not None and one.is_described])
    structs: dict[type, None] = dict.fromkeys([*bodies, *FRAME_STRUCTS, ErrorReply])
    for route in routes:
        for reply in (route.error_reply or ErrorReply, *(route.replies or {}).values()):
            structs |= dict.fromkeys(_kinds(reply))
    in_order = sorted(structs, key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components(in_order, ref_template=f"{SCHEMA_REFS}{{name}}")
    events = _with_refs(codec.event_schema())
    definitions: dict[str, Any] = events.pop("$defs")
    definitions["SubagentEvent"]["properties"]["event"] = ref("Event")
    schemas = {**definitions, **schemas, "Event": events}
    schemas |= {"PluginAnswer": _PLUGIN_ANSWER, "UiMessagePart": _UI_PART, "AgUiEvent": _AG_UI_EVENT}
    schemas |= {
        "ChatCompletionChunk": _CHUNK,
        "ResponseStreamEvent": _RESPONSE_EVENT,
        "OpenAiObject": _OBJECT,
    }
    schemas |= {kind.__name__: _OPEN_BODY for kind in bodies if issubclass(kind, OpenBody)}
    schemas |= {name: {**_A2A, "properties": {}} for name in ("A2aBody", "A2aObject", "A2aFrame")}
    schemas = {name: _plainer(schema) for name, schema in schemas.items()}
    for kind in (*in_order, *_inner(in_order)):
        _describe(kind, schemas.get(kind.__name__))
    for kind in bodies:
        _bind_fields(schemas[kind.__name__])
    add_frames(schemas, commands)
    for name, schema in schemas.items():
        if name.startswith("AgUi"):
            schema.setdefault("additionalProperties", True)  # a later version of the protocol may have more
        if "Attributes:" in schema.get("description", ""):
            schema["description"] = " ".join(schema["description"].partition("\n\n")[0].split())
    return schemas


def _inner(kinds: Iterable[type]) -> Iterable[type]:
    for kind in kinds:
        for one in msgspec.inspect.multi_type_info([kind]):
            for field in getattr(one, "fields", ()):
                yield from _classes(field.type)


def _classes(info: Any) -> Iterable[type]:
    for one in (info, *getattr(info, "types", ()), getattr(info, "item_type", None)):
        cls = getattr(one, "cls", None)
        if cls is not None:
            yield cls


def _bind_fields(schema: dict[str, Any]) -> None:
    for name, rules in schema["properties"].items():
        if name in ID_FIELDS:
            bound: Mapping[str, Any] = _SESSION_ID if ID_FIELDS[name] else _NAME
        elif name in WORD_FIELDS:
            bound = {"pattern": _NOT_BLANK, "maxLength": WORD_FIELDS[name]}
        elif name == "message":
            # In a body with attachments it may be empty, which no short schema expresses. An empty default
            # would still be misleading.
            rules.pop("default", None)
            bound = (
                {"examples": [_EXAMPLE]} if "attachments" in schema["properties"] else {"pattern": _NOT_BLANK}
            )
        elif name in ("at", "to"):
            bound = {"minimum": 0, "maximum": MAX_CURSOR}
        else:
            continue
        of = "integer" if "minimum" in bound else "string"
        for part in rules.get("anyOf", [rules]):
            if part.get("type") == of:
                part.update(bound)


def _kinds(reply: RouteReply) -> tuple[type, ...]:
    return reply if isinstance(reply, tuple) else (reply,)


def _schema_of(reply: RouteReply, *more: str) -> dict[str, Any]:
    refs = [*(ref(kind.__name__) for kind in _kinds(reply)), *map(ref, more)]
    return refs[0] if len(refs) == 1 else {"anyOf": refs}


# --- operations


def _operation(route: CallRoute, *, needs_token: bool) -> dict[str, Any]:
    first = re.search(r"[\w-]+", route.path)
    operation: dict[str, Any] = {
        "operationId": name_of_operation(route),
        # Client generators create a module for each tag.
        "tags": ["server" if first is None else first[0]],
        "summary": route.does,
        "parameters": [*_parameters(route)],
        "responses": _responses(route),
    }
    if route.body is not None:
        schema = ref(route.body.__name__)
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if route.scope is not None:
        enough = [route.scope] if route.also is None else [route.scope, route.also]
        operation["security"] = [*({"token": [scope]} for scope in enough), *([] if needs_token else [{}])]
    return operation


def _responses(route: CallRoute) -> dict[str, Any]:
    more = ("PluginAnswer",) if route.asks_plugins else ()
    error = route.error_reply or ErrorReply
    told: dict[int, dict[str, Any]] = {}
    for status, codes in refusals_of(route).items():
        told[status] = _refused(codes, more, error)
    if route.asks_plugins:
        for status in sorted(PLUGIN_STATUSES - told.keys()):
            schema = ref("PluginAnswer") if status < _REFUSED_FROM else _schema_of(error, *more)
            told[status] = _answered("Answered by a plugin of the host.", _as_json(schema))
    replies = route.replies or {}
    for status in sorted({route.success, *replies}):
        words = "Success." if status == route.success else "Success, in the other form."
        told[status] = _answered(words, _content_of(route, replies.get(status), more))
    return {f"{status}": told[status] for status in sorted(told)}


def _refused(codes: Sequence[str], more: Sequence[str] = (), error: type = ErrorReply) -> dict[str, Any]:
    told = _answered(f"Refused, or failed: {', '.join(codes)}.", _as_json(_schema_of(error, *more)))
    return {**told, "x-codes": [*codes]}


def _answered(what: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": what, "content": content} if content else {"description": what}


def _as_json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _content_of(route: CallRoute, reply: RouteReply | None, more: Sequence[str]) -> dict[str, Any]:
    if reply == ():
        return {}
    if reply is not None and not route.is_stream:
        return _as_json(_schema_of(reply, *more))
    if route.success == 204:  # noqa: PLR2004 - HTTP status
        return {}
    if route.is_stream:
        # OpenAPI 3.1 cannot describe a whole stream. Version 3.2 will have `itemSchema` for this.
        frames = {
            "schema": {},
            "x-item-schema": ref("StreamFrame" if route.frames == "Event" else route.frames),
        }
        also = _as_json(_schema_of(reply or (), *more)) if reply or more else {}
        return {"text/event-stream": frames, **also}
    if route.content:
        return {one: {"schema": {"type": "string", "format": "binary"}} for one in route.content}
    if route.path.endswith(":path}"):
        return {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return _as_json({"type": "object"})


def _socket_operation(commands: Mapping[str, SocketCommand]) -> dict[str, Any]:
    def reply(command: SocketCommand) -> dict[str, Any]:
        given = command.route.replies
        if given is None:
            return {}
        more = ("PluginAnswer",) if command.route.asks_plugins else ()
        kinds = tuple(dict.fromkeys([kind for one in given.values() for kind in _kinds(one)]))
        return _schema_of(kinds, *more) if kinds or more else {"type": "null"}

    return {
        "operationId": "get_ws",
        "tags": ["ws"],
        "summary": "opens a WebSocket for many sessions, subprotocol agentrail.v1",
        "parameters": [],
        "responses": {
            "101": {"description": "The protocol is switched."},
            **{f"{status}": _refused(codes) for status, codes in statuses_of(SOCKET_REFUSALS).items()},
        },
        "security": [{"token": ["use"]}, {}],  # the token may also come in `hello`
        "x-frames": {"client": ref("ClientFrame"), "server": ref("ServerFrame")},
        "x-replies": {name: reply(command) for name, command in commands.items()},
    }


def name_of_operation(route: CallRoute) -> str:
    singular = re.sub(r"(\w+)s/\{\w+\}", r"\1", route.path)
    words = re.findall(r"\w+", re.sub(r"\{(\w+?)(?:_id)?(?::path)?\}", r"\1", singular))
    return "_".join([route.method, *(words or ["root"])]).lower()


# --- parameters


def _parameters(route: CallRoute) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)(?::path)?\}", route.path):
        yield {"name": name, "in": "path", "required": True, "schema": parameter_of(route, name)}
    for name in route.query:
        yield {"name": name, "in": "query", "schema": parameter_of(route, name)}
    if route.body is not None and "client_id" in route.body.__struct_fields__:
        words = "As `client_id` of the body."
        yield {"name": "Idempotency-Key", "in": "header", "description": words, "schema": dict(_NAME)}
    if route.is_stream and route.method == "GET":
        words = "The number of the last event that the reader has; it goes before `after`."
        rules = dict(_PARAMETERS["after"])
        yield {"name": "Last-Event-ID", "in": "header", "description": words, "schema": rules}
    if route.scope is not None and route.needs_user:
        words = "The user, for a token that speaks for its tenant."
        yield {"name": "X-Agentrail-User", "in": "header", "description": words, "schema": dict(_NAME)}


def parameter_of(route: CallRoute, name: str) -> dict[str, Any]:
    if name == "limit":
        most = _LIMITS.get(route.path.rpartition("/")[2], MAX_RECORDS_OF_A_PAGE)  # of a journal over a socket
        return {"type": "integer", "minimum": 1, "maximum": most}
    if name == "wait":
        seconds = {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_SECONDS, "default": 0}
        return seconds if route.path.endswith("{request_id}") else dict(_FLAG)
    return dict(_PARAMETERS[name])


# --- descriptions


def _describe(kind: type, schema: dict[str, Any] | None) -> None:
    said = inspect.getdoc(kind) or ""
    if schema is None:
        return
    for name, words in re.findall(r"^    (\w+): (.+(?:\n        .+)*)", said, re.MULTILINE):
        if name in schema.get("properties", {}):
            schema["properties"][name]["description"] = " ".join(words.split())


_JSON_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})


def _plainer(schema: Any) -> Any:
    """Simplify a schema, because client generators fail on unions of all types and arrays of anything."""
    match schema:
        case {"anyOf": [*members], **rest} if {one.get("type") for one in members} >= _JSON_TYPES:
            return rest
        case {"prefixItems": [first, *others], "items": False, **rest}:
            same = all(one == first for one in others)
            return {**rest, "items": _plainer(first if same else {"anyOf": [first, *others]})}
        case dict():
            made = {name: _plainer(value) for name, value in schema.items()}
            return {**made, "items": {}} if made == {"type": "array"} else made
        case list():
            return [_plainer(one) for one in schema]
        case _:
            return schema


def _with_refs(schema: Any) -> Any:
    match schema:
        case dict():
            return {
                name: value.replace("#/$defs/", SCHEMA_REFS) if name == "$ref" else _with_refs(value)
                for name, value in schema.items()
            }
        case list():
            return [_with_refs(one) for one in schema]
        case str() if schema.startswith("#/$defs/"):  # of a discriminator
            return schema.replace("#/$defs/", SCHEMA_REFS)
        case _:
            return schema


# --- the route


def interface_route(
    routes: Sequence[CallRoute], *, base_path: str = "", known: Sequence[CallRoute] = ()
) -> CallRoute:
    """Return the route that serves the document. It is generated at the first call."""

    @lru_cache(maxsize=8)
    def page(server: str, needs_token: bool) -> bytes:  # noqa: FBT001 - a key of the cache
        shown = (*routes, route)
        return encode_plain(
            describe_interface(
                shown, base_path=base_path, server=server, needs_token=needs_token, known=known
            )
        )

    async def show(call: RouteCall) -> WholeAnswer:
        needs_token = call.gateway.callers.rules.needs_token
        # Generating it would delay other calls noticeably.
        return WholeAnswer(body=await outside.offload(page, call.head.root_path, needs_token))

    route = CallRoute("GET", PATH, show, does="returns this document", scope=None)
    return route
