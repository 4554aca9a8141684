"""Errors of actors, supervisors, registries and pools, and of calls to them that end without an answer."""

from collections.abc import Hashable
from typing import TYPE_CHECKING

from agentrail.errors.base import AgentrailError, YourMove

if TYPE_CHECKING:  # for an exhaustive `match` on a reason; no runtime import from a higher layer
    from agentrail.otp.exits import ExitReason


class MailboxFull(YourMove):
    """The actor's mailbox is full. Try again once it has caught up."""

    code = "mailbox_full"


class CallingSelf(YourMove):
    """An actor waits for itself, or a session's tool waits for the session that runs it."""

    code = "calling_self"


class ActorError(YourMove):
    """An actor or a registry rejects a call."""

    code = "actor_error"


class NoMailbox(ActorError):
    """The actor is a worker or a supervisor, which reads no messages."""

    code = "no_mailbox"


class NotSuspended(ActorError):
    """An actor's code can be changed only while it is suspended, so that no event meets half a change."""

    code = "not_suspended"


class AlreadyRegistered(ActorError):
    """The key already has a live owner.

    Attributes:
        handle: Handle of the owner.
    """

    code = "already_registered"

    def __init__(self, message: str, *, handle: object) -> None:
        """Store the owner's handle, so that the caller can use it."""
        super().__init__(message)
        self.handle = handle


class NotOwner(ActorError):
    """Only the owner of a key can change its value."""

    code = "not_key_owner"


class RegistryClosed(ActorError):
    """The registry is closed. All its names are released."""

    code = "registry_closed"


class NoPartitions(ActorError):
    """The pool of partitions was resized to 0. Resize it before the next call."""

    code = "no_partitions"


class PoolFull(ActorError):
    """The pool's queue is full. Try again later, or set `when_full` to `wait`."""

    code = "pool_full"


class JobWithdrawn(ActorError):
    """The job was cancelled by `PoolJob.cancel`, or together with the task that ran it. It has no result."""

    code = "job_withdrawn"


class WatcherTooSlow(ActorError):
    """The watcher read too slowly, so later events of the watched child were dropped. Watch the child again."""

    code = "watcher_too_slow"


class SupervisorError(YourMove):
    """The supervisor rejects a call in its current state. Nothing was changed."""

    code = "supervisor_error"


class InvalidSpec(SupervisorError):
    """An invalid child spec or set of flags, or a call that does not fit the strategy. Nothing was started.

    Attributes:
        code: The exact fault, in place of the class's code: `missing_id`, `invalid_restart`, `duplicate_id` …
        field: The field to change.
    """

    code: str = "invalid_spec"

    def __init__(self, message: str, *, code: str, field: str) -> None:
        """Store the message for users, and code and field for programs."""
        super().__init__(message)
        self.code = code
        self.field = field


class AlreadyPresent(SupervisorError):
    """The id has a spec but no process. Start it with `restart_child`, or remove it with `delete_child`."""

    code = "already_present"


class ChildNotFound(SupervisorError):
    """The supervisor has no child with this id or handle."""

    code = "child_not_found"


class ChildRunning(SupervisorError):
    """The child is running. Call `terminate_child` first."""

    code = "child_running"


class ChildRestarting(SupervisorError):
    """The supervisor is about to restart the child. Wait for it, or call `terminate_child`."""

    code = "child_restarting"


class ChildStuck(SupervisorError):
    """The child did not stop when it was killed. Its id becomes free only once it has ended."""

    code = "child_stuck"


class ChildStartFailed(SupervisorError):
    """The child did not start.

    Attributes:
        reason: The `ExitReason` of the failed start.
    """

    code = "child_start_failed"

    def __init__(self, message: str, *, reason: "ExitReason") -> None:
        """Store the reason, which is data and holds no traceback."""
        super().__init__(message)
        self.reason = reason


class WrongChildKey(SupervisorError):
    """Children of a dynamic supervisor are identified by handle, not by id."""

    code = "wrong_child_key"


class TooManyChildren(SupervisorError):
    """The supervisor already has `max_children` children. Children that are being restarted count."""

    code = "too_many_children"


class SupervisorStopping(SupervisorError):
    """The supervisor is stopping and accepts no more changes."""

    code = "supervisor_stopping"


class WouldDeadlock(SupervisorError):
    """The call would wait for the start or stop of its own caller, or of one of the caller's ancestors."""

    code = "would_deadlock"


class ActorDown(AgentrailError):
    """The actor ended without an answer, or never existed.

    Attributes:
        handle: Handle of the actor, or `None` if an address had no actor.
        reason: The `ExitReason`, one of seven classes, so a `match error.reason` can be exhaustive. `Crashed(type=…, text=…)`
            comes from an exception, `Shutdown(detail=…)` from a deliberate stop, `NoProcess()` from a call to an actor that
            had already ended.
    """

    code = "actor_down"

    def __init__(self, message: str, *, handle: object, reason: "ExitReason") -> None:
        """Store handle and reason."""
        super().__init__(message)
        self.handle = handle
        self.reason = reason


class CallTimeout(AgentrailError):
    """No answer came in time. The requested work continues, and a late answer is dropped."""

    code = "call_timeout"


class JobGivenUp(AgentrailError):
    """A pool job crashed its worker on every attempt, and is not tried again.

    Attributes:
        reason: The `ExitReason` of the last worker.
        deaths: Number of workers that crashed.
    """

    code = "job_given_up"

    def __init__(self, message: str, *, reason: "ExitReason", deaths: int) -> None:
        """Store the reason, which is data and holds no traceback."""
        super().__init__(message)
        self.reason = reason
        self.deaths = deaths


class PoolStopped(AgentrailError):
    """The pool ended before the job was done, or was already stopping when the job arrived.

    Attributes:
        reason: The `ExitReason` of the pool.
        began: Whether a worker had started the job, so that it may have had side effects.
    """

    code = "pool_stopped"

    def __init__(self, message: str, *, reason: "ExitReason", began: bool) -> None:
        """Store the reason."""
        super().__init__(message)
        self.reason = reason
        self.began = began


class SupervisorStartFailed(AgentrailError):
    """A supervisor failed to start. Children that had started were stopped again, in reverse order.

    Attributes:
        child_id: The child that did not start, or `None` if the failure was not a child's.
        reason: The `ExitReason` of that child's start.
    """

    code = "supervisor_start_failed"

    def __init__(self, message: str, *, child_id: object, reason: "ExitReason") -> None:
        """Store the child and the reason."""
        super().__init__(message)
        self.child_id = child_id
        self.reason = reason


class SupervisorGaveUp(AgentrailError):
    """A supervisor ended while its block was still running: it reached its restart limit, or it was killed.

    Attributes:
        reason: The supervisor's `ExitReason`.
        child_id: The child whose restart exceeded the limit, or `None` if the supervisor was killed.
        cause: The last `ExitReason` of that child. If the child is a supervisor that gave up too, the reason of the
            descendant that started it. `None` if the supervisor was killed.
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
        """Store the reasons."""
        super().__init__(message)
        self.reason = reason
        self.child_id = child_id
        self.cause = cause
