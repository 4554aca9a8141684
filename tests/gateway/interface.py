"""Holds each call that the suite makes against the page of the interface: what is asked, what is answered, and each frame.

It stands between a server and its application, so whatever client a test uses goes through it: a body, an answer, a frame of a stream or of a
socket that is not as the page says fails the test that met it. What is taken for granted is closed here: a field that the page does not
name is a fault, while a client is to expect that fields are added.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qsl

from attrs import define, field
from jsonschema import Draft202012Validator, validators
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from agentrail.gateway.app import ALL_ROUTES
from agentrail.gateway.error_responses import ERROR_ANSWERS
from agentrail.gateway.openapi import describe_interface, interface_route
from agentrail.gateway.serving import connection_cut
from tests.gateway.sse import parse

PAGE: Final = "urn:page"
AT_FAULT: Final = 400
"""From this status on a call was refused."""

OPEN: Final = ("/health", "/ready", "/openapi.json")
"""What looks at nothing of a call."""

ANSWERED_BY: Final = {"welcome": "hello", "pong": "ping"}
"""Frames of a server, and the frame without an id that each of them answers."""

_PLUGIN: Final = {"$ref": "#/components/schemas/PluginAnswer"}


@cache
def page() -> dict[str, Any]:
    drawn: dict[str, Any] = json.loads(
        json.dumps(describe_interface((*ALL_ROUTES, interface_route(ALL_ROUTES))))
    )
    return drawn


# --- schemas


def closed(schema: Any) -> Any:
    """The same, without fields that it does not name."""
    match schema:
        case dict():
            made = {name: closed(one) for name, one in schema.items()}
            if schema.get("type") == "object" and "properties" in schema:
                made.setdefault("additionalProperties", False)
            return made
        case list():
            return [closed(one) for one in schema]
        case _:
            return schema


def _fits(validator: Any, schema: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    """Whether the words that tell members of a union apart are those of this one."""
    if "$ref" in schema:
        schema = _schemas()[schema["$ref"].rpartition("/")[2]]
    for name, rules in schema.get("properties", {}).items():
        if name in value and value[name] not in rules.get("enum", [rules.get("const", value[name])]):
            return False
    return True


def _any_of(validator: Any, members: list[Any], value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    """As the draft says, but that a union is not tried member by member where a word says which it is: that takes a hundred times as long."""
    told = schema.get("discriminator")
    if told is not None and isinstance(value, dict):
        at = told["mapping"].get(value.get(told["propertyName"]))
        if at is not None:
            yield from validator.descend(value, {"$ref": at})
            return
    if isinstance(value, dict):
        members = [one for one in members if not isinstance(one, dict) or _fits(validator, one, value)]
    if len(members) == 1:  # so that what is wrong is said, and not that no member is right
        yield from validator.descend(value, members[0])
        return
    yield from Draft202012Validator.VALIDATORS["anyOf"](validator, members, value, schema)


_Validator: Final = validators.extend(Draft202012Validator, {"anyOf": _any_of})


@cache
def _schemas() -> dict[str, Any]:
    found: dict[str, Any] = closed(page()["components"]["schemas"])
    return found


@cache
def _registry() -> Registry[Any]:
    whole = DRAFT202012.create_resource({"components": {"schemas": _schemas()}})
    made: Registry[Any] = Registry().with_resource(PAGE, whole)
    return made


@cache
def _validator_of(schema: str) -> Any:
    from_page = schema.replace('"#/', f'"{PAGE}#/')
    return _Validator(closed(json.loads(from_page)), registry=_registry())


def validator_for(schema: Any) -> Any:
    """What holds values against a schema of the page; made once for each."""
    return _validator_of(json.dumps(schema))


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], Mapping[str, Any]], ...]:
    found = []
    for path, methods in page()["paths"].items():
        escaped = re.escape(path).replace(r"\{path\}", ".*").replace(r"\{approval\}", ".+")
        found.append((re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", escaped)), methods))
    return tuple(found)


def operation_of(method: str, path: str) -> dict[str, Any] | None:
    """What the page says of a call; None where it knows none."""
    for pattern, methods in _patterns():
        if pattern.fullmatch(path) and method.lower() in methods:
            found: dict[str, Any] = methods[method.lower()]
            return found
    return None


def _without_plugins(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same, where no plugin can have answered: its answer is any object, and would let all pass."""
    members = [one for one in schema.get("anyOf", ()) if one != _PLUGIN]
    return schema if "anyOf" not in schema else members[0] if len(members) == 1 else {"anyOf": members}


# --- one call


@define(eq=False)
class _Call:
    """A call over HTTP, as it goes by."""

    method: str
    path: str
    query: str = ""
    asked_headers: Mapping[str, str] = field(factory=dict)
    is_stream: bool = False
    status: int = 0
    headers: Mapping[str, str] = field(factory=dict)
    asked: bytes = b""
    answered: bytes = b""

    @property
    def operation(self) -> dict[str, Any] | None:
        return operation_of(self.method, self.path)


@define(eq=False)
class PageCheck:
    """An application in front of another one, which looks at all that goes by.

    Its `faults` are sentences, `seen` counts answers and frames, `answered` counts operations by status, and `streams` has the
    headers of each stream's call, oldest first, with what cuts its connection.
    """

    app: Any
    base_path: str = ""
    may_plugins_answer: Callable[[], bool] = lambda: False
    faults: list[str] = field(factory=list)
    seen: int = 0
    answered: Counter[tuple[str, int]] = field(factory=Counter)
    streams: list[tuple[Mapping[str, str], Callable[[], None]]] = field(factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        # Described by its own protocol, or between nodes only.
        if scope["type"] == "http" and not scope["path"].endswith("/mcp") and "/nodes/" not in scope["path"]:
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def check(self) -> None:
        """Fail the test whose calls were not as the page says."""
        assert not self.faults, "not as the page of the interface says: " + "; ".join(self.faults[:5])

    def _hold(self, where: str, schema: Mapping[str, Any], value: Any) -> None:
        self.seen += 1
        fault = next(validator_for(schema).iter_errors(value), None)
        if fault is not None:
            self.faults.append(f"{where} at {fault.json_path}: {fault.message[:300]}")

    # --- HTTP

    async def _http(self, scope: Any, receive: Any, send: Any) -> None:
        raw = scope.get("raw_path") or scope["path"].encode()
        path = raw.decode("latin-1").partition("?")[0]
        path = path.removeprefix(self.base_path) if path.startswith(self.base_path) else ""
        call = _Call(
            "GET" if scope["method"] == "HEAD" else scope["method"],
            path,
            scope.get("query_string", b"").decode(),
            {name.decode(): value.decode("latin-1") for name, value in scope["headers"]},
        )

        async def receive_seen() -> Any:
            message = await receive()
            if message["type"] == "http.request":
                call.asked += message.get("body", b"")
            return message

        async def send_seen(message: Any) -> None:
            if message["type"] == "http.response.start":
                call.status = message["status"]
                call.headers = {name.decode(): value.decode() for name, value in message["headers"]}
                call.is_stream = call.headers.get("content-type", "") == "text/event-stream"
                if call.is_stream:
                    self.streams.append((call.asked_headers, connection_cut(scope) or _cut_nothing))
                    self._look_at_request(call, call.operation or {"parameters": []}, f"stream {call.path}")
            elif message["type"] == "http.response.body":
                call.answered += message.get("body", b"")
                if call.is_stream:
                    self._look_at_frames(call)
                elif not message.get("more_body", False) and scope["method"] != "HEAD":
                    self._look_at(call)
            await send(message)

        await self.app(scope, receive_seen, send_seen)

    def _look_at(self, call: _Call) -> None:
        where = f"{call.method} {call.path} → {call.status}"
        operation = call.operation
        # What an operator has switched off; and a slash that is written as `%2F`, behind which the server looks for another path.
        is_off = (call.status == 404 and b'"code":"route_unknown"' in call.answered) or (
            call.status == 405 and "%2f" in call.path.lower()
        )
        if operation is None or is_off:
            self._look_at_unknown(call, where)
            return
        answer = operation["responses"].get(f"{call.status}")
        self.answered[operation["operationId"], call.status] += 1
        if answer is None:
            self.faults.append(f"{where} is not on the page: {call.answered[:200]!r}")
            return
        content = answer.get("content", {})
        kind = call.headers.get("content-type")
        if (kind not in content) if content else call.answered:
            self.faults.append(f"{where} comes as {kind}, the page says {[*content]}")
        elif kind == "application/json":
            value = json.loads(call.answered)
            schema = content[kind]["schema"]
            self._hold(where, schema if self.may_plugins_answer() else _without_plugins(schema), value)
            self._look_at_code(where, answer, value)
        if call.status < AT_FAULT:
            self._look_at_request(call, operation, where)

    def _look_at_request(self, call: _Call, operation: Mapping[str, Any], where: str) -> None:
        """What was taken is on the page: body, query and headers."""
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            self._hold(f"the body of {where}", schema, json.loads(call.asked or b"{}"))
        known = {
            (one["in"], one["name"].lower() if one["in"] == "header" else one["name"]): one["schema"]
            for one in operation["parameters"]
        }
        if call.path in OPEN:  # they look at no query
            return
        given = [("query", name, value) for name, value in parse_qsl(call.query, keep_blank_values=True)]
        given += [("header", name, value) for name, value in call.asked_headers.items()]
        for place, name, value in given:
            schema = known.get((place, name))
            if schema is not None:
                self._hold(f"{name} of {where}", schema, _plain(value, schema))
            elif place == "query":
                self.faults.append(f"{where} takes {name}, which is not on the page")

    def _look_at_unknown(self, call: _Call, where: str) -> None:
        """A path that is none, a method that is none there, and a preflight, which has no body."""
        if call.method == "OPTIONS" and call.status < AT_FAULT:
            return
        if call.status < AT_FAULT:
            self.faults.append(f"{where} is not on the page")
        elif call.answered:
            shape = "A2aObject" if call.path.startswith("/a2a/") else "ErrorReply"
            self._hold(where, {"$ref": f"#/components/schemas/{shape}"}, json.loads(call.answered))

    def _look_at_code(self, where: str, answer: Mapping[str, Any], value: Any) -> None:
        """The code of an error is one of those that the page names; those that a plugin has chosen are its own."""
        if "x-codes" not in answer or not isinstance(value.get("error"), dict):
            return
        code = value["error"]["code"]
        for detail in value["error"].get("details", ()) or value["error"].get("data", ()):  # of A2A
            code = detail.get("metadata", {"code": code})["code"]
        if code not in answer["x-codes"] and not (self.may_plugins_answer() and code not in ERROR_ANSWERS):
            self.faults.append(f"{where} has the code {code}, the page says {answer['x-codes']}")

    def _look_at_frames(self, call: _Call) -> None:
        """Hold the frames of a stream against the page, as they come."""
        whole, end, rest = call.answered.rpartition(b"\n\n")
        call.answered = rest
        operation = call.operation
        assert operation is not None, f"{call.path} streams, and is not on the page"
        schema = operation["responses"]["200"]["content"]["text/event-stream"]["x-item-schema"]
        if schema != {
            "$ref": "#/components/schemas/StreamFrame"
        }:  # of a protocol of others: data alone, and a word at the end
            for line in (whole + end).decode().split("\n"):
                if line.startswith("data: {"):
                    self._hold(f"{call.path}, a part", schema, json.loads(line[6:]))
            return
        for frame in parse(whole + end):
            told = {"event": frame.event, "data": frame.data}
            if frame.id is not None:
                told["id"] = int(frame.id)
            self._hold(f"{call.path}, frame {frame.event}", schema, told)

    # --- WebSocket

    async def _socket(self, scope: Any, receive: Any, send: Any) -> None:
        told = page()["paths"]["/ws"]["get"]
        asked: dict[Any, dict[str, Any]] = {}

        async def receive_seen() -> Any:
            message = await receive()
            text = message.get("text") if message["type"] == "websocket.receive" else None
            frame = _object_of(text)
            if frame is not None and isinstance(frame.get("id"), str | int):
                asked[frame["id"]] = frame
            elif frame is not None and frame.get("type") in ANSWERED_BY.values():
                asked[frame["type"],] = frame  # a key that no id can be
            return message

        async def send_seen(message: Any) -> None:
            if message["type"] == "websocket.send":
                self._look_at_frame(json.loads(message["text"]), asked, told)
            elif message["type"] == "websocket.http.response.start":
                self.seen += 1
                if f"{message['status']}" not in told["responses"]:
                    self.faults.append(f"an upgrade is refused with {message['status']}")
            elif message["type"] == "websocket.http.response.body" and message.get("body"):
                schema = {"$ref": "#/components/schemas/ErrorReply"}
                self._hold("an upgrade that is refused", schema, json.loads(message["body"]))
            await send(message)

        await self.app(scope, receive_seen, send_seen)

    def _look_at_frame(
        self, frame: dict[str, Any], asked: Mapping[Any, dict[str, Any]], told: Mapping[str, Any]
    ) -> None:
        """Hold a frame of the server against the page, and the command that it replies to where that was done."""
        self._hold(f"frame {frame.get('type')}", told["x-frames"]["server"], frame)
        kind = frame.get("type")
        command = asked.get((ANSWERED_BY[kind],) if kind in ANSWERED_BY else frame.get("id"), {})
        if not command or not frame.get("ok", kind != "reply"):
            return
        name = command["type"]
        self._hold(f"command {name}", told["x-frames"]["client"], command)
        if kind == "reply" and name in told["x-replies"]:
            schema = told["x-replies"][name]
            schema = schema if self.may_plugins_answer() else _without_plugins(schema)
            self._hold(f"reply to {name}", schema, frame["result"])


def _plain(value: str, schema: Mapping[str, Any]) -> Any:
    """What a text of a query or a header stands for; itself where it does not stand for what it has to."""
    if schema.get("type") == "integer" and value.isdecimal():
        return int(value)
    return {"true": True, "false": False}.get(value, value) if schema.get("type") == "boolean" else value


def _cut_nothing() -> None:
    """Another server than ours serves."""


def _object_of(text: str | None) -> dict[str, Any] | None:
    try:
        found = None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def referred(schema: Any) -> Iterable[str]:
    return set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schema)))
