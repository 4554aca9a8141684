"""What people decide outside of a prompt: not to answer a question, to take a rule back, what an agent in the background does. Part of the union of `signals`."""

from typing import Literal

import msgspec

from agentrail.core.protocol.stamped import Asked
from agentrail.messages import QuestionRef


def _nothing() -> None:
    """Make the default of a field that is written also where it is None, as it was before a later one came."""


class Decline(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A person does not want to answer a question.

    Attributes:
        ref: The question.
        reason: For the model, or for the tool that asks.
        user: The id of the user who declines; None where it is unknown.
    """

    ref: QuestionRef
    reason: str | None = msgspec.field(default_factory=_nothing)
    user: str | None = None


class RevokeRule(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A person takes back what it has always allowed: calls of that kind are asked about again.

    Attributes:
        tool: The tool.
        command_family: As in `ToolApprovedAlways`.
        exact: As in `ToolApprovedAlways`.
    """

    # Which rule is meant stands here by what it allows: an id would bind journals to how ids are made today.
    tool: str
    command_family: str | None = None
    exact: bool = False


class AgentCommand(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """The program starts an agent in the background, sends it more, or closes it; as the calls of the model do.

    Attributes:
        action: Which of the three.
        name: Of the agent in the background; to start one, the name it gets, empty for a fresh one.
        agent: Which agent is started.
        text: Its task, what it is sent, or the reason for closing it.
        now: Whether it is closed at once, and not after its cycle.
    """

    action: Literal["spawn", "send", "close"]
    name: str = ""
    agent: str = ""
    text: str = ""
    now: bool = False
