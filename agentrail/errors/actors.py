"""What actors, supervisors, registries and pools refuse, and how a call to one of them ends without an answer."""

from collections.abc import Hashable
from typing import TYPE_CHECKING

from agentrail.errors.base import AgentrailError, YourMove

if TYPE_CHECKING:  # a `match` on a reason can be total; when this runs, it knows nothing above it
    from agentrail.otp.exits import ExitReason


class MailboxFull(YourMove):
    """As many messages wait for this actor as are allowed. Try again when it has caught up."""

    code = "mailbox_full"


class CallingSelf(YourMove):
    """An actor waits for itself, or a tool of a session for the session that waits for the tool."""

    code = "calling_self"


class ActorError(YourMove):
    """A call to an actor or a registry that it does not take."""

    code = "actor_error"


class NoMailbox(ActorError):
    """The actor is a worker, or a supervisor, and reads no messages."""

    code = "no_mailbox"


class NotSuspended(ActorError):
    """The code of an actor is changed while it is suspended, so that no event meets half of it."""

    code = "not_suspended"


class AlreadyRegistered(ActorError):
    """The key has a living owner.

    Attributes:
        handle: The owner's.
    """

    code = "already_registered"

    def __init__(self, message: str, *, handle: object) -> None:
        """Keep the handle, so that the caller can go on with it."""
        super().__init__(message)
        self.handle = handle


class NotOwner(ActorError):
    """Only the actor that holds a key changes its value."""

    code = "not_key_owner"


class RegistryClosed(ActorError):
    """The registry is closed, and all names are gone with it."""

    code = "registry_closed"


class NoPartitions(ActorError):
    """The partitions were resized to 0. Resize them again, or do not ask."""

    code = "no_partitions"


class PoolFull(ActorError):
    """As many jobs wait for a worker of this pool as are allowed. Try again later, or let `when_full` be `wait`."""

    code = "pool_full"


class JobWithdrawn(ActorError):
    """This job was cancelled, by `PoolJob.cancel` or with the task that ran it: there is no result."""

    code = "job_withdrawn"


class WatcherTooSlow(ActorError):
    """More happened to a watched child than this watcher read, and than is kept for it: it begins anew."""

    code = "watcher_too_slow"


class SupervisorError(YourMove):
    """A call that a supervisor does not take, as things stand. It changed nothing."""

    code = "supervisor_error"


class InvalidSpec(SupervisorError):
    """A child spec, a set of flags, or a call that does not go with the strategy. Nothing was started.

    Attributes:
        code: What is wrong, in more words than that of the class: `missing_id`, `invalid_restart`, `duplicate_id` …
        field: The field that is to be changed.
    """

    code: str = "invalid_spec"

    def __init__(self, message: str, *, code: str, field: str) -> None:
        """Take the sentence for people, and the two words for programs."""
        super().__init__(message)
        self.code = code
        self.field = field


class AlreadyPresent(SupervisorError):
    """The id has a spec without a process. Start it with `restart_child`, or take it away with `delete_child`."""

    code = "already_present"


class ChildNotFound(SupervisorError):
    """No child of this supervisor has this id or this handle."""

    code = "child_not_found"


class ChildRunning(SupervisorError):
    """The child has a process: `terminate_child` first."""

    code = "child_running"


class ChildRestarting(SupervisorError):
    """The supervisor is about to start the child again: wait for that, or end it with `terminate_child`."""

    code = "child_restarting"


class ChildStuck(SupervisorError):
    """The child did not obey its kill. Its id is free when it has really ended, and not before."""

    code = "child_stuck"


class ChildStartFailed(SupervisorError):
    """The child did not start.

    Attributes:
        reason: The `ExitReason` that its start ended with.
    """

    code = "child_start_failed"

    def __init__(self, message: str, *, reason: "ExitReason") -> None:
        """Keep the reason, which is data and holds no traceback."""
        super().__init__(message)
        self.reason = reason


class WrongChildKey(SupervisorError):
    """Children of a dynamic supervisor are known by their handles, not by an id."""

    code = "wrong_child_key"


class TooManyChildren(SupervisorError):
    """`max_children` exist already; those that are being restarted count."""

    code = "too_many_children"


class SupervisorStopping(SupervisorError):
    """The supervisor has begun to stop: it takes no call any more that would change something."""

    code = "supervisor_stopping"


class WouldDeadlock(SupervisorError):
    """The call would wait for the start or the stop of its own caller, or of a child above it."""

    code = "would_deadlock"


class ActorDown(AgentrailError):
    """The actor has ended without an answer, or never was.

    Attributes:
        handle: Whose end it was; `None` if there was no actor behind an address.
        reason: The `ExitReason`, one of seven classes, so `match error.reason` can be total: `Crashed(type=…, text=…)`
            of an exception, `Shutdown(detail=…)` of an end on purpose; `NoProcess()` if it had ended before it was asked.
    """

    code = "actor_down"

    def __init__(self, message: str, *, handle: object, reason: "ExitReason") -> None:
        """Keep handle and reason."""
        super().__init__(message)
        self.handle = handle
        self.reason = reason


class CallTimeout(AgentrailError):
    """No answer came in time. The work that was asked for goes on; a late answer is dropped."""

    code = "call_timeout"


class JobGivenUp(AgentrailError):
    """A job of a pool brought down its worker at each attempt, and is not tried again.

    Attributes:
        reason: The `ExitReason` of the worker that died of it last.
        deaths: How many workers died of it.
    """

    code = "job_given_up"

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

    code = "pool_stopped"

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

    code = "supervisor_start_failed"

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

    code = "supervisor_gave_up"

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
