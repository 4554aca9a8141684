"""Requests of AG-UI 1.0 clients: the new messages and decisions in a client's transcript. Pure.

The session owns the history. Only an entry of `resume` can approve anything.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec
from attrs import field, frozen
from msgspec.structs import replace

from agentrail.core.session.views import Status
from agentrail.core.values.question_forms import read_form
from agentrail.core.values.toolbox import read_call
from agentrail.events import Approval, Question
from agentrail.messages import AssistantMessage, CallId, Message, Text, ToolMessage, ToolResult, UserMessage
from agentrail.protocols.ag_ui import AgUiRun, messages_snapshot, result_message_id, with_first_frame
from agentrail.protocols.decisions import ClientDecision, is_ours, number_in, order_decisions, refuse_request
from agentrail.structs import Value, always_encoded
from agentrail.wire.operations import AnswerBody, DeclineBody, RespondBody, decide_approval

MAX_AG_UI_MESSAGES: Final = 5_000
"""Limit on the messages of a request, which are read in the event loop."""

_IMPORTED_MODEL: Final = "ag-ui:imported"
_CONTENT: Final[dict[str, tuple[type, ...]]] = {
    "user": (str, tuple),
    "tool": (str, tuple),
    "assistant": (str, type(None)),
    "activity": (dict,),
}
"""Types of the content of a message by role. Otherwise text."""


# --- the request


class _Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A part of a request. Unknown fields are ignored."""


class AgUiSource(_Wire, frozen=True):
    """Content of a media part: inline, at an address, or at a provider."""

    type: Literal["data", "url", "file"]
    value: str
    mime_type: str | None = None
    provider: str | None = None


class AgUiPart(_Wire, frozen=True):
    """A part of a message: `text`, or media with a `source`."""

    type: Literal["text", "image", "audio", "video", "document"]
    id: str | None = None
    text: str | None = None
    source: AgUiSource | None = None
    metadata: Any = None


class AgUiFunction(_Wire, frozen=True):
    """Name of a tool, and its arguments as JSON text."""

    name: str
    arguments: str


class AgUiCall(_Wire, frozen=True):
    """A call in a message of the assistant."""

    id: str
    function: AgUiFunction
    type: Literal["function"] = always_encoded("function")
    encrypted_value: str | None = None
    metadata: dict[str, Any] | None = None


class AgUiMessage(_Wire, frozen=True):
    """A message of any role."""

    id: str
    role: Literal["user", "assistant", "tool", "system", "developer", "reasoning", "activity"]
    content: str | tuple[AgUiPart, ...] | dict[str, Any] | None = None
    tool_calls: tuple[AgUiCall, ...] | None = None
    tool_call_id: str | None = None
    error: str | None = None
    activity_type: str | None = None
    name: str | None = None
    encrypted_value: str | None = None
    metadata: dict[str, Any] | None = None
    subagent_run_id: str | None = None

    @property
    def text(self) -> str:
        """Its text."""
        if isinstance(self.content, tuple):
            return "\n".join(part.text for part in self.content if part.text)
        return self.content if isinstance(self.content, str) else ""


class AgUiResume(_Wire, frozen=True):
    """An answer to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class AgUiContext(_Wire, frozen=True):
    """A fact for the model that is not part of the conversation."""

    description: str
    value: str


class AgUiBody(Value, frozen=True, kw_only=True):
    """A `RunAgentInput`, for `/ag-ui/{profile}`. The field names are those of AG-UI.

    Attributes:
        threadId: The session id.
        runId: Name of the run. The same name attaches to the same run.
        messages: All messages of the client.
        tools: Tools of the client that this run may call.
        context: Facts for the model in this run, which are not part of the history.
        state: State of the client, stored with a new session.
        forwardedProps: In `agentrail`, `{"on_disconnect": "continue"}` lets the run survive its connection, and
            `{"branch": true}` forks the session at the last common message.
        resume: Answers to interrupts.
        protocolVersion: Version of the client. Ignored.
        parentRunId: Ignored.
    """

    threadId: str  # noqa: N815 - names of the protocol, here and below
    runId: str  # noqa: N815
    messages: tuple[AgUiMessage, ...]
    tools: tuple[dict[str, Any], ...] | None = None
    context: tuple[AgUiContext, ...] | None = None
    state: Any = None
    forwardedProps: Any = None  # noqa: N815
    resume: tuple[AgUiResume, ...] | None = None
    protocolVersion: str | None = None  # noqa: N815
    parentRunId: str | None = None  # noqa: N815

    @property
    def settings(self) -> dict[str, Any] | None:
        """Settings of the run: its tools, and its context as the last section of the system prompt."""
        facts = "\n".join(f"- {one.description}: {one.value}" for one in self.context or ())
        told = {"tools": self.tools, "instructions": facts and f"Context of the user's page:\n{facts}"}
        return {name: value for name, value in told.items() if value} or None

    @property
    def _ours(self) -> dict[str, Any]:
        given = self.forwardedProps.get("agentrail") if isinstance(self.forwardedProps, dict) else None
        return given if isinstance(given, dict) else {}

    @property
    def on_disconnect(self) -> Literal["abort", "continue"]:
        """Handling of the cycle if the client disconnects, which is its only way to stop it."""
        return "continue" if self._ours.get("on_disconnect") == "continue" else "abort"

    @property
    def is_branch(self) -> bool:
        """Whether the run belongs to a fork of its session at the last common message."""
        return self._ours.get("branch") is True


@frozen(kw_only=True)
class AgUiPlan:
    """Actions that follow from a request.

    Attributes:
        answers: Decisions on pending interactions, applied before the text.
        words: New text of the user, or empty.
        history: Conversation to import into a new session.
        repeats: Number of the event that accepted the run before. None if it is new.
    """

    answers: tuple[ClientDecision, ...] = ()
    words: str = field(default="", repr=False)
    history: tuple[Message, ...] = field(default=(), repr=False)
    repeats: int | None = None


def check_ag_ui_messages(messages: Sequence[AgUiMessage]) -> None:
    """Refuse messages with faults that their types do not exclude."""
    if len(messages) > MAX_AG_UI_MESSAGES:
        message = f"are {len(messages):,}: send the last {MAX_AG_UI_MESSAGES:,} at most"
        refuse_request("messages", message, "too_large")
    for place, one in enumerate(messages):
        parts = one.content if isinstance(one.content, tuple) else ()
        is_whole = all((one.text if one.type == "text" else one.source) is not None for one in parts)
        if not is_whole or not isinstance(one.content, _CONTENT.get(one.role, (str,))):
            refuse_request(
                f"messages[{place}].content", f"is not the content of a message of role {one.role}"
            )
        named = {"tool": one.tool_call_id, "activity": one.activity_type}.get(one.role, "")
        if named is None:
            refuse_request(f"messages[{place}]", "lacks its toolCallId or activityType")


def last_known(messages: Sequence[AgUiMessage], status: Status) -> tuple[int, int]:
    """Return the place after the last message that the session started, and the number in its id. Zeros if there is none."""
    places = [at for at, one in enumerate(messages, 1) if one.role == "assistant" and is_ours(one.id, status)]
    return (places[-1], number_in(messages[places[-1] - 1].id) or 0) if places else (0, 0)


def foreign_texts(messages: Iterable[AgUiMessage], status: Status) -> frozenset[str]:
    """Return the texts of assistant messages that were imported, or belong to another history."""
    texts = [one for one in messages if one.role == "assistant" and one.text and one.subagent_run_id is None]
    return frozenset(one.text for one in texts if not is_ours(one.id, status))


def open_ag_ui_run(body: AgUiBody, plan: AgUiPlan) -> AgUiRun:
    """Return the run of a request. A repeated run starts over after its own message."""
    numbers = [number_in(one.id) or 0 for one in body.messages]
    own = [at for at, number in enumerate(numbers) if plan.repeats is not None and number > plan.repeats]
    past = body.messages[: own[0]] if own else body.messages
    known = {one.id for one in past}
    # A snapshot without thinking does not remove the client's.
    if all(one.role != "reasoning" for one in past):
        known |= {one.id for one in body.messages if one.role == "reasoning"}
    for one in past:
        for call in one.tool_calls or ():
            known |= {call.id, f"{call.id} {call.function.arguments}"}
        known |= {result_message_id(one.tool_call_id or "")} if one.role == "tool" else set()
    run = AgUiRun(thread_id=body.threadId, run_id=body.runId, past=past, known=frozenset(known))
    if plan.repeats is not None:
        run = with_first_frame(run, messages_snapshot(run))
    # Later snapshots have no thinking, so that the client keeps all of its own with that of this run.
    return replace(run, past=tuple([one for one in past if one.role != "reasoning"]))


# --- the decision


def decide_ag_ui_request(
    body: AgUiBody, status: Status | None, said: Sequence[str] = (), sent: tuple[int, str] | None = None
) -> AgUiPlan:
    """Return the plan for a request.

    Args:
        body: The request.
        status: Status of the session. None if there is none yet.
        said: Texts of the session's prompts after the last message that it started and the client has, oldest first.
        sent: Event number and text of the run's own prompt. None if the run is new.
    """
    if status is None:
        return _decide_new(body)
    new = [one for one in body.messages[last_known(body.messages, status)[0] :] if one.role == "user"]
    texts = [one.text for one in new]
    # Ids of the user's messages are the client's. Known ones have the texts of the last prompts, in the same order.
    sizes = range(min(len(said), len(texts)) + 1)
    known = max(size for size in sizes if list(said[len(said) - size :]) == texts[:size])
    words = "\n\n".join(text for text in texts[known:] if text.strip())
    _refuse_media(new[known:])
    answers = _answers_of(body, status)
    if sent is not None and not words and not answers:
        return AgUiPlan(repeats=sent[0], words=sent[1])
    if sent is not None:
        refuse_request("runId", "names a run of another request", "client_id_reused")
    if not words and not answers:
        refuse_request("messages", "say nothing new, and nothing is resumed")
    return AgUiPlan(answers=order_decisions(answers, status, stand_alone=not words), words=words)


def _decide_new(body: AgUiBody) -> AgUiPlan:
    if body.resume:
        refuse_request("", "there is no session of this id", "session_unknown")
    _refuse_media(body.messages[-1:])
    last = body.messages[-1] if body.messages else None
    if last is None or last.role != "user" or not last.text.strip():
        refuse_request("messages", "does not end with a new message of the user that has text")
    return AgUiPlan(words=last.text, history=tuple(_imported(body.messages[:-1])))


def _refuse_media(messages: Iterable[AgUiMessage]) -> None:
    parts = [part for one in messages if isinstance(one.content, tuple) for part in one.content]
    if any(part.source is not None for part in parts):
        hint = "send it with POST /sessions/{id}/prompt, as an attachment"
        refuse_request("messages", "has media", "attachments_unsupported", hint=hint)


def _imported(messages: Iterable[AgUiMessage]) -> Iterable[Message]:
    """Convert a conversation. Instructions belong to the profile, and thinking to its vendor."""
    names: dict[str, str] = {}
    for one in messages:
        said = (Text(text=one.text),) if one.text else ()
        if one.role == "user":
            yield UserMessage(content=said)
        elif one.role == "assistant":
            called = [
                read_call(call.id, call.function.name, call.function.arguments)
                for call in one.tool_calls or ()
            ]
            names |= {call.call_id: call.name for call in called}
            yield AssistantMessage(content=(*said, *called), model=_IMPORTED_MODEL)
        elif one.role == "tool":
            call_id = CallId(one.tool_call_id or "")
            is_error = one.error is not None
            result = ToolResult(
                call_id=call_id, name=names.get(call_id, ""), text=one.text, is_error=is_error
            )
            yield ToolMessage(results=(result,))


def _answers_of(body: AgUiBody, status: Status) -> list[ClientDecision]:
    entries = body.resume or ()
    if len({entry.interrupt_id for entry in entries}) < len(entries):
        refuse_request("resume", "answers an interrupt twice")
    waiting: dict[str, Approval | Question] = {one.id: one for one in status.all_approvals}
    waiting |= {one.ref: one for one in status.all_questions}
    answers: list[ClientDecision] = []
    for place, entry in enumerate(entries):
        asked = waiting.get(entry.interrupt_id)
        # The session refuses a late answer, with the reason.
        late = DeclineBody(ref=entry.interrupt_id)
        answer = late if asked is None else _answer_of(entry, asked)
        if isinstance(answer, str):
            refuse_request(f"resume[{place}].payload", answer)
        answers.append(answer)
    results = {one.tool_call_id: one for one in body.messages if one.role == "tool"}
    for call in status.all_client_calls:
        name = call.call_id if len(call.path) == 1 else f"{call.path[-1]}/{call.call_id}"
        if (given := results.get(name)) is not None:
            text, is_error = given.error or given.text, given.error is not None
            answers.append(AnswerBody(ref=call.ref, text=text, is_error=is_error))
    return answers


def _answer_of(entry: AgUiResume, asked: Approval | Question) -> ClientDecision | str:
    """Return the decision of an answer, or its fault."""
    given = entry.payload
    if isinstance(asked, Question):
        if entry.status == "cancelled":
            return DeclineBody(ref=asked.ref)
        if asked.schema is None and not (isinstance(given, str) and given.strip()):
            return "is not a text"
        read = "" if asked.schema is None else read_form(asked.schema, given)
        return read if isinstance(read, str) and read else RespondBody(ref=asked.ref, response=given)
    answer = {"approved": False} if entry.status == "cancelled" else given
    if not isinstance(answer, dict) or not isinstance(answer.get("approved"), bool):
        return "has no approved, true or false"
    reason, edits = answer.get("reason"), answer.get("editedArgs")
    if not isinstance(reason, str | None) or not isinstance(edits, dict | None):
        return "has a reason that is not text, or editedArgs that are not an object"
    wanted = "reject" if not answer["approved"] else "approve" if edits is None else "edit"
    if wanted not in asked.permission_options:
        return f"is an answer that is not offered: {wanted}"
    return decide_approval(asked.id, reason, edits, is_approved=answer["approved"])
