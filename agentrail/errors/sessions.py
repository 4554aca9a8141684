"""What a session, its options, tools, plugins and subscribers refuse, and how a cycle ended that was waited for."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentrail.errors.base import AgentrailError, YourMove
from agentrail.errors.info import ErrorInfo

_MOST_LISTED: Final = 5
"""Pending approvals and questions that a message lists."""


class OptionError(YourMove):
    """An option has a value that it cannot have, or does not exist. All faults are reported at once.

    Attributes:
        faults: One sentence per fault.
    """

    code = "option_error"

    def __init__(self, faults: Sequence[str]) -> None:
        """Take the faults in the order in which the options were given."""
        self.faults: tuple[str, ...] = tuple(faults)
        super().__init__("; ".join(self.faults))


class CursorAhead(OptionError):
    """A number to go on after that lies beyond the last event. Nothing was registered; none is registered by halves.

    Attributes:
        positions: The last number of each session that was asked too much of, by its id; what may be given at most.
    """

    code = "cursor_ahead"

    def __init__(self, faults: Sequence[str], *, positions: Mapping[str, int]) -> None:
        """Keep what there is."""
        super().__init__(faults)
        self.positions = positions


class PromptError(YourMove):
    """A prompt that no session can take: empty, too long, or with a block of unknown type."""

    code = "prompt_error"


class PlanError(YourMove):
    """A move that a step of a plan may not make, a step that there is not, or Markdown that is no plan."""

    code = "plan_error"


class CommandError(YourMove):
    """A slash command that cannot be run as it was given: the message says what it takes."""

    code = "command_error"


class UnknownCommand(CommandError):
    """There is no slash command of this name; the message has the nearest one.

    Attributes:
        name: What was asked for.
        near: What may have been meant; None for nothing.
    """

    code = "command_unknown"

    def __init__(self, message: str, *, name: str, near: str | None = None) -> None:
        """Keep the name, and what may have been meant."""
        super().__init__(message)
        self.name = name
        self.near = near


class PromptQueueFull(YourMove):
    """`max_prompt_queue` prompts wait already. Try again after the next terminal event of a cycle."""

    code = "queue_full"


class SteeringQueueFull(YourMove):
    """`max_steering_queue` steers wait already, or too many prompts do. Try again after the next `SteeringApplied`."""

    code = "steering_queue_full"


class ClientIdReused(YourMove):
    """The `client_id` of a message was used for another one. Each message needs a name of its own."""

    code = "client_id_reused"


class CannotGoOn(YourMove):
    """A session is not idle, or its conversation does not end with what a model could answer."""

    code = "cannot_go_on"


class UnknownCall(YourMove):
    """No call of this id is open: it has ended, or never was."""

    code = "unknown_call"


class UnknownTool(YourMove):
    """A session has no tool of this name.

    Attributes:
        names: Those that it has.
    """

    code = "unknown_tool"

    def __init__(self, message: str, *, names: Sequence[str]) -> None:
        """Keep what there is."""
        super().__init__(message)
        self.names: tuple[str, ...] = tuple(names)


class InteractionError(YourMove):
    """A decision that cannot be taken. It changed nothing."""

    code = "interaction_error"


class UnknownApproval(InteractionError):
    """Nothing of this id waits, or ever did."""

    code = "approval_unknown"


class ApprovalExpired(InteractionError):
    """The time for a decision is over; the call was answered with a timeout.

    Attributes:
        at_ms: When that was, in milliseconds since 1970; None where it is not known any more.
    """

    code = "approval_expired"

    def __init__(self, message: str, *, at_ms: int | None = None) -> None:
        """Keep when it was over."""
        super().__init__(message)
        self.at_ms = at_ms


class AlreadyResolved(InteractionError):
    """It is decided. The first decision stands.

    Attributes:
        status: How it was decided.
        by: Who decided: `user`, `rule`, `timeout`, `abort`, `superseded`.
        at_ms: When, in milliseconds since 1970; None where it is not known any more.
        user: The id of the user who decided; None where it is unknown.
    """

    code = "already_resolved"

    def __init__(
        self, message: str, *, status: str, by: str, at_ms: int | None = None, user: str | None = None
    ) -> None:
        """Keep who was faster."""
        super().__init__(message)
        self.status = status
        self.by = by
        self.at_ms = at_ms
        self.user = user


class UnknownRule(InteractionError):
    """There is no such rule, or not any more: it was revoked before."""

    code = "rule_unknown"


class InvalidArguments(InteractionError):
    """The edited arguments are not as the tool takes them. The call still waits."""

    code = "invalid_arguments"


class AnswerNotOffered(InteractionError):
    """An answer that this approval does not take. The call still waits."""

    code = "answer_not_offered"


class InvalidResponse(InteractionError):
    """An empty answer, an option that is none, what does not fit a form, or an answer to what is asked in another way."""

    code = "invalid_response"


class AlreadyStarted(YourMove):
    """A live session of this id exists.

    Attributes:
        handle: The handle of the live one.
    """

    code = "already_started"

    def __init__(self, message: str, *, handle: object) -> None:
        """Keep the handle, so that the caller can go on with it."""
        super().__init__(message)
        self.handle = handle


class ToolDefinitionError(YourMove):
    """A function, a schema or a set of tools that cannot be offered to a model."""

    code = "tool_definition_error"


class TypeFault(YourMove):
    """A Python type that no JSON Schema describes, or a value that is not of the type that it should be written as.

    Attributes:
        where: The place in the type, such as `Order.lines[].price`, or in the value, such as `$.lines[0].price`.
        reason: What is wrong there.
        way_out: What to write instead; empty where the value is wrong.
    """

    code = "no_schema"

    def __init__(self, reason: str, *, where: str, way_out: str = "") -> None:
        """Keep the parts, for who says it in other words."""
        super().__init__(": ".join(part for part in (where, reason, way_out) if part))
        self.where = where
        self.reason = reason
        self.way_out = way_out


class PluginError(YourMove):
    """A plugin, or a stack of plugins, that cannot be loaded. All faults are reported at once, before anything starts.

    Attributes:
        faults: One sentence per fault, each with the name of its plugin.
    """

    code = "plugin_error"

    def __init__(self, faults: Sequence[str]) -> None:
        """Take the faults in the order of registration."""
        self.faults: tuple[str, ...] = tuple(faults)
        super().__init__("; ".join(self.faults))


class SandboxError(YourMove):
    """A sandbox that cannot be made: its root is missing, is no directory, or is too wide."""

    code = "sandbox_error"


class ProcessRefused(YourMove):
    """A sandbox did not start a process.

    Attributes:
        code: That of the `Refusal`, in place of the one of the class: `unsupported`, `not_started`, or what is wrong with its
            directory.
    """

    code: str = "process_refused"

    def __init__(self, message: str, *, code: str) -> None:
        """Keep the code."""
        super().__init__(message)
        self.code = code


class ChildRefused(YourMove):
    """A tool cannot have a session below its own: nothing of the budget is left, or too many stand above or beside it."""

    code = "child_refused"


class CodecError(YourMove):
    """A text that cannot be decoded: it is no JSON, no event, signal or state, or a signal or state of a newer version.

    Also a state that cannot be encoded, because it holds what JSON does not: half of a character, NaN, an object.

    Attributes:
        path: Where in the document, such as `$.content[0].text`; `$` is all of it.
    """

    code = "codec_error"

    def __init__(self, message: str, *, path: str) -> None:
        """Keep the place."""
        super().__init__(message)
        self.path = path


class SubscriberTooSlow(YourMove):
    """The subscriber did not read and its buffer is full: it is cut off, the session and the others go on.

    Attributes:
        resume_after: The number to go on after: all up to it was given, or was not wanted. None where
            several sessions were read.
        positions: The same for each session that was read, by its id.
    """

    code = "subscriber_too_slow"

    def __init__(self, message: str, *, resume_after: int | None, positions: Mapping[str, int]) -> None:
        """Keep the numbers from which a new subscription goes on."""
        super().__init__(message)
        self.resume_after = resume_after
        self.positions = positions


class ToolContractError(AgentrailError):
    """A tool returned something that is no result. It is never retried: the next attempt would do the same."""

    code = "tool_contract_error"


class CycleEnded(AgentrailError):
    """A caller waited for the reply of a cycle, and there is none."""

    code = "cycle_ended"


class CycleAborted(CycleEnded):
    """The cycle was aborted.

    Attributes:
        reason: What `abort` was given, or None.
    """

    code = "aborted"

    def __init__(self, reason: str | None) -> None:
        """Take the reason of the abort."""
        super().__init__("the cycle was aborted" + (f": {reason}" if reason else ""))
        self.reason = reason


class CycleWaiting(CycleEnded):
    """The cycle waits for users, and no user can answer them: the program did not subscribe, and no host has the session.

    The cycle stays as it is, until someone answers.

    Attributes:
        pending: What waits: `Approval`, `Question` and `PendingClientCall`, each with its id; of children too.
    """

    code = "cycle_waiting"

    def __init__(self, pending: Sequence[Any], answers: Sequence[str] = ()) -> None:
        """Take what waits, and the call that answers each."""
        listed = "; ".join(answers[:_MOST_LISTED]) or "a user"
        more = len(answers) - _MOST_LISTED
        besides = f"; and {more} more" if more > 0 else ""
        super().__init__(
            f"the cycle waits for {listed}{besides}. Call that and then collect_reply(); or subscribe before you ask; or pass "
            "wait_for_people=True, or timeout_seconds; approval_timeout_seconds of the session sets a deadline"
        )
        self.pending: tuple[Any, ...] = tuple(pending)


class QuestionDeclined(AgentrailError):
    """The user does not want to answer what a tool asked. One that lets it travel is answered with its text, and not called again.

    Attributes:
        reason: What `decline` was given, or None.
    """

    code = "question_declined"

    def __init__(self, reason: str | None) -> None:
        """Take the reason of the user."""
        super().__init__(f"The user declined to answer{f': {reason}' if reason else '.'}")
        self.reason = reason


class CycleFailed(CycleEnded):
    """The cycle failed; the session can be prompted again at once.

    Attributes:
        error: What went wrong, as data.
        text: What the model had said in its last response; empty where it had not come to one.
    """

    code = "cycle_failed"

    def __init__(self, error: ErrorInfo, *, text: str = "") -> None:
        """Take the error that the end event carries too."""
        super().__init__(f"the cycle failed ({error.code}): {error.message}")
        self.error = error
        self.text = text


class EventMissed(CycleEnded):
    """The cycle finished before the event that was waited for; or there was no cycle that could publish it."""

    code = "event_missed"


class ReplyTimeout(CycleEnded):
    """The reply did not come in time. The cycle goes on; `collect_reply` may be called again."""

    code = "reply_timeout"


class SessionDown(AgentrailError):
    """The session has ended, or never was.

    Attributes:
        session_id: Which one.
        reason: How it ended, one line.
    """

    code = "session_ended"

    def __init__(self, session_id: str, reason: str) -> None:
        """Say which session, and how it ended."""
        super().__init__(f"session {session_id!r} is down: {reason}")
        self.session_id = session_id
        self.reason = reason


class SessionRested(SessionDown):
    """The session was put to rest: it has not ended, and what it knows is kept. Ask again when it is awake."""

    code = "session_rested"


class SupervisorClosed(SessionDown):
    """The supervisor of sessions that is called from other threads was closed, or its Trio run has crashed; that is the cause."""

    code = "supervisor_closed"


class SessionRefused(AgentrailError):
    """A plugin did not let the session begin.

    Attributes:
        session_id: Which one.
        reason: What the plugin said.
    """

    code = "session_refused"

    def __init__(self, session_id: str, reason: str) -> None:
        """Say which session, and why not."""
        super().__init__(f"session {session_id!r} was not started: {reason}")
        self.session_id = session_id
        self.reason = reason


class HistoryError(AgentrailError):
    """A change that would make a conversation with an unanswered call, a second answer, or one to no call."""

    code = "history_error"


class InternalError(AgentrailError):
    """A bug in agentrail or in a plugin. The signal that met it was put aside; please report it."""

    code = "internal_error"
