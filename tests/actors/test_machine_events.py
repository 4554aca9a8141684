"""Sections I and J of the conformance scenarios, on running actors: order, postponing, and timers, which come through the mailbox."""

import weakref

import pytest
import trio

from agentrail.actors import SELF, Send, resume, suspend
from agentrail.actors.dead_letters import dead_letters
from agentrail.errors import CallTimeout, MailboxFull
from agentrail.otp.statem import (
    Call,
    CancelTimer,
    Init,
    Internal,
    Keep,
    Limits,
    NamedTimeout,
    NextEvent,
    NextState,
    Perform,
    Postpone,
    Reply,
    StateTimeout,
)
from agentrail.testing.held import held
from tests.actors.rig import Tabled, cast, on_virtual_time, settled
from tests.otp.rig import obey, postpone, said


@pytest.mark.scenario("S-129")
@on_virtual_time
async def test_master_order(stage):
    """Inserted, replayed, zero timeout, and last what lies in the mailbox."""

    def leave(event):
        if said(event) != "go":
            return Keep(actions=[Postpone()])
        actions = [StateTimeout(0, "due"), NextEvent(Internal("i1")), NextEvent(Internal("i2"))]
        return NextState("s2", actions=actions)

    machine = Tabled({"s1": leave, "s2": Keep()})
    async with stage.play(machine) as handle:
        async with held(handle):
            await cast(handle, "p1", "p2", "go", "mail")
        await settled()
        in_s2 = [what for state, what in machine.log if state == "s2"]
        assert in_s2 == ["i1", "i2", "p1", "p2", ("state", "due"), "mail"]


@pytest.mark.scenario("S-134", "S-135")
@on_virtual_time
async def test_postponed_call(stage):
    """Its caller goes on when the later state answers; the reply to one that gave up is dropped."""

    def answer(event):
        return Keep(actions=[Reply(event.to, said(event))] if isinstance(event, Call) else [])

    machine = Tabled({"s1": postpone, "s2": answer})
    async with stage.play(machine) as handle, trio.open_nursery() as nursery:

        async def later():
            await trio.sleep(3)
            handle.cast(("go", "s2"))

        with pytest.raises(CallTimeout):
            await handle.call("late", timeout_seconds=1)
        nursery.start_soon(later)
        began = trio.current_time()
        assert await handle.call("when?") == "when?"
        assert trio.current_time() - began == 3.0
        assert await handle.call("next") == "next"
        assert machine.log[-3:] == [("s2", "late"), ("s2", "when?"), ("s2", "next")]


@pytest.mark.scenario("S-139")
@on_virtual_time
async def test_bound_of_the_postponed_queue(stage):
    """A call above it raises `MailboxFull`, a cast is a dead letter, there is one report, and the first stay."""
    machine = Tabled({"s1": postpone, "s2": Keep()}, limits=Limits(postponed=2))
    async with stage.play(machine) as handle:
        before = dead_letters().count
        await cast(handle, "p1", "p2")
        with pytest.raises(MailboxFull, match="postpone queue"):
            await handle.call("p3")
        await cast(handle, "p4")
        assert dead_letters().count == before + 1
        assert [one.kind for one in stage.reports].count("postpone_overflow") == 1
        assert handle.statistics().postponed == 2
        await cast(handle, ("go", "s2"))
        assert [what for state, what in machine.log if state == "s2"] == ["p1", "p2"]


@pytest.mark.scenario("S-141")
@on_virtual_time
async def test_internal_events_cannot_be_forged(stage):
    """An `Internal` that is cast arrives as a `Cast` with this content; by `info` as an `Info`, by `call` as a `Call`."""
    seen = []

    def note(event):
        seen.append((type(event).__name__, said(event)))
        return Keep(actions=[Reply(event.to, None)] if isinstance(event, Call) else [])

    forged = Internal("x")
    async with stage.play(Tabled({"s1": note})) as handle:
        handle.cast(forged)
        handle.info(forged)
        await handle.send(forged)
        await handle.call(forged)
    assert seen == [("Cast", forged), ("Info", forged), ("Cast", forged), ("Call", forged)]


@pytest.mark.scenario("S-142")
@on_virtual_time
async def test_sending_to_oneself(stage):
    """The message is handled after the inserted event, the replay and the zero timeout."""

    def leave(event):
        if said(event) == "p1":
            return Keep(actions=[Postpone()])
        return NextState("s2", actions=[Perform(Send(SELF, "m")), NextEvent(Internal("i1")), StateTimeout(0)])

    machine = Tabled({"s1": leave, "s2": Keep()})
    async with stage.play(machine) as handle:
        await cast(handle, "p1", "go")
        assert machine.log[2:] == [("s2", "i1"), ("s2", "p1"), ("s2", ("state", None)), ("s2", "m")]


class Timed(Tabled):
    """Obeys, and notes when each of its timers came."""

    def __init__(self, *states, **options):
        super().__init__(dict.fromkeys(("s1", *states), obey), **options)
        self.fired = []

    def handle(self, event, state, data):
        if type(event).__name__ == "TimedOut":
            self.fired.append((said(event), trio.current_time()))
        return super().handle(event, state, data)


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


@pytest.mark.scenario("S-152")
@on_virtual_time
async def test_timers_and_messages_come_in_their_order(stage):
    """What came before the timer was due is handled before it, what came later after it, however late they are read."""
    machine = Tabled({"s1": obey})
    async with stage.play(machine) as handle:
        await cast(
            handle, Keep(actions=[NamedTimeout("b", 20.0), NamedTimeout("a", 10.0), NamedTimeout("c", 30.0)])
        )
        async with held(handle):
            handle.cast("at 0")
            await trio.sleep(15)
            handle.info("at 15")
            await trio.sleep(10)
            await handle.send("at 25")
            await trio.sleep(25)
        await settled()
        timers = [("a", None), ("b", None), ("c", None)]
        assert [what for _, what in machine.log[1::2]] == ["at 0", "at 15", "at 25"]
        assert [what for _, what in machine.log[2::2]] == timers


@pytest.mark.scenario("S-183")
@on_virtual_time
async def test_timers_of_a_suspended_machine(stage):
    """After a resume due timers come before what waited, in the order of their deadlines, and a later one comes too."""
    machine = Tabled({"s1": obey}, first=Init("s1", None, [StateTimeout(5.0), NamedTimeout("n", 3.0)]))
    async with stage.play(machine) as handle:
        await suspend(handle)
        handle.cast("before")
        await trio.sleep(10)
        await cast(handle, "after")
        assert machine.log == []
        await resume(handle)
        await settled()
        assert [what for _, what in machine.log] == [("n", None), ("state", None), "before", "after"]
        await suspend(handle)
        await resume(handle)
        handle.cast(Keep(actions=[StateTimeout(5.0)]))
        await trio.sleep(10)
        assert machine.log[5:] == [("s1", ("state", None))]


@pytest.mark.scenario("S-156", "S-157")
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


@pytest.mark.scenario("S-164")
@on_virtual_time
async def test_no_residue_beside_a_timer_that_runs(stage):
    """While another timer runs all the time, the cancelled ones are let go of."""
    keys = weakref.WeakSet()

    class Key:
        pass

    class Renaming(Tabled):
        def handle(self, event, state, data):
            key = Key()
            keys.add(key)
            return Keep(key, [CancelTimer("named", data), NamedTimeout(name=key, seconds=1_000.0)])

    machine = Renaming({}, first=Init("s1", None, [StateTimeout(5_000.0)]))
    async with stage.play(machine) as handle:
        for _ in range(10):
            await cast(handle, *["again"] * 1000)
        assert handle.statistics().timers == 2
        assert len(keys) < 100
