"""Supervisors: they start children in order, start them again when they crash, and stop them in reverse order.

The decisions are those of `agentrail.otp.supervision`; `supervising` carries them out, here are the doors. In Trio a
crash cancels the siblings and travels up, under a supervisor it is a message, and what follows is a decision.
"""

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, cast

import trio
from attrs import evolve, frozen

from agentrail.actors.address import Address, Found, is_open
from agentrail.actors.handle import ActorHandle, cell_of, current_cell
from agentrail.actors.monitor import monitor_started
from agentrail.actors.replies import down
from agentrail.actors.start import Ignore, Start
from agentrail.actors.supervising import Core, Observer, SupervisorCell, Tree
from agentrail.actors.tasks import Task, TaskHandle, TaskResult, run_task
from agentrail.errors import (
    AlreadyRegistered,
    AlreadyStarted,
    ChildNotFound,
    InvalidSpec,
    NoPartitions,
    SupervisorGaveUp,
    SupervisorStartFailed,
    WrongChildKey,
)
from agentrail.otp.child_specs import (
    Arguments,
    ChildSpec,
    Spec,
    StartFunction,
    SupervisorFlags,
    check_child_specs,
)
from agentrail.otp.exits import ExitReason, InitFailed, Killed, Normal, Redact, Shutdown, describe, keep
from agentrail.otp.supervision_sweeps import GAVE_UP
from agentrail.otp.supervision_types import (
    ByHandle,
    ById,
    ChildCounts,
    ChildInfo,
    ChildKey,
    CountChildrenCall,
    DeleteChildCall,
    GetChildSpecCall,
    ReconfigureCall,
    Report,
    RestartChildCall,
    StartChildCall,
    Started,
    StartInstanceCall,
    StopCall,
    StopSummary,
    TerminateChildCall,
    WhichChildrenCall,
)

__all__ = [
    "ChildCounts",
    "ChildInfo",
    "Partitions",
    "Report",
    "Started",
    "StopSummary",
    "Supervisor",
    "SupervisorGaveUp",
    "SupervisorInit",
    "SupervisorStartFailed",
    "TaskHandle",
    "TaskResult",
    "open_partitions",
    "open_supervisor",
    "subtree",
]


class Supervisor(ActorHandle):
    """A supervisor. Its children belong to it: none outlives it."""

    __slots__ = ()

    @property
    def _core(self) -> Core:
        cell = cell_of(self)
        if not isinstance(cell, SupervisorCell) or cell.core is None:
            raise down(self)
        return cell.core

    async def start_child(self, spec: Spec, *, monitor: bool = False) -> Started:
        """Add a child behind the others and start it; return when it is up.

        Args:
            spec: A child spec, or a mapping with the same keys.
            monitor: Watch it from its start, without a gap; `Started.monitor` is the monitor.

        Raises:
            AlreadyStarted: Your move: a child of this id runs, or its name is taken; `handle` says by whom.
            AlreadyPresent: Your move: the id has a spec without a process.
            ChildStuck: The last instance has not ended yet.
            ChildStartFailed: It did not start; `reason` says why. The spec is not kept.
            InvalidSpec: Your move: the spec.
            TooManyChildren: Your move: there are as many as are allowed.
            WouldDeadlock: Your move: the caller is itself being started or stopped.
            SupervisorStopping: It has begun to stop.
            ActorDown: It has ended.

        Cancellation: Always a checkpoint; cancelled here neither child nor spec stays.
        """
        return self._started(await self._core.ask(StartChildCall(spec)), monitor=monitor)

    async def start_instance(self, *args: object, **kwargs: object) -> Started:
        """Start an instance of the template of a dynamic supervisor, with these arguments behind its own.

        Raises:
            InvalidSpec: Your move: it is not dynamic.
            ChildStartFailed: It did not start.
            TooManyChildren: Your move: there are as many as are allowed.
            SupervisorStopping: It has begun to stop.
            ActorDown: It has ended.

        Cancellation: Always a checkpoint; cancelled here no instance stays.
        """
        return self._started(await self._core.ask(StartInstanceCall(Arguments(args, kwargs))), monitor=False)

    async def start_task(
        self,
        function: Callable[..., Awaitable[object]],
        /,
        *args: object,
        linked_to: ActorHandle | None = None,
        report_to: ActorHandle | None = None,
    ) -> TaskHandle:
        """Run a function as a temporary child of a dynamic supervisor.

        Args:
            function: An async function.
            *args: For it.
            linked_to: An actor that ends with it, should it crash; and the other way round.
            report_to: An actor that gets `Info(TaskResult(…))`, and then its `Down`.

        Raises:
            NoMailbox: Your move: `report_to` is a worker.
            Exception: As of `start_child`.

        Cancellation: Always a checkpoint; cancelled here no task stays.
        """
        task = Task(linked_to, report_to)
        name = getattr(function, "__qualname__", repr(function))
        start = Start(run_task, Arguments((task, function, *args)))
        started = await self.start_child(ChildSpec(f"task {name}", start, restart="temporary"))
        return TaskHandle(cast("ActorHandle", started.handle), task)

    async def terminate_child(self, child: Hashable | ActorHandle) -> None:
        """Stop a child, and return when it is gone. Its spec stays, unless it is temporary or an instance.

        Raises:
            ChildNotFound: Your move: there is no such child.
            WrongChildKey: Your move: children of a dynamic supervisor are known by their handles.
            WouldDeadlock: Your move: the caller is this child, or lives below it.
            SupervisorStopping: It has begun to stop.
            ActorDown: It has ended.

        Cancellation: Always a checkpoint; cancelled here the stop goes on.
        """
        await self._core.ask(TerminateChildCall(_key(child)))

    async def restart_child(self, child_id: Hashable) -> Started:
        """Start a child that has no process.

        Raises:
            ChildRunning: Your move: terminate it first.
            ChildRestarting: It is being started again already.
            ChildStuck: The last instance has not ended yet.
            ChildNotFound: Your move: there is no such child.
            ChildStartFailed: It did not start. Its spec stays.
            WrongChildKey: Your move: children of a dynamic supervisor have no ids.
            ActorDown: The supervisor has ended.

        Cancellation: Always a checkpoint; cancelled here the child has no process.
        """
        return self._started(await self._core.ask(RestartChildCall(child_id)), monitor=False)

    async def delete_child(self, child_id: Hashable) -> None:
        """Take away the spec of a child that has no process.

        Raises:
            ChildRunning: Your move: terminate it first.
            ChildRestarting: Your move: terminate it first.
            ChildStuck: The last instance has not ended yet.
            ChildNotFound: Your move: there is no such child.
            WrongChildKey: Your move: children of a dynamic supervisor have no ids.
            ActorDown: The supervisor has ended.

        Cancellation: Always a checkpoint.
        """
        await self._core.ask(DeleteChildCall(child_id))

    async def which_children(self) -> tuple[ChildInfo, ...]:
        """List the children in start order.

        Raises:
            ActorDown: It has ended.

        Cancellation: Always a checkpoint.
        """
        return cast("tuple[ChildInfo, ...]", await self._core.ask(WhichChildrenCall()))

    async def count_children(self) -> ChildCounts:
        """Count the children.

        Raises:
            ActorDown: It has ended.

        Cancellation: Always a checkpoint.
        """
        return cast("ChildCounts", await self._core.ask(CountChildrenCall()))

    async def get_child_spec(self, child: Hashable | ActorHandle) -> ChildSpec:
        """Return the spec of a child with all defaults; of a temporary child without its arguments.

        Raises:
            ChildNotFound: Your move: there is no such child.
            WrongChildKey: Your move: children of a dynamic supervisor are known by their handles.
            ActorDown: It has ended.

        Cancellation: Always a checkpoint.
        """
        return cast("ChildSpec", await self._core.ask(GetChildSpecCall(_key(child))))

    async def reconfigure(self, flags: SupervisorFlags, children: Iterable[Spec]) -> None:
        """Take new flags, and new specs of known ids; add unknown ones without starting them. What runs runs on.

        Raises:
            InvalidSpec: Your move. Nothing was changed.
            SupervisorStopping: It has begun to stop.
            ActorDown: It has ended.

        Cancellation: Always a checkpoint.
        """
        await self._core.ask(ReconfigureCall(flags, tuple(children)))

    async def stop(
        self,
        reason: ExitReason = Shutdown(),  # noqa: B008 - frozen
        *,
        timeout_seconds: float | None = None,
    ) -> StopSummary:
        """Stop all children in order, and then the supervisor. Whoever calls this meanwhile gets the same summary.

        Raises:
            CallTimeout: It takes too long, and goes on with it.
            ActorDown: It had ended before.

        Cancellation: Always a checkpoint; cancelled here the stop goes on.
        """
        core = self._core
        return cast(
            "StopSummary", await core.ask(StopCall(reason), timeout_seconds=timeout_seconds, what="stop")
        )

    def handle(self, child_id: Hashable) -> ActorHandle:
        """Return the handle of a child that has a process.

        Raises:
            ChildNotFound: Your move: there is no such child.
            ActorDown: It has no process now, or the supervisor has ended.
            WrongChildKey: Your move: children of a dynamic supervisor are known by their handles.
        """
        core = self._core
        if self.exit_reason is not None:
            raise down(self)
        if core.state.flags.strategy == "dynamic":
            message = (
                f"children of a 'dynamic' supervisor are known by their handles, got the id {child_id!r}"
            )
            raise WrongChildKey(message)
        child = core.child_of(child_id)
        if child is None:
            message = f"supervisor {self.id!r} has no child {child_id!r}: see which_children"
            raise ChildNotFound(message)
        if (
            not child.has_process
            or not isinstance(child.handle, ActorHandle)
            or child.handle.exit_reason is not None
        ):
            raise down(child.handle if isinstance(child.handle, ActorHandle) else child_id)
        return child.handle

    def address(self, child_id: Hashable, *, hold_limit: int = 100) -> Address:
        """Return an address of a child, which holds messages while it is restarting.

        Args:
            child_id: Which.
            hold_limit: How many messages are held; more are dead letters.

        Raises:
            InvalidSpec: Your move: a limit below 1.
        """
        core = self._core
        return Address(repr(child_id), lambda: _find_child(core, child_id), hold_limit)

    @staticmethod
    def _started(answer: Any, *, monitor: bool) -> Started:
        started = cast("Started", answer)
        if monitor and isinstance(started.handle, ActorHandle):
            return evolve(started, monitor=monitor_started(started.handle))
        return started


def _key(child: Hashable | ActorHandle) -> ChildKey:
    if isinstance(child, ActorHandle):
        return ByHandle(child, child.exit_reason is None)
    return ById(child)


def _find_child(core: Core, child_id: Hashable) -> Found:
    child = core.child_of(child_id)
    if child is None or core.cell.exit_reason is not None:
        return None
    run = core.runs.get(child.token)
    if run is not None and run.stage == "up" and is_open(run.cell):
        return run.cell
    if core.comes_back(child.number):
        return core.wait_for_child()
    return None


# --- a supervisor as a child


@frozen
class SupervisorInit:
    """What the init function of a `subtree` answers.

    Attributes:
        flags: Of the supervisor.
        children: Its initial children.
    """

    flags: SupervisorFlags
    children: Iterable[Spec] = ()


FindInit = Callable[[], Awaitable[SupervisorInit | Ignore]]


def subtree(flags: SupervisorFlags | FindInit, children: Iterable[Spec] = ()) -> Start:
    """Make a child of a supervisor with children of its own.

    Args:
        flags: Of it; or an async function that each start calls, and that returns `SupervisorInit` or `IGNORE`.
        children: Its initial children.

    Raises:
        InvalidSpec: Your move: a spec of a child.
    """
    if isinstance(flags, SupervisorFlags):
        arguments = Arguments((flags, check_child_specs(children, flags=flags)))
    else:
        arguments = Arguments((flags, ()))
    return Start(_run_subtree, arguments, kind="supervisor", form="subtree")


async def _run_subtree(
    flags: SupervisorFlags | FindInit, children: tuple[ChildSpec, ...], *, task_status: Any
) -> ExitReason:
    cell = current_cell()
    assert isinstance(cell, SupervisorCell)  # noqa: S101 - made so by the parent
    assert isinstance(cell.owner, Core)  # noqa: S101 - it is a child
    specs: Iterable[Spec] = children
    if not isinstance(flags, SupervisorFlags):
        init = await flags()
        if isinstance(init, Ignore):
            task_status.started(init)
            return Normal()
        flags, specs = init.flags, init.children
    return await Core(cell, cell.owner.tree, flags, specs).run(task_status.started)


# --- a supervisor as a block


class NameOfSupervisor(Protocol):
    """A key of a registry, as `registry.name(key)` returns it."""

    @property
    def key(self) -> Hashable:
        """What the supervisor is called in reports."""
        ...

    def register(self, handle: ActorHandle) -> None:
        """Take the name, or raise `AlreadyRegistered`."""
        ...


class _Root:
    """The supervisor of a block: its task, its shield, and who looks out for a cancellation from outside."""

    def __init__(self, cell: SupervisorCell, core: Core, tree: Tree) -> None:
        self.cell = cell
        self.core = core
        self.up = trio.Event()
        self.gone = trio.Event()
        self.is_up = False
        self.body = trio.CancelScope()
        self.reason: ExitReason | None = None
        self.interrupt: BaseException | None = None
        self._watching = trio.CancelScope()
        tree.interrupt = self._on_interrupt

    async def run(self) -> None:
        """Be the task of the supervisor.

        Cancellation: Shielded. It is `watch` that a cancellation reaches: ended all at once, children would end in no
        order. What limits the shield is the ladder, and after a cancellation `stop_within_seconds`.
        """
        self.cell.enter()
        with trio.CancelScope(shield=True):
            self.reason = await self.core.run(self._on_up)
            self.cell.finish(self.reason)
        self.gone.set()
        self.up.set()
        if self.has_given_up or self.interrupt is not None:
            self.body.cancel(reason="its supervisor has ended")
        self._watching.cancel(reason="its supervisor has ended")

    async def watch(self) -> None:
        """Turn a cancellation from outside into an ordered stop with a limit.

        Cancellation: Ends it, and is not lost: whoever opened the block meets it at the next checkpoint.
        """
        with self._watching:
            try:
                await trio.sleep_forever()
            except trio.Cancelled:  # noqa: ASYNC103 - its last breath; let through it would come in a group with others
                if not self.gone.is_set():
                    self.core.force_stop()

    @property
    def has_given_up(self) -> bool:
        """Whether it ended in a way that its block cannot go on after."""
        return self.reason is not None and (self.reason == GAVE_UP or isinstance(self.reason, Killed))

    def _on_up(self) -> None:
        self.is_up = True
        self.up.set()

    def _on_interrupt(self, error: BaseException) -> None:
        self.interrupt = self.interrupt or error
        self.core.force_stop()


@asynccontextmanager
async def open_supervisor(  # noqa: PLR0913 - a block has no other place for its options
    flags: SupervisorFlags,
    children: Iterable[Spec] = (),
    *,
    name: NameOfSupervisor | None = None,
    observer: Observer | None = None,
    redact: Redact = keep,
    exit_process_after_seconds: float | None = None,
) -> AsyncIterator[Supervisor]:
    """Open a supervisor; the block begins when all children are up, and ends when all of them are gone.

    Args:
        flags: How it treats its children.
        children: The initial ones, in start order; of a dynamic supervisor its one template.
        name: A key of a registry that it is to hold.
        observer: Gets all reports of the tree; else they go to the logger `agentrail.actors`.
        redact: Takes secrets out of texts before they go into reasons and reports.
        exit_process_after_seconds: Of a program that owns the process: when a stop takes longer, end it with status 70.

    Raises:
        InvalidSpec: Your move: nothing was started.
        AlreadyStarted: Your move: a living actor has this name; `handle` is its handle.
        SupervisorStartFailed: A child did not start; the others were stopped again.
        SupervisorGaveUp: It ended by itself, by too many restarts or a kill; the body was cancelled.
        BaseException: What the body raises, as itself, after the ordered stop; a `KeyboardInterrupt` or `SystemExit`
            that a child raised.

    Cancellation: The stop is in order, and shielded for `stop_within_seconds`; then all that is left is killed.
    """
    specs = check_child_specs(children, flags=flags)
    tree = Tree(make_handle=Supervisor, observer=observer, redact=redact)
    cell = SupervisorCell("root" if name is None else name.key, 1)
    supervisor = Supervisor(cell)
    cell.handle = supervisor
    if name is not None:
        try:
            name.register(supervisor)
        except AlreadyRegistered as taken:
            message = (
                f"the name {name.key!r} is taken: go on with the `handle` of its owner, or choose another"
            )
            raise AlreadyStarted(message, handle=taken.handle) from None
    root = _Root(cell, Core(cell, tree, flags, specs, watchdog_seconds=exit_process_after_seconds), tree)
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(root.run, name=f"supervisor {cell.id!r}")
        nursery.start_soon(root.watch, name=f"watcher of {cell.id!r}")
        try:
            await root.up.wait()
            if root.is_up:
                with root.body:
                    yield supervisor
            if not root.gone.is_set():
                cell.ask(Shutdown())
                await root.gone.wait()
        except BaseException as error:  # noqa: BLE001, ASYNC103 - kept until all children are gone, and raised below
            failure = error
            cell.ask(Shutdown())
    if root.interrupt is not None:
        raise root.interrupt
    if failure is not None:
        raise failure
    await trio.lowlevel.checkpoint_if_cancelled()
    _check_end(root)


def _check_end(root: _Root) -> None:
    reason = root.reason or Shutdown()
    if not root.is_up:
        child_id = reason.child_id if isinstance(reason, InitFailed) else None
        cause = reason.cause if isinstance(reason, InitFailed) and reason.cause is not None else reason
        message = f"child {child_id!r} did not start ({describe(cause)}); what had started was stopped again"
        raise SupervisorStartFailed(message, child_id=child_id, reason=cause)
    if root.has_given_up:
        message = f"supervisor {root.cell.id!r} ended while its block was at work ({describe(reason)})"
        raise SupervisorGaveUp(message, reason=reason)


# --- partitions


class Partitions:
    """Copies of one child, and a way from a key to one of them: the same key goes to the same copy."""

    def __init__(self, supervisor: Supervisor, count: int) -> None:
        """Made by `open_partitions`."""
        self.supervisor: Final = supervisor
        self._most: Final = count
        self._count = count

    def handle_for(self, key: int | str | bytes) -> ActorHandle:
        """Return the copy for a key: numbers by `abs(key) % n`, text and bytes by a hash that no process changes.

        Raises:
            NoPartitions: Your move: there are none, `resize` them.
            ActorDown: That copy has no process now.
            TypeError: Your move: another kind of key.
        """
        if not self._count:
            message = "the partitions were resized to 0: resize them before you look for one"
            raise NoPartitions(message)
        return self.supervisor.handle(_number_of(key) % self._count)

    async def resize(self, count: int) -> None:
        """Route among the first `count` copies; the others are stopped, and started again when they are wanted.

        Raises:
            InvalidSpec: Your move: below 0, or above the initial count.
            ChildStartFailed: A copy that is wanted again did not start.
            ActorDown: The supervisor has ended.

        Cancellation: Always a checkpoint; cancelled here some copies may run that nobody is routed to.
        """
        if not _is_whole(count) or not 0 <= count <= self._most:
            message = f"partitions are resized to {count!r}, allowed is an integer from 0 to {self._most}"
            raise InvalidSpec(message, code="invalid_partitions", field="count")
        self._count = min(self._count, count)  # nobody is sent to a copy that is being stopped
        for info in reversed(await self.supervisor.which_children()):
            number = cast("int", info.id)
            if number >= count:
                await self.supervisor.terminate_child(number)
        for info in await self.supervisor.which_children():
            if cast("int", info.id) < count and info.status == "stopped":
                await self.supervisor.restart_child(info.id)
        self._count = count


@asynccontextmanager
async def open_partitions(
    start: StartFunction,
    count: int,
    *,
    flags: SupervisorFlags = SupervisorFlags("one_for_one"),  # noqa: B008 - frozen
) -> AsyncIterator[Partitions]:
    """Open a supervisor over `count` copies of one child.

    Args:
        start: Of each copy.
        count: How many, from 1.
        flags: Of the supervisor.

    Raises:
        InvalidSpec: Your move: a count below 1.
        SupervisorStartFailed: A copy did not start.
        SupervisorGaveUp: As of `open_supervisor`.

    Cancellation: As of `open_supervisor`.
    """
    if not _is_whole(count) or count < 1:
        message = f"count is {count!r}, allowed is an integer from 1"
        raise InvalidSpec(message, code="invalid_partitions", field="count")
    async with open_supervisor(flags, [ChildSpec(number, start) for number in range(count)]) as supervisor:
        yield Partitions(supervisor, count)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number_of(key: object) -> int:
    match key:
        case int():
            return abs(key)
        case str():
            return zlib.crc32(key.encode())
        case bytes():
            return zlib.crc32(key)
        case _:
            message = (
                f"a key of partitions is a number, text or bytes, got {type(key).__name__}: choose one of it"
            )
            raise TypeError(message)
