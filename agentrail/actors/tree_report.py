"""A supervision tree as data, for operators who need to see the running actors, and as text."""

from collections.abc import Callable, Hashable, Iterator
from datetime import timedelta
from itertools import islice
from typing import Final

import trio
from attrs import field, frozen

from agentrail.actors.actor_handle import ActorCell, cell_of
from agentrail.actors.actor_types import ActorView, Start
from agentrail.actors.supervisor_loop import Core, SupervisorCell
from agentrail.otp.child_specs import ChildKind, Strategy, SupervisorFlags
from agentrail.otp.exits import describe
from agentrail.otp.guarded_calls import show
from agentrail.otp.supervision_state import Child, child_status
from agentrail.otp.supervision_types import ChildStatus


@frozen(kw_only=True)
class NotedExit:
    """An unrequested end of an instance, or a failed attempt to start it.

    Attributes:
        reason: One line. For a session without its secrets.
        at_seconds: Time, on Trio's clock.
    """

    reason: str
    at_seconds: float


@frozen(kw_only=True)
class RestartBudget:
    """Restarts allowed and used.

    Attributes:
        used: Restarts within the last `within_seconds`.
        allowed: One more, and the supervisor gives up; or the child, if each child has its own budget.
        within_seconds: Length of the period, in seconds.
    """

    used: int
    allowed: int
    within_seconds: float


@frozen(kw_only=True)
class TreeNode:
    """One child of a tree, or its root, at one instant.

    Attributes:
        id: Id from its spec. For the root its name.
        kind: Kind from its spec. A machine is a `worker` too.
        status: The same as in `ChildInfo`.
        incarnation: Number of instances that came up.
        restarts: Restarts since it recovered, failed attempts included, as counted by the back-off. Without a back-off, since
            it was last started by a call. A restart on account of a sibling does not count.
        uptime_seconds: Time since its current instance came up, on Trio's clock. `None` while none is up.
        mailbox: Waiting messages, in all lanes. `None` for a worker, which has no mailbox, and without an
            instance. For a session its own mailbox, which also exists between two instances.
        children: In start order. Empty for a supervisor without an instance.
        phase: For a session: its phase, such as `idle`. Otherwise `None`.
        strategy: For a supervisor with an instance: its restart strategy, such as `one_for_one`. `None` for a worker.
        exits: The last five unrequested ends, newest last.
        budget: For a child whose supervisor counts restarts per child: its own. Otherwise, for a supervisor with an instance: the
            budget of all its children. `None` for any other.
        key: Position below the root, stable across restarts. Not reused during the lifetime of the root.
        up_at_seconds: Time at which its current instance came up, on Trio's clock. `None` while none is up.
    """

    id: Hashable
    kind: ChildKind
    status: ChildStatus
    incarnation: int
    restarts: int
    uptime_seconds: float | None
    mailbox: int | None
    children: tuple["TreeNode", ...] = ()
    phase: str | None = None
    strategy: Strategy | None = None
    exits: tuple[NotedExit, ...] = ()
    budget: RestartBudget | None = None
    # Position and start time do not take part in equality: two nodes with the same content are equal.
    key: str = field(default="", eq=False)
    up_at_seconds: float | None = field(default=None, eq=False)


ROOT_KEY: Final = "0"
"""The key of a root."""


@frozen(kw_only=True)
class TreePart:
    """The children of a root to read: a page costs only its own children.

    Attributes:
        wanted: Whether to read the child with this id.
        after: Number of the child to continue after: the last part of its key. None starts at the first.
        limit: Maximum number. None for all.
    """

    wanted: Callable[[Hashable], bool]
    after: int | None = None
    limit: int | None = None


def take_tree(core: Core, part: TreePart | None = None) -> TreeNode:
    now_seconds = trio.current_time()
    cell = core.cell
    if isinstance(cell.owner, Core) and cell.token is not None:
        child = cell.owner.state.children.get(cell.token.child)
        if child is not None and child.token == cell.token:  # otherwise its parent gave it up
            return _node_of_child(cell.owner, child, now_seconds, _key_of(cell.owner))
    return TreeNode(
        id=cell.id,
        kind="supervisor",
        status=_own_status(core),
        incarnation=cell.incarnation,
        restarts=0,
        uptime_seconds=None if core.up_at_seconds is None else now_seconds - core.up_at_seconds,
        mailbox=_waiting(cell),
        children=_nodes_below(cell, now_seconds, ROOT_KEY, part),
        strategy=core.state.flags.strategy,
        budget=_budget_of(core.state.flags, core.state.restarts, now_seconds),
        key=ROOT_KEY,
        up_at_seconds=core.up_at_seconds,
    )


def _key_of(core: Core) -> str:
    """Return the position of a supervisor below the root: the numbers of the children on the path, which are never reused."""
    owner, token = core.cell.owner, core.cell.token
    return f"{_key_of(owner)}.{token.child}" if isinstance(owner, Core) and token is not None else ROOT_KEY


def _own_status(core: Core) -> ChildStatus:
    phase = core.state.phase
    if phase != "ended":
        return phase
    return "stuck" if core.runs else "stopping"  # with no child left, its task ends at its next turn


def _node_of_child(core: Core, child: Child, now_seconds: float, above: str) -> TreeNode:
    run = core.runs.get(child.token)
    is_up = run is not None and run.stage == "up" and child.has_process
    look = _look_of(child)
    if look is not None:
        mailbox: int | None = look.mailbox
        below = None if look.below is None else cell_of(look.below)
    else:
        mailbox = None if run is None else _waiting(run.cell)
        below = None if run is None else run.cell
    key = f"{above}.{child.number}"
    return TreeNode(
        id=child.spec.id,
        kind=child.spec.kind,
        status=child_status(child),
        incarnation=child.incarnation,
        restarts=child.in_a_row,
        uptime_seconds=now_seconds - child.started_seconds if is_up else None,
        mailbox=mailbox,
        children=() if below is None else _nodes_below(below, now_seconds, key),
        phase=None if look is None else look.phase,
        strategy=_strategy_of(below),
        exits=tuple(
            [NotedExit(reason=describe(one.reason), at_seconds=one.at_seconds) for one in child.exits]
        ),
        budget=_budget_of_child(core, child, below, now_seconds),
        key=key,
        up_at_seconds=child.started_seconds if is_up else None,
    )


def _look_of(child: Child) -> ActorView | None:
    start = child.spec.start
    if not isinstance(start, Start) or start.options.look is None:
        return None
    return start.options.look(getattr(start.function, "__self__", None))


def _nodes_below(
    cell: ActorCell, now_seconds: float, key: str, part: TreePart | None = None
) -> tuple[TreeNode, ...]:
    if not isinstance(cell, SupervisorCell) or cell.core is None:
        return ()
    core = cell.core
    children: Iterator[Child] = (child for _, child in core.state.children.items())
    if part is not None:
        after = -1 if part.after is None else part.after
        fitting = (one for one in children if one.number > after and part.wanted(one.spec.id))
        children = islice(fitting, part.limit)
    return tuple(_node_of_child(core, child, now_seconds, key) for child in children)


def _strategy_of(cell: ActorCell | None) -> Strategy | None:
    if not isinstance(cell, SupervisorCell) or cell.core is None:
        return None
    return cell.core.state.flags.strategy


def _budget_of_child(
    core: Core, child: Child, below: ActorCell | None, now_seconds: float
) -> RestartBudget | None:
    if core.state.flags.intensity_per == "child":
        return _budget_of(core.state.flags, child.restarts, now_seconds)
    if child.spec.kind != "supervisor" or not isinstance(below, SupervisorCell) or below.core is None:
        return None
    return _budget_of(below.core.state.flags, below.core.state.restarts, now_seconds)


def _budget_of(flags: SupervisorFlags, restarts: tuple[float, ...], now_seconds: float) -> RestartBudget:
    period = flags.period_seconds
    used = sum(now_seconds - at <= period for at in restarts)
    return RestartBudget(used=used, allowed=flags.intensity, within_seconds=period)


def _waiting(cell: ActorCell) -> int | None:
    return None if cell.mailbox is None else cell.mailbox.statistics().waiting


def render_tree(node: TreeNode) -> str:
    """Format a tree as text, one line per node. `-` marks a missing value.

    Args:
        node: A tree from `Supervisor.tree`, or a part of it.

    Returns:
        Lines without a final newline: id, kind, status (and phase), incarnation, restarts, uptime as `h:mm:ss`, mailbox.
    """
    return "\n".join((_describe(node), *_lines_below(node, "")))


def _lines_below(node: TreeNode, indent: str) -> Iterator[str]:
    for place, child in enumerate(node.children, start=1):
        is_last = place == len(node.children)
        yield f"{indent}{'└── ' if is_last else '├── '}{_describe(child)}"
        yield from _lines_below(child, f"{indent}{'    ' if is_last else '│   '}")


def _describe(node: TreeNode) -> str:
    # Truncated to whole seconds: fractions are of no use, and rounding up would claim time that has not passed.
    uptime = "-" if node.uptime_seconds is None else timedelta(seconds=int(node.uptime_seconds))
    mailbox = "-" if node.mailbox is None else node.mailbox
    status = node.status if node.phase is None else f"{node.status} {node.phase}"
    return (
        f"{show(node.id)} {node.kind} {status} #{node.incarnation} restarts={node.restarts} "
        f"up={uptime} mailbox={mailbox}"
    )
