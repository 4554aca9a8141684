"""The world `single`: one node with a `SqliteStore` on its disk, killed at each record. What was acknowledged is there afterwards."""

from contextlib import closing

import pytest
import trio
from attrs import evolve

from agentrail.core.journal.record import first_broken
from agentrail.testing.simulation.disk_store import open_disk_store, simulated_files
from agentrail.testing.simulation.facts import NodeChange, StoreCall
from agentrail.testing.simulation.faults import KILL, FaultPlace
from agentrail.testing.simulation.life import run
from agentrail.testing.simulation.worlds import single
from tests.simulation.audit import opened
from tests.thinned import nightly

SEED = 5
HOURS = 0.012
PLACES = {
    "before the commit": FaultPlace(kind="step"),
    "after the commit, before the answer": FaultPlace(kind="store", word="append"),
    "before the effect": FaultPlace(kind="effect"),
    "before the publication": FaultPlace(kind="event"),
    "after the effect of a tool": FaultPlace(kind="tool"),
    "as a person is answered": FaultPlace(kind="person"),
}


def live(*faults, at_operation=None, hours=HOURS):
    """Live in the world `single` with these faults only. Return the report and the world."""
    worlds = []

    def scenario(world):
        worlds.append(world)
        single(world)
        world.faults(faults, rate=0.0)
        if at_operation is not None:
            strike(world, at_operation)

    return run(scenario, SEED, hours=hours), worlds[0]


def strike(world, number):
    """Kill the node at this operation of its disk, and start it again after a second."""
    left, is_killed = [number], trio.Event()

    def count(_operation, _name):
        left[0] -= 1
        if left[0] == 0 and trio.current_time() < world.seconds / 2:
            world.kill(0)
            is_killed.set()

    async def start_again():
        world.disk(
            0
        ).before = count  # not before the node is up for the first time: nobody would start it again
        with trio.move_on_at(world.seconds / 2):
            await is_killed.wait()
            await trio.sleep(1.0)
            world.restart(0)

    world.inhabit("process manager", start_again)


def judge(report, world):
    """Hold what must hold after a kill: all checkers, and each acknowledged record is in the store. Return whether there was one."""
    assert report.broken is None
    assert all(ledger.each_once() for ledger in world.ledgers)
    lines = report.log.lines
    killed = [
        number
        for number, line in enumerate(lines)
        if isinstance(line.facts, NodeChange) and line.facts.action == "killed"
    ]
    for number in killed:  # the step at which it struck ends, and the process starts again a second later
        at = lines[number].at
        dead = [line.said for line in lines if at < line.at < at + 0.9 and line.place == "node-0"]
        assert dead == []
    acknowledged = {
        record
        for line in lines
        if isinstance(line.facts, StoreCall) and line.facts.name == "append" and line.facts.is_executed
        for one, refusal in zip(line.facts.arguments["batch"], line.facts.answer, strict=True)
        if refusal is None
        for record in one.records
    }
    assert acknowledged
    with simulated_files(), closing(open_disk_store(world.disk(0))) as store:
        journals = [store.read(one.scope, one.session, 0, 10_000) for one in store.find()]
        assert store.salvaged is None
    assert [first_broken(journal) for journal in journals] == [None] * len(journals)
    assert acknowledged <= {record for journal in journals for record in journal}
    return bool(killed)


def lives_killed_at(place, step):
    """Count the lives, each killed at another occurrence of a place, until one does not reach it."""
    killed = 0
    while True:
        fault = evolve(KILL, place=evolve(place, nth=1 + killed * step), seconds=1.0)
        if not judge(*live(fault)):
            return killed
        killed += 1


@pytest.mark.simulation("V-012")
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=nightly)])
def test_a_kill_at_each_record_loses_nothing(place, step):
    """Before and after the commit, its answer and the effect: checkers hold, `once` tools ran once, and the dead process does nothing."""
    assert lives_killed_at(place, step) >= 1


@pytest.mark.simulation("V-012")
@pytest.mark.parametrize("step", [41, pytest.param(3, marks=nightly)])
def test_a_kill_within_a_commit_loses_nothing(step):
    """At an operation of the disk, such as between a write and its sync."""
    killed = 0
    while judge(*live(at_operation=1 + killed * step)):
        killed += 1
    assert killed >= 3


@pytest.mark.simulation("V-006")
def test_nothing_real_is_opened():
    """In ten minutes with five kills: no file, thread or process, and no socket but those by which Trio can be woken."""

    async def do_nothing():
        await trio.lowlevel.checkpoint()

    live()  # imports what it needs
    with opened() as usual:
        trio.run(do_nothing)
    with opened() as seen:
        report, _ = live(*[evolve(KILL, place=90.0 * n, seconds=1.0) for n in range(1, 6)], hours=1 / 6)
    assert report.broken is None
    assert [event for event, *_ in seen] == [event for event, *_ in usual]


@pytest.mark.simulation("V-001")
def test_one_seed_is_one_life():
    """With kills and what they leave on the disk."""
    fault = evolve(KILL, place=FaultPlace(kind="store", word="append", nth=5), seconds=1.0)
    first, again = (live(fault)[0] for _ in range(2))
    assert first.digest == again.digest
    assert live()[0].digest != first.digest
