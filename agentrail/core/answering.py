"""The answer of a cycle: what whoever waits for it is given, and whether it has the shape that the session was promised.

What the shape is judged by stands in `structured`.
"""

from typing import Final

import msgspec

from agentrail.core.listening import visible_in, visible_text
from agentrail.core.projection import cycle_messages_of
from agentrail.core.structured import Accepted, Rejected, Repair
from agentrail.core.work import Work
from agentrail.events import EndReason
from agentrail.messages import AssistantMessage, Text, UserMessage

_WITHOUT_AN_ANSWER: Final = frozenset({"not_resumed", "superseded"})
"""The ends of a cycle that people chose: what the model would have answered nobody knows."""


def answer_of(work: Work) -> str:
    """Give the text of the cycle: all that was said aloud, or the last response alone where that is to have a shape.

    Not all of it there: what the model said between its calls, and the answer before the repair, are no part of the document.
    """
    data, messages = work.data, cycle_messages_of(work.data)
    if data.config.response_format is None:
        return visible_in(messages, data.config)
    said = [message for message in messages if isinstance(message, AssistantMessage)]
    return visible_text(said[-1].text, data.config) if said else ""


def judge_answer(work: Work, stop_reason: EndReason) -> Repair | Rejected | None:
    """Judge the answer of a cycle that is about to finish; None when it may."""
    wanted = work.data.config.response_format
    if wanted is None or stop_reason in _WITHOUT_AN_ANSWER:
        return None
    no_turn_left = work.cycle.repaired or work.cycle.turn >= work.data.config.max_turns
    verdict = wanted.judge(answer_of(work), repaired=no_turn_left)
    return None if isinstance(verdict, Accepted) else verdict


def ask_for_repair(work: Work, repair: Repair) -> None:
    """Tell the model what is wrong with its answer; once in a cycle."""
    note = UserMessage(content=(Text(text=repair.note),), origin="note")
    work.data.history = work.data.history.with_user(note)
    work.data.cycle = msgspec.structs.replace(work.cycle, repaired=True)
