"""Decisions of clients on third-party wires: arguments of the session's operations, or a refusal. Pure.

An operation checks every answer, and only an answer to an approval can approve anything.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from attrs import frozen

from agentrail.core.session.views import Status
from agentrail.events import AskUser, Question
from agentrail.messages import JsonObject
from agentrail.wire.operations import AnswerBody, ApproveArguments, DeclineBody, RejectBody, RespondBody

ClientDecision: TypeAlias = ApproveArguments | RejectBody | RespondBody | DeclineBody | AnswerBody

_OURS: Final = re.compile(r"m([0-9]{1,16})(\.[0-9]+)?")


@frozen(kw_only=True)
class WireRefusal:
    """WireRefusal of a whole request.

    Attributes:
        place: Place in the body. Empty for the whole body.
    """

    code: str
    message: str
    place: str = ""
    hint: str | None = None


def misfit(place: str, what: str) -> WireRefusal:
    """Return the refusal of a field that is not as it must be."""
    return WireRefusal(code="field_invalid", place=place, message=what)


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


def is_ours(message_id: str, status: Status | None) -> bool:
    """Whether a message in a client's past can be one of this session: its id has the number of an event."""
    found = _OURS.fullmatch(message_id)
    return found is not None and status is not None and int(found[1]) <= status.last_seq
