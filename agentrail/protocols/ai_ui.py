"""The UI message stream of `useChat` in the `ai` SDK: a response as parts of one assistant message. Pure.

One cycle is one message, also after an interruption. Its id is derived from the number of the event that started it, so
    it stays the same after an approval, a reload or a restart. `ai_ui_messages` reads the client's messages.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from agentrail import events
from agentrail.messages import ToolResult
from agentrail.protocols.response_changes import (
    ApprovalAsked,
    Begun,
    CallEnded,
    CallShown,
    Frame,
    Frames,
    Happened,
    PartEnded,
    PartText,
    ResponseChange,
    ResponseEnd,
    ShownCall,
    Step,
    TakenBack,
)
from agentrail.protocols.response_state import Bridge, Response

Questions: TypeAlias = frozenset[str]
"""Calls shown as the client's own, because their question is answered by providing the call's result."""

_FINISH_REASONS: Final[Mapping[events.EndReason | None, str]] = MappingProxyType(
    {
        "end": "stop",
        "stop_sequence": "stop",
        "tool_use": "tool-calls",
        "max_tokens": "length",
        "context_window": "length",
        "refused": "content-filter",
    }
)
_KINDS: Final = MappingProxyType({"text": "text", "thinking": "reasoning"})
_NO_RESULT: Final = "The response ended before this call had a result."


def _show(questions: Questions, change: ResponseChange, response: Response) -> tuple[Questions, Frames]:
    match change:
        case PartText(kind=kind, text=text, part_id=part_id, is_first=is_first):  # by far the most frequent
            delta = {"type": f"{_KINDS[kind]}-delta", "id": part_id, "delta": text}
            return questions, ({"type": f"{_KINDS[kind]}-start", "id": part_id}, delta) if is_first else (
                delta,
            )
        case Begun(response_id=response_id, is_resumed=is_resumed):
            return questions if is_resumed else frozenset(), ({"type": "start", "messageId": response_id},)
        case Step(is_begun=is_begun):
            return questions, ({"type": "start-step" if is_begun else "finish-step"},)
        case PartEnded(kind=kind, part_id=part_id):
            return questions, ({"type": f"{_KINDS[kind]}-end", "id": part_id},)
        case TakenBack(part_ids=ids, number=number, reason=reason):
            return questions, (_data("discarded", {"ids": [*ids], "reason": reason}, f"d{number}"),)
        case Happened(event=events.AgentSuspended(waiting=waiting)):
            return _show_questions(questions, waiting, response)
        case Happened(event=event):
            return questions, _event_parts(event, questions, response)
        case ResponseEnd():
            return questions, (_end_part(change),)
        case _:
            return questions, _call_parts(change, questions)


AI_UI: Final = Bridge(_show)
"""The UI message stream. Its own state is initially empty. Frames are parts: JSON with a `type`, see `uiMessageChunkSchema`."""

NO_QUESTIONS: Final[Questions] = frozenset()


def _event_parts(event: events.Event, questions: Questions, response: Response) -> Frames:
    match event:
        case events.TodoChange(todos=todos):
            return (_data("todos", {"todos": msgspec.to_builtins(todos)}, "todos"),)
        case events.AskUser():
            asked: dict[str, Any] = {"ref": event.ref, "question": event.question}
            more = {"options": [*event.options], "schema": event.schema, "url": event.url}
            asked |= {name: one for name, one in more.items() if one is not None}
            return (_data("question", asked, event.ref),)
        case events.ToolProgress(name=name, call_id=call_id, text=text):
            said = {"toolCallId": call_id, "toolName": name, "text": text}
            return ({"type": "data-progress", "data": said, "transient": True},)
        case events.ToolTookEffect(call_id=call_id, result=result) if call_id in response.calls:
            return (_output(call_id, response.calls[call_id], result, questions),)
        case _:
            return ()


def _end_part(end: ResponseEnd) -> Frame:
    match end.kind:
        case "finished" | "paused":
            reason = _FINISH_REASONS.get(end.stop_reason, "other")
            return {"type": "finish", "finishReason": reason, "messageMetadata": _metadata(end)}
        case "aborted":
            return {"type": "abort"} if end.reason is None else {"type": "abort", "reason": end.reason}
        case _:
            return {"type": "error", "errorText": end.reason or "the response failed"}


def _metadata(end: ResponseEnd) -> dict[str, Any]:
    metadata: dict[str, Any] = {} if end.kind == "paused" else {"stopReason": end.stop_reason}
    usage = end.usage
    if usage is not None:
        metadata["usage"] = {
            "inputTokens": usage.input,
            "outputTokens": usage.output,
            "totalTokens": usage.total,
            "cachedInputTokens": usage.cache_read,
            "reasoningTokens": usage.reasoning,
            "costUsd": usage.cost_usd,
        }
    return metadata


# --- calls


def _call_parts(change: ResponseChange, questions: Questions) -> Frames:
    match change:
        case CallShown(call_id=call_id, call=call, is_new=is_new):
            facts = _facts(call_id, call, is_clients=_is_clients(call_id, call, questions))
            shown = {"type": "tool-input-available", **facts, "input": call.arguments}
            return ({"type": "tool-input-start", **facts}, shown) if is_new else (shown,)
        case ApprovalAsked(call_id=call_id, approval=approval):
            return ({"type": "tool-approval-request", "approvalId": approval.id, "toolCallId": call_id},)
        case CallEnded(call_id=call_id, call=call, result=result):
            if result is not None:
                return (_output(call_id, call, result, questions),)
            named = {"toolCallId": call_id, "errorText": _NO_RESULT, "dynamic": True}
            return ({"type": "tool-output-error", **named},)
        case _:
            return ()


def _facts(call_id: str, call: ShownCall, *, is_clients: bool) -> Frame:
    # A call that runs on our side must not be run by the client, nor does the client wait for a result of its
    # own.
    return {"toolCallId": call_id, "toolName": call.name, "dynamic": True, "providerExecuted": not is_clients}


def _is_clients(call_id: str, call: ShownCall, questions: Questions) -> bool:
    return call.is_clients or call_id in questions


def _show_questions(
    questions: Questions, waiting: tuple[events.WaitingFor, ...], response: Response
) -> tuple[Questions, Frames]:
    """Show the calls of pending questions again as the client's own, so that it can provide their results."""
    parts: Frames = ()
    for call_id in [one.call_id for one in waiting if one.kind == "question"]:
        call = response.calls.get(call_id)
        if call is None or call.is_over or _is_clients(call_id, call, questions):
            continue
        facts = _facts(call_id, call, is_clients=True)
        parts = (*parts, {"type": "tool-input-available", **facts, "input": call.arguments})
        questions |= {call_id}
    return questions, parts


def _output(call_id: str, call: ShownCall, result: ToolResult, questions: Questions) -> Frame:
    named: dict[str, Any] = {"toolCallId": call_id}
    if call.is_denied:
        return {"type": "tool-output-denied", **named}
    named["dynamic"] = True
    is_clients = _is_clients(call_id, call, questions)
    if result.is_error:
        return {"type": "tool-output-error", **named, "errorText": result.text}
    if is_clients and result.details is not None:  # as given by the client
        return {"type": "tool-output-available", **named, "output": result.details}
    if isinstance(result.details, dict) and not is_clients:
        named["toolMetadata"] = {"details": result.details}
    return {"type": "tool-output-available", **named, "output": result.words}


def _data(kind: str, data: Mapping[str, Any], name: str) -> Frame:
    return {"type": f"data-{kind}", "id": name, "data": data}
