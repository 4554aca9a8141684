"""What a client of the UI message stream says: which of its messages are new, and what it answers to what a session asked.

Pure: a call of the client and how its session stands give what is to be done, or why nothing is. History is the session's: a client sends
all that it has, and of that only what the session does not know counts. Nothing in a message can approve but an answer to an approval.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import field, frozen

from agentrail.core.session.projection import Status
from agentrail.frozen import JsonValue

MAX_UI_ID_CHARACTERS: Final = 128
MAX_PAST: Final = 256
"""How many messages of the user there may be without a response between them: of so many a session remembers that it took them."""

_OURS: Final = re.compile(r"m([0-9]{1,16})")
_ANSWERED: Final = ("output-available", "output-error")


# --- what is to be done


@frozen(kw_only=True)
class UiRefusal:
    """Why a call cannot be done; nothing of it is.

    Attributes:
        place: Where it stands in the body; empty for all of it.
    """

    code: str
    message: str
    place: str = ""
    hint: str | None = None


@frozen(kw_only=True)
class UiVerdict:
    """A person's answer to an approval.

    Attributes:
        reason: What the model reads, of one that may not.
    """

    approval_id: str
    is_approved: bool
    reason: str | None = None


@frozen(kw_only=True)
class ClientOutcome:
    """What a client's tool came to.

    Attributes:
        details: As the client gave it, where that is no text.
    """

    ref: str
    text: str = field(repr=False)
    is_error: bool = False
    details: JsonValue = field(default=None, repr=False)


@frozen(kw_only=True)
class QuestionAnswer:
    """What a person answers to a question."""

    ref: str
    response: str | Mapping[str, Any] = field(repr=False)


UiAnswer: TypeAlias = UiVerdict | ClientOutcome | QuestionAnswer


@frozen(kw_only=True)
class UiWords:
    """What the user says that is new.

    Attributes:
        client_id: The id of the last message, by which the same words are known when they come again.
    """

    text: str = field(repr=False)
    client_id: str


@frozen(kw_only=True)
class UiPlan:
    """What a call comes to.

    Attributes:
        answers: To what the session asked, in order; all of them are applied, in front of the words.
        words: What is said; None where a client only answers.
        message_id: The message that goes on, where it only answers.
        differs: Whether the client has messages of an assistant that the session does not know.
    """

    answers: tuple[UiAnswer, ...] = ()
    words: UiWords | None = None
    message_id: str = ""
    differs: bool = False


# --- what came


@frozen(kw_only=True)
class UiToolPart:
    """A tool call in a message of the assistant.

    Attributes:
        output: What the client says that it came to.
        approval_id: What was asked; None where nothing was.
        is_approved: What was decided; None where nothing was yet.
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
    """A message as a client has it.

    Attributes:
        text: Of its text parts; those of a user.
    """

    id: str
    role: Literal["user", "assistant"]
    text: str = field(default="", repr=False)
    tools: tuple[UiToolPart, ...] = ()


@frozen(kw_only=True)
class UiCallBody:
    """A call of a client, read.

    Attributes:
        messages: All that it has; at least one. Of those in front of the last one of the assistant only id and role are read.
    """

    messages: tuple[UiMessage, ...]

    @property
    def past(self) -> tuple[UiMessage, ...]:
        """Give the user's messages behind the last one of the assistant, oldest first: what a session is asked whether it knows it."""
        behind = [place for place, one in enumerate(self.messages, 1) if one.role == "assistant"]
        return self.messages[behind[-1] if behind else 0 :]


def read_ui_call(messages: Sequence[Any], trigger: str | None) -> UiCallBody | UiRefusal:
    """Read what a client sends, strictly where it counts: what is past is read for its ids alone."""
    if trigger == "regenerate-message":
        return UiRefusal(
            code="field_invalid",
            place="trigger",
            message="is regenerate-message, and what a session has said stays said",
            hint="say it once more as a new message, or go back with POST /sessions/{id}/rewind",
        )
    if trigger not in (None, "submit-message"):
        return UiRefusal(code="field_invalid", place="trigger", message="is not submit-message")
    if not messages:
        return _misfit("messages", "is empty: expected all that the client has, or the last one")
    assistants = [
        place
        for place, one in enumerate(messages)
        if isinstance(one, Mapping) and one.get("role") == "assistant"
    ]
    counts_from = assistants[-1] if assistants else 0
    if len(messages) - counts_from > MAX_PAST:
        return _misfit("messages", f"has more than {MAX_PAST} messages behind the last one of the assistant")
    read: list[UiMessage] = []
    for place, one in enumerate(messages):
        message = _read_message(one, f"messages[{place}]", is_past=place < counts_from)
        if isinstance(message, UiRefusal):
            return message
        if message is not None:
            read.append(message)
    if not read:
        return _misfit("messages", "has none of a user or an assistant")
    return UiCallBody(messages=tuple(read))


def _read_message(one: Any, place: str, *, is_past: bool) -> UiMessage | UiRefusal | None:
    if not isinstance(one, Mapping):
        return _misfit(place, "is no object")
    name, role, parts = one.get("id"), one.get("role"), one.get("parts")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_UI_ID_CHARACTERS:
        return _misfit(f"{place}.id", f"is no text of 1 to {MAX_UI_ID_CHARACTERS} characters")
    if role == "system":  # what a session is told beforehand is its profile's
        return None
    if role not in ("user", "assistant"):
        return _misfit(f"{place}.role", "is neither user nor assistant")
    if not isinstance(parts, Sequence) or isinstance(parts, str):
        return _misfit(f"{place}.parts", "is no array")
    if is_past:
        return UiMessage(id=name, role=role)
    if role == "user":
        return _read_words(name, parts, place)
    tools: list[UiToolPart] = []
    for number, part in enumerate(parts):
        tool = _read_tool(part, f"{place}.parts[{number}]")
        if isinstance(tool, UiRefusal):
            return tool
        if tool is not None:
            tools.append(tool)
    return UiMessage(id=name, role="assistant", tools=tuple(tools))


def _read_words(name: str, parts: Sequence[Any], place: str) -> UiMessage | UiRefusal:
    texts: list[str] = []
    for number, part in enumerate(parts):
        where = f"{place}.parts[{number}]"
        kind = part.get("type") if isinstance(part, Mapping) else None
        match kind:
            case "text" if isinstance(part.get("text"), str):
                texts.append(part["text"])
            case "text":
                return _misfit(f"{where}.text", "is no text")
            case "file":
                return UiRefusal(
                    code="attachments_unsupported",
                    place=where,
                    message="is a file, which is not taken here",
                    hint="send it with POST /sessions/{id}/prompt, or POST /chat, as attachments",
                )
            case str() if kind.startswith("data-"):
                pass
            case _:
                return _misfit(f"{where}.type", "is none of text, file and data-…")
    return UiMessage(id=name, role="user", text="\n".join(texts))


def _read_tool(part: Any, place: str) -> UiToolPart | UiRefusal | None:
    """Read a part of a message of the assistant; None for one that asks for nothing."""
    if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
        return _misfit(place, "is no object with a type")
    kind = part["type"]
    if kind != "dynamic-tool" and not kind.startswith("tool-"):
        return None
    call_id, state = part.get("toolCallId"), part.get("state")
    if not isinstance(call_id, str) or not isinstance(state, str):
        return _misfit(place, "is a tool call without the texts toolCallId and state")
    error = part.get("errorText")
    if state == "output-error" and not isinstance(error, str):
        return _misfit(f"{place}.errorText", "is no text")
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
        return _misfit(f"{place}.approval", "is no object with the text id")
    is_approved, reason = approval.get("approved"), approval.get("reason")
    if not isinstance(is_approved, bool):
        return _misfit(f"{place}.approval.approved", "is neither true nor false")
    if reason is not None and not isinstance(reason, str):
        return _misfit(f"{place}.approval.reason", "is no text")
    return UiToolPart(
        call_id=call_id,
        state=state,
        approval_id=approval["id"],
        is_approved=is_approved,
        reason=reason or None,
    )


def _misfit(place: str, what: str) -> UiRefusal:
    return UiRefusal(code="field_invalid", place=place, message=what)


# --- what it comes to


def decide_ui_call(body: UiCallBody, status: Status | None, known: frozenset[str]) -> UiPlan | UiRefusal:
    """Decide what a call comes to."""
    assistants = [one for one in body.messages if one.role == "assistant"]
    last = body.messages[-1]
    differs = any(not _is_ours(one.id, status) for one in assistants)
    answers: tuple[UiAnswer, ...] = ()
    if assistants and status is not None:
        answers = _answers_of(assistants[-1], status, is_all=last.role == "assistant")
    if last.role == "assistant":
        if answers:
            return UiPlan(answers=answers, message_id=last.id, differs=differs)
        return _misfit(
            "messages", "says nothing new: it ends with a message of the assistant without an answer"
        )
    new = [one for one in body.past[:-1] if one.id not in known]
    text = "\n\n".join(one.text for one in (*new, last) if one.text)
    if not text.strip():
        return _misfit("messages", "ends with a message of the user that says nothing")
    return UiPlan(answers=answers, words=UiWords(text=text, client_id=last.id), differs=differs)


def _is_ours(name: str, status: Status | None) -> bool:
    """Whether a message can be one that this session began."""
    found = _OURS.fullmatch(name)
    return found is not None and status is not None and int(found[1]) <= status.last_seq


def _answers_of(message: UiMessage, status: Status, *, is_all: bool) -> tuple[UiAnswer, ...]:
    """Give what is answered in a message; of what does not wait any more only where nothing else is said."""
    waiting = {one.id for one in status.all_approvals}
    asked: dict[str, str] = {one.call_id: one.ref for one in status.questions}
    calls: dict[str, str] = {one.call_id: one.ref for one in status.client_calls}
    stale: list[UiAnswer] = []
    answers: list[UiAnswer] = []
    for part in message.tools:
        if part.approval_id is not None and part.is_approved is not None:
            verdict = UiVerdict(
                approval_id=part.approval_id, is_approved=part.is_approved, reason=part.reason
            )
            (answers if part.approval_id in waiting else stale).append(verdict)
        elif part.state in _ANSWERED and part.call_id in calls:
            answers.append(_outcome(calls[part.call_id], part))
        elif part.state == "output-available" and part.call_id in asked:
            answers.append(_answer(asked[part.call_id], part))
    # In front, because the session refuses them: what is refused decides nothing, and so nothing of this call does.
    return (*stale, *answers) if is_all else tuple(answers)


def _outcome(ref: str, part: UiToolPart) -> ClientOutcome:
    if part.state == "output-error":
        return ClientOutcome(ref=ref, text=part.error or "the tool failed", is_error=True)
    if isinstance(part.output, str):
        return ClientOutcome(ref=ref, text=part.output)
    return ClientOutcome(ref=ref, text=json.dumps(part.output, ensure_ascii=False), details=part.output)


def _answer(ref: str, part: UiToolPart) -> QuestionAnswer:
    said = part.output
    if isinstance(said, str | Mapping):
        return QuestionAnswer(ref=ref, response=said)
    return QuestionAnswer(ref=ref, response=json.dumps(said, ensure_ascii=False))
