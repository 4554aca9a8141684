"""Random trees of supervisors, and a driver that plays a random script upon a running one, on virtual time.

A script is plain data, so that Hypothesis can shrink it. Whom a step concerns is a number, taken modulo those who live.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, Final, Literal, TypeAlias

import pytest
import trio
import trio.testing
from attrs import frozen
from hypothesis import strategies as st
from trio._core import _run as trio_run

from agentrail.actors import subtree
from agentrail.actors.monitor import Down, monitor
from agentrail.errors import (
    ActorDown,
    AlreadyStarted,
    SupervisorError,
    SupervisorGaveUp,
    SupervisorStartFailed,
)
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import ActorExit, ExitReason, Normal, Shutdown, describe
from agentrail.otp.statem import Keep
from agentrail.testing.orphans import no_orphans
from tests.actors.rig import Boom, Stage, Tabled, settled
from tests.otp.rig import said

Way: TypeAlias = Literal["end of block", "stop", "kill", "cancellation"]


PATIENT: Final[dict[str, Any]] = {"stop_within_seconds": 10_000.0}
"""So that a cancellation brings an ordered stop and nothing else, however long the clean-ups are."""


@frozen
class Leaf:
    """A worker: how it is restarted, how its clean-up is, and what its later starts do."""

    restart: str
    shutdown: Any
    cleanup: Any
    later: tuple[object, ...]


@frozen
class Tree:
    """A supervisor and what is below it."""

    strategy: str
    intensity: int
    children: tuple["Leaf | Tree", ...]


@frozen
class Step:
    """One thing to do.

    Attributes:
        verb: What.
        whom: Of those whom it can concern, the one of this number.
        seconds: How long to wait afterwards; 0 only until everybody waits.
    """

    verb: str
    whom: int
    seconds: float


@frozen
class Script:
    """A tree, what happens to it, and how it ends."""

    tree: Tree
    steps: tuple[Step, ...]
    way: Way


GARBAGE: Final[tuple[Any, ...]] = ("done", None, 3, ValueError("x"), Shutdown)
ENDS: Final[tuple[ExitReason, ...]] = (Normal(), Shutdown(), Shutdown("x"))
VERBS: Final = [
    "crash",
    "crash two",
    "end",
    "exit",
    "kill",
    "terminate",
    "restart",
    "delete",
    "start",
    "cancelled start",
    "untaken start",
    "storm",
    "garbage",
    "ask",
]

leaves = st.builds(
    Leaf,
    restart=st.sampled_from(["permanent", "transient", "temporary"]),
    shutdown=st.sampled_from([5.0, 0.5, "brutal_kill", "infinity"]),
    cleanup=st.sampled_from([None, 1.0, 60.0, Boom("clean-up")]),
    later=st.lists(st.sampled_from(["up", "fail", 1.0, "ignore"]), max_size=3).map(tuple),
)
trees = st.recursive(
    leaves,
    lambda inner: st.builds(
        Tree,
        strategy=st.sampled_from(["one_for_one", "one_for_all", "rest_for_one"]),
        intensity=st.integers(0, 5),
        children=st.lists(inner, min_size=1, max_size=3).map(tuple),
    ),
    max_leaves=6,
).map(lambda tree: tree if isinstance(tree, Tree) else Tree("one_for_one", 3, (tree,)))
steps = st.builds(
    Step, verb=st.sampled_from(VERBS), whom=st.integers(0, 7), seconds=st.sampled_from([0.0, 0.0, 0.7, 6.0])
)
scripts = st.builds(
    Script,
    tree=trees,
    steps=st.lists(steps, max_size=15).map(tuple),
    way=st.sampled_from(["end of block", "stop", "kill", "cancellation"]),
)


class Play(Stage):
    """A stage that keeps a trace with times, and monitors every instance from its birth.

    Attributes:
        trace: What happened, one line each.
        watched: How many monitors were set.
        downs: How often each of them fired.
        order_before: The leaves that ran when the ordered stop began, as they were started; `None` if none began.
        order_of_stop: The leaves that noticed that stop, in this order.
        given_up: The leaves whose starts were cancelled by who asked for them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trace: list[str] = []
        self.watched = 0
        self.downs: Counter[int] = Counter()
        self.order_before: list[str] | None = None
        self.order_of_stop: list[str] = []
        self.numbers = itertools.count(1)
        self.watcher: Any = None
        self.given_up: set[Hashable] = set()
        self.log = _Stamped(self.trace)

    async def _start(self, name: Any, task_status: Any) -> bool:
        monitor(self.instances[name][-1].context.handle, deliver_to=self.watcher)
        self.watched += 1
        return await super()._start(name, task_status)

    def plant(self, node: "Leaf | Tree") -> ChildSpec:
        """Make a child spec; ids are unique in the whole tree."""
        number = next(self.numbers)
        if isinstance(node, Tree):
            children = [self.plant(child) for child in node.children]
            return ChildSpec(
                f"s{number}",
                subtree(self.flags(node.strategy, intensity=node.intensity, **PATIENT), children),
            )
        name = f"w{number}"
        self.plans[name].extend(["up", *node.later])
        if node.cleanup is not None:
            self.cleanups[name] = node.cleanup
        return self.W(name, restart=node.restart, shutdown_seconds=node.shutdown)

    def alive_leaves(self) -> list[str]:
        """Name the leaves that run, in a fixed order."""
        return [name for name in self.instances if self.alive(name)]


class _Stamped(list[str]):
    """A log that also goes into a trace, with the time."""

    def __init__(self, trace: list[str]) -> None:
        super().__init__()
        self.trace = trace

    def append(self, entry: str) -> None:
        """Note it in both."""
        super().append(entry)
        self.trace.append(f"{trio.current_time():g} {entry}")


def play(script: Script, *, schedule: int = 0) -> Play:
    """Run a script from beginning to end, and return what happened.

    Args:
        script: What to do.
        schedule: The seed of Trio's own order of tasks that are ready at one moment.
    """
    stage = Play()
    # Trio shuffles ready tasks on purpose; this generator is what it shuffles with, and Hypothesis seeds the same one.
    trio_run._r.seed(schedule)  # noqa: SLF001 - no public way
    trio.run(_play, stage, script, clock=trio.testing.MockClock(autojump_threshold=0))
    return stage


async def _play(stage: Play, script: Script) -> None:
    def count(event: Any) -> Keep[None]:
        down = said(event)
        if isinstance(down, Down):
            stage.downs[down.monitor_id] += 1
            stage.trace.append(f"{trio.current_time():g} down {down.id} {describe(down.reason)[:40]}")
        return Keep()

    watcher = Tabled({"s1": count})
    async with no_orphans(), stage.play(watcher) as stage.watcher:
        with trio.CancelScope() as scope:
            try:
                await _one_life(stage, script, scope)
            except (SupervisorGaveUp, SupervisorStartFailed) as error:
                stage.trace.append(type(error).__name__)
        if stage.order_before is not None:
            stage.order_of_stop = [entry.split()[1] for entry in stage.seen("stopping")]
        await settled()
        left = trio.lowlevel.current_statistics().seconds_to_next_deadline
        assert left == math.inf, f"a timer is left, it would fire in {left:g} s"
    assert watcher.ends == [Shutdown()]


async def _one_life(stage: Play, script: Script, scope: trio.CancelScope) -> None:
    tree = script.tree
    children = [stage.plant(child) for child in tree.children]
    async with stage.open(tree.strategy, children, intensity=tree.intensity, **PATIENT) as root:
        async with trio.open_nursery() as nursery:
            for step in script.steps:
                await _take(stage, root, step, nursery)
                await settled()
                await trio.sleep(step.seconds)
            await trio.sleep(200)  # every clean-up, every call and every retry is over
        assert not stage.given_up & {*stage.alive_leaves()}, "a start that was cancelled runs"
        stage.trace.append(script.way)
        stage.log.clear()
        if script.way != "kill":
            stage.order_before = await _running(root)
        match script.way:
            case "stop":
                await root.stop()
            case "kill":
                root.kill()
                await trio.sleep_forever()
            case "cancellation":
                scope.cancel(reason="the script")
                await trio.sleep_forever()


async def _running(supervisor: Any) -> list[str]:
    """Name the leaves that run, as they were started."""
    found: list[str] = []
    for child in await supervisor.which_children():
        if child.status == "running":
            found += await _running(child.handle) if child.kind == "supervisor" else [child.id]
    return found


async def _supervisors(supervisor: Any) -> list[Any]:
    """Return a supervisor and all that run below it."""
    found = [supervisor]
    for child in await supervisor.which_children():
        if child.status == "running" and child.kind == "supervisor":
            found += await _supervisors(child.handle)
    return found


async def _take(stage: Play, root: Any, step: Step, nursery: trio.Nursery) -> None:
    leaves_now = stage.alive_leaves()
    name = leaves_now[step.whom % len(leaves_now)] if leaves_now else None
    stage.trace.append(f"{trio.current_time():g} > {step.verb} {name}")
    match step.verb, name:
        case "crash", str():
            stage.crash(name)
        case "crash two", str():
            stage.crash(name, leaves_now[0])
        case "end", str():
            stage.end(name, ENDS[step.whom % 3])
        case (("exit" | "kill"), str()):
            handle = stage.instances[name][-1].context.handle
            handle.kill() if step.verb == "kill" else handle.exit(Shutdown("told"))
        case "garbage", str():
            handle = stage.instances[name][-1].context.handle
            reason = GARBAGE[step.whom % len(GARBAGE)]
            for refusing in (handle.exit, root.exit, ActorExit):
                with pytest.raises(TypeError):
                    refusing(reason)
        case (("crash" | "crash two" | "end" | "exit" | "kill" | "garbage"), None):
            pass
        case _:
            await _ask(stage, root, step, nursery)


def _storm(stage: Play) -> ChildSpec:
    """Make a subtree of ten children that crash as soon as they are up, until it gives up."""

    async def crash(task_status: Any) -> None:
        task_status.started()
        raise Boom

    children = [ChildSpec(number, crash) for number in range(10)]
    flags = stage.flags(intensity=200, **PATIENT)
    return ChildSpec(f"storm {next(stage.numbers)}", subtree(flags, children), "transient")


async def _ask(stage: Play, root: Any, step: Step, nursery: trio.Nursery) -> None:
    """Call the API of one of the supervisors, in a task of its own: some calls wait for a clean-up."""
    try:
        everyone = await _supervisors(root)
        supervisor = everyone[step.whom % len(everyone)]
        children = await supervisor.which_children()
    except ActorDown:
        return
    child_id = children[step.whom % len(children)].id if children else "nobody"
    calls: dict[str, Callable[[], Any]] = {
        "terminate": lambda: supervisor.terminate_child(child_id),
        "restart": lambda: supervisor.restart_child(child_id),
        "delete": lambda: supervisor.delete_child(child_id),
        "ask": supervisor.count_children,
    }

    async def call() -> None:
        try:
            if step.verb == "storm":
                await supervisor.start_child(_storm(stage))
                await supervisor.count_children()
            elif step.verb == "untaken start":
                spec = stage.plant(Leaf("permanent", 5.0, None, ()))
                stage.plans[spec.id][0] = 0.5  # it is up at the very instant at which its caller goes
                with trio.move_on_after(0.5) as scope:
                    await supervisor.start_child(spec)
                if scope.cancelled_caught:
                    stage.given_up.add(spec.id)
            elif step.verb in {"start", "cancelled start"}:
                with trio.move_on_after(math.inf if step.verb == "start" else 0.5):
                    await supervisor.start_child(stage.plant(Leaf("temporary", 5.0, None, ())))
            else:
                await calls[step.verb]()
        except (SupervisorError, AlreadyStarted, ActorDown) as error:
            stage.trace.append(f"{trio.current_time():g} {type(error).__name__}")

    nursery.start_soon(call)
