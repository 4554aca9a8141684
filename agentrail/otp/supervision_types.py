"""The words of the supervisor: signals, calls, effects, answers and reports. What they do stands in `supervision`.

Signals and effects are `msgspec.Struct`s, as those of the engine; what users see is made of attrs classes. They live for
one step and are not seen by the cyclic garbage collector: ten thousand of them at once would call for it again and again.
"""

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
"""The id of a request without a caller that waits: it gets no answer, and costs no entry in the books."""


class Token(Struct, frozen=True, gc=False):
    """One attempt to start a child and the instance that came of it, or one wait for a retry. Never given twice.

    Attributes:
        child: The number of the child, which finds it without a search. It stays the same over all restarts.
        attempt: The number of the attempt, one count for all children of this supervisor.
    """

    child: int
    attempt: int


# --- what users see


ChildStatus: TypeAlias = Literal["running", "starting", "restarting", "stopping", "stopped", "stuck"]


@frozen
class Started:
    """A child was started.

    Attributes:
        handle: Of the new instance; `None` if the start said that there is nothing to run.
        info: What the start reported along with it.
        monitor: Filled in by the shell, if the caller asked for a monitor.
    """

    handle: object | None
    info: object = None
    monitor: object = None


@frozen
class ChildInfo:
    """One child, as it is now.

    Attributes:
        id: As in its spec.
        status: `restarting` from a crash until an attempt succeeds; `stuck` if it did not obey a kill.
        handle: Only while there is a process.
        kind: As in its spec.
        incarnation: How many instances of it were started.
    """

    id: Hashable
    status: ChildStatus
    handle: object | None
    kind: ChildKind
    incarnation: int


@frozen
class ChildCounts:
    """How many children there are.

    Attributes:
        specs: All.
        active: Those with a process.
        supervisors: Those of kind `supervisor`, with or without a process.
        workers: Those of kind `worker`, with or without a process.
    """

    specs: int
    active: int
    supervisors: int
    workers: int


@frozen
class StopSummary:
    """How a supervisor stopped. Each child that had a process when the stop began is in one of the three counts.

    Attributes:
        reason: Why.
        ended: How many ended, asked or by themselves.
        killed: How many had to be killed, or were to be.
        stuck: How many are still there.
        seconds: How long it took.
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
    """What the observer of a tree is told. As an effect: give it to the observer.

    Attributes:
        kind: What happened.
        supervisor: The supervisor's name.
        child_id: Whom it is about; `None` if it is the supervisor itself.
        incarnation: Which instance; of a failed start the one before, 0 if there was none.
        child_kind: `worker` or `supervisor`.
        restart: The child's restart type.
        reason: How it ended, or why it did not start.
        count: How many equal reports this one stands for.
        at_seconds: When it happened, on the clock of the signals.
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


# --- calls: what a `SupervisorRequest` asks for


class ById(Struct, frozen=True):
    """A child, by its id."""

    id: Hashable


class ByHandle(Struct, frozen=True):
    """A child, by a handle.

    Attributes:
        alive: Whether its actor lives. The shell knows; a dead handle without an actor is fine where a live one is not.
    """

    handle: Hashable
    alive: bool


ChildKey: TypeAlias = ById | ByHandle


class StartChildCall(Struct, frozen=True):
    """Add a child and start it. Answer: `Started`."""

    spec: Spec


class StartInstanceCall(Struct, frozen=True):
    """Start an instance of the template, with these arguments behind its own. Answer: `Started`."""

    extra: Arguments = NO_ARGUMENTS


class TerminateChildCall(Struct, frozen=True):
    """Stop a child. Answer: `None`, also if it had no process, and if it is `stuck` now."""

    child: ChildKey


class RestartChildCall(Struct, frozen=True):
    """Start a child that has no process. Answer: `Started`."""

    child_id: Hashable


class DeleteChildCall(Struct, frozen=True):
    """Take away the spec of a child that has no process. Answer: `None`."""

    child_id: Hashable


class WhichChildrenCall(Struct, frozen=True):
    """Answer: a tuple of `ChildInfo`, in start order."""


class CountChildrenCall(Struct, frozen=True):
    """Answer: `ChildCounts`."""


class GetChildSpecCall(Struct, frozen=True):
    """Answer: the `ChildSpec`; of a temporary child without its arguments."""

    child: ChildKey


class ReconfigureCall(Struct, frozen=True):
    """Take new flags, and new specs of known ids; add unknown ones without starting them. Answer: `None`."""

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
    """What every signal carries.

    Attributes:
        draw: Chance, in [0, 1), for the jitter of a back-off.
    """

    at_seconds: float
    draw: float


class InstanceStarted(_Signal, frozen=True, gc=False):
    """The child is up."""

    token: Token
    handle: Hashable
    info: object = None


class InstanceIgnored(_Signal, frozen=True, gc=False):
    """The start said that there is nothing to run. No process is left."""

    token: Token


class InstanceStartFailed(_Signal, frozen=True, gc=False):
    """The child did not start. No process is left, unless the reason's cause is `Stuck`: then it exits later."""

    token: Token
    reason: ExitReason


class InstanceExited(_Signal, frozen=True, gc=False):
    """An instance that was up has ended, and had not been asked to; or one that was stuck has ended at last."""

    token: Token
    reason: ExitReason


class InstanceStopped(_Signal, frozen=True, gc=False):
    """An instance that was to stop has ended.

    Attributes:
        forced: It had to be killed, although it was to be asked.
    """

    token: Token
    reason: ExitReason
    forced: bool


class InstanceStuck(_Signal, frozen=True, gc=False):
    """An instance that was to stop has not even obeyed its kill, `stuck_after_seconds` after it."""

    token: Token


class RetryDue(_Signal, frozen=True, gc=False):
    """The wait before a retry is over."""

    token: Token


class SupervisorRequest(_Signal, frozen=True, gc=False):
    """A caller asked the supervisor, and waits.

    Attributes:
        request_id: Of this one call; `NO_CALLER` if there is no caller to answer.
        caller_path: Who calls, from this supervisor downwards: the token of the child that it is or lives below, as
            this supervisor knows it, then the token of the next one as that one's supervisor knows it, and so on.
            Empty for a caller that is not below this supervisor.
        handle: Of the instance, should this call start one that is up as soon as it is started; else `None`.
    """

    request_id: RequestId
    caller_path: tuple[Token, ...]
    call: SupervisorCall
    handle: Hashable | None = None


class RequestCancelled(_Signal, frozen=True, gc=False):
    """The caller that waited for this request has gone. There will be no answer."""

    request_id: RequestId


class AnswerUntaken(_Signal, frozen=True, gc=False):
    """A child was started for a request, and no caller was there to take the answer: the start is undone.

    Of each such answer, told directly behind the step that gave it: a caller can go at the very instant at which the
    child comes up, and then no `RequestCancelled` was in time.
    """

    child: int
    is_new: bool


class StopRequested(_Signal, frozen=True, gc=False):
    """The parent, the end of the block or a cancellation wants the supervisor to stop.

    Attributes:
        reason: What it will end with. `Killed()` kills all that is left, also when a stop has begun already.
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
    """Start a child. Answered by exactly one of `InstanceStarted`, `InstanceIgnored` and `InstanceStartFailed`; with a handle by none.

    Attributes:
        token: Comes back in the answer, and in what happens to this instance later.
        spec: What to start. Copy its arguments (`Arguments.copied`) for the call, or the next start gets what this
            instance made of them.
        extra: Of an instance of the template: further arguments, to be copied too.
        incarnation: The number of the instance, if it comes up.
        handle: That of the `SupervisorRequest`: the instance is up, and this is its handle. What follows from that
            stands behind this effect. `None`: it says itself when it is.
    """

    token: Token
    spec: ChildSpec
    extra: Arguments
    incarnation: int
    handle: Hashable | None = None


class CancelStart(Struct, frozen=True, gc=False):
    """End a start that is under way. It brings the same answer, sooner: also `InstanceStarted`, if it was too late.

    Attributes:
        how: How long the start may take to end before it is killed.
    """

    token: Token
    how: ShutdownTime


class StopChild(Struct, frozen=True, gc=False):
    """End an instance. Answered by one of `InstanceStopped` and `InstanceStuck`; by its `InstanceExited` if that came first.

    For an instance that is being stopped already: kill it now, there is still only one answer.

    Attributes:
        how: Seconds from asking to the kill; `infinity` asks and waits, `brutal_kill` does not ask.
    """

    token: Token
    how: ShutdownTime


class ScheduleRetry(Struct, frozen=True, gc=False):
    """Bring `RetryDue` after this wait. One of 0 s goes behind all that waits now, and behind a checkpoint."""

    token: Token
    delay_seconds: float


class CancelRetry(Struct, frozen=True, gc=False):
    """Bring no `RetryDue` of this token. One that is on its way already does no harm."""

    token: Token


Answered: TypeAlias = Started | tuple[ChildInfo, ...] | ChildCounts | ChildSpec | StopSummary | None


class AnswerRequest(Struct, frozen=True, gc=False):
    """Answer a request. Each gets exactly one answer, or none once it was cancelled.

    The `Started` of an instance that is up with its `StartChild` is not given before the instance has begun, so that its
    caller finds what it does first. If its caller goes before that, the answer was not taken.

    Attributes:
        outcome: The value; or an error, which is to be raised at the caller.
        child: The number of the child that was started for it; `None` if none was. If the answer is not taken, say so
            by `AnswerUntaken`.
        is_new: Whether that child came to the books with the request.
    """

    request_id: RequestId
    outcome: Answered | SupervisorError | AlreadyStarted
    child: int | None = None
    is_new: bool = False


class Culprit(Struct, frozen=True):
    """The child over which a supervisor gave up.

    Attributes:
        reason: How it ended the last time, or why it did not start.
    """

    child_id: Hashable
    reason: ExitReason
    handle: Hashable | None


class EndSupervisor(Struct, frozen=True):
    """The supervisor has ended. Always the last effect.

    Attributes:
        reason: Why. `InitFailed("child", …)` if not all initial children came up.
        stuck: How many children are still there. If any, the supervisor is itself stuck to its parent, at once.
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
"""Carried out in the order of the list."""
