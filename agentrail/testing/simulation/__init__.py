"""A world of nodes, network, store, disks, models and people, in one thread and in virtual time, from one seed.

What a scenario of one's own needs can be imported from here: `from agentrail.testing import simulation as sim`. The parts are in modules of their own.

- `run(scenario, seed)`: one life and its `Report`. `simulation(…)`: many lives as a test. `World`: what a scenario acts on
- `Fault`, and the sets `EVERYTHING`, `CRASHES`, `NETWORK`, `STORE`, `DISK`, `TIME`, `TASKS`, `MODEL`, `PEOPLE`, `DAMAGE`
- `Schedule` and its values, of which `PORTFOLIO` is the default
- `shrink(report)`, `story(report)`, `replay(path)`: what follows a broken life
- `check_deterministic(scenario)`: whether a program depends on its seed alone
- `chatty_model()`: a model whose answers depend on the conversation only
"""

from agentrail.testing.simulation.chatty_model import chatty_model
from agentrail.testing.simulation.determinism import check_deterministic
from agentrail.testing.simulation.faults import (
    CRASHES,
    DAMAGE,
    DISK,
    EVERYTHING,
    LYING_DISK,
    MODEL,
    NETWORK,
    PEOPLE,
    STORE,
    TASKS,
    TIME,
    Fault,
)
from agentrail.testing.simulation.life import Report, run
from agentrail.testing.simulation.schedule import FAIR, HYBRID, PORTFOLIO, POS, TRIO, WALK, Schedule, pct
from agentrail.testing.simulation.shrinking import shrink
from agentrail.testing.simulation.sim_files import replay
from agentrail.testing.simulation.simulated_tests import simulation
from agentrail.testing.simulation.stories import story
from agentrail.testing.simulation.world import World

__all__ = [
    "CRASHES",
    "DAMAGE",
    "DISK",
    "EVERYTHING",
    "FAIR",
    "HYBRID",
    "LYING_DISK",
    "MODEL",
    "NETWORK",
    "PEOPLE",
    "PORTFOLIO",
    "POS",
    "STORE",
    "TASKS",
    "TIME",
    "TRIO",
    "WALK",
    "Fault",
    "Report",
    "Schedule",
    "World",
    "chatty_model",
    "check_deterministic",
    "pct",
    "replay",
    "run",
    "shrink",
    "simulation",
    "story",
]
