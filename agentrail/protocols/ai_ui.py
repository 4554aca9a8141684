"""The UI message stream of `useChat` in the `ai` SDK: a session's events as parts of one assistant message.

Pure: a response and an event give the next response and its outgoing parts. One cycle is one message, whatever
    interrupts it. Its id is derived from the number of the event that started it, so it stays the same after an
    approval, a reload or a restart. `ai_ui_messages` reads the client's messages. The gateway writes the parts
    and decides when a stream ends.
"""

import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentResumed,
    AgentStart,
    AgentSuspended,
    ApprovalRequired,
    ApprovalResolved,
    AskUser,
    ClientCall,
    EndReason,
    Event,
    MessageDelta,
    MessageStart,
    PromptDropped,
    PromptRejected,
    PromptTaken,
    RequestStart,
    ResponseComplete,
    SteeringApplied,
    StreamError,
    SubagentEvent,
    ThinkingDelta,
    TodoChange,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolProgress,
    ToolTookEffect,
    WaitingFor,
)
from agentrail.messages import (
    AssistantMessage,
    JsonObject,
    PromptRef,
    SteerRef,
    Thinking,
    TokenUsage,
    ToolResult,
)

HEADER: Final = ("x-vercel-ai-ui-message-stream", "v1")
"""Response header that identifies the stream."""

LAST_FRAME: Final = "[DONE]"
"""Content of the last frame, after the part that ends the message."""

UiPart: TypeAlias = Mapping[str, Any]
"""One part of the stream: plain JSON with a `type`, see `uiMessageChunkSchema`."""

ReadText: TypeAlias = Callable[[AssistantMessage], str]
"""Returns the visible text of a response, without the tags that a session removes."""

_FINISH_REASONS: Final[Mapping[EndReason, str]] = MappingProxyType(
    {
        "end": "stop",
        "stop_sequence": "stop",
        "tool_use": "tool-calls",
        "max_tokens": "length",
        "context_window": "length",
        "refused": "content-filter",
        "pause": "other",
        "other": "other",
        "max_turns": "other",
        "not_resumed": "other",
    }
)
_NO_RESULT: Final = "The response ended before this call had a result."


class UiCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call shown to a client.

    Attributes:
        is_clients: Whether the client has to provide its result: it runs the tool, or answers the question.
        is_childs: Whether it belongs to a child session that works for a call of this one.
    """

    name: str
    input: JsonObject
    is_clients: bool = False
    is_denied: bool = False
    is_over: bool = False
    is_childs: bool = False


class UiEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a response.

    Attributes:
        reason: The reason in that part: one of the vendor's values for `finish`, a sentence for the others.
        is_pause: Whether the cycle waits for users, and continues after their answer.
    """

    kind: Literal["finish", "abort", "error"]
    reason: str | None = None
    is_pause: bool = False
    metadata: JsonObject | None = None


class _Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """The visible part of the streaming response.

    Attributes:
        digest: Checksum of that text, which reveals a gap without keeping the text.
        is_late: Whether its beginning was missed, so that its thinking is shown at once on completion.
    """

    ids: tuple[str, ...] = ()
    said: int = 0
    digest: int = 0
    thought: bool = False
    is_late: bool = False


_FRESH: Final = _Attempt()
_NONE_SHOWN: Final[Mapping[str, UiCall]] = MappingProxyType({})


def _whole_text(message: AssistantMessage) -> str:
    return message.text


class UiResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An assistant message, as shown to its client so far.

    Attributes:
        ref: The prompt that it answers, or None for the session's current work.
        message_id: Its id, `m` and a number; empty before it starts.
        is_live: Whether the session's current work is part of it.
        in_step: Whether a step is open: one model request with its calls.
        open_part: Kind and id of the open text or reasoning part.
        last_id: The last number used in an id, and the number of ids that have it.
        attempt: The visible part of the streaming response.
        calls: The calls shown so far, by the id known to the client.
        end: How it ends, or None while it continues.
    """

    ref: PromptRef | None = None
    read_text: ReadText = _whole_text
    message_id: str = ""
    is_live: bool = False
    in_step: bool = False
    open_part: tuple[str, str] | None = None
    last_id: tuple[int, int] = (0, 0)
    attempt: _Attempt = _FRESH
    calls: Mapping[str, UiCall] = _NONE_SHOWN
    waiting_for_children: frozenset[str] = frozenset()
    usage: TokenUsage | None = None
    end: UiEnd | None = None


Shown: TypeAlias = tuple[UiResponse, tuple[UiPart, ...]]
"""The next response, and the parts to send."""


def show_event(response: UiResponse, event: Event) -> Shown:
    """Return the next response and parts for an event of the session."""
    if type(event) is MessageDelta:  # by far the most frequent
        return _show_words(response, event, "text", event.delta)
    if type(event) is ThinkingDelta:
        return _show_words(response, event, "reasoning", event.delta)
    begun = _begin(response, event)
    if begun is not None:
        return begun
    if not response.is_live:
        return _show_unbegun(response, event), ()
    if response.end is not None and not response.end.is_pause:
        return response, ()
    return _show_live(response, event)


def resume_response(response: UiResponse, message_id: str) -> Shown:
    """Continue a message that its client already has up to here, after a user's answer."""
    after = replace(response, message_id=message_id, end=None, in_step=False)
    return after, ({"type": "start", "messageId": message_id},)


def catch_up(response: UiResponse, text: str) -> Shown:
    """Show the beginning of the streaming response to a late client, because its deltas are not stored."""
    if not response.is_live or response.end is not None or response.attempt.is_late or not response.in_step:
        return response, ()
    late = replace(response, attempt=replace(response.attempt, is_late=True))
    if not text:
        return late, ()
    number = response.last_id[0] + 1
    return _show_text(late, number, "text", text)


def pause(response: UiResponse) -> UiResponse:
    """End a response whose cycle still waits for users, who have answered only a part of the questions."""
    if not response.is_live or response.end is not None:
        return response
    return replace(response, end=_finish(response, "tool_use", is_pause=True))


def fail_response(response: UiResponse, reason: str) -> UiResponse:
    """End a response without its cycle: its session has ended, or its stream cannot continue."""
    if response.end is not None:
        return response
    return replace(response, end=UiEnd(kind="error", reason=reason))


def last_parts(response: UiResponse) -> tuple[UiPart, ...]:
    """Return the last parts of a stream: they close every open part, and exactly one reports how the message ended."""
    end = response.end
    assert end is not None  # noqa: S101 - it has ended
    parts: list[UiPart] = [*_closing(response)]
    if response.in_step:
        parts.append({"type": "finish-step"})
    match end.kind:
        case "finish":
            parts.append(
                {"type": "finish", "finishReason": end.reason, "messageMetadata": end.metadata or {}}
            )
        case "abort":
            parts.append({"type": "abort"} if end.reason is None else {"type": "abort", "reason": end.reason})
        case "error":
            parts.append({"type": "error", "errorText": end.reason or "the response failed"})
    return tuple(parts)


# --- the start of a message


def _begin(response: UiResponse, event: Event) -> Shown | None:
    """Start a message if this event does so. Otherwise return None."""
    wanted = response.ref
    match event:
        case AgentStart(ref=ref):
            if wanted is not None and ref != wanted:
                return replace(response, is_live=False), ()
        case PromptTaken(ref=ref) if ref == wanted or (wanted is None and response.is_live):
            pass  # a separate message: in the client, the user's message comes between it and the decided calls
        case SteeringApplied(refs=refs) if wanted is not None and SteerRef(wanted) in refs:
            pass
        case _:
            return None
    message_id = f"m{_number(event)}"
    begun = UiResponse(
        ref=wanted,
        read_text=response.read_text,
        message_id=message_id,
        is_live=True,
        last_id=response.last_id,
    )
    return begun, ({"type": "start", "messageId": message_id},)


def _show_unbegun(response: UiResponse, event: Event) -> UiResponse:
    """Handle the end of a prompt that no cycle works on."""
    if response.ref is None or response.end is not None:
        return response
    match event:
        case PromptDropped(ref=ref) if ref == response.ref:
            return replace(response, end=UiEnd(kind="abort", reason="the prompt was taken out of the queue"))
        case PromptRejected(ref=ref, reason=reason) if ref == response.ref:
            return replace(response, end=UiEnd(kind="error", reason=reason))
        case _:
            return response


# --- events of a cycle


def _show_live(response: UiResponse, event: Event) -> Shown:
    match event:
        case RequestStart():
            return _begin_step(response)
        case MessageStart():
            return replace(response, attempt=_FRESH), ()
        case ResponseComplete(message=message, usage=usage):
            used = usage if response.usage is None else response.usage + usage
            return _complete(replace(response, usage=used), message, _number(event))
        case StreamError(discarded=discarded):
            return _break_attempt(response, event) if discarded else _close_part(response)
        case TodoChange(todos=todos):
            return response, (_data("todos", {"todos": msgspec.to_builtins(todos)}, "todos"),)
        case AskUser():
            return response, (_question(event),)
        case ToolProgress(name=name, call_id=call_id, text=text):
            said = {"toolCallId": call_id, "toolName": name, "text": text}
            return response, ({"type": "data-progress", "data": said, "transient": True},)
        case AgentSuspended(waiting=waiting):
            return _wait(response, waiting)
        case AgentResumed():
            return replace(response, end=None), ()
        case AgentEnd() | AgentAbort() | AgentError():
            return replace(response, end=_end_of(response, event)), ()
        case _:
            return _show_calls(response, event)


def _begin_step(response: UiResponse) -> Shown:
    after, closing = _close_part(response)
    parts = (*closing, {"type": "finish-step"}) if response.in_step else closing
    return replace(after, in_step=True, attempt=_FRESH), (*parts, {"type": "start-step"})


def _wait(response: UiResponse, waiting: tuple[WaitingFor, ...]) -> Shown:
    """End with pending tasks of the client. The call of a question becomes its own, so that it can provide the result."""
    after, parts = _close_part(response)
    for one in waiting:
        known = after.calls.get(one.call_id)
        if one.kind == "question" and known is not None and not known.is_over:
            after, more = _show_call(after, one.call_id, known.name, known.input, is_clients=True)
            parts = (*parts, *more)
    return replace(after, end=_finish(after, "tool_use", is_pause=True)), parts


def _end_of(response: UiResponse, event: AgentEnd | AgentAbort | AgentError) -> UiEnd:
    match event:
        case AgentEnd(stop_reason="superseded"):
            return UiEnd(kind="abort", reason="a later prompt took its place")
        case AgentEnd(stop_reason=stop_reason, usage=usage):
            return _finish(replace(response, usage=usage), stop_reason)
        case AgentAbort(reason=reason):
            return UiEnd(kind="abort", reason=reason)
        case AgentError(error=error):
            return UiEnd(kind="error", reason=error.message)


def _finish(response: UiResponse, stop_reason: EndReason, *, is_pause: bool = False) -> UiEnd:
    metadata: dict[str, Any] = {} if is_pause else {"stopReason": stop_reason}
    usage = response.usage
    if usage is not None:
        metadata["usage"] = {
            "inputTokens": usage.input,
            "outputTokens": usage.output,
            "totalTokens": usage.total,
            "cachedInputTokens": usage.cache_read,
            "reasoningTokens": usage.reasoning,
            "costUsd": usage.cost_usd,
        }
    reason = _FINISH_REASONS.get(stop_reason, "other")
    return UiEnd(kind="finish", reason=reason, is_pause=is_pause, metadata=metadata)


def _closing(response: UiResponse) -> tuple[UiPart, ...]:
    """Close open parts: text always, calls only if no more results can follow."""
    end = response.end
    parts = _close_part(response)[1]
    if not response.is_live or end is None or end.is_pause:
        return parts
    left = [call_id for call_id, call in response.calls.items() if not call.is_over]
    return (
        *parts,
        *(
            {"type": "tool-output-error", "toolCallId": call_id, "errorText": _NO_RESULT, "dynamic": True}
            for call_id in left
        ),
    )


# --- text


def _show_words(response: UiResponse, event: Event, kind: str, delta: str) -> Shown:
    if not response.is_live or response.end is not None or not delta:
        return response, ()
    if kind == "reasoning" and response.attempt.is_late:
        return response, ()
    return _show_text(response, _number(event), kind, delta)


def _show_text(response: UiResponse, number: int, kind: str, delta: str) -> Shown:
    attempt, is_open = response.attempt, response.open_part
    parts: tuple[UiPart, ...] = ()
    last_id = response.last_id
    if is_open is None or is_open[0] != kind:
        last_id = (number, 0) if number > last_id[0] else (last_id[0], last_id[1] + 1)
        opened = f"p{last_id[0]}" if not last_id[1] else f"p{last_id[0]}.{last_id[1]}"
        closing = _close_part(response)[1]
        parts = (*closing, {"type": f"{kind}-start", "id": opened})
        is_open = (kind, opened)
        attempt = replace(attempt, ids=(*attempt.ids, opened))
    if kind == "text":
        digest = zlib.crc32(delta.encode("utf-8", "surrogatepass"), attempt.digest)
        attempt = replace(attempt, said=attempt.said + len(delta), digest=digest)
    elif not attempt.thought:
        attempt = replace(attempt, thought=True)
    after = replace(response, attempt=attempt, open_part=is_open, last_id=last_id)
    return after, (*parts, {"type": f"{kind}-delta", "id": is_open[1], "delta": delta})


def _close_part(response: UiResponse) -> Shown:
    if response.open_part is None:
        return response, ()
    kind, opened = response.open_part
    return replace(response, open_part=None), ({"type": f"{kind}-end", "id": opened},)


def _complete(response: UiResponse, message: AssistantMessage, number: int) -> Shown:
    """Show the missing rest of a complete response.

    If the shown text is not its beginning, the whole text is shown again.
    """
    text = response.read_text(message)
    attempt = response.attempt
    parts: tuple[UiPart, ...] = ()
    begins = text[: attempt.said].encode("utf-8", "surrogatepass")
    if attempt.said and (attempt.said > len(text) or zlib.crc32(begins) != attempt.digest):
        response, parts = _discard(response, number, "the response became another one")
        attempt = response.attempt
    if not attempt.thought:
        for block in message.content:
            if isinstance(block, Thinking) and block.text:
                response, more = _show_text(response, number, "reasoning", block.text)
                closed, end = _close_part(response)
                response, parts = closed, (*parts, *more, *end)
    if len(text) > attempt.said:
        response, more = _show_text(response, number, "text", text[attempt.said :])
        parts = (*parts, *more)
    closed, end = _close_part(response)
    return replace(closed, attempt=_FRESH), (*parts, *end)


def _break_attempt(response: UiResponse, event: StreamError) -> Shown:
    return _discard(response, _number(event), event.error.message)


def _discard(response: UiResponse, number: int, reason: str) -> Shown:
    """Retract the shown part of an attempt, which the session has discarded. Later parts have new ids."""
    after, parts = _close_part(response)
    ids = response.attempt.ids
    after = replace(after, attempt=_FRESH)
    if not ids:
        return after, parts
    told = _data("discarded", {"ids": [*ids], "reason": reason}, f"d{number}")
    return after, (*parts, told)


# --- calls


def _show_calls(response: UiResponse, event: Event) -> Shown:
    match event:
        case ToolExecutionStart(name=name, call_id=call_id, arguments=arguments):
            return _show_call(response, call_id, name, arguments)
        case ClientCall(name=name, call_id=call_id, arguments=arguments):
            return _show_call(response, call_id, name, arguments, is_clients=True)
        case ApprovalRequired():
            return _ask(response, event, event.approval.call_id)
        case ApprovalResolved(approval=approval, status=status):
            return _decided(response, approval.call_id, is_denied=status == "rejected"), ()
        case ToolExecutionEnd(call_id=call_id, result=result):
            return _show_result(response, call_id, result)
        case ToolTookEffect(call_id=call_id, result=result) if call_id in response.calls:
            return response, (_output(call_id, response.calls[call_id], result),)
        case SubagentEvent():
            return _show_child(response, event)
        case _:
            return response, ()


def _show_call(
    response: UiResponse, call_id: str, name: str, arguments: JsonObject, *, is_clients: bool = False
) -> Shown:
    """Show a call, or its changes. Each call is opened once."""
    known = response.calls.get(call_id)
    if known is not None and known.is_over:
        return response, ()
    is_clients = is_clients or (known is not None and known.is_clients)
    if known is not None and known.input == arguments and known.is_clients == is_clients:
        return response, ()
    shown = UiCall(name=name, input=arguments) if known is None else known
    call = replace(shown, name=name, input=arguments, is_clients=is_clients)
    # A call that runs on our side must not be run by the client, nor does the client wait for a result of its
    # own.
    facts = {"toolCallId": call_id, "toolName": name, "dynamic": True, "providerExecuted": not is_clients}
    closed, parts = _close_part(response)
    if known is None:
        parts = (*parts, {"type": "tool-input-start", **facts})
    parts = (*parts, {"type": "tool-input-available", **facts, "input": arguments})
    return replace(closed, calls={**response.calls, call_id: call}), parts


def _ask(response: UiResponse, event: ApprovalRequired, call_id: str) -> Shown:
    approval = event.approval
    after, parts = _show_call(response, call_id, approval.tool, approval.arguments)
    asked: UiPart = {"type": "tool-approval-request", "approvalId": approval.id, "toolCallId": call_id}
    return _decided(after, call_id, is_denied=False), (*parts, asked)


def _decided(response: UiResponse, call_id: str, *, is_denied: bool) -> UiResponse:
    known = response.calls.get(call_id)
    if known is None or known.is_denied == is_denied:
        return response
    return replace(response, calls={**response.calls, call_id: replace(known, is_denied=is_denied)})


def _show_result(response: UiResponse, call_id: str, result: ToolResult) -> Shown:
    parts: tuple[UiPart, ...] = ()
    # Its start is no longer stored, and a client breaks on the result of an unknown call.
    if call_id not in response.calls:
        response, parts = _show_call(response, call_id, result.name, {})
    call = response.calls[call_id]
    if call.is_over:
        return response, parts
    after = replace(response, calls={**response.calls, call_id: replace(call, is_over=True)})
    return after, (*parts, _output(call_id, call, result))


def _output(call_id: str, call: UiCall, result: ToolResult) -> UiPart:
    named: dict[str, Any] = {"toolCallId": call_id}
    if call.is_denied:
        return {"type": "tool-output-denied", **named}
    named["dynamic"] = True
    if result.is_error:
        return {"type": "tool-output-error", **named, "errorText": result.text}
    if call.is_clients and result.details is not None:  # as given by the client
        return {"type": "tool-output-available", **named, "output": result.details}
    if isinstance(result.details, dict) and not call.is_clients:
        named["toolMetadata"] = {"details": result.details}
    return {"type": "tool-output-available", **named, "output": result.words}


# --- child sessions that work for a call


def _show_child(response: UiResponse, event: SubagentEvent) -> Shown:
    """Show the decisions that a child session needs, and end if all running calls wait for them."""
    child_id, inner = event.child_id, event.event
    while isinstance(inner, SubagentEvent):
        child_id, inner = inner.child_id, inner.event
    match inner:
        case AskUser():
            return response, (_question(inner),)
        case ApprovalRequired():
            name = f"{child_id}/{inner.approval.call_id}"
            asked, parts = _ask(response, inner, name)
            known = replace(asked.calls[name], is_childs=True)
            return replace(asked, calls={**asked.calls, name: known}), parts
        case ApprovalResolved(approval=approval, status=status):
            name = f"{child_id}/{approval.call_id}"
            return _decided(response, name, is_denied=status == "rejected"), ()
        case ToolExecutionEnd(call_id=call_id, result=result):
            name = f"{child_id}/{call_id}"
            return _show_result(response, name, result) if name in response.calls else (response, ())
        case AgentSuspended():
            waiting = response.waiting_for_children | {event.call_id}
        case AgentResumed() | AgentEnd() | AgentAbort() | AgentError():
            waiting = response.waiting_for_children - {event.call_id}
        case _:
            return response, ()
    after = replace(response, waiting_for_children=waiting)
    running = {call_id for call_id, call in response.calls.items() if not (call.is_over or call.is_childs)}
    if event.call_id in waiting and running and running <= waiting:
        return replace(after, end=_finish(after, "tool_use", is_pause=True)), ()
    return (replace(after, end=None) if response.end is not None else after), ()


# --- helpers


def _question(event: AskUser) -> UiPart:
    asked: dict[str, Any] = {"ref": event.ref, "question": event.question, "options": [*event.options]}
    if event.schema is not None:
        asked["schema"] = event.schema
    if event.url is not None:
        asked["url"] = event.url
    return _data("question", asked, event.ref)


def _data(kind: str, data: Mapping[str, Any], name: str) -> UiPart:
    return {"type": f"data-{kind}", "id": name, "data": data}


def _number(event: Event) -> int:
    return 0 if event.meta is None else event.meta.seq
