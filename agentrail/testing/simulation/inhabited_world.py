"""A world, as the models, tools and people in it use it: they draw from its tape, and misbehave where the life allows it."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from attrs import define, field

from agentrail.testing.simulation.faults import Fault
from agentrail.testing.simulation.log import LifeLog
from agentrail.testing.simulation.machine import NodeMachine
from agentrail.testing.simulation.network import SimulatedNetwork
from agentrail.testing.simulation.tape import Tape


class InhabitedWorld(Protocol):
    """A part of `World`, which imports its inhabitants. They import this."""

    tape: Tape
    log: LifeLog
    seconds: float
    network: SimulatedNetwork
    nodes: Any

    @property
    def machines(self) -> Mapping[str, NodeMachine]: ...
    @property
    def calm_at(self) -> float: ...
    @property
    def is_calm(self) -> bool: ...

    def allows(self, fault: Fault, /) -> bool: ...
    def inhabit(self, name: str, live: Callable[[], Awaitable[object]], /) -> None: ...


@define(eq=False)
class Client:
    """What clients of both protocols have: their world, a number of their own, and counts of what they did."""

    world: InhabitedWorld
    index: int
    counts: Counter[str] = field(factory=Counter, kw_only=True)

    def _place(self, draw: Callable[[str, tuple[str, ...]], str], turns: int) -> str:
        """Draw a node, and return the place of the one that is so many after it."""
        places: tuple[str, ...] = tuple(node.place for node in self.world.nodes)
        return places[(places.index(draw("node", places)) + turns) % len(places)]
