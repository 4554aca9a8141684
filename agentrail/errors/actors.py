"""Errors of actors, supervisors, registries and pools."""

from collections.abc import Hashable
from typing import TYPE_CHECKING

from agentrail.errors.base import AgentrailError, YourMove

if TYPE_CHECKING:  # for an exhaustive `match` on a reason; no runtime import from a higher layer
    from agentrail.otp.exits import ExitReason


class MailboxFull(YourMove):
    """The actor's mailbox is full. Try again once it has caught up."""

    code = "mailbox_full"


class CallingSelf(YourMove):
    """An actor or a session's tool waits for itself, directly or through other sessions."""

    code = "calling_self"


class ActorError(YourMove):
    """An actor or a registry rejects a call."""

    code = "actor_error"


class NoMailbox(ActorError):
    """The actor is a worker or a supervisor, which reads no messages."""

    code = "no_mailbox"


class NotSuspended(ActorError):
    """An actor's code can change only while it is suspended."""

    code = "not_suspended"


class AlreadyRegistered(ActorError):
    """The key already has a live owner.

    Attributes:
        handle: Handle of the owner.
    """

    code = "already_registered"

    def __init__(self, message: str, *, handle: object) -> None:
        super().__init__(message)
        self.handle = handle


class NotOwner(ActorError):
    """Only the owner of a key can change its value."""

    code = "not_key_owner"


class RegistryClosed(ActorError):
    """The registry is closed."""

    code = "registry_closed"


class NoPartitions(ActorError):
    """The pool of partitions was resized to 0. Resize it first."""

    code = "no_partitions"


class PoolFull(ActorError):
    """The pool's queue is full. Try again later, or set `when_full` to `wait`."""

    code = "pool_full"


class JobWithdrawn(ActorError):
    """`PoolJob.cancel`, or its own task's cancellation, cancelled the job."""

    code = "job_withdrawn"


class WatcherTooSlow(ActorError):
    """Later events of a child were dropped because the watcher read too slowly. Watch the child again."""

    code = "watcher_too_slow"


class SupervisorError(YourMove):
    """The supervisor rejects a call, and changes nothing."""

    code = "supervisor_error"


class InvalidSpec(SupervisorError):
    """An invalid child spec, set of flags, or call for the strategy. Nothing started.

    Attributes:
        code: The exact fault: `missing_id`, `invalid_restart`, `duplicate_id` …
        field: The field to change.
    """

    code: str = "invalid_spec"

    def __init__(self, message: str, *, code: str, field: str) -> None:
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
    """The child did not stop when it was killed. Its id stays taken until it ends."""

    code = "child_stuck"


class ChildStartFailed(SupervisorError):
    """The child did not start.

    Attributes:
        reason: The `ExitReason` of the failed start.
    """

    code = "child_start_failed"

    def __init__(self, message: str, *, reason: "ExitReason") -> None:
        super().__init__(message)
        self.reason = reason


class WrongChildKey(SupervisorError):
    """Children of a dynamic supervisor are identified by handle, not by id."""

    code = "wrong_child_key"


class TooManyChildren(SupervisorError):
    """The supervisor has `max_children` children, restarting ones included."""

    code = "too_many_children"


class SupervisorStopping(SupervisorError):
    """The supervisor is stopping and accepts no more changes."""

    code = "supervisor_stopping"


class WouldDeadlock(SupervisorError):
    """The call would wait for the start or stop of its caller or an ancestor."""

    code = "would_deadlock"


class ActorDown(AgentrailError):
    """The actor ended without an answer, or never existed.

    Attributes:
        handle: Handle of the actor, or `None` if an address had no actor.
        reason: The `ExitReason`, one of seven classes. `Crashed(type=…, text=…)` is an exception, `Shutdown(detail=…)` a deliberate stop, `NoProcess()` an
            actor already ended.
    """

    code = "actor_down"

    def __init__(self, message: str, *, handle: object, reason: "ExitReason") -> None:
        super().__init__(message)
        self.handle = handle
        self.reason = reason


class CallTimeout(AgentrailError):
    """No answer came in time. The work continues, and a late answer is dropped."""

    code = "call_timeout"


class JobGivenUp(AgentrailError):
    """A pool job crashed its worker on every attempt.

    Attributes:
        reason: The `ExitReason` of the last worker.
        deaths: Number of workers that crashed.
    """

    code = "job_given_up"

    def __init__(self, message: str, *, reason: "ExitReason", deaths: int) -> None:
        super().__init__(message)
        self.reason = reason
        self.deaths = deaths


class PoolStopped(AgentrailError):
    """The pool ended, or was stopping, before the job was done.

    Attributes:
        reason: The `ExitReason` of the pool.
        began: Whether a worker had started the job.
    """

    code = "pool_stopped"

    def __init__(self, message: str, *, reason: "ExitReason", began: bool) -> None:
        super().__init__(message)
        self.reason = reason
        self.began = began


class SupervisorStartFailed(AgentrailError):
    """A supervisor failed to start. Started children were stopped again, in reverse order.

    Attributes:
        child_id: The child that did not start, or `None` if not a child's failure.
        reason: The `ExitReason` of that child's start.
    """

    code = "supervisor_start_failed"

    def __init__(self, message: str, *, child_id: object, reason: "ExitReason") -> None:
        super().__init__(message)
        self.child_id = child_id
        self.reason = reason


class SupervisorGaveUp(AgentrailError):
    """A supervisor ended during its block: restart limit reached, or killed.

    Attributes:
        reason: The supervisor's `ExitReason`.
        child_id: The child that exceeded the limit, or `None` if killed.
        cause: The last `ExitReason` of that child, or of the descendant that made it give up. `None` if killed.
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
        super().__init__(message)
        self.reason = reason
        self.child_id = child_id
        self.cause = cause
