"""MCP, as a server: profiles and tools in its lists, questions as forms, sealed state, and results of calls. Pure."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from agentrail.core.values.json_schema import CompiledSchema
from agentrail.core.values.toolbox import ToolSpec
from agentrail.events import Approval, AskUser, Question, ToolProgress
from agentrail.frozen import canonical_json, thawed
from agentrail.messages import JsonObject, ToolResult
from agentrail.protocols.decisions import ClientDecision, form_schema, refuse_request
from agentrail.protocols.response_changes import (
    CallEnded,
    CallShown,
    Frame,
    Frames,
    Happened,
    PartText,
    ResponseChange,
    ResponseEnd,
    TakenBack,
)
from agentrail.protocols.response_state import Bridge, PendingAnswer, Response, text_of_handled
from agentrail.structs import Value, decoder_of
from agentrail.wire.operations import DeclineBody, RespondBody, decide_approval

MCP: Final = "mcp"
"""Name of the protocol, and channel of its messages."""

CONNECTION_HEADER: Final = "mcp-session-id"
"""Header with the id of a connection of the older revision. Over several nodes it begins with that of its node and a dot."""

STATE_SECONDS: Final = 86_400.0
"""Validity of the state of a call that waits for its client."""

SESSION_URI: Final = "agentrail://sessions/"
_URI: Final = re.compile(re.escape(SESSION_URI) + r"([^/?#]{1,128})(/messages)?")
_HINTED: Final = re.compile(r"<([^<>]{1,64})>|\[([^\[\]]{1,64})\]")
_VARIABLE: Final = re.compile(r"\{([a-z][a-z0-9_]{0,63})\}")
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]")
_TEXT: Final[dict[str, Any]] = {"type": "string"}
CONTENT_KEY: Final = "mcp_content"
"""Key in the details of a tool's result: a list of further blocks for MCP clients, such as audio or a resource."""

_PROMPT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "minLength": 1, "description": "The message."},
        "session_id": {"type": "string", "description": "A session to continue. Default: a new one."},
    },
    "required": ["prompt"],
    "additionalProperties": False,
}
_ANSWER: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"session_id": _TEXT, "text": _TEXT, "stop_reason": _TEXT, "usage": {"type": "object"}},
    "required": ["session_id", "text"],
}
_DECISION: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"decision": {"type": "string", "enum": ["approve", "reject"]}, "reason": _TEXT},
    "required": ["decision"],
}


# --- lists


def mcp_name(profile_id: str) -> str:
    """Return the name of a profile's tool: MCP allows fewer characters than a profile's id."""
    return _NO_NAME.sub("_", profile_id)


def tool_of_profile(profile_id: str, name: str, description: str) -> Frame:
    """Return a profile in the list of tools."""
    said = description or f"Asks the agent {name}, and returns its answer."
    shown = {"name": mcp_name(profile_id), "title": name, "description": said}
    return {**shown, "inputSchema": _PROMPT, "outputSchema": _ANSWER}


def tool_of_spec(spec: ToolSpec) -> Frame:
    """Return a profile's own tool in the list."""
    hints = {"readOnlyHint": spec.effect_class == "pure", "idempotentHint": spec.effect_class != "once"}
    shown = {"name": spec.name, "description": spec.description, "annotations": hints}
    return {**shown, "inputSchema": thawed(spec.parameters)}


def resources_of(session_id: str, title: str) -> tuple[Frame, Frame]:
    """Return a session and its conversation in the list of resources."""
    uri = f"{SESSION_URI}{session_id}"
    shown = {"title": title, "mimeType": "application/json"}
    return (
        {**shown, "uri": uri, "name": session_id},
        {**shown, "uri": f"{uri}/messages", "name": f"{session_id}/messages"},
    )


RESOURCE_TEMPLATES: Final[Frames] = tuple(
    [
        {"uriTemplate": one["uri"], "name": what, "mimeType": one["mimeType"]}
        for one, what in zip(resources_of("{id}", ""), ("session", "messages"), strict=True)
    ]
)


def read_session_uri(uri: str) -> tuple[str, bool] | None:
    """Return the session of a resource, and whether it is its conversation. None for an unknown URI."""
    found = _URI.fullmatch(uri)
    return None if found is None else (found[1], found[2] is not None)


def read_template(template: str, uri: str) -> Mapping[str, str] | None:
    """Return the variables of a URI template, as in `docs://{name}`. None if the URI does not match."""
    parts = _VARIABLE.split(template)[::-1]
    (*texts, first), names = [re.escape(one[::-1]) for one in parts[::2]], parts[-2::-2]
    # From the end, without a second try: forwards, each place of each variable would be tried, for minutes.
    values = [*[f"(?>([^/?#]{{1,256}}?){text})" for text in texts[1:]], f"([^/?#]{{1,256}}){first}"]
    found = re.fullmatch("".join([*texts[:1], *values]) if names else first, uri[::-1])
    given = () if found is None else [unquote(one[::-1]) for one in reversed(found.groups())]
    return None if found is None else dict(zip(names, given, strict=True))


def contents_of_result(uri: str, answer: Frame) -> Frame:
    """Return a tool's result as a resource: the resources in it, or its text."""
    held = [one["resource"] for one in answer["content"] if one["type"] == "resource"]
    return {"contents": held or [{"uri": uri, "text": answer["content"][0]["text"]}]}


def shown_prompt(name: str, description: str, arguments: str) -> Frame:
    """Return a slash command in the list of prompts."""
    declared = prompt_arguments(arguments)
    given: list[dict[str, Any]] = [
        {"name": one, "required": is_needed} for one, is_needed in declared.items()
    ]
    if "arguments" in declared:
        given[0]["description"] = arguments
    return {"name": name, "description": description, "arguments": given}


def prompt_arguments(hint: str) -> Mapping[str, bool]:
    """Return a command's arguments and whether each is required: of a hint such as `<file> [line]`, or all as one."""
    found = {needed or free: bool(needed) for needed, free in _HINTED.findall(hint)}
    return found or ({"arguments": False} if hint else {})


def form_of_arguments(command: str, missing: Sequence[str]) -> Frame:
    """Return the form for missing arguments of a command."""
    fields = dict.fromkeys(missing, _TEXT)
    schema = {"type": "object", "properties": fields, "required": [*missing]}
    return {"mode": "form", "message": f"/{command} takes {', '.join(missing)}.", "requestedSchema": schema}


def faults_of_call(arguments: JsonObject) -> tuple[str, ...]:
    """Return the faults in the arguments of a profile's tool."""
    return CompiledSchema(_PROMPT).faults(arguments)


# --- a response


def _show(own: None, change: ResponseChange, _response: Response) -> tuple[None, Frames]:
    match change:
        case PartText(kind="text", text=text, part_id=part_id):
            return own, ({"part": part_id, "text": text},)
        case TakenBack(part_ids=part_ids):
            return own, ({"discarded": part_ids},)
        case CallShown(is_new=True, call=call):
            return own, ({"line": f"[{call.name}]"},)
        case Happened(event=ToolProgress(text=text)):
            return own, ({"line": text},)
        case Happened(event=AskUser(ref=ref)):
            return own, ({"asked": ref},)
        case CallEnded(call_id=call_id, result=ToolResult() as result):
            return own, ({"call_id": call_id, "result": result},)
        case _:
            return own, ()


MCP_SERVER: Final = Bridge(_show)
"""A response as progress. Its frames stay in the process."""


def text_so_far(frames: Sequence[Frame]) -> str:
    """Return the text of a response for a progress message, without text that was taken back."""
    parts: dict[str, list[str]] = {}
    for frame in frames:
        if "text" in frame:
            parts.setdefault(frame["part"], []).append(frame["text"])
        for part_id in frame.get("discarded", ()):
            parts.pop(part_id, None)
    return "\n\n".join(map("".join, parts.values()))


def call_answer(text: str, session_id: str, end: ResponseEnd) -> Frame:
    """Return the result of a profile's tool."""
    usage = {} if end.usage is None else {"usage": msgspec.to_builtins(end.usage)}
    told = {"session_id": session_id, "text": text, "stop_reason": end.stop_reason or "end", **usage}
    return {"content": [{"type": "text", "text": text}], "structuredContent": told}


def call_failure(code: str, message: str, more: Mapping[str, Any] | None = None) -> Frame:
    """Return an error result. Our code is in its structured content."""
    told = {**(more or {}), "code": code, "message": message}
    return {"content": [{"type": "text", "text": message}], "structuredContent": told, "isError": True}


def handled_answer(body: Any, status: int, session_id: str | None = None) -> Frame:
    """Return the answer of a host plugin, or the output of a command. `session_id` is None for a tool without an output schema."""
    text = text_of_handled(body)
    told = {} if session_id is None else {"structuredContent": {"session_id": session_id, "text": text}}
    return {"content": [{"type": "text", "text": text}], "isError": status >= HTTPStatus.BAD_REQUEST, **told}


def result_of_call(frames: Sequence[Frame], call_id: str) -> Frame:
    """Return the result of a tool that is offered itself."""
    results = [frame["result"] for frame in frames if frame.get("call_id") == call_id]
    if not results:
        return call_failure("cycle_failed", "the tool was not called: a plugin has prevented it")
    result: ToolResult = results[-1]
    blocks: list[Frame] = [{"type": "text", "text": result.text}]
    blocks += [{"type": "image", "data": one.data, "mimeType": one.media_type} for one in result.images]
    told: Frame = {"content": blocks, "isError": result.is_error}
    if not isinstance(result.details, Mapping):
        return told
    details: dict[str, Any] = thawed(result.details)
    own = details.pop(CONTENT_KEY, None)
    if own is not None:
        is_valid = isinstance(own, list) and all(map(_is_block, own))
        blocks += own if is_valid else [{"type": "text", "text": f"[{CONTENT_KEY} has an invalid block]"}]
    return {**told, "structuredContent": details} if details or own is None else told


def _is_block(block: Any) -> bool:
    match block:
        case {"type": "resource", "resource": {"uri": str()} as held} if {"text", "blob"} & held.keys():
            texts = held.values()
        case {"type": "audio" | "image", "data": _, "mimeType": _} | {
            "type": "resource_link",
            "uri": _,
            "name": _,
        }:
            texts = block.values()
        case _:
            return False
    return all(isinstance(one, str) for one in texts)


# --- questions


class McpQuestion(Value, frozen=True, kw_only=True):
    """An approval or a question that a client's user can decide in a form.

    Attributes:
        digest: Hash of what the user is shown. An answer counts only for that.
        schema: Schema of the form, or None to visit `url`.
        is_text: Whether the form has one field, whose text is the answer.
    """

    id: str
    is_approval: bool
    digest: str
    message: str
    schema: JsonObject | None = None
    url: str | None = None
    is_text: bool = False

    @property
    def form(self) -> Frame:
        """Parameters of the client's form."""
        if self.url is not None:
            return {"mode": "url", "message": self.message, "url": self.url, "elicitationId": self.id}
        return {"mode": "form", "message": self.message, "requestedSchema": thawed(self.schema)}


def mcp_question(asked: Approval | AskUser | Question) -> McpQuestion:
    """Return an approval or a question as a form."""
    if isinstance(asked, Approval):
        words = canonical_json(thawed(asked.arguments)).decode()
        hint = f" ({asked.hint})" if asked.hint else ""
        said = f"Allow {asked.tool} with {words}?{hint}"
        digest = asked.arguments_hash
        return McpQuestion(id=asked.id, is_approval=True, digest=digest, message=said, schema=_DECISION)
    schema, is_text = asked.schema, asked.schema is None and asked.url is None
    if is_text:
        schema = form_schema(asked)
    shown = canonical_json([asked.question, asked.url, thawed(schema)])
    digest = hashlib.sha256(shown).hexdigest()
    return McpQuestion(
        id=asked.ref,
        is_approval=False,
        digest=digest,
        message=asked.question,
        schema=schema,
        url=asked.url,
        is_text=is_text,
    )


def mcp_questions(asked: Mapping[str, tuple[str, PendingAnswer]]) -> tuple[McpQuestion, ...]:
    """Return what a client's user can decide. Empty if something else is waited for too."""
    waiting = [one for _, one in asked.values() if isinstance(one, Approval | AskUser)]
    return tuple(map(mcp_question, waiting)) if len(waiting) == len(asked) else ()


class McpState(Value, frozen=True, kw_only=True):
    """State of a call that waits for its client. The library seals it for its principal and its arguments.

    Attributes:
        ref: Prompt of the waiting cycle.
        asked: Digests of the questions, by id.
    """

    session_id: str
    ref: str
    asked: dict[str, str]


def input_required(state: McpState, questions: Sequence[McpQuestion]) -> Frame:
    """Return the result of a call whose client has to answer questions, and call again."""
    forms = {one.id: {"method": "elicitation/create", "params": one.form} for one in questions}
    sealed = msgspec.json.encode(state).decode()
    return {"resultType": "input_required", "inputRequests": forms, "requestState": sealed}


MCP_STATES: Final = decoder_of(McpState)


def waiting_words(session_id: str, questions: Sequence[McpQuestion], *, is_tool: bool) -> str:
    """Return the message for a client that cannot ask its user. The call of a tool itself is over then."""
    head = f"Session {session_id} waits for a user."
    last = "Decide it in the console, or over HTTP, and call again."
    if is_tool:
        head, last = "The call was stopped, because it needs a user.", "Use a client with elicitation."
    return "\n".join([head, *[f"{one.id}: {one.message}" for one in questions], last])


def decide_mcp_answers(
    asked: Mapping[str, str], pending: Sequence[McpQuestion], answers: Mapping[str, Mapping[str, Any]]
) -> tuple[ClientDecision, ...]:
    """Return the decisions in a client's answers, or refuse all of them.

    Args:
        asked: Digests of the questions that the client was asked, by id.
        pending: Questions that wait now. All that the client was asked must be among them, unchanged.
        answers: Results of the forms, by id. A missing or cancelled one leaves its question open.
    """
    waiting = {one.id: one for one in pending}
    if any(name not in waiting or waiting[name].digest != digest for name, digest in asked.items()):
        refuse_request("", "this was decided before, or has changed", "already_resolved")
    decisions: list[ClientDecision] = []
    for name in asked:
        decisions += _decide_one(waiting[name], answers.get(name, {"action": "cancel"}))
    return tuple(decisions)


def _decide_one(question: McpQuestion, answer: Mapping[str, Any]) -> tuple[ClientDecision, ...]:
    content = answer.get("content") or {}
    match answer.get("action"):
        case "cancel":
            return ()
        case "decline" if question.is_approval:
            return (decide_approval(question.id, None, is_approved=False),)
        case "decline":
            return (DeclineBody(ref=question.id),)
        case "accept" if question.schema is None:
            return (RespondBody(ref=question.id, response="done"),)
        case _:
            faults = CompiledSchema(question.schema or {}).faults(content)
    if answer.get("action") != "accept" or faults:
        fault = "; ".join(faults) or "action is none of accept, decline and cancel"
        refuse_request(question.id, fault, "invalid_response")
    if not question.is_approval:
        return (RespondBody(ref=question.id, response=content["answer"] if question.is_text else content),)
    return (
        decide_approval(question.id, content.get("reason"), is_approved=content["decision"] == "approve"),
    )
