"""Watchers of a running tree under random crashes, stops and restarts: each sees every life, in order, and one end."""

from collections import defaultdict
from functools import partial
from itertools import pairwise
from typing import Any, Final

import trio
import trio.testing
from attrs import frozen
from hypothesis import given, strategies as st

from agentrail.actors import (
    ActorHandle,
    ChildDown,
    ChildEvent,
    ChildGone,
    ChildRestarted,
    ChildUp,
    Supervisor,
    watch,
)
from agentrail.errors import SupervisorError, SupervisorGaveUp
from agentrail.otp.exits import ExitReason, Shutdown
from agentrail.testing.orphans import no_orphans
from tests.actors.rig import Stage, settled

NAMES: Final = ("a", "b", "c")


class Noted(Stage):
    """A stage that notes which instances came up.

    Attributes:
        lives: Their handles, by name.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lives: defaultdict[str, list[ActorHandle]] = defaultdict(list)

    async def _start(self, name: Any, task_status: Any) -> bool:
        is_up = await super()._start(name, task_status)
        if is_up:
            self.lives[name].append(self.instances[name][-1].context.handle)
        return is_up


@frozen
class Line:
    """One thing to do, to whom, and whether everybody has a turn before the next."""

    verb: str
    whom: str
    waits: bool


lines = st.builds(
    Line,
    verb=st.sampled_from(
        ["crash", "crash", "end", "kill", "terminate", "restart", "delete", "fail next", "ignore next"]
    ),
    whom=st.sampled_from(NAMES),
    waits=st.booleans(),
)


async def do(line: Line, stage: Noted, supervisor: Supervisor) -> None:
    """Do what a line says; a refusal is an answer."""
    name = line.whom
    newest = stage.instances[name][-1] if stage.instances[name] else None
    try:
        match line.verb:
            case "crash":
                stage.crash(name)
            case "end":
                stage.end(name, Shutdown("on purpose"))
            case "kill" if newest is not None:
                newest.context.handle.kill()
            case "terminate":
                await supervisor.terminate_child(name)
            case "restart":
                await supervisor.restart_child(name)
            case "delete":
                await supervisor.delete_child(name)
            case "fail next":
                stage.plans[name].append("fail")
            case "ignore next":
                stage.plans[name].append("ignore")
    except SupervisorError:
        pass
    if line.waits:
        await settled()


async def follow(
    supervisor: Supervisor, name: str, into: list[ChildEvent], *, reads_late: bool, task_status: Any
) -> None:
    """Watch one child, and read at once or when all is over."""
    async with watch(supervisor, name) as watching:
        task_status.started()
        if reads_late:
            await supervisor.wait()
        into.extend([event async for event in watching])


def check(events: list[ChildEvent], lives: list[ActorHandle], ended: ExitReason | None) -> None:
    """Hold what a watcher was told to the lives that there were."""
    last = events[-1]
    assert isinstance(last, ChildGone)
    middle: list[ChildUp | ChildDown | ChildRestarted] = [
        event for event in events if not isinstance(event, ChildGone)
    ]
    assert len(middle) == len(events) - 1, "gone once"
    ups = [event for event in middle if not isinstance(event, ChildDown)]
    assert [type(event) for event in ups] == [ChildUp, *[ChildRestarted] * (len(ups) - 1)][: len(ups)]
    for one, other in pairwise(middle):
        assert isinstance(one, ChildDown) is not isinstance(other, ChildDown), "up and down by turns"
        if isinstance(other, ChildDown):
            assert other.handle is one.handle
    assert [event.handle for event in ups] == lives, "no life is missed, and none told twice"
    for event in middle:
        if isinstance(event, ChildDown):
            assert event.reason == event.handle.exit_reason
    if middle:
        assert isinstance(middle[-1], ChildDown), "what is gone is down"
        assert last.reason in {ended, middle[-1].reason}


async def play(strategy: str, restarts: list[str], script: list[Line], late: list[bool]) -> None:
    """Play a script before watchers, stop, and hold what they were told to what happened."""
    stage = Noted()
    told: dict[str, list[ChildEvent]] = {name: [] for name in NAMES}
    specs = [stage.W(name, restart=restart) for name, restart in zip(NAMES, restarts, strict=True)]
    async with trio.open_nursery() as nursery:
        try:
            async with stage.open(strategy, specs, intensity=8) as supervisor:
                for name, reads_late in zip(NAMES, late, strict=True):
                    await nursery.start(partial(follow, supervisor, name, told[name], reads_late=reads_late))
                for line in script:
                    await do(line, stage, supervisor)
        except SupervisorGaveUp:
            pass
    for name, events in told.items():
        check(events, stage.lives[name], supervisor.exit_reason)


@given(
    strategy=st.sampled_from(["one_for_one", "one_for_all", "rest_for_one"]),
    restarts=st.lists(st.sampled_from(["permanent", "transient", "temporary"]), min_size=3, max_size=3),
    script=st.lists(lines, max_size=12),
    late=st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_every_life_of_a_child_is_told_once(strategy, restarts, script, late):
    """Whoever crashes, and whatever a group does to the others: up, down and up again, each once, and gone at the end."""

    async def checked() -> None:
        async with no_orphans():
            await play(strategy, restarts, script, late)

    trio.run(checked, clock=trio.testing.MockClock(autojump_threshold=0))
