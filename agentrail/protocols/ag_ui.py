"""AG-UI 1.0: a session's events as the events of one run. Pure.

A client appends to each message and call that it knows, so no id is opened twice.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from agentrail import events
from agentrail.core.values.history import GrowingSet, Log
from agentrail.frozen import canonical_json
from agentrail.messages import JsonObject, Thinking, TokenUsage, ToolResult
from agentrail.protocols.decisions import text_schema
from agentrail.protocols.response_changes import (
    Begun,
    CallEnded,
    CallShown,
    Frame,
    Frames,
    Happened,
    MessageCompleted,
    PartEnded,
    PartText,
    ResponseChange,
    ResponseEnd,
    ShownPartKind,
    Step,
    TakenBack,
)
from agentrail.protocols.response_state import Bridge, PendingAnswer, Response
from agentrail.structs import END_OF_CALENDAR_MS

AG_UI_VERSION: Final = "1.0"
"""Version of the protocol that we speak."""

_STARTS: Final[Mapping[ShownPartKind, dict[str, dict[str, str]]]] = {
    "text": {"TEXT_MESSAGE_START": {"role": "assistant"}},
    "thinking": {"REASONING_START": {}, "REASONING_MESSAGE_START": {"role": "reasoning"}},
}
_DELTAS: Final = {"text": "TEXT_MESSAGE_CONTENT", "thinking": "REASONING_MESSAGE_CONTENT"}
_ENDS: Final = {"text": ("TEXT_MESSAGE_END",), "thinking": ("REASONING_MESSAGE_END", "REASONING_END")}
_STEP: Final = "model_request"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_APPROVAL: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string"},
        "editedArgs": {"type": "object"},
    },
    "required": ["approved"],
}
_REASONS: Final = {"approval": "tool_approval", "question": "input_required", "client_call": "client_tool"}
_NO_USAGE: Final[Mapping[str, TokenUsage]] = MappingProxyType({})
_NO_CHILDREN: Final[Mapping[str, str]] = MappingProxyType({})


class AgUiRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as its client has it, in addition to its `Response`.

    Attributes:
        past: Messages that the client sent, as structs or JSON.
        known: Ids of messages, calls and results that the client has. Those of calls also with their arguments.
        shown: Such ids that came with this run.
        first: Frames after `RUN_STARTED`.
        open_text: Id of the open text message, or empty.
        said: Messages of this run, each with None, and calls, each with the id of its message.
        children: Children that produced something in this run, with the ids of their last messages.
    """

    thread_id: str
    run_id: str
    past: tuple[Any, ...] = ()
    known: frozenset[str] = frozenset()
    shown: GrowingSet[str] = GrowingSet()
    first: Frames = ()
    is_started: bool = False
    open_text: str = ""
    message_id: str = ""
    said: Log[tuple[str | None, Frame]] = Log()
    children: Mapping[str, str] = _NO_CHILDREN
    open_children: tuple[str, ...] = ()
    usage: Mapping[str, TokenUsage] = _NO_USAGE
    plan: events.Plan | None = None
    waiting: tuple[events.WaitingFor, ...] = ()

    def has(self, name: str) -> bool:
        """Return whether the client has this message, call or result."""
        return name in self.known or name in self.shown


Shown: TypeAlias = tuple[AgUiRun, Frames]
"""The next run, and its frames."""


def custom_frame(name: str, value: Mapping[str, Any], child: str = "") -> Frame:
    """Return a frame for facts that the protocol has no event for."""
    return _of(child, "CUSTOM", name=f"agentrail.{name}", value=value)


def with_first_frame(run: AgUiRun, frame: Frame) -> AgUiRun:
    """Return a run with another frame after its start."""
    return replace(run, first=(*run.first, frame))


def messages_snapshot(run: AgUiRun) -> Frame:
    """Return all complete messages, which replace those of the client."""
    said: dict[str, Frame] = {}
    for parent, one in run.said:
        if parent is None:
            said[one["id"]] = one
        else:
            name = parent if parent in said else one["id"]
            message = said.get(name, {"id": name, "role": "assistant"})
            said[name] = {**message, "toolCalls": [*message.get("toolCalls", ()), one]}
    return {"type": "MESSAGES_SNAPSHOT", "messages": [*run.past, *said.values()]}


def result_message_id(call_id: str) -> str:
    """Return the id of the message with the result of a call."""
    return f"{call_id}/result"


def show_ag_ui_change(run: AgUiRun, change: ResponseChange, response: Response) -> Shown:
    """Return the next run and the frames for a change of its response."""
    match change:
        case PartText(message_id=message_id, part_id=part_id):
            name = message_id if change.kind == "text" else part_id
            return (run, ()) if run.has(name) else _show_words(run, change, name)
        case PartEnded(kind="thinking", part_id=part_id) if not run.has(part_id):
            return run, _ended("thinking", part_id)
        case PartEnded():
            return run, ()  # a message with thinking between its texts stays one message
        case Begun(is_resumed=is_resumed):
            return _begin(run, is_resumed=is_resumed)
        case Step(is_begun=is_begun):
            after, frames = _close_text(run)
            kind = "STEP_STARTED" if is_begun else "STEP_FINISHED"
            return after, (*frames, _of("", kind, stepName=_STEP))
        case MessageCompleted(message_id=message_id, message=message, text=text, usage=usage):
            after, frames = _close_text(run)
            after = _keep(_used(after, message.model, usage), message_id, text)
            return replace(after, message_id=message_id), frames
        case TakenBack():
            after, frames = _close_text(run)
            taken = custom_frame("discarded", {"messageId": change.message_id, "reason": change.reason})
            return after, (*frames, taken, messages_snapshot(after))
        case CallShown(call_id=call_id, call=call):
            return _show_call(run, call_id, call.name, call.arguments, is_childs=call.is_childs)
        case CallEnded(call_id=call_id, call=call, result=result) if result is not None:
            return _show_result(run, call_id, result, is_childs=call.is_childs)
        case Happened(event=event):
            return _show_event(run, event, response)
        case ResponseEnd():
            return _end(run, change, response)
        case _:
            return run, ()


def _begin(run: AgUiRun, *, is_resumed: bool) -> Shown:
    begun = AgUiRun(
        thread_id=run.thread_id,
        run_id=run.run_id,
        past=run.past,
        known=run.known,
        shown=run.shown,  # also before a resume
        first=run.first,
        is_started=True,
        plan=run.plan if is_resumed else None,
    )
    started = {"threadId": run.thread_id, "runId": run.run_id, "protocolVersion": AG_UI_VERSION}
    return begun, ({"type": "RUN_STARTED", **started}, *run.first)


# --- text


def _show_words(run: AgUiRun, said: PartText, name: str) -> Shown:
    delta = {"type": _DELTAS[said.kind], "messageId": name, "delta": said.text}
    if not said.is_first if said.kind == "thinking" else name == run.open_text:
        return run, (delta,)
    if said.kind == "thinking":
        return run, (*_started("thinking", name), delta)
    after, frames = _close_text(run)
    return replace(after, open_text=name), (*frames, *_started("text", name), delta)


def _started(kind: ShownPartKind, name: str, child: str = "") -> Frames:
    return tuple(_of(child, start, messageId=name, **more) for start, more in _STARTS[kind].items())


def _ended(kind: ShownPartKind, name: str, child: str = "") -> Frames:
    return tuple(_of(child, end, messageId=name) for end in _ENDS[kind])


def _whole(kind: ShownPartKind, name: str, child: str, text: str) -> Frames:
    delta = _of(child, _DELTAS[kind], messageId=name, delta=text)
    return (*_started(kind, name, child), delta, *_ended(kind, name, child))


def _close_text(run: AgUiRun) -> Shown:
    return (replace(run, open_text=""), _ended("text", run.open_text)) if run.open_text else (run, ())


def _keep(run: AgUiRun, message_id: str, text: str, child: str = "") -> AgUiRun:
    """Keep a complete message for snapshots. Its calls are added when they are shown."""
    if run.has(message_id):
        return run
    message = {"id": message_id, "role": "assistant", "content": text}
    if child:
        message["subagentRunId"] = child
    return replace(run, said=run.said.appended((None, message)), shown=run.shown.added(message_id))


def _used(run: AgUiRun, model: str, usage: TokenUsage) -> AgUiRun:
    known = run.usage.get(model)
    return replace(run, usage={**run.usage, model: usage if known is None else known + usage})


# --- calls


def _show_call(run: AgUiRun, call_id: str, name: str, arguments: JsonObject, *, is_childs: bool) -> Shown:
    """Show a call once: its later changes cannot be shown."""
    after, frames = _close_text(run)
    if run.has(call_id):
        return after, frames
    child = call_id.rpartition("/")[0] if is_childs else ""
    after, begun = _ensure_child(after, child)
    parent = after.children.get(child, "") if child else after.message_id
    text = canonical_json(arguments).decode()
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
    shown = after.shown.added(call_id).added(f"{call_id} {text}")
    after = replace(after, shown=shown, said=after.said.appended((parent, call)))
    told = {"toolCallId": call_id, "toolCallName": name, **({"parentMessageId": parent} if parent else {})}
    return after, (
        *frames,
        *begun,
        _of(child, "TOOL_CALL_START", **told),
        _of(child, "TOOL_CALL_ARGS", toolCallId=call_id, delta=text),
        _of(child, "TOOL_CALL_END", toolCallId=call_id),
    )


def _show_result(run: AgUiRun, call_id: str, result: ToolResult, *, is_childs: bool) -> Shown:
    name = result_message_id(call_id)
    if run.has(name):  # the client ran it
        return run, ()
    child = call_id.rpartition("/")[0] if is_childs else ""
    after, begun = _ensure_child(run, child)
    told: dict[str, Any] = {"toolCallId": call_id, "content": result.words, "role": "tool"}
    told |= {"metadata": {"agentrail": {"isError": True}}} if result.is_error else {}
    after = replace(after, shown=run.shown.added(name), said=run.said.appended((None, {"id": name, **told})))
    return after, (*begun, _of(child, "TOOL_CALL_RESULT", messageId=name, **told))


# --- other events of the session


def _show_event(run: AgUiRun, event: events.Event, response: Response) -> Shown:
    match event:
        case events.TodoChange(todos=todos):
            return run, (_patch("todos", msgspec.to_builtins(todos)),)
        case events.TitleGenerated(title=title):
            return run, (_patch("title", title),)
        case events.PlanGenerated(plan=plan) | events.PlanCompleted(plan=plan):
            return _show_plan(run, plan)
        case events.PlanStepCompleted(step=step) if run.plan is not None:
            steps = [step if one.index == step.index else one for one in run.plan.steps]
            return _show_plan(run, replace(run.plan, steps=tuple(steps)))
        case events.AskUser(ref=ref):
            # A tool that asks keeps running, so that the run has no interrupt to end with.
            return run, (custom_frame("question", _interrupt(run, ref, *response.asked[ref])),)
        case events.AgentSuspended(waiting=waiting):
            return replace(run, waiting=waiting), ()
        case events.ToolProgress(call_id=call_id, text=text):
            return run, (custom_frame("tool_progress", {"toolCallId": call_id, "text": text}),)
        case events.ToolTookEffect(call_id=call_id, result=result):
            return run, (custom_frame("tool_took_effect", {"toolCallId": call_id, "content": result.words}),)
        case events.CompactStart(reason=reason):
            return run, (custom_frame("compaction_started", {"reason": reason}),)
        case events.CompactEnd(removed=removed):
            return run, (custom_frame("compaction_finished", {"removed": removed}),)
        case events.SubagentStart() | events.SubagentEnd() | events.SubagentEvent():
            return _show_child(run, event, response)
        case _:
            return run, ()


def _show_plan(run: AgUiRun, plan: events.Plan) -> Shown:
    return replace(run, plan=plan), (_patch("plan", msgspec.to_builtins(plan)),)


def _patch(name: str, value: object) -> Frame:
    return {"type": "STATE_DELTA", "delta": [{"op": "add", "path": f"/{name}", "value": value}]}


def _show_child(run: AgUiRun, event: events.Event, response: Response, parent: str = "") -> Shown:
    """Show the work of a child session, attributed to it. Its text comes with its complete messages."""
    match event:
        case events.SubagentStart(child_id=child_id, call_id=call_id, description=description):
            caller = f"{parent}/{call_id}" if parent else call_id
            call = response.calls.get(caller)
            told = {"description": description, "parentToolCallId": caller}
            if parent:
                told["parentSubagentRunId"] = parent
            return _ensure_child(run, child_id, name="agent" if call is None else call.name, **told)
        case events.SubagentEnd(child_id=child_id, result=result) if child_id in run.open_children:
            left = tuple(one for one in run.open_children if one != child_id)
            end = _of(child_id, "SUBAGENT_FINISHED")
            if result.is_error:
                end = _of(child_id, "SUBAGENT_ERROR", message=result.text)
            return replace(run, open_children=left), (end,)
        case events.SubagentEvent(child_id=child_id, event=inner):
            if isinstance(inner, events.SubagentStart | events.SubagentEnd | events.SubagentEvent):
                return _show_child(run, inner, response, child_id)
            return _show_of_child(run, child_id, inner)
        case _:
            return run, ()


def _show_of_child(run: AgUiRun, child_id: str, event: events.Event) -> Shown:
    number = 0 if event.meta is None else event.meta.seq
    match event:
        case events.MessageStart():
            after, frames = _ensure_child(run, child_id)
            return replace(after, children={**after.children, child_id: f"{child_id}/m{number}"}), frames
        case events.ResponseComplete(message=message, usage=usage):
            after, frames = _ensure_child(_used(run, message.model, usage), child_id)
            message_id = after.children[child_id] or f"{child_id}/m{number}"
            for place, block in enumerate(message.content):
                thought_id = f"{child_id}/p{number}.{place}"
                if isinstance(block, Thinking) and block.text and not run.has(thought_id):
                    frames += _whole("thinking", thought_id, child_id, block.text)
            if message.text and not run.has(message_id):
                frames += _whole("text", message_id, child_id, message.text)
            return _keep(after, message_id, message.text, child_id), frames
        case events.ToolExecutionStart(call_id=call_id, name=name, arguments=arguments):
            return _show_call(run, f"{child_id}/{call_id}", name, arguments, is_childs=True)
        case events.ToolExecutionEnd(call_id=call_id, result=result):
            return _show_result(run, f"{child_id}/{call_id}", result, is_childs=True)
        case events.ToolProgress(call_id=call_id, text=text):
            value = {"toolCallId": f"{child_id}/{call_id}", "text": text}
            return run, (custom_frame("tool_progress", value, child_id),)
        case _:
            return run, ()


def _ensure_child(run: AgUiRun, child_id: str, *, name: str = "agent", **told: str) -> Shown:
    """Start a child before its first frame of this run. A resumed child starts again."""
    if not child_id or child_id in run.children:
        return run, ()
    after = replace(
        run, children={**run.children, child_id: ""}, open_children=(*run.open_children, child_id)
    )
    return after, (_of(child_id, "SUBAGENT_STARTED", name=name, **told),)


# --- the end


def _end(run: AgUiRun, end: ResponseEnd, response: Response) -> Shown:
    after, frames = _close_text(run)
    interrupts: list[Frame] = []
    pending: list[str] = []
    for name, (call_id, what) in response.asked.items() if end.kind == "paused" else ():
        if isinstance(what, events.ClientCall):
            pending.append(call_id)
        else:
            interrupts.append(_interrupt(run, name, call_id, what))
    left = [one for one in run.waiting if end.kind == "paused" and one.id not in response.asked]
    # Asked before this run, which began with a decision in words.
    interrupts += [{"id": one.id, "toolCallId": one.call_id, "reason": _REASONS[one.kind]} for one in left]
    for child_id in run.open_children:
        ids = [one["id"] for one in interrupts if one.get("subagentRunId") == child_id]
        outcome = {"type": "suspended", "interruptIds": ids}
        frames += (_of(child_id, "SUBAGENT_FINISHED", outcome=outcome),)
    used = {"usage": [_usage_of(model, usage) for model, usage in run.usage.items()]}
    if end.kind == "failed":
        told = {"message": end.reason or "the run failed", "code": end.code or "internal"}
        return after, (*frames, {"type": "RUN_ERROR", **told, **used})
    if not run.is_started:
        after, begun = _begin(after, is_resumed=False)
        frames = (*begun, *frames)
    outcome = {"type": "cancelled" if end.kind == "aborted" else "success"}
    if interrupts:
        outcome = {"type": "interrupt", "interrupts": interrupts}
    elif pending:
        outcome["pendingToolCallIds"] = pending
    named = {"threadId": run.thread_id, "runId": run.run_id}
    return after, (*frames, {"type": "RUN_FINISHED", **named, "outcome": outcome, **used})


def _interrupt(run: AgUiRun, name: str, call_id: str, what: PendingAnswer) -> Frame:
    told: dict[str, Any] = {"id": name, "toolCallId": call_id}
    asker = name.rpartition("/")[0]
    if asker in run.children:
        told["subagentRunId"] = asker
    if isinstance(what, events.Approval):
        told |= {"reason": _REASONS["approval"], "responseSchema": _APPROVAL}
        told["message"], text = what.hint or f"Run {what.tool}?", canonical_json(what.arguments).decode()
        if not run.has(f"{call_id} {text}"):  # changed since the call was shown
            told["message"] += f" Run {what.tool} with {text}?"
        if what.expires_at_ms is not None and what.expires_at_ms < END_OF_CALENDAR_MS:
            told["expiresAt"] = (_EPOCH + timedelta(milliseconds=what.expires_at_ms)).isoformat()
        return told
    assert isinstance(what, events.AskUser)  # noqa: S101 - client calls are not interrupts
    told |= {"reason": _REASONS["question"], "message": what.question}
    told["responseSchema"] = text_schema(what) if what.schema is None else what.schema
    if what.url is not None:
        told["metadata"] = {"agentrail": {"url": what.url}}
    return told


def _usage_of(model: str, usage: TokenUsage) -> Frame:
    provider, _, name = model.rpartition(":")
    return {
        "provider": provider,
        "model": name,
        "inputTokens": usage.input,
        "outputTokens": usage.output,
        "totalTokens": usage.total,
        "reasoningTokens": usage.reasoning,
        "cachedInputTokens": usage.cache_read,
        "cacheWriteInputTokens": usage.cache_write,
    }


def _of(child: str, kind: str, **told: Any) -> Frame:
    return {"type": kind, **told, "subagentRunId": child} if child else {"type": kind, **told}


AG_UI: Final[Bridge[AgUiRun]] = Bridge(show_ag_ui_change)
"""The wire as a fold over events."""
