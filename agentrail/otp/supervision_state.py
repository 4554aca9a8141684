"""The supervisor as a value: all that it knows between two steps, and what can be read from it.

Who keeps an old state can drop a step as if it never happened. A step changes one child or a few; the tables that hold
them share the rest, so ten thousand children cost a step no more than ten do.
"""

import enum
from collections.abc import Hashable
from typing import Final, Literal, TypeAlias, assert_never

from msgspec import Struct, structs

from agentrail.otp.child_specs import NO_ARGUMENTS, Arguments, ChildSpec, ShutdownTime, SupervisorFlags
from agentrail.otp.exits import ExitReason
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
from agentrail.otp.tables import Index, Table


class ChildPhase(enum.Enum):
    """Where the process of a child is."""

    IDLE = "no process, and none on its way"
    STARTING = "StartChild is out"
    RUNNING = "up"
    EXITED = "it ended, and its end waits to be judged"
    STOPPING = "StopChild is out"
    STUCK = "it did not obey its kill"


MAX_EXITS: Final = 5
"""How many ends of a child are remembered."""


class ChildExit(Struct, frozen=True):
    """How an instance of a child ended by itself, or why an attempt to start it failed.

    Attributes:
        at_seconds: When it was known, on the clock of the signals.
    """

    reason: ExitReason
    at_seconds: float


class Child(Struct, frozen=True, kw_only=True):
    """One child, over all its instances.

    Attributes:
        number: Its place in the start order. Never given again.
        from_template: It is an instance of the template, and a restart takes the template of that day.
        extra: Its own arguments; none once a temporary child is up.
        phase: Where its process is.
        attempt: With `number` the token of its process; 0 in IDLE.
        retry: With `number` the token of the wait for its retry; 0 if there is none. Only while `restarting`.
        restarting: It crashed, and no attempt has succeeded since. Not in RUNNING, EXITED and STOPPING, but for a
            cancelled start that came up.
        fresh: Its first start was asked for by a call and is not over, or was undone: without a process it is not kept.
        doomed: Its start was cancelled. Only in STARTING, and in STOPPING and STUCK after it.
        restarts: When its restarts happened that still count, if `flags.intensity_per` is `child`; else empty.
        exits: The last ends that it was not told to come to, the newest last; for people, nothing is decided by them.
        asked: How it was told to stop; `None` before.
        starter: Who waits for its start. Only in STARTING, and in STOPPING after it.
        joined: Who waits for its stop. Only in STARTING and STOPPING.
        waiting: Requests to be looked at when its start or stop is over. Not in IDLE, RUNNING and STUCK.
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
        """Of its process."""
        return Token(self.number, self.attempt)

    @property
    def has_process(self) -> bool:
        """Tell whether there is an instance that came up and has not ended."""
        return self.phase in PROCESS


def remember_exit(child: Child, reason: ExitReason, at_seconds: float) -> Child:
    """Note how an instance of a child ended; only the last ends are kept."""
    exits = (*child.exits, ChildExit(reason, at_seconds))
    return structs.replace(child, exits=exits[-MAX_EXITS:])


# Tuples, since the hash of an enum's member is computed in Python, and each step looks here several times.
PROCESS: Final = (ChildPhase.RUNNING, ChildPhase.STOPPING, ChildPhase.STUCK)
OPEN: Final = (ChildPhase.STARTING, ChildPhase.RUNNING, ChildPhase.STOPPING)  # a stop has to wait for these
CHANGING: Final = (ChildPhase.STARTING, ChildPhase.EXITED, ChildPhase.STOPPING)

Course: TypeAlias = Literal["up", "down", "wait"]


class Sweep(Struct, frozen=True, kw_only=True):
    """Starts or stops one child after the other: the initial start, a group restart, the stop of a static supervisor.

    Attributes:
        course: `up` starts in start order, `down` stops in reverse; `wait` is for a retry or for what is stuck.
        low: Children with a smaller number are left alone.
        cursor: Up: children below it are done. Down: those from it on are.
        trigger: The child that a group restart is for; -1 if it is none.
        delay_seconds: How long a group waits once it is down; `None` for not at all.
    """

    course: Course
    low: int = 0
    cursor: int
    trigger: int = -1
    delay_seconds: float | None = None


class Ending(Struct, frozen=True, kw_only=True):
    """A stop under way.

    Attributes:
        killing: All that is left is being killed at once.
        killed: Children that ended so far because they were killed.
        errors: Of a dynamic supervisor: errors to be reported at the end, equal ones together; with the place of each.
        culprit: Over whom it gave up, if that is why it stops.
    """

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
    """All that a supervisor knows.

    Attributes:
        phase: `starting` until all initial children are up; `stopping` from the first reason to stop; then `ended`.
        numbers: Of a static supervisor: number by id. Each child of it stands there once.
        open: How many children are in a phase of `OPEN`. None once it has ended.
        significant: How many significant children run, or are to run again.
        restarts: When restarts happened that still count; never more than `intensity + 1`. Empty if each child has its
            own.
        sweep: What is being started or stopped in order.
        starter: Under a group strategy: the child whose start was asked for and is under way; only one at a time.
        exits: Children in EXITED, in the order of their ends.
        pending: Requests that wait for the end of a sweep.
        starts: Requests that wait for the end of another start, under a group strategy.
        places: The last place given in the three queues.
        requests: The requests that wait for an answer: by id the number of the child that is started for it, else -1.
        dropped: Signals that were not waited for. Never falls.
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
    """List the children in start order."""
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
    """Count the children; every spec that is no supervisor is a worker."""
    return ChildCounts(specs, active, supervisors, specs - supervisors)


def child_status(child: Child) -> ChildStatus:
    """Name what a child does, for people."""
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
    """Tell whether the end of this child, which was not judged yet, is going to start it again."""
    return child.exit_reason is not None and is_restart_worthy(child.spec.restart, child.exit_reason)
