"""Events of approvals, questions, steers and context compaction."""

from typing import Literal, TypeAlias

from msgspec.structs import force_setattr

from agentrail.events.envelope import EventBase
from agentrail.events.values import Approval, ApprovalStatus, DecidedBy
from agentrail.frozen import frozen_json, frozen_or_none, frozen_value
from agentrail.messages import ApprovalId, CallId, ClientCallRef, JsonObject, QuestionRef, SteerRef
from agentrail.structs import always_encoded

# --- approvals and questions


class ApprovalRequired(EventBase, frozen=True, kw_only=True):
    """A call waits for a user's approval. The other calls of its batch continue.

    Attributes:
        approval: The pending approval.
    """

    approval: Approval


class ApprovalResolved(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """An approval was decided.

    Attributes:
        approval: The decided approval.
        status: The decision.
        by: Source of the decision.
        user: Id of the user who decided, or None if unknown, or if no user decided.
    """

    approval: Approval
    status: ApprovalStatus
    by: DecidedBy
    user: str | None = None


class ToolApprovedAlways(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A user created a rule that approves matching calls.

    Attributes:
        tool: Name of the tool.
        command_family: For command tools, the words that the rule covers, such as `git status`. None: every call of the tool.
        exact: Whether it covers exactly these words. False, also in older records: all simple commands that begin with them.
        shown: The tool that the user saw: the text of its source, such as an MCP server, or a digest of its description, parameters and effect class. The rule covers no other.
    """

    # `exact` and `shown` were added later and are omitted when empty.
    tool: str
    command_family: str | None = always_encoded(None)
    exact: bool = False
    shown: str = ""


class AskUser(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The model or a running tool asks the user a question.

    Attributes:
        ref: Reference to pass to `respond` or `decline`.
        question: The question, in the model's words.
        options: Answers to choose from. Empty: any text.
        schema: JSON Schema of a form, answered with an object. Flat, with text, number, boolean and choice fields. None: text or an option.
        url: An address for the user, never opened automatically.
        call_id: The `ask_user` call, or the call of the tool that asks. None in older records.
    """

    # The last three were added later and are omitted when empty, so that the encoding of older records does not change.
    ref: QuestionRef
    question: str
    options: tuple[str, ...] = always_encoded(())
    schema: JsonObject | None = None
    url: str | None = None
    call_id: CallId | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "schema", frozen_or_none(self.schema))


class UserResponded(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The user answered a question, or supplied a call's result.

    Attributes:
        ref: The question, or the approval of the call.
        response: The chosen option's text, or the validated object of a form.
        user: Id of the user who answered, or None if unknown.
    """

    ref: QuestionRef | ApprovalId
    response: str | JsonObject
    user: str | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "response", frozen_value(self.response))  # type: ignore[arg-type]  # a text, or an object


class UserDeclined(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A question is closed without an answer: the user declined, or let the time of a waiting tool's question pass. The asker is notified.

    Attributes:
        ref: The question.
        reason: The user's reason, or that there was no answer in time, or None.
        user: Id of the user who declined, or None if unknown.
    """

    ref: QuestionRef
    reason: str | None = always_encoded(None)
    user: str | None = None


class ClientCall(EventBase, frozen=True, kw_only=True):
    """A call waits for the client to run the tool and pass the result to `session.answer`. The other calls of its batch continue.

    Comes between `ToolExecutionStart` and `ToolExecutionEnd`.

    Attributes:
        ref: Reference to pass to `answer`.
        name: Name of the tool.
        call_id: Id of the call.
        arguments: Arguments, validated, checked by policies and approved.
    """

    ref: ClientCallRef
    name: str
    call_id: CallId
    arguments: JsonObject

    def __post_init__(self) -> None:
        force_setattr(self, "arguments", frozen_json(self.arguments))


# --- steering

SteerStatus: TypeAlias = Literal["queued", "became_prompt", "rejected_full", "rejected_by_plugin"]
"""Outcome of a steer."""


class SteeringReceived(EventBase, frozen=True, kw_only=True):
    """The user sent a steer to a running session, or tried to.

    Attributes:
        ref: Id of the steer in later events.
        text: The user's text, with any text that a plugin put before it.
        queued_at_ms: Arrival time, in milliseconds since 1970.
        status: Outcome of the steer.
    """

    ref: SteerRef
    text: str
    queued_at_ms: int
    status: SteerStatus


class SteeringApplied(EventBase, frozen=True, kw_only=True):
    """The queued steers entered the history as one user message.

    Attributes:
        refs: Ids of the steers, in order of arrival.
        count: Number of steers.
    """

    refs: tuple[SteerRef, ...]
    count: int


# --- the context


SkipReason: TypeAlias = Literal["plugin", "nothing_to_cut", "too_soon", "budget"]
"""Reasons to skip a compaction."""


class CompactDue(EventBase, frozen=True, kw_only=True):
    """A compaction is due, and plugins are consulted. Exactly one of `CompactStart` and `CompactSkipped` follows.

    Attributes:
        reason: Same as in `CompactStart`.
        messages: Number of messages that the summary would replace.
        tokens: Estimated size of the next request, in tokens.
    """

    reason: str
    messages: int
    tokens: int


class CompactStart(EventBase, frozen=True, kw_only=True):
    """The model is asked to summarise the beginning of the history. `CompactEnd` follows.

    Attributes:
        reason: The caller's reason, `threshold`, or `overflow`.
    """

    reason: str


class CompactEnd(EventBase, frozen=True, kw_only=True):
    """The history was shortened.

    Attributes:
        removed: Number of messages that the summary replaces.
        tokens_before: Estimated size of the history before, in tokens.
        tokens_after: Estimated size of the history now, in tokens.
        saved_to: Workspace file with the removed messages, or None if it could not be written.
    """

    removed: int
    tokens_before: int
    tokens_after: int
    saved_to: str | None


class CompactSkipped(EventBase, frozen=True, kw_only=True):
    """A due or requested compaction did not happen.

    Attributes:
        by: The plugin that prevented it, or `session`.
        reason: `plugin`: a plugin prevented it. `nothing_to_cut`: only the last messages are left. `too_soon`: the last compaction was also for a request that
            did not fit. `budget`: the summary could exceed the budget.
    """

    by: str
    reason: SkipReason = "plugin"


PeopleEvent: TypeAlias = (
    ApprovalRequired
    | ApprovalResolved
    | ToolApprovedAlways
    | AskUser
    | UserResponded
    | UserDeclined
    | ClientCall
)
SteeringEvent: TypeAlias = SteeringReceived | SteeringApplied
ContextEvent: TypeAlias = CompactDue | CompactStart | CompactEnd | CompactSkipped
