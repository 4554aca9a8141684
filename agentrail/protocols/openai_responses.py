"""OpenAI Responses: a session's events as events of a response, and a client's input as a plan. Pure.

The id of a response, and the numbers of its frames, come from the session's events, so it can be read again at any time.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec
from attrs import field, frozen
from msgspec.structs import replace

from agentrail import events
from agentrail.core.session.views import Status
from agentrail.core.values.toolbox import read_call
from agentrail.messages import AssistantMessage, Message, SessionId, Text, Thinking, TokenUsage, UserMessage
from agentrail.protocols.decisions import ClientDecision, question_words, refuse_request
from agentrail.protocols.openai_requests import (
    OpenAiAsked,
    OpenAiPlan,
    ReadParameters,
    array,
    check_results,
    flag_in,
    json_text,
    read_content,
    read_parameters,
    result_in_past,
    text_in,
    text_of_content,
    usage_shape,
)
from agentrail.protocols.response_changes import (
    ApprovalAsked,
    Begun,
    CallEnded,
    CallShown,
    Frame,
    Frames,
    Happened,
    MessageCompleted,
    PartText,
    ResponseChange,
    ResponseEnd,
    TakenBack,
)
from agentrail.protocols.response_state import Bridge, Response
from agentrail.wire.operations import decide_approval

NUMBER_STEP: Final = 1_000_000
"""Numbers of frames between two events of the session."""

_TEXT: Final = NUMBER_STEP // 2
"""First number of a message's text, after those of its reasoning."""

_LABEL: Final = "agentrail"
_NONE: Final[Mapping[str, int]] = MappingProxyType({})


# --- out


class Responding(msgspec.Struct, frozen=True, kw_only=True):
    """A response as its client has it.

    Attributes:
        created: Time in seconds since 1970.
        is_queued: Whether it was shown as queued, and has not begun.
        after: Number of the last frame that the client has.
        number: Event of the last frames, and `slot` the number of frames for it.
        opened: Items by id, with their places.
        deltas: Numbers of text frames by item id.
    """

    id: str
    model: str
    created: int
    session_id: str
    is_nameless: bool = False
    is_queued: bool = False
    after: int = -1
    number: int = 0
    slot: int = 0
    last: int = -1
    opened: Mapping[str, int] = _NONE
    deltas: Mapping[str, int] = _NONE
    items: Frames = ()


ResponseShown: TypeAlias = tuple[Responding, Frames]


def _show(own: Responding, change: ResponseChange, response: Response) -> ResponseShown:
    if type(change) is PartText:  # by far the most frequent
        return _show_text(own, change)
    if own.number != response.number:
        own = replace(own, number=response.number, slot=0)
    match change:
        case Happened(event=events.PromptQueued()):
            own = replace(own, created=response.at_ms // 1_000, is_queued=True)
            return _events(own, *_statuses(own, "queued", "created", "queued"))
        case Begun():
            created = own.created if own.is_queued else response.at_ms // 1_000
            begun = replace(own, created=created, is_queued=False, opened=_NONE, deltas=_NONE, items=())
            kinds = ("in_progress",) if own.is_queued else ("created", "in_progress")
            return _events(begun, *_statuses(begun, "in_progress", *kinds))
        case MessageCompleted(message_id=message_id, message=message, text=text):
            return _complete(own, message_id, message, text)
        case TakenBack(message_id=message_id):
            return _take_back(own, message_id)
        case CallShown(call_id=call_id, call=call) if call.is_clients:
            arguments = json_text(call.arguments)
            item = {"id": f"fc_{call_id}", "type": "function_call", "call_id": call_id, "name": call.name}
            done = ("function_call_arguments.done", {"arguments": arguments, "name": call.name})
            return _whole(own, {**item, "arguments": arguments, "status": "completed"}, done)
        case CallEnded(call_id=call_id, call=call, result=result) if not (call.is_clients or call.is_childs):
            failed = result is None or result.is_error
            outcome = {"output": "no result" if result is None else result.words, "error": None}
            outcome["status"] = "failed" if failed else "completed"
            item = {"id": f"mcp_{call_id}", "type": "mcp_call", "server_label": _LABEL, "name": call.name}
            return _whole(own, {**item, "arguments": json_text(call.arguments), **outcome})
        case ApprovalAsked(approval=approval) if not own.is_nameless:
            item = {"id": approval.id, "type": "mcp_approval_request", "server_label": _LABEL}
            return _whole(own, {**item, "name": approval.tool, "arguments": json_text(approval.arguments)})
        case Happened(event=events.AskUser() as asked):
            text = question_words(asked)
            facts: Mapping[str, Any] = {"content_index": 0, "text": text, "logprobs": []}
            return _whole(own, _item(f"q_{asked.ref}", text), ("output_text.done", facts))
        case ResponseEnd():
            is_shown = max(own.last, own.after) >= 0
            own, first = (own, ()) if is_shown else _events(own, *_statuses(own, "in_progress", "created"))
            own, last = _end(own, change)
            return own, (*first, *last)
        case _:
            return own, ()


RESPONSES: Final = Bridge(_show)
"""Responses. The last event has the whole response."""


def _events(own: Responding, *given: tuple[str, Mapping[str, Any]]) -> ResponseShown:
    """Number the events, and leave out those that the client has."""
    after, frames = _numbered(own, own.number * NUMBER_STEP + own.slot, given)
    return replace(after, slot=own.slot + len(given)), frames


def _statuses(own: Responding, status: str, *kinds: str) -> list[tuple[str, Mapping[str, Any]]]:
    response = response_object(own, status)
    return [(kind, {"response": response}) for kind in kinds]


def _numbered(own: Responding, first: int, given: Sequence[tuple[str, Mapping[str, Any]]]) -> ResponseShown:
    first = max(first, own.last + 1)
    frames = [
        {"type": f"response.{kind}", "sequence_number": number, **facts}
        for number, (kind, facts) in enumerate(given, first)
        if number > own.after
    ]
    return replace(own, last=first + len(given) - 1), tuple(frames)


def _show_text(own: Responding, change: PartText) -> ResponseShown:
    is_text = change.kind == "text"
    item_id = change.message_id if is_text else f"{change.message_id}.r"
    begin = int(change.message_id[1:].partition(".")[0] or 0) * NUMBER_STEP + (_TEXT if is_text else 0)
    shown: list[tuple[str, Mapping[str, Any]]] = []
    place = own.opened.get(item_id)
    if place is None:
        place = len(own.opened)
        own = replace(own, opened={**own.opened, item_id: place})
        item = _item(item_id, None, is_text=is_text)
        shown.append(("output_item.added", {"output_index": place, "item": item}))
        if is_text:
            shown.append(("content_part.added", {**_at(item_id, place), "part": _part("")}))
    if own.after > begin:  # the item is open there, and comes whole when it is complete
        return own, ()
    delta = {**_at(item_id, place), "delta": change.text}
    if is_text:
        shown.append(("output_text.delta", {**delta, "logprobs": []}))
    else:
        shown.append(("reasoning_text.delta", delta))
    count = own.deltas.get(item_id, 0)
    after, frames = _numbered(own, begin + count + 1, shown)
    return replace(after, deltas={**own.deltas, item_id: count + len(shown)}), frames


def _complete(own: Responding, message_id: str, message: AssistantMessage, text: str) -> ResponseShown:
    thought = "\n\n".join([one.text for one in message.content if isinstance(one, Thinking) and one.text])
    shown: list[tuple[str, Mapping[str, Any]]] = []
    items: list[Frame] = []
    for item_id, said in ((f"{message_id}.r", thought), (message_id, text)):
        if item_id not in own.opened or not said:
            continue
        place = own.opened[item_id]
        is_text = item_id == message_id
        item = _item(item_id, said, is_text=is_text)
        at = _at(item_id, place)
        if is_text:
            shown.append(("output_text.done", {**at, "text": said, "logprobs": []}))
            shown.append(("content_part.done", {**at, "part": _part(said)}))
        else:
            shown.append(("reasoning_text.done", {**at, "text": said}))
        shown.append(("output_item.done", {"output_index": place, "item": item}))
        items.append(item)
    return _events(replace(own, items=(*own.items, *items)), *shown)


def _take_back(own: Responding, message_id: str) -> ResponseShown:
    shown = []
    for item_id, place in own.opened.items():
        if item_id in (message_id, f"{message_id}.r"):
            item = {**_item(item_id, "", is_text=item_id == message_id), "status": "incomplete"}
            shown.append(("output_item.done", {"output_index": place, "item": item}))
    return _events(own, *shown)


def _whole(own: Responding, item: Mapping[str, Any], *done: tuple[str, Mapping[str, Any]]) -> ResponseShown:
    """Show an item that is complete from the start."""
    place = len(own.opened)
    own = replace(own, opened={**own.opened, item["id"]: place}, items=(*own.items, item))
    at = {"output_index": place, "item_id": item["id"]}
    return _events(
        own,
        ("output_item.added", {"output_index": place, "item": item}),
        *[(kind, {**at, **facts}) for kind, facts in done],
        ("output_item.done", {"output_index": place, "item": item}),
    )


def _end(own: Responding, end: ResponseEnd) -> ResponseShown:
    status, kind = "completed", "completed"
    if end.stop_reason in _INCOMPLETE and end.kind == "finished":
        status = kind = "incomplete"
    elif end.kind == "failed":
        status = kind = "failed"
    elif end.kind == "aborted":
        status, kind = "cancelled", "failed"
    # Also for a client with a number that is not of this response: no stream ends without it.
    return _events(replace(own, after=-1), (kind, {"response": response_object(own, status, end)}))


_INCOMPLETE: Final[Mapping[events.EndReason | None, str]] = MappingProxyType(
    {"max_tokens": "max_output_tokens", "context_window": "max_output_tokens", "refused": "content_filter"}
)


def response_object(own: Responding, status: str, end: ResponseEnd | None = None) -> Frame:
    """Return a response as an object, which depends on the session's events alone."""
    reason = _INCOMPLETE.get(end.stop_reason) if end is not None and status == "incomplete" else None
    error = None
    if end is not None and status == "failed":
        error = {"code": "server_error", "message": end.reason or "the response failed", "type": end.code}
    return {
        "id": own.id,
        "object": "response",
        "created_at": own.created,
        "status": status,
        "model": own.model,
        "output": [*own.items],
        "error": error,
        "incomplete_details": None if reason is None else {"reason": reason},
        "conversation": None if own.is_nameless else {"id": own.session_id},
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None if end is None else usage_shape(end.usage or TokenUsage(), "input", "output"),
    }


def _item(item_id: str, text: str | None, *, is_text: bool = True) -> Frame:
    """A message or a reasoning item; without its text while it is open."""
    told: Frame = {"id": item_id, "status": "in_progress" if text is None else "completed"}
    if is_text:
        return {**told, "type": "message", "role": "assistant", "content": [_part(text)] if text else []}
    content = [{"type": "reasoning_text", "text": text}] if text else []
    return {**told, "type": "reasoning", "summary": [], "content": content}


def _part(text: str) -> Frame:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _at(item_id: str, place: int) -> Frame:
    return {"item_id": item_id, "output_index": place, "content_index": 0}


# --- in

_ID: Final = re.compile(r"resp_(?P<session>[A-Za-z0-9._:-]{1,128})_(?P<seq>0|[1-9][0-9]{0,14})")
_OWN: Final = ("input", "instructions", "conversation", "previous_response_id", "store", "background")
_PAST: Final = ("reasoning", "item_reference", "mcp_call", "mcp_approval_request", "mcp_list_tools")


def response_id(session_id: str, seq: int) -> str:
    """Return the id of the response that starts with an event: 0 for one before its session began."""
    return f"resp_{session_id}_{seq}"


def read_response_id(name: str) -> tuple[str, int] | None:
    """Return the session of a response, and the number of its first event. None for any other text."""
    found = _ID.fullmatch(name)
    return None if found is None else (found["session"], int(found["seq"]))


@frozen(kw_only=True)
class ResponseAsked(OpenAiAsked):
    """A request.

    Attributes:
        verdicts: Decisions on approvals by id, each with a reason.
        previous: The response that it follows: its session and its first event.
    """

    verdicts: Mapping[str, tuple[bool, str | None]]
    results: Mapping[str, str] = field(repr=False)
    previous: tuple[str, int] | None
    is_background: bool


def read_response_request(
    plain: Mapping[str, Any], parameters_of: ReadParameters = read_parameters
) -> ResponseAsked:
    """Read a request."""
    instructions = [text_in(plain, "instructions")] if plain.get("instructions") is not None else []
    messages: list[Message] = []
    verdicts: dict[str, tuple[bool, str | None]] = {}
    results: dict[str, str] = {}
    names: dict[str, str] = {}
    given = plain.get("input")
    listed = [{"role": "user", "content": given}] if isinstance(given, str) else array(given or (), "input")
    for number, one in enumerate(listed):
        place = f"input[{number}]"
        match one:
            case {"role": "system" | "developer", "content": content}:
                instructions.append(text_of_content(content, f"{place}.content"))
            case {"role": "user", "content": content}:
                messages.append(UserMessage(content=read_content(content, f"{place}.content")))
            case {"role": "assistant", "content": content}:
                text = text_of_content(content, f"{place}.content")
                said = (Text(text=text),) if text else ()
                messages.append(AssistantMessage(content=said, model="imported"))
            case {
                "type": "function_call",
                "call_id": str(call_id),
                "name": str(name),
                "arguments": str(arguments),
            }:
                names[call_id] = name
                called = read_call(call_id, name, arguments)
                messages.append(AssistantMessage(content=(called,), model="imported"))
            case {"type": "function_call_output", "call_id": str(call_id), "output": output}:
                results[call_id] = text_of_content(output, f"{place}.output")
                messages.append(result_in_past(call_id, results[call_id], names))
            case {
                "type": "mcp_approval_response",
                "approval_request_id": str(name),
                "approve": bool(approve),
            }:
                reason = one.get("reason")
                verdicts[name] = approve, reason if isinstance(reason, str) and reason else None
            case {"type": str(kind)} if kind in _PAST:
                pass
            case _:
                refuse_request(place, "is no item of a known type with its fields")
    if not (messages or verdicts):
        refuse_request("input", "has neither a message nor a result or a decision", "messages_missing")
    is_kept, is_background = plain.get("store") is not False, flag_in(plain, "background")
    if is_background and not is_kept:
        refuse_request("background", "needs store, so that it can be read later", "unsupported_parameter")
    parameters = parameters_of(plain, _OWN, instructions)
    session_id, previous = _place_of(plain)
    return ResponseAsked(
        parameters=parameters,
        messages=tuple(messages),
        verdicts=verdicts,
        results=results,
        session_id=session_id,
        new_id=None if session_id is None else SessionId(session_id),
        previous=previous,
        is_kept=is_kept,
        is_background=is_background,
    )


def _place_of(plain: Mapping[str, Any]) -> tuple[str | None, tuple[str, int] | None]:
    """Return the session to continue, and the response in it, if one is named."""
    named = plain.get("conversation")
    if isinstance(named, Mapping):
        named = text_in(named, "id", "conversation.")
    if named is not None and not isinstance(named, str):
        refuse_request("conversation", "is neither an id nor an object with one")
    previous = plain.get("previous_response_id")
    if previous is None:
        return named, None
    found = read_response_id(previous) if isinstance(previous, str) else None
    if found is None or named is not None:
        message = "is not a response of this server, or comes with a conversation"
        refuse_request("previous_response_id", message)
    return found[0], found if found[1] else None


def decide_response(asked: ResponseAsked, status: Status | None, past: Sequence[Message] = ()) -> OpenAiPlan:
    """Return the plan for a request. `status` and `past` are those of its session, None and empty for a new one."""
    if status is None:
        if asked.verdicts:
            refuse_request("input", "decides an approval of no session", "approval_unknown")
        return asked.begin()
    decisions: list[ClientDecision] = [
        decide_approval(name, reason, is_approved=yes) for name, (yes, reason) in asked.verdicts.items()
    ]
    if asked.results:
        decisions += check_results(asked.results, status, past, "input")
    words = [block for one in asked.messages if isinstance(one, UserMessage) for block in one.content]
    if not decisions and not words:
        refuse_request("input", "has nothing new for this session", "messages_missing")
    return OpenAiPlan(decisions=tuple(decisions), words=tuple(words))
