"""`Reflection`: an answer is reviewed before it is returned, by the model itself, another model, an agent, or a function.

An agent reviews through a `task` call of the model: the plugin writes its arguments and reads its result. So the session
needs no new mechanism. The rules for child calls (loan, approvals, abort and recovery) apply to reviews.
"""

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
from agentrail.core.protocol.hooks import (
    AfterResponse,
    AfterToolBatch,
    BeforeFinish,
    BeforeTool,
    ModelAnswer,
    RequestDone,
    RequestFailed,
)
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
from agentrail.plugins.base import Plugin, on

# The reviewers: their state, their questions and their answers.
#
# For an agent, the model calls `task`, and the plugin writes that call and reads its result. All three approve in the same
# way (`is_approved`).

TASK: Final = "task"
"""The tool that gives work to an agent."""

NOT_REVIEWED: Final = f"the model answered without calling {TASK}, so there was no review"
NO_TASK: Final = f"there is no tool {TASK} in this session: add TaskTool() to its tools"

_EMPHASIS: Final = "*_`#. !"
"""Characters that models put around a standalone word."""
_FENCE: Final = "```"


@attrs.frozen
class Reviews:
    """The options, and the progress of the review.

    Attributes:
        criteria: Criteria of a good answer.
        max_reviews: How often an answer is sent back in one cycle.
        pass_signal: A reviewer's signal for a good answer.
        reviewer_model: Model that reviews. None: the model itself.
        reviews: How often this cycle's answer was sent back.
        passed: Whether the answer was approved.
        reviewer_agent: The agent that reviews. None: a model.
        answer: The reviewed answer. Not kept for `reviewer_model`, after whose review the answer is returned unchanged.
        is_asked_for: Whether the model was told to request a review, and has not called the agent yet.
        call_id: The call in which the agent reviews. None if none is open.
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
    """Instruct the model to call the agent, unless this exact answer passed, or reviews are used up."""
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
    """Record the call in which the agent reviews. After a review, a bare pass signal is replaced by the answer."""
    if message.calls:
        call_id = review_call(message.calls, state.reviewer_agent) if state.is_asked_for else None
        return Continue(
            state if call_id is None else attrs.evolve(state, is_asked_for=False, call_id=call_id)
        )
    if state.answer.strip() and is_signal(message.text, state.pass_signal):
        return ReplaceResponse(state.answer, state)
    return Continue(state)


def write_call(event: BeforeTool, state: Reviews, ctx: Context) -> Action[Reviews]:
    """Write the arguments of the review call. Other calls stay unchanged."""
    if event.call_id != state.call_id:
        return Continue(state)
    return ReplaceToolArgs(review_arguments(state, ctx.messages), state)


def read_review(event: AfterToolBatch, state: Reviews) -> Action[Reviews]:
    """Read the result of that call. A failed review lets the answer pass."""
    result = next((one for one in event.results if one.call_id == state.call_id), None)
    if result is None:
        return Continue(state)
    passed = result.is_error or is_approved(result.text, state.pass_signal)
    emits = (_failed(result.text),) if result.is_error else ()
    return Continue(attrs.evolve(state, call_id=None, passed=passed), emits=emits)


def listen_to_itself(message: AssistantMessage, state: Reviews) -> Action[Reviews]:
    """Read the model's review of its own answer. If it approves, the answer is returned instead of the signal."""
    if not state.reviews or message.calls:
        return Continue(attrs.evolve(state, passed=False))
    if not is_approved(message.text, state.pass_signal):
        return Continue(attrs.evolve(state, passed=_is_same_document(state.answer, message.text)))
    state = attrs.evolve(state, passed=True)
    return ReplaceResponse(state.answer, state) if state.answer.strip() else Continue(state)


def ask_itself(state: Reviews, ctx: Context) -> Action[Reviews]:
    """Ask the model to review its answer, and keep the answer for when it passes."""
    state = attrs.evolve(state, answer=candidate_in(ctx.messages), reviews=state.reviews + 1)
    prompt = (
        f"Review your answer by these criteria:\n{criteria_in(state)}\n"
        f"If it does not meet all of them, write a better answer. {_good(state)}"
    )
    return Intervene(prompt, state)


def ask_model(state: Reviews, ctx: Context) -> Action[Reviews]:
    """Ask another model to review the answer. The cycle waits for it."""
    question = CallModel(
        prompt=f"Criteria:\n{criteria_in(state)}\n\nAnswer:\n{candidate_in(ctx.messages)}",
        system=f"You review an answer. If it meets all criteria, say {state.pass_signal} on the first line; if not, say what is wrong.",
        model=state.reviewer_model,
    )
    return Request(question, "review", state, wait=True)


def read_model(result: object, state: Reviews) -> Action[Reviews]:
    """Send the answer back with the reviewer's remarks. A reviewer that fails, or returns no text, lets it pass."""
    match result:
        case ModelAnswer(text=text) if text.strip() and not is_approved(text, state.pass_signal):
            prompt = f"A reviewer says of your answer:\n{text}\nWrite a better one."
            return Intervene(prompt, attrs.evolve(state, reviews=state.reviews + 1))
        case RequestFailed(error=error):
            return Continue(attrs.evolve(state, passed=True), emits=(_failed(error.message),))
        case _:
            return Continue(attrs.evolve(state, passed=True))


def asked_review(state: Reviews) -> str:
    """Return the instruction to request a review, and to act on its result.

    The model writes a document again: with a response format, vendors allow no other text, and callers read no other text.
    """
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
    """Return the arguments of the call. An agent does not know the conversation, so they contain everything it needs to judge."""
    description = (
        f"You review an answer. If it meets all criteria, say {state.pass_signal} on the first line. "
        f"If not, say what is wrong with it, point by point.\n\nCriteria:\n{criteria_in(state)}\n\n"
        f"Asked:\n{_asked(messages)}\n\nAnswer:\n{state.answer}"
    )
    return frozen_json({"description": description, "subagent_type": state.reviewer_agent})


def review_call(calls: Sequence[ToolCall], agent: str | None) -> CallId | None:
    """Return the review call among those of a response. If there are several, the first counts.

    A call without a description is refused before plugins are called, and the model may repeat it.
    """
    for call in calls:
        arguments = call.arguments or {}
        if call.name == TASK and arguments.get("subagent_type") == agent and arguments.get("description"):
            return call.call_id
    return None


def is_approved(review: str, pass_signal: str) -> bool:
    """Return whether a review approves an answer: by its first line, or by `verdict` if it is a JSON object.

    Words elsewhere in it do not count: "this cannot be APPROVED" is not an approval.
    """
    document = document_of(review)
    if isinstance(document, Mapping):
        return is_signal(str(document.get("verdict")), pass_signal)
    return is_signal(review.strip().partition("\n")[0], pass_signal)


def is_signal(text: str, pass_signal: str) -> bool:
    """Return whether this is only the signal, ignoring the characters that models put around it."""
    said = text.strip()
    return pass_signal.strip() in {said, said.strip(_EMPHASIS)}


def candidate_in(messages: Sequence[Message]) -> str:
    """Return the model's last message."""
    said = (message.text for message in reversed(messages) if isinstance(message, AssistantMessage))
    return next(said, "")


def is_same_answer(one: str, other: str) -> bool:
    """Return whether two answers are the same: by their words, or by their JSON values."""
    return one == other or _is_same_document(one, other)


def _is_same_document(one: str, other: str) -> bool:
    document = document_of(one)
    return document is not None and same_json(document, document_of(other))


def document_of(answer: str) -> JsonValue:
    """Return the object or array in an answer, fenced or not. None for text, also for text around a fence."""
    text = answer.strip()
    fenced = text.startswith(_FENCE) and text.endswith(_FENCE)
    try:
        document = decode_strictly(document_in(text) if fenced else text)
    except NotJson:
        return None
    return document if isinstance(document, Mapping | list) else None


def criteria_in(state: Reviews) -> str:
    """Format the criteria, one line each."""
    return "\n".join(f"- {criterion}" for criterion in state.criteria)


def _asked(messages: Sequence[Message]) -> str:
    """Return the prompt being answered, and later user messages."""
    asked: list[str] = []
    for message in reversed(messages):
        if isinstance(message, UserMessage) and message.origin in {"prompt", "steer"}:
            asked.append("\n".join(block.text for block in message.content if isinstance(block, Text)))
            if message.origin == "prompt":
                break
    return "\n\n".join(reversed(asked))


def _failed(error: str) -> tuple[str, object]:
    return ("reflection_failed", {"error": error})


CRITERIA: Final = ("It answers all that was asked.", "Nothing in it is made up.")


class Reflection(Plugin[Reviews]):
    """Reviews an answer before it is returned."""

    priority = 400

    def init(
        self,
        *,
        criteria: Sequence[str] = CRITERIA,
        max_reviews: int = 3,
        pass_signal: str = "APPROVED",  # noqa: S107 - a reviewer's signal is not a secret
        reviewer_model: str | None = None,
        reviewer_agent: str | None = None,
    ) -> Reviews:
        """Set the criteria and the reviewer.

        Raises:
            ValueError: Your move: no criteria, no signal or one of several lines, a negative number of reviews, or two reviewers.
        """
        if not criteria or len(pass_signal.strip().splitlines()) != 1 or max_reviews < 0:
            message = (
                "criteria and pass_signal need words, pass_signal on one line, and max_reviews is 0 or more; "
                f"got {list(criteria)!r}, {pass_signal!r}, {max_reviews!r}"
            )
            raise ValueError(message)
        if reviewer_agent is not None and (reviewer_model is not None or not reviewer_agent.strip()):
            message = f"reviewer_agent is the name of an agent, without reviewer_model; got {reviewer_agent!r}, {reviewer_model!r}"
            raise ValueError(message)
        return Reviews(
            criteria=tuple(criteria),
            max_reviews=max_reviews,
            pass_signal=pass_signal,
            reviewer_model=reviewer_model,
            reviewer_agent=reviewer_agent,
        )

    @on(AfterResponse)
    def listen(self, event: AfterResponse, state: Reviews, ctx: Context) -> Action[Reviews]:
        """Read the model's review of its own answer. A new cycle starts with its first turn."""
        if ctx.turn <= 1:
            state = attrs.evolve(state, reviews=0, passed=False, answer="", is_asked_for=False, call_id=None)
        if state.reviewer_agent is not None:
            return listen_for_call(event.message, state)
        if state.reviewer_model is None:
            return listen_to_itself(event.message, state)
        return Continue(attrs.evolve(state, passed=False))

    @on(BeforeFinish)
    def review(self, event: BeforeFinish, state: Reviews, ctx: Context) -> Action[Reviews]:
        """Start the review, unless the answer passed or was sent back often enough."""
        if state.reviewer_agent is not None:
            return ask_agent(state, ctx)
        if state.passed or state.reviews >= state.max_reviews:
            return Continue(state)
        return ask_itself(state, ctx) if state.reviewer_model is None else ask_model(state, ctx)

    @on(BeforeTool)
    def hand_over(self, event: BeforeTool, state: Reviews, ctx: Context) -> Action[Reviews]:
        """Give the agent the answer itself, rather than the model's description of it."""
        return write_call(event, state, ctx)

    @on(AfterToolBatch)
    def take_verdict(self, event: AfterToolBatch, state: Reviews, ctx: Context) -> Action[Reviews]:
        """Read the agent's verdict. A failed review lets the answer pass."""
        return read_review(event, state)

    @on(RequestDone)
    def hear(self, event: RequestDone, state: Reviews, ctx: Context) -> Action[Reviews]:
        """Send the answer back with the reviewer's remarks. A reviewer that fails lets it pass."""
        return read_model(event.result, state)
