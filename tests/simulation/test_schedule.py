"""The order of tasks in a simulated life: fair, replayed from its tape, and with the tasks of a stopped node set aside."""

import math
from itertools import pairwise

import pytest
import trio

from agentrail.outside import installed
from agentrail.testing.clock import FakeClock
from agentrail.testing.seeded import seeded_order
from agentrail.testing.simulation.log import WORLD
from agentrail.testing.simulation.machine import NodeMachine, is_held
from agentrail.testing.simulation.schedule import (
    FAIR,
    HYBRID,
    MAX_WAIT,
    PARTS,
    PORTFOLIO,
    POS,
    STEP_MICROSECONDS,
    TRIO,
    WALK,
    Deadlock,
    TaskOrder,
    pct,
)
from agentrail.testing.simulation.tape import Tape

SCHEDULES = (FAIR, TRIO, WALK, HYBRID, pct(3), POS, PORTFOLIO)


class Steps(trio.abc.Instrument):
    """Each task step: its name and its time."""

    def __init__(self):
        self.seen = []

    def before_task_step(self, task):
        self.seen.append((task.name, trio.current_time()))


def live(main, tape, schedule=FAIR):
    """Run a program in an order; return the order, and each step with its time."""
    order, steps = TaskOrder(schedule, tape, is_held), Steps()
    with seeded_order(0, order):
        trio.run(main, order, clock=FakeClock(), instruments=[order, steps])
    return order, steps.seen


async def crowd(_):
    """Six tasks with channels, sleeps and deadlines that often pass as something arrives."""
    async with trio.open_nursery() as nursery:
        pairs = [trio.open_memory_channel(math.inf) for _ in range(6)]

        async def go(number):
            for turn in range(20):
                pairs[number][0].send_nowait(turn)
                with trio.move_on_after(0.002):
                    await pairs[number - 1][1].receive()
                await trio.sleep(0.001 * (number % 3))

        for number in range(6):
            nursery.start_soon(go, number, name=f"go {number}")


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_life_is_replayed_from_its_tape(schedule):
    """Each step at the same time, in ten lives; the replay draws what it was given."""
    orders = set()
    for seed in range(10):
        tape = Tape(seed)
        order, seen = live(crowd, tape, schedule)
        replayed = Tape("another seed", tape.drawn)
        again, seen_again = live(crowd, replayed, schedule)
        assert seen_again == seen
        assert replayed.drawn == tape.drawn
        assert (again.schedule, again.steps) == (order.schedule, len(seen))
        orders.add(tuple(seen))
    assert len(orders) == 10


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_an_empty_tape_is_the_fair_order(schedule):
    """The oldest task first, each step of the usual length, and nothing drawn. The tasks of a node share its processor."""
    tape = Tape(1, {})
    with installed(NodeMachine(0, "node-0")):
        _, seen = live(crowd, tape, schedule)
    assert tape.drawn == {}
    fair = live(crowd, Tape(2, {}), FAIR)[1]
    assert [name for name, _ in seen][:8] == [name for name, _ in fair][:8]
    assert [name for name, _ in seen if name.startswith("go")][:6] == [f"go {number}" for number in range(6)]
    assert {round(later - at, 9) for (_, at), (_, later) in pairwise(seen[:9])} == {STEP_MICROSECONDS / 1e6}


def test_each_machine_has_its_own_processor():
    """A hundred clients and as many tasks of the world take as long as one. Two tasks of one node take twice as long."""
    steps = 100

    async def work():
        for _ in range(steps):
            await trio.lowlevel.checkpoint()

    def milliseconds(*machines):
        async def main(_):
            async with trio.open_nursery() as nursery:
                for machine in machines:
                    with installed(machine):
                        nursery.start_soon(work)

        return round(live(main, Tape(1, {}))[1][-1][1] * 1000)

    node = NodeMachine(0, "node-0")
    crowd = [NodeMachine(0, place) for place in (*map(str, range(100)), *(WORLD,) * 100)]
    assert milliseconds(node) == milliseconds(node, *crowd) == steps * STEP_MICROSECONDS / 1000
    assert milliseconds(node, node, *crowd) == 2 * steps * STEP_MICROSECONDS / 1000


def test_each_deviation_can_be_taken_out_of_a_tape():
    """A shrunk life still runs to its end, whatever is missing."""
    tape, deviations, seed = Tape(0), [], 0
    while len(deviations) < 10:
        seed += 1
        tape = Tape(seed)
        live(crowd, tape, HYBRID)
        deviations = [name for name in tape.drawn if name.startswith(("order", "hold"))]
    for name in deviations:
        fewer = {other: value for other, value in tape.drawn.items() if other != name}
        order, _ = live(crowd, Tape(seed, fewer), HYBRID)
        assert order.steps > 100


def test_a_portfolio_draws_each_strategy():
    """One per life, and a life from an empty tape is fair."""
    found = {str(TaskOrder(PORTFOLIO, Tape(seed), is_held).schedule) for seed in range(60)}
    assert found == {str(part) for part in PARTS}
    assert TaskOrder(PORTFOLIO, Tape(0, {}), is_held).schedule == FAIR


@pytest.mark.parametrize("schedule", [WALK, HYBRID, pct(3), POS], ids=str)
def test_a_task_is_held_back_while_others_take_many_turns(schedule):
    """What Trio never does: its batches let each ready task make a step before another one makes two."""
    longest = 0

    async def main(_):
        turns = {"one": 0, "other": 0}

        async def go(name, other):
            nonlocal longest
            before = turns[other]
            for _ in range(200):
                turns[name] += 1
                await trio.lowlevel.checkpoint()
                longest, before = max(longest, turns[other] - before), turns[other]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(go, "one", "other")
            nursery.start_soon(go, "other", "one")

    for seed in range(20):
        live(main, Tape(seed), schedule)
    assert longest > 5


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_task_that_polls_another_one_ends(schedule):
    """No task waits for ever while another one is always ready."""

    async def main(_):
        done = False

        async def work():
            nonlocal done
            for _ in range(5):
                await trio.lowlevel.checkpoint()
            done = True

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            while not done:
                await trio.lowlevel.checkpoint()

    for seed in range(10):
        order, _ = live(main, Tape(seed), schedule)
        assert order.steps < 10 * MAX_WAIT


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_the_tasks_of_a_stopped_node_stand_still_and_then_run_late(schedule):
    """The clock jumps meanwhile, deadlines pass, and nothing of the node runs before it continues: as after SIGSTOP."""
    node = NodeMachine(0, "node-0")
    said = []

    async def beat():
        while True:
            said.append((trio.current_time(), node.is_held))
            await trio.sleep(1)

    async def wait_for_an_answer(answer):
        with trio.move_on_after(5) as scope:
            await answer.wait()
        said.append((trio.current_time(), node.is_held))
        assert scope.cancelled_caught
        nursery.cancel_scope.cancel()

    async def main(order):
        nonlocal nursery
        async with trio.open_nursery() as nursery:
            with installed(node):
                nursery.start_soon(beat)
                nursery.start_soon(wait_for_an_answer, trio.Event())
            await trio.sleep(2.5)
            node.is_held = True
            order.hold()
            await trio.sleep(60)
            node.is_held = False
            order.release()

    nursery = None
    for seed in range(5):
        said.clear()
        live(main, Tape(seed), schedule)
        assert not any(held for _, held in said)
        assert [at for at, _ in said if 3 < at < 62] == []
        assert sum(at > 62 for at, _ in said) >= 1


def test_the_ready_tasks_of_a_stopped_node_make_no_further_step():
    """Also those that Trio has already in its hands: a dead node acts no more."""
    node, seen = NodeMachine(0, "node-0"), []

    async def act():
        while True:
            seen.append(node.is_held)
            await trio.lowlevel.checkpoint()

    async def main(order):
        async with trio.open_nursery() as nursery:
            with installed(node):
                for _ in range(10):
                    nursery.start_soon(act)
            for _ in range(3):
                await trio.lowlevel.checkpoint()
            node.is_held = True
            order.hold()
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
            node.is_held = False
            order.release()

    for schedule in SCHEDULES:
        seen.clear()
        live(main, Tape(4), schedule)
        assert not any(seen)


def test_a_life_in_which_each_task_waits_for_another_ends():
    """Trio would look for a deadline for ever."""

    async def main(_):
        await trio.sleep_forever()

    with pytest.raises(trio.TrioInternalError) as caught:
        live(main, Tape(1))
    assert isinstance(caught.value.__cause__, Deadlock)
