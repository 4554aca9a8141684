"""Decisions of clients on third-party wires: arguments of the session's operations. Pure.

An operation checks every answer, and only an answer to an approval can approve anything.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, NoReturn, TypeAlias

from agentrail.core.session.views import Status
from agentrail.events import AskUser, Question
from agentrail.messages import JsonObject
from agentrail.wire.operations import AnswerBody, ApproveArguments, DeclineBody, RejectBody, RespondBody

ClientDecision: TypeAlias = ApproveArguments | RejectBody | RespondBody | DeclineBody | AnswerBody

_OURS: Final = re.compile(r"([mp])([0-9]{1,16})(\.[0-9]+)?")


class WireRefused(Exception):
    """A request is refused as a whole, and nothing was done.

    Attributes:
        place: Place in the body. Empty for the whole body.
    """

    def __init__(self, place: str, message: str, code: str, hint: str | None) -> None:
        super().__init__(f"{place} {message}".strip())
        self.place = place
        self.message = message
        self.code = code
        self.hint = hint


def refuse_request(
    place: str, message: str, code: str = "field_invalid", *, hint: str | None = None
) -> NoReturn:
    """Refuse a request because of a place in its body, or of the whole body if that is empty."""
    raise WireRefused(place, message, code, hint)


def question_words(asked: AskUser) -> str:
    """Return a question with its options and its address, for a client without forms."""
    return "\n".join([asked.question, *[f"- {one}" for one in asked.options], *filter(None, [asked.url])])


def text_schema(asked: AskUser | Question) -> dict[str, Any]:
    """Return the schema of an answer in words: any text, or one of the options."""
    return {"type": "string", **({"enum": [*asked.options]} if asked.options else {})}


def form_schema(asked: AskUser | Question) -> JsonObject:
    """Return the schema of a form with the answer in words."""
    return {"type": "object", "properties": {"answer": text_schema(asked)}, "required": ["answer"]}


def pending_names(status: Status) -> set[str]:
    """Return the ids of all interactions of a session that wait for a user or a client."""
    asked = {f"{one.ref}" for one in status.all_questions} | {f"{one.ref}" for one in status.all_client_calls}
    return asked | {f"{one.id}" for one in status.all_approvals}


def order_decisions(
    decisions: Iterable[ClientDecision], status: Status, *, stand_alone: bool
) -> tuple[ClientDecision, ...]:
    """Return the decisions in the order in which they are applied.

    Args:
        decisions: The client's decisions, oldest first.
        status: Status of the session. A decision on something else than its pending interactions is stale.
        stand_alone: Whether the request says nothing else. Then stale decisions come first: the session refuses them,
            and a refusal must prevent all others. With other content they are past, and left out.
    """
    waiting = pending_names(status)
    stale: list[ClientDecision] = []
    pending: list[ClientDecision] = []
    for one in decisions:
        name = one.approval_id if isinstance(one, ApproveArguments | RejectBody) else one.ref
        (pending if name in waiting else stale).append(one)
    return (*stale, *pending) if stand_alone else tuple(pending)


def number_in(name: str, kinds: str = "mp") -> int | None:
    """Return the number of the event in an id of ours, which is that of a message (`m`) or a part (`p`). None for other ids."""
    found = _OURS.fullmatch(name)
    return None if found is None or found[1] not in kinds else int(found[2])


def is_ours(message_id: str, status: Status | None) -> bool:
    """Whether a message in a client's past can be one of this session: its id has the number of an event."""
    number = number_in(message_id, "m")
    return number is not None and status is not None and number <= status.last_seq
