"""Types of the supervisor: signals, calls, effects, answers and reports. `supervision` implements them."""

from collections.abc import Hashable
from typing import Final, Literal, NewType, TypeAlias

from attrs import frozen
from msgspec import Struct

from agentrail.errors import AlreadyStarted, SupervisorError
from agentrail.otp.child_specs import (
    NO_ARGUMENTS,
    Arguments,
    ChildKind,
    ChildSpec,
    Restart,
    ShutdownTime,
    Spec,
    SupervisorFlags,
)
from agentrail.otp.exits import ExitReason, Shutdown

RequestId = NewType("RequestId", int)

NO_CALLER: Final = RequestId(0)
"""Request id of a call without a waiting caller. It gets no answer, and needs no entry in `requests`."""


class Token(Struct, frozen=True, gc=False):
    """Identity of one start attempt with its instance, or of one wait before a retry. Never reused."""

    child: int
    attempt: int


# --- types that users see


ChildStatus: TypeAlias = Literal["running", "starting", "restarting", "stopping", "stopped", "stuck"]


@frozen
class Started:
    """Result of starting a child.

    Attributes:
        handle: Handle of the new instance, or `None` if the start reported that there is nothing to run.
        info: Value that the start reported with it.
        monitor: Set by the shell if the caller requested a monitor.
    """

    handle: object | None
    info: object = None
    monitor: object = None


@frozen
class ChildInfo:
    """Current status of one child.

    Attributes:
        id: Id from its spec.
        status: `restarting` from a crash until an attempt succeeds. `stuck` if it did not obey a kill.
        handle: Handle of its process, or `None` if it has none.
        kind: Kind from its spec.
        incarnation: Number of instances started so far.
    """

    id: Hashable
    status: ChildStatus
    handle: object | None
    kind: ChildKind
    incarnation: int


@frozen
class ChildCounts:
    """Numbers of children.

    Attributes:
        specs: All children.
        active: Children with a process.
        supervisors: Children of kind `supervisor`, with or without a process.
        workers: Children of kind `worker`, with or without a process.
    """

    specs: int
    active: int
    supervisors: int
    workers: int


@frozen
class StopSummary:
    """Result of stopping a supervisor.

    Every child with a process at the start of the stop is in one of the three counts.

    Attributes:
        reason: Exit reason.
        ended: Children that ended, on request or on their own.
        killed: Children that had to be killed, or whose spec demands a kill.
        stuck: Children that are still running.
        seconds: Duration of the stop.
    """

    reason: ExitReason
    ended: int
    killed: int
    stuck: int
    seconds: float


ReportKind: TypeAlias = Literal[
    "progress",
    "start_error",
    "child_terminated",
    "shutdown_error",
    "shutdown",
    "stuck",
    "late_end",
    "crash",
    "ignored_exit",
    "unknown_message",
    "duplicate_reply",
    "postpone_overflow",
]


@frozen(kw_only=True)
class Report:
    """A report to the observer of a tree. As an effect: pass it to the observer.

    Attributes:
        kind: Event that happened.
        supervisor: Name of the supervisor.
        child_id: Child in question, or `None` for the supervisor itself.
        incarnation: Number of the instance. After a failed start, that of the previous instance, or 0.
        child_kind: `worker` or `supervisor`.
        restart: Restart type of the child.
        reason: Exit reason, or the reason why it did not start.
        count: Number of equal reports that this one stands for.
        at_seconds: Time of the event, on the clock of the signals.
    """

    kind: ReportKind
    supervisor: Hashable
    child_id: Hashable | None = None
    incarnation: int = 0
    child_kind: ChildKind | None = None
    restart: Restart | None = None
    reason: ExitReason | None = None
    count: int = 1
    at_seconds: float


# --- calls of a `SupervisorRequest`


class ById(Struct, frozen=True):
    """A child, identified by its id."""

    id: Hashable


class ByHandle(Struct, frozen=True):
    """A child, identified by a handle."""

    handle: Hashable
    alive: bool


ChildKey: TypeAlias = ById | ByHandle


class StartChildCall(Struct, frozen=True):
    """Add a child and start it. Answer: `Started`."""

    spec: Spec


class StartInstanceCall(Struct, frozen=True):
    """Start an instance of the template, with these arguments after the template's own. Answer: `Started`."""

    extra: Arguments = NO_ARGUMENTS


class TerminateChildCall(Struct, frozen=True):
    """Stop a child. Answer: `None`, even if it had no process or is `stuck` now."""

    child: ChildKey


class RestartChildCall(Struct, frozen=True):
    """Start a child that has no process. Answer: `Started`."""

    child_id: Hashable


class DeleteChildCall(Struct, frozen=True):
    """Remove the spec of a child that has no process. Answer: `None`."""

    child_id: Hashable


class WhichChildrenCall(Struct, frozen=True):
    """Return the children. Answer: a tuple of `ChildInfo`, in start order."""


class CountChildrenCall(Struct, frozen=True):
    """Count the children. Answer: `ChildCounts`."""


class GetChildSpecCall(Struct, frozen=True):
    """Return a child's spec. Answer: the `ChildSpec`, without its arguments if the child is temporary."""

    child: ChildKey


class ReconfigureCall(Struct, frozen=True):
    """Replace the flags and the specs of known ids, and add unknown ids without starting them. Answer: `None`."""

    flags: SupervisorFlags
    children: tuple[Spec, ...]


class StopCall(Struct, frozen=True):
    """Stop the supervisor. Answer: `StopSummary`."""

    reason: ExitReason = Shutdown()


ChangingCall: TypeAlias = (
    StartChildCall
    | StartInstanceCall
    | TerminateChildCall
    | RestartChildCall
    | DeleteChildCall
    | ReconfigureCall
)
SupervisorCall: TypeAlias = ChangingCall | WhichChildrenCall | CountChildrenCall | GetChildSpecCall | StopCall


# --- signals


class _Signal(Struct, frozen=True, gc=False, kw_only=True):
    """Base of all signals.

    Attributes:
        draw: Random number in [0, 1), for the jitter of a back-off.
    """

    at_seconds: float
    draw: float


class InstanceStarted(_Signal, frozen=True, gc=False):
    """The child has started."""

    token: Token
    handle: Hashable
    info: object = None


class InstanceIgnored(_Signal, frozen=True, gc=False):
    """The start reported that there is nothing to run. It leaves no process."""

    token: Token


class InstanceStartFailed(_Signal, frozen=True, gc=False):
    """The child did not start. It leaves no process, unless the reason's cause is `Stuck`: that one exits later."""

    token: Token
    reason: ExitReason


class InstanceExited(_Signal, frozen=True, gc=False):
    """A running instance has ended without being asked to, or a stuck one has finally ended."""

    token: Token
    reason: ExitReason


class InstanceStopped(_Signal, frozen=True, gc=False):
    """An instance that was asked to stop has ended.

    Attributes:
        forced: Whether it had to be killed although it was asked to stop.
    """

    token: Token
    reason: ExitReason
    forced: bool


class InstanceStuck(_Signal, frozen=True, gc=False):
    """An instance still runs `stuck_after_seconds` after its kill."""

    token: Token


class RetryDue(_Signal, frozen=True, gc=False):
    """The wait before a retry is over."""

    token: Token


class SupervisorRequest(_Signal, frozen=True, gc=False):
    """A call to the supervisor.

    Attributes:
        caller_path: Tokens that lead from this supervisor down to the caller. The first is the child that is
            the caller or its ancestor, the second is that child's own child on the way, and so on. Empty if the
            caller is not below this supervisor.
        handle: Handle of the instance if this call starts one that is up as soon as it is started, otherwise
            `None`.
    """

    request_id: RequestId
    caller_path: tuple[Token, ...]
    call: SupervisorCall
    handle: Hashable | None = None


class RequestCancelled(_Signal, frozen=True, gc=False):
    """The caller of this request no longer waits. There will be no answer."""

    request_id: RequestId


class AnswerUntaken(_Signal, frozen=True, gc=False):
    """A child was started for a request whose caller no longer waited, so the start is undone.

    Sent right after the step that produced the answer. A caller can leave at the very instant at which the
    child comes up, which is too late for a `RequestCancelled`.
    """

    child: int
    is_new: bool


class StopRequested(_Signal, frozen=True, gc=False):
    """The parent, the end of the block or a cancellation stops the supervisor.

    Attributes:
        reason: Exit reason to end with. `Killed()` kills the remaining children, even during a stop.
    """

    reason: ExitReason


SupervisionSignal: TypeAlias = (
    InstanceStarted
    | InstanceIgnored
    | InstanceStartFailed
    | InstanceExited
    | InstanceStopped
    | InstanceStuck
    | RetryDue
    | SupervisorRequest
    | RequestCancelled
    | AnswerUntaken
    | StopRequested
)


# --- effects


class StartChild(Struct, frozen=True, gc=False):
    """Start a child.

    The shell answers with one of `InstanceStarted`, `InstanceIgnored` and `InstanceStartFailed`. If a handle is
    given, no answer is expected.

    Attributes:
        token: Identity of the attempt, repeated in the answer and in later signals of this instance.
        spec: Spec of the child. Copy its arguments (`Arguments.copied`) for the call. Otherwise the next start
            gets this instance's changes.
        extra: Further arguments for an instance of the template, to be copied too.
        incarnation: Number of the instance if it comes up.
        handle: Handle from the `SupervisorRequest`: the instance is up and has this handle. The effects that
            follow from it come after this one. `None`: the instance reports itself when it is up.
    """

    token: Token
    spec: ChildSpec
    extra: Arguments
    incarnation: int
    handle: Hashable | None = None


class CancelStart(Struct, frozen=True, gc=False):
    """Cancel a running start. The answer is the same as without it, only sooner.

    It is `InstanceStarted` if the cancellation was too late.

    Attributes:
        how: Time limit for the start to end before it is killed.
    """

    token: Token
    how: ShutdownTime


class StopChild(Struct, frozen=True, gc=False):
    """Stop an instance. The answer is `InstanceStopped`, `InstanceStuck`, or `InstanceExited` if it ended first.

    If the instance is already stopping, kill it now. There is still only one answer.

    Attributes:
        how: Seconds between the request to stop and the kill. `infinity` asks and waits, `brutal_kill` does not
            ask.
    """

    token: Token
    how: ShutdownTime


class ScheduleRetry(Struct, frozen=True, gc=False):
    """Send `RetryDue` after this wait. A wait of 0 s comes after all pending work and a checkpoint."""

    token: Token
    delay_seconds: float


class CancelRetry(Struct, frozen=True, gc=False):
    """Do not send the `RetryDue` of this token. One that was already sent is harmless."""

    token: Token


Answered: TypeAlias = Started | tuple[ChildInfo, ...] | ChildCounts | ChildSpec | StopSummary | None


class AnswerRequest(Struct, frozen=True, gc=False):
    """Answer a request. Each request gets exactly one answer, or none if it was cancelled.

    If an instance is up with its `StartChild`, its `Started` is held until the instance has begun, so that its
    caller sees the effects of the start first. If the caller leaves before that, the answer was not taken.

    Attributes:
        outcome: The value, or an error to raise at the caller.
        child: Number of the child that was started for it, or `None`. If the answer is not taken, send
            `AnswerUntaken`.
        is_new: Whether the request added this child.
    """

    request_id: RequestId
    outcome: Answered | SupervisorError | AlreadyStarted
    child: int | None = None
    is_new: bool = False


class Culprit(Struct, frozen=True):
    """The child that made a supervisor give up."""

    child_id: Hashable
    reason: ExitReason
    handle: Hashable | None


class EndSupervisor(Struct, frozen=True):
    """The supervisor has ended. Always the last effect.

    Attributes:
        stuck: Number of children still running. If above 0, the supervisor itself counts as stuck for its
            parent, at once.
    """

    reason: ExitReason
    stuck: int = 0
    culprit: Culprit | None = None


SupervisionEffect: TypeAlias = (
    StartChild
    | CancelStart
    | StopChild
    | ScheduleRetry
    | CancelRetry
    | AnswerRequest
    | Report
    | EndSupervisor
)
"""An instruction to the shell. Effects are carried out in the order of the list."""
