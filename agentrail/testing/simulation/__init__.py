"""A world of nodes, network, store, disks, models and people, in one thread and in virtual time, from one seed.

What a scenario of one's own needs can be imported from here: `from agentrail.testing import simulation as sim`. The parts are in modules of their own.

- `run(scenario, seed)`: one life and its `Report`. `simulation(…)`: many lives as a test. `World`: what a scenario acts on
- `Fault`, and the sets `EVERYTHING`, `CRASHES`, `NETWORK`, `STORE`, `DISK`, `TIME`, `TASKS`, `MODEL`, `PEOPLE`, `DAMAGE`
- `Schedule` and its values, of which `PORTFOLIO` is the default
- `shrink(report)`, `story(report)`, `replay(path)`: what follows a broken life
- `check_deterministic(scenario)`: whether a program depends on its seed alone
- `chatty_model()`: a model whose answers depend on the conversation only
"""

from agentrail.testing.simulation.chatty_model import chatty_model as chatty_model
from agentrail.testing.simulation.determinism import check_deterministic as check_deterministic
from agentrail.testing.simulation.faults import (
    CRASHES as CRASHES,
    DAMAGE as DAMAGE,
    DISK as DISK,
    EVERYTHING as EVERYTHING,
    LYING_DISK as LYING_DISK,
    MODEL as MODEL,
    NETWORK as NETWORK,
    PEOPLE as PEOPLE,
    STORE as STORE,
    TASKS as TASKS,
    TIME as TIME,
    Fault as Fault,
)
from agentrail.testing.simulation.life import (
    Report as Report,
    run as run,
)
from agentrail.testing.simulation.schedule import (
    FAIR as FAIR,
    HYBRID as HYBRID,
    PORTFOLIO as PORTFOLIO,
    POS as POS,
    TRIO as TRIO,
    WALK as WALK,
    Schedule as Schedule,
    pct as pct,
)
from agentrail.testing.simulation.shrinking import shrink as shrink
from agentrail.testing.simulation.sim_files import replay as replay
from agentrail.testing.simulation.simulated_tests import simulation as simulation
from agentrail.testing.simulation.stories import story as story
from agentrail.testing.simulation.world import World as World
