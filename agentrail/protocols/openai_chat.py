"""OpenAI Chat Completions: a session's events as chunks of a completion, and a client's messages as a plan. Pure.

A client sends its whole conversation with each request. Unless it names a session, it gets one of its own, whose id
is part of the ids of its calls, so that their results find it.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
from attrs import frozen
from msgspec.structs import replace

from agentrail import events
from agentrail.core.session.views import Status
from agentrail.core.values.toolbox import read_call
from agentrail.messages import (
    AssistantBlock,
    AssistantMessage,
    Message,
    SessionId,
    Text,
    TokenUsage,
    ToolMessage,
    UserBlock,
    UserMessage,
)
from agentrail.protocols.decisions import ClientDecision, question_words, refuse_request
from agentrail.protocols.openai_requests import (
    OpenAiAsked,
    OpenAiPlan,
    ReadParameters,
    array,
    check_results,
    json_text,
    read_content,
    read_parameters,
    result_in_past,
    text_of_content,
    usage_shape,
)
from agentrail.protocols.response_changes import (
    ApprovalAsked,
    Begun,
    CallShown,
    Frame,
    Frames,
    Happened,
    PartText,
    ResponseChange,
    ResponseEnd,
    TakenBack,
)
from agentrail.protocols.response_state import Bridge, Response
from agentrail.wire.operations import RespondBody, decide_approval

_FINISH_REASONS: Final[Mapping[events.EndReason | None, str]] = MappingProxyType(
    {"max_tokens": "length", "context_window": "length", "max_turns": "length", "refused": "content_filter"}
)
_BEGINS_AGAIN: Final = "[The answer broke off here and begins again.]"


# --- out


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A completion as its client has it.

    Attributes:
        created: Time in seconds since 1970.
        session_id: The nameless session, or empty for a named one.
        told_in: Id of the message with the last text, empty before any.
    """

    id: str
    model: str
    created: int
    session_id: str = ""
    includes_usage: bool = False
    shows_reasoning: bool = False
    shows_tools: bool = False
    told_in: str = ""
    calls: int = 0


def _show(own: Completion, change: ResponseChange, response: Response) -> tuple[Completion, Frames]:
    match change:
        case PartText(kind="text", text=text, message_id=message_id):  # by far the most frequent
            if message_id == own.told_in:
                return own, (_chunk(own, {"content": text}),)
            return _tell(own, text, message_id)
        case PartText(text=text):
            return own, (_chunk(own, {"reasoning_content": text}),) if own.shows_reasoning else ()
        case Begun():
            begun = replace(own, created=response.at_ms // 1_000, told_in="", calls=0)
            return begun, (_chunk(begun, {"role": "assistant", "content": ""}),)
        case TakenBack(message_id=message_id):
            return _tell(own, _BEGINS_AGAIN) if message_id == own.told_in else (own, ())
        case CallShown(call_id=call_id, call=call, is_new=is_new):
            arguments = json_text(call.arguments)
            if call.is_clients:
                name = f"{call_id}--{own.session_id}" if own.session_id else call_id
                function = {"name": call.name, "arguments": arguments}
                named = {"index": own.calls, "id": name, "type": "function", "function": function}
                shown = _chunk(own, {"tool_calls": [named]})
                return replace(own, calls=own.calls + 1), (shown,)
            if not (is_new and own.shows_tools):
                return own, ()
            return own, (_chunk(own, {"reasoning_content": f"[{call.name} {arguments}]\n"}),)
        case ApprovalAsked(approval=approval) if not own.session_id:
            return _tell(own, _request_of(approval))
        case Happened(event=events.AskUser() as asked):
            return _tell(own, question_words(asked))
        case ResponseEnd():
            return own, _last_chunks(own, change, response)
        case _:
            return own, ()


CHAT: Final = Bridge(_show)
"""Chat Completions. One frame has a finish reason or an error. Then comes `[DONE]`."""


def _tell(own: Completion, text: str, message_id: str = "note") -> tuple[Completion, Frames]:
    """Send the first text of a message, or a note, apart from the text before it."""
    said = f"\n\n{text}" if own.told_in else text
    return replace(own, told_in=message_id), (_chunk(own, {"content": said}),)


def _chunk(own: Completion, delta: Mapping[str, Any], finish_reason: str | None = None) -> Frame:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    head = {"id": own.id, "created": own.created, "model": own.model}
    return {**head, "object": "chat.completion.chunk", "choices": [choice]}


def _last_chunks(own: Completion, end: ResponseEnd, response: Response) -> Frames:
    if end.kind in ("aborted", "failed"):
        message = end.reason or f"the response was {end.kind}"
        return ({"error": {"message": message, "type": "server_error", "param": None, "code": end.code}},)
    is_called = any(isinstance(asked, events.ClientCall) for _, asked in response.asked.values())
    reason = "tool_calls" if is_called else _FINISH_REASONS.get(end.stop_reason, "stop")
    last = _chunk(own, {}, reason)
    if not own.includes_usage:
        return (last,)
    return last, {
        **last,
        "choices": [],
        "usage": usage_shape(end.usage or TokenUsage(), "prompt", "completion"),
    }


def whole_completion(chunks: Sequence[Frame]) -> Frame:
    """Return the completion that its chunks, with usage, add up to."""
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    deltas = [choice["delta"] for choice in choices]
    text, reasoning = (
        "".join([delta.get(name, "") for delta in deltas]) for name in ("content", "reasoning_content")
    )
    calls = [
        {name: call[name] for name in ("id", "type", "function")}
        for delta in deltas
        for call in delta.get("tool_calls", ())
    ]
    message = {
        "role": "assistant",
        "content": text or None,
        "refusal": None,
        **({"reasoning_content": reasoning} if reasoning else {}),
        **({"tool_calls": calls} if calls else {}),
    }
    reason = choices[-1]["finish_reason"]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    return {**chunks[-1], "object": "chat.completion", "choices": [choice]}


def _request_of(approval: events.Approval) -> str:
    call = f"{_begin_of(approval)}{json_text(approval.arguments)}"
    return f'{call}. Answer "yes" to run it, or "no" and a reason to reject it.]'


def _begin_of(approval: events.Approval) -> str:
    return f"[{tag_of(approval)}: {approval.tool} "  # with the tool: others may be called with the same arguments


def tag_of(approval: events.Approval) -> str:
    """Return the mark of an approval in the text of an answer."""
    return f"Approval {approval.arguments_hash[:8]}"


# --- in


@frozen(kw_only=True)
class ChatAsked(OpenAiAsked):
    """A request. The last message is the user's, or a result. Only a named session is kept."""

    @property
    def new(self) -> tuple[Message, ...]:
        """The messages after the last one of the assistant."""
        return _after_answers(self.messages)

    @property
    def answers(self) -> list[str]:
        """The texts of the assistant."""
        return [one.text for one in self.messages if isinstance(one, AssistantMessage)]


def _after_answers(messages: Sequence[Message]) -> tuple[Message, ...]:
    answers = [place for place, one in enumerate(messages, 1) if isinstance(one, AssistantMessage)]
    return tuple(messages[answers[-1] if answers else 0 :])


def read_chat(
    plain: Mapping[str, Any], named: str | None = None, parameters_of: ReadParameters = read_parameters
) -> ChatAsked:
    """Read a request. `named` is the session in its header."""
    instructions: list[str] = []
    messages: list[Message] = []
    names: dict[str, str] = {}
    for place, one in enumerate(array(plain.get("messages") or (), "messages")):
        where = f"messages[{place}].content"
        match one:
            case {"role": "system" | "developer", "content": content}:
                instructions.append(text_of_content(content, where))
            case {"role": "user", "content": content}:
                messages.append(UserMessage(content=read_content(content, where)))
            case {"role": "assistant"}:
                messages.append(_read_answer(one, f"messages[{place}]", names))
            case {"role": "tool", "tool_call_id": str(call_id), "content": content}:
                messages.append(result_in_past(call_id, text_of_content(content, where), names))
            case _:
                refuse_request(f"messages[{place}]", "is no message of a known role with its fields")
    if not messages or isinstance(messages[-1], AssistantMessage):
        refuse_request("messages", "must end with a message of the user or a result", "messages_missing")
    parameters = parameters_of(plain, ("messages",), instructions)
    named = named or parameters.metadata.get("session_id")
    return ChatAsked(
        parameters=parameters,
        messages=tuple(messages),
        session_id=named or session_of_results(plain.get("messages")),
        new_id=None if named is None else SessionId(named),
        is_kept=named is not None,
    )


def session_of_results(messages: object) -> str | None:
    """Return the session in the ids of the results at the end of a request, which may not have been read yet."""
    session_id = None
    for one in reversed(messages if isinstance(messages, list) else []):
        match one:
            case {"role": "tool", "tool_call_id": str(name)}:
                call_id, _, owner = name.rpartition("--")
                session_id = owner if call_id else session_id
            case {"role": "assistant"}:
                break
            case _:
                pass
    return session_id


def _read_answer(given: Mapping[str, Any], place: str, names: dict[str, str]) -> AssistantMessage:
    text = text_of_content(given.get("content") or "", f"{place}.content")
    blocks: list[AssistantBlock] = [Text(text=text)] if text else []
    for number, call in enumerate(array(given.get("tool_calls") or (), f"{place}.tool_calls")):
        match call:
            case {"id": str(call_id), "function": {"name": str(name), "arguments": str(arguments)}}:
                blocks.append(read_call(call_id, name, arguments))
                names[call_id] = name
            case _:
                refuse_request(f"{place}.tool_calls[{number}]", "is no call of a function with an id")
    return AssistantMessage(content=tuple(blocks), model="imported")


def decide_chat(asked: ChatAsked, status: Status | None, past: Sequence[Message] = ()) -> OpenAiPlan:
    """Return the plan for a request. `status` and `past` are those of its session, None and empty for a new one."""
    if status is None:
        return asked.begin()
    ours = "\n\n".join([one.text for one in past if isinstance(one, AssistantMessage) and one.text])
    place = 0  # where the search for the next answer begins: from the start, a long session takes seconds
    for text in asked.answers:
        place = place if place < 0 else ours.find(text.partition("\n\n[")[0], place)
    words = _new_words(asked, past)
    results = {
        result.call_id.removesuffix(f"--{status.session_id}"): result.text
        for message in asked.new
        if isinstance(message, ToolMessage)
        for result in message.results
    }
    if results:
        decisions: tuple[ClientDecision, ...] = check_results(results, status, past, "messages")
    else:
        decisions = _decide_words(words, asked, status)
        words = () if decisions else words
    return OpenAiPlan(decisions=decisions, words=words, differs=place < 0)


def _new_words(asked: ChatAsked, past: Sequence[Message]) -> tuple[UserBlock, ...]:
    """Return the content of new user messages. The session has the first ones already if their answer was aborted."""
    known = {one.content for one in _after_answers(past) if isinstance(one, UserMessage)}
    users = [one for one in asked.new if isinstance(one, UserMessage)]
    new = [one for one in users[:-1] if one.content not in known]
    return tuple([block for one in (*new, *users[-1:]) for block in one.content])


_DECISION: Final = re.compile(r"\s*(yes|approve|no|reject)\b[\s.,:;!]*(.*)", re.DOTALL | re.IGNORECASE)


def _decide_words(words: Sequence[UserBlock], asked: ChatAsked, status: Status) -> tuple[ClientDecision, ...]:
    """Return the decisions in a user's words. A "yes" covers only approvals in the last answer that the client has."""
    text = "\n\n".join([block.text for block in words if isinstance(block, Text)])
    approvals, seen = status.all_approvals, asked.answers[-1:]
    if not approvals and len(status.all_questions) == 1 and not status.client_calls:
        (question,) = status.all_questions
        if question.question.strip() not in "".join(seen):
            what = "answer a question that the last answer does not show: send that answer too"
            refuse_request("messages", what, "already_resolved")
        return (RespondBody(ref=question.ref, response=text),)
    found = _DECISION.fullmatch(text)
    if not approvals or found is None:
        return ()
    is_approved, reason = found[1].lower() in ("yes", "approve"), found[2] or None
    if is_approved and reason:  # "yes, but …" asks for something else
        return ()
    # A client without earlier answers can only reject: nothing shows what its "yes" would run.
    is_any = not (seen or is_approved)
    shown = [one.id for one in approvals if is_any or any(_begin_of(one) in answer for answer in seen)]
    if not shown:
        refuse_request(
            "messages", "decides an approval that the last answer does not show", "approval_mismatch"
        )
    return tuple([decide_approval(one, reason, is_approved=is_approved) for one in shown])
