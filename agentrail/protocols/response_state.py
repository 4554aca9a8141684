"""A session's events as one response on a third-party wire: the parts its client has seen, and the rest. Pure.

A wire is a `Bridge`: one function that writes a change as frames. Text is not kept. Its length and checksum tell
whether a complete message continues the text that was shown.
"""

import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from attrs import frozen
from msgspec.structs import replace

from agentrail import events
from agentrail.frozen import canonical_json
from agentrail.messages import AssistantMessage, PromptRef, SteerRef, Text, Thinking, TokenUsage, ToolResult
from agentrail.protocols.response_changes import (
    ApprovalAsked,
    Begun,
    CallEnded,
    CallShown,
    Frames,
    Happened,
    MessageCompleted,
    PartEnded,
    PartText,
    ResponseChange,
    ResponseEnd,
    ShownCall,
    ShownPartKind,
    Step,
    TakenBack,
)

Own = TypeVar("Own")

ReadText: TypeAlias = Callable[[tuple[AssistantMessage, ...]], str]
"""Returns the visible text of messages, without the tags that a session removes. See `Session.reads_answers`."""

PendingAnswer: TypeAlias = events.Approval | events.AskUser | events.ClientCall
"""An interaction that waits for the client."""


class _Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """The visible part of the streaming message.

    Attributes:
        digest: Checksum of the shown text.
        is_late: Whether its beginning was missed, so that its thinking is shown at once on completion.
    """

    message_id: str = ""
    part_ids: tuple[str, ...] = ()
    said: int = 0
    digest: int = 0
    thought: bool = False
    is_late: bool = False


_FRESH: Final = _Attempt()
_NO_CALLS: Final[Mapping[str, ShownCall]] = MappingProxyType({})
_NOTHING_ASKED: Final[Mapping[str, tuple[str, PendingAnswer]]] = MappingProxyType({})


def text_of_handled(body: Mapping[str, Any]) -> str:
    """Return the output of a command, or the answer of a host plugin, as the words of an assistant."""
    match body:
        case {"lines": list(lines)}:
            return "\n".join(map(str, lines))
        case {"text": str(text)}:
            return text
        case _:
            return canonical_json(body).decode()


def _whole_text(messages: tuple[AssistantMessage, ...]) -> str:
    return messages[-1].text


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A response as its client has it.

    Attributes:
        ref: The prompt that it answers, or None for the session's current work.
        response_id: `m` and the number of the event that started it. Empty before.
        is_live: Whether the session's current work is part of it.
        in_step: Whether a step is open: one model request with its calls.
        last_id: The last number used in a part's id, and the number of ids that have it.
        calls: The calls shown so far, by the id known to the client.
        asked: Interactions that wait for the client, by the id to answer, each with its call.
        number: Number of the last event, and `at_ms` its time in milliseconds since 1970.
        end: How it ends, or None while it continues.
    """

    ref: PromptRef | None = None
    read_text: ReadText = _whole_text
    response_id: str = ""
    is_live: bool = False
    in_step: bool = False
    open_part: tuple[ShownPartKind, str] | None = None
    last_id: tuple[int, int] = (0, 0)
    attempt: _Attempt = _FRESH
    calls: Mapping[str, ShownCall] = _NO_CALLS
    asked: Mapping[str, tuple[str, PendingAnswer]] = _NOTHING_ASKED
    waiting_for_children: frozenset[str] = frozenset()
    usage: TokenUsage | None = None
    number: int = 0
    at_ms: int = 0
    end: ResponseEnd | None = None

    @property
    def is_paused(self) -> bool:
        """Whether the cycle waits for users."""
        return self.end is not None and self.end.kind == "paused"


FollowedResponse: TypeAlias = tuple[Response, tuple[ResponseChange, ...]]
"""The next response, and its changes."""


def follow_event(response: Response, event: events.Event) -> FollowedResponse:
    """Return the next response and its changes for an event of the session."""
    if event.meta is not None and event.meta.seq != response.number:
        response = replace(response, number=event.meta.seq, at_ms=event.meta.at_ms)
    if type(event) is events.MessageDelta:  # by far the most frequent
        return _show_words(response, event, "text", event.delta)
    if type(event) is events.ThinkingDelta:
        return _show_words(response, event, "thinking", event.delta)
    begun = _begin(response, event)
    if begun is not None:
        return begun
    if not response.is_live:
        return _follow_unbegun(response, event)
    if response.end is not None and not response.is_paused:
        return response, ()
    return _follow_live(response, event)


def resume_response(response: Response, response_id: str) -> FollowedResponse:
    """Continue a response that its client already has up to here, after a user's answer."""
    after = replace(response, response_id=response_id, end=None, in_step=False)
    return after, (Begun(response_id, is_resumed=True),)


def catch_up(response: Response, text: str) -> FollowedResponse:
    """Show the beginning of the streaming message to a late client, because deltas are not stored."""
    if not response.is_live or response.end is not None or response.attempt.is_late or not response.in_step:
        return response, ()
    late = replace(response, attempt=replace(response.attempt, is_late=True))
    if not text:
        return late, ()
    return _show_text(late, response.last_id[0] + 1, "text", text)


def pause_response(response: Response) -> Response:
    """End a response whose cycle still waits for users after their answers."""
    if not response.is_live or response.end is not None:
        return response
    return replace(response, end=_pause_of(response))


def fail_response(response: Response, code: str, reason: str) -> Response:
    """End a response without its cycle: its session has ended, or its stream cannot continue."""
    if response.end is not None:
        return response
    return replace(response, end=ResponseEnd(kind="failed", code=code, reason=reason))


def closing(response: Response) -> tuple[ResponseChange, ...]:
    """Return the last changes of an ended response. They close everything open, and exactly one is the end."""
    end = response.end
    assert end is not None  # noqa: S101 - it has ended
    left = response.calls if response.is_live and end.kind != "paused" else _NO_CALLS
    return (
        *_close_part(response)[1],
        *[CallEnded(call_id, call, None) for call_id, call in left.items() if not call.is_over],
        *((Step(is_begun=False),) if response.in_step else ()),
        end,
    )


# --- the start


def _begin(response: Response, event: events.Event) -> FollowedResponse | None:
    """Start a response if this event does so. Otherwise return None."""
    wanted = response.ref
    match event:
        case events.AgentStart(ref=ref):
            if wanted is not None and ref != wanted:
                return replace(response, is_live=False), ()
        case events.PromptTaken(ref=ref) if ref == wanted or (wanted is None and response.is_live):
            pass  # a separate response: in the client, the user's message comes between it and the decided calls
        case events.SteeringApplied(refs=refs) if wanted is not None and SteerRef(wanted) in refs:
            pass
        case _:
            return None
    begun = Response(
        ref=wanted,
        read_text=response.read_text,
        response_id=f"m{_number(event)}",
        is_live=True,
        last_id=response.last_id,
        number=response.number,
        at_ms=response.at_ms,
    )
    return begun, (Begun(begun.response_id),)


def _follow_unbegun(response: Response, event: events.Event) -> FollowedResponse:
    """Follow a prompt that no cycle works on."""
    if response.ref is None or response.end is not None:
        return response, ()
    match event:
        case events.PromptQueued(ref=ref) if ref == response.ref:
            return response, (Happened(event),)
        case events.PromptDropped(ref=ref) if ref == response.ref:
            reason = "the prompt was taken out of the queue"
            return replace(response, end=ResponseEnd(kind="aborted", code="aborted", reason=reason)), ()
        case events.PromptRejected(ref=ref, reason=reason) if ref == response.ref:
            return fail_response(response, "prompt_rejected", reason), ()
        case _:
            return response, ()


# --- events of a cycle


def _follow_live(response: Response, event: events.Event) -> FollowedResponse:
    match event:
        case events.RequestStart():
            after, changes = _close_part(response)
            changes = (*changes, Step(is_begun=False)) if response.in_step else changes
            return replace(after, in_step=True, attempt=_FRESH), (*changes, Step(is_begun=True))
        case events.MessageStart():
            return replace(response, attempt=_Attempt(message_id=f"m{_number(event)}")), ()
        case events.ResponseComplete():
            return _complete(response, event)
        case events.StreamError(discarded=True, error=error):
            return _take_back(response, _number(event), error.message)
        case events.StreamError():
            return _close_part(response)
        case events.AgentSuspended():
            after, changes = _close_part(response)
            return replace(after, end=_pause_of(after)), (*changes, Happened(event))
        case events.AgentResumed():
            return replace(response, end=None), ()
        case events.AgentEnd() | events.AgentAbort() | events.AgentError():
            return replace(response, end=_end_of(response, event)), ()
        case events.SubagentEvent():
            after, changes = _follow_child(response, event)
            return after, (*changes, Happened(event))
        case _:
            return _follow_calls(response, event)


def _end_of(
    response: Response, event: events.AgentEnd | events.AgentAbort | events.AgentError
) -> ResponseEnd:
    used = response.usage
    match event:
        case events.AgentEnd(stop_reason="superseded"):
            reason = "a later prompt took its place"
            return ResponseEnd(kind="aborted", code="aborted", reason=reason, usage=event.usage, event=event)
        case events.AgentEnd(stop_reason=stop_reason, usage=usage):
            return ResponseEnd(kind="finished", stop_reason=stop_reason, usage=usage, event=event)
        case events.AgentAbort(reason=said):
            return ResponseEnd(kind="aborted", code="aborted", reason=said, usage=used, event=event)
        case _:
            error = event.error
            return ResponseEnd(kind="failed", code=error.code, reason=error.message, usage=used, event=event)


def _pause_of(response: Response) -> ResponseEnd:
    return ResponseEnd(kind="paused", stop_reason="tool_use", usage=response.usage)


# --- text


def _show_words(response: Response, event: events.Event, kind: ShownPartKind, text: str) -> FollowedResponse:
    if not response.is_live or response.end is not None or not text:
        return response, ()
    if kind == "thinking" and response.attempt.is_late:
        return response, ()
    return _show_text(response, _number(event), kind, text)


def _show_text(response: Response, number: int, kind: ShownPartKind, text: str) -> FollowedResponse:
    attempt, open_part = response.attempt, response.open_part
    closed: tuple[ResponseChange, ...] = ()
    last_id = response.last_id
    is_first = open_part is None or open_part[0] != kind
    if open_part is None or is_first:
        closed = _close_part(response)[1]
        last_id = (number, 0) if number > last_id[0] else (last_id[0], last_id[1] + 1)
        part_id = f"p{last_id[0]}" if not last_id[1] else f"p{last_id[0]}.{last_id[1]}"
        open_part = (kind, part_id)
        message_id = attempt.message_id or f"m{last_id[0]}"
        attempt = replace(attempt, message_id=message_id, part_ids=(*attempt.part_ids, part_id))
    if kind == "text":
        digest = zlib.crc32(text.encode("utf-8", "surrogatepass"), attempt.digest)
        attempt = replace(attempt, said=attempt.said + len(text), digest=digest)
    elif not attempt.thought:
        attempt = replace(attempt, thought=True)
    after = replace(response, attempt=attempt, open_part=open_part, last_id=last_id)
    said = PartText(kind, text, open_part[1], attempt.message_id, len(attempt.part_ids) - 1, is_first)
    return after, (*closed, said)


def _close_part(response: Response) -> FollowedResponse:
    if response.open_part is None:
        return response, ()
    return replace(response, open_part=None), (PartEnded(*response.open_part),)


def _complete(response: Response, event: events.ResponseComplete) -> FollowedResponse:
    """Show the missing rest of a complete message.

    If the shown text is not its beginning, the whole text is shown again.
    """
    number, message = _number(event), event.message
    text = response.read_text((message,))
    attempt = response.attempt
    changes: tuple[ResponseChange, ...] = ()
    begins = text[: attempt.said].encode("utf-8", "surrogatepass")
    if attempt.said and (attempt.said > len(text) or zlib.crc32(begins) != attempt.digest):
        response, changes = _take_back(response, number, "the response was replaced by another one")
        attempt = response.attempt
    if not attempt.thought:
        for block in message.content:
            if isinstance(block, Thinking) and block.text:
                response, more = _show_text(response, number, "thinking", block.text)
                response, end = _close_part(response)
                changes = (*changes, *more, *end)
    if len(text) > attempt.said:
        response, more = _show_text(response, number, "text", text[attempt.said :])
        changes = (*changes, *more)
    response, end = _close_part(response)
    usage = event.usage if response.usage is None else response.usage + event.usage
    completed = MessageCompleted(response.attempt.message_id or f"m{number}", message, text, event.usage)
    return replace(response, attempt=_FRESH, usage=usage), (*changes, *end, completed)


def _take_back(response: Response, number: int, reason: str) -> FollowedResponse:
    """Retract the shown part of a message. Later parts and their message have new ids."""
    after, changes = _close_part(response)
    attempt = response.attempt
    after = replace(after, attempt=_Attempt(message_id=f"m{number}"))
    if not attempt.part_ids:
        return after, changes
    return after, (*changes, TakenBack(attempt.part_ids, attempt.message_id, number, reason))


# --- calls and questions


def _follow_calls(response: Response, event: events.Event, child: str = "") -> FollowedResponse:
    """Follow the calls of the session, or the decisions of a child. Ids of a child's calls get a prefix."""
    match event:
        case events.ApprovalRequired(approval=approval):
            call_id = f"{child}{approval.call_id}"
            call = ShownCall(name=approval.tool, arguments=approval.arguments, is_childs=bool(child))
            after, changes = _show_call(_ask(response, approval.id, call_id, approval), call_id, call)
            return _decided(after, call_id, is_denied=False), (*changes, ApprovalAsked(call_id, approval))
        case events.ApprovalResolved(approval=approval, status=status):
            settled = _settle(response, approval.id)
            return _decided(settled, f"{child}{approval.call_id}", is_denied=status == "rejected"), ()
        case events.AskUser(ref=ref, call_id=call_id):
            return _ask(response, ref, f"{child}{call_id}", event), (Happened(event),)
        case events.UserResponded(ref=ref) | events.UserDeclined(ref=ref):
            return _settle(response, ref), ()
        case events.ToolExecutionEnd(call_id=call_id, result=result):
            return _end_call(response, f"{child}{call_id}", result, is_childs=bool(child))
        case _ if child:
            return response, ()
        case events.ToolExecutionStart(name=name, call_id=call_id, arguments=arguments):
            return _show_call(response, call_id, ShownCall(name=name, arguments=arguments))
        case events.ClientCall(ref=ref, name=name, call_id=call_id, arguments=arguments):
            asked = _ask(response, ref, call_id, event)
            return _show_call(asked, call_id, ShownCall(name=name, arguments=arguments, is_clients=True))
        case _:
            return response, (Happened(event),)


def _ask(response: Response, name: str, call_id: str, what: PendingAnswer) -> Response:
    return replace(response, asked={**response.asked, name: (call_id, what)})


def _settle(response: Response, *names: str) -> Response:
    left = {name: asked for name, asked in response.asked.items() if name not in names}
    return response if len(left) == len(response.asked) else replace(response, asked=left)


def _show_call(response: Response, call_id: str, call: ShownCall) -> FollowedResponse:
    """Show a call, or its changes. Each call is opened once."""
    known = response.calls.get(call_id)
    if known is not None:
        call = replace(call, is_clients=call.is_clients or known.is_clients, is_denied=known.is_denied)
        if known.is_over or call == known:
            return response, ()
    closed, changes = _close_part(response)
    after = replace(closed, calls={**response.calls, call_id: call})
    return after, (*changes, CallShown(call_id, call, known is None))


def _decided(response: Response, call_id: str, *, is_denied: bool) -> Response:
    known = response.calls.get(call_id)
    if known is None or known.is_denied == is_denied:
        return response
    return replace(response, calls={**response.calls, call_id: replace(known, is_denied=is_denied)})


def _end_call(response: Response, call_id: str, result: ToolResult, *, is_childs: bool) -> FollowedResponse:
    changes: tuple[ResponseChange, ...] = ()
    response = _settle(response, *[name for name, (caller, _) in response.asked.items() if caller == call_id])
    if call_id not in response.calls:
        if is_childs:
            return response, ()
        # Its start is no longer stored, and clients break on the result of an unknown call.
        response, changes = _show_call(response, call_id, ShownCall(name=result.name, arguments={}))
    call = response.calls[call_id]
    if call.is_over:
        return response, changes
    after = replace(response, calls={**response.calls, call_id: replace(call, is_over=True)})
    return after, (*changes, CallEnded(call_id, call, result))


def _follow_child(response: Response, event: events.SubagentEvent) -> FollowedResponse:
    """Show the decisions that a child session needs, and pause if all running calls wait for them."""
    child_id, inner = event.child_id, event.event
    while isinstance(inner, events.SubagentEvent):
        child_id, inner = inner.child_id, inner.event
    match inner:
        case events.AgentSuspended():
            waiting = response.waiting_for_children | {event.call_id}
        case events.AgentResumed() | events.AgentEnd() | events.AgentAbort() | events.AgentError():
            waiting = response.waiting_for_children - {event.call_id}
        case _:
            return _follow_calls(response, inner, f"{child_id}/")
    after = replace(response, waiting_for_children=waiting)
    running = {call_id for call_id, call in response.calls.items() if not (call.is_over or call.is_childs)}
    if event.call_id in waiting and running and running <= waiting:
        return replace(after, end=_pause_of(after)), ()
    return replace(after, end=None), ()


def _number(event: events.Event) -> int:
    return 0 if event.meta is None else event.meta.seq


# --- bridges


class Bridged(msgspec.Struct, Generic[Own], frozen=True):
    """A response, and a wire's own state."""

    response: Response
    own: Own


@frozen
class Bridge(Generic[Own]):
    """A wire as a fold over events.

    Attributes:
        show: Returns the wire's next own state and the frames of a change. Gets the response after the event.
    """

    show: Callable[[Own, ResponseChange, Response], tuple[Own, Frames]]

    def fold(self, state: Bridged[Own], event: events.Event) -> tuple[Bridged[Own], Frames]:
        """Return the next state and the frames for an event."""
        return self.write(state.own, follow_event(state.response, event))

    def write(self, own: Own, followed: FollowedResponse) -> tuple[Bridged[Own], Frames]:
        """Return the next state and the frames for changes of a response."""
        response, changes = followed
        frames: Frames = ()
        for change in changes:
            own, more = self.show(own, change, response)
            frames += more
        return Bridged(response, own), frames

    def say(self, own: Own, text: str, number: int, at_ms: int) -> Frames:
        """Return all frames of a response with this text, which no model gave. `number` is that of the session's last event."""
        name, said = f"m{number}.{at_ms}", AssistantMessage(content=(Text(text=text),), model="")
        changes: tuple[ResponseChange, ...] = (
            Begun(name),
            Step(is_begun=True),
            PartText("text", text, f"p{number}.{at_ms}", name, 0, is_first=True),
            PartEnded("text", f"p{number}.{at_ms}"),
            MessageCompleted(name, said, text, TokenUsage()),
            Step(is_begun=False),
            ResponseEnd(kind="finished", stop_reason="end", usage=TokenUsage()),
        )
        return self.write(own, (Response(response_id=name, number=number, at_ms=at_ms), changes))[1]

    def close(self, state: Bridged[Own]) -> Frames:
        """Return the last frames of an ended response."""
        return self.write(state.own, (state.response, closing(state.response)))[1]
