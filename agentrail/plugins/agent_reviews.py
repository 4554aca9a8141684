"""How `Reflection` lets an agent review: what the model is told, what stands in its call of `task`, and what the result says."""

from collections.abc import Mapping, Sequence
from typing import Final

from agentrail.core.policy.response_format import document_in
from agentrail.core.values.strict_json import NotJson, decode_strictly
from agentrail.frozen import frozen_json, same_json
from agentrail.messages import (
    AssistantMessage,
    CallId,
    JsonObject,
    JsonValue,
    Message,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)

TASK: Final = "task"
"""The tool that gives work to an agent."""

NOT_REVIEWED: Final = f"the model answered without calling {TASK}, so there was no review"
NO_TASK: Final = f"there is no tool {TASK} in this session: add TaskTool() to its tools"

_EMPHASIS: Final = "*_`#. !"
"""What models put around a word that stands alone."""
_FENCE: Final = "```"


def asked_review(agent: str, pass_signal: str, answer: str) -> str:
    """Tell the model to have its answer reviewed, and what to do then.

    A document it writes again: where answers have a shape, vendors let it say nothing else, and callers read nothing else.
    """
    good = (
        f"Else say {pass_signal} and nothing else: your answer is then returned as it stands."
        if document_of(answer) is None
        else "Else write the same JSON again, unchanged."
    )
    return (
        f"Have your answer reviewed before it is returned: call `{TASK}` once, with subagent_type {agent!r}. Your answer and what it "
        "is judged by are put into the call for you, whatever the description says.\n"
        f"If the review says what is wrong, write a better answer. {good}"
    )


def review_arguments(
    agent: str, criteria: Sequence[str], pass_signal: str, answer: str, messages: Sequence[Message]
) -> JsonObject:
    """Give the arguments of the call: an agent knows nothing of the conversation, so all that it judges by stands there."""
    wanted = "\n".join(f"- {criterion}" for criterion in criteria)
    description = (
        f"You review an answer. If it meets all criteria, say {pass_signal} on the first line. "
        f"If not, say what is wrong with it, point by point.\n\nCriteria:\n{wanted}\n\n"
        f"Asked:\n{_asked(messages)}\n\nAnswer:\n{answer}"
    )
    return frozen_json({"description": description, "subagent_type": agent})


def review_call(calls: Sequence[ToolCall], agent: str) -> CallId | None:
    """Find the call among those of a response that asks for a review; of several the first one counts."""
    wanted = (
        call.call_id
        for call in calls
        if call.name == TASK and (call.arguments or {}).get("subagent_type") == agent
    )
    return next(wanted, None)


def is_approved(result: ToolResult, pass_signal: str) -> bool:
    """Say whether a review has found an answer good: by its first line, or by `verdict` where it is a JSON object.

    Not by the words anywhere in it: "this cannot be APPROVED" is no approval.
    """
    document = document_of(result.text)
    if isinstance(document, Mapping):
        return is_signal(str(document.get("verdict")), pass_signal)
    return is_signal(result.text.strip().partition("\n")[0], pass_signal)


def is_signal(text: str, pass_signal: str) -> bool:
    """Say whether this is the signal and nothing else, but for what models put around it."""
    said = text.strip()
    return pass_signal.strip() in {said, said.strip(_EMPHASIS)}


def answer_in(messages: Sequence[Message]) -> str:
    """Give what the model said last."""
    said = (message.text for message in reversed(messages) if isinstance(message, AssistantMessage))
    return next(said, "")


def is_same_answer(one: str, other: str) -> bool:
    """Say whether two answers are the same: their words, or what they say as JSON."""
    if one == other:
        return True
    document = document_of(one)
    return document is not None and same_json(document, document_of(other))


def document_of(answer: str) -> JsonValue:
    """Give the object or the array that an answer is, in a fence or not; None for words, also for words around a fence."""
    text = answer.strip()
    fenced = text.startswith(_FENCE) and text.endswith(_FENCE)
    try:
        document = decode_strictly(document_in(text) if fenced else text)
    except NotJson:
        return None
    return document if isinstance(document, Mapping | list) else None


def _asked(messages: Sequence[Message]) -> str:
    """Give the prompt that is answered, and what the user said since."""
    asked: list[str] = []
    for message in reversed(messages):
        if isinstance(message, UserMessage) and message.origin in {"prompt", "steer"}:
            asked.append("\n".join(block.text for block in message.content if isinstance(block, Text)))
            if message.origin == "prompt":
                break
    return "\n\n".join(reversed(asked))
