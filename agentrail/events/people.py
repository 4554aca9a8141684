"""Events of the people around a session: approvals, questions, steers. Then what happens to the context."""

from typing import Literal, TypeAlias

from agentrail.events.envelope import EventBase
from agentrail.events.values import Approval, ApprovalStatus, DecidedBy
from agentrail.messages import ApprovalId, QuestionRef, SteerRef

# --- approvals and questions


class ApprovalRequired(EventBase, frozen=True, kw_only=True):
    """A call waits for a person. The others of its batch go on.

    Attributes:
        approval: What is to be decided.
    """

    approval: Approval


class ApprovalResolved(EventBase, frozen=True, kw_only=True):
    """An approval is decided, once and for good.

    Attributes:
        approval: What was decided.
        status: How.
        by: Who decided it.
    """

    approval: Approval
    status: ApprovalStatus
    by: DecidedBy


class ToolApprovedAlways(EventBase, frozen=True, kw_only=True):
    """A person made a rule: calls like this one need no approval any more.

    Attributes:
        tool: The tool.
        command_family: For commands the words that they begin with, such as `git status`; None: every call of the tool.
    """

    tool: str
    command_family: str | None = None


class AskUser(EventBase, frozen=True, kw_only=True):
    """The model asks the user something.

    Attributes:
        ref: What `respond` is given.
        question: In the model's words.
        options: Answers to choose from; none: any text.
    """

    ref: QuestionRef
    question: str
    options: tuple[str, ...] = ()


class UserResponded(EventBase, frozen=True, kw_only=True):
    """The user answered a question, or gave the result of a call in place of its tool.

    Attributes:
        ref: The question, or the approval of the call.
        response: The answer; of an option its text, not its index.
    """

    ref: QuestionRef | ApprovalId
    response: str


# --- steering

SteerStatus: TypeAlias = Literal["queued", "became_prompt", "rejected_full", "rejected_by_plugin"]
"""What became of a steer."""


class SteeringReceived(EventBase, frozen=True, kw_only=True):
    """The user spoke into the session while it was at work, or wanted to.

    Attributes:
        ref: Its name in what follows from it.
        text: What was said, and in front of it what a plugin added.
        queued_at_ms: When it came, in milliseconds since 1970.
        status: What became of it.
    """

    ref: SteerRef
    text: str
    queued_at_ms: int
    status: SteerStatus


class SteeringApplied(EventBase, frozen=True, kw_only=True):
    """The steers that waited entered the history, as one message of the user.

    Attributes:
        refs: Their names, in order of arrival.
        count: How many they are.
    """

    refs: tuple[SteerRef, ...]
    count: int


# --- the context


SkipReason: TypeAlias = Literal["plugin", "nothing_to_cut", "too_soon", "budget"]
"""Why there was no compaction."""


class CompactDue(EventBase, frozen=True, kw_only=True):
    """A compaction is about to begin, and plugins are asked about it; `CompactStart` or `CompactSkipped` follows, one of them.

    Attributes:
        reason: As in `CompactStart`.
        messages: How many messages a summary would stand for.
        tokens: How long the next request would be, estimated.
    """

    reason: str
    messages: int
    tokens: int


class CompactStart(EventBase, frozen=True, kw_only=True):
    """The model is asked for a summary of the beginning. `CompactEnd` says what became of it.

    Attributes:
        reason: Why: in the words of who asked, `threshold`, or `overflow`.
    """

    reason: str


class CompactEnd(EventBase, frozen=True, kw_only=True):
    """The history is shorter now.

    Attributes:
        removed: How many messages a summary stands for.
        tokens_before: How long the history was, estimated.
        tokens_after: How long it is now, estimated.
        saved_to: The file of the workspace that holds what was removed; None when it could not be written.
    """

    removed: int
    tokens_before: int
    tokens_after: int
    saved_to: str | None


class CompactSkipped(EventBase, frozen=True, kw_only=True):
    """The history was not shortened, although it was time, or a caller had asked for it.

    Attributes:
        by: The name of the plugin that said so; `session` where no plugin did.
        reason: `plugin`: a plugin said so; `nothing_to_cut`: the last messages always stay, and there are no others;
            `too_soon`: the request did not fit, and the last compaction was because of that too; `budget`: a summary could
            cost more than is left.
    """

    by: str
    reason: SkipReason = "plugin"


PeopleEvent: TypeAlias = ApprovalRequired | ApprovalResolved | ToolApprovedAlways | AskUser | UserResponded
SteeringEvent: TypeAlias = SteeringReceived | SteeringApplied
ContextEvent: TypeAlias = CompactDue | CompactStart | CompactEnd | CompactSkipped
