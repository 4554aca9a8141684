"""A supervisor as a child of another one."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import trio
from attrs import frozen

from agentrail.actors.handle import ActorHandle, cell_of, current_cell
from agentrail.actors.start import Ignore, Start
from agentrail.actors.supervising import Core, SupervisorCell
from agentrail.otp.child_specs import (
    Arguments,
    ChildSpec,
    Spec,
    SupervisorFlags,
    check_child_specs,
    check_flags,
)
from agentrail.otp.exits import ExitReason, Normal


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
        InvalidSpec: Your move: a spec of a child, or flags that are none.
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
    assert isinstance(cell, SupervisorCell)  # noqa: S101 - made so by the parent
    assert isinstance(cell.owner, Core)  # noqa: S101 - it is a child
    specs: Iterable[Spec] = children
    if not isinstance(flags, SupervisorFlags):
        init = await flags()
        # It may have swallowed its cancellation; then nothing of what it answers is started.
        await trio.lowlevel.checkpoint_if_cancelled()
        if isinstance(init, Ignore):
            task_status.started(init)
            return Normal()
        flags, specs = init.flags, init.children
    return await Core(cell, cell.owner.tree, flags, specs).run(task_status.started)


def specs_of(supervisor: ActorHandle) -> tuple[ChildSpec, ...]:
    """Return the specs that a supervisor has, or had when it ended: in start order, those of temporary children while they run.

    A supervisor that has to start a stopped group again asks this; a supervisor that has ended answers no call.
    """
    cell = cell_of(supervisor)
    if not isinstance(cell, SupervisorCell) or cell.core is None:
        return ()
    return tuple(child.spec for _, child in cell.core.state.children.items())
