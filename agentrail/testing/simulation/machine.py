"""The machine of one node or client: its clocks, ids, chance and threads. Its tasks inherit it, so it says where a task belongs."""

import random
from collections.abc import Callable
from typing import ClassVar, Final

import trio

from agentrail import outside
from agentrail.testing.seeded import BEGINNING, SeededMachine
from agentrail.testing.simulation.log import WORLD

MAX_LATENCY_SECONDS: Final = 0.002
"""Longest usual way of a call of an offloaded function to its store, and of the answer back."""


class NodeMachine(SeededMachine):
    """A machine of a simulated world.

    Attributes:
        place: Node or client, such as `node-0` or `ann`.
        life: Number of restarts before this one.
        is_held: Whether its tasks do not run: it is stopped, or was killed.
        is_dead: Whether it was killed. Its tasks never run again.
        has_ended: Whether its process has ended, however that came about.
        beginning: Date of the beginning of the life, in seconds since 1970.
        witnesses: Locked files on its computer, by the id of the node whose process locks them.
        wrong_by_seconds: Difference between its wall clock and the world's.
        drift: Seconds that its wall clock gains per second.
        slow_seconds: Additional time of each offloaded function, before it runs.
        late_seconds: Additional time of the next answers, after it ran. A function sets it for its own answer.
    """

    steps_late: ClassVar[tuple[int, int]] = (0, 0)  # they take time instead

    def __init__(self, seed: object, place: str, life: int = 0) -> None:
        """Create a machine on a computer of its own. A restart has the same place, another life, and therefore other ids."""
        super().__init__(f"{seed}/{place}/{life}")
        self.place: str = place
        self.life: int = life
        self.is_held: bool = False
        self.is_dead: bool = False
        self.has_ended: bool = False
        self.beginning: float = BEGINNING
        self.witnesses: dict[str, NodeMachine] = {}
        self.wrong_by_seconds: float = 0.0
        self.drift: float = 0.0
        self.slow_seconds: float = 0.0
        self.late_seconds: float = 0.0
        self._latency = random.Random(f"{seed}/{place}/{life}/latency")  # noqa: S311 - must be repeatable

    def wall(self) -> float:
        """Return the time of this node, which may be wrong."""
        return self.beginning + self.stopwatch() * (1.0 + self.drift) + self.wrong_by_seconds

    async def _wait_before(self) -> None:
        await trio.sleep(self.slow_seconds + self._latency.uniform(0, MAX_LATENCY_SECONDS))

    async def _wait_after(self) -> None:
        late, self.late_seconds = self.late_seconds, 0.0
        await trio.sleep(late + self._latency.uniform(0, MAX_LATENCY_SECONDS))


def machine_of(task: trio.lowlevel.Task) -> NodeMachine | None:
    """Return the machine of a task. None: it belongs to the world."""
    current: Callable[[], object] = outside.current
    machine = task.context.run(current)
    return machine if isinstance(machine, NodeMachine) and machine.place != WORLD else None


def is_held(task: trio.lowlevel.Task) -> bool:
    """Return whether a task has to wait, because its node is stopped or dead."""
    machine = machine_of(task)
    return machine is not None and machine.is_held
