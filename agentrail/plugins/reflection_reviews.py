"""State of `Reflection`, and the requests and replies of its three reviewers: the model itself, another model, an agent."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from agentrail.core.policy.response_format import document_in
from agentrail.core.protocol.actions import (
    Action,
    CallModel,
    Continue,
    Intervene,
    ReplaceResponse,
    ReplaceToolArgs,
    Request,
)
from agentrail.core.protocol.hooks import AfterToolBatch, BeforeTool, ModelAnswer, RequestFailed
from agentrail.core.stack.plugin import Context
from agentrail.core.values.json_schema import NotJson, decode_strictly
from agentrail.frozen import frozen_json, same_json
from agentrail.messages import (
    AssistantMessage,
    CallId,
    JsonObject,
    JsonValue,
    Message,
    Text,
    ToolCall,
    UserMessage,
)

TASK: Final = "task"
"""The tool that delegates work to an agent."""

NOT_REVIEWED: Final = f"the model answered without calling {TASK}, so there was no review"
NO_TASK: Final = f"there is no tool {TASK} in this session: add TaskTool() to its tools"

_EMPHASIS: Final = "*_`#. !"
"""Characters that models put around a single word."""
_FENCE: Final = "```"


@attrs.frozen
class Reviews:
    """Settings and progress of a review.

    Attributes:
        reviewer_model: The reviewing model. None: the model itself.
        reviewer_agent: The reviewing agent. None: a model reviews.
        answer: The answer under review, or the last one reviewed. Empty with `reviewer_model`, whose review leaves it unchanged.
        call_id: The open call in which the agent reviews. None: no call is open.
    """

    criteria: tuple[str, ...]
    max_reviews: int
    pass_signal: str
    reviewer_model: str | None
    reviews: int = 0
    passed: bool = False
    reviewer_agent: str | None = None
    answer: str = ""
    is_asked_for: bool = False
    call_id: CallId | None = None


def ask_agent(state: Reviews, ctx: Context) -> Action[Reviews]:
    """Ask the model to call the agent, unless this answer already passed or the reviews are used up."""
    answer = candidate_in(ctx.messages)
    if ctx.depth or (state.passed and is_same_answer(state.answer, answer)):
        return Continue(state)
    emits = (_failed(NOT_REVIEWED),) if state.is_asked_for else ()
    state = attrs.evolve(state, answer=answer, passed=False, is_asked_for=False)
    if state.reviews >= state.max_reviews:
        return Continue(state, emits=emits)
    if TASK not in ctx.tools:
        return Continue(attrs.evolve(state, passed=True), emits=(*emits, _failed(NO_TASK)))
    state = attrs.evolve(state, reviews=state.reviews + 1, is_asked_for=True)
    return Intervene(asked_review(state), state, emits=emits)


def listen_for_call(message: AssistantMessage, state: Reviews) -> Action[Reviews]:
    """Record the call in which the agent reviews. After a review, a response that is only the signal is replaced by the answer."""
    if message.calls:
        call_id = review_call(message.calls, state.reviewer_agent) if state.is_asked_for else None
        return Continue(
            state if call_id is None else attrs.evolve(state, is_asked_for=False, call_id=call_id)
        )
    if state.answer.strip() and is_signal(message.text, state.pass_signal):
        return ReplaceResponse(state.answer, state)
    return Continue(state)


def write_call(event: BeforeTool, state: Reviews, ctx: Context) -> Action[Reviews]:
    if event.call_id != state.call_id:
        return Continue(state)
    return ReplaceToolArgs(review_arguments(state, ctx.messages), state)


def read_review(event: AfterToolBatch, state: Reviews) -> Action[Reviews]:
    result = next((one for one in event.results if one.call_id == state.call_id), None)
    if result is None:
        return Continue(state)
    passed = result.is_error or is_approved(result.text, state.pass_signal)
    emits = (_failed(result.text),) if result.is_error else ()
    return Continue(attrs.evolve(state, call_id=None, passed=passed), emits=emits)


def listen_to_itself(message: AssistantMessage, state: Reviews) -> Action[Reviews]:
    """Read the model's review of its own answer. If it approves, return that answer instead of the signal."""
    if not state.reviews or message.calls:
        return Continue(attrs.evolve(state, passed=False))
    if not is_approved(message.text, state.pass_signal):
        return Continue(attrs.evolve(state, passed=_is_same_document(state.answer, message.text)))
    state = attrs.evolve(state, passed=True)
    return ReplaceResponse(state.answer, state) if state.answer.strip() else Continue(state)


def ask_itself(state: Reviews, ctx: Context) -> Action[Reviews]:
    state = attrs.evolve(state, answer=candidate_in(ctx.messages), reviews=state.reviews + 1)
    prompt = (
        f"Review your answer by these criteria:\n{criteria_in(state)}\n"
        f"If it does not meet all of them, write a better answer. {_good(state)}"
    )
    return Intervene(prompt, state)


def ask_model(state: Reviews, ctx: Context) -> Action[Reviews]:
    question = CallModel(
        prompt=f"Criteria:\n{criteria_in(state)}\n\nAnswer:\n{candidate_in(ctx.messages)}",
        system=f"You review an answer. If it meets all criteria, say {state.pass_signal} on the first line; if not, say what is wrong.",
        model=state.reviewer_model,
    )
    return Request(question, "review", state, wait=True)


def read_model(result: object, state: Reviews) -> Action[Reviews]:
    """Send the answer back with the review. If the reviewer fails or returns no text, the answer passes."""
    match result:
        case ModelAnswer(text=text) if text.strip() and not is_approved(text, state.pass_signal):
            prompt = f"A reviewer says of your answer:\n{text}\nWrite a better one."
            return Intervene(prompt, attrs.evolve(state, reviews=state.reviews + 1))
        case RequestFailed(error=error):
            return Continue(attrs.evolve(state, passed=True), emits=(_failed(error.message),))
        case _:
            return Continue(attrs.evolve(state, passed=True))


def asked_review(state: Reviews) -> str:
    return (
        f"Have your answer reviewed before it is returned: call `{TASK}` once, with subagent_type {state.reviewer_agent!r}. "
        "Your answer and what it is judged by are put into the call for you, whatever the description says.\n"
        f"If the review says what is wrong, write a better answer. {_good(state)}"
    )


def _good(state: Reviews) -> str:
    if document_of(state.answer) is None:
        return f"Else say {state.pass_signal} and nothing else: your answer is then returned as it stands."
    return "Else write the same JSON again, unchanged."


def review_arguments(state: Reviews, messages: Sequence[Message]) -> JsonObject:
    """Return the arguments of the call. An agent does not see the conversation, so they contain everything it judges by."""
    description = (
        f"You review an answer. If it meets all criteria, say {state.pass_signal} on the first line. "
        f"If not, say what is wrong with it, point by point.\n\nCriteria:\n{criteria_in(state)}\n\n"
        f"Asked:\n{_asked(messages)}\n\nAnswer:\n{state.answer}"
    )
    return frozen_json({"description": description, "subagent_type": state.reviewer_agent})


def review_call(calls: Sequence[ToolCall], agent: str | None) -> CallId | None:
    """Return the first call of a response that asks for a review, or None."""
    for call in calls:
        arguments = call.arguments or {}
        if call.name == TASK and arguments.get("subagent_type") == agent and arguments.get("description"):
            return call.call_id
    return None


def is_approved(review: str, pass_signal: str) -> bool:
    """Return whether a review approves the answer, by its first line, or by `verdict` if it is a JSON object.

    The signal elsewhere in the text does not count: "this cannot be APPROVED" does not approve.
    """
    document = document_of(review)
    if isinstance(document, Mapping):
        return is_signal(str(document.get("verdict")), pass_signal)
    return is_signal(review.strip().partition("\n")[0], pass_signal)


def is_signal(text: str, pass_signal: str) -> bool:
    """Return whether the text is only the signal, with or without emphasis marks."""
    said = text.strip()
    return pass_signal.strip() in {said, said.strip(_EMPHASIS)}


def candidate_in(messages: Sequence[Message]) -> str:
    said = (message.text for message in reversed(messages) if isinstance(message, AssistantMessage))
    return next(said, "")


def is_same_answer(one: str, other: str) -> bool:
    return one == other or _is_same_document(one, other)


def _is_same_document(one: str, other: str) -> bool:
    document = document_of(one)
    return document is not None and same_json(document, document_of(other))


def document_of(answer: str) -> JsonValue:
    """Parse an answer as a JSON object or array, fenced or not. None for other text, including text around a fence."""
    text = answer.strip()
    fenced = text.startswith(_FENCE) and text.endswith(_FENCE)
    try:
        document = decode_strictly(document_in(text) if fenced else text)
    except NotJson:
        return None
    return document if isinstance(document, Mapping | list) else None


def criteria_in(state: Reviews) -> str:
    return "\n".join(f"- {criterion}" for criterion in state.criteria)


def _asked(messages: Sequence[Message]) -> str:
    asked: list[str] = []
    for message in reversed(messages):
        if isinstance(message, UserMessage) and message.origin in {"prompt", "steer"}:
            asked.append("\n".join(block.text for block in message.content if isinstance(block, Text)))
            if message.origin == "prompt":
                break
    return "\n\n".join(reversed(asked))


def _failed(error: str) -> tuple[str, object]:
    return ("reflection_failed", {"error": error})
