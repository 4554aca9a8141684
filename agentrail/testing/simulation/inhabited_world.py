"""A world, as the models, tools and people in it use it: they draw from its tape, and misbehave where the life allows it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

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
