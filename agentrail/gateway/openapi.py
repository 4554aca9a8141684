"""`/openapi.json`: the page of the interface for programs, made of the routes themselves and of the very structs that are read and written.

Pure, but for the route. What a route answers with stands in one table here, and a test holds it against the routes and what they write.
"""

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from agentrail import outside
from agentrail.core.wire import codec
from agentrail.events import AbortReceipt
from agentrail.gateway.bodies import BODIES
from agentrail.gateway.replies import (
    ApprovalDecided,
    CallStopped,
    CancelReply,
    CompactionAsked,
    FilePage,
    HostPluginList,
    InspectedMessages,
    ModelReply,
    QuestionAnswered,
    RequestReply,
    SessionCreated,
    SessionForked,
    SessionPage,
    SessionRewound,
    TracePage,
    TreeItem,
)
from agentrail.gateway.routing import CallRoute, RouteCall, WholeAnswer
from agentrail.wire.forms import MessagePage, SnapshotForm
from agentrail.wire.plain import encode_plain

VERSION: Final = "1"
"""Of the interface: it rises with a change that breaks clients."""

PATH: Final = "/openapi.json"

_EMPTY: Final = 204
"""The status of an answer without a body, as of HTTP."""

_REFS: Final = "#/components/schemas/"

REPLIES: Final[Mapping[tuple[str, str], type | tuple[type, ...]]] = {
    ("POST", "/sessions"): SessionCreated,
    ("GET", "/sessions"): SessionPage,
    ("GET", "/sessions/{session_id}"): SnapshotForm,
    ("GET", "/sessions/{session_id}/messages"): MessagePage,
    ("POST", "/sessions/{session_id}/model"): ModelReply,
    ("POST", "/sessions/{session_id}/fork"): SessionForked,
    ("POST", "/sessions/{session_id}/rewind"): SessionRewound,
    ("POST", "/sessions/{session_id}/compact"): CompactionAsked,
    ("POST", "/sessions/{session_id}/abort"): (AbortReceipt, CallStopped),
    ("POST", "/sessions/{session_id}/approve"): ApprovalDecided,
    ("POST", "/sessions/{session_id}/reject"): ApprovalDecided,
    ("POST", "/sessions/{session_id}/respond"): QuestionAnswered,
    ("GET", "/sessions/{session_id}/requests/{request_id}"): RequestReply,
    ("POST", "/sessions/{session_id}/requests/{request_id}/cancel"): CancelReply,
    ("GET", "/sessions/{session_id}/files"): FilePage,
    ("GET", "/inspect/sessions"): SessionPage,
    ("GET", "/inspect/tree"): TreeItem,
    ("GET", "/inspect/plugins"): HostPluginList,
    ("GET", "/inspect/sessions/{session_id}/trace"): TracePage,
    ("GET", "/inspect/sessions/{session_id}/messages"): InspectedMessages,
}
"""What a route answers with where it succeeds, by method and path; of others it is a JSON object."""

_ALSO: Final[Mapping[tuple[str, str], int]] = {
    ("POST", "/sessions/{session_id}/abort"): 200,
    ("POST", "/chat"): 202,
    ("GET", "/ai-ui/{agent_id}/{session_id}/stream"): 204,
}
"""Routes that succeed in two ways, and the other status."""

_ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "description": "Why a call was refused, or failed.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {
                "code": {"type": "string", "description": "Stable, for programs."},
                "message": {"type": "string", "description": "What was expected, what came."},
                "hint": {"type": ["string", "null"], "description": "What to do next."},
            },
        }
    },
}


_UI_PART: Final[dict[str, Any]] = {
    "type": "object",
    "description": "A part of a UI message stream, as of `uiMessageChunkSchema` of the `ai` SDK. The last frame is `[DONE]`.",
    "required": ["type"],
    "properties": {"type": {"type": "string"}},
}


def describe_interface(routes: Iterable[CallRoute], *, base_path: str = "") -> dict[str, Any]:
    """Make the page: OpenAPI 3.1.

    Args:
        routes: All that there are.
        base_path: Below which path they stand.
    """
    schemas = described_schemas()
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = f"{base_path}{route.path.replace(':path}', '}')}"
        paths.setdefault(path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "agentrail",
            "version": VERSION,
            "description": "Sessions of agents behind HTTP. Bodies are JSON objects; unknown fields are refused.",
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def described_schemas() -> dict[str, Any]:
    """Give the schema of each struct by its name, those of events among them."""
    structs: set[type] = {*BODIES}
    for kinds in REPLIES.values():
        structs |= set(kinds if isinstance(kinds, tuple) else (kinds,))
    in_order = sorted(structs, key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components(in_order, ref_template=f"{_REFS}{{name}}")
    events = _with_refs(codec.event_schema())
    definitions: dict[str, Any] = events.pop("$defs")
    definitions["SubagentEvent"]["properties"]["event"] = {"$ref": f"{_REFS}Event"}
    schemas = {**definitions, **schemas, "Event": events, "Error": _ERROR, "UiMessagePart": _UI_PART}
    for kind in in_order:
        _describe(kind, schemas.get(kind.__name__))
    for schema in schemas.values():
        if "Attributes:" in schema.get("description", ""):
            schema["description"] = _first(schema["description"])
    return schemas


def _operation(route: CallRoute) -> dict[str, Any]:
    key = (route.method, route.path)
    content = _content_of(route, _schema_of(REPLIES.get(key)))
    answers: dict[str, Any] = {f"{route.success}": _answered("As asked.", content)}
    if key in _ALSO:
        also = _ALSO[key]
        answers[f"{also}"] = _answered("As asked, in the other way.", {} if also == _EMPTY else content)
    error = {"application/json": {"schema": {"$ref": f"{_REFS}Error"}}}
    operation: dict[str, Any] = {
        "operationId": name_of_operation(route),
        "summary": route.does,
        "parameters": [*_parameters(route)],
        "responses": {**answers, "default": _answered("Refused, or failed.", error)},
    }
    if route.body is not None:
        schema = {"$ref": f"{_REFS}{route.body.__name__}"}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if route.scope is not None:
        operation["security"] = [{"token": [route.scope]}]
    return operation


def _schema_of(kinds: type | tuple[type, ...] | None) -> dict[str, Any]:
    match kinds:
        case None:
            return {"type": "object"}
        case tuple():
            return {"anyOf": [_schema_of(kind) for kind in kinds]}
        case _:
            return {"$ref": f"{_REFS}{kinds.__name__}"}


def _answered(what: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": what, "content": content} if content else {"description": what}


def _content_of(route: CallRoute, schema: Mapping[str, Any]) -> dict[str, Any]:
    if route.success == _EMPTY:
        return {}
    if route.is_stream:
        event = {"$ref": f"{_REFS}{route.frames}"}
        return {"text/event-stream": {"schema": {"type": "string", "contentSchema": event}}}
    if route.path.endswith(":path}"):
        return {"application/octet-stream": {}}
    return {"application/json": {"schema": schema}}


def _parameters(route: CallRoute) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)(?::path)?\}", route.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    for name in route.query:
        yield {"name": name, "in": "query", "schema": {"type": "string"}}


def name_of_operation(route: CallRoute) -> str:
    """Name an operation for programs: the method, and the words of the path."""
    words = re.findall(r"\w+", re.sub(r"\{(\w+?)(?:_id)?(?::path)?\}", r"\1", route.path))
    return "_".join([route.method.lower(), *words])


# --- words


def _describe(kind: type, schema: dict[str, Any] | None) -> None:
    """Take the words of a docstring over: what stands there is said once."""
    said = inspect.getdoc(kind) or ""
    if schema is None:
        return
    for name, words in re.findall(r"^    (\w+): (.+(?:\n        .+)*)", said, re.MULTILINE):
        if name in schema.get("properties", {}):
            schema["properties"][name]["description"] = " ".join(words.split())


def _first(words: str) -> str:
    return " ".join(words.partition("\n\n")[0].split())


def _with_refs(schema: Any) -> Any:
    match schema:
        case dict():
            return {
                name: value.replace("#/$defs/", _REFS) if name == "$ref" else _with_refs(value)
                for name, value in schema.items()
            }
        case list():
            return [_with_refs(one) for one in schema]
        case str() if schema.startswith("#/$defs/"):  # of a discriminator
            return schema.replace("#/$defs/", _REFS)
        case _:
            return schema


# --- the route


def interface_route(routes: Sequence[CallRoute], *, base_path: str = "") -> CallRoute:
    """Make the route that shows the page of all routes, itself among them. It is made at the first call."""

    @cache
    def page() -> bytes:
        return encode_plain(describe_interface((*routes, route), base_path=base_path))

    async def show(_: RouteCall) -> WholeAnswer:
        return WholeAnswer(
            body=await outside.offload(page)
        )  # drawing it takes long enough for others to notice

    route = CallRoute("GET", PATH, show, does="shows this page", scope=None)
    return route
