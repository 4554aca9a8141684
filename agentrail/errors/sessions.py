"""Errors of sessions, options, tools, plugins and subscribers, and of cycles without a reply."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentrail.errors.base import AgentrailError, YourMove
from agentrail.errors.info import ErrorInfo

_MOST_LISTED: Final = 5
"""Pending approvals and questions that a message lists."""


class OptionError(YourMove):
    """An option is unknown or has an invalid value. All faults are reported at once.

    Attributes:
        faults: One sentence per fault.
    """

    code = "option_error"

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults: tuple[str, ...] = tuple(faults)
        super().__init__("; ".join(self.faults))

    @staticmethod
    def raise_for(faults: Sequence[str] | None) -> None:
        """Raise an error with these faults, if there are any."""
        if faults:
            raise OptionError(faults)


class CursorAhead(OptionError):
    """A subscription would resume after an event that does not exist yet. Nothing was registered.

    Attributes:
        positions: Highest valid number, by session id, where the given one was too high.
    """

    code = "cursor_ahead"

    def __init__(self, faults: Sequence[str], *, positions: Mapping[str, int]) -> None:
        super().__init__(faults)
        self.positions = positions


class PromptError(YourMove):
    """An invalid prompt: empty, too long, or with a block of unknown type or an invalid image."""

    code = "prompt_error"


class PlanError(YourMove):
    """A forbidden status change, an unknown step, or Markdown that is not a plan."""

    code = "plan_error"


class CommandError(YourMove):
    """A slash command with invalid arguments. The message states the expected ones."""

    code = "command_error"


class UnknownCommand(CommandError):
    """Unknown slash command. The message suggests the nearest one.

    Attributes:
        name: The unknown name.
        near: The nearest known name, or None.
    """

    code = "command_unknown"

    def __init__(self, message: str, *, name: str, near: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.near = near


class PromptQueueFull(YourMove):
    """`max_prompt_queue` prompts are waiting. Try again after the next terminal event of a cycle."""

    code = "queue_full"


class SteeringQueueFull(YourMove):
    """`max_steering_queue` steers, or too many prompts, are waiting. Try again after the next `SteeringApplied`."""

    code = "steering_queue_full"


class ClientIdReused(YourMove):
    """The `client_id` belongs to another message."""

    code = "client_id_reused"


class CannotGoOn(YourMove):
    """The session is not idle, or its conversation has nothing to answer."""

    code = "cannot_go_on"


class UnknownCall(YourMove):
    """No open call has this id: it has ended, or never existed."""

    code = "unknown_call"


class UnknownTool(YourMove):
    """The session has no tool of this name.

    Attributes:
        names: The session's tools.
    """

    code = "unknown_tool"

    def __init__(self, message: str, *, names: Sequence[str]) -> None:
        super().__init__(message)
        self.names: tuple[str, ...] = tuple(names)


class InteractionError(YourMove):
    """A rejected decision. It changed nothing."""

    code = "interaction_error"


class UnknownApproval(InteractionError):
    """No approval, question or client call ever had this id."""

    code = "approval_unknown"


class ApprovalExpired(InteractionError):
    """The deadline of a decision has passed, and the call timed out.

    Attributes:
        at_ms: The deadline, in milliseconds since 1970, or None if forgotten.
    """

    code = "approval_expired"

    def __init__(self, message: str, *, at_ms: int | None = None) -> None:
        super().__init__(message)
        self.at_ms = at_ms


class AlreadyResolved(InteractionError):
    """Already decided. The first decision counts.

    Attributes:
        status: The decision.
        by: Source of the decision: `user`, `rule`, `timeout`, `abort`, `superseded`.
        at_ms: Time of the decision, in milliseconds since 1970, or None if forgotten.
        user: Id of the user who decided, or None if unknown.
    """

    code = "already_resolved"

    def __init__(
        self, message: str, *, status: str, by: str, at_ms: int | None = None, user: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.by = by
        self.at_ms = at_ms
        self.user = user


class UnknownRule(InteractionError):
    """Unknown rule, or a rule that was already revoked."""

    code = "rule_unknown"


class InvalidArguments(InteractionError):
    """The edited arguments do not match the tool's parameters. The call still waits."""

    code = "invalid_arguments"


class AnswerNotOffered(InteractionError):
    """The approval does not offer this answer. The call still waits."""

    code = "answer_not_offered"


class InvalidResponse(InteractionError):
    """An empty answer, an unknown option, a misfit for the form, or the wrong kind of answer."""

    code = "invalid_response"


class AlreadyStarted(YourMove):
    """A live session of this id exists.

    Attributes:
        handle: Handle of the live session.
    """

    code = "already_started"

    def __init__(self, message: str, *, handle: object) -> None:
        super().__init__(message)
        self.handle = handle


class ToolDefinitionError(YourMove):
    """A function, a schema or a set of tools that cannot be offered to a model."""

    code = "tool_definition_error"


class TypeFault(YourMove):
    """A Python type without a JSON Schema, or a value that does not have its declared type.

    Attributes:
        where: Place in the type, such as `Order.lines[].price`, or the value, such as `$.lines[0].price`.
        reason: The fault.
        way_out: The type to use instead, empty if the value is wrong.
    """

    code = "no_schema"

    def __init__(self, reason: str, *, where: str, way_out: str = "") -> None:
        super().__init__(": ".join(part for part in (where, reason, way_out) if part))
        self.where = where
        self.reason = reason
        self.way_out = way_out


class PluginError(YourMove):
    """A plugin, or a stack of plugins, could not be loaded. All faults are reported before anything starts.

    Attributes:
        faults: One sentence per fault, each with the name of its plugin.
    """

    code = "plugin_error"

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults: tuple[str, ...] = tuple(faults)
        super().__init__("; ".join(self.faults))


class SandboxError(YourMove):
    """A sandbox's root is missing, not a directory, or too wide."""

    code = "sandbox_error"


class ProcessRefused(YourMove):
    """A sandbox did not start a process.

    Attributes:
        code: Code of the `Refusal`: `unsupported`, `not_started`, or the directory's fault.
    """

    code: str = "process_refused"

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class ChildRefused(YourMove):
    """A child session of a tool is impossible: no budget, a tree too deep, or too many siblings."""

    code = "child_refused"


class CodecError(YourMove):
    """A text is not JSON, not an event, signal or state, or newer.

    Also a state that JSON cannot hold: a lone surrogate, NaN or an arbitrary object.

    Attributes:
        path: Place in the document, such as `$.content[0].text`. `$` is the whole document.
    """

    code = "codec_error"

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class SubscriberTooSlow(YourMove):
    """The subscriber did not read, and its buffer is full. Only this subscription ends.

    Attributes:
        resume_after: Number to resume after, with all earlier events delivered or filtered out. None for several sessions.
        positions: That number for each session, by id.
    """

    code = "subscriber_too_slow"

    def __init__(self, message: str, *, resume_after: int | None, positions: Mapping[str, int]) -> None:
        super().__init__(message)
        self.resume_after = resume_after
        self.positions = positions


class ToolContractError(AgentrailError):
    """A tool returned an invalid result, which is never retried."""

    code = "tool_contract_error"


class CycleEnded(AgentrailError):
    """A cycle ended without the expected reply."""

    code = "cycle_ended"


class CycleAborted(CycleEnded):
    """The cycle was aborted.

    Attributes:
        reason: The reason passed to `abort`, or None.
    """

    code = "aborted"

    def __init__(self, reason: str | None) -> None:
        super().__init__("the cycle was aborted" + (f": {reason}" if reason else ""))
        self.reason = reason


class CycleWaiting(CycleEnded):
    """The cycle waits for users, and no subscriber or host can answer.

    It keeps waiting.

    Attributes:
        pending: Pending `Approval`, `Question` and `PendingClientCall` objects, including children's.
    """

    code = "cycle_waiting"

    def __init__(self, pending: Sequence[Any], answers: Sequence[str] = ()) -> None:
        listed = "; ".join(answers[:_MOST_LISTED]) or "a user"
        more = len(answers) - _MOST_LISTED
        besides = f"; and {more} more" if more > 0 else ""
        super().__init__(
            f"the cycle waits for {listed}{besides}. Call that method and then collect_reply(); or subscribe before you ask; or pass wait_for_people=True, or timeout_seconds; approval_timeout_seconds of the session sets a deadline"
        )
        self.pending: tuple[Any, ...] = tuple(pending)


class QuestionDeclined(AgentrailError):
    """The user declined to answer a tool's question. Propagated, its text becomes the tool's result, without a retry.

    Attributes:
        reason: The reason passed to `decline`, or None.
    """

    code = "question_declined"

    def __init__(self, reason: str | None) -> None:
        super().__init__(f"The user declined to answer{f': {reason}' if reason else '.'}")
        self.reason = reason


class CycleFailed(CycleEnded):
    """The cycle failed. The session accepts a new prompt.

    Attributes:
        error: The failure, as data.
        text: Text of the model's last response, or empty.
    """

    code = "cycle_failed"

    def __init__(self, error: ErrorInfo, *, text: str = "") -> None:
        super().__init__(f"the cycle failed ({error.code}): {error.message}")
        self.error = error
        self.text = text


class EventMissed(CycleEnded):
    """The cycle finished before the expected event, or none was running."""

    code = "event_missed"


class ReplyTimeout(CycleEnded):
    """The reply did not come in time. The cycle continues; `collect_reply` may be called again."""

    code = "reply_timeout"


class SessionDown(AgentrailError):
    """The session has ended, or never existed.

    Attributes:
        session_id: Id of the session.
        reason: How it ended, in one line.
    """

    code = "session_ended"

    def __init__(self, session_id: str, reason: str) -> None:
        ended = "every session" if session_id == "*" else f"session {session_id!r:.200}"
        super().__init__(f"{ended} is down: {reason}")
        self.session_id = session_id
        self.reason = reason


class SessionRested(SessionDown):
    """The session was put to rest, with its state kept. Try again once it is awake."""

    code = "session_rested"


class SupervisorClosed(SessionDown):
    """A session supervisor used from other threads was closed, or crashed (the cause)."""

    code = "supervisor_closed"


class SessionRefused(AgentrailError):
    """A plugin prevented the session from starting.

    Attributes:
        session_id: Id of the session.
        reason: The plugin's reason.
    """

    code = "session_refused"

    def __init__(self, session_id: str, reason: str) -> None:
        super().__init__(f"session {session_id!r} was not started: {reason}")
        self.session_id = session_id
        self.reason = reason


class HistoryError(AgentrailError):
    """An invalid change of the conversation: an unanswered call, a second answer, or an answer without a call."""

    code = "history_error"


class InternalError(AgentrailError):
    """A bug in agentrail or in a plugin. Its signal was set aside. Please report it."""

    code = "internal_error"
