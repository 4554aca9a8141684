"""One step of a supervisor in progress: the fields of the next state and the effects so far."""

from collections.abc import Hashable
from typing import Final, Literal

from attrs import evolve
from msgspec import structs

from agentrail.errors import AlreadyStarted, SupervisorError
from agentrail.otp.child_specs import ChildSpec, ShutdownTime, SupervisorFlags
from agentrail.otp.exits import ExitReason
from agentrail.otp.persistent_maps import Index, Table
from agentrail.otp.supervision_state import (
    CHANGING,
    OPEN,
    PROCESS,
    Child,
    ChildPhase,
    Ending,
    SupervisorState,
    Sweep,
)
from agentrail.otp.supervision_types import (
    Answered,
    AnswerRequest,
    CancelRetry,
    CancelStart,
    Report,
    ReportKind,
    RequestId,
    ScheduleRetry,
    StartChild,
    StopChild,
    StopSummary,
    SupervisionEffect,
    SupervisorRequest,
    Token,
)

GROUPED: Final = ("one_for_all", "rest_for_one")
"""The strategies under which a restart may affect more than one child."""


class SupervisorStep:
    """The next state, under construction. Its fields are those of `SupervisorState`."""

    # Not in `__dict__`, so that it has the fields of the state and nothing else.
    __slots__ = ("__dict__", "draw", "effects", "now")

    name: Hashable
    flags: SupervisorFlags
    phase: Literal["starting", "running", "stopping", "ended"]
    template: ChildSpec | None
    children: Table[Child]
    numbers: Index[Hashable, int]
    handles: Index[Hashable, int]
    stuck: Table[int]
    active: int
    open: int
    supervisors: int
    significant: int
    restarts: tuple[float, ...]
    attempts: int
    next_number: int
    sweep: Sweep | None
    starter: int | None
    exits: Table[int]
    pending: Table[SupervisorRequest]
    starts: Table[SupervisorRequest]
    places: int
    requests: Index[RequestId, int]
    ending: Ending | None
    summary: StopSummary | None
    dropped: int

    def __init__(self, state: SupervisorState, now: float, draw: float) -> None:
        vars(self).update(structs.asdict(state))
        self.now: float = now
        self.draw: float = draw
        self.effects: list[SupervisionEffect] = []

    def result(self) -> tuple[SupervisorState, tuple[SupervisionEffect, ...]]:
        """Return the next state and the effects."""
        return SupervisorState(**vars(self)), tuple(self.effects)

    # --- frequent queries

    @property
    def is_dynamic(self) -> bool:
        """Whether children are instances, identified by their handles."""
        return self.flags.strategy == "dynamic"

    @property
    def is_grouped(self) -> bool:
        """Whether a restart may affect more than one child, so that starts run one at a time."""
        return self.flags.strategy in GROUPED

    @property
    def is_sweeping(self) -> bool:
        """Whether children are being started or stopped in order. False for a waiting group."""
        return self.sweep is not None and self.sweep.course != "wait"

    @property
    def is_stopping(self) -> bool:
        """Whether a stop has begun or is over. No child is started after that."""
        return self.ending is not None

    def owner(self, token: Token) -> Child | None:
        """Return the child whose process has this token, or None."""
        child = self.children.get(token.child)
        return child if child is not None and child.attempt == token.attempt else None

    # --- children

    def add(self, child: Child) -> None:
        """Add a new child, whose number is `next_number`."""
        self.enrol(child)
        self.save(child)

    def enrol(self, child: Child) -> None:
        """Register the number and id of a new child. The caller starts it at once, which saves it."""
        self.next_number = child.number + 1
        if not self.is_dynamic:
            self.numbers = self.numbers.put(child.spec.id, child.number)

    def save(self, child: Child) -> None:
        """Save a changed child and update the counters."""
        number, phase = child.number, child.phase
        before = self.children.get(number)
        if before is not None:
            self._tally(before, -1)
        self._tally(child, +1)
        if phase is ChildPhase.STUCK:
            self.stuck = self.stuck.put(number, number)
        elif before is not None and before.phase is ChildPhase.STUCK:
            self.stuck = self.stuck.drop(number)
        if child.waiting and phase not in CHANGING:
            self._let_wait(child.waiting)
            child = structs.replace(child, waiting=())
        children = self.children
        self.children = children.add(number, child) if before is None else children.replace(number, child)

    def forget(self, child: Child) -> None:
        """Remove a child that has no process. Its number is never reused."""
        before = self.children.get(child.number)
        assert before is not None  # noqa: S101 - it is in the table until here
        self._tally(before, -1)
        if before.phase is ChildPhase.STUCK:
            self.stuck = self.stuck.drop(child.number)
        self.children = self.children.remove(child.number)
        if child.waiting:
            self._let_wait(child.waiting)
        self.numbers = self.numbers if self.is_dynamic else self.numbers.drop(child.spec.id)
        if child.handle is not None:
            self.handles = self.handles.drop(child.handle)

    def leave(self, child: Child) -> None:
        """Record that a child has no process and none pending. Keep its spec unless it is temporary."""
        if self.starter == child.number:
            self.starter = None
        if self.is_dynamic or child.spec.restart == "temporary" or child.fresh:
            self.forget(child)
            return
        self.save(
            structs.replace(
                child,
                phase=ChildPhase.IDLE,
                attempt=0,
                restarting=False,
                doomed=False,
                asked=None,
                exit_reason=None,
                starter=None,
                joined=(),
            )
        )

    def _tally(self, child: Child, by: int) -> None:
        phase = child.phase
        if phase in PROCESS:
            self.active += by
        if phase in OPEN:
            self.open += by
        if child.spec.kind == "supervisor":
            self.supervisors += by
        # A stopping child no longer counts as running, a child about to restart does.
        if child.spec.significant and (
            child.restarting or phase in (ChildPhase.STARTING, ChildPhase.RUNNING, ChildPhase.EXITED)
        ):
            self.significant += by

    # --- effects on children

    def start(self, child: Child) -> None:
        """Start an idle child."""
        self.save(self.begin(child))

    def begin(self, child: Child, handle: Hashable | None = None) -> Child:
        """Start an idle child and return it, not yet saved."""
        self.attempts += 1
        spec = self.template if child.from_template and self.template is not None else child.spec
        child = structs.replace(child, spec=spec, phase=ChildPhase.STARTING, attempt=self.attempts)
        self.effects.append(StartChild(child.token, spec, child.extra, child.incarnation + 1, handle))
        return child

    def cancel_start(self, child: Child, how: ShutdownTime) -> None:
        """Cancel a running start."""
        self.save(structs.replace(child, doomed=True, restarting=False, asked=how))
        self.effects.append(CancelStart(child.token, how))

    def stop(self, child: Child, how: ShutdownTime) -> None:
        """Stop a running child, or kill one that is stopping."""
        asked = how if child.asked is None else child.asked
        self.save(structs.replace(child, phase=ChildPhase.STOPPING, asked=asked))
        self.effects.append(StopChild(child.token, how))

    def schedule_retry(self, child: Child, delay_seconds: float) -> None:
        """Schedule a restart of a child."""
        self.attempts += 1
        self.save(structs.replace(child, retry=self.attempts))
        self.effects.append(ScheduleRetry(Token(child.number, self.attempts), delay_seconds))

    def cancel_retry(self, child: Child) -> Child:
        """Cancel the pending restart of a child, if any. Return the child, not yet saved."""
        if child.retry:
            self.effects.append(CancelRetry(Token(child.number, child.retry)))
        return structs.replace(child, retry=0, restarting=False)

    # --- reports and answers

    def report(
        self,
        kind: ReportKind,
        child: Child,
        reason: ExitReason | None = None,
        *,
        at_seconds: float | None = None,
    ) -> None:
        """Report an event to the observers."""
        report = Report(
            kind=kind,
            supervisor=self.name,
            child_id=child.spec.id,
            incarnation=child.incarnation,
            child_kind=child.spec.kind,
            restart=child.spec.restart,
            reason=reason,
            at_seconds=self.now if at_seconds is None else at_seconds,
        )
        if kind == "shutdown_error" and self.is_dynamic and self.ending is not None:
            self._merge(report, self.ending)
        else:
            self.effects.append(report)

    def _merge(self, report: Report, ending: Ending) -> None:
        """Keep an error of a dynamic stop until its end: ten thousand equal errors become one report."""
        key = (report.child_id, report.child_kind, report.restart, report.reason)
        known = ending.errors.get(key)
        if known is None:
            errors = ending.errors.put(key, (ending.distinct, report))
            self.ending = structs.replace(ending, errors=errors, distinct=ending.distinct + 1)
        else:
            place, first = known
            errors = ending.errors.put(key, (place, evolve(first, count=first.count + 1)))
            self.ending = structs.replace(ending, errors=errors)

    def answer(
        self,
        request_id: RequestId | None,
        outcome: Answered | SupervisorError | AlreadyStarted,
        *,
        started: Child | None = None,
    ) -> None:
        """Answer a pending request, unless its caller has left.

        If the answer is not taken, the child `started` for it is stopped again.
        """
        if request_id is not None and self.requests.get(request_id) is not None:
            self.requests = self.requests.drop(request_id)
            if started is None:
                self.effects.append(AnswerRequest(request_id, outcome))
            else:
                self.effects.append(AnswerRequest(request_id, outcome, started.number, started.fresh))

    # --- queues

    def _let_wait(self, requests: tuple[SupervisorRequest, ...]) -> None:
        for request in requests:
            self.pending = self.pending.put(self.place(), request)

    def place(self) -> int:
        """Return the next position in a queue."""
        self.places += 1
        return self.places
