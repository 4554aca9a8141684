"""Section I of the conformance scenarios, on the engine: order, postponing, and what is a state change."""

import enum

import pytest

from agentrail.errors import InvalidSpec
from agentrail.otp.exits import Crashed
from agentrail.otp.statem import (
    STATE_TIMER,
    Call,
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
    Terminate,
    TimedOut,
)
from tests.otp.rig import Rig, Table, goto, obey, postpone, said


@pytest.mark.scenario("S-129")
def test_inserted_then_replayed_then_zero_timeout_then_mailbox():
    """After a change come the inserted events, the replayed ones, the zero timeout, and then the mailbox."""

    def leave(event):
        if said(event) != "go":
            return Keep(actions=[Postpone()])
        actions = [StateTimeout(0, "due"), NextEvent(Internal("i1")), NextEvent(Internal("i2"))]
        return NextState("s2", actions=actions)

    rig = Rig(Table({"s1": leave, "s2": Keep()}))
    rig.cast("p1", "p2", "go", "mail")
    assert [what for state, what in rig.log if state == "s2"] == [
        "i1",
        "i2",
        "p1",
        "p2",
        ("state", "due"),
        "mail",
    ]


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


@pytest.mark.scenario("S-131")
def test_postponed_again_keeps_the_order():
    """Events that are postponed again in the next state stay before those that came meanwhile."""
    rig = Rig(Table({"s1": postpone, "s2": postpone, "s3": Keep()}))
    rig.cast("p1", "p2", ("go", "s2"), "p3", ("go", "s3"))
    assert [what for state, what in rig.log if state == "s3"] == ["p1", "p2", "p3"]


@pytest.mark.scenario("S-132")
def test_change_during_the_replay_counts_for_the_rest():
    """When a replayed event changes the state, the rest of the replay is handled in the newest state."""
    rig = Rig(Table({"s1": postpone, "s2": NextState("s3"), "s3": Keep()}))
    rig.cast("p1", "p2", ("go", "s2"))
    assert rig.log[3:] == [("s2", "p1"), ("s3", "p2")]


@pytest.mark.scenario("S-134")
def test_postponed_call_is_answered_in_a_later_state():
    """The reply to a postponed call goes out in the step that changes the state."""
    answer = {"s1": postpone, "s2": lambda event: Keep(actions=[Reply(event.to, "now")])}
    rig = Rig(Table(answer))
    assert rig.call("when?") == ()
    assert rig.send(Cast(("go", "s2"))) == (SendReply("caller", "now"),)


@pytest.mark.scenario("S-136")
def test_machine_that_ends_still_shows_its_postponed_call():
    """A stopped machine keeps the postponed call for its shell to answer, and the reason is in `Terminate`."""
    rig = Rig(Table({"s1": postpone}))
    rig.call("when?")
    rig.stop(Crashed("X", "x"))
    assert rig.effects == [Terminate(Crashed("X", "x"))]
    assert rig.engine.postponed == (Call("caller", "when?"),)


@pytest.mark.scenario("S-137")
def test_postpone_from_init_is_ignored():
    """A postpone action of `init` keeps nothing, and does not stick to the first event either."""
    rig = Rig(Table({"s1": goto, "s2": Keep()}), Init("s1", None, [Postpone()]))
    assert rig.effects == []
    rig.cast("first", ("go", "s2"))
    assert rig.log == [("s1", "first"), ("s1", ("go", "s2"))]


@pytest.mark.scenario("S-139")
def test_postpone_queue_refuses_above_its_limit():
    """Above the limit a call is refused and a cast is a dead letter, with one note per episode; the first N stay."""
    rig = Rig(Table({"s1": postpone, "s2": postpone}), limits=Limits(postponed=2))
    rig.cast("p1", "p2")
    full = "postpone queue"
    assert rig.call("p3") == (Note("postpone_overflow"), RefuseCall("caller", full))
    assert rig.send(Info("p4")) == (DeadLetter(Info("p4"), full),)
    assert rig.engine.postponed == (Cast("p1"), Cast("p2"))
    assert rig.send(Cast(("go", "s2"))) == ()
    assert rig.send(Cast("p5")) == (Note("postpone_overflow"), DeadLetter(Cast("p5"), full))


@pytest.mark.scenario("S-139")
def test_postpone_queue_can_stop_the_machine_at_its_limit():
    """With `postpone_overflow="stop"` the event above the limit crashes the machine, and the first N still show."""
    rig = Rig(Table({"s1": postpone}), limits=Limits(postponed=1, postpone_overflow="stop"))
    rig.cast("p1", "p2")
    assert rig.engine.stopped == Crashed("PostponeOverflow", "1 events are postponed, and that is the limit")
    assert rig.engine.postponed == (Cast("p1"),)
    assert rig.engine.last == Cast("p2")


@pytest.mark.parametrize(
    ("bad", "allowed"),
    [
        ({"postponed": 0}, "an integer from 1"),
        ({"postponed": True}, "an integer from 1"),
        ({"events_per_step": 0.5}, "an integer from 1"),
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


@pytest.mark.scenario("S-142")
def test_what_is_sent_to_oneself_goes_through_the_mailbox():
    """The effect that sends to oneself leaves the step, in which inserted, replayed and zero timeout are handled."""

    def leave(event):
        if said(event) == "p1":
            return Keep(actions=[Postpone()])
        return NextState("s2", actions=[Perform("m"), NextEvent(Internal("i1")), StateTimeout(0)])

    rig = Rig(Table({"s1": leave, "s2": Keep()}))
    rig.cast("p1")
    rig.cast(*(effect.effect for effect in rig.send(Cast("go")) if isinstance(effect, PerformEffect)))
    assert rig.log[2:] == [("s2", "i1"), ("s2", "p1"), ("s2", ("state", None)), ("s2", "m")]


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
    """States as an enum."""

    RED = "red"
    GREEN = "green"


@pytest.mark.scenario("S-145")
@pytest.mark.parametrize(
    ("state", "equal"),
    [(("door", 1), ("do" + "or", 1)), (Light.RED, Light("red")), ("s" * 5000, "s" * 2500 + "s" * 2500)],
    ids=["tuple", "enum", "text"],
)
def test_equal_state_is_no_change(state, equal):
    """`NextState` to an equal state replays nothing, enters nothing, and lets the state timer run on."""
    rig = Rig(
        Table(
            {state: lambda event: Keep(actions=[Postpone()]) if said(event) == "p" else NextState(equal)},
            enter=Keep(),
        ),
        Init(state, None, [StateTimeout(5.0)]),
    )
    rig.cast("p", "same")
    assert rig.engine.postponed == (Cast("p"),)
    assert [entry for entry in rig.log if entry[0] == "enter"] == [("enter", state, state)]
    assert rig.engine.timers.get(STATE_TIMER) is not None


@pytest.mark.scenario("S-145")
def test_true_is_another_state_than_one():
    """`NextState(True)` from state 1 is a change, although the two are equal."""
    rig = Rig(
        Table({1: NextState(state=True)}, enter=Keep()),
        Init(1, None, [StateTimeout(5.0)]),
    )
    rig.cast("go")
    assert rig.log[-1] == ("enter", 1, True)
    assert rig.engine.state is True
    assert rig.engine.timers.count == 0


@pytest.mark.scenario("S-146")
def test_change_in_one_part_of_a_state_is_a_change():
    """When one element of a tuple state changes, postponed events are replayed and the state timer is cancelled."""
    rig = Rig(
        Table(
            {
                ("door", 1): lambda event: (
                    Keep(actions=[Postpone()]) if said(event) == "p" else NextState(("door", 2))
                ),
                ("door", 2): Keep(),
            }
        ),
        Init(("door", 1), None, [StateTimeout(5.0)]),
    )
    rig.cast("p", "go")
    assert rig.log[-1] == (("door", 2), "p")
    assert rig.engine.timers.count == 0


@pytest.mark.scenario("S-179")
def test_events_inserted_by_init_come_first():
    """What `init` inserts is handled by `start`, so before any message, and its zero timeout before that too."""
    actions = [StateTimeout(0, "due"), NextEvent(Cast("i1")), NextEvent(Internal("i2")), Perform("hello")]
    rig = Rig(Table({"s1": Keep()}), Init("s1", None, actions))
    assert rig.log == [("s1", "i1"), ("s1", "i2"), ("s1", ("state", "due"))]
    assert rig.effects == [PerformEffect("hello")]
