"""Timers come through the mailbox, in their order: the busiest timer lets calls, casts, other actors and a stop through."""

import pytest
import trio

from agentrail.actors.actor import SELF, Send, get_state, resume, suspend
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Shutdown
from agentrail.otp.statem import (
    CancelTimer,
    Cast,
    EventTimeout,
    Init,
    Internal,
    Keep,
    NamedTimeout,
    NextEvent,
    NextState,
    Perform,
    Reply,
    StateTimeout,
    TimedOut,
)
from agentrail.testing.held import held
from tests.actors.rig import Tabled, on_virtual_time, settled
from tests.otp.rig import obey, said


def work(seconds):
    """Let a handler take some time, as one that computes does."""
    trio.lowlevel.current_clock().jump(seconds)


class Busy(Tabled):
    """At each timeout it works for 3 s and sets that timer again: one of them is due whenever a handler returns.

    Of two timers of 1 s each comes due while the other's handler works; one with a plan in absolute times misses it alone.
    An event timer dies with any other event, so it has no second one.
    """

    def __init__(self, kind):
        first = {
            "state": [StateTimeout(1.0), NamedTimeout("other", 2.0)],
            "event": [EventTimeout(1.0)],
            "named": [NamedTimeout("tick", 1.0), NamedTimeout("other", 2.0)],
            "plan": [NamedTimeout("plan", 1.0)],
        }[kind]
        super().__init__({"s1": obey}, first=Init("s1", 0, first))

    def handle(self, event, state, data):
        """Work at a timeout, answer a call."""
        if isinstance(event, TimedOut):
            self.log.append((state, "tick"))
            began = trio.current_time()
            work(3.0)
            match event:
                case TimedOut("named", "plan"):
                    again = NamedTimeout("plan", at_seconds=began + 1.0)
                case TimedOut("named", name):
                    again = NamedTimeout(name, 1.0)
                case TimedOut("state"):
                    again = StateTimeout(1.0)
                case _:
                    again = EventTimeout(1.0)
            return Keep(data + 1, [again])
        if isinstance(event, Cast):
            return super().handle(event, state, data)
        return Keep(actions=[Reply(event.to, data), EventTimeout(1.0)])


KINDS = ["state", "event", "named", "plan"]


async def pass_ticks(machine, count):
    """Wait until the timer has come so often."""
    while [what for _, what in machine.log].count("tick") < count:  # noqa: ASYNC110 - virtual time: it goes on by the handler
        await trio.sleep(1)


@pytest.mark.parametrize("kind", KINDS)
@on_virtual_time
async def test_a_busy_timer_does_not_starve_calls(stage, kind):
    """A call is read after one more timeout at the latest."""
    machine = Busy(kind)
    async with stage.play(machine) as handle:
        for count in (1, 2, 3):
            await pass_ticks(machine, count)
            before = len(machine.log)
            await handle.call("are you there?", timeout_seconds=100.0)
            assert len(machine.log) - before <= 2  # one before it is read, one before its caller has a turn
        handle.kill()


@pytest.mark.parametrize("kind", KINDS)
@on_virtual_time
async def test_a_busy_timer_does_not_starve_a_stop(stage, kind):
    """The stop is read after the handler under way, and `terminate` runs."""
    machine = Busy(kind)
    async with stage.open(
        children=[ChildSpec("m", machine.start, restart="temporary", shutdown_seconds=60.0)]
    ) as supervisor:
        handle = supervisor.handle("m")
        await pass_ticks(machine, 2)
        before = len(machine.log)
        await supervisor.terminate_child("m")
        assert handle.exit_reason == Shutdown()
        assert machine.ends == [Shutdown()]
        assert len(machine.log) - before <= 2  # one before the supervisor asks, one before that is read


@pytest.mark.parametrize("kind", KINDS)
@on_virtual_time
async def test_a_busy_timer_lets_introspection_and_other_tasks_through(stage, kind):
    """`get_state` is answered, and whoever is ready has its turn between two timeouts."""
    machine = Busy(kind)
    async with stage.play(machine) as handle:
        await pass_ticks(machine, 2)
        before = len(machine.log)
        await get_state(handle, timeout_seconds=100.0)
        assert len(machine.log) - before <= 2  # as of a call
        for _ in range(10):
            before = len(machine.log)
            await trio.lowlevel.checkpoint()
            assert (
                len(machine.log) - before <= 2
            )  # Trio runs who is ready in random order: last, and then first
        handle.kill()


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


@on_virtual_time
async def test_a_timer_that_comes_due_in_a_handler_is_before_what_that_handler_sends(stage):
    """A message of a machine to itself is put after the timeout that was due by then."""

    def slow(event):
        if said(event) != "work":
            return obey(event)
        work(10.0)
        return Keep(actions=[Perform(Send(SELF, "sent"))])

    machine = Tabled({"s1": slow})
    async with stage.play(machine) as handle:
        handle.cast(Keep(actions=[NamedTimeout("t", 5.0)]))
        await settled()
        handle.cast("work")
        await settled()
        assert [what for _, what in machine.log[1:]] == ["work", ("t", None), "sent"]


@on_virtual_time
async def test_a_held_actor_takes_no_timer(stage):
    """While it is held nothing is handled, timers neither; afterwards they come."""
    machine = Tabled({"s1": obey}, first=Init("s1", None, [StateTimeout(5.0)]))
    async with stage.play(machine) as handle:
        async with held(handle):
            await trio.sleep(10)
            handle.cast("behind it")  # the timer lies in the mailbox from here on
            await trio.sleep(10)
            assert machine.log == []
        await settled()
        assert [what for _, what in machine.log] == [("state", None), "behind it"]


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


@pytest.mark.parametrize(
    "set_timer", [StateTimeout(5.0), EventTimeout(5.0), NamedTimeout("t", 5.0)], ids=repr
)
@on_virtual_time
async def test_the_time_counts_from_the_end_of_the_handler(stage, set_timer):
    """A timeout of 5 s that a handler of 30 s sets comes 5 s after that handler has ended."""
    times = []

    def slow(event):
        times.append(trio.current_time())
        if said(event) != "work":
            return obey(event)
        work(30.0)
        return Keep(actions=[set_timer])

    async with stage.play(Tabled({"s1": slow})) as handle:
        handle.cast("work")
        await trio.sleep(100)
        assert times[1] - times[0] == 35.0


@on_virtual_time
async def test_the_time_counts_from_the_end_of_its_own_handler(stage):
    """And not from that of the next one in the same step: what that one takes has passed by then."""
    times = []

    def slow(event):
        times.append((said(event), trio.current_time()))
        match said(event):
            case "first":
                work(10.0)
                return Keep(actions=[StateTimeout(20.0), NextEvent(Internal("second"))])
            case "second":
                work(15.0)
        return Keep()

    async with stage.play(Tabled({"s1": slow})) as handle:
        handle.cast("first")
        await trio.sleep(100)
        began = times[0][1]
        assert [(what, at - began) for what, at in times] == [
            ("first", 0.0),
            ("second", 10.0),
            (("state", None), 30.0),
        ]


@on_virtual_time
async def test_the_time_of_enter_counts_from_its_end(stage):
    """A timeout that `enter` sets, at the start too."""
    times = []

    def enter(state, data):
        work(10.0)
        times.append(trio.current_time())
        return Keep(actions=[StateTimeout(5.0)])

    machine = Tabled({"s1": lambda _: times.append(trio.current_time()) or Keep()}, enter)
    async with stage.play(machine):
        await trio.sleep(100)
        assert times[1] - times[0] == 5.0


@on_virtual_time
async def test_stale_timers_do_not_pile_up(stage):
    """A machine that falls behind and sets its timer with each message keeps one timer, and empties its mailbox."""

    def slow(event):
        work(0.1)
        return Keep(actions=[EventTimeout(0.05)])

    machine = Tabled({"s1": slow}, capacity=500)
    async with stage.play(machine) as handle:
        async with held(handle):
            for number in range(500):
                handle.cast(number)
        while handle.statistics().user.waiting:  # noqa: ASYNC110 - it goes on by its own handlers
            await trio.lowlevel.checkpoint()
            assert handle.statistics().timers <= 1
            assert handle.statistics().notices.waiting <= 500
        assert [what for _, what in machine.log[:500]] == list(range(500))
        handle.kill()
