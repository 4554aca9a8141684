"""One instance of a child, from its start to its end: the wrapper that turns a crash into data."""

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, Protocol

import trio
from attrs import define

from agentrail.actors.actor_handle import ActorCell, ActorHandle, ChildOwner, current_cell
from agentrail.actors.actor_types import IGNORE, InitStop, Options, Start, is_up_when_begun, takes_task_status
from agentrail.actors.machine_loop import (
    UNASKED_SECONDS,
    MachineCell,
    MachineLoop,
    begin_machine,
    reason_of_raised,
)
from agentrail.errors import AlreadyRegistered, AlreadyStarted
from agentrail.otp.child_specs import Arguments, ChildSpec, ShutdownTime
from agentrail.otp.exits import (
    Crashed,
    ExitReason,
    InitFailed,
    Killed,
    Normal,
    Shutdown,
)
from agentrail.otp.guarded_calls import show
from agentrail.otp.supervision_state import SupervisorState
from agentrail.otp.supervision_step import GROUPED
from agentrail.otp.supervision_types import (
    AnswerRequest,
    StartChild,
    StartChildCall,
    StartInstanceCall,
    SupervisorCall,
    Token,
)

_NORMAL: Final = Normal()


class WorkerCell(ActorCell):
    __slots__ = ()

    def ask(self, reason: ExitReason) -> None:
        if self.stop_reason is None:
            self.stop_reason: ExitReason | None = reason
            self.scope.cancel(reason="asked to stop")

    def kill(self) -> None:
        self.cut()


def decide_handle(call: SupervisorCall, state: SupervisorState, owner: ChildOwner) -> ActorHandle | None:
    """Return the handle for a call that starts a child which is up as soon as its task exists; otherwise `None`."""
    if isinstance(call, StartChildCall):
        spec: object = call.spec
    elif isinstance(call, StartInstanceCall):
        spec = state.template
    else:
        return None
    if state.flags.strategy in GROUPED or not isinstance(spec, ChildSpec) or not is_up_when_begun(spec.start):
        return None
    return WorkerCell(spec.id, 1, owner, None).handle


class Watcher(Protocol):
    def child_begun(self, run: "ChildRun") -> None: ...

    def child_up(self, run: "ChildRun", info: object) -> None: ...

    def interrupted(self, error: BaseException) -> None:
        """Take an exception that must not be caught. The root raises it in the end."""
        ...

    def redact(self, text: str, /) -> str: ...


@define(eq=False, repr=False, init=False, weakref_slot=False)
class ChildRun:
    token: Token
    shutdown_seconds: ShutdownTime
    options: Options
    reports_itself: bool
    _call: tuple[Callable[..., Any], Arguments, Arguments] | None
    cell: ActorCell
    watcher: Watcher
    stage: Literal["starting", "up", "ignored"]
    has_begun: bool = False
    held: AnswerRequest | None = None
    failing: Literal["timeout", "cancelled"] | None = None
    is_asked: bool = False
    is_forced: bool = False
    is_stuck: bool = False
    name_taken: AlreadyStarted | None = None

    def __init__(self, wanted: StartChild, start: Start, cell: ActorCell, watcher: Watcher) -> None:
        is_new = wanted.handle is None
        self.__attrs_init__(
            token=wanted.token,
            shutdown_seconds=wanted.spec.shutdown_seconds,
            options=start.options,
            reports_itself=is_new and start.form == "worker" and takes_task_status(start.function),
            call=(start.function, start.arguments.copied(), wanted.extra.copied()),
            cell=cell,
            watcher=watcher,
            stage="starting" if is_new else "up",
        )

    def call(self, **more: object) -> Any:
        assert self._call is not None  # noqa: S101 - an instance is started once
        function, own, extra = self._call
        self._call = None
        return function(*own.positional, *extra.positional, **own.keyword, **extra.keyword, **more)

    def started(self, info: object = None) -> None:
        if self.stage != "starting" or self.failing is not None:
            return
        if info is IGNORE:
            self.stage = "ignored"
        else:
            self.stage = "up"
            self.watcher.child_up(self, info)

    def begin(self) -> None:
        if self.stage == "up":
            self.watcher.child_begun(self)
        else:
            self.started()

    def end_reason(self, reason: ExitReason) -> ExitReason:
        """Return the exit reason; `reason` ended its task. During its start the outcome differs."""
        if self.stage == "up":
            return reason
        if self.stage == "ignored" and self.failing is None:
            return Normal()
        match reason:
            case InitFailed():
                return reason
            case _ if self.failing is not None:
                return InitFailed(self.failing)
            case Crashed():
                return InitFailed("raised", cause=reason)
            case Normal() if self.cell.stop_reason is None:
                text = f"child {show(self.cell.id)} ended before it reported started"
                return InitFailed("returned", cause=Crashed.of_rule("ReturnedEarly", text))
            case _:
                return InitFailed("stopped", cause=reason)


async def run_instance(run: ChildRun) -> None:
    cell = run.cell
    cell.enter()
    reason: ExitReason = _NORMAL
    fault: ExitReason | None = None
    try:
        with cell.scope:
            cancelled: trio.Cancelled | None = None
            try:
                await trio.lowlevel.checkpoint_if_cancelled()
                _take_name(run)
                result = await _life_of(run)
                reason = _NORMAL if isinstance(cell, WorkerCell) else result
            except trio.Cancelled:
                raise
            except BaseException as error:  # noqa: ASYNC103, BLE001 - the edge of the actor
                # Before the scope sees it, which splits groups along every path to every leaf.
                fault, cancelled = reason_of_raised(error, run.watcher.redact, run.watcher.interrupted)
            if cancelled is not None:
                try:
                    raise cancelled
                finally:
                    del cancelled
        if cell.scope.cancelled_caught:
            reason = _cancelled_reason(cell)
    except trio.Cancelled as passing:  # noqa: ASYNC103 - a foreign cancellation is a crash, all others pass
        if trio.current_effective_deadline() == -math.inf:
            cell.finish(run.end_reason(_cancelled_reason(cell)))
            raise
        # No scope is cancelled here: the exception was kept from another scope.
        fault = fault or Crashed.from_exception(passing, redact=run.watcher.redact)
    cell.finish(run.end_reason(fault or reason))


def _cancelled_reason(cell: ActorCell) -> ExitReason:
    return Killed() if cell.killed else cell.stop_reason or Shutdown()


def _take_name(run: ChildRun) -> None:
    name = run.options.name
    if name is None:
        return
    try:
        name.register(run.cell.handle)
    except AlreadyRegistered as taken:
        # Created without raising, so that it keeps no frames.
        run.name_taken = AlreadyStarted(str(taken), handle=taken.handle)
        raise


def _life_of(run: ChildRun) -> Awaitable[Any]:
    """Return the awaitable for the life of an instance. A machine and a supervisor return their own exit reason."""
    cell = run.cell
    run.has_begun = True
    if run.options.prepare is not None:
        run.options.prepare(cell)
    if isinstance(cell, MachineCell):
        return _live_as_machine(run, cell)
    life: Awaitable[Any]
    if run.reports_itself or not isinstance(cell, WorkerCell):
        life = run.call(task_status=run)
    else:
        run.begin()
        life = run.call()
    return life


async def _live_as_machine(run: ChildRun, cell: MachineCell) -> ExitReason:
    loop = await begin_machine(cell, run.call(), run.options)
    if not isinstance(loop, MachineLoop):
        if isinstance(loop, InitStop):
            return InitFailed("stopped", cause=loop.reason)
        run.started(IGNORE)
        return Normal()
    run.started(loop.take_info())
    reason = await loop.run()
    if cell.mailbox is not None:
        cell.mailbox.shut(reason)
    seconds = run.shutdown_seconds
    reason = await loop.terminate(reason, seconds if isinstance(seconds, int | float) else UNASKED_SECONDS)
    loop.report_crash(reason)
    return reason


@contextmanager
def cleanup_scope(seconds: float | None = None) -> Iterator[trio.CancelScope]:
    """Shield the clean-up of a worker, in `finally`: a stop does not cut it, a kill does.

    Args:
        seconds: Time limit. `None`: the remaining shutdown time if its supervisor stops the child. Otherwise five seconds,
            like `terminate` of a machine.

    Cancellation: Ends when its time is over, and at once by a kill, which follows at the end of the shutdown time.
    """
    cell = current_cell()
    with trio.CancelScope(
        shield=cell is not None or seconds is not None, deadline=_until(seconds, cell)
    ) as shield:
        # Outside of an actor no supervisor could kill it, so only a time limit makes it a shield.
        if cell is None:
            yield shield
            return
        if cell.killed:
            shield.deadline = -math.inf
        cell.add_shield(shield)
        try:
            yield shield
        finally:
            cell.drop_shield(shield)
    if cell is not None and cell.stop_reason is not None and seconds is None and shield.cancelled_caught:
        cell.cut()  # its time is used up: further clean-up gets none


def _until(seconds: float | None, cell: ActorCell | None) -> float:
    if seconds is None:
        # The shutdown ladder of the supervisor has its own limit. No other end of an actor sets one.
        seconds = math.inf if cell is None or cell.is_laddered else UNASKED_SECONDS
    return trio.current_time() + seconds
