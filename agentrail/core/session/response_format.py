"""The answer of a cycle: what the caller that waits for it is given, and whether it has the shape that the session was promised.

What the shape is judged by stands in `structured`.
"""

from typing import Final

import msgspec

from agentrail.core.policy.response_format import (
    Accepted,
    Rejected,
    RepairTurn,
    ResponseFormat,
    document_in,
)
from agentrail.core.session.projection import cycle_messages_of
from agentrail.core.session.state import Known
from agentrail.core.session.step_context import StepContext
from agentrail.core.session.tags import visible_text
from agentrail.events import EndReason
from agentrail.messages import AssistantMessage, JsonObject, Message, Text, UserMessage

_WITHOUT_AN_ANSWER: Final = frozenset({"not_resumed", "superseded"})
"""The ends of a cycle that people chose: what the model would have answered is unknown."""


def answer_of(step: StepContext) -> str:
    """Give the answer of the cycle: what was said aloud in its last response; its document, where it is to have a shape.

    Not all that was said: "I will look that up" between two calls, and the answer before the repair, are no part of it.
    """
    data = step.data
    last = _last_response(cycle_messages_of(data))
    said = "" if last is None else visible_text(last.text, data.config)
    schema = _schema_of(data)
    return said if schema is None else document_in(said, schema)


def _last_response(messages: tuple[Message, ...]) -> AssistantMessage | None:
    # From the end: a cycle of a hundred turns has two hundred messages, and its answer is mostly the last of them.
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            return message
    return None


def _schema_of(data: Known) -> JsonObject | None:
    settings = data.cycle.settings if data.cycle is not None else None
    if settings is not None and settings.response_format is not None:
        return settings.response_format
    return None if data.config.response_format is None else data.config.response_format.schema


def format_of(data: Known) -> ResponseFormat | None:
    """Give what the answer of the running cycle is judged by: what its caller wants, else what the session was set up with."""
    settings = data.cycle.settings if data.cycle is not None else None
    if settings is not None and settings.response_format is not None:
        # Compiled when it is needed: once or twice in a cycle.
        return ResponseFormat(settings.response_format)
    return data.config.response_format


def check_answer(step: StepContext, stop_reason: EndReason) -> RepairTurn | Rejected | None:
    """Judge the answer of a cycle that is about to finish; None when it may."""
    if _schema_of(step.data) is None or stop_reason in _WITHOUT_AN_ANSWER:
        return None
    wanted = format_of(step.data)
    assert wanted is not None  # noqa: S101 - it was looked for
    no_turn_left = step.cycle.repaired or step.cycle.turn >= step.data.config.max_turns
    verdict = wanted.check(answer_of(step), repaired=no_turn_left, misfit=step.cycle.misfit)
    return None if isinstance(verdict, Accepted) else verdict


def ask_for_repair(step: StepContext, repair: RepairTurn) -> None:
    """Tell the model what is wrong with its answer; once in a cycle."""
    note = UserMessage(content=(Text(text=repair.note),), origin="note")
    step.data.history = step.data.history.with_user(note)
    step.data.cycle = msgspec.structs.replace(step.cycle, repaired=True)
