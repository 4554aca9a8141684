"""The Agent Client Protocol, version 1: messages of an editor, and what it is shown. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from agentrail import events
from agentrail.core.session.approval_rules import rule_of
from agentrail.core.wire.json_text import read_json
from agentrail.core.wire.shapes import Misfit
from agentrail.frozen import EMPTY, thawed
from agentrail.messages import Image, JsonObject, Text, TokenUsage, UserBlock
from agentrail.protocols.decisions import ClientDecision, form_schema
from agentrail.protocols.error_shapes import INVALID_PARAMS, INVALID_REQUEST, NOT_FOUND, PARSE_ERROR
from agentrail.protocols.response_changes import (
    CallEnded,
    CallShown,
    Frame,
    Frames,
    Happened,
    MessageCompleted,
    PartText,
    ResponseChange,
    ShownCall,
    TakenBack,
)
from agentrail.protocols.response_state import Bridge, Response
from agentrail.structs import converter_of
from agentrail.wire.operations import ApproveArguments, DeclineBody, RejectBody, RespondBody

ACP_VERSION: Final = 1
RPC: Final[Frame] = MappingProxyType({"jsonrpc": "2.0"})
AUTH_REQUIRED: Final = -32000
WHEN_EDITOR_BUSY: Final = ("interrupt", "steer", "queue")
ACP_MODES: Final = ("default", "accept_edits", "plan", "dont_ask")
"""Permission modes that an editor may choose. `bypass` needs the user's own word, on the command line."""

_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("read_file", "kb_read", "shell_output"), "read"),
        **dict.fromkeys(("edit_file", "write_file"), "edit"),
        **dict.fromkeys(("glob", "grep", "kb_search", "list_dir", "recall", "web_search"), "search"),
        **dict.fromkeys(("shell", "shell_stop"), "execute"),
        "web_fetch": "fetch",
        "exit_plan": "switch_mode",
    }
)
_STOPS: Final[Mapping[str | None, str]] = MappingProxyType(
    {
        "max_tokens": "max_tokens",
        "context_window": "max_tokens",
        "max_turns": "max_turn_requests",
        "refused": "refusal",
    }
)
_TITLE_CHARACTERS: Final = 120
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_IN_NAME: Final = re.compile(r"[^a-z0-9-]")


class AcpFault(Exception):
    """A message of an editor that is answered with an error of JSON-RPC."""

    def __init__(self, code: int, message: str, data: JsonObject = EMPTY) -> None:
        """Keep the number, the explanation, and details for programs."""
        super().__init__(message)
        self.code: int = code
        self.data: JsonObject = data

    def shown(self) -> Frame:
        """Return the `error` of the answer."""
        return {"code": self.code, "message": f"{self}", **({"data": self.data} if self.data else {})}


# --- incoming messages


class RpcMessage(msgspec.Struct, frozen=True):
    """A message of JSON-RPC. Without a method it answers a request of ours, and without an id it wants no answer."""

    id: str | int | None = None
    method: str | None = None
    params: dict[str, Any] = {}
    result: Any = None
    error: Any = None


class AcpForm(msgspec.Struct, frozen=True, rename="camel"):
    """Parameters of all methods with sessions. What a method needs and did not get is empty, and refused."""

    session_id: str = ""
    cwd: str | None = None
    mcp_servers: tuple[dict[str, Any], ...] | None = None
    prompt: tuple[dict[str, Any], ...] = ()
    mode_id: str = ""
    config_id: str = ""
    value: str = ""


_AS_MESSAGE: Final = converter_of(RpcMessage)
_AS_FORM: Final = converter_of(AcpForm)


def read_rpc(line: bytes) -> RpcMessage:
    """Decode a line. Anything but a message of JSON-RPC raises `AcpFault`."""
    try:
        value = read_json(line)
    except Misfit as misfit:
        raise AcpFault(PARSE_ERROR, f"{misfit}"[:300]) from None
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        message = "expected one JSON-RPC 2.0 message per line, and no batch"
        raise AcpFault(INVALID_REQUEST, message)
    try:
        return _AS_MESSAGE({**value, "params": value.get("params") or {}})
    except msgspec.ValidationError as error:
        raise AcpFault(INVALID_REQUEST, f"not a message of JSON-RPC: {error}") from None


def read_acp_form(params: Mapping[str, Any]) -> AcpForm:
    """Read the parameters of a method. One of another type raises `AcpFault`."""
    try:
        return _AS_FORM(params)
    except msgspec.ValidationError as error:
        raise AcpFault(INVALID_PARAMS, f"invalid parameters: {error}") from None


def read_block(block: Mapping[str, Any]) -> UserBlock:
    """Return a block of a prompt: a linked file becomes a mention, and an embedded one text. Another one is an `AcpFault`."""
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text=text)
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            return Image(media_type=kind, data=data)
        case {"type": "resource_link", "uri": str(uri)}:
            return Text(text=f"@{_path_of(uri)}")
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
            return Text(text=f'<file path="{_path_of(uri)}">\n{text}\n</file>')
        case _:
            message = (
                f"a block of type {block.get('type')!r:.40} cannot be read: send text, an image or a file"
            )
            raise AcpFault(INVALID_PARAMS, message)


def _path_of(uri: str) -> str:
    return unquote(uri[7:]) if uri.startswith("file://") else uri


# --- what an editor is shown


class AcpView(msgspec.Struct, frozen=True):
    """A session as its editor sees it.

    Attributes:
        window: Context window of its model, in tokens. 0 if it is unknown.
        cost_usd: Cost of the session so far. None if it is unknown.
    """

    session_id: str
    cwd: str
    window: int = 0
    cost_usd: float | None = 0.0


_Shown = tuple[AcpView, Frames]


def acp_update(session_id: str, kind: str, /, **fields: Any) -> Frame:
    """Return the notification of a change in a session."""
    params = {"sessionId": session_id, "update": {"sessionUpdate": kind, **fields}}
    return {**RPC, "method": "session/update", "params": params}


def user_chunks(session_id: str, content: Iterable[UserBlock]) -> Frames:
    """Return a user's message, for an editor that loads a session."""
    blocks = [
        {"type": "image", "data": one.data, "mimeType": one.media_type}
        if isinstance(one, Image)
        else _text(one.text if isinstance(one, Text) else f"@{one.path}")
        for one in content
    ]
    return tuple([acp_update(session_id, "user_message_chunk", content=one) for one in blocks])


def show_acp_change(view: AcpView, change: ResponseChange, _response: Response) -> _Shown:
    """Return the next view and the frames of a change."""
    frames: Frames = ()
    session_id = view.session_id
    match change:
        case PartText(kind=part, text=text, message_id=message_id):
            name = "agent_message_chunk" if part == "text" else "agent_thought_chunk"
            frames = (acp_update(session_id, name, content=_text(text), messageId=message_id),)
        case TakenBack(reason=reason, number=number):
            said = _text(f"\n\n[The answer begins again: {reason}]\n\n")
            frames = (acp_update(session_id, "agent_message_chunk", content=said, messageId=f"m{number}"),)
        case CallShown(call_id=call_id, call=call, is_new=is_new):
            kind = "tool_call" if is_new else "tool_call_update"
            fields = {**_call_of(call_id, call, view.cwd), "status": "in_progress"}
            frames = (acp_update(session_id, kind, **fields),)
        case CallEnded(call_id=call_id, call=call, result=result):
            is_failed = result is None or result.is_error
            words = "" if result is None else result.words
            content = [*_diffs(call, view.cwd)] if not is_failed else []
            shown = content or ([{"type": "content", "content": _text(words)}] if words else [])
            fields = {
                "toolCallId": call_id,
                "status": "failed" if is_failed else "completed",
                "content": shown,
            }
            frames = (acp_update(session_id, "tool_call_update", **fields),)
        case MessageCompleted(usage=usage):
            known = view.cost_usd is not None and usage.cost_usd is not None
            view = replace(view, cost_usd=view.cost_usd + usage.cost_usd if known else None)  # type: ignore[operator]
            frames = _usage_update(view, usage)
        case Happened(event=event):
            frames = _show_event(view, event)
        case _:
            pass
    return view, frames


def _show_event(view: AcpView, event: events.Event) -> Frames:
    match event:
        case events.TodoChange(todos=todos):
            return (_plan(view, [(one.content, one.status) for one in todos]),)
        case events.PlanGenerated(plan=plan) | events.PlanCompleted(plan=plan):
            return (_plan(view, [(one.content, one.status) for one in plan.steps]),)
        case events.TitleGenerated(title=title):
            return (acp_update(view.session_id, "session_info_update", title=title),)
        case events.ToolProgress(call_id=call_id, text=text):
            return (_note(view, call_id, text),)
        case events.SubagentStart(call_id=call_id, description=description):
            return (_note(view, call_id, description),)
        case _:
            return ()


def _plan(view: AcpView, steps: Iterable[tuple[str, str]]) -> Frame:
    known = {"pending", "in_progress"}
    entries = [
        {"content": content, "priority": "medium", "status": status if status in known else "completed"}
        for content, status in steps
    ]
    return acp_update(view.session_id, "plan", entries=entries)


def _note(view: AcpView, call_id: str, text: str) -> Frame:
    content = [{"type": "content", "content": _text(text)}]
    return acp_update(view.session_id, "tool_call_update", toolCallId=call_id, content=content)


def _usage_update(view: AcpView, usage: TokenUsage) -> Frames:
    if not view.window:
        return ()
    cost = {} if view.cost_usd is None else {"cost": {"amount": view.cost_usd, "currency": "USD"}}
    used = usage.input + usage.output
    return (acp_update(view.session_id, "usage_update", used=used, size=view.window, **cost),)


def _text(text: str) -> Frame:
    return {"type": "text", "text": text}


def _call_of(call_id: str, call: ShownCall, cwd: str) -> dict[str, Any]:
    path = call.arguments.get("path")
    line = call.arguments.get("offset")
    place: dict[str, Any] = {"path": _absolute(cwd, path)} if isinstance(path, str) else {}
    if place and type(line) is int and line >= 0:
        place["line"] = line
    words = (call.arguments.get("command"), *call.arguments.values())  # the model chooses their order
    first = next((one for one in words if isinstance(one, str)), "")
    title = f"{call.name} {first}".strip()
    return {
        "toolCallId": call_id,
        "title": title if len(title) <= _TITLE_CHARACTERS else f"{title[: _TITLE_CHARACTERS - 1]}…",
        "kind": _KINDS.get(call.name, "other"),
        "rawInput": thawed(call.arguments),
        "locations": [place] if place else [],
        "content": [*_diffs(call, cwd)],
    }


def _diffs(call: ShownCall, cwd: str) -> Iterable[Frame]:
    match call.name, call.arguments:
        case "edit_file", {"path": str(path), "old_string": str(old), "new_string": str(new)}:
            yield {"type": "diff", "path": _absolute(cwd, path), "oldText": old, "newText": new}
        case "write_file", {"path": str(path), "content": str(new)}:
            yield {"type": "diff", "path": _absolute(cwd, path), "newText": new}
        case _:
            pass


def _absolute(cwd: str, path: str) -> str:
    return f"{PurePosixPath(cwd, path)}"


ACP: Final = Bridge(show_acp_change)


def prompt_result(status: str, stop_reason: str | None, usage: TokenUsage | None) -> Frame:
    """Return the result of `session/prompt` for a request's outcome, other than a failure."""
    stop = _STOPS.get(stop_reason, "end_turn") if status == "completed" else "cancelled"
    if usage is None:
        return {"stopReason": stop}
    fields = {
        "totalTokens": usage.input + usage.output,
        "inputTokens": usage.input,
        "outputTokens": usage.output,
        "thoughtTokens": usage.reasoning,
        "cachedReadTokens": usage.cache_read,
        "cachedWriteTokens": usage.cache_write,
    }
    return {"stopReason": stop, "usage": fields}


# --- decisions


def permission_request(view: AcpView, call_id: str, approval: events.Approval, rules: Sequence[str]) -> Frame:
    """Return the request for a decision. The name of `allow_always` is the rules that it makes."""
    fields = _call_of(call_id, ShownCall(name=approval.tool, arguments=approval.arguments), view.cwd)
    path = " > ".join(approval.path[1:])
    fields |= {"title": f"{path}: {fields['title']}" if path else fields["title"], "status": "pending"}
    options = [{"optionId": "allow_once", "name": "Allow", "kind": "allow_once"}]
    if rules or "always" in approval.permission_options:
        is_exact = rule_of(approval.tool, approval.arguments).exact
        every = ", ".join(rules) or ("exactly this call" if is_exact else f"every call of {approval.tool}")
        options.append({"optionId": "allow_always", "name": f"Always allow {every}", "kind": "allow_always"})
    options.append({"optionId": "reject_once", "name": "Reject", "kind": "reject_once"})
    return {
        **RPC,
        "id": approval.id,
        "method": "session/request_permission",
        "params": {"sessionId": view.session_id, "toolCall": fields, "options": options},
    }


def question_request(view: AcpView, call_id: str, asked: events.AskUser) -> Frame:
    """Return the request for an answer, as a form or an address."""
    fields: dict[str, Any] = {"sessionId": view.session_id, "message": asked.question}
    if call_id:
        fields["toolCallId"] = call_id
    if asked.url is not None:
        fields |= {"mode": "url", "url": asked.url, "elicitationId": asked.ref}
    else:
        fields |= {"mode": "form", "requestedSchema": thawed(asked.schema or form_schema(asked))}
    return {**RPC, "id": asked.ref, "method": "elicitation/create", "params": fields}


def read_acp_decision(
    asked: events.Approval | events.AskUser, result: object, *, is_error: bool = False
) -> ClientDecision | None:
    """Return what an editor decided, or None if it decided nothing. An editor that cannot ask refuses."""
    if isinstance(asked, events.Approval):
        match result:
            case {"outcome": {"outcome": "selected", "optionId": "allow_once"}}:
                return ApproveArguments(approval_id=asked.id)
            case {"outcome": {"outcome": "selected", "optionId": "allow_always"}}:
                return ApproveArguments(approval_id=asked.id, kind="always")
            case {"outcome": {"outcome": "selected"}}:
                return RejectBody(approval_id=asked.id, auto_resume=True)
            case {"outcome": {"outcome": "cancelled"}} if not is_error:
                return None
            case _:
                reason = "the editor could not ask the user"
                return RejectBody(approval_id=asked.id, reason=reason, auto_resume=True)
    match result:
        case {"action": "accept", "content": {"answer": str(answer)}} if asked.schema is None:
            return RespondBody(ref=asked.ref, response=answer)
        case {"action": "accept", "content": dict(content)} if asked.schema is not None:
            return RespondBody(ref=asked.ref, response=content)
        case {"action": "accept"} if asked.url is not None:
            return RespondBody(ref=asked.ref, response={} if asked.schema else "done")
        case {"action": "cancel"}:
            return None
        case _:
            return DeclineBody(ref=asked.ref)


# --- settings


def initialize_result(version: str, *, has_terminal: bool) -> Frame:
    """Return the result of `initialize`. A login is offered where the editor can open a terminal for it."""
    login = {"id": "setup", "name": "Set up a model", "type": "terminal", "args": ["--setup"]}
    return {
        "protocolVersion": ACP_VERSION,
        "agentInfo": {"name": "agentrail", "version": version},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "embeddedContext": True},
            "mcpCapabilities": {"http": True},
            "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}},
        },
        "authMethods": [login] if has_terminal else [],
    }


def session_settings(model: str, mode: str | None, when_busy: str) -> dict[str, Any]:
    """Return the modes and options of a session. `mode` is None without permissions."""
    chosen = {"model": (model, (model,)), "when_busy": (when_busy, WHEN_EDITOR_BUSY)}
    if mode is not None:
        chosen["mode"] = (mode, tuple(dict.fromkeys((*ACP_MODES, mode))))
    options = []
    for name, (current, values) in chosen.items():
        shown = [{"value": one, "name": _title(one)} for one in values]
        fields = {
            "id": name,
            "name": _title(name),
            "type": "select",
            "currentValue": current,
            "options": shown,
        }
        options.append(fields if name == "when_busy" else {**fields, "category": name})
    if mode is None:
        return {"configOptions": options}
    modes = [{"id": one, "name": _title(one)} for one in chosen["mode"][1]]
    return {"configOptions": options, "modes": {"currentModeId": mode, "availableModes": modes}}


def _title(name: str) -> str:
    return name if ":" in name else name.replace("_", " ").replace("dont", "don't").capitalize()


def commands_update(session_id: str, commands: Iterable[tuple[str, str, str]]) -> Frame:
    """Announce slash commands, each with its description and a hint for its arguments."""
    shown = [
        {"name": name, "description": description, **({"input": {"hint": hint}} if hint else {})}
        for name, description, hint in commands
    ]
    return acp_update(session_id, "available_commands_update", availableCommands=shown)


def server_options(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an MCP server that an editor names. One that cannot be read is an `AcpFault`."""
    args = server.get("args") or []
    match server:
        case {"name": str(name), "command": str(command)} if isinstance(args, list):
            fields = {"command": (command, *args), "env": _pairs(server.get("env"))}
        case {"name": str(name), "type": "http", "url": str(url)}:
            fields = {"url": url, "headers": _pairs(server.get("headers"))}
        case _:
            raise AcpFault(
                INVALID_PARAMS,
                "an MCP server has a name, and a command with a list of args, or the type http and a url",
            )
    return {"name": _NOT_IN_NAME.sub("-", name.lower())[:32], "scope": "session", **fields}


def _pairs(given: object) -> dict[str, str]:
    pairs = given if isinstance(given, list) else []
    return {f"{one.get('name')}": f"{one.get('value')}" for one in pairs if isinstance(one, dict)}


def unknown_session(session_id: str) -> AcpFault:
    """Return the fault of a session that the editor has not opened."""
    return AcpFault(
        NOT_FOUND, f"session {session_id!r:.80} is not open here: use session/new or session/load"
    )


def listed_session(session_id: str, cwd: str, title: str | None, changed_at_ms: int) -> Frame:
    """Return a row of `session/list`."""
    at = (_EPOCH + timedelta(milliseconds=changed_at_ms)).isoformat()
    return {"sessionId": session_id, "cwd": cwd, "updatedAt": at, **({"title": title} if title else {})}


def said_in_words(session_id: str, text: str) -> Frame:
    """Show a text as the agent's, such as a command's answer."""
    return acp_update(session_id, "agent_message_chunk", content=_text(text))
