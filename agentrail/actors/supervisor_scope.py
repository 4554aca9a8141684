"""Opened supervisors: as a shielded block, as a child of another supervisor, and as partitions of one child."""

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, cast

import trio
from attrs import frozen

from agentrail.actors.actor_handle import ActorHandle, cell_of, current_cell
from agentrail.actors.actor_types import Ignore, Start
from agentrail.actors.deferred_error import Kept
from agentrail.actors.supervisor_handle import Supervisor
from agentrail.actors.supervisor_loop import Core, Observer, SupervisorCell, Tree
from agentrail.actors.trio_check import need_trio
from agentrail.errors import (
    AlreadyRegistered,
    AlreadyStarted,
    InvalidSpec,
    NoPartitions,
    SupervisorGaveUp,
    SupervisorStartFailed,
)
from agentrail.otp.child_specs import (
    Arguments,
    ChildSpec,
    Spec,
    StartFunction,
    SupervisorFlags,
    check_child_specs,
    check_flags,
    check_listener,
    is_whole,
)
from agentrail.otp.exits import ExitReason, InitFailed, Killed, Normal, Redact, Shutdown, describe, keep
from agentrail.otp.guarded_calls import show
from agentrail.otp.supervision_sweeps import GAVE_UP
from agentrail.otp.supervision_types import Culprit


class NameOfSupervisor(Protocol):
    """A key of a registry, as returned by `registry.name(key)`."""

    @property
    def key(self) -> Hashable: ...

    def register(self, handle: ActorHandle) -> None: ...


class _Root:
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
        with self._watching:
            try:
                await trio.sleep_forever()
            except trio.Cancelled:  # noqa: ASYNC103 - it ends here; let through, it would join other errors in a group
                if not self.gone.is_set():
                    self.core.force_stop()

    @property
    def has_given_up(self) -> bool:
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
    """Open a supervisor. The body starts when all children are up, and the block ends when all of them have ended.

    Args:
        flags: Strategy, restart limits and stop limit.
        children: The initial children, in start order. For a dynamic supervisor its one template.
        name: A key of a registry to register the supervisor under.
        observer: Receives all reports of the tree. By default they go to the logger `agentrail.actors`.
        redact: Removes secrets from texts before they go into reasons and reports.
        exit_process_after_seconds: For a program that owns the process: if a stop takes longer, exit with status 70.

    Raises:
        NoTrioRun: Your move: Trio is not running. Nothing was started.
        InvalidSpec: Your move: a spec, a flag or the observer is invalid. Nothing was started.
        AlreadyStarted: Your move: a living actor has this name. `handle` is its handle.
        SupervisorStartFailed: A child did not start. The others were stopped again.
        SupervisorGaveUp: It ended without a request, by too many restarts or a kill. The body was cancelled.
        BaseException: An exception from the body, unwrapped, after the ordered stop; or a `KeyboardInterrupt` or
            `SystemExit` from a child.

    Cancellation: The stop is in order, and shielded for `stop_within_seconds`. Then the remaining children are killed.
    """
    need_trio()
    check_flags(flags)
    specs = check_child_specs(children, flags=flags)
    if observer is not None:
        check_listener("observer", observer)
    tree = Tree(make_handle=Supervisor, observer=observer, redact=redact)
    cell = SupervisorCell("root" if name is None else name.key, 1)
    supervisor = Supervisor(cell)
    cell.handle = supervisor
    core = Core(cell, tree, flags, specs, watchdog_seconds=exit_process_after_seconds)
    if name is not None:  # last: only the end of a supervisor that ran frees its name
        try:
            name.register(supervisor)
        except AlreadyRegistered as taken:
            raise AlreadyStarted(str(taken), handle=taken.handle) from None
    root = _Root(cell, core, tree)
    failure = Kept()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(root.run, name=f"supervisor {show(cell.id)}")
        nursery.start_soon(root.watch, name=f"watcher of {show(cell.id)}")
        with failure:  # kept until all children have ended
            await root.up.wait()
            if root.is_up:
                with root.body:
                    yield supervisor
            if not root.gone.is_set():
                cell.ask(Shutdown())
                await root.gone.wait()
        if failure.error is not None:
            cell.ask(Shutdown())
    if root.interrupt is not None:
        raise root.interrupt
    failure.release()
    await trio.lowlevel.checkpoint_if_cancelled()
    _check_end(root)


def _check_end(root: _Root) -> None:
    reason = root.reason or Shutdown()
    if not root.is_up:
        child_id = reason.child_id if isinstance(reason, InitFailed) else None
        cause = reason.cause if isinstance(reason, InitFailed) and reason.cause is not None else reason
        message = f"child {show(child_id)} did not start ({describe(cause)}); the children started before it were stopped"
        raise SupervisorStartFailed(message, child_id=child_id, reason=cause)
    if root.has_given_up:
        message = f"supervisor {show(root.cell.id)} ended while its block was running ({describe(reason)})"
        path = _culprits(root.core)
        if not path:
            raise SupervisorGaveUp(message, reason=reason)
        names = ", in it ".join(f"child {show(culprit.child_id)}" for culprit in path)
        last = path[-1].reason
        message = f"{message}: {names} ended more often than its restart limit allows, the last time {describe(last)}"
        raise SupervisorGaveUp(message, reason=reason, child_id=path[0].child_id, cause=last)


def _culprits(core: Core) -> tuple[Culprit, ...]:
    """Return the culprits over which a supervisor gave up. A culprit that gave up itself is followed by its own culprits."""
    path: list[Culprit] = []
    below: Core | None = core
    while below is not None and below.culprit is not None:
        path.append(below.culprit)
        handle = below.culprit.handle
        cell = cell_of(handle) if isinstance(handle, ActorHandle) else None
        below = cell.core if isinstance(cell, SupervisorCell) and cell.exit_reason == GAVE_UP else None
    return tuple(path)


# A supervisor as a child of another supervisor.


@frozen
class SupervisorInit:
    """Result of the init function of a `subtree`.

    Attributes:
        flags: Flags of the supervisor.
        children: Its initial children.
    """

    flags: SupervisorFlags
    children: Iterable[Spec] = ()


FindInit = Callable[[], Awaitable[SupervisorInit | Ignore]]


def subtree(flags: SupervisorFlags | FindInit, children: Iterable[Spec] = ()) -> Start:
    """Create a child that is a supervisor with children of its own.

    Args:
        flags: Its flags; or an async function that each start calls, and that returns `SupervisorInit` or `IGNORE`.
        children: Its initial children.

    Raises:
        InvalidSpec: Your move: the spec of a child or the flags are invalid.
    """
    if callable(flags):
        arguments = Arguments((flags, ()))
    else:
        check_flags(flags)
        arguments = Arguments((flags, check_child_specs(children, flags=flags)))
    return Start(_run_subtree, arguments, kind="supervisor", form="subtree")


async def _run_subtree(
    flags: SupervisorFlags | FindInit, children: tuple[ChildSpec, ...], *, task_status: Any
) -> ExitReason:
    cell = current_cell()
    assert isinstance(cell, SupervisorCell)  # noqa: S101 - created so by the parent
    assert isinstance(cell.owner, Core)  # noqa: S101 - it is a child
    specs: Iterable[Spec] = children
    if not isinstance(flags, SupervisorFlags):
        init = await flags()
        # The init function may have swallowed its cancellation. Then its result must not be started.
        await trio.lowlevel.checkpoint_if_cancelled()
        if isinstance(init, Ignore):
            task_status.started(init)
            return Normal()
        flags, specs = init.flags, init.children
    return await Core(cell, cell.owner.tree, flags, specs).run(task_status.started)


def specs_of(supervisor: ActorHandle) -> tuple[ChildSpec, ...]:
    """Return a supervisor's specs in start order, also after its end. Temporary children count while they run."""
    cell = cell_of(supervisor)
    if not isinstance(cell, SupervisorCell) or cell.core is None:
        return ()
    return tuple(child.spec for _, child in cell.core.state.children.items())


# Copies of one child, with routing from a key to one of them.


class Partitions:
    """Copies of one child, with routing by key: the same key always reaches the same copy."""

    def __init__(self, supervisor: Supervisor, count: int) -> None:
        """Created by `open_partitions`."""
        self.supervisor: Final = supervisor
        self._most: Final = count
        self._count = count
        self._resizing = trio.Lock()

    def handle_for(self, key: int | str | bytes) -> ActorHandle:
        """Return the copy for a key: numbers by `abs(key) % n`, text and bytes by a hash that is stable across processes.

        Raises:
            NoPartitions: Your move: there are no copies. Call `resize`.
            ActorDown: That copy has no process now.
            TypeError: Your move: another kind of key.
        """
        if not self._count:
            message = "there are 0 partitions after the last resize: resize them before looking one up"
            raise NoPartitions(message)
        return self.supervisor.handle(_number_of(key) % self._count)

    async def resize(self, count: int) -> None:
        """Route among the first `count` copies. The others are stopped, and started again when a later `resize` needs them.

        Resizes that overlap are made one after the other.

        Raises:
            InvalidSpec: Your move: below 0, or above the initial count.
            ChildStartFailed: A needed copy did not start.
            ActorDown: The supervisor has ended.

        Cancellation: Always a checkpoint. If cancelled, some copies may run without any key routed to them.
        """
        if not is_whole(count, at_least=0) or count > self._most:
            message = f"cannot resize partitions to {count!r}: expected an integer from 0 to {self._most}"
            raise InvalidSpec(message, code="invalid_partitions", field="count")
        async with self._resizing:
            self._count = min(self._count, count)  # no key is routed to a copy that is being stopped
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
        start: Start recipe of each copy.
        count: Number of copies, from 1.
        flags: Flags of the supervisor.

    Raises:
        InvalidSpec: Your move: a count below 1.
        SupervisorStartFailed: A copy did not start.
        SupervisorGaveUp: The same as in `open_supervisor`.

    Cancellation: The same as in `open_supervisor`.
    """
    if not is_whole(count, at_least=1):
        message = f"count is {count!r}: expected an integer >= 1"
        raise InvalidSpec(message, code="invalid_partitions", field="count")
    async with open_supervisor(flags, [ChildSpec(number, start) for number in range(count)]) as supervisor:
        yield Partitions(supervisor, count)


def _number_of(key: object) -> int:
    match key:
        case int():
            return abs(key)
        case str():
            return zlib.crc32(key.encode(errors="surrogatepass"))
        case bytes():
            return zlib.crc32(key)
        case _:
            message = f"a partition key must be a number, text or bytes, got {type(key).__name__}: derive one from the value"
            raise TypeError(message)
