"""The handle of a supervisor: each method is one call to its reducer."""

from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Final, Literal, NoReturn, cast, overload

import trio
from attrs import evolve, frozen

from agentrail.actors.actor_handle import (
    ActorHandle,
    cell_of,
    check_timeout,
    current_cell,
    late,
    mailbox_of,
    refuse_self,
)
from agentrail.actors.actor_types import Start, worker
from agentrail.actors.address import Address, Lookup, is_open
from agentrail.actors.carried_work import carry_through
from agentrail.actors.monitor import link, monitor, monitor_started
from agentrail.actors.reply_slots import down
from agentrail.actors.supervisor_loop import Core, SupervisorCell
from agentrail.actors.tree_report import TreeNode, TreePart, take_tree
from agentrail.errors import ChildNotFound
from agentrail.otp.child_specs import (
    Arguments,
    ChildKind,
    ChildSpec,
    Spec,
    SupervisorFlags,
    check_child_specs,
    check_flags,
    checked_specs,
)
from agentrail.otp.exits import ExitReason, Shutdown, check_reason
from agentrail.otp.guarded_calls import show
from agentrail.otp.statem import Info
from agentrail.otp.supervision import no_child, wrong_key
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
    RestartChildCall,
    StartChildCall,
    Started,
    StartInstanceCall,
    StopCall,
    StopSummary,
    TerminateChildCall,
    WhichChildrenCall,
)

# A task: one function as a temporary child, with its return value.

SHUTDOWN: Final = Shutdown()
_NOTHING: Final = object()


@frozen
class TaskResult:
    """The result of a task, sent before its `Down`.

    Attributes:
        handle: Handle of the task.
        value: Return value of its function.
    """

    handle: ActorHandle
    value: object


class Task:
    """The record of one task: its observers and its return value."""

    def __init__(self, linked_to: ActorHandle | None, report_to: ActorHandle | None) -> None:
        if report_to is not None:
            mailbox_of(cell_of(report_to))
        self.value: object = _NOTHING
        self.is_given_up = False
        self._linked_to = linked_to
        self._report_to = report_to

    def begin(self, own: ActorHandle) -> None:
        if self._linked_to is not None:
            link(own, self._linked_to)
        if self._report_to is not None:
            monitor(own, deliver_to=self._report_to)

    def finish(self, own: ActorHandle, value: object) -> None:
        """Keep the value for the waiting caller and report it. A result that was given up is discarded."""
        if self.is_given_up:
            return
        self.value = value
        if self._report_to is not None:
            mailbox_of(cell_of(self._report_to)).put_notice(Info(TaskResult(own, value)))

    @property
    def has_value(self) -> bool:
        return self.value is not _NOTHING


async def run_task(task: Task, function: Callable[..., Awaitable[object]], *args: object) -> None:
    cell = current_cell()
    assert cell is not None  # noqa: S101 - a supervisor runs it
    task.begin(cell.handle)
    task.finish(cell.handle, await function(*args))


class TaskHandle:
    """A started task.

    Attributes:
        handle: Handle of its actor.
    """

    def __init__(self, handle: ActorHandle, task: Task) -> None:
        """Created by `start_task`."""
        self.handle = handle
        self._task = task

    async def result(self, timeout_seconds: float | None = 5.0) -> object:  # noqa: ASYNC109 - gives the result up
        """Wait for the value.

        Args:
            timeout_seconds: Time limit, after which the result is given up for good. `None` waits indefinitely.

        Raises:
            ActorDown: The task ended without a value.
            CallTimeout: The value did not arrive in time, in this or an earlier call.
            ValueError: Your move: the timeout is negative or not a number.

        Cancellation: Always a checkpoint.
        """
        check_timeout(timeout_seconds)
        if self._task.is_given_up:
            await trio.lowlevel.checkpoint()
            raise late(self.handle, "result", timeout_seconds)
        if self.handle.exit_reason is not None:  # also in time for a timeout of 0
            await trio.lowlevel.checkpoint()
            return self._value_or_raise(self.handle.exit_reason)
        try:
            with trio.fail_after(float("inf") if timeout_seconds is None else timeout_seconds):
                reason = await self.handle.wait()
        except trio.TooSlowError:
            self._task.is_given_up = True
            raise late(self.handle, "result", timeout_seconds) from None
        return self._value_or_raise(reason)

    async def shutdown(self, timeout_seconds: float | None = 5.0) -> object:  # noqa: ASYNC109 - kills the task at the timeout
        """Stop the task, and return its value if it already has one.

        Args:
            timeout_seconds: Time limit, after which the task is killed. `None` waits indefinitely. A task that shields
                itself from the kill is still awaited, because no task outlives its supervisor.

        Returns:
            The value, or the exit reason of a task without a value.

        Cancellation: Always a checkpoint. If cancelled, the stop continues.
        """
        check_timeout(timeout_seconds)
        if self.handle.exit_reason is None:
            cell = cell_of(self.handle)
            cell.is_laddered = True  # the time limit is set here, and the kill comes from here
            cell.ask(SHUTDOWN)

        async def stop_in_time() -> None:
            with trio.move_on_after(float("inf") if timeout_seconds is None else timeout_seconds):
                await self.handle.wait()
            self.handle.kill()

        await carry_through(stop_in_time)
        reason = await self.handle.wait()
        return self._task.value if self._task.has_value else reason

    def _value_or_raise(self, reason: ExitReason) -> object:
        if self._task.has_value:
            return self._task.value
        raise down(self.handle, reason)


class Supervisor(ActorHandle):
    """A supervisor. It owns its children: none of them outlives it."""

    __slots__ = ()

    @property
    def _core(self) -> Core:
        cell = cell_of(self)
        if not isinstance(cell, SupervisorCell) or cell.core is None:
            raise down(self)
        return cell.core

    async def call(self, request: object, *, timeout_seconds: float | None = 5.0) -> NoReturn:
        """Raise `NoMailbox`: use the methods of the supervisor. Any other request would only run into its timeout.

        Raises:
            NoMailbox: Your move: always, unless one of the errors below applies.
            ActorDown: The supervisor has ended.
            CallingSelf: Your move: called from its own task.
            ValueError: Your move: the timeout is negative or not a number.

        Cancellation: Always a checkpoint.
        """
        check_timeout(timeout_seconds)
        cell = cell_of(self)
        refuse_self(cell, "call")
        await trio.lowlevel.checkpoint()
        raise cell.refuse_messages() if self.exit_reason is None else down(self)

    async def start_child(self, spec: Spec, *, monitor: bool = False) -> Started:
        """Add a child after the others and start it. Return when it is up.

        Args:
            spec: A child spec, or a mapping with the same keys.
            monitor: Whether to monitor it from its start, without a gap. `Started.monitor` is the monitor.

        Raises:
            AlreadyStarted: Your move: a child with this id is running, or its name is taken. `handle` is the holder.
            AlreadyPresent: Your move: the id has a spec without a process.
            ChildStuck: The last instance has not ended yet.
            ChildStartFailed: The child did not start. `reason` is the cause. The spec is not kept.
            InvalidSpec: Your move: the spec is invalid.
            TooManyChildren: Your move: the limit of children is reached.
            WouldDeadlock: Your move: the caller is itself being started or stopped.
            SupervisorStopping: The supervisor is stopping.
            ActorDown: The supervisor has ended.

        Cancellation: Always a checkpoint. If cancelled, neither child nor spec stays.
        """
        core = self._core
        return self._started(await core.ask(StartChildCall(_checked(spec))), monitor=monitor)

    def start_child_soon(self, spec: Spec) -> None:
        """Add a child like `start_child`, without waiting. It starts after the calls that are already queued.

        A stopping supervisor drops the child without notifying the caller. Any failed start is reported as usual.

        Args:
            spec: A child spec, or a mapping with the same keys.

        Raises:
            ActorDown: The supervisor has ended.
        """
        core = self._core
        if self.exit_reason is not None:
            raise down(self)
        core.post(StartChildCall(_checked(spec)))

    async def start_instance(self, *args: object, **kwargs: object) -> Started:
        """Start an instance of the template of a dynamic supervisor. The arguments follow those of the template.

        Raises:
            InvalidSpec: Your move: the supervisor is not dynamic.
            ChildStartFailed: The instance did not start.
            TooManyChildren: Your move: the limit of children is reached.
            SupervisorStopping: The supervisor is stopping.
            ActorDown: The supervisor has ended.

        Cancellation: Always a checkpoint. If cancelled, no instance stays.
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
            *args: Its arguments.
            linked_to: An actor to link with the task: a crash of either ends the other.
            report_to: An actor that receives `Info(TaskResult(…))`, followed by the `Down` of the task.

        Raises:
            InvalidSpec: Your move: `function` is not a coroutine function.
            NoMailbox: Your move: `report_to` is a worker.
            Exception: The errors of `start_child`.

        Cancellation: Always a checkpoint. If cancelled, no task stays.
        """
        worker(function)  # raises for a plain function
        task = Task(linked_to, report_to)
        name = getattr(function, "__qualname__", repr(function))
        start = Start(run_task, Arguments((task, function, *args)))
        started = await self.start_child(ChildSpec(f"task {name}", start, restart="temporary"))
        return TaskHandle(cast("ActorHandle", started.handle), task)

    async def terminate_child(self, child: Hashable | ActorHandle) -> None:
        """Stop a child and return after its end. Its spec stays, unless it is temporary or an instance.

        Raises:
            ChildNotFound: Your move: no such child.
            WrongChildKey: Your move: children of a dynamic supervisor are identified by their handles.
            WouldDeadlock: Your move: the caller is this child, or lives below it.
            SupervisorStopping: The supervisor is stopping.
            ActorDown: The supervisor has ended.

        Cancellation: Always a checkpoint. If cancelled, the stop continues.
        """
        await self._core.ask(TerminateChildCall(_key(child)))

    async def restart_child(self, child_id: Hashable) -> Started:
        """Start a child that has no process.

        Raises:
            ChildRunning: Your move: terminate it first.
            ChildRestarting: It is already being restarted.
            ChildStuck: The last instance has not ended yet.
            ChildNotFound: Your move: no such child.
            ChildStartFailed: The child did not start. Its spec stays.
            WrongChildKey: Your move: children of a dynamic supervisor have no ids.
            ActorDown: The supervisor has ended.

        Cancellation: Always a checkpoint. If cancelled, the child has no process.
        """
        return self._started(await self._core.ask(RestartChildCall(child_id)), monitor=False)

    async def delete_child(self, child_id: Hashable) -> None:
        """Delete the spec of a child that has no process.

        Raises:
            ChildRunning: Your move: terminate it first.
            ChildRestarting: Your move: terminate it first.
            ChildStuck: The last instance has not ended yet.
            ChildNotFound: Your move: no such child.
            WrongChildKey: Your move: children of a dynamic supervisor have no ids.
            ActorDown: The supervisor has ended.

        Cancellation: Always a checkpoint.
        """
        await self._core.ask(DeleteChildCall(child_id))

    async def which_children(self) -> tuple[ChildInfo, ...]:
        """Return the children in start order.

        Raises:
            ActorDown: The supervisor has ended.

        Cancellation: Always a checkpoint.
        """
        return cast("tuple[ChildInfo, ...]", await self._core.ask(WhichChildrenCall()))

    async def count_children(self) -> ChildCounts:
        """Count the children.

        Raises:
            ActorDown: The supervisor has ended.

        Cancellation: Always a checkpoint.
        """
        return cast("ChildCounts", await self._core.ask(CountChildrenCall()))

    async def tree(self, part: TreePart | None = None) -> TreeNode:
        """Return the tree below this supervisor, subtrees included, as data. Works in every state, also during start and stop.

        Args:
            part: The children of a root to read. None for all.

        Returns:
            This supervisor, with its children in start order. `render_tree` formats it as text.

        Raises:
            ActorDown: The supervisor has ended.

        Cancellation: Always a checkpoint.
        """
        core = self._core
        # The answer is not needed, but the turn is: messages that children sent before this call have then been read.
        await core.ask(CountChildrenCall(), what="tree")
        if self.exit_reason is not None:  # it ended while this task was waking up
            raise down(self)
        return take_tree(core, part)

    async def get_child_spec(self, child: Hashable | ActorHandle) -> ChildSpec:
        """Return the spec of a child with all defaults. For a temporary child without its arguments.

        Raises:
            ChildNotFound: Your move: no such child.
            WrongChildKey: Your move: children of a dynamic supervisor are identified by their handles.
            ActorDown: The supervisor has ended.

        Cancellation: Always a checkpoint.
        """
        return cast("ChildSpec", await self._core.ask(GetChildSpecCall(_key(child))))

    async def reconfigure(self, flags: SupervisorFlags, children: Iterable[Spec]) -> None:
        """Apply new flags and new specs of known ids, and add unknown ids without starting them. Running children keep running.

        Raises:
            InvalidSpec: Your move: a spec is invalid. Nothing was changed.
            SupervisorStopping: The supervisor is stopping.
            ActorDown: The supervisor has ended.

        Cancellation: Always a checkpoint.
        """
        core = self._core
        check_flags(flags)
        await core.ask(ReconfigureCall(flags, checked_specs(children)))

    async def stop(
        self,
        reason: ExitReason = Shutdown(),  # noqa: B008 - frozen
        *,
        timeout_seconds: float | None = None,
    ) -> StopSummary:
        """Stop all children in order, and then the supervisor. Concurrent callers get the same summary.

        Raises:
            CallTimeout: It did not end in time. The stop continues.
            ActorDown: It had ended before.
            TypeError: Your move: `reason` is not an exit reason.

        Cancellation: Always a checkpoint. If cancelled, the stop continues.
        """
        check_reason(reason)
        core = self._core
        return cast(
            "StopSummary", await core.ask(StopCall(reason), timeout_seconds=timeout_seconds, what="stop")
        )

    @overload
    def handle(self, child_id: Hashable, *, kind: Literal["supervisor"]) -> "Supervisor": ...

    @overload
    def handle(self, child_id: Hashable, *, kind: Literal["worker"] | None = ...) -> ActorHandle: ...

    def handle(self, child_id: Hashable, *, kind: ChildKind | None = None) -> ActorHandle:
        """Return the handle of a child that has a process.

        Args:
            child_id: Id of the child.
            kind: Its kind, as in its spec. With `supervisor`, a `Supervisor` is returned, which has its methods.

        Raises:
            ChildNotFound: Your move: no such child, or it is of another kind.
            ActorDown: The child has no process now, or the supervisor has ended.
            WrongChildKey: Your move: children of a dynamic supervisor are identified by their handles.
        """
        core = self._core
        if self.exit_reason is not None:
            raise down(self)
        if core.state.flags.strategy == "dynamic":
            raise wrong_key(child_id)
        child = core.child_of(child_id)
        if child is None:
            raise no_child(self.id, child_id)
        if (
            not child.has_process
            or not isinstance(child.handle, ActorHandle)
            or child.handle.exit_reason is not None
        ):
            raise down(child.handle if isinstance(child.handle, ActorHandle) else child_id)
        if kind is not None and (kind == "supervisor") is not isinstance(child.handle, Supervisor):
            message = f"child {show(child_id)} of supervisor {show(self.id)} is a {child.spec.kind}, not a {kind!r}: omit `kind`, or give the right one"
            raise ChildNotFound(message)
        return child.handle

    def address(self, child_id: Hashable, *, hold_limit: int = 100) -> Address:
        """Return an address of a child, which holds messages while the child restarts.

        Args:
            child_id: Id of the child.
            hold_limit: How many messages are held. Further messages become dead letters.

        Raises:
            InvalidSpec: Your move: a limit below 1.
        """
        core = self._core
        return Address(show(child_id), lambda: _find_child(core, child_id), hold_limit)

    @staticmethod
    def _started(answer: Any, *, monitor: bool) -> Started:
        started = cast("Started", answer)
        if monitor and isinstance(started.handle, ActorHandle):
            return evolve(started, monitor=monitor_started(started.handle))
        return started


def _checked(spec: Spec) -> ChildSpec:
    # Checked here, in the caller's task: a mapping belongs to the caller, and its exceptions must not reach the supervisor.
    (checked,) = check_child_specs([spec])
    return checked


def _key(child: Hashable | ActorHandle) -> ChildKey:
    if isinstance(child, ActorHandle):
        return ByHandle(child, child.exit_reason is None)
    return ById(child)


def _find_child(core: Core, child_id: Hashable) -> Lookup:
    child = core.child_of(child_id)
    if child is None or core.cell.exit_reason is not None:
        return None
    run = core.runs.get(child.token)
    if run is not None and run.stage == "up" and is_open(run.cell):
        return run.cell
    if core.comes_back(child.number):
        return core.wait_for_child(child.number)
    return None
