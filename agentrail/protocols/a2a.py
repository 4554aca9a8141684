"""A2A 1.0: a session's events as a task and its updates, and a client's parts as decisions. Pure.

A task is one prompt and its cycle. Its id names the prompt and its session, so it is found again after a restart.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias

import msgspec
from msgspec.structs import replace

from agentrail import events
from agentrail.core.session.views import Status
from agentrail.core.values.json_schema import NotJson, decode_strictly
from agentrail.messages import JsonObject, Text
from agentrail.protocols import response_changes as changes
from agentrail.protocols.decisions import ClientDecision, order_decisions, refuse_request
from agentrail.protocols.response_changes import Frame, Frames
from agentrail.protocols.response_state import Bridge, Bridged, PendingAnswer, Response, closing
from agentrail.structs import converter_of
from agentrail.wire.operations import AnswerBody, ApproveArguments, DeclineBody, RejectBody, RespondBody

MAX_TASKS_OF_A_PAGE: Final = 100
_ID: Final = re.compile(r"(?P<ref>[^~]+)~(?P<seq>[1-9][0-9]{0,14})~(?P<session>.+)")
_MAX_WHOLE: Final = (1 << 53) - 1
_STATES: Final = MappingProxyType(
    {"finished": "COMPLETED", "paused": "INPUT_REQUIRED", "aborted": "CANCELED", "failed": "FAILED"}
)
_ANSWERS: Final = MappingProxyType({"response": RespondBody, "declined": DeclineBody, "text": AnswerBody})


# --- out


class A2aTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task as its client has it.

    Attributes:
        state: State without its prefix, since `at_ms` in milliseconds since 1970, and `said` to explain it.
        parts: Parts of the answer, one per complete message.
        told_in: Id of the message with the last text. Empty before any.
        is_json: Whether the last message of the cycle is a JSON document.
    """

    id: str
    context_id: str
    at_ms: int
    state: str = "SUBMITTED"
    said: Frames = ()
    parts: Frames = ()
    history: Frames = ()
    told_in: str = ""
    is_json: bool = False


A2aShown: TypeAlias = tuple[A2aTask, Frames]


def open_task(
    event: events.PromptReceived | events.PromptQueued, session_id: str, *, is_json: bool
) -> A2aTask:
    """Return the task of a prompt."""
    seq, at_ms = (0, 0) if event.meta is None else (event.meta.seq, event.meta.at_ms)
    task = A2aTask(id=f"{event.ref}~{seq}~{session_id}", context_id=session_id, at_ms=at_ms, is_json=is_json)
    parts = tuple([_text(one.text) for one in event.content if isinstance(one, Text)])
    return replace(task, history=(_message(task, f"m{seq}", "USER", parts),))


def read_task_id(task_id: str) -> tuple[str, int, str] | None:
    """Return the prompt of a task, its event number and its session. None for any other text."""
    found = _ID.fullmatch(task_id)
    return None if found is None else (found["ref"], int(found["seq"]), found["session"])


def show_task(task: A2aTask, *, history: int | None = None, artifacts: bool = True) -> Frame:
    """Return the object of a task, with its last messages, or all."""
    shown: dict[str, Any] = {"id": task.id, "contextId": task.context_id, "status": _status(task)}
    if artifacts and task.parts:
        shown["artifacts"] = [{"artifactId": "answer", "parts": task.parts}]
    return shown if history == 0 else {**shown, "history": task.history[-(history or 0) :]}


def settled_task(state: Bridged[A2aTask]) -> A2aTask:
    """Return the task after the events so far."""
    response = state.response
    return state.own if response.end is None else A2A.write(state.own, (response, closing(response)))[0].own


def _show(task: A2aTask, change: changes.ResponseChange, response: Response) -> A2aShown:
    match change:
        case changes.PartText(kind="text", text=text, message_id=message_id):  # by far the most frequent
            return (task, ()) if task.is_json else _tell(task, text, message_id)
        case changes.Begun(is_resumed=is_resumed):
            return _move(
                task if is_resumed else replace(task, parts=(), told_in=""), "WORKING", response.at_ms
            )
        case changes.TakenBack(message_id=message_id) if message_id == task.told_in:
            return replace(task, told_in="-"), (_artifact(task, task.parts or (_text(""),), append=False),)
        case changes.MessageCompleted(message_id=message_id, text=text) if text:
            parts = (_text(text),) if task.is_json else (*task.parts, _text(_apart(task, text)))
            said = _message(task, message_id, "AGENT", (_text(text),))
            return replace(task, parts=parts, history=(*task.history, said)), ()
        case changes.Happened(event=events.AgentSuspended()):  # a later event does not change the state
            return replace(task, at_ms=response.at_ms or task.at_ms), ()
        case changes.ResponseEnd():
            return _end(task, change, response)
        case _:
            return task, ()


A2A: Final = Bridge(_show)
"""A2A. Its own state is the task. Frames are `StreamResponse` objects, or an error if only the stream ended."""


def _text(text: str) -> Frame:
    return {"text": text}


def _apart(task: A2aTask, text: str) -> str:
    return f"\n\n{text}" if task.parts else text


def _tell(task: A2aTask, text: str, message_id: str) -> A2aShown:
    said = text if message_id == task.told_in else _apart(task, text)
    told = (_artifact(task, (_text(said),), append=task.told_in != ""),)
    return (task if message_id == task.told_in else replace(task, told_in=message_id)), told


def _artifact(task: A2aTask, parts: Frames, *, append: bool) -> Frame:
    named = {"taskId": task.id, "contextId": task.context_id}
    return {
        "artifactUpdate": {**named, "artifact": {"artifactId": "answer", "parts": parts}, "append": append}
    }


def _message(task: A2aTask, message_id: str, role: str, parts: Frames) -> Frame:
    named = {"messageId": message_id, "taskId": task.id, "contextId": task.context_id}
    return {**named, "role": f"ROLE_{role}", "parts": parts}


def _status(task: A2aTask) -> Frame:
    at = datetime.fromtimestamp(task.at_ms / 1_000, UTC).isoformat(timespec="milliseconds")
    said = {"message": _message(task, f"{task.id}-{task.at_ms}", "AGENT", task.said)} if task.said else {}
    return {"state": f"TASK_STATE_{task.state}", "timestamp": at.replace("+00:00", "Z"), **said}


def _move(task: A2aTask, state: str, at_ms: int, said: Frames = ()) -> A2aShown:
    moved = replace(task, state=state, said=said, at_ms=at_ms or task.at_ms)
    return moved, (
        {"statusUpdate": {"taskId": task.id, "contextId": task.context_id, "status": _status(moved)}},
    )


def _end(task: A2aTask, end: changes.ResponseEnd, response: Response) -> A2aShown:
    state = _STATES[end.kind]
    said: Frames = ()
    frames: Frames = ()
    if end.kind == "paused":
        said = tuple([part for name, (_, asked) in response.asked.items() for part in _asks(name, asked)])
    elif end.reason is not None:
        said = (_text(end.reason),)
    if end.kind == "failed" and end.event is None:
        if end.code != "prompt_rejected":  # only the stream ends: the task continues
            return task, ({"error": {"code": end.code, "message": end.reason}},)
        state = "REJECTED"
    if task.is_json and end.kind == "finished" and task.parts:
        with suppress(NotJson):  # the turns may end before there is a document
            task = replace(task, parts=({"data": decode_strictly(task.parts[-1]["text"])},))
        frames = (_artifact(task, task.parts, append=False),)
    moved, more = _move(task, state, task.at_ms if end.kind == "paused" else response.at_ms, said)
    return moved, (*frames, *more)


def _asks(name: str, asked: PendingAnswer) -> Frames:
    """Return the parts that ask a client for an answer: words, and the facts that its data part needs."""
    match asked:
        case events.Approval(tool=tool, arguments=arguments, hint=hint):
            answer = json.dumps({"approval_id": name, "approved": True})
            said = f"{tool} needs an approval. Answer with a data part such as {answer}."
            return _text(said), {
                "data": {"approval_id": name, "tool": tool, "arguments": arguments, "hint": hint}
            }
        case events.AskUser(question=question, options=options, schema=schema, url=url):
            facts = {"ref": name, "question": question, "options": options, "schema": schema, "url": url}
            return _text(question), {"data": facts}
        case call:
            said = f"Run {call.name}, and answer with a data part: ref, and its result as text."
            return _text(said), {"data": {"ref": name, "tool": call.name, "arguments": call.arguments}}


# --- in


def refuse_push() -> NoReturn:
    """Refuse a call that asks for push notifications."""
    message = "push notifications are not sent: subscribe to the task, or poll it"
    refuse_request("", message, "push_unsupported")


def read_parts(params: Mapping[str, Any]) -> tuple[str, tuple[JsonObject, ...]]:
    """Return the text and the data of a message, which answers what its task waits for."""
    message, data = params["message"], list[JsonObject]()
    if "taskPushNotificationConfig" in params.get("configuration", {}):
        refuse_push()
    if message["role"] != "ROLE_USER":
        refuse_request("message.role", "is not ROLE_USER")
    for number, part in enumerate(message["parts"]):
        if isinstance(part.get("data"), dict) and "taskId" in message:
            data.append(_whole_numbers(part["data"]))
        elif "text" not in part:
            said = "is not taken: send text, or an object as data that answers what a task waits for"
            refuse_request(f"message.parts[{number}]", said, "part_unsupported")
    return "\n".join([part["text"] for part in message["parts"] if "text" in part]), tuple(data)


def _whole_numbers(value: Any) -> Any:
    # The library's data has floats alone, but tools have integers too.
    match value:
        case float() if value.is_integer() and abs(value) <= _MAX_WHOLE:
            return int(value)
        case dict():
            return {name: _whole_numbers(one) for name, one in value.items()}
        case list():
            return list(map(_whole_numbers, value))
        case _:
            return value


def decide_answers(text: str, data: Sequence[JsonObject], status: Status) -> tuple[ClientDecision, ...]:
    """Return the decisions of a message to a waiting task. Text answers the only question, and never approves."""
    questions = status.all_questions
    only = questions[0].ref if len(questions) == 1 else None
    decisions = [_decision(one, only) for one in data]
    if text:
        decisions.append(None if only is None else RespondBody(ref=only, response=text))
    found = [one for one in decisions if one is not None]
    if found and len(found) == len(decisions):
        return order_decisions(found, status, stand_alone=True)
    needed = [f'{{"approval_id": "{one.id}", "approved": true}}' for one in status.all_approvals]
    needed += [f'{{"ref": "{one.ref}", "response": …}}' for one in questions]
    needed += [f'{{"ref": "{one.ref}", "text": …}}' for one in status.all_client_calls]
    said = f"do not answer what the task waits for: send data parts such as {' and '.join(needed)}"
    return refuse_request("message.parts", said)


def _decision(data: JsonObject, only_question: str | None) -> ClientDecision | None:
    given = {name: value for name, value in data.items() if name not in ("approved", "declined")}
    kind: Any = next((kind for name, kind in _ANSWERS.items() if "ref" in data and name in data), None)
    if "approval_id" in data and isinstance(data.get("approved"), bool):
        kind, given["auto_resume"] = ApproveArguments if data["approved"] else RejectBody, True
    elif not given.keys() & {"approval_id", "ref"} and only_question is not None:
        kind, given = RespondBody, {"ref": only_question, "response": given}  # a form
    try:
        return None if kind is None else converter_of(kind)(given)
    except msgspec.ValidationError:
        return None


# --- lists


def page_of_tasks(tasks: Iterable[A2aTask], asked: Mapping[str, Any]) -> tuple[tuple[A2aTask, ...], Frame]:
    """Return a page of tasks, the last changed first, and the other fields of its response."""
    size, (at, _, name) = asked.get("pageSize", 50), asked.get("pageToken", "").partition(".")
    if not 1 <= size <= MAX_TASKS_OF_A_PAGE:
        refuse_request("pageSize", "is not between 1 and 100")
    if "pageToken" in asked and not (name and at.isascii() and at.isdigit() and len(at) < 17):  # noqa: PLR2004 - milliseconds
        refuse_request("pageToken", "is not the token of a page")
    named = f"{asked.get('status', '')}"  # the library has an unknown one as a number
    state = named.removeprefix("TASK_STATE_")
    since = datetime.fromisoformat(asked.get("statusTimestampAfter", "1970-01-01T00:00Z")).timestamp() * 1_000
    wanted = [one for one in tasks if state in ("", one.state) and one.at_ms >= since]
    found = sorted(wanted, key=_place, reverse=True)
    rest = [one for one in found if not at or _place(one) < (int(at), name)]
    after = f"{rest[size - 1].at_ms}.{rest[size - 1].id}" if len(rest) > size else ""
    return tuple(rest[:size]), {"nextPageToken": after, "pageSize": size, "totalSize": len(found)}


def _place(task: A2aTask) -> tuple[int, str]:
    return task.at_ms, task.id
