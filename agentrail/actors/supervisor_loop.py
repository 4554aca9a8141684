"""The shell of one supervisor: carries out the decisions of its reducer and reports back. It makes no decisions."""

import faulthandler
import os
import sys
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import trio
from attrs import define, field, frozen
from msgspec import structs

from agentrail.actors.actor_handle import (
    LOGGER,
    ActorCell,
    ActorHandle,
    ChildOwner,
    cell_of,
    check_timeout,
    current_cell,
    late,
    log_bug,
    refuse_self,
)
from agentrail.actors.actor_types import Start, as_start
from agentrail.actors.address import Wait, forget_waiter
from agentrail.actors.child_run import ChildRun, WorkerCell, decide_handle, run_instance
from agentrail.actors.deadlines import Deadlines, Due, take_next
from agentrail.actors.machine_loop import MachineCell
from agentrail.actors.mailbox import Mailbox
from agentrail.actors.reply_slots import ReplyTo, down
from agentrail.errors import AlreadyRegistered, AlreadyStarted, ChildStartFailed, InternalError, NoMailbox
from agentrail.otp import supervision
from agentrail.otp.child_specs import ShutdownTime, Spec, SupervisorFlags
from agentrail.otp.exits import (
    ExitReason,
    InitFailed,
    Killed,
    Normal,
    Redact,
    Shutdown,
    Stuck,
    crash_of,
    describe,
    keep,
)
from agentrail.otp.guarded_calls import call_guarded, show
from agentrail.otp.statem import Call, Cast, Info
from agentrail.otp.supervision_state import Child, ChildPhase, SupervisorState, is_to_restart
from agentrail.otp.supervision_types import (
    NO_CALLER,
    AnswerRequest,
    AnswerUntaken,
    CancelRetry,
    CancelStart,
    Culprit,
    EndSupervisor,
    InstanceExited,
    InstanceIgnored,
    InstanceStarted,
    InstanceStartFailed as StartFailed,
    InstanceStopped,
    InstanceStuck,
    Report,
    RequestCancelled,
    RequestId,
    RetryDue,
    ScheduleRetry,
    StartChild,
    StopChild,
    StopRequested,
    StopSummary,
    SupervisionEffect,
    SupervisionSignal,
    SupervisorRequest,
    Token,
)
from agentrail.otp.tracebacks import print_exception
from agentrail.outside import Watchdog, jitter, watchdog

_QUIET: Final = frozenset({"progress"})
_ENDS: Final = frozenset({"child_terminated", "shutdown_error", "start_error"})
"""Each crash has one of these. A machine also reports it as `crash`."""
_NAME_TAKEN: Final = f"{AlreadyRegistered.__module__}.{AlreadyRegistered.__qualname__}"
_EFFECTS_IN_ONE_GO: Final = 16
ANY_CHILD: Final = -1
"""In place of the number of a child: each step may matter, as another child may take a name."""

Observer: TypeAlias = Callable[[Report], None]
Deadline: TypeAlias = tuple[Literal["start", "kill", "stuck", "retry", "limit"], Token | None]


class _Forced:
    """A control message: a caller outside requests the end and waits only for a limited time."""


class SupervisorCell(ActorCell):
    __slots__ = ("core",)

    def __init__(
        self,
        child_id: Hashable,
        incarnation: int,
        owner: ChildOwner | None = None,
        token: Token | None = None,
    ) -> None:
        super().__init__(child_id, incarnation, owner, token, new_inbox())
        self.core: Core | None = None

    def ask(self, reason: ExitReason) -> None:
        if self.stop_reason is None:
            self.stop_reason: ExitReason | None = reason
        if self.core is None:  # it is still determining its children
            self.scope.cancel(reason="the start was cancelled")
        else:
            self.core.order(reason)

    def kill(self) -> None:
        self.killed = True
        if self.core is None:
            self.cut()
        else:
            self.core.order(Killed())

    def finish(self, reason: ExitReason) -> None:
        if self.core is not None:
            self.core.say_farewell()
        super().finish(reason)

    def receive_exit(self, reason: ExitReason, sender: ActorHandle | None) -> None:
        """Ignore it: only its parent and its owner end a supervisor."""
        if self.exit_reason is None and self.core is not None:
            self.core.report_own("ignored_exit", reason)

    def refuse_messages(self) -> NoMailbox:
        message = f"{show(self.id)} is a supervisor: call its methods"
        return NoMailbox(message)


@define(eq=False)
class Tree:
    make_handle: Callable[[SupervisorCell], ActorHandle]
    observer: Observer | None = None
    redact: Redact = keep
    interrupt: Callable[[BaseException], None] = field(default=lambda _: None)

    def report(self, report: Report) -> None:
        if self.observer is not None:
            call_guarded(self._drop_observer, self.observer, report)
        else:
            log_report(report)

    def _drop_observer(self, error: BaseException) -> None:
        self.observer = None
        LOGGER.error(
            "a report observer raised and was removed; reports now go to this log",
            exception=print_exception(error),
        )


def log_report(report: Report) -> None:
    crashed = crash_of(report.reason) if report.kind in _ENDS else None
    if crashed is not None and crashed.type != _NAME_TAKEN:
        LOGGER.error(
            "%s: child %s of %s: %s",
            report.kind,
            show(report.child_id),
            show(report.supervisor),
            describe(report.reason or crashed),
            exception=crashed.traceback,
        )
        return
    is_quiet = report.kind in _QUIET
    if is_quiet and not LOGGER.hears_debug():
        return
    tell = LOGGER.debug if is_quiet else LOGGER.warning
    reason = "" if report.reason is None else describe(report.reason)
    tell("%s: child %s of %s: %s", report.kind, show(report.child_id), show(report.supervisor), reason)


class Core:
    def __init__(
        self,
        cell: SupervisorCell,
        tree: Tree,
        flags: SupervisorFlags,
        specs: Iterable[Spec],
        *,
        watchdog_seconds: float | None = None,
    ) -> None:
        self.cell = cell
        cell.core = self
        self.tree = tree
        self.runs: dict[Token, ChildRun] = {}
        self.end: ExitReason | None = None
        self.culprit: Culprit | None = None
        self.up_at_seconds: float | None = None
        self.steps: int = 0
        # By child: with ten thousand observed children, each step would otherwise call ten thousand observers.
        self._on_child: dict[int, dict[object, Callable[[], None]]] = {}
        self.mailbox: Mailbox[object] = cell.mailbox or new_inbox()
        self._deadlines: Deadlines[Deadline] = Deadlines()
        self._requests: dict[RequestId, ReplyTo] = {}
        # The request of each is among those above. Otherwise its `RequestCancelled` is on its way.
        self._held: dict[RequestId, AnswerRequest] = {}
        self._request_number = 0
        self._untaken: list[AnswerRequest] = []
        self._farewells: list[tuple[ReplyTo, StopSummary]] = []
        self._nursery: trio.Nursery | None = None
        self._name_taken: AlreadyStarted | None = None
        self._watchdog_seconds = watchdog_seconds
        self._watchdog: Watchdog | None = None
        self.state: SupervisorState
        self.state, self._first = supervision.begin_supervisor(
            cell.id, flags, specs, at_seconds=trio.current_time()
        )

    # --- the loop

    async def run(self, on_up: Callable[[], None]) -> ExitReason:
        """Serve until the supervisor has ended with all its children, and return its exit reason.

        Cancellation: Its runner shields it: a supervisor ends by `StopRequested`, in order.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            first, self._first = self._first, ()
            await self._carry_out_all(first)
            while True:
                if self.up_at_seconds is None and self.state.phase == "running":
                    self.up_at_seconds = trio.current_time()
                    on_up()
                if self.state.phase == "ended" and not self.runs:
                    break
                await self._take_one()
        if self._watchdog is not None:
            self._watchdog.cancel()
        return self.end or Shutdown()

    async def _take_one(self) -> None:
        item = await take_next(self.mailbox, self._deadlines)
        if isinstance(item, RetryDue):  # a child that fails at once must not starve the others
            await trio.lowlevel.checkpoint()
        if isinstance(item, SupervisorRequest):
            handle = decide_handle(item.call, self.state, self)
            await self._step(item if handle is None else structs.replace(item, handle=handle))
        elif isinstance(item, RequestCancelled):
            held = self._held.pop(item.request_id, None)
            await self._step(item if held is None else self._untaken_of(held))
        elif isinstance(item, SupervisionSignal):
            await self._step(item)
        elif isinstance(item, Due):
            await self._on_deadline(*item.key)
        elif isinstance(item, _FailedStart):
            self._name_taken = item.name_taken
            await self._step(item.signal)
            self._name_taken = None
        elif isinstance(item, _Forced):
            self._deadlines.arm(("limit", None), trio.current_time() + self.state.flags.stop_within_seconds)
            await self._step(self._make(StopRequested, reason=Shutdown()))
        elif isinstance(item, Call):
            if isinstance(item.to, ReplyTo):
                item.to.fail(self.cell.refuse_messages())
        elif isinstance(item, Cast | Info):
            self.report_own("unknown_message")

    async def _step(self, signal: SupervisionSignal) -> None:
        await self._step_once(signal)
        while self._untaken:  # before any other message, so that no caller sees a start that is undone
            await self._step_once(self._untaken_of(self._untaken.pop()))

    def _untaken_of(self, answer: AnswerRequest) -> SupervisionSignal:
        return self._make(AnswerUntaken, child=answer.child, is_new=answer.is_new)

    async def _step_once(self, signal: SupervisionSignal) -> None:
        self.steps += 1
        before = self.state
        self.state, effects = call_guarded(
            partial(self._put_aside, signal), supervision.step_supervisor, self.state, signal
        )
        if self._watchdog_seconds is not None and self._watchdog is None and self.state.ending is not None:
            self._watchdog = watchdog(self._watchdog_seconds, _end_process)
        if len(effects) < _EFFECTS_IN_ONE_GO:
            for effect in effects:
                self._carry_out(effect)
        else:
            await self._carry_out_all(effects)
        if self._on_child:
            self._tell_observers(before, self.state)

    def _tell_observers(self, before: SupervisorState, now: SupervisorState) -> None:
        is_alike = _fate_of_all(before) == _fate_of_all(now)
        numbers = (ANY_CHILD, *now.children.changed_since(before.children)) if is_alike else [*self._on_child]
        for look in [look for one in numbers for look in self._on_child.get(one, {}).values()]:
            call_guarded(log_bug, look)

    def _put_aside(
        self, signal: SupervisionSignal, error: BaseException
    ) -> tuple[SupervisorState, tuple[SupervisionEffect, ...]]:
        """Limit a bug in the reducer to one call: the state stays. A message from a child cannot be refused."""
        kind = type(signal).__name__
        LOGGER.error(
            "supervisor %r failed to handle a %s, which is a bug; please report it",
            self.cell.id,
            kind,
            exception=print_exception(error),
        )
        if not isinstance(signal, SupervisorRequest):
            raise error
        to = self._requests.pop(signal.request_id, None)
        if to is not None:
            kind = type(signal.call).__name__
            message = (
                f"a {kind} crashed the supervisor's core and was skipped ({show(error)}); please report it"
            )
            to.fail(InternalError(message))
        return self.state, ()

    def _make(self, kind: Callable[..., SupervisionSignal], **fields: Any) -> SupervisionSignal:
        return kind(**fields, at_seconds=trio.current_time(), draw=jitter())

    def order(self, reason: ExitReason) -> None:
        self.mailbox.put_control(self._make(StopRequested, reason=reason))

    def tell(self, kind: Callable[..., SupervisionSignal], **fields: Any) -> None:
        self.mailbox.put_notice(self._make(kind, **fields))

    def force_stop(self) -> None:
        self.mailbox.put_control(_Forced())

    # --- effects

    async def _carry_out_all(self, effects: tuple[SupervisionEffect, ...]) -> None:
        for number, effect in enumerate(effects, start=1):
            self._carry_out(effect)
            # A dynamic supervisor stops all children at once. Ten thousand cancellations without a checkpoint would block the
            # scheduler and keep all their exceptions and frames alive together. With checkpoints, children end in between.
            if number % _EFFECTS_IN_ONE_GO == 0:
                await trio.lowlevel.cancel_shielded_checkpoint()

    def _carry_out(self, effect: SupervisionEffect) -> None:
        match effect:
            case StartChild():
                self._start(effect)
            case CancelStart(token, how):
                self._cancel_start(token, how)
            case StopChild(token, how):
                self._stop(token, how)
            case ScheduleRetry(token, delay_seconds):
                if delay_seconds:
                    self._deadlines.arm(("retry", token), trio.current_time() + delay_seconds)
                else:
                    self.mailbox.put_notice(self._make(RetryDue, token=token))
            case CancelRetry(token):
                self._deadlines.disarm(("retry", token))
            case AnswerRequest():
                self._answer(effect)
            case Report():
                self.tree.report(effect)
            case EndSupervisor(reason, stuck, culprit):
                self.end, self.culprit = reason, culprit
                if stuck and self.cell.owner is not None:
                    self.cell.owner.child_stuck(self.cell)

    def _start(self, wanted: StartChild) -> None:
        start = as_start(wanted.spec.start)
        if isinstance(wanted.handle, ActorHandle):  # created when the call was received, by `decide_handle`
            cell = cell_of(wanted.handle)
            cell.token = wanted.token
        else:
            cell = self._make_cell(wanted, start)
        run = self.runs[wanted.token] = ChildRun(wanted, start, cell, self)
        limit = wanted.spec.start_timeout_seconds
        # A worker that does not report itself is up before its first step, so there is no start to limit.
        if limit != "infinity" and (run.reports_itself or start.form != "worker"):
            self._deadlines.arm(("start", wanted.token), trio.current_time() + limit)
        assert self._nursery is not None  # noqa: S101 - effects are carried out by the loop
        name = f"child {show(wanted.spec.id)} #{wanted.incarnation}"
        self._nursery.start_soon(run_instance, run, name=name)

    def _make_cell(self, wanted: StartChild, start: Start) -> ActorCell:
        who = (wanted.spec.id, wanted.incarnation, self, wanted.token)
        match start.form:
            case "machine":
                return MachineCell(*who, options=start.options)
            case "subtree":
                supervisor = SupervisorCell(*who)
                supervisor.handle = self.tree.make_handle(supervisor)
                return supervisor
            case "worker":
                return WorkerCell(*who)

    def _answer(self, answer: AnswerRequest) -> None:
        to = self._requests.pop(answer.request_id, None)
        if to is None or not to.is_open:  # the caller gave up in the instant of the decision
            if answer.child is not None:
                self._untaken.append(answer)
            return
        child = None if answer.child is None else self.state.children.get(answer.child)
        run = None if child is None else self.runs.get(child.token)
        if run is not None and not run.has_begun:
            self._requests[answer.request_id] = to
            run.held = self._held[answer.request_id] = answer
            return
        outcome = answer.outcome
        if isinstance(outcome, StopSummary) and not outcome.stuck:
            self._farewells.append((to, outcome))  # answered when it is down
            return
        if isinstance(outcome, ChildStartFailed) and self._name_taken is not None:
            # A new one for each caller: an error that is raised twice collects the frames of both.
            outcome = AlreadyStarted(str(self._name_taken), handle=self._name_taken.handle)
        if isinstance(outcome, Exception):
            to.fail(outcome)
        else:
            to.reply(outcome)

    def say_farewell(self) -> None:
        farewells, self._farewells = self._farewells, []
        for to, summary in farewells:
            to.reply(summary)

    # --- the ladder

    def _cancel_start(self, token: Token, how: ShutdownTime) -> None:
        run = self.runs.get(token)
        if run is None or run.stage == "up":
            return
        self._deadlines.disarm(("start", token))
        run.failing = run.failing or "cancelled"
        self._climb(run, how)

    def _stop(self, token: Token, how: ShutdownTime) -> None:
        run = self.runs.get(token)
        if run is not None:  # otherwise its end is on its way, and that is the answer
            run.is_asked = True
            self._climb(run, how)

    def _climb(self, run: ChildRun, how: ShutdownTime) -> None:
        run.cell.is_laddered = True
        if how == "brutal_kill":
            self._kill(run)
            return
        run.cell.ask(Shutdown())
        if how != "infinity":
            self._deadlines.arm(("kill", run.token), trio.current_time() + how)

    def _kill(self, run: ChildRun) -> None:
        self._deadlines.disarm(("kill", run.token))
        run.cell.kill()
        # A supervisor itself reports its stuck children, except while it is still determining its children.
        if not isinstance(run.cell, SupervisorCell) or run.cell.core is None:
            due_seconds = trio.current_time() + self.state.flags.stuck_after_seconds
            self._deadlines.arm(("stuck", run.token), due_seconds)

    async def _on_deadline(self, kind: str, token: Token | None) -> None:
        if token is None:
            await self._step(self._make(StopRequested, reason=Killed()))
            return
        if kind == "retry":
            await self._step(self._make(RetryDue, token=token))
            return
        run = self.runs.get(token)
        if run is None:
            return
        if kind == "start":
            run.failing = "timeout"
            self._climb(run, run.shutdown_seconds)
        elif kind == "kill":
            run.is_forced = True
            self._kill(run)
        else:
            self.child_stuck(run.cell)

    # --- messages from children

    def child_begun(self, run: ChildRun) -> None:
        """Handle a child that was up and now starts running, or never will. Its starter continues after its first step."""
        held, run.held = run.held, None
        to = None if held is None else self._requests.get(held.request_id)
        # If it is closed, its `RequestCancelled` finds the held answer.
        if held is not None and to is not None and to.is_open:
            del self._held[held.request_id], self._requests[held.request_id]
            to.reply(held.outcome)

    def child_up(self, run: ChildRun, info: object) -> None:
        self._deadlines.disarm(("start", run.token))
        self.tell(InstanceStarted, token=run.token, handle=run.cell.handle, info=info)

    def child_stuck(self, cell: ActorCell) -> None:
        run = None if cell.token is None else self.runs.get(cell.token)
        if run is None or run.is_stuck:
            return
        run.is_stuck = True
        stuck = Stuck(self.state.flags.stuck_after_seconds)
        # A supervisor continues to serve until the stuck children below it end.
        if not isinstance(cell, SupervisorCell) or cell.core is None:
            cell.give_up(stuck)
        if run.stage == "up":
            self.tell(InstanceStuck, token=run.token)
        else:
            self.tell(
                StartFailed, token=run.token, reason=InitFailed(run.failing or "cancelled", cause=stuck)
            )

    def child_ended(self, cell: ActorCell, reason: ExitReason) -> None:
        token = cell.token
        run = None if token is None else self.runs.pop(token, None)
        if run is None or token is None:
            return
        for kind in ("start", "kill", "stuck"):
            self._deadlines.disarm((kind, token))
        self.child_begun(run)
        if run.stage == "up":
            if run.is_asked and not run.is_stuck:
                self.tell(InstanceStopped, token=token, reason=reason, forced=run.is_forced)
            else:
                self.tell(InstanceExited, token=token, reason=reason)
        elif run.is_stuck:
            self.tell(InstanceExited, token=token, reason=reason)
        elif isinstance(reason, Normal):
            self.tell(InstanceIgnored, token=token)
        else:
            self.mailbox.put_notice(
                _FailedStart(self._make(StartFailed, token=token, reason=reason), run.name_taken)
            )

    def interrupted(self, error: BaseException) -> None:
        self.tree.interrupt(error)

    # --- reports

    def report(self, report: Report) -> None:
        self.tree.report(report)

    def report_own(self, kind: Any, reason: ExitReason | None = None) -> None:
        self.tree.report(
            Report(kind=kind, supervisor=self.cell.id, reason=reason, at_seconds=trio.current_time())
        )

    def redact(self, text: str) -> str:
        return self.tree.redact(text)

    # --- callers

    async def ask(self, call: Any, *, timeout_seconds: float | None = None, what: str = "call") -> Any:
        """Send a call to the reducer and wait for the answer.

        Cancellation: Always a checkpoint. The reducer is notified: a start is undone, a stop continues.
        """
        check_timeout(timeout_seconds)
        refuse_self(self.cell, what)
        if self.cell.exit_reason is not None:
            await trio.lowlevel.checkpoint()
            raise down(self.cell.handle)
        self._request_number += 1
        request_id = RequestId(self._request_number)
        to = self._requests[request_id] = ReplyTo(self.cell, self.cell.handle)
        self.post(call, request_id)
        try:
            if timeout_seconds is None:  # the usual case: a scope costs more than the rest of this function
                return await to.wait()
            with trio.fail_after(timeout_seconds):
                return await to.wait()
        except trio.TooSlowError:
            raise late(self.cell.handle, what, timeout_seconds) from None
        finally:
            if self._requests.pop(request_id, None) is not None:
                # A finished start is undone before any other message, as if its caller had already been gone.
                put = self.mailbox.put_control if request_id in self._held else self.mailbox.put_notice
                put(self._make(RequestCancelled, request_id=request_id))

    def post(self, call: Any, request_id: RequestId = NO_CALLER) -> None:
        path = self._caller_path()
        self.mailbox.put_nowait(
            self._make(SupervisorRequest, request_id=request_id, caller_path=path, call=call)
        )

    def _caller_path(self) -> tuple[Token, ...]:
        path: list[Token] = []
        cell = current_cell()
        while cell is not None and cell.owner is not None and cell.token is not None:
            path.append(cell.token)
            if cell.owner is self:
                return tuple(reversed(path))
            cell = cell.owner.cell
        return ()

    # --- queries

    def child_of(self, child_id: Hashable) -> Child | None:
        number = self.state.numbers.get(child_id)
        return None if number is None else self.state.children.get(number)

    def comes_back(self, number: int) -> bool:
        """Return whether another instance of a child exists or will: it is starting, or its end restarts it."""
        child = self.state.children.get(number)
        if child is None or self.state.ending is not None:
            return False
        sweep = self.state.sweep
        return (
            (sweep is not None and number >= sweep.low)  # its group is being restarted
            or child.restarting
            or child.phase is ChildPhase.STARTING
            or child.phase is ChildPhase.RUNNING  # its end may not have been read yet
            or (child.phase is ChildPhase.EXITED and is_to_restart(child))
        )

    def observe(self, number: int, key: object, look: Callable[[], None] | None) -> None:
        """Call `look` after each step that may have changed a child. `None` ends that."""
        if look is not None:
            self._on_child.setdefault(number, {})[key] = look
        else:
            forget_waiter(self._on_child, number, key)

    def wait_for_child(self, number: int) -> Wait:
        return Wait(partial(self.observe, number), partial(self.observe, number, look=None))


@frozen(eq=False)
class _FailedStart:
    signal: SupervisionSignal
    name_taken: AlreadyStarted | None


def _fate_of_all(state: SupervisorState) -> tuple[bool, int | None]:
    """Return the part of a state that decides about the return of children, apart from their own. See `Core.comes_back`."""
    return state.ending is not None, None if state.sweep is None else state.sweep.low


def new_inbox() -> Mailbox[object]:
    """Create the mailbox of a supervisor: unbounded, because each entry has a waiting caller."""
    return Mailbox(capacity=sys.maxsize)


def _end_process() -> None:
    try:  # if stderr was removed or has no descriptor, only the dump is lost
        faulthandler.dump_traceback(all_threads=True)
    finally:
        os._exit(70)
