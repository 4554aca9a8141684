"""The worlds that come with the simulation. Each is a scenario: it says what a world has, and who lives in it.

They have the usual people, models and tools, and every fault. What differs is what they do most.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from agentrail.testing.simulation.chatty_model import chatty_model
from agentrail.testing.simulation.faults import DAMAGE, EVERYTHING, STORE
from agentrail.testing.simulation.people import people
from agentrail.testing.simulation.run import Scenario
from agentrail.testing.simulation.world import World

HONEST: Final = EVERYTHING - DAMAGE
"""All faults under which every promise holds. On a disk that lies or loses, those of one machine end."""


def _shop(world: World, **options: Any) -> None:
    """Serve a profile whose tools change an outside world, one of each effect class."""
    shop = world.ledger("shop")
    tools = [
        shop.tool("pay", "once"),
        shop.tool("look_up", "pure"),
        shop.tool("store_order", "idempotent"),
        shop.tool("ship", "reconcilable"),
    ]
    world.profile("shop", model=chatty_model(), tools=tools, **options)
    world.faults(HONEST)


def cluster(world: World) -> None:
    """Serve a shop on several nodes, with people who change nodes and their minds."""
    _shop(world)
    people(world, 5, "shop", sessions=4)


def single(world: World) -> None:
    """Serve a shop on one node, whose sessions are in a `SqliteStore` on its disk."""
    world.use_disks()
    _shop(world)
    world.faults(HONEST - STORE)
    people(world, 3, "shop", sessions=2)


@frozen
class WorldKind:
    """A world with its usual number of nodes, and the time of a life."""

    scenario: Scenario
    nodes: int = 3
    hours: float = 0.05


WORLDS: Final[Mapping[str, WorldKind]] = MappingProxyType(
    {"cluster": WorldKind(cluster), "single": WorldKind(single, nodes=1)}
)
