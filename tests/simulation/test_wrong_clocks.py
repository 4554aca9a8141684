"""Three nodes of the product over the model store, with clocks that are hours apart and step backwards: only the store's clock moves a lease."""

from contextlib import AsyncExitStack

import pytest
import trio

from agentrail import outside
from agentrail.testing.clock import FakeClock
from agentrail.testing.models import FunctionModel
from agentrail.testing.simulation.facts import StoreCall
from agentrail.testing.simulation.log import LifeLog
from agentrail.testing.simulation.machine import NodeMachine
from agentrail.testing.simulation.model_store import ModelStore
from agentrail.testing.simulation.tape import Tape
from tests.runtime.rig import open_over

LEASE = 15
HOUR = 3600.0


def hanging(_opening=None):
    """A model that never answers: the cycle of its session is work for the look."""

    async def answer(_request):
        await trio.sleep_forever()

    return {"model": FunctionModel(answer)}


class Cluster:
    """Three nodes, each with a session at work."""

    def __init__(self, seed):
        self.tape, self.log = Tape(seed), LifeLog()
        self.store = ModelStore(self.tape, self.log)
        self.machines = [NodeMachine(seed, f"node-{index}") for index in range(3)]
        for index, machine in enumerate(self.machines):
            machine.wrong_by_seconds = (index - 1) * HOUR
            machine.drift = self.tape.number("drift", -0.001, 0.001)

    async def open(self, stack):
        for index, machine in enumerate(self.machines):
            with outside.installed(machine):
                node = await stack.enter_async_context(
                    open_over(self.store, resume="working", revive=hanging, lease=float(LEASE))
                )
                session = await node.start_session(session_id=f"s{index}", **hanging())
                await session.prompt("Hi")

    async def pass_time(self, seconds):
        """Let time pass, and step clocks of nodes backwards every few seconds."""
        end = trio.current_time() + seconds
        while trio.current_time() < end:
            await trio.sleep(self.tape.number("pause", 0.5, 7.0))
            machine = self.machines[self.tape.integer("node", 0, 2)]
            machine.wrong_by_seconds -= self.tape.number("step", 0.0, HOUR)

    def calls(self, name):
        """The executed calls of a name, with their time and place."""
        return [
            (line.at, line.place, line.facts)
            for line in self.log.lines
            if isinstance(line.facts, StoreCall) and line.facts.name == name and line.facts.is_executed
        ]

    def taken(self):
        """Session, seconds by the store's clock, and epoch of each takeover."""
        ids = [one.session for one in self.store.find()]
        return [
            (one.session, one.at_ms / 1000, one.epoch)
            for name in ids
            for one in self.store.read("", name)
            if one.kind == "taken"
        ]


def live(seed, story):
    cluster = Cluster(seed)

    async def main():
        with trio.fail_after(10_000):
            async with AsyncExitStack() as stack:
                await cluster.open(stack)
                await story(cluster)
                cluster.store.mend()

    trio.run(main, clock=FakeClock())
    return cluster


@pytest.mark.simulation(14)
@pytest.mark.parametrize("seed", range(3))
def test_clocks_of_nodes_move_no_lease(seed):
    """No session moves in twenty leases. The time of each heartbeat is that of the store."""

    async def story(cluster):
        await cluster.pass_time(20 * LEASE)
        assert min(machine.wrong_by_seconds for machine in cluster.machines) < -HOUR
        assert cluster.taken() == []
        assert [facts.answer for _, _, facts in cluster.calls("claim") if facts.answer] == []
        beats = [(at, facts.answer.at_ms) for at, _, facts in cluster.calls("beat")]
        assert len(beats) > 3 * 20
        started, started_ms = beats[0]
        for at, at_ms in beats:
            assert at_ms - started_ms == pytest.approx((at - started) * 1000, abs=2)

    live(seed, story)


@pytest.mark.simulation(14)
@pytest.mark.parametrize("seed", range(3))
def test_a_lost_node_is_taken_a_lease_after_its_last_heartbeat_by_the_clock_of_the_store(seed):
    """Not sooner and not two seconds later, whatever the clocks of the three say. It is taken once."""

    async def story(cluster):
        await cluster.pass_time(2 * LEASE)
        cluster.store.go_away(place="node-0")
        await cluster.pass_time(LEASE + 12)
        last = [facts.answer.at_ms / 1000 for _, place, facts in cluster.calls("beat") if place == "node-0"][
            -1
        ]
        ((session, at, epoch),) = cluster.taken()
        assert (session, epoch) == ("s0", 2)
        assert LEASE <= at - last < LEASE + 2

    live(seed, story)


@pytest.mark.simulation(14)
@pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["forwards", "backwards"])
def test_a_step_of_the_clock_of_the_store_takes_nothing_from_the_living(step):
    """A node takes only what it has watched for a lease by its own monotonic clock."""

    async def story(cluster):
        await cluster.pass_time(2 * LEASE)
        cluster.store.wrong_by_seconds += step
        await cluster.pass_time(3 * LEASE)
        assert cluster.taken() == []

    live(1, story)
