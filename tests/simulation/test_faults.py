"""Faults are values that read as sentences; a nemesis draws them from a tape and lets them strike at their places."""

import contextvars

import pytest
import trio
from attrs import evolve, frozen

from agentrail.outside import installed
from agentrail.runtime import session_actor
from agentrail.testing.clock import FakeClock
from agentrail.testing.seams import wrapped
from agentrail.testing.simulation import faults as f
from agentrail.testing.simulation.machine import NodeMachine
from agentrail.testing.simulation.nemesis import Nemesis, SimulatedCrash
from agentrail.testing.simulation.tape import Tape
from tests.simulation.toy_world import ToyWorld

SECONDS = 360.0


@frozen
class Call:
    name: str


def lived(life, *args):
    return trio.run(life, *args, clock=FakeClock())


async def struck_in(world, nemesis, talk):
    """Run the nemesis while something is logged, until the calm end."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(nemesis.run)
        await trio.sleep(1)
        await talk(world.log)
    return world.calls


def test_a_fault_reads_as_a_sentence():
    """A fault says what happens, to whom, for how long and where."""
    place = f.FaultPlace(kind="store", word="append", of="node-1", nth=2)
    assert str(evolve(f.STOP_NODE, node=0, seconds=20.0, place=place)) == (
        "node-0 stands still for 20 s, as node-1 asks the store (append) for the 2nd time"
    )
    assert str(evolve(f.CUT_LINK, node=2, seconds=3.5, place=12.25)) == (
        "node-2 is cut off from all others for 3.5 s, at 12.25 s"
    )
    assert (
        str(evolve(f.SKEW, node=1, amount=-0.5, seconds=9.0))
        == "the clock of node-1 is wrong by -1800 s for 9 s"
    )


@pytest.mark.parametrize(
    ("number", "said"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (112, "112th"), (101, "101st")],
)
def test_ordinals_are_english(number, said):
    """Places are counted as people say it."""
    assert f.ordinal(number) == said


def test_sets_of_faults_have_arithmetic():
    """A scenario takes away a fault or a family from everything, and nothing is in two families."""
    families = (f.CRASHES, f.NETWORK, f.STORE, f.DISK, f.TIME, f.TASKS, f.MODEL, f.PEOPLE)
    assert all(families)
    assert frozenset().union(*families) == f.EVERYTHING
    assert sum(map(len, families)) == len(f.EVERYTHING) == len(f.CATALOGUE)
    assert f.LYING_DISK not in f.EVERYTHING - {f.LYING_DISK}


@pytest.mark.parametrize(
    "fault",
    [one for one in f.CATALOGUE if one.family not in f.PERMITTED | {"tasks"}],
    ids=lambda one: one.action,
)
def test_each_fault_begins_and_its_end_undoes_it(fault):
    """Each fault does something to the world, and one with a duration ends after it or carries it along."""

    async def life():
        world = ToyWorld()
        placed = evolve(fault, seconds=5.0, amount=0.5, place=f.FaultPlace(kind="note"))
        nemesis = Nemesis(world, Tape(0, {}), {placed}, until=SECONDS, rate=0)

        async def talk(log):
            log.note("note", "now")
            if fault == f.LEAVE:
                await trio.sleep(7)
                assert [call[0] for call in world.calls] == ["leave"]
                world.nodes[0].down.set()

        return await struck_in(world, nemesis, talk)

    calls = lived(life)
    rule = f.FAULT_RULES[fault.action]
    assert calls
    if rule.end is not None:
        begun, ended = ([one for one in calls if ("restart" in one) is is_end] for is_end in (False, True))
        if not ended:
            begun, ended = calls[: len(calls) // 2], calls[len(calls) // 2 :]
        assert begun
        assert ended
        assert begun != ended
    elif rule.longest:
        assert "5.0" in repr(calls)


def test_a_fault_strikes_as_its_place_is_reached_for_the_nth_time():
    """Only lines of the kind, the word, the place and the session count, and the fault strikes within the line that is the nth."""

    async def life():
        world = ToyWorld()
        place = f.FaultPlace(kind="store", word="append", of="node-1", session="s1", nth=2)
        nemesis = Nemesis(
            world, Tape(0, {}), {evolve(f.KILL, node=2, seconds=4.0, place=place)}, until=SECONDS, rate=0
        )

        async def talk(log):
            def say(kind="store", name="append", at="node-1", session="s1"):
                log.note(kind, "a call", place=at, session=session, facts=Call(name))

            for other in ({"kind": "tool"}, {"name": "take"}, {"at": "node-0"}, {"session": "s2"}, {}):
                say(**other)
            assert world.calls == []
            say()
            assert world.calls == [("kill", 2)]
            say()

        await struck_in(world, nemesis, talk)
        return world

    world = lived(life)
    assert world.calls == [("kill", 2), ("restart", 2, 5.0)]
    assert [line.said for line in world.log.lines if line.kind == "fault"] == [
        "node-2 is killed and starts again after 4 s, as node-1 asks the store (append) in session s1 for the 2nd time",
        "ends: node-2 is killed and starts again after 4 s, as node-1 asks the store (append) in session s1 for the 2nd time",
    ]


def test_a_fault_whose_place_has_no_node_strikes_the_one_that_reaches_it():
    """Sessions have few owners, so a fault follows the work. One that names a node strikes its own node."""

    async def life():
        world = ToyWorld()
        anywhere, on_node_0 = f.FaultPlace(kind="store"), f.FaultPlace(kind="store", of="node-0")
        faults = {evolve(f.STOP_NODE, node=2, place=place) for place in (anywhere, on_node_0)}
        nemesis = Nemesis(world, Tape(0, {}), faults, until=SECONDS, rate=0)

        async def talk(log):
            log.note("store", "a call", place="node-1", facts=Call("append"))
            log.note("store", "a call", place="node-0", facts=Call("append"))

        return await struck_in(world, nemesis, talk)

    assert [call[:2] for call in lived(life)] == [("stop", 1), ("stop", 2)]


def test_a_fault_acts_in_the_context_of_the_world():
    """A task that the world starts for a fault inherits nothing of the node that reached the place."""
    node = contextvars.ContextVar("node", default="world")

    async def life():
        world = ToyWorld()
        world.stop = lambda index, seconds: world.calls.append(node.get())
        nemesis = Nemesis(
            world, Tape(0, {}), {evolve(f.STOP_NODE, place=f.FaultPlace(kind="note"))}, until=SECONDS, rate=0
        )

        async def talk(log):
            node.set("node-0")
            log.note("note", "now")

        return await struck_in(world, nemesis, talk)

    assert lived(life) == ["world"]


@pytest.mark.parametrize(
    ("fault", "damage"),
    [
        (f.FLIPPED_BIT, [("disk 0.flip", "sessions.db")]),
        (f.LOST_DISK, [("disk 0.lose", "sessions.db"), ("disk 0.lose", "empty")]),
    ],
    ids=["flipped bit", "lost disk"],
)
def test_a_disk_is_damaged_while_its_node_is_down(fault, damage):
    """The node is killed first and starts again after it, on what is left. A bit flips in each file that has one."""

    async def life():
        world = ToyWorld()
        nemesis = Nemesis(world, Tape(0, {}), {evolve(fault, seconds=2.0, place=3.0)}, until=SECONDS, rate=0)

        async def talk(_log):
            await trio.sleep(4)

        return await struck_in(world, nemesis, talk)

    assert lived(life) == [("kill", 0), *damage, ("restart", 0, 5.0)]


def test_a_crash_is_raised_by_the_next_step_of_the_node():
    """Once it has struck, one step of a session on that node raises; steps elsewhere and later ones are made."""

    async def life():
        world = ToyWorld()
        crash = evolve(f.CRASH, node=1, place=f.FaultPlace(kind="note"))
        nemesis = Nemesis(world, Tape(0, {}), {crash}, until=SECONDS, rate=0)
        made = []

        async def talk(log):
            def step_on(place):
                with installed(NodeMachine(0, place)):
                    made.append(session_actor.step("state", place))

            step_on("node-1")
            log.note("note", "now")
            step_on("node-0")
            with pytest.raises(
                SimulatedCrash, match="the next step of a session on node-1 crashes, as a node"
            ):
                step_on("node-1")
            step_on("node-1")

        with wrapped([(session_actor, "step", lambda _: lambda state, signal: (state, signal))]):
            await struck_in(world, nemesis, talk)
        return made

    assert lived(life) == [("state", place) for place in ("node-1", "node-0", "node-1")]


def test_an_empty_tape_is_a_calm_life():
    """Without draws nothing goes wrong."""
    assert Nemesis(ToyWorld(), Tape(0, {}), until=SECONDS).planned == []


@pytest.mark.parametrize("seed", range(30))
def test_the_drawn_faults_are_of_the_tape(seed):
    """The same seed plans the same faults, and so do the draws of its tape without the seed."""
    tape = Tape(seed)
    planned = Nemesis(ToyWorld(), tape, until=SECONDS).planned
    assert Nemesis(ToyWorld(), Tape(seed), until=SECONDS).planned == planned
    assert Nemesis(ToyWorld(), Tape("another", tape.drawn), until=SECONDS).planned == planned


@pytest.mark.parametrize("seed", range(30))
def test_leaving_a_fault_out_changes_no_other_one(seed):
    """A tape without the draws of one fault, or of the rate, plans the others as before."""
    tape = Tape(seed)
    planned = Nemesis(ToyWorld(), tape, until=SECONDS).planned
    numbers = sorted({name.split("]")[0] for name in tape.drawn if name.startswith("fault[")})
    kept = []
    for number in numbers:
        given = {name: value for name, value in tape.drawn.items() if name.split("]")[0] != number}
        others = Nemesis(ToyWorld(), Tape(0, given), until=SECONDS).planned
        assert [one for one in planned if one in others] == others
        kept.append(len(planned) - len(others))
    assert sum(kept) == len(planned)
    given = {name: value for name, value in tape.drawn.items() if not name.startswith("faults.rate")}
    assert Nemesis(ToyWorld(), Tape(0, given), until=SECONDS).planned == planned


def test_half_of_the_families_are_off_in_each_life():
    """Over many lives each family is on in some and off in others, and each action, kind of place and instants are drawn. An aimed fault keeps its place."""
    lives = [Nemesis(ToyWorld(), Tape(seed), until=SECONDS).planned for seed in range(200)]
    for family in ("node", "network", "store", "disk", "time", "tasks"):
        alive = sum(any(one.family == family for one in planned) for planned in lives)
        assert 20 < alive < (180 if family == "node" else 160), family
    drawn = [one for planned in lives for one in planned]
    assert {one.action for one in drawn} == {
        one.action for one in f.CATALOGUE if one.family not in f.PERMITTED
    }
    assert {one.place.kind for one in drawn if isinstance(one.place, f.FaultPlace)} == {
        kind for kind, _ in f.POINTS
    }
    aimed = [one for one in drawn if f.FAULT_RULES[one.action].point is not None]
    for one in aimed:
        point = f.FAULT_RULES[one.action].point
        assert evolve(one.place, nth=1) == evolve(point, nth=1)
        assert one.place.nth <= point.nth
    by_clock = sum(isinstance(one.place, float) for one in drawn) / (len(drawn) - len(aimed))
    assert 0.3 < by_clock < 0.5
    assert all(one.place <= SECONDS for one in drawn if isinstance(one.place, float))


def test_only_allowed_faults_are_drawn():
    """A scenario's set holds, and the rate is the number of faults per hour."""
    lives = [
        Nemesis(ToyWorld(), Tape(seed), f.CRASHES - {f.LOSE}, until=3600.0, rate=400).planned
        for seed in range(40)
    ]
    drawn = [one.action for planned in lives for one in planned]
    assert set(drawn) == {"kill", "stop", "leave", "sleep", "coma", "setback"}
    # The family is on in four of five lives. Of the actions 22 in 60 are allowed then, in one of four draws.
    assert 0.5 < len(drawn) / (40 * 400 * (1 - (38 / 60) ** 4) * 0.8) < 1.5


def test_no_fault_strikes_after_the_calm_end():
    """The last part of a life is calm: faults of the clock and of places no longer strike, and people behave."""

    async def life():
        world = ToyWorld()
        place = f.FaultPlace(kind="note", nth=2)
        late = {evolve(f.AWAY, place=SECONDS + 1), evolve(f.RESET, place=place)}
        nemesis = Nemesis(world, Tape(0, {}), late, until=SECONDS, rate=0)

        async def talk(log):
            log.note("note", "one")
            trio.lowlevel.current_clock().jump(SECONDS)
            log.note("note", "two")  # before the nemesis itself has had its turn
            await trio.sleep(5)
            assert nemesis.is_calm
            assert not nemesis.allows(f.WHIMS)

        return await struck_in(world, nemesis, talk)

    assert lived(life) == []


def test_models_and_people_misbehave_in_lives_that_allow_it():
    """What nothing strikes is allowed in about half of the lives, and never if a scenario takes it away."""
    allowed = sum(Nemesis(ToyWorld(), Tape(seed), until=SECONDS).allows(f.WHIMS) for seed in range(100))
    assert 30 < allowed < 70
    assert Nemesis(ToyWorld(), Tape(0, {}), until=SECONDS).allows(f.MODEL_TROUBLE)
    assert not any(
        Nemesis(ToyWorld(), Tape(seed), f.EVERYTHING - f.PEOPLE, until=SECONDS).allows(f.WHIMS)
        for seed in range(20)
    )
