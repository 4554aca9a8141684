"""Events of the people around a session: approvals, questions, steers. Then what happens to the context."""

from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from agentrail.events.envelope import EventBase
from agentrail.events.values import Approval, ApprovalStatus, DecidedBy
from agentrail.frozen import frozen_json, frozen_or_none, frozen_value
from agentrail.messages import ApprovalId, CallId, ClientCallRef, JsonObject, QuestionRef, SteerRef

# --- approvals and questions


class ApprovalRequired(EventBase, frozen=True, kw_only=True):
    """A call waits for a person. The others of its batch go on.

    Attributes:
        approval: What is to be decided.
    """

    approval: Approval


class ApprovalResolved(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """An approval is decided, once and for good.

    Attributes:
        approval: What was decided.
        status: How.
        by: Who decided it.
        user: The id of the user who decided; None where it is unknown, and where no user did.
    """

    approval: Approval
    status: ApprovalStatus
    by: DecidedBy
    user: str | None = None


def _nothing() -> None:
    """Make the default of a field that is written also where it is None. See `UserDeclined`."""


def _no_options() -> tuple[str, ...]:
    """Make the default of a field that is written also where it is empty. See `AskUser`."""
    return ()


def _every_call() -> None:
    """As `_no_options`."""


class ToolApprovedAlways(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A user made a rule: the same call needs no approval any more.

    Attributes:
        tool: The tool.
        command_family: For commands their words, such as `git status`; None: every call of the tool.
        exact: Whether the rule covers these very words and no others. False, also in records before this field: all simple commands that
            begin with them.
    """

    # `exact` came later, and is left out where it is false.
    tool: str
    command_family: str | None = msgspec.field(default_factory=_every_call)
    exact: bool = False


class AskUser(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The model asks the user something, or a running tool does.

    Attributes:
        ref: What `respond` and `decline` are given.
        question: In the model's words.
        options: Answers to choose from; none: any text.
        schema: A form, which is answered with an object: JSON Schema of a flat object of texts, numbers, flags and choices.
            None: the question takes a text or an option.
        url: An address that the user is to be shown; nothing is opened by itself.
        call_id: The call of `ask_user` that its answer is the result of; or that of the tool that asks. None in what was written before
            this was told.
    """

    # The last three came later, and are left out where there is none, so that what was written before stays as it was.
    ref: QuestionRef
    question: str
    options: tuple[str, ...] = msgspec.field(default_factory=_no_options)
    schema: JsonObject | None = None
    url: str | None = None
    call_id: CallId | None = None

    def __post_init__(self) -> None:
        """Freeze the form."""
        force_setattr(self, "schema", frozen_or_none(self.schema))


class UserResponded(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The user answered a question, or gave the result of a call in place of its tool.

    Attributes:
        ref: The question, or the approval of the call.
        response: The answer; of an option its text, not its index; of a form the object, as it counts.
        user: The id of the user who answered; None where it is unknown.
    """

    ref: QuestionRef | ApprovalId
    response: str | JsonObject
    user: str | None = None

    def __post_init__(self) -> None:
        """Freeze what was filled in."""
        force_setattr(self, "response", frozen_value(self.response))  # type: ignore[arg-type]  # a text, or an object


class UserDeclined(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The user does not want to answer a question; who asked is told so.

    Attributes:
        ref: The question.
        reason: Why, in the user's words; None where none was given.
        user: The id of the user who declined; None where it is unknown.
    """

    ref: QuestionRef
    reason: str | None = msgspec.field(default_factory=_nothing)
    user: str | None = None


class ClientCall(EventBase, frozen=True, kw_only=True):
    """A call waits for the client, who runs its tool and gives the result to `session.answer`. The others of its batch go on.

    `ToolExecutionStart` came before it; `ToolExecutionEnd` follows when it is answered, by the client or in its place.

    Attributes:
        ref: What `answer` is given.
        name: The tool.
        call_id: The call.
        arguments: What to run it with: validated, judged and approved.
    """

    ref: ClientCallRef
    name: str
    call_id: CallId
    arguments: JsonObject

    def __post_init__(self) -> None:
        """Freeze the arguments."""
        force_setattr(self, "arguments", frozen_json(self.arguments))


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
