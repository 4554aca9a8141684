"""Section I of the conformance scenarios, on running actors: order, postponing, and what is a state change."""

import enum

import pytest
import trio

from agentrail.actors import SELF, Send, get_state
from agentrail.actors.mailbox import dead_letters
from agentrail.errors import ActorDown, CallTimeout, MailboxFull
from agentrail.otp.exits import Shutdown
from agentrail.otp.statem import (
    Call,
    Init,
    Internal,
    Keep,
    Limits,
    NextEvent,
    NextState,
    Perform,
    Postpone,
    Repeat,
    Reply,
    StateTimeout,
    Stop,
)
from agentrail.testing.held import held
from tests.actors.rig import Tabled, on_virtual_time, settled
from tests.otp.rig import goto, obey, postpone, said


async def cast(handle, *messages):
    """Send casts, and wait until they are handled."""
    for message in messages:
        handle.cast(message)
    await settled()


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


@pytest.mark.scenario("S-130")
@pytest.mark.parametrize(
    "no_change", [Keep(), Keep("new"), NextState("s1"), NextState("s1", "new"), Repeat()], ids=repr
)
@on_virtual_time
async def test_only_a_change_replays(stage, no_change):
    """`Keep`, the same state, `Repeat` and new data replay nothing; a real state change does."""

    def first(event):
        return Keep(actions=[Postpone()]) if said(event) == "p" else said(event)

    machine = Tabled({"s1": first, "s2": Keep()})
    async with stage.play(machine) as handle:
        await cast(handle, "p", no_change)
        assert machine.log.count(("s1", "p")) == 1
        await cast(handle, NextState("s2"))
        assert machine.log[-1] == ("s2", "p")


@pytest.mark.scenario("S-131")
@on_virtual_time
async def test_postponed_again_keeps_the_order(stage):
    """What is postponed twice stays before what came meanwhile."""
    machine = Tabled({"s1": postpone, "s2": postpone, "s3": Keep()})
    async with stage.play(machine) as handle:
        await cast(handle, "p1", "p2", ("go", "s2"), "p3", ("go", "s3"))
        assert [what for state, what in machine.log if state == "s3"] == ["p1", "p2", "p3"]


@pytest.mark.scenario("S-132")
@on_virtual_time
async def test_change_during_the_replay(stage):
    """The rest of the replay is handled in the newest state."""
    machine = Tabled({"s1": postpone, "s2": NextState("s3"), "s3": Keep()})
    async with stage.play(machine) as handle:
        await cast(handle, "p1", "p2", ("go", "s2"))
        assert machine.log[3:] == [("s2", "p1"), ("s3", "p2")]


@pytest.mark.scenario("S-134")
@on_virtual_time
async def test_postponed_call(stage):
    """Its caller goes on when the later state answers, and not before."""
    machine = Tabled({"s1": postpone, "s2": lambda event: Keep(actions=[Reply(event.to, "now")])})
    async with stage.play(machine) as handle, trio.open_nursery() as nursery:

        async def later():
            await trio.sleep(3)
            handle.cast(("go", "s2"))

        nursery.start_soon(later)
        began = trio.current_time()
        assert await handle.call("when?") == "now"
        assert trio.current_time() - began == 3.0


@pytest.mark.scenario("S-135")
@on_virtual_time
async def test_postponed_call_whose_caller_gave_up(stage):
    """The reply is dropped, and the machine works on."""
    machine = Tabled(
        {
            "s1": postpone,
            "s2": lambda event: Keep(
                actions=[Reply(event.to, said(event))] if isinstance(event, Call) else []
            ),
        }
    )
    async with stage.play(machine) as handle:
        with pytest.raises(CallTimeout):
            await handle.call("late", timeout_seconds=1)
        await cast(handle, ("go", "s2"))
        assert await handle.call("next") == "next"
        assert machine.log[-2:] == [("s2", "late"), ("s2", "next")]


@pytest.mark.scenario("S-136")
@on_virtual_time
async def test_postponed_call_and_the_machine_stops(stage):
    """The caller gets `ActorDown` with the reason."""
    machine = Tabled(
        {"s1": lambda event: Stop(Shutdown("x")) if said(event) == "stop" else Keep(actions=[Postpone()])}
    )
    async with stage.play(machine) as handle, trio.open_nursery() as nursery:

        async def later():
            await settled()
            handle.cast("stop")

        nursery.start_soon(later)
        with pytest.raises(ActorDown) as caught:
            await handle.call("when?")
        assert caught.value.reason == Shutdown("x")


@pytest.mark.scenario("S-137")
@on_virtual_time
async def test_postpone_from_init(stage):
    """It is ignored, and does not stick to the first event."""
    machine = Tabled({"s1": goto, "s2": Keep()}, first=Init("s1", None, [Postpone()]))
    async with stage.play(machine) as handle:
        await cast(handle, "first", ("go", "s2"))
        assert machine.log == [("s1", "first"), ("s1", ("go", "s2"))]


@pytest.mark.scenario("S-138")
@pytest.mark.scenario("S-150")
@pytest.mark.parametrize(
    "returned",
    [NextState("s1"), Keep(actions=[Postpone()]), Keep(actions=[NextEvent(Internal("i"))])],
    ids=repr,
)
@on_virtual_time
async def test_what_enter_may_not_do(stage, returned):
    """A state change, a postpone and an inserted event each crash the machine with `BadEnterResult`."""
    machine = Tabled({"s1": goto}, enter=lambda state, _: returned if state == "s2" else Keep())
    async with stage.play(machine) as handle:
        handle.cast(("go", "s2"))
        reason = await handle.wait()
        assert reason.type == "BadEnterResult"
        assert reason.text


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


@pytest.mark.scenario("S-139")
@on_virtual_time
async def test_postpone_overflow_that_stops(stage):
    """With `postpone_overflow="stop"` the machine crashes instead."""
    machine = Tabled({"s1": postpone}, limits=Limits(postponed=1, postpone_overflow="stop"))
    async with stage.play(machine) as handle:
        await cast(handle, "p1", "p2")
        assert (await handle.wait()).type == "PostponeOverflow"


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


@pytest.mark.scenario("S-143")
@on_virtual_time
async def test_last_option_wins(stage):
    """There is one timeout, the last one, and the event is not postponed."""
    machine = Tabled({"s1": obey})
    actions = [StateTimeout(10.0, "a"), StateTimeout(20.0, "b"), Postpone(), Postpone(on=False)]
    async with stage.play(machine) as handle:
        await cast(handle, Keep(actions=actions))
        assert (handle.statistics().postponed, handle.statistics().timers) == (0, 1)
        await trio.sleep(19.9)
        assert len(machine.log) == 1
        await trio.sleep(100)
        assert machine.log[1:] == [("s1", ("state", "b"))]


@pytest.mark.scenario("S-144")
@on_virtual_time
async def test_replies_first(stage):
    """The caller of a call has its reply although `enter` of the new state crashes."""
    machine = Tabled(
        {"s1": lambda event: NextState("s2", actions=[Reply(event.to, "yes")])},
        enter=lambda state, _: "no transition" if state == "s2" else Keep(),
    )
    async with stage.play(machine) as handle:
        assert await handle.call("go") == "yes"
        assert (await handle.wait()).type == "BadTransition"


class Light(enum.Enum):
    """States as an enum."""

    RED = "red"


@pytest.mark.scenario("S-145")
@pytest.mark.parametrize(("state", "equal"), [(("door", 1), ("do" + "or", 1)), (Light.RED, Light("red"))])
@on_virtual_time
async def test_equal_states(stage, state, equal):
    """No replay, no enter, and the state timer runs on."""

    def same(event):
        return Keep(actions=[Postpone()]) if said(event) == "p" else NextState(equal)

    machine = Tabled({state: same}, Keep(), first=Init(state, None, [StateTimeout(5.0)]))
    async with stage.play(machine) as handle:
        await cast(handle, "p", "same")
        assert handle.statistics().timers == 1
        await trio.sleep(6)
        assert machine.log == [
            ("enter", state, state),
            (state, "p"),
            (state, "same"),
            (state, ("state", None)),
        ]


@pytest.mark.scenario("S-145")
@on_virtual_time
async def test_true_is_another_state_than_one(stage):
    """`NextState(True)` from state 1 is a change."""
    machine = Tabled({1: NextState(state=True)}, Keep(), first=Init(1, None))
    async with stage.play(machine) as handle:
        await cast(handle, "go")
        assert machine.log[-1] == ("enter", 1, True)
        assert (await get_state(handle))[0] is True


@pytest.mark.scenario("S-146")
@on_virtual_time
async def test_part_of_a_state(stage):
    """A change in one element is a change: what was postponed is replayed, and the state timer is cancelled."""

    def first(event):
        return Keep(actions=[Postpone()]) if said(event) == "p" else NextState(("door", 2))

    machine = Tabled(
        {("door", 1): first, ("door", 2): Keep()}, first=Init(("door", 1), None, [StateTimeout(5.0)])
    )
    async with stage.play(machine) as handle:
        await cast(handle, "p", "go")
        assert machine.log[-1] == (("door", 2), "p")
        await trio.sleep(10)
        assert machine.log[-1] == (("door", 2), "p")
