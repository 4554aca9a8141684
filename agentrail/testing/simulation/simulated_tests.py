"""`simulation(...)`: a scenario as a test, which lives it from many seeds. It needs no pytest.

@simulation(nodes=3, store="postgres", hours=0.1, seeds=200)
async def test_orders(world: World) -> None:
    ...
"""

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Protocol

from agentrail.testing.simulation.life import WorldScenario, check_life_size, run
from agentrail.testing.simulation.shrinking import MAX_LIVES
from agentrail.testing.simulation.world import StoreKind, World, check_store_kind


class SimulatedTest(Protocol):
    """A test without arguments. With a world it is its scenario, so a `.sim` file can name it."""

    def __call__(self, world: World | None = None) -> Awaitable[object] | None: ...


def simulation(  # noqa: PLR0913 - what a life depends on, and what follows a broken one, by keyword
    *,
    nodes: int = 1,
    store: StoreKind = "postgres",
    hours: float = 0.1,
    seeds: int | Iterable[int] = 200,
    save: Path | None = None,
    max_lives: int = MAX_LIVES,
    max_seconds: float = 60.0,
) -> Callable[[WorldScenario], SimulatedTest]:
    """Let a scenario be a test. It fails with the story of the first broken life, shrunk.

    Args:
        nodes: Number of nodes.
        store: A shared PostgreSQL, simulated; or with one node SQLite on its disk, or the memory of its process.
        hours: Virtual time of a life, in hours, up to a day.
        seeds: Number of lives, from seed 0, or their seeds.
        save: Directory for the `.sim` file of a broken life and its test. None: nothing is written.
        max_lives: Number of lives to shrink a broken one. 0: it is not shrunk.
        max_seconds: Time of the processor for that.

    Raises:
        ValueError: Your move: as in `run` or `World.use_store`, or no seeds.
    """
    check_life_size(nodes, hours)
    check_store_kind(store, nodes)
    chosen = range(seeds) if isinstance(seeds, int) else tuple(seeds)
    if not chosen:
        message = f"seeds is {seeds!r}: expected one seed or more"
        raise ValueError(message)

    def decorate(scenario: WorldScenario) -> SimulatedTest:
        def test(world: World | None = None) -> Awaitable[object] | None:
            if world is not None:
                world.use_store(store)
                return scenario(world)
            for seed in chosen:
                report = run(test, seed, nodes=nodes, hours=hours)
                if report.broken is not None:
                    # Not above: `python -m agentrail.testing.simulation.lives` would load its module twice.
                    from agentrail.testing.simulation.lives import tell_broken  # noqa: PLC0415

                    told, _ = tell_broken(report, save, max_lives, max_seconds)
                    raise AssertionError(told)
            return None

        # Not `functools.wraps`: pytest would find the scenario's own argument, and look for a fixture `world`.
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(test, name, getattr(scenario, name))
        test.__dict__.update(vars(scenario), nodes=nodes, hours=hours)  # for `agentrail simulate --scenario`
        return test

    return decorate
