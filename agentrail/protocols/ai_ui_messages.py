"""Messages of a client of the UI message stream: the new ones among them, and the client's answers.

Pure: the client's call and the session's status give a plan, or refuse the call. The session owns the history. A
    client sends all its messages, and only those unknown to the session count. Only an answer to an approval
    can approve anything.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from attrs import evolve, field, frozen

from agentrail.core.session.views import Status
from agentrail.protocols.decisions import ClientDecision, is_ours, order_decisions, refuse_request
from agentrail.wire.operations import AnswerBody, RespondBody, decide_approval

MAX_UI_ID_CHARACTERS: Final = 128
MAX_PAST: Final = 256
"""Limit on user messages without a response between them: the session remembers that many as accepted."""

_ANSWERED: Final = ("output-available", "output-error")


# --- the plan


@frozen(kw_only=True)
class UiPlan:
    """Actions that follow from a call.

    Attributes:
        answers: Answers to the session's requests, in order. All of them are applied before the text.
        text: New text of the user. Empty if the client only answers.
        message_id: The client's id of that text, for sending it again. Without text, the id of the message that
            continues.
        differs: Whether the client has assistant messages unknown to the session.
    """

    answers: tuple[ClientDecision, ...] = ()
    text: str = field(default="", repr=False)
    message_id: str
    differs: bool = False


# --- input


@frozen(kw_only=True)
class UiToolPart:
    """A tool call in an assistant message.

    Attributes:
        output: The client's result.
        approval_id: Id of the requested approval, or None.
        is_approved: The decision, or None if there is none yet.
    """

    call_id: str
    state: str
    output: Any = field(default=None, repr=False)
    error: str | None = field(default=None, repr=False)
    approval_id: str | None = None
    is_approved: bool | None = None
    reason: str | None = None


@frozen(kw_only=True)
class UiMessage:
    """A message of the client.

    Attributes:
        text: Joined text parts of a user message.
    """

    id: str
    role: Literal["user", "assistant"]
    text: str = field(default="", repr=False)
    tools: tuple[UiToolPart, ...] = ()


@frozen(kw_only=True)
class UiCallBody:
    """A parsed call of a client.

    Attributes:
        messages: All its messages, at least one. For those before the last assistant message, only id and role
            are read.
    """

    messages: tuple[UiMessage, ...]

    @property
    def past(self) -> tuple[UiMessage, ...]:
        """User messages after the last assistant message, oldest first. The session is asked which of them it knows."""
        behind = [place for place, one in enumerate(self.messages, 1) if one.role == "assistant"]
        return self.messages[behind[-1] if behind else 0 :]


def read_ui_call(messages: Sequence[Any], trigger: str | None) -> UiCallBody:
    """Parse the client's messages. Older messages are read only for their ids, newer ones strictly."""
    if trigger == "regenerate-message":
        hint = "send it again as a new message, or go back with POST /sessions/{id}/rewind"
        refuse_request("trigger", "is regenerate-message, but answers of a session are permanent", hint=hint)
    if trigger not in (None, "submit-message"):
        refuse_request("trigger", "is not submit-message")
    if not messages:
        refuse_request("messages", "is empty: expected all messages of the client, or the last one")
    roles = [one.get("role") if isinstance(one, Mapping) else None for one in messages]
    counts_from = max((place for place, role in enumerate(roles) if role == "assistant"), default=0)
    if len(messages) - counts_from > MAX_PAST:
        refuse_request("messages", f"has more than {MAX_PAST} messages after the last one of the assistant")
    read: list[UiMessage] = []
    for place, one in enumerate(messages):
        message = _read_message(one, f"messages[{place}]", is_past=place < counts_from)
        if message is not None:
            read.append(message)
    if not read:
        refuse_request("messages", "has no message of a user or an assistant")
    return UiCallBody(messages=tuple(read))


def _read_message(one: Any, place: str, *, is_past: bool) -> UiMessage | None:
    if not isinstance(one, Mapping):
        refuse_request(place, "is not an object")
    name, role, parts = one.get("id"), one.get("role"), one.get("parts")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_UI_ID_CHARACTERS:
        refuse_request(f"{place}.id", f"is not text of 1 to {MAX_UI_ID_CHARACTERS} characters")
    if role == "system":  # instructions for a session are part of its profile
        return None
    if role not in ("user", "assistant"):
        refuse_request(f"{place}.role", "is neither user nor assistant")
    if not isinstance(parts, Sequence) or isinstance(parts, str):
        refuse_request(f"{place}.parts", "is not an array")
    if is_past:
        return UiMessage(id=name, role=role)
    if role == "user":
        return _read_words(name, parts, place)
    tools: list[UiToolPart] = []
    for number, part in enumerate(parts):
        tool = _read_tool(part, f"{place}.parts[{number}]")
        if tool is not None:
            tools.append(tool)
    return UiMessage(id=name, role="assistant", tools=tuple(tools))


def _read_words(name: str, parts: Sequence[Any], place: str) -> UiMessage:
    texts: list[str] = []
    for number, part in enumerate(parts):
        where = f"{place}.parts[{number}]"
        kind = part.get("type") if isinstance(part, Mapping) else None
        match kind:
            case "text" if isinstance(part.get("text"), str):
                texts.append(part["text"])
            case "text":
                refuse_request(f"{where}.text", "is not text")
            case "file":
                hint = "send it with POST /sessions/{id}/prompt, or POST /chat, as attachments"
                what = "is a file, which is not accepted here"
                refuse_request(where, what, "attachments_unsupported", hint=hint)
            case str() if kind.startswith("data-"):
                pass
            case _:
                refuse_request(f"{where}.type", "is not one of text, file and data-…")
    return UiMessage(id=name, role="user", text="\n".join(texts))


def _read_tool(part: Any, place: str) -> UiToolPart | None:
    """Parse a part of an assistant message. Return None for a part without an answer."""
    if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
        refuse_request(place, "is not an object with a type")
    kind = part["type"]
    if kind != "dynamic-tool" and not kind.startswith("tool-"):
        return None
    call_id, state = part.get("toolCallId"), part.get("state")
    if not isinstance(call_id, str) or not isinstance(state, str):
        refuse_request(place, "is a tool call without the texts toolCallId and state")
    error = part.get("errorText")
    if state == "output-error" and not isinstance(error, str):
        refuse_request(f"{place}.errorText", "is not text")
    read = UiToolPart(
        call_id=call_id,
        state=state,
        output=part.get("output"),
        error=error if isinstance(error, str) else None,
    )
    if state != "approval-responded":
        return read
    approval = part.get("approval")
    if not isinstance(approval, Mapping) or not isinstance(approval.get("id"), str):
        refuse_request(f"{place}.approval", "is not an object with the text id")
    is_approved, reason = approval.get("approved"), approval.get("reason")
    if not isinstance(is_approved, bool):
        refuse_request(f"{place}.approval.approved", "must be true or false")
    if reason is not None and not isinstance(reason, str):
        refuse_request(f"{place}.approval.reason", "is not text")
    return evolve(read, approval_id=approval["id"], is_approved=is_approved, reason=reason or None)


# --- the decision


def decide_ui_call(body: UiCallBody, status: Status | None, known: frozenset[str]) -> UiPlan:
    """Return the plan for a call."""
    assistants = [one for one in body.messages if one.role == "assistant"]
    last = body.messages[-1]
    differs = any(not is_ours(one.id, status) for one in assistants)
    answers: tuple[ClientDecision, ...] = ()
    if assistants and status is not None:
        answers = _answers_of(assistants[-1], status, is_all=last.role == "assistant")
    if last.role == "assistant":
        if answers:
            return UiPlan(answers=answers, message_id=last.id, differs=differs)
        what = "contains nothing new: it ends with an assistant message without answers to its questions"
        refuse_request("messages", what)
    new = [one for one in body.past[:-1] if one.id not in known]
    text = "\n\n".join(one.text for one in (*new, last) if one.text)
    if not text.strip():
        refuse_request("messages", "ends with an empty message of the user")
    return UiPlan(answers=answers, text=text, message_id=last.id, differs=differs)


def _answers_of(message: UiMessage, status: Status, *, is_all: bool) -> tuple[ClientDecision, ...]:
    asked: dict[str, str] = {one.call_id: one.ref for one in status.questions}
    calls: dict[str, str] = {one.call_id: one.ref for one in status.client_calls}
    answers: list[ClientDecision] = []
    for part in message.tools:
        match part:
            case UiToolPart(approval_id=str() as name, is_approved=is_approved, reason=reason):
                answers.append(decide_approval(name, reason, is_approved=bool(is_approved)))
            case UiToolPart(call_id=call_id, state="output-available") if call_id in asked:
                said = part.output if isinstance(part.output, str | dict) else _json(part.output)
                answers.append(RespondBody(ref=asked[call_id], response=said))
            case UiToolPart(call_id=call_id, state="output-available" | "output-error") if call_id in calls:
                answers.append(_outcome(calls[call_id], part))
            case _:
                pass
    return order_decisions(answers, status, stand_alone=is_all)


def _outcome(ref: str, part: UiToolPart) -> AnswerBody:
    if part.state == "output-error":
        return AnswerBody(ref=ref, text=part.error or "the tool failed", is_error=True)
    if isinstance(part.output, str):
        return AnswerBody(ref=ref, text=part.output)
    return AnswerBody(ref=ref, text=_json(part.output), details=part.output)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
