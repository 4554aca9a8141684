"""One instance of a child, from the call of its start to its end: the wrapper in which a crash becomes data.

Nothing but a cancellation from outside leaves the wrapper. What a child raises ends in its exit reason, as text; a
`KeyboardInterrupt` or `SystemExit` is handed to the root of the tree, which stops in order and lets it go on.
"""

import math
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, Protocol

import trio

from agentrail.actors.handle import ActorCell, ActorHandle, ChildOwner, current_cell
from agentrail.actors.machine_loop import (
    UNASKED_SECONDS,
    MachineCell,
    MachineLoop,
    begin_machine,
    reason_of_raised,
)
from agentrail.actors.start import IGNORE, InitStop, Options, Start, is_up_when_begun, takes_task_status
from agentrail.errors import AlreadyRegistered, AlreadyStarted
from agentrail.otp.child_specs import Arguments, ChildSpec
from agentrail.otp.exits import (
    Crashed,
    ExitReason,
    InitFailed,
    Killed,
    Normal,
    Shutdown,
)
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
    """The cell of a worker. A stop cancels it."""

    __slots__ = ()

    def ask(self, reason: ExitReason) -> None:
        """Cancel it, once; its shields hold."""
        if self.stop_reason is None:
            self.stop_reason: ExitReason | None = reason
            self.scope.cancel(reason="asked to stop")

    def kill(self) -> None:
        """Cancel it and cut its shields."""
        self.cut()


def decide_handle(call: SupervisorCall, state: SupervisorState, owner: ChildOwner) -> ActorHandle | None:
    """Make the handle of what a call starts, if that is up as soon as its task is there; else `None`.

    So the call brings it along, and a start is one step of the reducer and not two.
    """
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
    """The supervisor, as an instance of a child sees it."""

    def child_begun(self, run: "ChildRun") -> None:
        """Hear that one begins that counted as up when it was started."""
        ...

    def child_up(self, run: "ChildRun", info: object) -> None:
        """Hear that it is up."""
        ...

    def interrupted(self, error: BaseException) -> None:
        """Take what is not to be caught, and let it leave the root in the end."""
        ...

    def redact(self, text: str, /) -> str:
        """Take secrets out of a text."""
        ...


class ChildRun:
    """One instance, as its supervisor keeps it.

    Attributes:
        reports_itself: It is a worker that says when it is up.
        stage: `ignored`: its start said that there is nothing to run.
        has_begun: Its task has come to what it is to live.
        held: What its caller is answered when it has begun.
        failing: Its start is being ended, and why; nothing that it says later makes it a success.
        is_asked: It is to stop, and its end is the answer to that.
        is_forced: Its time was over, and it was killed.
        is_stuck: It did not obey its kill, and that was reported.
        name_taken: Another actor has the name that it was to have; for the caller that asked for the start.
    """

    __slots__ = (
        "_call",
        "cell",
        "failing",
        "has_begun",
        "held",
        "is_asked",
        "is_forced",
        "is_stuck",
        "name_taken",
        "options",
        "reports_itself",
        "shutdown_seconds",
        "stage",
        "token",
        "watcher",
    )

    def __init__(self, wanted: StartChild, start: Start, cell: ActorCell, watcher: Watcher) -> None:
        """Keep what was asked for; the arguments only until they are used."""
        self.token: Token = wanted.token
        self.shutdown_seconds = wanted.spec.shutdown_seconds
        self.options: Options = start.options
        self.reports_itself: bool = (
            wanted.handle is None and start.form == "worker" and takes_task_status(start.function)
        )
        self._call: tuple[Callable[..., Any], Arguments, Arguments] | None = (
            start.function,
            start.arguments.copied(),
            wanted.extra.copied(),
        )
        self.cell: ActorCell = cell
        self.watcher: Watcher = watcher
        self.stage: Literal["starting", "up", "ignored"] = "starting" if wanted.handle is None else "up"
        self.has_begun: bool = False
        self.held: AnswerRequest | None = None
        self.failing: Literal["timeout", "cancelled"] | None = None
        self.is_asked: bool = False
        self.is_forced: bool = False
        self.is_stuck: bool = False
        self.name_taken: AlreadyStarted | None = None

    def call(self, **more: object) -> Any:
        """Call what starts it, once. No frame keeps the arguments afterwards but that of the child itself."""
        assert self._call is not None  # noqa: S101 - an instance is started once
        function, own, extra = self._call
        self._call = None
        return function(*own.positional, *extra.positional, **own.keyword, **extra.keyword, **more)

    def started(self, info: object = None) -> None:
        """Report the start; what a worker calls as `task_status.started`."""
        if self.stage != "starting" or self.failing is not None:
            return
        if info is IGNORE:
            self.stage = "ignored"
        else:
            self.stage = "up"
            self.watcher.child_up(self, info)

    def begin(self) -> None:
        """Be up, if it does not count as that already."""
        if self.stage == "up":
            self.watcher.child_begun(self)
        else:
            self.started()

    def end_reason(self, reason: ExitReason) -> ExitReason:
        """Say how it ended, where `reason` is what ended its task: before its start was over that is another matter."""
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
                return InitFailed("returned", cause=_returned_early(self.cell.id))
            case _:
                return InitFailed("stopped", cause=reason)


def _returned_early(child_id: Hashable) -> ExitReason:
    return Crashed.of_rule("ReturnedEarly", f"child {child_id!r} ended before it reported started")


async def run_instance(run: ChildRun) -> None:
    """Be the task of an instance."""
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
            except BaseException as error:  # noqa: ASYNC103, BLE001 - the actor's edge
                # Before the scope sees it, which takes groups apart by every path to every leaf.
                fault, cancelled = reason_of_raised(error, run.watcher.redact, run.watcher.interrupted)
            if cancelled is not None:
                try:
                    raise cancelled
                finally:
                    del cancelled
        if cell.scope.cancelled_caught:
            reason = _cancelled_reason(cell)
    except trio.Cancelled as passing:  # noqa: ASYNC103 - one of another day is a crash, all others go on
        if trio.current_effective_deadline() == -math.inf:
            cell.finish(run.end_reason(_cancelled_reason(cell)))
            raise
        # No scope is cancelled here: the exception was kept from another one.
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
        # Made and not raised, so that it keeps no frames.
        run.name_taken = AlreadyStarted(str(taken), handle=taken.handle)
        raise


def _life_of(run: ChildRun) -> Awaitable[Any]:
    """Begin what the instance is to live; a machine and a supervisor say themselves how they ended.

    Not a coroutine around another one: there are as many as there are children, and the collector walks them all.
    """
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
        seconds: How long it may take. `None`: when its supervisor stops the child, as long as the shutdown time leaves;
            when anything else ends it, five seconds, as `terminate` of a machine has.

    Cancellation: It ends when its time is over, and at once by a kill, which comes when the shutdown time is over.
    """
    cell = current_cell()
    with trio.CancelScope(
        shield=cell is not None or seconds is not None, deadline=_until(seconds, cell)
    ) as shield:
        # Outside of all actors no supervisor could kill it, so only a time makes it a shield.
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
        cell.cut()  # it had its time: what else there is to clean up has none


def _until(seconds: float | None, cell: ActorCell | None) -> float:
    if seconds is None:
        # The ladder of the supervisor has an end of its own; any other that ends an actor sets no time.
        seconds = math.inf if cell is None or cell.is_laddered else UNASKED_SECONDS
    return trio.current_time() + seconds
