"""Timers come through the mailbox, in their order: the busiest timer lets calls, casts, other actors and a stop through."""

import pytest
import trio

from agentrail.actors import resume, suspend
from agentrail.otp.statem import (
    CancelTimer,
    Init,
    Keep,
    NamedTimeout,
    NextState,
    StateTimeout,
)
from agentrail.testing.held import held
from tests.actors.rig import Tabled, on_virtual_time, settled
from tests.otp.rig import obey


@pytest.mark.scenario("S-152")
@on_virtual_time
async def test_timers_and_messages_come_in_their_order(stage):
    """What came before the timer was due is handled before it, what came later after it, however late they are read."""
    machine = Tabled({"s1": obey})
    async with stage.play(machine) as handle:
        handle.cast(Keep(actions=[NamedTimeout("b", 20.0), NamedTimeout("a", 10.0), NamedTimeout("c", 30.0)]))
        await settled()
        async with held(handle):
            handle.cast("at 0")
            await trio.sleep(15)
            handle.info("at 15")
            await trio.sleep(10)
            await handle.send("at 25")
            await trio.sleep(25)
        await settled()
        assert [what for _, what in machine.log[1:]] == [
            "at 0",
            ("a", None),
            "at 15",
            ("b", None),
            "at 25",
            ("c", None),
        ]


@pytest.mark.scenario("S-183")
@on_virtual_time
async def test_due_timers_come_first_after_a_resume(stage):
    """Before what waited already when they were due, in the order of their deadlines."""
    machine = Tabled({"s1": obey}, first=Init("s1", None, [StateTimeout(5.0), NamedTimeout("n", 3.0)]))
    async with stage.play(machine) as handle:
        await suspend(handle)
        handle.cast("before")
        await trio.sleep(10)
        handle.cast("after")
        await settled()
        assert machine.log == []
        await resume(handle)
        await settled()
        assert [what for _, what in machine.log] == [("n", None), ("state", None), "before", "after"]


@on_virtual_time
async def test_suspended_before_its_first_timer(stage):
    """A machine without timers is suspended and resumed, and one that it sets later comes."""
    machine = Tabled({"s1": obey})
    async with stage.play(machine) as handle:
        await suspend(handle)
        await resume(handle)
        handle.cast(Keep(actions=[StateTimeout(5.0)]))
        await trio.sleep(10)
        assert machine.log[1:] == [("s1", ("state", None))]


@pytest.mark.scenario("S-156")
@pytest.mark.parametrize(
    "killer",
    [CancelTimer("named", "t"), NamedTimeout("t", 50.0)],
    ids=["cancelled", "set again"],
)
@on_virtual_time
async def test_a_timer_that_lies_in_the_mailbox_can_be_cancelled(stage, killer):
    """It came due, and waits behind the message whose handler cancels it: it is never delivered."""
    machine = Tabled({"s1": obey})
    async with stage.play(machine) as handle:
        handle.cast(Keep(actions=[NamedTimeout("t", 5.0)]))
        await settled()
        async with held(handle):
            handle.cast(Keep(actions=[killer]))
            await trio.sleep(10)
            handle.cast("the timer is before this one")
            assert handle.statistics().notices.waiting == 1
        await settled()
        assert [what for _, what in machine.log[2:]] == ["the timer is before this one"]
        await trio.sleep(100)
        assert len(machine.log) == (3 if isinstance(killer, CancelTimer) else 4)


@pytest.mark.scenario("S-157")
@on_virtual_time
async def test_a_state_timer_that_lies_in_the_mailbox_ends_with_its_state(stage):
    """It came due, and waits behind the message whose handler changes the state."""
    machine = Tabled({"s1": obey, "s2": obey}, first=Init("s1", None, [StateTimeout(5.0)]))
    async with stage.play(machine) as handle:
        async with held(handle):
            handle.cast(NextState("s2"))
            await trio.sleep(10)
            handle.cast("later")
        await settled()
        assert [(state, what) for state, what in machine.log[1:]] == [("s2", "later")]
