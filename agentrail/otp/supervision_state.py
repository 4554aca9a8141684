"""The state of a supervisor between two steps, as a value, and queries on it."""

import enum
from collections.abc import Hashable
from typing import Final, Literal, TypeAlias, assert_never

from msgspec import Struct, structs

from agentrail.otp.child_specs import NO_ARGUMENTS, Arguments, ChildSpec, ShutdownTime, SupervisorFlags
from agentrail.otp.exits import ExitReason
from agentrail.otp.persistent_maps import Index, Table
from agentrail.otp.restarts import is_restart_worthy
from agentrail.otp.supervision_types import (
    ChildCounts,
    ChildInfo,
    ChildStatus,
    Culprit,
    Report,
    RequestId,
    StopSummary,
    SupervisorRequest,
    Token,
)


class ChildPhase(enum.Enum):
    """Status of a child's process."""

    IDLE = "no process, and none starting"
    STARTING = "StartChild is out"
    RUNNING = "up"
    EXITED = "it ended, and its end waits to be judged"
    STOPPING = "StopChild is out"
    STUCK = "it did not obey its kill"


MAX_EXITS: Final = 5
"""Number of ends of a child that are remembered."""


class ChildExit(Struct, frozen=True):
    """An unrequested end of a child's instance, or a failed attempt to start it."""

    reason: ExitReason
    at_seconds: float


class Child(Struct, frozen=True, kw_only=True):
    """One child, over all its instances.

    Attributes:
        number: Its place in the start order. Never reused.
        extra: Its own arguments, empty once a temporary child is up.
        attempt: With `number`, the token of its process, 0 in IDLE.
        retry: With `number`, the token of the wait for its retry, 0 if there is none. Only while `restarting`.
        restarts: Times of its restarts that still count, if `flags.intensity_per` is `child`; otherwise empty.
        exits: Its last unrequested ends, the newest last. Informational only.
        asked: How it was asked to stop, `None` before.
    """

    number: int
    spec: ChildSpec
    from_template: bool = False
    extra: Arguments = NO_ARGUMENTS
    phase: ChildPhase = ChildPhase.IDLE
    attempt: int = 0
    retry: int = 0
    restarting: bool = False
    fresh: bool = False
    doomed: bool = False
    handle: Hashable | None = None
    incarnation: int = 0
    started_seconds: float = 0.0
    in_a_row: int = 0
    restarts: tuple[float, ...] = ()
    exits: tuple[ChildExit, ...] = ()
    asked: ShutdownTime | None = None
    exit_reason: ExitReason | None = None
    exit_seconds: float = 0.0
    starter: RequestId | None = None
    joined: tuple[RequestId, ...] = ()
    waiting: tuple[SupervisorRequest, ...] = ()

    @property
    def token(self) -> Token:
        """Token of its process."""
        return Token(self.number, self.attempt)

    @property
    def has_process(self) -> bool:
        """Whether an instance came up and has not ended."""
        return self.phase in PROCESS


def remember_exit(child: Child, reason: ExitReason, at_seconds: float) -> Child:
    """Record the end of an instance. Only the last ends are kept."""
    exits = (*child.exits, ChildExit(reason, at_seconds))
    return structs.replace(child, exits=exits[-MAX_EXITS:])


# Tuples, because the hash of an enum member is computed in Python, and each step looks here several times.
PROCESS: Final = (ChildPhase.RUNNING, ChildPhase.STOPPING, ChildPhase.STUCK)
OPEN: Final = (ChildPhase.STARTING, ChildPhase.RUNNING, ChildPhase.STOPPING)  # a stop has to wait for these
CHANGING: Final = (ChildPhase.STARTING, ChildPhase.EXITED, ChildPhase.STOPPING)

Course: TypeAlias = Literal["up", "down", "wait"]


class Sweep(Struct, frozen=True, kw_only=True):
    """Starts or stops one child after the other: the initial start, a group restart, the stop of a static supervisor.

    Attributes:
        delay_seconds: Wait of a group once it is down, or `None` for no wait.
    """

    course: Course
    low: int = 0
    cursor: int
    trigger: int = -1
    delay_seconds: float | None = None


class Ending(Struct, frozen=True, kw_only=True):
    """A stop under way."""

    reason: ExitReason
    since_seconds: float
    killing: bool = False
    callers: tuple[RequestId, ...] = ()
    ended: int = 0
    killed: int = 0
    errors: Index[Hashable, tuple[int, Report]] = Index()
    distinct: int = 0
    culprit: Culprit | None = None


class SupervisorState(Struct, frozen=True, kw_only=True):
    """State of a supervisor.

    Attributes:
        open: Number of children in a phase of `OPEN`. 0 once the supervisor has ended.
        restarts: Times of restarts that still count, at most `intensity + 1`. Empty if each child has its own.
        dropped: Number of unexpected signals. Never falls.
    """

    name: Hashable
    flags: SupervisorFlags
    phase: Literal["starting", "running", "stopping", "ended"] = "starting"
    template: ChildSpec | None = None
    children: Table[Child] = Table()
    numbers: Index[Hashable, int] = Index()
    handles: Index[Hashable, int] = Index()
    stuck: Table[int] = Table()
    active: int = 0
    open: int = 0
    supervisors: int = 0
    significant: int = 0
    restarts: tuple[float, ...] = ()
    attempts: int = 0
    next_number: int = 0
    sweep: Sweep | None = None
    starter: int | None = None
    exits: Table[int] = Table()
    pending: Table[SupervisorRequest] = Table()
    starts: Table[SupervisorRequest] = Table()
    places: int = 0
    requests: Index[RequestId, int] = Index()
    ending: Ending | None = None
    summary: StopSummary | None = None
    dropped: int = 0


def which_children(children: Table[Child]) -> tuple[ChildInfo, ...]:
    """Return the children in start order."""
    return tuple(
        ChildInfo(
            child.spec.id,
            child_status(child),
            child.handle if child.has_process else None,
            child.spec.kind,
            child.incarnation,
        )
        for _, child in children.items()
    )


def count_children(specs: int, active: int, supervisors: int) -> ChildCounts:
    """Return the counts. Every spec of another kind than `supervisor` is a worker."""
    return ChildCounts(specs, active, supervisors, specs - supervisors)


def child_status(child: Child) -> ChildStatus:
    """Return the public status of a child."""
    match child.phase:
        case ChildPhase.RUNNING:
            return "running"
        case ChildPhase.STOPPING:
            return "stopping"
        case ChildPhase.STUCK:
            return "stuck"
        case ChildPhase.EXITED:
            return "restarting" if is_to_restart(child) else "stopped"
        case ChildPhase.STARTING:
            return "restarting" if child.restarting else "starting"
        case ChildPhase.IDLE:
            return "restarting" if child.restarting else "stopped"
        case _:
            assert_never(child.phase)


def is_to_restart(child: Child) -> bool:
    """Return whether a pending end of this child will restart it."""
    return child.exit_reason is not None and is_restart_worthy(child.spec.restart, child.exit_reason)
