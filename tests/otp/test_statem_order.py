"""Section I of the conformance scenarios, on the engine: order, postponing, and what is a state change."""

import enum

import pytest

from agentrail.errors import InvalidSpec
from agentrail.otp.exits import Crashed
from agentrail.otp.statem import (
    Cast,
    DeadLetter,
    Info,
    Init,
    Internal,
    Keep,
    Limits,
    NextEvent,
    NextState,
    Note,
    Perform,
    PerformEffect,
    Postpone,
    RefuseCall,
    Repeat,
    Reply,
    SendReply,
    StateTimeout,
    TimedOut,
)
from tests.otp.rig import Rig, Table, goto, obey, postpone, said


@pytest.mark.scenario("S-129")
def test_inserted_and_replayed_come_before_the_rest_of_the_queue():
    """What a replayed event inserts is handled before the rest of the replay, and a second replay before that rest."""

    def second(event):
        match said(event):
            case "p1":
                return Keep(actions=[NextEvent(Internal("i1")), NextEvent(Internal("i2"))])
            case "i1":
                return Keep(actions=[Postpone()])
            case "i2":
                return NextState("s3")
        return Keep()

    rig = Rig(Table({"s1": postpone, "s2": second, "s3": Keep()}))
    rig.cast("p1", "p2", ("go", "s2"))
    assert rig.log[3:] == [("s2", "p1"), ("s2", "i1"), ("s2", "i2"), ("s3", "i1"), ("s3", "p2")]


@pytest.mark.scenario("S-130")
@pytest.mark.parametrize(
    "no_change",
    [Keep(), Keep("new"), NextState("s1"), NextState("s1", "new"), Repeat(), Repeat("new")],
    ids=repr,
)
def test_only_a_change_replays(no_change):
    """`Keep`, the same state, `Repeat` and new data replay nothing; a real state change does."""
    rig = Rig(
        Table(
            {
                "s1": lambda event: said(event) if said(event) != "p" else Keep(actions=[Postpone()]),
                "s2": Keep(),
            }
        )
    )
    rig.cast("p", no_change)
    assert rig.engine.postponed == (Cast("p"),)
    rig.cast(NextState("s2"))
    assert rig.log[-1] == ("s2", "p")
    assert rig.engine.postponed == ()


@pytest.mark.scenario("S-131", "S-132")
def test_order_of_what_is_replayed():
    """What is postponed again stays before what came meanwhile; after a change the rest is handled in the newest state."""
    rig = Rig(Table({"s1": postpone, "s2": postpone, "s3": Keep()}))
    rig.cast("p1", "p2", ("go", "s2"), "p3", ("go", "s3"))
    assert [what for state, what in rig.log if state == "s3"] == ["p1", "p2", "p3"]
    rig = Rig(Table({"s1": postpone, "s2": NextState("s3"), "s3": Keep()}))
    rig.cast("p1", "p2", ("go", "s2"))
    assert rig.log[3:] == [("s2", "p1"), ("s3", "p2")]


@pytest.mark.scenario("S-137")
def test_postpone_from_init_is_ignored():
    """A postpone action of `init` keeps nothing, and does not stick to the first event either."""
    rig = Rig(Table({"s1": goto, "s2": Keep()}), Init("s1", None, [Postpone()]))
    assert rig.effects == []
    rig.cast("first", ("go", "s2"))
    assert rig.log == [("s1", "first"), ("s1", ("go", "s2"))]


@pytest.mark.scenario("S-139")
def test_postpone_queue_has_a_limit():
    """Above it a call is refused and a cast is a dead letter, with one note per episode, or the machine crashes; the first N stay."""
    rig = Rig(Table({"s1": postpone, "s2": postpone}), limits=Limits(postponed=2))
    rig.cast("p1", "p2")
    full = "postpone queue"
    assert rig.call("p3") == (Note("postpone_overflow"), RefuseCall("caller", full))
    assert rig.send(Info("p4")) == (DeadLetter(Info("p4"), full),)
    assert rig.engine.postponed == (Cast("p1"), Cast("p2"))
    assert rig.send(Cast(("go", "s2"))) == ()
    assert rig.send(Cast("p5")) == (Note("postpone_overflow"), DeadLetter(Cast("p5"), full))
    rig = Rig(Table({"s1": postpone}), limits=Limits(postponed=1, postpone_overflow="stop"))
    rig.cast("p1", "p2")
    assert rig.engine.stopped == Crashed("PostponeOverflow", "1 events are postponed, which is the limit")
    assert (rig.engine.postponed, rig.engine.last) == ((Cast("p1"),), Cast("p2"))


@pytest.mark.parametrize(
    ("bad", "allowed"),
    [
        ({"postponed": 0}, "an integer >= 1"),
        ({"postponed": True}, "an integer >= 1"),
        ({"events_per_step": 0.5}, "an integer >= 1"),
        ({"postpone_overflow": "drop"}, "one of 'refuse', 'stop'"),
    ],
    ids=repr,
)
def test_limits_that_limit_nothing_are_refused(bad, allowed):
    """A limit below 1 and an unknown policy are refused by the constructor, which names field, value and what is allowed."""
    [(name, value)] = bad.items()
    with pytest.raises(InvalidSpec) as caught:
        Limits(**bad)
    assert (caught.value.code, caught.value.field) == ("invalid_mailbox", name)
    assert str(caught.value) == f"{name} is {value!r}: expected {allowed}"


@pytest.mark.scenario("S-141")
@pytest.mark.parametrize("forged", [Internal("x"), TimedOut("state", None, "x"), "x"], ids=repr)
def test_nobody_can_forge_an_internal_event(forged):
    """`step_statem` raises `ValueError` for an `Internal` or a timeout from outside; inside a cast it is a cast."""
    rig = Rig(Table({"s1": Keep()}))
    with pytest.raises(ValueError, match="wrap it in a Cast"):
        rig.send(forged)
    rig.cast(forged)
    assert rig.log == [("s1", forged)]


@pytest.mark.scenario("S-143")
def test_last_option_wins():
    """Of two state timeouts the second counts, and of two postpones the second, which takes it back."""
    actions = [StateTimeout(10.0, "a"), StateTimeout(20.0, "b"), Postpone(), Postpone(on=False)]
    rig = Rig(Table({"s1": obey}))
    rig.cast(Keep(actions=actions))
    assert rig.engine.postponed == ()
    assert rig.engine.timers.count == 1
    rig.advance(19.0)
    assert len(rig.log) == 1
    rig.advance(100.0)
    assert rig.log[1:] == [("s1", ("state", "b"))]


@pytest.mark.scenario("S-144")
def test_reply_comes_before_the_effects_of_enter():
    """The reply of a transition goes out before anything that `enter` of the new state asks for."""
    entering = Table(
        {
            "s1": lambda event: NextState("s2", actions=[Reply(event.to, "yes"), Perform("last of s1")]),
            "s2": Keep(),
        },
        enter=lambda state, _: Keep(actions=[Perform(f"enter {state}")]),
    )
    assert Rig(entering).call("go") == (
        SendReply("caller", "yes"),
        PerformEffect("last of s1"),
        PerformEffect("enter s2"),
    )


class Light(enum.Enum):
    RED = "red"
    GREEN = "green"


@pytest.mark.scenario("S-145", "S-146")
@pytest.mark.parametrize(
    ("state", "next_state", "changes"),
    [
        (("door", 1), ("do" + "or", 1), False),
        (Light.RED, Light("red"), False),
        ("s" * 5000, "s" * 2500 + "s" * 2500, False),
        (1, True, True),
        (("door", 1), ("door", 2), True),
    ],
    ids=["tuple", "enum", "text", "True and 1", "part of a tuple"],
)
def test_equal_state_is_no_change(state, next_state, changes):
    """It replays nothing, enters nothing, and the state timer runs on. `True` is not 1; one other part is a change."""

    def handle(event):
        return Keep(actions=[Postpone()]) if said(event) == "p" else NextState(next_state)

    rig = Rig(
        Table({next_state: Keep(), state: handle}, enter=Keep()), Init(state, None, [StateTimeout(5.0)])
    )
    rig.cast("p", "go")
    assert rig.log[3:] == ([("enter", state, next_state), (next_state, "p")] if changes else [])
    assert rig.engine.timers.count == (0 if changes else 1)
    assert rig.engine.state is next_state or not changes


@pytest.mark.scenario("S-179")
def test_events_inserted_by_init_come_first():
    """What `init` inserts is handled by `start`, so before any message, and its zero timeout before that too."""
    actions = [StateTimeout(0, "due"), NextEvent(Cast("i1")), NextEvent(Internal("i2")), Perform("hello")]
    rig = Rig(Table({"s1": Keep()}), Init("s1", None, actions))
    assert rig.log == [("s1", "i1"), ("s1", "i2"), ("s1", ("state", "due"))]
    assert rig.effects == [PerformEffect("hello")]
