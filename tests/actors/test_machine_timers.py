"""Section J of the conformance scenarios, on running actors: state entry and timers."""

import math
import weakref

import pytest
import trio

from agentrail.actors import get_state
from agentrail.otp.exits import Shutdown
from agentrail.otp.statem import (
    CancelTimer,
    EventTimeout,
    Init,
    Internal,
    Keep,
    NamedTimeout,
    NextEvent,
    NextState,
    Postpone,
    Repeat,
    Reply,
    StateTimeout,
    UpdateTimer,
)
from agentrail.testing.held import held
from tests.actors.rig import Tabled, on_virtual_time, settled
from tests.otp.rig import goto, obey, said


async def cast(handle, *messages):
    """Send casts, and wait until they are handled."""
    for message in messages:
        handle.cast(message)
    await settled()


class Timed(Tabled):
    """Obeys, and notes when each of its timers came."""

    def __init__(self, *states, **options):
        super().__init__(dict.fromkeys(("s1", *states), obey), **options)
        self.fired = []

    def handle(self, event, state, data):
        """Note the time of a timeout."""
        if type(event).__name__ == "TimedOut":
            self.fired.append((said(event), trio.current_time()))
        return super().handle(event, state, data)


@pytest.mark.scenario("S-148")
@on_virtual_time
async def test_enter_on_a_change(stage):
    """`enter` gets the state that was left as the old one; at the start both are the first."""
    machine = Tabled({"s1": goto, "s2": Keep()}, Keep())
    async with stage.play(machine) as handle:
        await cast(handle, ("go", "s2"))
        assert machine.log == [("enter", "s1", "s1"), ("s1", ("go", "s2")), ("enter", "s1", "s2")]


@pytest.mark.scenario("S-149")
@on_virtual_time
async def test_enter_on_a_repeat(stage):
    """Old equals current, and nothing is replayed."""
    machine = Tabled(
        {"s1": lambda event: Repeat() if said(event) == "again" else Keep(actions=[Postpone()])}, Keep()
    )
    async with stage.play(machine) as handle:
        await cast(handle, "p", "again")
        assert machine.log[1:] == [("s1", "p"), ("s1", "again"), ("enter", "s1", "s1")]


@pytest.mark.scenario("S-151")
@on_virtual_time
async def test_what_enter_may_do(stage):
    """It changes data, sets a timer, and replies to a call that was kept."""
    machine = Tabled(
        {"s1": lambda event: NextState("s2", event.to), "s2": Keep()},
        lambda state, data: (
            Keep("new", [StateTimeout(5.0, "due"), Reply(data, "yes")]) if state == "s2" else Keep()
        ),
    )
    async with stage.play(machine) as handle:
        assert await handle.call("go") == "yes"
        assert await get_state(handle) == ("s2", "new")
        await trio.sleep(6)
        assert machine.log[-1] == ("s2", ("state", "due"))


@pytest.mark.scenario("S-152")
@pytest.mark.parametrize("killer", ["cast", "inserted", "replayed", "timeout"])
@on_virtual_time
async def test_event_timer_dies_with_any_event(stage, killer):
    """A cast, an inserted event, a replayed one, another kind of timeout."""
    machine = Timed("s2")
    arm = EventTimeout(5.0, "event")
    async with stage.play(machine) as handle:
        match killer:
            case "cast":
                await cast(handle, Keep(actions=[arm]), "any")
            case "inserted":
                await cast(handle, Keep(actions=[arm, NextEvent(Internal("any"))]))
            case "replayed":
                once = iter([Keep(actions=[Postpone()])])
                machine.table["s1"] = lambda event: next(once, None) or obey(event)
                await cast(handle, "p", NextState("s2", actions=[arm]))
            case _:
                await cast(handle, Keep(actions=[arm, NamedTimeout(name="n", seconds=1.0)]))
        await trio.sleep(20)
        assert "event" not in [content for (_, content), _ in machine.fired]


@pytest.mark.scenario("S-153")
@on_virtual_time
async def test_state_timer(stage):
    """It survives `Keep`, `Repeat` and the same state, and is cancelled by a state change."""
    machine = Timed("s2")
    async with stage.play(machine) as handle:
        began = trio.current_time()
        await cast(handle, Keep(actions=[StateTimeout(5.0)]), Keep(), Repeat(), NextState("s1"))
        await trio.sleep(10)
        assert machine.fired == [(("state", None), began + 5.0)]
        await cast(handle, Keep(actions=[StateTimeout(5.0)]), NextState("s2"))
        await trio.sleep(10)
        assert len(machine.fired) == 1


@pytest.mark.scenario("S-155")
@on_virtual_time
async def test_named_timers(stage):
    """Two run independently, survive state changes, and starting one again replaces only that one."""
    machine = Timed("s2")
    async with stage.play(machine) as handle:
        began = trio.current_time()
        await cast(
            handle,
            Keep(actions=[NamedTimeout(name="a", seconds=5.0), NamedTimeout(name="b", seconds=6.0)]),
            NextState("s2"),
        )
        await trio.sleep(1)
        await cast(handle, Keep(actions=[NamedTimeout(name="a", seconds=10.0)]))
        await trio.sleep(20)
        assert machine.fired == [(("b", None), began + 6.0), (("a", None), began + 11.0)]


@pytest.mark.scenario("S-156")
@pytest.mark.scenario("S-157")
@pytest.mark.parametrize(
    "killer", [Keep(actions=[CancelTimer("state")]), NextState("s2")], ids=["cancel", "change"]
)
@on_virtual_time
async def test_timer_that_came_due_while_the_machine_was_busy(stage, killer):
    """The handler under way cancels it, or changes the state: it is never delivered."""

    class Busy(Timed):
        def handle(self, event, state, data):
            if said(event) == "work":
                trio.lowlevel.current_clock().jump(10.0)
                return killer
            return super().handle(event, state, data)

    machine = Busy("s2")
    async with stage.play(machine) as handle:
        await cast(handle, Keep(actions=[StateTimeout(5.0)]))
        began = trio.current_time()
        await cast(handle, "work")
        assert trio.current_time() - began == 10.0
        await trio.sleep(10)
        assert machine.fired == []


@pytest.mark.scenario("S-158")
@on_virtual_time
async def test_update_of_a_timer(stage):
    """New content at the old time; of a timer that does not run, at once."""
    machine = Timed()
    async with stage.play(machine) as handle:
        began = trio.current_time()
        await cast(handle, Keep(actions=[StateTimeout(5.0, "old")]))
        await trio.sleep(2)
        await cast(handle, Keep(actions=[UpdateTimer("state", "new")]))
        await trio.sleep(10)
        assert machine.fired == [(("state", "new"), began + 5.0)]
        began = trio.current_time()
        await cast(handle, Keep(actions=[UpdateTimer("state", "none ran")]))
        assert machine.fired[1:] == [(("state", "none ran"), began)]


@pytest.mark.scenario("S-159")
@on_virtual_time
async def test_infinity_cancels(stage):
    """A running timer that is set again with `math.inf` never fires."""
    machine = Timed()
    async with stage.play(machine) as handle:
        await cast(handle, Keep(actions=[StateTimeout(5.0)]), Keep(actions=[StateTimeout(math.inf)]))
        assert handle.statistics().timers == 0
        await trio.sleep(1_000)
        assert machine.fired == []


@pytest.mark.scenario("S-160")
@pytest.mark.scenario("S-163")
@pytest.mark.parametrize(
    "zero", [StateTimeout(0, "due"), StateTimeout(content="due", at_seconds=-1.0)], ids=repr
)
@on_virtual_time
async def test_due_at_once(stage, zero):
    """A timeout of 0, or before now, comes before the message that already lies in the mailbox."""
    machine = Timed()
    async with stage.play(machine) as handle:
        async with held(handle):
            await cast(handle, Keep(actions=[zero]), "mail")
        await settled()
        assert machine.log[1:] == [("s1", ("state", "due")), ("s1", "mail")]


@pytest.mark.scenario("S-162")
@on_virtual_time
async def test_waiting_zero_timer_set_again(stage):
    """It fires exactly once, as a state timeout, 50 ms later."""
    machine = Timed()
    async with stage.play(machine) as handle:
        began = trio.current_time()
        again = NextEvent(Internal(Keep(actions=[StateTimeout(0.05, "later")])))
        await cast(handle, Keep(actions=[StateTimeout(0, "at once"), again]))
        await trio.sleep(1)
        assert machine.fired == [(("state", "later"), pytest.approx(began + 0.05))]


@pytest.mark.check
@pytest.mark.scenario("S-164")
@on_virtual_time
async def test_no_residue_of_timers(stage):
    """After 10,000 rounds of set and cancel none is kept, and the actor has no deadline."""
    machine = Tabled({"s1": obey})
    async with stage.play(machine) as handle:
        for _ in range(100):
            for _ in range(100):
                handle.cast(Keep(actions=[NamedTimeout(name="n", seconds=5.0)]))
                handle.cast(Keep(actions=[CancelTimer("named", "n")]))
            await settled()
        assert len(machine.log) == 20_000
        assert handle.statistics().timers == 0
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline == math.inf


class Key:
    """The name of a timer."""


class Renaming(Tabled):
    """At each event it cancels the timer that it had and starts one with a new name."""

    def __init__(self):
        super().__init__({}, first=Init("s1", None, [StateTimeout(5_000.0)]))
        self.keys = weakref.WeakSet()

    def handle(self, event, state, data):
        """Note the new name, weakly."""
        key = Key()
        self.keys.add(key)
        return Keep(key, [CancelTimer("named", data), NamedTimeout(name=key, seconds=1_000.0)])


@pytest.mark.scenario("S-164")
@on_virtual_time
async def test_no_residue_beside_a_timer_that_runs(stage):
    """While another timer runs all the time, the cancelled ones are let go of."""
    machine = Renaming()
    async with stage.play(machine) as handle:
        for _ in range(10):
            for _ in range(1000):
                handle.cast("again")
            await settled()
        assert handle.statistics().timers == 2
        assert len(machine.keys) < 100


@pytest.mark.scenario("S-165")
@pytest.mark.parametrize("end", ["stop", "crash"])
@on_virtual_time
async def test_timers_end_with_the_instance(stage, end):
    """None fires into the void, and none into the next instance."""
    machine = Timed()
    async with stage.play(machine, restart="transient") as handle:
        await cast(handle, Keep(actions=[StateTimeout(5.0), NamedTimeout(name="n", seconds=6.0)]))
        if end == "stop":
            await handle.stop(Shutdown("enough"))
        else:
            handle.cast(3)  # `obey` returns it, and that is no transition
            await handle.wait()
        await trio.sleep(20)
        assert machine.fired == []
