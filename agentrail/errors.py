"""The exceptions of agentrail, arranged by whose move it is. Nothing but exceptions and `ErrorInfo` enters this file.

    AgentrailError
    ├── YourMove                    the caller asked for something that cannot be: change the call
    │   ├── OptionError             an option of a session, provider or command
    │   ├── PromptError             an empty prompt, one that is too long, a block of unknown type
    │   ├── PromptQueueFull         as many prompts wait as are allowed
    │   ├── SteeringQueueFull       as many steers wait as are allowed
    │   ├── ClientIdReused          one name for two messages
    │   ├── UnknownCall             no call of this id is open
    │   ├── InteractionError        a decision about something that does not wait
    │   │   ├── UnknownApproval         nothing of this id ever waited
    │   │   ├── ApprovalExpired         its time is over
    │   │   ├── AlreadyResolved         it is decided; carries how, and by whom
    │   │   ├── InvalidArguments        edited arguments that the tool does not take
    │   │   ├── AnswerNotOffered        an approval that takes other answers
    │   │   └── InvalidResponse         an empty answer, or an option that is none
    │   ├── MailboxFull             as many messages wait as are allowed
    │   ├── AlreadyStarted          a live session of that id exists; carries its handle
    │   ├── CallingSelf             an actor, or a session's own tool, waits for itself
    │   ├── ActorError              a call to an actor or a registry that cannot be
    │   │   ├── NoMailbox               it is a worker, and reads no messages
    │   │   ├── NotSuspended            its code can only be changed while it is suspended
    │   │   ├── AlreadyRegistered       the key has an owner; carries its handle
    │   │   ├── NotOwner                the value of a key is its owner's
    │   │   ├── RegistryClosed          the registry is gone, and all names with it
    │   │   ├── NoPartitions            there is no partition left to go to
    │   │   ├── PoolFull                as many jobs wait for a worker as are allowed
    │   │   ├── JobWithdrawn            the job was cancelled by its own caller
    │   │   └── WatcherTooSlow          a watcher that did not read; what it had is given first
    │   ├── SupervisorError         a call that a supervisor does not take as things stand
    │   │   ├── InvalidSpec             a child spec, a set of flags, or a call that the strategy does not know
    │   │   ├── AlreadyPresent          the id has a spec, and no process
    │   │   ├── ChildNotFound           no child has this id or handle
    │   │   ├── ChildRunning · ChildRestarting · ChildStuck     stop it first; its process may still be there
    │   │   ├── ChildStartFailed        the child did not start; carries the reason
    │   │   ├── WrongChildKey           an id, where children are known by their handles
    │   │   ├── TooManyChildren         as many children as are allowed
    │   │   ├── SupervisorStopping      it has begun to stop
    │   │   └── WouldDeadlock           the call would wait for the start or stop of its own caller
    │   ├── ToolDefinitionError     a function that cannot be made a tool
    │   ├── PluginError             a plugin, or a stack of them, that cannot be loaded
    │   ├── SandboxError            a root that is missing, or no directory
    │   ├── ProcessRefused          a process that the sandbox did not start; `code` says why
    │   ├── ChildRefused            a session below this one that a tool cannot have
    │   ├── CodecError              a text that is no event, signal or state, or a state that no text can hold; says where
    │   └── SubscriberTooSlow       a subscriber that did not read; carries the number to resume after
    ├── ToolContractError           the tool's author: it returned what a tool may not return
    ├── ProviderError               the vendor, the network, or the key; one class per row of the error table
    │   ├── RateLimited · Overloaded · Transport · Timeout · StreamStalled · ProtocolError
    │   └── Authentication · ModelNotFound · ContextOverflow · ContentRefused · BadRequest
    ├── CycleEnded                  how a cycle ended that a caller waited for
    │   ├── CycleAborted · CycleFailed
    │   └── ReplyTimeout            it has not ended yet; the session goes on
    ├── SessionDown                 no one's move: the session has ended, `reason` says how
    ├── SessionRefused              no one's move: a plugin did not let it begin, `reason` says why
    ├── ActorDown                   no one's move: the actor has ended without an answer; carries handle and reason
    ├── CallTimeout                 no one's move: no answer in time; the work goes on
    ├── JobGivenUp                  no one's move: the job brought down worker after worker; carries how many, and the reason
    ├── PoolStopped                 no one's move: the pool ended before the job was done; carries the reason
    ├── SupervisorStartFailed       a child did not start; carries its id and the reason
    ├── SupervisorGaveUp            it had to restart too often, or was killed; carries the reason
    ├── HistoryError                ours: our code tried to build a conversation that no provider would take
    └── InternalError               ours: a bug; the session put the signal aside and went on

What is published or journaled holds no exception object: there an error is an `ErrorInfo`.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from agentrail.structs import Value

if TYPE_CHECKING:  # a `match` on a reason can be total; when this runs, it knows nothing above it
    from agentrail.otp.exits import ExitReason


class AgentrailError(Exception):
    """Whatever agentrail raises on purpose derives from this."""


# --- your move


class YourMove(AgentrailError):
    """The caller can put it right: the message says what was expected, what came, and what to do."""


class OptionError(YourMove):
    """An option has a value that it cannot have, or does not exist. All faults are reported at once.

    Attributes:
        faults: One sentence per fault.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        """Take the faults in the order in which the options were given."""
        self.faults = tuple(faults)
        super().__init__("; ".join(self.faults))


class PromptError(YourMove):
    """A prompt that no session can take: empty, too long, or with a block of unknown type."""


class PromptQueueFull(YourMove):
    """`max_prompt_queue` prompts wait already. Try again after the next terminal event of a cycle."""


class SteeringQueueFull(YourMove):
    """`max_steering_queue` steers wait already, or too many prompts do. Try again after the next `SteeringApplied`."""


class ClientIdReused(YourMove):
    """The `client_id` of a message was used for another one. Each message needs a name of its own."""


class UnknownCall(YourMove):
    """No call of this id is open: it has ended, or never was."""


class InteractionError(YourMove):
    """A decision that cannot be taken. It changed nothing."""


class UnknownApproval(InteractionError):
    """Nothing of this id waits, or ever did."""


class ApprovalExpired(InteractionError):
    """The time for a decision is over; the call was answered with a timeout."""


class AlreadyResolved(InteractionError):
    """It is decided. The first decision stands.

    Attributes:
        status: How it was decided.
        by: Who decided: `user`, `rule`, `timeout`, `abort`, `superseded`.
    """

    def __init__(self, message: str, *, status: str, by: str) -> None:
        """Keep who was faster."""
        super().__init__(message)
        self.status = status
        self.by = by


class InvalidArguments(InteractionError):
    """The edited arguments are not as the tool takes them. The call still waits."""


class AnswerNotOffered(InteractionError):
    """An answer that this approval does not take. The call still waits."""


class InvalidResponse(InteractionError):
    """An empty answer, an option that is none, or an approval of what is a question."""


class MailboxFull(YourMove):
    """As many messages wait for this actor as are allowed. Try again when it has caught up."""


class AlreadyStarted(YourMove):
    """A live session of this id exists.

    Attributes:
        handle: The handle of the live one.
    """

    def __init__(self, message: str, *, handle: object) -> None:
        """Keep the handle, so that the caller can go on with it."""
        super().__init__(message)
        self.handle = handle


class CallingSelf(YourMove):
    """An actor waits for itself, or a tool of a session for the session that waits for the tool."""


class ActorError(YourMove):
    """A call to an actor or a registry that it does not take."""


class NoMailbox(ActorError):
    """The actor is a worker, or a supervisor, and reads no messages."""


class NotSuspended(ActorError):
    """The code of an actor is changed while it is suspended, so that no event meets half of it."""


class AlreadyRegistered(ActorError):
    """The key has a living owner.

    Attributes:
        handle: The owner's.
    """

    def __init__(self, message: str, *, handle: object) -> None:
        """Keep the handle, so that the caller can go on with it."""
        super().__init__(message)
        self.handle = handle


class NotOwner(ActorError):
    """Only the actor that holds a key changes its value."""


class RegistryClosed(ActorError):
    """The registry is closed, and all names are gone with it."""


class NoPartitions(ActorError):
    """The partitions were resized to 0. Resize them again, or do not ask."""


class PoolFull(ActorError):
    """As many jobs wait for a worker of this pool as are allowed. Try again later, or let `when_full` be `wait`."""


class JobWithdrawn(ActorError):
    """This job was cancelled, by `PoolJob.cancel` or with the task that ran it: there is no result."""


class WatcherTooSlow(ActorError):
    """More happened to a watched child than this watcher read, and than is kept for it: it begins anew."""


class SupervisorError(YourMove):
    """A call that a supervisor does not take, as things stand. It changed nothing."""


class InvalidSpec(SupervisorError):
    """A child spec, a set of flags, or a call that does not go with the strategy. Nothing was started.

    Attributes:
        code: What is wrong, stable, to branch on: `missing_id`, `invalid_restart`, `duplicate_id` …
        field: The field that is to be changed.
    """

    def __init__(self, message: str, *, code: str, field: str) -> None:
        """Take the sentence for people, and the two words for programs."""
        super().__init__(message)
        self.code = code
        self.field = field


class AlreadyPresent(SupervisorError):
    """The id has a spec without a process. Start it with `restart_child`, or take it away with `delete_child`."""


class ChildNotFound(SupervisorError):
    """No child of this supervisor has this id or this handle."""


class ChildRunning(SupervisorError):
    """The child has a process: `terminate_child` first."""


class ChildRestarting(SupervisorError):
    """The supervisor is about to start the child again: wait for that, or end it with `terminate_child`."""


class ChildStuck(SupervisorError):
    """The child did not obey its kill. Its id is free when it has really ended, and not before."""


class ChildStartFailed(SupervisorError):
    """The child did not start.

    Attributes:
        reason: The `ExitReason` that its start ended with.
    """

    def __init__(self, message: str, *, reason: "ExitReason") -> None:
        """Keep the reason, which is data and holds no traceback."""
        super().__init__(message)
        self.reason = reason


class WrongChildKey(SupervisorError):
    """Children of a dynamic supervisor are known by their handles, not by an id."""


class TooManyChildren(SupervisorError):
    """`max_children` exist already; those that are being restarted count."""


class SupervisorStopping(SupervisorError):
    """The supervisor has begun to stop: it takes no call any more that would change something."""


class WouldDeadlock(SupervisorError):
    """The call would wait for the start or the stop of its own caller, or of a child above it."""


class ToolDefinitionError(YourMove):
    """A function, a schema or a set of tools that cannot be offered to a model."""


class PluginError(YourMove):
    """A plugin, or a stack of plugins, that cannot be loaded. All faults are reported at once, before anything starts.

    Attributes:
        faults: One sentence per fault, each with the name of its plugin.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        """Take the faults in the order of registration."""
        self.faults = tuple(faults)
        super().__init__("; ".join(self.faults))


class SandboxError(YourMove):
    """A sandbox that cannot be made: its root is missing, is no directory, or is too wide."""


class ProcessRefused(YourMove):
    """A sandbox did not start a process.

    Attributes:
        code: As of `Refusal`: `unsupported`, `not_started`, or what is wrong with its directory.
    """

    def __init__(self, message: str, *, code: str) -> None:
        """Keep the code."""
        super().__init__(message)
        self.code = code


class ChildRefused(YourMove):
    """A tool cannot have a session below its own: nothing of the budget is left, or too many stand above or beside it."""


class CodecError(YourMove):
    """A text that cannot be decoded: it is no JSON, no event, signal or state, or a signal or state of a newer version.

    Also a state that cannot be encoded, because it holds what JSON does not: half of a character, NaN, an object.

    Attributes:
        path: Where in the document, such as `$.content[0].text`; `$` is all of it.
    """

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

    def __init__(self, message: str, *, resume_after: int | None, positions: Mapping[str, int]) -> None:
        """Keep the numbers from which a new subscription goes on."""
        super().__init__(message)
        self.resume_after = resume_after
        self.positions = positions


# --- the tool's author


class ToolContractError(AgentrailError):
    """A tool returned something that is no result. It is never retried: the next attempt would do the same."""


# --- the vendor, the network, the key


class ProviderError(AgentrailError):
    """A request to a model failed.

    Attributes:
        code: The snake_case name of the class.
        status: The HTTP status, where there was one.
        request_id: The vendor's own id of the request, for its support.
        retryable: Whether the same request may succeed later.
        retry_after_seconds: How long the vendor asks to wait, where it said so.
    """

    code = "provider_error"
    retryable = False

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retry_after_seconds: float | None = None,
        retryable: bool | None = None,
    ) -> None:
        """Take what is known; `retryable` overrides the class where the server said so itself."""
        super().__init__(message)
        self.status = status
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds
        if retryable is not None:
            self.retryable = retryable


class RateLimited(ProviderError):
    """Too many requests or tokens for now."""

    code = "rate_limited"
    retryable = True


class Overloaded(ProviderError):
    """The vendor is down or overloaded."""

    code = "overloaded"
    retryable = True


class Transport(ProviderError):
    """No connection, or one that broke before the answer was complete."""

    code = "transport"
    retryable = True


class Timeout(ProviderError):
    """Connecting, sending or the first chunk took too long."""

    code = "timeout"
    retryable = True


class StreamTimeout(ProviderError):
    """A stream that had begun went silent."""

    code = "stream_stalled"
    retryable = True


class ProtocolError(ProviderError):
    """The answer is not of the format that was agreed on."""

    code = "protocol_error"
    retryable = True


class Authentication(ProviderError):
    """The key is missing, wrong, or not allowed to do this."""

    code = "authentication"


class ModelNotFound(ProviderError):
    """There is no such provider or model."""

    code = "model_not_found"


class ContextWindowExceeded(ProviderError):
    """The conversation is longer than the model's window."""

    code = "context_overflow"


class ContentRefused(ProviderError):
    """The vendor refused to answer before any content came."""

    code = "content_refused"


class BadRequest(ProviderError):
    """The vendor does not take this request; sending it again would not help."""

    code = "bad_request"


# --- how a cycle ended


class ErrorInfo(Value, frozen=True, kw_only=True):
    """An error as data: what events, signals and journals hold in place of an exception.

    Attributes:
        code: snake_case, stable; to branch on.
        message: For people: what was expected, what came, what to do.
        retryable: Whether the same request may succeed later.
        retry_after_seconds: How long to wait first, where the server said so.
    """

    code: str
    message: str
    retryable: bool = False
    retry_after_seconds: float | None = None

    @classmethod
    def of(cls, error: ProviderError) -> "ErrorInfo":
        """Keep of a provider's error what may be published; neither traceback nor request travels along."""
        return cls(
            code=error.code,
            message=str(error),
            retryable=error.retryable,
            retry_after_seconds=error.retry_after_seconds,
        )


class CycleEnded(AgentrailError):
    """A caller waited for the reply of a cycle, and there is none."""


class CycleAborted(CycleEnded):
    """The cycle was aborted.

    Attributes:
        reason: What `abort` was given, or None.
    """

    def __init__(self, reason: str | None) -> None:
        """Take the reason of the abort."""
        super().__init__("the cycle was aborted" + (f": {reason}" if reason else ""))
        self.reason = reason


class CycleFailed(CycleEnded):
    """The cycle failed; the session can be prompted again at once.

    Attributes:
        error: What went wrong, as data.
    """

    def __init__(self, error: ErrorInfo) -> None:
        """Take the error that the end event carries too."""
        super().__init__(f"the cycle failed ({error.code}): {error.message}")
        self.error = error


class ReplyTimeout(CycleEnded):
    """The reply did not come in time. The cycle goes on; `collect_reply` may be called again."""


class SessionDown(AgentrailError):
    """The session has ended, or never was.

    Attributes:
        session_id: Which one.
        reason: How it ended, one line.
    """

    def __init__(self, session_id: str, reason: str) -> None:
        """Say which session, and how it ended."""
        super().__init__(f"session {session_id!r} is down: {reason}")
        self.session_id = session_id
        self.reason = reason


class SessionRefused(AgentrailError):
    """A plugin did not let the session begin.

    Attributes:
        session_id: Which one.
        reason: What the plugin said.
    """

    def __init__(self, session_id: str, reason: str) -> None:
        """Say which session, and why not."""
        super().__init__(f"session {session_id!r} was not started: {reason}")
        self.session_id = session_id
        self.reason = reason


class ActorDown(AgentrailError):
    """The actor has ended without an answer, or never was.

    Attributes:
        handle: Whose end it was; `None` if there was no actor behind an address.
        reason: The `ExitReason`, one of seven classes, so `match error.reason` can be total: `Crashed(type=…, text=…)`
            of an exception, `Shutdown(detail=…)` of an end on purpose; `NoProcess()` if it had ended before it was asked.
    """

    def __init__(self, message: str, *, handle: object, reason: "ExitReason") -> None:
        """Keep handle and reason."""
        super().__init__(message)
        self.handle = handle
        self.reason = reason


class CallTimeout(AgentrailError):
    """No answer came in time. The work that was asked for goes on; a late answer is dropped."""


class JobGivenUp(AgentrailError):
    """A job of a pool brought down its worker at each attempt, and is not tried again.

    Attributes:
        reason: The `ExitReason` of the worker that died of it last.
        deaths: How many workers died of it.
    """

    def __init__(self, message: str, *, reason: "ExitReason", deaths: int) -> None:
        """Keep the reason, which is data and holds no traceback."""
        super().__init__(message)
        self.reason = reason
        self.deaths = deaths


class PoolStopped(AgentrailError):
    """The pool ended before this job was done, or had begun to end when it came.

    Attributes:
        reason: The `ExitReason` of the pool.
        began: Whether some worker had begun with the job, so that it may have done something.
    """

    def __init__(self, message: str, *, reason: "ExitReason", began: bool) -> None:
        """Keep the reason."""
        super().__init__(message)
        self.reason = reason
        self.began = began


class SupervisorStartFailed(AgentrailError):
    """A supervisor did not come up; what it had started was stopped again, in reverse order.

    Attributes:
        child_id: The child that did not start; `None` if it was no child.
        reason: The `ExitReason` of that child's start.
    """

    def __init__(self, message: str, *, child_id: object, reason: "ExitReason") -> None:
        """Keep the culprit."""
        super().__init__(message)
        self.child_id = child_id
        self.reason = reason


class SupervisorGaveUp(AgentrailError):
    """A supervisor ended by itself while its block was at work: too many restarts, or it was killed.

    Attributes:
        reason: The `ExitReason` it ended with.
        child_id: The child that was to be restarted once too often; `None` if it was killed.
        cause: The `ExitReason` with which that child ended the last time; if it is a supervisor that gave up too, the
            one of the child below it that this began with. `None` if it was killed.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: "ExitReason",
        child_id: Hashable | None = None,
        cause: "ExitReason | None" = None,
    ) -> None:
        """Keep the reasons."""
        super().__init__(message)
        self.reason = reason
        self.child_id = child_id
        self.cause = cause


# --- ours


class HistoryError(AgentrailError):
    """A change that would make a conversation with an unanswered call, a second answer, or one to no call."""


class InternalError(AgentrailError):
    """A bug in agentrail or in a plugin. The signal that met it was put aside; please report it."""
