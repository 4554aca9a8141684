"""A supervisor as a block: its shield, who looks out beside the shield, and how the block ends."""

from collections.abc import AsyncIterator, Hashable, Iterable
from contextlib import asynccontextmanager
from typing import Protocol

import trio

from agentrail.actors.handle import ActorHandle, cell_of
from agentrail.actors.kept import Kept
from agentrail.actors.supervising import Core, Observer, SupervisorCell, Tree
from agentrail.actors.supervisor_handle import Supervisor
from agentrail.actors.trio_only import need_trio
from agentrail.errors import (
    AlreadyRegistered,
    AlreadyStarted,
    SupervisorGaveUp,
    SupervisorStartFailed,
)
from agentrail.otp.child_specs import (
    Spec,
    SupervisorFlags,
    check_child_specs,
    check_flags,
)
from agentrail.otp.edges import show
from agentrail.otp.exits import ExitReason, InitFailed, Killed, Redact, Shutdown, describe, keep
from agentrail.otp.supervision_sweeps import GAVE_UP
from agentrail.otp.supervision_types import Culprit


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

        Cancellation: Ends it, and is not lost: the caller that opened the block meets it at the next checkpoint.
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
        NoTrioRun: Your move: no Trio runs here; nothing was started.
        InvalidSpec: Your move: nothing was started.
        AlreadyStarted: Your move: a living actor has this name; `handle` is its handle.
        SupervisorStartFailed: A child did not start; the others were stopped again.
        SupervisorGaveUp: It ended by itself, by too many restarts or a kill; the body was cancelled.
        BaseException: What the body raises, as itself, after the ordered stop; a `KeyboardInterrupt` or `SystemExit`
            that a child raised.

    Cancellation: The stop is in order, and shielded for `stop_within_seconds`; then all that is left is killed.
    """
    need_trio()
    check_flags(flags)
    specs = check_child_specs(children, flags=flags)
    tree = Tree(make_handle=Supervisor, observer=observer, redact=redact)
    cell = SupervisorCell("root" if name is None else name.key, 1)
    supervisor = Supervisor(cell)
    cell.handle = supervisor
    if name is not None:
        try:
            name.register(supervisor)
        except AlreadyRegistered as taken:
            raise AlreadyStarted(str(taken), handle=taken.handle) from None
    root = _Root(cell, Core(cell, tree, flags, specs, watchdog_seconds=exit_process_after_seconds), tree)
    failure = Kept()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(root.run, name=f"supervisor {cell.id!r}")
        nursery.start_soon(root.watch, name=f"watcher of {cell.id!r}")
        with failure:  # kept until all children are gone
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
        message = f"child {child_id!r} did not start ({describe(cause)}); what had started was stopped again"
        raise SupervisorStartFailed(message, child_id=child_id, reason=cause)
    if root.has_given_up:
        message = f"supervisor {root.cell.id!r} ended while its block was at work ({describe(reason)})"
        path = _culprits(root.core)
        if not path:
            raise SupervisorGaveUp(message, reason=reason)
        names = ", in it ".join(f"child {show(culprit.child_id)}" for culprit in path)
        last = path[-1].reason
        message = f"{message}: {names} ended once too often, the last time {describe(last)}"
        raise SupervisorGaveUp(message, reason=reason, child_id=path[0].child_id, cause=last)


def _culprits(core: Core) -> tuple[Culprit, ...]:
    """Say over whom a supervisor gave up; if that is one that gave up itself, also over whom that one did."""
    path: list[Culprit] = []
    below: Core | None = core
    while below is not None and below.culprit is not None:
        path.append(below.culprit)
        handle = below.culprit.handle
        cell = cell_of(handle) if isinstance(handle, ActorHandle) else None
        below = cell.core if isinstance(cell, SupervisorCell) and cell.exit_reason == GAVE_UP else None
    return tuple(path)
