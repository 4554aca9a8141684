"""The worlds that come with the simulation, in short lives."""

from agentrail.testing.simulation.byte_network import ByteNetwork
from agentrail.testing.simulation.network import Network
from agentrail.testing.simulation.run import run
from agentrail.testing.simulation.worlds import cluster

HOURS = 0.01


def lived(scenario, seed=1, **options):
    """Live a short life, and return its report and its world."""
    worlds = []

    def within(world):
        worlds.append(world)
        scenario(world)

    report = run(within, seed, nodes=3, hours=HOURS, **options)
    assert report.broken is None
    return report, worlds[0]


def test_one_life_of_ten_is_over_bytes():
    """The tape draws the network of a cluster. The one of an empty tape carries messages."""
    _, calm = lived(cluster, given={})
    assert type(calm.network) is Network
    report, over_bytes = lived(cluster, given={"network.bytes#0": 1})
    assert type(over_bytes.network) is ByteNetwork
    assert over_bytes.network.delivered
    assert dict(report.drawn) == {"network.bytes#0": 1}
